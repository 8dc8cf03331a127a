//! What is compared: the time that a run takes, a number that the program prints, or how often it takes its locks.

use regex_lite::Regex;

use super::modes::Goal;

/// What is compared.
#[derive(Clone, Debug)]
pub enum Figure {
    /// Seconds from start to end; less is better.
    Elapsed,
    /// A number that it prints.
    Printed(Metric),
    /// Acquisitions of its locks a second; more is better.
    Acquisitions,
    /// The same in the slow part of a run.
    Pace(Goal),
}

impl Figure {
    /// The expression that finds it, if it is printed.
    pub fn metric(&self) -> Option<&Metric> {
        match self {
            Figure::Printed(metric) => Some(metric),
            _ => None,
        }
    }

    /// Whether it says how much a run did, rather than how long that took.
    pub fn is_work(&self) -> bool {
        match self {
            Figure::Elapsed => false,
            Figure::Printed(metric) => metric.higher,
            Figure::Acquisitions | Figure::Pace(_) => true,
        }
    }
}

/// A number among what a program prints.
#[derive(Clone, Debug)]
pub struct Metric {
    regex: Regex,
    label: Option<String>,
    /// Whether more is better.
    pub higher: bool,
}

impl Metric {
    /// From the user's expression: its first group is the number, or all of it without a group.
    ///
    /// # Errors
    /// It is no regular expression.
    pub fn new(expression: &str, higher: bool) -> Result<Metric, String> {
        let regex = Regex::new(expression).map_err(|why| {
            format!(
                "--metric '{expression}': {why}; give a regular expression, as in --metric 'ops/sec: ([0-9.]+)' \
                --higher"
            )
        })?;
        Ok(Metric { regex, label: None, higher })
    }

    /// One that was found among what a program prints, and what reports call it.
    ///
    /// # Errors
    /// It is no regular expression.
    pub fn found(expression: &str, label: &str, higher: bool) -> Result<Metric, String> {
        Ok(Metric { label: Some(label.to_owned()), ..Metric::new(expression, higher)? })
    }

    /// What reports call it.
    pub fn label(&self) -> &str {
        self.label.as_deref().unwrap_or_else(|| self.expression())
    }

    /// The expression.
    pub fn expression(&self) -> &str {
        self.regex.as_str()
    }

    /// The last number in the output; in stdout, else in stderr.
    pub fn find(&self, stdout: &str, stderr: &str) -> Option<f64> {
        [stdout, stderr].into_iter().find_map(|text| self.last(text))
    }

    fn last(&self, text: &str) -> Option<f64> {
        let numbers = self.matches(text).filter_map(|found| found.trim().replace(',', "").parse::<f64>().ok());
        numbers.filter(|number| number.is_finite() && *number > 0.0).last()
    }

    fn matches<'t>(&self, text: &'t str) -> impl Iterator<Item = &'t str> {
        let groups = self.regex.captures_iter(text);
        groups.filter_map(|captures| captures.get(1).or_else(|| captures.get(0))).map(|found| found.as_str())
    }

    /// Why no number was found: a sentence.
    pub fn why_none(&self, stdout: &str, stderr: &str) -> String {
        let expression = self.expression();
        match [stdout, stderr].into_iter().find_map(|text| self.matches(text).last()) {
            None => format!(
                "nothing in its output matches '{expression}'; give an expression that matches a line of its output"
            ),
            Some(found) => format!(
                "'{expression}' finds '{}', and only numbers above 0 can be compared, by their ratios; give an \
                 expression that finds one, in its first group",
                crate::text::cut(found.trim(), 40)
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_number_counts() {
        let metric = Metric::new("ops/sec: ([0-9.,]+)", true).unwrap();
        assert_eq!(metric.find("ops/sec: 10\nops/sec: 1,250.5\n", ""), Some(1250.5));
        assert_eq!(metric.find("nothing", "ops/sec: 3"), Some(3.0));
        assert_eq!(metric.find("ops/sec: 0", "ops/sec: many"), None, "a ratio to zero says nothing");
        assert_eq!(Metric::new("[0-9]+", false).unwrap().find("a 12 b", ""), Some(12.0));
        assert!(metric.why_none("done", "").contains("nothing in its output matches"));
        for none in ["0", "-5", "inf", "-inf", "nan", "1e999", "many"] {
            let metric = Metric::new("ops/sec: (.*)", true).unwrap();
            let printed = format!("ops/sec: {none}\n");
            assert_eq!(metric.find("", &printed), None, "{none}");
            assert!(
                metric.why_none("", &printed).contains(&format!("finds '{none}', and only numbers above 0")),
                "{none}"
            );
        }
        assert!(Metric::new("(", true).unwrap_err().contains("--metric"));
    }
}
