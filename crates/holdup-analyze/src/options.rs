//! What an analysis is asked for.

/// What to keep.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Keep every interval and wake-up for a viewer; costs memory by the event.
    pub timeline: bool,
    /// Look only at events from this moment on (the clock of the events).
    pub from_ns: Option<u64>,
    /// Look only at events before this moment.
    pub to_ns: Option<u64>,
}
