//! `holdup generate`: completions for shells and manual pages, from the definition of the command line itself.

use std::fs;
use std::path::{Path, PathBuf};

use clap::builder::Resettable;
use clap::{Arg, Command};
use clap_complete::Shell;
use clap_mangen::Man;

use super::{Error, Status, output};

/// Writes completions for a shell, or manual pages.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    /// What to write
    #[arg(value_enum)]
    what: What,
    /// Folder for the manual pages, one for each command
    #[arg(short, long, value_name = "DIR", required_if_eq("what", "man"))]
    output: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  holdup generate bash > ~/.local/share/bash-completion/completions/holdup
  holdup generate zsh > ~/.zfunc/_holdup        a folder of zsh's $fpath
  holdup generate fish > ~/.config/fish/completions/holdup.fish
  holdup generate man -o ~/.local/share/man/man1";

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum What {
    /// Completions for bash, on stdout
    Bash,
    /// Completions for elvish, on stdout
    Elvish,
    /// Completions for fish, on stdout
    Fish,
    /// Completions for PowerShell, on stdout
    Powershell,
    /// Completions for zsh, on stdout
    Zsh,
    /// Manual pages, in the folder of --output
    Man,
}

impl What {
    fn shell(self) -> Option<Shell> {
        match self {
            What::Bash => Some(Shell::Bash),
            What::Elvish => Some(Shell::Elvish),
            What::Fish => Some(Shell::Fish),
            What::Powershell => Some(Shell::PowerShell),
            What::Zsh => Some(Shell::Zsh),
            What::Man => None,
        }
    }
}

/// Writes what was asked for, of this command line.
///
/// # Errors
/// Stdout or the folder cannot be written.
pub fn run(options: &Options, mut holdup: Command) -> Result<Status, Error> {
    match (options.what.shell(), &options.output) {
        (Some(_), Some(_)) => {
            let text = "completions go to stdout: leave out --output, and write '> FILE' behind the command";
            return Err(Error::Argument(text.to_owned()));
        }
        (Some(shell), None) => {
            output::print(&completions(shell, &mut holdup))?;
        }
        (None, folder) => manual(holdup, folder.as_deref().unwrap_or(Path::new(".")))?,
    }
    Ok(Status::Success)
}

/// Completions for a shell.
fn completions(shell: Shell, holdup: &mut Command) -> String {
    // Into memory: the generator ends the program where it cannot write.
    let mut text = Vec::new();
    clap_complete::generate(shell, holdup, "holdup", &mut text);
    let mut text = String::from_utf8_lossy(&text).into_owned();
    if shell == Shell::Fish {
        text.push_str(&words_for_fish(holdup));
    }
    text
}

/// The words that commands take without an option, such as `holdup list locks`: the generator for fish leaves them out,
/// and fish offers files in their place.
fn words_for_fish(holdup: &Command) -> String {
    let mut lines = String::new();
    for command in holdup.get_subcommands() {
        for value in command.get_positionals().flat_map(Arg::get_possible_values).filter(|value| !value.is_hide_set()) {
            let help = value.get_help().map(ToString::to_string).unwrap_or_default();
            let help = help.replace('\\', "\\\\").replace('\'', "\\'");
            let (name, value) = (command.get_name(), value.get_name());
            let condition = format!("__fish_holdup_using_subcommand {name}");
            lines.push_str(&format!("complete -c holdup -n \"{condition}\" -f -a \"{value}\" -d '{help}'\n"));
        }
    }
    lines
}

/// A page for the program and one for each of its commands.
fn manual(holdup: Command, folder: &Path) -> Result<(), Error> {
    fs::create_dir_all(folder).map_err(|why| Error::File { path: folder.to_owned(), why })?;
    let mut holdup = holdup.disable_help_subcommand(true);
    // Gives commands the names that their pages have: holdup-record.
    holdup.build();
    let commands = holdup.get_subcommands().filter(|command| !command.is_hide_set()).cloned();
    for command in commands.chain([holdup.clone()]) {
        let name = command.get_display_name().unwrap_or(command.get_name()).to_owned();
        let path = folder.join(format!("{name}.1"));
        let text = page(command).map_err(Error::Output)?;
        fs::write(&path, text).map_err(|why| Error::File { path, why })?;
    }
    Ok(())
}

