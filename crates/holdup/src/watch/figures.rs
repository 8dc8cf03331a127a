//! What was seen of every target since the service began, as OpenMetrics text. Names that programs choose become
//! labels; of these there are never more than was agreed.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use super::seen::{Reason, Seen, Turn};
use crate::text;

/// What the rest of the locks are called.
const OTHER: &str = "other";
/// Letters of a label.
const MOST_LETTERS: usize = 120;
/// What a lock waited for longer ago counts for, from recording to recording.
const FADES: f64 = 0.9;
/// Bytes of one profile, and of all, that are kept to be served.
const MOST_PROFILE: usize = 2 << 20;
const MOST_PROFILES: usize = 32 << 20;

/// What was seen of one target.
#[derive(Clone, Debug, Default)]
pub struct Target {
    recordings: u64,
    failures: BTreeMap<Reason, u64>,
    recorded_ns: u64,
    states: BTreeMap<String, u64>,
    locks: Locks,
    voluntary: u64,
    involuntary: u64,
    lost: u64,
    kept: u64,
    /// Recordings with a finding of this kind, and its share in the last one.
    findings: BTreeMap<String, (u64, f64)>,
    doubts: u64,
    up: bool,
    last_unix_s: Option<u64>,
    /// When the last two turns began.
    turns: (Option<Duration>, Option<Duration>),
    /// The last profile, and when it was made.
    profile: Option<(Duration, Arc<[u8]>)>,
}

/// Waits by lock: the largest by name.
#[derive(Clone, Debug, Default)]
struct Locks {
    named: BTreeMap<String, Lock>,
    rest: Waits,
}

#[derive(Clone, Copy, Debug, Default)]
struct Waits {
    count: u64,
    ns: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Lock {
    waits: Waits,
    /// Its waiting time, of which the older counts for less.
    weight: f64,
}

impl Locks {
    /// Adds what one recording saw. A lock that is waited for longer than one with a name takes its place; what that
    /// one had goes to the rest, so that the sum only grows.
    fn add(&mut self, seen: &[(String, u64, u64)], most: usize) {
        self.named.values_mut().for_each(|lock| lock.weight *= FADES);
        for (name, count, ns) in seen {
            let name = label(name);
            let waits = Waits { count: *count, ns: *ns };
            if name == OTHER || !self.has_room(&name, *ns, most) {
                self.rest.add(waits);
                continue;
            }
            let lock = self.named.entry(name).or_default();
            lock.waits.add(waits);
            lock.weight += *ns as f64;
        }
        while self.named.len() > most {
            self.drop_least();
        }
    }

    fn has_room(&mut self, name: &str, ns: u64, most: usize) -> bool {
        if self.named.contains_key(name) || self.named.len() < most {
            return true;
        }
        let least = self.named.values().map(|lock| lock.weight).fold(f64::INFINITY, f64::min);
        let longer = most > 0 && ns as f64 > least;
        if longer {
            self.drop_least();
        }
        longer
    }

    fn drop_least(&mut self) {
        let least = self.named.iter().min_by(|a, b| a.1.weight.total_cmp(&b.1.weight)).map(|(name, _)| name.clone());
        if let Some(lock) = least.and_then(|name| self.named.remove(&name)) {
            self.rest.add(lock.waits);
        }
    }
}

impl Waits {
    fn add(&mut self, more: Waits) {
        self.count = self.count.saturating_add(more.count);
        self.ns = self.ns.saturating_add(more.ns);
    }
}

/// What the service tells of itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Own {
    /// CPU time of the service and of its recordings so far.
    pub cpu: Duration,
    /// Memory of the service, and the most that a recording took.
    pub resident_bytes: u64,
    /// The share of one CPU that it may use.
    pub budget: f64,
    /// How often settings were read again, and refused.
    pub reloads: (u64, u64),
    /// Exports that failed.
    pub export_failures: u64,
    /// Recordings that could not be kept.
    pub keep_failures: u64,
}

/// All figures.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    targets: BTreeMap<String, Target>,
    /// About the service.
    pub own: Own,
}

