//! The language of claims: figures of cells, arithmetic, comparisons, and words to join them.
//!
//! ```text
//! ratio(mutex, critical-section @ threads=1) > 2 and jain(mutex @ threads=8) > 90%
//! ```
//!
//! An expression is read against a [`Scope`]: every sweep, series, factor and value that it names must exist in its
//! file, so that a misspelt claim is an error before the first run and never a silent "not measurable".

use std::collections::BTreeMap;

use holdup_bench::spec::{FACTORS, Factor, Spec};
use holdup_bench::suggest::did_you_mean;

use crate::metric::{METRICS, Metric};

/// An expression whose names are all resolved.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// A number; `75%` is 0.75.
    Number(f64),
    /// A figure of one or more cells.
    Call(Call),
    /// A figure that a probe of the machine gives, such as the cost of a clock.
    Probe(String),
    /// The number with its sign turned.
    Negate(Box<Expr>),
    /// Two numbers make a third.
    Arithmetic(Arithmetic, Box<Expr>, Box<Expr>),
    /// The smallest or the largest of several numbers.
    Extreme {
        /// The largest, not the smallest.
        largest: bool,
        /// At least one number.
        of: Vec<Expr>,
    },
    /// Two numbers make a verdict.
    Compare(Comparison, Box<Expr>, Box<Expr>),
    /// Both hold.
    And(Box<Expr>, Box<Expr>),
    /// At least one holds.
    Or(Box<Expr>, Box<Expr>),
    /// It does not hold.
    Not(Box<Expr>),
}

/// The four operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arithmetic {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`
    Divide,
}

/// The ways to compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `<`
    Less,
    /// `<=`
    AtMost,
    /// `>`
    Greater,
    /// `>=`
    AtLeast,
    /// `==`, for counts and places; measured times are never equal.
    Equal,
    /// `~`: neither is more than 1.25 times the other.
    About,
}

/// Two numbers are about equal when neither is more than this many times the other.
pub const ABOUT: f64 = 1.25;

/// A figure taken from cells.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// How the figure is made.
    pub function: Function,
    /// Which figure of each sample it is made from.
    pub metric: Named,
    /// The cells, one selection per operand.
    pub cells: Vec<Selection>,
    /// The factor along which a function such as `linear` looks.
    pub along: Option<&'static str>,
    /// The two values of that factor which `growth` compares.
    pub between: Option<(String, String)>,
}

/// A metric, compared by its name.
#[derive(Clone, Copy, Debug)]
pub struct Named(pub &'static Metric);

impl PartialEq for Named {
    fn eq(&self, other: &Named) -> bool {
        self.0.name == other.0.name
    }
}

/// Cells of one sweep, by the factor values that they must have.
#[derive(Clone, Debug, PartialEq)]
pub struct Selection {
    /// The sweep.
    pub sweep: String,
    /// Factor and canonical value.
    pub fixed: Vec<(&'static str, String)>,
}

impl Selection {
    /// Whether a cell belongs to it.
    pub fn takes(&self, sweep: &str, spec: &Spec) -> bool {
        self.sweep == sweep && self.fixed.iter().all(|(name, value)| spec.get(name).is_ok_and(|has| has == *value))
    }

    /// The same cells, narrowed to one more value.
    pub fn with(&self, factor: &'static str, value: &str) -> Selection {
        let mut narrowed = self.clone();
        narrowed.fixed.retain(|(name, _)| *name != factor);
        narrowed.fixed.push((factor, value.to_owned()));
        narrowed
    }
}

impl std::fmt::Display for Selection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.sweep)?;
        self.fixed.iter().try_for_each(|(name, value)| write!(f, " {name}={value}"))
    }
}

/// How a figure is made from cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// The metric's median over the runs of one cell.
    Median,
    /// Its mean.
    Mean,
    /// How many times the first lock's figure is the second's, pairing neighbouring runs.
    Ratio,
    /// How many times the figure at one value of a factor is that at another.
    Growth,
    /// R squared of the least-squares line over a factor.
    Linear,
    /// Largest distance from that line, as a share of the line.
    Bend,
    /// Its slope.
    Slope,
    /// The largest figure over the values of a factor.
    Highest,
    /// The smallest.
    Lowest,
    /// Largest divided by smallest.
    Spread,
    /// The factor's value where the figure is largest.
    WhereHighest,
    /// The factor's value where the figure is smallest.
    WhereLowest,
    /// Largest divided by smallest over the runs of one cell.
    RunSpread,
    /// The largest among the runs of one cell.
    MostRun,
    /// The metric's median over the slower half of a cell's runs.
    SlowRuns,
    /// The metric's median over the faster half.
    FastRuns,
}

