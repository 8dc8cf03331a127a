//! Amounts of work and spans of time as users write them: `100ns`, `20units`, `uniform:0..1us`, `exp:500ns`.

use std::fmt;

/// How much work to do, drawn anew for every operation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Work {
    /// Always the same amount.
    Fixed(Amount),
    /// Uniform between two amounts of one unit, both included.
    Uniform(Amount, Amount),
    /// Exponential with this mean: the gaps of a Poisson stream.
    Exponential(Amount),
}

/// An amount of work: in counted loop steps, or in nanoseconds that the worker converts by its own calibration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Amount {
    /// Nanoseconds of a thread's own running time.
    Ns(f64),
    /// Steps of the calibrated loop.
    Units(f64),
}

impl Work {
    /// No work at all.
    pub const NONE: Work = Work::Fixed(Amount::Ns(0.0));

    /// Whether every draw is zero.
    pub fn is_none(self) -> bool {
        matches!(self, Work::Fixed(amount) if amount.value() == 0.0)
    }

    /// Reads what a user wrote; the error says what is expected.
    pub fn parse(text: &str) -> Result<Work, String> {
        if let Some(range) = text.strip_prefix("uniform:") {
            let (low, high) = range.split_once("..").ok_or_else(|| expected(text))?;
            let high = Amount::parse(high)?;
            let low = Amount::parse_like(low, high)?;
            if low.value() > high.value() {
                return Err(format!("'{text}' runs backwards; write the smaller amount first"));
            }
            return Ok(Work::Uniform(low, high));
        }
        match text.strip_prefix("exp:") {
            Some(mean) => Ok(Work::Exponential(Amount::parse(mean)?)),
            None => Ok(Work::Fixed(Amount::parse(text)?)),
        }
    }

    /// The mean amount.
    pub fn mean(self) -> Amount {
        match self {
            Work::Fixed(amount) | Work::Exponential(amount) => amount,
            Work::Uniform(Amount::Units(low), Amount::Units(high)) => Amount::Units((low + high) / 2.0),
            Work::Uniform(low, high) => Amount::Ns((low.value() + high.value()) / 2.0),
        }
    }
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Work::Fixed(amount) => write!(f, "{amount}"),
            Work::Uniform(low, high) => write!(f, "uniform:{low}..{high}"),
            Work::Exponential(mean) => write!(f, "exp:{mean}"),
        }
    }
}

impl Amount {
    /// The bare number, in the amount's own unit.
    pub fn value(self) -> f64 {
        match self {
            Amount::Ns(value) | Amount::Units(value) => value,
        }
    }

    /// Steps of the calibrated loop when one step takes `unit_ns`.
    pub fn units(self, unit_ns: f64) -> f64 {
        match self {
            Amount::Units(units) => units,
            Amount::Ns(ns) => ns / unit_ns,
        }
    }

    fn parse(text: &str) -> Result<Amount, String> {
        if let Some(number) = text.strip_suffix("units").or_else(|| text.strip_suffix("unit")) {
            return number
                .trim()
                .parse::<f64>()
                .ok()
                .filter(|n| n.is_finite() && *n >= 0.0)
                .map(Amount::Units)
                .ok_or_else(|| expected(text));
        }
        parse_ns(text).map(Amount::Ns).map_err(|_| expected(text))
    }

    /// The lower end of a range may leave out its unit: `uniform:0..10units`.
    fn parse_like(text: &str, like: Amount) -> Result<Amount, String> {
        if let (Ok(number), Amount::Units(_)) = (text.parse::<f64>(), like) {
            return Ok(Amount::Units(number));
        }
        match (Amount::parse(text)?, like) {
            (low @ Amount::Ns(_), Amount::Ns(_)) | (low @ Amount::Units(_), Amount::Units(_)) => Ok(low),
            _ => Err(format!("'{text}' and the range's other end have different units; use one unit for both")),
        }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Amount::Ns(ns) => f.write_str(&format_ns(ns)),
            Amount::Units(units) => write!(f, "{units}units"),
        }
    }
}

/// Reads a span of time such as `0`, `250ns`, `1.5us`, `20ms`, `2s`; a bare number is only allowed for zero.
pub fn parse_ns(text: &str) -> Result<f64, String> {
    const SCALES: [(&str, f64); 5] = [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)];
    let wrong = || format!("'{text}' is not a span of time; write for example 250ns, 1.5us, 20ms or 2s");
    if text == "0" {
        return Ok(0.0);
    }
    let (number, scale) =
        SCALES.iter().find_map(|(unit, scale)| Some((text.strip_suffix(unit)?, scale))).ok_or_else(wrong)?;
    number.trim().parse::<f64>().ok().filter(|n| n.is_finite() && *n >= 0.0).map(|n| n * scale).ok_or_else(wrong)
}

/// Writes a span of time in the largest unit that keeps it exact, such that [`parse_ns`] reads it back.
pub fn format_ns(ns: f64) -> String {
    const UNITS: [(&str, f64); 3] = [("s", 1e9), ("ms", 1e6), ("us", 1e3)];
    if ns == 0.0 {
        return "0".to_owned();
    }
    let unit = UNITS.iter().find(|(_, scale)| ns >= *scale && (ns / scale * 1e3).fract() == 0.0);
    match unit {
        Some((unit, scale)) => format!("{}{unit}", ns / scale),
        None => format!("{ns}ns"),
    }
}

fn expected(text: &str) -> String {
    format!("'{text}' is not an amount of work; write for example 0, 100ns, 1us, 20units, uniform:0..1us or exp:500ns")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        for text in
            ["0", "100ns", "1.5us", "20ms", "2s", "20units", "uniform:0..1us", "uniform:100ns..1us", "exp:500ns"]
        {
            let work = Work::parse(text).unwrap();
            assert_eq!(work.to_string(), text);
            assert_eq!(Work::parse(&work.to_string()), Ok(work));
        }
        assert_eq!(Work::parse("uniform:0..10units").unwrap(), Work::Uniform(Amount::Units(0.0), Amount::Units(10.0)));
    }

    #[test]
    fn nonsense_is_refused_with_an_example() {
        for text in [
            "",
            "5",
            "-1ns",
            "1h",
            "nanns",
            "infns",
            "uniform:5us",
            "uniform:2us..1us",
            "uniform:1us..5units",
            "exp:",
            "-3units",
        ] {
            assert!(Work::parse(text).is_err(), "{text}");
        }
    }
}
