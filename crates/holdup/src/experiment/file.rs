//! Experiment files: TOML text to an [`Experiment`], with every mistake named by line, column and key.
//!
//! The tree is walked by hand and not through derived types, because the factors' names are keys: only the factor table
//! knows which of them exist, and only with a key's place at hand can an error point at it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use holdup_bench::locks;
use holdup_bench::spec::{FACTORS, Factor, Spec};
use holdup_bench::suggest::did_you_mean;
use holdup_bench::work::parse_ns;
use toml::de::{DeArray, DeTable, DeValue};

use super::expr::{ExprError, Scope, Series, SweepCells, parse_condition, parse_number, series_value};
use super::sentence::Sentence;
use super::{Check, Claim, DeclaredSweep, Experiment, Needs};
use crate::claim::Setting;
use crate::metric::{METRICS, Metric};
use crate::plan::Sweep;
use crate::plot::Plot;
pub use crate::tables::FileError;
use crate::tables::{Source, Table, Value, kind};

/// Runs per cell where a sweep does not say.
const REPEATS: u32 = 5;
/// More cells than this in one sweep are a mistake.
const MOST_CELLS: usize = 4096;

/// What `probe(...)` knows of the machine.
static PROBES: &[&str] = &["cpus", "system_ns", "system_call_ns", "cpu_ns"];

/// Reads an experiment file.
///
/// # Errors
/// The first mistake, with its place.
pub fn parse(path: &str, text: &str) -> Result<Experiment, FileError> {
    let source = Source { path, text };
    let tree = DeTable::parse(text).map_err(|error| source.error(error.span(), error.message()))?;
    let root = Table { source, what: "this file".to_owned(), span: 0..0, table: tree.get_ref() };
    root.only(&["experiment", "series", "today", "sweep", "plot", "claim"])?;
    let head = root.required_table("experiment", "[experiment]")?;
    head.only(&["name", "title", "source", "about", "system"])?;
    check_system(&head)?;
    let series = read_series(&root)?;
    let today = read_today(&root, &series)?;
    let sweeps = read_sweeps(&root, &series)?;
    let cells = sweeps.iter().map(|(sweep, at)| cells_of(sweep, at)).collect::<Result<Vec<_>, _>>()?;
    let sweeps: Vec<DeclaredSweep> = sweeps.into_iter().map(|(sweep, _)| sweep).collect();
    Ok(Experiment {
        path: path.to_owned(),
        name: head.required("name")?.0,
        title: head.required("title")?.0,
        source: head.text("source")?.map_or_else(String::new, |(text, _)| text),
        about: head.text("about")?.map_or_else(String::new, |(text, _)| text),
        plots: read_plots(&root, &sweeps, &series)?,
        claims: read_claims(&root, Eras { then: &series, now: &today }, &cells)?,
        series,
        sweeps,
    })
}

/// `system` is for experiments whose locks only one system has.
fn check_system(head: &Table<'_>) -> Result<(), FileError> {
    match head.text("system")? {
        Some((system, value)) if system != std::env::consts::OS => {
            Err(head.error_at(value, format!("this experiment needs {system}, and this is {}", std::env::consts::OS)))
        }
        _ => Ok(()),
    }
}

/// Whether the file names another system than this one as the one that it needs.
pub fn is_for_another_system(text: &str) -> bool {
    let Ok(tree) = text.parse::<toml::Table>() else { return false };
    let system = tree.get("experiment").and_then(|head| head.get("system")).and_then(toml::Value::as_str);
    system.is_some_and(|system| system != std::env::consts::OS)
}