/// One row of the table of functions.
pub struct FunctionRow {
    /// Name in expressions.
    pub name: &'static str,
    /// How it is written.
    pub form: &'static str,
    /// What it yields, in one line.
    pub help: &'static str,
    function: Function,
    operands: usize,
    along: bool,
    between: bool,
    least_values: usize,
}

/// Every function over cells but the metrics themselves, which are functions of the same name.
pub static FUNCTIONS: &[FunctionRow] = &[
    FunctionRow {
        name: "mean",
        form: "mean([METRIC,] a @ ...)",
        help: "the figure's mean over one cell's runs, for figures that the kernel counts in coarse ticks",
        function: Function::Mean,
        operands: 1,
        along: false,
        between: false,
        least_values: 1,
    },
    FunctionRow {
        name: "ratio",
        form: "ratio([METRIC,] a, b @ ...)",
        help: "how many times a's figure is b's; pairs neighbouring runs, so a and b may differ only in their lock",
        function: Function::Ratio,
        operands: 2,
        along: false,
        between: false,
        least_values: 1,
    },
    FunctionRow {
        name: "growth",
        form: "growth([METRIC,] a, factor, from, to @ ...)",
        help: "how many times the figure at factor=to is that at factor=from; pairs runs of one round",
        function: Function::Growth,
        operands: 1,
        along: true,
        between: true,
        least_values: 2,
    },
    FunctionRow {
        name: "linear",
        form: "linear([METRIC,] a, factor @ ...)",
        help: "R squared of the straight line through the figures over a factor: 1 is straight",
        function: Function::Linear,
        operands: 1,
        along: true,
        between: false,
        least_values: 3,
    },
    FunctionRow {
        name: "bend",
        form: "bend([METRIC,] a, factor @ ...)",
        help: "the largest distance from that line, as a share of the line: 0 is straight",
        function: Function::Bend,
        operands: 1,
        along: true,
        between: false,
        least_values: 3,
    },
    FunctionRow {
        name: "slope",
        form: "slope([METRIC,] a, factor @ ...)",
        help: "that line's slope: the figure's unit per unit of the factor",
        function: Function::Slope,
        operands: 1,
        along: true,
        between: false,
        least_values: 2,
    },
    FunctionRow {
        name: "highest",
        form: "highest([METRIC,] a, factor @ ...)",
        help: "the largest figure over a factor's values",
        function: Function::Highest,
        operands: 1,
        along: true,
        between: false,
        least_values: 2,
    },
    FunctionRow {
        name: "lowest",
        form: "lowest([METRIC,] a, factor @ ...)",
        help: "the smallest figure over a factor's values",
        function: Function::Lowest,
        operands: 1,
        along: true,
        between: false,
        least_values: 2,
    },
    FunctionRow {
        name: "spread",
        form: "spread([METRIC,] a, factor @ ...)",
        help: "the largest figure over a factor's values divided by the smallest",
        function: Function::Spread,
        operands: 1,
        along: true,
        between: false,
        least_values: 2,
    },
    FunctionRow {
        name: "where_highest",
        form: "where_highest([METRIC,] a, factor @ ...)",
        help: "the factor's value at which the figure is largest",
        function: Function::WhereHighest,
        operands: 1,
        along: true,
        between: false,
        least_values: 2,
    },
    FunctionRow {
        name: "where_lowest",
        form: "where_lowest([METRIC,] a, factor @ ...)",
        help: "the factor's value at which the figure is smallest",
        function: Function::WhereLowest,
        operands: 1,
        along: true,
        between: false,
        least_values: 2,
    },
    FunctionRow {
        name: "run_spread",
        form: "run_spread([METRIC,] a @ ...)",
        help: "the largest figure among one cell's runs divided by the smallest",
        function: Function::RunSpread,
        operands: 1,
        along: false,
        between: false,
        least_values: 1,
    },
    FunctionRow {
        name: "most_run",
        form: "most_run([METRIC,] a @ ...)",
        help: "the largest figure among one cell's runs",
        function: Function::MostRun,
        operands: 1,
        along: false,
        between: false,
        least_values: 1,
    },
    FunctionRow {
        name: "slow_runs",
        form: "slow_runs([METRIC,] a @ ...)",
        help: "the figure's median over the slower half of one cell's runs",
        function: Function::SlowRuns,
        operands: 1,
        along: false,
        between: false,
        least_values: 1,
    },
    FunctionRow {
        name: "fast_runs",
        form: "fast_runs([METRIC,] a @ ...)",
        help: "the figure's median over the faster half of one cell's runs",
        function: Function::FastRuns,
        operands: 1,
        along: false,
        between: false,
        least_values: 1,
    },
];

