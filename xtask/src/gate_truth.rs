//! How often `holdup gate` is right: real gates of builds whose difference is known, half of them beside a neighbour
//! that takes half the machine, and thousands in a time of their own over the noise that those recorded.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::recording::{Bench, Neighbours, median};
use crate::run::{Step, cargo, machine, root, target_folder};

const USAGE: &str = "usage: cargo xtask gate-truth [--same N] [--ten N] [--five N] [--simulated N] [--anew] [--note TEXT] \
                     [--write MACHINE]";

/// A kind of gates: what it is to find, and how many of them there are to be.
struct Kind {
    name: &'static str,
    /// How much slower the new build is, in percent.
    more: u32,
    budget: &'static str,
    /// What these gates have to say.
    says: &'static str,
    /// Without a wish so many run.
    usual: usize,
    /// So many may say something else: one, and one more of each further so many.
    one_in: usize,
}

const KINDS: [Kind; 3] = [
    Kind { name: "same", more: 0, budget: "1m", says: "no slow-down", usual: 8, one_in: 60 },
    Kind { name: "ten", more: 10, budget: "1m", says: "slower", usual: 4, one_in: 10 },
    Kind { name: "five", more: 5, budget: "5m", says: "slower", usual: 2, one_in: 10 },
];

/// Without a wish so many gates of each kind are simulated.
const SIMULATED: &str = "1000";

/// What is run: one whose difference can be built in, and one that is fast and slow by turns.
const PROGRAMS: [(&str, &str); 2] = [("gate_work", "2500"), ("try_section", "8 12000 40 100")];

/// Gates as asked for, the page if it is asked for; an error if one of the shares is missed.
pub fn run(args: &[String]) -> Result<(), String> {
    let asked = Asked::parse(args)?;
    let bench = Bench::new("gate-truth")?;
    let kept = target_folder().join("gate-truth.tsv");
    if asked.anew {
        let _ = std::fs::remove_file(&kept);
    }
    let builds = Builds::new(&bench)?;
    for (kind, count) in KINDS.iter().zip(asked.gates) {
        for number in 0..count {
            let told = builds.gate(&bench, kind, number)?;
            println!("{:>3}/{count}  {}", number + 1, told.line());
            append(&kept, &told.kept())?;
        }
    }
    let all = std::fs::read_to_string(&kept).unwrap_or_default();
    let all: Vec<Told> = all.lines().filter_map(Told::parse).collect();
    let real = real(&all);
    println!("\n{real}");
    let noise = noise(&all);
    let simulated = simulate(&bench, &asked.simulated, &noise);
    if let Ok(table) = &simulated {
        println!("\n{table}");
    }
    if let Some(name) = &asked.write {
        let page = page(name, &asked.note, &real, simulated.as_deref().unwrap_or("They failed."), &noise);
        write(&root().join(format!("docs/benchmarks/gate-{name}.md")), &page)?;
        if !noise.is_empty() {
            write(&root().join(format!("fixtures/noise/{name}.tsv")), &noise)?;
        }
    }
    simulated?;
    match missed(&all) {
        missed if missed.is_empty() => Ok(()),
        missed => Err(missed.join("; ")),
    }
}

/// What the command line asks for.
struct Asked {
    gates: [usize; 3],
    simulated: String,
    anew: bool,
    note: String,
    write: Option<String>,
}

impl Asked {
    fn parse(args: &[String]) -> Result<Asked, String> {
        let mut asked = Asked {
            gates: KINDS.each_ref().map(|kind| kind.usual),
            simulated: SIMULATED.to_owned(),
            anew: false,
            note: String::new(),
            write: None,
        };
        let mut words = args.iter();
        while let Some(word) = words.next() {
            if word == "--anew" {
                asked.anew = true;
                continue;
            }
            let value = words.next().ok_or_else(|| format!("{word}: {USAGE}"))?;
            let number = || value.parse::<usize>().map_err(|_| format!("{word} '{value}': give a number; {USAGE}"));
            let kind = KINDS.iter().position(|kind| word.strip_prefix("--") == Some(kind.name));
            match (word.as_str(), kind) {
                (_, Some(kind)) => asked.gates[kind] = number()?,
                ("--simulated", _) => asked.simulated = number()?.to_string(),
                ("--note", _) => asked.note.clone_from(value),
                ("--write", _) => {
                    asked.write = Some(machine(std::slice::from_ref(value), "gate-truth --write")?.to_owned());
                }
                _ => return Err(format!("'{word}' is no option; {USAGE}")),
            }
        }
        Ok(asked)
    }
}

