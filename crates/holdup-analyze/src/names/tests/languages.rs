//! Programs in C++, Rust and Go.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::rc::Rc;

use holdup_trace::FutexOp;

use super::super::lines::Lines;
use super::super::place::Place;
use super::super::spaces::MappedFile;
use super::super::symbols::{Binary, Loaded};
use super::super::{Role, primitive};
use super::bed::{Dump, Files, Workshop, fixture, functions, own};
use crate::facts::Primitive;

const WAIT_BITSET: FutexOp = FutexOp(FutexOp::WAIT_BITSET | 128);

fn pool(shop: &Workshop, flags: &[&str]) -> Option<PathBuf> {
    let (object, source, out) = (shop.dump_object()?, fixture("pool.cpp"), shop.path("pool"));
    let mut words: Vec<&OsStr> = flags.iter().map(OsStr::new).collect();
    words.extend([source.as_os_str(), object.as_os_str(), OsStr::new("-o"), out.as_os_str()]);
    shop.run("g++", &words).then_some(out)
}

fn shop_in_rust(shop: &Workshop) -> Option<PathBuf> {
    let (object, source, out) = (shop.dump_object()?, fixture("shop.rs"), shop.path("shop"));
    let link = format!("link-arg={}", object.display());
    let words = ["--edition", "2024", "-O", "-C", "debuginfo=1", "-C", &link, "-o"];
    let mut words: Vec<&OsStr> = words.iter().map(OsStr::new).collect();
    words.extend([out.as_os_str(), source.as_os_str()]);
    shop.run("rustc", &words).then_some(out)
}

#[test]
fn cpp_names_are_short_and_the_standard_library_is_passed_over() {
    for flags in [&["-O2", "-g"][..], &["-O0", "-g"], &["-O2"]] {
        let shop = Workshop::new();
        let Some(program) = pool(&shop, flags) else { return };
        let dump = Dump::of(&program, "mutex");
        let call_path = dump.call_path(128, &dump.files());
        assert_eq!(own(&call_path).first(), Some(&"Pool::get"), "{flags:?}: {call_path:#?}");
        assert_eq!(primitive::classify(FutexOp(128), &call_path), Primitive::Mutex);
        let dump = Dump::of(&program, "cond");
        let call_path = dump.call_path(128, &dump.files());
        assert_eq!(own(&call_path).first(), Some(&"Pool::take<unsigned long>"), "{flags:?}: {call_path:#?}");
        assert_eq!(primitive::classify(WAIT_BITSET, &call_path), Primitive::Condvar);
    }
}

#[test]
fn rusts_ways_to_wait_are_told_apart() {
    let shop = Workshop::new();
    let Some(program) = shop_in_rust(&shop) else { return };
    for (mode, kind, caller) in [
        ("mutex", Primitive::RustMutex, "shop::take_stock"),
        ("park", Primitive::Park, "shop::wait"),
        ("recv", Primitive::Park, "shop::wait"),
        ("condvar", Primitive::Condvar, "shop::wait"),
        ("rwlock", Primitive::RwLock, "shop::wait"),
        ("join", Primitive::Join, "shop::wait"),
        ("barrier", Primitive::Barrier, "shop::wait"),
    ] {
        let dump = Dump::of(&program, mode);
        let call_path = dump.call_path(128, &dump.files());
        assert_eq!(own(&call_path).first(), Some(&caller), "{mode}: {call_path:#?}");
        assert_eq!(primitive::classify(WAIT_BITSET, &call_path), kind, "{mode}: {:#?}", functions(&call_path));
        let lines = call_path.iter().filter(|frame| frame.role == Role::Program).take(1);
        assert!(lines.clone().all(|frame| frame.line.is_some()), "{mode}: {:#?}", lines.collect::<Vec<_>>());
    }
}

#[test]
fn go_functions_have_names_stripped_or_not() {
    let shop = Workshop::new();
    let source = fixture("served.go");
    for flags in ["-ldflags=", "-ldflags=-s -w"] {
        let words =
            [OsStr::new("build"), OsStr::new(flags), OsStr::new("-o"), OsStr::new("served"), source.as_os_str()];
        if !shop.run("go", &words) {
            return;
        }
        let mut files = Files::default();
        files.add("/served", std::fs::read(shop.path("served")).unwrap());
        let mapped = MappedFile { path: "/served".into(), build_id: None };
        let Loaded::Ready(binary) = Binary::load(&mapped, &files, &Rc::default()) else {
            panic!("a Go binary is read")
        };
        let get = (0..binary.text_len()).map(|at| binary.text_start() + at).step_by(16);
        let mut found = get.filter_map(|address| Some((address, binary.function(address)?)));
        let (address, symbol) = found.find(|(_, symbol)| symbol.name == "main.(*pool).get").expect(flags);
        assert!(address - symbol.address < symbol.size && symbol.size < 4096, "{symbol:?}");
        let first = binary.function(symbol.address.wrapping_add(symbol.size).wrapping_sub(1));
        assert_eq!(first.map(|symbol| symbol.name), Some("main.(*pool).get"));
        let places = binary.lines().expect("line information").places(symbol.address);
        assert!(places.last().unwrap().file.as_deref().is_some_and(|file| file.ends_with("served.go")), "{places:?}");
    }
}

#[test]
fn gos_runtime_knows_the_lines_that_debug_information_has() {
    let shop = Workshop::new();
    let source = fixture("served.go");
    for mode in ["-buildmode=exe", "-buildmode=pie"] {
        let words = [OsStr::new("build"), OsStr::new(mode), OsStr::new("-o"), OsStr::new("served"), source.as_os_str()];
        if !shop.run("go", &words) {
            return;
        }
        let mut files = Files::default();
        files.add("/served", std::fs::read(shop.path("served")).unwrap());
        let mapped = MappedFile { path: "/served".into(), build_id: None };
        let Loaded::Ready(binary) = Binary::load(&mapped, &files, &Rc::default()) else {
            panic!("a Go binary is read")
        };
        let (debug, runtime) = (binary.lines().unwrap(), Lines::of_go(&binary.file).expect(mode));
        let (mut all, mut lines, mut paths, mut inlined) = (0, 0, 0, 0);
        for address in (0..binary.text_len()).step_by(64).map(|at| binary.text_start() + at) {
            let (wanted, found) = (debug.places(address), runtime.places(address));
            let Some(first) = wanted.first().filter(|place| place.line.is_some()) else { continue };
            let functions = |places: &[Place]| places.iter().map(|place| place.function.clone()).collect::<Vec<_>>();
            all += 1;
            inlined += u32::from(wanted.len() > 1);
            lines += u32::from(found.first().is_some_and(|at| (&at.file, at.line) == (&first.file, first.line)));
            paths += u32::from(functions(&wanted) == functions(&found));
        }
        assert!(all > 2_000 && inlined * 50 > all, "{mode}: {all} places, {inlined} with inlined functions");
        assert!(lines * 100 > all * 95, "{mode}: {lines} of {all} lines are the same");
        assert!(paths * 100 > all * 90, "{mode}: {paths} of {all} inlined paths are the same");
    }
}
