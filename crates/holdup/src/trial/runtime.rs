//! Switches of the runtimes that programs are built on: how many threads they use, how these wait, how they collect
//! garbage.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::remedy::{Change, Remedy};

/// A switch, and how a program is recognised that heeds it.
struct Switch {
    /// Some of these bytes stand in the program's file: the name of the variable where the runtime is a part of the
    /// program, else the name of its library.
    signs: &'static [&'static [u8]],
    variable: &'static str,
    values: fn(usize) -> Vec<String>,
}

const OPENMP: &[&[u8]] = &[b"libgomp.so", b"libomp.so", b"libiomp5.so"];
/// What starts Java.
const JAVA: &[&[u8]] = &[b"libjli.so"];
/// Python without its interpreter's lock: its library, or in one file, the ends of the names of its extensions. Other
/// builds refuse to start without the lock.
const FREE_THREADED: &[&[u8]] =
    &[b"libpython3.13t.so", b"libpython3.14t.so", b"libpython3.15t.so", b".cpython-313t-", b".cpython-314t-"];

/// What starts .NET: `dotnet`, and the starters of programs.
const DOTNET: &[&[u8]] = &[b"libhostfxr.so"];

/// All that are known. Adding one: its row.
const SWITCHES: &[Switch] = &[
    Switch { signs: GO, variable: "GOMAXPROCS", values: fewer },
    Switch { signs: GO, variable: "GOGC", values: |_| texts(&["200", "400"]) },
    Switch { signs: OPENMP, variable: "OMP_NUM_THREADS", values: fewer },
    Switch { signs: OPENMP, variable: "OMP_WAIT_POLICY", values: |_| texts(&["passive", "active"]) },
    // Unless it is set, 300,000 loops; "passive" is none, "active" are 30 billion.
    Switch { signs: &[b"libgomp.so"], variable: "GOMP_SPINCOUNT", values: |_| texts(&["1000", "10000000"]) },
    Switch { signs: &[b"UV_THREADPOOL_SIZE"], variable: "UV_THREADPOOL_SIZE", values: more_than_four },
    Switch { signs: &[b"RAYON_NUM_THREADS"], variable: "RAYON_NUM_THREADS", values: fewer },
    Switch { signs: &[b"TOKIO_WORKER_THREADS"], variable: "TOKIO_WORKER_THREADS", values: fewer },
    Switch { signs: FREE_THREADED, variable: "PYTHON_GIL", values: |_| texts(&["0"]) },
    Switch { signs: JAVA, variable: OPTIONS_OF_JAVA, values: |_| texts(&["-XX:+UseParallelGC"]) },
    Switch { signs: JAVA, variable: OPTIONS_OF_JAVA, values: fewer_for_java },
    Switch { signs: DOTNET, variable: "COMPlus_gcServer", values: |_| texts(&["1"]) },
    Switch { signs: DOTNET, variable: "COMPlus_gcConcurrent", values: |_| texts(&["0"]) },
    Switch { signs: DOTNET, variable: "COMPlus_ThreadPool_ForceMinWorkerThreads", values: more_for_dotnet },
];

const GO: &[&[u8]] = &[b"\xff Go buildinf:"];
/// How .NET's variables begin: all versions read the first, those from 6 on read the second before it.
const PREFIXES_OF_DOTNET: [&str; 2] = ["COMPlus_", "DOTNET_"];
/// A list of options, which others may be on.
const OPTIONS_OF_JAVA: &str = "JAVA_TOOL_OPTIONS";

/// So much of a file is looked at; names stand among the constants, which come before what is for debuggers.
const MOST_BYTES: u64 = 256 << 20;

/// What the program in this file heeds, one remedy for each value of each variable, where it has so many CPUs. Of a
/// script, what its interpreter heeds.
pub fn switches(file: &Path, words: &[OsString], cpus: usize) -> Vec<Remedy> {
    let bytes = match read(file) {
        script if script.starts_with(b"#!") => interpreter(&script).map_or_else(Vec::new, |file| read(&file)),
        bytes => bytes,
    };
    if !bytes.starts_with(b"\x7fELF") {
        return Vec::new();
    }
    of(&bytes, words, cpus, |variable| std::env::var(variable).ok())
}

