//! The documentation's blocks of commands are run, as a reader would run them: in the order of the page, in one folder.
//!
//! A block that cannot be run here says why behind its language, where renderers show nothing: "```sh not-run=minutes".
//! The program of the examples does less work here than for readers, so that trials of it end soon.

use std::collections::BTreeSet;

use super::docs::read;

/// Pages whose blocks of commands are run.
const PAGES: &[&str] = &["README.md", "docs/tour.md", "docs/guide.md"];

/// Why a block is not run, and what that means.
const REASONS: &[(&str, &str)] = &[
    ("installs", "it changes the machine of whoever runs it"),
    ("minutes", "it takes too long for a test"),
    ("process", "it needs a process, a server or a control group that is there already"),
    ("terminal", "it is a screen to look at, until somebody ends it"),
    ("your-program", "it names a program or a recording of the reader's"),
];

/// Languages of blocks that are no commands: output, sources.
const NO_COMMANDS: &[&str] = &["", "text", "c", "cpp", "rust"];

struct Block {
    /// The first line behind the fence, as editors count.
    line: usize,
    language: String,
    /// What stands behind the language.
    mark: String,
    text: String,
}

impl Block {
    /// Why it is not run; an error if it says so in words that nobody knows.
    fn reason(&self) -> Result<Option<&'static str>, String> {
        if self.mark.is_empty() {
            return Ok(None);
        }
        let known = REASONS.iter().find(|(name, _)| self.mark.strip_prefix("not-run=") == Some(name));
        let names: Vec<&str> = REASONS.iter().map(|(name, _)| *name).collect();
        known.map(|(name, _)| Some(*name)).ok_or_else(|| {
            format!("line {}: '{}' is no 'not-run=REASON' with one of {}", self.line, self.mark, names.join(", "))
        })
    }

    /// Whether it is one of commands; an error if it looks like one without being marked as one.
    fn is_commands(&self) -> Result<bool, String> {
        if self.language == "sh" {
            return Ok(true);
        }
        if !NO_COMMANDS.contains(&self.language.as_str()) {
            return Err(format!("line {}: a block of commands begins with ```sh, not ```{}", self.line, self.language));
        }
        match self.text.lines().find(|line| line.starts_with("holdup ")) {
            Some(command) => Err(format!("line {}: '{command}' stands in a block that is not ```sh", self.line)),
            None => Ok(false),
        }
    }
}

fn blocks(page: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for (number, line) in page.lines().enumerate() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some(fence), None) => {
                let (language, mark) = fence.split_once(' ').unwrap_or((fence, ""));
                let (language, mark) = (language.to_owned(), mark.trim().to_owned());
                open = Some(Block { line: number + 2, language, mark, text: String::new() });
            }
            (None, Some(block)) => block.text.extend([line, "\n"]),
            (None, None) => {}
        }
    }
    blocks
}

/// The blocks of commands of a page, each with the reason why it is not run.
fn of_commands(page: &str) -> Result<Vec<(Block, Option<&'static str>)>, String> {
    let mut found = Vec::new();
    for block in blocks(page) {
        if block.is_commands()? {
            let reason = block.reason()?;
            found.push((block, reason));
        } else if !block.mark.is_empty() {
            return Err(format!(
                "line {}: '{}' behind the language of a block without commands",
                block.line, block.mark
            ));
        }
    }
    Ok(found)
}

#[test]
fn every_block_of_commands_is_run_or_says_why_not() {
    let mut used = BTreeSet::new();
    for page in PAGES {
        let found = of_commands(&read(page)).unwrap_or_else(|why| panic!("{page}: {why}"));
        let run = found.iter().filter(|(_, reason)| reason.is_none()).count();
        assert!(run >= 3, "{page}: only {run} of {} blocks of commands are run", found.len());
        used.extend(found.into_iter().filter_map(|(_, reason)| reason));
    }
    let known: BTreeSet<&str> = REASONS.iter().map(|(name, _)| *name).collect();
    assert_eq!(used, known, "reasons that no block gives");
}

