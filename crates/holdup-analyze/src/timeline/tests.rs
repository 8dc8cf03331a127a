//! Drawn schedules, and what the summing-up must make of them.

use holdup_trace::{Blocked, CallNumber, Event, NO_CPU, Tid, What};

use crate::schedule::{START_NS, Schedule};
use crate::{
    AccountState, Facts, Leaf, LockFacts, LockName, LockNumber, Options, Primitive, Reason, Report, Site, State,
};

fn report(text: &str) -> (Schedule, Report) {
    let schedule = Schedule::parse(text).unwrap_or_else(|why| panic!("{why}"));
    let report = schedule.analyze();
    check_lives(&report.facts);
    (schedule, report)
}

/// Whatever was drawn: each thread's times add up to its life.
fn check_lives(facts: &Facts) {
    for thread in &facts.threads {
        let off: u64 = thread.off.values().map(|time| time.ns).sum();
        assert_eq!(thread.on_cpu_ns + off, thread.life_ns(), "{}", thread.name);
    }
}

fn lock<'a>(report: &'a Report, name: &str) -> &'a LockFacts {
    let named = |lock: &&LockFacts| matches!(&lock.name, LockName::Symbol { name: n, .. } if n == name);
    report.facts.locks.iter().find(named).unwrap_or_else(|| panic!("no {name}: {:?}", report.facts.locks))
}

fn off(report: &Report, schedule: &Schedule, thread: &str, reason: Reason) -> (u64, u64) {
    let thread = report.facts.thread(schedule.tid(thread)).unwrap();
    thread.off.get(&reason).map_or((0, 0), |time| (time.count, time.ns / 1_000_000))
}

const MS: u64 = 1_000_000;

#[test]
fn a_contended_mutex() {
    for extra in ["", "late wakes", "capabilities full"] {
        let (schedule, report) = report(&format!(
            "{extra}
             A: ######M###mmmm##
             B: ##mmmm####M#####"
        ));
        // In the first drawing A releases at 6 what B waits for; in the second half B's release comes too early for A.
        let lock = lock(&report, "m");
        assert_eq!((lock.primitive, lock.waits, lock.wakes), (Primitive::Mutex, 2, 1), "{extra}");
        assert_eq!(lock.wasted_wakes, 1);
        assert_eq!(lock.wait_ns.sum_ns(), 8 * MS);
        assert_eq!(lock.contended_ns, 8 * MS);
        assert_eq!(lock.max_waiters, 1);
        assert_eq!(lock.run_before_ns.min_ns(), 2 * MS);
        assert_eq!((lock.holders[0].tid, lock.holders[0].count), (schedule.tid("A"), 1), "{extra}");
        assert_eq!(lock.holders[0].ns, 4 * MS);
        assert_eq!(lock.holder_doing.running_ns, 4 * MS);
        assert_eq!(lock.holder_doing.unknown_ns, 4 * MS, "nobody woke A");
        assert_eq!(lock.wait_sites[0].caller().unwrap().function.as_deref(), Some("take_m"));
        assert_eq!(lock.wake_sites[0].caller().unwrap().function.as_deref(), Some("release_m"));
        assert_eq!(off(&report, &schedule, "B", Reason::Futex(Primitive::Mutex)), (1, 4));
        assert_eq!(report.facts.totals.lock_wait_ns, 8 * MS);
        assert_eq!(report.facts.totals.switches, 2);
        assert_eq!(lock.longest.len(), 2);
    }
}

/// The kernel lets a thread that is on its way to sleep be woken before it has left its CPU.
#[test]
fn who_is_woken_before_it_has_left_the_cpu_was_woken() {
    let woken_before = |us: u64| {
        let text = "tick 1us\ncapabilities full\nA: ############M#########\nB: ##########mm##########";
        let mut schedule = Schedule::parse(text).unwrap_or_else(|why| panic!("{why}"));
        for event in schedule.events.iter_mut().filter(|event| matches!(event.what, What::Waking { .. })) {
            event.time_ns -= us * 1_000;
        }
        schedule.events.sort_by_key(|event| event.time_ns);
        let report = schedule.analyze();
        let account = &report.facts.thread(schedule.tid("B")).unwrap().account;
        (lock(&report, "m").holders.len(), account.of(AccountState::Lock), account.of(AccountState::CpuOwn))
    };
    assert_eq!(woken_before(1), (1, 1_000, 1_000));
    assert_eq!(woken_before(3), (1, 0, 2_000), "it was let go at once, and waits for a CPU");
    assert_eq!(woken_before(8), (0, 2_000, 0), "that was for another wait");
}

#[test]
fn reasons_of_calls() {
    for capabilities in ["user", "full"] {
        let (schedule, report) = report(&format!(
            "capabilities {capabilities}
             cpus 1
             A: #zz#ppp#ff#w#y~#ii#o#~~#xx##
             B: zzzzzzzzzzzzz##zzzzzz##zzzzz"
        ));
        let time = |reason| off(&report, &schedule, "A", reason);
        assert_eq!(time(Reason::Sleep), (1, 2), "{capabilities}");
        assert_eq!(time(Reason::Poll), (1, 3));
        assert_eq!(time(Reason::Child), (1, 1));
        assert_eq!(time(Reason::Yielded), (1, 2));
        assert_eq!(time(Reason::Preempted), (1, 2));
        match capabilities {
            "full" => {
                assert_eq!(time(Reason::Io), (2, 4));
                assert_eq!(time(Reason::PageFault), (1, 2));
                assert_eq!(time(Reason::OtherCall), (1, 1));
            }
            // Without rights, only the call tells; a plain block may be anything.
            _ => {
                assert_eq!(time(Reason::Io), (1, 2));
                assert_eq!(time(Reason::OtherCall), (3, 5));
            }
        }
        let thread = report.facts.thread(schedule.tid("A")).unwrap();
        assert_eq!((thread.involuntary, thread.voluntary), (2, 7));
        let at = |name: &str| {
            let is_it = |site: &&Site| site.caller().and_then(|frame| frame.function.as_deref()) == Some(name);
            thread.off_sites.iter().find(is_it).map_or(0, |site| site.ns / MS)
        };
        assert_eq!([at("do_epoll_wait"), at("do_nanosleep"), at("do_fsync"), at("do_wait4")], [3, 2, 2, 1]);
        assert_eq!(report.facts.calls.values().sum::<u64>(), 5 + 2, "A's and B's");
        assert_eq!(report.facts.yield_sites[0].count, 1);
    }
}

