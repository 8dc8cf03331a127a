//! Instructions that samples pile up behind.

use std::rc::Rc;

use holdup_trace::{Stack, StackId, Stacks, Tid};

use super::super::instruction::{Found, follows_call, inspect};
use super::super::looking::{Between, between_sleeps};
use super::super::spaces::MappedFile;
use super::super::stubs::imported_callee;
use super::super::symbols::{Binary, Loaded};
use super::super::{Names, Resolver, Suspect};
use super::bed::{Files, Map, Workshop, fixture, mapped};
use crate::facts::{HotspotClass, LockName};

/// Where the binary pretends to be mapped.
const BASE: u64 = 0x5555_0000_0000;

fn counter(flags: &[&str]) -> Option<Files> {
    compiled("counter.c", flags)
}

/// The file is called `/counter`, whatever its source.
fn compiled(source: &str, flags: &[&str]) -> Option<Files> {
    let shop = Workshop::new();
    let source = fixture(source);
    let mut words = flags.to_vec();
    words.extend([source.to_str()?, "-o", "counter"]);
    if !cfg!(target_arch = "x86_64") || !shop.run("gcc", &words) {
        println!("skipped: this test decodes what gcc makes for x86_64");
        return None;
    }
    let mut files = Files::default();
    files.add("/counter", std::fs::read(shop.path("counter")).unwrap());
    Some(files)
}

fn binary(files: &Files) -> Box<Binary<'_>> {
    match Binary::load(&MappedFile { path: "/counter".into(), build_id: None }, files, &Rc::default()) {
        Loaded::Ready(binary) => binary,
        _ => panic!("the binary was just made"),
    }
}

/// The function's addresses.
fn extent(binary: &Binary<'_>, name: &str) -> std::ops::Range<u64> {
    let all = binary.text_start()..binary.text_start() + binary.text_len();
    let symbol = all.filter_map(|at| binary.function(at)).find(|symbol| symbol.name == name).expect(name);
    symbol.address..symbol.address + symbol.size
}

/// What is found when samples fall on each address of a function, those that are no beginning of an instruction too.
fn suspects(binary: &Binary<'_>, name: &str) -> Vec<Found> {
    let mut found: Vec<Found> = extent(binary, name).filter_map(|ip| inspect(binary, ip)).collect();
    found.dedup();
    found
}

#[test]
fn atomics_and_pauses_are_found_with_their_variables() {
    let Some(files) = counter(&["-O2"]) else { return };
    let binary = binary(&files);
    let named = |found: &Found| {
        let symbol = binary.variable(found.operand?)?;
        Some((symbol.name, found.operand? - symbol.address))
    };
    for (function, class, variable) in [
        ("count_hit", Some(HotspotClass::Atomic), Some(("g_hits", 0))),
        ("swap", Some(HotspotClass::Atomic), Some(("s_table", 24))),
        ("count_there", Some(HotspotClass::Atomic), None),
        ("count_much", Some(HotspotClass::Atomic), Some(("s_table", 40))),
        ("spin", Some(HotspotClass::Pause), Some(("g_flag", 0))),
        ("await_flag", Some(HotspotClass::Reread), Some(("g_flag", 0))),
        ("await_there", Some(HotspotClass::Reread), None),
        ("take", Some(HotspotClass::Reread), Some(("g_taken", 0))),
        ("raise_by", Some(HotspotClass::Atomic), Some(("g_most", 0))),
        ("poll_rings", Some(HotspotClass::Reread), None),
        ("find_in", None, None),
        ("sum_up", None, None),
        ("last_of", None, None),
        ("plain", None, None),
    ] {
        let found = suspects(&binary, function);
        assert_eq!(found.first().map(|f| f.class), class, "{function}: {found:x?}");
        assert_eq!(found.first().and_then(named), variable, "{function}: {found:x?}");
    }
    let found = suspects(&binary, "count_hit");
    assert!(found[0].text.starts_with("lock ") && found[0].text.contains("(%rip)"), "{found:?}");
    // The first try is not in the loop.
    let polite = suspects(&binary, "take_politely");
    assert!(
        polite.iter().any(|f| f.class == HotspotClass::Reread && f.text.starts_with("lock cmpxchg")),
        "{polite:x?}"
    );
    let spin = suspects(&binary, "spin");
    assert!(spin[0].text == "pause", "{spin:?}");
}

