//! The committed headers are what the sources say. `cargo xtask headers` writes them: this very test, told to write.

use std::fmt::Write as _;
use std::path::Path;

use cbindgen::{Builder, Config, Language};

/// A lock as build.rs has written it down.
struct Lock {
    id: &'static str,
    timed: bool,
    init: &'static str,
}

/// Tells the test to write what it would compare.
const WRITE: &str = "HOLDUP_WRITE_HEADERS";

#[test]
fn headers_are_those_of_the_sources() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("include");
    for (name, text) in [("holdup.h", c_header()), ("holdup_tsan.h", tsan_header())] {
        let path = folder.join(name);
        if std::env::var_os(WRITE).is_some() {
            std::fs::write(&path, &text).unwrap();
            continue;
        }
        let committed = std::fs::read_to_string(&path).unwrap_or_default();
        let differ = committed.lines().zip(text.lines()).position(|(old, new)| old != new);
        assert!(
            committed == text,
            "{} is stale from line {}: run 'cargo xtask headers' and commit what it writes",
            path.display(),
            differ.map_or(committed.lines().count().min(text.lines().count()), |line| line) + 1
        );
    }
}

#[test]
fn every_lock_of_the_registry_is_in_the_header() {
    let header = c_header();
    for lock in holdup_locks::LOCKS {
        let id = lock.name.replace('-', "_");
        assert!(header.contains(&format!("void holdup_{id}_lock(")), "{id} needs a row in build.rs");
        let timed = header.contains(&format!("bool holdup_{id}_try_lock_for_ns("));
        assert_eq!(timed, lock.timed, "{id}");
    }
    for lock in holdup_locks::RW_LOCKS {
        let id = lock.name.replace('-', "_");
        assert!(header.contains(&format!("void holdup_{id}_lock_shared(")), "{id} needs a row in build.rs");
    }
}

/// Every function and type has its words: a declaration without a comment before it is none of ours.
#[test]
fn everything_in_the_header_is_documented() {
    let header = c_header();
    let lines: Vec<&str> = header.lines().collect();
    let mut declared = 0;
    for (index, line) in lines.iter().enumerate() {
        if line.contains("(") && line.contains(" holdup_") && !line.starts_with([' ', '#']) {
            declared += 1;
            assert_eq!(lines[index - 1].trim(), "*/", "{line}");
        }
    }
    assert!(declared > 100, "the search misses the declarations: {declared}");
}

fn locks() -> Vec<Lock> {
    include_str!(concat!(env!("OUT_DIR"), "/locks.tsv"))
        .lines()
        .map(|line| {
            let mut fields = line.split('\t');
            let mut next = || fields.next().unwrap();
            let (id, timed, _, init) = (next(), next(), next(), next());
            Lock { id, timed: timed == "true", init }
        })
        .collect()
}

/// A reader-writer lock as build.rs has written it down.
struct RwLock {
    id: &'static str,
    bytes: &'static str,
    init: &'static str,
}

fn rw_locks() -> Vec<RwLock> {
    include_str!(concat!(env!("OUT_DIR"), "/rw_locks.tsv"))
        .lines()
        .map(|line| {
            let mut fields = line.split('\t');
            let mut next = || fields.next().unwrap();
            RwLock { id: next(), bytes: next(), init: next() }
        })
        .collect()
}

fn c_header() -> String {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let written = [concat!(env!("OUT_DIR"), "/locks.rs"), concat!(env!("OUT_DIR"), "/rw_locks.rs")];
    let mut builder = written.into_iter().fold(Builder::new().with_config(config()), Builder::with_src);
    for module in ["table", "gate", "counter", "chunks"] {
        builder = builder.with_src(sources.join(module).with_extension("rs"));
    }
    let mut text = Vec::new();
    builder.generate().unwrap().write(&mut text);
    String::from_utf8(text).unwrap()
}

fn config() -> Config {
    let mut config = Config {
        language: Language::C,
        cpp_compat: true,
        usize_is_size_t: true,
        no_includes: true,
        header: Some(OPENING.trim_start().to_owned()),
        after_includes: Some(preamble()),
        trailer: Some(trailer()),
        line_length: 170,
        ..Config::default()
    };
    config.layout.aligned_n = Some("HOLDUP_ALIGNED".to_owned());
    config.function.postfix = Some("HOLDUP_NOEXCEPT".to_owned());
    config
}

const OPENING: &str = r"
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
#define HOLDUP_H";

const TRAILER: &str = r"
#undef HOLDUP_SIZE

