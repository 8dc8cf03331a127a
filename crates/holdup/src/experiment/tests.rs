//! The carried experiments load and are complete; claims over made-up runs get the right verdicts; no file makes it
//! panic.

use holdup_bench::machine::Contamination;
use holdup_bench::sample::Sample;
use holdup_bench::sample::{Failure, FailureKind};
use holdup_bench::spec::Spec;
use holdup_run::ProcessUse;

use super::evaluate::evaluate;
use super::expr::{Expr, Unit};
use super::machine::Machine;
use super::*;
use crate::claim::{Reading, Verdict};
use crate::plan::Plan;
use crate::results::{CellRecord, RunRecord, SampleRecord};

/// Every row of the sources' claims.
const ROWS: [&str; 40] = [
    "H1", "H2", "H3", "H4", "H5", "H6", "H7", "H8", "H9", "H10", "H11", "H12", "H13", "H14", "H15", "H16", "H17",
    "H18", "I1", "I2", "I3", "I4", "I5", "I6", "I7", "I8", "I9", "I10", "I11", "E1", "E2", "E3", "E4", "K1", "K2",
    "K3", "K4", "S1", "S2", "S3",
];

fn machine(cpus: u32) -> Machine {
    Machine { cpus, counters: false, arch: "x86_64".to_owned() }
}

#[test]
fn every_claim_of_the_sources_is_declared_exactly_once() {
    let experiments = published().unwrap_or_else(|error| panic!("{error}"));
    let declared: Vec<&str> = experiments.iter().flat_map(|e| &e.claims).map(|claim| claim.id.as_str()).collect();
    for row in ROWS {
        assert_eq!(declared.iter().filter(|id| **id == row).count(), 1, "{row}");
    }
    assert_eq!(declared.len(), ROWS.len());
    assert_eq!(all().map(|all| all.len()), Ok(EMBEDDED.len()));
}

#[test]
fn all_published_experiments_end_within_eight_minutes_with_quick() {
    let experiments = published().unwrap_or_else(|error| panic!("{error}"));
    let (mut runs, mut time) = (0, Duration::ZERO);
    for experiment in &experiments {
        let (n, more) = experiment.planned(true, None, &machine(2));
        let (full_n, full) = experiment.planned(false, None, &machine(2));
        println!("{:<10} quick {n:>5} runs {more:>7.0?}, full {full_n:>5} runs {full:>7.0?}", experiment.name);
        assert!(n > 0 && full > more);
        (runs, time) = (runs + n, time + more);
    }
    println!("together {runs} runs, {time:.0?}");
    assert!(time < Duration::from_secs(8 * 60), "{time:?}");
}

#[test]
fn every_published_claim_says_on_what_and_what_of_that_is_the_same_here() {
    for claim in published().unwrap_or_else(|error| panic!("{error}")).iter().flat_map(|e| &e.claims) {
        let setting = &claim.setting;
        assert!(![&setting.on, &setting.same, &setting.not_same].iter().any(|said| said.is_empty()), "{}", claim.id);
    }
}

#[test]
fn every_published_claim_has_a_comment_on_what_it_keeps() {
    for (path, text) in EMBEDDED.iter().filter(|(_, text)| !text.contains("holdup's own goals")) {
        let lines: Vec<&str> = text.lines().collect();
        for (at, _) in lines.iter().enumerate().filter(|(_, line)| **line == "[[claim]]") {
            assert!(lines[at - 1].starts_with("# Kept: "), "{path}:{}: {}", at + 1, lines[at - 1]);
        }
    }
}

const FILE: &str = r#"
[experiment]
name = "small"
title = "A small one"

[series]
mutex = "pthread"

[[sweep]]
name = "t"
lock = ["none", "mutex"]
threads = [1, 2, 4]
repeats = 9

[[sweep]]
name = "wide"
lock = "mutex"
threads = 4
cpus = 4
needs = { cpus = 4 }
"#;

const WORDS: &str = r#"
claim = "c"
why_holds = "yes"
why_differs = "no"
"#;

