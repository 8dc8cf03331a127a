/*
 * holdup.h: the locks and techniques of holdup-locks for C (C99 and later) and C++.
 *
 * Written by 'cargo xtask headers' from the sources of holdup-capi: do not edit.
 *
 * Which lock: holdup_adaptive_t; for data that many read at length and few write, holdup_rw_adaptive_t. The others are for particular needs and for comparison. Every lock is fixed in size, needs no
 * allocation (the CLH locks do), and is free as its HOLDUP_..._INIT says, so that a static lock needs no code to start.
 *
 * Rules for all of them:
 *  - The thread that took a lock releases it. Locks are not recursive.
 *  - A lock is not copied and not moved while it is in use.
 *  - Destroy a lock, or free its memory, only after the last unlock of every thread has *returned*: an unlock may touch the lock
 *    after another thread has taken it. Joining the threads is enough; a count that a thread lowers inside the lock is not.
 *  - Locks work between the threads of one process. A child of fork() has only the thread that forked: locks that no other thread
 *    held or awaited at the fork are usable there, others are not. The kernel locks eventfd, eventfd_sem, pipe and sysv_sem share
 *    their object with the parent.
 *  - Pointers are not null, unless a function says that they may be.
 *
 * No function throws or unwinds. What a library with checks ('cargo xtask install --checked') finds wrong ends in a message that
 * names the lock, and abort(); other libraries do not check.
 *
 * C++ programs use holdup.hpp.
 */

#ifndef HOLDUP_H
#define HOLDUP_H


/** The version of this header and of the library that it came with. */
#define HOLDUP_LOCKS_VERSION "0.1.0"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if UINTPTR_MAX != 0xffffffffffffffffu
#error "holdup.h is for 64-bit targets"
#endif

#ifdef __cplusplus
#define HOLDUP_NOEXCEPT noexcept
#else
#define HOLDUP_NOEXCEPT
#endif

#define HOLDUP_ALIGNED(n) __attribute__((aligned(n)))

/* Compiled with -fsanitize=thread: gcc says so by a macro, clang by a feature. Who compiles the library with it too defines
   HOLDUP_NO_TSAN. */
#if defined(HOLDUP_NO_TSAN)
#elif defined(__SANITIZE_THREAD__)
#define HOLDUP_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define HOLDUP_TSAN 1
#endif
#endif

/** The first value of a holdup_gate_t that lets `n` threads in; `n` is a constant above 0. */
#define HOLDUP_GATE_INIT(n) {{0, (n), (n)}}

/** The first value of a holdup_counter_t: zero. */
#define HOLDUP_COUNTER_INIT {{0}}

/** The first value of a holdup_adaptive_t: free. */
#define HOLDUP_ADAPTIVE_INIT {{UINT64_C(0x6400000000), UINT64_C(0x1)}}

/** The first value of a holdup_tas_t: free. */
#define HOLDUP_TAS_INIT {{UINT64_C(0x40020100000000)}}

/** The first value of a holdup_ttas_t: free. */
#define HOLDUP_TTAS_INIT {{UINT64_C(0x40020000000000)}}

/** The first value of a holdup_ticket_t: free. */
#define HOLDUP_TICKET_INIT {{UINT64_C(0x0)}}

/** The first value of a holdup_ticket_spin_t: free. */
#define HOLDUP_TICKET_SPIN_INIT {{UINT64_C(0x0)}}

/** The first value of a holdup_mcs_t: free. */
#define HOLDUP_MCS_INIT {{UINT64_C(0x0), UINT64_C(0x0), UINT64_C(0x0)}}

/** The first value of a holdup_mcs_spin_t: free. */
#define HOLDUP_MCS_SPIN_INIT {{UINT64_C(0x0), UINT64_C(0x0)}}

/** The first value of a holdup_clh_t: free. */
#define HOLDUP_CLH_INIT {{UINT64_C(0x0), UINT64_C(0x0)}}

/** The first value of a holdup_clh_spin_t: free. */
#define HOLDUP_CLH_SPIN_INIT {{UINT64_C(0x0), UINT64_C(0x0)}}

/** The first value of a holdup_futex_t: free. */
#define HOLDUP_FUTEX_INIT {{UINT64_C(0x0)}}

/** The first value of a holdup_fair_t: free. */
#define HOLDUP_FAIR_INIT {{UINT64_C(0x0), UINT64_C(0x0)}}

/** The first value of a holdup_eventfd_t: free. */
#define HOLDUP_EVENTFD_INIT {{UINT64_C(0x0), UINT64_C(0x0)}}

/** The first value of a holdup_eventfd_sem_t: free. */
#define HOLDUP_EVENTFD_SEM_INIT {{UINT64_C(0x0), UINT64_C(0x0)}}

/** The first value of a holdup_sysv_sem_t: free. */
#define HOLDUP_SYSV_SEM_INIT {{UINT64_C(0x0), UINT64_C(0x0), UINT64_C(0x0)}}

/** The first value of a holdup_futex_pi_t: free. */
#define HOLDUP_FUTEX_PI_INIT {{UINT64_C(0x0), UINT64_C(0x0)}}

/** The first value of a holdup_pipe_t: free. */
#define HOLDUP_PIPE_INIT {{UINT64_C(0x0), UINT64_C(0x0)}}

/** The first value of a holdup_rw_adaptive_t: free. */
#define HOLDUP_RW_ADAPTIVE_INIT {{UINT64_C(0x6400000000), UINT64_C(0x6400000000), UINT64_C(0x1)}}

/** The first value of a holdup_rw_sharded_t: free. */
#define HOLDUP_RW_SHARDED_INIT {{UINT64_C(0x6400000000), UINT64_C(0x6400000000), UINT64_C(0x1), UINT64_C(0x64)}}

/**
 * A fixed number of locks for any number of objects: a key, such as an object's address, picks its lock.
 *
 * The same key always meets the same lock; two keys share one with probability 1 in the number of locks. So a million
 * objects need no million locks, and an object can be freed safely, because its lock does not live in it. Because keys
 * share locks, **never lock a second key while holding one**: take several at once with holdup_table_lock_many. The
 * locks are holdup_adaptive_t, on cache lines of their own: 128 bytes each.
 */
typedef struct holdup_table_t holdup_table_t;

/**
 * The lock `adaptive`: learns how long to spin, then sleeps; nobody starves. (Karlin et al. 1991; Go 2016; Pizlo 2016)
 *
 * The order of waiters is not kept. Cost while nobody else wants it: one compare-exchange and one store, about 6 ns
 * together. Not for strict order of arrival (holdup_fair_t), or locks between processes.
 *
 * Initialise it with HOLDUP_ADAPTIVE_INIT or holdup_adaptive_init. It must not be copied or moved while in use.
 */
typedef struct holdup_adaptive_t {
  uint64_t opaque[2];
} holdup_adaptive_t;

/**
 * The lock `tas`: test-and-set: spins on the atomic operation, backs off. (Anderson 1990, section 2)
 *
 * The order of waiters is not kept. Cost while nobody else wants it: one atomic operation to lock, one store to
 * unlock; waiters burn CPU time. Not for more than a few threads, or sections longer than a microsecond; holdup_ttas_t
 * does better.
 *
 * Initialise it with HOLDUP_TAS_INIT or holdup_tas_init. It must not be copied or moved while in use.
 */
typedef struct holdup_tas_t {
  uint64_t opaque[1];
} holdup_tas_t;

/**
 * The lock `ttas`: test-and-test-and-set: spins on a read, backs off. (Anderson 1990, section 3; Intel 2009)
 *
 * The order of waiters is not kept. Cost while nobody else wants it: one atomic operation to lock, one store to
 * unlock; waiters burn CPU time. Not for sections longer than a microsecond, and wherever a thread must not starve.
 *
 * Initialise it with HOLDUP_TTAS_INIT or holdup_ttas_init. It must not be copied or moved while in use.
 */
typedef struct holdup_ttas_t {
  uint64_t opaque[1];
} holdup_ttas_t;

/**
 * The lock `ticket`: ticket lock: proportional back-off, then gives the CPU away. (Mellor-Crummey & Scott 1991,
 * section 2.2)
 *
 * Threads get it in the order of their arrival. Cost while nobody else wants it: one atomic add to lock, one store to
 * unlock; waiters burn CPU time, then give the CPU away. Not for more threads than CPUs: each turn then waits for one
 * given thread to run.
 *
 * Initialise it with HOLDUP_TICKET_INIT or holdup_ticket_init. It must not be copied or moved while in use.
 */
typedef struct holdup_ticket_t {
  uint64_t opaque[1];
} holdup_ticket_t;

/**
 * The lock `ticket-spin`: ticket lock, pure spinning, for study. (Mellor-Crummey & Scott 1991, section 2.2)
 *
 * Threads get it in the order of their arrival. Cost while nobody else wants it: one atomic operation to lock, one
 * store to unlock; waiters burn CPU time. Not for anything but study: with more threads than CPUs it collapses.
 *
 * Initialise it with HOLDUP_TICKET_SPIN_INIT or holdup_ticket_spin_init. It must not be copied or moved while in use.
 */
