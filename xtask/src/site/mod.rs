//! The documentation as one folder of static pages: read from files, without a server and without the network.
//!
//! Every page of the repository becomes a page at the same place (`docs/guide.md` is `docs/guide.html`), with the
//! navigation beside it and a search over all of them. `reports/` has pages of real reports, made by the holdup of this
//! repository. At the end every link and anchor of the folder is followed: a broken one is an error.

mod layout;
mod links;
mod markdown;
mod nav;
mod path;
mod reports;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use markdown::{Page, Section};
use path::{Target, page_at};

use crate::files::{cannot, put, remove};
use crate::run::{root, target_folder};
use crate::viewer_cost::browser::{self, Browser};

const USAGE: &str =
    "usage: cargo xtask site [--out DIR] [--pages] [--shots]; for example: cargo xtask site --out public";

/// What every page loads.
const STYLE: &str =
    concat!(include_str!("../../../crates/holdup/viewer/src/style/colours.css"), include_str!("site.css"));
const SCRIPT: &str = include_str!("site.js");

/// Makes the folder: `--out DIR` (target/site without it); `--pages` keeps the reports that are there; `--shots` takes
/// pictures of it to look at.
pub fn run(args: &[String]) -> Result<(), String> {
    let asked = Asked::of(args)?;
    if !asked.pages_alone {
        remove(&asked.out)?;
        reports::make(&asked.out.join(reports::FOLDER))?;
    } else if let Some(missing) = reports::missing(&asked.out.join(reports::FOLDER)) {
        return Err(format!("{} is not there: make it by cargo xtask site, without --pages", missing.display()));
    }
    let pages = write(&asked.out)?;
    let count = links::check(&asked.out)?;
    eprintln!("{pages} pages and {count} links, none broken: {}", asked.out.join("index.html").display());
    if asked.shots { shots(&asked.out) } else { Ok(()) }
}

struct Asked {
    out: PathBuf,
    pages_alone: bool,
    shots: bool,
}

impl Asked {
    fn of(args: &[String]) -> Result<Asked, String> {
        let mut asked = Asked { out: target_folder().join("site"), pages_alone: false, shots: false };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--out" => asked.out = root().join(args.next().ok_or(format!("--out without a folder; {USAGE}"))?),
                "--pages" => asked.pages_alone = true,
                "--shots" => asked.shots = true,
                other => return Err(format!("'{other}' is no option; {USAGE}")),
            }
        }
        // The folder is emptied: one that holds anything else must not be.
        if asked.out.is_dir() && !asked.out.join("site.css").exists() && !is_empty(&asked.out) {
            let out = asked.out.display();
            return Err(format!("{out} holds something that is no site: name a folder that is not there; {USAGE}"));
        }
        Ok(asked)
    }
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none())
}

/// Writes every page but the reports, with style, script and index, and says how many there are.
fn write(out: &Path) -> Result<usize, String> {
    let mut site = Site::read()?;
    site.follow()?;
    let titles = site.titles();
    let nav = nav::sections(&titles)?;
    let mut index = Vec::new();
    for (at, page) in &site.pages {
        put(&out.join(at), layout::page(at, page, &nav).into_string().as_bytes())?;
        index.extend(page.sections.iter().map(|section| entry(at, page, section)));
    }
    for from in &site.copied {
        let bytes = fs::read(root().join(from)).map_err(|why| cannot("read", &root().join(from), &why))?;
        put(&out.join(from), &bytes)?;
    }
    // A script and no JSON: pages that are opened as files may load scripts only.
    let index = serde_json::to_string(&index).map_err(|why| format!("the index for the search: {why}"))?;
    put(&out.join("search.js"), format!("window.siteIndex = {index};\n").as_bytes())?;
    put(&out.join("site.css"), STYLE.as_bytes())?;
    put(&out.join("site.js"), SCRIPT.as_bytes())?;
    Ok(site.pages.len())
}

/// What the search knows of a section: where it is, its page's title, its own, its words.
fn entry(at: &str, page: &Page, section: &Section) -> [String; 4] {
    let place = if section.anchor.is_empty() { at.to_owned() } else { format!("{at}#{}", section.anchor) };
    [place, page.title.clone(), section.title.clone(), section.text.clone()]
}

/// The pages by where they lie in the site, and files that are shown as they are.
struct Site {
    pages: BTreeMap<String, Page>,
    copied: BTreeSet<String>,
    wanted: BTreeSet<Target>,
}

