//! Measured figures in the documentation: taken from the benchmark page, written where the docs cite them, and checked.
//!
//! `cargo xtask figures` reads the page of the peers and rewrites
//! * the line that begins with `Measured: ` in the docs of every lock and of `TableMap` (`crates/holdup-locks/src`),
//!   and
//! * the table between the markers in `docs/which-lock.md`.
//!
//! A test holds both against the page, and every other ratio in `docs/which-lock.md` against the pages that it cites.
//! So a page that is measured anew cannot leave old figures behind.

use crate::run;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// The page that the docs cite.
const PAGE: &str = "docs/benchmarks/peers-xeon-2cpu.md";
/// The guide with the table.
const GUIDE: &str = "docs/which-lock.md";
const BEGIN: &str = "<!-- figures: written by 'cargo xtask figures' -->";
const END: &str = "<!-- end of figures -->";

/// The loads of the page that the docs cite, in their order.
const LOADS: &[&str] = &["uncontended", "tight", "short", "even", "crowded"];
/// The loads whose fairness the guide's table shows.
const PROBES: &[&str] = &["2 threads", "8 threads"];

/// Rewrites what is cited.
pub fn run(args: &[String]) -> Result<(), String> {
    if let Some(word) = args.first() {
        return Err(format!("'{word}' is not understood; 'cargo xtask figures' takes no arguments"));
    }
    for citation in citations()? {
        if citation.now != citation.wanted {
            std::fs::write(&citation.file, &citation.wanted)
                .map_err(|why| format!("cannot write {}: {why}", citation.file.display()))?;
            eprintln!("wrote {}", citation.file.display());
        }
    }
    Ok(())
}

/// A file that cites the page: its text, and the text with the page's figures.
struct Citation {
    file: PathBuf,
    now: String,
    wanted: String,
}

fn citations() -> Result<Vec<Citation>, String> {
    let page = Page::parse(&read(&run::root().join(PAGE))?);
    let sources = run::root().join("crates/holdup-locks/src");
    let mut citations = Vec::new();
    for file in rust_files(&sources.join("lock"))? {
        let now = read(&file)?;
        let name = file.file_stem().unwrap_or_default().to_string_lossy().replace('_', "-");
        let wanted = with_measured(&now, &page.of_lock(&name));
        citations.push(Citation { file, now, wanted });
    }
    let map = sources.join("technique/map.rs");
    let now = read(&map)?;
    citations.push(Citation { wanted: with_measured(&now, &page.of_map()?), file: map, now });
    let guide = run::root().join(GUIDE);
    let now = read(&guide)?;
    citations.push(Citation { wanted: with_table(&now, &page.table())?, file: guide, now });
    Ok(citations)
}

fn read(file: &Path) -> Result<String, String> {
    std::fs::read_to_string(file).map_err(|why| format!("cannot read {}: {why}", file.display()))
}

fn rust_files(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = std::fs::read_dir(folder).map_err(|why| format!("cannot read {}: {why}", folder.display()))?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "rs"));
    files.sort();
    Ok(files)
}

/// `text` with `line` in place of each doc line that begins with `Measured: `.
fn with_measured(text: &str, line: &str) -> String {
    let replaced = text.split_inclusive('\n').map(|old| match old.split_once("/// Measured: ") {
        Some((indent, _)) if indent.trim().is_empty() => format!("{indent}/// Measured: {line}\n"),
        _ => old.to_owned(),
    });
    replaced.collect()
}

/// `text` with `table` between the markers.
fn with_table(text: &str, table: &str) -> Result<String, String> {
    let missing = || format!("{GUIDE} has no lines '{BEGIN}' and '{END}'");
    let (before, rest) = text.split_once(BEGIN).ok_or_else(missing)?;
    let (_, after) = rest.split_once(END).ok_or_else(missing)?;
    Ok(format!("{before}{BEGIN}\n\n{table}\n{END}{after}"))
}

/// One row of the page.
struct Row {
    /// `tight`, or `2 threads` below `starving`.
    load: String,
    lock: String,
    /// The ratio of time to pthread's, as printed, with the page's `=` where no difference is shown.
    ratio: String,
    jain: Option<String>,
}

struct Page {
    rows: Vec<Row>,
    text: String,
}

