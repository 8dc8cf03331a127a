//! Builds the interposer for the programs of the system that this program is built for, so that one file has all of it.
//!
//! The library is made of the package holdup-preload by a cargo of its own, in a folder of its own: it is always
//! optimised, and what the outer build was asked for (sanitizers, `--cfg loom`, clippy, another panic strategy) must
//! not reach the inside of other people's programs.
//!
//! In the repository that package is a part of the workspace. Where holdup comes from a registry or a folder of
//! vendored packages it is one of those that cargo has unpacked there, and what unpacked packages lie in may not be
//! written to: it is copied, and finds our other packages beside itself.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

const PACKAGE: &str = "holdup-preload";
const FILE: &str = "libholdup_preload.so";

/// What the library replaces before anything else.
const EXPORT: &str = "pthread_mutex_lock";

/// Our packages that end up in the library, beside that one.
const OTHERS: [&str; 2] = ["holdup-control", "holdup-locks"];

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
    let source = Source::find();
    source.watch();
    println!("cargo::rerun-if-changed=build.rs");
    let library = Wanted::of_target().and_then(|wanted| match build(&source, &wanted) {
        Err(why) if wanted.is_optional => {
            println!("cargo::warning={why}: 'try' and 'with' will put no other locks under programs");
            None
        }
        built => Some(built.unwrap_or_else(|why| panic!("{why}"))),
    });
    let library = match &library {
        Some(path) => format!("Some(include_bytes!({path:?}))"),
        None => "None".to_owned(),
    };
    let text =
        format!("/// The interposer, where the system has one.\npub const LIBRARY: Option<&[u8]> = {library};\n");
    fs::write(out().join("preload.rs"), text).expect("cargo gives a folder that can be written");
}

/// For what the library is built.
struct Wanted {
    target: String,
    /// Whether holdup is of use without it.
    is_optional: bool,
}

impl Wanted {
    /// Where programs load libraries named in `LD_PRELOAD` and have the mutexes and the processor that the library is
    /// written for (the condition in its `sys/mod.rs`), or a static holdup may meet such programs. For all other
    /// targets there is none.
    fn of_target() -> Option<Wanted> {
        let part = |key: &str| env::var(format!("CARGO_CFG_TARGET_{key}")).unwrap_or_default();
        match (&*part("OS"), &*part("ARCH"), &*part("ENV")) {
            ("linux", "x86_64", "gnu") => Some(Wanted { target: variable("TARGET"), is_optional: false }),
            ("linux", "x86_64", "musl") => {
                Some(Wanted { target: "x86_64-unknown-linux-gnu".to_owned(), is_optional: true })
            }
            _ => None,
        }
    }
}

/// Where the packages of the library are.
struct Source {
    package: PathBuf,
    /// The others, which are named in the manifest if they are not beside it.
    others: Vec<(&'static str, PathBuf)>,
    is_workspace: bool,
}

impl Source {
    fn find() -> Source {
        let package = PathBuf::from(holdup_preload::PACKAGE);
        let beside = package.parent().expect("a package lies in a folder").to_owned();
        let version = variable("CARGO_PKG_VERSION");
        let place = |name: &str| {
            let folders = [beside.join(format!("{name}-{version}")), beside.join(name)];
            folders.into_iter().find(|folder| folder.join("Cargo.toml").exists())
        };
        let others = OTHERS.iter().filter_map(|name| Some((*name, place(name)?))).collect();
        let is_root = |root: &Path| beside.ends_with("crates") && root.join("Cargo.toml").exists();
        let is_workspace = beside.parent().is_some_and(is_root);
        Source { package, others, is_workspace }
    }

    /// A folder counts as changed when any file in it is.
    fn watch(&self) {
        for folder in self.others.iter().map(|(_, folder)| folder).chain([&self.package]) {
            println!("cargo::rerun-if-changed={}", folder.join("src").display());
            println!("cargo::rerun-if-changed={}", folder.join("Cargo.toml").display());
        }
        if let Some(root) = self.package.ancestors().nth(2).filter(|_| self.is_workspace) {
            println!("cargo::rerun-if-changed={}", root.join("Cargo.toml").display());
        }
    }

    /// The manifest to build, and how to ask for it. What the library needs is a part of what this build needs, so
    /// that it is all here already; if not, cargo may fetch it.
    fn manifest(&self) -> io::Result<(PathBuf, [&'static [&'static str]; 2])> {
        if self.is_workspace {
            return Ok((self.package.join("Cargo.toml"), [&["--frozen"], &["--locked"]]));
        }
        // The versions of other people's packages are those that this build has chosen, as far as one can see here.
        Ok((self.copy(&out().join("interposer"))?, [&["--offline"], &[]]))
    }

