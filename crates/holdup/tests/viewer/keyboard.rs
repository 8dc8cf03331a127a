//! The page without a mouse: everything is reached by Tab, what has the focus shows it, and keys do what the mouse
//! does.

use serde_json::{Value, json};

use super::browser::Browser;
use super::drive::{no_complaints, number, painted, recording, text};

/// What has the focus: its tag, what it is called, and whether a line around it says so.
fn focused(browser: &mut Browser) -> (String, String, bool) {
    let found = browser
        .eval(
            "(() => { const one = document.activeElement, style = getComputedStyle(one); \
             return [one.tagName, one.getAttribute('aria-label') || one.textContent.trim().slice(0, 40), \
             style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 1]; })()",
        )
        .unwrap();
    (found[0].as_str().unwrap().to_owned(), found[1].as_str().unwrap().to_owned(), found[2] == Value::Bool(true))
}

/// Presses Tab until the element of that name has the focus.
fn tab_to(browser: &mut Browser, name: &str) {
    let mut seen = Vec::new();
    for _ in 0..200 {
        browser.key("Tab").unwrap();
        let (_, label, visible) = focused(browser);
        if label.starts_with(name) {
            assert!(visible, "{label} has the focus and does not show it");
            return;
        }
        seen.push(label);
    }
    panic!("Tab never comes to {name}; it came to {seen:?}");
}

fn marker(browser: &mut Browser, which: &str) -> Value {
    browser.eval(&format!("holdup.timeline.{which}")).unwrap()
}

fn span(browser: &mut Browser) -> f64 {
    number(browser, "holdup.timeline.to - holdup.timeline.from")
}

#[test]
fn tab_reaches_everything_in_reading_order_and_shows_where_it_is() {
    let Some(mut browser) = recording("tab") else { return };
    let mut order = Vec::new();
    for _ in 0..200 {
        browser.key("Tab").unwrap();
        let (tag, label, visible) = focused(&mut browser);
        if tag == "BODY" || tag == "HTML" {
            break;
        }
        assert!(visible, "{tag} {label} has the focus and does not show it");
        order.push(label);
    }
    let wanted = [
        "Dark",
        "Timeline",
        "Search threads and locks",
        "by start",
        "no groups",
        "",
        "\u{2212}",
        "+",
        "All",
        "A\u{2013}B",
        "Keys",
        "Locks",
        "Filter Locks",
        "lock",
        "kind",
        "waits",
    ];
    let mut rest = order.iter();
    for name in wanted {
        assert!(rest.any(|label| label.starts_with(name)), "{name} is not where it is expected: {order:?}");
    }
    // Backwards too, and only the chosen tab is a stop.
    assert_eq!(order.iter().filter(|label| label.starts_with("Threads")).count(), 0, "{order:?}");
    browser.keys("Tab", true).unwrap();
    assert_ne!(focused(&mut browser).0, "BODY");
    no_complaints(&mut browser);
}