typedef struct holdup_ticket_spin_t {
  uint64_t opaque[1];
} holdup_ticket_spin_t;

/**
 * The lock `mcs`: queue whose head competes with newcomers; spins, then sleeps. (Mellor-Crummey & Scott 1991, section
 * 2.4; Linux qspinlock)
 *
 * The order of waiters is not kept. Cost while nobody else wants it: one compare-exchange each way. Not for waits that
 * must end in time: it has no timed try.
 *
 * Initialise it with HOLDUP_MCS_INIT or holdup_mcs_init. It must not be copied or moved while in use.
 */
typedef struct holdup_mcs_t {
  uint64_t opaque[3];
} holdup_mcs_t;

/**
 * The lock `mcs-spin`: MCS queue lock, pure spinning, for study. (Mellor-Crummey & Scott 1991, section 2.4; K42
 * variant)
 *
 * Threads get it in the order of their arrival. Cost while nobody else wants it: one compare-exchange each way;
 * waiters burn CPU time. Not for anything but study: with more threads than CPUs it collapses.
 *
 * Initialise it with HOLDUP_MCS_SPIN_INIT or holdup_mcs_spin_init. It must not be copied or moved while in use.
 */
typedef struct holdup_mcs_spin_t {
  uint64_t opaque[2];
} holdup_mcs_spin_t;

/**
 * The lock `clh`: CLH queue lock: spins on the predecessor, then sleeps. (Craig 1993, section 3)
 *
 * Threads get it in the order of their arrival. Cost while nobody else wants it: one atomic operation each way and two
 * accesses to thread-local storage; the only lock here that allocates: a node per thread and depth, freed when the
 * thread ends. Not for more threads than CPUs where order does not matter; threads that end while they hold it leak a
 * node.
 *
 * Initialise it with HOLDUP_CLH_INIT or holdup_clh_init. It must not be copied or moved while in use.
 */
typedef struct holdup_clh_t {
  uint64_t opaque[2];
} holdup_clh_t;

/**
 * The lock `clh-spin`: CLH queue lock, pure spinning, for study. (Craig 1993, section 3)
 *
 * Threads get it in the order of their arrival. Cost while nobody else wants it: as holdup_clh_t; waiters burn CPU
 * time. Not for anything but study: with more threads than CPUs it collapses.
 *
 * Initialise it with HOLDUP_CLH_SPIN_INIT or holdup_clh_spin_init. It must not be copied or moved while in use.
 */
typedef struct holdup_clh_spin_t {
  uint64_t opaque[2];
} holdup_clh_spin_t;

/**
 * The lock `futex`: three states and a futex, barging: glibc's protocol. (Drepper 2011, section 6)
 *
 * The order of waiters is not kept. Cost while nobody else wants it: one compare-exchange and one exchange; contended,
 * a system call each way. Not for threads that re-acquire at once beside others that wait: those starve.
 *
 * Initialise it with HOLDUP_FUTEX_INIT or holdup_futex_init. It must not be copied or moved while in use.
 */
typedef struct holdup_futex_t {
  uint64_t opaque[1];
} holdup_futex_t;

/**
 * The lock `fair`: hands over to the first in the queue, always. (Mellor-Crummey & Scott 1991, section 2.4)
 *
 * Threads get it in the order of their arrival. Cost while nobody else wants it: one compare-exchange each way;
 * contended, a context switch per turn. Not for throughput: handing over to a sleeping thread costs microseconds each
 * time.
 *
 * Initialise it with HOLDUP_FAIR_INIT or holdup_fair_init. It must not be copied or moved while in use.
 */
typedef struct holdup_fair_t {
  uint64_t opaque[2];
} holdup_fair_t;

/**
 * The lock `eventfd`: auto-reset event of the kernel. (eventfd(2))
 *
 * The order of waiters is not kept. Cost while nobody else wants it: a system call each way, always; the first use
 * makes a file descriptor. Not for speed: it is here for comparison.
 *
 * Initialise it with HOLDUP_EVENTFD_INIT or holdup_eventfd_init. It must not be copied or moved while in use.
 */
typedef struct holdup_eventfd_t {
  uint64_t opaque[2];
} holdup_eventfd_t;

/**
 * The lock `eventfd-sem`: binary semaphore of the kernel. (eventfd(2), EFD_SEMAPHORE)
 *
 * The order of waiters is not kept. Cost while nobody else wants it: a system call each way, always; the first use
 * makes a file descriptor. Not for speed: it is here for comparison.
 *
 * Initialise it with HOLDUP_EVENTFD_SEM_INIT or holdup_eventfd_sem_init. It must not be copied or moved while in use.
 */
typedef struct holdup_eventfd_sem_t {
  uint64_t opaque[2];
} holdup_eventfd_sem_t;

/**
 * The lock `sysv-sem`: System V semaphore, undone when its holder's process dies. (semop(2), SEM_UNDO)
 *
 * The order of waiters is not kept. Cost while nobody else wants it: a system call each way, always, and the kernel's
 * list of what to undo: the dearest here. Not for many locks: the system has few semaphores, and those of a killed
 * process stay.
 *
 * Initialise it with HOLDUP_SYSV_SEM_INIT or holdup_sysv_sem_init. It must not be copied or moved while in use.
 */
typedef struct holdup_sysv_sem_t {
  uint64_t opaque[3];
} holdup_sysv_sem_t;

/**
 * The lock `futex-pi`: priority-inheriting futex; the kernel knows its owner. (futex(2); Sha, Rajkumar & Lehoczky
 * 1990)
 *
 * The order of waiters is not kept. Cost while nobody else wants it: a system call each way, always. Not for threads
 * of one priority: a contended release hands over to a sleeping thread.
 *
 * Initialise it with HOLDUP_FUTEX_PI_INIT or holdup_futex_pi_init. It must not be copied or moved while in use.
 */
typedef struct holdup_futex_pi_t {
  uint64_t opaque[2];
} holdup_futex_pi_t;

/**
 * The lock `pipe`: a byte in a pipe: its reader holds the lock. (pipe(7))
 *
 * The order of waiters is not kept. Cost while nobody else wants it: a system call each way, always; the first use
 * makes two file descriptors. Not for speed: it is here for comparison.
 *
 * Initialise it with HOLDUP_PIPE_INIT or holdup_pipe_init. It must not be copied or moved while in use.
 */
typedef struct holdup_pipe_t {
  uint64_t opaque[2];
} holdup_pipe_t;

/**
 * The reader-writer lock `rw-adaptive`: readers and writers in turn; spins, then sleeps. (Brandenburg & Anderson 2010,
 * section 3; Go 2009)
 *
 * Readers and writers take turns, so neither starves. Cost while nobody else wants it: one compare-exchange and one
 * more atomic operation, for reading and for writing. Not for sections as short as a lock should have, where
 * holdup_adaptive_t costs as much; nor for locks between processes.
 *
 * Initialise it with HOLDUP_RW_ADAPTIVE_INIT or holdup_rw_adaptive_init. It must not be copied or moved while in use.
 */
typedef struct holdup_rw_adaptive_t {
  uint64_t opaque[3];
} holdup_rw_adaptive_t;

/**
 * The reader-writer lock `rw-sharded`: readers count in slots of their threads, writers close all. (Hsieh & Weihl
 * 1992; Linux 2.4)
 *
 * Readers and writers take turns, so neither starves. Cost while nobody else wants it: two atomic operations on a line
 * of the thread's own to read; two on each of 16 lines to write. Not for more than one write among some hundred reads,
 * nor for locks by the thousand: each takes 2,176 bytes.
 *
 * Initialise it with HOLDUP_RW_SHARDED_INIT or holdup_rw_sharded_init. It must not be copied or moved while in use.
 */
typedef struct HOLDUP_ALIGNED(128) holdup_rw_sharded_t {
  uint64_t opaque[272];
} holdup_rw_sharded_t;

/**
 * Lets at most N threads be active; the others sleep in the kernel, first come, first served.
 *
 * For programs that slow down when too many threads want one lock: put the gate around the whole of a thread's work.
 * Cost: about as much as a lock while it is open, a sleep and a wake-up when it is full. Not for short sections, and
 * never to be entered while holding a lock that those inside need. Initialise it with HOLDUP_GATE_INIT(N) or
 * holdup_gate_init.
 */
typedef struct holdup_gate_t {
  uint64_t opaque[3];
} holdup_gate_t;

/**
 * A counter that many threads add to without meeting: a cell for each thread, on cache lines of its own; 8 KiB.
 *
 * Not for counters that are read as often as they are written, or must be exact while others add. Initialise it with
 * HOLDUP_COUNTER_INIT, or zero the memory; it needs no end.
 */
typedef struct HOLDUP_ALIGNED(128) holdup_counter_t {
  uint64_t opaque[1024];
} holdup_counter_t;

