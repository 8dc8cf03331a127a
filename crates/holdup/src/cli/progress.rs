//! The progress bar: on stderr, and only where that is a terminal.

use std::io::IsTerminal;
use std::time::Duration;

use holdup_bench::spec::Spec;
use indicatif::{ProgressBar, ProgressStyle};

use crate::runner::Watch;

/// A bar with the time left and the cell in work.
pub struct Bar {
    bar: ProgressBar,
    again: u64,
}

impl Bar {
    /// A bar for a terminal, or nothing for anything else.
    pub fn new() -> Bar {
        let bar = if std::io::stderr().is_terminal() { ProgressBar::no_length() } else { ProgressBar::hidden() };
        Bar { bar, again: 0 }
    }
}

impl Watch for Bar {
    fn begin(&mut self, planned: usize, made: usize) {
        const LINE: &str = "{bar:20} {pos}/{len} runs, {eta} left  {msg}";
        let style = ProgressStyle::with_template(LINE).expect("the template is well formed");
        self.bar.set_style(style);
        self.bar.set_length(planned as u64);
        self.bar.set_position(made as u64);
        self.bar.reset_eta();
        self.bar.enable_steady_tick(Duration::from_millis(250));
    }

    fn next(&mut self, spec: &Spec) {
        let again = if self.again > 0 { format!(", {} repeated", self.again) } else { String::new() };
        self.bar.set_message(format!("{} x{}{again}", spec.lock, spec.threads));
    }

    fn done(&mut self, _skipped: bool) {
        self.bar.inc(1);
    }

    fn again(&mut self) {
        self.again += 1;
    }

    fn end(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// One line that says what is being done, and how much of it.
pub struct Line(ProgressBar);

impl Line {
    /// A line for a terminal, or nothing for anything else.
    pub fn new() -> Line {
        let bar = if std::io::stderr().is_terminal() { ProgressBar::no_length() } else { ProgressBar::hidden() };
        let style = ProgressStyle::with_template("{bar:20} {pos}/{len}  {msg}");
        bar.set_style(style.expect("the template is well formed"));
        Line(bar)
    }

    /// So many of so many are done, and this comes next.
    pub fn show(&self, done: usize, all: usize, what: &str) {
        self.0.set_length(all as u64);
        self.0.set_position(done as u64);
        self.0.set_message(what.to_owned());
    }

    /// Takes it away.
    pub fn end(&self) {
        self.0.finish_and_clear();
    }
}
