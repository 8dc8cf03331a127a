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
    holdup_bench::locks::check_name(name).map(|_| ()).map_err(Error::Argument)
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
        .help_heading("Factors (one value, a list such as 1,2,4, or where numbers are taken a range such as 1..8)");
    match factor.switch {
        true => arg.num_args(0..=1).default_missing_value("on").require_equals(true),
        false => arg.allow_hyphen_values(true),
    }
}