/**
 * Claims on a range of indices: every index exactly once, by whichever thread asks. 256 bytes.
 *
 * For parallel loops. A claim carries no data: what the bodies write reaches others through the join at the loop's
 * end. Not for bodies of equal, known length: split those up front. Initialise it with holdup_chunks_init_fixed or
 * holdup_chunks_init_guided; it needs no end.
 */
typedef struct HOLDUP_ALIGNED(128) holdup_chunks_t {
  uint64_t opaque[32];
} holdup_chunks_t;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Makes a free `adaptive` lock of `lock`, whatever the memory held before. Never fails; a few stores.
 *
 * The same as assigning HOLDUP_ADAPTIVE_INIT. A lock that is in use must be destroyed first.
 */
void holdup_adaptive_init(struct holdup_adaptive_t *lock) HOLDUP_NOEXCEPT;

/**
 * Ends a free `adaptive` lock and gives back what it took from the system.
 *
 * Wait until every other thread's last holdup_adaptive_unlock has returned: an unlock may touch the lock after another
 * thread has it.
 * A library with checks prints a message and aborts if the lock is held.
 */
void holdup_adaptive_destroy(struct holdup_adaptive_t *lock) HOLDUP_NOEXCEPT;

/**
 * Takes the `adaptive` lock; waits while another thread holds it. Never fails.
 *
 * It is not recursive: a thread that holds it already waits for ever; a library with checks prints a message and
 * aborts.
 */
void holdup_adaptive_lock(struct holdup_adaptive_t *lock) HOLDUP_NOEXCEPT;

/**
 * Takes the `adaptive` lock if that is possible at once; never waits.
 *
 * Returns true if the caller holds the lock now, false if another thread holds it.
 */
bool holdup_adaptive_try_lock(struct holdup_adaptive_t *lock) HOLDUP_NOEXCEPT;

/**
 * Takes the `adaptive` lock if that is possible within `timeout_ns` nanoseconds (CLOCK_MONOTONIC).
 *
 * Returns true if the caller holds the lock now, false if the time has run out, and never before it has. 0 is a try;
 * UINT64_MAX
 * (584 years) waits without end. While the lock is free it costs as much as holdup_adaptive_lock.
 */
bool holdup_adaptive_try_lock_for_ns(struct holdup_adaptive_t *lock, uint64_t timeout_ns) HOLDUP_NOEXCEPT;

/**
 * Releases the `adaptive` lock. The thread that took it must call this; what it wrote is seen by the next that takes
 * it.
 *
 * Never fails. A library with checks prints a message and aborts if the lock is free or another thread's.
 */
void holdup_adaptive_unlock(struct holdup_adaptive_t *lock) HOLDUP_NOEXCEPT;

/**
 * Returns true if some thread holds the `adaptive` lock: a moment's value, for assertions.
 */
bool holdup_adaptive_is_locked(const struct holdup_adaptive_t *lock) HOLDUP_NOEXCEPT;

/**
 * Makes a free `tas` lock of `lock`, whatever the memory held before. Never fails; a few stores.
 *
 * The same as assigning HOLDUP_TAS_INIT. A lock that is in use must be destroyed first.
 */
void holdup_tas_init(struct holdup_tas_t *lock) HOLDUP_NOEXCEPT;

/**
 * Ends a free `tas` lock and gives back what it took from the system.
 *
 * Wait until every other thread's last holdup_tas_unlock has returned: an unlock may touch the lock after another
 * thread has it.
 * A library with checks prints a message and aborts if the lock is held.
 */
void holdup_tas_destroy(struct holdup_tas_t *lock) HOLDUP_NOEXCEPT;

/**
 * Takes the `tas` lock; waits while another thread holds it. Never fails.
 *
 * It is not recursive: a thread that holds it already waits for ever; a library with checks prints a message and
 * aborts.
 */
void holdup_tas_lock(struct holdup_tas_t *lock) HOLDUP_NOEXCEPT;

/**
 * Takes the `tas` lock if that is possible at once; never waits.
 *
 * Returns true if the caller holds the lock now, false if another thread holds it.
 */
bool holdup_tas_try_lock(struct holdup_tas_t *lock) HOLDUP_NOEXCEPT;

/**
 * Takes the `tas` lock if that is possible within `timeout_ns` nanoseconds (CLOCK_MONOTONIC).
 *
 * Returns true if the caller holds the lock now, false if the time has run out, and never before it has. 0 is a try;
 * UINT64_MAX
 * (584 years) waits without end. While the lock is free it costs as much as holdup_tas_lock.
 */
bool holdup_tas_try_lock_for_ns(struct holdup_tas_t *lock, uint64_t timeout_ns) HOLDUP_NOEXCEPT;

/**
 * Releases the `tas` lock. The thread that took it must call this; what it wrote is seen by the next that takes it.
 *
 * Never fails. A library with checks prints a message and aborts if the lock is free or another thread's.
 */
void holdup_tas_unlock(struct holdup_tas_t *lock) HOLDUP_NOEXCEPT;

/**
 * Returns true if some thread holds the `tas` lock: a moment's value, for assertions.
 */
bool holdup_tas_is_locked(const struct holdup_tas_t *lock) HOLDUP_NOEXCEPT;

/**
 * Makes a free `ttas` lock of `lock`, whatever the memory held before. Never fails; a few stores.
 *
 * The same as assigning HOLDUP_TTAS_INIT. A lock that is in use must be destroyed first.
 */
void holdup_ttas_init(struct holdup_ttas_t *lock) HOLDUP_NOEXCEPT;

/**
 * Ends a free `ttas` lock and gives back what it took from the system.
 *
 * Wait until every other thread's last holdup_ttas_unlock has returned: an unlock may touch the lock after another
 * thread has it.
 * A library with checks prints a message and aborts if the lock is held.
 */
void holdup_ttas_destroy(struct holdup_ttas_t *lock) HOLDUP_NOEXCEPT;

/**
 * Takes the `ttas` lock; waits while another thread holds it. Never fails.
 *
 * It is not recursive: a thread that holds it already waits for ever; a library with checks prints a message and
 * aborts.
 */
void holdup_ttas_lock(struct holdup_ttas_t *lock) HOLDUP_NOEXCEPT;

/**
 * Takes the `ttas` lock if that is possible at once; never waits.
 *
 * Returns true if the caller holds the lock now, false if another thread holds it.
 */
bool holdup_ttas_try_lock(struct holdup_ttas_t *lock) HOLDUP_NOEXCEPT;

/**
 * Takes the `ttas` lock if that is possible within `timeout_ns` nanoseconds (CLOCK_MONOTONIC).
 *
 * Returns true if the caller holds the lock now, false if the time has run out, and never before it has. 0 is a try;
 * UINT64_MAX
 * (584 years) waits without end. While the lock is free it costs as much as holdup_ttas_lock.
 */
bool holdup_ttas_try_lock_for_ns(struct holdup_ttas_t *lock, uint64_t timeout_ns) HOLDUP_NOEXCEPT;

/**
 * Releases the `ttas` lock. The thread that took it must call this; what it wrote is seen by the next that takes it.
 *
 * Never fails. A library with checks prints a message and aborts if the lock is free or another thread's.
 */
void holdup_ttas_unlock(struct holdup_ttas_t *lock) HOLDUP_NOEXCEPT;

/**
 * Returns true if some thread holds the `ttas` lock: a moment's value, for assertions.
 */
bool holdup_ttas_is_locked(const struct holdup_ttas_t *lock) HOLDUP_NOEXCEPT;

/**
 * Makes a free `ticket` lock of `lock`, whatever the memory held before. Never fails; a few stores.
 *
 * The same as assigning HOLDUP_TICKET_INIT. A lock that is in use must be destroyed first.
 */
void holdup_ticket_init(struct holdup_ticket_t *lock) HOLDUP_NOEXCEPT;

/**
 * Ends a free `ticket` lock and gives back what it took from the system.
 *
 * Wait until every other thread's last holdup_ticket_unlock has returned: an unlock may touch the lock after another
 * thread has it.
 * A library with checks prints a message and aborts if the lock is held.
 */
void holdup_ticket_destroy(struct holdup_ticket_t *lock) HOLDUP_NOEXCEPT;

/**
 * Takes the `ticket` lock; waits while another thread holds it. Never fails.
 *
 * It is not recursive: a thread that holds it already waits for ever; a library with checks prints a message and
 * aborts.
 */
void holdup_ticket_lock(struct holdup_ticket_t *lock) HOLDUP_NOEXCEPT;

/**
 * Takes the `ticket` lock if that is possible at once; never waits.
 *
 * Returns true if the caller holds the lock now, false if another thread holds it.
 */
bool holdup_ticket_try_lock(struct holdup_ticket_t *lock) HOLDUP_NOEXCEPT;

/**
 * Releases the `ticket` lock. The thread that took it must call this; what it wrote is seen by the next that takes it.
 *
 * Never fails. A library with checks prints a message and aborts if the lock is free or another thread's.
 */
void holdup_ticket_unlock(struct holdup_ticket_t *lock) HOLDUP_NOEXCEPT;

/**
 * Returns true if some thread holds the `ticket` lock: a moment's value, for assertions.
 */
