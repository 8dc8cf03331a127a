//! The benchmark pages of this machine, as `holdup` prints them: ours beside the peers, and the published claims.

use std::fs;
use std::path::Path;

use crate::run::{cargo, machine, root};

const STORE: &str = "target/bench-page.db";

/// One page: the start of its file's name, what it shows, and the command behind it.
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
        command: &["run", "experiments/peers.toml"],
        about: "Ratios are paired: each is taken to the pthread mutex (or the one-lock map) measured next to it, median with\n\
                95% interval.",
    },
    Page {
        name: "claims",
        title: "Published claims on this machine",
        command: &["reproduce", "all", "--quick"],
        about: "A claim that differs is a finding about this machine and today's kernels, not a failure.",
    },
];

/// Measures and writes `docs/benchmarks/PAGE-NAME.md`. The name is the first argument, for example `epyc-2cpu`; a second one
/// picks a single page. The raw runs stay in `target/bench-page.db`.
pub fn write(args: &[String]) -> Result<(), String> {
    let machine = machine(args, "bench-page")?;
    let wanted: Vec<&Page> =
        PAGES.iter().filter(|page| args.get(1).is_none_or(|name| name == page.name)).collect();
    if wanted.is_empty() {
        return Err("the pages are peers and claims".to_owned());
    }
    cargo(&["build", "--release", "--package", "holdup"]).run()?;
    let folder = root().join("docs/benchmarks");
    for page in wanted {
        let report = holdup(page.command)?;
        save(&folder.join(format!("{}-{machine}.md", page.name)), &page_text(page, machine, &report))?;
    }
    eprintln!("'cargo xtask figures' brings the figures into the docs that cite them");
    Ok(())
}

fn page_text(page: &Page, machine: &str, report: &str) -> String {
    format!(
        "# {}: {machine}\n\nWritten by `cargo xtask bench-page {machine} {}`, which runs `holdup {}`. {}\n\n```text\n{}\n```\n",
        page.title,
        page.name,
        page.command.join(" "),
        page.about,
        report.trim_end()
    )
}

fn holdup(args: &[&str]) -> Result<String, String> {
    cargo(&["run", "--quiet", "--release", "--package", "holdup", "--"])
        .args(args)
        .args(&["--store", STORE])
        .output()
}

fn save(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    eprintln!("wrote {}", path.display());
    Ok(())
}
