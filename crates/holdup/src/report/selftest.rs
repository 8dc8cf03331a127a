//! What `holdup selftest` found: a matrix of behaviours and configurations, the reasons below; or all of it as JSON.

use serde_json::{Value, json};

use super::document::{Column, Document, Ink, Table, Text, ink};
use super::number;
use crate::interposer::Process;
use crate::selftest::{Cell, Configuration, Failure, Results, span};
use crate::shell;

/// Failures that are told in full.
const MOST_TOLD: usize = 10;

/// Headline, matrix, reasons.
pub fn screen(results: &Results) -> Document {
    let mut screen = Document::default();
    screen.headline(headline(results));
    screen.paragraph(ink(Ink::Faint, effort(results)));
    screen.gap();
    screen.table(matrix(results));
    reasons(&mut screen, results);
    screen
}

fn headline(results: &Results) -> String {
    let plan = &results.plan;
    let behaviours = number::counted(plan.behaviours.len(), "behaviour");
    let native = plan.configurations.iter().position(|one| *one == Configuration::Native);
    let failed_natively = native.map_or(0, |column| results.cells.iter().filter(|row| !row[column].holds()).count());
    if failed_natively > 0 {
        return format!(
            "{failed_natively} of {behaviours} {} not hold on this machine even natively: it, its C library or its load is \
             at fault, not an interposer.",
            if failed_natively == 1 { "does" } else { "do" }
        );
    }
    let broken = results.cells.iter().filter(|row| !row.iter().all(Cell::holds)).count();
    if broken > 0 {
        let verb = if broken == 1 { "does" } else { "do" };
        return format!("{broken} of {behaviours} of locks {verb} not hold everywhere.");
    }
    let everywhere = match &plan.configurations[..] {
        [_, library @ Configuration::Library(_)] => format!("natively and {}", library.phrase()),
        [_, others @ ..] if !others.is_empty() => {
            format!("natively and under {}", number::counted(others.len(), "configuration"))
        }
        _ => "natively".to_owned(),
    };
    format!("{behaviours} of locks hold {everywhere}.")
}

/// What it took, and what repeats it.
fn effort(results: &Results) -> String {
    let tries: u32 = results.cells.iter().flatten().map(|cell| cell.tries).sum();
    let seconds = results.elapsed.as_secs_f64();
    format!("{} in {seconds:.0} s, seed {}", number::counted(tries as usize, "run"), results.plan.seed)
}

/// Two lines of heading for each configuration.
fn heading(configuration: &Configuration) -> String {
    match configuration {
        Configuration::Native => "native\n".to_owned(),
        Configuration::Policy(policy) => {
            let name = policy.to_string();
            let hyphen = name.find('-').map_or(name.len(), |at| at + 1);
            let (first, second) = name.split_once(':').unwrap_or_else(|| name.split_at(hyphen));
            format!("{first}\n{second}")
        }
        Configuration::Flip(_, every) => format!("flip\n{}", span(*every)),
        Configuration::Library(_) => "library\n".to_owned(),
    }
}

fn mark(cell: &Cell) -> Text {
    match &cell.failure {
        Some((_, Failure::Hangs)) => ink(Ink::Bad, "hang"),
        Some((_, Failure::Fails(_))) => ink(Ink::Bad, "FAIL"),
        None if cell.tries == 0 => ink(Ink::Faint, "n/a"),
        None => ink(Ink::Good, "ok"),
    }
}

fn matrix(results: &Results) -> Table {
    let plan = &results.plan;
    let columns = plan.configurations.iter().map(|one| Column::right(&heading(one)).at_least(4));
    let mut table = Table::new([Column::fixed("")].into_iter().chain(columns)).gap(1).in_blocks();
    for (behaviour, row) in plan.behaviours.iter().zip(&results.cells) {
        table.row([Text::from(behaviour.name)].into_iter().chain(row.iter().map(mark)));
    }
    table
}