#[test]
fn a_call_explains_only_the_first_block() {
    let (schedule, report) = report("A: #zz#oo#");
    assert_eq!(off(&report, &schedule, "A", Reason::Sleep), (1, 2));
    assert_eq!(off(&report, &schedule, "A", Reason::OtherCall), (1, 2));
}

#[test]
fn refused_and_wasted_calls_and_timeouts() {
    let (_, report) = report(
        "% = eagain m
         t = timeout c
         A: %#%#M#ttt#
         B: ##########",
    );
    let mutex = lock(&report, "m");
    assert_eq!((mutex.waits, mutex.eagain_waits, mutex.wasted_wakes), (0, 2, 1));
    let condvar = lock(&report, "c");
    assert_eq!((condvar.waits, condvar.timeouts, condvar.primitive), (1, 1, Primitive::Condvar));
    assert_eq!(condvar.holder_doing.unknown_ns, 3 * MS);
    assert_eq!(report.facts.totals.lock_wait_ns, 0, "a condition variable is no contention");
    assert_eq!(report.facts.totals.wasted_wakes, 1);
}

#[test]
fn a_holder_that_sleeps() {
    for extra in ["", "late wakes", "capabilities full"] {
        let (schedule, report) = report(&format!(
            "{extra}
             A: ##zzzzzz~~~#M###
             B: #mmmmmmmmmmm####
             C: ##############zz"
        ));
        let doing = &lock(&report, "m").holder_doing;
        // B waits from 1 to 12: A runs one tick, sleeps nine (three of them ready to run), runs one.
        assert_eq!(doing.running_ns, 2 * MS, "{extra}");
        assert_eq!(doing.off.get(&Reason::Sleep), Some(&(9 * MS)));
        assert_eq!(doing.off_sites[0].caller().unwrap().function.as_deref(), Some("do_nanosleep"));
        assert_eq!(doing.off_sites[0].ns, 9 * MS);
        assert_eq!(lock(&report, "m").holders[0].tid, schedule.tid("A"));
    }
}

#[test]
fn what_a_thread_did_before_it_held_the_lock_is_not_the_holders() {
    // A releases at 5 and wakes B; C, which slept until then, takes the lock, holds it, and wakes D, which waits
    // since 2.
    let (schedule, report) = report(
        "A: #####M########
         B: #mmmm#########
         C: #zzzzzz###M###
         D: ##mmmmmmmm####",
    );
    let lock = lock(&report, "m");
    assert_eq!(lock.holders.iter().map(|holder| holder.tid).collect::<Vec<_>>().len(), 2);
    let doing = &lock.holder_doing;
    // C's sleep after A's release counts, the sleep before does not.
    assert_eq!(doing.off.get(&Reason::Sleep), Some(&(2 * MS)));
    assert_eq!(doing.running_ns, (4 + 3) * MS);
    assert_eq!(lock.max_waiters, 2);
    assert_eq!(lock.contended_ns, 9 * MS);
    assert_eq!(lock.handover_ns.sum_ns(), 5 * MS, "from B's end at 5 to D's at 10");
    assert_eq!(schedule.tid("A"), lock.wake_sites.first().map(|_| schedule.tid("A")).unwrap());
}

#[test]
fn a_preempted_holder_of_lower_priority() {
    let (_, report) = report(
        "cpus 2
         priority A 30
         priority B 10
         A: ##~~~~#M##
         B: #mmmmmm###
         C: zz####zzzz",
    );
    let lock = lock(&report, "m");
    assert_eq!(lock.holder_doing.off.get(&Reason::Preempted), Some(&(4 * MS)));
    assert_eq!((lock.inversions.count, lock.inversions.ns), (1, 4 * MS));
    assert!(report.problems.is_empty(), "{:?}", report.problems);
}

#[test]
fn whoever_has_the_cpu_of_a_holder_of_lower_priority_inverts_priorities() {
    let (_, report) = report(
        "cpus 2
         priority A 30
         priority B 10
         A: ##~~~~~~~~~~~~#M##
         B: #mmmmmmmmmmmmmm###
         C: zz##zzzzzzzzzzzzzz",
    );
    let lock = lock(&report, "m");
    assert_eq!(lock.holder_doing.off.get(&Reason::Displaced), Some(&(12 * MS)));
    assert_eq!((lock.inversions.count, lock.inversions.ns), (1, 12 * MS));
}

