//! Pages of `bench`, `run`, `reproduce` and `try`: the shell that they share, charts, claims.

use std::fs;
use std::path::Path;

use holdup::claim::{ClaimResult, Reading, Setting, Verdict};
use holdup::report::html;
use holdup::results::RunRecord;
use serde_json::{Value, json};

use super::browser::Browser;
use super::drive::{browser, no_complaints, number, painted, text, texts};
use super::pages;

const SHELL: &str = "document.querySelector('button.theme:not([hidden])')";

fn shown(browser: &mut Browser, page: &Path, dark: bool) {
    browser.look(1600, 1000, dark).unwrap();
    browser.open(page, SHELL).unwrap();
}

/// The first column of a table's visible rows.
fn firsts(browser: &mut Browser, table: &str) -> Vec<String> {
    texts(browser, &format!("{table} tbody tr:not([hidden]) > :first-child"))
}

/// Presses the head of that name.
fn sort(browser: &mut Browser, table: &str, head: &str) {
    let press = format!(
        "[...document.querySelectorAll({} + ' thead button')].find((one) => one.textContent === {}).click()",
        json!(table),
        json!(head)
    );
    browser.eval(&press).unwrap();
}

fn filter(browser: &mut Browser, words: &str) {
    let typed = format!(
        "(() => \
         {{ const field = document.querySelector('input.filter'); field.value = {}; field.dispatchEvent(new Event('input')); }})()",
        json!(words)
    );
    browser.eval(&typed).unwrap();
}

#[test]
fn pages_of_bench_and_try_share_the_shell() {
    let Some(mut browser) = browser("shell") else { return };
    let folder = pages::folder("shell");
    // Results go into the test's own folder.
    let words = ["bench", "--lock", "pthread,none", "--threads", "1,2", "--repeat", "2", "--html", "bench.html"];
    pages::holdup_at_home(&words, &folder);
    let words = ["try", "--budget", "60s", "--vary", "N=0.03,0.02", "--html", "try.html", "--", "sleep", "{N}"];
    pages::holdup_at_home(&words, &folder);
    for name in ["bench.html", "try.html"] {
        shown(&mut browser, &folder.join(name), true);
        let paper = "getComputedStyle(document.body).backgroundColor";
        let dark = browser.eval(paper).unwrap();
        browser.eval("document.querySelector('button.theme').click()").unwrap();
        assert_ne!(browser.eval(paper).unwrap(), dark, "{name}");
        // The first column's head sorts the rows, one way and then the other.
        let table = "table.sortable";
        let press = "document.querySelector('table.sortable thead button').click()";
        browser.eval(press).unwrap();
        let up = firsts(&mut browser, table);
        browser.eval(press).unwrap();
        let down = firsts(&mut browser, table);
        let turned: Vec<String> = down.iter().rev().cloned().collect();
        let distinct = up.windows(2).all(|pair| pair[0] != pair[1]);
        assert!(!distinct || up == turned, "{name}: {up:?} {down:?}");
        assert!(number(&mut browser, "document.querySelectorAll('figure svg').length") > 0.0, "{name}");
        no_sideways(&mut browser);
        no_complaints(&mut browser);
    }
    // Arrow keys read a chart.
    browser.open(&folder.join("bench.html"), "document.querySelector('.plot svg')").unwrap();
    browser.eval("document.querySelector('.plot svg').focus()").unwrap();
    browser.key("ArrowRight").unwrap();
    assert!(text(&mut browser, "figure .tip").contains("threads 1"));
    no_complaints(&mut browser);
}

/// At every width people use, nothing is wider than the window.
fn no_sideways(browser: &mut Browser) {
    for width in [1024, 1440, 2560] {
        browser.look(width, 900, false).unwrap();
        painted(browser);
        let sideways = number(browser, "document.documentElement.scrollWidth - innerWidth");
        assert!(sideways <= 0.0, "at {width} the page is {sideways} px too wide");
    }
}

#[test]
fn a_page_of_reproduce_opens_with_claims_and_charts() {
    let Some(mut browser) = browser("reproduce") else { return };
    let folder = pages::folder("reproduce");
    let words = ["reproduce", "switching", "--quick", "--repeat", "2", "--no-reject", "--html", "page.html"];
    pages::holdup_at_home(&words, &folder);
    shown(&mut browser, &folder.join("page.html"), false);
    let claims = firsts(&mut browser, ".claims table");
    assert!(claims.len() > 2, "{claims:?}");
    let verdicts = texts(&mut browser, ".claims td:nth-child(5)");
    assert_eq!(verdicts.len() + 1, claims.len(), "a verdict for each claim under the one heading");
    assert!(
        verdicts.iter().all(|verdict| ["holds", "differs", "not measurable"].iter().any(|word| verdict.contains(word))),
        "{verdicts:?}"
    );
    assert!(number(&mut browser, "document.querySelectorAll('.plot svg .line').length") > 0.0);
    no_sideways(&mut browser);
    no_complaints(&mut browser);
}