/// An experiment with one claim of this check.
fn with_claim(check: &str, show: &str, more: &str) -> Result<Experiment, file::FileError> {
    let claim = format!("[[claim]]\nid = 'X'\nsweep = 't'\ncheck = '{check}'\nshow = '{show}'\n{more}{WORDS}");
    file::parse("small.toml", &format!("{FILE}\n{claim}"))
}

/// What a cell of the made-up run gives.
type Outcome = Result<Sample, Failure>;

/// Runs in which a cell's elapsed time per operation is what `time_ns` says, for each of 9 repetitions.
fn run_of(experiment: &Experiment, outcome: impl Fn(&Spec, u32) -> Outcome) -> RunRecord {
    let plan = Plan::new(&experiment.sweeps(false, &machine(2)), 1).unwrap();
    let mut cells: Vec<CellRecord> = plan
        .cells
        .iter()
        .map(|(sweep, spec)| CellRecord { sweep: sweep.clone(), spec: spec.clone(), samples: vec![] })
        .collect();
    for (order, task) in plan.tasks.iter().enumerate() {
        let outcome = outcome(&plan.cells[task.cell].1, task.repeat);
        cells[task.cell].samples.push(SampleRecord {
            repeat: task.repeat,
            block: task.block,
            order: order as u32,
            outcome,
            process: ProcessUse::default(),
            contamination: Contamination::default(),
            rejected: false,
        });
    }
    RunRecord {
        id: 1,
        started_unix_s: 0,
        command: String::new(),
        seed: 1,
        baseline: None,
        repeats: 9,
        complete: true,
        environment: vec![("cpus_allowed".to_owned(), "0,1".to_owned())],
        warnings: vec![],
        cells,
    }
}

fn sample(time_ns: f64, threads: u32) -> Outcome {
    const OPS: u64 = 1000;
    Ok(Sample {
        elapsed_ns: (time_ns * OPS as f64 * f64::from(threads)) as u64,
        thread_ops: vec![OPS; threads as usize],
        ..Sample::default()
    })
}

/// Without the lock 10 ns; with it 20 ns for each thread; every repetition 1% slower than the last.
fn twenty_per_thread(spec: &Spec, repeat: u32) -> Outcome {
    let clean = if spec.lock == "none" { 10.0 } else { 20.0 * f64::from(spec.threads) };
    sample(clean * (1.0 + f64::from(repeat) / 100.0), spec.threads)
}

fn verdict(check: &str, outcome: impl Fn(&Spec, u32) -> Outcome) -> Reading {
    let experiment =
        with_claim(check, "{ratio(mutex, none @ threads=1)}", "").unwrap_or_else(|error| panic!("{error}"));
    let run = run_of(&experiment, outcome);
    evaluate(&experiment, &run).remove(0).then
}

#[test]
fn claims_over_made_up_runs_get_the_right_verdicts() {
    let cases = [
        ("ratio(mutex, none @ threads=1) > 1.5", Verdict::Holds, false),
        ("ratio(mutex, none @ threads=1) > 3", Verdict::Differs, false),
        ("ratio(mutex, none @ threads=1) > 1.95", Verdict::Holds, true),
        ("ratio(mutex, none @ threads=1) > 2.1", Verdict::Differs, true),
        ("ratio(mutex, none @ threads=4) ~ 8", Verdict::Holds, false),
        ("growth(mutex, threads, 1, 4) > 3 and linear(mutex, threads) > 0.9", Verdict::Holds, true),
        ("bend(mutex, threads) < 10%", Verdict::Holds, false),
        ("slope(mutex, threads) > 15 and slope(mutex, threads) < 25", Verdict::Holds, false),
        ("where_lowest(mutex, threads) == 1 and where_highest(mutex, threads) == 4", Verdict::Holds, false),
        ("highest(mutex, threads) / lowest(mutex, threads) ~ spread(mutex, threads)", Verdict::Holds, false),
        ("run_spread(mutex @ threads=2) < 1.3", Verdict::Holds, false),
        ("slow_runs(mutex @ threads=2) > fast_runs(mutex @ threads=2)", Verdict::Holds, true),
        ("not jain(mutex @ threads=2) < 0.5", Verdict::Holds, false),
        ("time_per_op_ns(mutex @ threads=2) > 100 or time_per_op_ns(none @ threads=2) > 5", Verdict::Holds, false),
        ("max(1, 3) - min(2, 4) * 2 == -(1)", Verdict::Holds, false),
        ("1 + 2 * 3 == 7 and (1 + 2) * 3 == 9 and 50% == 0.5", Verdict::Holds, false),
        ("probe(cpus) == 2", Verdict::Holds, false),
    ];
    for (check, expected, close) in cases {
        let result = verdict(check, twenty_per_thread);
        assert_eq!((result.verdict, result.close), (expected, close), "{check}: {result:?}");
    }
}