/// A name as a label: no control characters, and not endless.
fn label(name: &str) -> String {
    let clean = text::clean(name);
    match clean.char_indices().nth(MOST_LETTERS) {
        Some((at, _)) => format!("{}...", &clean[..at]),
        None => clean,
    }
}

impl Figures {
    /// Only these targets, new ones and those of before.
    pub fn keep(&mut self, names: &[&str]) {
        self.targets.retain(|name, _| names.contains(&name.as_str()));
        for name in names {
            self.targets.entry((*name).to_owned()).or_default();
        }
    }

    /// Adds what came of a turn that began then; a target that is watched no more is forgotten.
    pub fn add(&mut self, name: &str, began: Duration, turn: &Turn, profile: Vec<u8>, most_locks: usize) {
        let Some(target) = self.targets.get_mut(name) else { return };
        target.turns = (target.turns.1, Some(began));
        match turn {
            Ok(seen) => {
                target.add(seen, most_locks);
                let fits = !profile.is_empty() && profile.len() <= MOST_PROFILE;
                target.profile = fits.then(|| (began, profile.into()));
                self.own.export_failures += u64::from(seen.not_exported.is_some());
                self.own.keep_failures += u64::from(seen.not_kept.is_some());
            }
            Err((reason, _)) => {
                target.up = false;
                *target.failures.entry(*reason).or_default() += 1;
            }
        }
        self.forget_profiles();
    }

    /// The oldest go where all together are too large.
    fn forget_profiles(&mut self) {
        let size = |target: &Target| target.profile.as_ref().map_or(0, |(_, bytes)| bytes.len());
        while self.targets.values().map(size).sum::<usize>() > MOST_PROFILES {
            let kept = self.targets.values_mut().filter(|target| target.profile.is_some());
            let Some(oldest) = kept.min_by_key(|target| target.profile.as_ref().map(|(began, _)| *began)) else {
                return;
            };
            oldest.profile = None;
        }
    }

    /// The last profile of a target; `None` if there is no such target, an inner one if there is no profile.
    pub fn profile(&self, name: &str) -> Option<Option<Arc<[u8]>>> {
        self.targets.get(name).map(|target| target.profile.as_ref().map(|(_, bytes)| bytes.clone()))
    }

