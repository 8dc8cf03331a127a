//! The documentation's commands are taken by the program, and its links lead somewhere.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use holdup::cli::factors::axis;
use holdup_bench::spec::FACTORS;

/// Pages whose commands must be understood word for word.
const PAGES: &[&str] = &["README.md", "docs/findings.md", "docs/which-lock.md"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(page: &str) -> String {
    std::fs::read_to_string(root().join(page)).unwrap()
}

/// What stands in backquotes or begins a line of a block, begins with `holdup `, and is more than a mention of a subcommand.
fn commands(page: &str) -> Vec<String> {
    // A line that ends in a backslash goes on; a code span may be broken over two lines.
    let text = page.replace("\\\n", " ");
    let mut commands = Vec::new();
    let mut in_block = false;
    let mut prose = String::new();
    for line in text.lines() {
        if line.starts_with("```") {
            in_block = !in_block;
        } else if in_block {
            let command = line.trim_start().trim_start_matches("test   ").split(" #").next().unwrap();
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

/// The words of a command, as a shell makes them; these pages need no more than single quotes.
fn words(command: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (number, part) in command.split('\'').enumerate() {
        let quoted = number % 2 == 1;
        if quoted {
            words.push(part.to_owned());
        } else {
            words.extend(part.split_whitespace().map(str::to_owned));
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
    assert_eq!(words("a 'b c' d"), ["a", "b c", "d"]);
}

#[test]
fn the_names_of_the_cpp_interface_are_there() {
    let header = read("crates/holdup-capi/include/holdup.hpp");
    let guide = read("docs/which-lock.md");
    let names: Vec<&str> =
        guide.split("`holdup::").skip(1).filter_map(|rest| rest.split('`').next()).collect();
    assert!(names.len() >= 5, "the guide names {names:?}");
    for name in names {
        let defined = [format!("using {name} ="), format!("class {name} "), format!("class {name}:")];
        assert!(defined.iter().any(|text| header.contains(text)), "holdup.hpp has no {name}");
    }
}

#[test]
fn links_between_the_pages_lead_somewhere() {
    for page in [
        "README.md",
        "ARCHITECTURE.md",
        "docs/findings.md",
        "docs/guide.md",
        "docs/which-lock.md",
        "crates/holdup-locks/README.md",
    ] {
        let folder = root().join(page).parent().unwrap().to_owned();
        let text = read(page);
        let targets = text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
        for target in targets.filter(|target| !target.is_empty() && !target.contains("://")) {
            assert!(folder.join(target).exists(), "{page} links to {target}, which is not there");
        }
    }
}
