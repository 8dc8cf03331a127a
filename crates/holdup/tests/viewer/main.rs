//! HTML pages in a real browser: what people do with them is done here, and what they show is compared with the JSON
//! report.
//!
//! `HOLDUP_NO_SKIP=1` turns every skipped test into a failure; `HOLDUP_CHROMIUM` names the browser.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message, in its helpers too")]

#[allow(dead_code, reason = "xtask takes pictures with it")]
mod browser;
mod bundle;
mod drive;
mod figures;
mod keyboard;
mod pages;
mod paper;
mod recording;
mod results;

/// Says why a test did not run.
#[track_caller]
fn skip(why: &str) {
    assert!(std::env::var_os("HOLDUP_NO_SKIP").is_none(), "skipped although HOLDUP_NO_SKIP is set: {why}");
    println!("skipped: {why}");
}
