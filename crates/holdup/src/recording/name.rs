//! What locks, threads, functions and places are called, everywhere alike.

use holdup_analyze::{
    AccountState, Facts, Frame, LockFacts, LockName, Primitive, Reason, Role, Site, Subject, ThreadFacts,
    goroutine_lock,
};
use holdup_trace::Tid;

use crate::text;

/// Columns that a function's name may take inside a sentence or a row.
const FUNCTION_WIDTH: usize = 48;

/// A lock: `g_cache_lock`, `g_cache_lock+8`, `lock at registry_lookup mutex4.c:15 (0x55d0c2a0)`, and its process where
/// others have one of the same name. What is no lock is called what it is: `join at run_all main.c:9`.
pub fn lock(lock: &LockFacts) -> String {
    named(noun(lock.primitive), &lock.name, lock.addr, lock.wait_sites.first()) + &of_process(lock)
}

fn of_process(lock: &LockFacts) -> String {
    lock.process.as_deref().map(|process| format!(" of {}", text::clean(process))).unwrap_or_default()
}

/// A lock of which only these are known.
pub fn lock_with(name: &LockName, addr: Option<u64>, site: Option<&Site>) -> String {
    named("lock", name, addr, site)
}

/// What a futex without a name is called.
fn noun(primitive: Primitive) -> &'static str {
    match primitive {
        Primitive::Barrier => "barrier",
        Primitive::Condvar => "condition",
        Primitive::Join => "join",
        Primitive::Semaphore => "semaphore",
        Primitive::GoRuntime | Primitive::Park | Primitive::Unknown => "futex",
        _ => "lock",
    }
}

fn named(noun: &str, name: &LockName, addr: Option<u64>, site: Option<&Site>) -> String {
    match name {
        LockName::Symbol { name, offset: 0 } => function(name),
        LockName::Symbol { name, offset } => format!("{}+{offset}", function(name)),
        LockName::Site(site_function) => {
            let own = site.and_then(Site::caller).filter(|frame| is_function(frame, site_function));
            let at = own.map_or_else(|| function(site_function), place);
            format!("{noun} at {at}{}", in_brackets(addr))
        }
        LockName::Address => match (site.and_then(Site::caller), addr) {
            (Some(frame), _) => format!("{noun} at {}{}", place(frame), in_brackets(addr)),
            (None, Some(addr)) => format!("{noun} {addr:#x}"),
            (None, None) => format!("a {noun} without a name"),
        },
    }
}

/// The shortest name that tells the lock from others: without its address and its line.
pub fn lock_short(name: &LockName, addr: Option<u64>) -> String {
    short("lock", name, addr)
}

fn short(noun: &str, name: &LockName, addr: Option<u64>) -> String {
    match name {
        LockName::Site(site) => format!("{noun} at {}", function(site)),
        other => named(noun, other, addr, None),
    }
}

/// The same of a lock that is known, with its process where others have one of the same name.
pub fn lock_in_row(lock: &LockFacts) -> String {
    short(noun(lock.primitive), &lock.name, lock.addr) + &of_process(lock)
}

/// What the lock is called in every run of the program: without address, line and process.
pub fn lock_in_any_run(lock: &LockFacts) -> String {
    let noun = noun(lock.primitive);
    let function_that_waits = || lock.wait_sites.first()?.caller()?.function.as_deref().map(function);
    match (&lock.name, function_that_waits()) {
        (LockName::Address, Some(function)) => format!("{noun} at {function}"),
        (name, _) => short(noun, name, None),
    }
}

fn is_function(frame: &Frame, name: &str) -> bool {
    frame.function.as_deref().is_some_and(|function| function == name || name.starts_with(function))
}

fn in_brackets(addr: Option<u64>) -> String {
    addr.map(|addr| format!(" ({addr:#x})")).unwrap_or_default()
}

/// What a futex stands for.
pub fn primitive(primitive: Primitive) -> &'static str {
    match primitive {
        Primitive::Mutex => "pthread mutex",
        Primitive::PiMutex => "PI mutex",
        Primitive::RustMutex => "Rust Mutex",
        Primitive::ParkingLotMutex => "parking_lot",
        Primitive::GoRuntime => "Go runtime",
        Primitive::OtherLock => "own futex",
        Primitive::RwLock => "rwlock",
        Primitive::Libc => "libc lock",
        Primitive::Semaphore => "semaphore",
        Primitive::Barrier => "barrier",
        Primitive::Condvar => "condvar",
        Primitive::Park => "park",
        Primitive::Join => "join",
        Primitive::Once => "once",
        Primitive::InterpreterLock => "interpreter lock",
        Primitive::SemaphoreLock => "semaphore as lock",
        Primitive::FileLock => "file lock",
        Primitive::Unknown => "futex",
    }
}