#[test]
fn where_a_figure_is_missing_another_check_stands_in_and_says_so() {
    let otherwise = "otherwise = { check = 'jain(mutex @ threads=2) > 0.5', show = 'even {jain(mutex @ threads=2)}', \
                     why_holds = 'even enough', why_differs = 'uneven' }\n";
    let check = "mean(profile_lock_share, mutex @ threads=1) > 50%";
    let show = "in the lock {mean(profile_lock_share, mutex @ threads=1)}";
    let experiment = with_claim(check, show, otherwise).unwrap_or_else(|error| panic!("{error}"));
    let read =
        |outcome: &dyn Fn(&Spec, u32) -> Outcome| evaluate(&experiment, &run_of(&experiment, outcome)).remove(0).then;
    let profiled = |spec: &Spec, repeat: u32| {
        let shares = [("profile_lock_share".to_owned(), 0.75)];
        twenty_per_thread(spec, repeat).map(|sample| Sample { extra: shares.into(), ..sample })
    };
    let first = read(&profiled);
    assert_eq!((first.measured.as_str(), first.why.as_str()), ("in the lock 75.0%", "yes"));
    let other = read(&twenty_per_thread);
    assert_eq!((other.verdict, other.measured.as_str()), (Verdict::Holds, "even 1"));
    assert_eq!(other.why, "even enough (No run has a value of profile_lock_share.)");
    let detail = "no profile here: no CPU samples".to_owned();
    let failed = |spec: &Spec, repeat: u32| match spec.threads {
        1 => Err(Failure { kind: FailureKind::Unsupported, detail: detail.clone() }),
        _ => twenty_per_thread(spec, repeat),
    };
    assert_eq!(read(&failed).why, "even enough (No profile here: no CPU samples.)");
    let nothing = |_: &Spec, _: u32| Err(Failure { kind: FailureKind::Unsupported, detail: detail.clone() });
    assert_eq!(read(&nothing).verdict, Verdict::NotMeasurable, "the other figure is missing too");
}

#[test]
fn what_slows_a_whole_round_is_no_spread_over_a_factor() {
    // Every second round runs at half speed, the factor changes nothing, and one run of a round was disturbed.
    let drifting = |spec: &Spec, repeat: u32| {
        let disturbed = if repeat == 4 && spec.threads == 2 { 5.0 } else { 1.0 };
        sample(10.0 * f64::from(1 + repeat % 2) * disturbed, spec.threads)
    };
    for check in ["spread(mutex, threads) < 1.05", "bend(mutex, threads) < 5%", "growth(mutex, threads, 1, 4) ~ 1"] {
        let result = verdict(check, drifting);
        assert_eq!((result.verdict, result.close), (Verdict::Holds, check.starts_with("spread")), "{check}");
    }
}

#[test]
fn one_clear_part_decides_and_a_close_part_that_matters_is_marked() {
    let wobbly = |spec: &Spec, repeat: u32| {
        let clean = if spec.lock == "none" || repeat.is_multiple_of(2) { 10.0 } else { 30.0 };
        sample(clean, spec.threads)
    };
    let close = |check: &str| verdict(check, wobbly).close;
    assert!(close("time_per_op_ns(mutex @ threads=1) < 20"));
    assert!(!close("time_per_op_ns(mutex @ threads=1) < 20 and 1 > 2"), "the second part alone decides");
    assert!(!close("time_per_op_ns(mutex @ threads=1) < 20 or 2 > 1"));
    assert!(close("not time_per_op_ns(mutex @ threads=1) < 20"));
}

