//! The profile of a program's locks as a table: the ones that threads lost most time with first.

use holdup_control::{BUCKETS, Profile};

use super::super::document::{Column, Document, Ink, Table, ink};
use super::super::number;
use super::super::recording::{more, share};
use super::lock;
use crate::interposer::figures::Durations;
use crate::interposer::naming::{Named, NamedLock};
use crate::text;

/// Places that are named under a lock.
const PLACES: usize = 3;

/// The table of one process.
pub fn profile(named: &Named, limit: usize) -> Document {
    let rows = ranked(named);
    let mut view = Document::default();
    view.headline(headline(named));
    if rows.is_empty() {
        view.paragraph("No lock was met.");
        return view;
    }
    let timed = named.profile >= Profile::Sampled as u32;
    let heads = if timed { &TIMED[..] } else { &COUNTED };
    // The name stands above its figures: they leave it no room.
    let mut table =
        Table::new([Column::left("").at_least(2)].into_iter().chain(heads.iter().map(|head| Column::right(head))));
    for row in rows.iter().take(limit) {
        let line = table.row(if timed { row.timed() } else { row.counted() });
        line.above(ink(Ink::Bold, &row.name) + about(row));
        if let Some(places) = row.places() {
            line.below(format!("in {places}"));
        }
    }
    view.table(table);
    more(&mut view, rows.len(), limit, "lock");
    if named.locks_beyond > 0 {
        view.paragraph(format!(
            "{} locks found no room for a record of their own: 'all further locks'.",
            number::count(named.locks_beyond as f64)
        ));
    }
    view
}

const TIMED: [&str; 10] = ["waited", "p50", "p99", "max", "held", "p50", "p99", "max", "taken", "cont."];

const COUNTED: [&str; 4] = ["taken", "contended", "share", "slept"];

fn headline(named: &Named) -> String {
    let program = named.program.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let how = match named.profile {
        profile if profile == Profile::Full as u32 => "every wait and hold was timed",
        profile if profile == Profile::Sampled as u32 => {
            "one acquisition in 16 was timed: times are estimates, counts are exact"
        }
        profile if profile == Profile::Count as u32 => "counts are exact, nothing was timed",
        _ => "only locks that were waited for",
    };
    format!("Locks of {program} (process {}); {how}", named.pid)
}

/// Locks that bear the same name: those of one variable or place.
struct Row<'a> {
    name: String,
    locks: Vec<&'a NamedLock>,
    wait: Sum,
    hold: Sum,
    acquisitions: u64,
    contended: u64,
    slept: u64,
}

/// Durations of several locks together.
#[derive(Default)]
struct Sum {
    total_ns: u64,
    durations: Durations,
}

impl Sum {
    fn add(&mut self, other: &Durations) {
        self.total_ns = self.total_ns.saturating_add(other.total_ns());
        self.durations.count += other.count;
        self.durations.max_ns = self.durations.max_ns.max(other.max_ns);
        for index in 0..BUCKETS {
            let sum = &mut self.durations.buckets[index];
            *sum = sum.saturating_add(other.buckets[index]);
        }
    }

    /// Total, median, 99th percentile, longest; dashes where nothing was timed.
    fn cells(&self) -> [String; 4] {
        if self.durations.count == 0 {
            return ["-"; 4].map(str::to_owned);
        }
        let time = |ns: u64| number::time_ns(ns as f64);
        let quantile = |share| time(self.durations.quantile_ns(share));
        [time(self.total_ns), quantile(0.5), quantile(0.99), time(self.durations.max_ns)]
    }
}

impl Row<'_> {
    fn timed(&self) -> Vec<String> {
        let counts = [number::count(self.acquisitions as f64), self.contention()];
        let indent = std::iter::once(String::new());
        indent.chain(self.wait.cells()).chain(self.hold.cells()).chain(counts).collect()
    }

    fn counted(&self) -> Vec<String> {
        let count = |n: u64| number::count(n as f64);
        vec![String::new(), count(self.acquisitions), count(self.contended), self.contention(), count(self.slept)]
    }

    fn contention(&self) -> String {
        number::percent(share(self.contended, self.acquisitions))
    }

    /// Where threads waited for it: by time, or where none was taken by number.
    fn places(&self) -> Option<String> {
        let mut places: Vec<(String, u64)> = Vec::new();
        let timed = self.wait.total_ns > 0;
        for (place, site) in self.locks.iter().flat_map(|one| one.sites.iter().zip(&one.figures.sites)) {
            let weight = if timed { site.wait_ns } else { site.contended };
            let place = lock::place(place.as_ref());
            match places.iter_mut().find(|(known, _)| *known == place) {
                Some((_, sum)) => *sum += weight,
                None => places.push((place, weight)),
            }
        }
        places.sort_by_key(|(_, weight)| std::cmp::Reverse(*weight));
        let all: u64 = places.iter().map(|(_, weight)| weight).sum();
        let shown = places.iter().filter(|(_, weight)| *weight > 0).take(PLACES);
        let shown: Vec<String> =
            shown.map(|(place, weight)| format!("{place} ({})", number::percent(share(*weight, all)))).collect();
        (!shown.is_empty()).then(|| text::list(&shown))
    }
}

