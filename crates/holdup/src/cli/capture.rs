//! What `record`, its flight recorder and `top` share: names of recordings, errors and exit statuses.

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use holdup_record::{Outcome, Target};

use super::{Error, Status};
use crate::recording::EXTENSION;
use crate::report::number;

/// How a command ends whose recording has.
pub fn status(outcome: &Outcome, stopped: bool) -> Status {
    match outcome.ending.status {
        _ if stopped => Status::Interrupted,
        Some(code) => Status::Child(u8::try_from(code).unwrap_or(u8::MAX)),
        None => Status::Success,
    }
}

/// What the target is called, for the file's name.
pub fn name_of(target: &Target) -> String {
    let name = match target {
        Target::Command(words) => {
            let path = words.first().map(PathBuf::from).unwrap_or_default();
            path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
        }
        Target::Processes(pids) => {
            let pid = pids.first().copied().unwrap_or_default();
            std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_else(|_| format!("process-{pid}"))
        }
    };
    file_name(&name)
}

/// A name that is safe as the beginning of a file's name.
fn file_name(name: &str) -> String {
    let plain = |c: char| if c.is_alphanumeric() || "._+-".contains(c) { c } else { '-' };
    let name: String = name.trim().chars().map(plain).collect();
    match name.trim_start_matches(['-', '.']) {
        "" => "recording".to_owned(),
        name => name.to_owned(),
    }
}

/// `memcached-20261121-055012.holdup`, with -2, -3 and so on where that is taken.
pub fn free_name(program: &str) -> PathBuf {
    let stem = stem(program);
    let numbered = (2..).map(|n| format!("{stem}-{n}.{EXTENSION}"));
    let mut names = std::iter::once(format!("{stem}.{EXTENSION}")).chain(numbered).map(PathBuf::from);
    names.find(|name| name.symlink_metadata().is_err()).unwrap_or_default()
}

/// `memcached-20261121-055012`, for the moment.
pub fn stem(program: &str) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs();
    let utc = number::utc(i64::try_from(now).unwrap_or(i64::MAX));
    let digits: String = utc.chars().filter(char::is_ascii_digit).collect();
    let (date, time) = digits.split_at(digits.len().min(8));
    format!("{}-{date}-{time}", file_name(program))
}

/// `process 12`, or `12 processes: 4, 5, 6 ...`.
pub fn processes(pids: &[u32]) -> String {
    const NAMED: usize = 5;
    match pids {
        [pid] => format!("process {pid}"),
        pids => {
            let named: Vec<String> = pids.iter().take(NAMED).map(u32::to_string).collect();
            let more = if pids.len() > NAMED { " ..." } else { "" };
            format!("{} processes: {}{more}", pids.len(), named.join(", "))
        }
    }
}

/// Why nothing was recorded.
pub fn refused(why: holdup_record::Error) -> Error {
    match why {
        holdup_record::Error::Command { name, why } => Error::Command { name, why },
        holdup_record::Error::File { path, why } if why.kind() == std::io::ErrorKind::AlreadyExists => {
            Error::RecordingExists(path)
        }
        holdup_record::Error::File { path, why } => Error::File { path, why },
        holdup_record::Error::NoProcess(pid) => {
            Error::Argument(format!("there is no process {pid}; 'pgrep NAME' finds a program's number"))
        }
        why @ holdup_record::Error::NoThread { .. } => Error::Argument(format!("--thread: {why}")),
        other => Error::Argument(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_are_safe_and_tell_the_program() {
        let of = |word: &str| name_of(&Target::Command(vec![word.into()]));
        assert_eq!(of("/usr/bin/memcached"), "memcached");
        assert_eq!(of("./a b;c"), "a-b-c");
        assert_eq!(of("--"), "recording");
        let name = free_name("redis-server").into_os_string().into_string().unwrap();
        let digits = name.strip_prefix("redis-server-").unwrap().strip_suffix(".holdup").unwrap();
        assert_eq!(digits.len(), "20261121-055012".len(), "{name}");
    }
}