bool holdup_ticket_is_locked(const struct holdup_ticket_t *lock) HOLDUP_NOEXCEPT;

/**
 * Makes a free `ticket-spin` lock of `lock`, whatever the memory held before. Never fails; a few stores.
 *
 * The same as assigning HOLDUP_TICKET_SPIN_INIT. A lock that is in use must be destroyed first.
 */
void holdup_ticket_spin_init(struct holdup_ticket_spin_t *lock) HOLDUP_NOEXCEPT;

/**
 * Ends a free `ticket-spin` lock and gives back what it took from the system.
 *
 * Wait until every other thread's last holdup_ticket_spin_unlock has returned: an unlock may touch the lock after
 * another thread has it.
 * A library with checks prints a message and aborts if the lock is held.
 */
void holdup_ticket_spin_destroy(struct holdup_ticket_spin_t *lock) HOLDUP_NOEXCEPT;

/**
 * Takes the `ticket-spin` lock; waits while another thread holds it. Never fails.
 *
 * It is not recursive: a thread that holds it already waits for ever; a library with checks prints a message and
 * aborts.
 */
void holdup_ticket_spin_lock(struct holdup_ticket_spin_t *lock) HOLDUP_NOEXCEPT;

/**
 * Takes the `ticket-spin` lock if that is possible at once; never waits.
 *
 * Returns true if the caller holds the lock now, false if another thread holds it.
 */
bool holdup_ticket_spin_try_lock(struct holdup_ticket_spin_t *lock) HOLDUP_NOEXCEPT;

/**
 * Releases the `ticket-spin` lock. The thread that took it must call this; what it wrote is seen by the next that
 * takes it.
 *
 * Never fails. A library with checks prints a message and aborts if the lock is free or another thread's.
 */
void holdup_ticket_spin_unlock(struct holdup_ticket_spin_t *lock) HOLDUP_NOEXCEPT;

/**
 * Returns true if some thread holds the `ticket-spin` lock: a moment's value, for assertions.
 */
bool holdup_ticket_spin_is_locked(const struct holdup_ticket_spin_t *lock) HOLDUP_NOEXCEPT;

/**
 * Makes a free `mcs` lock of `lock`, whatever the memory held before. Never fails; a few stores.
 *
 * The same as assigning HOLDUP_MCS_INIT. A lock that is in use must be destroyed first.
 */
void holdup_mcs_init(struct holdup_mcs_t *lock) HOLDUP_NOEXCEPT;

/**
 * Ends a free `mcs` lock and gives back what it took from the system.
 *
 * Wait until every other thread's last holdup_mcs_unlock has returned: an unlock may touch the lock after another
 * thread has it.
 * A library with checks prints a message and aborts if the lock is held.
 */
void holdup_mcs_destroy(struct holdup_mcs_t *lock) HOLDUP_NOEXCEPT;

/**
 * Takes the `mcs` lock; waits while another thread holds it. Never fails.
 *
 * It is not recursive: a thread that holds it already waits for ever; a library with checks prints a message and
 * aborts.
 */
void holdup_mcs_lock(struct holdup_mcs_t *lock) HOLDUP_NOEXCEPT;

/**
 * Takes the `mcs` lock if that is possible at once; never waits.
 *
 * Returns true if the caller holds the lock now, false if another thread holds it.
 */
bool holdup_mcs_try_lock(struct holdup_mcs_t *lock) HOLDUP_NOEXCEPT;

/**
 * Releases the `mcs` lock. The thread that took it must call this; what it wrote is seen by the next that takes it.
 *
 * Never fails. A library with checks prints a message and aborts if the lock is free or another thread's.
 */
void holdup_mcs_unlock(struct holdup_mcs_t *lock) HOLDUP_NOEXCEPT;

/**
 * Returns true if some thread holds the `mcs` lock: a moment's value, for assertions.
 */
bool holdup_mcs_is_locked(const struct holdup_mcs_t *lock) HOLDUP_NOEXCEPT;

/**
 * Makes a free `mcs-spin` lock of `lock`, whatever the memory held before. Never fails; a few stores.
 *
 * The same as assigning HOLDUP_MCS_SPIN_INIT. A lock that is in use must be destroyed first.
 */
void holdup_mcs_spin_init(struct holdup_mcs_spin_t *lock) HOLDUP_NOEXCEPT;

/**
 * Ends a free `mcs-spin` lock and gives back what it took from the system.
 *
 * Wait until every other thread's last holdup_mcs_spin_unlock has returned: an unlock may touch the lock after another
 * thread has it.
 * A library with checks prints a message and aborts if the lock is held.
 */
void holdup_mcs_spin_destroy(struct holdup_mcs_spin_t *lock) HOLDUP_NOEXCEPT;

/**
 * Takes the `mcs-spin` lock; waits while another thread holds it. Never fails.
 *
 * It is not recursive: a thread that holds it already waits for ever; a library with checks prints a message and
 * aborts.
 */
void holdup_mcs_spin_lock(struct holdup_mcs_spin_t *lock) HOLDUP_NOEXCEPT;

/**
 * Takes the `mcs-spin` lock if that is possible at once; never waits.
 *
 * Returns true if the caller holds the lock now, false if another thread holds it.
 */
bool holdup_mcs_spin_try_lock(struct holdup_mcs_spin_t *lock) HOLDUP_NOEXCEPT;

/**
 * Releases the `mcs-spin` lock. The thread that took it must call this; what it wrote is seen by the next that takes
 * it.
 *
 * Never fails. A library with checks prints a message and aborts if the lock is free or another thread's.
 */
void holdup_mcs_spin_unlock(struct holdup_mcs_spin_t *lock) HOLDUP_NOEXCEPT;

/**
 * Returns true if some thread holds the `mcs-spin` lock: a moment's value, for assertions.
 */
bool holdup_mcs_spin_is_locked(const struct holdup_mcs_spin_t *lock) HOLDUP_NOEXCEPT;

/**
 * Makes a free `clh` lock of `lock`, whatever the memory held before. Never fails; a few stores.
 *
 * The same as assigning HOLDUP_CLH_INIT. A lock that is in use must be destroyed first.
 */
void holdup_clh_init(struct holdup_clh_t *lock) HOLDUP_NOEXCEPT;

/**
 * Ends a free `clh` lock and gives back what it took from the system.
 *
 * Wait until every other thread's last holdup_clh_unlock has returned: an unlock may touch the lock after another
 * thread has it.
 * A library with checks prints a message and aborts if the lock is held.
 */
void holdup_clh_destroy(struct holdup_clh_t *lock) HOLDUP_NOEXCEPT;

/**
 * Takes the `clh` lock; waits while another thread holds it. Never fails.
 *
 * It is not recursive: a thread that holds it already waits for ever; a library with checks prints a message and
 * aborts.
 */
void holdup_clh_lock(struct holdup_clh_t *lock) HOLDUP_NOEXCEPT;

/**
 * Takes the `clh` lock if that is possible at once; never waits.
 *
 * Returns true if the caller holds the lock now, false if another thread holds it.
 */
bool holdup_clh_try_lock(struct holdup_clh_t *lock) HOLDUP_NOEXCEPT;

/**
 * Releases the `clh` lock. The thread that took it must call this; what it wrote is seen by the next that takes it.
 *
 * Never fails. A library with checks prints a message and aborts if the lock is free or another thread's.
 */
void holdup_clh_unlock(struct holdup_clh_t *lock) HOLDUP_NOEXCEPT;

/**
 * Returns true if some thread holds the `clh` lock: a moment's value, for assertions.
 */
bool holdup_clh_is_locked(const struct holdup_clh_t *lock) HOLDUP_NOEXCEPT;

/**
 * Makes a free `clh-spin` lock of `lock`, whatever the memory held before. Never fails; a few stores.
 *
 * The same as assigning HOLDUP_CLH_SPIN_INIT. A lock that is in use must be destroyed first.
 */
void holdup_clh_spin_init(struct holdup_clh_spin_t *lock) HOLDUP_NOEXCEPT;

/**
 * Ends a free `clh-spin` lock and gives back what it took from the system.
 *
 * Wait until every other thread's last holdup_clh_spin_unlock has returned: an unlock may touch the lock after another
 * thread has it.
 * A library with checks prints a message and aborts if the lock is held.
 */
void holdup_clh_spin_destroy(struct holdup_clh_spin_t *lock) HOLDUP_NOEXCEPT;

/**
 * Takes the `clh-spin` lock; waits while another thread holds it. Never fails.
 *
 * It is not recursive: a thread that holds it already waits for ever; a library with checks prints a message and
 * aborts.
 */
void holdup_clh_spin_lock(struct holdup_clh_spin_t *lock) HOLDUP_NOEXCEPT;

/**
 * Takes the `clh-spin` lock if that is possible at once; never waits.
 *
 * Returns true if the caller holds the lock now, false if another thread holds it.
 */
bool holdup_clh_spin_try_lock(struct holdup_clh_spin_t *lock) HOLDUP_NOEXCEPT;

