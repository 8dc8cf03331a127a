//! A gate as people and machines read it: a screen, a step summary, JUnit, JSON.

use schemars::JsonSchema;
use serde::Serialize;

use super::document::{Column, Document, Table};
use super::number;
use crate::text;
use crate::trial::figure::Figure;
use crate::trial::gate::{Found, Pair, Rules, Verdict};
use crate::trial::ratio::Ratio;

/// The two builds, as shells read their commands.
#[derive(Clone, Debug)]
pub struct Builds {
    /// The one to compare with.
    pub old: String,
    /// The one to judge.
    pub new: String,
}

/// The verdict in a sentence.
pub fn headline(rules: &Rules, found: &Found) -> String {
    let limit = share(rules.fail_on);
    let measured = found.slowdown.as_ref().map_or_else(String::new, |ratio| format!(" {}", interval(ratio)));
    match (found.verdict, &found.slowdown) {
        (Verdict::Slower, Some(ratio)) => format!("The new build is {} slower{measured}.", share(ratio.ratio - 1.0)),
        (Verdict::Faster, Some(ratio)) => {
            format!("The new build is {} faster{measured}.", share(1.0 / ratio.ratio - 1.0))
        }
        (Verdict::Same, Some(ratio)) if ratio.low > 1.0 => {
            format!("The new build is {} slower{measured}: within the limit of {limit}.", share(ratio.ratio - 1.0))
        }
        (Verdict::Same, _) => format!("The same within {limit}{measured}."),
        (Verdict::Stopped, _) => "Stopped before it was decided.".to_owned(),
        _ => format!(
            "Cannot tell whether the new build is {limit} slower{measured}: give a larger --budget, or a quieter machine."
        ),
    }
}

/// `0.3%`, `12%`.
fn share(value: f64) -> String {
    let percent = value * 100.0;
    if percent < 9.95 { format!("{}%", (percent * 10.0).round() / 10.0) } else { format!("{percent:.0}%") }
}

/// Three digits: what decides is a matter of percents.
fn interval(ratio: &Ratio) -> String {
    format!("({:.3}x [{:.3}, {:.3}])", ratio.ratio, ratio.low, ratio.high)
}

/// What was compared, in a sentence.
fn method(rules: &Rules, found: &Found) -> String {
    let what = match &found.figure {
        Figure::Printed(metric) => format!("the number '{}' that both print", text::clean(metric.label())),
        _ => "elapsed time".to_owned(),
    };
    let fixed = found.fixed_s.map_or_else(String::new, |seconds| {
        format!(" Both run for {} whatever is done, so their time was not compared.", number::time_ns(seconds * 1e9))
    });
    format!(
        "Compared: {what}, new by old; above 1 is slower. {} in random order, in {} (seed {}).{fixed}",
        number::counted(found.pairs.len(), "pair"),
        number::time_ns(found.spent_s * 1e9),
        rules.seed
    )
}

/// Figures with their interval.
fn rows(found: &Found) -> Vec<[String; 3]> {
    let names = ["CPU time", "voluntary switches", "other switches"];
    let all = [("slowdown", found.slowdown)].into_iter().chain(names.into_iter().zip(found.beside));
    let row = |(name, ratio): (&str, Option<Ratio>)| {
        let ratio = ratio?;
        Some([name.to_owned(), format!("{:.3}x", ratio.ratio), format!("[{:.3}-{:.3}]", ratio.low, ratio.high)])
    };
    all.filter_map(row).collect()
}

/// For a terminal or a log.
pub fn screen(rules: &Rules, found: &Found) -> Document {
    let mut screen = Document::default();
    screen.headline(headline(rules, found));
    screen.gap();
    let mut table = Table::new([Column::left("new by old").whole(), Column::right("ratio"), Column::fixed("interval")]);
    for row in rows(found) {
        table.row(row);
    }
    screen.table(table);
    screen.gap();
    screen.paragraph(method(rules, found));
    screen
}

/// As GitHub's step summary: Markdown.
pub fn markdown(builds: &Builds, rules: &Rules, found: &Found) -> String {
    // What stands in backquotes needs no other care than about backquotes.
    let code = |line: &str| format!("`{}`", text::clean(line).replace('`', "'"));
    let mut lines = vec![
        format!("### holdup gate: {}", word(found.verdict)),
        String::new(),
        headline(rules, found),
        String::new(),
        "| new by old | ratio | interval |".to_owned(),
        "|---|---:|---|".to_owned(),
    ];
    lines.extend(rows(found).into_iter().map(|row| format!("| {} |", row.join(" | "))));
    lines.push(String::new());
    lines.push(format!("Old: {}, new: {}. {}", code(&builds.old), code(&builds.new), method(rules, found)));
    lines.join("\n") + "\n"
}

/// As a line that GitHub shows beside the job; nothing for what passes.
pub fn annotation(rules: &Rules, found: &Found) -> Option<String> {
    let level = match found.verdict {
        Verdict::Slower => "error",
        Verdict::CannotTell => "warning",
        _ => return None,
    };
    Some(format!("::{level} title=holdup gate::{}", headline(rules, found).replace('%', "%25")))
}

