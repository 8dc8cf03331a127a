//! Pages of real results to click: made anew, by the commands that the site shows beside them.

use std::path::Path;
use std::process::Command;

use crate::files::fresh;
use crate::recording::{Bench, output};
use crate::run::{Step, root};

/// A result: the name of its page, what it is, and the commands, of which the last writes the page.
struct Shown {
    name: &'static str,
    about: &'static str,
    commands: &'static [&'static str],
}

const RESULTS: &[Shown] = &[
    Shown {
        name: "recording",
        about: "A recording: findings, a timeline to zoom into, locks, threads, functions",
        commands: &[
            "holdup record -o page_cache.holdup ./page_cache",
            "holdup report page_cache.holdup --html recording.html",
        ],
    },
    Shown {
        name: "try",
        about: "A trial: which remedy helps that program",
        commands: &["holdup try --budget 60s --html try.html -- ./page_cache"],
    },
    Shown {
        name: "bench",
        about: "The laboratory: what locks cost with more and more threads",
        commands: &["holdup bench --lock pthread,none,adaptive,ttas --threads 1,2,4 --repeat 5 --html bench.html"],
    },
    Shown {
        name: "claims",
        about: "Published claims about locks, judged on one machine",
        commands: &["holdup reproduce intel --quick --html claims.html"],
    },
];

/// Names of the pages.
pub fn names() -> impl Iterator<Item = &'static str> {
    RESULTS.iter().map(|result| result.name)
}

/// Runs the commands and keeps the pages.
pub fn make(to: &Path) -> Result<(), String> {
    let bench = Bench::new("site")?;
    let source = root().join("examples/page_cache.c").display().to_string();
    let program = bench.folder.join("page_cache").display().to_string();
    Step::new("cc", &["-O2", "-g", "-pthread", "-o", &program, &source]).run()?;
    fresh(to)?;
    for result in RESULTS {
        for command in result.commands {
            eprintln!("$ {command}");
            let words = command.split(' ').skip(1);
            let data = bench.folder.join("data");
            output(Command::new(&bench.holdup).current_dir(&bench.folder).env("XDG_DATA_HOME", data).args(words))?;
        }
        let page = format!("{}.html", result.name);
        std::fs::copy(bench.folder.join(&page), to.join(&page)).map_err(|why| format!("{page}: {why}"))?;
    }
    Ok(())
}

/// The page that leads to them.
pub fn page() -> String {
    let mut page = "# Results to click\n\nPages that `holdup` wrote, each one file for any browser. The program is \
        [page_cache.c](../examples/page_cache.c), which the [tour](../docs/tour.md) follows.\n"
        .to_owned();
    for Shown { name, about, commands } in RESULTS {
        page.push_str(&format!("\n**[{about}]({name}.html)**\n\n```sh\n{}\n```\n", commands.join("\n")));
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_result_s_last_command_writes_its_page() {
        for Shown { name, commands, .. } in RESULTS {
            let last = commands.last().unwrap();
            assert!(last.contains(&format!("--html {name}.html")), "{name}");
            assert!(page().contains(&format!("({name}.html)")));
        }
    }
}