/// `[series]`: names that stand for a lock (`mutex = "futex-pi"`, or of a list the first that this system has) or for
/// several values (`{ counter = "xadd" }`).
fn read_series(root: &Table<'_>) -> Result<Vec<Series>, FileError> {
    let Some(table) = root.table("series", "[series]".to_owned())? else { return Ok(Vec::new()) };
    let mut series = Vec::new();
    for (name, span, value) in table.entries() {
        if !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_') {
            return Err(table.source.error(Some(span), format!("'{name}' may have letters, digits, - and _ only")));
        }
        let fixed = match value.get_ref() {
            DeValue::Table(values) => {
                let values =
                    Table { source: table.source, what: format!("series '{name}'"), span: value.span(), table: values };
                one_value_each(&values)?
            }
            DeValue::Array(locks) => {
                vec![one_value(&table, "lock", lock_of_this_system(&table, locks, value)?)?]
            }
            _ => vec![one_value(&table, "lock", value)?],
        };
        series.push(Series { name: name.to_owned(), fixed });
    }
    Ok(series)
}

/// `[today]`: which series stand in the place of which when a claim is judged with today's locks. The series as they
/// are then.
fn read_today(root: &Table<'_>, series: &[Series]) -> Result<Vec<Series>, FileError> {
    let mut today = series.to_vec();
    let Some(table) = root.table("today", "[today]".to_owned())? else { return Ok(today) };
    for (name, span, value) in table.entries() {
        let find = |wanted: &str| series.iter().find(|one| one.name == wanted);
        let Some(at) = series.iter().position(|one| one.name == name) else {
            let near = did_you_mean(name, series.iter().map(|one| one.name.as_str()));
            return Err(table.source.error(Some(span), format!("'{name}' is not a series of this file{near}")));
        };
        let stands = match value.get_ref() {
            DeValue::String(text) => find(text),
            _ => None,
        };
        let Some(stands) = stands else {
            return Err(table.error_at(value, format!("today's '{name}' is the name of another series, in quotes")));
        };
        today[at].fixed.clone_from(&stands.fixed);
    }
    Ok(today)
}

/// The first of these locks that this system has; a name that no system has is taken, so that it is refused.
fn lock_of_this_system<'a>(
    table: &Table<'_>,
    locks: &'a DeArray<'_>,
    list: &Value<'_>,
) -> Result<&'a Value<'a>, FileError> {
    let elsewhere = |lock: &&Value<'_>| match lock.get_ref() {
        DeValue::String(name) => locks::exists_only_on(name).is_some(),
        _ => false,
    };
    let found = locks.iter().find(|lock| !elsewhere(lock));
    found.ok_or_else(|| {
        table.error_at(list, "this system has none of these locks; end the list with one that all have".to_owned())
    })
}

fn one_value_each(table: &Table<'_>) -> Result<Vec<(&'static str, String)>, FileError> {
    table
        .entries()
        .map(|(key, span, value)| {
            let factor = factor(table, key, span, &[])?;
            match value.get_ref() {
                DeValue::Array(locks) if factor.name == "lock" => {
                    one_value(table, factor.name, lock_of_this_system(table, locks, value)?)
                }
                _ => one_value(table, factor.name, value),
            }
        })
        .collect()
}

fn one_value(table: &Table<'_>, name: &'static str, value: &Value<'_>) -> Result<(&'static str, String), FileError> {
    let values = axis(table, name, value, &[])?;
    match values.as_slice() {
        [one] => {
            let mut spec = Spec::default();
            let text = spec.set(name, one).and_then(|()| spec.get(name));
            text.map(|text| (name, text)).map_err(|error| table.error_at(value, error.to_string()))
        }
        _ => Err(table.error_at(value, format!("one value of {name} is expected here, not {}", values.len()))),
    }
}