/// The compiled programs.
struct Builds {
    folder: PathBuf,
}

impl Builds {
    fn new(bench: &Bench) -> Result<Builds, String> {
        let of = |source: &str, name: &str, more: u32| {
            let source = root().join(format!("fixtures/interposer/{source}.c"));
            let binary = bench.folder.join(name);
            let words = ["-O2", "-pthread", &format!("-DMORE={more}"), "-o"];
            Step::new("cc", &words).args(&[&binary.to_string_lossy(), &source.to_string_lossy()]).run()
        };
        for (source, _) in PROGRAMS {
            // Identical builds are two files all the same.
            of(source, &format!("{source}-old"), 0)?;
            of(source, &format!("{source}-0"), 0)?;
        }
        for kind in KINDS.iter().filter(|kind| kind.more > 0) {
            of("gate_work", &format!("gate_work-{}", kind.more), kind.more)?;
        }
        Ok(Builds { folder: bench.folder.clone() })
    }

    /// Every other gate has neighbours; identical builds are of both programs by turns.
    fn gate(&self, bench: &Bench, kind: &Kind, number: usize) -> Result<Told, String> {
        let beside = number % 2 == 1;
        let (program, arguments) = PROGRAMS[if kind.more == 0 { number / 2 % 2 } else { 0 }];
        let cpus = std::thread::available_parallelism().map_or(2, usize::from);
        let neighbours = if beside { Some(Neighbours::new((cpus / 2).max(1))?) } else { None };
        let line = |build: &str| format!("{} {arguments}", self.folder.join(format!("{program}-{build}")).display());
        let mut command = Command::new(&bench.holdup);
        command.args(["gate", "--json", "--fail-on", "5%", "--budget", kind.budget]);
        command.args(["--old", &line("old"), "--new", &line(&kind.more.to_string())]);
        let output = command.stdin(Stdio::null()).output().map_err(|why| format!("{command:?}: {why}"))?;
        drop(neighbours);
        let json: Value = serde_json::from_slice(&output.stdout)
            .map_err(|why| format!("{command:?}: {why}\n{}", String::from_utf8_lossy(&output.stderr)))?;
        let verdict = json["verdict"].as_str().unwrap_or_default().to_owned();
        let status = match verdict.as_str() {
            "slower" => 1,
            "cannot_tell" => 3,
            _ => 0,
        };
        if output.status.code() != Some(status) {
            return Err(format!("{command:?} says {verdict} and ends with {}", output.status));
        }
        let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
        let slowdown = &json["slowdown"];
        let runs = |pair: &Value| {
            let [old, new] = ["old", "new"].map(|build| number(&pair[build]["elapsed_s"]));
            if pair["new_first"] == true { [new, old] } else { [old, new] }
        };
        Ok(Told {
            kind: kind.name.to_owned(),
            program: program.to_owned(),
            beside,
            verdict,
            slowdown: ["ratio", "low", "high"].map(|key| number(&slowdown[key])),
            spent_s: number(&json["spent_s"]),
            runs: json["pairs"].as_array().into_iter().flatten().flat_map(runs).collect(),
        })
    }
}

/// What one gate said.
struct Told {
    kind: String,
    program: String,
    beside: bool,
    verdict: String,
    /// With its interval.
    slowdown: [f64; 3],
    spent_s: f64,
    /// Elapsed times of all runs, in their order.
    runs: Vec<f64>,
}