impl Page {
    fn parse(text: &str) -> Self {
        let mut rows = Vec::new();
        let mut load = "";
        // A name that is too long for its column stands on a line of its own.
        let mut name = "";
        for line in text.lines() {
            if LOADS.contains(&line) || PROBES.contains(&line) {
                load = line;
            } else if ["maps", "starving"].contains(&line) {
                load = "";
            } else if !load.is_empty() {
                rows.extend(row(load, &format!("{name} {line}")));
            }
            name = if line.contains(char::is_whitespace) { "" } else { line };
        }
        Self { rows, text: text.to_owned() }
    }

    fn find(&self, load: &str, lock: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.load == load && row.lock == lock)
    }

    /// The sentence of a lock's type.
    fn of_lock(&self, lock: &str) -> String {
        let found: Vec<String> =
            LOADS.iter().filter_map(|load| self.find(load, lock).map(|row| format!("{load} {}", row.ratio))).collect();
        match found.is_empty() {
            true => "not in the [table](crate#measured).".to_owned(),
            false => format!("{} of pthread's time ([table](crate#measured)).", found.join(", ")),
        }
    }

    /// The sentence of the map, from the claim `G-table-map`.
    fn of_map(&self) -> Result<String, String> {
        let missing = || format!("{PAGE} does not say how the map compares (claim G-table-map)");
        let claim = self.text.split("G-table-map").nth(1).ok_or_else(missing)?;
        // "measured  against one lock 6.24x [..] and 7.02x [..], against dashmap 1.95x [..] and 1.94x [..]"
        let measured = claim.split("measured").nth(1).ok_or_else(missing)?;
        let (half, tenth) = ratios(measured, "lock").ok_or_else(missing)?;
        let (half_dashmap, tenth_dashmap) = ratios(measured, "dashmap").ok_or_else(missing)?;
        Ok(format!(
            "with 50% and 10% updates {half} and {tenth} times as fast as one lock around a map, {half_dashmap} and \
             {tenth_dashmap} times as dashmap."
        ))
    }

    /// The guide's table: every lock of the uncontended load, in the page's order.
    fn table(&self) -> String {
        let mut table = format!("| lock | {} | Jain, 2 | Jain, 8 |\n", LOADS.join(" | "));
        table.push_str(&format!("|---|{}\n", "---|".repeat(LOADS.len() + PROBES.len())));
        for lock in self.rows.iter().filter(|row| row.load == LOADS[0]).map(|row| &row.lock) {
            let ratio = |load: &&str| self.find(load, lock).map_or("–", |row| row.ratio.as_str());
            let jain = |load: &&str| self.find(load, lock).and_then(|row| row.jain.as_deref()).unwrap_or("–");
            let cells: Vec<&str> = LOADS.iter().map(ratio).chain(PROBES.iter().map(jain)).collect();
            let _ = writeln!(table, "| {lock} | {} |", cells.join(" | "));
        }
        table
    }
}

/// The two ratios that follow the word `after`.
fn ratios(text: &str, after: &str) -> Option<(String, String)> {
    let mut ratios = text
        .split_whitespace()
        .skip_while(|word| *word != after)
        .filter_map(|word| word.strip_suffix('x').map(str::to_owned));
    Some((ratios.next()?, ratios.next()?))
}