/// What a thread waits for when it waits on such a futex, as the end of `blocked ...`.
pub fn reason(reason: Reason) -> String {
    match reason {
        Reason::Futex(what) if what.is_contention() => format!("waits for a {}", primitive(what)),
        Reason::Futex(what) => format!("waits on a {}", primitive(what)),
        Reason::Sleep => "sleeps".to_owned(),
        Reason::Poll => "waits for events".to_owned(),
        Reason::Io => "waits for I/O".to_owned(),
        Reason::Child => "waits for a child".to_owned(),
        Reason::PageFault => "page fault".to_owned(),
        Reason::Memory => "waits for the address space".to_owned(),
        Reason::Peer => "waits for the other end".to_owned(),
        Reason::Preempted => "preempted".to_owned(),
        Reason::Displaced => "displaced by others".to_owned(),
        Reason::Yielded => "yields".to_owned(),
        Reason::OtherCall => "blocked in a call".to_owned(),
        Reason::Starting => "not started yet".to_owned(),
        Reason::Unknown => "unknown".to_owned(),
    }
}

/// A state of the account.
pub fn account_state(state: AccountState) -> &'static str {
    match state {
        AccountState::Running => "running",
        AccountState::Spinning => "spinning or yielding",
        AccountState::CpuOwn => "waiting for a CPU",
        AccountState::CpuOther => "displaced by other programs",
        AccountState::Lock => "waiting for locks",
        AccountState::Work => "waiting for work",
        AccountState::Barrier => "waiting for threads to come or end",
        AccountState::Io => "waiting for I/O",
        AccountState::Memory => "waiting for memory",
        AccountState::Sleep => "sleeping",
        AccountState::Unknown => "not known",
    }
}

/// A thread: `worker (1234)`.
pub fn thread(facts: &Facts, tid: Tid) -> String {
    match facts.thread(tid) {
        _ if tid == Tid(0) => "a thread outside the recording".to_owned(),
        Some(thread) => thread_in(facts, thread),
        None => format!("thread {}", tid.0),
    }
}

/// A thread that is known. One that never got a name of its own bears its process's.
pub fn thread_in(facts: &Facts, thread: &ThreadFacts) -> String {
    match thread_name(facts, thread) {
        "" => format!("thread {}", thread.tid.0),
        name => format!("{} ({})", text::clean(name), thread.tid.0),
    }
}

/// A thread by its own name alone.
pub fn thread_named(thread: &ThreadFacts) -> String {
    match thread.name.as_str() {
        "" => format!("thread {}", thread.tid.0),
        name => format!("{} ({})", text::clean(name), thread.tid.0),
    }
}

/// A thread's name without its number; empty if nothing names it.
pub fn thread_name<'a>(facts: &'a Facts, thread: &'a ThreadFacts) -> &'a str {
    let process = || facts.processes.iter().find(|process| process.pid == thread.pid);
    match thread.name.as_str() {
        "" => process().map_or("", |process| process.name.as_str()),
        own => own,
    }
}

/// The name without its number: `worker-3` and `worker-4` do the same work.
pub fn without_number(name: &str) -> String {
    name.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches(['-', '_', '#', ':', '/', ' ']).to_owned()
}

/// Where: `registry_lookup mutex4.c:15`, `registry_lookup`, `mutex4+0x1234`.
pub fn place(frame: &Frame) -> String {
    match (&frame.function, source(frame)) {
        (Some(name), Some(source)) => format!("{} {source}", function(name)),
        (Some(name), None) => function(name),
        (None, _) => module_and_offset(frame),
    }
}

/// The innermost frame of the program in a call path, as a place.
pub fn caller(site: &Site) -> Option<String> {
    site.caller().map(place)
}

/// The same, if it is one of the program's own.
pub fn own_caller(site: &Site) -> Option<String> {
    site.caller().filter(|frame| frame.role == Role::Program).map(place)
}

/// The same, and the function of the program that called it: `burn cook.c:10, called by bake cook.c:31`.
pub fn with_its_caller(site: &Site) -> Option<String> {
    let own = site.caller()?;
    let outer = site.call_path.iter().skip_while(|frame| !std::ptr::eq(*frame, own)).skip(1);
    let is_telling = |frame: &&Frame| {
        let function = frame.function.as_deref();
        function != own.function.as_deref() && function.is_some_and(|name| !made_by_compiler(name))
    };
    let called_by = outer.filter(|frame| frame.role == Role::Program).find(is_telling);
    Some(called_by.map_or_else(|| place(own), |caller| format!("{}, called by {}", place(own), place(caller))))
}

