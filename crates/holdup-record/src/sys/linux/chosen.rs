//! Lets the events of some threads alone pass, by their names, and in order of time.

use std::borrow::Cow;

use holdup_trace::{Event, Pid, Tid, What};
use rustc_hash::FxHashMap;

use crate::threads::{ThreadNames, kept};

/// The kernel's filter of a tracepoint that lets events pass of threads of which one of these fields is the name;
/// `None` if there is none: all are meant, or a name has letters that the filter would take for something else.
pub fn filter(names: &ThreadNames, fields: &[&str]) -> Option<String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.:/ #@+,=()".contains(c);
    let pattern = |wanted: &str| {
        let (start, end) = wanted.strip_suffix('*').map_or((wanted, ""), |start| (start, "*"));
        start.chars().all(is_plain).then(|| format!("\"{}{end}\"", kept(start)))
    };
    let patterns: Vec<String> = names.iter().map(pattern).collect::<Option<_>>()?;
    let all = patterns.iter().flat_map(|pattern| fields.iter().map(move |field| format!("{field} ~ {pattern}")));
    (!names.is_all()).then(|| all.collect::<Vec<_>>().join(" || "))
}

/// Lets the events of those threads pass.
#[derive(Debug, Default)]
pub struct Chosen {
    names: ThreadNames,
    threads: FxHashMap<Tid, Thread>,
    /// Whether any thread had such a name.
    any: bool,
    order: Order,
    events: u64,
}

#[derive(Debug)]
struct Thread {
    pid: Pid,
    name: Box<str>,
    passes: bool,
}

/// What becomes of an event.
#[derive(Debug, PartialEq)]
enum Fate {
    Kept,
    /// It is kept, and this one before it: the thread is new to those who see only what passes.
    Behind(Event),
    /// The thread is none of those any more: this is kept instead.
    Instead(Event),
    LeftOut,
}

/// Keeps events in order of time.
#[derive(Debug, Default)]
struct Order {
    last_ns: u64,
}

impl Order {
    /// The event. If it comes a little late, because its CPU was taken away while it was told, it is of the moment of
    /// the last one; if it comes far too late, its own time says so.
    fn put<'a>(&mut self, event: &'a Event) -> Cow<'a, Event> {
        const LATE_NS: u64 = 10_000_000;
        let late_ns = self.last_ns.saturating_sub(event.time_ns);
        if (1..=LATE_NS).contains(&late_ns) {
            return Cow::Owned(Event { time_ns: self.last_ns, ..event.clone() });
        }
        self.last_ns = event.time_ns;
        Cow::Borrowed(event)
    }
}

impl Chosen {
    /// Threads of these names.
    pub fn new(names: ThreadNames) -> Chosen {
        Chosen { names, ..Chosen::default() }
    }

    /// That none was found, and what the others are called, as a sentence without a full stop.
    pub fn note(&self) -> Option<String> {
        let missed = !self.names.is_all() && !self.any;
        missed.then(|| format!("no thread was recorded: none had a name that --thread gives ({})", self.listed()))
    }

    fn listed(&self) -> String {
        self.names.iter().collect::<Vec<_>>().join(", ")
    }

    /// Hands on what is kept of an event.
    pub fn pass<E>(&mut self, event: &Event, mut keep: impl FnMut(&Event) -> Result<(), E>) -> Result<(), E> {
        let mut put = |event: &Event, this: &mut Chosen| {
            this.events += 1;
            keep(&this.order.put(event))
        };
        match self.fate(event) {
            Fate::Kept => put(event, self),
            Fate::Behind(first) => put(&first, self).and_then(|()| put(event, self)),
            Fate::Instead(other) => put(&other, self),
            Fate::LeftOut => Ok(()),
        }
    }

    /// How many events were handed on.
    pub fn events(&self) -> u64 {
        self.events
    }

    fn fate(&mut self, event: &Event) -> Fate {
        if self.names.is_all() {
            return Fate::Kept;
        }
        match &event.what {
            What::Started { pid, parent } => {
                let parent = parent.and_then(|parent| self.threads.get(&parent));
                let name: Box<str> = parent.map(|parent| parent.name.clone()).unwrap_or_default();
                let passes = !name.is_empty() && self.names.has(&name);
                self.any |= passes;
                self.threads.insert(event.tid, Thread { pid: *pid, name, passes });
            }
            What::Named { name, .. } => return self.named(event, name),
            What::Exited => {
                let passed = self.threads.remove(&event.tid).is_some_and(|thread| thread.passes);
                return if passed { Fate::Kept } else { Fate::LeftOut };
            }
            // Of processes, or of the recording.
            What::Mapped(_) | What::LockWord { .. } | What::LockFigures(_) | What::Count { .. } | What::Lost { .. } => {
                return Fate::Kept;
            }
            _ => {}
        }
        let whose = if let What::Waking { target, .. } = event.what { target } else { event.tid };
        let passes = self.threads.get(&whose).is_some_and(|thread| thread.passes);
        if passes { Fate::Kept } else { Fate::LeftOut }
    }