fn reasons(screen: &mut Document, results: &Results) {
    let plan = &results.plan;
    let tried = |row| plan.configurations.iter().zip(row);
    let rows = plan.behaviours.iter().zip(&results.cells);
    let cells = rows.flat_map(|(behaviour, row)| tried(row).map(move |(how, cell)| (behaviour, how, cell)));
    let failed = cells.filter_map(|(behaviour, how, cell)| Some((behaviour, how, cell, cell.failure.as_ref()?)));
    let failed: Vec<_> = failed.collect();
    for (behaviour, how, cell, (seed, failure)) in failed.iter().take(MOST_TOLD) {
        let why = match failure {
            Failure::Hangs => format!("no end within {}", span(plan.limit)),
            Failure::Fails(why) => why.clone(),
        };
        let times = match cell.tries {
            0 | 1 => String::new(),
            tries => format!(" ({} of {tries} runs)", tries - cell.held),
        };
        let explanation = match how {
            Configuration::Native => format!("must hold: {}", behaviour.holds),
            _ => format!("must hold: {}; when it does not, often {}", behaviour.holds, behaviour.wrong),
        };
        screen.gap();
        screen.hanging(2, ink(Ink::Bad, format!("{} {}: {why}{times}", behaviour.name, how.phrase())));
        screen.indented(2, |inner| {
            inner.paragraph(explanation);
            inner.field(6, "again:", |value| value.command(again(how, behaviour.name, *seed)));
        });
    }
    if failed.len() > MOST_TOLD {
        screen.gap();
        screen.paragraph(format!("{} more; 'holdup selftest --json' has all reasons", failed.len() - MOST_TOLD));
    }
}

/// The command that tries the same once more, where it may be broken.
fn again(configuration: &Configuration, behaviour: &str, seed: u64) -> Vec<String> {
    let mut command = vec!["holdup selftest".to_owned()];
    match configuration {
        Configuration::Native => command.push("--native".to_owned()),
        Configuration::Policy(policy) => command.push(format!("--policies {policy} --flip 0")),
        Configuration::Flip(policies, every) => {
            let policies: Vec<String> = policies.iter().map(ToString::to_string).collect();
            command.push(format!("--policies {}", policies.join(",")));
            command.push(format!("--flip {}", span(*every)));
        }
        Configuration::Library(path) => {
            command.push(format!("--library {}", shell::quoted(&path.to_string_lossy())));
        }
    }
    command.extend([format!("--seed {seed}"), behaviour.to_owned()]);
    command
}

/// What became of a program while policies took turns.
pub fn flipped(flips: u64, processes: &[Process]) -> String {
    let sum = |one: fn(&Process) -> u64| processes.iter().map(one).sum::<u64>();
    let processes = number::counted(processes.len(), "process");
    format!(
        "holdup: the policy was set {flips} times; {} acquisitions in {processes} were served, {} of them contended, {} slept; \
         {} were left to the C library",
        sum(|process| process.acquisitions),
        sum(|process| process.contended),
        sum(|process| process.slept),
        sum(|process| process.fallbacks.iter().sum()),
    )
}

/// Everything.
pub fn json(results: &Results) -> Value {
    let plan = &results.plan;
    let cell = |behaviour: &str, configuration: &Configuration, cell: &Cell| {
        let (outcome, reason) = match &cell.failure {
            Some((_, Failure::Hangs)) => ("hangs", Some(format!("no end within {}", span(plan.limit)))),
            Some((_, Failure::Fails(why))) => ("fails", Some(why.clone())),
            None if cell.tries == 0 => ("not-tried", None),
            None => ("holds", None),
        };
        json!({
            "behaviour": behaviour,
            "configuration": name(configuration),
            "outcome": outcome,
            "reason": reason,
            "tries": cell.tries,
            "held": cell.held,
            "failed_seed": cell.failure.as_ref().map(|(seed, _)| seed),
            "again": cell.failure.as_ref().map(|(seed, _)| again(configuration, behaviour, *seed).join(" ")),
            "elapsed_ns": cell.elapsed.as_nanos() as u64,
            "acquisitions_seen": cell.served,
        })
    };
    let rows = plan.behaviours.iter().zip(&results.cells);
    let cells: Vec<Value> = rows
        .flat_map(|(behaviour, row)| {
            plan.configurations.iter().zip(row).map(|(configuration, one)| cell(behaviour.name, configuration, one))
        })
        .collect();
    json!({
        "holds": results.all_hold(),
        "seed": plan.seed,
        "limit_ns": plan.limit.as_nanos() as u64,
        "elapsed_ns": results.elapsed.as_nanos() as u64,
        "behaviours": plan.behaviours.iter().map(|one| json!({
            "name": one.name, "holds": one.holds, "wrong": one.wrong,
        })).collect::<Vec<_>>(),
        "configurations": plan.configurations.iter().map(name).collect::<Vec<_>>(),
        "results": cells,
    })
}

