//! Where all time goes: the account of all threads, what waits come from (the blame), and what the elapsed time is made
//! of (the path).

use std::collections::BTreeMap;

use holdup_analyze::{
    Account, AccountState, Blame, Facts, Frame, GoroutineState, Leaf, LockNumber, PathPart, Reason, Role, ThreadFacts,
};

use super::super::document::{Column, Document, Table};
use super::super::number;
use super::{goroutines, more, share};
use crate::recording::name;
use crate::text;

/// Columns of the bar.
const BAR: usize = 40;

/// States below this share are not named.
const LEAST_NAMED: f64 = 0.005;

/// What the words of most states begin with.
const WAIT: &str = "waiting for ";

/// Each state's character in bars.
pub(crate) const CHARACTERS: [(AccountState, char); AccountState::COUNT] = [
    (AccountState::Running, '#'),
    (AccountState::Spinning, 'y'),
    (AccountState::CpuOwn, '~'),
    (AccountState::CpuOther, '-'),
    (AccountState::Lock, '='),
    (AccountState::Work, '.'),
    (AccountState::Barrier, '|'),
    (AccountState::Io, 'o'),
    (AccountState::Memory, 'm'),
    (AccountState::Sleep, 'z'),
    (AccountState::Unknown, '?'),
];

/// The account as a bar and a line, with the largest wait by name.
pub fn lines(facts: &Facts) -> Document {
    let mut out = Document::default();
    if facts.account.total_ns() == 0 {
        return out;
    }
    out.field(5, "time", |value| {
        value.line(format!("[{}]", bar(&facts.account)));
        value.paragraph(words(&facts.account));
        if let Some(wait) = largest_wait(facts) {
            value.paragraph(format!("Most of the waiting: {wait}."));
        }
        for goroutines in facts.goroutines.iter().filter_map(goroutines::sentence) {
            value.paragraph(format!("Goroutines: {goroutines}."));
        }
    });
    out
}

/// One character for each part of the time.
fn bar(account: &Account) -> String {
    let mut bar = String::new();
    let mut told = 0.0;
    for (state, character) in CHARACTERS {
        told += account.share(state);
        let until = (told * BAR as f64).round() as usize;
        while bar.len() < until.min(BAR) {
            bar.push(character);
        }
    }
    bar
}

/// `# running 35%; waiting for . work 42%, = locks 21%`.
pub(crate) fn words(account: &Account) -> String {
    let mut parts: Vec<(f64, char, &str)> = CHARACTERS
        .iter()
        .map(|(state, character)| (account.share(*state), *character, name::account_state(*state)))
        .filter(|(share, ..)| *share >= LEAST_NAMED)
        .collect();
    parts.sort_by(|a, b| b.0.total_cmp(&a.0));
    let (mut plain, mut waits) = (Vec::new(), Vec::new());
    for (share, character, words) in parts {
        let (list, words) = match words.strip_prefix(WAIT) {
            Some(what) => (&mut waits, what),
            None => (&mut plain, words),
        };
        list.push(format!("{character} {words} {}", number::percent(share)));
    }
    let mut lists = vec![plain.join(", ")];
    if !waits.is_empty() {
        lists.push(format!("{WAIT}{}", waits.join(", ")));
    }
    lists.retain(|list| !list.is_empty());
    lists.join("; ")
}

/// `31% of thread time for g_queue <- feeder (123) runs parse_row table.c:12`.
fn largest_wait(facts: &Facts) -> Option<String> {
    let mut sums: Vec<(Option<LockNumber>, Leaf, u64)> = Vec::new();
    for row in &facts.blame {
        match sums.iter_mut().find(|(lock, leaf, _)| *lock == row.lock && (row.lock.is_some() || *leaf == row.leaf)) {
            Some((_, _, ns)) => *ns += row.ns,
            None => sums.push((row.lock, row.leaf, row.ns)),
        }
    }
    let (lock, leaf, ns) = sums.into_iter().max_by_key(|(_, _, ns)| *ns)?;
    let row = facts.blame.iter().find(|row| row.lock == lock && (lock.is_some() || row.leaf == leaf))?;
    let much = number::percent(share(ns, facts.account.total_ns()));
    Some(format!("{much} of thread time, {}", branch(facts, row)))
}

