//! Runtimes that make code as they run: how to have them write a map of it, and what their names for functions say.

use std::sync::Arc;

use super::{Role, interpreted, jit_dump, roles};

/// Which language a space's generated code comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Runtime {
    Java,
    Node,
    Python,
    DotNet,
    #[default]
    Other,
}

impl Runtime {
    /// By the files that a process has mapped.
    pub(super) fn of<'p>(paths: impl Iterator<Item = &'p str>) -> Runtime {
        let known = |path: &str| match path.rsplit('/').next().unwrap_or(path) {
            "libjvm.so" => Some(Runtime::Java),
            "libcoreclr.so" => Some(Runtime::DotNet),
            file if file == "node" || file.starts_with("libnode.so") => Some(Runtime::Node),
            file if file.starts_with("python") || file.starts_with("libpython") => Some(Runtime::Python),
            _ => None,
        };
        paths.filter_map(known).next().unwrap_or_default()
    }

    /// What to add to its command, so that it writes a map.
    pub(super) fn switch(self) -> Option<&'static str> {
        match self {
            Runtime::Java => {
                Some("java -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit -XX:+PreserveFramePointer")
            }
            Runtime::Node => Some("node --perf-basic-prof --interpreted-frames-native-stack"),
            Runtime::Python => Some("python3 -X perf"),
            Runtime::DotNet => Some("DOTNET_PerfMapEnabled=1 COMPlus_PerfMapEnabled=1 dotnet"),
            Runtime::Other => None,
        }
    }
}

/// What to add to the command of a process that has mapped these files, so that it writes a map; nothing for those that
/// need none, since they are read from outside, or since they write a dump.
pub fn map_switch<'p>(files: impl Iterator<Item = &'p str> + Clone) -> Option<&'static str> {
    let runtime = Runtime::of(files.clone());
    runtime.switch().filter(|_| runtime != Runtime::Python && !files.clone().any(jit_dump::is_dump))
}

/// A function as its author calls it, with what the runtime's own name for it tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Function {
    pub name: Arc<str>,
    pub file: Option<Arc<str>>,
    pub line: Option<u32>,
    pub role: Role,
}

/// What a runtime's name for a function says.
pub(super) fn function(runtime: Runtime, name: &str) -> Function {
    let bare = |name: &str, role| Function { name: name.into(), file: None, line: None, role };
    match runtime {
        Runtime::Java => java(name),
        Runtime::Python => python(name).unwrap_or_else(|| bare(name, Role::Runtime)),
        Runtime::DotNet => dot_net(name),
        _ => script(name).unwrap_or_else(|| bare(name, if is_builtin(name) { Role::Runtime } else { Role::Program })),
    }
}

/// `long JavaMonitor$Account.deposit(int)` is `JavaMonitor$Account.deposit`, and so is
/// `LJavaMonitor$Account;deposit(I)J`, as perf's agent for Java writes it; what has no method's form is the virtual
/// machine's.
fn java(name: &str) -> Function {
    let by_agent = name.strip_prefix('L').and_then(|rest| rest.split_once(';')).filter(|(_, rest)| rest.contains('('));
    if let Some((class, rest)) = by_agent {
        let method = rest.split('(').next().unwrap_or(rest);
        return self::method(&format!("{}.{method}", class.replace('/', ".")));
    }
    let before = name.split('(').next().unwrap_or(name).trim_end();
    let method = before.rsplit(' ').next().unwrap_or(before);
    let is_method = name.contains('(') && name.ends_with(')') && method.contains('.');
    let bare = Function { name: name.into(), file: None, line: None, role: Role::Runtime };
    if is_method { self::method(method) } else { bare }
}

/// A method of Java, by its class and name.
pub(super) fn method(name: &str) -> Function {
    Function { name: name.into(), file: None, line: None, role: roles::of_java(name) }
}

/// `py::refresh:/srv/app.py` is `refresh` in `/srv/app.py`.
fn python(name: &str) -> Option<Function> {
    let (function, file) = name.strip_prefix("py::")?.rsplit_once(':')?;
    let role = interpreted::role(file);
    Some(Function { name: function.into(), file: Some(file.into()), line: None, role })
}

