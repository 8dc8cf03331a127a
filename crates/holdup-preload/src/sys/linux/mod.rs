//! A mutex operation, from the entry inwards: `fast` (uncontended, normal), `hooks` (everything else that the C
//! library's functions promise), `policy` (which way to wait), `wait`, `capped` and `throttle` (how). `cond` and `c11`
//! are about the same mutexes, `openmp` (with `beside`), `semaphore` and `rwlock` (with `read_write`) about locks of
//! other makes that are served, `passed` and `counted` about what locks have in common that the real functions serve.
//! `start` begins to serve, forks and ends, with `files`, `probe` and `strict`; `record` and `sites` keep what is known
//! of a lock, `process` what the process was told; at the bottom are `thread`, `real`, `kernel`, `clock` and `modules`.

mod beside;
mod c11;
mod capped;
mod clock;
mod cond;
mod counted;
mod fast;
mod files;
mod hooks;
mod kernel;
mod modules;
mod mutex;
mod openmp;
mod passed;
mod policy;
mod probe;
mod process;
mod read_write;
mod real;
mod record;
mod rwlock;
mod semaphore;
mod sites;
mod start;
mod strict;
mod thread;
mod throttle;
mod wait;
