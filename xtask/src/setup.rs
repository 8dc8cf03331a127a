//! What the tests need besides cargo, and how it comes onto the machine.
//!
//! One table says which program serves which tests and which Debian package has it. `cargo xtask ci` looks through it
//! first, and installs what is missing where it may: as root, where there is apt-get. Elsewhere it says what to
//! install. A test that misses a program skips itself and says so, unless `CI` is set.
//!
//! Debian has no runtime of .NET: that is a Python package, unpacked below `target/`, which only `cargo xtask setup`
//! fetches, and only programs of `cargo xtask truth` need.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::fleet;
use crate::run::{Step, target_folder};

/// A program that tests need.
struct Need {
    /// Any of these names or paths shows that it is there.
    programs: &'static [&'static str],
    package: &'static str,
    why: &'static str,
}

/// Everything that the tests of `cargo xtask ci` run.
const NEEDS: &[Need] = &[
    Need { programs: &["gcc"], package: "gcc", why: "test programs in C" },
    Need { programs: &["g++"], package: "g++", why: "test programs in C++" },
    Need { programs: &["clang"], package: "clang", why: "the C and C++ interface under a second compiler" },
    Need { programs: &["cmake"], package: "cmake", why: "the CMake package of the C library" },
    Need { programs: &["make"], package: "make", why: "what CMake drives" },
    Need { programs: &["nm"], package: "binutils", why: "what the C library exports" },
    Need { programs: &["pkg-config"], package: "pkg-config", why: "the pkg-config file of the C library" },
    Need { programs: &["strace"], package: "strace", why: "what a program asks of the kernel" },
    Need { programs: &["perf"], package: "linux-perf", why: "recordings of perf to import" },
    Need {
        programs: &["chromium", "chromium-browser", "google-chrome"],
        package: "chromium",
        why: "HTML pages in a browser",
    },
    Need { programs: &["x86_64-w64-mingw32-gcc"], package: "gcc-mingw-w64-x86-64", why: "the Windows build" },
    Need { programs: WINE, package: "wine64", why: "tests of the Windows build" },
];

/// Wine's loader for 64-bit programs; Debian keeps it off the path.
const WINE: &[&str] = &["wine64", "/usr/lib/wine/wine64"];

/// What only checks beyond CI run: programs of other projects, compilers of other languages.
const MORE: &[Need] = &[
    Need { programs: &["offcputime"], package: "libbpf-tools", why: "record-cost" },
    Need { programs: &["tmux"], package: "tmux", why: "top-shots" },
    Need { programs: &["memcached"], package: "memcached", why: "selftest-programs" },
    Need { programs: &["redis-server"], package: "redis-server", why: "selftest-programs" },
    Need { programs: &["sysbench"], package: "sysbench", why: "selftest-programs" },
    Need { programs: &["pigz"], package: "pigz", why: "selftest-programs" },
    Need { programs: &["musl-gcc"], package: "musl-tools", why: "truth: static programs; dist" },
    Need { programs: &["dpkg-deb"], package: "dpkg", why: "dist" },
    Need { programs: &["debootstrap"], package: "debootstrap", why: "dist --try" },
    Need { programs: &["bwrap"], package: "bubblewrap", why: "dist --try" },
    Need { programs: &["/bin/busybox"], package: "busybox-static", why: "dist --try" },
    Need { programs: &["go"], package: "golang-go", why: "truth: programs in Go" },
    Need { programs: &["javac"], package: "default-jdk-headless", why: "truth: programs in Java" },
    Need { programs: &["node"], package: "nodejs", why: "truth: programs in JavaScript" },
    Need { programs: &["ruby"], package: "ruby", why: "truth: programs in Ruby" },
    Need { programs: &["mcs"], package: "mono-mcs", why: "truth: programs in C#" },
    Need { programs: &["/usr/include/tbb/parallel_for.h"], package: "libtbb-dev", why: "truth: programs on TBB" },
    Need {
        programs: &["/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"],
        package: "libjemalloc2",
        why: "selftest-programs, selftest-stress, try-truth",
    },
    Need {
        programs: &["/usr/lib/x86_64-linux-gnu/libmimalloc.so.2.0"],
        package: "libmimalloc2.0",
        why: "try-truth: allocators",
    },
    Need {
        programs: &["/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4"],
        package: "libtcmalloc-minimal4",
        why: "try-truth: allocators",
    },
];

/// .NET Core 3.1 as a Python package, the last that there is.
const DOTNET: &str = "dotnetcore2==3.1.23";