#[test]
fn a_herd() {
    let (_, report) = report(
        "tick 10us
         c = condvar, all
         A: ####C#########M####
         B: #cccc#mmmmmmmm#####
         C: #cccc#mmmmmmmmmmmm#
         D: #cccc##############",
    );
    let herds = lock(&report, "c").herds;
    assert_eq!((herds.calls, herds.woken, herds.back_to_sleep), (0, 0, 0), "nobody's wait ends at 4");
    let (_, report) = self::report(
        "tick 10us
         c = condvar, all
         A: #####C########M####
         B: #cccc#mmmmmmmm#####
         C: #cccc#mmmmmmmmmmmm#
         D: #cccc##############",
    );
    let herds = lock(&report, "c").herds;
    assert_eq!((herds.calls, herds.woken, herds.back_to_sleep), (1, 3, 2));
}

#[test]
fn ping_pong_with_wakes() {
    for extra in ["", "late wakes", "capabilities full"] {
        let (schedule, report) = report(&format!(
            "{extra}
             A: ##Dcc###Dcc###Dcc###Dcc###D
             B: #d###Cdd###Cdd###Cdd###Cdd#"
        ));
        let pair = &report.facts.pairs[0];
        assert_eq!((pair.a, pair.b), (schedule.tid("A"), schedule.tid("B")), "{extra}");
        assert_eq!((pair.wakings.a_to_b, pair.wakings.b_to_a, pair.round_trips), (5, 4, 4), "{extra}");
        assert_eq!((pair.run_ns.count(), pair.run_ns.min_ns(), pair.run_ns.max_ns()), (8, 3 * MS, 3 * MS));
        assert!(!pair.sites.is_empty());
    }
}

#[test]
fn ping_pong_of_a_waker_whose_cpu_is_taken() {
    let mut events = Vec::new();
    let mut schedule = Schedule::parse(
        "cpus 1
         tick 10us
         A: #D~~##~~##~~##~~#
         B: ~~##dd##dd##dd##d",
    )
    .unwrap();
    // The call that wakes is entered before the preemption and returns only after it.
    let wake = schedule.events.iter().find_map(|event| match event.what {
        What::FutexReturn { op, addr, ret: 0, .. } if op.wakes() => Some((op, addr)),
        _ => None,
    });
    let (op, addr) = wake.expect("D wakes nobody at its tick");
    for event in &schedule.events {
        events.push(event.clone());
        let resumed = event.tid == schedule.tid("A") && event.what == What::SwitchIn;
        if resumed && event.time_ns > schedule.time_ns(4) {
            let what = What::FutexReturn { op, addr, ret: 1, stack: None };
            events.push(Event { what, time_ns: event.time_ns + 1_000, ..event.clone() });
        }
    }
    schedule.events = events;
    let report = schedule.analyze();
    let pair = &report.facts.pairs[0];
    assert_eq!((pair.wakings.a_to_b, pair.round_trips), (3, 3), "{pair:?}");
    assert!(pair.run_ns.max_ns() <= 30_000, "{pair:?}");
}

#[test]
fn threads_that_run_in_turn_without_a_recorded_wake() {
    let turns = |text: &str, times| text.repeat(times);
    let (schedule, report) = report(&format!(
        "tick 10us
         A: ###ooo{}
         B: #oo###{}",
        turns("###ooo", 20),
        turns("ooo###", 20)
    ));
    assert_eq!(report.facts.pairs.len(), 1);
    let pair = &report.facts.pairs[0];
    assert_eq!((pair.a, pair.b), (schedule.tid("A"), schedule.tid("B")));
    assert_eq!(pair.round_trips, 20);
    // Two threads that block in their own time are no pair.
    let (_, report) = self::report(&format!(
        "tick 10us
         A: {}
         B: {}",
        turns("###ooo", 40),
        turns("#############oooo", 14)
    ));
    assert!(report.facts.pairs.is_empty(), "{:?}", report.facts.pairs);
}

#[test]
fn open_waits_count_until_the_end() {
    let (schedule, report) = report(
        "A: #mmmmmmmmm
         B: #mmmmmmmmm",
    );
    let lock = lock(&report, "m");
    assert_eq!((lock.waits, lock.wait_ns.sum_ns(), lock.max_waiters), (2, 18 * MS, 2));
    assert_eq!(off(&report, &schedule, "A", Reason::Futex(Primitive::Mutex)), (1, 9));
}

#[test]
fn runnable_threads_over_time() {
    let (_, report) = report(
        "cpus 1
         A: ##~~##~~
         B: ~~##~~##",
    );
    let runnable = &report.facts.totals.runnable_ns;
    assert_eq!(runnable.iter().sum::<u64>(), 8 * MS);
    // What a thread that was there before did until its first switch is not known.
    assert_eq!((runnable[1], runnable[2]), (2 * MS, 6 * MS));
    assert_eq!(report.facts.cpus[0].busy_ns, 8 * MS);
    assert_eq!(report.facts.cpus[0].switches, 3);
}

#[test]
fn loss_makes_no_huge_waits() {
    let text = "A: #mm###################mm##
                B: ###M###################M##
                lost cpu0:    xx";
    let (_, whole) = report(&text.replace("lost cpu0", "// "));
    assert_eq!(lock(&whole, "m").wait_ns.max_ns(), 2 * MS);
    let (schedule, lossy) = report(text);
    assert!(lock(&lossy, "m").wait_ns.max_ns() <= 2 * MS, "{:?}", lock(&lossy, "m"));
    assert!(off(&lossy, &schedule, "A", Reason::Unknown).1 > 0);
    assert!(matches!(lossy.problems[0], crate::Problem::Lost { places: 1, .. }));
    assert_eq!(lossy.facts.cpus[0].lost, lossy.facts.totals.lost);
}