#[test]
fn a_verdict_over_disturbed_runs_alone_is_close() {
    let experiment = with_claim("ratio(mutex, none @ threads=1) > 1.5", "-", "").unwrap();
    let mut run = run_of(&experiment, twenty_per_thread);
    let reject = |run: &mut RunRecord, threads: u32| {
        let cells = run.cells.iter_mut().filter(|cell| cell.spec.threads == threads);
        cells.flat_map(|cell| &mut cell.samples).for_each(|sample| sample.rejected = true);
    };
    reject(&mut run, 4);
    assert!(!evaluate(&experiment, &run)[0].then.close, "other cells do not matter");
    reject(&mut run, 1);
    let result = evaluate(&experiment, &run).remove(0).then;
    assert_eq!((result.verdict, result.close), (Verdict::Holds, true));
    assert_eq!(result.why, "yes (Other programs disturbed every run of a part of this.)");
}

#[test]
fn what_was_not_measured_says_why() {
    let broken = |spec: &Spec, _: u32| match spec.lock.as_str() {
        "none" => sample(10.0, spec.threads),
        _ => Err(Failure { kind: FailureKind::Unsupported, detail: "this kernel has no such lock".to_owned() }),
    };
    let result = verdict("ratio(mutex, none @ threads=1) > 1", broken);
    assert_eq!(result.verdict, Verdict::NotMeasurable);
    assert_eq!(result.why, "This kernel has no such lock.");
    let hung = |spec: &Spec, _: u32| match spec.lock.as_str() {
        "none" => sample(10.0, spec.threads),
        _ => Err(Failure { kind: FailureKind::Hang, detail: "no end within 5 s".to_owned() }),
    };
    let result = verdict("ratio(mutex, none @ threads=1) > 1", hung);
    assert_eq!(result.verdict, Verdict::NotMeasurable);
    assert!(result.why.contains("no end within 5 s"), "{}", result.why);
    let latency = verdict("latency_p99_ns(mutex @ threads=1) > 1", twenty_per_thread);
    assert_eq!(latency.verdict, Verdict::NotMeasurable);
}

#[test]
fn what_the_machine_lacks_is_said_with_what_can_be_said_instead() {
    let experiment = with_claim(
        "time_per_op_ns(wide @ threads=4) > 0",
        "{time_per_op_ns(wide @ threads=4)}",
        "needs = { cpus = 4 }\ninstead = '2 threads take {growth(mutex, threads, 1, 2)}'\n",
    )
    .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(experiment.sweeps(false, &machine(2)).len(), 1, "no run of a sweep that cannot be measured");
    assert_eq!(experiment.sweeps(false, &machine(4)).len(), 2);
    let result = evaluate(&experiment, &run_of(&experiment, twenty_per_thread)).remove(0).then;
    assert_eq!(result.verdict, Verdict::NotMeasurable);
    assert_eq!(result.why, "X needs 4 CPUs, and this machine has 2.");
    assert!(result.measured.starts_with("2 threads take 2.00x"), "{}", result.measured);
}

#[test]
fn the_cost_of_clocks_comes_from_the_run_s_description() {
    let experiment = with_claim("probe(system_call_ns) > 10 * probe(cpu_ns)", "{probe(cpu_ns)}", "").unwrap();
    let mut run = run_of(&experiment, twenty_per_thread);
    let fact = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    run.environment.extend([fact("clock_system_call_ns", "400.5"), fact("time_stamp_ns", "8.0")]);
    let result = evaluate(&experiment, &run).remove(0).then;
    assert_eq!((result.verdict, result.measured.as_str()), (Verdict::Holds, "8.00 ns"));
    run.environment.retain(|(name, _)| name != "time_stamp_ns");
    run.environment.push(fact("time_stamp_ns", "n/a: no such counter"));
    assert_eq!(evaluate(&experiment, &run).remove(0).then.verdict, Verdict::NotMeasurable);
}

