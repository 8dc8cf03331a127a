//! Words of command lines that a shell reads back as they are: what we propose can be pasted.

use holdup_bench::spec::Factor;

/// A word of a command line that a shell reads back as it is.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=+,.:/%@".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// A factor of the bench and its values as a flag that a shell and this program read back.
pub fn flag(factor: &Factor, values: &str) -> String {
    match (factor.switch, values) {
        (true, "on") => format!("--{}", factor.name),
        (true, values) => format!("--{}={}", factor.name, quoted(values)),
        (false, values) => format!("--{} {}", factor.name, quoted(values)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_back_what_is_quoted() {
        for (word, text) in [("1..8", "1..8"), ("1..64*2", "'1..64*2'"), ("", "''"), ("it's", r"'it'\''s'")] {
            assert_eq!(quoted(word), text);
        }
    }
}
