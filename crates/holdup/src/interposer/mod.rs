//! Putting other locks under a program: the library that is shipped inside this binary, and the folder through which the two
//! talk ([`holdup_trace::control`]).

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

use holdup_trace::control::{Policy, Profile};

/// What an interposed run is to do.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How threads wait for all locks without a rule.
    pub policy: Policy,
    /// What is measured.
    pub profile: Profile,
    /// A lock with waiters that was not acquired for so many milliseconds goes back to glibc's policy; 0 for never.
    pub watchdog_ms: u32,
    /// Policies of single locks, resolved to places.
    pub rules: Vec<Rule>,
    /// The last part of the path of the only program to serve; `None` for all that it starts.
    pub program: Option<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            policy: Policy::Glibc,
            profile: Profile::Off,
            watchdog_ms: 0,
            rules: Vec::new(),
            program: None,
        }
    }
}

/// A policy for the locks of one place, as in [`holdup_trace::control::Rule`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// One of the constants of [`holdup_trace::control`].
    pub kind: u32,
    /// The policy.
    pub policy: Policy,
    /// The module; `None` for the program itself.
    pub module: Option<PathBuf>,
    /// First offset in the module.
    pub start: u64,
    /// Bytes.
    pub len: u64,
}

/// The folder of one interposed run, removed when it is dropped.
#[derive(Debug)]
pub struct Control {
    folder: PathBuf,
    library: PathBuf,
}

/// What one process did so far.
#[derive(Clone, Debug, Default)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// Its program.
    pub program: PathBuf,
    /// One of the `STATE_` constants of [`holdup_trace::control`].
    pub state: u32,
    /// Acquisitions of locks that are served.
    pub acquisitions: u64,
    /// Those that did not succeed at the first try.
    pub contended: u64,
    /// Those that slept.
    pub slept: u64,
    /// Acquisitions of locks that are left to glibc, by `holdup_trace::control::Fallback`.
    pub fallbacks: [u64; 8],
    /// Futex calls of the interposer that slept.
    pub futex_waits: u64,
    /// Locks that the watchdog set back.
    pub watchdog_trips: u64,
}

impl Control {
    /// Makes the library and a private folder with these settings.
    ///
    /// # Errors
    /// Neither can be written.
    pub fn create(settings: &Settings) -> io::Result<Control> {
        let _ = settings;
        Err(io::ErrorKind::Unsupported.into())
    }

    /// What to add to the environment of the program: `LD_PRELOAD` with the library before what is there already, and the folder.
    pub fn environment(&self) -> Vec<(OsString, OsString)> {
        let folder = (holdup_trace::control::ENV.into(), self.folder.clone().into());
        vec![("LD_PRELOAD".into(), self.library.clone().into()), folder]
    }

    /// From now on all locks without a rule follow this policy, in all processes.
    ///
    /// # Errors
    /// The folder is gone.
    pub fn set_policy(&self, policy: Policy) -> io::Result<()> {
        let _ = policy;
        Err(io::ErrorKind::Unsupported.into())
    }

    /// What each process did so far, in the order of their numbers.
    ///
    /// # Errors
    /// The folder is gone.
    pub fn processes(&self) -> io::Result<Vec<Process>> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