/// Whether the compiler made the function: of a lambda, or around what a `go` statement calls.
fn made_by_compiler(function: &str) -> bool {
    function.contains("{lambda(") || function.contains(".gowrap")
}

/// The places of call paths, each once with its time, most time first.
pub fn by_place(sites: &[Site]) -> Vec<(String, u64)> {
    let mut places: Vec<(String, u64)> = Vec::new();
    for (place, ns) in sites.iter().filter_map(|site| Some((caller(site)?, site.ns))) {
        match places.iter_mut().find(|(known, _)| *known == place) {
            Some((_, sum)) => *sum += ns,
            None => places.push((place, ns)),
        }
    }
    places.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    places
}

/// The file's own name and line: `mutex4.c:15`.
pub fn source(frame: &Frame) -> Option<String> {
    let file = text::clean(base(frame.file.as_deref()?));
    Some(frame.line.map_or_else(|| file.clone(), |line| format!("{file}:{line}")))
}

/// `mutex4+0x1234`: where the function begins, if anything tells.
pub fn module_and_offset(frame: &Frame) -> String {
    format!("{}+{:#x}", module(&frame.module), frame.start)
}

/// A module without its folders.
pub fn module(path: &str) -> String {
    text::clean(base(path))
}

fn base(path: &str) -> &str {
    path.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or(path)
}

/// A word for whose code a frame is; empty for the program's own.
pub fn role(role: Role) -> &'static str {
    match role {
        Role::Program => "",
        Role::Lock => "lock",
        Role::Runtime => "runtime",
        Role::Scheduler => "scheduler",
        Role::Kernel => "kernel",
    }
}

/// A function's name as short as it stays recognisable: without parameters, then without the folders of its package and
/// what stands between angle brackets, then cut.
pub fn function(name: &str) -> String {
    let name = function_in_full(name);
    if name.chars().count() <= FUNCTION_WIDTH {
        return name;
    }
    text::cut(&without_generics(without_folders(&name)), FUNCTION_WIDTH)
}

/// `example.com/shop/store.(*Shelf).Put` as `store.(*Shelf).Put`, and `org.example.shop.Shelf.put` as `Shelf.put`.
fn without_folders(name: &str) -> &str {
    let package = name.find(['(', '<', '[', ' ']).map_or(name, |end| &name[..end]);
    if let Some(last) = package.rfind('/') {
        return &name[last + 1..];
    }
    let is_package = |part: &str| part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    let mut rest = name;
    while let Some((first, inner)) = rest.split_once('.').filter(|(_, inner)| inner.contains('.')) {
        if !is_package(first) || name.contains(['(', ':', ' ']) {
            break;
        }
        rest = inner;
    }
    rest
}

/// A function's name for a table, which cuts it where there is no room: a long one loses its parameters.
pub fn function_in_full(name: &str) -> String {
    let name = text::clean(name);
    if name.chars().count() <= FUNCTION_WIDTH { name } else { without_parameters(&name) }
}

/// `f<a>(b, c) const` as `f<a>`; a parenthesis inside angle brackets or at the beginning, as of
/// `(anonymous namespace)`, stays, and so does that of Go's `(*Shelf)`.
fn without_parameters(name: &str) -> String {
    let mut depth = 0usize;
    for (index, c) in name.char_indices() {
        match c {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            '(' if depth == 0 && index > 0 && !["(anonymous", "(*"].iter().any(|it| name[index..].starts_with(it)) => {
                return name[..index].to_owned();
            }
            _ => {}
        }
    }
    name.to_owned()
}

/// `a<b<c>>::d` as `a<>::d`.
fn without_generics(name: &str) -> String {
    let mut out = String::new();
    let mut depth = 0usize;
    let mut before = ' ';
    for c in name.chars() {
        // The arrow of a function's type closes no bracket.
        let is_arrow = before == '-' && c == '>';
        before = c;
        match c {
            _ if is_arrow => {}
            '<' => {
                if depth == 0 {
                    out.push('<');
                }
                depth += 1;
            }
            '>' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    out.push('>');
                }
            }
            c if depth == 0 => out.push(c),
            _ => {}
        }
    }
    out
}

