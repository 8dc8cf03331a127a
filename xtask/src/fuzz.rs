//! Random damage to recordings for longer than `cargo test` takes.

use crate::run::cargo;

const DEFAULT_SECONDS: &str = "60";

/// Runs the trace crate's fuzz test in release for the seconds that the first argument says; its first line of output is the
/// seed, which `HOLDUP_FUZZ_SEED` repeats.
pub fn run(args: &[String]) -> Result<(), String> {
    let seconds = args.first().map_or(DEFAULT_SECONDS, String::as_str);
    if seconds.parse::<u64>().is_err() {
        return Err(format!("'{seconds}' is not a number of seconds; for example: cargo xtask fuzz 60"));
    }
    cargo(&[
        "test",
        "--package",
        "holdup-trace",
        "--release",
        "--lib",
        "file::tests::fuzz",
        "--",
        "--nocapture",
    ])
    .env("HOLDUP_FUZZ_SECONDS", seconds)
    .run()
}
