//! The program that is tried, or the server, and how a shell would start it.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::shell::quoted;

/// A program with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    words: Vec<OsString>,
    values: Vec<(String, String)>,
    folder: Option<PathBuf>,
}

impl Program {
    /// From the command line; placeholders in its arguments get these values.
    ///
    /// # Errors
    /// A value has no place.
    pub fn new(words: Vec<OsString>, values: Vec<(String, String)>) -> Result<Program, String> {
        for (name, _) in &values {
            let place = format!("{{{name}}}");
            if !words.iter().skip(1).any(|word| word.to_string_lossy().contains(&place)) {
                return Err(format!(
                    "--vary {name}: no argument of the program contains {place}, as in 'PROGRAM -t {place}'"
                ));
            }
        }
        Ok(Program { words, values, folder: None })
    }

    /// From the command line; where a value has no place, it has none.
    pub fn with_values(words: Vec<OsString>, values: Vec<(String, String)>) -> Program {
        Program { words, values, folder: None }
    }

    /// From one text, split as a shell splits words without expanding anything.
    ///
    /// # Errors
    /// A quote has no end, or there is no word.
    pub fn parse(text: &str, values: Vec<(String, String)>) -> Result<Program, String> {
        Ok(Program { words: split(text)?, values, folder: None })
    }

    /// The same in a folder of its own.
    pub fn within(self, folder: PathBuf) -> Program {
        Program { folder: Some(folder), ..self }
    }

    /// The folder in which it runs, if that is not ours.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// The same with another value for one of its placeholders.
    pub fn with(&self, name: &str, value: &str) -> Program {
        let mut changed = self.clone();
        changed.values.retain(|(other, _)| other != name);
        changed.values.push((name.to_owned(), value.to_owned()));
        changed
    }

    /// Its words with the values in place.
    pub fn words(&self) -> Vec<OsString> {
        self.words.iter().map(|word| self.filled(word)).collect()
    }

    /// What it is called.
    pub fn name(&self) -> String {
        self.words.first().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default()
    }

    /// The last part of its path.
    pub fn file_name(&self) -> String {
        let name = self.name();
        name.rsplit('/').next().unwrap_or_default().to_owned()
    }

    /// As a command that can be started.
    pub fn command(&self) -> Command {
        let words = self.words();
        let (name, arguments) = words.split_first().map_or((OsStr::new(""), &[][..]), |(n, a)| (n, a));
        let mut command = Command::new(name);
        command.args(arguments);
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        command
    }

    /// As a shell reads it.
    pub fn line(&self) -> String {
        self.words().iter().map(|word| quoted(&word.to_string_lossy())).collect::<Vec<_>>().join(" ")
    }

    fn filled(&self, word: &OsString) -> OsString {
        let Some(text) = word.to_str().filter(|text| text.contains('{')) else { return word.clone() };
        let fill = |text: String, (name, value): &(String, String)| text.replace(&format!("{{{name}}}"), value);
        self.values.iter().fold(text.to_owned(), fill).into()
    }
}

/// The words of a text: spaces part them, quotes and backslashes keep spaces.
fn split(text: &str) -> Result<Vec<OsString>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(end), c) if c == end => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None | Some('"'), '\\') => {
                let next = chars.next().ok_or_else(|| format!("'{text}': nothing follows the last backslash"))?;
                word.get_or_insert_default().push(next);
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    if let Some(quote) = quote {
        return Err(format!("'{text}': a {quote} has no end"));
    }
    words.extend(word);
    if words.is_empty() {
        return Err("the server's command is empty; give one, as in --server 'memcached -p {port}'".to_owned());
    }
    Ok(words.into_iter().map(OsString::from).collect())
}

/// A server: remedies are put under it, and a load runs against it.
#[derive(Clone, Debug)]
pub struct Server {
    /// How it is started; `{port}` stands for a free port.
    pub program: Program,
    /// When it serves.
    pub ready: Ready,
}

/// When a server serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ready {
    /// When this port of 127.0.0.1 accepts connections; `{port}` as a rule.
    Tcp(String),
    /// When its output contains this.
    Output(String),
}

impl Ready {
    /// From the command line.
    ///
    /// # Errors
    /// It is neither `tcp:PORT` nor `output:TEXT`.
    pub fn parse(text: &str) -> Result<Ready, String> {
        match text.split_once(':') {
            Some(("tcp", port)) if port == "{port}" || port.parse::<u16>().is_ok_and(|port| port > 0) => {
                Ok(Ready::Tcp(port.to_owned()))
            }
            Some(("output", words)) if !words.is_empty() => Ok(Ready::Output(words.to_owned())),
            _ => Err(format!(
                "--ready: '{text}': give tcp:{{port}} (serves when the port accepts connections) or output:TEXT (when \
                 it prints the text)"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_take_their_places_and_a_line_can_be_pasted() {
        let words = ["./prog", "-t", "{N}", "--name", "a b"].map(OsString::from).to_vec();
        let program = Program::new(words.clone(), vec![("N".to_owned(), "4".to_owned())]).unwrap();
        assert_eq!(program.line(), "./prog -t 4 --name 'a b'");
        assert_eq!(program.with("N", "8").line(), "./prog -t 8 --name 'a b'");
        let why = Program::new(words, vec![("M".to_owned(), "4".to_owned())]).unwrap_err();
        assert!(why.contains("{M}"), "{why}");
    }

    #[test]
    fn a_text_becomes_the_words_that_a_shell_makes_of_it() {
        let of = |text| Program::parse(text, Vec::new()).map(|program| program.words);
        assert_eq!(of(r#"a 'b c' "d 'e" f\ g '' "#).unwrap(), ["a", "b c", "d 'e", "f g", ""]);
        assert!(of("a 'b").unwrap_err().contains("no end"));
        assert!(of("  ").is_err());
    }

    #[test]
    fn ready_is_a_port_or_a_text() {
        assert_eq!(Ready::parse("tcp:{port}"), Ok(Ready::Tcp("{port}".to_owned())));
        assert_eq!(Ready::parse("tcp:11211"), Ok(Ready::Tcp("11211".to_owned())));
        assert_eq!(Ready::parse("output:listening: yes"), Ok(Ready::Output("listening: yes".to_owned())));
        for wrong in ["tcp:", "tcp:0", "udp:1", "output:", "11211"] {
            assert!(Ready::parse(wrong).unwrap_err().contains("tcp:{port}"), "{wrong}");
        }
    }
}