    /// Copies the package, as one that belongs to no workspace, and has it take ours from where they are.
    fn copy(&self, to: &Path) -> io::Result<PathBuf> {
        if to.exists() {
            fs::remove_dir_all(to)?;
        }
        copy_folder(&self.package.join("src"), &to.join("src"))?;
        let mut text = fs::read_to_string(self.package.join("Cargo.toml"))?;
        text.push_str("\n[workspace]\n");
        if !self.others.is_empty() {
            text.push_str("\n[patch.crates-io]\n");
        }
        for (name, folder) in &self.others {
            text.push_str(&format!("{name} = {{ path = {folder:?} }}\n"));
        }
        let manifest = to.join("Cargo.toml");
        fs::write(&manifest, text)?;
        Ok(manifest)
    }
}

/// Builds the library and says where it is.
fn build(source: &Source, wanted: &Wanted) -> Result<PathBuf, String> {
    let folder = out().join("preload");
    let (manifest, modes) = source.manifest().map_err(|why| format!("the sources of {PACKAGE}: {why}"))?;
    let built = modes.iter().enumerate().any(|(number, mode)| {
        let last = number + 1 == modes.len();
        let errors = if last && !wanted.is_optional { Stdio::inherit() } else { Stdio::null() };
        let mut command = cargo(&manifest, &folder, &wanted.target);
        command.args(*mode).stderr(errors).status().is_ok_and(|status: ExitStatus| status.success())
    });
    if !built {
        return Err(format!(
            "the interposer cannot be built for {0}; 'rustup target add {0}' installs what that needs, and \
             'cargo build -p {PACKAGE} --target {0}' shows what else is wrong",
            wanted.target
        ));
    }
    let library = folder.join(&wanted.target).join("release").join(FILE);
    assert!(
        replaces_locks(&library),
        "{} has no {EXPORT}: the interposer is empty, and must not be a part of the program",
        library.display()
    );
    Ok(library)
}

/// Whether the names that the library exports have that of the function it is about.
fn replaces_locks(library: &Path) -> bool {
    let bytes = fs::read(library).expect("cargo has just built it");
    let name = format!("\0{EXPORT}\0");
    bytes.windows(name.len()).any(|there| there == name.as_bytes())
}

fn cargo(manifest: &Path, folder: &Path, target: &str) -> Command {
    let mut command = Command::new(variable("CARGO"));
    command
        .args(["rustc", "--release", "--lib", "--crate-type", "cdylib", "--target", target, "--target-dir"])
        .arg(folder)
        .arg("--manifest-path")
        .arg(manifest)
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
        // It also overrides what configuration files say.
        .env("CARGO_ENCODED_RUSTFLAGS", flags())
        // A cancelled thread unwinds through the library.
        .env("CARGO_PROFILE_RELEASE_PANIC", "unwind")
        .env("CARGO_PROFILE_RELEASE_DEBUG", "0")
        .env("CARGO_PROFILE_RELEASE_STRIP", "debuginfo")
        // As the workspace has it, also where there is none.
        .env("CARGO_PROFILE_RELEASE_LTO", "thin")
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "4");
    command
}

/// The same bytes on every machine: no name of a folder of this one, nor of those that the outer build renames.
fn flags() -> String {
    let home = env::var("HOME").map(|home| format!("{home}/.cargo"));
    let cargo = env::var("CARGO_HOME").or(home).map(|cargo| renamed(&cargo, "cargo"));
    let here = renamed(&out().join("interposer").display().to_string(), "holdup");
    let outer = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    let outer = outer.split('\u{1f}').filter(|flag| flag.starts_with(RENAME)).map(str::to_owned);
    cargo.into_iter().chain([here]).chain(outer).collect::<Vec<_>>().join("\u{1f}")
}

/// How rustc is told what to call a folder in messages.
const RENAME: &str = "--remap-path-prefix=";

fn renamed(from: &str, to: &str) -> String {
    format!("{RENAME}{from}={to}")
}

fn copy_folder(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let place = to.join(entry.file_name());
        if entry.file_type()?.is_dir() { copy_folder(&entry.path(), &place)? } else { copy(&entry.path(), &place)? }
    }
    Ok(())
}

/// What cargo has unpacked may be for reading only; the copy is not.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::write(to, fs::read(from)?)
}

fn out() -> PathBuf {
    PathBuf::from(variable("OUT_DIR"))
}

fn variable(name: &str) -> String {
    env::var(name).expect("cargo sets it for build scripts")
}
