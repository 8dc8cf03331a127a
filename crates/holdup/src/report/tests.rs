//! Golden texts of the reports, and properties that hold for every run.

use std::path::PathBuf;

use super::{Style, chart, specimen, table, text};

/// Compares with the golden file; with HOLDUP_BLESS=1 writes it.
fn golden(name: &str, text: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/goldens/report").join(name);
    if std::env::var_os("HOLDUP_BLESS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
    }
    let expected = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}; HOLDUP_BLESS=1 writes it", path.display()));
    assert_eq!(text, expected, "{name} has changed; if it should, HOLDUP_BLESS=1 writes it anew");
}

/// No line is wider than the style allows.
fn assert_fits(text: &str, width: usize) {
    for line in text.lines() {
        assert!(text::columns(line) <= width, "{} columns: {line}", text::columns(line));
    }
}

#[test]
fn the_table_of_a_sweep_is_the_golden_one() {
    for (name, run) in
        [("full.txt", specimen::full()), ("deep.txt", specimen::deep()), ("single.txt", specimen::single())]
    {
        let text = table::run(&run, &Style::default());
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
