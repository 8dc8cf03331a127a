//! A measured run's hardware counters per core, cell by cell.

use std::collections::BTreeMap;

use holdup_analyze::Efficiency;
use holdup_bench::sample::CpuCounters;
use holdup_trace::Counter;

use super::cores::{self, Core};
use super::document::Document;
use super::figures;
use crate::results::{CellRecord, RunRecord};

type Counts = BTreeMap<Counter, u64>;

/// The table of each cell; or why there is none.
pub fn view(run: &RunRecord) -> Document {
    let mut view = Document::default();
    view.headline("Hardware counters per core");
    let cells: Vec<(&CellRecord, Vec<Core>)> = run.cells.iter().map(|cell| (cell, rows(cell))).collect();
    for (cell, rows) in cells.iter().filter(|(_, rows)| !rows.is_empty()) {
        view.gap();
        view.paragraph(figures::name_of(run, cell));
        view.table(cores::table(rows));
    }
    let all: Vec<Core> = cells.into_iter().flat_map(|(_, rows)| rows).collect();
    view.append(cores::notes(&all, missing(run).as_deref()));
    view
}

/// Whether any cell has counters of a core.
pub fn are_known(run: &RunRecord) -> bool {
    run.cells.iter().any(|cell| !rows(cell).is_empty())
}

/// Why there are no counters, as the end of a sentence that begins with them.
fn missing(run: &RunRecord) -> Option<String> {
    let (_, value) = run.environment.iter().find(|(name, _)| name == "counters")?;
    match value.strip_prefix("n/a (") {
        Some(why) => Some(format!("cannot be had here: {}", why.strip_suffix(')').unwrap_or(why))),
        None => Some("were not counted per core: too many threads on too many CPUs".to_owned()),
    }
}

/// Cores, sockets where there are several cores, and all together, over the cell's counted runs.
fn rows(cell: &CellRecord) -> Vec<Core> {
    let mut cores: BTreeMap<u32, (Option<u32>, Counts)> = BTreeMap::new();
    let samples = cell.counted().filter_map(|(_, sample)| sample.counters.as_ref());
    for core in samples.flat_map(|counters| &counters.cpus) {
        let (socket, sums) = cores.entry(core.cpu).or_default();
        *socket = core.socket;
        add(sums, &counts(core));
    }
    let mut sockets: BTreeMap<u32, Counts> = BTreeMap::new();
    let mut all = Counts::new();
    for (socket, counts) in cores.values() {
        if let Some(socket) = socket {
            add(sockets.entry(*socket).or_default(), counts);
        }
        add(&mut all, counts);
    }
    if cores.is_empty() {
        return Vec::new();
    }
    let row = |name: String, counts: &Counts| Core { name, busy: None, efficiency: Efficiency::of(counts) };
    let cores = cores.iter().map(|(cpu, (_, counts))| row(format!("core {cpu}"), counts));
    let sockets = sockets.iter().map(|(socket, counts)| row(format!("socket {socket}"), counts));
    cores.chain(sockets).chain([row("all".to_owned(), &all)]).collect()
}

fn add(sums: &mut Counts, counts: &Counts) {
    for (counter, count) in counts {
        *sums.entry(*counter).or_default() += count;
    }
}

fn counts(core: &CpuCounters) -> Counts {
    let all = [
        (Counter::Cycles, Some(core.cycles)),
        (Counter::Instructions, Some(core.instructions)),
        (Counter::ReferenceCycles, core.reference_cycles),
        (Counter::NominalCycles, core.nominal_cycles),
        (Counter::L2References, core.l2_references),
        (Counter::L2Misses, core.l2_misses),
        (Counter::L3References, core.l3_references),
        (Counter::L3Misses, core.l3_misses),
    ];
    all.into_iter().filter_map(|(counter, count)| Some((counter, count?))).collect()
}

#[cfg(test)]
mod tests {
    use holdup_bench::sample::Counters;

    use super::*;
    use crate::report::Style;
    use crate::report::specimen::Specimen;

    fn text(cpus: Vec<CpuCounters>, counters: &str) -> String {
        let mut specimen = Specimen::new(None, 1);
        let cell = specimen.cell("pthread", 2, 5.0, &[]);
        for record in &mut cell.samples {
            if let Ok(sample) = &mut record.outcome {
                sample.counters = (!cpus.is_empty()).then(|| Counters { cpus: cpus.clone(), ..Counters::default() });
            }
        }
        specimen.run().environment = vec![("counters".to_owned(), counters.to_owned())];
        super::view(specimen.run()).terminal(&Style::default())
    }

    #[test]
    fn cores_sockets_and_all_are_told() {
        let core = |cpu, instructions| CpuCounters {
            cpu,
            socket: Some(0),
            cycles: 100,
            instructions,
            ..CpuCounters::default()
        };
        let text = text(vec![core(0, 150), core(1, 50)], "yes");
        for (name, per_cycle) in [("core 0", "1.50"), ("core 1", "0.50"), ("socket 0", "1.00"), ("all", "1.00")] {
            let row = text.lines().find(|line| line.trim_start().starts_with(name)).unwrap_or_else(|| panic!("{text}"));
            assert!(row.contains(per_cycle), "{row}");
        }
    }

    #[test]
    fn without_counters_the_reason_is_told() {
        let text = text(Vec::new(), "n/a (perf_event_open: No such file or directory)");
        assert!(text.contains("n/a: hardware counters cannot be had here: perf_event_open: No such file"), "{text}");
    }
}
