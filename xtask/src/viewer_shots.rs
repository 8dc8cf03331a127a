//! Pictures of the main views, light and dark, for people to look at and for the guide.

use std::path::Path;
use std::process::Command;

use crate::recording::{Bench, output};
use crate::run::root;
use crate::viewer_cost::browser::{self, Browser};

const READY: &str = "window.holdup && window.holdup.ready && !document.querySelector('.loading')";

/// Shows the longest stretch of interest at a scale where switches can be told apart.
const CLOSE_UP: &str = "(() => { const line = holdup.timeline, button = document.querySelector('button.moment');
  const at = button ? Number(button.dataset.from) : (line.view.start_ns + line.view.end_ns) / 2;
  const span = (line.view.end_ns - line.view.start_ns) / 16;
  line.setMarker('a', at); line.setMarker('b', at + span / 3); line.show(at - span / 4, at + span * 3 / 4); })()";

/// What is looked at of a recording besides the whole: a name, and what brings it into view.
const VIEWS: &[(&str, &str)] = &[
    ("close", CLOSE_UP),
    ("jump", "document.querySelector('button.moment')?.click()"),
    ("told", "(() => { const line = holdup.timeline; line.fit(); line.select(1); line.next(1); })()"),
    (
        "flame",
        "(() => { const flame = document.querySelector('.flame'); flame.open = true; flame.scrollIntoView(); })()",
    ),
    ("search", "holdup.timeline.find('catalog')"),
    ("locks", "holdup.timeline.find(''); tab('Locks')"),
    ("threads", "tab('Threads')"),
    ("pairs", "tab('Pairs')"),
    ("symbols", "tab('Symbols')"),
    ("modules", "tab('Modules')"),
    ("keys", "document.querySelector('dialog.keys').showModal()"),
];

/// Chooses a table and brings it into view.
const TAB: &str = "window.tab = (name) => { [...document.querySelectorAll('[role=tab]')].find((one) => one.textContent.startsWith(name)).click(); \
                   document.getElementById('tables').scrollIntoView(); }";

/// Results to look at: the name of the page, and the words behind `holdup`; they are quick, for their figures do not
/// matter.
const RESULTS: &[(&str, &[&str])] = &[
    ("bench", &["bench", "--lock", "pthread,none,adaptive,ttas", "--threads", "1,2,4", "--repeat", "3", "--no-reject"]),
    ("claims", &["reproduce", "intel", "--quick", "--repeat", "3", "--no-reject"]),
    ("try", &["try", "--budget", "20s", "--vary", "N=0.3,0.28,0.2,0.1"]),
];

/// Makes a page of each kind and takes its pictures, in every width and both themes, and on paper; they go to
/// target/viewer-shots, two of them to docs/images.
pub fn write(_: &[String]) -> Result<(), String> {
    let bench = Bench::new("viewer-shots")?;
    let program = browser::find().ok_or("there is no Chromium; HOLDUP_CHROMIUM names one")?;
    bench.compile("programs/hot_lock.c")?;
    // Names as a user would give them, for the guide; results stay in the folder.
    let holdup = |words: &[&str]| {
        output(
            Command::new(&bench.holdup)
                .current_dir(&bench.folder)
                .env("XDG_DATA_HOME", bench.folder.join("data"))
                .args(words),
        )
    };
    holdup(&["record", "-o", "hot_lock.holdup", "--", "./hot_lock"])?;
    holdup(&["report", "hot_lock.holdup", "--html", "page.html"])?;
    let page = bench.folder.join("page.html");
    let out = root().join("target/viewer-shots");
    std::fs::create_dir_all(&out).map_err(|why| format!("{}: {why}", out.display()))?;
    let mut browser = Browser::start(&program, &bench.folder.join("profile"))?;
    whole(&mut browser, &page, READY, "recording", &out)?;
    views(&mut browser, &page, &out)?;
    for (name, words) in RESULTS {
        let file = format!("{name}.html");
        let rest: &[&str] = if *name == "try" { &["--", "sleep", "{N}"] } else { &[] };
        holdup(&[*words, &["--html", &file][..], rest].concat())?;
        let shown = "document.querySelector('button.theme:not([hidden])')";
        whole(&mut browser, &bench.folder.join(&file), shown, name, &out)?;
    }
    guide(&mut browser, &page)
}

/// The page from top to bottom at each width in each theme, and printed from the dark one.
fn whole(browser: &mut Browser, page: &Path, ready: &str, name: &str, out: &Path) -> Result<(), String> {
    for width in [1024, 1440, 2560] {
        for dark in [false, true] {
            let theme = if dark { "dark" } else { "light" };
            browser.look(width, 1000, dark)?;
            browser.open(page, ready)?;
            rest(browser)?;
            keep(&out.join(format!("{name}-{theme}-{width}.png")), &browser.whole_picture()?)?;
        }
    }
    keep(&out.join(format!("{name}.pdf")), &browser.paper()?)
}

/// What a recording's page shows when it is used.
fn views(browser: &mut Browser, page: &Path, out: &Path) -> Result<(), String> {
    for dark in [false, true] {
        let theme = if dark { "dark" } else { "light" };
        browser.look(1440, 1000, dark)?;
        browser.open(page, READY)?;
        browser.eval(TAB)?;
        for (name, script) in VIEWS {
            browser.eval(script)?;
            shoot(browser, &out.join(format!("recording-{theme}-{name}.png")))?;
        }
    }
    Ok(())
}

/// The two pictures of the guide: small ones.
fn guide(browser: &mut Browser, page: &Path) -> Result<(), String> {
    let images = root().join("docs/images");
    std::fs::create_dir_all(&images).map_err(|why| format!("{}: {why}", images.display()))?;
    for (dark, name, view) in [(false, "recording-light.png", "0"), (true, "recording-dark.png", CLOSE_UP)] {
        browser.look(1060, if dark { 560 } else { 1030 }, dark)?;
        browser.open(page, READY)?;
        browser.eval(view)?;
        if dark {
            browser.eval("holdup.timeline.root.scrollIntoView()")?;
        }
        shoot(browser, &images.join(name))?;
    }
    Ok(())
}

fn shoot(browser: &mut Browser, file: &Path) -> Result<(), String> {
    rest(browser)?;
    keep(file, &browser.picture()?)
}

/// Figures of a selection come when the window rests, and a way to a moment takes a while.
fn rest(browser: &mut Browser) -> Result<(), String> {
    browser.eval("new Promise((resume) => setTimeout(() => requestAnimationFrame(() => resume(0)), 700))").map(drop)
}

fn keep(file: &Path, bytes: &[u8]) -> Result<(), String> {
    std::fs::write(file, bytes).map_err(|why| format!("{}: {why}", file.display()))?;
    eprintln!("{}", file.display());
    Ok(())
}
