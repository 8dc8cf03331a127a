//! Where CPU time goes: functions and modules by samples.

use holdup_analyze::{Code, Facts};

use super::super::document::{Column, Document, Table};
use super::super::number;
use super::{more, share};
use crate::recording::name;

/// Functions, most samples first.
pub fn symbols(facts: &Facts, limit: usize) -> Document {
    let mut table = Table::new([
        Column::right("hits"),
        Column::right("share"),
        Column::right("with callees"),
        Column::left("function"),
        Column::left("module"),
        Column::right("address"),
        Column::left(""),
    ]);
    let all = samples(facts);
    for code in facts.symbols.iter().take(limit) {
        let frame = &code.frame;
        table.row(vec![
            code.hits.to_string(),
            number::percent(share(code.hits, all)),
            number::percent(share(code.inclusive, all)),
            frame.function.as_deref().map_or_else(|| name::module_and_offset(frame), name::function_in_full),
            name::module(&frame.module),
            format!("{:#x}", frame.offset),
            name::role(frame.role).to_owned(),
        ]);
    }
    finished(facts, &facts.symbols, limit, table, "function")
}

/// Files, most samples first.
pub fn modules(facts: &Facts, limit: usize) -> Document {
    let mut table = Table::new([
        Column::right("hits"),
        Column::right("share"),
        Column::right("with callees"),
        Column::left("module"),
    ]);
    let all = samples(facts);
    for code in facts.modules.iter().take(limit) {
        table.row(vec![
            code.hits.to_string(),
            number::percent(share(code.hits, all)),
            number::percent(share(code.inclusive, all)),
            code.frame.module.to_string(),
        ]);
    }
    finished(facts, &facts.modules, limit, table, "module")
}

fn finished(facts: &Facts, all: &[Code], limit: usize, table: Table, noun: &str) -> Document {
    if all.is_empty() {
        return Document::from(match facts.header.capabilities.samples {
            true => "No CPU sample was taken: the threads hardly ran.",
            false => "CPU samples were not recorded; 'holdup record --rate 1000' takes them.",
        });
    }
    let mut view = Document::default();
    view.table(table);
    more(&mut view, all.len(), limit, noun);
    view
}

fn samples(facts: &Facts) -> u64 {
    facts.totals.user_samples + facts.totals.kernel_samples.unwrap_or(0)
}
