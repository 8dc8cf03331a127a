//! The recorder's part inside the kernel: compiled, and named, so that a test can tell whether it is fresh.
//!
//! Only who changes `crates/holdup-record/bpf/capture.bpf.c` needs clang: the object is committed.

use crate::run::{Step, root};

#[path = "../../crates/holdup-record/bpf/hash.rs"]
mod hash;

/// Compiles the object and writes down what it was built from.
pub fn build(_: &[String]) -> Result<(), String> {
    let folder = root().join("crates/holdup-record/bpf");
    let at = folder.to_string_lossy();
    let (source, object) = (format!("{at}/capture.bpf.c"), format!("{at}/capture.bpf.o"));
    // The types of the kernel that the loader looks for stand in what -g writes; no path of this machine does.
    let words = ["-O2", "-g", "-target", "bpf", "-mcpu=v3", "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter"];
    let prefix = format!("-ffile-prefix-map={at}/=");
    Step::new("clang", &words)
        .args(&["-fdebug-compilation-dir=.", &prefix, "-c", &source, "-o", &object])
        .run()
        .map_err(|why| format!("{why} (Debian has it in the packages clang and llvm)"))?;
    // What a debugger would want, which the kernel does not.
    Step::new("llvm-strip", &["-g", &object]).run()?;
    let lines = hash::lines(&folder).map_err(|why| format!("{at}: {why}"))?;
    std::fs::write(folder.join(hash::FILE), &lines).map_err(|why| format!("{at}: {why}"))?;
    eprint!("{lines}");
    Ok(())
}
