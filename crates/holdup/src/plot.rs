//! A chart as an experiment declares it: which figure over which factor, one line per combination of other factors.

/// One chart of a sweep's results; the terminal and the HTML page both draw it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plot {
    /// What it shows, as a sentence or title.
    pub title: String,
    /// The sweep whose cells it draws; empty for the sweep of `holdup bench`.
    pub sweep: String,
    /// The factor along x; numbers and times are placed to scale, words in their order.
    pub x: String,
    /// The metric along y (see [`crate::metric::METRICS`]).
    pub y: String,
    /// The factors whose values make the lines.
    pub series: Vec<String>,
    /// Only cells with these factor values.
    pub only: Vec<(String, String)>,
    /// Lines with one of these factor values are dashed, as in the sources (background, a second lock ...).
    pub dashed: Vec<(String, String)>,
    /// Draw the paired ratio to the run's baseline in place of the bare figure.
    pub ratio_to_baseline: bool,
    /// Logarithmic x axis.
    pub log_x: bool,
    /// Logarithmic y axis.
    pub log_y: bool,
}
