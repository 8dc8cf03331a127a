//! Numbers as people read them: three digits, a unit that fits, intervals in brackets.

use crate::metric::Metric;
use crate::stats::Estimate;

/// A plain number with three significant digits: `0`, `0.0123`, `8.1`, `412`, `12300`.
pub fn plain(value: f64) -> String {
    if !value.is_finite() {
        return "n/a".to_owned();
    }
    if value == 0.0 {
        return "0".to_owned();
    }
    if value.abs() < 1e-6 || value.abs() >= 1e15 {
        return format!("{value:.1e}");
    }
    format!("{:.*}", decimals(value), rounded(value))
}

/// A large number with k, M, G or T behind it: `41.2M`.
pub fn scaled(value: f64) -> String {
    const STEPS: [(f64, &str); 4] = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    let size = rounded(value.abs());
    match STEPS.iter().find(|(step, _)| size >= *step) {
        Some((step, letter)) if size < 1e15 => format!("{}{letter}", plain(value / step)),
        _ => plain(value),
    }
}

/// A count or a rate of events: `3`, `412`, `12.3k`, and digits behind the point only where it has some.
pub fn count(value: f64) -> String {
    match value {
        whole if whole.abs() < 1000.0 && whole.fract() == 0.0 => format!("{whole:.0}"),
        value if value > 0.0 && value < 0.01 => "<0.01".to_owned(),
        value => scaled(value),
    }
}

/// A span of time given in nanoseconds: `0.81ns`, `24.1ns`, `1.23us`, `200ms`, `2s`.
pub fn time_ns(ns: f64) -> String {
    const STEPS: [(f64, &str); 3] = [(1e9, "s"), (1e6, "ms"), (1e3, "us")];
    if !ns.is_finite() {
        return "n/a".to_owned();
    }
    let size = rounded(ns.abs());
    match STEPS.iter().find(|(step, _)| size >= *step) {
        Some((step, unit)) => format!("{}{unit}", plain(ns / step)),
        None if size != 0.0 && size < 0.01 => "<0.01ns".to_owned(),
        None if size != 0.0 && size < 1.0 => format!("{ns:.2}ns"),
        None => format!("{}ns", plain(ns)),
    }
}

/// A small number of events per operation; what rounds to nothing but is not is `<0.001`.
pub fn rate(value: f64) -> String {
    if value > 0.0 && value < 0.001 { "<0.001".to_owned() } else { scaled(value) }
}

/// A ratio: two decimals around one, fewer above ten, two digits below a tenth.
pub fn ratio(value: f64) -> String {
    format_like(value, value)
}

/// A ratio with its interval: `0.87 [0.84-0.91]`; without one where a single value is all there is.
pub fn ratio_interval(estimate: &Estimate) -> String {
    let Estimate { median, low, high, n } = *estimate;
    match n {
        0 | 1 => ratio(median),
        _ => format!("{} [{}-{}]", ratio(median), format_like(low, low), format_like(high, high)),
    }
}

/// A metric's value with its unit.
pub fn of_metric(metric: &Metric, value: f64) -> String {
    match metric.unit {
        "ns" => time_ns(value),
        "ms" => time_ns(value * 1e6),
        "1/s" => format!("{}/s", scaled(value)),
        _ if metric.name.ends_with("_per_op") => rate(value),
        _ if metric.name == "jain" || metric.name.ends_with("_share") => format!("{value:.2}"),
        "" => scaled(value),
        unit => format!("{} {unit}", plain(value)),
    }
}

/// As [`of_metric`], with digits also for what a table calls `<0.001`.
pub fn exact(metric: &Metric, value: f64) -> String {
    match of_metric(metric, value) {
        rounded if rounded.starts_with('<') => format!("{value:.1e}{}", metric.unit),
        text => text,
    }
}

/// A metric's median and interval: `24.1ns [23.8ns-24.6ns]`.
pub fn metric_interval(metric: &Metric, estimate: &Estimate) -> String {
    let text = |value| exact(metric, value);
    // A unit that is a word, or per second, stands once.
    let bare = |value| text(value).split(' ').next().unwrap_or_default().trim_end_matches("/s").to_owned();
    match estimate.n {
        0 | 1 => text(estimate.median),
        _ => format!("{} [{}-{}]", text(estimate.median), bare(estimate.low), bare(estimate.high)),
    }
}

/// A share of one as whole percent; what is not nothing is at least `<1%`.
pub fn percent(share: f64) -> String {
    if share > 0.0 && share < 0.005 { "<1%".to_owned() } else { format!("{:.0}%", share * 100.0) }
}

