//! Driving a page: opening it, asking it, pressing its keys, reading its pixels.

use std::path::Path;

use serde_json::{Value, json};

use super::browser::{self, Browser};
use super::{pages, skip};

const READY: &str = "window.holdup && window.holdup.ready && !document.querySelector('.loading')";

/// A browser, or a printed reason why there is none.
pub fn browser(name: &str) -> Option<Browser> {
    match browser::find() {
        Some(program) => Some(Browser::start(&program, &pages::folder(&format!("{name}-profile"))).unwrap()),
        None => {
            skip("there is no Chromium (looked for chromium, chromium-browser, google-chrome)");
            None
        }
    }
}

pub fn opened(browser: &mut Browser, page: &Path) {
    browser.look(1600, 1000, false).unwrap();
    browser.open(page, READY).unwrap();
}

/// The page of a small recording, open in a browser of its own; `None` after a printed reason why there is none.
pub fn recording(name: &str) -> Option<Browser> {
    let mut browser = browser(name)?;
    opened(&mut browser, &pages::write(&pages::made_up(40), &pages::folder(name)));
    Some(browser)
}

pub fn number(browser: &mut Browser, expression: &str) -> f64 {
    browser.eval(expression).unwrap().as_f64().unwrap_or_else(|| panic!("{expression} is no number"))
}

pub fn text(browser: &mut Browser, selector: &str) -> String {
    let found = browser.eval(&format!("document.querySelector({}).textContent", json!(selector))).unwrap();
    found.as_str().unwrap_or_else(|| panic!("nothing is {selector}")).to_owned()
}

/// Two frames later everything that was asked for is painted.
pub fn painted(browser: &mut Browser) {
    browser
        .eval("new Promise((resume) => requestAnimationFrame(() => requestAnimationFrame(() => resume(0))))")
        .unwrap();
}

/// A place on the timeline in the window: this time, this row.
pub fn place(browser: &mut Browser, time_ns: f64, row: u32) -> (f64, f64) {
    let found = browser
        .eval(&format!(
            "(() => {{ const lane = document.querySelector('.lane'); lane.scrollIntoView({{ block: 'center' }}); \
             const box = lane.getBoundingClientRect(); return [box.left + holdup.timeline.xOf({time_ns}), box.top + {row} * 24 + 13]; }})()"
        ))
        .unwrap();
    (found[0].as_f64().unwrap(), found[1].as_f64().unwrap())
}

/// The colour of the rows' canvas at a time and row, and a variable of the style sheet as the same three numbers.
pub fn pixel(browser: &mut Browser, time_ns: f64, row: u32) -> Value {
    painted(browser);
    browser
        .eval(&format!(
            "Array.from(document.querySelector('canvas.base').getContext('2d').getImageData(\
             Math.round(holdup.timeline.xOf({time_ns})), {row} * 24 + 13, 1, 1).data).slice(0, 3)"
        ))
        .unwrap()
}

pub fn colour(browser: &mut Browser, variable: &str) -> Value {
    browser
        .eval(&format!(
            "(() => {{ const hex = parseInt(getComputedStyle(document.documentElement).getPropertyValue('{variable}').trim().slice(1), 16); \
             return [hex >> 16, (hex >> 8) & 255, hex & 255]; }})()"
        ))
        .unwrap()
}

/// The same data; a browser knows one kind of numbers, so 1.0 comes back as 1.
pub fn same(shown: &Value, wanted: &Value, at: &str) {
    match (shown, wanted) {
        (Value::Number(a), Value::Number(b)) => assert_eq!(a.as_f64(), b.as_f64(), "{at}"),
        (Value::Array(a), Value::Array(b)) => {
            assert_eq!(a.len(), b.len(), "{at}");
            a.iter().zip(b).enumerate().for_each(|(i, (a, b))| same(a, b, &format!("{at}[{i}]")));
        }
        (Value::Object(a), Value::Object(b)) => {
            assert!(a.keys().eq(b.keys()), "{at}");
            b.iter().for_each(|(key, b)| same(&a[key], b, &format!("{at}.{key}")));
        }
        _ => assert_eq!(shown, wanted, "{at}"),
    }
}

pub fn no_complaints(browser: &mut Browser) {
    let complaints = browser.complaints();
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

/// The texts of all elements that a selector finds.
pub fn texts(browser: &mut Browser, selector: &str) -> Vec<String> {
    let found = browser
        .eval(&format!("[...document.querySelectorAll({})].map((one) => one.textContent)", json!(selector)))
        .unwrap();
    found.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
}
