//! The HTML page of a run: charts, figures, claims; in the shell that all pages share ([`page`](super::page)).
//!
//! Foreign text enters only through [`escape`]; the page reads well without its script.

mod svg;

use std::fmt::Write as _;

use super::page::{self, escape};
use super::series::{self, Drawing};
use super::table::{self, Grid, GridRow};
use super::{Ink, claims, figures, headline, number};
use crate::claim::{ClaimResult, Verdict};
use crate::plot::Plot;
use crate::results::{CellRecord, RunRecord};
use svg::Look;

/// Rows of a table that a page folds.
const LONG_TABLE: usize = 32;

/// The page of a run; with claims it opens with them.
pub fn page(run: &RunRecord, plots: &[Plot], claims: &[ClaimResult]) -> String {
    let title = headline(run, claims);
    let mut out = page::open("run", &format!("holdup, run {}", run.id));
    out.push_str(&svg::markers());
    out.push_str(&page::header(
        &format!("holdup, run {}, {}", run.id, number::utc(run.started_unix_s)),
        &title,
    ));
    out.push_str("<main>\n");
    if !claims.is_empty() {
        claims_table(&mut out, claims);
    }
    sweeps(&mut out, run, plots, claims);
    notes(&mut out, run);
    environment(&mut out, run);
    out.push_str("</main>\n");
    out.push_str(page::CLOSE);
    out
}

fn headline(run: &RunRecord, claims: &[ClaimResult]) -> String {
    let sweeps = figures::sweeps(run);
    match sweeps.as_slice() {
        _ if !claims.is_empty() => claims::summary(claims),
        [one] => headline::of_sweep(run, &run.sweep(one).collect::<Vec<_>>()),
        several => format!(
            "{} in {}.",
            number::counted(run.cells.len(), "cell"),
            number::counted(several.len(), "sweep")
        ),
    }
}

fn claims_table(out: &mut String, claims: &[ClaimResult]) {
    out.push_str(
        "<section><h2>Published claims and what was measured</h2>\n<div class=\"scroll\" tabindex=\"0\"><table class=\"claims sortable\" aria-label=\"Published claims\">\
         <thead><tr><th>Id</th><th>Claim</th><th>Published</th><th>Measured</th><th>Verdict</th><th>Why</th></tr></thead><tbody>\n",
    );
    let mut experiment = None;
    for claim in claims {
        if experiment.replace(&claim.experiment) != Some(&claim.experiment) {
            let _ = writeln!(
                out,
                "<tr class=\"first\"><th colspan=\"6\">{}</th></tr>",
                escape(&claim.experiment)
            );
        }
        let (sign, class) = match claim.verdict {
            Verdict::Holds => ("\u{2713}", "good"),
            Verdict::Differs => ("\u{2717}", "bad"),
            Verdict::NotMeasurable => ("\u{2013}", "faint"),
        };
        let _ = writeln!(
            out,
            "<tr><th>{}</th><td>{}</td><td>{}</td><td>{}</td><td class=\"verdict {class}\">{sign} {}</td><td class=\"why\">{}</td></tr>",
            escape(&claim.id),
            escape(&claim.claim),
            if claim.published.is_empty() {
                "<span class=\"faint\">shape only</span>".to_owned()
            } else {
                escape(&claim.published)
            },
            escape(&claims::measured(claim)),
            escape(&claims::verdict(claim)),
            escape(&claim.why)
        );
    }
    out.push_str("</tbody></table></div></section>\n");
}