/// The metric of a function that names none.
pub const DEFAULT_METRIC: &str = "time_per_op_ns";

/// What an expression cannot be, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExprError {
    /// Byte in the expression.
    pub at: usize,
    /// What is wrong and what is expected.
    pub why: String,
}

impl ExprError {
    fn new(at: usize, why: impl Into<String>) -> ExprError {
        ExprError { at, why: why.into() }
    }
}

/// A name that stands for factor values, such as `mutex` for `lock=futex-pi`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Series {
    /// The name.
    pub name: String,
    /// Factor and value.
    pub fixed: Vec<(&'static str, String)>,
}

/// The cells of one sweep, in full and with `--quick`.
#[derive(Clone, Debug)]
pub struct SweepCells {
    /// The sweep's name.
    pub name: String,
    /// Every cell of the full sweep.
    pub full: Vec<Spec>,
    /// Every cell of the quick one.
    pub quick: Vec<Spec>,
}

/// What an expression may name.
#[derive(Clone, Copy)]
pub struct Scope<'a> {
    /// Names of series.
    pub series: &'a [Series],
    /// The sweeps.
    pub sweeps: &'a [SweepCells],
    /// The sweep of a series that names none.
    pub sweep: Option<&'a str>,
    /// Figures of the same claim, by name.
    pub figures: &'a BTreeMap<String, Expr>,
    /// Figures of probes.
    pub probes: &'a [&'static str],
}

/// Reads a condition: its value is true or false.
pub fn parse_condition(text: &str, scope: Scope<'_>) -> Result<Expr, ExprError> {
    let expr = parse(text, scope)?;
    match expr.is_condition() {
        true => Ok(expr),
        false => Err(ExprError::new(0, "this is a number; a check compares, for example '... > 2'")),
    }
}

/// Reads a number.
pub fn parse_number(text: &str, scope: Scope<'_>) -> Result<Expr, ExprError> {
    let expr = parse(text, scope)?;
    match expr.is_condition() {
        true => Err(ExprError::new(0, "this compares; a number is needed here")),
        false => Ok(expr),
    }
}

impl Expr {
    /// Whether its value is true or false.
    pub fn is_condition(&self) -> bool {
        matches!(self, Expr::Compare(..) | Expr::And(..) | Expr::Or(..) | Expr::Not(_))
    }

    /// The unit in which people read its value.
    pub fn unit(&self) -> Unit {
        match self {
            Expr::Call(call) => call.unit(),
            Expr::Probe(name) if name.ends_with("_ns") => Unit::Of("ns"),
            Expr::Probe(_) => Unit::Of("CPUs"),
            Expr::Negate(inner) => inner.unit(),
            Expr::Extreme { of, .. } => of.first().map_or(Unit::Plain, Expr::unit),
            Expr::Arithmetic(operation, left, right) => unit_of(*operation, left, right),
            _ => Unit::Plain,
        }
    }

    /// Every selection in it.
    pub fn selections(&self) -> Vec<&Selection> {
        match self {
            Expr::Call(call) => call.cells.iter().collect(),
            Expr::Number(_) | Expr::Probe(_) => Vec::new(),
            Expr::Negate(inner) | Expr::Not(inner) => inner.selections(),
            Expr::Extreme { of, .. } => of.iter().flat_map(Expr::selections).collect(),
            Expr::Arithmetic(_, left, right)
            | Expr::Compare(_, left, right)
            | Expr::And(left, right)
            | Expr::Or(left, right) => [left.selections(), right.selections()].concat(),
        }
    }
}

impl Call {
    fn unit(&self) -> Unit {
        match self.function {
            Function::Ratio | Function::Growth | Function::Spread | Function::RunSpread => Unit::Times,
            Function::Bend => Unit::Share,
            Function::Linear | Function::WhereHighest | Function::WhereLowest => Unit::Plain,
            Function::Median
            | Function::Mean
            | Function::Slope
            | Function::Highest
            | Function::Lowest
            | Function::MostRun
            | Function::SlowRuns
            | Function::FastRuns => match self.metric.0 {
                metric if metric.name.ends_with("_share") => Unit::Share,
                metric if metric.unit.is_empty() => Unit::Plain,
                metric => Unit::Of(metric.unit),
            },
        }
    }
}

/// How a number is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// As it is.
    Plain,
    /// So many times: `5.2x`.
    Times,
    /// In percent.
    Share,
    /// With a unit's name.
    Of(&'static str),
}

