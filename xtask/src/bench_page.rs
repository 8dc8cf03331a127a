//! The benchmark page of this machine: ours beside the peers, measured in one run, as `holdup` prints it.

use std::fs;

use crate::run::{cargo, root};

const STORE: &str = "target/bench-page.db";

/// Measures `experiments/peers.toml` and writes `docs/benchmarks/peers-NAME.md`, CSV beside it. The name is the first argument,
/// for example `epyc-2cpu`.
pub fn write(args: &[String]) -> Result<(), String> {
    let name = args.first().ok_or("name this machine, for example: cargo xtask bench-page epyc-2cpu")?;
    if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
        return Err(format!(
            "'{name}' is not a file name of letters, digits and dashes; for example epyc-2cpu"
        ));
    }
    cargo(&["build", "--release", "--package", "holdup"]).run()?;
    let report = holdup(&["run", "experiments/peers.toml"])?;
    let csv = holdup(&["export", "last", "--csv"])?;
    let folder = root().join("docs/benchmarks");
    let page = folder.join(format!("peers-{name}.md"));
    save(&page, &page_text(name, &report))?;
    save(&folder.join(format!("peers-{name}.csv")), &csv)?;
    eprintln!("wrote {}", page.display());
    Ok(())
}

fn page_text(name: &str, report: &str) -> String {
    format!(
        "# Ours beside the peers: {name}\n\n\
         Written by `cargo xtask bench-page {name}`, which runs `holdup run experiments/peers.toml`. Every raw run is in\n\
         [peers-{name}.csv](peers-{name}.csv). Ratios are paired: each is taken to the pthread mutex (or the one-lock map)\n\
         measured next to it, median with 95% interval.\n\n\
         ```text\n{}\n```\n",
        report.trim_end()
    )
}

fn holdup(args: &[&str]) -> Result<String, String> {
    cargo(&["run", "--quiet", "--release", "--package", "holdup", "--"])
        .args(args)
        .args(&["--store", STORE])
        .output()
}

fn save(path: &std::path::Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
}
