//! Call paths of C programs, whatever they were compiled with.

use holdup_trace::{FutexOp, Stack};

use super::super::{Frame, Resolver, primitive};
use super::bed::{Dump, Files, Workshop, functions, mapped, own, table};
use crate::facts::Primitive;

const WAIT: FutexOp = FutexOp(FutexOp::WAIT | 128);

/// The functions of `waits.c` on the way to the lock. `lock_it` is inlined: only line information knows it.
const TO_THE_LOCK: [&str; 4] = ["lock_it", "registry_lookup", "wait_somehow", "worker"];

#[test]
fn the_path_to_a_mutex_is_exact_with_and_without_frame_pointers() {
    for flags in [
        &["-O2", "-g", "-fno-omit-frame-pointer"][..],
        &["-O2", "-g"],
        &["-O1", "-g", "-fno-omit-frame-pointer", "-gz"],
        &["-O2", "-g", "-no-pie"],
        &["-O2", "-g", "-static"],
    ] {
        let shop = Workshop::new();
        let Some(program) = shop.c_program("waits.c", flags) else { return };
        let dump = Dump::of(&program, "mutex");
        let call_path = dump.call_path(128, &dump.files());
        assert_eq!(own(&call_path), TO_THE_LOCK, "{flags:?}: {call_path:#?}");
        let lock = functions(&call_path).iter().position(|name| *name == "pthread_mutex_lock");
        assert!(lock.is_some_and(|at| functions(&call_path)[at + 1] == "lock_it"), "{flags:?}: {call_path:#?}");
        assert_eq!(primitive::classify(WAIT, &call_path), Primitive::Mutex);
        assert!(call_path.iter().all(|frame| frame.module.starts_with('/')), "{call_path:#?}");
    }
}

#[test]
fn a_function_that_left_by_a_jump_is_on_the_path() {
    for flags in [&["-O2", "-g"][..], &["-O2", "-g", "-static"], &["-O2", "-fno-omit-frame-pointer"]] {
        let shop = Workshop::new();
        let Some(program) = shop.c_program("waits.c", flags) else { return };
        let dump = Dump::of(&program, "jump");
        let call_path = dump.call_path(128, &dump.files());
        let own = own(&call_path);
        assert!(
            own.ends_with(&["registry_lookup", "hand_over", "wait_somehow", "worker"]),
            "{flags:?}: {call_path:#?}"
        );
    }
}

