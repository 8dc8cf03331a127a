//! CPUs: busy time, switches, counters; and how many threads were running or runnable at once.

use std::collections::BTreeMap;

use holdup_trace::{Counter, NO_CPU};

use crate::facts::CpuFacts;

/// More than a CPU counts in thirteen days, whatever it is: what reads more is damaged.
const MOST_COUNTED: u64 = 1 << 56;

#[derive(Debug, Default)]
pub(super) struct Cpus {
    pub list: Vec<Cpu>,
    /// Counter readings per CPU: the first of the window, the last.
    pub counters: BTreeMap<(u16, Counter), (u64, u64)>,
    /// CPUs of the machine.
    count: usize,
    active: usize,
    active_since: u64,
    pub runnable_ns: Vec<u64>,
}

#[derive(Debug, Default)]
pub(super) struct Cpu {
    pub facts: CpuFacts,
    /// Its last event.
    pub last: u64,
    /// How long threads of the target ran here since the beginning, whatever the window, up to the last that left.
    ran_ns: u64,
    /// Since when one runs here.
    runs_since: Option<u64>,
}

impl Cpu {
    /// A thread of the target runs here from now on.
    pub(super) fn begin_run(&mut self, now: u64) {
        self.end_run(now);
        self.runs_since = Some(now);
    }

    /// It leaves.
    pub(super) fn end_run(&mut self, now: u64) {
        if let Some(since) = self.runs_since.take() {
            self.ran_ns += now.saturating_sub(since);
        }
    }

    /// How long threads of the target ran here until now.
    pub(super) fn busy_ns(&self, now: u64) -> u64 {
        self.ran_ns + self.runs_since.map_or(0, |since| now.saturating_sub(since))
    }
}

impl Cpus {
    /// For a machine with so many CPUs.
    pub(super) fn new(cpus: u32) -> Cpus {
        let most = (cpus.clamp(4, 4096) as usize) * 4;
        Cpus { count: cpus as usize, runnable_ns: vec![0; most + 1], ..Cpus::default() }
    }

    pub(super) fn at(&mut self, cpu: u16) -> Option<&mut Cpu> {
        if cpu == NO_CPU {
            return None;
        }
        let index = usize::from(cpu);
        if index >= self.list.len() {
            self.list.resize_with(index + 1, Cpu::default);
        }
        Some(&mut self.list[index])
    }

    pub(super) fn count(&mut self, cpu: u16, counter: Counter, value: u64) {
        let reading = self.counters.entry((cpu, counter)).or_insert((0, 0));
        reading.1 = reading.1.max(value.min(MOST_COUNTED));
        let _ = self.at(cpu);
    }

    /// One more or one less thread is running or runnable from now on.
    pub(super) fn activate(&mut self, now: u64, up: bool) {
        self.advance(now);
        self.active = if up { self.active + 1 } else { self.active.saturating_sub(1) };
    }

    /// How many threads are running or runnable.
    pub(super) fn active(&self) -> usize {
        self.active
    }

    /// Whether a thread waits for a CPU although not all of those that the program was seen on run one of its own:
    /// other programs have it.
    pub(super) fn are_taken(&self) -> bool {
        let own = self.list.iter().filter(|cpu| cpu.runs_since.is_some()).count();
        let seen = self.list.iter().filter(|cpu| cpu.runs_since.is_some() || cpu.ran_ns > 0).count();
        own < seen && self.active > own
    }

    /// Whether more threads are running or runnable than there are CPUs.
    pub(super) fn are_wanted(&self) -> bool {
        self.active > self.count
    }

    pub(super) fn advance(&mut self, now: u64) {
        let now = now.max(self.active_since);
        let last = self.runnable_ns.len() - 1;
        self.runnable_ns[self.active.min(last)] += now - self.active_since;
        self.active_since = now;
    }

    /// Begins to count time now.
    pub(super) fn start(&mut self, now: u64) {
        self.active_since = now;
    }

    pub(super) fn restart(&mut self, now: u64) {
        self.runnable_ns.fill(0);
        self.active_since = self.active_since.max(now);
        self.list.iter_mut().for_each(|cpu| cpu.facts = CpuFacts::default());
        self.counters.values_mut().for_each(|reading| reading.0 = reading.1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_have_a_cpu_if_one_that_the_program_was_on_runs_nothing_of_it_while_a_thread_waits() {
        let mut cpus = Cpus::new(4);
        let run = |cpus: &mut Cpus, cpu, now| cpus.at(cpu).unwrap().begin_run(now);
        run(&mut cpus, 0, 1);
        run(&mut cpus, 1, 1);
        (0..3).for_each(|_| cpus.activate(1, true));
        assert!(!cpus.are_taken(), "both are the program's; the others were never");
        cpus.at(1).unwrap().end_run(5);
        assert!(cpus.are_taken());
        cpus.activate(6, false);
        cpus.activate(6, false);
        assert!(!cpus.are_taken(), "nobody waits for one");
    }
}