impl Told {
    fn place(&self) -> &'static str {
        if self.beside { "beside" } else { "alone" }
    }

    fn line(&self) -> String {
        let [ratio, low, high] = self.slowdown;
        format!(
            "{} {} {}: {} {ratio:.3} [{low:.3}, {high:.3}], {} pairs in {:.0} s",
            self.kind,
            self.program,
            self.place(),
            self.verdict,
            self.runs.len() / 2,
            self.spent_s
        )
    }

    fn kept(&self) -> String {
        let runs = self.runs.iter().map(|run| format!("{run:.5}")).collect::<Vec<_>>().join(" ");
        let [ratio, low, high] = self.slowdown;
        format!(
            "{}\t{}\t{}\t{}\t{ratio:.5}\t{low:.5}\t{high:.5}\t{:.1}\t{runs}",
            self.kind,
            self.program,
            self.place(),
            self.verdict,
            self.spent_s
        )
    }

    fn parse(line: &str) -> Option<Told> {
        let [kind, program, place, verdict, ratio, low, high, spent_s, runs] =
            line.split('\t').collect::<Vec<_>>().try_into().ok()?;
        Some(Told {
            kind: kind.to_owned(),
            program: program.to_owned(),
            beside: place == "beside",
            verdict: verdict.to_owned(),
            slowdown: [ratio.parse().ok()?, low.parse().ok()?, high.parse().ok()?],
            spent_s: spent_s.parse().ok()?,
            runs: runs.split(' ').filter_map(|run| run.parse().ok()).collect(),
        })
    }

    fn is_right(&self) -> bool {
        (self.verdict == "slower") == (self.kind != "same")
    }
}

/// The gates of each kind, alone and beside neighbours.
fn real(all: &[Told]) -> String {
    let mut table =
        "| builds | budget | machine | gates | must say | right | cannot tell | measured, median | seconds, median |\n\
                     |---|---|---|---|---|---|---|---|---|\n"
            .to_owned();
    for kind in &KINDS {
        for (beside, place) in [(false, "alone"), (true, "beside neighbours that take half of it")] {
            let gates: Vec<&Told> = all.iter().filter(|one| one.kind == kind.name && one.beside == beside).collect();
            let of = |value: fn(&Told) -> f64| median(&gates.iter().map(|one| value(one)).collect::<Vec<_>>());
            if gates.is_empty() {
                continue;
            }
            let builds = if kind.more == 0 { "identical".to_owned() } else { format!("{}% slower", kind.more) };
            let _ = writeln!(
                table,
                "| {builds} | {} | {place} | {} | {} | {} | {} | {:.3}x | {:.0} |",
                kind.budget,
                gates.len(),
                kind.says,
                gates.iter().filter(|one| one.is_right()).count(),
                gates.iter().filter(|one| one.verdict == "cannot_tell").count(),
                of(|one| one.slowdown[0]),
                of(|one| one.spent_s),
            );
        }
    }
    table
}

/// Kinds of which more gates are wrong than may be.
fn missed(all: &[Told]) -> Vec<String> {
    let of = |kind: &Kind| {
        let gates = all.iter().filter(|one| one.kind == kind.name);
        let (count, wrong) = (gates.clone().count(), gates.filter(|one| !one.is_right()).count());
        let may_be = count.div_ceil(kind.one_in);
        (wrong > may_be).then(|| format!("{}: {wrong} of {count} gates are wrong, {may_be} may be", kind.name))
    };
    KINDS.iter().filter_map(of).collect()
}

/// What identical builds recorded: of each program, alone and beside neighbours, how long its runs took, by what is
/// usual of that gate, so that gates of different days go together.
fn noise(all: &[Told]) -> String {
    let mut noise = String::new();
    for (program, _) in PROGRAMS {
        for place in ["alone", "beside"] {
            let gates = all.iter().filter(|one| one.kind == "same" && one.program == program && one.place() == place);
            let runs = |one: &Told| {
                let middle = median(&one.runs);
                one.runs.iter().map(|run| format!("{:.4}", run / middle)).collect::<Vec<_>>()
            };
            let runs: Vec<String> = gates.flat_map(runs).collect();
            if !runs.is_empty() {
                let _ = writeln!(noise, "recorded: {program} {place}\t{}", runs.join(" "));
            }
        }
    }
    noise
}