#[test]
fn units_follow_the_arithmetic() {
    let show = "{ratio(mutex, none @ threads=1)} {time_per_op_ns(mutex @ threads=1)} \
        {time_per_op_ns(mutex @ threads=2) / time_per_op_ns(mutex @ threads=1)} {1 - bend(mutex, threads)}";
    let experiment = with_claim("1 < 2", show, "").unwrap();
    let units: Vec<Unit> = experiment.claims[0].then.show.figures().map(Expr::unit).collect();
    assert_eq!(units, [Unit::Times, Unit::Of("ns"), Unit::Times, Unit::Share]);
}

#[test]
fn a_claim_of_a_lock_that_changed_is_judged_then_and_now() {
    // Then a lock of 20 ns for each thread, today one that costs 20 ns however many there are.
    let today = "[today]\nmutex = 'now-mutex'\n[[claim]]\nid = 'X'\nsweep = 't'\non = 'a Pentium'\nsame = 'work'\n\
                 not_same = 'the rest'\nfigures.grows = 'growth(mutex, threads, 1, 4)'\ncheck = 'grows > 2'\n\
                 show = '{grows}'\nnow = { why_holds = 'still {grows}', why_differs = 'no more: {grows}' }\n";
    let text = FILE.replace("mutex = \"pthread\"", "mutex = 'pthread'\nnow-mutex = 'std'");
    let text = text.replace("[\"none\", \"mutex\"]", "['none', 'mutex', 'now-mutex']");
    let experiment = file::parse("small.toml", &format!("{text}\n{today}{WORDS}")).unwrap_or_else(|e| panic!("{e}"));
    let run = run_of(&experiment, |spec, repeat| match spec.lock.as_str() {
        "std" => sample(20.0, spec.threads),
        _ => twenty_per_thread(spec, repeat),
    });
    let result = evaluate(&experiment, &run).remove(0);
    assert_eq!((result.then.verdict, result.then.why.as_str()), (Verdict::Holds, "yes"));
    let now = result.now.unwrap_or_else(|| panic!("a reading with today's lock"));
    assert_eq!((now.verdict, now.why.as_str()), (Verdict::Differs, "no more: 1.00x"));
    assert_eq!((result.setting.on.as_str(), result.setting.not_same.as_str()), ("a Pentium", "the rest"));

    let wrong = file::parse("small.toml", &format!("{text}\n[today]\nmutx = 'now-mutex'\n")).unwrap_err();
    assert!(wrong.to_string().contains("'mutx' is not a series of this file; did you mean 'mutex'?"), "{wrong}");
    let wrong = file::parse("small.toml", &format!("{text}\n[today]\nmutex = 'std'\n")).unwrap_err();
    assert!(wrong.to_string().contains("today's 'mutex' is the name of another series"), "{wrong}");
}

fn refused(check: &str) -> String {
    with_claim(check, "x", "").map(|_| String::new()).unwrap_or_else(|error| error.to_string())
}

