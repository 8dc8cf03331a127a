//! What somebody meant by a name that there is not.

/// A beginning of fewer letters may be that of anything.
const BEGINNING: usize = 3;

/// The name most like this one, if any is like it at all: few letters differ, or it is the beginning.
pub fn nearest<'a>(name: &str, among: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let distance = |candidate: &str| match name.len() >= BEGINNING && candidate.starts_with(name) {
        true => 1,
        false => strsim::damerau_levenshtein(name, candidate),
    };
    let alike = |candidate: &str| distance(candidate) <= 1 + candidate.len().min(name.len()) / 3;
    among.into_iter().filter(|candidate| alike(candidate)).min_by_key(|candidate| distance(candidate))
}

/// `; did you mean 'x'?`, or nothing.
pub fn did_you_mean<'a>(name: &str, among: impl IntoIterator<Item = &'a str>) -> String {
    nearest(name, among).map_or_else(String::new, |near| format!("; did you mean '{near}'?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelled_name_gets_a_suggestion_and_nonsense_none() {
        let names = ["none", "pthread", "ticket"];
        assert_eq!(nearest("ptread", names), Some("pthread"));
        assert_eq!(nearest("tiket", names), Some("ticket"));
        assert_eq!(nearest("pth", names), Some("pthread"));
        assert_eq!(nearest("xyz", names), None);
        assert_eq!(nearest("broken-pthread-mutex", names), None);
        assert_eq!(nearest("adaptve", ["glibc", "adaptive"]), Some("adaptive"));
        assert_eq!(nearest("qqqq", ["glibc", "adaptive"]), None);
    }
}