/// The factor of a key; `others` are the keys that are none.
fn factor(table: &Table<'_>, key: &str, span: Range<usize>, others: &[&str]) -> Result<&'static Factor, FileError> {
    Factor::named(key).map_err(|_| {
        let near = did_you_mean(key, FACTORS.iter().map(|factor| factor.name).chain(others.iter().copied()));
        let help = match near.as_str() {
            "" => "; 'holdup list factors' shows the factors",
            near => near,
        };
        table.source.error(Some(span), format!("{} has no factor or key '{key}'{help}", table.what))
    })
}

/// The values of one factor: text as on the command line, a number, true or false, or a list of these.
fn axis(table: &Table<'_>, name: &'static str, value: &Value<'_>, series: &[Series]) -> Result<Vec<String>, FileError> {
    let factor = Factor::named(name).map_err(|error| table.error_at(value, error.to_string()))?;
    let text = match value.get_ref() {
        DeValue::Array(values) => {
            let mut all = Vec::new();
            for value in values.iter() {
                if matches!(value.get_ref(), DeValue::Array(_)) {
                    return Err(table.error_at(value, format!("a list of {name} holds values, not lists")));
                }
                all.extend(axis(table, name, value, series)?);
            }
            return match all.is_empty() {
                true => Err(table.error_at(value, format!("the list of {name} is empty"))),
                false => Ok(all),
            };
        }
        DeValue::String(text) => named_values(name, text, series),
        DeValue::Integer(number) if number.radix() == 10 => number.as_str().replace('_', ""),
        DeValue::Boolean(flag) => if *flag { "on" } else { "off" }.to_owned(),
        other => {
            return Err(table.error_at(value, format!("{name} takes {}, not {}", factor.values, kind(other))));
        }
    };
    factor.expand(&text).map_err(|error| {
        let near = match name {
            "lock" => did_you_mean(
                text.trim(),
                holdup_bench::locks::all().iter().map(|l| l.name).chain(series.iter().map(|s| s.name.as_str())),
            ),
            _ => String::new(),
        };
        // The factor's message begins with the command line's spelling, which no file has.
        let why = error.to_string();
        table.error_at(value, format!("{}{near}", why.strip_prefix("--").unwrap_or(&why)))
    })
}

/// Names of series in a list of a factor's values, replaced by the values for which they stand.
fn named_values(factor: &str, text: &str, series: &[Series]) -> String {
    let value = |name| series_value(series, factor, name).unwrap_or(name).to_owned();
    text.split(',').map(|name| value(name.trim())).collect::<Vec<_>>().join(",")
}

const SWEEP_KEYS: &[&str] = &["name", "about", "repeats", "baseline", "quick", "needs", "run_time"];

/// The sweeps, each with a function that makes errors at its place.
type Placed<'a> = (DeclaredSweep, Table<'a>);

fn read_sweeps<'a>(root: &Table<'a>, series: &[Series]) -> Result<Vec<Placed<'a>>, FileError> {
    let mut sweeps: Vec<Placed<'a>> = Vec::new();
    for mut table in root.tables("sweep")? {
        let (name, at) = table.required("name")?;
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_') {
            return Err(table.error_at(at, "a sweep's name has letters, digits, - and _ only"));
        }
        if sweeps.iter().any(|(other, _)| other.full.name == name) {
            return Err(table.error_at(at, format!("there are two sweeps '{name}'; names tell them apart")));
        }
        table.what = format!("sweep '{name}'");
        sweeps.push((read_sweep(&table, name, series)?, table));
    }
    Ok(sweeps)
}

fn read_sweep(table: &Table<'_>, name: String, series: &[Series]) -> Result<DeclaredSweep, FileError> {
    let baseline = match table.text("baseline")? {
        Some((text, at)) => {
            let lock = named_values("lock", &text, series);
            let known = Factor::named("lock").and_then(|factor| factor.expand(&lock));
            known.map_err(|error| table.error_at(at, format!("baseline: {error}")))?;
            Some(lock)
        }
        None => None,
    };
    let mut full = Sweep { name, axes: Vec::new(), baseline, repeats: REPEATS };
    overlay(table, &mut full, series, SWEEP_KEYS)?;
    let mut quick = full.clone();
    if let Some(overrides) = table.table("quick", format!("quick of {}", table.what))? {
        overlay(&overrides, &mut quick, series, &["repeats"])?;
    }
    for sweep in [&mut full, &mut quick] {
        finish(sweep);
    }
    Ok(DeclaredSweep {
        about: table.text("about")?.map_or_else(String::new, |(text, _)| text),
        full,
        quick,
        needs: read_needs(table)?,
        run_time: read_run_time(table)?,
    })
}

