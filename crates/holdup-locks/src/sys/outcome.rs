//! What comes of waiting for a word, a kernel object, an object of Windows.

/// What came of a try to take a kernel object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// The caller has it.
    Yes,
    /// It is held, or the deadline passed.
    No,
}

/// What came of a wait for an object of Windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(dead_code, reason = "only Windows makes them")]
pub(crate) enum Waited {
    /// The caller has it.
    Taken,
    /// The caller has it, from a thread that ended without giving it back.
    Inherited,
    /// The deadline passed.
    TimedOut,
}

/// What ended a [`wait`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// A `wake` counted this waiter.
    Woken,
    /// The word did not hold the expected value; there was no sleep.
    Changed,
    /// The deadline passed; no wake was consumed.
    TimedOut,
    #[allow(dead_code, reason = "models have no signals")]
    /// The sleep ended for no reason of ours (a signal); no wake was consumed.
    Interrupted,
}
