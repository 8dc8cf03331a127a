//! From addresses to names: address spaces over time, unwinding, symbols, what a futex is, what an instruction does.
//!
//! [`Names`] is fed every event (for the mappings) and asked at the end.

use std::sync::Arc;

use holdup_trace::{Event, FutexOp, StackId, Stacks, Tid};

use crate::facts::{HotspotClass, LockName, Primitive};

/// Gives the bytes of binaries, as mapped or read by the caller.
pub trait Modules {
    /// The file that was mapped from `path`; if `build_id` is given, the caller may offer one with that id from elsewhere.
    fn file(&self, path: &str, build_id: Option<&[u8]>) -> Option<&[u8]>;

    /// The separate debug file of a binary, found by its build id or debug link.
    fn debug_file(&self, path: &str, build_id: Option<&[u8]>, debug_link: Option<&[u8]>) -> Option<&[u8]>;

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

/// One life of an address space: it ends with an exec.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpaceId(pub u32);

/// One frame of a call path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Frame {
    /// The address, of the call instruction for callers.
    pub address: u64,
    /// The function, demangled; `None` if nothing names it.
    pub function: Option<Arc<str>>,
    /// The file it is in: a path, `[kernel]`, `[vdso]`, or `[unknown]`.
    pub module: Arc<str>,
    /// Offset in the file's own address numbering (what `addr2line` and `objdump` take).
    pub offset: u64,
    /// Source file.
    pub file: Option<Arc<str>>,
    /// Line in it, from 1.
    pub line: Option<u32>,
    /// Whether it was inlined into the next frame outward.
    pub inlined: bool,
    /// Whose code it is.
    pub role: Role,
}

/// Whose code a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// The program's own, or a library's that is not listed below.
    Program,
    /// The implementation of a lock or of another way to wait: libc's, libstdc++'s, Rust's std, parking_lot's, the Go runtime's.
    Lock,
    /// Other parts of libc, the language's runtime, start-up code of threads.
    Runtime,
    /// The kernel's scheduler.
    Scheduler,
    /// The kernel.
    Kernel,
}

/// Address spaces, and the cache of everything named in them.
#[derive(Debug, Default)]
pub(crate) struct Names {}

/// A sample's instruction, looked at.
#[derive(Clone, Debug)]
pub(crate) struct Suspect {
    /// Offset in the module of the suspicious instruction.
    pub frame: Frame,
    /// Its text.
    pub instruction: String,
    /// Why it is suspicious.
    pub class: HotspotClass,
    /// The variable that its operand names.
    pub variable: Option<LockName>,
}

impl Names {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Learns of mappings, exec and fork. Every event may be given.
    pub(crate) fn feed(&mut self, _event: &Event) {}

    /// The address space that a thread is in now.
    pub(crate) fn space(&self, _tid: Tid) -> SpaceId {
        SpaceId::default()
    }
}

/// Answers, once all events are known. Caches; hence `&mut self` throughout.
pub(crate) struct Resolver<'a> {
    _names: Names,
    _stacks: &'a Stacks,
    _modules: &'a dyn Modules,
}

impl<'a> Resolver<'a> {
    pub(crate) fn new(names: Names, stacks: &'a Stacks, modules: &'a dyn Modules) -> Self {
        Resolver { _names: names, _stacks: stacks, _modules: modules }
    }

    /// The call path of a stack: kernel part, then user part unwound from the words and spliced on the chain, innermost first,
    /// with inlined frames. Cached by (space, stack).
    pub(crate) fn trail(&mut self, _space: SpaceId, _stack: StackId) -> Arc<[Frame]> {
        Arc::from([])
    }

    /// The variable that an address is in.
    pub(crate) fn variable(&mut self, _space: SpaceId, _addr: u64) -> Option<LockName> {
        None
    }

    /// What a futex is, from who waits on it how.
    pub(crate) fn primitive(&mut self, _op: FutexOp, _trail: &[Frame]) -> Primitive {
        Primitive::Unknown
    }

    /// Whether the sample was taken right behind an atomic instruction or a pause.
    pub(crate) fn suspect(&mut self, _space: SpaceId, _stack: StackId) -> Option<Suspect> {
        None
    }

    /// Problems met on the way.
    pub(crate) fn problems(&mut self) -> Vec<crate::Problem> {
        Vec::new()
    }
}
