//! A document as markup: foreign text enters through [`Text`] alone, and maud escapes it.

use maud::{Markup, Render, html};

use super::table::{Column, Fit, Item, Row, Side, Table};
use super::{Block, Document, Ink, Text};

impl Ink {
    /// The class in the pages' style sheet.
    fn class(self) -> &'static str {
        match self {
            Ink::Good => "good",
            Ink::Bad => "bad",
            Ink::Bold | Ink::Faint | Ink::Line(_) => "faint",
        }
    }
}

impl Render for Text {
    fn render(&self) -> Markup {
        html! {
            @for span in self.spans() {
                @match span.ink {
                    Some(Ink::Bold) => strong { (span.text) },
                    Some(ink) => span class=(ink.class()) { (span.text) },
                    None => (span.text),
                }
            }
        }
    }
}

impl Document {
    /// As markup.
    pub fn html(&self) -> Markup {
        let is_field = |block: &Block| matches!(block, Block::Field { .. });
        html! {
            @for blocks in self.0.chunk_by(|a, b| is_field(a) && is_field(b)) {
                @if is_field(&blocks[0]) { dl { @for block in blocks { (block) } } }
                @else { @for block in blocks { (block) } }
            }
        }
    }

    /// Fields, for a list that has others as well.
    pub(crate) fn definitions(&self) -> Markup {
        html! { @for block in &self.0 { (block) } }
    }
}

impl Render for Block {
    fn render(&self) -> Markup {
        html! {
            @match self {
                Block::Paragraph { text, .. } | Block::Line(text) => p { (text) },
                Block::Heading(text) => h3 { (text) },
                Block::Command(words) => (command(words)),
                Block::Field { label, value, .. } => { dt { (label) } dd { (value.inline()) } },
                Block::Table(table) => (table),
                Block::Indented(_, document) => div { (document.html()) },
                Block::List(items) => ul class="plain" { @for item in items { li { (item) } } },
                Block::Gap => {},
            }
        }
    }
}

impl Document {
    /// As markup without paragraphs around its sentences.
    fn inline(&self) -> Markup {
        html! {
            @for block in &self.0 {
                @match block {
                    Block::Paragraph { text, .. } | Block::Line(text) => { (text) " " },
                    other => (other),
                }
            }
        }
    }
}

/// A command that the page's script lets people copy.
fn command(words: &[Text]) -> Markup {
    html! {
        code class="command" { @for (index, word) in words.iter().enumerate() { @if index > 0 { " " } (word) } }
    }
}

impl Render for Table {
    fn render(&self) -> Markup {
        let before = |index: usize| self.items[..index].iter().rev().find_map(Item::row);
        html! {
            div class="scroll" tabindex="0" {
                table class=[self.has_heads().then_some("sortable")] aria-label=[(!self.name.is_empty()).then_some(self.name)] {
                    @if self.has_heads() {
                        thead { tr { @for column in &self.columns { th class=[column.class()] { (column.title()) } } } }
                    }
                    tbody {
                        @for (index, item) in self.items.iter().enumerate() {
                            @match item {
                                Item::Row(row) => (self.line(row, self.repeated(before(index), row))),
                                Item::Group(title) => tr class="first" { th colspan=(self.columns.len()) { (title) } },
                                Item::Gap => {},
                            }
                        }
                    }
                }
            }
        }
    }
}

impl Column {
    fn class(&self) -> Option<&'static str> {
        match (self.side, self.fit) {
            (Side::Right, _) => Some("n"),
            (Side::Left, Fit::Fixed) => Some("i"),
            _ => None,
        }
    }

    fn title(&self) -> Markup {
        html! { @for (index, line) in self.head.iter().enumerate() { @if index > 0 { " " } (line) } }
    }
}

impl Table {
    fn line(&self, row: &Row, repeated: usize) -> Markup {
        let keys = self.columns.iter().take_while(|column| column.key).count();
        let names = keys.max(1);
        html! {
            tr class=[(repeated + 1 < keys).then_some("first")] {
                @for (index, column) in self.columns.iter().enumerate().take(row.cells.len()) {
                    @if index < names {
                        th class=[if index < repeated && index + 1 < keys { Some("faint") } else { column.class() }] {
                            (self.cell(row, index))
                        }
                    } @else {
                        td class=[column.class()] colspan=[self.span(row, index)] { (self.cell(row, index)) }
                    }
                }
            }
        }
    }

    fn span(&self, row: &Row, index: usize) -> Option<usize> {
        let last = index + 1 == row.cells.len() && row.cells.len() < self.columns.len();
        last.then(|| self.columns.len() - index)
    }

    /// The first cell on the left side bears what stands above and below the row: so rows can still be sorted.
    fn cell(&self, row: &Row, index: usize) -> Markup {
        let named = self.columns.iter().position(|column| column.side == Side::Left).unwrap_or(0) == index;
        html! {
            @if let Some(above) = row.above.as_ref().filter(|_| named) { (above) " " }
            (row.cells[index])
            @if named { @for below in &row.below { br; small { (below) } } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_stays_text() {
        let mut document = Document::default();
        document.paragraph("<b>\u{1b}\u{202e}");
        document.field(3, "<i>", |value| value.command(["a", "'<x>'"]));
        let mut table = Table::new([Column::left("<u>"), Column::right("n")]);
        table.row(["\"&\u{0}", "1"]).below("</td>");
        document.table(table);
        let html = document.html().into_string();
        for raw in ["<b>", "<i>", "<x>", "<u>", "\u{1b}", "\u{202e}", "\u{0}", "</td></small>"] {
            assert!(!html.contains(raw), "{raw:?} in {html}");
        }
        assert!(html.contains("&lt;b&gt;&lt;U+001B&gt;&lt;U+202E&gt;"), "{html}");
    }
}