#if defined(HOLDUP_TSAN)
/* Tells ThreadSanitizer what the locks do, as it cannot see into the library. */
#include <holdup_tsan.h>
#endif

#endif /* HOLDUP_H */";

const SUPPORT: &str = r#"
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
"#;

fn preamble() -> String {
    let mut text = String::new();
    let _ = writeln!(text, "\n/** The version of this header and of the library that it came with. */");
    let _ = writeln!(text, "#define HOLDUP_LOCKS_VERSION \"{}\"", env!("CARGO_PKG_VERSION"));
    text.push_str(SUPPORT);
    let locks = locks().into_iter().map(|lock| (lock.id, lock.init));
    for (id, init) in locks.chain(rw_locks().into_iter().map(|lock| (lock.id, lock.init))) {
        let words: Vec<String> = init.split(',').map(|word| format!("UINT64_C({word})")).collect();
        let _ = writeln!(text, "\n/** The first value of a holdup_{id}_t: free. */");
        let _ = writeln!(text, "#define HOLDUP_{}_INIT {{{{{}}}}}", id.to_uppercase(), words.join(", "));
    }
    text.trim_end().to_owned()
}

const SIZES: &str = r#"
/* The sizes that the library was compiled with. C99 cannot compare them, C11 and C++ do. */
#if defined(__cplusplus)
#define HOLDUP_SIZE(type, bytes) static_assert(sizeof(type) == (bytes), #type " is not as the library has it")
#elif __STDC_VERSION__ >= 201112L
#define HOLDUP_SIZE(type, bytes) _Static_assert(sizeof(type) == (bytes), #type " is not as the library has it")
#else
#define HOLDUP_SIZE(type, bytes) struct holdup_size_is_compared_by_c11
#endif
"#;

fn trailer() -> String {
    let mut text = SIZES.trim_start().to_owned();
    for lock in locks() {
        let _ = writeln!(text, "HOLDUP_SIZE(holdup_{}_t, {});", lock.id, 8 * lock.init.split(',').count());
    }
    for lock in rw_locks() {
        let _ = writeln!(text, "HOLDUP_SIZE(holdup_{}_t, {});", lock.id, lock.bytes);
    }
    for (technique, bytes) in [("gate", 24), ("counter", 8192), ("chunks", 256)] {
        let _ = writeln!(text, "HOLDUP_SIZE(holdup_{technique}_t, {bytes});");
    }
    text + TRAILER.trim_end()
}

const TSAN_OPENING: &str = r#"/*
 * holdup_tsan.h: what ThreadSanitizer is told of holdup's locks. Included by holdup.h under -fsanitize=thread, never directly.
 *
 * Written by 'cargo xtask headers': do not edit.
 *
 * The library is not compiled with ThreadSanitizer, so it cannot see the atomics that order the sections. Each function is put
 * behind one that says so: a data race in your program is still found, the locks cause no false ones, and wrong use of a lock is
 * reported by ThreadSanitizer itself. A pointer to a function is one to the function that tells.
 */

#ifndef HOLDUP_TSAN_H
#define HOLDUP_TSAN_H

#include <sanitizer/tsan_interface.h>

