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

/// Records a fixture and opens its page; pictures go to target/viewer-shots, two of them to docs/images.
pub fn write(_: &[String]) -> Result<(), String> {
    let bench = Bench::new("viewer-shots")?;
    let program = browser::find().ok_or("there is no Chromium; HOLDUP_CHROMIUM names one")?;
    bench.compile("programs/hot_lock.c")?;
    // Names as a user would give them, for the guide.
    let holdup = |words: &[&str]| output(Command::new(&bench.holdup).current_dir(&bench.folder).args(words));
    holdup(&["record", "-o", "hot_lock.holdup", "--", "./hot_lock"])?;
    holdup(&["report", "hot_lock.holdup", "--html", "page.html"])?;
    let page = bench.folder.join("page.html");
    let out = root().join("target/viewer-shots");
    std::fs::create_dir_all(&out).map_err(|why| format!("{}: {why}", out.display()))?;
    let mut browser = Browser::start(&program, &bench.folder.join("profile"))?;
    for width in [1024, 1600, 2560] {
        for dark in [false, true] {
            let theme = if dark { "dark" } else { "light" };
            browser.look(width, 1100, dark)?;
            browser.open(&page, READY)?;
            shoot(&mut browser, &out.join(format!("whole-{theme}-{width}.png")))?;
            browser.eval(CLOSE_UP)?;
            shoot(&mut browser, &out.join(format!("close-{theme}-{width}.png")))?;
        }
    }
    guide(&mut browser, &page)
}

/// The two pictures of the guide: small ones.
fn guide(browser: &mut Browser, page: &Path) -> Result<(), String> {
    let images = root().join("docs/images");
    std::fs::create_dir_all(&images).map_err(|why| format!("{}: {why}", images.display()))?;
    for (dark, name, view) in [(false, "recording-light.png", "0"), (true, "recording-dark.png", CLOSE_UP)] {
        browser.look(1060, if dark { 600 } else { 720 }, dark)?;
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
    // Figures of a selection come when the window rests.
    browser.eval("new Promise((resume) => setTimeout(() => requestAnimationFrame(() => resume(0)), 400))")?;
    std::fs::write(file, browser.picture()?).map_err(|why| format!("{}: {why}", file.display()))?;
    eprintln!("{}", file.display());
    Ok(())
}
