//! Damaged binaries and absurd stacks: whatever the bytes, there is an answer.

use fastrand::Rng;
use holdup_trace::{Event, FutexOp, Registers, Stack, Stacks, Tid, What, Word};
use object::read::{Object as _, ObjectSection as _};

use std::path::Path;

use super::super::{NoModules, Resolver};
use super::bed::{Dump, Files, Workshop, mapped, table};
use crate::Problem;

/// Asks everything that can be asked.
fn ask_all(dump: &Dump, files: &Files) {
    let (names, space) = (dump.names(), dump.names().space(Tid(1)));
    let mut stacks = Stacks::new();
    let ids = [stacks.intern(&dump.stack(128)), stacks.intern(&dump.stack(0))];
    let mut resolver = Resolver::new(names, &stacks, files);
    for id in ids {
        let call_path = resolver.call_path(space, id);
        resolver.primitive(FutexOp(0), &call_path);
        resolver.suspect(space, id);
    }
    for address in dump.addresses.values() {
        resolver.variable(space, *address);
    }
    resolver.problems();
}

#[test]
fn no_damage_to_a_binary_makes_the_analysis_panic() {
    let shop = Workshop::new();
    for (flags, seed) in [(&["-O2", "-g"], 0x9e37_79b9_7f4a_7c15), (&["-O2", "-gz"], 7)] {
        let Some(program) = shop.c_program("waits.c", flags) else { return };
        damage(&program, seed);
    }
}

/// Damages a program in many ways and asks everything about each.
fn damage(program: &Path, seed: u64) {
    let dump = Dump::of(program, "mutex");
    let path = program.to_str().unwrap();
    let whole = std::fs::read(program).unwrap();
    let mut random = Rng::with_seed(seed);
    let mut files = Files::default();
    for round in 0..150 {
        let mut bytes = whole.clone();
        match round % 3 {
            0 => bytes.truncate(random.usize(..whole.len().max(1))),
            // Headers and section headers hurt most.
            1 => (0..=random.usize(..6)).for_each(|_| {
                let near_end = random.usize(..2) == 0;
                let at = random.usize(..2000);
                let at = if near_end { whole.len() - 1 - at } else { at };
                bytes[at] = random.u8(..);
            }),
            _ => (0..random.usize(..400)).for_each(|_| {
                let at = random.usize(..whole.len().max(1));
                bytes[at] = random.u8(..);
            }),
        }
        files.add(path, bytes);
        println!("seed {seed:#x}, round {round}");
        ask_all(&dump, &files);
    }
}

#[test]
fn absurd_stacks_have_short_call_paths() {
    let shop = Workshop::new();
    let Some(program) = shop.c_program("waits.c", &["-O2", "-g"]) else { return };
    let dump = Dump::of(&program, "mutex");
    let files = dump.files();
    let names = dump.names();
    let space = names.space(Tid(1));
    let mut random = Rng::with_seed(7);
    let mut stacks = Stacks::new();
    let code: Vec<u64> = dump.maps.iter().flat_map(|map| [map.start, map.end - 1, dump.ip]).collect();
    let ids: Vec<_> = (0..500)
        .map(|_| {
            let any = |random: &mut Rng| match random.usize(..4) {
                0 => random.u64(..),
                1 => u64::MAX - random.u64(..) % 16,
                _ => code[random.usize(..code.len().max(1))].wrapping_add(random.u64(..) % 4096),
            };
            let mut words = Vec::new();
            for at in 0..64_u16 {
                match random.usize(..4) {
                    0 => words.push((at, Word::Code(any(&mut random)))),
                    1 => words.push((at, Word::Stack(random.i32(..) % 600))),
                    2 => words.push((at, Word::Stack(random.i32(..)))),
                    _ => {}
                }
            }
            let fp = if random.usize(..2) == 0 {
                Word::Stack(8 * random.usize(..64) as i32)
            } else {
                Word::Code(any(&mut random))
            };
            stacks.intern(&Stack {
                kernel: vec![any(&mut random)],
                user: (0..random.usize(..300)).map(|_| any(&mut random)).collect(),
                registers: Some(Registers { ip: any(&mut random), fp, lr: any(&mut random) }),
                words,
                depth: 64,
            })
        })
        .collect();
    let mut resolver = Resolver::new(names, &stacks, &files);
    for id in ids {
        let call_path = resolver.call_path(space, id);
        let addresses = call_path.iter().filter(|frame| !frame.inlined).count();
        assert!(addresses <= super::super::unwind::MAX_FRAMES + 1, "{addresses}");
        resolver.suspect(space, id);
    }
}

