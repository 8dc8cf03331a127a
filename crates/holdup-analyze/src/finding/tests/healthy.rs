//! Shapes of programs in which nothing holds threads up.

use super::*;

fn nothing(facts: &Facts) {
    assert_eq!(kinds(facts), []);
}

#[test]
fn threads_that_compute() {
    let mut facts = quiet(5);
    busy(&mut facts, 990 * MS);
    (1..5).for_each(|index| off(&mut facts, index, Reason::Preempted, 30, 10 * MS));
    facts.totals.user_samples = 3_960;
    facts.totals.runnable_ns = vec![0, 0, 0, 10 * MS, 960 * MS, 30 * MS];
    facts.symbols = vec![code("compute", Role::Program, 3_900)];
    nothing(&facts);
}

#[test]
fn a_pool_that_mostly_waits_for_work() {
    let mut facts = quiet(17);
    busy(&mut facts, 10 * MS);
    facts.threads[1].on_cpu_ns = 100 * MS;
    (1..17).for_each(|i| off(&mut facts, i, Reason::Futex(Primitive::Condvar), 200, 900 * MS));
    mutex(&mut facts, 40, 100 * US);
    nothing(&facts);
}

#[test]
fn a_pipeline_that_hands_over_in_batches() {
    let mut facts = pair();
    facts.pairs[0].wakings = Wakings { a_to_b: 300, b_to_a: 300 };
    facts.pairs[0].round_trips = 300;
    facts.threads.iter_mut().for_each(|thread| thread.run_ns = histogram(600, 1_500 * US));
    (1..3).for_each(|i| off(&mut facts, i, Reason::Futex(Primitive::Condvar), 300, 500 * MS));
    nothing(&facts);
}

#[test]
fn threads_that_wait_for_devices_and_descriptors() {
    let mut facts = quiet(9);
    busy(&mut facts, 50 * MS);
    (1..9).for_each(|index| {
        off(&mut facts, index, Reason::Io, 2_000, 400 * MS);
        off(&mut facts, index, Reason::Poll, 4_000, 500 * MS);
        facts.threads[index].voluntary = 6_000;
    });
    facts.totals.user_samples = 100;
    facts.totals.kernel_samples = Some(100);
    nothing(&facts);
}

#[test]
fn one_thread_that_copies_files() {
    let mut facts = quiet(1);
    facts.threads[0].on_cpu_ns = S;
    facts.totals.on_cpu_ns = S;
    facts.totals.user_samples = 50;
    facts.totals.kernel_samples = Some(950);
    nothing(&facts);
}

#[test]
fn a_tree_of_processes() {
    let mut facts = quiet(13);
    busy(&mut facts, 300 * MS);
    for index in 1..13 {
        facts.threads[index].pid = Pid(facts.threads[index].tid.0);
        off(&mut facts, index, Reason::Preempted, 60, 500 * MS);
        off(&mut facts, index, Reason::Child, 10, 200 * MS);
    }
    facts.totals.runnable_ns = vec![0, 0, 0, 0, 0, S];
    facts.ending = Some(Ending { user_ns: Some(S), kernel_ns: Some(3 * S), ..Ending::default() });
    nothing(&facts);
}

#[test]
fn a_runtime_that_idles() {
    let mut facts = quiet(7);
    busy(&mut facts, 3 * MS);
    (1..7).for_each(|i| off(&mut facts, i, Reason::Futex(Primitive::GoRuntime), 400, 950 * MS));
    facts.totals.user_samples = 18;
    facts.symbols = vec![code("runtime.procyield", Role::Lock, 12)];
    facts.yield_sites = vec![Site { count: 900, ..site("runtime.osyield") }];
    nothing(&facts);
}

#[test]
fn sleep() {
    let mut facts = quiet(1);
    off(&mut facts, 0, Reason::Sleep, 1, 999 * MS);
    nothing(&facts);
}

#[test]
fn a_start_that_contends_for_a_while() {
    let mut facts = quiet(5);
    busy(&mut facts, 800 * MS);
    mutex(&mut facts, 60, 500 * US);
    facts.locks[0].primitive = Primitive::Libc;
    nothing(&facts);
}
