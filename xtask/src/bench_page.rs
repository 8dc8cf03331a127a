//! The benchmark pages of this machine: ours beside the peers (mutexes, reader-writer locks), the published claims, and
//! the techniques.

use std::fs;
use std::path::Path;

use crate::run::{Step, cargo, machine, root};

const STORE: &str = "target/bench-page.db";

/// One page: the start of its file's name, what it shows, and the command behind it, as a user would type it.
struct Page {
    name: &'static str,
    title: &'static str,
    command: &'static [&'static str],
    about: &'static str,
}

const PAGES: &[Page] = &[
    Page {
        name: "peers",
        title: "Ours beside the peers",
        command: &["holdup", "run", "experiments/peers.toml"],
        about: "Ratios are paired: each is taken to the pthread mutex (or the one-lock map) measured next to it, median with\n\
                95% interval.",
    },
    Page {
        name: "rw",
        title: "Reader-writer locks beside the peers",
        command: &["holdup", "run", "experiments/rw.toml"],
        about: "Ratios are paired: each is taken to the C library's default reader-writer lock measured next to it, median with\n\
                95% interval. `adaptive` is our mutex, for what sharing is worth.",
    },
    Page {
        name: "claims",
        title: "Published claims on this machine",
        command: &["holdup", "reproduce", "all", "--quick"],
        about: "A claim that differs is a finding about this machine and today's kernels, not a failure. The table says for each\n\
                claim what was published and on what, what was measured with a lock that hands over as those of its day did (then)\n\
                and with today's (now), and in which points the test is fair to the source; the report below has the reasons.",
    },
    Page {
        name: "techniques",
        title: "The techniques beside their peers",
        command: &["cargo", "bench", "-p", "holdup-locks", "--bench", "techniques"],
        about: "Above 1 is faster than the block's first line. Ratios are paired within a round in which all lines of a block ran;\n\
                `pairs` are the rounds in which no other program took a CPU from either.",
    },
];

/// Measures and writes `docs/benchmarks/PAGE-NAME.md`. The name is the first argument, for example `epyc-2cpu`; a
/// second one picks a single page. The raw runs stay in `target/bench-page.db`.
pub fn write(args: &[String]) -> Result<(), String> {
    let machine = machine(args, "bench-page")?;
    let wanted: Vec<&Page> = PAGES.iter().filter(|page| args.get(1).is_none_or(|name| name == page.name)).collect();
    if wanted.is_empty() {
        return Err("the pages are peers, rw, claims and techniques".to_owned());
    }
    cargo(&["build", "--release", "--package", "holdup"]).run()?;
    let folder = root().join("docs/benchmarks");
    for page in wanted {
        let report = output(page, &folder.join(format!("{}-{machine}.md", page.name)))?;
        save(&folder.join(format!("{}-{machine}.md", page.name)), &page_text(page, machine, &report))?;
    }
    eprintln!("'cargo xtask figures' brings the figures into the docs that cite them");
    Ok(())
}

fn page_text(page: &Page, machine: &str, report: &str) -> String {
    format!(
        "# {}: {machine}\n\nWritten by `cargo xtask bench-page {machine} {}`, which runs `{}`. \
         {}\n\n{}\n",
        page.title,
        page.name,
        page.command.join(" "),
        page.about,
        report.trim()
    )
}

/// What a page's command prints. holdup is the one of this tree, with the store of these pages; the page of claims gets
/// its table of verdicts on top.
fn output(page: &Page, path: &Path) -> Result<String, String> {
    match page.command {
        ["holdup", words @ ..] => {
            let verdicts = path.with_extension("table");
            let named = verdicts.to_string_lossy().into_owned();
            let more: &[&str] = if page.name == "claims" { &["--force", "--verdicts", &named] } else { &[] };
            let run = cargo(&["run", "--quiet", "--release", "--package", "holdup", "--"]).args(words);
            let report = run.args(&["--store", STORE]).args(more).output()?;
            if more.is_empty() {
                return Ok(block(&report));
            }
            let table = fs::read_to_string(&verdicts).map_err(|error| format!("{named}: {error}"))?;
            fs::remove_file(&verdicts).map_err(|error| format!("{named}: {error}"))?;
            Ok(format!("{}\n\n{}", table.trim(), block(&report)))
        }
        [program, words @ ..] => Step::new(program, words).output().map(|report| block(&report)),
        [] => Err("a page has no command".to_owned()),
    }
}

/// A report as it stood on the terminal.
fn block(report: &str) -> String {
    format!("```text\n{}\n```", report.trim())
}

fn save(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    eprintln!("wrote {}", path.display());
    Ok(())
}