/// What stands behind the name.
fn about(row: &Row<'_>) -> String {
    let mut parts = Vec::new();
    if let [one] = row.locks[..]
        && one.figures.addr == 0
    {
        parts.push("together".to_owned());
    } else if let [one] = row.locks[..] {
        parts.push(lock::kind(one).to_owned());
        parts.push(number::counted(one.figures.threads as usize, "thread"));
    } else {
        parts.push(format!("{} locks", row.locks.len()));
        let most = row.locks.iter().map(|one| one.figures.threads).max().unwrap_or(0);
        parts.push(format!("up to {} each", number::counted(most as usize, "thread")));
    }
    let ruled = row.locks.iter().filter(|one| !one.figures.tripped);
    let mut policies: Vec<String> =
        ruled.filter_map(|one| one.figures.policy).map(|policy| policy.to_string()).collect();
    policies.dedup();
    if !policies.is_empty() {
        parts.push(format!("by rule {}", policies.join(" or ")));
    }
    if row.locks.iter().any(|one| one.figures.tripped) {
        parts.push("given back to glibc by the watchdog".to_owned());
    }
    format!(": {}", parts.join(", "))
}

/// By the time that threads lost with them, then by what else tells trouble.
fn ranked(named: &Named) -> Vec<Row<'_>> {
    let mut rows: Vec<Row<'_>> = Vec::new();
    let mut by_name = std::collections::HashMap::new();
    for one in &named.locks {
        let name = lock::name_of(one);
        let index = *by_name.entry(name.clone()).or_insert_with(|| {
            let (wait, hold) = (Sum::default(), Sum::default());
            rows.push(Row { name, locks: Vec::new(), wait, hold, acquisitions: 0, contended: 0, slept: 0 });
            rows.len() - 1
        });
        let row = &mut rows[index];
        row.locks.push(one);
        row.wait.add(&one.figures.wait);
        row.hold.add(&one.figures.hold);
        row.acquisitions += one.figures.acquisitions;
        row.contended += one.figures.contended;
        row.slept += one.figures.slept;
    }
    let weight = |row: &Row<'_>| (row.wait.total_ns, row.contended, row.acquisitions);
    rows.sort_by_key(|row| std::cmp::Reverse(weight(row)));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interposer::figures::OwnPolicy;
    use crate::interposer::figures::{Lock, Site};
    use crate::report::Style;
    use holdup_analyze::LockName;
    use holdup_control::Policy;

    fn lock_named(name: &str, wait_ns: u64) -> NamedLock {
        let mut wait = Durations { count: 10, ns: wait_ns, max_ns: wait_ns / 2, ..Durations::default() };
        wait.buckets[10] = 10;
        let figures = Lock {
            addr: 0x1000,
            acquisitions: 1000,
            contended: 10,
            threads: 4,
            wait: wait.clone(),
            hold: wait,
            sites: vec![Site { addr: 0, contended: 10, wait_ns }],
            ..Lock::default()
        };
        let variable = LockName::Symbol { name: name.to_owned(), offset: 0 };
        NamedLock { figures, variable: Some(variable), sites: vec![None], ..NamedLock::default() }
    }

    fn named(profile: Profile, locks: Vec<NamedLock>) -> Named {
        Named { pid: 7, program: "/bin/server".into(), profile: profile as u32, locks_beyond: 0, locks }
    }

    #[test]
    fn the_lock_that_costs_most_comes_first_and_no_line_is_too_wide() {
        let mut ruled = lock_named("g_second", 4000);
        ruled.figures.policy = Some(OwnPolicy::Mutex(Policy::Throttle(2)));
        let of = named(Profile::Full, vec![lock_named("g_third", 3000), ruled, lock_named("g_first", 5_000_000)]);
        let text = profile(&of, 2).terminal(&Style::default());
        let at = |name: &str| text.find(name).unwrap_or(usize::MAX);
        assert!(at("g_first") < at("g_second") && at("g_second") < at("g_third"), "{text}");
        assert!(text.contains("by rule throttle:2") && text.contains("1 lock more"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }

    #[test]
    fn estimates_are_said_to_be_some() {
        let text = |profile_of| profile(&named(profile_of, vec![lock_named("a", 5)]), 10).terminal(&Style::default());
        assert!(text(Profile::Sampled).contains("estimates"));
        assert!(!text(Profile::Full).contains("estimates"));
        assert!(!text(Profile::Count).contains("p99"));
    }

    #[test]
    fn locks_of_one_name_are_one_row() {
        let of = named(Profile::Full, vec![lock_named("s_bucket", 10), lock_named("s_bucket", 20)]);
        let text = profile(&of, 10).terminal(&Style::default());
        assert!(text.contains("2 locks") && text.contains("2.00k"), "{text}");
        assert_eq!(text.matches("s_bucket").count(), 1, "{text}");
    }
}
