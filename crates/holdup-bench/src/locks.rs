//! The registry of everything that can be measured as a lock: ours, the peers, and none.

/// What `holdup list locks` shows of one lock.
#[derive(Clone, Debug)]
pub struct LockEntry {
    /// The name for `--lock`.
    pub name: &'static str,
    /// Family: none, spin, queue, spin-then-park, kernel, or peer.
    pub family: &'static str,
    /// One line about it.
    pub summary: &'static str,
    /// Where the algorithm was published, or which crate it is.
    pub source: &'static str,
    /// May one thread take it twice without the wrapper?
    pub recursive: bool,
}

/// Every lock, in the order of lists.
pub fn all() -> &'static [LockEntry] {
    ENTRIES
}

static ENTRIES: &[LockEntry] = &[
    LockEntry {
        name: "none",
        family: "none",
        summary: "no synchronisation: the loop itself",
        source: "",
        recursive: true,
    },
    LockEntry {
        name: "pthread",
        family: "peer",
        summary: "the C library's default mutex",
        source: "POSIX",
        recursive: false,
    },
];

/// The registered name equal to `text`, or an error that names the nearest; `holdup` adds the full list.
pub fn check_name(text: &str) -> Result<&'static str, String> {
    all()
        .iter()
        .find(|entry| entry.name == text)
        .map(|entry| entry.name)
        .ok_or_else(|| format!("there is no lock '{text}'; 'holdup list locks' shows them"))
}