#[test]
fn what_cannot_be_read_is_told_once() {
    let shop = Workshop::new();
    let Some(program) = shop.c_program("waits.c", &["-O2", "-fno-omit-frame-pointer", "-Wl,--build-id"]) else {
        return;
    };
    let dump = Dump::of(&program, "mutex");
    let path = program.to_str().unwrap().to_owned();
    let problems = |files: &dyn super::super::Modules, build_id: Option<&[u8]>| {
        let mut names = dump.names();
        if let Some(map) = dump.maps.iter().find(|map| map.path == path) {
            names.feed(&mapped(map, build_id));
        }
        let space = names.space(Tid(1));
        let (stacks, id) = table(&dump.stack(128));
        let mut resolver = Resolver::new(names, &stacks, files);
        let call_path = resolver.call_path(space, id);
        let named = call_path.iter().any(|frame| frame.function.as_deref() == Some("worker"));
        let about = resolver.problems().into_iter().filter(|problem| match problem {
            Problem::Unreadable { path: of, .. }
            | Problem::Replaced { path: of }
            | Problem::NoLines { path: of, .. } => *of == path,
            _ => true,
        });
        (about.collect::<Vec<_>>(), named)
    };
    let files = dump.files();
    let (found, named) = problems(&files, None);
    assert!(matches!(found[..], [Problem::NoLines { hits, .. }] if hits > 0) && named, "{found:?}");
    let (found, named) = problems(&files, Some(&[1; 20]));
    assert!(matches!(found[..], [Problem::Replaced { .. }]) && !named, "{found:?}");
    let (found, named) = problems(&NoModules, None);
    assert!(matches!(found[..], [Problem::Unreadable { hits, .. }] if hits > 0) && !named, "{found:?}");
    let mut garbage = dump.files();
    garbage.add(&path, b"#!/bin/sh".to_vec());
    assert!(matches!(problems(&garbage, None).0[..], [Problem::Unreadable { .. }]));
}

/// The section says that it becomes a gigabyte. Names of the symbol table are there all the same.
#[test]
fn line_information_that_would_fill_the_memory_is_not_unpacked() {
    let shop = Workshop::new();
    let flags = ["-O2", "-g", "-gz", "-fno-omit-frame-pointer"];
    let Some(program) = shop.c_program("waits.c", &flags) else { return };
    let dump = Dump::of(&program, "mutex");
    let path = program.to_str().unwrap();
    let mut bytes = std::fs::read(&program).unwrap();
    let section = |bytes: &[u8]| {
        let file = object::File::parse(bytes).unwrap();
        file.section_by_name(".debug_info").unwrap().file_range().unwrap().0 as usize
    };
    // Behind the kind of compression.
    let size_at = section(&bytes) + 8;
    bytes[size_at..size_at + 8].copy_from_slice(&(1_u64 << 30).to_le_bytes());
    let mut files = dump.files();
    files.add(path, bytes);
    let (names, space) = (dump.names(), dump.names().space(Tid(1)));
    let (stacks, id) = table(&dump.stack(128));
    let mut resolver = Resolver::new(names, &stacks, &files);
    let call_path = resolver.call_path(space, id);
    assert!(call_path.iter().any(|frame| frame.function.as_deref() == Some("worker") && frame.line.is_none()));
    let problems = resolver.problems();
    let costly =
        |problem: &Problem| matches!(problem, Problem::CostlyLines { path: of, hits } if of == path && *hits > 0);
    assert!(problems.iter().any(costly), "{problems:?}");
}

#[test]
fn an_exec_hides_what_was_mapped_before() {
    let shop = Workshop::new();
    let Some(program) = shop.c_program("waits.c", &["-O2"]) else { return };
    let dump = Dump::of(&program, "mutex");
    let mut names = dump.names();
    let before = names.space(Tid(1));
    let exec = What::Named { name: "other".into(), exec: true };
    names.feed(&Event { time_ns: 0, tid: Tid(1), cpu: 0, what: exec });
    let after = names.space(Tid(1));
    let (stacks, id) = table(&dump.stack(128));
    let files = dump.files();
    let mut resolver = Resolver::new(names, &stacks, &files);
    assert!(resolver.call_path(before, id).iter().any(|frame| frame.function.is_some()));
    let call_path = resolver.call_path(after, id);
    assert!(call_path.iter().all(|frame| &*frame.module == "[unknown]" && frame.function.is_none()), "{call_path:?}");
}
