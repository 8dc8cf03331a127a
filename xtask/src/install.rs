//! `install`: the C and C++ library in its release build, with headers, pkg-config and CMake files, under a prefix.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::run::{cargo, root};

const USAGE: &str = "\
usage: cargo xtask install --prefix DIR [--destdir DIR] [--libdir NAME] [--checked]

  --prefix DIR    where the library will live, such as /usr/local; an absolute path
  --destdir DIR   put in front of every path written, for packagers
  --libdir NAME   the folder of libraries below the prefix [default: lib]
  --checked       the library that reports misuse; same names, same sizes, slower

Example:
  cargo xtask install --prefix $HOME/.local";

const VERSION: &str = env!("CARGO_PKG_VERSION");
const LIBRARY: &str = "libholdup_locks_c";
const HEADERS: [&str; 3] = ["holdup.h", "holdup.hpp", "holdup_tsan.h"];
/// What Rust's standard library needs beside libc and the compiler's own library.
const SYSTEM_LIBRARIES: &str = "-lpthread -ldl -lm";

#[derive(Debug, PartialEq, Eq)]
struct Options {
    prefix: String,
    destdir: PathBuf,
    libdir: String,
    checked: bool,
}

/// Builds and installs; says what it did and how to use it.
pub fn run(args: &[String]) -> Result<(), String> {
    let options = Options::read(args)?;
    let built = build(options.checked)?;
    let written = options.install(&built)?;
    println!("installed {}:", if options.checked { "the library with checks" } else { "the library" });
    written.iter().for_each(|path| println!("  {}", path.display()));
    println!("\n{}", options.how_to_use());
    Ok(())
}

impl Options {
    fn read(args: &[String]) -> Result<Options, String> {
        let (mut prefix, mut destdir, mut libdir, mut checked) = (None, None, None, false);
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            // `--prefix=DIR` is `--prefix DIR`.
            let (name, value) = match arg.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (arg.as_str(), None),
            };
            let slot = match name {
                "--prefix" => &mut prefix,
                "--destdir" => &mut destdir,
                "--libdir" => &mut libdir,
                "--checked" if value.is_none() => {
                    checked = true;
                    continue;
                }
                _ => return Err(format!("'{arg}' is not an option of install\n\n{USAGE}")),
            };
            let value = value.or_else(|| args.next().cloned()).filter(|value| !value.is_empty());
            *slot = Some(value.ok_or_else(|| format!("{name} needs a folder after it\n\n{USAGE}"))?);
        }
        let prefix = prefix.ok_or_else(|| format!("--prefix is missing: where shall the library go?\n\n{USAGE}"))?;
        if !prefix.starts_with('/') {
            return Err(format!(
                "--prefix is '{prefix}', which is not absolute; programs must find it from anywhere: give \
                 --prefix \"$PWD/{prefix}\""
            ));
        }
        let libdir = libdir.unwrap_or_else(|| "lib".to_owned());
        if libdir.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return Err(format!("--libdir is '{libdir}'; it must be a folder below the prefix, such as lib64"));
        }
        let trimmed = prefix.trim_end_matches('/');
        Ok(Options {
            prefix: if trimmed.is_empty() { "/".to_owned() } else { trimmed.to_owned() },
            destdir: destdir.unwrap_or_default().into(),
            libdir,
            checked,
        })
    }

    /// Where a path of the prefix is written to.
    fn place(&self, below_prefix: &str) -> PathBuf {
        let path = format!("{}/{below_prefix}", self.prefix.trim_end_matches('/'));
        if self.destdir.as_os_str().is_empty() {
            PathBuf::from(path)
        } else {
            self.destdir.join(path.trim_start_matches('/'))
        }
    }

    fn install(&self, built: &Built) -> Result<Vec<PathBuf>, String> {
        let mut written = Vec::new();
        for header in HEADERS {
            let source = root().join("crates/holdup-capi/include").join(header);
            written.push(copy(&source, &self.place(&format!("include/{header}")))?);
        }
        let lib = &self.libdir;
        written.push(copy(&built.archive, &self.place(&format!("{lib}/{LIBRARY}.a")))?);
        let shared = format!("{LIBRARY}.so.{VERSION}");
        written.push(copy(&built.shared, &self.place(&format!("{lib}/{shared}")))?);
        let soname = format!("{LIBRARY}.so.{}", interface());
        written.push(link(&shared, &self.place(&format!("{lib}/{soname}")))?);
        written.push(link(&soname, &self.place(&format!("{lib}/{LIBRARY}.so")))?);
        for (path, text) in [
            ("pkgconfig/holdup-locks.pc", self.pkg_config(false)),
            ("pkgconfig/holdup-locks-static.pc", self.pkg_config(true)),
            ("cmake/holdupLocks/holdupLocksConfig.cmake", self.cmake_config()),
            ("cmake/holdupLocks/holdupLocksConfigVersion.cmake", cmake_version()),
        ] {
            written.push(write(&self.place(&format!("{lib}/{path}")), &text)?);
        }
        Ok(written)
    }

    fn pkg_config(&self, is_static: bool) -> String {
        let (name, libs) = if is_static {
            ("holdup-locks-static", format!("Libs: ${{libdir}}/{LIBRARY}.a {SYSTEM_LIBRARIES}"))
        } else {
            ("holdup-locks", format!("Libs: -L${{libdir}} -lholdup_locks_c\nLibs.private: {SYSTEM_LIBRARIES}"))
        };
        format!(
            "prefix={}\nlibdir=${{prefix}}/{}\nincludedir=${{prefix}}/include\n\nName: {name}\n\
             Description: Locks, gates, lock tables and counters for programs that threads hold up\n\
             Version: {VERSION}\nCflags: -I${{includedir}}\n{libs}\n",
            self.prefix, self.libdir
        )
    }

    /// Finds everything from its own place, so that an installed tree can be moved.
    fn cmake_config(&self) -> String {
        let up = "/..".repeat(self.libdir.split('/').count() + 2);
        CMAKE_CONFIG
            .replace("$UP", &up)
            .replace("$LIBDIR", &self.libdir)
            .replace("$VERSION", VERSION)
            .replace("$INTERFACE", &interface())
    }

    fn how_to_use(&self) -> String {
        let libdir = format!("{}/{}", self.prefix, self.libdir);
        format!(
            "To use it:\n\
             \x20 export PKG_CONFIG_PATH={libdir}/pkgconfig\n\
             \x20 cc program.c $(pkg-config --cflags --libs holdup-locks)            shared\n\
             \x20 c++ -std=c++17 program.cpp $(pkg-config --cflags --libs holdup-locks-static)\n\
             A shared library outside the system's folders also wants -Wl,-rpath,{libdir}.\n\
             CMake: find_package(holdupLocks REQUIRED), target_link_libraries(program holdup::locks) or\n\
             holdup::locks_static; configure with -DCMAKE_PREFIX_PATH={}",
            self.prefix
        )
    }
}