/// A branch of the blame in words: `for g_lock <- logger (12) waits for I/O (/var/log/app) in flush log.c:3`.
fn branch(facts: &Facts, row: &Blame) -> String {
    let mut chain = Vec::new();
    if let Some(lock) = row.lock.and_then(|lock| facts.lock(lock)) {
        chain.push(format!("on {}", name::lock(lock)));
    }
    if let Some(lock) = row.via.and_then(|via| facts.lock(via)) {
        chain.push(format!("on {}", name::lock(lock)));
    }
    let at = row.site.as_ref().and_then(name::caller).map(|place| format!(" in {place}")).unwrap_or_default();
    let file = row.file.as_deref().map(|file| format!(" ({})", text::clean(file))).unwrap_or_default();
    let what = match (row.thread.0, row.leaf) {
        (0, Leaf::Running) => "for one that had not begun yet",
        (_, leaf_of) => leaf(leaf_of),
    };
    let own = row.thread == row.waiter && chain.is_empty();
    let asker = row.asker.filter(|asker| ![row.waiter, row.thread].contains(asker));
    let asked = asker.map(|asker| format!(", asked by {}", name::thread(facts, asker))).unwrap_or_default();
    chain.push(match own || row.thread.0 == 0 {
        true => format!("{what}{file}{at}"),
        false => format!("{} {what}{file}{at}{asked}", name::thread(facts, row.thread)),
    });
    chain.join(" <- ")
}

/// What somebody does who is waited for, in the end.
fn leaf(leaf: Leaf) -> &'static str {
    match leaf {
        Leaf::Running => "running",
        Leaf::Yielding => "yielding",
        Leaf::Cpu => "waiting for a CPU",
        Leaf::OtherPrograms => "displaced by other programs",
        Leaf::Io => "waiting for I/O",
        Leaf::Memory => "waiting for memory",
        Leaf::Sleep => "sleeping",
        Leaf::Outside => "waiting for the outside",
        Leaf::Unknown => "for a reason that is not known",
    }
}

/// The blame: waits by what they came from, most time first.
pub fn blame(facts: &Facts, limit: usize) -> Document {
    if facts.blame.is_empty() {
        return Document::from("No thread waited for anything that is known.");
    }
    let all = facts.account.total_ns();
    let mut rows: Vec<(String, u64, Vec<holdup_trace::Tid>)> = Vec::new();
    for row in &facts.blame {
        let words = branch(facts, row);
        match rows.iter_mut().find(|(known, ..)| *known == words) {
            Some((_, ns, waiters)) => {
                *ns += row.ns;
                if !waiters.contains(&row.waiter) {
                    waiters.push(row.waiter);
                }
            }
            None => rows.push((words, row.ns, vec![row.waiter])),
        }
    }
    rows.sort_by_key(|(_, ns, _)| std::cmp::Reverse(*ns));
    let mut table = Table::new([
        Column::right("of thread time"),
        Column::right("time"),
        Column::left("who waits"),
        Column::left("for what, and what that came from").wrapped(),
    ]);
    for (words, ns, waiters) in rows.iter().take(limit) {
        let who = match waiters.as_slice() {
            [one] => name::thread(facts, *one),
            many => number::counted(many.len(), "thread"),
        };
        table.row([number::percent(share(*ns, all)), number::time_ns(*ns as f64), who, words.clone()]);
    }
    let mut view = Document::default();
    view.table(table);
    more(&mut view, rows.len(), limit, "branch");
    view.gap();
    view.paragraph(
        "Each wait is followed to what its waker did meanwhile, on and on, until something is reached that is no wait \
         for a thread.",
    );
    view
}

/// The path: what the elapsed time is made of.
pub fn path(facts: &Facts, limit: usize) -> Document {
    if facts.path.parts.is_empty() {
        return Document::from("There is no path: no thread was seen to end or to run.");
    }
    let mut table = Table::new([
        Column::right("of elapsed time"),
        Column::right("time"),
        Column::left("thread"),
        Column::left("what"),
    ]);
    for part in facts.path.parts.iter().take(limit) {
        let at = part.site.as_ref().and_then(name::caller).map(|place| format!(" in {place}")).unwrap_or_default();
        let file = part.file.as_deref().map(|file| format!(" ({})", text::clean(file))).unwrap_or_default();
        table.row([
            number::percent(share(part.ns, facts.span_ns())),
            number::time_ns(part.ns as f64),
            name::thread(facts, part.thread),
            format!("{}{file}{at}", leaf(part.leaf)),
        ]);
    }
    let mut view = Document::default();
    view.table(table);
    more(&mut view, facts.path.parts.len(), limit, "part");
    let locks: Vec<String> = facts
        .path
        .locks
        .iter()
        .take(3)
        .filter_map(|(lock, ns)| {
            let lock = facts.lock(*lock)?;
            Some(format!("{} ({})", name::lock(lock), number::percent(share(*ns, facts.span_ns()))))
        })
        .collect();
    view.gap();
    if !locks.is_empty() {
        view.paragraph(format!("Waits that the path goes around: {}.", text::list(&locks)));
    }
    view.paragraph(
        "Walked backwards from the end of the thread that ended last, over each wake-up to who woke it: nothing else made the run as \
         long as it is.",
    );
    view
}