#[test]
fn a_window_clips() {
    let schedule = Schedule::parse(
        "A: ######M####oooo##
         B: ##mmmm###########",
    )
    .unwrap();
    let options = Options { timeline: true, from_ns: Some(schedule.time_ns(4)), to_ns: Some(schedule.time_ns(13)) };
    let report = schedule.analyze_with(options);
    check_lives(&report.facts);
    assert_eq!((report.facts.start_ns, report.facts.end_ns), (schedule.time_ns(4), schedule.time_ns(13)));
    assert_eq!(lock(&report, "m").wait_ns.sum_ns(), 2 * MS);
    assert_eq!(off(&report, &schedule, "A", Reason::OtherCall), (1, 2));
    let timeline = report.timeline.unwrap();
    for thread in 0..2 {
        let row: Vec<_> = timeline.intervals(thread).collect();
        assert_eq!(row[0].from_ns, schedule.time_ns(4));
        assert_eq!(row[row.len() - 1].to_ns, schedule.time_ns(13));
        assert!(row.windows(2).all(|pair| pair[0].to_ns == pair[1].from_ns));
    }
    assert!(matches!(timeline.intervals(1).next().unwrap().state, State::Off { lock: Some(LockNumber(0)), .. }));
}

#[test]
fn a_timeline_shows_what_was_drawn() {
    let schedule = Schedule::parse(
        "A: ###M##
         B: #mm~~#",
    )
    .unwrap();
    let report = schedule.analyze_with(Options { timeline: true, ..Options::default() });
    let timeline = report.timeline.unwrap();
    let row: Vec<(u64, u64, State)> = timeline
        .intervals(1)
        .map(|interval| ((interval.from_ns - START_NS) / MS, (interval.to_ns - START_NS) / MS, interval.state))
        .collect();
    let wait = State::Off { reason: Reason::Futex(Primitive::Mutex), lock: Some(LockNumber(0)) };
    assert_eq!(
        row,
        [(0, 1, State::Running { cpu: 1 }), (1, 3, wait), (3, 5, State::Runnable), (5, 6, State::Running { cpu: 1 })]
    );
    assert_eq!(timeline.wakes.len(), 1);
    let thread = report.facts.thread(schedule.tid("B")).unwrap();
    assert_eq!(thread.run_delay_ns.sum_ns(), 2 * MS);
}

#[test]
fn parking_lot_is_known_by_its_places() {
    let (schedule, report) = report(
        "p = parking_lot
         A: ####P####P####
         B: #ppp##########
         C: ######ppp#####",
    );
    assert_eq!(report.facts.locks.len(), 1, "{:?}", report.facts.locks);
    let lock = &report.facts.locks[0];
    assert_eq!((lock.addr, lock.primitive, lock.waits), (None, Primitive::ParkingLotMutex, 2));
    assert_eq!(lock.name, LockName::Site("take_p".into()));
    assert_eq!(lock.holders[0].tid, schedule.tid("A"));
    assert_eq!(lock.wait_ns.sum_ns(), 6 * MS);
}

/// Each waits on a word of its own, so that only names tell which waits belong to the lock: A's own wait for it is no
/// other lock's, and C waits for A only since B let A go.
#[test]
fn what_holders_of_a_lock_without_an_address_did() {
    let (_, report) = report(
        "m = parking_lot
         A: #mmmm#zzz#M#M####
         B: ##zzzMmmmm#######
         C: #mmmmmmmmmmm#####",
    );
    let doing = &report.facts.locks[0].holder_doing;
    assert_eq!((doing.running_ns, doing.unknown_ns), (4 * MS, 0));
    assert_eq!(doing.off.iter().collect::<Vec<_>>(), [(&Reason::Sleep, &(6 * MS))]);
    assert_eq!(doing.off_sites[0].caller().unwrap().function.as_deref(), Some("do_nanosleep"));
}

#[test]
fn who_yields_before_it_sleeps_waits() {
    let (schedule, report) = report(
        "tick 10us
         u = yield m
         A: ##uu#uu#mmmmm##uuuu##
         B: ############M###yyyy#
         C: #####################",
    );
    let m = lock(&report, "m");
    assert_eq!((m.wait_ns.sum_ns(), m.yield_ns), (50_000, 80_000), "also where no sleep followed");
    let state = |thread, state| report.facts.thread(schedule.tid(thread)).unwrap().account.of(state) / 10_000;
    assert_eq!((state("A", AccountState::Lock), state("A", AccountState::Spinning)), (13, 0));
    assert_eq!((state("B", AccountState::Lock), state("B", AccountState::Spinning)), (0, 4), "it yields elsewhere");
    let sites: Vec<u64> = report.facts.yield_sites.iter().map(|site| site.count).collect();
    assert_eq!(sites, [1], "only what is no wait for something known");
}

#[test]
fn who_yields_with_the_lock_does_not_wait_for_it() {
    let (_, report) = report(
        "tick 10us
         u = yield m
         A: ###uu#Mmmmm##uu##M##
         B: #mmmmm##uu#M##mmm###",
    );
    assert_eq!(lock(&report, "m").yield_ns, 0, "it lets the other in before it waits");
}

/// Who has it keeps it for a while and wakes all that wait; one goes on, and the others wait again at once. At a
/// barrier, all go on.
#[test]
fn who_lets_one_in_is_no_barrier() {
    assert_eq!(role_of("unknown", ["##########C#", "cccccccccc##", "cccccccccc#c"]), Primitive::OtherLock);
    assert_eq!(role_of("unknown", ["##########C#", "######cccc##", "########cc##"]), Primitive::Barrier);
}

