//! Golden texts of the reports, and properties that hold for every run.

use std::path::{Path, PathBuf};

use super::{Style, chart, claims, compare, html, specimen, table};
use crate::text;

/// Compares with the golden file; with HOLDUP_BLESS=1 writes it.
pub(super) fn golden(name: &str, text: &str) {
    matches_file(&PathBuf::from("tests/goldens/report").join(name), text);
}

/// The same for a file by its path from the crate's folder.
pub(super) fn matches_file(path: &Path, text: &str) {
    let name = path.display();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if std::env::var_os("HOLDUP_BLESS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
    }
    let expected = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}; HOLDUP_BLESS=1 writes it", path.display()));
    assert_eq!(text, expected, "{name} has changed; if it should, HOLDUP_BLESS=1 writes it anew");
}

/// No line is wider than the style allows.
pub(super) fn assert_fits(text: &str, width: usize) {
    for line in text.lines() {
        assert!(text::columns(line) <= width, "{} columns: {line}", text::columns(line));
    }
}

#[test]
fn the_table_of_a_sweep_is_the_golden_one() {
    for (name, run) in
        [("full.txt", specimen::full()), ("deep.txt", specimen::deep()), ("single.txt", specimen::single())]
    {
        let text = table::run(&run).terminal(&Style::default());
        assert_fits(&text, 80);
        golden(name, &text);
    }
}

#[test]
fn the_terminal_charts_are_the_golden_ones() {
    let full = specimen::full();
    let mut text = String::new();
    for plot in chart::default_plots(&full) {
        text.push_str(&chart::terminal(&full, &plot, &Style::default()));
        text.push('\n');
    }
    assert_fits(&text, 80);
    golden("charts.txt", &text);
}

#[test]
fn the_table_of_claims_is_the_golden_one() {
    let text = claims::table(&specimen::claims()).terminal(&Style::default());
    assert_fits(&text, 80);
    golden("claims.txt", &text);
}

#[test]
fn the_comparison_is_the_golden_one() {
    let before = specimen::full();
    let mut after = specimen::full();
    after.id = 14;
    after.started_unix_s += 86_400;
    after.environment[4].1 = "6.19.1".to_owned();
    after.cells.remove(3);
    for record in after.cells[1].samples.iter_mut().chain(&mut specimen::single().cells[0].samples) {
        if let Ok(sample) = &mut record.outcome {
            sample.elapsed_ns *= 2;
        }
    }
    let text = compare::view(&compare::runs(&before, &after)).terminal(&Style::default());
    assert_fits(&text, 80);
    golden("compare.txt", &text);
}

#[test]
fn foreign_text_reaches_no_terminal_unclean() {
    let run = specimen::hostile();
    let mut all = table::run(&run).terminal(&Style::default());
    for plot in chart::default_plots(&run) {
        all.push_str(&chart::terminal(&run, &plot, &Style::default()));
    }
    all.push_str(&compare::view(&compare::runs(&run, &specimen::full())).terminal(&Style::default()));
    assert!(!all.contains(['\u{1b}', '\u{202e}', '\u{0}', '\r']), "{all}");
}

#[test]
fn a_narrow_terminal_cuts_no_name() {
    for run in [specimen::full(), specimen::deep()] {
        let text = table::run(&run).terminal(&Style { width: 60, colour: false });
        for cell in run.cells.iter().filter(|cell| cell.counted().next().is_some()) {
            assert!(text.contains(&cell.spec.lock));
        }
    }
}

#[test]
fn colour_changes_nothing_but_colour() {
    let run = specimen::full();
    let plain = table::run(&run).terminal(&Style::default());
    let coloured = table::run(&run).terminal(&Style { width: 80, colour: true });
    let mut stripped = String::new();
    let mut escape = false;
    for c in coloured.chars() {
        match (escape, c) {
            (false, '\u{1b}') => escape = true,
            (true, 'm') => escape = false,
            (true, _) => {}
            (false, c) => stripped.push(c),
        }
    }
    let trim = |text: &str| text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
    assert_eq!(trim(&stripped), trim(&plain));
    assert_ne!(coloured, plain);
}

