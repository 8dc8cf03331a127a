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
    named.or_else(entry).or(own.map(|at| &call_path[at])).or(call_path.first())
}

/// Whether a call path leads through a function of such a name.
pub(crate) fn leads_through(call_path: &[Frame], is: impl Fn(&str) -> bool) -> bool {
    call_path.iter().filter_map(|frame| frame.function.as_deref()).any(is)
}

/// Whether a frame is of a runtime whose programs are no native code.
fn is_of_runtime(frame: &Frame) -> bool {
    roles::is_managed(&frame.module) || interpreted::is_script(frame)
}
