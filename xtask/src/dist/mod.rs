//! `dist`: what users get who have no Rust: a tarball with a static holdup, a Debian package, a list of all that is
//! inside (SBOM), and the checksums of these files.
//!
//! Two builds of the same sources give the same bytes, whatever the folder, the user and the time: `--twice` builds a
//! copy elsewhere and compares. Times in archives are those of the last commit, or of `SOURCE_DATE_EPOCH`.

mod build;
mod deb;
mod places;
mod sbom;
mod tree;

use std::fs;
use std::path::{Path, PathBuf};

use crate::files::{files, fresh, name, put, remove, size};
use crate::run::{Step, root, target_folder};
use build::Build;

const USAGE: &str = "\
usage: cargo xtask dist [--twice] [--try]

  --twice   build a copy of the sources in another folder, too, and compare every byte
  --try     install and use what was built: in a fresh Debian, beside musl, and alone (root)

Files are written to target/dist-files.";

/// Builds all files; compares and tries them if that was asked for.
pub fn run(args: &[String]) -> Result<(), String> {
    if let Some(other) = args.iter().find(|arg| !["--twice", "--try"].contains(&arg.as_str())) {
        return Err(format!("'{other}' is no option of dist\n\n{USAGE}"));
    }
    let asked = |option: &str| args.iter().any(|arg| arg == option);
    let here = Build::new(root(), target_folder())?;
    let folder = write(&here)?;
    if asked("--twice") {
        again(&here, &folder)?;
    }
    if asked("--try") {
        places::try_all(&folder, &target_folder().join("dist-places"))?;
    }
    println!("{}:", folder.display());
    for file in files(&folder)? {
        println!("  {:>9} bytes  {}", size(&file)?, name(&file));
    }
    Ok(())
}

/// All files of a release, in `dist-files` of the build's target folder: `dist` is where cargo builds.
fn write(build: &Build) -> Result<PathBuf, String> {
    let folder = fresh(&build.target.join("dist-files"))?;
    let alone = build.holdup(build::MUSL)?;
    let linked = build.holdup(build::GLIBC)?;
    tree::tarball(build, &alone, &folder)?;
    deb::package(build, &linked, &folder)?;
    sbom::write(build, &folder)?;
    let names: Vec<String> = files(&folder)?.iter().map(|file| name(file)).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let sums = Step::new("sha256sum", &names).folder(&folder).output()?;
    put(&folder.join("SHA256SUMS"), sums.as_bytes())?;
    Ok(folder)
}

/// Builds a copy of what git knows in another folder, and compares.
fn again(first: &Build, folder: &Path) -> Result<(), String> {
    let elsewhere = fresh(&std::env::temp_dir().join(format!("holdup-dist-{}", std::process::id())))?;
    let list = Step::new("git", &["ls-files", "-z"]).output()?;
    let names = elsewhere.join("names");
    put(&names, list.as_bytes())?;
    let (names, archive) = (names.display().to_string(), elsewhere.join("sources.tar").display().to_string());
    Step::new("tar", &["--create", "--null", "--files-from", &names, "--file", &archive]).run()?;
    let sources = fresh(&elsewhere.join("sources"))?;
    Step::new("tar", &["--extract", "--file", &archive]).folder(&sources).run()?;
    let second = first.of(sources);
    let compared = write(&second).and_then(|other| compare(folder, &other));
    remove(&elsewhere)?;
    compared
}

fn compare(one: &Path, other: &Path) -> Result<(), String> {
    let differing: Vec<String> = files(one)?
        .iter()
        .map(|file| name(file))
        .filter(|name| fs::read(one.join(name)).ok() != fs::read(other.join(name)).ok())
        .collect();
    if differing.is_empty() {
        println!("built twice, in {} and elsewhere: the same bytes", one.display());
        return Ok(());
    }
    let kept = target_folder().join("dist-other");
    let (from, to) = (other.display().to_string(), kept.display().to_string());
    Step::new("cp", &["--recursive", "--force", "--no-target-directory", &from, &to]).run()?;
    Err(format!(
        "the second build differs in {}; compare {} with {}, for example by diffoscope",
        differing.join(", "),
        one.display(),
        kept.display()
    ))
}
