//! Variables by address.

use std::cell::Cell;
use std::rc::Rc;

use holdup_trace::Tid;

use super::super::spaces::MappedFile;
use super::super::symbols::{Binary, Loaded};
use super::super::{Modules, Parsed, Resolver};
use super::bed::{Dump, Files, Workshop, fixture, table};
use crate::facts::LockName;

#[test]
fn a_lock_is_named_after_its_variable() {
    for flags in [&["-O2", "-g"][..], &["-O2"], &["-O2", "-no-pie"], &["-O2", "-static"], &["-O2", "-static-pie"]] {
        let shop = Workshop::new();
        let Some(program) = shop.c_program("waits.c", flags) else { return };
        let dump = Dump::of(&program, "mutex");
        let (names, files) = (dump.names(), dump.files());
        let space = names.space(Tid(1));
        let (stacks, _) = table(&dump.stack(0));
        let mut resolver = Resolver::new(names, &stacks, &files);
        let mut at = |name: &str, offset: u64| resolver.variable(space, dump.addresses[name] + offset);
        let symbol = |name: &str, offset| Some(LockName::Symbol { name: name.to_owned(), offset });
        // Line information knows the member too.
        let (name, offset) = if flags.contains(&"-g") { ("g_registry.lock", 0) } else { ("g_registry", 24) };
        assert_eq!(at("lock", 0), symbol(name, offset), "{flags:?}");
        assert_eq!(at("lock", 12), symbol(name, offset + 12), "{flags:?}");
        assert_eq!(at("cond", 40), symbol("s_cond", 40), "{flags:?}");
        assert_eq!((at("heap", 0), at("stack", 0)), (None, None), "{flags:?}");
        assert_eq!(resolver.variable(space, 8), None);
        assert_eq!(resolver.variable(space, u64::MAX), None);
    }
}

#[test]
fn variables_of_cpp_are_demangled() {
    let shop = Workshop::new();
    let Some(object) = shop.dump_object() else { return };
    for (lines, name) in [("-g0", "shared::g_pool"), ("-g", "shared::g_pool.lock"), ("-gz", "shared::g_pool.lock")] {
        let words = [fixture("pool.cpp"), object.clone(), "-g".into(), lines.into(), "-o".into(), "pool".into()];
        if !shop.run("g++", &words) {
            return;
        }
        assert_eq!(pool_at(&shop, 4), Some(LockName::Symbol { name: name.to_owned(), offset: 4 }));
    }
}

/// Counts how often files are asked for.
struct Counted<'a>(&'a Files, Cell<u32>);

impl Modules for Counted<'_> {
    fn file(&self, path: &str, build_id: Option<&[u8]>) -> Option<&[u8]> {
        self.1.update(|count| count + 1);
        self.0.file(path, build_id)
    }

    fn debug_file(&self, path: &str, build_id: Option<&[u8]>, link: Option<&[u8]>) -> Option<&[u8]> {
        self.0.debug_file(path, build_id, link)
    }

    fn kernel_symbols(&self) -> &[(u64, Box<str>)] {
        &[]
    }
}

#[test]
fn what_was_read_for_one_report_is_not_read_again_for_the_next() {
    let shop = Workshop::new();
    let Some(program) = shop.c_program("waits.c", &["-O2", "-g"]) else { return };
    let dump = Dump::of(&program, "mutex");
    let files = dump.files();
    let counted = Counted(&files, Cell::new(0));
    let mut parsed = Parsed::default();
    let mut asked = Vec::new();
    for _ in 0..3 {
        let (names, (stacks, _)) = (dump.names(), table(&dump.stack(0)));
        let space = names.space(Tid(1));
        let mut resolver = Resolver::new(names, &stacks, &counted).with_files(&mut parsed);
        assert!(resolver.variable(space, dump.addresses["lock"]).is_some());
        parsed = resolver.into_files();
        asked.push(counted.1.get());
    }
    assert!(asked[0] > 0);
    assert_eq!(asked, [asked[0]; 3]);
}

fn pool_at(shop: &Workshop, offset: u64) -> Option<LockName> {
    let dump = Dump::of(&shop.path("pool"), "mutex");
    let (names, files) = (dump.names(), dump.files());
    let space = names.space(Tid(1));
    let (stacks, _) = table(&dump.stack(0));
    Resolver::new(names, &stacks, &files).variable(space, dump.addresses["pool"] + offset)
}

#[test]
fn the_way_to_a_member_ends_at_the_lock() {
    let shop = Workshop::new();
    std::fs::write(shop.path("ways.c"), WAYS).unwrap();
    if !shop.run("gcc", &["-g", "-O1", "ways.c", "-o", "ways"]) {
        return;
    }
    let mut files = Files::default();
    files.add("/ways", std::fs::read(shop.path("ways")).unwrap());
    let mapped = MappedFile { path: "/ways".into(), build_id: None };
    let Loaded::Ready(binary) = Binary::load(&mapped, &files, &Rc::default()) else { panic!("it was just compiled") };
    let variable = |name: &str| binary.variables().iter().find(|symbol| symbol.name == name).copied().expect(name);
    for (name, offset, path, left) in [
        ("g_buckets", 0, "[0].lock", 0),
        ("g_buckets", 3 * 56 + 8, "[3].lock", 8),
        ("g_buckets", 3 * 56 + 44, "[3].hits", 4),
        ("g_nested", 8 + 56 + 10, ".buckets[1].lock", 10),
        ("g_nested", 3, ".first", 3),
        ("g_word", 2, "", 2),
    ] {
        let found = binary.member(variable(name), offset);
        assert_eq!(found, Some((path.to_owned(), left)), "{name}+{offset}");
    }
}

const WAYS: &str = "
#include <pthread.h>
struct bucket { pthread_mutex_t lock; long hits; long more; };
struct bucket g_buckets[8];
struct { long first; struct bucket buckets[4]; } g_nested;
int g_word;
int main(void) { g_word = 1; g_buckets[1].hits = g_nested.first; return 0; }
";
