//! The program for packages, built so that nothing of this machine is in it.

use std::path::{Path, PathBuf};

use crate::files::cannot;
use crate::run::{Step, cargo};

pub const VERSION: &str = env!("CARGO_PKG_VERSION");

pub const GLIBC: &str = "x86_64-unknown-linux-gnu";
pub const MUSL: &str = "x86_64-unknown-linux-musl";

/// The largest static program: what fits beside other tools in a container's image.
const MOST_BYTES: u64 = 15_000_000;

/// Names that stay in the program: `holdup demo` records it, and names what it finds; and those of a static C library,
/// by which waits for locks are known.
const NAMES: &[&str] = &["*holdup_bench4demo*", "*pthread*", "__timedwait*", "__wait", "malloc", "free", "__libc_*"];

/// Sources, and how they are built.
#[derive(Clone)]
pub struct Build {
    pub root: PathBuf,
    pub target: PathBuf,
    /// The time of everything in archives, in seconds since 1970.
    pub epoch: String,
    /// Where this machine keeps things, and what they are called in the program.
    names: Vec<(String, String)>,
}

impl Build {
    pub fn new(root: PathBuf, target: PathBuf) -> Result<Build, String> {
        let epoch = match std::env::var("SOURCE_DATE_EPOCH") {
            Ok(epoch) => epoch,
            Err(_) => Step::new("git", &["log", "-1", "--format=%ct"]).output()?.trim().to_owned(),
        };
        let about = Step::new("rustc", &["--version", "--verbose"]).output()?;
        let commit = about.lines().find_map(|line| line.strip_prefix("commit-hash: ")).unwrap_or_default();
        let library = Step::new("rustc", &["--print", "sysroot"]).output()?;
        let home = std::env::var("HOME").unwrap_or_default();
        let cargo = std::env::var("CARGO_HOME").unwrap_or_else(|_| format!("{home}/.cargo"));
        let names = vec![
            // Where the library's sources are installed, rustc says so instead of what the library was built as.
            (format!("{}/lib/rustlib/src/rust", library.trim()), format!("/rustc/{commit}")),
            (cargo, "cargo".to_owned()),
        ];
        Ok(Build { root, target, epoch, names })
    }

    /// The same of sources in another folder, built there.
    pub fn of(&self, root: PathBuf) -> Build {
        Build { target: root.join("target"), root, ..self.clone() }
    }

    /// The program for this target.
    pub fn holdup(&self, target: &str) -> Result<PathBuf, String> {
        if target == MUSL {
            Step::new("rustup", &["target", "add", MUSL]).run()?;
        }
        // What is built for here is built like what is built for elsewhere: with the flags for programs alone.
        let mut names = self.names.clone();
        names.push((self.root.display().to_string(), "holdup".to_owned()));
        let mut flags: Vec<String> =
            names.iter().map(|(from, to)| format!("--remap-path-prefix={from}={to}")).collect();
        if target == MUSL {
            // 280 KB less: the C library that is linked in reads them; an older one of a system would not.
            flags.push("-Clink-arg=-Wl,-z,pack-relative-relocs".to_owned());
        }
        let c_flags: Vec<String> = names.iter().map(|(from, to)| format!("-ffile-prefix-map={from}={to}")).collect();
        cargo(&[
            "build",
            "--locked",
            "--profile",
            "dist",
            "--package",
            "holdup",
            "--bin",
            "holdup",
            "--target",
            target,
        ])
        .folder(&self.root)
        .env("CARGO_TARGET_DIR", &self.target.display().to_string())
        .env("CARGO_INCREMENTAL", "0")
        .env("CARGO_ENCODED_RUSTFLAGS", &flags.join("\u{1f}"))
        .env("CFLAGS", &c_flags.join(" "))
        .env("SOURCE_DATE_EPOCH", &self.epoch)
        .run()?;
        let built = self.target.join(target).join("dist/holdup");
        let program = self.target.join(target).join("dist/holdup-stripped");
        let names = NAMES.iter().flat_map(|name| ["--keep-symbol", name]).collect::<Vec<_>>();
        Step::new("strip", &["--strip-all", "--wildcard"])
            .args(&names)
            .args(&["-o", &program.display().to_string(), &built.display().to_string()])
            .run()?;
        self.look(&program, target)?;
        Ok(program)
    }

    /// Whether the program is what it is to be: without names of this machine, and, if it is static, small and alone.
    fn look(&self, program: &Path, target: &str) -> Result<(), String> {
        let bytes = std::fs::read(program).map_err(|why| cannot("read", program, &why))?;
        for name in self.names.iter().map(|(name, _)| name).chain([&self.root.display().to_string()]) {
            if contains(&bytes, name.as_bytes()) {
                return Err(format!("{} names {name}: it is not the same on other machines", program.display()));
            }
        }
        if target != MUSL {
            return Ok(());
        }
        if contains(&bytes[..bytes.len().min(4096)], b"/ld-") {
            return Err(format!("{} asks for a loader: it is not static", program.display()));
        }
        if bytes.len() as u64 > MOST_BYTES {
            return Err(format!(
                "{} has {} bytes, and is to have {MOST_BYTES} at most",
                program.display(),
                bytes.len()
            ));
        }
        Ok(())
    }
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    !part.is_empty() && bytes.windows(part.len()).any(|there| there == part)
}

#[cfg(test)]
mod tests {
    use super::contains;

    #[test]
    fn a_name_is_found_anywhere() {
        assert!(contains(b"xx/root/yy", b"/root") && !contains(b"xx", b"/root") && !contains(b"xx", b""));
    }
}
