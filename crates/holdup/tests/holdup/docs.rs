//! The documentation's commands are taken by the program, and its links lead somewhere.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use holdup::cli::factors::axis;
use holdup_bench::spec::FACTORS;

use super::files;

/// Pages whose commands must be understood word for word.
const PAGES: &[&str] = &[
    "README.md",
    "docs/tour.md",
    "docs/guide.md",
    "docs/findings.md",
    "docs/which-lock.md",
    "docs/fleet.md",
    "docs/cases/1998.md",
    "docs/cases/kccachetest.md",
    "docs/cases/node-pool.md",
    "docs/cases/openmp-histogram.md",
    "docs/cases/orders.md",
    "docs/cases/python-server.md",
];

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

pub fn read(page: &str) -> String {
    std::fs::read_to_string(root().join(page)).unwrap()
}

/// What stands in backquotes or begins a line of a block, begins with `holdup `, and is more than a mention of a
/// subcommand.
pub fn commands(page: &str) -> Vec<String> {
    // A line that ends in a backslash goes on; a code span may be broken over two lines.
    let text = page.replace("\\\n", " ");
    let mut commands = Vec::new();
    let mut in_block = false;
    let mut prose = String::new();
    for line in text.lines() {
        if line.starts_with("```") {
            in_block = !in_block;
        } else if in_block {
            let command = line.trim_start().trim_start_matches("test   ").trim_start_matches("$ ");
            let command = command.split(" #").next().unwrap();
            commands.push(command.trim().to_owned());
        } else {
            prose.push_str(line);
            prose.push(' ');
        }
    }
    commands.extend(prose.split('`').skip(1).step_by(2).map(str::to_owned));
    commands.retain(|command| command.starts_with("holdup ") && command.split(' ').nth(2).is_some());
    commands
}

/// The words of a command, as a shell makes them; these pages need no more than single quotes. A variable is a number.
fn words(command: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (number, part) in command.split('\'').enumerate() {
        let quoted = number % 2 == 1;
        if quoted {
            words.push(part.to_owned());
        } else {
            let value = |word: &str| if word.starts_with('$') { "1" } else { word }.to_owned();
            words.extend(part.split_whitespace().map(value));
        }
    }
    words
}

/// A command of a page, or the beginning of one that the page is talking about, such as `holdup with --profile`.
fn check(words: &[String]) -> Result<(), String> {
    if !holdup::cli::has_command(&words[1]) {
        return Err("there is no such subcommand".to_owned());
    }
    match holdup::cli::parse(words.iter().map(OsString::from)) {
        // An option that is not there is taken for the program to run.
        Ok(request) if format!("{request:?}").contains("[\"--") => Err("an option is not known".to_owned()),
        Ok(_) if words[1] == "bench" => check_factors(words),
        Ok(_) => Ok(()),
        Err(why) if why.to_string().contains("required arguments were not provided") => Ok(()),
        Err(why) => Err(why.to_string()),
    }
}

/// Values of factors are read when a sweep is planned, not when the command line is.
fn check_factors(words: &[String]) -> Result<(), String> {
    let pairs = words.windows(2).filter_map(|pair| Some((pair[0].strip_prefix("--")?, pair[1].as_str())));
    for (name, value) in pairs.filter(|(name, _)| FACTORS.iter().any(|factor| factor.name == *name)) {
        // "N" stands for the reader's number.
        if !value.contains('N') {
            axis(name, value).map_err(|why| why.to_string())?;
        }
    }
    Ok(())
}

#[test]
fn the_commands_of_the_pages_are_understood() {
    let mut checked = 0;
    for page in PAGES {
        for command in commands(&read(page)) {
            let words = words(&command);
            check(&words).unwrap_or_else(|why| panic!("{page}: '{command}': {why}"));
            checked += 1;
        }
    }
    assert!(checked > 40, "only {checked} commands were found in {PAGES:?}");
}

#[test]
fn a_wrong_command_would_be_noticed() {
    let page = "Run `holdup bench --threads 1,two` or\n\n```sh\nholdup try --door 1 -- ./prog   # no\n```\n";
    let found = commands(page);
    assert_eq!(found, ["holdup try --door 1 -- ./prog", "holdup bench --threads 1,two"]);
    assert!(found.iter().all(|command| check(&words(command)).is_err()));
    assert_eq!(check(&words("holdup try --gates 1,2 -- ./prog --door")), Ok(()));
    assert!(check(&words("holdup doors --open")).is_err());
    assert_eq!(words("a 'b $c' $d"), ["a", "b $c", "1"]);
}