/// `adaptive  102M  0.86 [0.85-0.87]  9.79ns  0ns  <0.001  0.98`, where `=` may stand before the ratio.
fn row(load: &str, line: &str) -> Option<Row> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let (lock, rest) = words.split_first()?;
    // Rates have a suffix for thousands or more; headings and sentences have no number in their second place.
    let rate = rest.first()?;
    rate.strip_suffix(['k', 'M', 'G']).unwrap_or(rate).parse::<f64>().ok()?;
    let same = rest.get(1) == Some(&"=");
    let rest = &rest[1 + usize::from(same)..];
    let ratio = rest.first().filter(|ratio| ratio.parse::<f64>().is_ok())?;
    let interval_or_baseline = *rest.get(1)?;
    if interval_or_baseline != "baseline" && !interval_or_baseline.starts_with('[') {
        return None;
    }
    let figures_before_jain = 5;
    let jain = rest.get(figures_before_jain).filter(|jain| jain.parse::<f64>().is_ok());
    Some(Row {
        load: load.to_owned(),
        lock: (*lock).to_owned(),
        ratio: if same { format!("={ratio}") } else { (*ratio).to_owned() },
        jain: jain.map(|jain| (*jain).to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = "\
tight
tas leads (0.27 of pthread's time).
                           time vs pthread        user  kernel  switches
lock              ops/s    below 1 = faster     per op  per op    per op  Jain
pthread           25.7M        1 baseline       40.6ns  26.0ns    <0.001  1.00
adaptive          72.4M     0.35 [0.33-0.49]    27.1ns  0.28ns    <0.001  0.98
ticket-spin       23.8M  =  1.07 [0.74-8.14]    84.0ns     0ns    <0.001  1.00
pthread-adaptive
                  21.5M     1.50 [1.35-1.92]    75.1ns  7.95ns    <0.001  1.00

starving
8 threads
spin-ttas           829    3.89 [3.80-3.96]  2.41ms     0ns     0.616  0.32
";

    #[test]
    fn rows_are_read_with_their_load() {
        let page = Page::parse(SAMPLE);
        assert_eq!(page.rows.len(), 5);
        assert_eq!(page.find("tight", "pthread-adaptive").map(|row| row.ratio.as_str()), Some("1.50"));
        let row = page.find("tight", "adaptive").unwrap();
        assert_eq!((row.ratio.as_str(), row.jain.as_deref()), ("0.35", Some("0.98")));
        assert_eq!(page.find("tight", "ticket-spin").unwrap().ratio, "=1.07");
        assert_eq!(page.find("8 threads", "spin-ttas").unwrap().jain.as_deref(), Some("0.32"));
        assert_eq!(page.of_lock("adaptive"), "tight 0.35 of pthread's time ([table](crate#measured)).");
        assert!(page.of_lock("pipe").starts_with("not in"));
    }

    #[test]
    fn only_the_measured_line_is_replaced() {
        let text = "/// A lock.\n    /// Measured: old\n/// End, not Measured: this.\n";
        assert_eq!(with_measured(text, "new"), "/// A lock.\n    /// Measured: new\n/// End, not Measured: this.\n");
    }

    #[test]
    fn the_docs_cite_the_figures_of_the_page() {
        for citation in citations().unwrap() {
            let first = citation.now.lines().zip(citation.wanted.lines()).find(|(now, wanted)| now != wanted);
            assert!(
                citation.now == citation.wanted,
                "{} cites figures that {PAGE} does not have; 'cargo xtask figures' corrects it: {first:?}",
                citation.file.display()
            );
        }
    }

    /// Every lock's page must cite, also those that are in no table.
    #[test]
    fn every_lock_cites() {
        let all = citations().unwrap();
        let cites = |citation: &&Citation| citation.now.contains("/// Measured: ");
        let silent = ["asymmetry", "backoff", "handle", "kernel", "learned", "misuse", "mod", "raw", "recursive"];
        for citation in all.iter().filter(|citation| !cites(citation)) {
            let stem = citation.file.file_stem().unwrap().to_string_lossy();
            let known = silent.contains(&&*stem) || citation.file.ends_with(GUIDE);
            assert!(known, "{} says nothing that was measured", citation.file.display());
        }
    }

    /// A ratio in the guide's prose ("1.5 x") stands in one of the pages that it links to.
    #[test]
    fn the_guides_other_ratios_stand_in_a_page_that_it_cites() {
        let guide = read(&run::root().join(GUIDE)).unwrap();
        let pages: String = guide
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next())
            .filter(|link| link.starts_with("benchmarks/"))
            .map(|link| read(&run::root().join("docs").join(link)).unwrap())
            .collect();
        let pages = pages.split_whitespace().collect::<Vec<_>>().join(" ");
        let ratios = guide.split_whitespace().filter_map(|word| {
            let word = word.trim_matches(|c: char| !c.is_ascii_digit() && c != 'x');
            word.strip_suffix('x').filter(|number| number.parse::<f64>().is_ok())
        });
        let ratios: Vec<&str> = ratios.collect();
        assert!(ratios.len() >= 5, "the guide's ratios were not found");
        let stands = |ratio: &str| pages.contains(&format!("{ratio}x")) || pages.contains(&format!(" {ratio} ["));
        let strays: Vec<&&str> = ratios.iter().filter(|ratio| !stands(ratio)).collect();
        assert!(
            strays.is_empty(),
            "these ratios of {GUIDE} stand in no page that it cites (measured anew? then change them by hand): \
             {strays:?}"
        );
    }
}