/// The subject of a finding in words.
pub fn subject(facts: &Facts, subject: &Subject) -> String {
    match subject {
        Subject::Lock { number, name, addr, .. } => match facts.lock(*number) {
            Some(known) if known.name == *name => lock(known),
            None if addr.is_none() => {
                let sites = goroutine_lock(facts, *number).map(|lock| lock.wait_sites.as_slice()).unwrap_or_default();
                lock_with(name, None, sites.first())
            }
            _ => lock_with(name, *addr, None),
        },
        Subject::Thread { tid, name } if name.is_empty() => thread(facts, *tid),
        Subject::Thread { tid, name } => format!("{} ({})", text::clean(name), tid.0),
        Subject::Process { pid, name } if name.is_empty() => format!("process {}", pid.0),
        Subject::Process { pid, name } => format!("{} ({})", text::clean(name), pid.0),
        Subject::Variable(name) => match name {
            LockName::Symbol { name, offset: 0 } => function(name),
            LockName::Symbol { name, offset } => format!("{}+{offset}", function(name)),
            LockName::Site(site) => format!("a variable in {}", function(site)),
            LockName::Address => "a variable".to_owned(),
        },
        Subject::Function(name) => function(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_functions_lose_what_tells_least() {
        assert_eq!(function("short(int)"), "short(int)");
        let long = "cache::Table<std::string, cache::Entry>::find(std::string const&, unsigned long) const";
        assert_eq!(function(long), "cache::Table<std::string, cache::Entry>::find");
        let generic = "core::ops::function::FnOnce<alloc::boxed::Box<dyn Fn(usize) -> usize>>::call_once(x)";
        assert_eq!(function(generic), "core::ops::function::FnOnce<>::call_once");
        let anonymous = "(anonymous namespace)::a_worker_with_a_name::run(std::vector<int> const&)";
        assert_eq!(function(anonymous), "(anonymous namespace)::a_worker_with_a_name::run");
        let go = "example.com/caterers/v2/modules/menus/serve.(*Handler).reverse";
        assert_eq!(function(go), "serve.(*Handler).reverse");
        let java = "org.example.caterers.dbcp.pool2.impl.GenericObjectPool.borrowObject";
        assert_eq!(function(java), "GenericObjectPool.borrowObject");
        assert_eq!(function("example.com/shop.(*Shelf).Put"), "example.com/shop.(*Shelf).Put");
    }

    #[test]
    fn a_place_is_told_with_the_function_that_called_it() {
        let frame = |name: &str, role| Frame {
            address: 0,
            function: Some(name.into()),
            module: "/bin/shop".into(),
            offset: 0,
            start: 0,
            file: None,
            line: None,
            inlined: false,
            role,
        };
        let path = |names: &[(&str, Role)]| Site {
            call_path: names.iter().map(|(name, role)| frame(name, *role)).collect(),
            ..Site::default()
        };
        use Role::{Lock, Program, Runtime};
        let told = |names: &[(&str, Role)]| with_its_caller(&path(names)).unwrap_or_default();
        assert_eq!(told(&[("lll_lock_wait", Lock), ("put", Program), ("serve", Program)]), "put, called by serve");
        assert_eq!(told(&[("less", Program), ("std::sort", Runtime), ("rank", Program)]), "less, called by rank");
        assert_eq!(told(&[("walk", Program), ("walk", Program), ("main", Program)]), "walk, called by main");
        assert_eq!(told(&[("put", Program), ("start_thread", Runtime)]), "put");
        assert_eq!(told(&[("main.put", Program), ("main.main.gowrap1", Program)]), "main.put");
    }

    #[test]
    fn locks_are_called_after_their_variable_or_their_place() {
        let symbol = |offset| LockName::Symbol { name: "g_cache_lock".to_owned(), offset };
        assert_eq!(lock_with(&symbol(0), Some(16), None), "g_cache_lock");
        assert_eq!(lock_with(&symbol(8), Some(16), None), "g_cache_lock+8");
        let site = LockName::Site("registry_lookup".to_owned());
        assert_eq!(lock_with(&site, Some(16), None), "lock at registry_lookup (0x10)");
        assert_eq!(lock_with(&LockName::Address, Some(16), None), "lock 0x10");
        assert_eq!(lock_with(&LockName::Address, None, None), "a lock without a name");
        let join = LockFacts { name: site, primitive: Primitive::Join, ..LockFacts::default() };
        assert_eq!(lock(&join), "join at registry_lookup");
        assert_eq!(lock_in_row(&join), "join at registry_lookup");
    }
}