fn unit_of(operation: Arithmetic, left: &Expr, right: &Expr) -> Unit {
    match (operation, left.unit(), right.unit()) {
        (Arithmetic::Divide, Unit::Of("CPUs"), Unit::Of("CPUs")) => Unit::Share,
        (Arithmetic::Divide, Unit::Of(a), Unit::Of(b)) if a == b => Unit::Times,
        (Arithmetic::Divide, Unit::Share, Unit::Share) => Unit::Times,
        (Arithmetic::Add | Arithmetic::Subtract, a, b) if a == b => a,
        (Arithmetic::Multiply, Unit::Plain, b) if matches!(left, Expr::Number(_)) => b,
        (Arithmetic::Multiply, a, _) if matches!(right, Expr::Number(_)) => a,
        (Arithmetic::Divide, a, _) if matches!(right, Expr::Number(_)) => a,
        (Arithmetic::Subtract, _, Unit::Share | Unit::Times) if matches!(left, Expr::Number(_)) => Unit::Share,
        _ => Unit::Plain,
    }
}

fn parse(text: &str, scope: Scope<'_>) -> Result<Expr, ExprError> {
    let mut reader = Reader { text, at: 0, depth: 0, scope };
    let expr = reader.either()?;
    reader.space();
    match reader.at == text.len() {
        true => Ok(expr),
        false => Err(reader.error(format!(
            "'{}' is not expected here; join with and, or, + - * / or a comparison",
            reader.rest_word()
        ))),
    }
}

/// Reads an expression from left to right; one method per level of precedence.
struct Reader<'a> {
    text: &'a str,
    at: usize,
    depth: u32,
    scope: Scope<'a>,
}

impl<'a> Reader<'a> {
    fn either(&mut self) -> Result<Expr, ExprError> {
        let mut left = self.both()?;
        while self.keyword("or") {
            let right = self.both_conditions(&left, Self::both)?;
            left = Expr::Or(Box::new(left), Box::new(right));
        }
        Ok(left)
    }

    fn both(&mut self) -> Result<Expr, ExprError> {
        let mut left = self.negation()?;
        while self.keyword("and") {
            let right = self.both_conditions(&left, Self::negation)?;
            left = Expr::And(Box::new(left), Box::new(right));
        }
        Ok(left)
    }

    /// The right side of `and` or `or`, when both sides are conditions.
    fn both_conditions(
        &mut self,
        left: &Expr,
        read: fn(&mut Self) -> Result<Expr, ExprError>,
    ) -> Result<Expr, ExprError> {
        let at = self.at;
        let right = read(self)?;
        match left.is_condition() && right.is_condition() {
            true => Ok(right),
            false => Err(ExprError::new(at, "'and' and 'or' join two comparisons; one side is a number")),
        }
    }

    fn negation(&mut self) -> Result<Expr, ExprError> {
        if !self.keyword("not") {
            return self.comparison();
        }
        let at = self.at;
        let inner = self.deeper(Self::negation)?;
        match inner.is_condition() {
            true => Ok(Expr::Not(Box::new(inner))),
            false => Err(ExprError::new(at, "'not' turns a comparison; this is a number")),
        }
    }

    fn comparison(&mut self) -> Result<Expr, ExprError> {
        let left = self.sum()?;
        self.space();
        let at = self.at;
        let Some(comparison) = self.comparison_sign() else { return Ok(left) };
        let right = self.sum()?;
        if left.is_condition() || right.is_condition() {
            return Err(ExprError::new(at, "a comparison needs a number on either side"));
        }
        Ok(Expr::Compare(comparison, Box::new(left), Box::new(right)))
    }

    fn comparison_sign(&mut self) -> Option<Comparison> {
        const SIGNS: [(&str, Comparison); 6] = [
            ("<=", Comparison::AtMost),
            (">=", Comparison::AtLeast),
            ("==", Comparison::Equal),
            ("<", Comparison::Less),
            (">", Comparison::Greater),
            ("~", Comparison::About),
        ];
        SIGNS.iter().find(|(sign, _)| self.sign(sign)).map(|(_, comparison)| *comparison)
    }

    fn sum(&mut self) -> Result<Expr, ExprError> {
        let mut left = self.product()?;
        loop {
            let operation = match () {
                () if self.sign("+") => Arithmetic::Add,
                () if self.sign("-") => Arithmetic::Subtract,
                () => return Ok(left),
            };
            left = self.arithmetic(operation, left, Self::product)?;
        }
    }

    fn product(&mut self) -> Result<Expr, ExprError> {
        let mut left = self.unary()?;
        loop {
            let operation = match () {
                () if self.sign("*") => Arithmetic::Multiply,
                () if self.sign("/") => Arithmetic::Divide,
                () => return Ok(left),
            };
            left = self.arithmetic(operation, left, Self::unary)?;
        }
    }