/// Sets repeats and factors of a sweep from a table; `others` are keys that are read elsewhere.
fn overlay(table: &Table<'_>, sweep: &mut Sweep, series: &[Series], others: &[&str]) -> Result<(), FileError> {
    if let Some(repeats) = table.whole("repeats", 1, 1000)? {
        sweep.repeats = repeats;
    }
    for (key, span, value) in table.entries().filter(|(key, _, _)| !others.contains(key)) {
        let name = factor(table, key, span, others)?.name;
        let values = axis(table, name, value, series)?;
        sweep.axes.retain(|(other, _)| *other != name);
        sweep.axes.push((name, values));
    }
    Ok(())
}

/// Puts the axes in the order of the factor table and the baseline among the locks.
fn finish(sweep: &mut Sweep) {
    sweep.axes.sort_by_key(|(name, _)| FACTORS.iter().position(|factor| factor.name == *name));
    let Some(baseline) = &sweep.baseline else { return };
    match sweep.axes.iter_mut().find(|(name, _)| *name == "lock") {
        Some((_, locks)) if !locks.contains(baseline) => locks.insert(0, baseline.clone()),
        Some(_) => {}
        None => sweep.axes.insert(0, ("lock", vec![baseline.clone()])),
    }
}

fn cells_of(sweep: &DeclaredSweep, table: &Table<'_>) -> Result<SweepCells, FileError> {
    let cells = |form: &Sweep| {
        let count = form.axes.iter().try_fold(1usize, |n, (_, values)| n.checked_mul(values.len()));
        match count {
            Some(count) if count <= MOST_CELLS => {
                form.cells().map_err(|error| table.error(format!("{}: {error}", table.what)))
            }
            _ => Err(table.error(format!("{} has more than {MOST_CELLS} cells", table.what))),
        }
    };
    Ok(SweepCells { name: sweep.full.name.clone(), full: cells(&sweep.full)?, quick: cells(&sweep.quick)? })
}

fn read_needs(table: &Table<'_>) -> Result<Needs, FileError> {
    let Some(needs) = table.table("needs", format!("needs of {}", table.what))? else {
        return Ok(Needs::default());
    };
    needs.only(&["cpus", "counters", "arch"])?;
    Ok(Needs {
        cpus: needs.whole("cpus", 1, 4096)?,
        counters: needs.flag("counters")?,
        arch: needs.texts("arch")?.into_iter().map(|(text, _)| text).collect(),
    })
}

/// What a run of a sweep given in iterations takes, for planning only.
fn read_run_time(table: &Table<'_>) -> Result<Duration, FileError> {
    const UNKNOWN: Duration = Duration::from_millis(200);
    let Some((text, at)) = table.text("run_time")? else { return Ok(UNKNOWN) };
    let ns = parse_ns(&text).map_err(|why| table.error_at(at, why))?;
    Ok(Duration::from_nanos(ns as u64))
}

const PLOT_KEYS: &[&str] =
    &["title", "sweep", "x", "y", "series", "only", "dashed", "ratio_to_baseline", "log_x", "log_y"];

fn read_plots(root: &Table<'_>, sweeps: &[DeclaredSweep], series: &[Series]) -> Result<Vec<Plot>, FileError> {
    root.tables("plot")?.into_iter().map(|table| read_plot(&table, sweeps, series)).collect()
}

fn read_plot(table: &Table<'_>, sweeps: &[DeclaredSweep], series: &[Series]) -> Result<Plot, FileError> {
    table.only(PLOT_KEYS)?;
    let (sweep, at) = table.required("sweep")?;
    let names = || sweeps.iter().map(|sweep| sweep.full.name.as_str());
    let Some(declared) = sweeps.iter().find(|declared| declared.full.name == sweep) else {
        let near = did_you_mean(&sweep, names());
        return Err(table.error_at(at, format!("'{sweep}' is not a sweep of this file{near}")));
    };
    let (x, at_x) = table.required("x")?;
    plotted(table, declared, &x, at_x)?;
    let (y, at_y) = table.required("y")?;
    if Metric::named(&y).is_none() {
        let near = did_you_mean(&y, METRICS.iter().map(|metric| metric.name));
        return Err(table.error_at(at_y, format!("there is no figure '{y}'{near}")));
    }
    let lines = table.texts("series")?;
    lines.iter().try_for_each(|(name, at)| plotted(table, declared, name, at))?;
    Ok(Plot {
        title: table.required("title")?.0,
        sweep,
        x,
        y,
        series: lines.into_iter().map(|(name, _)| name).collect(),
        only: read_values(table, "only", series)?,
        dashed: read_values(table, "dashed", series)?,
        ratio_to_baseline: table.flag("ratio_to_baseline")?,
        log_x: table.flag("log_x")?,
        log_y: table.flag("log_y")?,
    })
}

