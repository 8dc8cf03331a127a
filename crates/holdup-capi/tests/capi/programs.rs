//! Programs in C and C++ that hold the library to its promises, by both compilers, bare and under the sanitizers.

use holdup_locks::technique::{DefaultLock, LockTable};

use super::toolchain::{
    COMPILERS, Compiler, MODES, Mode, can, compile, compile_with, has, prefix, run, source, succeed, text,
};

const TOOLS: [&str; 4] = ["gcc", "g++", "clang", "clang++"];

fn conforms(compiler: Compiler, mode: Mode, file: &str) {
    if !can(compiler, mode) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let said = succeed(&compile(compiler, mode, file, prefix(), folder.path()), &[]);
    assert!(said.ends_with("all conform\n"), "{compiler:?} {mode:?}: {said}");
}

#[test]
fn c_conforms() {
    if has(&TOOLS) {
        for (compiler, mode) in COMPILERS.iter().flat_map(|&c| MODES.map(|mode| (c, mode))) {
            conforms(compiler, mode, "tests/programs/conformance.c");
        }
    }
}

#[test]
fn cpp_conforms_with_gcc() {
    if has(&TOOLS) {
        MODES.into_iter().for_each(|mode| conforms(COMPILERS[0], mode, "tests/programs/conformance.cpp"));
    }
}

#[test]
fn cpp_conforms_with_clang() {
    if has(&TOOLS) {
        MODES.into_iter().for_each(|mode| conforms(COMPILERS[1], mode, "tests/programs/conformance.cpp"));
    }
}

#[test]
fn the_programs_know_every_lock_of_the_registry() {
    let read = |file: &str| std::fs::read_to_string(source(file)).unwrap();
    let (c, cpp, header) =
        (read("tests/programs/conformance.c"), read("tests/programs/conformance.cpp"), read("include/holdup.hpp"));
    for lock in holdup_locks::LOCKS {
        let id = lock.name.replace('-', "_");
        assert!(c.contains(&format!("X({id}, ")), "{id} is missing in conformance.c");
        assert!(header.contains(&format!("using {id} = ")), "{id} is missing in holdup.hpp");
        let tested = cpp.contains(&format!("holdup::{id}()")) || cpp.contains(&format!("holdup::{id} static_"));
        assert!(tested || lock.name == "adaptive", "{id} is missing in conformance.cpp");
    }
}

/// Rust and C parts of one program may share keys, so they must agree on what a key meets.
#[test]
fn a_table_chooses_as_the_one_in_rust_does() {
    if !has(&TOOLS) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = compile(COMPILERS[0], Mode::Plain, "tests/programs/slots.c", prefix(), folder.path());
    let (small, usual): (LockTable<DefaultLock, 7>, LockTable<DefaultLock>) = Default::default();
    let keys = (0..1000).map(|n: u64| n * 64);
    let expected = |slots: Vec<usize>| slots.iter().map(|slot| format!("{slot}\n")).collect::<String>();
    assert_eq!(succeed(&program, &["7"]), expected(keys.clone().map(|key| small.slot_of(key)).collect()));
    assert_eq!(succeed(&program, &["256"]), expected(keys.map(|key| usual.slot_of(key)).collect()));
}

/// The guide's programs are programs.
#[test]
fn the_guide_s_examples_compile() {
    if !has(&TOOLS) {
        return;
    }
    let guide = std::fs::read_to_string(source("../../docs/guide.md")).unwrap();
    let (_, section) = guide.split_once("\n## From C and C++\n").expect("the section");
    let folder = tempfile::tempdir().unwrap();
    for (language, name, standard) in [("cpp", "guide.cpp", "-std=c++17"), ("c", "guide.c", "-std=c99")] {
        let (_, block) = section.split_once(&format!("```{language}\n")).expect("a block of the language");
        let file = folder.path().join(name);
        std::fs::write(&file, block.split("```").next().unwrap()).unwrap();
        for compiler in COMPILERS {
            let program = if language == "c" { compiler.c } else { compiler.cpp };
            let output = std::process::Command::new(program)
                .args([standard, "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I"])
                .arg(source("include"))
                .arg(&file)
                .output()
                .unwrap();
            assert!(output.status.success(), "{program}: {}", text(&output));
        }
    }
}