/// `JS:*update file:///srv/app.js:10:26` (older: `LazyCompile:*update /srv/app.js:10`) is `update` in `/srv/app.js`,
/// line 10.
fn script(name: &str) -> Option<Function> {
    const KINDS: [&str; 5] = ["JS:", "LazyCompile:", "Function:", "Eval:", "Script:"];
    let rest = KINDS.iter().find_map(|kind| name.strip_prefix(kind))?;
    let rest = rest.trim_start_matches(['*', '~', '^', '+', '-']);
    let (function, place) = rest.split_once(' ').unwrap_or(("", rest));
    let function = if function.is_empty() { "(anonymous)" } else { function };
    let mut parts = place.rsplitn(3, ':');
    let (last, middle, file) = (parts.next(), parts.next(), parts.next());
    let number = |part: Option<&str>| part.and_then(|part| part.parse::<u32>().ok());
    let (file, line) = match (file, number(middle), number(last)) {
        (Some(file), Some(line), Some(_)) => (file, Some(line)),
        _ => match place.rsplit_once(':').map(|(file, line)| (file, line.parse().ok())) {
            Some((file, Some(line))) => (file, Some(line)),
            _ => (place, None),
        },
    };
    let file = file.strip_prefix("file://").unwrap_or(file);
    let role = if file.starts_with("node:") || file.is_empty() { Role::Runtime } else { Role::Program };
    let file = (!file.is_empty()).then(|| file.into());
    Some(Function { name: function.into(), file, line, role })
}

fn is_builtin(name: &str) -> bool {
    ["Builtin:", "BytecodeHandler:", "Stub:", "RegExp:"].iter().any(|kind| name.starts_with(kind))
        || name.starts_with("Builtins_")
}

/// `void [app] Shop.Cart::Add(int32)[OptimizedTier1]` is `Shop.Cart.Add`.
fn dot_net(name: &str) -> Function {
    let before = name.split('(').next().unwrap_or(name).trim_end();
    let method = before.rsplit(' ').next().unwrap_or(before).replace("::", ".");
    let is_method = name.contains("::");
    let role = match () {
        () if !is_method => Role::Runtime,
        () if method.starts_with("System.Threading.") => Role::Lock,
        () if method.starts_with("System.") => Role::Runtime,
        () => Role::Program,
    };
    Function { name: if is_method { method.as_str() } else { name }.into(), file: None, line: None, role }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_bear_their_authors_names() {
        use Runtime::{DotNet, Java, Node, Python};
        for (runtime, raw, name, file, line, role) in [
            (Java, "long Bank$Account.deposit(int)", "Bank$Account.deposit", None, None, Role::Program),
            (
                Java,
                "void java.util.concurrent.locks.ReentrantLock.lock()",
                "java.util.concurrent.locks.ReentrantLock.lock",
                None,
                None,
                Role::Lock,
            ),
            (
                Java,
                "java.lang.Object java.util.ArrayList.get(int)",
                "java.util.ArrayList.get",
                None,
                None,
                Role::Runtime,
            ),
            (Java, "LBank$Account;deposit(ILjava/lang/Object;)J", "Bank$Account.deposit", None, None, Role::Program),
            (
                Java,
                "Ljava/util/concurrent/locks/ReentrantLock;lock()V",
                "java.util.concurrent.locks.ReentrantLock.lock",
                None,
                None,
                Role::Lock,
            ),
            (Java, "StubRoutines (1)", "StubRoutines (1)", None, None, Role::Runtime),
            (Node, "JS:*update file:///srv/app.js:10:26", "update", Some("/srv/app.js"), Some(10), Role::Program),
            (Node, "LazyCompile:~update /srv/app.js:7", "update", Some("/srv/app.js"), Some(7), Role::Program),
            (
                Node,
                "JS:^processTimers node:internal/timers:499:25",
                "processTimers",
                Some("node:internal/timers"),
                Some(499),
                Role::Runtime,
            ),
            (Node, "JS:~ /srv/app.js:1:1", "(anonymous)", Some("/srv/app.js"), Some(1), Role::Program),
            (Node, "Builtin:ArrayPush", "Builtin:ArrayPush", None, None, Role::Runtime),
            (Python, "py::refresh:/srv/app.py", "refresh", Some("/srv/app.py"), None, Role::Program),
            (
                Python,
                "py::wait:/usr/lib/python3.12/threading.py",
                "wait",
                Some("/usr/lib/python3.12/threading.py"),
                None,
                Role::Lock,
            ),
            (DotNet, "void [app] Shop.Cart::Add(int32)[Tier1]", "Shop.Cart.Add", None, None, Role::Program),
        ] {
            let found = function(runtime, raw);
            let told = (&*found.name, found.file.as_deref(), found.line, found.role);
            assert_eq!(told, (name, file, line, role), "{raw}");
        }
    }

    #[test]
    fn a_runtime_is_known_by_its_files() {
        let of = |paths: &[&str]| Runtime::of(paths.iter().copied());
        assert_eq!(of(&["/lib/libc.so.6", "/usr/lib/jvm/java-17/lib/server/libjvm.so"]), Runtime::Java);
        assert_eq!(of(&["/usr/bin/node"]), Runtime::Node);
        assert_eq!(of(&["/usr/bin/python3.11"]), Runtime::Python);
        assert_eq!(of(&["/home/me/server"]), Runtime::Other);
    }
}
