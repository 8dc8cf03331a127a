//! Ctrl-C, SIGTERM and SIGHUP ask the work to end; they end nothing by themselves.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{Error, output};

static ASKED: AtomicBool = AtomicBool::new(false);
static LISTENING: OnceLock<Result<(), String>> = OnceLock::new();
/// Said at the first Ctrl-C.
static ANSWER: OnceLock<&'static str> = OnceLock::new();

/// Set by Ctrl-C, and by the signals of supervisors and of terminals that go away.
///
/// # Errors
/// The system does not let us listen.
pub fn asked() -> Result<&'static AtomicBool, Error> {
    let listen = || {
        holdup_record::stop_at_signals(&ASKED);
        ctrlc::set_handler(answer).map_err(refused)
    };
    LISTENING
        .get_or_init(listen)
        .clone()
        .map(|()| &ASKED)
        .map_err(|why| Error::Argument(format!("cannot listen for Ctrl-C: {why}")))
}

/// Listening takes a thread.
fn refused(why: ctrlc::Error) -> String {
    match why {
        ctrlc::Error::System(why) => holdup_run::no_more_processes(&why).unwrap_or_else(|| why.to_string()),
        why => why.to_string(),
    }
}

/// Set by Ctrl-C, which is answered with a line: the work takes a while to end.
///
/// # Errors
/// The system does not let us listen.
pub fn asked_and_answered(line: &'static str) -> Result<&'static AtomicBool, Error> {
    ANSWER.get_or_init(|| line);
    asked()
}

fn answer() {
    if !ASKED.swap(true, Ordering::Relaxed)
        && let Some(line) = ANSWER.get()
    {
        output::note(line);
    }
}