    fn arithmetic(
        &mut self,
        operation: Arithmetic,
        left: Expr,
        read: fn(&mut Self) -> Result<Expr, ExprError>,
    ) -> Result<Expr, ExprError> {
        let at = self.at;
        let right = read(self)?;
        match left.is_condition() || right.is_condition() {
            true => Err(ExprError::new(at, "arithmetic needs numbers, and this compares")),
            false => Ok(Expr::Arithmetic(operation, Box::new(left), Box::new(right))),
        }
    }

    fn unary(&mut self) -> Result<Expr, ExprError> {
        if !self.sign("-") {
            return self.atom();
        }
        let at = self.at;
        let inner = self.deeper(Self::unary)?;
        match inner.is_condition() {
            true => Err(ExprError::new(at, "a sign needs a number, and this compares")),
            false => Ok(Expr::Negate(Box::new(inner))),
        }
    }

    fn atom(&mut self) -> Result<Expr, ExprError> {
        self.space();
        let at = self.at;
        if self.sign("(") {
            let inner = self.deeper(Self::either)?;
            self.expect(")")?;
            return Ok(inner);
        }
        let first = self.text[self.at..].chars().next();
        match first {
            Some(c) if c.is_ascii_digit() || c == '.' => self.number(),
            Some(c) if c.is_ascii_alphabetic() => self.named(at),
            Some(_) => Err(self.error(format!(
                "'{}' is not a number, a figure or a '('; 'docs/experiments.md' shows what there is",
                self.rest_word()
            ))),
            None => Err(self.error("the expression ends where a number or a figure is expected")),
        }
    }

    fn number(&mut self) -> Result<Expr, ExprError> {
        let at = self.at;
        let digits = self.take(|c| c.is_ascii_digit() || c == '.');
        let value: f64 = digits.parse().map_err(|_| ExprError::new(at, format!("'{digits}' is not a number")))?;
        if self.text[self.at..].starts_with(|c: char| c.is_ascii_alphanumeric()) {
            return Err(ExprError::new(
                at,
                format!(
                    "'{digits}{}' has a unit; figures are in the unit that their name ends with, so write a plain \
                     number",
                    self.rest_word()
                ),
            ));
        }
        Ok(Expr::Number(if self.sign("%") { value / 100.0 } else { value }))
    }

    /// A figure of the claim, or a function with its arguments.
    fn named(&mut self, at: usize) -> Result<Expr, ExprError> {
        let name = self.take(is_name);
        if !self.sign("(") {
            return self.figure(name, at);
        }
        match name {
            "min" | "max" => self.extreme(name == "max"),
            "probe" => self.probe(),
            _ => self.call(name, at),
        }
    }

    fn figure(&self, name: &str, at: usize) -> Result<Expr, ExprError> {
        self.scope.figures.get(name).cloned().ok_or_else(|| {
            let among = self.scope.figures.keys().map(String::as_str);
            ExprError::new(
                at,
                format!(
                    "'{name}' is no figure of this claim{}; a figure of cells is written METRIC(series @ factor=value)",
                    did_you_mean(name, among)
                ),
            )
        })
    }

    fn extreme(&mut self, largest: bool) -> Result<Expr, ExprError> {
        let mut of = Vec::new();
        loop {
            let at = self.at;
            let value = self.deeper(Self::sum)?;
            if value.is_condition() {
                return Err(ExprError::new(at, "min and max take numbers, and this compares"));
            }
            of.push(value);
            if !self.sign(",") {
                self.expect(")")?;
                return Ok(Expr::Extreme { largest, of });
            }
        }
    }

    fn probe(&mut self) -> Result<Expr, ExprError> {
        self.space();
        let at = self.at;
        let name = self.take(is_name).to_owned();
        self.expect(")")?;
        if self.scope.probes.contains(&name.as_str()) {
            return Ok(Expr::Probe(name));
        }
        let list = self.scope.probes.join(", ");
        Err(ExprError::new(at, format!("'{name}' is not a figure of the machine; there are {list}")))
    }