/// What decides how long a program without findings takes, if that is plain to see: `one thread alone has 95% of the
/// CPU time`.
pub fn decides(facts: &Facts) -> Option<String> {
    let stands = || has_ended(facts) && !works(facts);
    let waits = || others(facts).or_else(|| event_loop(facts)).filter(|_| stands());
    acknowledged_late(facts)
        .or_else(|| let_in_late(facts))
        .or_else(|| one_alone(facts))
        .or_else(|| sleeps(facts))
        .or_else(waits)
        .or_else(|| visitors_asleep(facts))
}

/// What threads of a program without findings mostly wait for, and what to do about what [decides](decides):
/// `its threads are waiting for work 93% of the time`.
pub fn mostly(facts: &Facts) -> Option<String> {
    let waits = AccountState::ALL.into_iter().filter(|state| state.is_wait());
    let state = waits.max_by_key(|state| facts.account.of(*state))?;
    let (much, words) = (facts.account.share(state), name::account_state(state));
    let waiting = (much >= 0.5).then(|| format!("Its threads are {words} {} of the time.", number::percent(much)));
    let alone =
        one_alone(facts).map(|_| "More threads gain nothing unless they get some of that one's work.".to_owned());
    let asleep = sleeps(facts).map(|told| match &alone {
        Some(_) => format!("{told}. {LOOK_NO_MORE}"),
        None => LOOK_NO_MORE.to_owned(),
    });
    let asleep = asleep.or_else(|| goroutines_asleep(facts).map(|told| format!("{told}. {LOOK_NO_MORE}")));
    let words: Vec<String> = waiting.into_iter().chain(alone).chain(asleep).collect();
    (!words.is_empty()).then(|| words.join(" "))
}

/// Which thread has nearly all of the work, if one does and there are others.
fn one_alone(facts: &Facts) -> Option<String> {
    const NEARLY_ALL: f64 = 0.85;
    let busiest = facts.threads.iter().max_by_key(|thread| thread.on_cpu_ns)?;
    // A first thread beside one other may have no use for more; one that hands all its work to the other has.
    let hands_on = facts.threads.len() == 2 && busiest.tid.0 != busiest.pid.0;
    let works = busiest.on_cpu_ns * 2 >= facts.span_ns() && (facts.threads.len() >= 3 || hands_on);
    let much = share(busiest.on_cpu_ns, facts.totals.on_cpu_ns);
    let samples = busiest.user_samples + busiest.kernel_samples;
    let mostly = busiest.hot_sites.first().filter(|site| site.count * 2 >= samples && samples > 0);
    (works && much >= NEARLY_ALL).then(|| {
        let place = mostly.and_then(name::own_caller).or_else(|| innermost_of_most(facts));
        let place = place.map(|place| format!(", mostly in {place}")).unwrap_or_default();
        format!("{} alone has {} of the CPU time{place}", name::thread(facts, busiest.tid), number::percent(much))
    })
}

/// Of the program's functions that half of the samples are in, or below, the one that has least besides.
fn innermost_of_most(facts: &Facts) -> Option<String> {
    const ENTRIES: [&str; 3] = ["main", "_start", "__libc_start_main"];
    let samples = facts.totals.user_samples + facts.totals.kernel_samples.unwrap_or(0);
    let is_entry = |frame: &Frame| frame.function.as_deref().is_none_or(|function| ENTRIES.contains(&function));
    let of_most = facts.symbols.iter().filter(|code| code.inclusive * 2 >= samples && samples > 0);
    let own = of_most.filter(|code| code.frame.role == Role::Program && !is_entry(&code.frame));
    let least = own.min_by_key(|code| (code.inclusive, std::cmp::Reverse(code.hits)))?;
    least.frame.function.as_deref().map(text::clean)
}

