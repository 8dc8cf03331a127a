//! Why threads block, by the kernel's part of their stacks.

use super::lock::Block;
use super::lookup::Lookup;
use crate::facts::{Primitive, Reason};
use crate::names::Role;

/// What the kernel part of a stack says about why the thread blocked, or what a look from outside found.
pub(super) fn reason(lookup: &mut Lookup, block: Block) -> Reason {
    let call_path = lookup.call_path(block.place);
    let in_kernel = call_path.iter().filter(|frame| matches!(frame.role, Role::Kernel | Role::Scheduler));
    let functions: Vec<&str> = in_kernel.filter_map(|frame| frame.function.as_deref()).collect();
    let known = KERNEL_REASONS
        .iter()
        .find(|(_, names)| functions.iter().any(|function| names.iter().any(|name| function.contains(name))));
    let found = block.found.map(|found| lookup.engine.found[found].reason);
    // Without the kernel's part of the stack, whoever cannot be interrupted waits for a device, as far as one can
    // tell.
    let nameless = !call_path.iter().any(|frame| frame.role == Role::Kernel && frame.function.is_some());
    let on_file = nameless || functions.iter().any(|function| FILES.iter().any(|name| function.contains(name)));
    let unknown = found.unwrap_or(if block.deep && on_file { Reason::Io } else { Reason::OtherCall });
    known.map_or(unknown, |(reason, _)| *reason)
}

/// Parts of the names of functions that have to do with files.
const FILES: &[&str] =
    &["ext4", "xfs", "btrfs", "f2fs", "fuse", "nfs", "ovl_", "iomap", "_bio", "blk", "folio", "vfs_", "fsync", "inode"];

/// Functions of the kernel that tell why a thread blocks; the first row that fits any frame counts.
const KERNEL_REASONS: &[(Reason, &[&str])] = &[
    // What recording costs the program, whose new threads get events of their own, is no doing of the program's.
    (Reason::Displaced, &["perf_event_init_task", "perf_event_alloc", "perf_event_exit_task", "inherit_event"]),
    (
        Reason::Memory,
        &[
            "mmap_lock",
            "lock_mm_and_find_vma",
            "lock_vma",
            "vma_start_write",
            "vm_mmap_pgoff",
            "vm_munmap",
            "do_munmap",
            "sys_munmap",
            "sys_mprotect",
            "do_madvise",
            "sys_brk",
            "sys_mremap",
        ],
    ),
    (Reason::PageFault, &["handle_mm_fault", "do_user_addr_fault", "exc_page_fault"]),
    (Reason::Futex(Primitive::Unknown), &["futex_wait", "futex_lock_pi"]),
    (Reason::Sleep, &["do_nanosleep", "hrtimer_nanosleep"]),
    (
        Reason::Poll,
        &[
            "ep_poll",
            "do_poll",
            "do_sys_poll",
            "do_select",
            "csk_accept",
            "sigsuspend",
            "sigtimedwait",
            "sys_pause",
            "cqring_wait",
            "read_events",
        ],
    ),
    (Reason::Child, &["do_wait", "kernel_wait4", "kernel_waitid"]),
    (
        Reason::Peer,
        &[
            "pipe_read",
            "pipe_write",
            "anon_pipe_",
            "unix_stream",
            "unix_dgram",
            "sk_wait_data",
            "sock_alloc_send",
            "tcp_recvmsg",
            "tcp_sendmsg",
            "inet_csk_accept",
            "inet_wait_for_connect",
            "skb_wait_for_more",
            "skb_recv",
            "n_tty_",
            "tty_read",
            "eventfd_read",
            "do_msgrcv",
            "do_mq_",
            "wait_for_partner",
            "fifo_open",
        ],
    ),
    (Reason::Io, &["io_schedule", "folio_wait", "wait_on_page", "vfs_fsync", "jbd2_", "blk_mq"]),
];
