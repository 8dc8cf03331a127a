//! Call paths of interpreted code: its own functions and lines in the place of the interpreter's loop, which runs them
//! all.

use std::sync::Arc;

use holdup_trace::InterpretedFrame;

use super::{Frame, GENERATED, JAVA, Role, roles};

/// Parts of the names of functions that execute interpreted ones: Python's, and Ruby's, whose loop and who calls it are
/// `vm_exec_core` and `rb_vm_exec`.
const LOOPS: [&str; 2] = ["_PyEval_EvalFrameDefault", "vm_exec"];

/// The frames of interpreted functions. Where the user's own code is among them, that of installed packages is not what
/// its author calls "my function".
pub(crate) fn frames(found: &[InterpretedFrame]) -> Vec<Frame> {
    let of_java = is_of_java(found);
    let has_own = found.iter().any(|frame| origin(&frame.file) == Origin::Own);
    let role = |one: &InterpretedFrame| match origin(&one.file) {
        _ if of_java => roles::of_java(&one.function),
        Origin::Own => Role::Program,
        Origin::Package if has_own => Role::Runtime,
        Origin::Package => Role::Program,
        Origin::Library => role_in_library(&one.file),
    };
    let frame = |one: &InterpretedFrame| Frame {
        address: 0,
        function: Some(one.function.clone()),
        module: one.file.clone(),
        offset: u64::from(one.line),
        start: u64::from(one.line),
        file: Some(one.file.clone()),
        line: (one.line > 0).then_some(one.line),
        inlined: false,
        role: role(one),
    };
    found.iter().map(frame).collect()
}

/// The role of a function of Python or Ruby, by its file.
pub(super) fn role(file: &str) -> Role {
    if origin(file) == Origin::Library { role_in_library(file) } else { Role::Program }
}

/// Whether a frame is a function of Python, Ruby or JavaScript.
pub(crate) fn is_script(frame: &Frame) -> bool {
    frame.file.as_ref().is_some_and(|file| *file == frame.module)
}

/// Whether this is what Java's machine executed: of the files of others the whole path is known.
pub(crate) fn is_of_java(found: &[InterpretedFrame]) -> bool {
    const ENDS: [&str; 6] = [".java", ".class", ".kt", ".scala", ".groovy", ".clj"];
    found.first().is_some_and(|one| !one.file.contains('/') && ENDS.iter().any(|end| one.file.ends_with(end)))
}

/// Whether this is what Node's engine executed: scripts by their path, and its own, `node:internal/timers`.
pub(crate) fn is_of_node(found: &[InterpretedFrame]) -> bool {
    const ENDS: [&str; 5] = [".js", ".mjs", ".cjs", ".ts", ".jsx"];
    let is_script = |file: &str| file.starts_with(NODES_OWN) || ENDS.iter().any(|end| file.ends_with(end));
    found.first().is_some_and(|one| is_script(&one.file))
}

/// How the names of Node's own scripts begin.
const NODES_OWN: &str = "node:";

/// Native frames with JavaScript's in the place of what the engine generated, and of all that lies outward of it. What
/// C++ there is inward of it is the engine's own.
pub(crate) fn splice_node(native: &[Frame], scripts: Vec<Frame>) -> Arc<[Frame]> {
    let kept = native.iter().position(is_made_by_node).unwrap_or(native.len());
    let inner = native[..kept].iter().map(|frame| {
        let file = file_name(&frame.module);
        let is_engine =
            ["node", "nodejs"].contains(&file) || file.starts_with("libnode") || roles::is_system(&frame.module);
        let role = if is_engine && frame.role == Role::Program { Role::Runtime } else { frame.role };
        Frame { role, ..frame.clone() }
    });
    inner.chain(scripts).collect()
}

/// The functions of Node's engine by which a thread that JavaScript runs on came to wait, as one text; `None` where
/// there are none.
pub(crate) fn functions_of_node(call_path: &[Frame]) -> Option<Arc<str>> {
    let end = call_path.iter().position(|frame| is_made_by_node(frame) || is_script(frame))?;
    let names = call_path[..end].iter().filter_map(|frame| frame.function.as_deref());
    let own: Vec<&str> = names.filter(|name| name.starts_with("v8::") || name.starts_with("node::")).collect();
    (!own.is_empty()).then(|| own.join(" ").into())
}

