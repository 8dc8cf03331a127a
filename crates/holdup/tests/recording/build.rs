//! Compiles fixtures, with and without frame pointers.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use super::has;

/// How a fixture is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frames {
    /// Every function of the program keeps a frame pointer.
    Pointers,
    /// None does, as compilers do unless they are told.
    None,
}

/// Where the sources are.
pub fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/programs").canonicalize().unwrap()
}

/// The compiled fixture, or why there is no compiler for it.
pub fn program(name: &str, frames: Frames) -> Result<PathBuf, String> {
    // Another test may be compiling the same program.
    static COMPILER: Mutex<()> = Mutex::new(());
    let _one = COMPILER.lock().unwrap_or_else(PoisonError::into_inner);
    let source = sources().join(name);
    let suffix = if frames == Frames::Pointers { "-fp" } else { "" };
    let stem = source.file_stem().unwrap().to_str().unwrap();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("recording");
    fs::create_dir_all(&folder).unwrap();
    let binary = folder.join(format!("{stem}{suffix}"));
    let mut command = compiler(&source, frames, &binary)?;
    if !is_older(&binary, &[&source, &sources().join("fixture.h")]) {
        return Ok(binary);
    }
    let _ = fs::remove_file(&binary);
    let output = command.current_dir(&folder).output().unwrap();
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(binary)
}

/// The compiled fixture, with all of its libraries within it; or why that cannot be had.
pub fn static_program(name: &str) -> Result<PathBuf, String> {
    let source = sources().join(name);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("recording");
    fs::create_dir_all(&folder).unwrap();
    let binary = folder.join(format!("{}-static", source.file_stem().unwrap().to_str().unwrap()));
    let output = compiler(&source, Frames::None, &binary)?.arg("-static").output().unwrap();
    if output.status.success() {
        return Ok(binary);
    }
    Err(format!("there are no static libraries: {}", String::from_utf8_lossy(&output.stderr)))
}

/// The library that `faults dlopen` loads.
pub fn plugin() -> Result<PathBuf, String> {
    let binary = Path::new(env!("CARGO_TARGET_TMPDIR")).join("recording/plugin.so");
    plugin_into(&binary, &[])?;
    Ok(binary)
}

/// The same with more words for the compiler.
pub fn plugin_into(binary: &Path, words: &[&str]) -> Result<(), String> {
    let mut command = Command::new(c_compiler()?);
    command.args(["-shared", "-fPIC", "-O2", "-g"]).args(words).arg("-o").arg(binary);
    assert!(command.arg(sources().join("plugin.c")).status().unwrap().success());
    Ok(())
}

fn is_older(binary: &Path, sources: &[&PathBuf]) -> bool {
    let time = |path: &Path| fs::metadata(path).and_then(|meta| meta.modified()).ok();
    let made = time(binary);
    made.is_none() || sources.iter().any(|source| time(source) >= made)
}

fn compiler(source: &Path, frames: Frames, binary: &Path) -> Result<Command, String> {
    let extension = source.extension().unwrap().to_str().unwrap();
    let mut command = match extension {
        "c" => c(c_compiler()?, frames),
        "cc" => c(first(&["g++", "clang++"]).ok_or("there is no C++ compiler")?, frames),
        "rs" => rust(frames),
        "go" => go()?,
        other => panic!("nobody compiles .{other}"),
    };
    command.arg("-o").arg(binary).arg(source);
    Ok(command)
}

fn c_compiler() -> Result<&'static str, String> {
    first(&["gcc", "clang", "cc"]).ok_or_else(|| "there is no C compiler".to_owned())
}

fn first(names: &[&'static str]) -> Option<&'static str> {
    names.iter().copied().find(|name| has(name, "--version"))
}

fn c(compiler: &str, frames: Frames) -> Command {
    let mut command = Command::new(compiler);
    let pointers = if frames == Frames::Pointers { "-fno-omit-frame-pointer" } else { "-fomit-frame-pointer" };
    command.args(["-O2", "-g", "-Wall", "-Wextra", "-Werror", "-pthread", pointers]);
    command
}

fn rust(frames: Frames) -> Command {
    let mut command = Command::new("rustc");
    let pointers = if frames == Frames::Pointers { "yes" } else { "no" };
    command.args(["--edition", "2024", "-O", "-g", "-C"]).arg(format!("force-frame-pointers={pointers}"));
    command
}

/// Go always keeps frame pointers on the machines that have them.
fn go() -> Result<Command, String> {
    if !has("go", "version") {
        return Err("there is no Go toolchain".to_owned());
    }
    let mut command = Command::new("go");
    command.arg("build").env("GOCACHE", Path::new(env!("CARGO_TARGET_TMPDIR")).join("go-cache"));
    Ok(command)
}