#[test]
fn the_names_of_the_cpp_interface_are_there() {
    let header = read("crates/holdup-capi/include/holdup.hpp");
    let guide = read("docs/which-lock.md");
    let names: Vec<&str> = guide.split("`holdup::").skip(1).filter_map(|rest| rest.split('`').next()).collect();
    assert!(names.len() >= 5, "the guide names {names:?}");
    for name in names {
        let defined = [format!("using {name} ="), format!("class {name} "), format!("class {name}:")];
        assert!(defined.iter().any(|text| header.contains(text)), "holdup.hpp has no {name}");
    }
}

/// Every page of the repository: beside the root's manifest, under `docs`, beside the crates' manifests.
fn pages() -> Vec<PathBuf> {
    let crates = files(&root().join("crates")).into_iter().map(|name| root().join("crates").join(name));
    let docs = ["docs", "docs/decisions", "docs/benchmarks", "docs/cases"].map(|folder| root().join(folder));
    let folders = std::iter::once(root()).chain(docs);
    let pages = folders.chain(crates).flat_map(|folder| {
        let names = files(&folder).into_iter().filter(|name| name.ends_with(".md"));
        names.map(|name| folder.join(name)).collect::<Vec<_>>()
    });
    pages.collect()
}

/// A page without its blocks of code, in which nothing is a link or a heading.
fn prose(page: &str) -> String {
    page.split("```").step_by(2).collect()
}

/// Where links of a page lead: file and anchor, of which either may be empty.
fn links(page: &str) -> Vec<(String, String)> {
    let targets = prose(page);
    let targets = targets.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let own = targets.filter(|target| !target.contains("://"));
    own.map(|target| target.split_once('#').unwrap_or((target, "")))
        .map(|(file, anchor)| (file.to_owned(), anchor.to_owned()))
        .collect()
}

/// The anchors that Markdown's usual renderers give the headings of a page.
fn anchors(page: &str) -> Vec<String> {
    let headings = prose(page);
    let headings = headings.lines().filter(|line| line.starts_with('#'));
    let kept = |c: &char| c.is_alphanumeric() || "-_ ".contains(*c);
    headings
        .map(|line| line.trim_start_matches('#').trim().to_lowercase().chars().filter(kept).collect::<String>())
        .map(|heading| heading.replace(' ', "-"))
        .collect()
}

/// Each link that leads nowhere, as a sentence; and how many links there are.
fn broken_links(page: &Path, text: &str) -> (Vec<String>, usize) {
    let links = links(text);
    let broken = links.iter().filter_map(|(file, anchor)| {
        let target = if file.is_empty() { page.to_owned() } else { page.parent().unwrap().join(file) };
        if !target.exists() {
            return Some(format!("{} links to {file}, which is not there", page.display()));
        }
        let known = anchor.is_empty() || anchors(&std::fs::read_to_string(&target).unwrap()).contains(anchor);
        (!known).then(|| format!("{} links to #{anchor} of {}: no such heading", page.display(), target.display()))
    });
    (broken.collect(), links.len())
}

#[test]
fn links_between_the_pages_lead_somewhere() {
    let mut all = 0;
    for page in pages() {
        let (broken, links) = broken_links(&page, &std::fs::read_to_string(&page).unwrap());
        assert_eq!(broken, Vec::<String>::new());
        all += links;
    }
    assert!(all > 50, "only {all} links were found");
}

#[test]
fn a_broken_link_would_be_noticed() {
    let page = root().join("README.md");
    let broken = |text: &str| broken_links(&page, text).0.len();
    assert_eq!(broken("[a](docs/guide.md#on-windows) [b](https://example.org/#c) [d](docs/)"), 0);
    assert_eq!(broken("[a](docs/guide.md#no-such-heading) [b](docs/no-such-page.md)"), 2);
    assert_eq!(broken("```c\nint a[](b);\n```"), 0);
    assert_eq!(anchors("# One\n\n## `two`, and Three: 4\n"), ["one", "two-and-three-4"]);
}