/// Where goroutines sleep, if many of them do at a time: which of the sleeps wait for something shows in no look.
pub fn goroutines_asleep(facts: &Facts) -> Option<String> {
    const LEAST_ASLEEP: f64 = 0.2;
    let groups = || facts.goroutines.iter().flat_map(|of| &of.doing);
    let all: f64 = groups().map(|group| group.mean).sum();
    let asleep = groups().filter(|group| group.state == GoroutineState::Sleep && group.mean >= LEAST_ASLEEP * all);
    let placed = asleep.filter_map(|group| Some((group.mean, name::own_caller(&group.site)?)));
    let (mean, place) = placed.max_by(|(one, _), (other, _)| one.total_cmp(other))?;
    Some(format!("{} of {} goroutines sleep in {place}", number::ratio(mean), number::ratio(all)))
}

/// What the elapsed time of a program that has ended mostly goes by with, if that is waits for other ends, as of
/// connections and pipes.
fn others(facts: &Facts) -> Option<String> {
    // Who waits for whatever comes has nothing to do.
    const OTHER_WAITS: [&str; 6] = ["poll", "select", "wait4", "waitid", "sigsuspend", "sigtimedwait"];
    let waits = |part: &&PathPart| {
        let is_other = |name: &str| OTHER_WAITS.iter().any(|one| name.contains(one));
        let other = |frame: &Frame| frame.function.as_deref().is_some_and(is_other);
        part.leaf == Leaf::Outside && part.site.as_ref().is_some_and(|site| !site.call_path.iter().any(other))
    };
    let parts = || facts.path.parts.iter().filter(waits);
    let much = share(parts().map(|part| part.ns).sum(), facts.span_ns());
    let place = name::own_caller(parts().max_by_key(|part| part.ns)?.site.as_ref()?)?;
    (much >= 0.5).then(|| {
        format!(
            "{} of the elapsed time goes by in waits for the other ends of sockets and pipes, mostly in {place}",
            number::percent(much)
        )
    })
}

/// Whether the elapsed time of a program that has ended mostly goes by with an event loop of Python or Node that has
/// nothing to do: which task waits for which other, as for a lock of asyncio, is nothing that a thread waits for.
fn event_loop(facts: &Facts) -> Option<String> {
    let waits_in = |is_loop: &dyn Fn(&Frame) -> bool| {
        let waits = |part: &&PathPart| {
            let waits = matches!(part.leaf, Leaf::Outside | Leaf::Sleep);
            waits && part.site.as_ref().is_some_and(|site| site.call_path.iter().any(is_loop))
        };
        share(facts.path.parts.iter().filter(waits).map(|part| part.ns).sum(), facts.span_ns())
    };
    // A server that is told to end has waited for visitors.
    let by_itself = facts.ending.as_ref().is_some_and(|ending| ending.status == Some(0));
    let of_node = waits_in(&|frame| {
        frame.function.as_deref() == Some("uv__io_poll") && frame.module.rsplit('/').next() == Some("node")
    });
    if by_itself && of_node >= 0.5 {
        return Some(format!(
            "{} of the elapsed time goes by in waits of Node's event loop for answers and timers: where each 'await' \
             waits for one answer, ask for several at once (Promise.all)",
            number::percent(of_node)
        ));
    }
    let much = waits_in(&|frame| frame.file.as_deref().unwrap_or(&frame.module).ends_with("/asyncio/base_events.py"));
    (much >= 0.5).then(|| {
        format!(
            "{} of the elapsed time goes by in waits of asyncio's event loop: for what its tasks wait, the other ends of \
             connections, their time, or each other, shows in no look",
            number::percent(much)
        )
    })
}

/// Whether the first thread of a process has ended.
fn has_ended(facts: &Facts) -> bool {
    facts.threads.iter().any(|thread| thread.exited && thread.tid.0 == thread.pid.0)
}

