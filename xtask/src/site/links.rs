//! Whether every link of a folder of pages leads to a file of the folder, and to something of that name in it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::run::Step;

/// What was looked at.
pub struct Checked {
    pub pages: usize,
    pub links: usize,
}

/// Looks at all pages.
///
/// # Errors
/// A link leads nowhere; the message has each of them.
pub fn check(site: &Path) -> Result<Checked, String> {
    let list = Step::new("find", &[".", "-type", "f", "-printf", "%P\\n"]).folder(site).output()?;
    let files: BTreeSet<PathBuf> = list.lines().map(PathBuf::from).collect();
    let pages = files.iter().filter(|file| file.extension().is_some_and(|extension| extension == "html"));
    let read = |page: &PathBuf| fs::read_to_string(site.join(page)).map_err(|why| format!("{}: {why}", page.display()));
    let texts = pages.map(|page| Ok((page.clone(), read(page)?))).collect::<Result<BTreeMap<_, _>, String>>()?;
    let mut broken = BTreeSet::new();
    let mut links = 0;
    for (page, text) in &texts {
        for link in of(text) {
            links += 1;
            if let Err(why) = follow(page, &link, &files, &texts) {
                broken.insert(format!("{}: {link}: {why}", page.display()));
            }
        }
    }
    if broken.is_empty() {
        return Ok(Checked { pages: texts.len(), links });
    }
    Err(format!("links that lead nowhere:\n{}", broken.into_iter().collect::<Vec<_>>().join("\n")))
}

/// What a page links to and takes in, but for other sites.
fn of(text: &str) -> Vec<String> {
    let mut links = Vec::new();
    // Scripts write tags of their own.
    for part in text.split("<script").map(|part| part.split_once("</script>").map_or(part, |(_, after)| after)) {
        for mark in [" href=\"", " src=\""] {
            links.extend(part.split(mark).skip(1).filter_map(|rest| rest.split('"').next()).map(str::to_owned));
        }
    }
    links.retain(|link| !link.contains("://") && !["data:", "mailto:"].iter().any(|kind| link.starts_with(kind)));
    links
}

fn follow(
    page: &Path,
    link: &str,
    files: &BTreeSet<PathBuf>,
    texts: &BTreeMap<PathBuf, String>,
) -> Result<(), &'static str> {
    let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
    let path = path.split('?').next().unwrap_or_default();
    let target = if path.is_empty() { Some(page.to_owned()) } else { resolve(page, path) };
    let target = target.filter(|target| files.contains(target)).ok_or("no such file")?;
    if anchor.is_empty() {
        return Ok(());
    }
    let text = texts.get(&target).ok_or("no page, and so without headings")?;
    let there = ["id", "name"].iter().any(|key| text.contains(&format!("{key}=\"{anchor}\"")));
    if there { Ok(()) } else { Err("no such heading") }
}

/// A link's file below the folder; `None` if it leaves it.
fn resolve(page: &Path, path: &str) -> Option<PathBuf> {
    let path = path.replace("%20", " ");
    let mut target = page.parent().unwrap_or(Path::new("")).to_owned();
    for part in Path::new(&path).components() {
        match part {
            Component::ParentDir => target.pop().then_some(())?,
            Component::Normal(name) => target.push(name),
            Component::CurDir => {}
            _ => return None,
        }
    }
    Some(target)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_followed_as_a_browser_does() {
        let text = r#"<a href="../b.html#x"> <a href='no'> <img src="y/z.png"> <script>' href="no"'</script> <a href="https://e.org">"#;
        assert_eq!(of(text), ["../b.html#x", "y/z.png"]);
        let page = PathBuf::from("docs/a.html");
        let other = ("b.html".into(), "<h2 id=\"x\">".to_owned());
        let texts: BTreeMap<PathBuf, String> = [other, (page.clone(), String::new())].into();
        let files: BTreeSet<PathBuf> = texts.keys().cloned().chain(["docs/y/z.png".into()]).collect();
        let leads = |link: &str| follow(&page, link, &files, &texts).is_ok();
        assert!(leads("../b.html#x") && leads("y/z.png") && leads("a.html") && leads("../b.html?search=1"));
        assert!(!leads("../b.html#y") && !leads("b.html") && !leads("../../b.html") && !leads("#x"));
    }
}