/// The same where they take the condition's mutex before they look: nothing but a wait for it is between two waits.
#[test]
fn a_condition_that_one_of_all_finds_is_no_barrier() {
    assert_eq!(role_of("condvar", ["########C###", "cccccccc#m##", "cccccccc#m#c"]), Primitive::Condvar);
    assert_eq!(role_of("condvar", ["########C###", "######cc#m##", "#######c#m##"]), Primitive::Barrier);
}

/// What `c` is if three threads do these in turn.
fn role_of(kind: &str, parts: [&str; 3]) -> Primitive {
    let thread = |own: usize| (0..9).map(|slot| parts[(own + 9 - slot) % 3]).collect::<String>();
    let lines = [thread(0), thread(1), thread(2)];
    let (_, report) = report(&format!("tick 10us\nc = {kind}, all\nA: {}\nB: {}\nC: {}", lines[0], lines[1], lines[2]));
    lock(&report, "c").primitive
}

/// At every other meeting three of four spin until the last has come, and only one falls asleep.
#[test]
fn a_barrier_for_which_one_alone_waits_at_times_is_a_barrier() {
    const ROLES: [&str; 4] = ["###C####C#", "#cc#cccc##", "####cccc##", "####cccc##"];
    let thread = |own: usize| (0..12).map(|frame| ROLES[(own + frame) % 4]).collect::<String>();
    let lines: Vec<String> = "ABCD".chars().enumerate().map(|(own, name)| format!("{name}: {}", thread(own))).collect();
    let (_, report) = report(&format!("tick 100us\nc = unknown, all\n{}", lines.join("\n")));
    assert_eq!(lock(&report, "c").primitive, Primitive::Barrier);
}

/// Two of five have it at a time. Who lets go wakes all that wait; one goes on, and the others wait again at once.
#[test]
fn what_two_have_at_a_time_is_no_lock() {
    let thread = |own: usize| -> String {
        let of_slot = |slot: usize| match (slot + 5 - own) % 5 {
            0 | 1 => "##########",
            2 => "C#cccccccc",
            _ => "#ccccccccc",
        };
        (0..80).map(of_slot).collect()
    };
    let lines: Vec<String> =
        ["A", "B", "C", "D", "E"].iter().zip(0..).map(|(name, own)| format!("{name}: {}", thread(own))).collect();
    let (_, report) = report(&format!("tick 10us\nc = unknown, all\n{}", lines.join("\n")));
    assert!(!lock(&report, "c").primitive.is_contention(), "{:?}", lock(&report, "c").primitive);
}

/// By turns, one of three goes ahead of the others, which wait now and then for how far it is, long before they are
/// waited for themselves.
#[test]
fn a_condition_for_how_far_others_are_is_no_lock() {
    let thread = |own: usize| -> String {
        let phase = |first: usize| match (own + 3 - first) % 3 {
            0 => "###C#####C###".repeat(2),
            1 => "#cc##########".repeat(2),
            _ => "#######cc####".repeat(2),
        };
        (0..12).map(|first| phase(first % 3)).collect()
    };
    let (_, report) = report(&format!("tick 100us\nc = condvar\nA: {}\nB: {}\nC: {}", thread(0), thread(1), thread(2)));
    assert_eq!(lock(&report, "c").primitive, Primitive::Condvar);
}

/// Each waits on a word of its own. Who has it takes it again before the one that it woke is there, which takes longer
/// to find that out than a look at a word does, and waits again.
#[test]
fn a_lock_that_is_mostly_found_taken_by_those_who_are_woken_is_one() {
    let thread = |own: usize| -> String {
        let turn = |first: usize| match (own + 3 - first) % 3 {
            0 => format!("{}{}", "#".repeat(30), format!("C{}", "#".repeat(29)).repeat(3)),
            1 => format!("{}#{}#{}", "c".repeat(30), "c".repeat(59), "c".repeat(29)),
            _ => format!("C{}#{}", "c".repeat(59), "c".repeat(59)),
        };
        (0..24).map(|first| turn(first % 3)).collect()
    };
    let (_, report) =
        report(&format!("tick 100us\nc = unknown, own\nA: {}\nB: {}\nC: {}", thread(0), thread(1), thread(2)));
    let of: Vec<Primitive> = report.facts.locks.iter().map(|lock| lock.primitive).collect();
    assert_eq!(of, [Primitive::OtherLock], "one lock, whatever the words");
}

#[test]
fn who_releases_a_lock_ends_no_wait_for_what_it_does() {
    let (schedule, report) = report(
        "A: ##M##C##M####
         B: #m####mm#####
         C: ##ccc########",
    );
    assert_eq!(report.facts.thread(schedule.tid("A")).unwrap().ended_waits, 1, "C's");
}

/// For how many milliseconds A runs on the path, and what B does there, while A waits for B, which goes through this.
fn on_path(b: &str, leaf: Leaf) -> (u64, u64) {
    let text = format!("tick 1ms\ncapabilities full\nc = condvar\nA: ##########ccc#######\nB: {b}");
    let (schedule, report) = report(&text);
    let of = |thread, leaf| -> u64 {
        let parts = report.facts.path.parts.iter();
        parts.filter(|part| part.thread == schedule.tid(thread) && part.leaf == leaf).map(|part| part.ns).sum()
    };
    (of("A", Leaf::Running) / 1_000_000, of("B", leaf) / 1_000_000)
}