/// As JUnit's XML: one test, which fails if the new build is slower; what cannot be told is an error.
pub fn junit(builds: &Builds, rules: &Rules, found: &Found) -> String {
    let says = escaped(&headline(rules, found));
    let (failures, errors, inner) = match found.verdict {
        Verdict::Slower => (1, 0, format!("<failure message=\"{says}\"/>")),
        Verdict::CannotTell | Verdict::Stopped => (0, 1, format!("<error message=\"{says}\"/>")),
        Verdict::Faster | Verdict::Same => (0, 0, format!("<system-out>{says}</system-out>")),
    };
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites tests=\"1\" failures=\"{failures}\" \
         errors=\"{errors}\">\n  <testsuite name=\"holdup gate\" tests=\"1\" failures=\"{failures}\" \
         errors=\"{errors}\" time=\"{:.3}\">\n    <testcase classname=\"holdup.gate\" name=\"{}\" time=\"{:.3}\">\n      \
         {inner}\n    </testcase>\n  </testsuite>\n</testsuites>\n",
        found.spent_s,
        escaped(&builds.new),
        found.spent_s
    )
}

fn escaped(line: &str) -> String {
    text::clean(line).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Slower => "slower",
        Verdict::Faster => "faster",
        Verdict::Same => "the same",
        Verdict::CannotTell => "cannot tell",
        Verdict::Stopped => "stopped",
    }
}

/// A gate as JSON: docs/holdup-gate-1.schema.json, which is generated from it, describes every key.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "A gate of holdup")]
pub(super) struct Json<'a> {
    /// Name and version of this form.
    #[schemars(extend("const" = "holdup-gate-1"))]
    schema: &'static str,
    /// The build to compare with, as a shell reads its command.
    old: &'a str,
    /// The build to judge.
    new: &'a str,
    /// What is said of it.
    verdict: Verdict,
    /// The verdict in a sentence.
    says: String,
    /// The slow-down that fails, as a share.
    fail_on: f64,
    /// New by old, above 1 for slower.
    slowdown: Option<Ratio>,
    /// CPU time, new by old, for the same work.
    cpu_ratio: Option<Ratio>,
    /// Switches because a thread waited, likewise.
    voluntary_switches_ratio: Option<Ratio>,
    /// Other switches, likewise.
    involuntary_switches_ratio: Option<Ratio>,
    /// The number that both print and that is compared; null for elapsed time.
    metric: Option<&'a str>,
    /// Seconds for which both run whatever is done, where that was noticed.
    fixed_s: Option<f64>,
    /// Seed of the order.
    seed: u64,
    /// What was allowed.
    budget_s: f64,
    /// What it took.
    spent_s: f64,
    /// Every pair.
    pairs: &'a [Pair],
    /// Version and machine: pairs of name and value.
    environment: Vec<(String, String)>,
}

/// The text.
///
/// # Errors
/// A key is not text.
pub fn json(
    builds: &Builds,
    rules: &Rules,
    found: &Found,
    environment: Vec<(String, String)>,
) -> Result<String, serde_json::Error> {
    let [cpu_ratio, voluntary_switches_ratio, involuntary_switches_ratio] = found.beside;
    let json = Json {
        schema: "holdup-gate-1",
        old: &builds.old,
        new: &builds.new,
        verdict: found.verdict,
        says: headline(rules, found),
        fail_on: rules.fail_on,
        slowdown: found.slowdown,
        cpu_ratio,
        voluntary_switches_ratio,
        involuntary_switches_ratio,
        metric: found.figure.metric().map(|metric| metric.expression()),
        fixed_s: found.fixed_s,
        seed: rules.seed,
        budget_s: rules.budget.as_secs_f64(),
        spent_s: found.spent_s,
        pairs: &found.pairs,
        environment,
    };
    serde_json::to_string_pretty(&json).map(|text| text + "\n")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn found(verdict: Verdict, slowdown: f64) -> Found {
        let ratio = Ratio { ratio: slowdown, low: slowdown - 0.02, high: slowdown + 0.02, n: 20 };
        let (figure, pairs) = (Figure::Elapsed, Vec::new());
        let beside = [Some(ratio), None, None];
        Found { verdict, slowdown: Some(ratio), figure, fixed_s: None, beside, pairs, spent_s: 12.0 }
    }

    #[test]
    fn every_form_says_the_same() {
        let rules = Rules { budget: Duration::from_secs(60), fail_on: 0.05, seed: 7, code: 0, words: None };
        let builds = Builds { old: "./old".to_owned(), new: "./new --sort '<a & \"b\">'".to_owned() };
        let slower = found(Verdict::Slower, 1.12);
        assert_eq!(headline(&rules, &slower), "The new build is 12% slower (1.120x [1.100, 1.140]).");
        assert!(markdown(&builds, &rules, &slower).contains("| slowdown | 1.120x | [1.100-1.140] |"));
        assert_eq!(
            annotation(&rules, &slower).unwrap(),
            "::error title=holdup gate::The new build is 12%25 slower (1.120x [1.100, 1.140])."
        );
        let xml = junit(&builds, &rules, &slower);
        assert!(xml.contains("failures=\"1\"") && xml.contains("&lt;a &amp; &quot;b&quot;&gt;"), "{xml}");
        let same = found(Verdict::Same, 1.001);
        assert!(headline(&rules, &same).starts_with("The same within 5%"));
        assert_eq!(annotation(&rules, &same), None);
        assert!(junit(&builds, &rules, &same).contains("failures=\"0\" errors=\"0\""));
        let within = headline(&rules, &found(Verdict::Same, 1.03));
        assert!(within.contains("3% slower") && within.contains("within the limit of 5%"), "{within}");
        assert!(junit(&builds, &rules, &found(Verdict::CannotTell, 1.1)).contains("errors=\"1\""));
    }
}
