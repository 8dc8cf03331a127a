//! Files of TOML that are walked by hand, with every mistake named by line, column and key.

use std::ops::Range;

use holdup_bench::suggest::did_you_mean;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// What is wrong with a file, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileError {
    /// The file.
    pub path: String,
    /// Line, from 1.
    pub line: usize,
    /// Column, from 1, in characters.
    pub column: usize,
    /// What is wrong and what is expected.
    pub why: String,
    /// The expression and the byte in it, when one is wrong.
    pub expression: Option<(String, usize)>,
}

impl std::fmt::Display for FileError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}:{}: {}", self.path, self.line, self.column, self.why)?;
        if let Some((text, at)) = &self.expression {
            let before = text.get(..*at).unwrap_or(text).chars().count();
            write!(f, "\n    {}\n    {:>width$}", text.replace('\n', " "), '^', width = before + 1)?;
        }
        Ok(())
    }
}

impl std::error::Error for FileError {}

/// The text and its name, for errors.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    /// Its name.
    pub path: &'a str,
    /// The text.
    pub text: &'a str,
}

impl Source<'_> {
    /// A mistake at this place.
    pub fn error(&self, span: Option<Range<usize>>, why: impl Into<String>) -> FileError {
        let at = span.map_or(0, |span| span.start).min(self.text.len());
        let before = self.text.get(..at).unwrap_or("");
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
        FileError { path: self.path.to_owned(), line, column, why: why.into(), expression: None }
    }
}

/// A value with its place.
pub type Value<'a> = Spanned<DeValue<'a>>;

/// One table of the file with what it is called in messages.
pub struct Table<'a> {
    /// Where it stands.
    pub source: Source<'a>,
    /// What it is called.
    pub what: String,
    /// Its place.
    pub span: Range<usize>,
    /// Itself.
    pub table: &'a DeTable<'a>,
}

impl<'a> Table<'a> {
    /// A mistake of the table.
    pub fn error(&self, why: impl Into<String>) -> FileError {
        self.source.error(Some(self.span.clone()), why)
    }

    /// A mistake of a value.
    pub fn error_at(&self, value: &Value<'_>, why: impl Into<String>) -> FileError {
        self.source.error(Some(value.span()), why)
    }

    /// Keys, their places and values.
    pub fn entries(&self) -> impl Iterator<Item = (&'a str, Range<usize>, &'a Value<'a>)> {
        self.table.iter().map(|(key, value)| (key.get_ref().as_ref(), key.span(), value))
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&'a Value<'a>> {
        self.entries().find(|(name, _, _)| *name == key).map(|(_, _, value)| value)
    }

    /// Refuses every key that is not one of these.
    ///
    /// # Errors
    /// The first other one.
    pub fn only(&self, known: &[&str]) -> Result<(), FileError> {
        for (key, span, _) in self.entries() {
            if !known.contains(&key) {
                let near = did_you_mean(key, known.iter().copied());
                return Err(self.source.error(
                    Some(span),
                    format!("{} has no key '{key}'{near}{}", self.what, list_unless(&near, known)),
                ));
            }
        }
        Ok(())
    }

    /// A text, if it is there.
    ///
    /// # Errors
    /// It is there and is none.
    pub fn text(&self, key: &str) -> Result<Option<(String, &'a Value<'a>)>, FileError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        match value.get_ref() {
            DeValue::String(text) => Ok(Some((text.split_whitespace().collect::<Vec<_>>().join(" "), value))),
            other => Err(self.error_at(value, format!("'{key}' is text in quotes, not {}", kind(other)))),
        }
    }

    /// A text that must be there.
    ///
    /// # Errors
    /// It is not, or is no text.
    pub fn required(&self, key: &str) -> Result<(String, &'a Value<'a>), FileError> {
        self.text(key)?.ok_or_else(|| self.error(format!("{} lacks '{key} = \"...\"'", self.what)))
    }

    /// A flag; false if it is not there.
    ///
    /// # Errors
    /// It is there and is none.
    pub fn flag(&self, key: &str) -> Result<bool, FileError> {
        let Some(value) = self.get(key) else { return Ok(false) };
        match value.get_ref() {
            DeValue::Boolean(flag) => Ok(*flag),
            other => Err(self.error_at(value, format!("'{key}' is true or false, not {}", kind(other)))),
        }
    }

    /// A whole number, if it is there.
    ///
    /// # Errors
    /// It is there and is none.
    pub fn whole(&self, key: &str, low: u32, high: u32) -> Result<Option<u32>, FileError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let number = match value.get_ref() {
            DeValue::Integer(number) if number.radix() == 10 => number.as_str().replace('_', "").parse().ok(),
            _ => None,
        };
        match number.filter(|n| (low..=high).contains(n)) {
            Some(number) => Ok(Some(number)),
            None => Err(self.error_at(value, format!("'{key}' is a whole number between {low} and {high}"))),
        }
    }

    /// A list of texts, or one.
    ///
    /// # Errors
    /// It is there and is none.
    pub fn texts(&self, key: &str) -> Result<Vec<(String, &'a Value<'a>)>, FileError> {
        let Some(value) = self.get(key) else { return Ok(Vec::new()) };
        let one = |value: &'a Value<'a>| match value.get_ref() {
            DeValue::String(text) => Ok((text.to_string(), value)),
            other => Err(self.error_at(value, format!("'{key}' lists texts in quotes, not {}", kind(other)))),
        };
        match value.get_ref() {
            DeValue::Array(values) => values.iter().map(one).collect(),
            _ => Ok(vec![one(value)?]),
        }
    }

    /// A table, if it is there.
    ///
    /// # Errors
    /// It is there and is none.
    pub fn table(&self, key: &str, what: String) -> Result<Option<Table<'a>>, FileError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        match value.get_ref() {
            DeValue::Table(table) => Ok(Some(Table { source: self.source, what, span: value.span(), table })),
            other => Err(self.error_at(value, format!("'{key}' is a table, not {}", kind(other)))),
        }
    }

    /// A table that must be there.
    ///
    /// # Errors
    /// It is not, or is none.
    pub fn required_table(&self, key: &str, what: &str) -> Result<Table<'a>, FileError> {
        self.table(key, what.to_owned())?.ok_or_else(|| self.error(format!("{} lacks {what}", self.what)))
    }

    /// The tables of `[[key]]`.
    ///
    /// # Errors
    /// It is there and is none.
    pub fn tables(&self, key: &str) -> Result<Vec<Table<'a>>, FileError> {
        let Some(value) = self.get(key) else { return Ok(Vec::new()) };
        let wrong = |value: &Value<'_>| self.error_at(value, format!("write each {key} as a table under [[{key}]]"));
        let DeValue::Array(values) = value.get_ref() else { return Err(wrong(value)) };
        values
            .iter()
            .map(|value| match value.get_ref() {
                DeValue::Table(table) => {
                    Ok(Table { source: self.source, what: format!("[[{key}]]"), span: value.span(), table })
                }
                _ => Err(wrong(value)),
            })
            .collect()
    }
}

/// What a value is called in messages.
pub fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "text",
        DeValue::Integer(_) | DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

fn list_unless(near: &str, known: &[&str]) -> String {
    if near.is_empty() { format!("; it has {}", known.join(", ")) } else { String::new() }
}