/// `cargo xtask setup`: installs all of it; with `--list` only says what is there.
pub fn run(args: &[String]) -> Result<(), String> {
    let all: Vec<&Need> = NEEDS.iter().chain(MORE).collect();
    match args {
        [] => {
            install(&all.into_iter().filter(|need| need.found().is_none()).collect::<Vec<_>>())?;
            install_dotnet()
        }
        [option] if option == "--list" => {
            for need in all {
                let state = if need.found().is_some() { "here" } else { "missing" };
                println!("{:<22} {state:<8} {}", need.package, need.why);
            }
            let state = if dotnet().is_ok() { "here" } else { "missing" };
            println!("{:<22} {state:<8} truth: programs in C#", "dotnetcore2 (pip)");
            Ok(())
        }
        [option, rest @ ..] if option == "--fleet" => {
            fleet::setup(rest)?;
            // Spark runs on Java, from whomever.
            let java = rest.iter().any(|word| word == "--spark") && found(&["java"]).is_none();
            install_packages(if java { &["prometheus", "default-jre-headless"] } else { &["prometheus"] })
        }
        _ => Err("usage: cargo xtask setup [--list | --fleet [--spark]]".to_owned()),
    }
}

/// Before the tests: installs what is missing where that may be; elsewhere says what is missing and goes on.
pub fn ensure() -> Result<(), String> {
    let missing: Vec<&Need> = NEEDS.iter().filter(|need| need.found().is_none()).collect();
    match install(&missing) {
        Err(why) if std::env::var_os("CI").is_none() => {
            eprintln!("some tests will be skipped: {why}");
            Ok(())
        }
        done => done,
    }
}

/// The folder of .NET's runtime, with `dotnet` and what it brings; or what to do to have it.
pub fn dotnet() -> Result<PathBuf, String> {
    let folder = dotnet_folder().join("dotnetcore2/bin");
    let is_here = folder.join("dotnet").exists();
    is_here.then_some(folder).ok_or_else(|| ".NET's runtime is not here: 'cargo xtask setup' fetches it".to_owned())
}

fn dotnet_folder() -> PathBuf {
    target_folder().join("dotnet")
}

fn install_dotnet() -> Result<(), String> {
    if dotnet().is_ok() {
        return Ok(());
    }
    let folder = dotnet_folder();
    let step = Step::new("python3", &["-m", "pip", "install", "--quiet", "--no-deps", "--only-binary=:all:"]);
    step.args(&["--target", &folder.display().to_string(), DOTNET]).run()
}

fn install(missing: &[&Need]) -> Result<(), String> {
    if missing.is_empty() {
        return Ok(());
    }
    for need in missing {
        eprintln!("not here: {:<22} for {}", need.package, need.why);
    }
    install_packages(&missing.iter().map(|need| need.package).collect::<Vec<_>>())
}

/// Installs those of these packages that are missing, or says why it cannot.
pub fn install_packages(packages: &[&str]) -> Result<(), String> {
    let is_missing = |package: &str| {
        let status = Command::new("dpkg").args(["--status", package]).output();
        !status.is_ok_and(|output| output.status.success())
    };
    let packages: Vec<&str> = packages.iter().copied().filter(|package| is_missing(package)).collect();
    if packages.is_empty() {
        return Ok(());
    }
    let list = packages.join(" ");
    if found(&["apt-get"]).is_none() {
        return Err(format!(
            "this script installs with Debian's apt-get, which is not here; what Debian calls {list} is missing"
        ));
    }
    if !is_root() {
        return Err(format!("installing needs root: 'sudo apt-get install {list}'"));
    }
    Step::new("apt-get", &["update", "--quiet"]).run()?;
    // With what Debian recommends: a compiler without it lacks its headers and its sanitizers.
    Step::new("apt-get", &["install", "--yes", "--quiet"])
        .args(&packages)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .run()
}

fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n")
}

impl Need {
    fn found(&self) -> Option<PathBuf> {
        found(self.programs)
    }
}

/// The first of these programs that is there.
pub fn found(programs: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let place = |name: &&str| std::env::split_paths(&path).map(|folder| folder.join(name)).find(|path| path.exists());
    // A path of its own stays as it is when it is joined.
    programs.iter().find_map(|name| if name.starts_with('/') { here(name) } else { place(name) })
}

fn here(path: &str) -> Option<PathBuf> {
    Path::new(path).exists().then(|| PathBuf::from(path))
}

/// Wine's loader, if it is here.
pub fn wine() -> Option<PathBuf> {
    found(WINE)
}

/// Whether the Windows build can be linked here.
pub fn can_link_for_windows() -> bool {
    found(&["x86_64-w64-mingw32-gcc"]).is_some()
}