/// Where threads wait for other ends, mostly for as long as TCP's receivers put off acknowledging what they got, while
/// the sender waits with its next, small piece.
fn acknowledged_late(facts: &Facts) -> Option<String> {
    const LATE_NS: std::ops::RangeInclusive<u64> = 36_000_000..=46_000_000;
    const LEAST_TIMES: u64 = 20;
    const LEAST_OF_LIFE: f64 = 0.3;
    let waits = |thread: &&ThreadFacts| {
        let late = thread.timed_ns.buckets().filter(|(from, ..)| LATE_NS.contains(from));
        let (count, ns) = late.fold((0, 0), |(count, ns), (from, _, times)| (count + times, ns + from * times));
        thread.off.contains_key(&Reason::Peer)
            && count >= LEAST_TIMES
            && count * 2 >= thread.timed_ns.count()
            && share(ns, thread.life_ns()) >= LEAST_OF_LIFE
    };
    let place = facts.threads.iter().filter(waits).find_map(|thread| thread.off_sites.first())?;
    Some(format!(
        "waits for another end in {} mostly last 40ms, as TCP's delayed acknowledgements do: write all that belongs \
         together at once, or set TCP_NODELAY",
        name::caller(place)?
    ))
}

/// Where threads mostly wait for connections, as long as TCP takes to ask once more: whom they ask let the first
/// request fall.
fn let_in_late(facts: &Facts) -> Option<String> {
    const SECOND_NS: std::ops::RangeInclusive<u64> = 950_000_000..=3_500_000_000;
    const LEAST_TIMES: u64 = 5;
    const LEAST_OF_LIFE: f64 = 0.3;
    let connects = |thread: &ThreadFacts| thread.off_sites.iter().any(|site| site.connects());
    let threads = || facts.threads.iter().filter(|thread| connects(thread));
    let sites = || threads().flat_map(|thread| &thread.off_sites).filter(|site| site.connects());
    let (count, ns) = sites().fold((0, 0), |(count, ns), site| (count + site.count, ns + site.ns));
    let each_ns = ns.checked_div(count)?;
    let is_late = count >= LEAST_TIMES
        && SECOND_NS.contains(&each_ns)
        && share(ns, threads().map(ThreadFacts::life_ns).sum()) >= LEAST_OF_LIFE;
    let place = sites().max_by_key(|site| site.ns).filter(|_| is_late)?;
    Some(format!(
        "connections wait {} each to be let in, in {}, as where the queue of a listening socket is full and TCP asks again: \
         a longer one (the backlog of listen, net.core.somaxconn), or connections that are kept",
        number::time_ns(each_ns as f64),
        name::caller(place)?
    ))
}

/// Whether threads run, or want to, for half of the elapsed time or more: nothing goes by with waits then. Those that
/// do so at once count as one.
fn works(facts: &Facts) -> bool {
    use AccountState::{CpuOther, CpuOwn, Running};
    let wanted: f64 = [Running, CpuOwn, CpuOther].iter().map(|state| facts.account.of(*state) as f64).sum();
    let together_ns: u64 = facts.totals.runnable_ns.iter().skip(1).sum();
    let wanted = if together_ns > 0 { wanted.min(together_ns as f64) } else { wanted };
    wanted * 2.0 >= facts.span_ns() as f64
}

/// What to do about them.
pub const LOOK_NO_MORE: &str = "If the sleeps look whether something is done, wait for that instead.";

/// What the elapsed time mostly goes by with, if that is sleeps. Whether they are meant to let time pass, or to wait
/// for something, no recording shows. Where one sleeps while others work, nothing goes by with it.
fn sleeps(facts: &Facts) -> Option<String> {
    if works(facts) {
        return None;
    }
    let (much, site) = facts.path.sleeps(facts.span_ns())?;
    let place = name::own_caller(site)?;
    (much >= 0.5).then(|| format!("{} of the elapsed time goes by in sleeps, mostly in {place}", number::percent(much)))
}