/// Words for a count: `1 run`, `5 runs`, `2 processes`.
pub fn counted(n: usize, noun: &str) -> String {
    format!("{n} {}", plural(n as u64, noun))
}

/// The same with a count that may be large: `12.3k switches`.
pub fn counted_roughly(n: u64, noun: &str) -> String {
    format!("{} {}", count(n as f64), plural(n, noun))
}

fn plural(n: u64, noun: &str) -> String {
    let hisses = ["s", "x", "ch", "sh"].iter().any(|end| noun.ends_with(end));
    let ending = match n {
        1 => "",
        _ if hisses => "es",
        _ => "s",
    };
    format!("{noun}{ending}")
}

/// Seconds since 1970 as a UTC date and time: `2026-01-31 08:05:00 UTC`.
pub fn utc(unix_s: i64) -> String {
    let (days, second) = (unix_s.div_euclid(86_400), unix_s.rem_euclid(86_400));
    // Days to a civil date in the proleptic Gregorian calendar, with years that begin in March so that the leap day is
    // the last day of its year.
    let day = days + 719_468;
    let era = day.div_euclid(146_097);
    let of_era = day.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * of_year + 2) / 153;
    let day_of_month = of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day_of_month:02} {hour:02}:{minute:02}:{second:02} UTC")
}

/// Two decimals from a tenth to ten; two or three significant digits elsewhere.
fn format_like(value: f64, size: f64) -> String {
    match size.abs() {
        0.0 => "0".to_owned(),
        size if (0.0995..9.995).contains(&size) => format!("{value:.2}"),
        size if size < 0.0995 => two_digits(value),
        size if size < 99.95 => format!("{value:.1}"),
        size if size < 9_995.0 => format!("{value:.0}"),
        _ => scaled(value),
    }
}

/// A small value with two significant digits.
fn two_digits(value: f64) -> String {
    match value.abs() {
        size if size < 1e-6 => format!("{value:.1e}"),
        size => format!("{value:.*}", (1 - size.log10().floor() as i32).clamp(0, 9) as usize),
    }
}

/// The value with three significant digits.
fn rounded(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let place = 10f64.powi(2 - value.abs().log10().floor() as i32);
    (value * place).round() / place
}

/// Decimals that show three significant digits.
fn decimals(value: f64) -> usize {
    let magnitude = rounded(value).abs().log10().floor() as i32;
    (2 - magnitude).clamp(0, 9) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_three_digits() {
        for (value, text) in
            [(0.0, "0"), (0.01234, "0.0123"), (8.1, "8.10"), (9.996, "10.0"), (412.4, "412"), (12345.0, "12300")]
        {
            assert_eq!(plain(value), text);
        }
        for (value, text) in
            [(999.0, "999"), (999.7, "1.00k"), (41_234_567.0, "41.2M"), (2.5e9, "2.50G"), (0.5, "0.500")]
        {
            assert_eq!(scaled(value), text);
        }
        assert_eq!(plain(f64::NAN), "n/a");
    }

    #[test]
    fn times_take_the_unit_that_fits() {
        for (ns, text) in [
            (0.0, "0ns"),
            (0.001, "<0.01ns"),
            (0.814, "0.81ns"),
            (24.12, "24.1ns"),
            (999.9, "1.00us"),
            (1234.0, "1.23us"),
            (200e6, "200ms"),
            (2e9, "2.00s"),
        ] {
            assert_eq!(time_ns(ns), text);
        }
    }

    #[test]
    fn counts_have_their_plural() {
        assert_eq!([counted(1, "run"), counted(0, "run"), counted(2, "process")], ["1 run", "0 runs", "2 processes"]);
        assert_eq!([1, 12_345].map(|n| counted_roughly(n, "switch")), ["1 switch", "12.3k switches"]);
    }

    #[test]
    fn ratios_say_how_sure_they_are() {
        let of = |median, low, high, n| ratio_interval(&Estimate { median, low, high, n });
        assert_eq!(of(0.87, 0.84, 0.914, 5), "0.87 [0.84-0.91]");
        assert_eq!(of(21.34, 8.0, 139.2, 5), "21.3 [8.00-139]");
        assert_eq!(of(0.0412, 0.0401, 0.0433, 5), "0.041 [0.040-0.043]");
        assert_eq!(of(0.87, 0.87, 0.87, 1), "0.87");
    }

    #[test]
    fn a_date_is_the_calendars() {
        assert_eq!(utc(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(utc(951_782_400), "2000-02-29 00:00:00 UTC");
        assert_eq!(utc(1_735_689_599), "2024-12-31 23:59:59 UTC");
        assert_eq!(utc(-1), "1969-12-31 23:59:59 UTC");
    }
}