fn name(configuration: &Configuration) -> String {
    match configuration {
        Configuration::Native => "native".to_owned(),
        Configuration::Policy(policy) => policy.to_string(),
        Configuration::Flip(_, every) => format!("flip {}", span(*every)),
        Configuration::Library(path) => path.display().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use holdup_control::Policy;
    use holdup_run::behaviour;

    use super::*;
    use crate::report::Style;
    use crate::selftest::Plan;

    fn results(cells: impl Fn(usize, usize) -> Cell) -> Results {
        let policies = [
            Policy::Glibc,
            Policy::SpinPark(100),
            Policy::SpinLearn,
            Policy::Ttas,
            Policy::Capped(1),
            Policy::Throttle(1),
            Policy::Throttle(2),
        ];
        let mut configurations = vec![Configuration::Native];
        configurations.extend(policies.map(Configuration::Policy));
        configurations.push(Configuration::Flip(policies.to_vec(), Duration::from_millis(5)));
        let behaviours: Vec<_> = behaviour::all().iter().collect();
        let row = |row| (0..configurations.len()).map(|column| cells(row, column)).collect();
        let cells = (0..behaviours.len()).map(row).collect();
        let plan = Plan { behaviours, configurations, repeat: 1, seed: 3, limit: Duration::from_secs(20) };
        Results { plan, cells, elapsed: Duration::from_secs(9) }
    }

    fn held() -> Cell {
        Cell { tries: 1, held: 1, ..Cell::default() }
    }

    fn failed(failure: Failure) -> Cell {
        Cell { tries: 1, failure: Some((3, failure)), ..Cell::default() }
    }

    #[test]
    fn the_matrix_fits_on_one_screen() {
        let results = results(|_, _| held());
        let screen = screen(&results).terminal(&Style::default());
        assert!(
            screen.starts_with(
                "26 behaviours of locks hold natively and under 8 configurations.\n234 runs in 9 s, seed 3\n"
            ),
            "{screen}"
        );
        assert!(screen.lines().all(|line| line.len() <= 80), "{screen}");
        assert_eq!(screen.lines().count(), 2 + 1 + 2 + 26, "{screen}");
        assert_eq!(screen.matches(" ok").count(), 234);
        assert_eq!(json(&results)["holds"], true);
    }

    #[test]
    fn a_failure_says_why_and_how_to_repeat_it() {
        let results = results(|row, column| match (row, column) {
            (1, 2) => failed(Failure::Fails("two threads".to_owned())),
            (6, 8) => failed(Failure::Hangs),
            _ => held(),
        });
        let screen = screen(&results).terminal(&Style::default());
        assert!(screen.starts_with("2 of 26 behaviours"), "{screen}");
        assert!(screen.lines().all(|line| line.len() <= 80 || line.contains("--policies ")), "{screen}");
        let ways = [
            "trylock under spin-park:100: two threads\n",
            "again: holdup selftest --policies spin-park:100 --flip 0 --seed 3 trylock\n",
            "cond-cancel while the policy flips every 5ms: no end within 20s\n",
            "--flip 5ms --seed 3 cond-cancel\n",
        ];
        ways.iter().for_each(|words| assert!(screen.contains(words), "no '{words}' in\n{screen}"));
        assert_eq!(json(&results)["holds"], false);
    }

    #[test]
    fn what_fails_natively_is_the_machines_fault() {
        let results = results(|row, column| match (row, column) {
            (1, 0) => failed(Failure::Hangs),
            (1, _) => Cell::default(),
            _ => held(),
        });
        let screen = screen(&results).terminal(&Style::default());
        assert!(screen.starts_with("1 of 26 behaviours does not hold on this machine even natively"), "{screen}");
        assert_eq!(screen.matches(" n/a").count(), 8);
    }
}
