//! What the stretches of code are that Java's machine made.

/// A heap of code, which is divided into segments; a map of these has a byte for each.
#[derive(Clone, Copy, Debug)]
pub struct Heap {
    pub from: u64,
    pub to: u64,
    pub segments: u64,
    pub shift: u32,
}

/// A stretch of code.
#[derive(Clone, Copy, Debug)]
pub enum Blob {
    /// The interpreter, whose frames tell all themselves.
    Interpreter,
    /// A compiled method.
    Compiled { code: u64, frame_bytes: u64, tables: Tables },
    /// What lies between.
    Stub { code: u64, frame_bytes: u64 },
}

/// Where the tables of compiled code are.
#[derive(Clone, Copy, Debug)]
pub struct Tables {
    pub method: u64,
    pub end: u64,
    pub metadata: u64,
    pub pcs: u64,
    pub pcs_end: u64,
    pub scopes: u64,
}
