//! What a flight recorder waits for, as the user writes it.

use std::collections::VecDeque;
use std::fmt;

use holdup_analyze::Kind;
use holdup_bench::work::parse_ns;
use holdup_record::{LongWait, Totals};

/// What a flight recorder waits for.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    /// As it was given, in one form.
    text: String,
    wanted: Wanted,
}

/// What must be so.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Wanted {
    /// A thread waits for a lock for longer than this.
    LockWait {
        /// So long.
        ns: u64,
    },
    /// Threads are blocked for more than this part of their time within a second.
    Blocked {
        /// The part, 0 to 1.
        share: f64,
    },
    /// Threads leave CPUs more often than this within a second.
    Switches {
        /// So often per second.
        per_second: f64,
    },
    /// The last stretch has a finding that costs at least this part of working time.
    Finding {
        /// Of this kind; `None` for any.
        kind: Option<Kind>,
        /// The part, 0 to 1.
        share: f64,
    },
    /// The target ends.
    Exit,
}

impl Condition {
    /// Reads one.
    ///
    /// # Errors
    /// What is wrong with it, what is expected, and an example.
    pub fn parse(text: &str) -> Result<Condition, String> {
        let text = text.trim();
        if text == "exit" {
            return Ok(Condition { text: text.to_owned(), wanted: Wanted::Exit });
        }
        if let Some(rest) = text.strip_prefix("finding") {
            return finding(text, rest);
        }
        let (figure, limit) = text.split_once('>').ok_or_else(|| expected(text))?;
        let (figure, limit) = (figure.trim(), limit.trim());
        let wanted = match figure {
            "lock-wait" => Wanted::LockWait { ns: parse_ns(limit).map_err(|why| format!("'{text}': {why}"))? as u64 },
            "blocked" => Wanted::Blocked { share: share(text, limit, "blocked > 80%")? },
            "switches" => Wanted::Switches { per_second: rate(text, limit)? },
            _ => return Err(expected(text)),
        };
        Ok(Condition { text: format!("{figure} > {limit}"), wanted })
    }

    /// What must be so.
    pub fn wanted(&self) -> Wanted {
        self.wanted
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn expected(text: &str) -> String {
    format!(
        "'{text}' is not a condition; write for example 'lock-wait > 50ms', 'finding >= 20%', 'blocked > 80%', \
         'switches > 50000/s' or 'exit'"
    )
}

/// `finding >= 20%`, `finding hot-lock >= 20%`.
fn finding(text: &str, rest: &str) -> Result<Condition, String> {
    let (kind, limit) = rest.split_once(">=").ok_or_else(|| expected(text))?;
    let (kind, limit) = (kind.trim(), limit.trim());
    let known = Kind::ALL.into_iter().find(|known| known.name() == kind);
    if known.is_none() && !kind.is_empty() {
        let names: Vec<&str> = Kind::ALL.iter().map(|kind| kind.name()).collect();
        return Err(format!("'{text}': '{kind}' is no kind of finding; there are {}", names.join(", ")));
    }
    let share = share(text, limit, "finding >= 20%")?;
    let name = known.map(|kind| format!("{} ", kind.name())).unwrap_or_default();
    Ok(Condition { text: format!("finding {name}>= {limit}"), wanted: Wanted::Finding { kind: known, share } })
}

fn share(text: &str, limit: &str, example: &str) -> Result<f64, String> {
    let percent = limit.strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    let share = percent.filter(|percent| (0.0..100.0).contains(percent)).map(|percent| percent / 100.0);
    share
        .ok_or_else(|| format!("'{text}': '{limit}' is not a share from 0% to below 100%; write for example {example}"))
}

fn rate(text: &str, limit: &str) -> Result<f64, String> {
    let number = limit.strip_suffix("/s").unwrap_or(limit).trim();
    let (number, scale) = match number.strip_suffix('k') {
        Some(thousands) => (thousands, 1e3),
        None => (number, 1.0),
    };
    let rate = number.parse::<f64>().ok().filter(|rate| rate.is_finite() && *rate >= 0.0);
    rate.map(|rate| rate * scale)
        .ok_or_else(|| format!("'{text}': '{limit}' is not a rate; write for example switches > 50000/s"))
}

/// That a condition holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Held {
    /// Which, by its place among the conditions.
    pub condition: usize,
    /// Since when, as far as is known; of waits, the first that was too long.
    pub time_ns: u64,
    /// By what.
    pub by: By,
}

/// By what a condition holds.
#[derive(Clone, Debug, PartialEq)]
pub enum By {
    /// Waits on futexes that were longer than the condition says; which of them are waits for locks, only an analysis
    /// tells.
    Waits(Vec<LongWait>),
    /// A figure, as the end of a sentence.
    Figure(String),
}

/// Looks for conditions in sums that come some times a second.
#[derive(Debug)]
pub struct Judge {
    conditions: Vec<Condition>,
    /// Sums of the last second.
    last: VecDeque<Totals>,
}

/// Shares and rates are those of this time.
const WINDOW_NS: u64 = 1_000_000_000;

impl Judge {
    /// Nothing has happened yet.
    pub fn new(conditions: Vec<Condition>) -> Judge {
        Judge { conditions, last: VecDeque::new() }
    }

