//! What every command that keeps the recordings of slow runs says at its end.

use super::Error;
use crate::recording::{self, Window};
use crate::report::document::Document;
use crate::report::number;
use crate::report::recording::diff;
use crate::shell::quoted;
use crate::slow::{Keeper, Slow};

/// Keeps the slow runs in the working folder under names that begin so, and says what differed.
///
/// # Errors
/// A recording cannot be written here, or not be read.
pub fn keep(keeper: Keeper, times: f64, stem: &str) -> Result<Document, Error> {
    let all = keeper.keep(stem).map_err(|why| Error::File { path: ".".into(), why })?;
    let mut text = Document::default();
    text.gap();
    if all.is_empty() {
        text.paragraph(format!(
            "No run took more than {} times the median: no recording was kept.",
            number::plain(times)
        ));
    }
    for slow in &all {
        tell(slow, &mut text)?;
    }
    text.paragraph("Every run was recorded, which costs time at each switch: the figures are those of recorded runs.");
    Ok(text)
}

fn tell(slow: &Slow, text: &mut Document) -> Result<(), Error> {
    let (usual, after) = (
        recording::open(&slow.usual, Window::default(), false)?,
        recording::open(&slow.file, Window::default(), false)?,
    );
    let (usual, after) = (&usual.report, &after.report);
    let differed = diff::differed(&usual.facts, &usual.findings, &after.facts, &after.findings);
    let of = if slow.cell.is_empty() { String::new() } else { format!(" of {}", slow.cell) };
    text.hanging(
        2,
        format!("Run {}{of} took {} times the median. What differed:", slow.run, number::ratio(slow.times)),
    );
    text.indented(2, |inner| {
        if differed.is_empty() {
            inner.paragraph("nothing that was recorded: the machine itself may have been slower");
        }
        for sentence in differed {
            inner.hanging(2, sentence);
        }
        let [usual, file] = [&slow.usual, &slow.file].map(|path| quoted(&path.to_string_lossy()));
        inner.command([format!("holdup diff {usual} {file}")]);
    });
    Ok(())
}