#[test]
fn an_expression_that_names_what_is_not_there_is_refused_with_its_place() {
    let cases = [
        (
            "ratio(mutx, none @ threads=1) > 2",
            "'mutx' is not a lock, a series or a sweep of this file; did you mean 'mutex'?",
        ),
        ("ratio(mutex, none @ threads=3) > 2", "sweep 't' has no threads=3; it has 1, 2, 4"),
        ("ratio(mutex, none) > 2", "'t' leaves threads open (1, 2, 4); add for example @ threads=1"),
        ("ratio(mutex, none @ thread=1) > 2", "there is no factor 'thread'; did you mean 'threads'?"),
        ("ratio(mutex, none @ threads=x) > 2", "'x' is not a whole number"),
        ("ratoi(mutex, none @ threads=1) > 2", "there is no figure or function 'ratoi'; did you mean 'ratio'?"),
        ("ratio(jian, mutex, none @ threads=1) > 2", "there is no figure 'jian'; did you mean 'jain'?"),
        ("ratio(mutex, wide.mutex @ threads=4) > 2", "may differ only in their lock"),
        ("u.mutex > 2", "'u' is no figure of this claim"),
        ("jain(u.mutex @ threads=1) > 2", "'u' is not a sweep of this file"),
        ("ratio(mutex, none @ threads=1)", "this is a number; a check compares"),
        ("ratio(mutex, none @ threads=1 > 2", "expected ',', '@' or ')' and found '>'"),
        ("ratio(mutex @ threads=1) > 2", "'ratio' is written ratio([METRIC,] a, b @ ...)"),
        ("linear(mutex, lock @ threads=1) > 2", "sweep 't' has too few values of lock (1), and this function needs 3"),
        ("growth(mutex, threads, 1, 8) > 2", "sweep 't' has no threads=8"),
        ("1 < 2 < 3", "'<' is not expected here"),
        ("1 and 2 > 1", "'and' and 'or' join two comparisons"),
        ("(1 < 2) + 3 > 2", "arithmetic needs numbers"),
        ("jain(mutex @ threads=1) > 10ns", "'10ns' has a unit"),
        ("", "the expression ends where"),
        ("2 >", "the expression ends where"),
        ("probe(gpus) > 1", "'gpus' is not a figure of the machine; there are cpus"),
    ];
    for (check, expected) in cases {
        let error = refused(check);
        assert!(error.starts_with("small.toml:"), "{check}: {error}");
        assert!(error.contains(expected), "{check}: {error}");
    }
    let deep = "(".repeat(100_000);
    assert!(refused(&deep).contains("nested too deeply"));
    assert!(refused(&"-".repeat(100_000)).contains("nested too deeply"));
    assert!(refused(&"not ".repeat(100_000)).contains("nested too deeply"));
}

#[test]
fn an_expression_s_error_points_at_its_place() {
    let error = refused("1 < 2 and jain(mutx @ threads=1) > 2");
    let lines: Vec<&str> = error.lines().collect();
    assert_eq!(lines[1].trim_start(), "1 < 2 and jain(mutx @ threads=1) > 2");
    let (expression, caret) = (lines[1].find("mutx"), lines[2].find('^'));
    assert_eq!(expression, caret, "{error}");
}

#[test]
fn a_file_s_mistakes_name_line_column_and_key() {
    let error = |text: &str| match file::parse("f.toml", text) {
        Ok(_) => "no error".to_owned(),
        Err(error) => error.to_string(),
    };
    let head = "[experiment]\nname = 'n'\ntitle = 't'\n";
    let cases: [(String, &str); 18] = [
        ("[experiment\n".to_owned(), "f.toml:1:"),
        (String::new(), "f.toml:1:1: this file lacks [experiment]"),
        ("[experiment]\ntitle = 't'\n".to_owned(), "f.toml:1:1: [experiment] lacks 'name = \"...\"'"),
        (format!("{head}titel = 'x'\n"), "f.toml:4:1: [experiment] has no key 'titel'; did you mean 'title'?"),
        (format!("{head}[[sweeep]]\n"), "f.toml:4:3: this file has no key 'sweeep'; did you mean 'sweep'?"),
        (format!("{head}[sweep]\nname = 'a'\n"), "write each sweep as a table under [[sweep]]"),
        (
            format!("{head}[[sweep]]\nname = 'a'\nthread = 1\n"),
            "f.toml:6:1: sweep 'a' has no factor or key 'thread'; did you mean 'threads'?",
        ),
        (
            format!("{head}[[sweep]]\nname = 'a'\nthreads = [1, 0]\n"),
            "f.toml:6:15: threads: '0' is not a whole number between 1 and 1024",
        ),
        (format!("{head}[[sweep]]\nname = 'a'\nlock = 'pthred'\n"), "did you mean 'pthread'?"),
        (format!("{head}[[sweep]]\nname = 'a'\nthreads = 1.5\n"), "threads takes 1..1024, not a number"),
        (format!("{head}[[sweep]]\nname = 'a'\nrepeats = 0\n"), "'repeats' is a whole number between 1 and 1000"),
        (
            format!("{head}[[sweep]]\nname = 'a'\nquick = {{ thread = 1 }}\n"),
            "quick of sweep 'a' has no factor or key 'thread'",
        ),
        (format!("{head}[[sweep]]\nname = 'a'\n[[sweep]]\nname = 'a'\n"), "f.toml:7:8: there are two sweeps 'a'"),
        (
            format!("{head}[[sweep]]\nname = 'a'\nthreads = '1..1024'\ndepth = '0..64'\n"),
            "sweep 'a' has more than 4096 cells",
        ),
        (
            format!("{head}[[sweep]]\nname = 'a'\n[[plot]]\ntitle = 'p'\nsweep = 'b'\nx = 'threads'\ny = 'jain'\n"),
            "f.toml:8:9: 'b' is not a sweep of this file",
        ),
        (
            format!(
                "{head}[[sweep]]\nname = 'a'\nthreads = 1\n[[plot]]\ntitle = 'p'\nsweep = 'a'\nx = 'threads'\ny = \
                 'jane'\n"
            ),
            "there is no figure 'jane'; did you mean 'jain'?",
        ),
        (
            format!("{head}[[sweep]]\nname = 'a'\n[[claim]]\nid = 'A'\nclam = 'c'\n"),
            "f.toml:8:1: claim A has no key 'clam'; did you mean 'claim'?",
        ),
        (format!("{head}[[sweep]]\nname = 'a'\n[[claim]]\nid = 'A'\nclaim = 'c'\n"), "claim A lacks 'check = \"...\"'"),
    ];
    for (text, expected) in cases {
        let error = error(&text);
        assert!(error.contains(expected), "wanted {expected}\n   got {error}\n{text}");
    }
}