/// One manual page. What stands below the help is laid out for reading as it is.
fn page(command: Command) -> std::io::Result<Vec<u8>> {
    let below = command.get_after_help().map(ToString::to_string);
    let command = command.after_help(Resettable::Reset).after_long_help(Resettable::Reset);
    let man = Man::new(command).source(concat!("holdup ", env!("CARGO_PKG_VERSION"))).manual("holdup");
    let mut page = Vec::new();
    man.render(&mut page)?;
    if let Some(text) = below {
        page.extend(section(&text).into_bytes());
    }
    Ok(page)
}

/// A section of a manual page: indented lines stay as they are, others are paragraphs.
fn section(text: &str) -> String {
    let (heading, rest) = match text.strip_prefix("Examples:\n") {
        Some(rest) => ("EXAMPLES", rest),
        None => ("NOTES", text),
    };
    let mut section = format!(".SH {heading}\n");
    let mut as_it_is = false;
    for line in rest.lines() {
        let indented = line.starts_with(' ');
        if indented != as_it_is && !line.is_empty() {
            section.push_str(if indented { ".nf\n" } else { ".fi\n" });
            as_it_is = indented;
        }
        section.push_str(if line.is_empty() { ".PP" } else { "" });
        section.push_str(&escaped(line));
        section.push('\n');
    }
    section.push_str(if as_it_is { ".fi\n" } else { "" });
    section
}

/// A line that typesets as itself: signs that a shell reads stay those signs, and no line is a request.
fn escaped(line: &str) -> String {
    let start = if line.starts_with(['.', '\'']) { "\\&" } else { "" };
    let signs = line.chars().map(|sign| match sign {
        '\\' => "\\e".to_owned(),
        '-' => "\\-".to_owned(),
        '\'' => "\\(aq".to_owned(),
        '`' => "\\(ga".to_owned(),
        '^' => "\\(ha".to_owned(),
        '~' => "\\(ti".to_owned(),
        other => other.to_string(),
    });
    start.chars().map(String::from).chain(signs).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_stay_as_they_are_and_prose_is_set() {
        let text = "Examples:\n  holdup try -- ./a \\\n  .b 'c'\n\nWithout a list\nit tries all.";
        let expected = ".SH EXAMPLES\n.nf\n  holdup try \\-\\- ./a \\e\n  .b \\(aqc\\(aq\n.PP\n.fi\nWithout a list\nit tries all.\n";
        assert_eq!(section(text), expected);
        assert_eq!(section(".x"), ".SH NOTES\n\\&.x\n");
    }

    #[test]
    fn every_command_has_a_page_and_every_shell_its_words() {
        let folder = tempfile::tempdir().unwrap();
        manual(crate::cli::command(), folder.path()).unwrap();
        let of = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
        let commands = crate::cli::command().get_subcommands().count();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), commands + 1);
        assert!(of("holdup.1").contains("holdup\\-record(1)") && of("holdup.1").contains(".SH EXAMPLES"));
        assert!(of("holdup-try.1").contains("holdup try \\-\\- ./server\\-bench \\-\\-threads 16"));
        for what in [What::Bash, What::Elvish, What::Fish, What::Powershell, What::Zsh] {
            let text = completions(what.shell().unwrap(), &mut crate::cli::command());
            assert!(text.contains("keep-slow"), "{what:?}");
        }
    }

    #[test]
    fn words_without_an_option_are_completed_in_every_shell() {
        for what in [What::Bash, What::Elvish, What::Fish, What::Powershell, What::Zsh] {
            let text = completions(what.shell().unwrap(), &mut crate::cli::command());
            // These two shells complete no words, after any program of this generator.
            let completes = !matches!(what, What::Elvish | What::Powershell);
            assert_eq!(text.contains("powershell"), completes, "{what:?}");
        }
        let text = completions(Shell::Fish, &mut crate::cli::command());
        assert!(text.contains("__fish_holdup_using_subcommand list\" -f -a \"workloads\""), "{text}");
        let lines =
            words_for_fish(&Command::new("a").subcommand(Command::new("b").arg(Arg::new("c").value_parser(["d"]))));
        assert_eq!(lines, "complete -c holdup -n \"__fish_holdup_using_subcommand b\" -f -a \"d\" -d ''\n");
    }
}
