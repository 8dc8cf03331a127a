//! Builds the interposer for the system that the program is built for, so that one file has all of it.
//!
//! The library is a package of this workspace, built by a cargo of its own into a folder of its own: it is always
//! optimised, and what the outer build was asked for (sanitizers, `--cfg loom`, clippy, another panic strategy) must
//! not reach the inside of other people's programs.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

const PACKAGE: &str = "holdup-preload";
const FILE: &str = "libholdup_preload.so";

/// What the library replaces before anything else.
const EXPORT: &str = "pthread_mutex_lock";

/// Packages of the workspace that end up in the library.
const SOURCES: [&str; 3] = ["crates/holdup-preload", "crates/holdup-control", "crates/holdup-locks"];

/// Settings of the outer build that would change the library.
const FOREIGN: [&str; 7] = [
    "RUSTFLAGS",
    "RUSTC_WRAPPER",
    "RUSTC_WORKSPACE_WRAPPER",
    "CLIPPY_ARGS",
    "CARGO_BUILD_TARGET",
    "CARGO_BUILD_RUSTFLAGS",
    "CARGO_INCREMENTAL",
];

fn main() {
    let root = workspace();
    for source in SOURCES {
        // A folder counts as changed when any file in it is.
        println!("cargo::rerun-if-changed={}", root.join(source).join("src").display());
        println!("cargo::rerun-if-changed={}", root.join(source).join("Cargo.toml").display());
    }
    println!("cargo::rerun-if-changed={}", root.join("Cargo.toml").display());
    println!("cargo::rerun-if-changed=build.rs");
    let there = root.join("crates").join(PACKAGE).is_dir();
    if !there {
        println!("cargo::warning=the sources of {PACKAGE} are missing: 'try' and 'with' will not work");
    }
    let library = (there && can_be_preloaded()).then(|| build(&root));
    let library = match &library {
        Some(path) => format!("Some(include_bytes!({path:?}))"),
        None => "None".to_owned(),
    };
    let text =
        format!("/// The interposer, where the system has one.\npub const LIBRARY: Option<&[u8]> = {library};\n");
    fs::write(out().join("preload.rs"), text).expect("cargo gives a folder that can be written");
}

/// Whether programs of the target load libraries named in LD_PRELOAD and have the mutexes and the processor that the
/// library is written for: the condition in its `sys/mod.rs`. For all other targets it is empty.
fn can_be_preloaded() -> bool {
    let target = |key: &str| env::var(format!("CARGO_CFG_TARGET_{key}")).unwrap_or_default();
    target("OS") == "linux" && target("ENV") == "gnu" && target("ARCH") == "x86_64"
}

/// Builds the library and says where it is.
fn build(root: &Path) -> PathBuf {
    let folder = out().join("preload");
    let target = variable("TARGET");
    // What it needs is a part of what this build needs, so that it is all here already; if not, let cargo fetch it.
    let built = ["--frozen", "--locked"].iter().any(|mode| {
        let mut command = cargo(root, &folder, &target);
        let quiet = *mode == "--frozen" && command.arg(mode).stderr(Stdio::null()).status().is_ok_and(done);
        quiet || (*mode == "--locked" && command.arg(mode).stderr(Stdio::inherit()).status().is_ok_and(done))
    });
    assert!(
        built,
        "the interposer cannot be built; 'cargo build --release -p {PACKAGE}' shows why, and its errors are above"
    );
    let library = folder.join(target).join("release").join(FILE);
    assert!(
        replaces_locks(&library),
        "{} has no {EXPORT}: the interposer is empty, and must not be a part of the program",
        library.display()
    );
    library
}

/// Whether the names that the library exports have that of the function it is about.
fn replaces_locks(library: &Path) -> bool {
    let bytes = fs::read(library).expect("cargo has just built it");
    let name = format!("\0{EXPORT}\0");
    bytes.windows(name.len()).any(|there| there == name.as_bytes())
}

fn done(status: ExitStatus) -> bool {
    status.success()
}

fn cargo(root: &Path, folder: &Path, target: &str) -> Command {
    let mut command = Command::new(variable("CARGO"));
    command
        .args(["build", "--release", "--lib", "--package", PACKAGE, "--target", target, "--target-dir"])
        .arg(folder)
        .arg("--manifest-path")
        .arg(root.join("Cargo.toml"))
        .stdout(Stdio::null());
    let settings = env::vars_os().map(|(key, _)| key);
    let inherited = settings.filter(|key| {
        let key = key.to_string_lossy();
        let of_target = key.starts_with("CARGO_TARGET_") && key.ends_with("_RUSTFLAGS");
        of_target || key.starts_with("CARGO_PROFILE_") || FOREIGN.contains(&&*key)
    });
    inherited.for_each(|key| {
        command.env_remove(key);
    });
    command
        // An empty value is a value: it also overrides what configuration files say.
        .env("CARGO_ENCODED_RUSTFLAGS", "")
        // A cancelled thread unwinds through the library.
        .env("CARGO_PROFILE_RELEASE_PANIC", "unwind")
        .env("CARGO_PROFILE_RELEASE_DEBUG", "0")
        .env("CARGO_PROFILE_RELEASE_STRIP", "debuginfo");
    command
}

fn workspace() -> PathBuf {
    let package = PathBuf::from(variable("CARGO_MANIFEST_DIR"));
    package.ancestors().nth(2).expect("the package is in the workspace's folder crates").to_owned()
}

fn out() -> PathBuf {
    PathBuf::from(variable("OUT_DIR"))
}

fn variable(name: &str) -> String {
    env::var(name).expect("cargo sets it for build scripts")
}