/**
 * Releases the `clh-spin` lock. The thread that took it must call this; what it wrote is seen by the next that takes
 * it.
 *
 * Never fails. A library with checks prints a message and aborts if the lock is free or another thread's.
 */
void holdup_clh_spin_unlock(struct holdup_clh_spin_t *lock) HOLDUP_NOEXCEPT;

/**
 * Returns true if some thread holds the `clh-spin` lock: a moment's value, for assertions.
 */
bool holdup_clh_spin_is_locked(const struct holdup_clh_spin_t *lock) HOLDUP_NOEXCEPT;

/**
 * Makes a free `futex` lock of `lock`, whatever the memory held before. Never fails; a few stores.
 *
 * The same as assigning HOLDUP_FUTEX_INIT. A lock that is in use must be destroyed first.
 */
void holdup_futex_init(struct holdup_futex_t *lock) HOLDUP_NOEXCEPT;

/**
 * Ends a free `futex` lock and gives back what it took from the system.
 *
 * Wait until every other thread's last holdup_futex_unlock has returned: an unlock may touch the lock after another
 * thread has it.
 * A library with checks prints a message and aborts if the lock is held.
 */
void holdup_futex_destroy(struct holdup_futex_t *lock) HOLDUP_NOEXCEPT;

/**
 * Takes the `futex` lock; waits while another thread holds it. Never fails.
 *
 * It is not recursive: a thread that holds it already waits for ever; a library with checks prints a message and
 * aborts.
 */
void holdup_futex_lock(struct holdup_futex_t *lock) HOLDUP_NOEXCEPT;

/**
 * Takes the `futex` lock if that is possible at once; never waits.
 *
 * Returns true if the caller holds the lock now, false if another thread holds it.
 */
bool holdup_futex_try_lock(struct holdup_futex_t *lock) HOLDUP_NOEXCEPT;

/**
 * Takes the `futex` lock if that is possible within `timeout_ns` nanoseconds (CLOCK_MONOTONIC).
 *
 * Returns true if the caller holds the lock now, false if the time has run out, and never before it has. 0 is a try;
 * UINT64_MAX
 * (584 years) waits without end. While the lock is free it costs as much as holdup_futex_lock.
 */
bool holdup_futex_try_lock_for_ns(struct holdup_futex_t *lock, uint64_t timeout_ns) HOLDUP_NOEXCEPT;

/**
 * Releases the `futex` lock. The thread that took it must call this; what it wrote is seen by the next that takes it.
 *
 * Never fails. A library with checks prints a message and aborts if the lock is free or another thread's.
 */
void holdup_futex_unlock(struct holdup_futex_t *lock) HOLDUP_NOEXCEPT;

/**
 * Returns true if some thread holds the `futex` lock: a moment's value, for assertions.
 */
bool holdup_futex_is_locked(const struct holdup_futex_t *lock) HOLDUP_NOEXCEPT;

/**
 * Makes a free `fair` lock of `lock`, whatever the memory held before. Never fails; a few stores.
 *
 * The same as assigning HOLDUP_FAIR_INIT. A lock that is in use must be destroyed first.
 */
void holdup_fair_init(struct holdup_fair_t *lock) HOLDUP_NOEXCEPT;

/**
 * Ends a free `fair` lock and gives back what it took from the system.
 *
 * Wait until every other thread's last holdup_fair_unlock has returned: an unlock may touch the lock after another
 * thread has it.
 * A library with checks prints a message and aborts if the lock is held.
 */
void holdup_fair_destroy(struct holdup_fair_t *lock) HOLDUP_NOEXCEPT;

/**
 * Takes the `fair` lock; waits while another thread holds it. Never fails.
 *
 * It is not recursive: a thread that holds it already waits for ever; a library with checks prints a message and
 * aborts.
 */
void holdup_fair_lock(struct holdup_fair_t *lock) HOLDUP_NOEXCEPT;

/**
 * Takes the `fair` lock if that is possible at once; never waits.
 *
 * Returns true if the caller holds the lock now, false if another thread holds it.
 */
bool holdup_fair_try_lock(struct holdup_fair_t *lock) HOLDUP_NOEXCEPT;

/**
 * Releases the `fair` lock. The thread that took it must call this; what it wrote is seen by the next that takes it.
 *
 * Never fails. A library with checks prints a message and aborts if the lock is free or another thread's.
 */
void holdup_fair_unlock(struct holdup_fair_t *lock) HOLDUP_NOEXCEPT;

/**
 * Returns true if some thread holds the `fair` lock: a moment's value, for assertions.
 */
bool holdup_fair_is_locked(const struct holdup_fair_t *lock) HOLDUP_NOEXCEPT;

/**
 * Makes a free `eventfd` lock of `lock`, whatever the memory held before. Never fails; a few stores.
 *
 * The same as assigning HOLDUP_EVENTFD_INIT. A lock that is in use must be destroyed first.
 */
void holdup_eventfd_init(struct holdup_eventfd_t *lock) HOLDUP_NOEXCEPT;

/**
 * Ends a free `eventfd` lock and gives back what it took from the system.
 *
 * Wait until every other thread's last holdup_eventfd_unlock has returned: an unlock may touch the lock after another
 * thread has it.
 * A library with checks prints a message and aborts if the lock is held.
 */
void holdup_eventfd_destroy(struct holdup_eventfd_t *lock) HOLDUP_NOEXCEPT;

/**
 * Takes the `eventfd` lock; waits while another thread holds it. Never fails.
 *
 * It is not recursive: a thread that holds it already waits for ever; a library with checks prints a message and
 * aborts.
 */
void holdup_eventfd_lock(struct holdup_eventfd_t *lock) HOLDUP_NOEXCEPT;

/**
 * Takes the `eventfd` lock if that is possible at once; never waits.
 *
 * Returns true if the caller holds the lock now, false if another thread holds it.
 */
bool holdup_eventfd_try_lock(struct holdup_eventfd_t *lock) HOLDUP_NOEXCEPT;

/**
 * Takes the `eventfd` lock if that is possible within `timeout_ns` nanoseconds (CLOCK_MONOTONIC).
 *
 * Returns true if the caller holds the lock now, false if the time has run out, and never before it has. 0 is a try;
 * UINT64_MAX
 * (584 years) waits without end. While the lock is free it costs as much as holdup_eventfd_lock.
 */
bool holdup_eventfd_try_lock_for_ns(struct holdup_eventfd_t *lock, uint64_t timeout_ns) HOLDUP_NOEXCEPT;

/**
 * Releases the `eventfd` lock. The thread that took it must call this; what it wrote is seen by the next that takes
 * it.
 *
 * Never fails. A library with checks prints a message and aborts if the lock is free or another thread's.
 */
void holdup_eventfd_unlock(struct holdup_eventfd_t *lock) HOLDUP_NOEXCEPT;

/**
 * Returns true if some thread holds the `eventfd` lock: a moment's value, for assertions.
 */
bool holdup_eventfd_is_locked(const struct holdup_eventfd_t *lock) HOLDUP_NOEXCEPT;

/**
 * Makes the kernel object of the `eventfd` lock now; without this call the first use makes it.
 *
 * Returns 0, or the error number (errno.h) of the system call that failed. The lock works all the same: it is a futex
 * then.
 */
int holdup_eventfd_create(struct holdup_eventfd_t *lock) HOLDUP_NOEXCEPT;

/**
 * Makes a free `eventfd-sem` lock of `lock`, whatever the memory held before. Never fails; a few stores.
 *
 * The same as assigning HOLDUP_EVENTFD_SEM_INIT. A lock that is in use must be destroyed first.
 */
void holdup_eventfd_sem_init(struct holdup_eventfd_sem_t *lock) HOLDUP_NOEXCEPT;

/**
 * Ends a free `eventfd-sem` lock and gives back what it took from the system.
 *
 * Wait until every other thread's last holdup_eventfd_sem_unlock has returned: an unlock may touch the lock after
 * another thread has it.
 * A library with checks prints a message and aborts if the lock is held.
 */
void holdup_eventfd_sem_destroy(struct holdup_eventfd_sem_t *lock) HOLDUP_NOEXCEPT;

/**
 * Takes the `eventfd-sem` lock; waits while another thread holds it. Never fails.
 *
 * It is not recursive: a thread that holds it already waits for ever; a library with checks prints a message and
 * aborts.
 */
void holdup_eventfd_sem_lock(struct holdup_eventfd_sem_t *lock) HOLDUP_NOEXCEPT;

/**
 * Takes the `eventfd-sem` lock if that is possible at once; never waits.
 *
 * Returns true if the caller holds the lock now, false if another thread holds it.
 */
bool holdup_eventfd_sem_try_lock(struct holdup_eventfd_sem_t *lock) HOLDUP_NOEXCEPT;

/**
 * Takes the `eventfd-sem` lock if that is possible within `timeout_ns` nanoseconds (CLOCK_MONOTONIC).
 *
 * Returns true if the caller holds the lock now, false if the time has run out, and never before it has. 0 is a try;
 * UINT64_MAX
 * (584 years) waits without end. While the lock is free it costs as much as holdup_eventfd_sem_lock.
 */