#[test]
fn no_mutation_of_a_file_makes_the_parser_panic() {
    let mut random = fastrand::Rng::with_seed(0x0040_1d09);
    let scraps =
        ["[", "]", "{", "}", "'", "\"", "\"\"\"", "=", "@", "(", ")", "..", ",", "\n", "é", "1e999", "-", "#", "[["];
    let mut refused = 0;
    for round in 0..400 {
        let (path, text) = EMBEDDED[round % EMBEDDED.len()];
        // A window of whole lines keeps a round short and still begins where a file may begin.
        let lines: Vec<&str> = text.lines().collect();
        let from = random.usize(..lines.len());
        let mut bytes = lines[from..(from + 120).min(lines.len())].join("\n").into_bytes();
        bytes.splice(0..0, b"[experiment]\nname = 'n'\ntitle = 't'\n".iter().copied());
        for _ in 0..random.usize(1..6) {
            let at = random.usize(..bytes.len());
            match random.u32(..3) {
                0 => drop(bytes.drain(at..(at + random.usize(1..20)).min(bytes.len()))),
                1 => drop(bytes.splice(at..at, scraps[random.usize(..scraps.len())].bytes())),
                _ => bytes[at] = random.u8(..),
            }
        }
        refused += usize::from(file::parse(path, &String::from_utf8_lossy(&bytes)).is_err());
    }
    assert!(refused > 300, "mutations that do no harm prove nothing: only {refused} of 400 were refused");
}

/// The text of every fenced block of this language.
fn blocks<'a>(text: &'a str, language: &str) -> Vec<&'a str> {
    let fence = format!("```{language}\n");
    text.split(&fence).skip(1).filter_map(|rest| rest.split("```").next()).collect()
}

#[test]
fn every_example_of_the_documentation_is_accepted() {
    let document = include_str!("../../../../docs/experiments.md");
    let [example] = blocks(document, "toml")[..] else { panic!("one example file") };
    file::parse("example.toml", example).unwrap_or_else(|error| panic!("{error}"));
    let lines: Vec<&str> = blocks(document, "expression").into_iter().flat_map(str::lines).collect();
    assert!(lines.len() > 12, "{lines:?}");
    for line in lines {
        let text = format!("{example}\n[[claim]]\nid = 'X'\ncheck = '{line}'\nshow = '-'\n{WORDS}");
        file::parse("example.toml", &text).unwrap_or_else(|error| panic!("{error}"));
    }
}

#[test]
fn the_documentation_names_every_function() {
    let document = include_str!("../../../../docs/experiments.md");
    for row in expr::FUNCTIONS {
        assert!(document.contains(row.name), "{}", row.name);
    }
}