/// A native call path up to the code that Node's engine made, whatever that is.
pub(crate) fn up_to_scripts(call_path: &[Frame]) -> Option<Arc<[Frame]>> {
    let end = call_path.iter().position(|frame| frame.function.as_deref().is_some_and(is_builtin))?;
    let made = Frame {
        function: None,
        module: GENERATED.into(),
        start: 0,
        file: None,
        line: None,
        role: Role::Program,
        ..call_path[end].clone()
    };
    Some(call_path[..end].iter().cloned().chain([made]).collect())
}

fn is_builtin(function: &str) -> bool {
    function.starts_with("Builtins_")
}

fn is_made_by_node(frame: &Frame) -> bool {
    *frame.module == *GENERATED || frame.function.as_deref().is_some_and(is_builtin)
}

/// Native frames with Java's in the place of what its machine generated, and of all that lies outward of it.
pub(crate) fn splice_java(native: &[Frame], java: Vec<Frame>) -> Arc<[Frame]> {
    const BEGIN: [&str; 5] = ["JavaCalls::", "JavaThread::run", "thread_native_entry", "start_thread", "JavaMain"];
    let begins = |name: &str| BEGIN.iter().any(|begin| name.starts_with(begin));
    let is_made = |frame: &Frame| [GENERATED, JAVA].contains(&&*frame.module);
    let is_outer = |frame: &Frame| is_made(frame) || frame.function.as_deref().is_some_and(begins);
    let kept = native.iter().position(is_outer).unwrap_or(native.len());
    native[..kept].iter().cloned().chain(java).collect()
}

/// Native frames with the interpreted ones in the place of the innermost run of the interpreter's loop and of all that
/// lies outward of it.
pub(crate) fn splice(native: &[Frame], interpreted: Vec<Frame>) -> Arc<[Frame]> {
    let is_loop = |name: &str| LOOPS.iter().any(|part| name.contains(part));
    let named = native.iter().position(|frame| frame.function.as_deref().is_some_and(is_loop));
    let of_interpreter = || native.iter().position(|frame| is_interpreter(&frame.module)).map(|at| at + 1);
    let kept = if native.iter().any(is_of_ruby) {
        within_ruby(&native[..named.unwrap_or(native.len())])
    } else {
        &native[..named.or_else(of_interpreter).unwrap_or(native.len())]
    };
    let inner = kept.iter().map(|frame| {
        let is_library = is_interpreter(&frame.module) || frame.module.contains("/lib/python");
        // What the system installed is not what the author of a script wrote: a database's library, say.
        let is_library = is_library || roles::is_system(&frame.module);
        let role = if is_library && frame.role == Role::Program { Role::Runtime } else { frame.role };
        Frame { role, ..frame.clone() }
    });
    inner.chain(interpreted).collect()
}

/// What of a native call path inward of Ruby's loop tells something: up to the outermost function that has a name, by
/// which the interpreter was asked to wait; if all those are ways to wait, one frame more, for whose wait it is.
fn within_ruby(native: &[Frame]) -> &[Frame] {
    let has_name = |frame: &Frame| frame.function.is_some() || !is_of_ruby(frame);
    let last = native.iter().rposition(has_name).map_or(0, |at| at + 1);
    let has_interpreter = native[..last].iter().any(|frame| is_of_ruby(frame) && frame.role != Role::Lock);
    &native[..if has_interpreter { last } else { native.len().min(last + 1) }]
}

/// Whether a file is Python itself or Ruby itself.
pub(super) fn is_interpreter(path: &str) -> bool {
    let file = file_name(path);
    file.starts_with("python3") || file.starts_with("libpython3") || is_ruby(file)
}

/// Whether a frame is in Ruby's interpreter.
pub(crate) fn is_of_ruby(frame: &Frame) -> bool {
    is_ruby(file_name(&frame.module))
}

