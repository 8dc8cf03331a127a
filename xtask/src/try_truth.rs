//! Does `holdup try` find the cure of programs whose cure is known, and none where there is none?

use std::process::Command;

use serde_json::Value;

use crate::recording::{Bench, output};
use crate::run::cargo;
use crate::setup;

/// So many searches of a program that nothing helps may end with something that does, of a hundred.
const WRONG_OF_100: usize = 5;
/// A cure that must be found is worth at least this.
const WORTH: f64 = 1.3;

/// A program, and what the search must say of it.
struct Case {
    about: &'static str,
    source: &'static str,
    /// What the search is told to try; nothing for its own choice.
    options: &'static [&'static str],
    words: &'static [&'static str],
    is_right: fn(&Value) -> bool,
    /// Debian's packages without which it is not tried.
    needs: &'static [&'static str],
}

const CASES: &[Case] = &[
    Case {
        about: "sections of tens of ns: a gate or spin-park helps by 1.3 or more",
        source: "try_section.c",
        // One CPU alone helps such a program even more.
        options: &["--locks", "spin-park,spin-learn,ttas", "--gates", "1,2"],
        words: &["8", "200000", "40", "100"],
        is_right: |trial| {
            let winner = trial["winner"].as_str().unwrap_or("");
            (winner.starts_with("throttle") || winner.starts_with("spin-park"))
                && ratio(trial, winner).is_some_and(|(_, _, ratio)| ratio >= WORTH)
        },
        needs: &[],
    },
    Case {
        about: "sections of 1 us: decided, or too noisy, and no gate of 1",
        source: "try_section.c",
        options: &[],
        words: &["8", "20000", "600", "1200"],
        is_right: |trial| {
            matches!(trial["verdict"].as_str(), Some("helps" | "nothing" | "noisy"))
                && trial["winner"].as_str() != Some("throttle:1")
        },
        needs: &[],
    },
    Case {
        about: "it runs for a fixed time and prints a rate: judged by that",
        source: "try_fixed.c",
        options: &["--locks", "spin-park,ttas", "--gates", "1"],
        words: &["8", "500", "prints"],
        is_right: |trial| is_judged_by(trial, "printed") && trial["metric"]["label"] == "ms: updates/s",
        needs: &[],
    },
    Case {
        about: "it runs for a fixed time and prints nothing: judged by its locks",
        source: "try_fixed.c",
        options: &["--locks", "spin-park,ttas", "--gates", "1"],
        words: &["8", "500"],
        is_right: |trial| is_judged_by(trial, "acquisitions"),
        needs: &[],
    },
    Case {
        about: "a gate crashes it: failed, and nothing that failed wins",
        source: "try_assumes.c",
        options: &[],
        words: &["crash"],
        is_right: |trial| failed(trial).any(|name| name.starts_with("throttle")) && winner_is_live(trial),
        needs: &[],
    },
    Case {
        about: "a gate hangs it: failed, and nothing that failed wins",
        source: "try_assumes.c",
        options: &[],
        words: &["hang"],
        is_right: |trial| failed(trial).any(|name| name.starts_with("throttle")) && winner_is_live(trial),
        needs: &[],
    },
    Case {
        about: "six threads and one arena: another allocator wins, and none changes what is printed",
        source: "try_malloc.c",
        options: &["--malloc", "keep,jemalloc,mimalloc,tcmalloc", "--same-output"],
        words: &["6", "30000"],
        is_right: |trial| {
            let winner = trial["winner"].as_str().unwrap_or("");
            winner.starts_with("malloc ")
                && ratio(trial, winner).is_some_and(|(low, ..)| low > 1.0)
                && failed(trial).next().is_none()
                && remedies(trial).count() == 4
        },
        needs: &["libjemalloc2", "libmimalloc2.0", "libtcmalloc-minimal4"],
    },
];

/// Searches of each program that changes its speed by itself.
const BISTABLE_SEARCHES: &str = "200";

