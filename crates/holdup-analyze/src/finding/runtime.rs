//! What is known of the threads that languages' runtimes start and schedule themselves.

use holdup_trace::{Pid, Tid};

use super::weigh;
use crate::facts::{AccountState, Facts, Leaf, Reason, Site, ThreadFacts};
use crate::names::{Frame, Role, leads_through};

/// Whether it is the thread for which Java's machine stops all others, to collect garbage above all.
pub(super) fn stops_all(facts: &Facts, tid: Tid) -> bool {
    facts.thread(tid).is_some_and(|thread| thread.name == "VM Thread")
}

/// Whether a thread of this name is one by which Java's machine stops all others, or collects garbage.
pub(super) fn collects(name: &str) -> bool {
    const STARTS: [&str; 5] = ["VM Thread", "GC Thread", "G1 ", "ZWorker", "Shenandoah"];
    STARTS.iter().any(|start| name.starts_with(start))
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

/// Whether a thread is one that Go's runtime keeps for itself, to watch over the others: it sleeps for that, and no
/// goroutine's sleep is a thread's.
pub(super) fn watches_go(thread: &ThreadFacts) -> bool {
    let sleeps = |site: &Site| site.caller().and_then(|frame| frame.function.as_deref()) == Some("runtime.usleep");
    thread.account.share(AccountState::Sleep) >= 0.5 && thread.off_sites.first().is_some_and(sleeps)
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
    leads_through(&site.call_path, |name| PARTS.iter().any(|part| name.contains(part)))
}

/// Whether a call path is that of a task in the thread pool of .NET, whose own part is native up to 5, then managed.
pub(super) fn is_in_pool_of_dotnet(site: &Site) -> bool {
    const STARTS: [&str; 3] = [
        "ThreadpoolMgr::WorkerThreadStart",
        "System.Threading.ThreadPoolWorkQueue.Dispatch",
        "System.Threading.PortableThreadPool",
    ];
    leads_through(&site.call_path, |name| STARTS.iter().any(|start| name.starts_with(start)))
}

/// Whether a call path is that of a task in an executor of Java, and not of one of its threads that waits for a task.
pub(super) fn is_in_task_of_java(site: &Site) -> bool {
    // Who waits for tasks of a common pool runs some of them itself.
    const WORKERS: [&str; 3] = ["ThreadPoolExecutor.runWorker", "ForkJoinPool.runWorker", "ForkJoinTask.doExec"];
    const IDLE: [&str; 3] = ["ThreadPoolExecutor.getTask", "ForkJoinPool.awaitWork", "ForkJoinPool.scan"];
    let leads = |parts: &[&str]| leads_through(&site.call_path, |name| parts.iter().any(|part| name.ends_with(part)));
    leads(&WORKERS) && !leads(&IDLE)
}

/// Whether a thread of Java waits here for the result of a task that it has given to an executor.
pub(super) fn waits_for_result_of_java(site: &Site) -> bool {
    const RESULTS: [&str; 5] =
        ["FutureTask.get", "CompletableFuture.get", "CompletableFuture.join", "ForkJoinTask.join", "ForkJoinTask.get"];
    leads_through(&site.call_path, |name| RESULTS.iter().any(|part| name.ends_with(part)))
}

/// Whether a call path is that of a task in an executor of Java or Python.
pub(super) fn is_in_executor(site: &Site) -> bool {
    is_in_task_of_java(site) || is_in_executor_of_python(site)
}

/// Whether a task of an executor waits here for the result of another, or any thread of C++ for that of a future.
pub(super) fn waits_in_task_for_result(site: &Site) -> bool {
    let result = |frame: &Frame| {
        let gets = matches!(frame.function.as_deref(), Some("Future.result" | "result"));
        gets && frame.file.as_deref().unwrap_or(&frame.module).ends_with("/concurrent/futures/_base.py")
    };
    // C++ names no executor; the rule asks for several threads that wait so.
    let of_cpp = leads_through(&site.call_path, |name| name.starts_with("std::__basic_future<"));
    let of_java = is_in_task_of_java(site) && waits_for_result_of_java(site);
    of_java || of_cpp || is_in_executor_of_python(site) && site.call_path.iter().any(result)
}

/// Whether a call path leads through the loop of a worker of Python's executors. What hands them tasks is in the same
/// file.
pub(super) fn is_in_executor_of_python(site: &Site) -> bool {
    let is_loop = |frame: &Frame| frame.function.as_deref() == Some("_worker");
    site.call_path.iter().any(|frame| is_loop(frame) && frame.module.ends_with("/concurrent/futures/thread.py"))
}

/// Whether a call path leads through what hands things from one of Python's processes to another.
pub(super) fn hands_to_process_of_python(site: &Site) -> bool {
    const FILES: [&str; 2] = ["/concurrent/futures/process.py", "/multiprocessing/"];
    let is_of = |frame: &Frame| {
        let file = frame.file.as_deref().unwrap_or(&frame.module);
        file.ends_with(FILES[0]) || file.contains(FILES[1]) && file.ends_with(".py")
    };
    site.call_path.iter().any(is_of)
}

/// Whether a call path is that of a callback or a task that an event loop runs: Python's asyncio, or a call of Node's
/// first thread that waits for a process of its own.
pub(super) fn is_in_event_loop(site: &Site) -> bool {
    let of_asyncio = |frame: &Frame| {
        // Names without their class are those of 3.10 and before.
        let runs = matches!(frame.function.as_deref(), Some("Handle._run" | "_run"));
        runs && frame.file.as_deref().unwrap_or(&frame.module).ends_with("/asyncio/events.py")
    };
    let waits_for_process = |name: &str| name.starts_with("node::SyncProcessRunner::");
    site.call_path.iter().any(of_asyncio) || leads_through(&site.call_path, waits_for_process)
}

/// Whether a call path is that of a task in Java's common pool, whose callers run its tasks as well.
pub(super) fn is_in_common_pool(site: &Site) -> bool {
    leads_through(&site.call_path, |name| name.ends_with("ForkJoinTask.doExec"))
}

/// Whether a call path is that of a task which a worker of tokio runs.
pub(super) fn is_in_task(site: &Site) -> bool {
    leads_through(&site.call_path, |name| name.contains("tokio::runtime::task::"))
        && !leads_through(&site.call_path, |name| name.contains("tokio::runtime::blocking"))
}

/// Whether a call path is that of a thread which hands tokio's tasks their turns.
pub(super) fn is_in_scheduler_of_tokio(site: &Site) -> bool {
    leads_through(&site.call_path, |name| name.contains("tokio::runtime::scheduler"))
}

/// Whether a thread bears the name that tokio gives its threads, cut as the kernel cuts it or not.
pub(super) fn is_of_tokio(name: &str) -> bool {
    name.starts_with("tokio-rt-worker") || name.starts_with("tokio-runtime-w")
}

/// Whether a thread of tokio's, in a program without names, never waits for a task: where it sleeps or reads, it is
/// busy with one, so that it is one of those that run calls which block.
pub(super) fn blocks_for_tokio(thread: &ThreadFacts) -> bool {
    const MOST_FOR_TASKS: f64 = 0.02;
    let has_name = |frame: &Frame| frame.role == Role::Program && frame.function.is_some();
    let mut frames = thread.hot_sites.iter().chain(&thread.off_sites).flat_map(|site| &site.call_path);
    let waited_ns = thread.account.of(AccountState::Work) + thread.account.of(AccountState::Unknown);
    let for_tasks_ns = waited_ns.saturating_sub(thread.off.get(&Reason::Peer).map_or(0, |time| time.ns));
    let is_busy = weigh::share(for_tasks_ns, thread.life_ns()) <= MOST_FOR_TASKS;
    is_of_tokio(&thread.name) && is_busy && !frames.any(has_name)
}

/// Whether a thread bears the name that Java gives the threads of its pools (`pool-2-thread-1`): one that always has
/// work waiting never waits for any.
pub(super) fn is_of_pool(name: &str) -> bool {
    let rest = name.strip_prefix("pool-").map(|rest| rest.trim_start_matches(|c: char| c.is_ascii_digit()));
    rest.is_some_and(|rest| rest.starts_with("-thread-")) || name.starts_with("ForkJoinPool")
}

/// The threads of a pool bear one name and their numbers: which process's, and the name.
pub(super) fn pool_of(thread: &ThreadFacts) -> (Pid, &str) {
    (thread.pid, thread.name.trim_end_matches(|c: char| c.is_ascii_digit()))
}

/// Whether a thread is a worker of rayon: by where it works.
pub(super) fn is_of_rayon(thread: &ThreadFacts) -> bool {
    thread.hot_sites.iter().any(|site| leads_through(&site.call_path, |name| name.starts_with("rayon_core::")))
}

/// Whether one of the threads that Node keeps for itself idles here: for tasks of V8, such as collecting and compiling,
/// for one of libuv's, or until a debugger asks.
pub(super) fn is_idle_in_node(site: &Site) -> bool {
    const THREADS: [&str; 2] = ["PlatformWorkerThread", "StartIoThreadMain"];
    let idles = |name: &str| name.starts_with("node::") && THREADS.iter().any(|thread| name.ends_with(thread));
    leads_through(&site.call_path, idles) || is_idle_in_uv(site)
}

/// Whether a worker of libuv's pool waits for a task here. Its function is not exported: where symbols are stripped,
/// the library's own frame has no name.
fn is_idle_in_uv(site: &Site) -> bool {
    site.call_path.windows(2).any(|pair| match (pair[0].function.as_deref(), pair[1].function.as_deref()) {
        (Some("uv_cond_wait"), Some(caller)) => caller == "worker",
        (Some("uv_cond_wait"), None) => pair[1].module == pair[0].module && pair[1].module.contains("libuv"),
        _ => false,
    })
}

/// Whether a worker of rayon, .NET or Erlang's machine looks for a task here, a few times before it sleeps; so does
/// whoever waits in .NET.
pub(super) fn is_idle(site: &Site) -> bool {
    const PLACES: [&str; 4] = [
        "rayon_core::sleep::Sleep::no_work_found",
        "CLRLifoSemaphore::Wait",
        "System.Threading.SpinWait.SpinOnceCore",
        "erts_schedule",
    ];
    leads_through(&site.call_path, |name| PLACES.iter().any(|place| name.starts_with(place)))
}

/// Whether it is the thread by which Go watches over its own scheduler.
pub(super) fn is_monitor(facts: &Facts, tid: Tid) -> bool {
    let slept = weigh::worst_site(facts, |row| row.leaf == Leaf::Sleep && row.waiter == tid);
    slept.is_some_and(|(_, site)| leads_through(&site.call_path, |name| name == "runtime.sysmon"))
}

/// Whether a thread runs goroutines, which Go's scheduler hands to whichever thread it likes.
pub(super) fn is_of_scheduler(thread: &ThreadFacts) -> bool {
    let starts = |site: &Site| site.call_path.last().and_then(|frame| frame.function.clone());
    thread.hot_sites.iter().filter_map(starts).any(|function| function.starts_with("runtime.goexit"))
}

/// Whether a thread is one of libuv's pool: by where it waits for work, or where it works.
pub(super) fn is_of_uv(facts: &Facts, thread: &ThreadFacts) -> bool {
    let works = |function: &str| {
        function.starts_with("node::ThreadPoolWork::")
            || ["uv__fs_work", "uv__getaddrinfo_work", "uv__queue_work"].contains(&function)
    };
    let waits = facts.locks.iter().any(|lock| {
        lock.waiters.iter().any(|(tid, _)| *tid == thread.tid) && lock.wait_sites.first().is_some_and(is_idle_in_uv)
    });
    // Who asks for such work runs an event loop.
    let asks = thread.off.get(&Reason::Poll).is_some_and(|time| time.ns * 5 > thread.life_ns());
    waits || !asks && thread.hot_sites.iter().any(|site| leads_through(&site.call_path, works))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{LockFacts, OffTime};
    use crate::{Frame, Role};

    #[test]
    fn workers_of_libuv_are_known_by_where_they_are_idle() {
        let of_uv = |functions: [Option<&str>; 2], module: &str| {
            let frame = |function: Option<&str>| Frame {
                function: function.map(Into::into),
                module: module.into(),
                ..Frame::named("start_thread", Role::Runtime)
            };
            let call_path = vec![frame(Some("uv_cond_wait")), frame(functions[0]), frame(functions[1])];
            let thread = ThreadFacts { tid: Tid(7), ..ThreadFacts::default() };
            let lock = LockFacts {
                waiters: vec![(Tid(7), OffTime::default())],
                wait_sites: vec![Site { call_path, count: 1, ns: 1 }],
                ..LockFacts::default()
            };
            let idles = is_idle_in_node(&lock.wait_sites[0]);
            let is_worker = is_of_uv(&Facts { locks: vec![lock], ..Facts::default() }, &thread);
            assert_eq!(idles, is_worker, "what it waits for there is a task");
            is_worker
        };
        assert!(of_uv([Some("worker"), Some("start_thread")], "/usr/bin/node"));
        assert!(of_uv([None, Some("start_thread")], "/usr/lib/libuv.so.1.0.0"));
        assert!(!of_uv([None, Some("start_thread")], "/srv/program"), "a thread of the program's own");
        assert!(!of_uv([Some("consume"), Some("start_thread")], "/usr/lib/libuv.so.1.0.0"));
    }
}