#ifdef __cplusplus
extern "C" {
#endif

"#;

/// One lock's functions; `$ID` is its identifier.
const TSAN_LOCK: &str = r"
static inline void holdup_tsan_$ID_init(holdup_$ID_t *lock) HOLDUP_NOEXCEPT {
  holdup_$ID_init(lock);
  __tsan_mutex_create(lock, 0);
}

static inline void holdup_tsan_$ID_destroy(holdup_$ID_t *lock) HOLDUP_NOEXCEPT {
  __tsan_mutex_destroy(lock, 0);
  holdup_$ID_destroy(lock);
}

static inline void holdup_tsan_$ID_lock(holdup_$ID_t *lock) HOLDUP_NOEXCEPT {
  __tsan_mutex_pre_lock(lock, 0);
  holdup_$ID_lock(lock);
  __tsan_mutex_post_lock(lock, 0, 1);
}

static inline bool holdup_tsan_$ID_try_lock(holdup_$ID_t *lock) HOLDUP_NOEXCEPT {
  bool taken;
  __tsan_mutex_pre_lock(lock, __tsan_mutex_try_lock);
  taken = holdup_$ID_try_lock(lock);
  __tsan_mutex_post_lock(lock, taken ? __tsan_mutex_try_lock : __tsan_mutex_try_lock | __tsan_mutex_try_lock_failed, 1);
  return taken;
}

static inline void holdup_tsan_$ID_unlock(holdup_$ID_t *lock) HOLDUP_NOEXCEPT {
  __tsan_mutex_pre_unlock(lock, 0);
  holdup_$ID_unlock(lock);
  __tsan_mutex_post_unlock(lock, 0);
}

#define holdup_$ID_init holdup_tsan_$ID_init
#define holdup_$ID_destroy holdup_tsan_$ID_destroy
#define holdup_$ID_lock holdup_tsan_$ID_lock
#define holdup_$ID_try_lock holdup_tsan_$ID_try_lock
#define holdup_$ID_unlock holdup_tsan_$ID_unlock
";

const TSAN_TIMED: &str = r"
static inline bool holdup_tsan_$ID_try_lock_for_ns(holdup_$ID_t *lock, uint64_t timeout_ns) HOLDUP_NOEXCEPT {
  bool taken;
  __tsan_mutex_pre_lock(lock, __tsan_mutex_try_lock);
  taken = holdup_$ID_try_lock_for_ns(lock, timeout_ns);
  __tsan_mutex_post_lock(lock, taken ? __tsan_mutex_try_lock : __tsan_mutex_try_lock | __tsan_mutex_try_lock_failed, 1);
  return taken;
}

#define holdup_$ID_try_lock_for_ns holdup_tsan_$ID_try_lock_for_ns
";

/// What a reader-writer lock has beyond `TSAN_LOCK` and `TSAN_TIMED`.
const TSAN_SHARED: &str = r"
static inline void holdup_tsan_$ID_lock_shared(holdup_$ID_t *lock) HOLDUP_NOEXCEPT {
  __tsan_mutex_pre_lock(lock, __tsan_mutex_read_lock);
  holdup_$ID_lock_shared(lock);
  __tsan_mutex_post_lock(lock, __tsan_mutex_read_lock, 1);
}

static inline bool holdup_tsan_$ID_try_lock_shared(holdup_$ID_t *lock) HOLDUP_NOEXCEPT {
  bool taken;
  __tsan_mutex_pre_lock(lock, __tsan_mutex_read_lock | __tsan_mutex_try_lock);
  taken = holdup_$ID_try_lock_shared(lock);
  __tsan_mutex_post_lock(lock, __tsan_mutex_read_lock | __tsan_mutex_try_lock | (taken ? 0 : __tsan_mutex_try_lock_failed), 1);
  return taken;
}

static inline bool holdup_tsan_$ID_try_lock_shared_for_ns(holdup_$ID_t *lock, uint64_t timeout_ns) HOLDUP_NOEXCEPT {
  bool taken;
  __tsan_mutex_pre_lock(lock, __tsan_mutex_read_lock | __tsan_mutex_try_lock);
  taken = holdup_$ID_try_lock_shared_for_ns(lock, timeout_ns);
  __tsan_mutex_post_lock(lock, __tsan_mutex_read_lock | __tsan_mutex_try_lock | (taken ? 0 : __tsan_mutex_try_lock_failed), 1);
  return taken;
}

static inline void holdup_tsan_$ID_unlock_shared(holdup_$ID_t *lock) HOLDUP_NOEXCEPT {
  __tsan_mutex_pre_unlock(lock, __tsan_mutex_read_lock);
  holdup_$ID_unlock_shared(lock);
  __tsan_mutex_post_unlock(lock, __tsan_mutex_read_lock);
}

#define holdup_$ID_lock_shared holdup_tsan_$ID_lock_shared
#define holdup_$ID_try_lock_shared holdup_tsan_$ID_try_lock_shared
#define holdup_$ID_try_lock_shared_for_ns holdup_tsan_$ID_try_lock_shared_for_ns
#define holdup_$ID_unlock_shared holdup_tsan_$ID_unlock_shared
";

/// A leaver's writes are seen by those who come in. That says a little too much (those who came in before it did not
/// see them): a race inside a gate for more than one can be missed, and none is invented.
const TSAN_GATE: &str = r"
static inline void holdup_tsan_gate_enter(holdup_gate_t *gate) HOLDUP_NOEXCEPT {
  holdup_gate_enter(gate);
  __tsan_acquire(gate);
}

static inline bool holdup_tsan_gate_try_enter(holdup_gate_t *gate) HOLDUP_NOEXCEPT {
  const bool inside = holdup_gate_try_enter(gate);
  if (inside) {
    __tsan_acquire(gate);
  }
  return inside;
}

static inline void holdup_tsan_gate_leave(holdup_gate_t *gate) HOLDUP_NOEXCEPT {
  __tsan_release(gate);
  holdup_gate_leave(gate);
}

#define holdup_gate_enter holdup_tsan_gate_enter
#define holdup_gate_try_enter holdup_tsan_gate_try_enter
#define holdup_gate_leave holdup_tsan_gate_leave
";

/// Each lock of a table by its own address. Acquire and release in place of a mutex: a table is more than one.
const TSAN_TABLE: &str = r"
static inline void holdup_tsan_table_lock(holdup_table_t *table, uint64_t key) HOLDUP_NOEXCEPT {
  holdup_table_lock(table, key);
  __tsan_acquire(holdup_table_address(table, holdup_table_slot(table, key)));
}

static inline bool holdup_tsan_table_try_lock(holdup_table_t *table, uint64_t key) HOLDUP_NOEXCEPT {
  const bool taken = holdup_table_try_lock(table, key);
  if (taken) {
    __tsan_acquire(holdup_table_address(table, holdup_table_slot(table, key)));
  }
  return taken;
}

static inline bool holdup_tsan_table_try_lock_for_ns(holdup_table_t *table, uint64_t key, uint64_t timeout_ns) HOLDUP_NOEXCEPT {
  const bool taken = holdup_table_try_lock_for_ns(table, key, timeout_ns);
  if (taken) {
    __tsan_acquire(holdup_table_address(table, holdup_table_slot(table, key)));
  }
  return taken;
}

static inline void holdup_tsan_table_unlock(holdup_table_t *table, uint64_t key) HOLDUP_NOEXCEPT {
  __tsan_release(holdup_table_address(table, holdup_table_slot(table, key)));
  holdup_table_unlock(table, key);
}

static inline size_t holdup_tsan_table_lock_many(holdup_table_t *table, const uint64_t *keys, size_t count,
                                                 size_t *slots) HOLDUP_NOEXCEPT {
  const size_t taken = holdup_table_lock_many(table, keys, count, slots);
  size_t i;
  for (i = 0; i < taken; i++) {
    __tsan_acquire(holdup_table_address(table, slots[i]));
  }
  return taken;
}

static inline void holdup_tsan_table_unlock_many(holdup_table_t *table, const size_t *slots, size_t count) HOLDUP_NOEXCEPT {
  size_t i;
  for (i = 0; i < count; i++) {
    __tsan_release(holdup_table_address(table, slots[i]));
  }
  holdup_table_unlock_many(table, slots, count);
}

static inline void holdup_tsan_table_lock_all(holdup_table_t *table) HOLDUP_NOEXCEPT {
  size_t i;
  holdup_table_lock_all(table);
  for (i = 0; i < holdup_table_locks(table); i++) {
    __tsan_acquire(holdup_table_address(table, i));
  }
}

static inline void holdup_tsan_table_unlock_all(holdup_table_t *table) HOLDUP_NOEXCEPT {
  size_t i;
  for (i = 0; i < holdup_table_locks(table); i++) {
    __tsan_release(holdup_table_address(table, i));
  }
  holdup_table_unlock_all(table);
}

#define holdup_table_lock holdup_tsan_table_lock
#define holdup_table_try_lock holdup_tsan_table_try_lock
#define holdup_table_try_lock_for_ns holdup_tsan_table_try_lock_for_ns
#define holdup_table_unlock holdup_tsan_table_unlock
#define holdup_table_lock_many holdup_tsan_table_lock_many
#define holdup_table_unlock_many holdup_tsan_table_unlock_many
#define holdup_table_lock_all holdup_tsan_table_lock_all
#define holdup_table_unlock_all holdup_tsan_table_unlock_all
";

const TSAN_CLOSING: &str = r"
#ifdef __cplusplus
}
#endif

#endif /* HOLDUP_TSAN_H */
";

fn tsan_header() -> String {
    let mut text = TSAN_OPENING.trim_end().to_owned() + "\n";
    for lock in locks() {
        text.push_str(&TSAN_LOCK.replace("$ID", lock.id));
        if lock.timed {
            text.push_str(&TSAN_TIMED.replace("$ID", lock.id));
        }
    }
    for lock in rw_locks() {
        for functions in [TSAN_LOCK, TSAN_TIMED, TSAN_SHARED] {
            text.push_str(&functions.replace("$ID", lock.id));
        }
    }
    text + TSAN_GATE + TSAN_TABLE + TSAN_CLOSING
}