    fn call(&mut self, name: &str, at: usize) -> Result<Expr, ExprError> {
        let (mut words, conditions) = self.arguments()?;
        let row = FUNCTIONS.iter().find(|row| row.name == name);
        let mut metric = Metric::named(name);
        let Some(form) = row.map(|row| row.form).or(metric.map(|_| "METRIC(series @ factor=value, ...)")) else {
            return Err(unknown_function(name, at));
        };
        let wanted = row.map_or(1, FunctionRow::words);
        if row.is_some() {
            metric = Metric::named(DEFAULT_METRIC);
            if words.len() == wanted + 1 {
                let (word, word_at) = words.remove(0);
                metric = Some(Metric::named(word).ok_or_else(|| unknown_metric(word, word_at))?);
            }
        }
        // Conditions alone may name the cell of a sweep: METRIC(@ counter=xadd).
        if words.is_empty() && wanted == 1 && !conditions.is_empty() {
            words.push(("", at));
        }
        let metric = Named(metric.ok_or_else(|| unknown_function(name, at))?);
        if words.len() != wanted {
            return Err(ExprError::new(at, format!("'{name}' is written {form}")));
        }
        let mut call = Call { function: Function::Median, metric, cells: Vec::new(), along: None, between: None };
        if let Some(row) = row {
            call.function = row.function;
            self.bind_along(row, &words, &mut call)?;
        }
        let operands = row.map_or(1, |row| row.operands);
        for (word, word_at) in &words[..operands] {
            call.cells.push(self.selection(word, *word_at, &conditions)?);
        }
        self.check_cells(&call, row.map_or(1, |row| row.least_values), at)?;
        Ok(Expr::Call(call))
    }

    /// The words before `@` and the conditions after it, up to the closing parenthesis; each with its place.
    #[expect(clippy::type_complexity, reason = "two lists of words with places, used once")]
    fn arguments(&mut self) -> Result<(Vec<(&'a str, usize)>, Vec<(&'a str, &'a str, usize)>), ExprError> {
        let (mut words, mut conditions) = (Vec::new(), Vec::new());
        let mut after_at = false;
        loop {
            self.space();
            if self.sign(")") {
                return Ok((words, conditions));
            }
            if self.sign("@") {
                after_at = true;
                continue;
            }
            let at = self.at;
            let word = self.take(is_value);
            if word.is_empty() {
                return Err(match self.at == self.text.len() {
                    true => self.error("the parenthesis is not closed"),
                    false => self.error(format!("'{}' is not expected among arguments", self.rest_word())),
                });
            }
            if after_at {
                let (factor, value) = word.split_once('=').ok_or_else(|| {
                    ExprError::new(at, format!("'{word}' is no condition; after @ write factor=value"))
                })?;
                conditions.push((factor, value, at));
            } else {
                words.push((word, at));
            }
            self.space();
            let next = &self.text[self.at..];
            if !self.sign(",") && !next.starts_with([')', '@']) && !next.is_empty() {
                return Err(self.error(format!("expected ',', '@' or ')' and found '{}'", self.rest_word())));
            }
        }
    }

    /// The factor and values of a function that looks along a factor.
    fn bind_along(&self, row: &FunctionRow, words: &[(&str, usize)], call: &mut Call) -> Result<(), ExprError> {
        if !row.along {
            return Ok(());
        }
        let (name, at) = words[row.operands];
        call.along = Some(factor(name, at)?.name);
        if row.between {
            let value =
                |(text, at): (&str, usize)| canonical(name, text, self.scope).map_err(|why| ExprError::new(at, why));
            call.between = Some((value(words[row.operands + 1])?, value(words[row.operands + 2])?));
        }
        Ok(())
    }

    fn selection(&self, word: &str, at: usize, conditions: &[(&str, &str, usize)]) -> Result<Selection, ExprError> {
        let (sweep, series) = self.sweep_and_series(word, at)?;
        let mut selection = Selection { sweep: sweep.to_owned(), fixed: series };
        for (name, value, at) in conditions {
            let factor = factor(name, *at)?;
            let value = canonical(name, value, self.scope).map_err(|why| ExprError::new(*at, why))?;
            selection = selection.with(factor.name, &value);
        }
        Ok(selection)
    }

    /// `sweep.series`, `series` in the claim's sweep, or a sweep whose cells the conditions tell apart.
    #[expect(clippy::type_complexity, reason = "a sweep's name and factor values, used once")]
    fn sweep_and_series(&self, word: &str, at: usize) -> Result<(&'a str, Vec<(&'static str, String)>), ExprError> {
        let named = |name: &str| self.scope.sweeps.iter().find(|sweep| sweep.name == name).map(|s| s.name.as_str());
        if let Some((sweep, series)) = word.split_once('.') {
            let found = named(sweep).ok_or_else(|| {
                let near = did_you_mean(sweep, self.scope.sweeps.iter().map(|s| s.name.as_str()));
                ExprError::new(at, format!("'{sweep}' is not a sweep of this file{near}"))
            })?;
            return Ok((found, self.series(series, at)?));
        }
        if let Some(sweep) = named(word) {
            return Ok((sweep, Vec::new()));
        }
        let series = if word.is_empty() { Vec::new() } else { self.series(word, at)? };
        let only = match self.scope.sweeps {
            [only] => Some(only.name.as_str()),
            _ => None,
        };
        let sweep = self.scope.sweep.or(only).ok_or_else(|| {
            ExprError::new(at, format!("this file has several sweeps: write SWEEP.{word}, or give the claim a sweep"))
        })?;
        Ok((sweep, series))
    }

