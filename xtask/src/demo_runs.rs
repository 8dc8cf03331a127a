//! How often `holdup demo` tells its story: it names the trouble, and announces a cure that helps in separate runs too.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use crate::recording::{Bench, Neighbours, interval, median, output};
use crate::run::{machine, root, target_folder};

/// Longer a demo may not take.
const WITHIN_S: f64 = 60.0;
/// Pairs of separate runs that a cure must stand, and requests of each.
const PAIRS: usize = 10;
const REQUESTS: &str = "2000";

/// What one demo said.
struct Told {
    neighbour: bool,
    seconds: f64,
    trouble: bool,
    cure: String,
    /// The line that keeps it.
    keep: String,
}

/// Runs the demo and adds what came of it to `docs/benchmarks/demo-NAME.md`. The arguments are the machine's name and
/// how often it runs (10); `--neighbour` has another process burn a CPU meanwhile, `--anew` forgets earlier runs.
pub fn write(args: &[String]) -> Result<(), String> {
    let (options, words): (Vec<String>, Vec<String>) = args.iter().cloned().partition(|word| word.starts_with("--"));
    if let Some(other) = options.iter().find(|word| !["--neighbour", "--anew"].contains(&word.as_str())) {
        return Err(format!("'{other}': the options are --neighbour and --anew"));
    }
    let machine = machine(&words, "demo-runs")?;
    let runs: usize = match words.get(1) {
        None => 10,
        Some(word) => word.parse().map_err(|_| format!("'{word}' is not a number of runs"))?,
    };
    let bench = Bench::new("demo-runs")?;
    let kept = target_folder().join("demo-runs.tsv");
    if options.iter().any(|word| word == "--anew") {
        let _ = std::fs::remove_file(&kept);
    }
    let beside = options.iter().any(|word| word == "--neighbour");
    let neighbour = if beside { Some(Neighbours::new(1)?) } else { None };
    for run in 1..=runs {
        let told = one_run(&bench, beside)?;
        println!("{run:>3}/{runs}  {}", told.line().replace('\t', "  "));
        append(&kept, &told.line())?;
    }
    drop(neighbour);
    let all = std::fs::read_to_string(&kept).map_err(|why| format!("{}: {why}", kept.display()))?;
    let all: Vec<Told> = all.lines().filter_map(Told::parse).collect();
    let path = root().join(format!("docs/benchmarks/demo-{machine}.md"));
    std::fs::write(&path, page(&bench, machine, &all)?).map_err(|why| format!("{}: {why}", path.display()))?;
    eprintln!("wrote {}", path.display());
    Ok(())
}

fn one_run(bench: &Bench, neighbour: bool) -> Result<Told, String> {
    let began = Instant::now();
    let said = output(Command::new(&bench.holdup).arg("demo"))?;
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    Ok(Told::of(&text, neighbour, began.elapsed().as_secs_f64()))
}

impl Told {
    fn of(text: &str, neighbour: bool, seconds: f64) -> Told {
        let between = |from: &str, to: &str| {
            let rest = text.split_once(from).map_or("", |(_, rest)| rest);
            rest.split_once(to).map_or(rest, |(part, _)| part)
        };
        let words = |part: &str| part.split_whitespace().filter(|word| *word != "\\").collect::<Vec<_>>().join(" ");
        let ranking = between("2. Which cure helps?", "remedy ");
        let headline = words(ranking.split_once('\n').map_or("", |(_, below)| below));
        Told {
            neighbour,
            seconds,
            trouble: between("1. What holds it up?", "2. Which cure").contains("CACHE_LOCK"),
            cure: headline.split_once(" helps by ").map_or(String::new(), |(cure, _)| cure.to_owned()),
            keep: words(between("3. Keep it:", "\n  For a service").split("\n  Put").next().unwrap_or("")),
        }
    }

    fn line(&self) -> String {
        let place = if self.neighbour { "beside" } else { "quiet" };
        let trouble = if self.trouble { "named" } else { "not named" };
        format!("{place}\t{:.1}\t{trouble}\t{}\t{}", self.seconds, self.cure, self.keep)
    }

    fn parse(line: &str) -> Option<Told> {
        let [place, seconds, trouble, cure, keep] = line.split('\t').collect::<Vec<_>>().try_into().ok()?;
        Some(Told {
            neighbour: place == "beside",
            seconds: seconds.parse().ok()?,
            trouble: trouble == "named",
            cure: cure.to_owned(),
            keep: keep.to_owned(),
        })
    }
}

fn append(path: &Path, line: &str) -> Result<(), String> {
    let before = std::fs::read_to_string(path).unwrap_or_default();
    std::fs::write(path, before + line + "\n").map_err(|why| format!("{}: {why}", path.display()))
}

