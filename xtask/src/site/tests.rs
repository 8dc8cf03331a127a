//! The site as a whole: no broken link, and pages that work in a browser. Reports are stood in for: making them takes
//! minutes, and `cargo xtask site` makes them and follows the links again.

use std::path::{Path, PathBuf};

use super::*;
use crate::run::root;

/// A folder that goes when this is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        Folder(std::env::temp_dir().join(format!("holdup-{name}-{}", std::process::id())))
    }

    fn site(name: &str) -> Folder {
        let folder = Folder::new(name);
        for file in ["recording.html", "try.html", "bench.html", "claims.html"] {
            put(&folder.0.join(reports::FOLDER).join(file), b"<p>stands in for a report</p>").unwrap();
        }
        assert_eq!(reports::missing(&folder.0.join(reports::FOLDER)), None);
        write(&folder.0).unwrap();
        folder
    }

    fn read(&self, at: &str) -> String {
        std::fs::read_to_string(self.0.join(at)).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        remove(&self.0).unwrap();
    }
}

#[test]
fn no_link_of_the_site_is_broken() {
    let site = Folder::site("site-links");
    let count = links::check(&site.0).unwrap();
    assert!(count > 1000, "only {count} links");
    for page in ["index.html", "docs/guide.html", "docs/cases/1998.html", "reports/index.html"] {
        let text = site.read(page);
        assert!(text.contains("aria-current=\"page\"") && text.contains("<h1"), "{page}");
    }
    // A link to a folder, and to a file in it.
    assert!(site.read("docs/decisions/index.html").contains("0001-cells-are-words.html"));
    assert!(site.read("crates/holdup-locks/examples/index.html").contains(".rs.html"));
    remove(&site.0.join("docs/images")).unwrap();
    assert!(links::check(&site.0).is_err_and(|why| why.contains("images/top.png, which is not there")));
}

#[test]
fn a_folder_with_something_else_is_not_emptied() {
    let folder = Folder::new("site-else");
    put(&folder.0.join("thesis.tex"), b"years of work").unwrap();
    let asked = |words: &[&str]| Asked::of(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
    let out = folder.0.display().to_string();
    assert!(asked(&["--out", &out]).err().unwrap().contains("holds something that is no site"));
    put(&folder.0.join("site.css"), b"").unwrap();
    assert!(asked(&["--out", &out, "--pages"]).is_ok_and(|asked| asked.pages_alone && !asked.shots));
    for wrong in [&["--out"][..], &["out"], &["--help-me"]] {
        assert!(asked(wrong).err().unwrap().contains("for example: cargo xtask site --out"), "{wrong:?}");
    }
}

/// What a reader does, in Chromium, from files: search, follow a result, change the theme, open the contents.
#[test]
fn readers_find_their_way_in_a_browser() {
    let Some(program) = browser::find() else {
        assert!(std::env::var_os("HOLDUP_NO_SKIP").is_none(), "skipped although HOLDUP_NO_SKIP is set: no Chromium");
        println!("skipped: there is no Chromium");
        return;
    };
    let site = Folder::site("site-browser");
    let mut browser = Browser::start(&program, &site.0.join("profile")).unwrap();
    browser.look(1280, 800, false).unwrap();
    open(&mut browser, &site.0, "docs/ci.html");
    // The keyboard's way to a page: /, words, Enter.
    browser.key("/").unwrap();
    for letter in "lock-convoy".chars() {
        browser.key(&letter.to_string()).unwrap();
    }
    browser.wait("document.querySelector('.results b')?.textContent === 'Findings › lock-convoy'").unwrap();
    browser.key("Enter").unwrap();
    browser.wait("location.href.endsWith('docs/findings.html#lock-convoy') && document.body.dataset.ready").unwrap();
    let top = browser.eval("document.getElementById('lock-convoy').getBoundingClientRect().top").unwrap();
    let top = top.as_f64().unwrap();
    assert!((40.0..200.0).contains(&top), "the heading is at {top}, below the header");
    browser.eval("site.search('no-such-word-anywhere')").unwrap();
    let none = browser.eval("document.querySelector('.results').textContent").unwrap();
    assert_eq!(none, "No page has \"no-such-word-anywhere\".");
    // Light, then dark by the button, and so on the next page.
    let dark = "getComputedStyle(document.body).backgroundColor";
    let light = browser.eval(dark).unwrap();
    browser.eval("document.querySelector('button.theme').click()").unwrap();
    assert_ne!(browser.eval(dark).unwrap(), light);
    // On a telephone the contents are behind a button, and no page is wider than the screen.
    browser.look(390, 800, true).unwrap();
    for page in ["index.html", "docs/guide.html", "docs/findings.html", "docs/benchmarks/claims-epyc-2cpu.html"] {
        open(&mut browser, &site.0, page);
        let width = browser.eval("document.documentElement.scrollWidth").unwrap();
        assert_eq!(width, 390, "{page} is wider than the screen");
        let shown = "getComputedStyle(document.querySelector('nav')).display";
        assert_eq!(browser.eval(shown).unwrap(), "none", "{page}");
        browser.eval("document.querySelector('button.menu').click()").unwrap();
        assert_eq!(browser.eval(shown).unwrap(), "block", "{page}");
    }
}

fn open(browser: &mut Browser, site: &Path, page: &str) {
    browser.open(&site.join(page), "document.body.dataset.ready").unwrap();
}

#[test]
fn ways_between_files_are_relative() {
    assert_eq!(path::relative("docs/a.html", "docs/b.html"), "b.html");
    assert_eq!(path::relative("docs/cases/a.html", "index.html"), "../../index.html");
    assert_eq!(path::relative("index.html", "docs/a.html"), "docs/a.html");
    assert_eq!(path::join("docs/a.md", "../README.md"), Some("README.md".to_owned()));
    assert_eq!(path::join("a.md", "../b.md"), None);
    assert!(root().join("docs").is_dir());
}
