//! Which frame stands for a call path, and what it leads through.

use super::{Frame, Role, interpreted, roles};

/// The frame that stands for a call path: see [`Site::caller`](crate::Site::caller).
pub(crate) fn caller(call_path: &[Frame]) -> Option<&Frame> {
    let own = call_path.iter().position(|frame| frame.role == Role::Program);
    let named = own.map(|at| &call_path[at]).filter(|frame| !frame.is_nameless_code());
    let library = &call_path[..own.unwrap_or(call_path.len())];
    let entry = || {
        // With generated code or an interpreter in between, the outermost way to wait is what was called.
        let waits = |frame: &&Frame| frame.role == Role::Lock && frame.function.is_some();
        library.iter().rev().find(waits).filter(|_| own.is_some() || library.iter().any(is_of_runtime))
    };
    let in_library = || call_path.iter().find(|frame| !is_of_kernel(frame));
    // Of the kernel alone: what it does, not how it switches, nor the recorder's program in it that has no name.
    let in_kernel = || call_path.iter().find(|frame| frame.role == Role::Kernel && frame.function.is_some());
    let known = named.or_else(entry).or(own.map(|at| &call_path[at]));
    known.or_else(in_library).or_else(in_kernel).or(call_path.first())
}

fn is_of_kernel(frame: &Frame) -> bool {
    matches!(frame.role, Role::Kernel | Role::Scheduler)
}

/// The callers of the innermost function that is one by itself, with what was inlined into it left out.
pub(crate) fn callers(call_path: &[Frame]) -> &[Frame] {
    let own = call_path.iter().position(|frame| !frame.inlined);
    own.map_or(&[], |own| &call_path[own + 1..])
}

/// Whether a call path leads through a function of such a name.
pub(crate) fn leads_through(call_path: &[Frame], is: impl Fn(&str) -> bool) -> bool {
    call_path.iter().filter_map(|frame| frame.function.as_deref()).any(is)
}

/// Whether a frame is of a runtime whose programs are no native code.
fn is_of_runtime(frame: &Frame) -> bool {
    roles::is_managed(&frame.module) || interpreted::is_script(frame)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_the_kernel_alone_what_it_does_is_told() {
        let kernel = |function: &str| Frame { module: "[kernel]".into(), ..Frame::named(function, Role::Kernel) };
        let program = Frame { function: None, ..kernel("") };
        let switch = Frame::named("__schedule", Role::Scheduler);
        let path = [program.clone(), switch.clone(), kernel("rwsem_down_read_slowpath"), kernel("down_read")];
        let told = |path: &[Frame]| caller(path).and_then(|frame| frame.function.as_deref().map(str::to_owned));
        assert_eq!(told(&path).as_deref(), Some("rwsem_down_read_slowpath"));
        assert_eq!(told(&[program.clone(), switch.clone()]), None, "nothing is known but the switch");
        let library = [switch.clone(), kernel("filemap_fault"), Frame::named("memset", Role::Runtime)];
        assert_eq!(told(&library).as_deref(), Some("memset"), "who went into the kernel");
        let user = Frame::named("read_block", Role::Program);
        assert_eq!(told(&[program, kernel("folio_wait_bit"), user]).as_deref(), Some("read_block"));
    }
}