    fn series(&self, name: &str, at: usize) -> Result<Vec<(&'static str, String)>, ExprError> {
        if let Some(series) = self.scope.series.iter().find(|series| series.name == name) {
            return Ok(series.fixed.clone());
        }
        let cells = || self.scope.sweeps.iter().flat_map(|sweep| &sweep.full);
        if cells().any(|cell| cell.lock == name) {
            return Ok(vec![("lock", name.to_owned())]);
        }
        let mut known: Vec<&str> = self.scope.series.iter().map(|series| series.name.as_str()).collect();
        known.extend(cells().map(|cell| cell.lock.as_str()));
        known.extend(self.scope.sweeps.iter().map(|sweep| sweep.name.as_str()));
        Err(ExprError::new(
            at,
            format!("'{name}' is not a lock, a series or a sweep of this file{}", did_you_mean(name, known)),
        ))
    }

    /// Every selection must name one cell (or one per value of the factor along which the function looks), both in
    /// full and with `--quick`.
    fn check_cells(&self, call: &Call, least_values: usize, at: usize) -> Result<(), ExprError> {
        for selection in &call.cells {
            let Some(sweep) = self.scope.sweeps.iter().find(|sweep| sweep.name == selection.sweep) else {
                continue;
            };
            for (cells, mode) in [(&sweep.full, ""), (&sweep.quick, " with --quick")] {
                check_selection(selection, call, cells, mode, least_values).map_err(|why| ExprError::new(at, why))?;
            }
        }
        if call.function == Function::Ratio && !differ_only_in_lock(&call.cells) {
            return Err(ExprError::new(
                at,
                "'ratio' pairs neighbouring runs, so its two series may differ only in their lock; divide two figures \
                 instead",
            ));
        }
        Ok(())
    }

    fn deeper(&mut self, read: fn(&mut Self) -> Result<Expr, ExprError>) -> Result<Expr, ExprError> {
        const DEEPEST: u32 = 64;
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(self.error("this is nested too deeply"));
        }
        let expr = read(self);
        self.depth -= 1;
        expr
    }

    fn space(&mut self) {
        self.take(char::is_whitespace);
    }

    fn take(&mut self, accept: fn(char) -> bool) -> &'a str {
        let rest = &self.text[self.at..];
        let taken = &rest[..rest.find(|c| !accept(c)).unwrap_or(rest.len())];
        self.at += taken.len();
        taken
    }

    fn sign(&mut self, sign: &str) -> bool {
        self.space();
        let found = self.text[self.at..].starts_with(sign);
        if found {
            self.at += sign.len();
        }
        found
    }

    fn keyword(&mut self, word: &str) -> bool {
        self.space();
        let rest = &self.text[self.at..];
        let found = rest.starts_with(word) && !rest[word.len()..].starts_with(is_name);
        if found {
            self.at += word.len();
        }
        found
    }

    fn expect(&mut self, sign: &str) -> Result<(), ExprError> {
        match self.sign(sign) {
            true => Ok(()),
            false => Err(self.error(format!("expected '{sign}'"))),
        }
    }

    fn error(&self, why: impl Into<String>) -> ExprError {
        ExprError::new(self.at, why)
    }

    fn rest_word(&self) -> &'a str {
        self.text[self.at..].split_whitespace().next().unwrap_or("")
    }
}

impl FunctionRow {
    /// Words before `@`, without the metric.
    fn words(&self) -> usize {
        self.operands + usize::from(self.along) + if self.between { 2 } else { 0 }
    }
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '-' || c == '_'
}

fn is_value(c: char) -> bool {
    !c.is_whitespace() && !matches!(c, ',' | '(' | ')' | '@')
}

fn unknown_function(name: &str, at: usize) -> ExprError {
    let among = METRICS.iter().map(|m| m.name).chain(FUNCTIONS.iter().map(|f| f.name)).chain(["min", "max", "probe"]);
    ExprError::new(at, format!("there is no figure or function '{name}'{}", did_you_mean(name, among)))
}

fn unknown_metric(name: &str, at: usize) -> ExprError {
    let near = did_you_mean(name, METRICS.iter().map(|metric| metric.name));
    ExprError::new(at, format!("there is no figure '{name}'{near}"))
}

