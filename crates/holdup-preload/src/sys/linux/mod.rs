//! A mutex operation, from the entry inwards: `fast` (uncontended, normal), `hooks` (everything else that the C library's
//! functions promise), `wait` and `gate` (how to wait), `record` and `sites` (what is known of a lock), `process` (settings,
//! figures, fork, start and end), `thread`, `real`, `kernel`.

mod cond;
mod fast;
mod gate;
mod hooks;
mod kernel;
mod modules;
mod mutex;
mod process;
mod real;
mod record;
mod sites;
mod thread;
mod wait;
