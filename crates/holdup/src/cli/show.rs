//! A measured run on the screen.

use crate::advice::Advice;
use crate::metric::Metric;
use crate::results::RunRecord;
use crate::stats;

/// The table of a run.
pub fn table(run: &RunRecord) -> String {
    let time = Metric::named("time_per_op_ns").expect("the metric exists");
    let mut text = String::new();
    for cell in &run.cells {
        let words: Vec<String> = RunRecord::varied(run.cells.iter())
            .iter()
            .map(|n| cell.spec.get(n).unwrap_or_default())
            .collect();
        let figure = match (cell.failure(), stats::of_cell(cell, time)) {
            (Some(failure), _) => failure.detail.clone(),
            (None, Some(e)) => format!("{:.1} [{:.1} {:.1}] n={}", e.median, e.low, e.high, e.n),
            (None, None) => "-".to_owned(),
        };
        text += &format!("{:<40} {figure}\n", words.join(" "));
    }
    text
}

/// What to try next.
pub fn advice(advice: &[Advice]) -> String {
    let mut text = String::from("What to try next:\n");
    for Advice { why, command } in advice {
        text += &format!("  {why}\n    {command}\n");
    }
    text
}