fn read(file: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    let read = File::open(file).and_then(|file| file.take(MOST_BYTES).read_to_end(&mut bytes));
    read.map_or_else(|_| Vec::new(), |_| bytes)
}

/// The program that runs a script, by its first line.
fn interpreter(script: &[u8]) -> Option<PathBuf> {
    let line = script.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let mut words = std::str::from_utf8(line).ok()?.split_ascii_whitespace();
    let first = words.next()?;
    if !first.ends_with("/env") {
        return Some(PathBuf::from(first));
    }
    // Its own options, and variables that it sets.
    on_path(OsStr::new(words.find(|word| !word.starts_with('-') && !word.contains('='))?))
}

/// The program of this name where a shell finds it.
pub fn on_path(name: &OsStr) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

fn of(bytes: &[u8], words: &[OsString], cpus: usize, set: impl Fn(&str) -> Option<String>) -> Vec<Remedy> {
    let [read_last, read_first] = PREFIXES_OF_DOTNET;
    let is_decided = |variable: &str| {
        variable.strip_prefix(read_last).is_some_and(|name| set(&format!("{read_first}{name}")).is_some())
    };
    let heeds = |switch: &&Switch| switch.signs.iter().any(|sign| contains(bytes, sign));
    let heeded = SWITCHES.iter().filter(heeds).filter(|switch| !is_decided(switch.variable));
    let mut remedies = Vec::new();
    for switch in heeded {
        let variable = switch.variable;
        // What is in a list of options stays there.
        let before = set(variable).filter(|text| variable == OPTIONS_OF_JAVA && !text.trim().is_empty());
        let options = words.iter().filter_map(|word| word.to_str());
        let options: Vec<&str> = options.chain(before.iter().flat_map(|text| text.split_ascii_whitespace())).collect();
        let values = (switch.values)(cpus).into_iter();
        for value in values.filter(|value| !options.iter().any(|option| decides(option, value))) {
            let whole = before.as_ref().map_or_else(|| value.clone(), |before| format!("{before} {value}"));
            remedies.push(Remedy::new(format!("{variable}={value}"), Change::Environment(variable.to_owned(), whole)));
        }
    }
    remedies
}

/// Whether an option of Java's says already what another would say: two collectors are an error.
fn decides(option: &str, other: &str) -> bool {
    let collector = |option: &str| option.starts_with("-XX:+Use") && option.ends_with("GC");
    let key = |option: &str| option.split_once('=').map(|(key, _)| key.to_owned());
    collector(option) && collector(other)
        || option.starts_with("-XX:") && key(option).is_some_and(|own| Some(own) == key(other))
}

fn texts(values: &[&str]) -> Vec<String> {
    values.iter().map(|value| (*value).to_owned()).collect()
}

/// One thread, and half of them.
fn fewer(cpus: usize) -> Vec<String> {
    let mut counts = vec![1, cpus / 2];
    counts.retain(|count| *count > 0);
    counts.dedup();
    counts.iter().map(usize::to_string).collect()
}

/// By the number of CPUs, Java sizes its collector, its compilers and its common pool.
fn fewer_for_java(cpus: usize) -> Vec<String> {
    fewer(cpus).iter().map(|count| format!("-XX:ActiveProcessorCount={count}")).collect()
}

/// libuv has four threads, whatever the machine.
fn more_than_four(cpus: usize) -> Vec<String> {
    let mut counts = vec![cpus.max(8), 4 * cpus.max(8)];
    counts.dedup();
    counts.iter().map(usize::to_string).collect()
}

/// .NET's pool begins with a thread for each CPU, and gets one or two more a second. Its variables are hexadecimal.
fn more_for_dotnet(cpus: usize) -> Vec<String> {
    vec![format!("{:X}", 4 * cpus.max(8))]
}

