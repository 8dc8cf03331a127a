//! One program: what it shows, and how its process says so.

/// One behaviour.
#[derive(Clone, Copy, Debug)]
pub struct Behaviour {
    /// Its name on the command line.
    pub name: &'static str,
    /// What must hold.
    pub holds: &'static str,
    /// How an interposer gets it wrong.
    pub wrong: &'static str,
    /// The program: returns if the behaviour holds, else ends the process with the reason.
    pub(super) body: fn(u64),
}

/// The last line of a program whose behaviour holds: a process that ends early with status 0 has not shown anything.
pub const HOLDS: &str = "holds";

/// Before the reason of one whose behaviour does not hold.
pub const FAILS: &str = "fails: ";

/// Before the reason of one that has not got its library.
pub const NOT_LOADED: &str = "not loaded: ";
