//! The recorder's loop: empty the rings, put records in order, write events, see who has ended.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use holdup_trace::{Counter, Event, NO_CPU, Tid, What, Writer};

use super::machine;
use super::perf::Kernel;
use super::session::Session;
use super::target::{self, Ended, Process};
use crate::assemble::{Assembler, Kind};
use crate::merge::Merge;

/// A recording under way.
pub struct Recording<'a, K> {
    /// The kernel's side.
    pub session: Session<K>,
    /// What records mean.
    pub assembler: Assembler,
    /// Records that wait for their turn.
    pub merge: Merge,
    /// The file.
    pub writer: Writer<File>,
    /// The program.
    pub process: &'a Process,
    /// Set from outside to end it.
    pub stop: &'a AtomicBool,
    /// When to end it.
    pub deadline: Option<Instant>,
}

/// Why and how a recording ended.
#[derive(Debug)]
pub struct Finish {
    /// As in the file's end.
    pub reason: String,
    /// How the command ended.
    pub ended: Option<Ended>,
    /// Threads that were still there when the program itself had ended and the recording too.
    pub left: usize,
}

/// How long the recorder sleeps if no ring fills.
const PASS: Duration = Duration::from_millis(100);
const FLUSH: Duration = Duration::from_millis(100);
const COUNT: Duration = Duration::from_secs(1);
/// How long a command that was started may take to end after Ctrl-C, which it got as well.
const GRACE: Duration = Duration::from_secs(2);

impl<K: Kernel> Recording<'_, K> {
    /// Records until there is nothing more to record, and closes the events.
    pub fn run(&mut self) -> Finish {
        let mut finish = Finish { reason: String::new(), ended: None, left: 0 };
        match self.passes(&mut finish) {
            Ok(reason) => finish.reason = reason.into(),
            Err(error) => finish.reason = format!("the recording could not be written: {error}"),
        }
        self.session.disable();
        if let Err(error) = self.last_pass()
            && !finish.reason.starts_with("the recording")
        {
            finish.reason = format!("the recording could not be written: {error}");
        }
        finish.left = self.assembler.alive().iter().filter(|tid| target::is_alive(**tid)).count();
        finish
    }

    fn passes(&mut self, finish: &mut Finish) -> io::Result<&'static str> {
        let (mut flushed, mut counted) = (Instant::now(), Instant::now());
        let mut known_until_ns = machine::now_ns();
        let mut stopping: Option<Instant> = None;
        let mut gone = false;
        loop {
            gone |= self.wait(gone, stopping);
            let began_ns = machine::now_ns();
            self.collect();
            self.emit(known_until_ns)?;
            known_until_ns = began_ns;
            if counted.elapsed() > COUNT {
                counted = Instant::now();
                self.counts(known_until_ns)?;
            }
            if flushed.elapsed() > FLUSH {
                flushed = Instant::now();
                self.writer.flush()?;
            }
            if gone {
                finish.ended = finish.ended.or_else(|| self.process.ended(false));
                self.collect();
                self.emit(known_until_ns)?;
                if self.nobody_left() {
                    return Ok("the target ended");
                }
            }
            if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Ok("the time was over");
            }
            if self.stop.load(Ordering::Relaxed) {
                let since = *stopping.get_or_insert_with(Instant::now);
                if gone || !self.process.is_child() || since.elapsed() > GRACE {
                    return Ok("Ctrl-C");
                }
            }
        }
    }

    /// Sleeps until a ring fills, the program ends or a time is over. Whether the program has ended.
    fn wait(&self, gone: bool, stopping: Option<Instant>) -> bool {
        let mut polled: Vec<i32> = self.session.descriptors().collect();
        if !gone {
            polled.push(self.process.descriptor());
        }
        let until = self.deadline.map_or(PASS, |end| end.saturating_duration_since(Instant::now()).min(PASS));
        let until = if stopping.is_some() { until.min(PASS / 5) } else { until };
        let ready = machine::poll(&polled, until);
        !gone && ready.last().copied().unwrap_or(false)
    }

    fn collect(&mut self) {
        let merge = &mut self.merge;
        self.session.drain(|lane, parts| merge.add(lane, parts));
    }

    fn emit(&mut self, before_ns: u64) -> io::Result<()> {
        let (assembler, writer) = (&mut self.assembler, &mut self.writer);
        self.merge.drain(before_ns, |lane, record| assembler.feed(lane, record, writer))
    }

    fn counts(&mut self, time_ns: u64) -> io::Result<()> {
        // Whatever is older waits in the merge, so nothing may be dated later than it.
        self.emit(time_ns)?;
        let of = |counter, value: Option<u64>| value.map(|value| What::Count { counter, value });
        let counts = [
            of(Counter::FutexCalls, self.session.count(Kind::CountCalls)),
            of(Counter::FutexAgain, self.session.count(Kind::CountAgain)),
            of(Counter::RecorderCpuNs, Some(machine::own_cpu_ns())),
        ];
        for what in counts.into_iter().flatten() {
            self.assembler.outside(&Event { time_ns, tid: Tid(0), cpu: NO_CPU, what }, &mut self.writer)?;
        }
        Ok(())
    }

    fn last_pass(&mut self) -> io::Result<()> {
        self.collect();
        self.emit(u64::MAX)?;
        self.counts(machine::now_ns())
    }

    /// Whether all threads that were seen have ended; those whose end was lost are looked up.
    fn nobody_left(&mut self) -> bool {
        let dead: Vec<u32> =
            self.assembler.alive().iter().copied().filter(|tid| !target::is_alive(*tid)).collect();
        dead.into_iter().for_each(|tid| self.assembler.bury(tid));
        self.assembler.alive().is_empty()
    }
}
