//! The case studies of docs/cases, repeated: a page's blocks of commands are run in its order, in one folder, and what
//! they print is the page's output.
//!
//! A block of `sh` is run by a shell, whose exit status must be 0; the block of `text` behind it shows what it printed.
//! The words behind `text` are what that output must contain for the page to be true: "text says=KIND", one of several
//! as "A|B", with "+" for a space. So a page whose program is diagnosed otherwise fails here, before anybody copies its
//! figures.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::files::{cannot, put};
use crate::recording::Bench;
use crate::run::root;
use crate::setup;

const USAGE: &str = "usage: cargo xtask case NAME [--write]; for example: cargo xtask case node-pool";

/// A page that can be repeated: its name, and the programs that it needs, each with Debian's package.
struct Case {
    name: &'static str,
    needs: &'static [(&'static str, &'static str)],
}

const CASES: &[Case] = &[
    Case { name: "kccachetest", needs: &[("kccachetest", "kyotocabinet-utils")] },
    Case { name: "node-pool", needs: &[("node", "nodejs")] },
    Case { name: "openmp-histogram", needs: &[("gcc", "gcc")] },
    Case { name: "orders", needs: &[("/usr/sbin/mariadbd", "mariadb-server"), ("mariadb-slap", "mariadb-client")] },
    Case { name: "python-server", needs: &[("/usr/bin/python3", "python3")] },
];

/// Runs the commands of a page and shows what they print; `--write` puts that into the page.
pub fn run(args: &[String]) -> Result<(), String> {
    let (name, write) = match args {
        [name] => (name, false),
        [name, option] if option == "--write" => (name, true),
        _ => return Err(format!("{USAGE}\nthe cases: {}", names())),
    };
    let case = CASES.iter().find(|case| case.name == name);
    let case = case.ok_or_else(|| format!("'{name}' is no case of {}; {USAGE}", names()))?;
    if let Some((program, package)) = case.needs.iter().find(|(program, _)| setup::found(&[program]).is_none()) {
        return Err(format!("{name} needs {program}: sudo apt-get install {package}"));
    }
    let page = page(name);
    let text = std::fs::read_to_string(&page).map_err(|why| cannot("read", &page, &why))?;
    let bench = Bench::new(&format!("case-{name}"))?;
    for folder in ["examples", "fixtures"] {
        let (from, to) = (root().join(folder), bench.folder.join(folder));
        std::os::unix::fs::symlink(&from, &to).map_err(|why| cannot("link", &to, &why))?;
    }
    let repeated = repeated(&text, |commands| said(&bench.folder, commands))?;
    match write {
        true => put(&page, repeated.as_bytes()),
        false => Ok(()),
    }
}

fn names() -> String {
    CASES.iter().map(|case| case.name).collect::<Vec<_>>().join(", ")
}

fn page(name: &str) -> PathBuf {
    root().join(format!("docs/cases/{name}.md"))
}

/// What the commands print, in the order in which they print it.
fn said(folder: &Path, commands: &str) -> Result<String, String> {
    eprint!("{}", commands.lines().map(|line| format!("$ {line}\n")).collect::<String>());
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default());
    let output = Command::new("sh")
        .args(["-euc", &format!("exec 2>&1\n{commands}")])
        .current_dir(folder)
        .env("PATH", path)
        .env("XDG_DATA_HOME", folder.join("data"))
        .stdin(Stdio::null())
        .output()
        .map_err(|why| format!("sh: {why}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    print!("{text}");
    if output.status.success() { Ok(text) } else { Err(format!("'{}' ended with {}", commands.trim(), output.status)) }
}

/// The page with the output of its commands, each block of which is run once, by `run`.
fn repeated(page: &str, mut run: impl FnMut(&str) -> Result<String, String>) -> Result<String, String> {
    let mut made = String::new();
    let mut output: Option<String> = None;
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        made.extend([line, "\n"]);
        let Some(fence) = line.strip_prefix("```") else { continue };
        let block: String = lines.by_ref().take_while(|line| *line != "```").flat_map(|line| [line, "\n"]).collect();
        if fence == "sh" {
            output = Some(run(&block)?);
            made.push_str(&block);
        } else if let Some(said) = output.take_if(|_| fence.split(' ').next() == Some("text")) {
            check(fence, &said)?;
            made.extend(said.lines().flat_map(|line| [line.trim_end(), "\n"]));
        } else {
            made.push_str(&block);
        }
        made.push_str("```\n");
    }
    Ok(made)
}

/// Whether the output says what the page is about, wherever its lines are broken.
fn check(fence: &str, said: &str) -> Result<(), String> {
    let flat = said.split_whitespace().collect::<Vec<_>>().join(" ");
    for word in fence.split(' ').filter_map(|word| word.strip_prefix("says=")) {
        if !word.split('|').any(|one| flat.contains(&one.replace('+', " "))) {
            return Err(format!("the page is about '{word}', which is not in this output:\n{said}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str =
        "# A\n\n```sh\nprog\n```\n\nIt says:\n\n```text says=hot-lock|a+lock+convoy\nold\n```\n\n```c\nint a;\n```\n";

    #[test]
    fn output_stands_behind_its_commands_and_all_else_stays() {
        let mut ran = Vec::new();
        let new = repeated(PAGE, |commands| {
            ran.push(commands.to_owned());
            Ok("1. a lock  \nconvoy new\n".to_owned())
        });
        assert_eq!(new, Ok(PAGE.replace("old", "1. a lock\nconvoy new")));
        assert_eq!(ran, ["prog\n"]);
    }

    #[test]
    fn a_page_whose_program_is_told_otherwise_fails() {
        let why = repeated(PAGE, |_| Ok("nothing holds it up".to_owned())).unwrap_err();
        assert!(why.starts_with("the page is about 'hot-lock|a+lock+convoy'"), "{why}");
        assert_eq!(repeated(PAGE, |_| Err("it failed".to_owned())), Err("it failed".to_owned()));
    }

    /// Every page but the one that was written before there was this, and every case has its page with a diagnosis.
    #[test]
    fn every_case_has_a_page_and_every_page_is_a_case() {
        for case in CASES {
            let text = std::fs::read_to_string(page(case.name)).unwrap();
            assert!(text.contains("```text says="), "{}: no output that must say something", case.name);
            assert!(text.contains(&format!("cargo xtask case {}", case.name)), "{}", case.name);
        }
        let pages = crate::files::files(&root().join("docs/cases")).unwrap();
        let pages = pages.iter().filter(|path| !path.ends_with("1998.md"));
        assert_eq!(pages.count(), CASES.len());
        assert!(run(&["no-case".to_owned()]).unwrap_err().contains("'no-case' is no case of kccachetest, node-pool"));
    }
}