#[test]
fn a_block_that_is_neither_run_nor_excused_would_be_noticed() {
    let why = |page: &str| of_commands(page).err().unwrap_or_default();
    assert!(why("\n```sh not-run=lazy\nholdup demo\n```\n").starts_with("line 3: 'not-run=lazy' is no"));
    assert!(why("```bash\nholdup demo\n```\n").contains("not ```bash"));
    assert!(why("```text\nholdup demo\n```\n").contains("'holdup demo' stands in"));
    assert!(why("```text not-run=minutes\n$ holdup demo\n```\n").contains("without commands"));
    let found = of_commands("```sh\na\nb\n```\n```text\nc\n```\n```sh not-run=minutes\nd\n```\n").unwrap();
    let found: Vec<_> = found.iter().map(|(block, reason)| (block.line, block.text.as_str(), *reason)).collect();
    assert_eq!(found, [(2, "a\nb\n", None), (9, "d\n", Some("minutes"))]);
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod run {
    use std::path::Path;
    use std::process::Command;

    use super::super::Place;
    use super::super::docs::root;
    use super::*;

    /// Lines that take longer than this hang.
    const SECONDS_AT_MOST: &str = "400";

    #[test]
    fn the_commands_of_the_readme_work() {
        work("README.md");
    }

    #[test]
    fn the_commands_of_the_tour_work() {
        work("docs/tour.md");
    }

    #[test]
    fn the_commands_of_the_guide_work() {
        work("docs/guide.md");
    }

    /// Runs the blocks of a page in a folder that looks like a clone of the repository.
    fn work(page: &str) {
        let has_compiler = Command::new("cc").arg("--version").output().is_ok_and(|output| output.status.success());
        if !has_compiler {
            assert!(std::env::var_os("HOLDUP_NO_SKIP").is_none(), "skipped although HOLDUP_NO_SKIP is set: no cc");
            println!("skipped: there is no C compiler cc");
            return;
        }
        let place = clone();
        for (block, reason) in of_commands(&read(page)).unwrap() {
            if reason.is_none() {
                let failed = fails(&place, &block.text).map(|why| format!("{page}, line {}: {why}", block.line));
                assert_eq!(failed, None);
            }
        }
    }

    #[test]
    fn a_command_that_fails_would_be_noticed() {
        let place = clone();
        assert_eq!(fails(&place, "true\nholdup list factors\n"), None);
        for wrong in ["false\ntrue", "holdup list factors | grep no-such-factor", "holdup list doors\ntrue"] {
            assert!(fails(&place, wrong).is_some(), "{wrong}");
        }
    }

    /// What of a clone the pages name, and `holdup` on the path.
    fn clone() -> Place {
        const WORK: &str = "REQUESTS = 4000 }";
        let place = Place::new();
        let source = read("examples/page_cache.c");
        assert!(source.contains(WORK), "examples/page_cache.c: no '{WORK}' to make less of");
        let folders = ["examples", "bin"].map(|name| place.path(name));
        folders.iter().for_each(|folder| std::fs::create_dir(folder).unwrap());
        std::fs::write(place.path("examples/page_cache.c"), source.replace(WORK, "REQUESTS = 1200 }")).unwrap();
        std::os::unix::fs::symlink(root().join("fixtures").canonicalize().unwrap(), place.path("fixtures")).unwrap();
        executable(&place.path("bin/holdup"), &HOLDUP.replace("PROGRAM", env!("CARGO_BIN_EXE_holdup")));
        place
    }

    /// A gate that cannot tell and a recording that bears no all-clear (3) say something of the machine of this test,
    /// and nothing of the command.
    const HOLDUP: &str = "#!/bin/sh\n'PROGRAM' \"$@\"\nstatus=$?\n\
                          case $1:$status in gate:3 | record:3 | report:3) exit 0 ;; esac\nexit $status\n";

    fn executable(path: &Path, text: &str) {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::write(path, text).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// What a shell says of these lines if one of them fails.
    fn fails(place: &Place, lines: &str) -> Option<String> {
        let path = format!("{}:{}", place.path("bin").display(), std::env::var("PATH").unwrap_or_default());
        let mut shell = Command::new("timeout");
        place.at_home(shell.args([SECONDS_AT_MOST, "sh", "-exuc", lines])).env("PATH", path);
        let output = shell.stdin(std::process::Stdio::null()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (!output.status.success()).then(|| format!("ended with {}:\n{said}", output.status))
    }
}
