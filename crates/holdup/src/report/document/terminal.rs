//! A document as lines for a terminal.

use super::table::{Column, Fit, Item, Row, Side, Table};
use super::{Block, Document, Ink, Text};
use crate::report::Style;

/// Lines of prose are not wider than this however wide the terminal is: eyes lose the line.
const WIDEST_PROSE: usize = 100;

/// A cut column keeps so many columns, if need be beyond the terminal's edge.
const LEAST_WIDTH: usize = 8;

/// How far what stands below a row is indented.
const BELOW: usize = 4;

impl Document {
    /// As text within the style's width.
    pub fn terminal(&self, style: &Style) -> String {
        self.lines(style, style.width).into_iter().map(|line| line + "\n").collect()
    }

    fn lines(&self, style: &Style, width: usize) -> Vec<String> {
        let mut lines = Vec::new();
        for block in &self.0 {
            block.write(&mut lines, style, width);
        }
        lines
    }
}

impl Block {
    fn write(&self, lines: &mut Vec<String>, style: &Style, width: usize) {
        match self {
            Block::Paragraph { text, hang } => lines.extend(prose(text, style, width, *hang)),
            Block::Heading(text) => {
                if !lines.is_empty() {
                    lines.push(String::new());
                }
                lines.extend(prose(&text.clone().inked(Ink::Bold), style, width, 0));
            }
            Block::Line(text) => lines.push(paint(&text.cut(width), style)),
            Block::Command(words) => lines.extend(command(words, style, width)),
            Block::Field { label, width: columns, value } => {
                let indent = " ".repeat(columns + 1);
                let mut label = match label.columns() > *columns {
                    // One that is longer than its like has a line of its own.
                    true => {
                        lines.push(paint(label, style));
                        indent.clone()
                    }
                    false => aligned(label, *columns, Side::Left, style) + " ",
                };
                for line in value.lines(style, width.saturating_sub(columns + 1)) {
                    lines.push(std::mem::replace(&mut label, indent.clone()) + &line);
                }
            }
            Block::Table(table) if table.in_blocks => {
                for (index, block) in table.blocks(width).iter().enumerate() {
                    if index > 0 {
                        lines.push(String::new());
                    }
                    block.write(lines, style, width);
                }
            }
            Block::Table(table) => table.write(lines, style, width),
            Block::Indented(columns, document) => {
                let indent = " ".repeat(*columns);
                let inner = document.lines(style, width.saturating_sub(*columns));
                lines.extend(inner.into_iter().map(|line| (indent.clone() + &line).trim_end().to_owned()));
            }
            Block::List(items) => {
                let item = |item: &Text| prose(item, style, width.saturating_sub(2), 2);
                lines.extend(items.iter().flat_map(item).map(|line| "  ".to_owned() + &line));
            }
            Block::Gap => lines.push(String::new()),
        }
    }
}

fn prose<'s>(text: &Text, style: &'s Style, width: usize, hang: usize) -> impl Iterator<Item = String> + use<'s> {
    let lines = text.wrapped(width.min(WIDEST_PROSE), hang);
    lines.into_iter().map(|line| paint(&line, style))
}

/// Broken between words, so that a shell reads it back as one command.
fn command(words: &[Text], style: &Style, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    let mut column = 0;
    for word in words {
        let length = word.columns();
        // Room for the backslash.
        if !line.is_empty() && column + 1 + length + 2 > width {
            lines.push(std::mem::replace(&mut line, "  ".to_owned()) + " \\");
            column = 2;
        } else if !line.is_empty() {
            line.push(' ');
            column += 1;
        }
        line.push_str(&paint(word, style));
        column += length;
    }
    lines.push(line);
    lines
}

fn paint(text: &Text, style: &Style) -> String {
    let paint = |span: &super::text::Span| match span.ink {
        Some(ink) => style.paint(ink, &span.text),
        None => span.text.clone(),
    };
    text.spans().iter().map(paint).collect()
}

fn aligned(text: &Text, width: usize, side: Side, style: &Style) -> String {
    let (text, pad) = (paint(text, style), " ".repeat(width.saturating_sub(text.columns())));
    match side {
        Side::Left => text + &pad,
        Side::Right => pad + &text,
    }
}

impl Table {
    fn write(&self, lines: &mut Vec<String>, style: &Style, width: usize) {
        let table = self.grouped(width);
        let layout = table.layout(style, width);
        lines.extend(layout.head());
        for item in &table.items {
            match item {
                Item::Row(row) => lines.extend(layout.row(row)),
                Item::Group(title) => lines.extend(prose(title, style, width, 0)),
                Item::Gap => lines.push(String::new()),
            }
        }
    }