bool holdup_eventfd_sem_try_lock_for_ns(struct holdup_eventfd_sem_t *lock, uint64_t timeout_ns) HOLDUP_NOEXCEPT;

/**
 * Releases the `eventfd-sem` lock. The thread that took it must call this; what it wrote is seen by the next that
 * takes it.
 *
 * Never fails. A library with checks prints a message and aborts if the lock is free or another thread's.
 */
void holdup_eventfd_sem_unlock(struct holdup_eventfd_sem_t *lock) HOLDUP_NOEXCEPT;

/**
 * Returns true if some thread holds the `eventfd-sem` lock: a moment's value, for assertions.
 */
bool holdup_eventfd_sem_is_locked(const struct holdup_eventfd_sem_t *lock) HOLDUP_NOEXCEPT;

/**
 * Makes the kernel object of the `eventfd-sem` lock now; without this call the first use makes it.
 *
 * Returns 0, or the error number (errno.h) of the system call that failed. The lock works all the same: it is a futex
 * then.
 */
int holdup_eventfd_sem_create(struct holdup_eventfd_sem_t *lock) HOLDUP_NOEXCEPT;

/**
 * Makes a free `sysv-sem` lock of `lock`, whatever the memory held before. Never fails; a few stores.
 *
 * The same as assigning HOLDUP_SYSV_SEM_INIT. A lock that is in use must be destroyed first.
 */
void holdup_sysv_sem_init(struct holdup_sysv_sem_t *lock) HOLDUP_NOEXCEPT;

/**
 * Ends a free `sysv-sem` lock and gives back what it took from the system.
 *
 * Wait until every other thread's last holdup_sysv_sem_unlock has returned: an unlock may touch the lock after another
 * thread has it.
 * A library with checks prints a message and aborts if the lock is held.
 */
void holdup_sysv_sem_destroy(struct holdup_sysv_sem_t *lock) HOLDUP_NOEXCEPT;

/**
 * Takes the `sysv-sem` lock; waits while another thread holds it. Never fails.
 *
 * It is not recursive: a thread that holds it already waits for ever; a library with checks prints a message and
 * aborts.
 */
void holdup_sysv_sem_lock(struct holdup_sysv_sem_t *lock) HOLDUP_NOEXCEPT;

/**
 * Takes the `sysv-sem` lock if that is possible at once; never waits.
 *
 * Returns true if the caller holds the lock now, false if another thread holds it.
 */
bool holdup_sysv_sem_try_lock(struct holdup_sysv_sem_t *lock) HOLDUP_NOEXCEPT;

/**
 * Takes the `sysv-sem` lock if that is possible within `timeout_ns` nanoseconds (CLOCK_MONOTONIC).
 *
 * Returns true if the caller holds the lock now, false if the time has run out, and never before it has. 0 is a try;
 * UINT64_MAX
 * (584 years) waits without end. While the lock is free it costs as much as holdup_sysv_sem_lock.
 */
bool holdup_sysv_sem_try_lock_for_ns(struct holdup_sysv_sem_t *lock, uint64_t timeout_ns) HOLDUP_NOEXCEPT;

/**
 * Releases the `sysv-sem` lock. The thread that took it must call this; what it wrote is seen by the next that takes
 * it.
 *
 * Never fails. A library with checks prints a message and aborts if the lock is free or another thread's.
 */
void holdup_sysv_sem_unlock(struct holdup_sysv_sem_t *lock) HOLDUP_NOEXCEPT;

/**
 * Returns true if some thread holds the `sysv-sem` lock: a moment's value, for assertions.
 */
bool holdup_sysv_sem_is_locked(const struct holdup_sysv_sem_t *lock) HOLDUP_NOEXCEPT;

/**
 * Makes the kernel object of the `sysv-sem` lock now; without this call the first use makes it.
 *
 * Returns 0, or the error number (errno.h) of the system call that failed. The lock works all the same: it is a futex
 * then.
 */
int holdup_sysv_sem_create(struct holdup_sysv_sem_t *lock) HOLDUP_NOEXCEPT;

/**
 * Makes a free `futex-pi` lock of `lock`, whatever the memory held before. Never fails; a few stores.
 *
 * The same as assigning HOLDUP_FUTEX_PI_INIT. A lock that is in use must be destroyed first.
 */
void holdup_futex_pi_init(struct holdup_futex_pi_t *lock) HOLDUP_NOEXCEPT;

/**
 * Ends a free `futex-pi` lock and gives back what it took from the system.
 *
 * Wait until every other thread's last holdup_futex_pi_unlock has returned: an unlock may touch the lock after another
 * thread has it.
 * A library with checks prints a message and aborts if the lock is held.
 */
void holdup_futex_pi_destroy(struct holdup_futex_pi_t *lock) HOLDUP_NOEXCEPT;

/**
 * Takes the `futex-pi` lock; waits while another thread holds it. Never fails.
 *
 * It is not recursive: a thread that holds it already waits for ever; a library with checks prints a message and
 * aborts.
 */
void holdup_futex_pi_lock(struct holdup_futex_pi_t *lock) HOLDUP_NOEXCEPT;

/**
 * Takes the `futex-pi` lock if that is possible at once; never waits.
 *
 * Returns true if the caller holds the lock now, false if another thread holds it.
 */
bool holdup_futex_pi_try_lock(struct holdup_futex_pi_t *lock) HOLDUP_NOEXCEPT;

/**
 * Takes the `futex-pi` lock if that is possible within `timeout_ns` nanoseconds (CLOCK_MONOTONIC).
 *
 * Returns true if the caller holds the lock now, false if the time has run out, and never before it has. 0 is a try;
 * UINT64_MAX
 * (584 years) waits without end. While the lock is free it costs as much as holdup_futex_pi_lock.
 */
bool holdup_futex_pi_try_lock_for_ns(struct holdup_futex_pi_t *lock, uint64_t timeout_ns) HOLDUP_NOEXCEPT;

/**
 * Releases the `futex-pi` lock. The thread that took it must call this; what it wrote is seen by the next that takes
 * it.
 *
 * Never fails. A library with checks prints a message and aborts if the lock is free or another thread's.
 */
void holdup_futex_pi_unlock(struct holdup_futex_pi_t *lock) HOLDUP_NOEXCEPT;

/**
 * Returns true if some thread holds the `futex-pi` lock: a moment's value, for assertions.
 */
bool holdup_futex_pi_is_locked(const struct holdup_futex_pi_t *lock) HOLDUP_NOEXCEPT;

/**
 * Makes the kernel object of the `futex-pi` lock now; without this call the first use makes it.
 *
 * Returns 0, or the error number (errno.h) of the system call that failed. The lock works all the same: it is a futex
 * then.
 */
int holdup_futex_pi_create(struct holdup_futex_pi_t *lock) HOLDUP_NOEXCEPT;

/**
 * Makes a free `pipe` lock of `lock`, whatever the memory held before. Never fails; a few stores.
 *
 * The same as assigning HOLDUP_PIPE_INIT. A lock that is in use must be destroyed first.
 */
void holdup_pipe_init(struct holdup_pipe_t *lock) HOLDUP_NOEXCEPT;

/**
 * Ends a free `pipe` lock and gives back what it took from the system.
 *
 * Wait until every other thread's last holdup_pipe_unlock has returned: an unlock may touch the lock after another
 * thread has it.
 * A library with checks prints a message and aborts if the lock is held.
 */
void holdup_pipe_destroy(struct holdup_pipe_t *lock) HOLDUP_NOEXCEPT;

/**
 * Takes the `pipe` lock; waits while another thread holds it. Never fails.
 *
 * It is not recursive: a thread that holds it already waits for ever; a library with checks prints a message and
 * aborts.
 */
void holdup_pipe_lock(struct holdup_pipe_t *lock) HOLDUP_NOEXCEPT;

/**
 * Takes the `pipe` lock if that is possible at once; never waits.
 *
 * Returns true if the caller holds the lock now, false if another thread holds it.
 */
bool holdup_pipe_try_lock(struct holdup_pipe_t *lock) HOLDUP_NOEXCEPT;

/**
 * Takes the `pipe` lock if that is possible within `timeout_ns` nanoseconds (CLOCK_MONOTONIC).
 *
 * Returns true if the caller holds the lock now, false if the time has run out, and never before it has. 0 is a try;
 * UINT64_MAX
 * (584 years) waits without end. While the lock is free it costs as much as holdup_pipe_lock.
 */
bool holdup_pipe_try_lock_for_ns(struct holdup_pipe_t *lock, uint64_t timeout_ns) HOLDUP_NOEXCEPT;

/**
 * Releases the `pipe` lock. The thread that took it must call this; what it wrote is seen by the next that takes it.
 *
 * Never fails. A library with checks prints a message and aborts if the lock is free or another thread's.
 */
void holdup_pipe_unlock(struct holdup_pipe_t *lock) HOLDUP_NOEXCEPT;

/**
 * Returns true if some thread holds the `pipe` lock: a moment's value, for assertions.
 */
