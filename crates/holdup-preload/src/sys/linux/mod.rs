//! A mutex operation, from the entry inwards: `fast` (uncontended, normal), `hooks` (everything else that the C
//! library's functions promise), `wait`, `capped` and `throttle` (how to wait). `cond` and `c11` are about the same
//! mutexes, `passed` about locks that are only counted. `record` and `sites` keep what is known of a lock, `process`
//! starts, forks and ends, with `files` and `probe`; at the bottom are `thread`, `real`, `kernel`, `clock` and
//! `modules`.

mod c11;
mod capped;
mod clock;
mod cond;
mod fast;
mod files;
mod hooks;
mod kernel;
mod modules;
mod mutex;
mod passed;
mod probe;
mod process;
mod real;
mod record;
mod sites;
mod thread;
mod throttle;
mod wait;
