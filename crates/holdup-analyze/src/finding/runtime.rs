//! What is known of the threads that languages' runtimes start and schedule themselves.

use holdup_trace::Tid;

use super::weigh;
use crate::facts::{Facts, Leaf, Reason, Site, ThreadFacts};

/// Whether it is the thread for which Java's machine stops all others, to collect garbage above all.
pub(super) fn stops_all(facts: &Facts, tid: Tid) -> bool {
    facts.thread(tid).is_some_and(|thread| thread.name == "VM Thread")
}

/// Whether it is a thread that Java's machine starts for itself.
pub(super) fn is_of_java(name: &str) -> bool {
    const STARTS: [&str; 13] = [
        "VM Thread",
        "VM Periodic",
        "GC Thread",
        "G1 ",
        "C1 Compiler",
        "C2 Compiler",
        "Signal Dispatch",
        "Reference Handl",
        "Finalizer",
        "Common-Cleaner",
        "Service Thread",
        "Monitor Deflati",
        "Notification Th",
    ];
    STARTS.iter().any(|start| name.starts_with(start))
}

/// Whether a call path leads through a pool of workers of a well-known library, from where it takes its tasks.
pub(super) fn is_in_pool(site: &Site) -> bool {
    const PARTS: [&str; 9] = [
        "tokio::runtime::blocking::pool",
        "blocking::Executor",
        "threadpool::",
        "rayon_core::registry",
        "ThreadPoolExecutor",
        "thread_pool",
        "ThreadPool",
        "QThreadPoolThread",
        "g_thread_pool_thread_proxy",
    ];
    site.call_path
        .iter()
        .filter_map(|frame| frame.function.as_deref())
        .any(|name| PARTS.iter().any(|part| name.contains(part)))
}

/// Whether a thread bears the name that Java gives the threads of its pools (`pool-2-thread-1`): one that always has
/// work waiting never waits for any.
pub(super) fn is_of_pool(name: &str) -> bool {
    let rest = name.strip_prefix("pool-").map(|rest| rest.trim_start_matches(|c: char| c.is_ascii_digit()));
    rest.is_some_and(|rest| rest.starts_with("-thread-")) || name.starts_with("ForkJoinPool")
}

/// Whether it is the thread by which Go watches over its own scheduler.
pub(super) fn is_monitor(facts: &Facts, tid: Tid) -> bool {
    let slept = weigh::worst_site(facts, |row| row.leaf == Leaf::Sleep && row.waiter == tid);
    slept
        .is_some_and(|(_, site)| site.call_path.iter().any(|frame| frame.function.as_deref() == Some("runtime.sysmon")))
}

/// Whether a thread runs goroutines, which Go's scheduler hands to whichever thread it likes.
pub(super) fn is_of_scheduler(thread: &ThreadFacts) -> bool {
    let starts = |site: &Site| site.call_path.last().and_then(|frame| frame.function.clone());
    thread.hot_sites.iter().filter_map(starts).any(|function| function.starts_with("runtime.goexit"))
}

/// Whether a thread is one of libuv's pool: by where it waits for work, or where it works.
pub(super) fn is_of_uv(facts: &Facts, thread: &ThreadFacts) -> bool {
    let works = |function: &str| {
        function.starts_with("node::ThreadPoolWork::") || ["uv__fs_work", "uv__getaddrinfo_work"].contains(&function)
    };
    let any = |site: &Site, is: &dyn Fn(&str) -> bool| {
        site.call_path.iter().filter_map(|frame| frame.function.as_deref()).any(is)
    };
    let idles = |site: &Site| any(site, &|name| name == "uv_cond_wait") && any(site, &|name| name == "worker");
    let waits = facts.locks.iter().any(|lock| {
        lock.waiters.iter().any(|(tid, _)| *tid == thread.tid) && lock.wait_sites.first().is_some_and(idles)
    });
    // Who asks for such work runs an event loop.
    let asks = thread.off.get(&Reason::Poll).is_some_and(|time| time.ns * 5 > thread.life_ns());
    waits || !asks && thread.hot_sites.iter().any(|site| any(site, &works))
}
