//! `--lock-for`: by variable, member, function and line, of the program and its libraries, of C and C++.

use serde_json::Value;

use super::{With, build, lock, locks, text};

/// Name and policy of the locks that have one of their own.
fn ruled(json: &Value) -> Vec<(String, String)> {
    let one = |lock: &Value| {
        let name = lock["name"].as_str()?;
        let short = name.split(' ').take(4).collect::<Vec<_>>().join(" ");
        Some((short, lock["policy"].as_str()?.to_owned()))
    };
    let mut ruled: Vec<_> = locks(json).iter().filter_map(one).collect();
    ruled.sort();
    ruled
}

#[track_caller]
fn changes(options: &[&str], expected: &[(&str, &str)]) {
    let Some(program) = build::program("three_locks.c", &[]) else { return };
    let options = [options, &["--profile=count"]].concat();
    let (ended, json) = With::new().json(&options, &[text(&program), "4", "500"]);
    assert_eq!(ended.out, "2000 2000 2000 2000\n");
    let expected: Vec<_> = expected.iter().map(|(name, policy)| ((*name).to_owned(), (*policy).to_owned())).collect();
    assert_eq!(ruled(&json), expected, "{}", ended.err);
}

#[test]
fn a_variable_changes_that_lock_alone() {
    changes(&["--lock-for", "g_cache_lock=throttle:2"], &[("g_cache_lock", "throttle:2")]);
    changes(&["--lock-for", "s_pools=capped:2"], &[("s_pools[1].lock", "capped:2")]);
}

#[test]
fn a_member_is_told_from_its_neighbours() {
    changes(&["--lock-for", "s_pools[1].lock=ttas"], &[("s_pools[1].lock", "ttas")]);
    changes(&["--lock-for", "s_pools[0].lock=ttas"], &[]);
}

#[test]
fn code_stands_for_the_locks_that_it_makes_or_takes_first() {
    changes(&["--lock-for", "make_heap_lock=spin-park:7"], &[("lock made in make_heap_lock", "spin-park:7")]);
    changes(&["--lock-for", "log_line=adaptive"], &[("g_log_lock", "spin-learn")]);
    let source = include_str!("../../../../fixtures/interposer/three_locks.c");
    let line = 1 + source.lines().position(|line| line.contains("pthread_mutex_lock(&g_log_lock)")).unwrap();
    changes(&["--lock-for", &format!("three_locks.c:{line}=throttle:3")], &[("g_log_lock", "throttle:3")]);
}

#[test]
fn the_first_wish_that_fits_decides() {
    changes(
        &[
            "--lock",
            "ttas",
            "--lock-for",
            "g_log_lock=throttle:1",
            "--lock-for",
            "log_line=adaptive",
            "--lock-for",
            "g_cache_lock=glibc",
        ],
        &[("g_cache_lock", "glibc"), ("g_log_lock", "throttle:1")],
    );
}

#[test]
fn names_of_cpp_are_written_as_in_its_sources() {
    let Some(program) = build::program("named.cc", &[]) else { return };
    for (name, lock_name) in [
        ("shop::s_stock_lock", "shop::s_stock_lock"),
        ("s_stock_lock", "shop::s_stock_lock"),
        ("shop::Till::ring", "lock taken in held"),
    ] {
        let options = ["--profile=full", "--lock-for", &format!("{name}=throttle:2")];
        let (_, json) = With::new().json(&options, &[&program]);
        let lock = lock(&json, lock_name);
        assert_eq!(lock["policy"], "throttle:2", "{name}: {json}");
        assert_eq!(ruled(&json).len(), 1, "{name}: {json}");
    }
}

#[test]
fn a_reader_writer_lock_has_a_policy_by_its_name() {
    let Some(program) = build::program("try_rwlock.c", &[]) else { return };
    let run = |wish: &str| With::new().json(&["--profile=count", "--lock-for", wish], &[text(&program), "starve"]);
    for wish in ["lock=prefer-writer", "write_once=prefer-writer", "read_on=prefer-writer"] {
        let (ended, json) = run(wish);
        let (policy, changed) = match wish {
            // The writer comes late, and finds that the lock is another's.
            "write_once=prefer-writer" => (vec![], "no lock fitted"),
            _ => (vec![("lock".to_owned(), "prefer-writer".to_owned())], "1 lock prefers writers"),
        };
        assert_eq!(ruled(&json), policy, "{wish}: {}", ended.err);
        let said = ended.err.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains(changed), "{wish}: {said}");
    }
    // The name stands for locks of both kinds; what is not there for this one changes nothing.
    assert_eq!(ruled(&run("lock=spin-park:40").1), [("lock".to_owned(), "spin-park:40".to_owned())]);
    let (ended, json) = run("lock=throttle:2");
    assert!(ruled(&json).is_empty() && !ended.err.contains("prefers writers"), "{}", ended.err);
}

#[test]
fn a_line_that_was_inlined_is_found() {
    let Some(program) = build::program("named.cc", &[]) else { return };
    let source = include_str!("../../../../fixtures/interposer/named.cc");
    let line = 1 + source.lines().position(|line| line.contains("held(till_lock)")).unwrap();
    let (_, json) = With::new().json(&["--profile=full", "--lock-for", &format!("named.cc:{line}=ttas")], &[&program]);
    assert_eq!(lock(&json, "lock taken in held")["policy"], "ttas", "{json}");
}

#[test]
fn locks_of_libraries_are_known() {
    let Some(library) = build::program("three_locks.c", &["-shared", "-fPIC", "-Dmain=run_locks", "-Wno-main"]) else {
        return;
    };
    let folder = library.parent().unwrap().join("library");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::copy(&library, folder.join("liblocks.so")).unwrap();
    let search = format!("-L{}", folder.display());
    let path = format!("-Wl,-rpath,{}", folder.display());
    let Some(program) = build::program("caller.c", &[&search, &path, "-llocks"]) else { return };
    let (ended, json) =
        With::new().json(&["--profile=count", "--lock-for", "g_cache_lock=throttle:2"], &[text(&program), "2", "300"]);
    assert_eq!(ended.out, "600 600 600 600\n");
    assert_eq!(ruled(&json), [("g_cache_lock".to_owned(), "throttle:2".to_owned())]);
}

#[test]
fn an_unknown_name_gets_the_nearest() {
    let Some(program) = build::program("three_locks.c", &[]) else { return };
    let refused = |name: &str, says: &[&str]| {
        let ended = With::new().run(&["--lock-for", &format!("{name}=throttle:2")], &[&program]).with(2);
        assert!(ended.out.is_empty(), "{}", ended.out);
        ended.says(says);
    };
    refused("g_cash_lock", &["'g_cash_lock'", "did you mean 'g_cache_lock'?"]);
    refused("three_locks.c:9999", &["three_locks.c:9999"]);
    refused("qqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqq", &["holdup with --profile"]);
}