    /// With titles in place of keys that have no room, gaps between groups of rows, and no key twice in a row.
    fn grouped(&self, width: usize) -> Table {
        let keys = self.columns.iter().take_while(|column| column.key).count();
        let has_room = |titles: &usize| keys - titles <= 2 && self.total(&self.widths()[*titles..]) <= width;
        let titles = (0..keys).find(has_room).unwrap_or(keys.saturating_sub(1));
        let columns = self.columns[titles..].to_vec();
        let mut table = Table { columns, items: Vec::new(), ..*self };
        let mut before = None;
        for item in &self.items {
            let Item::Row(row) = item else {
                table.items.push(item.clone());
                continue;
            };
            let repeated = self.repeated(before, row);
            if before.is_some() && repeated + 1 < keys {
                table.items.push(Item::Gap);
            }
            if titles > 0 && (before.is_none() || repeated < titles) {
                let words = self.columns.iter().zip(&row.cells).take(titles);
                let words = words.map(|(column, cell)| (self.title)(&column.head[0].plain(), &cell.plain()));
                table.group(words.collect::<Vec<_>>().join(", "));
            }
            let blank = |index| titles + index + 1 < keys && titles + index < repeated;
            let cells = row.cells.iter().skip(titles).enumerate();
            let cells = cells.map(|(index, cell)| if blank(index) { Text::default() } else { cell.clone() });
            table.items.push(Item::Row(Row { cells: cells.collect(), ..row.clone() }));
            before = Some(row);
        }
        table
    }

    /// Columns side by side as long as there is room, at least one beside the first.
    fn blocks(&self, width: usize) -> Vec<Table> {
        let widths = self.widths();
        let mut blocks: Vec<Vec<usize>> = Vec::new();
        let mut left = 0;
        for column in 1..widths.len() {
            let needs = widths[column] + self.gap;
            match blocks.last_mut() {
                Some(block) if needs <= left => block.push(column),
                _ => {
                    blocks.push(vec![0, column]);
                    left = width.saturating_sub(widths[0]);
                }
            }
            left = left.saturating_sub(needs);
        }
        let of = |block: &Vec<usize>| {
            let columns = block.iter().map(|column| self.columns[*column].clone());
            let mut table = Table { items: Vec::new(), columns: columns.collect(), ..*self };
            for row in self.rows() {
                table.row(block.iter().map(|column| row.cells[*column].clone()));
            }
            table
        };
        blocks.iter().map(of).collect()
    }

    /// Of each column the widest cell; a cell that has the rest of its line counts for none.
    fn widths(&self) -> Vec<usize> {
        let width = |(index, column): (usize, &Column)| {
            let spans = |row: &&Row| row.cells.len() == index + 1 && row.cells.len() < self.columns.len();
            let cells = self.rows().filter(|row| !spans(row)).filter_map(|row| row.cells.get(index));
            cells.chain(&column.head).map(Text::columns).max().unwrap_or(0).max(column.at_least)
        };
        self.columns.iter().enumerate().map(width).collect()
    }

    /// Empty columns take no room.
    fn total(&self, widths: &[usize]) -> usize {
        let filled = widths.iter().filter(|width| **width > 0);
        filled.map(|width| width + self.gap).sum::<usize>().saturating_sub(self.gap)
    }

    /// Where a row is too wide, words give way and numbers do not, the widest words first.
    pub(crate) fn layout<'a>(&'a self, style: &'a Style, width: usize) -> Layout<'a> {
        let mut widths = self.widths();
        for _ in width..self.total(&widths) {
            let gives = |index: &usize| {
                let column = &self.columns[*index];
                let head = column.head.iter().map(Text::columns).max().unwrap_or(0);
                let least = if column.fit == Fit::Cut { LEAST_WIDTH } else { head };
                column.fit != Fit::Fixed && widths[*index] > least
            };
            let Some(widest) = (0..widths.len()).filter(gives).max_by_key(|index| widths[*index]) else {
                break;
            };
            widths[widest] -= 1;
        }
        Layout { table: self, widths, style, width }
    }
}

/// A table with the widths of its columns.
#[derive(Debug)]
pub(crate) struct Layout<'a> {
    table: &'a Table,
    widths: Vec<usize>,
    style: &'a Style,
    width: usize,
}