const CMAKE_CONFIG: &str = r#"# holdupLocks $VERSION: the targets holdup::locks (shared) and holdup::locks_static.
get_filename_component(_holdup_prefix "${CMAKE_CURRENT_LIST_DIR}$UP" ABSOLUTE)
find_package(Threads REQUIRED)

if(NOT TARGET holdup::locks)
  add_library(holdup::locks SHARED IMPORTED)
  set_target_properties(holdup::locks PROPERTIES
    IMPORTED_LOCATION "${_holdup_prefix}/$LIBDIR/libholdup_locks_c.so.$VERSION"
    IMPORTED_SONAME "libholdup_locks_c.so.$INTERFACE"
    INTERFACE_INCLUDE_DIRECTORIES "${_holdup_prefix}/include")

  add_library(holdup::locks_static STATIC IMPORTED)
  set_target_properties(holdup::locks_static PROPERTIES
    IMPORTED_LOCATION "${_holdup_prefix}/$LIBDIR/libholdup_locks_c.a"
    INTERFACE_INCLUDE_DIRECTORIES "${_holdup_prefix}/include"
    INTERFACE_LINK_LIBRARIES "Threads::Threads;dl;m")
endif()
unset(_holdup_prefix)
"#;

/// Versions below 1.0 are compatible within one minor version, later ones within one major version.
fn cmake_version() -> String {
    format!(
        r#"set(PACKAGE_VERSION "{VERSION}")
if(PACKAGE_FIND_VERSION VERSION_GREATER PACKAGE_VERSION)
  set(PACKAGE_VERSION_COMPATIBLE FALSE)
elseif(PACKAGE_FIND_VERSION_MAJOR STREQUAL "{}" AND ("{0}" GREATER 0 OR PACKAGE_FIND_VERSION_COUNT LESS 2
       OR PACKAGE_FIND_VERSION_MINOR STREQUAL "{}"))
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
  if(PACKAGE_FIND_VERSION STREQUAL PACKAGE_VERSION)
    set(PACKAGE_VERSION_EXACT TRUE)
  endif()
else()
  set(PACKAGE_VERSION_COMPATIBLE FALSE)
endif()
"#,
        major(),
        VERSION.split('.').nth(1).unwrap_or("0")
    )
}

