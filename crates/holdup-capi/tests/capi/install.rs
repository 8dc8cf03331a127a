//! What `cargo xtask install` leaves behind: names, links, pkg-config and CMake files that build a user's program.

use std::path::Path;
use std::process::{Command, Output};

use super::toolchain::{COMPILERS, has, prefix, source, text, xtask_install};

const VERSION: &str = env!("CARGO_PKG_VERSION");

#[test]
fn the_tree_is_complete() {
    if !has(&["readelf"]) {
        return;
    }
    let lib = prefix().join("lib");
    // The links must be those of the name that the library itself tells the loader.
    let output = Command::new("readelf").arg("-d").arg(lib.join("libholdup_locks_c.so")).output().unwrap();
    let dynamic = String::from_utf8(output.stdout).unwrap();
    let (_, soname) = dynamic.split_once("soname: [").expect("the library has a soname");
    let soname = soname.split(']').next().unwrap().to_owned();
    let target = |link: &str| std::fs::read_link(lib.join(link)).unwrap().to_str().unwrap().to_owned();
    assert_eq!(target("libholdup_locks_c.so"), soname);
    assert_eq!(target(&soname), format!("libholdup_locks_c.so.{VERSION}"));
    for file in ["include/holdup.h", "include/holdup.hpp", "include/holdup_tsan.h", "lib/libholdup_locks_c.a"] {
        assert!(prefix().join(file).is_file(), "{file}");
    }
    // A library that links the whole of Rust's standard library would be many times this.
    let size = std::fs::metadata(lib.join(soname)).unwrap().len();
    assert!(size < 1 << 20, "the shared library has {size} bytes");
}

#[test]
fn packagers_can_stage_and_name_the_folder_of_libraries() {
    let stage = tempfile::tempdir().unwrap();
    let stage_path = stage.path().to_str().unwrap();
    let output = xtask_install(&["--prefix=/opt/holdup", "--destdir", stage_path, "--libdir", "lib/x86_64-linux-gnu"]);
    assert!(output.status.success(), "{}", text(&output));
    let lib = stage.path().join("opt/holdup/lib/x86_64-linux-gnu");
    let pc = std::fs::read_to_string(lib.join("pkgconfig/holdup-locks.pc")).unwrap();
    assert!(pc.starts_with("prefix=/opt/holdup\nlibdir=${prefix}/lib/x86_64-linux-gnu\n"), "{pc}");
    let cmake = std::fs::read_to_string(lib.join("cmake/holdupLocks/holdupLocksConfig.cmake")).unwrap();
    assert!(cmake.contains("${CMAKE_CURRENT_LIST_DIR}/../../../..\""), "{cmake}");
    assert!(stage.path().join("opt/holdup/include/holdup.h").is_file());
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("/opt/holdup/lib/x86_64-linux-gnu/pkgconfig"), "{said}");
}

#[test]
fn a_wrong_prefix_is_refused_by_name() {
    for (args, named) in [
        (&["--prefix", "here"][..], "'here'"),
        (&[], "--prefix is missing"),
        (&["--prefix", "/dev/null/x"], "/dev/null/x"),
    ] {
        let output = xtask_install(args);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(named), "{args:?}: {}", text(&output));
    }
}

#[test]
fn pkg_config_builds_a_program_in_every_way() {
    if !has(&["pkg-config", "gcc", "clang"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for (package, options, linking) in [
        ("holdup-locks", &[][..], &[][..]),
        ("holdup-locks", &["--static"], &["-static"]),
        ("holdup-locks-static", &[], &[]),
    ] {
        let flags = Command::new("pkg-config")
            .args(["--cflags", "--libs"])
            .args(options)
            .arg(package)
            .env("PKG_CONFIG_PATH", prefix().join("lib/pkgconfig"))
            .output()
            .unwrap();
        assert!(flags.status.success(), "{}", text(&flags));
        let flags = String::from_utf8(flags.stdout).unwrap();
        for compiler in COMPILERS {
            let program = folder.path().join("program");
            let compiled = Command::new(compiler.c)
                .args(linking)
                .arg(source("tests/programs/user.c"))
                .args(flags.split_whitespace())
                .arg("-o")
                .arg(&program)
                .output()
                .unwrap();
            assert!(compiled.status.success(), "{} {package} {options:?}: {}", compiler.c, text(&compiled));
            expect_answer(&run_with_library(&program));
        }
    }
}

const CMAKE_PROJECT: &str = r"
cmake_minimum_required(VERSION 3.16)
project(user C)
find_package(holdupLocks 0.1 REQUIRED)
add_executable(shared SOURCE)
target_link_libraries(shared PRIVATE holdup::locks)
add_executable(static SOURCE)
target_link_libraries(static PRIVATE holdup::locks_static)
find_package(holdupLocks 99 QUIET)
if(holdupLocks_FOUND)
  message(FATAL_ERROR 99)
endif()
";

#[test]
fn cmake_builds_a_program_from_a_tree_that_was_moved() {
    if !has(&["cmake", "make"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let moved = folder.path().join("moved");
    let copied = Command::new("cp").arg("-a").arg(prefix()).arg(&moved).output().unwrap();
    assert!(copied.status.success(), "{}", text(&copied));
    let project = CMAKE_PROJECT.replace("SOURCE", source("tests/programs/user.c").to_str().unwrap());
    std::fs::write(folder.path().join("CMakeLists.txt"), project).unwrap();
    let build = folder.path().join("build");
    for args in [
        vec!["-S".into(), folder.path().into(), "-B".into(), build.clone(), prefix_path(&moved)],
        vec!["--build".into(), build.clone()],
    ] {
        let output = Command::new("cmake").args(&args).output().unwrap();
        assert!(output.status.success(), "cmake {args:?}: {}", text(&output));
    }
    // CMake writes the library's folder into the programs it builds.
    for program in ["shared", "static"] {
        expect_answer(&Command::new(build.join(program)).output().unwrap());
    }
}

fn prefix_path(prefix: &Path) -> std::path::PathBuf {
    format!("-DCMAKE_PREFIX_PATH={}", prefix.display()).into()
}

fn run_with_library(program: &Path) -> Output {
    Command::new(program).env("LD_LIBRARY_PATH", prefix().join("lib")).output().unwrap()
}

fn expect_answer(output: &Output) {
    assert!(output.status.success(), "{}", text(output));
    assert_eq!(String::from_utf8_lossy(&output.stdout), format!("42 with holdup-locks {VERSION}\n"));
}
