//! How commands end.

/// How a command ended; `main` makes the exit status of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// All is well.
    Success,
    /// The sweep ended, with cells whose lock failed.
    CellsFailed,
    /// A gate found the new build slower, or a comparison something new or worse.
    Slower,
    /// A gate cannot tell; or nothing was found, but what was recorded does not bear an all-clear.
    Unclear,
    /// The user stopped it, or a signal did.
    Interrupted,
    /// The exit status of the command that was run.
    Child(u8),
}

impl Status {
    /// The exit status.
    pub fn code(self) -> u8 {
        const SIGINT: u8 = 2;
        match self {
            Status::Success => 0,
            Status::CellsFailed | Status::Slower => 1,
            Status::Unclear => 3,
            Status::Interrupted => 128 + holdup_record::stopped_by().unwrap_or(SIGINT),
            Status::Child(status) => status,
        }
    }
}
