//! A made-up run for the tests of the reports: deterministic, with everything that can go right and wrong in it.

use holdup_bench::machine::Contamination;
use holdup_bench::sample::{Counters, CpuCounters, Latency, Sample};
use holdup_bench::sample::{Failure, FailureKind};
use holdup_bench::spec::Spec;
use holdup_run::ProcessUse;

use crate::claim::{ClaimResult, Reading, Setting, Verdict};
use crate::results::{CellRecord, RunRecord, SampleRecord};
use crate::stats::Estimate;

/// Builds a run from cells; every figure is drawn from the seed.
pub struct Specimen {
    run: RunRecord,
    random: fastrand::Rng,
}

impl Specimen {
    /// An empty run against this baseline.
    pub fn new(baseline: Option<&str>, repeats: u32) -> Specimen {
        let environment = [
            ("holdup", "0.1.0"),
            ("cpu", "Example CPU 3000"),
            ("cpus_online", "2"),
            ("cpus_allowed", "0,1"),
            ("kernel", "6.18.0"),
            ("governor", "n/a: the guest does not show it"),
        ];
        Specimen {
            run: RunRecord {
                id: 12,
                started_unix_s: 1_767_254_400,
                command: "holdup bench --lock adaptive,pthread --threads 1,2,4,8 --seed 7".to_owned(),
                seed: 7,
                baseline: baseline.map(str::to_owned),
                repeats,
                complete: true,
                environment: environment.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
                warnings: Vec::new(),
                cells: Vec::new(),
            },
            random: fastrand::Rng::with_seed(1),
        }
    }

    /// Adds a cell of so much time per operation; further factors as name and value.
    pub fn cell(&mut self, lock: &str, threads: u32, time_ns: f64, factors: &[(&str, &str)]) -> &mut CellRecord {
        let mut spec = Spec { lock: lock.to_owned(), threads, ..Spec::default() };
        for (name, value) in factors {
            spec.set(name, value).unwrap();
        }
        let group = group_number(&self.run.cells, &spec);
        let repeats = self.run.repeats;
        let samples = (0..repeats)
            .map(|repeat| {
                let sample = self.sample(&spec, time_ns);
                record(repeat, group, Ok(sample), self.run.cells.len() as u32)
            })
            .collect();
        self.run.cells.push(CellRecord { sweep: String::new(), spec, samples });
        self.run.cells.last_mut().unwrap()
    }

    /// Adds a cell whose every run fails.
    pub fn failing(&mut self, lock: &str, threads: u32, kind: FailureKind, detail: &str) -> &mut CellRecord {
        let cell = self.cell(lock, threads, 1.0, &[]);
        for sample in &mut cell.samples {
            sample.outcome = Err(Failure { kind, detail: detail.to_owned() });
        }
        cell
    }

    /// The run.
    pub fn run(&mut self) -> &mut RunRecord {
        &mut self.run
    }

    fn sample(&mut self, spec: &Spec, time_ns: f64) -> Sample {
        let elapsed_ns = 200_000_000u64 + self.random.u64(..50_000);
        let time_ns = time_ns * (0.97 + 0.06 * self.random.f64());
        let ops = (elapsed_ns as f64 / time_ns) as u64;
        let threads = u64::from(spec.threads);
        let uneven = |thread: u64| ops / threads + (ops / threads / 10) * thread / threads;
        let contended = threads > 1 && spec.lock != "none";
        Sample {
            elapsed_ns,
            user_ns: elapsed_ns * threads.min(2) * 9 / 10,
            kernel_ns: if contended { elapsed_ns / 7 } else { 40_000 },
            voluntary_switches: Some(if contended { ops / 20 } else { 0 }),
            involuntary_switches: Some(threads * 3),
            minor_faults: Some(12),
            major_faults: Some(0),
            thread_ops: (0..threads).map(uneven).collect(),
            thread_finish_ns: (0..threads).map(|thread| elapsed_ns - thread * 1_000).collect(),
            acquisitions: ops,
            unit_ns: 0.42,
            hold_ns_mean: 0.0,
            gap_ns_mean: 0.0,
            latency: spec.latency.then_some(Latency {
                count: ops / 64,
                sampled_every: 64,
                p50_ns: (time_ns * 1.1) as u64,
                p90_ns: (time_ns * 3.0) as u64,
                p99_ns: (time_ns * 40.0) as u64,
                p999_ns: (time_ns * 900.0) as u64,
                max_ns: (time_ns * 20_000.0) as u64,
                clock_ns: 41.5,
                cost_share: 0.012,
                ..Latency::default()
            }),
            ..Sample::default()
        }
    }
}

