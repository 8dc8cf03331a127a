//! Where the structures of Go's runtime have their fields, by its version.

/// The table of semaphores has so many rows.
pub const ROWS: u64 = 251;
/// Goroutines and reasons to wait that are believed.
pub const MOST_GOROUTINES: u64 = 1 << 28;
pub const MOST_REASONS: u64 = 128;

/// Where structures of the runtime have their fields, by its version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// In a goroutine: the frame pointer at which it left its thread.
    pub frame: usize,
    /// Stack pointer and instruction of its system call; right behind, if the runtime has it, the frame pointer.
    pub call: usize,
    pub call_has_frame: bool,
    pub status: usize,
    pub number: usize,
    pub reason: usize,
    /// In an entry of the table of semaphores: the address that is waited for, and the next who waits for the same.
    pub address: usize,
    pub next: usize,
    /// In an entry of a channel's queue: the channel.
    pub channel: usize,
    /// In a channel: the first and the last that wait to receive; those that wait to send follow.
    pub receivers: usize,
}

impl Layout {
    /// By the runtime's minor version; `at_160` if its goroutines have their numbers there.
    pub fn of(minor: u32, at_160: bool) -> Layout {
        // 1.23 put the frame pointer of calls between, and a version thereafter took a field out.
        let call_has_frame = minor >= 23 || at_160;
        let is_short = call_has_frame && !at_160;
        let (frame, call) = if is_short { (56 + 40, 56 + 48) } else { (56 + 48, 56 + 56) };
        let shift = if at_160 { 8 } else { 0 };
        let (address, next) = if minor >= 26 { (32, 72) } else { (24, 64) };
        Layout {
            frame,
            call,
            call_has_frame,
            status: 144 + shift,
            number: 152 + shift,
            reason: 176 + shift,
            address,
            next,
            channel: next + 16,
            // 1.23 gave channels a timer.
            receivers: if minor >= 23 { 64 } else { 56 },
        }
    }
}
