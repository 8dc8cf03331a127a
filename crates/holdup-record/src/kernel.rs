//! Numbers of the kernel's records and tracepoints that a ring and a file of perf have alike (linux/perf_event.h,
//! linux/sched.h).

use holdup_trace::OffCpu;

/// Kinds of records.
pub mod kind {
    pub const MMAP: u32 = 1;
    pub const LOST: u32 = 2;
    pub const COMM: u32 = 3;
    pub const EXIT: u32 = 4;
    pub const FORK: u32 = 7;
    pub const SAMPLE: u32 = 9;
    pub const MMAP2: u32 = 10;
    pub const LOST_SAMPLES: u32 = 13;
    pub const SWITCH: u32 = 14;
    pub const SWITCH_CPU_WIDE: u32 = 15;
}

/// Flags of records: the same bits mean different things by kind.
pub mod misc {
    pub const SWITCH_OUT: u16 = 1 << 13;
    pub const SWITCH_OUT_PREEMPT: u16 = 1 << 14;
    pub const COMM_EXEC: u16 = 1 << 13;
    pub const MMAP_DATA: u16 = 1 << 13;
    pub const MMAP_BUILD_ID: u16 = 1 << 14;
}

/// Marks between the parts of a call chain, written as addresses near 2^64.
pub mod context {
    /// From here on an address is a mark.
    pub const FIRST: u64 = -4095i64 as u64;
    pub const KERNEL: u64 = -128i64 as u64;
    pub const USER: u64 = -512i64 as u64;
}

/// `prev_state` of sched_switch, in the bits that the tracepoint reports (TASK_REPORT).
pub fn off_cpu(prev_state: u64) -> OffCpu {
    const REPORTED: u64 = 0xff;
    const SLEEPING: u64 = 1;
    const UNINTERRUPTIBLE: u64 = 2;
    const IDLE: u64 = 0x80;
    match prev_state & REPORTED {
        state if state & SLEEPING != 0 => OffCpu::Sleeping,
        state if state & (UNINTERRUPTIBLE | IDLE) != 0 => OffCpu::Uninterruptible,
        0 => OffCpu::Runnable,
        _ => OffCpu::Gone,
    }
}
