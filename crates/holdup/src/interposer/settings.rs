//! The file of settings, byte by byte: this program has no unsafe code, so it writes fields at their offsets.

use std::mem::{offset_of, size_of};
use std::path::{Path, PathBuf};
use std::{fs, io};

use holdup_control::{self as control, Policy, Profile, RwPolicy};

use super::sys;

/// What an interposed run is to do.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How threads wait for all locks without a rule.
    pub policy: Policy,
    /// How threads wait for reader-writer locks without a rule.
    pub rw: RwPolicy,
    /// What is measured.
    pub profile: Profile,
    /// A lock with waiters that was not acquired for so many milliseconds goes back to glibc's policy; 0 for never.
    pub watchdog_ms: u32,
    /// Slots of the table of its futexes, as in [`holdup_control::Settings::futex_hash`].
    pub futex_hash: u32,
    /// Policies of single locks, resolved to places.
    pub rules: Vec<Rule>,
    /// The last part of the path of the only program to serve; `None` for all that it starts.
    pub program: Option<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            policy: Policy::Glibc,
            rw: RwPolicy::Glibc,
            profile: Profile::Off,
            watchdog_ms: 0,
            futex_hash: 0,
            rules: Vec::new(),
            program: None,
        }
    }
}

/// A policy for the locks of one place, as in [`holdup_control::Rule`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// One of the constants of [`holdup_control`].
    pub kind: u32,
    /// The policy of its mutexes; `None` if it is not about mutexes.
    pub policy: Option<Policy>,
    /// That of its reader-writer locks, likewise.
    pub rw: Option<RwPolicy>,
    /// The module; `None` for the program itself.
    pub module: Option<PathBuf>,
    /// First offset in the module.
    pub start: u64,
    /// Bytes.
    pub len: u64,
}

/// Where the policy of all locks without a rule is.
pub const POLICY_AT: u64 = offset_of!(control::Settings, policy) as u64;

/// The whole file.
pub fn bytes(settings: &Settings) -> Vec<u8> {
    let mut file = vec![0; size_of::<control::Settings>()];
    let size = file.len() as u32;
    put(&mut file, offset_of!(control::Settings, magic), &control::MAGIC.to_ne_bytes());
    let mut word = |offset, value: u32| put(&mut file, offset, &value.to_ne_bytes());
    word(offset_of!(control::Settings, version), control::VERSION);
    word(offset_of!(control::Settings, bytes), size);
    word(offset_of!(control::Settings, policy), settings.policy.pack());
    word(offset_of!(control::Settings, profile), settings.profile as u32);
    word(offset_of!(control::Settings, watchdog_ms), settings.watchdog_ms);
    word(offset_of!(control::Settings, rules_len), settings.rules.len().min(control::RULES) as u32);
    word(offset_of!(control::Settings, futex_hash), settings.futex_hash);
    word(offset_of!(control::Settings, rw), settings.rw.pack());
    let program = settings.program.as_deref().unwrap_or_default();
    put(&mut file, offset_of!(control::Settings, program), &control::path_bytes(program.as_bytes()));
    for (index, rule) in settings.rules.iter().take(control::RULES).enumerate() {
        let at = offset_of!(control::Settings, rules) + index * size_of::<control::Rule>();
        put(&mut file, at, &rule_bytes(rule));
    }
    file
}

/// How many processes were served so far, as their file says.
///
/// # Errors
/// The file cannot be read.
pub fn processes(path: &Path) -> io::Result<u32> {
    let file = fs::read(path)?;
    Ok(u32::from_ne_bytes(*file.first_chunk().ok_or(io::ErrorKind::UnexpectedEof)?))
}

/// The word of a policy.
pub fn policy_bytes(policy: Policy) -> [u8; 4] {
    policy.pack().to_ne_bytes()
}

fn rule_bytes(rule: &Rule) -> Vec<u8> {
    let mut bytes = vec![0; size_of::<control::Rule>()];
    put(&mut bytes, offset_of!(control::Rule, kind), &rule.kind.to_ne_bytes());
    let words = [
        (offset_of!(control::Rule, policy), rule.policy.map(Policy::pack)),
        (offset_of!(control::Rule, rw), rule.rw.map(RwPolicy::pack)),
    ];
    for (offset, word) in words {
        put(&mut bytes, offset, &word.unwrap_or(control::SAYS_NOTHING).to_ne_bytes());
    }
    put(&mut bytes, offset_of!(control::Rule, start), &rule.start.to_ne_bytes());
    put(&mut bytes, offset_of!(control::Rule, len), &rule.len.to_ne_bytes());
    let module = rule.module.as_deref().map(sys::path_bytes).unwrap_or_default();
    put(&mut bytes, offset_of!(control::Rule, module), &control::path_bytes(&module));
    bytes
}

fn put(file: &mut [u8], offset: usize, bytes: &[u8]) {
    file[offset..offset + bytes.len()].copy_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_control::Profile;

    #[test]
    fn fields_stand_where_the_interposer_reads_them() {
        let rule = Rule {
            kind: control::RULE_OBJECT,
            policy: Some(Policy::Throttle(2)),
            rw: None,
            module: Some("/lib/x.so".into()),
            start: 0x1122_3344_5566,
            len: 40,
        };
        let settings = Settings {
            policy: Policy::SpinPark(7),
            rw: RwPolicy::PreferWriter,
            profile: Profile::Full,
            watchdog_ms: 500,
            futex_hash: 64,
            rules: vec![rule.clone(), Rule { module: None, policy: None, rw: Some(RwPolicy::PreferWriter), ..rule }],
            program: Some("memcached".to_owned()),
        };
        let file = bytes(&settings);
        assert_eq!(file.len(), size_of::<control::Settings>());
        assert_eq!(&file[..8], b"holdup\0c");
        let word = |at: usize| u32::from_ne_bytes(file[at..at + 4].try_into().unwrap());
        let fixed = [control::VERSION, file.len() as u32, Policy::SpinPark(7).pack(), 3, 500, 2, 64, 1];
        for (index, value) in fixed.into_iter().enumerate() {
            assert_eq!(word(8 + 4 * index), value, "word {index}");
        }
        assert_eq!(&file[40..50], b"memcached\0");
        let rules = (40 + control::PATH).next_multiple_of(8);
        assert_eq!((word(rules), word(rules + 4)), (control::RULE_OBJECT, Policy::Throttle(2).pack()));
        assert_eq!(word(rules + 8), control::SAYS_NOTHING);
        assert_eq!(file[rules + 16..rules + 24], 0x1122_3344_5566_u64.to_ne_bytes());
        assert_eq!(&file[rules + 32..rules + 42], b"/lib/x.so\0");
        let second = rules + size_of::<control::Rule>();
        assert_eq!((word(second + 4), word(second + 8)), (control::SAYS_NOTHING, RwPolicy::PreferWriter.pack()));
        assert_eq!(file[second + 32], 0, "the program itself has no path");
    }

    #[test]
    fn more_rules_than_there_is_room_for_are_cut() {
        let rule =
            Rule { kind: control::RULE_SITE, policy: Some(Policy::Ttas), rw: None, module: None, start: 1, len: 2 };
        let settings = Settings { rules: vec![rule; control::RULES + 5], ..Settings::default() };
        assert_eq!(bytes(&settings).len(), size_of::<control::Settings>());
    }
}
