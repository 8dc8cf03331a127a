//! Damaged input for every reader of what others wrote, for longer than `cargo test` takes.

use crate::run::cargo;

const EXAMPLE: &str = "for example: cargo xtask fuzz --minutes 10, or --inputs 1000000 --reader recording";
const DEFAULT_SECONDS: u64 = 60;
/// What is passed on as it is: see `crates/holdup/tests/fuzz/main.rs`.
const PASSED_ON: [&str; 4] = ["--inputs", "--reader", "--seed", "--first"];

/// Reads damaged input until the time is over or as many inputs were read: `--minutes N`, a number of seconds without
/// an option, `--inputs N`. Where a time is given, the fuzz test of our own recordings' crate, which knows their
/// inside, goes on for a tenth of it.
pub fn run(args: &[String]) -> Result<(), String> {
    let asked = asked(args)?;
    let words: Vec<&str> = asked.words.iter().map(String::as_str).collect();
    cargo(&["test", "--package", "holdup", "--profile", "fuzz", "--test", "fuzz", "--"]).args(&words).run()?;
    let Some(seconds) = asked.seconds else { return Ok(()) };
    let test = "file::tests::fuzz";
    cargo(&["test", "--package", "holdup-trace", "--profile", "fuzz", "--lib", test, "--", "--nocapture"])
        .env("HOLDUP_FUZZ_SECONDS", &(seconds / 10).max(1).to_string())
        .run()
}

#[derive(Debug, PartialEq)]
struct Asked {
    seconds: Option<u64>,
    words: Vec<String>,
}

fn asked(args: &[String]) -> Result<Asked, String> {
    let (mut seconds, mut words) = (None, Vec::new());
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{arg} without a value; {EXAMPLE}"));
        let number = |text: &str| text.parse::<u64>().map_err(|_| format!("'{text}' is not a whole number; {EXAMPLE}"));
        match arg.as_str() {
            "--minutes" => seconds = Some(number(value()?)? * 60),
            name if PASSED_ON.contains(&name) => words.extend([arg.clone(), value()?.clone()]),
            text => seconds = Some(number(text)?),
        }
    }
    if seconds.is_none() && !words.iter().any(|word| word == "--inputs") {
        seconds = Some(DEFAULT_SECONDS);
    }
    words.extend(seconds.iter().flat_map(|seconds| ["--seconds".to_owned(), seconds.to_string()]));
    Ok(Asked { seconds, words })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_and_inputs_are_asked_for_alone_or_together() {
        let of = |text: &str| asked(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        let words = |text: &str| of(text).unwrap().words.join(" ");
        assert_eq!(words(""), "--seconds 60");
        assert_eq!(words("90"), "--seconds 90");
        assert_eq!(words("--minutes 2 --seed 7"), "--seed 7 --seconds 120");
        assert_eq!(words("--inputs 1000 --reader store"), "--inputs 1000 --reader store");
        for wrong in ["--minutes", "--minutes x", "--hours 3", "ten"] {
            assert!(of(wrong).unwrap_err().contains("for example"), "{wrong}");
        }
    }
}
