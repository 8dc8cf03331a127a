//! A mutex operation, from the entry inwards: `fast` (uncontended, normal), `hooks` (everything else that the C library's
//! functions promise), `wait` and `gate` (how to wait), `cond` and `c11` (the same mutexes by other names), `passed` (locks that are only counted),
//! `record` and `sites` (what is known of a lock), `process` (settings,
//! figures, fork, start and end), `thread`, `real`, `kernel`, `clock`.

mod c11;
mod clock;
mod cond;
mod fast;
mod gate;
mod hooks;
mod kernel;
mod modules;
mod mutex;
mod passed;
mod process;
mod real;
mod record;
mod sites;
mod thread;
mod wait;
