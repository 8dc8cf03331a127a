//! What of a program's locking the interposer can serve.

use holdup_control::{Fallback, STATE_LAYOUT, STATE_MEMORY, STATE_RIVAL, STATE_SERVES, STATE_UNCOUNTED};
use schemars::JsonSchema;
use serde::Serialize;

use super::run::Sample;
use crate::interposer::Process;

/// Counts of one run with locks that do as glibc's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Coverage {
    /// Processes that loaded the interposer.
    pub processes: usize,
    /// Those of them that it serves.
    pub served: usize,
    /// Whether the C library's mutexes were not as expected.
    pub strange_layout: bool,
    /// Whether another interposer (a sanitizer, say) was there before.
    pub rival: bool,
    /// Whether its own limits (ulimit) leave no room for figures.
    pub limited: bool,
    /// Whether those were only programs that have others run in another root, where the library cannot be read.
    pub elsewhere: bool,
    /// Acquisitions of mutexes that it serves.
    pub acquisitions: u64,
    /// Those that did not succeed at the first try.
    pub contended: u64,
    /// Waits for them that slept.
    pub futex_waits: u64,
    /// Acquisitions of mutexes that are left to glibc: shared, robust, with priorities.
    pub left_to_glibc: u64,
    /// Acquisitions of reader-writer locks, which glibc serves under every policy.
    pub reader_writer: u64,
    /// All switches of the run because a thread waited.
    pub voluntary_switches: u64,
    /// Waits of all kinds on futexes that a recording saw in another run; `None` if none was made.
    pub futex_waits_recorded: Option<u64>,
}

impl Coverage {
    /// Of this run.
    pub fn of(sample: &Sample) -> Coverage {
        let mut coverage = Coverage { voluntary_switches: sample.voluntary_switches, ..Coverage::default() };
        coverage.elsewhere = !sample.processes.is_empty() && sample.processes.iter().all(Process::leaves_root);
        for process in &sample.processes {
            coverage.processes += 1;
            coverage.served += usize::from(process.state == STATE_SERVES);
            coverage.strange_layout |= process.state == STATE_LAYOUT;
            coverage.rival |= process.state == STATE_RIVAL;
            coverage.limited |= [STATE_UNCOUNTED, STATE_MEMORY].contains(&process.state);
            coverage.acquisitions += process.acquisitions;
            coverage.contended += process.contended;
            coverage.futex_waits += process.futex_waits;
            // The last two places are locks that are only profiled.
            coverage.reader_writer += process.fallbacks[Fallback::ReadWrite as usize];
            coverage.left_to_glibc += process.fallbacks[..6].iter().sum::<u64>();
        }
        coverage
    }

    /// Why no lock policy can be tried, if so.
    pub fn refusal(&self) -> Option<String> {
        self.unreached().or_else(|| match self.acquisitions {
            0 => Some("it takes no pthread mutex, semaphore or OpenMP lock that can be served".to_owned()),
            n if self.contended == 0 => Some(format!("none of its {n} acquisitions of mutexes had to wait")),
            _ => None,
        })
    }

    /// Why no policy of reader-writer locks can be tried, if so.
    pub fn rw_refusal(&self) -> Option<String> {
        let none = || "it takes no reader-writer lock of pthreads (std::shared_mutex has one)".to_owned();
        self.unreached().or_else(|| (self.reader_writer == 0).then(none))
    }

    /// Why the interposer serves nothing, if so.
    fn unreached(&self) -> Option<String> {
        match self {
            _ if self.processes == 0 || self.elsewhere => Some(
                "the program did not load the interposer: it is static, runs with privileges of its own, or cannot read \
                 it where it runs (another root)"
                    .to_owned(),
            ),
            _ if self.served == 0 && self.rival => {
                Some("another interposer of the same functions (a sanitizer?) was there before".to_owned())
            }
            _ if self.served == 0 && self.strange_layout => {
                Some("the C library's mutexes are not laid out as expected".to_owned())
            }
            _ if self.served == 0 && self.limited => Some(
                "its own limits leave no room for what is counted: lift the limit of file size (ulimit -f) or of memory \
                 (ulimit -v)"
                    .to_owned(),
            ),
            _ => None,
        }
    }

    /// Whether threads wait, but not for what is served: then it is worth to count what they wait for.
    pub fn wants_futex_calls(&self) -> bool {
        self.futex_waits * 10 < self.voluntary_switches && self.voluntary_switches > 100
    }

    /// The share of waits on futexes that were for locks that are served, where both are known.
    pub fn share(&self) -> Option<f64> {
        let all = self.futex_waits_recorded?.max(self.futex_waits);
        (all > 0).then(|| self.futex_waits as f64 / all as f64)
    }
}
