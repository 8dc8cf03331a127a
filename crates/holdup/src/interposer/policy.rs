//! Policies as they stand on a command line: `glibc`, `spin-park:100`, `spin-learn`, `ttas`, `capped:2`, `throttle:1`;
//! of reader-writer locks `glibc`, `prefer-writer`, `spin-park:100`.

use holdup_bench::suggest::nearest;
use holdup_control::{Policy, RwPolicy};

/// A policy that can be chosen.
#[derive(Clone, Copy, Debug)]
pub struct Choice<P = Policy> {
    /// Its name.
    pub name: &'static str,
    /// What its number means and which it is without one; `None` if it takes none.
    pub number: Option<(&'static str, u32)>,
    /// What it does, in a line.
    pub about: &'static str,
    make: fn(u32) -> P,
}

/// All of them, the one that changes nothing first.
pub const CHOICES: &[Choice] = &[
    Choice { name: "glibc", number: None, about: "as without holdup: one try, then sleep", make: |_| Policy::Glibc },
    Choice {
        name: "spin-park",
        number: Some(("looks", 100)),
        about: "look at the lock so many times before sleeping",
        make: Policy::SpinPark,
    },
    Choice {
        name: "spin-learn",
        number: None,
        about: "spin as long as that paid off lately, then sleep",
        make: |_| Policy::SpinLearn,
    },
    Choice {
        name: "ttas",
        number: None,
        about: "spin with growing pauses, then give the CPU away between two looks; never sleep",
        make: |_| Policy::Ttas,
    },
    Choice {
        name: "capped",
        number: Some(("spinning threads", 2)),
        about: "at most so many waiting threads spin, the others sleep",
        make: Policy::Capped,
    },
    Choice {
        name: "throttle",
        number: Some(("threads", 1)),
        about: "at most so many threads hold or want a lock, the others sleep",
        make: Policy::Throttle,
    },
];

/// All of reader-writer locks, the one that changes nothing first.
pub const RW_CHOICES: &[Choice<RwPolicy>] = &[
    Choice {
        name: "glibc",
        number: None,
        about: "as without holdup: readers come in beside readers, whoever waits",
        make: |_| RwPolicy::Glibc,
    },
    Choice {
        name: "prefer-writer",
        number: None,
        about: "new readers wait behind a writer that waits; threads that read already do not",
        make: |_| RwPolicy::PreferWriter,
    },
    Choice {
        name: "spin-park",
        number: Some(("tries", 100)),
        about: "try so many times before sleeping",
        make: RwPolicy::SpinPark,
    },
];

/// Other names for the same: what other tables of holdup call the C library's mutex; and former names, which now are
/// only those of a lock and a technique of holdup-locks that work in another way.
const ALIASES: &[(&str, &str)] =
    &[("pthread", "glibc"), ("none", "glibc"), ("adaptive", "spin-learn"), ("gate", "throttle")];

/// The same, of reader-writer locks.
const RW_ALIASES: &[(&str, &str)] = &[("pthread", "glibc"), ("none", "glibc"), ("prefer-writers", "prefer-writer")];

/// Reads a policy: a name and, for those that have one, a number behind a colon.
///
/// # Errors
/// There is none of this name, or it does not take this number; the text says what can be given.
pub fn parse(text: &str) -> Result<Policy, String> {
    read(text, CHOICES, ALIASES, "lock policy")
}

/// Reads a policy of reader-writer locks.
///
/// # Errors
/// As those of [`parse`].
pub fn parse_rw(text: &str) -> Result<RwPolicy, String> {
    read(text, RW_CHOICES, RW_ALIASES, "policy for reader-writer locks")
}

/// Reads a policy for locks of whatever kind: that of mutexes, that of reader-writer locks, or both where they have it
/// under one name.
///
/// # Errors
/// As those of [`parse`].
pub fn parse_any(text: &str) -> Result<(Option<Policy>, Option<RwPolicy>), String> {
    match (parse(text), parse_rw(text)) {
        (Err(of_mutexes), Err(of_rw)) => {
            let name = text.split_once(':').map_or(text, |(name, _)| name);
            Err(match () {
                () if CHOICES.iter().any(|choice| choice.name == meant(name, ALIASES)) => of_mutexes,
                () if RW_CHOICES.iter().any(|choice| choice.name == meant(name, RW_ALIASES)) => of_rw,
                () => {
                    let hint = did_you_mean(name, [names(CHOICES, ALIASES), names(RW_CHOICES, RW_ALIASES)].concat());
                    let (mutexes, rw) = (list(CHOICES), list(RW_CHOICES));
                    format!("there is no lock policy '{name}'; {hint}there are {mutexes}; for reader-writer locks {rw}")
                }
            })
        }
        (policy, rw) => Ok((policy.ok(), rw.ok())),
    }
}

fn read<P>(
    text: &str,
    choices: &[Choice<P>],
    aliases: &[(&'static str, &'static str)],
    what: &str,
) -> Result<P, String> {
    let (given, number) = match text.split_once(':') {
        Some((name, number)) => (name, Some(number)),
        None => (text, None),
    };
    let name = meant(given, aliases);
    let choice =
        choices.iter().find(|choice| choice.name == name).ok_or_else(|| unknown(given, choices, aliases, what))?;
    let number = match (choice.number, number) {
        (None, None) => 0,
        (Some((_, default)), None) => default,
        (None, Some(_)) => return Err(format!("'{text}': '{name}' takes no number")),
        (Some((what, default)), Some(digits)) => digits
            .parse()
            .ok()
            .filter(|number| (1..=Policy::MOST).contains(number))
            .ok_or_else(|| format!("'{text}': give a number of {what} of at least 1, as in '{name}:{default}'"))?,
    };
    Ok((choice.make)(number))
}

/// Every policy as it is written, for messages: `glibc, spin-park:N, spin-learn, ttas, capped:N, throttle:N`.
pub fn list<P>(choices: &[Choice<P>]) -> String {
    let form = |choice: &Choice<P>| match choice.number {
        Some(_) => format!("{}:N", choice.name),
        None => choice.name.to_owned(),
    };
    choices.iter().map(form).collect::<Vec<_>>().join(", ")
}

/// The name that an alias stands for.
fn meant<'a>(name: &'a str, aliases: &[(&str, &'a str)]) -> &'a str {
    aliases.iter().find(|(alias, _)| *alias == name).map_or(name, |(_, name)| name)
}

fn unknown<P>(name: &str, choices: &[Choice<P>], aliases: &[(&'static str, &'static str)], what: &str) -> String {
    let hint = did_you_mean(name, names(choices, aliases));
    format!("there is no {what} '{name}'; {hint}there are {}", list(choices))
}

/// Every name that is understood, and the one that it stands for.
fn names<P>(choices: &[Choice<P>], aliases: &[(&'static str, &'static str)]) -> Vec<(&'static str, &'static str)> {
    choices.iter().map(|choice| (choice.name, choice.name)).chain(aliases.iter().copied()).collect()
}

/// The nearest of these names, as a question.
fn did_you_mean(name: &str, names: Vec<(&'static str, &'static str)>) -> String {
    let near = nearest(name, names.iter().map(|(known, _)| *known));
    let stands_for = near.and_then(|near| names.iter().find(|(known, _)| *known == near));
    stands_for.map_or_else(String::new, |(_, meant)| format!("did you mean '{meant}'? "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_is_read_as_it_is_written() {
        for choice in CHOICES {
            let policy = parse(choice.name).unwrap();
            assert_eq!(parse(&policy.to_string()), Ok(policy));
        }
        assert_eq!(parse("spin-park"), Ok(Policy::SpinPark(100)));
        assert_eq!(parse("throttle:3"), Ok(Policy::Throttle(3)));
        assert_eq!(parse("pthread"), Ok(Policy::Glibc));
    }

    #[test]
    fn policies_of_reader_writer_locks_are_read_as_they_are_written() {
        for choice in RW_CHOICES {
            let policy = parse_rw(choice.name).unwrap();
            assert_eq!(parse_rw(&policy.to_string()), Ok(policy));
        }
        assert_eq!(parse_rw("spin-park"), Ok(RwPolicy::SpinPark(100)));
        for (text, says) in [
            ("prefer-write", "did you mean 'prefer-writer'?"),
            ("ttas", "there is no policy for reader-writer locks 'ttas'; there are glibc, prefer-writer, spin-park:N"),
            ("prefer-writer:2", "takes no number"),
        ] {
            let why = parse_rw(text).unwrap_err();
            assert!(why.contains(says), "{text}: {why}");
        }
    }

    #[test]
    fn a_policy_of_whatever_locks_is_read() {
        assert_eq!(parse_any("ttas"), Ok((Some(Policy::Ttas), None)));
        assert_eq!(parse_any("prefer-writer"), Ok((None, Some(RwPolicy::PreferWriter))));
        assert_eq!(parse_any("none"), Ok((Some(Policy::Glibc), Some(RwPolicy::Glibc))));
        assert_eq!(parse_any("spin-park:9"), Ok((Some(Policy::SpinPark(9)), Some(RwPolicy::SpinPark(9)))));
        for (text, says) in [
            ("throttle:0", "'throttle:0': give a number of threads"),
            ("prefer-writer:2", "takes no number"),
            ("prefer-wrters", "did you mean 'prefer-writer'? there are glibc"),
            ("tas", "did you mean 'ttas'?"),
            ("xyzzyxyzzy", "throttle:N; for reader-writer locks glibc, prefer-writer, spin-park:N"),
        ] {
            let why = parse_any(text).unwrap_err();
            assert!(why.contains(says), "{text}: {why}");
        }
    }

    #[test]
    fn former_names_are_understood() {
        assert_eq!(parse("adaptive"), Ok(Policy::SpinLearn));
        assert_eq!(parse("gate:2"), Ok(Policy::Throttle(2)));
        assert_eq!(parse("gate"), Ok(Policy::Throttle(1)));
    }

    #[test]
    fn a_policy_has_the_name_of_a_lock_only_if_it_is_the_same_algorithm() {
        let same = ["ttas"];
        for choice in CHOICES.iter().filter(|choice| !same.contains(&choice.name)) {
            assert!(holdup_locks::LOCKS.iter().all(|lock| lock.name != choice.name), "{}", choice.name);
        }
    }

    #[test]
    fn what_cannot_be_is_explained() {
        for (text, says) in [
            ("adaptiv", "did you mean 'spin-learn'?"),
            ("throtle", "did you mean 'throttle'?"),
            ("xyzzyxyzzy", "there are glibc, spin-park:N"),
            ("throttle:0", "at least 1"),
            ("gate:", "'throttle:1'"),
            ("spin-park:-3", "'spin-park:100'"),
            ("capped:99999999", "at least 1"),
            ("ttas:5", "takes no number"),
            ("", "there is no lock policy ''"),
        ] {
            let why = parse(text).unwrap_err();
            assert!(why.contains(says), "{text}: {why}");
        }
    }
}
