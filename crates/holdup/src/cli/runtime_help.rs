//! `holdup record --runtime-help`: has the runtimes of recorded programs write the names of the code that they make.

use std::ffi::OsString;

use holdup_analyze::map_switch;
use holdup_record::{AskedForMap, Children};

/// Switches for a program that is yet to be started, as its environment: what the user has set there stays. An older
/// Java passes over those that it does not know.
pub fn environment(set: impl Fn(&str) -> Option<OsString>) -> Vec<(OsString, OsString)> {
    const SWITCHES: [(&str, &str); 4] = [
        ("NODE_OPTIONS", "--perf-basic-prof --interpreted-frames-native-stack"),
        ("JAVA_TOOL_OPTIONS", "-XX:+IgnoreUnrecognizedVMOptions -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit"),
        ("DOTNET_PerfMapEnabled", "1"),
        // Before .NET 6.
        ("COMPlus_PerfMapEnabled", "1"),
    ];
    let with = |(name, switches): (&str, &str)| {
        let value = match set(name).filter(|value| !value.is_empty()) {
            Some(mut value) if switches.starts_with('-') => {
                value.push(" ");
                value.push(switches);
                value
            }
            Some(value) => value,
            None => switches.into(),
        };
        (name.into(), value)
    };
    SWITCHES.map(with).into()
}

/// Asks these processes and what they have started, as far as they run; what came of it, as sentences without a full
/// stop.
pub fn ask(pids: &[u32], started: bool) -> Vec<String> {
    let mut notes = Vec::new();
    let mut alive = 0;
    for pid in holdup_record::with_children(pids, Children::All) {
        let asked = holdup_record::ask_for_map(pid);
        alive += usize::from(!matches!(&asked, AskedForMap::NoJava(files) if files.is_empty()));
        notes.extend(note(pid, &asked, || holdup_record::code_map(pid, 0).is_ok_and(|map| map.is_some())));
    }
    if alive == 0 && !started {
        let ended = "all processes had ended: a runtime can only be asked while it runs; '--for TIME' ends before that";
        notes.push(ended.to_owned());
    }
    notes
}

fn note(pid: u32, asked: &AskedForMap, has_map: impl Fn() -> bool) -> Option<String> {
    match asked {
        AskedForMap::Written(path) => {
            Some(format!("process {pid} wrote the names of its code to {}, which stays there", path.display()))
        }
        AskedForMap::Refused(why) => Some(format!("process {pid} wrote no names of its code: {why}")),
        AskedForMap::NoJava(files) => {
            let switch = map_switch(files.iter().map(String::as_str)).filter(|_| !has_map())?;
            Some(format!("process {pid} names its code only if it is started so: '{switch} ...'"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switches_join_those_that_are_set() {
        let found = environment(|name| (name == "NODE_OPTIONS").then(|| "--max-old-space-size=99".into()));
        let of = |name: &str| found.iter().find(|(set, _)| set == name).map(|(_, value)| value.to_str().unwrap());
        assert_eq!(
            of("NODE_OPTIONS"),
            Some("--max-old-space-size=99 --perf-basic-prof --interpreted-frames-native-stack")
        );
        assert!(of("JAVA_TOOL_OPTIONS").unwrap().starts_with("-XX:+IgnoreUnrecognizedVMOptions "));
        assert_eq!(of("DOTNET_PerfMapEnabled"), Some("1"));
        assert_eq!(of("COMPlus_PerfMapEnabled"), Some("1"));
    }

    #[test]
    fn what_came_of_it_is_said_in_words() {
        let said = |asked, has_map| note(7, &asked, || has_map);
        let files = |path: &str| AskedForMap::NoJava(vec!["/lib/libc.so.6".to_owned(), path.to_owned()]);
        let written = said(AskedForMap::Written("/tmp/perf-7.map".into()), true).unwrap();
        assert!(written.contains("/tmp/perf-7.map, which stays"), "{written}");
        assert!(said(AskedForMap::Refused("it ended".into()), false).unwrap().ends_with(": it ended"));
        assert!(said(files("/usr/bin/node"), false).unwrap().contains("node --perf-basic-prof"));
        assert_eq!(said(files("/usr/bin/node"), true), None, "it was started so");
        assert_eq!(said(files("/usr/bin/sleep"), false), None);
        assert_eq!(said(files("/usr/bin/python3.11"), false), None, "read from outside");
        let gone = ask(&[u32::MAX >> 1], false);
        assert!(gone[0].contains("had ended") && ask(&[u32::MAX >> 1], true).is_empty(), "{gone:?}");
    }
}
