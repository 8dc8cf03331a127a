//! The two streams: results on stdout, everything else on stderr. Neither can make the program panic.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::path::Path;

use serde::Serialize;

use super::Error;
use crate::report::Style;
use crate::report::document::Document;
use crate::text;

/// Columns where no terminal says how wide it is.
pub const WIDTH: usize = 80;

/// Narrower terminals are written past their edge: no table would be left of it.
const LEAST_WIDTH: usize = 40;

/// How results are laid out.
pub fn style() -> Style {
    Style { width: width(terminal_size::terminal_size_of(io::stdout())), colour: colour() }
}

/// How what goes to stderr is laid out.
pub fn style_stderr() -> Style {
    Style { width: width(terminal_size::terminal_size_of(io::stderr())), colour: colour_stderr() }
}

/// What the user says in COLUMNS, else what the terminal says.
fn width(terminal: Option<(terminal_size::Width, terminal_size::Height)>) -> usize {
    let told = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let seen = || terminal.map(|(width, _)| usize::from(width.0));
    told.or_else(seen).filter(|columns| *columns > 0).map_or(WIDTH, |columns| columns.max(LEAST_WIDTH))
}

/// Prints a report.
///
/// # Errors
/// As [`print`].
pub fn show(document: &Document) -> Result<(), Error> {
    print(&document.terminal(&style()))
}

/// Writes results to stdout. A reader that went away has seen enough: a broken pipe is success.
///
/// # Errors
/// The system refuses to write, for example to a full disk.
pub fn print(text: &str) -> Result<(), Error> {
    printed(io::stdout().lock().write_all(text.as_bytes()))
}

/// What came of writing to stdout, once all of it has left.
///
/// # Errors
/// As [`print`].
pub fn printed(written: io::Result<()>) -> Result<(), Error> {
    match written.and_then(|()| io::stdout().flush()) {
        Err(why) if why.kind() != io::ErrorKind::BrokenPipe => Err(Error::Output(why)),
        _ => Ok(()),
    }
}

/// A document as JSON, its keys in order.
///
/// # Errors
/// A key is not text.
pub fn json(document: &impl Serialize) -> Result<String, Error> {
    let value = serde_json::to_value(document).map_err(|why| Error::Output(why.into()))?;
    Ok(format!("{value:#}\n"))
}

/// Says something on stderr that is not a result. Names of files, programs and locks in it may come from anywhere:
/// nothing in them reaches the terminal but text.
pub fn note(text: impl Display) {
    text.to_string().split('\n').for_each(|line| tell(&text::clean(line)));
}

/// Says on stderr what is laid out already, perhaps in colour.
pub fn note_document(document: &Document) {
    tell(document.terminal(&style_stderr()).trim_end());
}

fn tell(line: &str) {
    // Nobody can be told that stderr is gone.
    let _ = writeln!(io::stderr(), "{line}");
}

/// Tells the user what went wrong.
pub fn complain(error: &Error) {
    match error {
        // clap has already laid out its message in lines.
        Error::Usage(text) => note(text.trim_end()),
        Error::Help => {}
        error => note(format_args!("holdup: {error}")),
    }
}

/// Writes a file of results; one that exists is only replaced with `force`.
///
/// # Errors
/// The file exists, or cannot be written.
pub fn write_file(path: &Path, text: &str, force: bool) -> Result<(), Error> {
    let fail = |why: io::Error| match why.kind() {
        io::ErrorKind::AlreadyExists => Error::FileExists(path.to_owned()),
        _ => Error::File { path: path.to_owned(), why },
    };
    let mut options = std::fs::OpenOptions::new();
    options.write(true);
    match force {
        true => options.create(true).truncate(true),
        false => options.create_new(true),
    };
    let mut file = options.open(path).map_err(fail)?;
    file.write_all(text.as_bytes()).map_err(|why| {
        // Half a file is none.
        if !force {
            let _ = std::fs::remove_file(path);
        }
        fail(why)
    })
}

/// Whether text on stderr is read by a person now.
pub fn is_terminal_stderr() -> bool {
    io::stderr().is_terminal()
}

/// Whether text on stderr may be coloured.
pub fn colour_stderr() -> bool {
    wants_colour() && is_terminal_stderr()
}

/// Whether results may be coloured: stdout is a terminal and the user has nothing against it.
fn colour() -> bool {
    wants_colour() && io::stdout().is_terminal()
}

fn wants_colour() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
