//! Variables by address.

use holdup_trace::Tid;

use super::super::Resolver;
use super::bed::{Dump, Workshop, fixture, table};
use crate::facts::LockName;

#[test]
fn a_lock_is_named_after_its_variable() {
    for flags in
        [&["-O2", "-g"][..], &["-O2"], &["-O2", "-no-pie"], &["-O2", "-static"], &["-O2", "-static-pie"]]
    {
        let shop = Workshop::new();
        let Some(program) = shop.c_program("waits.c", flags) else { return };
        let dump = Dump::of(&program, "mutex");
        let (names, files) = (dump.names(), dump.files());
        let space = names.space(Tid(1));
        let (stacks, _) = table(&dump.stack(0));
        let mut resolver = Resolver::new(names, &stacks, &files);
        let mut at = |name: &str, offset: u64| resolver.variable(space, dump.addresses[name] + offset);
        let symbol = |name: &str, offset| Some(LockName::Symbol { name: name.to_owned(), offset });
        assert_eq!(at("lock", 0), symbol("g_registry", 24), "{flags:?}");
        assert_eq!(at("lock", 12), symbol("g_registry", 36));
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
    let words = [fixture("pool.cpp"), object, "-o".into(), "pool".into()];
    if !shop.run("g++", &words) {
        return;
    }
    let dump = Dump::of(&shop.path("pool"), "mutex");
    let (names, files) = (dump.names(), dump.files());
    let space = names.space(Tid(1));
    let (stacks, _) = table(&dump.stack(0));
    let name = Resolver::new(names, &stacks, &files).variable(space, dump.addresses["pool"] + 4);
    assert_eq!(name, Some(LockName::Symbol { name: "shared::g_pool".to_owned(), offset: 4 }));
}