/// Where many threads or processes that come and go, each for something, sleep for most of their lives: whoever comes
/// for a task and sleeps mostly tries again later.
fn visitors_asleep(facts: &Facts) -> Option<String> {
    const LEAST_VISITORS: usize = 20;
    const LEAST_ASLEEP: f64 = 0.8;
    const LEAST_SHARE: f64 = 0.3;
    // Who is there for the whole recording sleeps between its rounds.
    let comes = |thread: &ThreadFacts| thread.life_ns() * 2 < facts.span_ns();
    let asleep_ns = |thread: &ThreadFacts| thread.account.of(AccountState::Sleep);
    let sleeps = |thread: &&ThreadFacts| asleep_ns(thread) as f64 >= LEAST_ASLEEP * thread.life_ns() as f64;
    let mut by_place: BTreeMap<String, (usize, u64)> = BTreeMap::new();
    for thread in facts.threads.iter().filter(|one| comes(one)).filter(sleeps) {
        let Some(place) = thread.off_sites.first().and_then(name::own_caller) else { continue };
        let sum = by_place.entry(place).or_default();
        *sum = (sum.0 + 1, sum.1 + asleep_ns(thread));
    }
    let (place, (count, ns)) = by_place.into_iter().max_by_key(|(_, (_, ns))| *ns)?;
    let many = count >= LEAST_VISITORS && share(ns, facts.totals.thread_ns) >= LEAST_SHARE;
    many.then(|| {
        format!(
            "{count} threads that came and went slept for most of their lives, in {place}: {} of all threads' time",
            number::percent(share(ns, facts.totals.thread_ns))
        )
    })
}

#[cfg(test)]
mod tests {
    use holdup_analyze::{GoroutineGroup, OffTime, Path, Site};
    use holdup_trace::{Ending, Pid, Tid};

    use super::super::specimen::frame;
    use super::*;

    #[test]
    fn sleeps_are_named_where_they_are_the_elapsed_time() {
        let facts = |ns, role| {
            let site = Site { call_path: vec![frame("wait_for", None, "/bin/shop", role)], ..Site::default() };
            let part = PathPart { thread: Tid(7), leaf: Leaf::Sleep, file: None, ns, site: Some(site) };
            Facts { end_ns: 100, path: Path { parts: vec![part], ..Path::default() }, ..Facts::default() }
        };
        let half = facts(50, Role::Program);
        assert_eq!(decides(&half).as_deref(), Some("50% of the elapsed time goes by in sleeps, mostly in wait_for"));
        assert_eq!(mostly(&half).as_deref(), Some(LOOK_NO_MORE));
        assert_eq!(decides(&facts(49, Role::Program)), None);
        assert_eq!(decides(&facts(50, Role::Runtime)), None, "a runtime's own");
        let mut busy = facts(50, Role::Program);
        busy.account.ns[AccountState::Running as usize] = 50;
        assert_eq!(decides(&busy), None, "others work meanwhile");
    }

    #[test]
    fn waits_that_last_as_long_as_delayed_acknowledgements_are_told_first() {
        let site = Site { call_path: vec![frame("get", None, "/bin/till", Role::Program)], ..Site::default() };
        let told = |late: u64, others: u64, life_ms: u64| {
            let mut thread = ThreadFacts {
                tid: Tid(7),
                ended_ns: life_ms * 1_000_000,
                off_sites: vec![site.clone()],
                ..ThreadFacts::default()
            };
            thread.off.insert(Reason::Peer, OffTime::default());
            (0..late).for_each(|_| thread.timed_ns.add(41_000_000));
            (0..others).for_each(|_| thread.timed_ns.add(3_000_000));
            let facts = Facts { end_ns: life_ms * 1_000_000, threads: vec![thread], ..Facts::default() };
            decides(&facts).is_some_and(|told| told.contains("TCP_NODELAY") && told.contains("get"))
        };
        assert!(told(20, 20, 2_400));
        assert!(!told(19, 0, 2_400), "too few");
        assert!(!told(20, 21, 2_400), "most are shorter");
        assert!(!told(20, 20, 2_900), "it hardly waits so");
    }

    #[test]
    fn connections_that_tcp_asks_for_again_are_told_of() {
        let path = |call| {
            vec![frame(call, None, "/lib/libc.so", Role::Runtime), frame("ask", None, "/bin/shop", Role::Program)]
        };
        let told = |call, count: u64, ms: u64, life_ms: u64| {
            let site = Site { call_path: path(call), count, ns: count * ms * 1_000_000 };
            let ended_ns = life_ms * 1_000_000;
            let thread = ThreadFacts { tid: Tid(7), ended_ns, off_sites: vec![site], ..ThreadFacts::default() };
            let facts = Facts { end_ns: ended_ns, threads: vec![thread], ..Facts::default() };
            decides(&facts).is_some_and(|told| told.contains("backlog") && told.contains("ask"))
        };
        assert!(told("connect", 5, 1_020, 17_000));
        assert!(!told("connect", 4, 1_020, 13_000), "too few");
        assert!(!told("connect", 20, 250, 17_000), "far away");
        assert!(!told("connect", 5, 1_020, 17_001), "it hardly waits so");
        assert!(!told("recv", 5, 1_020, 17_000), "it has its connections");
    }