/// The first thread of a server sleeps while another works.
#[test]
fn the_path_of_a_program_that_goes_on_is_that_of_who_worked_most() {
    let (schedule, report) = report("tick 1ms\ncapabilities full\nA: #zzzzzzzzz\nB: #pp###pp##");
    assert_eq!(report.facts.path.parts.first().map(|part| part.thread), Some(schedule.tid("B")));
}

/// A waits for B, which had slept before A began to wait: what A did then is the path, not that sleep.
#[test]
fn a_sleep_that_nobody_waited_for_is_not_on_the_path() {
    assert_eq!(on_path("#zzzzzzzz####C", Leaf::Sleep), (16, 0));
    let (_, slept) = on_path("#zzzzzzzzzzz#C", Leaf::Sleep);
    assert!(slept >= 10, "A waits while B sleeps: {slept}");
}

/// A waits for B, which has waited for the outside for nearly all of the time, as for its own end: only what is left of
/// that wait is on the path.
#[test]
fn a_long_wait_for_the_outside_is_on_the_path_from_where_it_is_waited_for() {
    assert_eq!(on_path("#ppppppppppp#C", Leaf::Outside), (17, 2));
    assert_eq!(on_path("#p#######ppp#C", Leaf::Outside), (7, 4), "a short one is work that takes its time");
}

#[test]
fn samples_become_code() {
    let (_, report) = report(
        "capabilities full
         $ = in parse
         % = in copy_page, kernel
         A: $$$%ooo#",
    );
    let facts = &report.facts;
    assert_eq!((facts.totals.user_samples, facts.totals.kernel_samples), (3, Some(1)));
    assert_eq!(facts.symbols[0].frame.function.as_deref(), Some("parse"));
    assert_eq!((facts.symbols[0].hits, facts.symbols[0].inclusive), (3, 3));
    assert_eq!(facts.threads[0].kernel_samples, 1);
    assert_eq!(facts.modules.iter().map(|code| code.hits).sum::<u64>(), 4);
}

#[test]
fn who_had_the_cpu_of_a_thread_that_could_run() {
    let (schedule, own) = report(
        "cpus 1
         A: ##~~~~##
         B: zz####zz",
    );
    assert_eq!(off(&own, &schedule, "A", Reason::Preempted), (1, 4));
    assert_eq!(off(&own, &schedule, "A", Reason::Displaced), (0, 0));
    assert!(own.problems.is_empty(), "{:?}", own.problems);
    let (schedule, others) = report(
        "cpus 1
         A: ##~~~~~~~~~~~~##
         B: zz##zzzzzzzzzzzz",
    );
    assert_eq!(off(&others, &schedule, "A", Reason::Preempted), (0, 0));
    assert_eq!(off(&others, &schedule, "A", Reason::Displaced), (1, 12), "B ran for two ticks of twelve");
    let told = crate::Problem::Displaced { displaced_ns: 12 * MS, working_ns: 18 * MS };
    assert_eq!(others.problems, [told]);
}

/// An ordinary user's recording of twenty reads, some of which were looked at.
fn reading(other: &str, looked_at: &[usize], found: impl Fn(usize) -> Blocked) -> (Schedule, Tid, Report) {
    let reads = "#ooo".repeat(20);
    let mut schedule = Schedule::parse(&format!("capabilities user\ncpus 2\nA: {other}\nB: {reads}#\n"))
        .unwrap_or_else(|why| panic!("{why}"));
    let reader = schedule.tid("B");
    let look = |read: &usize| Event {
        time_ns: schedule.time_ns(4 * *read as u64 + 2) + MS / 2,
        tid: reader,
        cpu: NO_CPU,
        what: What::Blocked(Box::new(found(*read))),
    };
    let looks: Vec<Event> = looked_at.iter().map(look).collect();
    schedule.events.extend(looks);
    schedule.events.sort_by_key(|event| event.time_ns);
    let report = schedule.analyze();
    check_lives(&report.facts);
    (schedule, reader, report)
}

/// Where looks find a thread at one file after the other, the stretches between are of the same kind, at no file.
#[test]
fn who_writes_to_many_files_in_turn_does_so_when_nobody_looks() {
    let found = |read: usize| Blocked {
        nr: Some(CallNumber(1)),
        wchan: Some("pipe_write".into()),
        file: Some(format!("/run/press/{read}").into()),
        addr: 7,
        ..Blocked::default()
    };
    let busy = "#".repeat(81);
    let (schedule, _, report) = reading(&busy, &[3, 8, 14], found);
    assert_eq!(off(&report, &schedule, "B", Reason::Peer), (20, 60));
    let files: Vec<_> = report.facts.blame.iter().filter_map(|row| row.file.as_deref()).collect();
    assert_eq!(files.len(), 3, "those that were seen: {files:?}");
}

/// An ordinary user's recording does not show who writes to a pipe: whoever runs as the reads end, if nearly all of
/// them end so, at a pipe that the program made itself.
#[test]
fn who_writes_to_a_pipe_of_the_program_is_whoever_runs_as_the_reads_end() {
    let wakers = |descriptor: u64, writer: &str| {
        let (schedule, reader, report) = reading(writer, &(0..20).collect::<Vec<_>>(), |_| Blocked {
            nr: Some(CallNumber(0)),
            file: Some("pipe:[4711]".into()),
            addr: descriptor,
            ..Blocked::default()
        });
        let of = |row: &&crate::Blame| row.waiter == reader && row.file.is_some() | (row.thread != reader);
        let rows = report.facts.blame.iter().filter(of).map(|row| (row.thread == schedule.tid("A"), row.leaf));
        rows.collect::<std::collections::BTreeSet<_>>()
    };
    let busy = "#".repeat(81);
    assert_eq!(wakers(5, &busy), [(true, Leaf::Running)].into());
    assert_eq!(wakers(0, &busy), [(false, Leaf::Outside)].into(), "what it was started with is from outside");
    let asleep = format!("{}{}", "#".repeat(40), "z".repeat(41));
    assert_eq!(wakers(5, &asleep), [(false, Leaf::Unknown)].into(), "half of the reads end without it");
}