bool holdup_pipe_is_locked(const struct holdup_pipe_t *lock) HOLDUP_NOEXCEPT;

/**
 * Makes the kernel object of the `pipe` lock now; without this call the first use makes it.
 *
 * Returns 0, or the error number (errno.h) of the system call that failed. The lock works all the same: it is a futex
 * then.
 */
int holdup_pipe_create(struct holdup_pipe_t *lock) HOLDUP_NOEXCEPT;

/**
 * Makes a free `rw-adaptive` lock of `lock`, whatever the memory held before. Never fails; a few stores.
 *
 * The same as assigning HOLDUP_RW_ADAPTIVE_INIT. A lock that is in use must be destroyed first.
 */
void holdup_rw_adaptive_init(struct holdup_rw_adaptive_t *lock) HOLDUP_NOEXCEPT;

/**
 * Ends a free `rw-adaptive` lock.
 *
 * Wait until every other thread's last unlock has returned: an unlock may touch the lock after another thread has it.
 * A library with checks prints a message and aborts if the lock is held.
 */
void holdup_rw_adaptive_destroy(struct holdup_rw_adaptive_t *lock) HOLDUP_NOEXCEPT;

/**
 * Takes the `rw-adaptive` lock for writing; waits while others write or read. Never fails.
 *
 * It is not recursive, nor can a reader become a writer: a thread that holds it already waits for ever.
 */
void holdup_rw_adaptive_lock(struct holdup_rw_adaptive_t *lock) HOLDUP_NOEXCEPT;

/**
 * Takes the `rw-adaptive` lock for writing if that is possible at once; never waits.
 *
 * Returns true if the caller holds the lock now.
 */
bool holdup_rw_adaptive_try_lock(struct holdup_rw_adaptive_t *lock) HOLDUP_NOEXCEPT;

/**
 * Takes the `rw-adaptive` lock for writing if that is possible within `timeout_ns` nanoseconds (CLOCK_MONOTONIC).
 *
 * Returns true if the caller holds the lock now, false if the time has run out, and never before it has. 0 is a try;
 * UINT64_MAX
 * (584 years) waits without end.
 */
bool holdup_rw_adaptive_try_lock_for_ns(struct holdup_rw_adaptive_t *lock, uint64_t timeout_ns) HOLDUP_NOEXCEPT;

/**
 * Releases the `rw-adaptive` lock that the calling thread has for writing; what it wrote is seen by the next that
 * takes it.
 *
 * Never fails. A library with checks prints a message and aborts if the lock is free or another thread's.
 */
void holdup_rw_adaptive_unlock(struct holdup_rw_adaptive_t *lock) HOLDUP_NOEXCEPT;

/**
 * Takes the `rw-adaptive` lock for reading, beside other readers; waits while a writer has it or waits for it. Never
 * fails.
 *
 * A thread that reads already must not take it again: a writer may have come in between, and both wait for ever.
 */
void holdup_rw_adaptive_lock_shared(struct holdup_rw_adaptive_t *lock) HOLDUP_NOEXCEPT;

/**
 * Takes the `rw-adaptive` lock for reading if that is possible at once; never waits.
 *
 * Returns true if the caller holds the lock now.
 */
bool holdup_rw_adaptive_try_lock_shared(struct holdup_rw_adaptive_t *lock) HOLDUP_NOEXCEPT;

/**
 * Takes the `rw-adaptive` lock for reading if that is possible within `timeout_ns` nanoseconds, as
 * holdup_rw_adaptive_try_lock_for_ns.
 */
bool holdup_rw_adaptive_try_lock_shared_for_ns(struct holdup_rw_adaptive_t *lock, uint64_t timeout_ns) HOLDUP_NOEXCEPT;

/**
 * Releases the `rw-adaptive` lock that the calling thread has for reading.
 *
 * Never fails. A library with checks prints a message and aborts if no reader has the lock.
 */
void holdup_rw_adaptive_unlock_shared(struct holdup_rw_adaptive_t *lock) HOLDUP_NOEXCEPT;

/**
 * Returns true if some thread holds the `rw-adaptive` lock, for reading or writing: a moment's value, for assertions.
 */
bool holdup_rw_adaptive_is_locked(const struct holdup_rw_adaptive_t *lock) HOLDUP_NOEXCEPT;

/**
 * Makes a free `rw-sharded` lock of `lock`, whatever the memory held before. Never fails; a few stores.
 *
 * The same as assigning HOLDUP_RW_SHARDED_INIT. A lock that is in use must be destroyed first.
 */
void holdup_rw_sharded_init(struct holdup_rw_sharded_t *lock) HOLDUP_NOEXCEPT;

/**
 * Ends a free `rw-sharded` lock.
 *
 * Wait until every other thread's last unlock has returned: an unlock may touch the lock after another thread has it.
 * A library with checks prints a message and aborts if the lock is held.
 */
void holdup_rw_sharded_destroy(struct holdup_rw_sharded_t *lock) HOLDUP_NOEXCEPT;

/**
 * Takes the `rw-sharded` lock for writing; waits while others write or read. Never fails.
 *
 * It is not recursive, nor can a reader become a writer: a thread that holds it already waits for ever.
 */
void holdup_rw_sharded_lock(struct holdup_rw_sharded_t *lock) HOLDUP_NOEXCEPT;

/**
 * Takes the `rw-sharded` lock for writing if that is possible at once; never waits.
 *
 * Returns true if the caller holds the lock now.
 */
bool holdup_rw_sharded_try_lock(struct holdup_rw_sharded_t *lock) HOLDUP_NOEXCEPT;

/**
 * Takes the `rw-sharded` lock for writing if that is possible within `timeout_ns` nanoseconds (CLOCK_MONOTONIC).
 *
 * Returns true if the caller holds the lock now, false if the time has run out, and never before it has. 0 is a try;
 * UINT64_MAX
 * (584 years) waits without end.
 */
bool holdup_rw_sharded_try_lock_for_ns(struct holdup_rw_sharded_t *lock, uint64_t timeout_ns) HOLDUP_NOEXCEPT;

/**
 * Releases the `rw-sharded` lock that the calling thread has for writing; what it wrote is seen by the next that takes
 * it.
 *
 * Never fails. A library with checks prints a message and aborts if the lock is free or another thread's.
 */
void holdup_rw_sharded_unlock(struct holdup_rw_sharded_t *lock) HOLDUP_NOEXCEPT;

/**
 * Takes the `rw-sharded` lock for reading, beside other readers; waits while a writer has it or waits for it. Never
 * fails.
 *
 * A thread that reads already must not take it again: a writer may have come in between, and both wait for ever.
 */
void holdup_rw_sharded_lock_shared(struct holdup_rw_sharded_t *lock) HOLDUP_NOEXCEPT;

/**
 * Takes the `rw-sharded` lock for reading if that is possible at once; never waits.
 *
 * Returns true if the caller holds the lock now.
 */
bool holdup_rw_sharded_try_lock_shared(struct holdup_rw_sharded_t *lock) HOLDUP_NOEXCEPT;

/**
 * Takes the `rw-sharded` lock for reading if that is possible within `timeout_ns` nanoseconds, as
 * holdup_rw_sharded_try_lock_for_ns.
 */
bool holdup_rw_sharded_try_lock_shared_for_ns(struct holdup_rw_sharded_t *lock, uint64_t timeout_ns) HOLDUP_NOEXCEPT;

/**
 * Releases the `rw-sharded` lock that the calling thread has for reading.
 *
 * Never fails. A library with checks prints a message and aborts if no reader has the lock.
 */
void holdup_rw_sharded_unlock_shared(struct holdup_rw_sharded_t *lock) HOLDUP_NOEXCEPT;

/**
 * Returns true if some thread holds the `rw-sharded` lock, for reading or writing: a moment's value, for assertions.
 */
bool holdup_rw_sharded_is_locked(const struct holdup_rw_sharded_t *lock) HOLDUP_NOEXCEPT;

/**
 * Makes a table of `locks` free locks; 256 is a good number.
 *
 * Returns NULL if `locks` is 0 or above 1048576, or there is no memory. holdup_table_destroy ends it.
 */
struct holdup_table_t *holdup_table_create(size_t locks) HOLDUP_NOEXCEPT;

/**
 * Ends a table whose locks are free, and frees its memory; NULL does nothing.
 *
 * Wait until every other thread's last unlock has returned. A library with checks prints a message and aborts if a
 * lock is held.
 */
void holdup_table_destroy(struct holdup_table_t *table) HOLDUP_NOEXCEPT;

/**
 * Returns how many locks the table has.
 */
size_t holdup_table_locks(const struct holdup_table_t *table) HOLDUP_NOEXCEPT;

/**
 * Returns the key of an object: its address. The same object meets the same lock while it does not move.
 */
uint64_t holdup_key_of(const void *object) HOLDUP_NOEXCEPT;

/**
 * Returns the key of `size` bytes, such as a name: a hash of them, the same in every run. Cost: about 2 ns and 1 ns
 * per 8 bytes.
 *
 * Not for keys that an attacker chooses to collide.
 */
