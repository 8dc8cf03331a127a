//! A recording by looks, from its beginning to its end.

use std::ffi::OsString;
use std::io;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use holdup_trace::{Capabilities, Counter, Event, Header, What};

use super::Sampler;
use crate::sys::linux::attach::left_out;
use crate::sys::linux::chosen::Chosen;
use crate::sys::linux::drain::{Finish, LeftBehind, Store, over, unwritten};
use crate::sys::linux::frame::{self, More};
use crate::sys::linux::held::Files;
use crate::sys::linux::target::{self, Process};
use crate::sys::linux::{assemble::Sink as _, machine, refusal, words};
use crate::{Error, Options, Outcome};

/// The part of a CPU that looks may take: more of it at first, so that programs that end soon are looked at often,
const EARLY: Duration = Duration::from_secs(1);
const ONE_IN_EARLY: u32 = 25;
const ONE_IN: u32 = 100;
/// unless that would mean fewer looks than this allows, or more.
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_millis(50);
const FLUSH: Duration = Duration::from_millis(100);
const COUNT: Duration = Duration::from_secs(1);

/// Records a command, to its end or until it is to stop.
pub fn record_command(
    options: &Options,
    command: &[OsString],
    store: Store,
    stop: &AtomicBool,
    more: &More<'_>,
) -> Result<Outcome, Error> {
    let waiting = target::prepare(command, &options.environment, options.silent)?;
    machine::raise_open_files();
    let pid = waiting.pid;
    let header = header(options, &[pid]);
    let store = match store.begin(&header) {
        Ok(store) => store,
        Err(why) => {
            waiting.abandon();
            return Err(Error::File { path: options.output.clone(), why });
        }
    };
    let process = waiting.go()?;
    Looking { options, processes: &[process], stop, notes: Vec::new() }.run(store, header, more)
}

/// Records processes until all have ended, the time is over, or the user stops it.
pub fn record_processes(
    options: &Options,
    pids: &[u32],
    store: Store,
    stop: &AtomicBool,
    more: &More<'_>,
) -> Result<Outcome, Error> {
    let (processes, ended) = target::open_all(pids)?;
    let pids = &processes.iter().map(Process::pid).collect::<Vec<_>>();
    if let Some(pid) = pids.iter().find(|pid| !words::may_read(**pid)) {
        return Err(refusal::of_looks(*pid));
    }
    machine::raise_open_files();
    let header = header(options, pids);
    let store = store.begin(&header).map_err(|why| Error::File { path: options.output.clone(), why })?;
    let notes = ended.into_iter().chain(left_out(pids)).collect();
    Looking { options, processes: &processes, stop, notes }.run(store, header, more)
}

fn header(options: &Options, pids: &[u32]) -> Header {
    let cpus = machine::online_cpus().len();
    Header {
        producer: format!("holdup {} by looks", env!("CARGO_PKG_VERSION")),
        began_unix_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
        began_ns: machine::now_ns(),
        machine: machine::facts(cpus),
        target: frame::target(options, pids),
        capabilities: Capabilities {
            switches: true,
            futexes: true,
            calls: true,
            lock_words: true,
            ..Capabilities::default()
        },
        sample_period_ns: 0,
        stack_bytes: options.stack_bytes,
        futex_zero_period: 1,
        look_period_ns: SHORTEST.as_nanos() as u64,
        start_cpu_ns: machine::own_cpu_ns(),
        no_counters: Some("need events, which this kernel does not give".into()),
    }
}

/// A recording under way.
struct Looking<'a> {
    options: &'a Options,
    processes: &'a [Process],
    stop: &'a AtomicBool,
    notes: Vec<String>,
}

/// Where events go.
struct Kept {
    store: Store,
    chosen: Chosen,
    held: Files,
    error: Option<io::Error>,
}

impl Kept {
    fn add(&mut self, event: &Event) {
        if self.error.is_none() {
            let Kept { store, chosen, held, .. } = self;
            let passed = chosen.pass(event, |event| {
                held.see(event);
                store.event(event)
            });
            self.error = passed.err();
        }
    }
}