/// The schedule as looks from outside would tell of it: nobody is seen to wake anybody, and CPUs are not known.
fn by_looks(text: &str) -> Schedule {
    let mut schedule = Schedule::parse(text).unwrap_or_else(|why| panic!("{why}"));
    schedule.header.look_period_ns = MS;
    schedule.events.retain(|event| !matches!(event.what, What::FutexReturn { .. } | What::Waking { .. }));
    schedule.events.iter_mut().for_each(|event| event.cpu = NO_CPU);
    schedule
}

#[test]
fn where_threads_are_only_looked_at_the_owner_in_the_word_is_the_holder() {
    let mut schedule = by_looks(
        "A: ####zz#M#####
         B: ##mmmmmm#####
         C: #############",
    );
    let (holder, other) = (schedule.tid("A"), schedule.tid("C"));
    let look = |tick, owner: holdup_trace::Tid| {
        let what = What::LockWord { addr: schedule.addr('m'), word: 2, owner: owner.0 };
        Event { time_ns: schedule.time_ns(tick), tid: schedule.tid("B"), cpu: NO_CPU, what }
    };
    let looks = [look(3, other), look(5, holder)];
    schedule.events.extend(looks);
    schedule.events.sort_by_key(|event| event.time_ns);
    let report = schedule.analyze();
    check_lives(&report.facts);
    let lock = lock(&report, "m");
    assert_eq!((lock.waits, lock.holders.len()), (1, 2));
    let had: Vec<_> = lock.holders.iter().map(|one| (one.tid, one.ns)).collect();
    assert!(had.contains(&(holder, 3 * MS)) && had.contains(&(other, 3 * MS)), "as far as each was seen: {had:?}");
    assert_eq!((lock.holder_doing.running_ns, lock.holder_doing.unknown_ns), (5 * MS, 0));
    assert!(report.problems.is_empty(), "{:?}", report.problems);
}

#[test]
fn where_threads_are_only_looked_at_looks_at_holders_tell_what_they_do() {
    let doing = |own: usize| {
        let mut schedule = by_looks(
            "A: #zz#zz#zz#zz#zz#zz#zz#M#####
             B: ##mmmmmmmmmmmmmmmmmmmmmm####",
        );
        let (holder, process) = (schedule.tid("A"), schedule.tid("B"));
        let look = |(at, tick): (usize, u64)| {
            let what = What::LockWord { addr: schedule.addr('m'), word: 2, owner: holder.0 };
            // Whether the owner was looked at, and had it still.
            let tid = if at < own { holder } else { process };
            Event { time_ns: schedule.time_ns(tick) + MS / 2, tid, cpu: NO_CPU, what }
        };
        let looks: Vec<Event> = [4, 5, 7, 8, 10, 11, 13, 14].into_iter().enumerate().map(look).collect();
        schedule.events.extend(looks);
        schedule.events.sort_by_key(|event| event.time_ns);
        let report = schedule.analyze();
        let doing = &lock(&report, "m").holder_doing;
        let asleep_ns = doing.off.get(&Reason::Sleep).copied().unwrap_or(0);
        let all_ns = asleep_ns + doing.running_ns + doing.unknown_ns;
        asleep_ns * 8 / all_ns.max(1)
    };
    assert_eq!(doing(8), 8, "each look finds it asleep");
    assert_eq!(doing(4), 4, "who has not got it any more when it is looked at has run");
}

#[test]
fn where_threads_are_only_looked_at_who_ran_as_a_wait_ended_has_ended_it() {
    let schedule = by_looks(
        "c = condvar
         A: #########zzzz##########
         B: #ccccccccccccccccc#####
         C: #ccccccccccccccccc#####",
    );
    let facts = schedule.analyze().facts;
    let (by, other) = (schedule.tid("A"), schedule.tid("C"));
    let blamed = |waiter| {
        let rows = facts.blame.iter().filter(|row| row.waiter == schedule.tid(waiter));
        rows.map(|row| (row.thread, row.leaf, row.ns / MS)).collect::<Vec<_>>()
    };
    for waiter in ["B", "C"] {
        let rows = blamed(waiter);
        assert!(rows.iter().all(|(thread, ..)| *thread == by), "not {other:?}, who waits for the same: {rows:?}");
        let of = |leaf| rows.iter().filter(|row| row.1 == leaf).map(|row| row.2).sum::<u64>();
        assert_eq!((of(Leaf::Running), of(Leaf::Sleep)), (13, 4), "{rows:?}");
    }
}

#[test]
fn where_threads_are_only_looked_at_a_semaphore_is_a_lock_if_one_of_its_waiters_always_has_it() {
    let primitive = |text: &str| {
        let schedule = by_looks(text);
        lock(&schedule.analyze(), "s").primitive
    };
    let taken = "s = semaphore
         A: ###sss######sss######sss######
         B: sss######sss######sss######sss";
    assert_eq!(primitive(taken), Primitive::SemaphoreLock);
    let idle = "s = semaphore
         A: sssssssss#sssssssss#sssssssss#
         B: sssssssss#sssssssss#sssssssss#";
    assert_eq!(primitive(idle), Primitive::Semaphore, "nobody has it while they wait");
    let fed = "s = semaphore
         A: ###sss######sss######sss######
         B: sss######sss######sss######sss
         C: zz#zz#zz#zz#zz#zz#zz#zz#zz#zz#";
    assert_eq!(primitive(fed), Primitive::Semaphore, "a third may end their waits");
}