#[test]
fn functions_without_unwinding_tables_are_found_by_the_calls_that_led_to_them() {
    let without = ["-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "-fomit-frame-pointer"];
    for flags in [&["-O2"][..], &["-O2", "-static"], &["-O2", "-no-pie"]] {
        let shop = Workshop::new();
        let Some(program) = shop.c_program("waits.c", &[flags, &without].concat()) else { return };
        for (mode, path) in [
            ("mutex", &["registry_lookup", "wait_somehow", "worker"][..]),
            ("jump", &["registry_lookup", "hand_over", "wait_somehow", "worker"]),
            ("here", &["dump_here", "registry_lookup", "wait_somehow", "worker"]),
        ] {
            let dump = Dump::of(&program, mode);
            let call_path = dump.call_path(128, &dump.files());
            assert!(own(&call_path).ends_with(path), "{mode} {flags:?}: {call_path:#?}");
        }
    }
}

#[test]
fn lines_and_inlined_functions_are_told() {
    let shop = Workshop::new();
    let Some(program) = shop.c_program("waits.c", &["-O2", "-g"]) else { return };
    let dump = Dump::of(&program, "mutex");
    let call_path = dump.call_path(128, &dump.files());
    let source = std::fs::read_to_string(super::bed::fixture("waits.c")).unwrap();
    let line = |text: &str| source.lines().position(|line| line.contains(text)).unwrap() as u32 + 1;
    let frame = |name: &str| call_path.iter().find(|frame| frame.function.as_deref() == Some(name)).unwrap();
    let (inner, outer) = (frame("lock_it"), frame("registry_lookup"));
    assert_eq!((inner.line, inner.inlined), (Some(line("// line of lock_it")), true));
    assert_eq!((outer.line, outer.inlined), (Some(line("// line of registry_lookup")), false));
    assert_eq!(inner.address, outer.address);
    assert!(outer.file.as_deref().is_some_and(|file| file.ends_with("waits.c")), "{outer:?}");
    assert!(frame("worker").line.is_some());
}

#[test]
fn a_short_look_at_the_stack_is_joined_with_the_chain() {
    let shop = Workshop::new();
    let Some(program) = shop.c_program("waits.c", &["-O2", "-g", "-fno-omit-frame-pointer"]) else { return };
    let dump = Dump::of(&program, "mutex");
    let files = dump.files();
    let whole = dump.call_path(128, &files);
    // The chain alone has lost the callers of functions without frame pointers, above all the one of
    // pthread_mutex_lock.
    let chain = dump.call_path(0, &files);
    assert!(!own(&chain).contains(&"registry_lookup"), "{chain:#?}");
    // Words that reach the first return address that the chain knows are enough: what lies deeper comes from the chain.
    let enough =
        (0..128).find(|depth| own(&dump.call_path(*depth, &files)) == TO_THE_LOCK).expect("some depth is enough");
    assert!(enough <= 64, "{enough} words");
    for depth in (enough..128).step_by(5) {
        let spliced = dump.call_path(depth, &files);
        // Outermost, the chain has lost the function of libc that called start_thread.
        assert!(functions(&whole).starts_with(&functions(&spliced)), "{depth} words: {spliced:#?}");
        assert_eq!(own(&spliced), TO_THE_LOCK, "{depth} words");
    }
}

#[test]
fn a_sample_in_a_leaf_has_its_path() {
    for flags in [&["-O2", "-g"][..], &["-O2", "-g", "-fno-omit-frame-pointer"]] {
        let shop = Workshop::new();
        let Some(program) = shop.c_program("waits.c", flags) else { return };
        let dump = Dump::of(&program, "here");
        let call_path = dump.call_path(128, &dump.files());
        assert_eq!(own(&call_path), ["dump_here", "registry_lookup", "wait_somehow", "worker"], "{call_path:#?}");
    }
}

#[test]
fn every_way_to_wait_is_told_apart() {
    let shop = Workshop::new();
    let Some(program) = shop.c_program("waits.c", &["-O2", "-g"]) else { return };
    const BITSET: u32 = FutexOp::WAIT_BITSET | 256;
    for (mode, op, kind) in [
        ("cond", BITSET | 128, Primitive::Condvar),
        // Debian's libc has no names for the functions that wait here: the program's call tells.
        ("join", BITSET, Primitive::Join),
        ("sem", BITSET | 128, Primitive::Semaphore),
        ("rwlock", BITSET | 128, Primitive::RwLock),
    ] {
        let dump = Dump::of(&program, mode);
        let call_path = dump.call_path(128, &dump.files());
        assert_eq!(own(&call_path), ["wait_somehow", "worker"], "{mode}: {call_path:#?}");
        assert_eq!(primitive::classify(FutexOp(op), &call_path), kind, "{mode}");
    }
}

#[test]
fn a_stripped_program_has_modules_and_offsets_and_a_debug_file_gives_names_back() {
    let shop = Workshop::new();
    let Some(program) = shop.c_program("waits.c", &["-O2", "-g", "-Wl,--build-id"]) else { return };
    let debug = shop.path("program.debug");
    let words = ["--only-keep-debug", "program", "program.debug"];
    if !shop.run("objcopy", &words) || !shop.run("strip", &["-s", "program"]) {
        return;
    }
    let dump = Dump::of(&program, "mutex");
    let mut files = dump.files();
    let bare = dump.call_path(128, &files);
    assert_eq!(own(&bare), ["?", "?", "?"], "{bare:#?}");
    let nameless = bare.iter().find(|frame| frame.function.is_none() && frame.module.ends_with("program"));
    assert!(nameless.is_some_and(|frame| frame.offset > 0x1000 && frame.offset < 0x10_0000), "{nameless:?}");
    let begins = |frame: &&Frame| frame.start < frame.offset && frame.offset - frame.start < 0x400;
    assert!(nameless.as_ref().is_some_and(begins), "the unwinding tables know where it begins: {nameless:?}");
    assert_eq!(primitive::classify(WAIT, &bare), Primitive::Mutex, "libc's exported names are enough");
    files.add_debug(program.to_str().unwrap(), std::fs::read(debug).unwrap());
    assert_eq!(own(&dump.call_path(128, &files)), TO_THE_LOCK);
}

#[test]
fn the_debug_file_of_another_build_is_not_believed() {
    let shop = Workshop::new();
    let Some(program) = shop.c_program("waits.c", &["-O2", "-g", "-Wl,--build-id"]) else { return };
    if !shop.run("objcopy", &["--only-keep-debug", "program", "program.debug"])
        || !shop.run("strip", &["-s", "program"])
    {
        return;
    }
    let dump = Dump::of(&program, "mutex");
    let other = Workshop::new();
    other.c_program("waits.c", &["-O1", "-g", "-Wl,--build-id"]).unwrap();
    let mut files = dump.files();
    files.add_debug(program.to_str().unwrap(), std::fs::read(other.path("program")).unwrap());
    assert_eq!(own(&dump.call_path(128, &files)), ["?", "?", "?"]);
}

/// As BPF programs and modules that came after the symbols were written: no function is that long.
#[test]
fn kernel_code_far_behind_a_function_is_not_that_function() {
    let mut files = Files::default();
    files.add_kernel(&[(0x1000, "schedule"), (0x9000, "_einittext")]);
    let stack = Stack { kernel: vec![0x1010, 0x9010, 0x900_0000], ..Stack::default() };
    let (stacks, id) = table(&stack);
    let call_path = Resolver::new(super::super::Names::new(), &stacks, &files).call_path(super::super::SpaceId(7), id);
    assert_eq!(functions(&call_path), ["schedule", "_einittext", "?"]);
}

/// Stacks that a program in the kernel takes begin with itself.
#[test]
fn the_recorders_own_program_in_the_kernel_is_no_part_of_a_stack() {
    let mut files = Files::default();
    files.add_kernel(&[(0x1000, "__schedule"), (0x2000, "bpf_trace_run4"), (0x3000, "sk_wait_data")]);
    let stack = Stack { kernel: vec![0x900_0000, 0x2010, 0x1010, 0x3010], ..Stack::default() };
    let (stacks, id) = table(&stack);
    let call_path = Resolver::new(super::super::Names::new(), &stacks, &files).call_path(super::super::SpaceId(7), id);
    assert_eq!(functions(&call_path), ["__schedule", "sk_wait_data"]);
}

/// At hisat2, 117 of 164 ms below `sched_yield` were the recording's.
#[test]
fn samples_of_what_the_kernel_does_for_the_recording_are_known() {
    let mut files = Files::default();
    let named = ["do_sched_yield", "__bpf_trace_sys_exit", "perf_trace_sched_switch", "htab_map_hash", "vfs_read"];
    let starts: Vec<(u64, &str)> = (1..).map(|at| at * 0x1000).zip(named).collect();
    files.add_kernel(&starts);
    let is_of_recording = |kernel: &[u64]| {
        let (stacks, id) = table(&Stack { kernel: kernel.to_vec(), ..Stack::default() });
        Resolver::new(super::super::Names::new(), &stacks, &files).is_of_recording(id)
    };
    assert!(is_of_recording(&[0x2010, 0x1010]) && is_of_recording(&[0x4010, 0x3010, 0x1010]));
    assert!(!is_of_recording(&[0x1010]) && !is_of_recording(&[0x4010, 0x5010]) && !is_of_recording(&[]));
}

#[test]
fn the_kernels_part_comes_first() {
    let mut files = Files::default();
    files.add_kernel(&[(0x1000, "ext4_sync_file"), (0x2000, "__schedule"), (0x3000, "futex_wait")]);
    let stack = Stack { kernel: vec![0x2010, 0x3000, 0x10], user: vec![0x40_0000], ..Stack::default() };
    let (stacks, id) = table(&stack);
    let names = super::super::Names::new();
    let call_path = Resolver::new(names, &stacks, &files).call_path(super::super::SpaceId(7), id);
    assert_eq!(functions(&call_path), ["__schedule", "__schedule", "?", "?"]);
    assert_eq!(&*call_path[0].module, "[kernel]");
    assert_eq!(&*call_path[3].module, "[unknown]");
    use super::super::Role;
    assert_eq!(
        [call_path[0].role, call_path[2].role, call_path[3].role],
        [Role::Scheduler, Role::Kernel, Role::Program]
    );
}

/// What looks at Java's machine tell: a compiled method has its name, and samples behind its `pause` spin.
#[test]
fn code_that_java_compiled_has_its_methods_name() {
    let map = |start, path: &str, offset| super::bed::Map { start, end: start + 0x100, offset, path: path.to_owned() };
    let mut names = super::super::Names::new();
    for (start, path, offset) in [
        (0x1000, "[java] Shop.sell", 0),
        (0x2000, "[java] Shop.await", 0x12),
        (0x3000, "[java] java.util.concurrent.locks.LockSupport.park", 0),
        (0x1000, "[java] Shop.buy", 0),
    ] {
        names.feed(&mapped(&map(start, path, offset), None));
    }
    let at = |ip| Stack { user: vec![ip], ..Stack::default() };
    let mut stacks = holdup_trace::Stacks::new();
    let ids = [0x1010, 0x2012, 0x2013, 0x3000, 0x3100].map(|ip| stacks.intern(&at(ip)));
    let space = names.space(holdup_trace::Tid(1));
    let files = Files::default();
    let mut resolver = Resolver::new(names, &stacks, &files);
    let mut told = |id| {
        let call_path = resolver.call_path(space, id);
        (functions(&call_path)[0].to_owned(), call_path[0].role)
    };
    use super::super::Role;
    assert_eq!(told(ids[0]), ("Shop.buy".into(), Role::Program), "memory is used again");
    assert_eq!(told(ids[1]), ("Shop.await".into(), Role::Program));
    assert_eq!(told(ids[3]), ("java.util.concurrent.locks.LockSupport.park".into(), Role::Lock));
    assert_eq!(told(ids[4]), ("?".into(), Role::Program));
    let suspects = ids.map(|id| resolver.suspect(space, id).map(|suspect| suspect.instruction));
    assert_eq!(suspects, [None, Some("pause".to_owned()), None, None, None]);
}