impl Layout<'_> {
    /// The lines of the headings; none where no column has one.
    pub(crate) fn head(&self) -> Vec<String> {
        if !self.table.has_heads() {
            return Vec::new();
        }
        let columns = &self.table.columns;
        let height = columns.iter().map(|column| column.head.len()).max().unwrap_or(0);
        let line = |line: usize| {
            // A heading with fewer lines stands at the bottom.
            let head = |column: &Column| {
                let missing = height - column.head.len();
                line.checked_sub(missing).map_or_else(Text::default, |line| column.head[line].clone())
            };
            let cells = columns.iter().zip(&self.widths);
            let cells: Vec<String> =
                cells.map(|(column, width)| aligned(&head(column), *width, column.side, &Style::default())).collect();
            self.style.paint(Ink::Faint, cells.join(&" ".repeat(self.table.gap)).trim_end())
        };
        (0..height).map(line).filter(|line| !line.is_empty()).collect()
    }

    /// The lines of a row.
    pub(crate) fn row(&self, row: &Row) -> Vec<String> {
        let mut lines: Vec<String> = row.above.iter().flat_map(|text| prose(text, self.style, self.width, 2)).collect();
        let mut lower: Vec<String> = Vec::new();
        let mut line = String::new();
        let mut start = 0;
        // Columns that the line has so far.
        let mut at = 0;
        for (index, cell) in row.cells.iter().enumerate() {
            let (column, width) = (&self.table.columns[index], self.widths[index]);
            let spans = index + 1 == row.cells.len() && row.cells.len() < self.table.columns.len();
            line.push_str(&" ".repeat(start - at));
            at = start + width;
            match column.fit {
                _ if spans || column.fit == Fit::Wrapped => {
                    let room = if spans { self.width.saturating_sub(start) } else { width };
                    let mut parts = cell.wrapped(room, 0).into_iter();
                    let first = parts.next().unwrap_or_default();
                    line.push_str(&aligned(&first, width, column.side, self.style));
                    // A word that has no room has its line to itself.
                    if first.columns() > width && index + 1 < row.cells.len() {
                        lines.push(std::mem::replace(&mut line, " ".repeat(at)));
                    }
                    lower.extend(parts.map(|part| " ".repeat(start) + &paint(&part, self.style)));
                }
                Fit::Whole if cell.columns() > width => {
                    lines.push(line + &paint(cell, self.style));
                    line = " ".repeat(at);
                }
                Fit::Cut => line.push_str(&aligned(&cell.cut(width), width, column.side, self.style)),
                _ => line.push_str(&aligned(cell, width, column.side, self.style)),
            }
            start += width + self.table.gap;
        }
        lines.push(line);
        lines.extend(lower);
        for below in &row.below {
            let indent = " ".repeat(BELOW);
            let wrapped = prose(below, self.style, self.width.saturating_sub(BELOW), 2);
            lines.extend(wrapped.map(|line| indent.clone() + &line));
        }
        lines.into_iter().map(|line| line.trim_end().to_owned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::document::ink;

    fn printed(table: Table, width: usize) -> String {
        let mut document = Document::default();
        document.table(table);
        document.terminal(&Style { width, colour: false })
    }

    #[test]
    fn words_give_way_and_numbers_stay() {
        let mut table = Table::new([Column::left("name"), Column::right("n")]);
        table.row(["a-name-that-is-long", "123456"]).below("under it");
        assert_eq!(printed(table.clone(), 20), "name               n\na-nam..-long  123456\n    under it\n");
        assert!(printed(table, 30).contains("a-name-that-is-long  123456"));
    }

    #[test]
    fn a_cell_without_room_stands_alone_goes_on_below_or_has_the_rest_of_the_line() {
        let columns = [Column::left("name").whole(), Column::right("n"), Column::left("why").wrapped()];
        let mut table = Table::new(columns);
        table.row(["a-name-that-is-long", "1", "it was so"]);
        table.row(["b", "failed: nobody knows why"]);
        assert_eq!(
            printed(table, 14),
            "name   n  why\na-name-that-is-long\n       1  it\n          was\n          so\nb      failed:\n       nobody\n       knows\n       why\n"
        );
    }

    #[test]
    fn columns_that_do_not_fit_stand_below() {
        let heads = ["a", "b", "c", "d", "e"].map(|head| Column::right(head).at_least(7));
        let table = |n| Table::new([Column::left("")].into_iter().chain(heads[..n].iter().cloned())).gap(1);
        let blocks =
            |n, width| -> Vec<usize> { table(n).blocks(width).iter().map(|block| block.columns.len() - 1).collect() };
        assert_eq!((blocks(5, 20), blocks(1, 2)), (vec![2, 2, 1], vec![1]));
    }

    #[test]
    fn a_heading_stands_off_and_a_command_is_one_for_a_shell() {
        let mut document = Document::default();
        document.heading(ink(Ink::Faint, "First"));
        document.field(5, "test", |value| value.command(["holdup", "bench", "--lock", "pthread"]));
        document.indented(2, |inner| inner.line("a-name-that-is-long"));
        document.heading("Second");
        assert_eq!(
            document.terminal(&Style { width: 20, colour: false }),
            "First\ntest  holdup bench \\\n        --lock \\\n        pthread\n  a-name-t..-is-long\n\nSecond\n"
        );
        assert!(document.terminal(&Style { width: 20, colour: true }).starts_with("\u{1b}[2mFirst\u{1b}[0m\n"));
    }
}