fn factor(name: &str, at: usize) -> Result<&'static Factor, ExprError> {
    Factor::named(name).map_err(|_| {
        let near = did_you_mean(name, FACTORS.iter().map(|factor| factor.name));
        ExprError::new(at, format!("there is no factor '{name}'{near}"))
    })
}

/// The value behind the name of a series that fixes this factor and no other.
pub fn series_value<'a>(series: &'a [Series], factor: &str, name: &str) -> Option<&'a str> {
    match series.iter().find(|series| series.name == name)?.fixed.as_slice() {
        [(fixed, value)] if *fixed == factor => Some(value),
        _ => None,
    }
}

/// A factor's value as the cells write it; it may be given by its series' name.
fn canonical(factor: &str, value: &str, scope: Scope<'_>) -> Result<String, String> {
    if let Some(value) = series_value(scope.series, factor, value) {
        return Ok(value.to_owned());
    }
    let mut spec = Spec::default();
    spec.set(factor, value).and_then(|()| spec.get(factor)).map_err(|error| error.to_string())
}

fn differ_only_in_lock(cells: &[Selection]) -> bool {
    let [a, b] = cells else { return false };
    let without_lock = |selection: &Selection| {
        let mut fixed: Vec<_> = selection.fixed.iter().filter(|(name, _)| *name != "lock").cloned().collect();
        fixed.sort();
        fixed
    };
    a.sweep == b.sweep && without_lock(a) == without_lock(b)
}

fn check_selection(
    selection: &Selection,
    call: &Call,
    cells: &[Spec],
    mode: &str,
    least_values: usize,
) -> Result<(), String> {
    match (&call.between, call.along) {
        (Some((from, to)), Some(along)) => {
            one_cell(&selection.with(along, from), None, cells, mode, 1)?;
            one_cell(&selection.with(along, to), None, cells, mode, 1)
        }
        (_, along) => one_cell(selection, along, cells, mode, least_values),
    }
}

fn one_cell(
    selection: &Selection,
    along: Option<&'static str>,
    cells: &[Spec],
    mode: &str,
    least: usize,
) -> Result<(), String> {
    let taken: Vec<&Spec> = cells.iter().filter(|cell| selection.takes(&selection.sweep, cell)).collect();
    if taken.is_empty() {
        return Err(nothing_there(selection, cells, mode));
    }
    let open: Vec<&Factor> =
        FACTORS.iter().filter(|factor| Some(factor.name) != along && values_of(factor, &taken).len() > 1).collect();
    if let Some(factor) = open.first() {
        let values = values_of(factor, &taken);
        return Err(format!(
            "'{}' leaves {} open ({}{mode}); add for example @ {}={}",
            selection.sweep,
            factor.name,
            values.join(", "),
            factor.name,
            values[0]
        ));
    }
    let Some(along) = along else { return Ok(()) };
    let factor = factor(along, 0).map_err(|error| error.why)?;
    let values = values_of(factor, &taken);
    if values.len() < least {
        return Err(format!(
            "sweep '{}' has too few values of {along} ({}){mode}, and this function needs {least}",
            selection.sweep,
            values.len()
        ));
    }
    match values.iter().find(|value| place_on_axis(along, value).is_none()) {
        Some(value) => Err(format!("{along}={value} is no number, so there is no line over {along}")),
        None => Ok(()),
    }
}

/// Which of the fixed values the sweep lacks.
fn nothing_there(selection: &Selection, cells: &[Spec], mode: &str) -> String {
    let all: Vec<&Spec> = cells.iter().collect();
    let missing = selection.fixed.iter().find_map(|(name, value)| {
        let factor = Factor::named(name).ok()?;
        let values = values_of(factor, &all);
        (!values.contains(value)).then_some((name, value, values))
    });
    match missing {
        Some((name, value, values)) => {
            format!("sweep '{}' has no {name}={value}{mode}; it has {}", selection.sweep, values.join(", "))
        }
        None => format!("sweep '{}' has no cell with {selection}{mode}", selection.sweep),
    }
}

fn values_of(factor: &Factor, cells: &[&Spec]) -> Vec<String> {
    let mut values: Vec<String> = Vec::new();
    for cell in cells {
        let value = factor.get(cell);
        if !values.contains(&value) {
            values.push(value);
        }
    }
    values
}

/// A factor's value as a number on an axis: amounts of work by their mean, times in ns.
pub fn place_on_axis(factor: &str, value: &str) -> Option<f64> {
    use holdup_bench::work::{Work, parse_ns};
    match factor {
        "hold" | "gap" | "read" | "update" => Work::parse(value).ok().map(|work| work.mean().value()),
        "slice" | "duration" => parse_ns(value).ok(),
        _ => value.parse().ok(),
    }
}
