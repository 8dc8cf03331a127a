//! The library as `cargo xtask install` installs it, and the compilers that meet it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// A C compiler and the C++ compiler that belongs to it.
#[derive(Clone, Copy, Debug)]
pub struct Compiler {
    pub c: &'static str,
    pub cpp: &'static str,
}

pub const COMPILERS: [Compiler; 2] = [Compiler { c: "gcc", cpp: "g++" }, Compiler { c: "clang", cpp: "clang++" }];

/// How a program is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Plain,
    /// AddressSanitizer and UndefinedBehaviorSanitizer.
    Asan,
    /// ThreadSanitizer.
    Tsan,
}

pub const MODES: [Mode; 3] = [Mode::Plain, Mode::Asan, Mode::Tsan];

const WARNINGS: [&str; 4] = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"];
/// No program here runs for more than seconds; one that hangs must not hang the tests.
const LIMIT: &str = "300";

impl Mode {
    fn flags(self) -> &'static [&'static str] {
        match self {
            Mode::Plain => &["-O2"],
            Mode::Asan => &["-O1", "-g1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"],
            Mode::Tsan => &["-O1", "-g1", "-fsanitize=thread"],
        }
    }
}

/// Where the library without checks is installed: built once for all tests.
pub fn prefix() -> &'static Path {
    static PREFIX: OnceLock<tempfile::TempDir> = OnceLock::new();
    PREFIX.get_or_init(|| installed(&[])).path()
}

/// Where the library with checks is installed.
pub fn checked_prefix() -> &'static Path {
    static PREFIX: OnceLock<tempfile::TempDir> = OnceLock::new();
    PREFIX.get_or_init(|| installed(&["--checked"])).path()
}

fn installed(options: &[&str]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().to_str().unwrap();
    let output = xtask_install(&[&["--prefix", prefix], options].concat());
    assert!(output.status.success(), "{}", text(&output));
    folder
}

/// `cargo xtask install` with these arguments.
pub fn xtask_install(args: &[&str]) -> Output {
    Command::new(env!("CARGO"))
        .args(["run", "--quiet", "--package", "xtask", "--", "install"])
        .args(args)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap()
}

/// Whether these programs are here. Without one a test says so and passes, but in CI, where the project's own setup
/// installs them.
pub fn has(programs: &[&str]) -> bool {
    let missing: Vec<_> =
        programs.iter().filter(|program| Command::new(program).arg("--version").output().is_err()).collect();
    assert!(missing.is_empty() || std::env::var_os("CI").is_none(), "CI has no {missing:?}");
    if !missing.is_empty() {
        eprintln!("skipped: no {missing:?} on this machine");
    }
    missing.is_empty()
}

/// Whether this compiler has what this way of compiling needs: the sanitizers' libraries may come in packages of their
/// own.
pub fn can(compiler: Compiler, mode: Mode) -> bool {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("empty.c");
    std::fs::write(&file, "int main(void) { return 0; }\n").unwrap();
    let output = Command::new(compiler.c)
        .args(mode.flags())
        .arg(&file)
        .arg("-o")
        .arg(folder.path().join("empty"))
        .output()
        .unwrap();
    let can = output.status.success();
    assert!(can || std::env::var_os("CI").is_none(), "{} cannot {mode:?}: {}", compiler.c, text(&output));
    if !can {
        eprintln!("skipped: {} cannot compile for {mode:?} on this machine: {}", compiler.c, text(&output));
    }
    can
}

/// A source below the crate's folder.
pub fn source(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Compiles one file against the static library of `prefix`; the language is that of its name.
pub fn compile(compiler: Compiler, mode: Mode, file: &str, prefix: &Path, to: &Path) -> PathBuf {
    compile_with(&[], compiler, mode, file, prefix, to)
}

/// The same with more options.
pub fn compile_with(options: &[&str], compiler: Compiler, mode: Mode, file: &str, prefix: &Path, to: &Path) -> PathBuf {
    let (program, standard) =
        if file.ends_with(".c") { (compiler.c, "-std=c99") } else { (compiler.cpp, "-std=c++17") };
    let out = to.join(format!("{program}-{mode:?}-{}", Path::new(file).file_stem().unwrap().to_str().unwrap()));
    let output = Command::new(program)
        .arg(standard)
        .args(WARNINGS)
        .args(mode.flags())
        .args(options)
        .arg("-I")
        .arg(prefix.join("include"))
        .arg(source(file))
        .arg(prefix.join("lib/libholdup_locks_c.a"))
        .args(["-lpthread", "-ldl", "-lm", "-o"])
        .arg(&out)
        .output()
        .unwrap();
    assert!(output.status.success(), "{program} {mode:?} {file}:\n{}", text(&output));
    out
}

/// Runs a program that must come to its end.
pub fn run(program: &Path, args: &[&str]) -> Output {
    let start =
        |before: &[&str]| Command::new("timeout").arg(LIMIT).args(before).arg(program).args(args).output().unwrap();
    let output = start(&[]);
    // Where addresses are more random than this ThreadSanitizer expects, it can only run without that.
    if String::from_utf8_lossy(&output.stderr).contains("unexpected memory mapping") {
        return start(&["setarch", "-R"]);
    }
    output
}

/// Runs a program that must succeed, and gives back what it printed.
pub fn succeed(program: &Path, args: &[&str]) -> String {
    let output = run(program, args);
    assert!(output.status.success(), "{} {args:?}:\n{}", program.display(), text(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// All that a program said, for messages.
pub fn text(output: &Output) -> String {
    format!("{}\n{}{}", output.status, String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}