impl Looking<'_> {
    fn run(mut self, store: Store, header: Header, more: &More<'_>) -> Result<Outcome, Error> {
        machine::hurry();
        let mut sampler = Sampler::new(self.options.stack_bytes, self.options.threads.clone());
        header.target.pids.iter().for_each(|pid| sampler.follow(*pid));
        let chosen = Chosen::new(self.options.threads.clone());
        let mut kept = Kept { store, chosen, held: Files::default(), error: None };
        let finish = self.rounds(&mut sampler, &mut kept);
        sampler.last(machine::now_ns()).iter().for_each(|event| kept.add(event));
        if !sampler.refused.is_empty() {
            self.notes.push(format!(
                "{} of the processes may not be looked into by this user: nothing is known of their threads",
                sampler.refused.len()
            ));
        }
        self.notes.extend(frame::left_note(&finish));
        self.notes.extend(kept.chosen.note());
        let mut ending = frame::ending(finish.reason.clone(), finish.ended, 0);
        more(ending.ended_ns, &header.target.pids).iter().for_each(|event| kept.add(event));
        let (bytes, written) = kept.store.finish(&ending, &self.options.output);
        if let Some(why) = kept.error.or(written.err()) {
            ending.reason = unwritten(&why);
        }
        self.notes.extend(frame::outlived(self.processes, &finish, self.stop, &mut ending));
        let (events, held) = (kept.chosen.events(), kept.held.into_files());
        Ok(Outcome { header, ending, events, bytes, notes: self.notes, held })
    }

    fn rounds(&self, sampler: &mut Sampler, kept: &mut Kept) -> Finish {
        let deadline = self.options.limit.map(|limit| Instant::now() + limit);
        let mut running: Vec<&Process> = self.processes.iter().collect();
        let mut finish = Finish { reason: String::new(), ended: None, left: 0 };
        let (mut stopping, mut pace) = (None, Pace::default());
        let mut left_behind = LeftBehind::new(self.options.left_behind);
        let began = Instant::now();
        let (mut flushed, mut counted) = (began, began);
        while finish.reason.is_empty() {
            let spent_ns = machine::thread_cpu_ns();
            let now_ns = machine::now_ns();
            let events = sampler.round(now_ns, &mut kept.store);
            events.iter().for_each(|event| kept.add(event));
            if flushed.elapsed() > FLUSH && kept.error.is_none() {
                flushed = Instant::now();
                kept.error = kept.store.flush().err();
            }
            if let Store::Live(live) = &kept.store
                && live.forget_stacks()
            {
                sampler.forget_stacks();
            }
            if counted.elapsed() > COUNT {
                counted = Instant::now();
                let what = What::Count { counter: Counter::RecorderCpuNs, value: machine::own_cpu_ns() };
                sampler.tell(now_ns, 0, what);
            }
            let pause = pace.next(Duration::from_nanos(machine::thread_cpu_ns() - spent_ns), began.elapsed());
            sampler.look_at_interpreters(now_ns, &mut kept.store);
            let descriptors: Vec<i32> = running.iter().map(|process| process.descriptor()).collect();
            let until = deadline.map_or(pause, |end| end.saturating_duration_since(Instant::now()).min(pause));
            let mut ended = machine::poll(&descriptors, until).into_iter();
            running.retain(|_| !ended.next().unwrap_or(false));
            if running.is_empty() {
                finish.ended = finish.ended.or_else(|| self.processes.iter().find_map(|process| process.ended(false)));
                if sampler.threads.is_empty() || descriptors.is_empty() && !sampler.is_anybody_alive() {
                    finish.reason = "the target ended".into();
                    continue;
                }
                left_behind.goes_on(Instant::now());
            }
            if let Some(why) = &kept.error {
                finish.reason = unwritten(why);
            } else if let Some(reason) = over(self.stop, deadline, self.processes, &running, &mut stopping) {
                finish.reason = reason.into();
            }
        }
        finish.left = sampler.alive();
        finish
    }
}

/// How often to look.
#[derive(Debug, Default)]
struct Pace {
    /// What a round costs, smoothed.
    cost: Duration,
    rounds: u32,
}

impl Pace {
    /// The time to the next round, after one that cost so much, so long after the beginning. It varies, so as not to
    /// keep step with the program.
    fn next(&mut self, cost: Duration, since: Duration) -> Duration {
        // The first rounds open files and read mappings, which says little about later ones.
        const SETTLED: u32 = 8;
        self.rounds = self.rounds.saturating_add(1);
        self.cost = if self.rounds < SETTLED { cost } else { (self.cost * 15 + cost) / 16 };
        let one_in = if since < EARLY { ONE_IN_EARLY } else { ONE_IN };
        let period = (self.cost * one_in).clamp(SHORTEST, LONGEST);
        // Multiples of the golden ratio spread evenly.
        const GOLDEN: u32 = 0x9e37_79b9;
        let phase = f64::from(self.rounds.wrapping_mul(GOLDEN)) / f64::from(u32::MAX);
        period.mul_f64(0.75 + phase / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_take_a_hundredth_of_a_cpu_within_their_limits() {
        let mean_after = |since, cost_us| {
            let mut pace = Pace::default();
            let pauses: Vec<Duration> = (0..1_000).map(|_| pace.next(Duration::from_micros(cost_us), since)).collect();
            assert!(pauses.iter().max() > pauses.iter().min());
            pauses.iter().sum::<Duration>().as_micros() as u64 / 1_000
        };
        let early = mean_after(Duration::ZERO, 100);
        assert!((2_475..=2_525).contains(&early), "{early}");
        let mean = |cost_us| mean_after(EARLY, cost_us);
        assert!((990..=1_010).contains(&mean(2)), "{}", mean(2));
        assert!((9_900..=10_100).contains(&mean(100)), "{}", mean(100));
        assert!((49_500..=50_500).contains(&mean(5_000)), "{}", mean(5_000));
    }
}
