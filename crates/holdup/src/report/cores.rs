//! What hardware counters say per core, per socket and of all: one table for recordings and for measured runs.

use holdup_analyze::Efficiency;

use super::document::{Column, Document, Table};
use super::number;

/// A row of the table.
#[derive(Clone, Debug)]
pub struct Core {
    /// Which: `core 3`, `socket 0`, `all`.
    pub name: String,
    /// Share of the time in which threads of the program ran there, where that is known.
    pub busy: Option<f64>,
    /// What its counters say.
    pub efficiency: Efficiency,
}

const ABSENT: &str = "n/a";

/// The table, and what is to be said of it: see [`notes`].
pub fn view(cores: &[Core], missing: Option<&str>) -> Document {
    let mut view = Document::default();
    view.table(table(cores));
    view.append(notes(cores, missing));
    view
}

/// A row per core.
pub fn table(cores: &[Core]) -> Table {
    let has_busy = cores.iter().any(|core| core.busy.is_some());
    let mut columns = vec![Column::left("").key()];
    columns.extend(has_busy.then(|| Column::right("busy")));
    let heads = ["IPC\nnominal", "\nIPC", "\nfreq", "freq\nawake", "L2\nmiss", "L3\nmiss", "L2\nhit"];
    let costs = ["L3\nhit", "lost\nL2", "lost\nL3"];
    columns.extend(heads.into_iter().chain(costs).map(Column::right));
    let mut table = Table::new(columns).named("Cores");
    for core in cores {
        let mut row = vec![core.name.clone()];
        row.extend(has_busy.then(|| share(core.busy)));
        row.extend(figures(&core.efficiency));
        table.row(row);
    }
    table
}

/// What the columns mean, and why there are no figures where there are none: `missing` is that, as the end of a
/// sentence that begins with the counters.
pub fn notes(cores: &[Core], missing: Option<&str>) -> Document {
    let mut notes = Document::default();
    notes.gap();
    if !cores.iter().any(|core| core.efficiency.is_known()) {
        notes.paragraph(format!("{ABSENT}: hardware counters {}.", missing.unwrap_or("were not recorded")));
        return notes;
    }
    if cores.iter().any(|core| core.efficiency.lost_to_l3_misses.is_none()) {
        notes.paragraph(format!("{ABSENT}: this processor does not count it per thread."));
    }
    notes.paragraph(
        "In user mode. IPC: instructions per cycle, and per cycle at the nominal frequency, asleep or not; freq: cycles \
         per nominal cycle, and of the time in which the core is awake; miss, hit: of references to the second and third \
         cache; lost: share of the cycles lost to references that miss the second and hit the third, and that miss the \
         third, at about 35 and 180 cycles each.",
    );
    notes
}

fn figures(of: &Efficiency) -> [String; 10] {
    let plain = |value: Option<f64>| value.map_or_else(|| ABSENT.to_owned(), |value| format!("{value:.2}"));
    let count = |value: Option<u64>| value.map_or_else(|| ABSENT.to_owned(), |value| number::scaled(value as f64));
    [
        plain(of.instructions_per_nominal_cycle),
        plain(of.instructions_per_cycle),
        plain(of.frequency),
        plain(of.active_frequency),
        count(of.l2_misses),
        count(of.l3_misses),
        share(of.l2_hit_ratio),
        share(of.l3_hit_ratio),
        share(of.lost_to_l2_misses),
        share(of.lost_to_l3_misses),
    ]
}

fn share(value: Option<f64>) -> String {
    value.map_or_else(|| ABSENT.to_owned(), number::percent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Style;

    #[test]
    fn a_machine_with_counters_fills_the_table() {
        let efficiency = Efficiency {
            instructions_per_nominal_cycle: Some(0.4),
            instructions_per_cycle: Some(1.25),
            frequency: Some(0.32),
            active_frequency: Some(1.1),
            l2_misses: Some(12_300),
            l3_misses: Some(1_200),
            l2_hit_ratio: Some(0.9),
            l3_hit_ratio: Some(0.8),
            lost_to_l2_misses: Some(0.05),
            lost_to_l3_misses: Some(0.02),
        };
        let core = |name: &str| Core { name: name.to_owned(), busy: Some(0.5), efficiency };
        let text = view(&[core("core 0"), core("socket 0"), core("all")], None).terminal(&Style::default());
        for word in ["core 0", "socket 0", "all", "0.40", "1.25", "1.10", "12.3", "90%", "80%", "5%", "50%"] {
            assert!(text.contains(word), "{word}: {text}");
        }
        assert!(!text.contains(ABSENT), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }

    #[test]
    fn a_machine_without_counters_says_why() {
        let core = Core { name: "core 0".to_owned(), busy: None, efficiency: Efficiency::default() };
        let text = view(&[core], Some("are not there: this machine shows none")).terminal(&Style::default());
        assert!(text.contains("n/a: hardware counters are not there"), "{text}");
    }
}