    #[test]
    fn many_that_come_and_sleep_are_told_of() {
        let site = Site { call_path: vec![frame("retry", None, "/bin/mail", Role::Program)], ..Site::default() };
        let facts = |count: u32, asleep: u64| {
            let visitor = |tid| {
                let mut thread = ThreadFacts {
                    tid: Tid(tid),
                    ended_ns: 100,
                    off_sites: vec![site.clone()],
                    ..ThreadFacts::default()
                };
                thread.account.ns[AccountState::Sleep as usize] = asleep;
                thread
            };
            let mut facts = Facts { end_ns: 300, threads: (1..=count).map(visitor).collect(), ..Facts::default() };
            facts.totals.thread_ns = u64::from(count) * 250;
            facts
        };
        assert!(decides(&facts(20, 80)).is_some_and(|told| told.starts_with("20 threads") && told.contains("retry")));
        assert_eq!(decides(&facts(19, 80)), None);
        assert_eq!(decides(&facts(20, 79)), None, "they work");
        let mut stay = facts(20, 80);
        stay.end_ns = 200;
        assert_eq!(decides(&stay), None, "they are there for all of it");
        let mut others = facts(20, 80);
        others.totals.thread_ns = 6_000;
        assert_eq!(decides(&others), None, "others have most of the time");
    }

    #[test]
    fn answers_are_named_where_an_ended_program_mostly_waits_for_them() {
        let facts = |function, ns| {
            let site = Site { call_path: vec![frame(function, None, "/bin/shop", Role::Program)], ..Site::default() };
            let part = PathPart { thread: Tid(7), leaf: Leaf::Outside, file: None, ns, site: Some(site) };
            let main = ThreadFacts { tid: Tid(7), pid: Pid(7), exited: true, ..ThreadFacts::default() };
            Facts {
                end_ns: 100,
                path: Path { parts: vec![part], ..Path::default() },
                threads: vec![main],
                ..Facts::default()
            }
        };
        let half = facts("ask_price", 50);
        assert!(decides(&half).is_some_and(|told| told.starts_with("50%") && told.ends_with("in ask_price")));
        assert_eq!(decides(&facts("ask_price", 49)), None);
        assert_eq!(decides(&facts("poll_events", 50)), None, "it waits for whatever comes");
        assert_eq!(decides(&facts("__sigsuspend", 50)), None, "it waits for its child, as timeout does");
        let mut serves = half;
        serves.threads[0].exited = false;
        assert_eq!(decides(&serves), None, "a server has nothing to do");
    }

    #[test]
    fn an_event_loop_of_python_that_waits_is_told() {
        let facts = |file: &str, ns| {
            let frame = Frame { file: Some(file.into()), ..frame("_run_once", None, "python", Role::Runtime) };
            let site = Site { call_path: vec![frame], ..Site::default() };
            let part = PathPart { thread: Tid(7), leaf: Leaf::Outside, file: None, ns, site: Some(site) };
            let main = ThreadFacts { tid: Tid(7), pid: Pid(7), exited: true, ..ThreadFacts::default() };
            let path = Path { parts: vec![part], ..Path::default() };
            Facts { end_ns: 100, path, threads: vec![main], ..Facts::default() }
        };
        const LOOP: &str = "/usr/lib/python3.11/asyncio/base_events.py";
        assert!(decides(&facts(LOOP, 50)).is_some_and(|told| told.contains("asyncio")));
        assert_eq!(decides(&facts(LOOP, 49)), None);
        assert_eq!(decides(&facts("/usr/lib/python3.11/selectors.py", 50)), None);
        let mut busy = facts(LOOP, 50);
        busy.account.ns[AccountState::Running as usize] = 50;
        assert_eq!(decides(&busy), None, "others work meanwhile");
    }