/// Names of an experiment file that try to break out of its page.
#[test]
fn hostile_experiments_stay_text() {
    let Some(mut browser) = browser("hostile-claims") else { return };
    let folder = pages::folder("hostile-claims");
    // JSON's strings are TOML's.
    let hostile = json!(pages::HOSTILE).to_string().replace('\u{202e}', "\\u202e").replace('\u{2028}', "\\u2028");
    let file = format!(
        r#"
[experiment]
name = "hostile"
title = {hostile}

[[sweep]]
name = "alone"
about = {hostile}
lock = ["none", "pthread"]
threads = 1
duration = "2ms"
repeats = 2

[[plot]]
title = {hostile}
sweep = "alone"
x = "threads"
y = "time_per_op_ns"
series = ["lock"]

[[claim]]
id = "A"
claim = {hostile}
published = {hostile}
figures.even = "ratio(jain, pthread, none)"
check = "even == 1"
show = {hostile}
why_holds = {hostile}
why_differs = {hostile}
"#
    );
    // Braces in words are figures.
    fs::write(folder.join("hostile.toml"), file.replace("${1}", "$1")).unwrap();
    pages::holdup_at_home(&["run", "hostile.toml", "--no-reject", "--html", "page.html"], &folder);
    shown(&mut browser, &folder.join("page.html"), true);
    assert_eq!(number(&mut browser, "document.images.length + document.querySelectorAll('[onerror]').length"), 0.0);
    for selector in [".claims td", "figcaption strong"] {
        let shown = text(&mut browser, selector);
        assert!(shown.contains("</script><img src=x onerror=alert(1)>\"'`"), "{selector}: {shown}");
        assert!(shown.contains("<U+202E>") && !shown.contains('\u{202e}'), "{selector}: {shown}");
    }
    no_sideways(&mut browser);
    no_complaints(&mut browser);
}

fn claim(id: &str, experiment: &str, published: &str, verdict: Verdict) -> ClaimResult {
    ClaimResult {
        id: id.to_owned(),
        experiment: experiment.to_owned(),
        claim: format!("What {id} says."),
        published: published.to_owned(),
        setting: Setting::default(),
        then: Reading {
            measured: "1.5x".to_owned(),
            figure: None,
            verdict,
            close: false,
            why: format!("{} {id}", pages::HOSTILE),
        },
        now: None,
    }
}

#[test]
fn claims_sort_and_filter_like_the_other_tables() {
    let Some(mut browser) = browser("claims") else { return };
    let folder = pages::folder("claims");
    let run = RunRecord {
        id: 1,
        started_unix_s: 1_790_000_000,
        command: "holdup reproduce all".to_owned(),
        seed: 1,
        baseline: None,
        repeats: 1,
        complete: true,
        environment: vec![],
        warnings: vec![],
        cells: vec![],
    };
    let claims = [
        claim("I1", "intel", "5.2x", Verdict::Holds),
        claim("I2", "intel", "1.1x (58 ms)", Verdict::Differs),
        claim("I10", "intel", "21x", Verdict::Holds),
        claim("K1", "kraus", "0.97x", Verdict::NotMeasurable),
        claim("K2", "kraus", "400%", Verdict::Differs),
        claim("K3", "kraus", "", Verdict::Holds),
    ];
    let page = folder.join("page.html");
    fs::write(&page, html::page(&run, &[], &claims)).unwrap();
    shown(&mut browser, &page, false);
    let table = ".claims table";
    let written = ["intel", "I1", "I2", "I10", "kraus", "K1", "K2", "K3"];
    assert_eq!(firsts(&mut browser, table), written);
    // Sorted rows have no headings; by what was published they stand by size, words last.
    sort(&mut browser, table, "Published");
    assert_eq!(firsts(&mut browser, table), ["K1", "I2", "K2", "I1", "I10", "K3"]);
    sort(&mut browser, table, "Published");
    assert_eq!(firsts(&mut browser, table), ["K3", "I10", "I1", "K2", "I2", "K1"]);
    // Filtered while sorted, and then in the written order, under the headings that are left.
    filter(&mut browser, "differs");
    assert_eq!(firsts(&mut browser, table), ["K2", "I2"]);
    sort(&mut browser, table, "Published");
    assert_eq!(firsts(&mut browser, table), ["intel", "I2", "kraus", "K2"]);
    filter(&mut browser, "what i10");
    assert_eq!(firsts(&mut browser, table), ["intel", "I10"]);
    filter(&mut browser, "nothing has this");
    assert_eq!(firsts(&mut browser, table), Vec::<String>::new());
    filter(&mut browser, "");
    assert_eq!(firsts(&mut browser, table), written);
    sort(&mut browser, table, "Id");
    assert_eq!(firsts(&mut browser, table), ["I1", "I2", "I10", "K1", "K2", "K3"]);
    let sorted = "[...document.querySelectorAll('.claims th')].map((one) => \
        one.getAttribute('aria-sort')).filter((one) => one !== null && one !== 'none')";
    assert_eq!(browser.eval(sorted).unwrap(), json!(["ascending"]));
    assert_ne!(browser.eval("document.querySelector('.claims table').textContent").unwrap(), Value::Null);
    no_complaints(&mut browser);
}
