//! What `holdup list experiments` and `holdup list claims` show.

use std::fmt::Write as _;

use super::file::FileError;
use super::machine::Machine;
use crate::text;

/// Columns of a list.
const WIDTH: usize = 80;

/// The carried experiments: name, title, source, and what they take.
///
/// # Errors
/// A carried file is broken.
pub fn experiments() -> Result<String, FileError> {
    let machine = Machine::here();
    let mut out = String::new();
    for experiment in super::all()? {
        let minutes = |quick| super::about(experiment.planned(quick, None, &machine).1);
        let _ = writeln!(out, "{:<10} {}", experiment.name, experiment.title);
        let _ = writeln!(out, "{:<10} {}", "", experiment.source);
        let claims = experiment.claims.len();
        let _ = writeln!(out, "{:<10} {claims} claims; takes {}, with --quick {}\n", "", minutes(false), minutes(true));
    }
    out.push_str("Measure one and hold its claims against today: holdup reproduce hart --quick\n");
    out.push_str("The goals of our own locks:                    holdup run peers --quick\n");
    out.push_str("                                               holdup run rw --quick\n");
    Ok(out)
}

/// The claims: id, experiment, and what was claimed.
///
/// # Errors
/// A carried file is broken.
pub fn claims() -> Result<String, FileError> {
    let mut out = String::new();
    for experiment in super::all()? {
        let _ = writeln!(out, "{}: {}", experiment.name, experiment.source);
        for claim in &experiment.claims {
            let indent = claim.id.len().max(4) + 3;
            let words = text::wrap(&claim.claim, WIDTH - indent, 0);
            for (i, line) in words.lines().enumerate() {
                let id = if i == 0 { claim.id.as_str() } else { "" };
                let _ = writeln!(out, "  {id:<width$} {line}", width = indent - 3);
            }
        }
        out.push('\n');
    }
    out.push_str("Check them on this machine: holdup reproduce all --quick\n");
    Ok(out)
}