/// What a thread of Ruby waits for, by the method in C that it has called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum RubyWait {
    /// The interpreter's lock.
    Interpreter,
    /// A `Mutex` or a `Monitor`.
    Mutex,
    Sleep,
    /// The end of a thread.
    Join,
    /// A queue, or a condition.
    Event,
}

/// The files of Ruby's own methods by which threads wait: in C, and in Ruby.
const OF_RUBY: [&str; 2] = ["<internal:c>", "<internal:thread_sync>"];

/// Whether this is what a thread executes in one of those.
pub(crate) fn is_in_ruby(found: &[InterpretedFrame]) -> bool {
    found.first().is_some_and(|one| OF_RUBY.contains(&&*one.file))
}

/// What a thread of Ruby waits for, by the call path of a wait; `None` where that tells nothing.
pub(crate) fn ruby_wait(call_path: &[Frame]) -> Option<RubyWait> {
    let is_of_ruby = |frame: &&Frame| OF_RUBY.contains(&&*frame.module);
    let name = |frame: &Frame| frame.function.clone().unwrap_or_default();
    let mut calls = call_path.iter().skip_while(|frame| !is_script(frame)).take_while(is_of_ruby).map(name);
    let is_wait = |name: &str| name.trim_start_matches('_') == "pthread_cond_wait";
    let is_without_end = || call_path.iter().any(|frame| frame.function.as_deref().is_some_and(is_wait));
    Some(match &*calls.next()? {
        "gvl_acquire" => RubyWait::Interpreter,
        "synchronize" | "lock" | "enter" | "mon_synchronize" | "mon_enter" => RubyWait::Mutex,
        // A condition lets go of its mutex by `Mutex#sleep`.
        "sleep" if calls.next().is_some_and(|name| *name == *"wait") || is_without_end() => RubyWait::Event,
        "sleep" => RubyWait::Sleep,
        "join" | "value" => RubyWait::Join,
        "pop" | "shift" | "deq" | "push" | "<<" | "enq" | "wait" => RubyWait::Event,
        _ => return None,
    })
}

/// The innermost functions of Ruby's interpreter in a call path as one number.
pub(crate) fn ruby_functions(native: &[Frame]) -> Option<u64> {
    use std::hash::{BuildHasher, Hash, Hasher};
    const FUNCTIONS: usize = 6;
    let mut hasher = rustc_hash::FxBuildHasher.build_hasher();
    let mut functions = native.iter().filter(|frame| is_of_ruby(frame)).take(FUNCTIONS).peekable();
    functions.peek()?;
    for frame in functions {
        match &frame.function {
            Some(function) => function.hash(&mut hasher),
            None => frame.start.hash(&mut hasher),
        }
    }
    Some(hasher.finish())
}

/// `ruby`, `ruby3.1`, `libruby.so.3.3`, `libruby-3.1.so.3.1.7`; an extension in C may be called `ruby_thing.so`.
fn is_ruby(file: &str) -> bool {
    let version = file.strip_prefix("libruby").or_else(|| file.strip_prefix("ruby"));
    version.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '-', '1', '2', '3', '4']))
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    Own,
    /// Installed beside the program, as by pip.
    Package,
    /// It came with the language.
    Library,
}

fn origin(file: &str) -> Origin {
    const ENDS: [&str; 2] = [".py", ".rb"];
    const PACKAGES: [&str; 3] = ["-packages/", "/gems/", "/node_modules/"];
    let is_start = file.contains("/bin/") && !ENDS.iter().any(|end| file.ends_with(end));
    // Debian keeps Ruby's own in `/usr/lib/ruby/3.1.0` and `/usr/lib/ruby/vendor_ruby`.
    let of_language = ["<frozen", "<internal:", NODES_OWN].iter().any(|start| file.starts_with(start))
        || ["/lib/python", "/lib/ruby/"].iter().any(|part| file.contains(part));
    match () {
        () if is_start || PACKAGES.iter().any(|part| file.contains(part)) => Origin::Package,
        () if of_language => Origin::Library,
        () => Origin::Own,
    }
}