    /// The shortest wait that matters; the longest time there is if none does.
    pub fn long_ns(conditions: &[Condition]) -> u64 {
        let waits = conditions.iter().filter_map(|condition| match condition.wanted {
            Wanted::LockWait { ns } => Some(ns),
            _ => None,
        });
        waits.min().unwrap_or(u64::MAX)
    }

    /// A condition by its place.
    pub fn condition(&self, number: usize) -> Option<&Condition> {
        self.conditions.get(number)
    }

    /// The conditions that hold by what has happened since the last call.
    pub fn judge(&mut self, totals: Totals) -> Vec<Held> {
        self.last.push_back(totals);
        let to_ns = self.last.back().map_or(0, |totals| totals.to_ns);
        while self.last.len() > 1 && self.last.get(1).is_some_and(|second| second.from_ns + WINDOW_NS <= to_ns) {
            self.last.pop_front();
        }
        let held = |(number, condition): (usize, &Condition)| self.holds(number, condition.wanted);
        self.conditions.iter().enumerate().filter_map(held).collect()
    }

    fn holds(&self, condition: usize, wanted: Wanted) -> Option<Held> {
        let (first, newest) = (self.last.front()?, self.last.back()?);
        if let Wanted::LockWait { ns } = wanted {
            let waits: Vec<LongWait> = newest.long_waits.iter().copied().filter(|wait| wait.ns() > ns).collect();
            let time_ns = waits.iter().map(|wait| wait.from_ns + ns).min()?;
            return Some(Held { condition, time_ns, by: By::Waits(waits) });
        }
        // Part of a second says little.
        let span_ns = newest.to_ns.saturating_sub(first.from_ns);
        if span_ns < WINDOW_NS {
            return None;
        }
        let sum = |figure: fn(&Totals) -> u64| self.last.iter().map(figure).sum::<u64>() as f64;
        let seen = match wanted {
            Wanted::Blocked { share } => {
                let of = sum(|totals| totals.thread_ns).max(1.0);
                let blocked = sum(|totals| totals.blocked_ns) / of;
                (blocked > share).then(|| format!("threads were blocked for {:.0}% of their time", blocked * 100.0))
            }
            Wanted::Switches { per_second } => {
                let rate = sum(|totals| totals.switches) * 1e9 / span_ns as f64;
                (rate > per_second).then(|| format!("there were {rate:.0} switches per second"))
            }
            // An analysis tells.
            Wanted::LockWait { .. } | Wanted::Finding { .. } | Wanted::Exit => None,
        };
        seen.map(|seen| Held { condition, time_ns: newest.to_ns, by: By::Figure(seen) })
    }
}

#[cfg(test)]
mod tests {
    use holdup_trace::{Pid, Tid};

    use super::*;

    fn wanted(text: &str) -> Wanted {
        Condition::parse(text).unwrap_or_else(|why| panic!("{why}")).wanted()
    }