    fn named(&mut self, event: &Event, name: &str) -> Fate {
        let Some(thread) = self.threads.get_mut(&event.tid) else { return Fate::LeftOut };
        thread.name = name.into();
        let passed = std::mem::replace(&mut thread.passes, self.names.has(name));
        self.any |= thread.passes;
        match (passed, thread.passes) {
            (true, true) => Fate::Kept,
            (false, false) => Fate::LeftOut,
            (true, false) => Fate::Instead(Event { what: What::Exited, ..event.clone() }),
            (false, true) => {
                let started = What::Started { pid: thread.pid, parent: None };
                Fate::Behind(Event { what: started, ..event.clone() })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use holdup_trace::NO_CPU;

    use super::*;

    fn names(names: &[&str]) -> ThreadNames {
        ThreadNames::new(names.iter().map(|name| (*name).to_owned()))
    }

    fn event(tid: u32, what: What) -> Event {
        Event { time_ns: 7, tid: Tid(tid), cpu: NO_CPU, what }
    }

    fn named(tid: u32, name: &str) -> Event {
        event(tid, What::Named { name: name.into(), exec: false })
    }

    #[test]
    fn the_kernel_filters_by_names_that_it_takes_as_they_are() {
        let filter = |wanted: &[&str]| super::filter(&names(wanted), &["prev_comm", "next_comm"]);
        assert_eq!(filter(&["io"]).as_deref(), Some("prev_comm ~ \"io\" || next_comm ~ \"io\""));
        let two = super::filter(&names(&["a-very-long-name-of*", "b"]), &["COMM"]);
        assert_eq!(two.as_deref(), Some("COMM ~ \"a-very-long-nam*\" || COMM ~ \"b\""));
        assert_eq!((filter(&[]), filter(&["a\"b"]), filter(&["a*b"]), filter(&["ok", "?"])), (None, None, None, None));
    }

    #[test]
    fn threads_come_and_go_with_their_names() {
        let mut chosen = Chosen::new(names(&["clerk*"]));
        let started = |tid, parent: Option<u32>| event(tid, What::Started { pid: Pid(1), parent: parent.map(Tid) });
        assert_eq!(chosen.fate(&started(1, None)), Fate::LeftOut);
        assert_eq!(chosen.fate(&named(1, "server")), Fate::LeftOut);
        assert!(chosen.note().is_some_and(|note| note.contains("(clerk*)")));
        assert_eq!(chosen.fate(&started(2, Some(1))), Fate::LeftOut);
        assert_eq!(chosen.fate(&named(2, "clerk-1")), Fate::Behind(started(2, None)));
        assert_eq!(chosen.note(), None);
        assert_eq!(chosen.fate(&event(2, What::SwitchIn)), Fate::Kept);
        assert_eq!(chosen.fate(&event(1, What::SwitchIn)), Fate::LeftOut);
        let wakes = |target| What::Waking { target: Tid(target), stack: None };
        assert_eq!(chosen.fate(&event(1, wakes(2))), Fate::Kept, "whoever wakes it");
        assert_eq!(chosen.fate(&event(2, wakes(1))), Fate::LeftOut);
        assert_eq!(chosen.fate(&started(3, Some(2))), Fate::Kept, "it has its parent's name");
        assert_eq!(chosen.fate(&named(3, "helper")), Fate::Instead(event(3, What::Exited)));
        assert_eq!(chosen.fate(&event(3, What::SwitchIn)), Fate::LeftOut);
        assert_eq!(chosen.fate(&event(3, What::Exited)), Fate::LeftOut);
        assert_eq!(chosen.fate(&event(2, What::Exited)), Fate::Kept);
        assert_eq!(chosen.fate(&event(0, What::Lost { count: 1 })), Fate::Kept);
    }

    #[test]
    fn what_comes_a_little_late_is_told_in_order() {
        let mut order = Order::default();
        let at = |time_ns| Event { time_ns, tid: Tid(1), cpu: 0, what: What::SwitchIn };
        let mut put = |time_ns| order.put(&at(time_ns)).time_ns;
        assert_eq!([put(50_000_000), put(49_999_990), put(40_000_000)], [50_000_000; 3]);
        assert_eq!((put(39_999_999), put(60_000_000)), (39_999_999, 60_000_000), "too late to be put right");
    }

    #[test]
    fn without_names_everything_passes() {
        let mut chosen = Chosen::default();
        assert_eq!(chosen.fate(&event(9, What::SwitchIn)), Fate::Kept);
        assert_eq!(chosen.note(), None);
    }
}