/// Per sweep its sentence, its charts, its figures. Charts of no known sweep come last and say what they miss.
fn sweeps(out: &mut String, run: &RunRecord, plots: &[Plot], claims: &[ClaimResult]) {
    let names = figures::sweeps(run);
    let mut looks = Looks(Vec::new());
    for name in &names {
        let cells: Vec<&CellRecord> = run.sweep(name).collect();
        out.push_str("<section>");
        if name.is_empty() && !claims.is_empty() {
            out.push_str("<h2>What was measured</h2>\n");
        }
        if !name.is_empty() {
            let _ = writeln!(
                out,
                "<h2>{}</h2>\n<p>{}</p>",
                escape(name),
                escape(&headline::of_sweep(run, &cells))
            );
        }
        let _ = writeln!(out, "<p class=\"note\">{}</p>", escape(&table::context(run, &cells)));
        let own = plots.iter().filter(|plot| plot.sweep == *name);
        charts(out, run, own, &mut looks);
        let grid = table::grid(run, &cells);
        if !grid.rows.is_empty() {
            all_figures(out, &grid, plots.iter().any(|plot| plot.sweep == *name));
        }
        out.push_str("</section>\n");
    }
    let lost = plots.iter().filter(|plot| !names.contains(&plot.sweep.as_str()));
    charts(out, run, lost, &mut looks);
    for sentence in table::explained(run) {
        let _ = writeln!(out, "<p class=\"note\">{}</p>", escape(&sentence));
    }
}

/// Lines of one name look alike on the whole page.
struct Looks(Vec<String>);

impl Looks {
    fn of(&mut self, name: &str) -> Look {
        let known = self.0.iter().position(|other| other == name);
        Look::of(known.unwrap_or_else(|| {
            self.0.push(name.to_owned());
            self.0.len() - 1
        }))
    }
}

fn charts<'a>(out: &mut String, run: &RunRecord, plots: impl Iterator<Item = &'a Plot>, looks: &mut Looks) {
    let mut open = false;
    for plot in plots {
        if !open {
            out.push_str("<div class=\"charts\">\n");
            open = true;
        }
        match series::draw(run, plot) {
            Ok(drawing) => chart(out, &drawing, looks),
            Err(why) => {
                let _ = writeln!(
                    out,
                    "<figure><figcaption><strong>{}</strong><span>No chart. {}</span></figcaption></figure>",
                    escape(&plot.title),
                    escape(&why)
                );
            }
        }
    }
    if open {
        out.push_str("</div>\n");
    }
}

fn chart(out: &mut String, drawing: &Drawing, looks: &mut Looks) {
    let own: Vec<Look> = drawing.lines.iter().map(|line| looks.of(&line.name)).collect();
    let log = if drawing.y.log { ", logarithmic" } else { "" };
    let _ = writeln!(
        out,
        "<figure><figcaption><strong>{}</strong><span>{}{log}</span></figcaption>",
        escape(&drawing.title),
        escape(&drawing.y_label)
    );
    let label = format!("{}: {}. The figures are in the table below.", drawing.title, drawing.y_label);
    let _ = writeln!(
        out,
        "<div class=\"plot\">{}<div class=\"tip\" role=\"status\"></div></div>",
        svg::chart(drawing, &own, &label)
    );
    out.push_str("<ul class=\"legend\">");
    for (line, look) in drawing.lines.iter().zip(&own) {
        let _ = write!(
            out,
            "<li><button type=\"button\" aria-pressed=\"true\">{}{}</button></li>",
            svg::swatch(*look, line.dashed),
            escape(&line.name)
        );
    }
    out.push_str("</ul>\n");
    figures_of_chart(out, drawing);
    out.push_str("</figure>\n");
}

