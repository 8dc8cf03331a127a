//! Where a link of a page leads in the repository, and where that lies in the site.

use crate::run::root;

use super::reports;

/// Pictures, and what browsers show or keep as it is.
const COPIED: [&str; 5] = ["png", "svg", "json", "html", "holdup"];

/// What a page of the repository links to, by its path there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// Markdown.
    Page(String),
    Folder(String),
    /// Any other text.
    Source(String),
    Copy(String),
    /// A page that holdup makes for the site.
    Report(String),
}

impl Target {
    /// What a link in the file `from` leads to; an error if it is not there.
    pub fn of(from: &str, link: &str) -> Result<Target, String> {
        let path =
            join(from, link).ok_or_else(|| format!("{from} links to {link}, which is outside the repository"))?;
        if path.starts_with(reports::FOLDER) && path.ends_with(".html") {
            return Ok(Target::Report(path));
        }
        if path == format!("{}/README.md", reports::FOLDER) {
            return Ok(Target::Page(path));
        }
        let file = root().join(&path);
        if file.is_dir() {
            let page = format!("{path}/README.md").trim_start_matches('/').to_owned();
            return Ok(if root().join(&page).exists() { Target::Page(page) } else { Target::Folder(path) });
        }
        if !file.exists() {
            return Err(format!("{from} links to {link}, which is not there"));
        }
        let extension = path.rsplit_once('.').map_or("", |(_, extension)| extension);
        Ok(match extension {
            "md" => Target::Page(path),
            other if COPIED.contains(&other) => Target::Copy(path),
            _ => Target::Source(path),
        })
    }

    /// Where it lies in the site.
    pub fn at(&self) -> String {
        match self {
            Target::Page(path) => page_at(path),
            Target::Folder(path) => page_at(&format!("{path}/README.md")),
            Target::Source(path) => format!("{path}.html"),
            Target::Copy(path) | Target::Report(path) => path.clone(),
        }
    }
}

/// Where a page of Markdown lies: at its place, and what introduces a folder is what a browser opens there.
pub fn page_at(source: &str) -> String {
    let stem = source.strip_suffix(".md").unwrap_or(source);
    match stem.strip_suffix("README") {
        Some(folder) => format!("{folder}index.html"),
        None => format!("{stem}.html"),
    }
}

/// The way from one file of the site to another.
pub fn relative(from: &str, to: &str) -> String {
    let (from, to): (Vec<&str>, Vec<&str>) = (from.split('/').collect(), to.split('/').collect());
    let shared = from.iter().zip(&to).take_while(|(a, b)| a == b).count().min(from.len() - 1).min(to.len() - 1);
    let up = vec![".."; from.len() - 1 - shared];
    [up, to[shared..].to_vec()].concat().join("/")
}

/// The path that a link in `from` names, without dots; none if it leaves the repository.
pub fn join(from: &str, link: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}