fn page(bench: &Bench, machine: &str, all: &[Told]) -> Result<String, String> {
    let mut cures: Vec<(&str, &str)> = all.iter().map(|told| (told.cure.as_str(), told.keep.as_str())).collect();
    cures.sort_unstable();
    cures.dedup_by_key(|(cure, _)| *cure);
    cures.retain(|(cure, _)| !cure.is_empty());
    let checked: Vec<(&str, Checked)> =
        cures.iter().map(|(cure, keep)| Ok((*cure, check(bench, keep)?))).collect::<Result<_, String>>()?;
    let helps = |told: &Told| checked.iter().any(|(cure, checked)| *cure == told.cure && checked.low > 1.0);
    let mut page = format!(
        "# How often the demo tells its story: {machine}\n\n\
         Written by `cargo xtask demo-runs {machine}`. `holdup demo` names the trouble if what it says first is about the\n\
         cache's lock. A cure really helps if {PAIRS} pairs of separate runs of the demo's program, as it is and under the line\n\
         that keeps the cure, have a median ratio whose 95% interval (bootstrap) lies above 1.\n\n\
         | | runs | trouble named | cure announced | that really helps | seconds, median | longest | all of it within \
         {WITHIN_S:.0} s |\n|---|---|---|---|---|---|---|---|\n"
    );
    for (name, beside) in [("alone", false), ("beside a process that burns a CPU", true)] {
        let runs: Vec<&Told> = all.iter().filter(|told| told.neighbour == beside).collect();
        let seconds: Vec<f64> = runs.iter().map(|told| told.seconds).collect();
        let count = |is: &dyn Fn(&Told) -> bool| runs.iter().filter(|told| is(told)).count();
        if runs.is_empty() {
            continue;
        }
        let _ = writeln!(
            page,
            "| {name} | {} | {} | {} | {} | {:.0} | {:.0} | {} |",
            runs.len(),
            count(&|told| told.trouble),
            count(&|told| !told.cure.is_empty()),
            count(&helps),
            median(&seconds),
            seconds.iter().copied().fold(0.0, f64::max),
            count(&|told| told.trouble && helps(told) && told.seconds <= WITHIN_S)
        );
    }
    page.push_str("\n| cure | announced | in separate runs, times as fast | 95% interval |\n|---|---|---|---|\n");
    for (cure, checked) in &checked {
        let times = all.iter().filter(|told| told.cure == *cure).count();
        let Checked { ratio, low, high } = checked;
        let _ = writeln!(page, "| {cure} | {times} | {ratio:.2} | {low:.2} to {high:.2} |");
    }
    Ok(page)
}

/// A cure in separate runs.
struct Checked {
    ratio: f64,
    low: f64,
    high: f64,
}

/// The demo's program as it is and under the line that keeps a cure, in turns.
fn check(bench: &Bench, keep: &str) -> Result<Checked, String> {
    let program = format!("holdup __answer-requests {REQUESTS}");
    let line = keep.replace("./page-cache", &program);
    let path = format!("{}:{}", bench.folder.display(), std::env::var("PATH").unwrap_or_default());
    let timed = |line: &str| {
        let began = Instant::now();
        output(Command::new("sh").args(["-c", line]).env("PATH", &path))?;
        Ok::<f64, String>(began.elapsed().as_secs_f64())
    };
    let pair = |at: usize| match at % 2 {
        0 => Ok(timed(&program)? / timed(&line)?),
        _ => timed(&line).and_then(|cured| Ok(timed(&program)? / cured)),
    };
    let ratios: Vec<f64> = (0..PAIRS).map(pair).collect::<Result<_, String>>()?;
    let (low, high) = interval(&ratios, 1);
    Ok(Checked { ratio: median(&ratios), low, high })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_demo_says_is_read_and_kept() {
        let text = "page-cache ...\n\n1. What holds it up?  $ holdup record -- ./page-cache\nThreads queue up behind\n\
                    demo::CACHE_LOCK: most.\n\n2. Which cure helps?  $ holdup try -- ./page-cache\nmalloc keep helps by\n\
                    3.16x [2.92, 3.42].\n\nremedy  speed\n\n3. Keep it:\n  env \\\n    A=1 \\\n    ./page-cache\n  For a \
                    service:\n  A=1\n";
        let told = Told::parse(&Told::of(text, true, 12.34).line()).unwrap();
        assert!(told.neighbour && told.trouble);
        assert_eq!((told.cure.as_str(), told.keep.as_str()), ("malloc keep", "env A=1 ./page-cache"));
        let told = Told::of("2. Which cure helps?  $ x\nNothing helps page-cache.\n\nremedy", false, 1.0);
        assert!(!told.trouble && told.cure.is_empty() && told.keep.is_empty());
    }
}
