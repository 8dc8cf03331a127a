//! Which threads are recorded, by name.

/// Names of threads, as the kernel knows them: its first 15 bytes. With a `*` at the end, whatever begins so.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadNames(Vec<String>);

/// The kernel keeps so many bytes of a name.
const KEPT: usize = 15;

impl ThreadNames {
    /// These; none stands for all threads.
    pub fn new(names: impl IntoIterator<Item = String>) -> ThreadNames {
        ThreadNames(names.into_iter().collect())
    }

    /// Whether all threads are meant.
    pub fn is_all(&self) -> bool {
        self.0.is_empty()
    }

    /// As they were given.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// Whether a thread of this name is meant.
    pub fn has(&self, name: &str) -> bool {
        let is_it = |wanted: &String| match wanted.strip_suffix('*') {
            Some(start) => kept(name).starts_with(kept(start)),
            None => kept(name) == kept(wanted),
        };
        self.is_all() || self.0.iter().any(is_it)
    }
}

/// As much of a name as the kernel keeps.
pub(crate) fn kept(name: &str) -> &str {
    &name[..name.floor_char_boundary(KEPT)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> ThreadNames {
        ThreadNames::new(names.iter().map(|name| (*name).to_owned()))
    }

    #[test]
    fn names_are_whole_or_begin_so_within_what_the_kernel_keeps() {
        let wanted = names(&["keeper", "clerk-*", "a-very-long-name-of-a-thread"]);
        assert!(["keeper", "clerk-1", "clerk-", "a-very-long-nam"].iter().all(|name| wanted.has(name)));
        assert!(["keepers", "clerk", "a-very-long-na", ""].iter().all(|name| !wanted.has(name)));
        assert!(names(&[]).has("x") && names(&[]).is_all() && names(&["*"]).has("x"));
        assert!(names(&["ääääääääää*"]).has("ääääääää"), "cut within a letter");
    }
}