fn record(repeat: u32, group: u32, outcome: Result<Sample, Failure>, cell: u32) -> SampleRecord {
    SampleRecord {
        repeat,
        block: repeat * 100 + group,
        order: repeat * 1_000 + group * 50 + cell,
        outcome,
        process: ProcessUse {
            elapsed_ns: 231_000_000,
            user_ns: 380_000_000,
            kernel_ns: 21_000_000,
            voluntary_switches: Some(4_000),
            involuntary_switches: Some(80),
            minor_faults: Some(310),
            major_faults: Some(0),
            max_rss_bytes: 4_194_304,
        },
        contamination: Contamination { background_share: 0.01, steal_share: 0.002 },
        rejected: false,
    }
}

/// Cells that differ only in their lock have one number.
fn group_number(cells: &[CellRecord], spec: &Spec) -> u32 {
    let key = |spec: &Spec| Spec { lock: String::new(), ..spec.clone() };
    let mut keys: Vec<Spec> = Vec::new();
    for cell in cells {
        if !keys.contains(&key(&cell.spec)) {
            keys.push(key(&cell.spec));
        }
    }
    keys.iter().position(|known| *known == key(spec)).unwrap_or(keys.len()) as u32
}

/// Locks by threads, one failed and one unsupported lock, disturbed runs, a warning.
pub fn full() -> RunRecord {
    let mut specimen = Specimen::new(Some("pthread"), 5);
    for (threads, slow) in [(1, 1.0), (2, 4.0), (4, 5.5), (8, 7.0)] {
        specimen.cell("none", threads, 5.2 / f64::from(threads.min(2)), &[]);
        specimen.cell("pthread", threads, 24.1 * slow, &[]);
        specimen.cell("adaptive", threads, if threads == 1 { 21.0 } else { 13.0 * slow }, &[]);
        specimen.cell("std", threads, 24.3 * slow, &[]);
        specimen.cell("ticket", threads, if threads <= 2 { 12.0 * slow } else { 620.0 * slow }, &[]);
        match threads {
            8 => specimen.failing("ttas", 8, FailureKind::Hang, "no end within 10s; the worker was ended"),
            _ => specimen.cell("ttas", threads, 13.0 * slow, &[]),
        };
        specimen.failing("ntsync", threads, FailureKind::Unsupported, "the kernel has no /dev/ntsync");
    }
    let run = specimen.run();
    run.cells[8].samples[2].rejected = true;
    run.cells[8].samples[3].rejected = true;
    for sample in &mut run.cells[4].samples {
        sample.rejected = true;
    }
    run.warnings.push((
        "load".to_owned(),
        "The load average was 1.7 on 2 CPUs before the run; other programs may have slowed it down.".to_owned(),
    ));
    run.clone()
}

/// A core on which everything was counted.
fn core() -> CpuCounters {
    CpuCounters {
        cpu: 1,
        socket: Some(0),
        cycles: 600_000_000,
        instructions: 900_000_000,
        reference_cycles: Some(500_000_000),
        nominal_cycles: Some(1_000_000_000),
        l2_references: Some(80_000),
        l2_misses: Some(8_000),
        l3_references: Some(8_000),
        l3_misses: Some(4_200),
    }
}

