//! Settings of the C library, which programs take from GLIBC_TUNABLES; glibc ignores those that it does not know, so
//! they are checked here.

/// The variable.
pub const VARIABLE: &str = "GLIBC_TUNABLES";

/// Those that change how threads wait and how memory is had.
const KNOWN: [&str; 11] = [
    "glibc.malloc.arena_max",
    "glibc.malloc.hugetlb",
    "glibc.malloc.mmap_threshold",
    "glibc.malloc.mxfast",
    "glibc.malloc.tcache_count",
    "glibc.malloc.tcache_max",
    "glibc.malloc.top_pad",
    "glibc.malloc.trim_threshold",
    "glibc.pthread.mutex_spin_count",
    "glibc.pthread.stack_cache_size",
    "glibc.pthread.stack_hugetlb",
];

/// A setting with its full name, from `tcache_count=0` or `glibc.malloc.tcache_count=0`.
///
/// # Errors
/// There is none of that name, or its value is no number.
pub fn parse(text: &str) -> Result<(String, String), String> {
    let last = |name: &str| name.rsplit('.').next().unwrap_or_default().to_owned();
    let (name, value) = text.split_once('=').unwrap_or((text, ""));
    let known =
        KNOWN.iter().find(|known| **known == name || last(known) == name || known.strip_prefix("glibc.") == Some(name));
    let Some(known) = known else {
        let names: Vec<String> = KNOWN.iter().map(|known| last(known)).collect();
        return Err(format!("'{text}': give one of {}, each with a value, as in tcache_count=0", names.join(", ")));
    };
    match value.parse::<u64>() {
        Ok(_) => Ok(((*known).to_owned(), value.to_owned())),
        Err(_) => Err(format!("'{text}': give a number, as in {}=0", last(known))),
    }
}

/// The variable's value with this added to what it contains already: of two values for one setting the last counts.
pub fn added(present: Option<&str>, setting: &str) -> String {
    match present.filter(|present| !present.is_empty()) {
        Some(present) => format!("{present}:{setting}"),
        None => setting.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_has_its_full_name_or_the_error_says_what_there_is() {
        for text in ["tcache_count=0", "malloc.tcache_count=0", "glibc.malloc.tcache_count=0"] {
            assert_eq!(parse(text), Ok(("glibc.malloc.tcache_count".to_owned(), "0".to_owned())));
        }
        assert!(parse("tcache=0").unwrap_err().contains("tcache_count, tcache_max"));
        assert!(parse("mutex_spin_count").unwrap_err().contains("mutex_spin_count=0"));
        assert_eq!(added(Some("a=1"), "a=2"), "a=1:a=2");
        assert_eq!(added(None, "a=2"), "a=2");
    }
}