    /// The names of the targets.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.targets.keys().map(String::as_str)
    }

    /// As OpenMetrics 1.0 has them.
    pub fn openmetrics(&self) -> String {
        self.text(true)
    }

    /// As the text format of Prometheus 0.0.4 has them, which older scrapers and people take.
    pub fn plain(&self) -> String {
        self.text(false)
    }

    fn text(&self, openmetrics: bool) -> String {
        let mut page = Page { openmetrics, ..Page::default() };
        self.about_targets(&mut page);
        self.about_times(&mut page);
        self.about_itself(&mut page);
        if openmetrics {
            page.text.push_str("# EOF\n");
        }
        page.text
    }

    fn about_targets(&self, page: &mut Page) {
        let each = || self.targets.iter();
        page.family("holdup_target_up", "gauge", "", "Whether the last turn recorded the target.");
        each().for_each(|(name, one)| page.sample("", &[("target", name)], f64::from(u8::from(one.up))));
        page.family("holdup_recordings", "counter", "", "Recordings of the target.");
        each().for_each(|(name, one)| page.sample("_total", &[("target", name)], one.recordings as f64));
        page.family("holdup_failures", "counter", "", "Turns without a recording.");
        for (name, one) in each() {
            for reason in Reason::ALL {
                let count = one.failures.get(&reason).copied().unwrap_or_default();
                page.sample("_total", &[("target", name), ("reason", reason.name())], count as f64);
            }
        }
        page.family("holdup_switches", "counter", "", "Times that threads left a CPU in recorded time.");
        for (name, one) in each() {
            page.sample("_total", &[("target", name), ("kind", "voluntary")], one.voluntary as f64);
            page.sample("_total", &[("target", name), ("kind", "involuntary")], one.involuntary as f64);
        }
        page.family("holdup_lock_waits", "counter", "", "Waits for locks in recorded time.");
        for (name, one) in each() {
            one.locks(&mut |lock, waits| {
                page.sample("_total", &[("target", name), ("lock", lock)], waits.count as f64)
            });
        }
        page.family("holdup_findings", "counter", "", "Recordings with a finding of the kind.");
        for (name, one) in each() {
            for (kind, (count, _)) in &one.findings {
                page.sample("_total", &[("target", name), ("kind", kind)], *count as f64);
            }
        }
        page.family("holdup_finding_share_ratio", "gauge", "ratio", "Time lost by it in the last recording, 0 to 1.");
        for (name, one) in each() {
            for (kind, (_, share)) in &one.findings {
                page.sample("", &[("target", name), ("kind", kind)], *share);
            }
        }
        page.family("holdup_doubts", "gauge", "", "Why no findings would be no all-clear, in the last recording.");
        each().for_each(|(name, one)| page.sample("", &[("target", name)], one.doubts as f64));
        page.family("holdup_lost_events", "counter", "", "Events that the kernel could not deliver.");
        each().for_each(|(name, one)| page.sample("_total", &[("target", name)], one.lost as f64));
        page.family("holdup_kept_recordings", "counter", "", "Recordings kept because a condition held.");
        each().for_each(|(name, one)| page.sample("_total", &[("target", name)], one.kept as f64));
    }

    fn about_times(&self, page: &mut Page) {
        let each = || self.targets.iter();
        page.family("holdup_recorded_seconds", "counter", "seconds", "Length of all recordings of the target.");
        each().for_each(|(name, one)| page.sample("_total", &[("target", name)], seconds(one.recorded_ns)));
        page.family("holdup_thread_seconds", "counter", "seconds", "Time of all threads in recorded time, by state.");
        for (name, one) in each() {
            for (state, ns) in &one.states {
                page.sample("_total", &[("target", name), ("state", state)], seconds(*ns));
            }
        }
        page.family("holdup_lock_wait_seconds", "counter", "seconds", "Time of waits for locks in recorded time.");
        for (name, one) in each() {
            one.locks(&mut |lock, waits| page.sample("_total", &[("target", name), ("lock", lock)], seconds(waits.ns)));
        }
        page.family("holdup_interval_seconds", "gauge", "seconds", "Time between the last two turns of the target.");
        for (name, one) in each() {
            if let (Some(before), Some(last)) = one.turns {
                page.sample("", &[("target", name)], last.saturating_sub(before).as_secs_f64());
            }
        }
        let when = "When the last recording began, since 1970.";
        page.family("holdup_last_recording_timestamp_seconds", "gauge", "seconds", when);
        for (name, one) in each() {
            if let Some(time) = one.last_unix_s {
                page.sample("", &[("target", name)], time as f64);
            }
        }
    }

    fn about_itself(&self, page: &mut Page) {
        let own = &self.own;
        page.family("holdup_build", "info", "", "The program that watches.");
        page.sample("_info", &[("version", env!("CARGO_PKG_VERSION"))], 1.0);
        page.family("holdup_watch_cpu_seconds", "counter", "seconds", "CPU time of watching, recordings included.");
        page.sample("_total", &[], own.cpu.as_secs_f64());
        page.family("holdup_watch_budget_ratio", "gauge", "ratio", "The share of one CPU that watching may use.");
        page.sample("", &[], own.budget);
        page.family("holdup_watch_resident_bytes", "gauge", "bytes", "Memory of the service.");
        page.sample("", &[], own.resident_bytes as f64);
        page.family("holdup_watch_reloads", "counter", "", "Times that settings were read again.");
        page.sample("_total", &[("result", "taken")], own.reloads.0 as f64);
        page.sample("_total", &[("result", "refused")], own.reloads.1 as f64);
        page.family("holdup_watch_export_failures", "counter", "", "Recordings whose facts could not be written.");
        page.sample("_total", &[], own.export_failures as f64);
        page.family("holdup_watch_keep_failures", "counter", "", "Recordings that could not be kept.");
        page.sample("_total", &[], own.keep_failures as f64);
    }
}

