//! The way through: events in, report out.

use holdup_trace::{Ending, Event, Header, Stacks, What};

use crate::doubt::{self, Doubt};
use crate::facts::Facts;
use crate::finding::{self, Finding};
use crate::names::{Modules, Names, Parsed, Resolver};
use crate::options::Options;
use crate::problem::Problem;
use crate::timeline::{Engine, Naming, Timeline, sum_up};

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
        Analysis {
            facts: Facts { header: header.clone(), ..Facts::default() },
            names: Names::new(),
            engine: Engine::new(header, options),
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