/// An uncontended lock is one call: its atomic instruction stands in the function itself, before any other call.
#[test]
fn an_uncontended_lock_is_one_call() {
    if !cfg!(target_arch = "x86_64") || !has(&["objdump"]) {
        return;
    }
    let library = prefix().join("lib/libholdup_locks_c.so");
    let output =
        std::process::Command::new("objdump").args(["-d", "--no-show-raw-insn"]).arg(library).output().unwrap();
    let listing = String::from_utf8(output.stdout).unwrap();
    for function in ["adaptive_lock", "adaptive_unlock", "adaptive_try_lock", "mcs_lock", "counter_add"] {
        let mark = format!("<holdup_{function}>:\n");
        let (_, body) = listing.split_once(&mark).unwrap_or_else(|| panic!("no {function}"));
        let body = body.split("\n\n").next().unwrap();
        let atomic = body.find("lock ").or_else(|| body.find("xchg ")).unwrap_or_else(|| panic!("{function}: {body}"));
        let calls = body[..atomic].matches("call ").count();
        // A thread's number, which picks the counter's cell, is thread-local storage: the shared library asks for its
        // place.
        let allowed = usize::from(function == "counter_add");
        assert!(calls <= allowed, "{function} calls before it has tried: {body}");
    }
}

/// The headers alone, by every standard that they promise, with the strictest warnings, as the only thing in a file.
#[test]
fn headers_compile_without_a_warning() {
    if !has(&TOOLS) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let c = file("h.c", "#include <holdup.h>\n");
    let cpp = file("h.cpp", "#include <holdup.h>\n");
    let hpp = file("hpp.cpp", "#include <holdup.hpp>\n");
    for compiler in COMPILERS {
        for options in [&[][..], &["-fsanitize=thread"], &["-fno-exceptions"]] {
            for (program, standards, source) in [
                (compiler.c, &["c99", "c11", "c17"][..], &c),
                (compiler.cpp, &["c++17"], &cpp),
                (compiler.cpp, &["c++17", "c++20"], &hpp),
            ] {
                for standard in standards {
                    let output = std::process::Command::new(program)
                        .arg(format!("-std={standard}"))
                        .args([
                            "-Wall",
                            "-Wextra",
                            "-Wpedantic",
                            "-Wshadow",
                            "-Wconversion",
                            "-Werror",
                            "-fsyntax-only",
                        ])
                        .args(options)
                        .arg("-I")
                        .arg(self::source("include"))
                        .arg(source)
                        .output()
                        .unwrap();
                    assert!(output.status.success(), "{program} -std={standard} {options:?}: {}", text(&output));
                }
            }
        }
    }
}

/// A C++20 compiler proves that static locks are initialised by the compiler (`constinit`).
#[test]
fn static_locks_need_no_code() {
    if !has(&TOOLS) {
        return;
    }
    for compiler in COMPILERS {
        let output = std::process::Command::new(compiler.cpp)
            .args(["-std=c++20", "-fsyntax-only", "-Werror", "-I"])
            .arg(self::source("include"))
            .arg(source("tests/programs/conformance.cpp"))
            .output()
            .unwrap();
        assert!(output.status.success(), "{}: {}", compiler.cpp, text(&output));
    }
}

/// ThreadSanitizer sees what the locks order, and only that: a race beside them is found, and so is wrong use.
#[test]
fn thread_sanitizer_finds_true_races_and_no_others() {
    if !has(&TOOLS) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for compiler in COMPILERS.into_iter().filter(|&compiler| can(compiler, Mode::Tsan)) {
        let program = compile(compiler, Mode::Tsan, "tests/programs/race.cpp", prefix(), folder.path());
        assert_eq!(succeed(&program, &["guarded"]), "8\n", "{compiler:?}");
        for (way, finding) in [
            ("lock", "data race"),
            ("reader", "data race"),
            ("gate", "data race"),
            ("table", "data race"),
            ("double-unlock", "unlock of an unlocked mutex"),
        ] {
            let output = run(&program, &[way]);
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(said.contains(finding), "{compiler:?} {way}: {}", text(&output));
            assert_eq!(output.status.code(), Some(66), "{compiler:?} {way}");
        }
        // Untold, it takes the guarded way for a race: what it is told is what makes the difference.
        let (file, untold) = ("tests/programs/race.cpp", &["-DHOLDUP_NO_TSAN"]);
        let program = compile_with(untold, compiler, Mode::Tsan, file, prefix(), folder.path());
        let output = run(&program, &["guarded"]);
        assert!(String::from_utf8_lossy(&output.stderr).contains("data race"), "{}", text(&output));
    }
}
