//! What the lock crate promises to its users beside working: complete documentation, small feature sets, both versions
//! of `lock_api`, and an interface that does not change unnoticed.

use crate::api;
use crate::run::{Step, cargo};

/// A system without an operating system, and with atomics of 32 bits at most.
const BARE: &str = "thumbv7em-none-eabihf";

/// Every check of the crate's outside; about half a minute after the workspace's tests.
pub fn check() -> Result<(), String> {
    documentation()?;
    feature_sets()?;
    api::check_accepted()
}

/// A link that leads nowhere or an item without a word is an error, with every set of features.
fn documentation() -> Result<(), String> {
    for features in [&[][..], &["--no-default-features"], &["--features", "lock_api_04"]] {
        cargo(&["doc", "--package", "holdup-locks", "--no-deps"])
            .args(features)
            .env("RUSTDOCFLAGS", "-D warnings -D missing_docs")
            .run()?;
    }
    Ok(())
}

fn feature_sets() -> Result<(), String> {
    cargo(&["clippy", "--package", "holdup-locks", "--features", "lock_api_04", "--all-targets"])
        .args(&["--", "-D", "warnings"])
        .run()?;
    cargo(&["test", "--package", "holdup-locks", "--features", "lock_api_04", "--test", "lock_api_04"]).run()?;
    // The pinned toolchain's: rustup reads rust-toolchain.toml here. It does nothing if the target is there.
    Step::new("rustup", &["target", "add", BARE]).run()?;
    for features in [&[][..], &["--features", "lock_api_04"]] {
        cargo(&["clippy", "--package", "holdup-locks", "--no-default-features", "--target", BARE])
            .args(features)
            .args(&["--", "-D", "warnings"])
            .run()?;
    }
    Ok(())
}
