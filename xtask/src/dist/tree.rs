//! What is installed beside the program: manual pages, completions, licences, documents; and the tarball of all.

use std::fs;
use std::path::{Path, PathBuf};

use super::build::{Build, VERSION};
use crate::files::{cannot, files, fresh, put};
use crate::run::Step;

/// Documents, by their place in the repository.
const DOCUMENTS: &[&str] = &["README.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE"];

/// Completions: shell, and where its file belongs below the prefix.
const COMPLETIONS: &[(&str, &str)] = &[
    ("bash", "share/bash-completion/completions/holdup"),
    ("zsh", "share/zsh/site-functions/_holdup"),
    ("fish", "share/fish/vendor_completions.d/holdup.fish"),
];

/// `PREFIX/bin` and `PREFIX/share` with everything but documents; the program writes its own pages and completions.
pub fn install(program: &Path, prefix: &Path) -> Result<(), String> {
    let bin = prefix.join("bin/holdup");
    put(&bin, &fs::read(program).map_err(|why| cannot("read", program, &why))?)?;
    mode(&bin, "755")?;
    let program = program.display().to_string();
    let pages = prefix.join("share/man/man1");
    Step::new(&program, &["generate", "man", "--output", &pages.display().to_string()]).run()?;
    for page in files(&pages)? {
        zip(&page)?;
    }
    for (shell, place) in COMPLETIONS {
        put(&prefix.join(place), Step::new(&program, &["generate", shell]).output()?.as_bytes())?;
    }
    Ok(())
}

/// The tarball of a static program, which is unpacked anywhere.
pub fn tarball(build: &Build, program: &Path, folder: &Path) -> Result<(), String> {
    let name = format!("holdup-{VERSION}-x86_64-linux");
    let stage = fresh(&build.target.join("dist-stage/tarball"))?;
    let prefix = stage.join(&name);
    install(program, &prefix)?;
    for document in DOCUMENTS {
        put(&prefix.join("share/doc/holdup").join(document), &read(build, document)?)?;
    }
    let file = folder.join(format!("{name}.tar"));
    pack(build, &stage, &name, &file)?;
    zip(&file)
}

/// A document of the repository.
pub fn read(build: &Build, document: &str) -> Result<Vec<u8>, String> {
    let path = build.root.join(document);
    fs::read(&path).map_err(|why| cannot("read", &path, &why))
}

/// An archive whose bytes follow from names and contents alone.
fn pack(build: &Build, stage: &Path, name: &str, file: &Path) -> Result<(), String> {
    let (time, file) = (format!("--mtime=@{}", build.epoch), file.display().to_string());
    Step::new("tar", &["--create", "--format=gnu", "--sort=name", "--owner=0", "--group=0", "--numeric-owner"])
        .args(&["--mode=a+rX,u+w,go-w", &time, "--file", &file, name])
        .folder(stage)
        .run()
}

/// Compresses a file into one of its name and `.gz`, without its time and name inside.
pub fn zip(file: &Path) -> Result<(), String> {
    Step::new("gzip", &["--best", "--no-name", "--force", &file.display().to_string()]).run()
}

pub fn mode(path: &Path, mode: &str) -> Result<(), String> {
    Step::new("chmod", &[mode, &path.display().to_string()]).run()
}

/// Every file below a folder, as paths below it, by name.
pub fn below(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let list = Step::new("find", &[".", "-type", "f", "-printf", "%P\\n"]).folder(folder).output()?;
    let mut paths: Vec<PathBuf> = list.lines().map(PathBuf::from).collect();
    paths.sort();
    Ok(paths)
}