fn contains(bytes: &[u8], sign: &[u8]) -> bool {
    // The first byte is looked for alone, which is fast.
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|byte| *byte == sign[0]) {
        if rest[at..].starts_with(sign) {
            return true;
        }
        rest = &rest[at + 1..];
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runtime_is_known_by_what_its_programs_contain() {
        let of = |bytes: &[u8], cpus| {
            let remedies = of(bytes, &[], cpus, |_| None);
            remedies.into_iter().map(|remedy| remedy.name).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(of(b"\x7fELF..\xff Go buildinf:\x08", 4), "GOMAXPROCS=1 GOMAXPROCS=2 GOGC=200 GOGC=400");
        let openmp = "OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive OMP_WAIT_POLICY=active";
        assert_eq!(of(b"libc.so.6\0libomp.so\0", 2), openmp);
        let spins = "GOMP_SPINCOUNT=1000 GOMP_SPINCOUNT=10000000";
        assert_eq!(of(b"libc.so.6\0libgomp.so.1\0", 2), format!("{openmp} {spins}"));
        assert_eq!(of(b"UV_THREADPOOL_SIZE", 2), "UV_THREADPOOL_SIZE=8 UV_THREADPOOL_SIZE=32");
        assert_eq!(of(b"\0libpython3.13t.so.1.0\0", 2), "PYTHON_GIL=0");
        assert_eq!(of(b"\0libpython3.13.so.1.0\0PYTHON_GIL", 2), "", "it would not start without its lock");
        assert_eq!(of(b"libc.so.6\0nothing of that kind", 2), "");
        assert!(switches(Path::new("/nowhere/at/all"), &[], 2).is_empty());
    }

    #[test]
    fn options_of_java_join_those_that_are_set_and_change_none() {
        let of = |words: &[&str], set: Option<&str>| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            let remedies = of(b"\0libjli.so\0", &words, 2, |_| set.map(str::to_owned));
            let value = |remedy: Remedy| match remedy.change {
                Change::Environment(_, value) => value,
                other => panic!("{other:?}"),
            };
            remedies.into_iter().map(value).collect::<Vec<_>>()
        };
        let both = ["-XX:+UseParallelGC", "-XX:ActiveProcessorCount=1"];
        assert_eq!(of(&["java", "-jar", "shop.jar"], None), both);
        assert_eq!(of(&["java"], Some("-Xmx1g")), both.map(|option| format!("-Xmx1g {option}")));
        assert_eq!(of(&["java", "-XX:+UseSerialGC", "Main"], None), both[1..], "two collectors are an error");
        assert_eq!(
            of(&["java"], Some("-XX:ActiveProcessorCount=4"))[..],
            ["-XX:ActiveProcessorCount=4 -XX:+UseParallelGC"]
        );
        assert_eq!(of(&["java", "-XX:+UseStringDeduplication"], None), both);
    }

    #[test]
    fn switches_of_dotnet_have_the_name_that_all_versions_read() {
        let of = |cpus, set: &[&str]| {
            let remedies =
                of(b"\x7fELF..libhostfxr.so\0", &[], cpus, |name| set.contains(&name).then(|| "0".to_owned()));
            remedies.into_iter().map(|remedy| remedy.name).collect::<Vec<_>>()
        };
        let all = ["COMPlus_gcServer=1", "COMPlus_gcConcurrent=0", "COMPlus_ThreadPool_ForceMinWorkerThreads=20"];
        assert_eq!(of(2, &[]), all);
        assert_eq!(of(16, &[])[2], "COMPlus_ThreadPool_ForceMinWorkerThreads=40", "four for each CPU, hexadecimal");
        assert_eq!(of(2, &["DOTNET_gcServer"]), all[1..], "it is read first");
        assert_eq!(of(2, &["COMPlus_gcServer"]), all, "a remedy sets it");
    }

    #[test]
    fn a_script_heeds_what_its_interpreter_heeds() {
        assert_eq!(interpreter(b"#!/usr/bin/python3 -I\nprint()"), Some("/usr/bin/python3".into()));
        assert_eq!(interpreter(b"#!/usr/bin/env -S A=1 sh\n"), on_path(OsStr::new("sh")));
        assert!(on_path(OsStr::new("sh")).is_some() && on_path(OsStr::new("no such program")).is_none());
        for nothing in [&b"#!"[..], b"#!\n", b"#!/usr/bin/env\n", b"\x7fELF", b"#!\xff\n"] {
            assert_eq!(interpreter(nothing), None);
        }
    }
}