/// Searches among programs that are made up, tries every case of real ones, then the program that nothing helps as
/// often as the first argument says (20 times); `bistable`: the first part alone.
pub fn run(args: &[String]) -> Result<(), String> {
    let only_bistable = args.first().is_some_and(|word| word == "bistable");
    bistable(args.get(1).filter(|_| only_bistable).map_or(BISTABLE_SEARCHES, String::as_str))?;
    if only_bistable {
        return Ok(());
    }
    let repeats: usize = match args.first() {
        None => 20,
        Some(word) => word.parse().map_err(|_| format!("'{word}' is not a number of searches"))?,
    };
    let bench = Bench::new("try-truth")?;
    let mut wrong = 0;
    for case in CASES {
        if let Err(why) = setup::install_packages(case.needs) {
            println!("not tried: {}: {why}", case.about);
            continue;
        }
        let trial = search(&bench, case.source, case.options, case.words)?;
        let is_right = (case.is_right)(&trial);
        wrong += usize::from(!is_right);
        println!("{}  {}\n       {}", if is_right { "right" } else { "WRONG" }, case.about, said(&trial));
    }
    let helped = (1..=repeats).try_fold(0, |helped, n| {
        let trial = search(&bench, "try_healthy.c", &[], &["2", "3000"])?;
        let helps = trial["verdict"] == "helps";
        println!("{n:>4}/{repeats}  healthy  {}", said(&trial));
        Ok::<_, String>(helped + usize::from(helps))
    })?;
    println!("healthy: something was said to help in {helped} of {repeats} searches");
    wrong += usize::from(helped * 100 > repeats * WRONG_OF_100);
    if wrong == 0 { Ok(()) } else { Err(format!("{wrong} answers are wrong")) }
}

/// Six kinds of programs that are fast and slow by turns or from start to start: minutes of each, times hundreds of
/// searches, in a time of their own. The search is the real one.
fn bistable(searches: &str) -> Result<(), String> {
    let words = ["test", "--package", "holdup", "--lib", "trial::search::truth", "--", "--nocapture"];
    cargo(&words).env("HOLDUP_SEARCHES", searches).run()
}

/// Whether a fixed time was noticed, and what was compared instead; such a program is never told that nothing helps by
/// its elapsed time.
fn is_judged_by(trial: &Value, figure: &str) -> bool {
    trial["fixed_s"].is_number() && trial["figure"] == figure
}

fn search(bench: &Bench, source: &str, options: &[&str], words: &[&str]) -> Result<Value, String> {
    let program = match bench.folder.join(source.trim_end_matches(".c")) {
        there if there.exists() => there,
        _ => bench.compile(&format!("interposer/{source}"))?,
    };
    let mut command = Command::new(&bench.holdup);
    command.args(["try", "--json", "--budget", "1m"]).args(options).arg("--").arg(program).args(words);
    let said = output(&mut command)?;
    serde_json::from_slice(&said.stdout).map_err(|why| format!("{command:?}: {why}"))
}

/// What a search says, in a line.
fn said(trial: &Value) -> String {
    let winner = trial["winner"].as_str().unwrap_or("");
    let helps = ratio(trial, winner)
        .map_or(String::new(), |(low, high, ratio)| format!(": {winner} {ratio:.2}x [{low:.2}, {high:.2}]"));
    let failed: Vec<&str> = failed(trial).collect();
    let failed = if failed.is_empty() { String::new() } else { format!("; failed: {}", failed.join(", ")) };
    let spent_s = trial["spent_s"].as_f64().unwrap_or(0.0);
    format!("{}{helps}{failed} ({spent_s:.0} s)", trial["verdict"].as_str().unwrap_or("?"))
}

fn remedies(trial: &Value) -> impl Iterator<Item = &Value> {
    trial["remedies"].as_array().into_iter().flatten()
}

fn failed(trial: &Value) -> impl Iterator<Item = &str> {
    remedies(trial).filter(|remedy| remedy["standing"] == "failed").filter_map(|remedy| remedy["name"].as_str())
}

fn winner_is_live(trial: &Value) -> bool {
    trial["winner"].as_str().is_none_or(|winner| failed(trial).all(|name| name != winner))
}

/// Low end, high end and median of the ratio of a remedy.
fn ratio(trial: &Value, name: &str) -> Option<(f64, f64, f64)> {
    let remedy = remedies(trial).find(|remedy| remedy["name"] == name)?;
    let ratio = &remedy["ratio"];
    Some((ratio["low"].as_f64()?, ratio["high"].as_f64()?, ratio["ratio"].as_f64()?))
}