fn role_in_library(file: &str) -> Role {
    const WAITS: [&str; 4] = ["/threading.py", "/queue.py", "/monitor.rb", "<internal:thread_sync>"];
    if WAITS.iter().any(|end| file.ends_with(end)) { Role::Lock } else { Role::Runtime }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(places: &[(&str, &str, u32)]) -> Vec<InterpretedFrame> {
        let frame = |(function, file, line): &(&str, &str, u32)| InterpretedFrame {
            function: (*function).into(),
            file: (*file).into(),
            line: *line,
        };
        places.iter().map(frame).collect()
    }

    #[test]
    fn the_users_own_function_stands_for_a_path_if_there_is_one() {
        const POOL: (&str, &str, u32) = ("Pool.get", "/venv/lib/python3.11/site-packages/db/pool.py", 90);
        const WAIT: (&str, &str, u32) = ("Condition.wait", "/usr/lib/python3.11/threading.py", 320);
        let caller = |places: &[_]| {
            let frames = frames(&found(places));
            super::super::caller(&frames).and_then(|frame| frame.function.as_deref().map(str::to_owned))
        };
        let own = ("view", "/srv/app.py", 12);
        assert_eq!(caller(&[WAIT, POOL, own]).as_deref(), Some("view"));
        assert_eq!(caller(&[WAIT, POOL]).as_deref(), Some("Pool.get"));
        assert_eq!(caller(&[WAIT]).as_deref(), Some("Condition.wait"));
    }

    #[test]
    fn files_of_gems_and_of_ruby_stand_for_a_path_only_where_nothing_else_does() {
        const LOOP: (&str, &str, u32) = ("loop", "<internal:kernel>", 187);
        const MONITOR: (&str, &str, u32) = ("wait", "/usr/lib/ruby/3.1.0/monitor.rb", 108);
        const TIMEOUT: (&str, &str, u32) = ("timeout", "/usr/lib/ruby/3.1.0/timeout.rb", 107);
        const GEM: (&str, &str, u32) = ("checkout", "/var/lib/gems/3.1.0/gems/connection_pool-2.4/lib/pool.rb", 90);
        const START: (&str, &str, u32) = ("<main>", "/usr/bin/puma", 33);
        let caller = |places: &[_]| {
            let frames = frames(&found(places));
            super::super::caller(&frames).and_then(|frame| frame.function.as_deref().map(str::to_owned))
        };
        let own = ("fetch", "/srv/shop.rb", 12);
        assert_eq!(caller(&[MONITOR, TIMEOUT, GEM, LOOP, own, START]).as_deref(), Some("fetch"));
        assert_eq!(caller(&[TIMEOUT, GEM, LOOP, START]).as_deref(), Some("checkout"));
        assert_eq!(caller(&[MONITOR, LOOP]).as_deref(), Some("wait"));
        assert_eq!(caller(&[LOOP, ("<main>", "-e", 1)]).as_deref(), Some("<main>"));
    }

    #[test]
    fn ruby_is_known_by_its_files() {
        for file in ["ruby", "ruby3.1", "libruby.so.3.3.0", "libruby-3.1.so.3.1.7"] {
            assert!(is_interpreter(&format!("/usr/lib/{file}")), "{file}");
        }
        for file in ["ruby_thing.so", "rubylith", "librubberband.so.2", "libc.so.6", ""] {
            assert!(!is_interpreter(&format!("/usr/lib/{file}")), "{file}");
        }
    }

    #[test]
    fn what_ruby_waits_for_is_told_by_the_method_that_was_called() {
        const NATIVE: &str = "pthread_cond_timedwait";
        let of = |native: &str, calls: &[&str]| {
            let calls = calls.iter().map(|name| (*name, "<internal:c>", 0));
            let places: Vec<_> = calls.chain([("pop", "/srv/shop.rb", 7), ("sleep", "<internal:c>", 0)]).collect();
            ruby_wait(&splice(&[Frame::named(native, Role::Lock)], frames(&found(&places))))
        };
        assert_eq!(of(NATIVE, &["gvl_acquire", "pop"]), Some(RubyWait::Interpreter));
        assert_eq!(of(NATIVE, &["synchronize"]), Some(RubyWait::Mutex));
        assert_eq!(of(NATIVE, &["sleep"]), Some(RubyWait::Sleep));
        assert_eq!(of("pthread_cond_wait", &["sleep"]), Some(RubyWait::Event), "until somebody wakes it");
        assert_eq!(of(NATIVE, &["sleep", "wait"]), Some(RubyWait::Event));
        assert_eq!(of(NATIVE, &["pop"]), Some(RubyWait::Event));
        assert_eq!(of(NATIVE, &["value"]), Some(RubyWait::Join));
        assert_eq!((of(NATIVE, &["each"]), of(NATIVE, &[])), (None, None), "a method of the program's own");
        let popped = frames(&found(&[("pop", "<internal:thread_sync>", 14), ("work", "/srv/shop.rb", 7)]));
        assert_eq!(ruby_wait(&popped), Some(RubyWait::Event), "since 3.2 a queue has methods in Ruby");
    }

    #[test]
    fn methods_of_ruby_take_the_place_of_its_loop_and_of_what_calls_methods_in_c() {
        const RUBY: &str = "/usr/lib/x86_64-linux-gnu/libruby-3.1.so.3.1.7";
        let native = |function: &str, module: &str, role| Frame {
            function: (!function.is_empty()).then(|| function.into()),
            module: module.into(),
            ..Frame::named("", role)
        };
        let wait = || native("pthread_cond_wait", "/lib/libc.so.6", Role::Lock);
        let nameless = || native("", RUBY, Role::Runtime);
        let told = |path: &[Frame]| {
            let spliced = splice(path, frames(&found(&[("fetch", "/srv/shop.rb", 7)])));
            spliced.iter().map(|frame| frame.function.as_deref().unwrap_or("?").to_owned()).collect::<Vec<_>>()
        };
        let synchronize = native("rb_mutex_synchronize", RUBY, Role::Lock);
        let outer = native("rb_vm_exec", RUBY, Role::Runtime);
        let path = [wait(), nameless(), synchronize.clone(), nameless(), nameless(), outer, synchronize, nameless()];
        assert_eq!(told(&path), ["pthread_cond_wait", "?", "rb_mutex_synchronize", "fetch"]);
        assert_eq!(told(&path[..4]), ["pthread_cond_wait", "?", "rb_mutex_synchronize", "fetch"]);
        // Where nothing of the interpreter has a name, one frame says whose wait it is.
        assert_eq!(told(&[wait(), nameless(), nameless()]), ["pthread_cond_wait", "?", "fetch"]);
        let native_wait = native("rb_native_cond_wait", RUBY, Role::Lock);
        assert_eq!(
            told(&[wait(), native_wait, nameless(), nameless()]),
            ["pthread_cond_wait", "rb_native_cond_wait", "?", "fetch"]
        );
        assert_eq!(told(&[nameless(), nameless()]), ["?", "fetch"]);
        assert_eq!(told(&[wait()]), ["pthread_cond_wait", "fetch"]);
    }

    #[test]
    fn javas_methods_take_the_place_of_what_its_machine_made() {
        let native = |function: &str, module: &str, role| Frame {
            function: (!function.is_empty()).then(|| function.into()),
            module: module.into(),
            ..Frame::named("", role)
        };
        let path = [
            native("futex_wait", "[kernel]", Role::Scheduler),
            native("pthread_cond_wait", "/lib/libc.so.6", Role::Lock),
            native("Unsafe_Park", "/jvm/libjvm.so", Role::Lock),
            native("jdk.internal.misc.Unsafe.park", JAVA, Role::Lock),
            native("", GENERATED, Role::Program),
            native("JavaCalls::call_helper", "/jvm/libjvm.so", Role::Runtime),
        ];
        let code = found(&[
            ("jdk.internal.misc.Unsafe.park", "Unsafe.java", 0),
            ("java.util.concurrent.locks.ReentrantLock.lock", "ReentrantLock.java", 322),
            ("com.shop.Till$$Lambda$14.run", "Unknown.class", 0),
            ("com.shop.Till.sell", "Till.java", 17),
            ("java.lang.Thread.run", "Thread.java", 840),
        ]);
        assert!(is_of_java(&code) && !is_of_java(&found(&[("view", "/srv/app.py", 12)])) && !is_of_java(&[]));
        for depth in [path.len(), 3, 0] {
            let spliced = splice_java(&path[..depth], frames(&code));
            let told: Vec<&str> = spliced.iter().filter_map(|frame| frame.function.as_deref()).collect();
            assert_eq!(told.len(), depth.min(3) + code.len(), "{told:?}");
            let caller = super::super::caller(&spliced).unwrap();
            assert_eq!((caller.function.as_deref(), caller.line), (Some("com.shop.Till.sell"), Some(17)));
        }
        let begun = splice_java(&path[5..], frames(&code));
        assert_eq!(begun.len(), code.len(), "what began the thread lies further out");
    }

    #[test]
    fn scripts_take_the_place_of_what_nodes_engine_made() {
        let native =
            |function: &str, module: &str, role| Frame { module: module.into(), ..Frame::named(function, role) };
        const NODE: &str = "/usr/bin/node";
        let path = [
            native("pthread_cond_wait", "/lib/libc.so.6", Role::Lock),
            native("v8::internal::FutexEmulation::WaitSync<int>", NODE, Role::Lock),
            native("node::Hold", NODE, Role::Program),
            native("Builtins_CEntry_Return1_ArgvOnStack_BuiltinExit", NODE, Role::Runtime),
            native("", GENERATED, Role::Program),
            native("node::Start", NODE, Role::Program),
        ];
        let code = found(&[
            ("emit", "node:events", 466),
            ("take", "/srv/node_modules/pool/index.js", 9),
            ("update", "/srv/shop.js", 3),
            ("(anonymous)", "/srv/shop.js", 1),
        ]);
        assert!(is_of_node(&code) && !is_of_node(&found(&[("view", "/srv/app.py", 12)])) && !is_of_node(&[]));
        let spliced = splice_node(&path, frames(&code));
        assert_eq!(spliced.len(), 3 + code.len());
        let caller = super::super::caller(&spliced).unwrap();
        assert_eq!((caller.function.as_deref(), caller.line), (Some("update"), Some(3)));
        let of_package = splice_node(&path, frames(&code[..2]));
        assert_eq!(super::super::caller(&of_package).unwrap().function.as_deref(), Some("take"));
    }

    #[test]
    fn interpreted_functions_take_the_place_of_the_interpreters_loop() {
        let native = |function: Option<&str>, module: &str, role| Frame {
            function: function.map(Into::into),
            module: module.into(),
            ..Frame::named("", role)
        };
        const PYTHON: &str = "/usr/bin/python3.11";
        let path = [
            native(Some("futex_wait"), "[kernel]", Role::Scheduler),
            native(Some("sem_wait"), "/lib/libc.so.6", Role::Lock),
            native(None, PYTHON, Role::Program),
            native(Some(LOOPS[0]), PYTHON, Role::Program),
            native(Some("start_thread"), "/lib/libc.so.6", Role::Runtime),
        ];
        let own = || frames(&found(&[("update", "/srv/app.py", 7)]));
        let told = |path: &[Frame]| {
            let spliced = splice(path, own());
            spliced.iter().map(|frame| frame.function.as_deref().unwrap_or("?").to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(told(&path), ["futex_wait", "sem_wait", "?", "update"]);
        assert_eq!(splice(&path, own())[2].role, Role::Runtime);
        for (library, role) in [("/usr/lib/libsqlite3.so.0", Role::Runtime), ("/srv/fast.so", Role::Program)] {
            let path = [native(Some("step"), library, Role::Program), path[3].clone()];
            assert_eq!(splice(&path, own())[0].role, role, "{library}");
        }
        // A stripped interpreter names no function.
        let stripped: Vec<Frame> =
            path.iter().filter(|frame| frame.function.as_deref() != Some(LOOPS[0])).cloned().collect();
        assert_eq!(told(&stripped), ["futex_wait", "sem_wait", "?", "update"]);
        assert_eq!(told(&path[..2]), ["futex_wait", "sem_wait", "update"]);
        assert_eq!(told(&[]), ["update"]);
    }
}