#[test]
fn keys_do_on_the_timeline_what_the_mouse_does() {
    let Some(mut browser) = recording("keys") else { return };
    tab_to(&mut browser, "Timeline");
    browser.key("+").unwrap();
    browser.key("+").unwrap();
    assert_eq!(span(&mut browser), 1_000_000.0);
    browser.key("Home").unwrap();
    assert_eq!(number(&mut browser, "holdup.timeline.from"), 0.0);
    browser.key("ArrowRight").unwrap();
    assert_eq!(number(&mut browser, "holdup.timeline.from"), 100_000.0);
    browser.keys("ArrowRight", true).unwrap();
    assert_eq!(number(&mut browser, "holdup.timeline.from"), 600_000.0);
    browser.key("End").unwrap();
    assert_eq!(number(&mut browser, "holdup.timeline.to"), 4_000_000.0);
    browser.key("ArrowDown").unwrap();
    assert_eq!(number(&mut browser, "holdup.timeline.selected"), 0.0);
    // The next run of the thread is told: who, what, since when, how long.
    browser.key("Home").unwrap();
    browser.key("n").unwrap();
    painted(&mut browser);
    let tip = "document.querySelector('#timeline > .tip')";
    assert_eq!(browser.eval(&format!("getComputedStyle({tip}).visibility")).unwrap(), json!("visible"));
    let told = text(&mut browser, "#timeline > .tip");
    for part in ["CPU 0", "lasts", "40.0us", "500"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    // Markers around it, their difference, the way there and back.
    browser.key("m").unwrap();
    painted(&mut browser);
    let (a, b) = (marker(&mut browser, "a").as_f64().unwrap(), marker(&mut browser, "b").as_f64().unwrap());
    assert_eq!(b - a, 40_000.0);
    assert!(text(&mut browser, "[data-part='difference']").contains("40.0us (40,000 ns)"));
    browser.key("z").unwrap();
    assert_eq!(span(&mut browser), 40_000.0);
    browser.key("0").unwrap();
    assert_eq!(span(&mut browser), 4_000_000.0);
    // The list of keys: it takes the focus, Escape closes it and leaves the markers alone.
    browser.key("?").unwrap();
    browser.wait("document.querySelector('dialog.keys').open").unwrap();
    assert_eq!(browser.eval("Boolean(document.activeElement.closest('dialog'))").unwrap(), Value::Bool(true));
    browser.key("0").unwrap();
    browser.key("Escape").unwrap();
    browser.wait("!document.querySelector('dialog.keys').open").unwrap();
    assert_eq!(marker(&mut browser, "a").as_f64(), Some(a));
    browser.key("Escape").unwrap();
    assert_eq!(marker(&mut browser, "a"), Value::Null);
    assert_eq!(browser.eval(&format!("getComputedStyle({tip}).visibility")).unwrap(), json!("hidden"));
    no_complaints(&mut browser);
}

#[test]
fn keys_search_and_use_the_tables() {
    let Some(mut browser) = recording("keys-tables") else { return };
    // Into the search, a hit, and out of it.
    browser.key("/").unwrap();
    browser.call("Input.insertText", json!({ "text": "waits for" })).unwrap();
    browser.key("Enter").unwrap();
    painted(&mut browser);
    assert!(text(&mut browser, "#timeline > .tip").contains("waits for"));
    assert!(text(&mut browser, ".found").contains("1 kind of wait"));
    browser.key("Escape").unwrap();
    assert_eq!(focused(&mut browser).1, "Timeline");
    assert_eq!(text(&mut browser, ".found"), "");
    // Along the tabs, to a filter, a head, a row.
    tab_to(&mut browser, "Locks");
    browser.key("ArrowRight").unwrap();
    assert!(focused(&mut browser).1.starts_with("Threads"));
    let first = "document.querySelector('table[aria-label=Threads] tbody th').textContent";
    assert!(browser.eval(first).unwrap().as_str().unwrap().contains("(501)"), "most CPU time first");
    tab_to(&mut browser, "Filter Threads");
    browser.call("Input.insertText", json!({ "text": "(500)" })).unwrap();
    assert_eq!(number(&mut browser, "document.querySelectorAll('table[aria-label=Threads] tbody tr').length"), 1.0);
    browser.eval("document.activeElement.select()").unwrap();
    browser.key("Delete").unwrap();
    browser.call("Input.insertText", json!({ "text": "(" })).unwrap();
    tab_to(&mut browser, "on CPU");
    browser.key("Enter").unwrap();
    assert!(browser.eval(first).unwrap().as_str().unwrap().contains("(500)"), "least CPU time first");
    assert_eq!(
        browser.eval("document.activeElement.closest('th').getAttribute('aria-sort')").unwrap(),
        json!("ascending")
    );
    // A name leads to its row.
    browser.eval("document.querySelector('table[aria-label=Threads] tbody button').focus()").unwrap();
    browser.key("Enter").unwrap();
    assert_eq!(focused(&mut browser).1, "Timeline");
    assert_eq!(number(&mut browser, "holdup.timeline.selected"), 0.0);
    browser.key("ArrowDown").unwrap();
    assert_eq!(number(&mut browser, "holdup.timeline.selected"), 1.0);
    no_complaints(&mut browser);
}