    #[test]
    fn an_event_loop_of_node_that_waits_is_told_of_a_program_that_ends_by_itself() {
        let facts = |module: &str, ns, status| {
            let site = Site { call_path: vec![frame("uv__io_poll", None, module, Role::Runtime)], ..Site::default() };
            let part = PathPart { thread: Tid(7), leaf: Leaf::Outside, file: None, ns, site: Some(site) };
            let main = ThreadFacts { tid: Tid(7), pid: Pid(7), exited: true, ..ThreadFacts::default() };
            let path = Path { parts: vec![part], ..Path::default() };
            let ending = Some(Ending { status: Some(status), ..Ending::default() });
            Facts { end_ns: 100, path, ending, threads: vec![main], ..Facts::default() }
        };
        assert!(decides(&facts("/usr/bin/node", 50, 0)).is_some_and(|told| told.contains("Promise.all")));
        assert_eq!(decides(&facts("/usr/bin/node", 49, 0)), None);
        assert_eq!(decides(&facts("/usr/bin/node", 50, 130)), None, "a server has waited for visitors");
        assert_eq!(decides(&facts("/usr/bin/nvim", 50, 0)), None);
    }

    #[test]
    fn goroutines_that_sleep_are_told_where_they_are_many() {
        let facts = |state, mean| {
            let group = |function, state, mean| {
                let call_path = vec![frame(function, None, "/bin/shop", Role::Program)];
                GoroutineGroup { state, site: Site { call_path, ..Site::default() }, mean, looking: None }
            };
            let doing = vec![group("main.stage", state, mean), group("main.feed", GoroutineState::Receive, 8.0)];
            let goroutines = vec![holdup_analyze::GoroutineFacts { doing, ..Default::default() }];
            Facts { end_ns: 100, goroutines, ..Facts::default() }
        };
        let told = mostly(&facts(GoroutineState::Sleep, 2.0)).unwrap_or_default();
        assert!(told.contains("goroutines sleep in main.stage") && told.ends_with(LOOK_NO_MORE), "{told}");
        assert_eq!(mostly(&facts(GoroutineState::Sleep, 1.9)), None);
        assert_eq!(mostly(&facts(GoroutineState::Send, 2.0)), None);
    }

    #[test]
    fn who_has_nearly_all_of_the_work_is_named() {
        let thread = |tid, on_cpu_ns| ThreadFacts {
            tid: Tid(tid),
            name: "pack".to_owned(),
            on_cpu_ns,
            ..ThreadFacts::default()
        };
        let mut facts =
            Facts { end_ns: 100, threads: vec![thread(1, 2), thread(2, 90), thread(3, 8)], ..Facts::default() };
        facts.totals.on_cpu_ns = 100;
        assert_eq!(decides(&facts).as_deref(), Some("pack (2) alone has 90% of the CPU time"));
        let hot = Site { call_path: vec![frame("squeeze", None, "/bin/pack", Role::Program)], count: 5, ns: 0 };
        (facts.threads[1].hot_sites, facts.threads[1].user_samples) = (vec![hot], 10);
        assert!(decides(&facts).is_some_and(|told| told.ends_with("of the CPU time, mostly in squeeze")));
        facts.threads[1].hot_sites[0].count = 4;
        let code = |function, inclusive| {
            let frame = frame(function, None, "/bin/pack", Role::Program);
            holdup_analyze::Code { frame, hits: 1, inclusive }
        };
        facts.symbols = vec![code("main", 10), code("serve", 10), code("squeeze_all", 5), code("squeeze", 4)];
        facts.totals.user_samples = 10;
        assert!(decides(&facts).is_some_and(|told| told.ends_with(", mostly in squeeze_all")), "and what it calls");
        facts.totals.on_cpu_ns = 106;
        assert_eq!(one_alone(&facts), None, "less");
        (facts.totals.on_cpu_ns, facts.end_ns) = (100, 181);
        assert_eq!(one_alone(&facts), None, "it is mostly idle");
        facts.end_ns = 100;
        facts.threads.pop();
        assert!(one_alone(&facts).is_some(), "the first thread has given all of it to the other");
        facts.threads[1].pid = Pid(2);
        assert_eq!(one_alone(&facts), None, "nobody else is there to share");
    }

    #[test]
    fn a_bar_is_as_long_as_it_says_and_each_state_has_its_character() {
        let mut account = Account::default();
        account.ns[AccountState::Running as usize] = 1;
        account.ns[AccountState::Lock as usize] = 2;
        account.ns[AccountState::Unknown as usize] = 1;
        assert_eq!(bar(&account), format!("{}{}{}", "#".repeat(10), "=".repeat(20), "?".repeat(10)));
        assert_eq!(words(&account), "# running 25%, ? not known 25%; waiting for = locks 50%");
        assert_eq!(CHARACTERS.map(|(state, _)| state), AccountState::ALL);
    }
}