/// Two workload factors besides the lock, with latency, counters and extra figures.
pub fn deep() -> RunRecord {
    let mut specimen = Specimen::new(Some("pthread"), 3);
    for hold in ["0", "100ns", "1us"] {
        for gap in ["0", "500ns"] {
            for threads in [1, 2, 4] {
                for (lock, factor) in [("pthread", 1.0), ("parking-lot-fair", 1.4)] {
                    let base = 30.0 + 40.0 * f64::from(threads) + if hold == "1us" { 1_000.0 } else { 0.0 };
                    let factors = [("hold", hold), ("gap", gap), ("latency", "on")];
                    specimen.cell(lock, threads, base * factor, &factors);
                }
            }
        }
    }
    let run = specimen.run();
    for sample in run.cells.iter_mut().flat_map(|cell| &mut cell.samples) {
        if let Ok(sample) = &mut sample.outcome {
            sample.counters = Some(Counters {
                cycles: 600_000_000,
                instructions: 900_000_000,
                cache_misses: 4_200,
                cpus: vec![core()],
            });
            sample.extra.push(("round_trips_per_s".to_owned(), 1234.5));
        }
    }
    run.clone()
}

/// One cell, one run, nothing to compare with.
pub fn single() -> RunRecord {
    let mut specimen = Specimen::new(None, 1);
    specimen.cell("pthread", 4, 130.0, &[]);
    specimen.run().clone()
}

/// Names that try to break out of tables, cells, tags and scripts.
pub fn hostile() -> RunRecord {
    let mut specimen = Specimen::new(Some("pthread"), 5);
    let name = "=cmd|'/C calc'!A0,\"</script><img src=x onerror=alert(1)>\u{202e}\u{1b}[2J";
    specimen.cell("pthread", 2, 100.0, &[]);
    specimen.cell(name, 2, 80.0, &[]);
    specimen.failing("</td>&amp;", 2, FailureKind::Crash, "signal 11\r\n<b>'\u{0}\u{2028}");
    let run = specimen.run();
    run.command = format!("holdup bench --lock {name}");
    run.environment.push(("kernel \"x\"".to_owned(), "</style><script>alert(2)</script>".to_owned()));
    run.warnings.push(("<code>".to_owned(), "https://example.org/ & 'more'".to_owned()));
    run.cells[0].sweep = "]]> <!-- sweep".to_owned();
    run.cells[1].sweep = "]]> <!-- sweep".to_owned();
    run.clone()
}

/// A claim of each verdict, one of them close.
pub fn claims() -> Vec<ClaimResult> {
    let claim = |id: &str, experiment: &str, words: [&str; 4], verdict, close, figure| ClaimResult {
        id: id.to_owned(),
        experiment: experiment.to_owned(),
        claim: words[0].to_owned(),
        published: words[1].to_owned(),
        setting: Setting { on: "four processors".to_owned(), same: "the loop".to_owned(), not_same: String::new() },
        then: Reading { measured: words[2].to_owned(), figure, verdict, close, why: words[3].to_owned() },
        now: None,
    };
    let figure = |median, low, high| Some(Estimate { median, low, high, n: 5 });
    let mut all = vec![
        claim(
            "I1",
            "intel-2009",
            [
                "On one thread the always-in-kernel lock costs several times the critical section's time on the free \
                 list.",
                "5.2x",
                "21.4x",
                "The whole interval lies above 2, the threshold of the claim.",
            ],
            Verdict::Holds,
            false,
            figure(21.4, 20.9, 22.3),
        ),
        claim(
            "I8",
            "intel-2009",
            ["xchg and cmpxchg cost the same.", "", "1.11", "The interval reaches across 1.1."],
            Verdict::Differs,
            true,
            figure(1.11, 1.04, 1.19),
        ),
        claim(
            "K3",
            "kraus-2014",
            [
                "Per-core counters show it: instructions per cycle drop, cache misses rise on one core.",
                "IPC 0.29 against 2.0",
                "",
                "This machine shows no hardware counters to an ordinary user.",
            ],
            Verdict::NotMeasurable,
            false,
            None,
        ),
    ];
    all[0].now = Some(Reading {
        measured: "1.05x".to_owned(),
        figure: figure(1.05, 0.98, 1.11),
        verdict: Verdict::Differs,
        close: true,
        why: "Today's lock enters the kernel too.".to_owned(),
    });
    all
}
