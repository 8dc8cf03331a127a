//! The HTML page of a run: charts, figures, claims; in the shell that all pages share ([`page`](super::page)).
//!
//! The page reads well without its script.

mod svg;

use maud::{Markup, html};

use super::document::{Column, Ink, Table, Text, ink};
use super::page;
use super::series::{self, Drawing};
use super::{claims, counters, figures, headline, number, table};
use crate::claim::{ClaimResult, Reading, Setting, Verdict};
use crate::plot::Plot;
use crate::results::{CellRecord, RunRecord};
use svg::Look;

/// Cells of a table that a page folds.
const LONG_TABLE: usize = 32;

/// The page of a run; with claims it opens with them.
pub fn page(run: &RunRecord, plots: &[Plot], claims: &[ClaimResult]) -> String {
    let about = format!("holdup, run {}, {}", run.id, number::utc(run.started_unix_s));
    let notes = table::notes(run);
    let seed = run.seed.to_string();
    let facts = run.environment.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let content = html! {
        (svg::markers())
        @if !claims.is_empty() {
            section class="claims" { h2 { "Published claims and what was measured" } (claims_table(claims)) }
        }
        (sweeps(run, plots, claims))
        @if counters::are_known(run) { section { (counters::view(run).html()) } }
        @if !notes.is_empty() { section { h2 { "What to know about these figures" } (notes.html()) } }
        section {
            h2 { "Where and how" }
            p { "This command repeats the run:" }
            pre { code { (run.command) } }
            (page::environment(facts.chain([("seed", seed.as_str())])))
        }
    };
    page::whole("run", &format!("holdup, run {}", run.id), &about, &headline(run, claims), &content)
}

fn headline(run: &RunRecord, claims: &[ClaimResult]) -> String {
    let sweeps = figures::sweeps(run);
    match sweeps.as_slice() {
        _ if !claims.is_empty() => claims::summary(claims),
        [one] => headline::of_sweep(run, &run.sweep(one).collect::<Vec<_>>()),
        several => {
            format!("{} in {}.", number::counted(run.cells.len(), "cell"), number::counted(several.len(), "sweep"))
        }
    }
}

fn claims_table(claims: &[ClaimResult]) -> Table {
    let words = |head| Column::left(head).wrapped();
    let heads = ["Id", "Claim", "Published", "Measured"].map(words);
    let mut table = Table::new(heads.into_iter().chain([Column::fixed("Verdict"), words("Why"), words("Set-up")]))
        .named("Published claims");
    let mut experiment = None;
    for claim in claims {
        if experiment.replace(&claim.experiment) != Some(&claim.experiment) {
            table.group(&claim.experiment);
        }
        let published =
            if claim.published.is_empty() { ink(Ink::Faint, "shape only") } else { Text::from(&claim.published) };
        let first = [Text::from(&claim.id), Text::from(&claim.claim), published];
        table.row(first.into_iter().chain(reading(&claim.then)).chain([ink(Ink::Faint, set_up(&claim.setting))]));
        if let Some(now) = &claim.now {
            let again = [Text::from(format!("{} now", claim.id)), "The same with today's lock.".into(), "".into()];
            table.row(again.into_iter().chain(reading(now)).chain(["".into()]));
        }
    }
    table
}

/// What was measured, the verdict, and why.
fn reading(reading: &Reading) -> [Text; 3] {
    let (sign, colour) = match reading.verdict {
        Verdict::Holds => ("\u{2713}", Ink::Good),
        Verdict::Differs => ("\u{2717}", Ink::Bad),
        Verdict::NotMeasurable => ("\u{2013}", Ink::Faint),
    };
    [
        claims::measured(reading).into(),
        ink(colour, format!("{sign} {}", claims::verdict(reading))),
        ink(Ink::Faint, &reading.why),
    ]
}

/// What was published on what, and how near the test is to that.
fn set_up(setting: &Setting) -> String {
    let parts = [("Published on", &setting.on), ("the same here", &setting.same), ("not the same", &setting.not_same)];
    let said = parts.iter().filter(|(_, words)| !words.is_empty()).map(|(label, words)| format!("{label}: {words}"));
    said.collect::<Vec<_>>().join("; ")
}