/// The exact values: a row per line, a column per x. The script reads them here too.
fn figures_of_chart(out: &mut String, drawing: &Drawing) {
    let _ = write!(
        out,
        "<details open><summary>Median [95% interval]</summary><div class=\"scroll\" tabindex=\"0\"><table><thead><tr><th>{}</th>",
        escape(&drawing.x_label)
    );
    for (_, label) in &drawing.x.ticks {
        let _ = write!(out, "<th class=\"i\">{}</th>", escape(label));
    }
    out.push_str("</tr></thead><tbody>\n");
    for line in &drawing.lines {
        let _ = write!(out, "<tr><th>{}</th>", escape(&line.name));
        for (x, _) in &drawing.x.ticks {
            let point = line.points.iter().find(|point| point.x == *x);
            let value = point.map_or_else(String::new, |point| drawing.quantity.interval(&point.estimate));
            let (median, interval) = value.split_at(value.find(" [").unwrap_or(value.len()));
            let interval = match interval {
                "" => String::new(),
                interval => format!(" <small>{}</small>", escape(interval.trim())),
            };
            let _ = write!(out, "<td class=\"i\">{}{interval}</td>", escape(median));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div></details>\n");
}

fn all_figures(out: &mut String, grid: &Grid, has_charts: bool) {
    // Long tables stay closed below their charts.
    let folded = has_charts && grid.rows.len() > LONG_TABLE;
    let cells = number::counted(grid.rows.len(), "cell");
    let _ = match folded {
        true => writeln!(out, "<details><summary>All figures of {cells}</summary>"),
        false => writeln!(out, "<h3>All figures</h3>"),
    };
    out.push_str("<div class=\"scroll\" tabindex=\"0\"><table class=\"sortable\" aria-label=\"All figures\"><thead><tr>");
    for factor in &grid.factors {
        let _ = write!(out, "<th>{}</th>", escape(factor));
    }
    for head in &grid.head {
        let _ = write!(out, "<th class=\"{}\">{}</th>", class_of_column(head), escape(head));
    }
    out.push_str("<th></th></tr></thead><tbody>\n");
    let mut before: Option<&GridRow> = None;
    for row in &grid.rows {
        figures_row(out, grid, row, before);
        before = Some(row);
    }
    out.push_str(if folded { "</tbody></table></div></details>\n" } else { "</tbody></table></div>\n" });
}

fn figures_row(out: &mut String, grid: &Grid, row: &GridRow, before: Option<&GridRow>) {
    let last = row.values.len() - 1;
    let first = before.is_none_or(|before| before.values[..last] != row.values[..last]);
    out.push_str(if first && last > 0 { "<tr class=\"first\">" } else { "<tr>" });
    for (i, value) in row.values.iter().enumerate() {
        let same = i < last && before.is_some_and(|before| before.values[..=i] == row.values[..=i]);
        let class = if same { " class=\"faint\"" } else { "" };
        let _ = write!(out, "<th{class}>{}</th>", escape(value));
    }
    match &row.figures {
        Err(why) => {
            let _ = write!(out, "<td class=\"bad\" colspan=\"{}\">{}</td>", grid.head.len(), escape(why));
        }
        Ok(figures) => {
            for ((figure, ink), head) in figures.iter().zip(&grid.head) {
                let colour = match ink {
                    Some(Ink::Good) => " good",
                    Some(Ink::Bad) => " bad",
                    Some(_) => " faint",
                    None => "",
                };
                let _ =
                    write!(out, "<td class=\"{}{colour}\">{}</td>", class_of_column(head), escape(figure));
            }
        }
    }
    let _ = writeln!(out, "<td>{}</td></tr>", escape(row.mark));
}

/// Intervals are left-aligned, numbers right.
fn class_of_column(head: &str) -> &'static str {
    if head.starts_with("time vs") || head.starts_with("time per op") { "i" } else { "n" }
}

fn notes(out: &mut String, run: &RunRecord) {
    let warnings = run.warnings.iter().map(|(code, why)| format!("{code}: {why}")).collect();
    let sections = [
        ("Failed", table::failed(run)),
        ("Not possible on this machine", table::unsupported(run)),
        ("Read with care", table::doubts(run)),
        ("Warnings", warnings),
    ];
    if sections.iter().all(|(_, lines)| lines.is_empty()) {
        return;
    }
    out.push_str("<section><h2>What to know about these figures</h2>\n");
    for (title, lines) in sections.iter().filter(|(_, lines)| !lines.is_empty()) {
        let _ = writeln!(out, "<h3>{title}</h3><ul class=\"plain\">");
        for line in lines {
            let _ = writeln!(out, "<li>{}</li>", escape(line));
        }
        out.push_str("</ul>\n");
    }
    out.push_str("</section>\n");
}

fn environment(out: &mut String, run: &RunRecord) {
    let _ = writeln!(
        out,
        "<section><h2>Where and how</h2>\n<p>This command repeats the run:</p>\n<pre><code>{}</code></pre>",
        escape(&run.command)
    );
    out.push_str("<table class=\"environment\"><tbody>\n");
    let seed = [("seed".to_owned(), run.seed.to_string())];
    for (name, value) in run.environment.iter().chain(&seed) {
        let _ = writeln!(out, "<tr><th>{}</th><td>{}</td></tr>", escape(name), escape(value));
    }
    out.push_str("</tbody></table></section>\n");
}
