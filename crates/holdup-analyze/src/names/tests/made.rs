//! Code that runtimes made, and the maps that they write of it.

use holdup_trace::{Event, Stack, Stacks, Tid, What};

use super::super::jit_dump::made;
use super::super::{Frame, JAVA, Names, Resolver};
use super::bed::{Files, Map, functions, mapped};
use crate::Problem;

/// A map of generated code, and for each stack one address in it.
fn told_by_map(runtime: &str, codes: &[(u64, &str)], map: &str, addresses: &[u64]) -> (Vec<Frame>, Vec<Problem>) {
    let map_at = |start, path: &str| Map { start, end: start + 0x1000, offset: 0, path: path.to_owned() };
    let mut names = Names::new();
    names.feed(&mapped(&map_at(0x40_0000, runtime), None));
    [0x1000, 0x2000].iter().for_each(|start| names.feed(&mapped(&map_at(*start, "//anon"), None)));
    codes.iter().for_each(|(start, path)| names.feed(&mapped(&map_at(*start, path), None)));
    let mut stacks = Stacks::new();
    // A caller's address is behind its call.
    let at = |address| Stack { user: vec![0x40_0010, address + 1], ..Stack::default() };
    let ids: Vec<_> = addresses.iter().map(|address| stacks.intern(&at(*address))).collect();
    let space = names.space(Tid(1));
    let mut files = Files::default();
    files.code_map = Some(map.to_owned());
    let mut resolver = Resolver::new(names, &stacks, &files);
    let last = |id| resolver.call_path(space, id).last().cloned().unwrap();
    (ids.into_iter().map(last).collect(), resolver.problems())
}

#[test]
fn a_map_names_what_the_stacks_lead_through() {
    let map = "1000 10 JS:*sell file:///srv/shop.js:7:3\nnonsense\n1100 10 JS:*buy file:///srv/shop.js:9:3\n";
    let (frames, problems) = told_by_map("/usr/bin/node", &[], map, &[0x1000, 0x1105, 0x1200]);
    assert_eq!(functions(&frames), ["sell", "buy", "?"]);
    assert_eq!((frames[1].file.as_deref(), frames[1].line), (Some("/srv/shop.js"), Some(9)));
    let is_of_map = |problem: &Problem| matches!(problem, Problem::PartialCodeMap { .. } | Problem::NoCodeMap { .. });
    assert!(!problems.iter().any(is_of_map), "one of three is no matter: {problems:?}");
}

#[test]
fn a_map_that_names_little_is_told() {
    let told = |named: u64| {
        let map: String = (0..named).map(|n| format!("{:x} 4 JS:*f{n} /srv/a.js:1:1\n", 0x1000 + 16 * n)).collect();
        let addresses: Vec<u64> = (0..100).map(|n| 0x1000 + 16 * n).collect();
        let (_, problems) = told_by_map("/usr/bin/node", &[], &map, &addresses);
        problems.into_iter().find_map(|problem| match problem {
            Problem::PartialCodeMap { path, hits, named, switch } => {
                assert!(switch.is_some_and(|switch| switch.starts_with("node")));
                Some((path, hits, named))
            }
            _ => None,
        })
    };
    assert_eq!(told(0), Some(("/tmp/perf-1.map".to_owned(), 100, 0)));
    assert_eq!(told(60), Some(("/tmp/perf-1.map".to_owned(), 100, 60)));
    assert_eq!(told(95), None);
}

/// Where looks tell what Java executes, its map completes the names and changes nothing else: what is named by it is
/// taken for the machine's as well, and so are the waits that lead through it.
#[test]
fn a_map_beside_looks_leaves_to_them_what_waits_are_of() {
    let codes = [(0x1000, "[java] Shop.sell")];
    let map = "1000 1000 void Shop.old()\n2000 100 _complete_monitor_locking_Java\n";
    let (frames, problems) = told_by_map("/usr/lib/libjvm.so", &codes, map, &[0x1010, 0x2010]);
    assert_eq!(functions(&frames), ["Shop.sell", "_complete_monitor_locking_Java"]);
    assert!(frames.iter().all(|frame| &*frame.module == JAVA), "{frames:?}");
    assert!(!problems.iter().any(|problem| matches!(problem, Problem::PartialCodeMap { .. })), "{problems:?}");
}

/// Where memory was used again, each stack has the names of the code that was there when it was seen.
#[test]
fn a_dump_names_what_was_there_at_the_time() {
    let map_at = |start, path: &str| Map { start, end: start + 0x1000, offset: 0, path: path.to_owned() };
    let mut names = Names::new();
    let maps = [(0x40_0000, "/usr/bin/julia"), (0x1000, "//anon"), (0x9000, "/tmp/jit-1.dump (deleted)")];
    maps.iter().for_each(|(start, path)| names.feed(&mapped(&map_at(*start, path), None)));
    let mut stacks = Stacks::new();
    let ids: Vec<_> = [(0x40_0010, 150), (0x40_0020, 250), (0x40_0030, 0)]
        .iter()
        .map(|(ip, time_ns)| {
            let stack = stacks.intern(&Stack { user: vec![*ip, 0x1009], ..Stack::default() });
            for again in [0, 1000] {
                names.see(&Event { time_ns: time_ns + again, tid: Tid(1), cpu: 0, what: What::Sample { stack } });
            }
            stack
        })
        .collect();
    let mut files = Files::default();
    let lines = made::lines(0x1000, &[(0x1000, 5, b"/srv/fill.jl"), (0x1008, 6, b"\xff"), (0x1009, 7, b"\xff")]);
    let records = [
        made::header(0),
        lines,
        made::load(100, 0x1000, 0x20, 1, "fill"),
        made::load(200, 0x1000, 0x20, 2, "empty"),
        made::load(300, 0x5000, 0x20, 3, "elsewhere"),
    ];
    files.jit_dump = Some(records.concat());
    files.code_map = Some("1000 20 of the map\n".to_owned());
    let space = names.space(Tid(1));
    let mut resolver = Resolver::new(names, &stacks, &files);
    let last: Vec<Frame> =
        ids.iter().map(|id| resolver.call_path(space, *id).last().cloned().expect("it has frames")).collect();
    assert_eq!(functions(&last), ["fill", "empty", "fill"]);
    assert_eq!((last[0].file.as_deref(), last[0].line), (Some("/srv/fill.jl"), Some(6)), "of the call before");
    assert_eq!((last[1].file.as_deref(), last[1].line), (None, None));
    assert_eq!(functions(&resolver.frames_at(space, 0x1008)), ["empty"], "at last");
    assert_eq!(resolver.problems(), [Problem::Unreadable { path: "/usr/bin/julia".to_owned(), hits: 3 }]);
}
