//! What an address of code is of: a function, its file and line.

/// Deepest nesting of inlined functions that is followed.
pub(super) const MAX_INLINED: usize = 64;

/// One function at an address: the one that was compiled, or one that was inlined there.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    /// As the compiler wrote it, mangled or not.
    pub function: Option<String>,
    pub file: Option<String>,
    pub line: Option<u32>,
}
