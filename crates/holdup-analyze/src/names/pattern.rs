//! How the tables of roles and primitives name functions.
//!
//! A pattern is a name in which a star stands for anything. It is compared with a name of which the decoration is gone
//! (see [`plain`]), so one row stands for `pthread_mutex_lock`, `__GI___pthread_mutex_lock` and so on.

use std::borrow::Cow;

/// Inline namespaces: versions of a library, which nobody writes.
const INLINE_NAMESPACES: [&str; 5] = ["__1::", "__cxx11::", "_V2::", "__2::", "__ndk1::"];

/// Whether a plain name fits one of the patterns.
pub(super) fn any(patterns: &[&str], name: &str) -> bool {
    patterns.iter().any(|pattern| fits(pattern, name))
}

/// Whether a plain name fits a pattern.
pub(super) fn fits(pattern: &str, name: &str) -> bool {
    let Some((beginning, mut pattern)) = pattern.split_once('*') else { return name == pattern };
    let Some(mut rest) = name.strip_prefix(beginning) else { return false };
    while let Some((part, more)) = pattern.split_once('*') {
        let Some(at) = rest.find(part) else { return false };
        (rest, pattern) = (&rest[at + part.len()..], more);
    }
    rest.ends_with(pattern)
}

/// A demangled name without what differs between builds: leading underscores and `GI_` of C, inline namespaces of C++,
/// the brackets of `<T as Trait>::method`, whose type is what counts.
pub(crate) fn plain(name: &str) -> Cow<'_, str> {
    if let Some(qualified) = name.strip_prefix('<') {
        return Cow::Borrowed(qualified.trim_start_matches(['<', '&', '*', '(', '[']).trim_start_matches("mut "));
    }
    if name.contains("::") {
        return without_inline_namespaces(name);
    }
    let bare = name.trim_start_matches('_');
    Cow::Borrowed(bare.strip_prefix("GI_").map_or(bare, |bare| bare.trim_start_matches('_')))
}

fn without_inline_namespaces(name: &str) -> Cow<'_, str> {
    let mut out = Cow::Borrowed(name);
    for inline in INLINE_NAMESPACES {
        if out.contains(inline) {
            out = Cow::Owned(out.replace(inline, ""));
        }
    }
    if let Some(at) = out.find("::lts_") {
        let end = out[at + 2..].find("::").map_or(out.len(), |len| at + 2 + len);
        out = Cow::Owned(format!("{}{}", &out[..at], &out[end..]));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decoration_is_gone() {
        for (name, bare) in [
            ("___pthread_mutex_lock", "pthread_mutex_lock"),
            ("__GI___lll_lock_wait", "lll_lock_wait"),
            ("std::__1::mutex::lock", "std::mutex::lock"),
            ("absl::lts_20230125::Mutex::Lock", "absl::Mutex::Lock"),
            ("absl::lts_20230125", "absl"),
            (
                "<parking_lot::raw_mutex::RawMutex as lock_api::RawMutex>::lock",
                "parking_lot::raw_mutex::RawMutex as lock_api::RawMutex>::lock",
            ),
            ("main.(*Pool).get", "main.(*Pool).get"),
            ("_", ""),
        ] {
            assert_eq!(plain(name), bare);
        }
    }

    #[test]
    fn a_star_is_anything() {
        assert!(fits("a", "a") && !fits("a", "ab"));
        assert!(fits("a*", "ab") && !fits("a*", "ba"));
        assert!(fits("*b*", "abc") && !fits("*x*", "abc"));
        assert!(fits("*c", "abc") && !fits("*b", "abc"));
        assert!(fits("a*c*e", "abcde") && fits("a*b*", "ab") && !fits("a*c*b", "abc"));
    }
}