/// Per sweep its sentence, its charts, its figures. Charts of no known sweep come last and say what they miss.
fn sweeps(run: &RunRecord, plots: &[Plot], claims: &[ClaimResult]) -> Markup {
    let names = figures::sweeps(run);
    let mut looks = Looks(Vec::new());
    let lost = plots.iter().filter(|plot| !names.contains(&plot.sweep.as_str()));
    html! {
        @for name in &names { (sweep(run, name, plots, !claims.is_empty(), &mut looks)) }
        (charts(run, lost, &mut looks))
        @for sentence in table::explained(run) { p class="note" { (sentence) } }
    }
}

fn sweep(run: &RunRecord, name: &str, plots: &[Plot], has_claims: bool, looks: &mut Looks) -> Markup {
    let cells: Vec<&CellRecord> = run.sweep(name).collect();
    let own: Vec<&Plot> = plots.iter().filter(|plot| plot.sweep == name).collect();
    let figures = table::of_sweep(run, &cells);
    html! {
        section {
            @if name.is_empty() && has_claims { h2 { "What was measured" } }
            @if !name.is_empty() { h2 { (name) } p { (headline::of_sweep(run, &cells)) } }
            p class="note" { (table::context(run, &cells)) }
            (charts(run, own.iter().copied(), looks))
            // Long tables stay closed below their charts.
            @if !own.is_empty() && cells.len() > LONG_TABLE {
                details { summary { "All figures of " (number::counted(cells.len(), "cell")) } (figures.html()) }
            } @else if !figures.is_empty() {
                h3 { "All figures" }
                (figures.html())
            }
        }
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

fn charts<'a>(run: &RunRecord, plots: impl Iterator<Item = &'a Plot>, looks: &mut Looks) -> Markup {
    let mut plots = plots.peekable();
    html! {
        @if plots.peek().is_some() {
            div class="charts" {
                @for plot in plots {
                    @match series::draw(run, plot) {
                        Ok(drawing) => (chart(&drawing, looks)),
                        Err(why) => figure { figcaption { strong { (plot.title) } span { "No chart. " (why) } } },
                    }
                }
            }
        }
    }
}

fn chart(drawing: &Drawing, looks: &mut Looks) -> Markup {
    let own: Vec<Look> = drawing.lines.iter().map(|line| looks.of(&line.name)).collect();
    let label = format!("{}: {}. The figures are in the table below.", drawing.title, drawing.y_label);
    html! {
        figure {
            figcaption {
                strong { (drawing.title) }
                span { (drawing.y_label) @if drawing.y.log { ", logarithmic" } }
            }
            div class="plot" { (svg::chart(drawing, &own, &label)) div class="tip" role="status" {} }
            ul class="legend" {
                @for (line, look) in drawing.lines.iter().zip(&own) {
                    li { button type="button" aria-pressed="true" { (svg::swatch(*look, line.dashed)) (line.name) } }
                }
            }
            (figures_of_chart(drawing))
        }
    }
}

/// The exact values: a row per line, a column per x. The script reads them here too.
fn figures_of_chart(drawing: &Drawing) -> Markup {
    let value = |line: &series::Line, x: f64| {
        let point = line.points.iter().find(|point| point.x == x);
        point.map_or_else(String::new, |point| drawing.quantity.interval(&point.estimate))
    };
    html! {
        details open {
            summary { "Median [95% interval]" }
            div class="scroll" tabindex="0" {
                table {
                    thead { tr { th { (drawing.x_label) } @for (_, label) in &drawing.x.ticks { th class="i" { (label) } } } }
                    tbody {
                        @for line in &drawing.lines {
                            tr {
                                th { (line.name) }
                                @for (x, _) in &drawing.x.ticks {
                                    @let value = value(line, *x);
                                    @let (median, interval) = value.split_at(value.find(" [").unwrap_or(value.len()));
                                    td class="i" { (median) @if !interval.is_empty() { " " small { (interval.trim()) } } }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}
