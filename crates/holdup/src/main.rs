//! `holdup`: finds out what makes a multithreaded program wait, and measures which fix helps.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use holdup::cli;

/// Parse, run, and the one place that decides the exit status.
fn main() -> ExitCode {
    holdup_run::outlive_file_limit();
    ExitCode::from(holdup_run::with_stack(|| {
        let ended = cli::parse(std::env::args_os()).and_then(cli::run);
        match ended {
            Ok(status) => status.code(),
            Err(error) => {
                cli::output::complain(&error);
                error.code()
            }
        }
    }))
}
