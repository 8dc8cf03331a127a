//! `site`: the documentation as one folder of pages that any web server shows, or a browser without one: with a search
//! that needs no server, pages of real results to click, and no link that leads nowhere.
//!
//! mdBook makes it. It is given a copy of the pages in the places that they have in the repository, so that links
//! between them stay as they are; a link to a folder leads to a list of what is in it.

mod links;
mod pages;
mod results;

use std::fs;
use std::path::Path;

use crate::files::{fresh, put};
use crate::run::{Step, cargo, target, target_folder};
use crate::viewer_cost::browser::{self, Browser};

/// The version that the pages were looked at with.
const MDBOOK: &str = "0.5.4";

/// What mdBook is told.
const BOOK: &str = r#"[book]
title = "holdup"
description = "Finds out what makes a multithreaded program wait, and measures which fix helps"
language = "en"
src = "src"

[build]
# The others read braces and names of files in a way that these pages do not mean.
use-default-preprocessors = false

[output.html]
no-section-label = true
# A page of its own for what is not there wants to know where the site will be.
input-404 = ""

[output.html.fold]
enable = true
level = 0

[output.html.print]
enable = false

[output.html.search]
limit-results = 20
use-boolean-and = true
boost-title = 3
heading-split-level = 3
"#;

/// Makes the site in target/site, and looks whether all of it is there.
pub fn make(args: &[String]) -> Result<(), String> {
    if let Some(other) = args.first() {
        return Err(format!("'{other}' is no option of site; it takes none"));
    }
    let tools = target("tools");
    // It does nothing if it is installed.
    let install = ["install", "--quiet", "--locked", "--no-default-features", "--features", "search"];
    cargo(&install).args(&["--version", MDBOOK, "--root", &tools, "mdbook"]).run()?;
    let stage = fresh(&target_folder().join("site-stage"))?;
    put(&stage.join("book.toml"), BOOK.as_bytes())?;
    let source = stage.join("src");
    results::make(&source.join("results"))?;
    pages::copy(&source)?;
    let site = target_folder().join("site");
    fresh(&site)?;
    let (from, to) = (stage.display().to_string(), site.display().to_string());
    Step::new(&format!("{tools}/bin/mdbook"), &["build", "--dest-dir", &to, &from]).run()?;
    let checked = links::check(&site)?;
    look(&site)?;
    println!("{}: {} pages, {} links", site.join("index.html").display(), checked.pages, checked.links);
    Ok(())
}

/// In a browser, from the disk: a page is laid out, the search finds, and a result's page works.
fn look(site: &Path) -> Result<(), String> {
    let Some(program) = browser::find() else {
        println!("skipped: no Chromium here to look at the site; HOLDUP_CHROMIUM names one");
        return Ok(());
    };
    let mut browser = Browser::start(&program, &target_folder().join("site-profile"))?;
    let shots = fresh(&target_folder().join("site-shots"))?;
    for (page, ready, name) in [
        ("index.html", "document.querySelector('h1')", "index"),
        ("docs/guide.html", "document.querySelector('h2')", "guide"),
        ("results/index.html", "document.querySelector('main a')", "results"),
    ] {
        browser.look(1280, 900, false)?;
        browser.open(&site.join(page), ready)?;
        shoot(&mut browser, &shots.join(format!("{name}.png")))?;
    }
    search(&mut browser, &shots)?;
    for name in results::names() {
        let page = site.join("results").join(format!("{name}.html"));
        browser.open(&page, "document.querySelector('button.theme:not([hidden])')")?;
        shoot(&mut browser, &shots.join(format!("result-{name}.png")))?;
    }
    match browser.complaints().as_slice() {
        [] => Ok(()),
        some => Err(format!("the pages complain in a browser: {}", some.join("; "))),
    }
}

/// The search of the page that is open must find what only one page is about.
fn search(browser: &mut Browser, shots: &Path) -> Result<(), String> {
    browser.eval("document.querySelector('[id$=search-toggle]').click()")?;
    let typed = "(() => { const bar = document.querySelector('[id$=searchbar]'); bar.value = 'perf_event_paranoid'; \
        bar.dispatchEvent(new KeyboardEvent('keyup', { key: 'd' })); bar.dispatchEvent(new Event('input')); })()";
    browser.eval(typed)?;
    browser.wait("document.querySelectorAll('[id$=searchresults] li').length > 2")?;
    shoot(browser, &shots.join("search.png"))
}

fn shoot(browser: &mut Browser, file: &Path) -> Result<(), String> {
    fs::write(file, browser.picture()?).map_err(|why| format!("{}: {why}", file.display()))
}