#[test]
fn where_threads_are_only_looked_at_and_no_word_tells_who_waited_before_has_the_lock() {
    let schedule = by_looks(
        "m = rust mutex
         A: #mm##zz####
         B: ###mmmmmm##",
    );
    let report = schedule.analyze();
    let lock = lock(&report, "m");
    assert_eq!((lock.waits, lock.holders.len()), (2, 1));
    assert_eq!((lock.holders[0].tid, lock.holders[0].ns), (schedule.tid("A"), 6 * MS));
    assert_eq!((lock.holder_doing.running_ns, lock.holder_doing.unknown_ns), (4 * MS, 2 * MS), "who had it first?");
}

#[test]
fn where_threads_are_only_looked_at_a_word_that_says_that_others_wait_is_a_locks() {
    let primitive = |word: u32| {
        let mut schedule = by_looks(
            "m = unknown
             A: mm####mmm#
             B: ##mmmm####",
        );
        let look = |tick| {
            let what = What::LockWord { addr: schedule.addr('m'), word, owner: 0 };
            Event { time_ns: schedule.time_ns(tick), tid: schedule.tid("B"), cpu: NO_CPU, what }
        };
        let looks = [1, 3, 4, 5, 7].map(look);
        schedule.events.extend(looks);
        schedule.events.sort_by_key(|event| event.time_ns);
        lock(&schedule.analyze(), "m").primitive
    };
    assert_eq!((primitive(2), primitive(u32::MAX)), (Primitive::OtherLock, Primitive::OtherLock));
    assert_eq!((primitive(1), primitive(0)), (Primitive::Unknown, Primitive::Unknown));
}

#[test]
fn where_threads_are_only_looked_at_others_had_the_cpu_of_a_thread_if_the_program_had_enough() {
    let text = "A: ##~~~~##\n B: zz####~~";
    let delays = |cpus| {
        let schedule = by_looks(&format!("cpus {cpus}\n {text}"));
        let report = schedule.analyze();
        [Reason::Preempted, Reason::Displaced].map(|reason| off(&report, &schedule, "A", reason).1)
    };
    assert_eq!((delays(1), delays(2)), ([4, 0], [0, 4]));
}

/// Two threads lead in turn: one waits in the kernel, and wakes the other to do so as soon as something came.
#[test]
fn the_turn_to_wait_for_events_is_no_lock() {
    let role = |wait: &str| {
        let turn = format!("#{wait}{wait}Ccc");
        let (leads, follows) = (turn.repeat(8), turn.repeat(7));
        let (_, report) = report(&format!("A: #{leads}#\nB: #ccc{follows}#{wait}{wait}#"));
        lock(&report, "c").primitive
    };
    assert_eq!(role("p"), Primitive::Condvar);
    assert_eq!(role("z"), Primitive::OtherLock, "who has it sleeps");
}

/// The first question finds the one who is asked asleep, the others come before it is.
#[test]
fn who_is_seen_to_ask_now_and_then_always_asks() {
    let asked = |rounds: usize| {
        let asker = format!("A: ###Cdddddd#{}", "ddddd#".repeat(rounds));
        let server = format!("S: #cc#zzzzzzD{}", "zzzzzD".repeat(rounds));
        let (schedule, Report { facts, .. }) = report(&format!("c = condvar\nd = condvar\n{asker}\n{server}"));
        let rows = facts.blame.iter().filter(|row| row.waiter == schedule.tid("A") && row.leaf == Leaf::Sleep);
        let mut sums = [0; 2];
        rows.for_each(|row| sums[usize::from(row.asker == Some(schedule.tid("A")))] += row.ns / MS);
        sums
    };
    assert_eq!(asked(3), [0, 21], "28% are seen");
    assert_eq!(asked(4), [20, 6], "23% are seen");
}

#[test]
fn locks_that_nobody_released_before_the_process_ended_are_kept() {
    let kept = |last: &str| {
        let text = format!(
            "tick 1ms
             A: ##nnnnnnnnnn#
             B: ##mmmmmmmmmm#
             C: {last}"
        );
        let mut schedule = Schedule::parse(&text).unwrap_or_else(|why| panic!("{why}"));
        let [a, b, c] = ["A", "B", "C"].map(|name| schedule.tid(name));
        let look = |lock, owner: Tid, tick| {
            let what = What::LockWord { addr: schedule.addr(lock), word: 2, owner: owner.0 };
            Event { time_ns: schedule.time_ns(tick), tid: c, cpu: NO_CPU, what }
        };
        let looks = [look('m', a, 8), look('n', b, 8)];
        schedule.events.extend(looks);
        schedule.events.sort_by_key(|event| event.time_ns);
        let report = schedule.analyze();
        let of = |name| lock(&report, name).kept.clone().map(|kept| (kept.holder, kept.has_ended, kept.waiters.len()));
        ([of("m"), of("n")], a, b)
    };
    let (found, a, b) = kept("###############");
    assert_eq!(found, [Some((a, false, 1)), Some((b, false, 1))]);
    let (found, a, _) = kept("##########N####");
    assert_eq!(found, [Some((a, false, 1)), None], "somebody called to release it since");
}