/// A factor of a chart must be one that its sweep names.
fn plotted(table: &Table<'_>, sweep: &DeclaredSweep, name: &str, at: &Value<'_>) -> Result<(), FileError> {
    let factor = factor(table, name, at.span(), &[])?;
    match sweep.full.axes.iter().any(|(axis, _)| *axis == factor.name) {
        true => Ok(()),
        false => Err(table.error_at(at, format!("sweep '{}' does not vary {name}", sweep.full.name))),
    }
}

fn read_values(table: &Table<'_>, key: &str, series: &[Series]) -> Result<Vec<(String, String)>, FileError> {
    let Some(values) = table.table(key, format!("'{key}' of {}", table.what))? else { return Ok(Vec::new()) };
    let mut all = Vec::new();
    for (name, span, value) in values.entries() {
        let name = factor(&values, name, span, &[])?.name;
        for text in axis(&values, name, value, series)? {
            let mut spec = Spec::default();
            let text = spec.set(name, &text).and_then(|()| spec.get(name));
            let text = text.map_err(|error| values.error_at(value, error.to_string()))?;
            all.push((name.to_owned(), text));
        }
    }
    Ok(all)
}

const CLAIM_KEYS: &[&str] = &[
    "id",
    "claim",
    "published",
    "on",
    "same",
    "not_same",
    "now",
    "sweep",
    "figures",
    "check",
    "show",
    "otherwise",
    "instead",
    "needs",
    "why_holds",
    "why_differs",
    "margin",
];

/// What the names of series stand for, in the claim's day and today.
#[derive(Clone, Copy)]
struct Eras<'a> {
    then: &'a [Series],
    now: &'a [Series],
}

fn read_claims(root: &Table<'_>, eras: Eras<'_>, cells: &[SweepCells]) -> Result<Vec<Claim>, FileError> {
    let mut claims: Vec<Claim> = Vec::new();
    for mut table in root.tables("claim")? {
        let (id, at) = table.required("id")?;
        table.what = format!("claim {id}");
        table.only(CLAIM_KEYS)?;
        if claims.iter().any(|claim| claim.id == id) {
            return Err(table.error_at(at, format!("there are two claims {id}")));
        }
        claims.push(read_claim(&table, id, eras, cells)?);
    }
    Ok(claims)
}

fn read_claim(table: &Table<'_>, id: String, eras: Eras<'_>, cells: &[SweepCells]) -> Result<Claim, FileError> {
    let sweep = table.text("sweep")?;
    if let Some((name, at)) = &sweep
        && !cells.iter().any(|cells| cells.name == *name)
    {
        let near = did_you_mean(name, cells.iter().map(|cells| cells.name.as_str()));
        return Err(table.error_at(at, format!("'{name}' is not a sweep of this file{near}")));
    }
    let none = BTreeMap::new();
    let sweep = sweep.as_ref().map(|(name, _)| name.as_str());
    let mut scope = Scope { series: eras.then, sweeps: cells, sweep, figures: &none, probes: PROBES };
    let figures = read_figures(table, scope)?;
    scope.figures = &figures;
    let said =
        |key: &str| -> Result<String, FileError> { Ok(table.text(key)?.map_or_else(String::new, |(text, _)| text)) };
    let now = Scope { series: eras.now, figures: &none, ..scope };
    Ok(Claim {
        claim: table.required("claim")?.0,
        published: said("published")?,
        setting: Setting { on: said("on")?, same: said("same")?, not_same: said("not_same")? },
        then: read_check(table, table, scope)?,
        now: read_now(table, now)?,
        otherwise: read_otherwise(table, scope, now)?,
        instead: read_sentence(table, "instead", scope)?,
        needs: read_needs(table)?,
        margin: read_margin(table)?,
        id,
        figures: figures.clone(),
    })
}

