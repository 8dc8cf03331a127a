//! What a program of the corpus says about itself.
//!
//! A comment in its first lines, after whatever begins comments in its language:
//!
//! ```text
//! truth: kind=sleeping-holder|hot-lock subject=registry share=40..100 cure quick
//! truth: healthy why="eight independent threads keep two CPUs busy"
//! flags: -fopenmp
//! variants: plain,stripped
//! ```
//!
//! `kind` lists what an expert would accept as the first finding, the best first. `subject` is a regular expression
//! that must match in the first finding's subjects or place. `share` is the severity in percent: what part of the
//! elapsed time would go if the cause went. With `cure` the variable CURE=1 removes the fault, and nothing else.
//! `quick` puts it into the subset for CI.

use std::fmt;
use std::path::{Path, PathBuf};

use regex_lite::Regex;

use super::matrix::Variant;

/// A program of the corpus.
pub struct Program {
    pub name: String,
    pub source: PathBuf,
    pub language: Language,
    pub truth: Truth,
    pub has_cure: bool,
    pub is_quick: bool,
    /// More words for the compiler; of Java, for its machine.
    pub flags: Vec<String>,
    variants: Vec<Variant>,
}

/// What a report should say first.
pub enum Truth {
    Healthy,
    Fault { kinds: Vec<String>, subject: Option<Regex>, share: Option<(f64, f64)> },
}

/// What it is written in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Language {
    C,
    Cpp,
    Rust,
    Go,
    Python,
    Java,
    CSharp,
    Node,
    Ruby,
}

impl Language {
    fn of(source: &Path) -> Option<Language> {
        Some(match source.extension()?.to_str()? {
            "c" => Language::C,
            "cc" => Language::Cpp,
            "rs" => Language::Rust,
            "go" => Language::Go,
            "py" => Language::Python,
            "java" => Language::Java,
            "cs" => Language::CSharp,
            "js" => Language::Node,
            "rb" => Language::Ruby,
            _ => return None,
        })
    }

    /// The builds that make sense, unless the header says otherwise.
    fn variants(self) -> &'static [Variant] {
        match self {
            Language::C => &[Variant::Plain, Variant::Stripped, Variant::Neutral, Variant::Musl],
            Language::Cpp => &[Variant::Plain, Variant::Stripped, Variant::Neutral],
            Language::Rust | Language::Go => &[Variant::Plain, Variant::Stripped],
            Language::Python | Language::Java | Language::CSharp | Language::Node | Language::Ruby => &[Variant::Plain],
        }
    }
}

impl Program {
    pub fn has(&self, variant: Variant) -> bool {
        self.variants.contains(&variant)
    }

    fn read(source: PathBuf, language: Language) -> Result<Program, String> {
        let text = std::fs::read_to_string(&source).map_err(|why| format!("{}: {why}", source.display()))?;
        let name = source.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let line = |key: &str| {
            let head = text.lines().take(20);
            head.filter_map(|line| line.split_once(&format!(" {key}: "))).map(|(_, rest)| rest.trim()).next()
        };
        let truth = line("truth").ok_or_else(|| format!("{}: no line 'truth: …'", source.display()))?;
        let words: Vec<&str> = truth.split(" why=").next().unwrap_or("").split_whitespace().collect();
        let variants = match line("variants") {
            Some(list) => list.split(',').map(Variant::parse).collect::<Result<_, _>>()?,
            None => language.variants().to_vec(),
        };
        Ok(Program {
            truth: Truth::parse(&words).map_err(|why| format!("{}: {why}", source.display()))?,
            has_cure: words.contains(&"cure"),
            is_quick: words.contains(&"quick"),
            flags: line("flags").map(|flags| flags.split_whitespace().map(str::to_owned).collect()).unwrap_or_default(),
            name,
            source,
            language,
            variants,
        })
    }
}

impl Truth {
    fn parse(words: &[&str]) -> Result<Truth, String> {
        let value = |key: &str| words.iter().find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
        let known = |word: &str| {
            ["healthy", "cure", "quick"].contains(&word)
                || word.split_once('=').is_some_and(|(key, _)| ["kind", "subject", "share"].contains(&key))
        };
        if let Some(word) = words.iter().find(|word| !known(word)) {
            return Err(format!("'{word}' is no word of a truth"));
        }
        if words.contains(&"healthy") {
            return Ok(Truth::Healthy);
        }
        let kinds = value("kind").ok_or("neither 'healthy' nor 'kind=…'")?;
        let subject = value("subject").map(Regex::new).transpose().map_err(|why| why.to_string())?;
        let share = match value("share") {
            None => None,
            Some(range) => {
                let ends = range.split_once("..").and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
                Some(ends.ok_or_else(|| format!("share={range} is no range like 40..100"))?)
            }
        };
        Ok(Truth::Fault { kinds: kinds.split('|').map(str::to_owned).collect(), subject, share })
    }

    /// The kind that is best, or `healthy`.
    pub fn best(&self) -> &str {
        match self {
            Truth::Healthy => "healthy",
            Truth::Fault { kinds, .. } => kinds.first().map_or("", String::as_str),
        }
    }
}

impl fmt::Display for Truth {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Truth::Healthy => out.write_str("healthy"),
            Truth::Fault { kinds, subject, .. } => {
                out.write_str(&kinds.join("|"))?;
                subject.as_ref().map_or(Ok(()), |subject| write!(out, " {subject}"))
            }
        }
    }
}

/// The corpus, by name: the files of the folder, and the Rust programs, which share one package.
pub fn all(folder: &Path) -> Result<Vec<Program>, String> {
    let mut programs = Vec::new();
    for folder in [folder.to_owned(), folder.join("rust/src/bin")] {
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
            if let Some(language) = Language::of(&path) {
                programs.push(Program::read(path, language)?);
            }
        }
    }
    programs.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(programs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_of_the_corpus_says_its_truth() {
        let programs = all(&crate::run::root().join("fixtures/truth")).unwrap();
        let healthy = programs.iter().filter(|program| matches!(program.truth, Truth::Healthy)).count();
        assert!(programs.len() >= 80 && healthy >= 30, "{} programs, {healthy} healthy", programs.len());
        assert!(programs.iter().filter(|program| program.is_quick).count() <= 30, "too many for two minutes");
    }

    #[test]
    fn a_truth_is_strict() {
        let parse = |text: &str| Truth::parse(&text.split(' ').collect::<Vec<_>>()).map(|truth| truth.to_string());
        assert_eq!(parse("healthy quick").as_deref(), Ok("healthy"));
        assert_eq!(parse("kind=a|b subject=x share=1..2 cure").as_deref(), Ok("a|b x"));
        for wrong in ["", "kind=a shares=1..2", "kind=a share=3", "kind=a subject=("] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
