//! Where CPU time goes: functions and modules by samples.

use holdup_analyze::{Code, Facts};

use super::super::{Style, number};
use super::columns::{Side, Table};
use super::{more, share};
use crate::recording::name;

/// Functions, most samples first.
pub fn symbols(facts: &Facts, limit: usize, style: &Style) -> String {
    let mut table = Table::new(&[
        ("hits", Side::Right),
        ("share", Side::Right),
        ("with callees", Side::Right),
        ("function", Side::Left),
        ("module", Side::Left),
        ("address", Side::Right),
        ("", Side::Left),
    ]);
    let all = samples(facts);
    for code in facts.symbols.iter().take(limit) {
        let frame = &code.frame;
        table.row(vec![
            code.hits.to_string(),
            number::percent(share(code.hits, all)),
            number::percent(share(code.inclusive, all)),
            frame.function.as_deref().map_or_else(|| name::module_and_offset(frame), name::function),
            name::module(&frame.module),
            format!("{:#x}", frame.offset),
            name::role(frame.role).to_owned(),
        ]);
    }
    finished(facts, &facts.symbols, limit, &table, "function", style)
}

/// Files, most samples first.
pub fn modules(facts: &Facts, limit: usize, style: &Style) -> String {
    let mut table = Table::new(&[
        ("hits", Side::Right),
        ("share", Side::Right),
        ("with callees", Side::Right),
        ("module", Side::Left),
    ]);
    let all = samples(facts);
    for code in facts.modules.iter().take(limit) {
        table.row(vec![
            code.hits.to_string(),
            number::percent(share(code.hits, all)),
            number::percent(share(code.inclusive, all)),
            crate::text::clean(&code.frame.module),
        ]);
    }
    finished(facts, &facts.modules, limit, &table, "module", style)
}

fn finished(facts: &Facts, all: &[Code], limit: usize, table: &Table, noun: &str, style: &Style) -> String {
    if all.is_empty() {
        let why = match facts.header.grade.samples {
            true => "No CPU sample was taken: the threads hardly ran.\n",
            false => "CPU samples were not recorded; 'holdup record --rate 1000' takes them.\n",
        };
        return why.to_owned();
    }
    let mut out = table.text(style);
    out.push_str(&more(all.len(), limit.min(all.len()), noun));
    out
}

fn samples(facts: &Facts) -> u64 {
    facts.totals.user_samples + facts.totals.kernel_samples.unwrap_or(0)
}