impl Site {
    /// The repository's pages of Markdown, and that of the reports.
    fn read() -> Result<Site, String> {
        let mut site = Site { pages: BTreeMap::new(), copied: BTreeSet::new(), wanted: BTreeSet::new() };
        for source in sources()? {
            site.add(&source, &read(&source)?)?;
        }
        site.add(&format!("{}/README.md", reports::FOLDER), &reports::page())?;
        Ok(site)
    }

    fn add(&mut self, source: &str, text: &str) -> Result<(), String> {
        let (page, links) = markdown::page(source, text)?;
        self.wanted.extend(links);
        self.pages.insert(page_at(source), page);
        Ok(())
    }

    /// Adds what pages link to that is no page yet: folders as lists of files, sources as text, pictures as they are.
    fn follow(&mut self) -> Result<(), String> {
        while let Some(target) = self.wanted.pop_first() {
            let at = target.at();
            if self.pages.contains_key(&at) || self.copied.contains(&at) {
                continue;
            }
            match &target {
                Target::Page(source) => self.add(source, &read(source)?)?,
                Target::Folder(folder) => self.add(&format!("{folder}/README.md"), &list(folder)?)?,
                Target::Source(source) => {
                    self.pages.insert(at, markdown::source(source, &read(source)?));
                }
                Target::Copy(source) => {
                    self.copied.insert(source.clone());
                }
                Target::Report(_) => {}
            }
        }
        Ok(())
    }

    fn titles(&self) -> BTreeMap<String, (String, Vec<Section>)> {
        self.pages.iter().map(|(at, page)| (at.clone(), (page.title.clone(), page.sections.clone()))).collect()
    }
}

/// Every page of Markdown: beside the root's manifest, under `docs`, beside the crates' manifests.
fn sources() -> Result<Vec<String>, String> {
    let folders = ["", "docs", "docs/cases", "docs/benchmarks", "docs/decisions"].map(str::to_owned);
    let crates = names("crates")?.into_iter().map(|name| format!("crates/{name}"));
    let mut sources = Vec::new();
    for folder in folders.into_iter().chain(crates) {
        let pages = names(&folder)?.into_iter().filter(|name| name.ends_with(".md"));
        sources.extend(pages.map(|name| if folder.is_empty() { name } else { format!("{folder}/{name}") }));
    }
    Ok(sources)
}

/// What a folder of the repository holds, by name.
fn names(folder: &str) -> Result<Vec<String>, String> {
    let path = root().join(folder);
    let entries = fs::read_dir(&path).map_err(|why| cannot("read", &path, &why))?;
    let mut names: Vec<String> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    Ok(names)
}

fn read(source: &str) -> Result<String, String> {
    let path = root().join(source);
    fs::read_to_string(&path).map_err(|why| cannot("read", &path, &why))
}

/// A page for a folder without one: its files, pages by their titles.
fn list(folder: &str) -> Result<String, String> {
    let mut text = format!("# {folder}\n\n");
    for name in names(folder)? {
        if name.ends_with(".md") {
            text.push_str(&format!("- [{}]({name})\n", markdown::title(&read(&format!("{folder}/{name}"))?)));
        } else if root().join(folder).join(&name).is_file() {
            text.push_str(&format!("- [`{name}`]({name})\n"));
        }
    }
    Ok(text)
}

/// Pages of each kind, wide and narrow, light and dark, and the search at work; into target/site-shots.
fn shots(site: &Path) -> Result<(), String> {
    let program = browser::find().ok_or("there is no Chromium; HOLDUP_CHROMIUM names one")?;
    let out = target_folder().join("site-shots");
    let mut browser = Browser::start(&program, &out.join("profile"))?;
    let pages = ["index.html", "docs/tour.html", "docs/findings.html", "docs/which-lock.html", "reports/index.html"];
    for (width, height) in [(390, 840), (1440, 900)] {
        for dark in [false, true] {
            browser.look(width, height, dark)?;
            for page in pages {
                browser.open(&site.join(page), "document.body.dataset.ready")?;
                let theme = if dark { "dark" } else { "light" };
                let name = page.trim_end_matches(".html").replace('/', "-");
                let shot = out.join(format!("{name}-{theme}-{width}.png"));
                put(&shot, &browser.picture()?)?;
                eprintln!("{}", shot.display());
            }
        }
        browser.eval("site.search('time slice')")?;
        browser.wait("document.querySelector('.results a')")?;
        put(&out.join(format!("search-{width}.png")), &browser.picture()?)?;
    }
    Ok(())
}