/// The version of the binary interface, as the library's build.rs puts it into the library.
fn interface() -> String {
    match major() {
        "0" => VERSION.split('.').take(2).collect::<Vec<_>>().join("."),
        major => major.to_owned(),
    }
}

fn major() -> &'static str {
    VERSION.split('.').next().unwrap_or(VERSION)
}

/// What cargo built.
struct Built {
    archive: PathBuf,
    shared: PathBuf,
}

fn build(checked: bool) -> Result<Built, String> {
    let profile = if checked { "c-library-checked" } else { "c-library" };
    let report = cargo(&["build", "--package", "holdup-capi", "--profile", profile])
        .args(&["--message-format", "json-render-diagnostics"])
        .output()?;
    let files = artifacts(&report);
    let find = |extension: &str| {
        let found = files.iter().find(|file| file.extension().is_some_and(|found| found == extension));
        found.cloned().ok_or_else(|| {
            format!("cargo built no {LIBRARY}.{extension}: is this a system with libraries of that kind?")
        })
    };
    Ok(Built { archive: find("a")?, shared: find("so")? })
}

/// The files of the C library in cargo's report, a JSON object per line.
fn artifacts(report: &str) -> Vec<PathBuf> {
    report
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|message| message["reason"] == "compiler-artifact" && message["target"]["name"] == "holdup_locks_c")
        .filter_map(|message| message["filenames"].as_array().cloned())
        .flatten()
        .filter_map(|file| file.as_str().map(PathBuf::from))
        .collect()
}

fn copy(from: &Path, to: &Path) -> Result<PathBuf, String> {
    make_room(to)?;
    fs::copy(from, to).map_err(|error| cannot("write", to, &error))?;
    Ok(to.to_owned())
}

fn write(to: &Path, text: &str) -> Result<PathBuf, String> {
    make_room(to)?;
    fs::write(to, text).map_err(|error| cannot("write", to, &error))?;
    Ok(to.to_owned())
}

fn link(target: &str, at: &Path) -> Result<PathBuf, String> {
    make_room(at)?;
    symlink(target, at).map_err(|error| cannot("link", at, &error))?;
    Ok(at.to_owned())
}

/// Makes the folder and removes what stands in the file's place: a running program keeps its old library that way.
fn make_room(file: &Path) -> Result<(), String> {
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder).map_err(|error| cannot("make the folder", folder, &error))?;
    }
    match fs::remove_file(file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(cannot("replace", file, &error)),
        _ => Ok(()),
    }
}

fn cannot(what: &str, path: &Path, error: &std::io::Error) -> String {
    format!("cannot {what} {}: {error}; choose a --prefix that you may write to, such as $HOME/.local", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(args: &[&str]) -> Result<Options, String> {
        Options::read(&args.iter().map(|&arg| arg.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn options_are_taken_in_both_forms() {
        let given = read(&["--prefix=/opt/x/", "--destdir", "/tmp/stage", "--checked"]).unwrap();
        assert_eq!((given.prefix.as_str(), given.libdir.as_str(), given.checked), ("/opt/x", "lib", true));
        assert_eq!(given.place("include/holdup.h"), Path::new("/tmp/stage/opt/x/include/holdup.h"));
        assert_eq!(read(&["--prefix", "/usr"]).unwrap().place("lib"), Path::new("/usr/lib"));
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_name() {
        for (args, named) in [
            (&[][..], "--prefix is missing"),
            (&["--prefix"], "--prefix needs"),
            (&["--prefix="], "--prefix needs"),
            (&["--prefix", "here"], "'here'"),
            (&["--prefix", "/usr", "--libdir", "../lib"], "'../lib'"),
            (&["--prefix", "/usr", "--libdir", "/lib"], "'/lib'"),
            (&["--prefix", "/usr", "--static"], "'--static'"),
            (&["--checked=yes", "--prefix", "/usr"], "'--checked=yes'"),
        ] {
            let why = read(args).unwrap_err();
            assert!(why.contains(named), "{args:?}: {why}");
        }
    }
}