#[test]
fn an_empty_run_says_so() {
    let mut run = specimen::single();
    run.cells.clear();
    assert_eq!(table::run(&run).terminal(&Style::default()), "The run has no cells.\n");
    assert!(chart::default_plots(&run).is_empty());
}

/// With HOLDUP_PAGES=DIR, writes the pages there for people to look at.
fn keep_page(name: &str, page: &str) {
    if let Some(folder) = std::env::var_os("HOLDUP_PAGES") {
        std::fs::write(PathBuf::from(folder).join(name), page).unwrap();
    }
}

/// Every tag that is opened is closed, in order. Scripts and styles count as text.
fn assert_balanced(page: &str) {
    const VOID: [&str; 2] = ["meta", "!doctype"];
    let mut open: Vec<&str> = Vec::new();
    let mut rest = page;
    while let Some(start) = rest.find('<') {
        rest = &rest[start + 1..];
        let end = rest.find('>').expect("every tag ends");
        let tag = &rest[..end];
        rest = &rest[end + 1..];
        let name = tag.trim_start_matches('/').split([' ', '/']).next().unwrap();
        if VOID.contains(&name) || tag.ends_with('/') {
            continue;
        }
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "near {}", &rest[..rest.len().min(80)]);
        } else {
            open.push(name);
            if ["script", "style"].contains(&name) {
                rest = &rest[rest.find(&format!("</{name}")).expect("it ends")..];
            }
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

#[test]
fn pages_are_whole_small_and_ask_for_nothing() {
    for (name, run, claims) in [
        ("full.html", specimen::full(), vec![]),
        ("deep.html", specimen::deep(), vec![]),
        ("single.html", specimen::single(), vec![]),
        ("claims.html", specimen::full(), specimen::claims()),
        ("hostile.html", specimen::hostile(), specimen::claims()),
    ] {
        let page = html::page(&run, &chart::default_plots(&run), &claims);
        keep_page(name, &page);
        assert_balanced(&page);
        assert!(page.len() < 300_000, "{name}: {} bytes", page.len());
        let outside = page.replace("https://example.org/", "");
        for request in ["http:", "https:", "src=", "@import", "url(", "<link", "<img", "<iframe", "fetch("] {
            let quoted = request == "src=" && name == "hostile.html";
            assert!(quoted || !outside.contains(request), "{name} contains {request}");
        }
        assert_eq!(page.matches("<script").count(), 1, "{name}");
    }
    let run = specimen::single();
    assert_eq!(html::page(&run, &[], &[]), html::page(&run, &[], &[]), "the same record gives the same page");
}

#[test]
fn hostile_names_stay_text_on_the_page() {
    let run = specimen::hostile();
    let mut plots = chart::default_plots(&run);
    plots.push(crate::plot::Plot { title: "<b>&\"'".to_owned(), ..crate::plot::Plot::default() });
    let page = html::page(&run, &plots, &[]);
    assert_balanced(&page);
    for raw in ["<img", "<script>alert", "<b>", "</td>&", "\u{202e}", "\u{1b}", "\u{0}", "\u{2028}", "<code>:"] {
        assert!(!page.contains(raw), "{raw:?}");
    }
    assert!(page.contains("&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;&lt;U+202E&gt;"));
}

#[test]
fn the_page_says_what_the_table_says() {
    let run = specimen::full();
    let page = html::page(&run, &chart::default_plots(&run), &[]);
    let table = table::run(&run).terminal(&Style::default());
    for figure in ["0.87 [0.85-0.90]", "41.4M", "13.6ns", "26.2 [25.1-26.4]"] {
        assert!(table.contains(figure) && page.contains(figure), "{figure}");
    }
}

#[test]
fn the_headline_says_who_leads_and_when_nothing_is_decided() {
    let headline = |run: &crate::results::RunRecord| {
        let cells: Vec<_> = run.cells.iter().collect();
        super::headline::of_sweep(run, &cells)
    };
    let two = |other: f64, repeats: u32| {
        let mut specimen = specimen::Specimen::new(Some("pthread"), repeats);
        for threads in [1, 2] {
            specimen.cell("none", threads, 1.0, &[]);
            specimen.cell("pthread", threads, 100.0, &[]);
            specimen.cell("std", threads, other, &[]);
        }
        specimen.run().clone()
    };
    assert!(headline(&two(50.0, 5)).starts_with("std is fastest at both settings (0."), "{}", headline(&two(50.0, 5)));
    assert_eq!(headline(&two(200.0, 5)), "pthread is fastest at both settings.");
    assert!(headline(&two(100.0, 5)).starts_with("No lock is shown to be faster"));
    assert!(headline(&two(50.0, 2)).starts_with("Too few runs count"), "two runs decide nothing");
    let mut unfair = two(50.0, 5);
    let samples = unfair.cells.iter_mut().filter(|cell| cell.spec.lock == "std").flat_map(|cell| &mut cell.samples);
    for sample in samples.filter_map(|record| record.outcome.as_mut().ok()) {
        let all = sample.ops();
        sample.thread_ops.fill(0);
        sample.thread_ops[0] = all;
    }
    assert!(headline(&unfair).ends_with("but unfair: Jain's index 0.50."), "{}", headline(&unfair));
    let mut busy = two(50.0, 5);
    busy.cells.iter_mut().flat_map(|cell| &mut cell.samples).for_each(|record| record.rejected = true);
    assert!(headline(&busy).ends_with("But the machine was busy with something else all the time."));
}

#[test]
fn long_names_stay_whole_and_lines_short() {
    let long = ["a-lock-whose-name-is-far-too-long-for-a-column", "another-lock-whose-name-is-far-too-long"];
    for baseline in [None, Some(long[0])] {
        let mut specimen = specimen::Specimen::new(baseline, 5);
        for (threads, hold) in [(1, "uniform:100ns..1500ns"), (1024, "exp:1.5us")] {
            for lock in long {
                specimen.cell(lock, threads, 1e9, &[("hold", hold), ("latency", "on")]);
            }
        }
        let text = table::run(specimen.run()).terminal(&Style::default());
        assert_fits(&text, 80);
        for lock in long {
            assert!(text.matches(lock).count() >= 2, "{text}");
        }
    }
}

/// Every report of a run, for tests that want none of them to panic.
fn everything(run: &crate::results::RunRecord, width: usize) -> String {
    let style = Style { width, colour: true };
    let plots = chart::default_plots(run);
    let mut all = table::run(run).terminal(&style);
    for plot in &plots {
        all.push_str(&chart::terminal(run, plot, &style));
    }
    all.push_str(&compare::view(&compare::runs(run, &specimen::single())).terminal(&style));
    all.push_str(&claims::table(&specimen::claims()).terminal(&style));
    all.push_str(&super::csv::run(run));
    all.push_str(&serde_json::to_string(&super::json::Run::new(run)).unwrap());
    all.push_str(&html::page(run, &plots, &[]));
    all
}

#[test]
fn odd_figures_and_tiny_terminals_break_no_report() {
    const ODD: [u64; 6] = [0, 1, 2, 1_000, 1_000_000_007, 1_000_000_000_000_000];
    let mut random = fastrand::Rng::with_seed(3);
    for round in 0..12 {
        let mut specimen = specimen::Specimen::new([None, Some("pthread")][round % 2], 2);
        for threads in [1, 3] {
            for lock in ["pthread", "std"] {
                let cell = specimen.cell(lock, threads, 10.0, &[("latency", ["off", "on"][round % 3 % 2])]);
                for sample in cell.samples.iter_mut().filter_map(|record| record.outcome.as_mut().ok()) {
                    sample.elapsed_ns = ODD[random.usize(..6)];
                    sample.user_ns = ODD[random.usize(..6)];
                    sample.kernel_ns = ODD[random.usize(..6)];
                    sample.voluntary_switches = Some(ODD[random.usize(..6)]);
                    sample.thread_ops.fill(ODD[random.usize(..6)]);
                    sample.unit_ns = f64::NAN;
                    if random.bool() {
                        sample.thread_ops.clear();
                        sample.thread_finish_ns.clear();
                    }
                }
            }
        }
        let all = everything(specimen.run(), [0, 9, 40, 300][round % 4]);
        assert!(!all.contains("NaN") && !all.contains("inf"), "{all}");
    }
}