/// Gates in a time of their own: the table of what they say.
fn simulate(bench: &Bench, count: &str, noise: &str) -> Result<String, String> {
    let words = ["test", "--package", "holdup", "--lib", "trial::gate::truth", "--", "--nocapture"];
    let mut step = cargo(&words).env("HOLDUP_GATES", count);
    if !noise.is_empty() {
        let file = bench.fresh("noise.tsv");
        write(&file, noise)?;
        step = step.env("HOLDUP_NOISE", &file.to_string_lossy());
    }
    let said = step.output()?;
    let rows = said.lines().filter(|line| line.starts_with('|'));
    Ok(rows.map(|row| format!("{row}\n")).collect())
}

fn page(name: &str, note: &str, real: &str, simulated: &str, noise: &str) -> String {
    let note = if note.is_empty() { String::new() } else { format!("{note}\n\n") };
    let kinds = noise.lines().count();
    format!(
        "# How often a gate is right: {name}\n\n\
         Written by `cargo xtask gate-truth --write {name}`, which adds later gates to earlier ones. Each gate is\n\
         `holdup gate --fail-on 5%` on runs of about 0.2 s. The slower builds do so much more work in each piece; identical\n\
         builds are of two programs in turn, one of which is fast and slow by itself (threads that queue up behind a mutex).\n\
         Neighbours burn half of the CPUs. Every gate's exit status is held against its verdict.\n\n{note}\
         ## Real gates\n\n{real}\n\
         ## Simulated gates\n\n\
         The whole gate (warm-up, pairs in random order, looks, budget) in a time of its own, on runs of 0.2 s. The noise is made\n\
         up, or that of the {kinds} series which the identical builds above recorded (`fixtures/noise`), in stretches of 30 runs\n\
         on average that follow each other by chance (the stationary bootstrap of Politis and Romano, 1994).\n\n{simulated}"
    )
}

fn append(path: &Path, line: &str) -> Result<(), String> {
    let before = std::fs::read_to_string(path).unwrap_or_default();
    std::fs::write(path, before + line + "\n").map_err(|why| format!("{}: {why}", path.display()))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(|why| format!("{}: {why}", folder.display()))?;
    }
    std::fs::write(path, text).map_err(|why| format!("{}: {why}", path.display()))?;
    eprintln!("wrote {}", path.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(kind: &str, verdict: &str, beside: bool) -> Told {
        let (kind, program, verdict) = (kind.to_owned(), "gate_work".to_owned(), verdict.to_owned());
        Told { kind, program, beside, verdict, slowdown: [1.0, 0.98, 1.02], spent_s: 15.0, runs: vec![0.2, 0.4, 0.2] }
    }

    #[test]
    fn gates_are_kept_and_judged_by_what_they_must_say() {
        let back = Told::parse(&told("same", "cannot_tell", true).kept()).unwrap();
        assert!(back.beside && back.is_right() && back.runs == [0.2, 0.4, 0.2]);
        assert!(told("ten", "slower", false).is_right() && !told("ten", "same", false).is_right());
        let wrong = || told("same", "slower", false);
        assert!(missed(&[wrong(), told("five", "slower", true)]).is_empty(), "one may be wrong");
        assert_eq!(missed(&[wrong(), wrong()]), ["same: 2 of 2 gates are wrong, 1 may be"]);
    }

    #[test]
    fn noise_is_by_the_middle_of_its_gate() {
        let all = [told("same", "same", true), told("ten", "slower", true)];
        assert_eq!(noise(&all), "recorded: gate_work beside\t1.0000 2.0000 1.0000\n");
        assert!(
            real(&all).contains("| 10% slower | 1m | beside neighbours that take half of it | 1 | slower | 1 | 0 |")
        );
    }
}
