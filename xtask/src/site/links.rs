//! Every link and anchor of the finished folder, followed: what is broken is found here, and not by a reader.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::path::join;
use crate::files::cannot;

/// How many broken links an error names.
const NAMED: usize = 20;

/// How many links there are; an error that names those that lead nowhere, and what a page loads from elsewhere.
pub fn check(site: &Path) -> Result<usize, String> {
    let files = files(site)?;
    let mut anchors: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    let mut pages = Vec::new();
    for name in files.iter().filter(|name| name.ends_with(".html")) {
        let path = site.join(name);
        let text = fs::read_to_string(&path).map_err(|why| cannot("read", &path, &why))?;
        let text = without_scripts(&text);
        anchors.insert(name, values(&text, "id").into_iter().collect());
        pages.push((name, text));
    }
    let mut broken = Vec::new();
    let mut count = 0;
    for (from, text) in &pages {
        let loaded = values(text, "src").into_iter().map(|link| (link, true));
        for (link, loads) in loaded.chain(values(text, "href").into_iter().map(|link| (link, false))) {
            count += 1;
            broken.extend(why_broken(from, &link, loads, &files, &anchors).map(|why| format!("{from}: {why}")));
        }
    }
    if broken.is_empty() {
        return Ok(count);
    }
    let named = broken.iter().take(NAMED).cloned().collect::<Vec<_>>().join("\n  ");
    Err(format!("{} of {count} links are broken:\n  {named}", broken.len()))
}

fn why_broken(
    from: &str,
    link: &str,
    loads: bool,
    files: &BTreeSet<String>,
    anchors: &BTreeMap<&str, BTreeSet<String>>,
) -> Option<String> {
    if link.starts_with("data:") {
        return None;
    }
    if link.contains("://") || link.starts_with("//") {
        return loads.then(|| format!("loads {link}, which is not in the folder"));
    }
    let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
    let target = if path.is_empty() { Some(from.to_owned()) } else { join(from, path) };
    let Some(target) = target.filter(|target| files.contains(target)) else {
        return Some(format!("links to {link}, which is not there"));
    };
    let known = anchor.is_empty() || anchors.get(target.as_str()).is_some_and(|ids| ids.contains(anchor));
    (!known).then(|| format!("links to {link}: no such place on that page"))
}

/// Every file of the folder, by its path in it.
fn files(site: &Path) -> Result<BTreeSet<String>, String> {
    let mut folders = vec![PathBuf::new()];
    let mut files = BTreeSet::new();
    while let Some(folder) = folders.pop() {
        let path = site.join(&folder);
        for entry in fs::read_dir(&path).map_err(|why| cannot("read", &path, &why))?.flatten() {
            let name = folder.join(entry.file_name());
            if entry.path().is_dir() {
                folders.push(name);
            } else {
                files.insert(name.to_string_lossy().into_owned());
            }
        }
    }
    Ok(files)
}

/// A page without scripts and styles, in whose text nothing is a link.
fn without_scripts(text: &str) -> String {
    ["script", "style"].iter().fold(text.to_owned(), |text, tag| {
        let mut rest = text.as_str();
        let mut kept = String::new();
        while let Some((before, behind)) = rest.split_once(&format!("<{tag}")) {
            let (head, body) = behind.split_once('>').unwrap_or((behind, ""));
            kept.extend([before, "<", tag, head, ">"]);
            rest = body.split_once(&format!("</{tag}>")).map_or("", |(_, behind)| behind);
        }
        kept + rest
    })
}

/// The values of an attribute, in every tag.
fn values(text: &str, name: &str) -> Vec<String> {
    let start = format!(" {name}=\"");
    let tags = text.split('<').skip(1).filter_map(|rest| rest.split_once('>').map(|(tag, _)| tag));
    let found = tags.flat_map(|tag| tag.split(start.as_str()).skip(1).filter_map(|rest| rest.split('"').next()));
    found.map(|value| value.replace("&amp;", "&")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::{put, remove};

    /// What is said of a site with this page beside a good one.
    fn said(page: &str) -> Result<usize, String> {
        let name = std::thread::current().name().unwrap_or_default().replace(':', "-");
        let site = std::env::temp_dir().join(format!("holdup-site-{name}-{}", std::process::id()));
        put(&site.join("docs/good.html"), b"<h2 id=\"there\">x</h2>").unwrap();
        put(&site.join("index.html"), page.as_bytes()).unwrap();
        let said = check(&site);
        remove(&site).unwrap();
        said
    }

    #[test]
    fn a_broken_link_is_found_and_a_good_one_is_not() {
        let good = "<p id=\"own\"><a href=\"docs/good.html#there\"></a><a href=\"#own\"></a>\
                    <a href=\"https://a.example/x#y\"></a><script>\"<a href='no'>\"</script>";
        assert_eq!(said(good), Ok(3));
        for (page, why) in [
            ("<a href=\"docs/bad.html\">", "which is not there"),
            ("<a href=\"docs/good.html#nowhere\">", "no such place"),
            ("<a href=\"#nowhere\">", "no such place"),
            ("<a href=\"../outside.html\">", "which is not there"),
            ("<script src=\"https://a.example/x.js\"></script>", "which is not in the folder"),
            ("<img alt=\"a\" src=\"docs/no.png\">", "which is not there"),
        ] {
            assert!(said(page).is_err_and(|said| said.contains(why)), "{page}");
        }
    }
}