/// `now`: the same figures with today's series, and its own sentences.
fn read_now(table: &Table<'_>, scope: Scope<'_>) -> Result<Option<Check>, FileError> {
    let Some(now) = table.table("now", format!("'now' of {}", table.what))? else { return Ok(None) };
    now.only(&["why_holds", "why_differs"])?;
    let figures = read_figures(table, scope)?;
    read_check(table, &now, Scope { figures: &figures, ..scope }).map(Some)
}

/// `otherwise`: a check of its own over the same figures, then and now, for where those of the first are missing.
fn read_otherwise(
    table: &Table<'_>,
    then: Scope<'_>,
    now: Scope<'_>,
) -> Result<Option<(Check, Option<Check>)>, FileError> {
    let Some(other) = table.table("otherwise", format!("'otherwise' of {}", table.what))? else { return Ok(None) };
    other.only(&["check", "show", "why_holds", "why_differs"])?;
    let figures = read_figures(table, now)?;
    let has_now = table.get("now").is_some();
    let now = has_now.then(|| read_check(&other, &other, Scope { figures: &figures, ..now })).transpose()?;
    Ok(Some((read_check(&other, &other, then)?, now)))
}

/// A claim's check; `words` has the sentences that say why.
fn read_check(table: &Table<'_>, words: &Table<'_>, scope: Scope<'_>) -> Result<Check, FileError> {
    let required = |table: &Table<'_>, key: &str| -> Result<Sentence, FileError> {
        read_sentence(table, key, scope)?.ok_or_else(|| table.error(format!("{} lacks '{key} = \"...\"'", table.what)))
    };
    let (check, at) = table.required("check")?;
    Ok(Check {
        check: parse_condition(&check, scope).map_err(|error| in_text(table, "check", at, &check, error))?,
        show: required(table, "show")?,
        why_holds: required(words, "why_holds")?,
        why_differs: required(words, "why_differs")?,
    })
}

fn read_sentence(table: &Table<'_>, key: &str, scope: Scope<'_>) -> Result<Option<Sentence>, FileError> {
    let Some((text, at)) = table.text(key)? else { return Ok(None) };
    Sentence::parse(&text, scope).map(Some).map_err(|error| in_text(table, key, at, &text, error))
}

fn read_figures(table: &Table<'_>, scope: Scope<'_>) -> Result<BTreeMap<String, super::expr::Expr>, FileError> {
    let mut figures = BTreeMap::new();
    let Some(named) = table.table("figures", format!("figures of {}", table.what))? else {
        return Ok(figures);
    };
    for (name, _, value) in named.entries() {
        let (text, at) = match value.get_ref() {
            DeValue::String(text) => (text.to_string(), value),
            other => {
                return Err(named.error_at(value, format!("a figure is an expression in quotes, not {}", kind(other))));
            }
        };
        let figure = parse_number(&text, scope);
        let figure = figure.map_err(|error| in_text(table, &format!("figure '{name}'"), at, &text, error))?;
        figures.insert(name.to_owned(), figure);
    }
    Ok(figures)
}

fn read_margin(table: &Table<'_>) -> Result<f64, FileError> {
    const MARGIN: f64 = 0.10;
    let Some((text, at)) = table.text("margin")? else { return Ok(MARGIN) };
    text.strip_suffix('%')
        .and_then(|percent| percent.trim().parse::<f64>().ok())
        .filter(|percent| (0.0..=100.0).contains(percent))
        .map(|percent| percent / 100.0)
        .ok_or_else(|| table.error_at(at, format!("'{text}' is not a margin; write for example \"10%\"")))
}

fn in_text(table: &Table<'_>, key: &str, at: &Value<'_>, text: &str, error: ExprError) -> FileError {
    let mut placed = table.error_at(at, format!("{}, {key}: {}", table.what, error.why));
    placed.expression = Some((text.to_owned(), error.at));
    placed
}
