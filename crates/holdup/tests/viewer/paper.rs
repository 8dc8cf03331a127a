//! Pages on paper: dark on white whatever the screen is, all tables, nothing cut off at the side.

use serde_json::{Value, json};

use super::browser::Browser;
use super::drive::{no_complaints, number, painted, recording};

/// Width of a page's text in CSS pixels: A4 with the browser's margins.
const TEXT_WIDTH: u32 = 717;

/// Lays the page out as for paper, without printing it.
fn laid_out(browser: &mut Browser) {
    browser.eval("dispatchEvent(new Event('beforeprint'))").unwrap();
    browser
        .call(
            "Emulation.setDeviceMetricsOverride",
            json!({ "width": TEXT_WIDTH, "height": 1000, "deviceScaleFactor": 1, "mobile": false }),
        )
        .unwrap();
    browser.call("Emulation.setEmulatedMedia", json!({ "media": "print" })).unwrap();
    painted(browser);
}

#[test]
fn a_recording_prints_light_and_whole_and_the_screen_comes_back() {
    let Some(mut browser) = recording("paper") else { return };
    browser.key("t").unwrap();
    painted(&mut browser);
    let theme = "document.documentElement.dataset.theme";
    assert_eq!(browser.eval(theme).unwrap(), json!("dark"));
    let pdf = browser.paper().unwrap();
    assert!(pdf.starts_with(b"%PDF"), "no PDF");
    assert_eq!(browser.eval(theme).unwrap(), json!("dark"), "the screen's colours come back");
    laid_out(&mut browser);
    assert_eq!(browser.eval("getComputedStyle(document.body).backgroundColor").unwrap(), json!("rgb(255, 255, 255)"));
    assert_eq!(browser.eval("getComputedStyle(document.body).color").unwrap(), json!("rgb(0, 0, 0)"));
    // The rows are drawn for paper: white where nothing is.
    let corner = "Array.from(document.querySelector('canvas.base').getContext('2d').getImageData(2, 0, 1, 1).data)";
    assert_eq!(browser.eval(corner).unwrap(), json!([255, 255, 255, 255]));
    let hidden =
        "[...document.querySelectorAll('.panel')].filter((one) => getComputedStyle(one).display === 'none').length";
    assert_eq!(number(&mut browser, hidden), 0.0, "every table is printed");
    for gone in [".tools", ".tabs", ".switches"] {
        let display = browser.eval(&format!("getComputedStyle(document.querySelector('{gone}')).display")).unwrap();
        assert_eq!(display, json!("none"), "{gone}");
    }
    let sideways = number(&mut browser, "document.documentElement.scrollWidth - innerWidth");
    assert!(sideways <= 0.0, "{sideways} px are cut off");
    browser.eval("dispatchEvent(new Event('afterprint'))").unwrap();
    browser.look(1600, 1000, true).unwrap();
    browser.call("Emulation.setEmulatedMedia", json!({ "media": "" })).unwrap();
    painted(&mut browser);
    let drawn = number(
        &mut browser,
        "document.querySelector('canvas.base').width - document.querySelector('.lane').clientWidth",
    );
    assert_eq!(drawn, 0.0, "the timeline has its width again");
    assert_ne!(browser.eval(corner).unwrap(), Value::Null);
    no_complaints(&mut browser);
}
