//! The factor flags, made from the table of factors: a new row there is a new flag here.

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use holdup_bench::spec::{FACTORS, Factor};

use super::Error;

/// The factors that a user named, with their values as given.
#[derive(Clone, Debug, Default)]
pub struct FactorFlags {
    /// Factor and text, in the order of the table.
    pub given: Vec<(&'static str, String)>,
}

impl FactorFlags {
    /// The text given for a factor.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.given.iter().find(|(factor, _)| *factor == name).map(|(_, text)| text.as_str())
    }

    /// Every factor given, with its list and ranges as single values.
    ///
    /// # Errors
    /// A factor does not take a value.
    pub fn axes(&self) -> Result<Vec<(&'static str, Vec<String>)>, Error> {
        self.given.iter().map(|(name, text)| axis(name, text)).collect()
    }
}

/// One factor with its values, checked.
///
/// # Errors
/// There is no such factor or lock, or the factor does not take a value.
pub fn axis(name: &str, text: &str) -> Result<(&'static str, Vec<String>), Error> {
    let factor = Factor::named(name)?;
    if factor.name == "lock" {
        text.split(',').try_for_each(|lock| check_lock(lock.trim()))?;
    }
    Ok((factor.name, factor.expand(text)?))
}

/// Whether there is such a lock; the error suggests one that is spelled alike.
///
/// # Errors
/// There is none.
pub fn check_lock(name: &str) -> Result<(), Error> {
    let locks = holdup_bench::locks::all();
    if locks.iter().any(|lock| lock.name == name) {
        return Ok(());
    }
    let nearest = nearest(name, locks.iter().map(|lock| lock.name));
    Err(Error::UnknownLock { name: name.to_owned(), nearest })
}

/// The word most like `name`, if any is like it at all: few letters differ, or it is the beginning.
pub fn nearest<'a>(name: &str, words: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    const ALIKE: f64 = 0.6;
    const BEGINNING: usize = 3;
    words
        .map(|word| match name.len() >= BEGINNING && word.starts_with(name) {
            true => (ALIKE, word),
            false => (strsim::normalized_damerau_levenshtein(name, word), word),
        })
        .filter(|(alike, _)| *alike >= ALIKE)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, word)| word)
}

impl FromArgMatches for FactorFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<FactorFlags, clap::Error> {
        let given = FACTORS
            .iter()
            .filter_map(|factor| Some((factor.name, matches.get_one::<String>(factor.name)?.clone())))
            .collect();
        Ok(FactorFlags { given })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = FactorFlags::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for FactorFlags {
    fn augment_args(command: Command) -> Command {
        FACTORS.iter().fold(command, |command, factor| command.arg(flag(factor)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        FactorFlags::augment_args(command)
    }
}

fn flag(factor: &'static Factor) -> Arg {
    let arg = Arg::new(factor.name)
        .long(factor.name)
        .value_name("VALUES")
        .help(format!("{} [{}; default {}]", factor.help, factor.values, factor.default_value()))
        .help_heading(
            "Factors (one value, a list such as 1,2,4, or where numbers are taken a range such as 1..8)",
        );
    match factor.switch {
        true => arg.num_args(0..=1).default_missing_value("on").require_equals(true),
        false => arg.allow_hyphen_values(true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelled_lock_gets_a_suggestion_and_nonsense_none() {
        let names = ["none", "pthread", "ticket"];
        assert_eq!(nearest("ptread", names.into_iter()), Some("pthread"));
        assert_eq!(nearest("tiket", names.into_iter()), Some("ticket"));
        assert_eq!(nearest("pth", names.into_iter()), Some("pthread"));
        assert_eq!(nearest("xyz", names.into_iter()), None);
        assert_eq!(nearest("broken-pthread-mutex", names.into_iter()), None);
    }
}
