//! The library with checks stops a misused lock with a message that names it; nothing unwinds into C.

use std::os::unix::process::ExitStatusExt;

use super::toolchain::{COMPILERS, Mode, checked_prefix, compile, has, run, text};

const SIGABRT: i32 = 6;

#[test]
fn every_misuse_of_every_lock_is_named() {
    if !has(&["gcc"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = compile(COMPILERS[0], Mode::Plain, "tests/programs/misuse.c", checked_prefix(), folder.path());
    let ends = |what: &str, way: &str, says: &[&str]| {
        let output = run(&program, &[what, way]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        for words in says {
            assert!(said.contains(words), "{what} {way} does not say '{words}': {}", text(&output));
        }
        let aborted = output.status.signal() == Some(SIGABRT) || output.status.code() == Some(128 + SIGABRT);
        assert!(aborted, "{what} {way}: {}", text(&output));
    };
    let locks = holdup_locks::LOCKS.iter().map(|lock| lock.name);
    for name in locks.chain(holdup_locks::RW_LOCKS.iter().map(|lock| lock.name)) {
        let id = name.replace('-', "_");
        let named = format!("holdup-locks: {name} lock at 0x");
        ends(&id, "unlock-free", &[&named, "while free"]);
        ends(&id, "unlock-twice", &[&named, "while free"]);
        ends(&id, "destroy-held", &[&named, "while held"]);
        ends(&id, "lock-again", &[&named, "which holds it already"]);
        ends(&id, "stranger", &[&named, "which does not hold it"]);
    }
    ends("reader", "lock-again", &["holdup-locks: rw-adaptive lock at 0x", "which holds it already"]);
    ends("reader", "unlock-twice", &["holdup-locks: rw-adaptive lock at 0x", "without a reader in it"]);
    ends("table", "lock-again", &["which holds it already"]);
    ends("table", "destroy-held", &["while a lock of it is held"]);
    ends("gate", "leave", &["holdup-locks: gate at 0x", "nobody was inside"]);
}
