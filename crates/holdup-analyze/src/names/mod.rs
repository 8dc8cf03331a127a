//! From addresses to names: address spaces over time, unwinding, symbols, what a futex is, what an instruction does.
//!
//! [`Names`] is fed every event (for the mappings) and asked at the end.

mod allowance;
mod caller;
mod catalog;
mod code_map;
mod cost;
mod demangle;
mod generated;
mod golang;
mod instruction;
pub(crate) mod interpreted;
mod jit_dump;
mod lines;
mod looking;
mod looking_script;
mod members;
mod operand;
pub(crate) mod pattern;
mod place;
mod places;
mod primitive;
mod resolver;
mod roles;
mod spaces;
mod stubs;
mod symbols;
#[cfg(test)]
mod tests;
mod unwind;

use std::sync::Arc;

use holdup_trace::Pid;
use holdup_trace::json::{Hex, shown};
use schemars::JsonSchema;
use serde::Serialize;

pub(crate) use caller::{caller, callers, leads_through};
pub use catalog::{Catalog, Meaning, Stretch};
pub use generated::map_switch;
pub(crate) use instruction::Suspect;
pub(crate) use looking::Between;
pub use places::{Placed, Places};
pub(crate) use primitive::{is_scheduler_of_asio, is_sleep, is_wait_for_group, takes_mutex_of_runtime, words};
pub use resolver::Parsed;
pub(crate) use resolver::{Access, Resolver};
pub(crate) use spaces::Names;
pub use spaces::SpaceId;

/// Gives the bytes of binaries, as mapped or read by the caller.
pub trait Modules {
    /// The file that was mapped from `path`; if `build_id` is given, the caller may offer one with that id from
    /// elsewhere.
    fn file(&self, path: &str, build_id: Option<&[u8]>) -> Option<&[u8]>;

    /// The separate debug file of a binary, found by its build id or debug link.
    fn debug_file(&self, path: &str, build_id: Option<&[u8]>, debug_link: Option<&[u8]>) -> Option<&[u8]>;

    /// Shows the map of functions that the process made as it ran (`/tmp/perf-PID.map`), if its runtime wrote one, in
    /// parts of whole lines; its path.
    fn code_map(&self, _: Pid, _see: &mut dyn FnMut(&[u8])) -> Option<String> {
        None
    }

    /// Shows the dump of functions that the process made as it ran (`jit-PID.dump`) and has mapped from this path, in
    /// parts; its path.
    fn jit_dump(&self, _: Pid, _path: &str, _see: &mut dyn FnMut(&[u8])) -> Option<String> {
        None
    }

    /// The kernel's symbols as (address, name), ascending; empty where the rights do not allow to read them.
    fn kernel_symbols(&self) -> &[(u64, Box<str>)];
}

/// No binaries: every frame is a module and an offset.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoModules;

impl Modules for NoModules {
    fn file(&self, _: &str, _: Option<&[u8]>) -> Option<&[u8]> {
        None
    }

    fn debug_file(&self, _: &str, _: Option<&[u8]>, _: Option<&[u8]>) -> Option<&[u8]> {
        None
    }

    fn kernel_symbols(&self) -> &[(u64, Box<str>)] {
        &[]
    }
}

/// One frame of a call path.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, JsonSchema)]
pub struct Frame {
    /// The address, of the call instruction for callers.
    #[serde(skip)]
    pub address: u64,
    /// The function, demangled; null if nothing names it.
    pub function: Option<Arc<str>>,
    /// The file it is in: a path, `[kernel]`, `[vdso]`, `[generated code]` of what the program made as it ran,
    /// `[java]` of what Java's machine compiled, or `[unknown]`.
    pub module: Arc<str>,
    /// Offset in the file's own address numbering, as `addr2line` and `objdump` take it, in hexadecimal.
    #[serde(serialize_with = "shown::<_, Hex, _>")]
    #[schemars(with = "Hex")]
    pub offset: u64,
    /// Where a function that nothing names begins, in the same numbering, if the file's unwinding tables tell; the
    /// offset otherwise.
    #[serde(skip)]
    pub start: u64,
    /// Source file.
    pub file: Option<Arc<str>>,
    /// Line in it, from 1.
    pub line: Option<u32>,
    /// Whether it was inlined into the next frame outward.
    pub inlined: bool,
    /// Whose code it is.
    pub role: Role,
}

impl Frame {
    /// A function of a program, for tests.
    #[cfg(test)]
    pub(crate) fn named(function: &str, role: Role) -> Frame {
        Frame {
            address: 0x1000,
            function: Some(function.into()),
            module: "/bin/program".into(),
            offset: 0x1000,
            start: 0x1000,
            file: None,
            line: None,
            inlined: false,
            role,
        }
    }

    /// Whether it is code that the program made as it ran, and nothing names it.
    pub(crate) fn is_nameless_code(&self) -> bool {
        self.function.is_none() && &*self.module == GENERATED
    }

    /// Whether it is a function of OpenMP's runtime: what its threads wait for there, but for locks, is each other.
    pub(crate) fn is_of_openmp(&self) -> bool {
        let file = self.module.rsplit('/').next().unwrap_or_default();
        let begins = |name: &str, starts: [&str; 3]| starts.iter().any(|start| name.starts_with(start));
        begins(file, ["libgomp.", "libomp.", "libiomp"])
            || self.function.as_deref().is_some_and(|name| begins(name, ["GOMP_", "gomp_", "__kmp"]))
    }
}

/// The module of code that the program made as it ran.
pub const GENERATED: &str = "[generated code]";

/// The module of a method that Java's machine compiled, where looks at the machine tell its name.
pub(crate) const JAVA: &str = "[java]";

/// Whose code a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// The program's own, or a library's that is not listed below.
    Program,
    /// The implementation of a lock or of another way to wait: libc's, libstdc++'s, Rust's std, parking_lot's, the Go
    /// runtime's.
    Lock,
    /// Other parts of libc, the language's runtime, start-up code of threads.
    Runtime,
    /// The kernel's scheduler.
    Scheduler,
    /// The kernel.
    Kernel,
}
