//! Programs that cannot be served, and input that makes no sense: one clear message, the right exit status, nothing
//! started.

use std::path::Path;

use super::{Ended, With, build, is_possible, skip, text};

#[track_caller]
fn refused(options: &[&str], program: &[&str], code: i32, says: &[&str]) -> Ended {
    let ended = With::new().run(options, program).with(code).says(&["holdup: "]).says(says);
    assert!(ended.out.is_empty(), "it ran: {}", ended.out);
    ended
}

#[test]
fn wrong_options_are_explained() {
    refused(&["--lock", "adaptve"], &["true"], 2, &["'adaptve'", "did you mean 'spin-learn'?"]);
    refused(&["--lock", "throttle:0"], &["true"], 2, &["'throttle:0'", "at least 1"]);
    refused(&["--gate", "0"], &["true"], 2, &["--gate"]);
    refused(&["--lock", "spin-learn", "--gate", "2"], &["true"], 2, &["one policy at a time", "--gate 2"]);
    refused(&["--lock-for", "g_lock"], &["true"], 2, &["NAME=POLICY"]);
    refused(&["--lock-for", "g_lock=gat"], &["true"], 2, &["'throttle'"]);
    refused(&["--lock-for", "g_lock=prefer-write"], &["true"], 2, &["did you mean 'prefer-writer'?"]);
    refused(&["--profile=all"], &["true"], 2, &["full"]);
    refused(&[], &[], 2, &["PROGRAM"]);
}

#[test]
fn a_file_that_exists_is_not_replaced() {
    if !is_possible() {
        return;
    }
    let place = With::new();
    std::fs::write(place.path("old.json"), "mine").unwrap();
    let ended = place.run(&["--json", "old.json"], &["echo", "ran"]).with(2).says(&["old.json exists", "--force"]);
    assert!(ended.out.is_empty(), "the program ran in vain");
    assert_eq!(std::fs::read_to_string(place.path("old.json")).unwrap(), "mine");
}

#[test]
fn a_missing_program_is_said_to_be_missing() {
    if !is_possible() {
        return;
    }
    refused(&[], &["no-such-program"], 127, &["no-such-program: no such command"]);
    refused(&[], &["./no-such-program"], 127, &["./no-such-program: no such file"]);
    refused(&[], &["/"], 126, &["it is a folder"]);
    let place = With::new();
    std::fs::write(place.path("data"), "x").unwrap();
    place.run(&[], &["./data"]).with(126).says(&["chmod +x"]);
}

#[test]
fn a_static_program_is_refused() {
    let Some(program) = build::program("three_locks.c", &["-static"]) else { return };
    refused(&[], &[text(&program)], 2, &["linked statically", "holdup record"]);
}

#[test]
fn programs_of_other_worlds_are_refused() {
    let Some(program) = build::program("three_locks.c", &[]) else { return };
    let place = With::new();
    let good = std::fs::read(&program).unwrap();
    let write = |name: &str, bytes: &[u8]| {
        let path = place.path(name);
        std::fs::copy(&program, &path).unwrap();
        std::fs::write(&path, bytes).unwrap();
        path
    };
    let mut foreign = good.clone();
    foreign[18] ^= 0x55;
    place.run(&[], &[write("foreign", &foreign)]).with(2).says(&["for another machine"]);
    let mut narrow = good.clone();
    narrow[4] = 1;
    place.run(&[], &[write("narrow", &narrow)]).with(2).says(&["for another machine"]);
    let at = good.windows(7).position(|bytes| bytes == b"/ld-lin").unwrap();
    let mut musl = good.clone();
    musl[at..at + 9].copy_from_slice(b"/ld-musl-");
    place.run(&[], &[write("musl", &musl)]).with(2).says(&["linked with musl"]);
    // A file that ends in the middle of its headers is no program either.
    let cut = place.run(&[], &[write("cut", &good[..70])]);
    assert!(cut.code.is_some_and(|code| code == 126 || code == 2), "{}", cut.err);
}

#[test]
fn a_setuid_program_of_another_user_is_refused() {
    let Some(program) = build::program("three_locks.c", &[]) else { return };
    let place = With::new();
    let path = place.path("privileged");
    std::fs::copy(&program, &path).unwrap();
    let run =
        |words: &[&str]| std::process::Command::new(words[0]).args(&words[1..]).status().is_ok_and(|s| s.success());
    if !run(&["chown", "nobody", text(&path)]) || !run(&["chmod", "4755", text(&path)]) {
        skip("only root can give a file to another user");
        return;
    }
    place.run(&[], &[&path]).with(2).says(&["setuid", "rights of its own"]);
}

#[test]
fn a_script_is_served_by_its_interpreter() {
    let Some(program) = build::program("three_locks.c", &[]) else { return };
    let place = With::new();
    let script = |name: &str, first: &str| {
        let path = place.path(name);
        std::fs::copy("/bin/sh", &path).unwrap();
        std::fs::write(&path, format!("{first}\n{} 2 100\n", text(&program))).unwrap();
        path
    };
    let ended = place.run(&[], &[script("plain", "#!/bin/sh")]).with(0).says(&["800 acquisitions"]);
    assert_eq!(ended.out, "200 200 200 200\n");
    place.run(&[], &[script("env", "#!/usr/bin/env sh")]).with(0).says(&["800 acquisitions"]);
    let hinted = place.run(&["--lock-for", "g_cache_lock=ttas"], &[script("named", "#!/bin/sh")]).with(2);
    hinted.says(&["named is a script", "name the program that it starts"]);
    let gone = script("gone", "#!/no/such/interpreter");
    place.run(&[], &[gone]).with(126).says(&["/no/such/interpreter"]);
    assert!(Path::new("/bin/sh").exists());
}