    #[test]
    fn conditions_are_read_however_they_are_spaced() {
        assert_eq!(wanted("lock-wait > 50ms"), Wanted::LockWait { ns: 50_000_000 });
        assert_eq!(wanted(" lock-wait>1.5us "), Wanted::LockWait { ns: 1_500 });
        assert_eq!(wanted("blocked > 80%"), Wanted::Blocked { share: 0.8 });
        assert_eq!(wanted("switches > 50000/s"), Wanted::Switches { per_second: 50_000.0 });
        assert_eq!(wanted("switches >50k"), Wanted::Switches { per_second: 50_000.0 });
        assert_eq!(wanted("exit"), Wanted::Exit);
        assert_eq!(wanted("finding>=20%"), Wanted::Finding { kind: None, share: 0.2 });
        let kind = Some(Kind::HotLock);
        assert_eq!(wanted("finding  hot-lock >= 5%"), Wanted::Finding { kind, share: 0.05 });
        assert_eq!(Condition::parse("finding hot-lock>=5%").unwrap().to_string(), "finding hot-lock >= 5%");
        assert_eq!(Condition::parse("lock-wait>50ms").unwrap().to_string(), "lock-wait > 50ms");
    }

    #[test]
    fn what_is_no_condition_is_named_with_an_example() {
        for wrong in ["", "lock-wait", "lock-wait < 5ms", "waits > 5ms", "exit > 3", "blocked 80%", "finding > 20%"] {
            let why = Condition::parse(wrong).unwrap_err();
            assert!(why.starts_with(&format!("'{wrong}'")) && why.contains("'lock-wait > 50ms'"), "{why}");
        }
        for (wrong, named, example) in [
            ("lock-wait > 50", "'50'", "20ms"),
            ("lock-wait > -1ms", "'-1ms'", "20ms"),
            ("blocked > 80", "'80'", "blocked > 80%"),
            ("blocked > 100%", "'100%'", "blocked > 80%"),
            ("finding >= 20", "'20'", "finding >= 20%"),
            ("finding slow-lock >= 20%", "'slow-lock'", "hot-lock"),
            ("switches > many", "'many'", "switches > 50000/s"),
            ("switches > -3/s", "'-3/s'", "switches > 50000/s"),
        ] {
            let why = Condition::parse(wrong).unwrap_err();
            assert!(why.contains(wrong) && why.contains(named) && why.contains(example), "{why}");
        }
    }

    fn totals(second_tenths: u64, switches: u64, blocked_tenths: u64) -> Totals {
        let tenth = WINDOW_NS / 10;
        Totals {
            from_ns: second_tenths * tenth,
            to_ns: (second_tenths + 5) * tenth,
            switches,
            blocked_ns: blocked_tenths * tenth,
            thread_ns: 10 * tenth,
            long_waits: Vec::new(),
        }
    }

    #[test]
    fn shares_and_rates_are_of_a_second_and_waits_hold_at_once() {
        let conditions = ["blocked > 50%", "switches > 1000/s", "lock-wait > 5ns"];
        let conditions: Vec<_> = conditions.iter().map(|text| Condition::parse(text).unwrap()).collect();
        assert_eq!(Judge::long_ns(&conditions), 5);
        let mut judge = Judge::new(conditions);
        assert_eq!(judge.judge(totals(0, 5_000, 10)), [], "half a second");
        let held: Vec<usize> = judge.judge(totals(5, 0, 2)).into_iter().map(|held| held.condition).collect();
        assert_eq!(held, [0, 1]);
        assert_eq!(judge.judge(totals(10, 900, 3)), [], "the first half second is over");
        let wait = LongWait { tid: Tid(7), pid: Pid(7), addr: 64, from_ns: 100, to_ns: 110 };
        let held = judge.judge(Totals { long_waits: vec![wait], ..totals(15, 0, 0) });
        assert_eq!(held, [Held { condition: 2, time_ns: 105, by: By::Waits(vec![wait]) }]);
    }
}
