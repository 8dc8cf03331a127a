//! The way through: events in, report out.

use holdup_trace::{Ending, Event, Header, Stacks, What};

use crate::doubt::{self, Doubt};
use crate::facts::Facts;
use crate::finding::{self, Finding};
use crate::names::{Modules, Names, Parsed, Resolver};
use crate::options::Options;
use crate::problem::Problem;
use crate::timeline::{Engine, Naming, Timeline, sum_up};

/// As many CPUs as Linux knows on any machine: a number beyond is damaged. Their time, for as long as a recording may
/// be, then still fits.
const MOST_CPUS: u32 = 8192;
/// The longest time between two samples or looks, a minute: many times as many samples then still fit.
const LONGEST_PERIOD_NS: u64 = 60_000_000_000;

/// What came out.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Numbers.
    pub facts: Facts,
    /// What holds threads up, worst first; empty for a healthy program.
    pub findings: Vec<Finding>,
    /// What could have hidden findings: with any of these, no findings are no all-clear.
    pub doubts: Vec<Doubt>,
    /// What is wrong with the recording itself.
    pub problems: Vec<Problem>,
    /// Intervals, if they were asked for.
    pub timeline: Option<Timeline>,
}

/// An analysis under way.
#[derive(Debug)]
pub struct Analysis {
    facts: Facts,
    names: Names,
    engine: Engine,
}

impl Analysis {
    /// Begins.
    pub fn new(header: &Header, options: Options) -> Self {
        let header = plausible(header);
        Analysis {
            names: Names::new(),
            engine: Engine::new(&header, options),
            facts: Facts { header, ..Facts::default() },
        }
    }

    /// Takes the next event. Events come in order of time, as well as the producer could.
    pub fn feed(&mut self, event: &Event) {
        // Nothing else changes an address space.
        if matches!(event.what, What::Started { .. } | What::Named { .. } | What::Mapped(_) | What::Exited) {
            self.names.feed(event);
        }
        self.names.see(event);
        self.engine.feed(event, &self.names);
    }

    /// Names everything and judges.
    pub fn finish(self, ending: Option<&Ending>, stacks: &Stacks, modules: &dyn Modules) -> Report {
        self.finish_again(ending, stacks, modules, &mut Parsed::default())
    }

    /// The same for who asks again and again about one program: what was read of binaries is kept between reports.
    pub fn finish_again<'a>(
        mut self,
        ending: Option<&Ending>,
        stacks: &Stacks,
        modules: &'a dyn Modules,
        parsed: &mut Parsed<'a>,
    ) -> Report {
        let names = std::mem::take(&mut self.names);
        let resolver = Resolver::new(names, stacks, modules).with_guesses(self.facts.header.is_sampled());
        let mut resolver = resolver.with_files(parsed);
        let report = self.finish_named(ending, &mut resolver);
        *parsed = resolver.into_files();
        report
    }

    /// The same with names from anywhere.
    pub(crate) fn finish_named(mut self, ending: Option<&Ending>, naming: &mut dyn Naming) -> Report {
        let rest = sum_up(self.engine, ending, &mut self.facts, naming);
        let findings = finding::all(&self.facts);
        let doubts = doubt::all(&self.facts);
        Report { facts: self.facts, findings, doubts, problems: rest.problems, timeline: rest.timeline }
    }
}

/// The header without numbers that no machine and no recorder have.
fn plausible(header: &Header) -> Header {
    let mut header = header.clone();
    if header.machine.cpus > MOST_CPUS {
        header.machine.cpus = 0;
    }
    header.sample_period_ns = header.sample_period_ns.min(LONGEST_PERIOD_NS);
    header.look_period_ns = header.look_period_ns.min(LONGEST_PERIOD_NS);
    header
}

#[cfg(test)]
mod tests {
    use holdup_trace::{Tid, What};

    use super::*;
    use crate::names::NoModules;

    /// A damaged recording once multiplied four billion CPUs by eleven days.
    #[test]
    fn a_number_that_no_machine_has_is_not_known() {
        let of = |cpus: u32| {
            let mut header = Header { sample_period_ns: u64::MAX, look_period_ns: u64::MAX, ..Header::default() };
            header.machine.cpus = cpus;
            let mut analysis = Analysis::new(&header, Options::default());
            for time_ns in [0, 1_000_000_000_000_000] {
                let what = if time_ns == 0 { What::SwitchIn } else { What::Exited };
                analysis.feed(&Event { time_ns, tid: Tid(1), cpu: 0, what });
            }
            analysis.finish(None, &Stacks::default(), &NoModules)
        };
        let (known, damaged) = (of(8192), of(u32::MAX));
        assert_eq!(known.facts.header.machine.cpus, 8192);
        assert_eq!(damaged.facts.header.machine.cpus, 0);
        assert_eq!(damaged.facts.header.sample_period_ns, LONGEST_PERIOD_NS);
        assert_eq!(damaged.facts.span_ns(), 1_000_000_000_000_000);
    }
}