#[test]
fn sleeps_in_loops_that_only_look_are_told_from_others() {
    let Some(files) = compiled("looking.c", &["-O2"]) else { return };
    let binary = binary(&files);
    let does = |name| {
        let mut sleeps =
            extent(&binary, name).filter(|at| matches!(imported_callee(&binary, *at), Some("usleep" | "nanosleep")));
        between_sleeps(&binary, sleeps.next().expect(name))
    };
    for (function, expected) in [
        ("await_flag", Some(Between::Looks)),
        ("await_there", Some(Between::Looks)),
        ("await_locked", Some(Between::Looks)),
        ("await_in_call", Some(Between::Looks)),
        ("await_file", Some(Between::Looks)),
        ("take_or_wait", Some(Between::Looks)),
        ("give_up_after", Some(Between::Looks)),
        ("take_later", Some(Between::Tries)),
        ("make_lock_file", Some(Between::Tries)),
        ("count_down", None),
        ("pace", None),
        ("pace_until_stopped", None),
        ("sleep_through_signals", None),
        ("send_some", None),
        ("send_on", Some(Between::HandsOn)),
        ("work_on", Some(Between::HandsOn)),
        ("once", None),
    ] {
        assert_eq!(does(function), expected, "{function}");
    }
}

#[test]
fn a_sample_is_traced_to_its_frame_and_variable() {
    let Some(files) = counter(&["-O2", "-g"]) else { return };
    let range = extent(&binary(&files), "count_hit");
    let ip = range.clone().find(|ip| inspect(&binary(&files), *ip).is_some()).unwrap();
    let (mut names, mut stacks) = (Names::new(), Stacks::new());
    let map = text_map(&files);
    names.feed(&mapped(&map, None));
    let bias = binary(&files).bias(super::super::spaces::Region {
        start: map.start,
        end: map.end,
        offset: map.offset,
        file: super::super::spaces::FileId(0),
    });
    let id = stacks.intern(&Stack { user: vec![ip + bias.unwrap()], ..Stack::default() });
    let in_kernel = stacks.intern(&Stack { kernel: vec![1], user: vec![ip + bias.unwrap()], ..Stack::default() });
    let space = names.space(Tid(1));
    let mut resolver = Resolver::new(names, &stacks, &files);
    let suspect: Suspect = resolver.suspect(space, id).expect("a suspect");
    assert_eq!(suspect.frame.function.as_deref(), Some("count_hit"));
    assert!(suspect.frame.line.is_some());
    assert_eq!(suspect.variable, Some(LockName::Symbol { name: "g_hits".to_owned(), offset: 0 }));
    assert!(resolver.suspect(space, in_kernel).is_none(), "the time went to the kernel");
    assert!(resolver.suspect(space, StackId(99)).is_none());
}

/// How the loader would map the code.
fn text_map(files: &Files) -> Map {
    let binary = binary(files);
    let start = binary.text_start() & !0xfff;
    let end = (binary.text_start() + binary.text_len() + 0xfff) & !0xfff;
    Map { start: BASE + start, end: BASE + end, offset: start, path: "/counter".to_owned() }
}

#[test]
fn a_stripped_binary_is_decoded_all_the_same() {
    let Some(files) = counter(&["-O2"]) else { return };
    let whole = binary(&files);
    let expected = suspects(&whole, "count_hit");
    let range = extent(&whole, "count_hit");
    let Some(files) = counter(&["-O2", "-s"]) else { return };
    let bare = binary(&files);
    let found: Vec<Found> = range.filter_map(|ip| inspect(&bare, ip)).collect();
    assert!(found.iter().any(|found| expected.contains(found)), "{found:x?} {expected:x?}");
}

#[test]
fn return_addresses_follow_calls() {
    let Some(files) = counter(&["-O2"]) else { return };
    let binary = binary(&files);
    let main = extent(&binary, "main");
    let returns = main.clone().skip(8).filter(|address| follows_call(&binary, *address)).count();
    assert!((4..main.count() / 2).contains(&returns), "{returns}");
}