impl Target {
    fn add(&mut self, seen: &Seen, most_locks: usize) {
        self.up = true;
        self.recordings += 1;
        self.recorded_ns = self.recorded_ns.saturating_add(seen.span_ns);
        self.voluntary = self.voluntary.saturating_add(seen.voluntary);
        self.involuntary = self.involuntary.saturating_add(seen.involuntary);
        self.lost = self.lost.saturating_add(seen.lost);
        self.kept += u64::from(seen.kept.is_some());
        self.doubts = seen.doubts;
        self.last_unix_s = Some(seen.began_unix_s);
        for (state, ns) in &seen.states {
            let sum = self.states.entry(state.clone()).or_default();
            *sum = sum.saturating_add(*ns);
        }
        self.locks.add(&seen.locks, most_locks);
        self.findings.values_mut().for_each(|(_, share)| *share = 0.0);
        for (kind, share) in &seen.findings {
            let (count, last) = self.findings.entry(kind.clone()).or_default();
            (*count, *last) = (*count + 1, *share);
        }
    }

    fn locks(&self, each: &mut dyn FnMut(&str, Waits)) {
        for (name, lock) in &self.locks.named {
            each(name, lock.waits);
        }
        each(OTHER, self.locks.rest);
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// The text so far, and the family whose samples follow.
#[derive(Default)]
struct Page {
    text: String,
    family: String,
    openmetrics: bool,
}

impl Page {
    fn family(&mut self, name: &str, kind: &str, unit: &str, help: &str) {
        name.clone_into(&mut self.family);
        // Without OpenMetrics a family is called as its samples are, and knows neither units nor infos.
        let (name, kind) = match kind {
            _ if self.openmetrics => (name.to_owned(), kind),
            "counter" => (format!("{name}_total"), kind),
            "info" => (format!("{name}_info"), "gauge"),
            _ => (name.to_owned(), kind),
        };
        // Writing to a string does not fail.
        let _ = writeln!(self.text, "# TYPE {name} {kind}");
        if self.openmetrics && !unit.is_empty() {
            let _ = writeln!(self.text, "# UNIT {name} {unit}");
        }
        let _ = writeln!(self.text, "# HELP {name} {help}");
    }

    fn sample(&mut self, suffix: &str, labels: &[(&str, &str)], value: f64) {
        let labels: Vec<String> = labels.iter().map(|(key, value)| format!("{key}=\"{}\"", escaped(value))).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let _ = writeln!(self.text, "{}{suffix}{labels} {value}", self.family);
    }
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(locks: &[(&str, u64)]) -> Turn {
        let locks = locks.iter().map(|(name, ns)| ((*name).to_owned(), 1, *ns)).collect();
        Ok(Seen { span_ns: 1_000_000_000, locks, ..Seen::default() })
    }

    fn of(turns: &[Turn], most: usize) -> Figures {
        let mut figures = Figures::default();
        figures.keep(&["shop"]);
        for (turn, at) in turns.iter().zip(0..) {
            figures.add("shop", Duration::from_secs(at), turn, vec![1], most);
        }
        figures
    }

    fn samples(figures: &Figures, family: &str) -> Vec<String> {
        let begins = format!("{family}_total{{");
        figures.openmetrics().lines().filter(|line| line.starts_with(&begins)).map(str::to_owned).collect()
    }

    #[test]
    fn the_locks_with_names_are_few_and_the_sum_has_all() {
        let turns: Vec<Turn> = (0..100_u64)
            .map(|turn| {
                let names: Vec<String> = (0..40_u64).map(|lock| format!("lock {}", (turn * 7 + lock) % 90)).collect();
                let locks: Vec<(&str, u64)> =
                    names.iter().zip(1..).map(|(name, at)| (name.as_str(), at * 1_000)).collect();
                seen(&locks)
            })
            .collect();
        let mut sum = 0.0;
        let lines = samples(&of(&turns, 10), "holdup_lock_wait_seconds");
        for line in &lines {
            sum += line.rsplit(' ').next().unwrap().parse::<f64>().unwrap();
        }
        assert_eq!(lines.len(), 11, "{lines:#?}");
        assert!((sum - 100.0 * 820e-6).abs() < 1e-9, "{sum}");
    }

    #[test]
    fn a_lock_that_becomes_hot_gets_a_name_and_its_place_is_the_coldest() {
        let figures = of(&[seen(&[("cold", 5), ("warm", 50)]), seen(&[("hot", 500), ("cold", 1)])], 2);
        let lines = samples(&figures, "holdup_lock_waits").join("\n");
        assert!(lines.contains("\"hot\"") && lines.contains("\"warm\"") && !lines.contains("\"cold\""), "{lines}");
        assert!(lines.contains("lock=\"other\"} 2"), "{lines}");
        assert_eq!(samples(&of(&[seen(&[("a", 5)])], 0), "holdup_lock_waits").len(), 1);
    }

    #[test]
    fn whatever_a_program_calls_its_locks_a_label_is_one_label() {
        let long = "x".repeat(10_000);
        let figures = of(&[seen(&[("a\"} 1\nevil 2 # \\", 5), ("other", 1), (&long, 2)])], 10);
        let text = figures.openmetrics();
        assert!(text.contains(r#"lock="a\"} 1 evil 2 # \\"} 1"#), "{text}");
        assert!(text.lines().all(|line| line.starts_with("holdup_") || line.starts_with("# ")), "{text}");
        assert!(text.lines().all(|line| line.len() < 300) && text.ends_with("\n# EOF\n"));
        assert_eq!(text.matches("lock=\"other\"").count(), 2);
    }

    #[test]
    fn older_scrapers_get_the_same_samples() {
        let figures = of(&[seen(&[("a", 5)])], 5);
        let (text, plain) = (figures.openmetrics(), figures.plain());
        let samples = |text: &str| {
            let lines = text.lines().filter(|line| !line.starts_with('#'));
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(samples(&plain), samples(&text));
        assert!(plain.contains("# TYPE holdup_recordings_total counter\n") && !plain.contains("# EOF"), "{plain}");
        assert!(!plain.contains("# UNIT") && plain.contains("# TYPE holdup_build_info gauge\n"), "{plain}");
    }

    #[test]
    fn a_target_that_is_gone_is_down_and_one_that_is_watched_no_more_has_no_figures() {
        let gone = Err((Reason::NotRunning, String::new()));
        let mut figures = of(&[seen(&[]), gone], 5);
        let text = figures.openmetrics();
        assert!(text.contains("holdup_target_up{target=\"shop\"} 0\n"), "{text}");
        assert!(text.contains("holdup_failures_total{target=\"shop\",reason=\"not_running\"} 1\n"));
        assert!(text.contains("holdup_interval_seconds{target=\"shop\"} 1\n"));
        assert!(figures.profile("shop").is_some_and(|profile| profile.is_some()));
        figures.keep(&["mail"]);
        assert!(!figures.openmetrics().contains("shop") && figures.profile("shop").is_none());
    }

    #[test]
    fn profiles_take_no_more_than_their_memory() {
        let names: Vec<String> = (0..40).map(|number| format!("t{number}")).collect();
        let mut figures = Figures::default();
        figures.keep(&names.iter().map(String::as_str).collect::<Vec<_>>());
        for (name, at) in names.iter().zip(0..) {
            figures.add(name, Duration::from_secs(at), &seen(&[]), vec![0; MOST_PROFILE], 1);
        }
        let has = |name: &str| figures.profile(name).is_some_and(|profile| profile.is_some());
        assert!(!has("t0") && has("t39"));
        assert_eq!(names.iter().filter(|name| has(name)).count(), MOST_PROFILES / MOST_PROFILE);
        figures.add("t39", Duration::from_secs(99), &seen(&[]), vec![0; MOST_PROFILE + 1], 1);
        assert!(figures.profile("t39").is_some_and(|profile| profile.is_none()));
    }
}