uint64_t holdup_key_of_bytes(const void *bytes, size_t size) HOLDUP_NOEXCEPT;

/**
 * Returns which lock a key meets, from 0 to holdup_table_locks - 1: to see whether two keys share one. About 3 ns.
 */
size_t holdup_table_slot(const struct holdup_table_t *table, uint64_t key) HOLDUP_NOEXCEPT;

/**
 * Returns where a lock of the table is, by its number from holdup_table_slot: for tools, such as ThreadSanitizer's
 * annotations.
 *
 * The lock may be used as a holdup_adaptive_t there, but not destroyed.
 */
void *holdup_table_address(const struct holdup_table_t *table, size_t slot) HOLDUP_NOEXCEPT;

/**
 * Waits for the key's lock. Never fails. Cost: that of holdup_adaptive_lock.
 *
 * A thread that holds this lock already, by this key or another that shares it, waits for ever; a library with checks
 * prints a message and aborts.
 */
void holdup_table_lock(struct holdup_table_t *table, uint64_t key) HOLDUP_NOEXCEPT;

/**
 * Takes the key's lock if it is free; never waits. Returns true if the caller holds it now.
 */
bool holdup_table_try_lock(struct holdup_table_t *table, uint64_t key) HOLDUP_NOEXCEPT;

/**
 * Takes the key's lock if that is possible within `timeout_ns` nanoseconds (CLOCK_MONOTONIC).
 *
 * Returns true if the caller holds it now, false if the time has run out.
 */
bool holdup_table_try_lock_for_ns(struct holdup_table_t *table, uint64_t key, uint64_t timeout_ns) HOLDUP_NOEXCEPT;

/**
 * Releases the key's lock, which the calling thread holds.
 */
void holdup_table_unlock(struct holdup_table_t *table, uint64_t key) HOLDUP_NOEXCEPT;

/**
 * Waits for the locks of `count` keys, each lock once, in an order that cannot deadlock with other such calls.
 *
 * `slots` is room for `count` numbers; the numbers of the locks taken are written there. Returns how many those are:
 * `count` less the keys that share a lock. Give both to holdup_table_unlock_many. It allocates nothing; cost: the
 * locks, and a sort.
 */
size_t holdup_table_lock_many(struct holdup_table_t *table, const uint64_t *keys, size_t count, size_t *slots) HOLDUP_NOEXCEPT;

/**
 * Releases the locks that holdup_table_lock_many took: the `count` that it returned, and the numbers that it wrote.
 */
void holdup_table_unlock_many(struct holdup_table_t *table, const size_t *slots, size_t count) HOLDUP_NOEXCEPT;

/**
 * Waits for all locks: for work that concerns every object, such as saving them. Cost: that of as many locks.
 */
void holdup_table_lock_all(struct holdup_table_t *table) HOLDUP_NOEXCEPT;

/**
 * Releases all locks, which the calling thread holds.
 */
void holdup_table_unlock_all(struct holdup_table_t *table) HOLDUP_NOEXCEPT;

/**
 * Makes an open gate of `gate` for `limit` threads; 0 is taken as 1. Never fails; a few stores.
 */
void holdup_gate_init(struct holdup_gate_t *gate, uint32_t limit) HOLDUP_NOEXCEPT;

/**
 * Waits for a place inside. Never fails. A thread that enters twice takes two places and can wait for itself.
 *
 * Cost: an atomic add and a load while there is a place, a sleep in the kernel while there is none.
 */
void holdup_gate_enter(struct holdup_gate_t *gate) HOLDUP_NOEXCEPT;

/**
 * Takes a place if one is free and nobody waits for it; never waits itself.
 *
 * Returns true if the caller is inside now.
 */
bool holdup_gate_try_enter(struct holdup_gate_t *gate) HOLDUP_NOEXCEPT;

/**
 * Gives the caller's place back, to the thread that has waited longest if any does. Never fails.
 *
 * Cost: an atomic add and a load, and a system call if somebody waits. What the caller wrote is seen by those who come
 * in later. A library with checks prints a message and aborts if nobody is inside.
 */
void holdup_gate_leave(struct holdup_gate_t *gate) HOLDUP_NOEXCEPT;

/**
 * Changes how many threads may be inside, at once; 0 is taken as 1. Lowered, it sends nobody out.
 */
void holdup_gate_set_limit(struct holdup_gate_t *gate, uint32_t limit) HOLDUP_NOEXCEPT;

/**
 * Returns how many threads may be inside.
 */
uint32_t holdup_gate_limit(const struct holdup_gate_t *gate) HOLDUP_NOEXCEPT;

/**
 * Returns how many threads are inside or wait: a moment's value.
 */
uint64_t holdup_gate_present(const struct holdup_gate_t *gate) HOLDUP_NOEXCEPT;

/**
 * Adds `amount`, which may be negative; wraps on overflow. Never waits and never fails.
 *
 * Cost: one atomic add on a cache line that other threads seldom touch, about 5 ns.
 */
void holdup_counter_add(struct holdup_counter_t *counter, int64_t amount) HOLDUP_NOEXCEPT;

/**
 * Returns the sum of what was added: exact once those who add have been joined, a recent value while they run.
 *
 * Cost: reads all 64 cells, a microsecond or so.
 */
int64_t holdup_counter_sum(const struct holdup_counter_t *counter) HOLDUP_NOEXCEPT;

/**
 * Sets the counter to zero and returns what it held; an addition that happens meanwhile is counted once, here or
 * later.
 */
int64_t holdup_counter_take(struct holdup_counter_t *counter) HOLDUP_NOEXCEPT;

/**
 * Prepares claims of `chunk` indices each on `begin` to `end - 1`; the last is shorter. 0 is taken as 1, a reversed
 * range is empty.
 *
 * Choose chunks that work for a microsecond at least.
 */
void holdup_chunks_init_fixed(struct holdup_chunks_t *chunks, uint64_t begin, uint64_t end, uint64_t chunk) HOLDUP_NOEXCEPT;

/**
 * Prepares claims on `begin` to `end - 1`, each a `threads`-th of what is left, at least `min_chunk`: large at first,
 * small at the end, so that threads finish together. 0 threads and a smallest chunk of 0 are taken as 1.
 */
void holdup_chunks_init_guided(struct holdup_chunks_t *chunks, uint64_t begin, uint64_t end, uint32_t threads, uint64_t min_chunk) HOLDUP_NOEXCEPT;

/**
 * Claims the next chunk: the indices from `*begin` to `*end - 1` are the caller's alone.
 *
 * Returns false, and writes nothing, when every index is claimed. Never waits. Cost: one atomic add (fixed) or one
 * compare-exchange (guided) on a line that all threads share: 5 ns alone, 100 ns and more when another CPU had the
 * line.
 */
bool holdup_chunks_next(struct holdup_chunks_t *chunks, uint64_t *begin, uint64_t *end) HOLDUP_NOEXCEPT;

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

/* The sizes that the library was compiled with. C99 cannot compare them, C11 and C++ do. */
#if defined(__cplusplus)
#define HOLDUP_SIZE(type, bytes) static_assert(sizeof(type) == (bytes), #type " is not as the library has it")
#elif __STDC_VERSION__ >= 201112L
#define HOLDUP_SIZE(type, bytes) _Static_assert(sizeof(type) == (bytes), #type " is not as the library has it")
#else
#define HOLDUP_SIZE(type, bytes) struct holdup_size_is_compared_by_c11
#endif
HOLDUP_SIZE(holdup_adaptive_t, 16);
HOLDUP_SIZE(holdup_tas_t, 8);
HOLDUP_SIZE(holdup_ttas_t, 8);
HOLDUP_SIZE(holdup_ticket_t, 8);
HOLDUP_SIZE(holdup_ticket_spin_t, 8);
HOLDUP_SIZE(holdup_mcs_t, 24);
HOLDUP_SIZE(holdup_mcs_spin_t, 16);
HOLDUP_SIZE(holdup_clh_t, 16);
HOLDUP_SIZE(holdup_clh_spin_t, 16);
HOLDUP_SIZE(holdup_futex_t, 8);
HOLDUP_SIZE(holdup_fair_t, 16);
HOLDUP_SIZE(holdup_eventfd_t, 16);
HOLDUP_SIZE(holdup_eventfd_sem_t, 16);
HOLDUP_SIZE(holdup_sysv_sem_t, 24);
HOLDUP_SIZE(holdup_futex_pi_t, 16);
HOLDUP_SIZE(holdup_pipe_t, 16);
HOLDUP_SIZE(holdup_rw_adaptive_t, 24);
HOLDUP_SIZE(holdup_rw_sharded_t, 2176);
HOLDUP_SIZE(holdup_gate_t, 24);
HOLDUP_SIZE(holdup_counter_t, 8192);
HOLDUP_SIZE(holdup_chunks_t, 256);

#undef HOLDUP_SIZE

#if defined(HOLDUP_TSAN)
/* Tells ThreadSanitizer what the locks do, as it cannot see into the library. */
#include <holdup_tsan.h>
#endif

#endif /* HOLDUP_H */
