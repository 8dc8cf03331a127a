//! What differs between operating systems in the program itself: where data lives, and how keys are waited for.

use std::ffi::OsString;
use std::path::PathBuf;

mod keyboard;

pub use keyboard::{Keyboard, Keys};

/// Why cures cannot be tried on programs here, if they cannot.
pub fn no_trials() -> Option<&'static str> {
    let here = cfg!(target_os = "linux");
    (!here).then_some("recording programs and trying cures on them needs Linux; 'holdup bench' compares locks here too")
}

/// The folder for a user's data, or `None` when the environment names neither it nor a home.
///
/// `variable` reads the environment; tests give their own. A relative path in `XDG_DATA_HOME` does not count (XDG Base
/// Directory Specification, "Basics").
pub fn data_folder(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let absolute = |name| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    if cfg!(target_os = "windows") {
        return absolute("LOCALAPPDATA");
    }
    let under_home = if cfg!(target_os = "macos") { "Library/Application Support" } else { ".local/share" };
    absolute("XDG_DATA_HOME").or_else(|| absolute("HOME").map(|home| home.join(under_home)))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    fn with(pairs: &[(&str, &str)]) -> Option<PathBuf> {
        data_folder(|name| pairs.iter().find(|(n, _)| *n == name).map(|(_, value)| OsString::from(value)))
    }

    #[test]
    fn the_data_folder_follows_the_environment() {
        assert_eq!(with(&[("XDG_DATA_HOME", "/data"), ("HOME", "/home/a")]), Some("/data".into()));
        assert_eq!(with(&[("XDG_DATA_HOME", "data"), ("HOME", "/home/a")]), Some("/home/a/.local/share".into()));
        assert_eq!(with(&[("HOME", "")]), None);
    }
}
