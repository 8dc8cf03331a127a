//! Tables of a recording's views: columns as wide as their widest cell, left or right.

use super::super::{Ink, Style};
use crate::text;

/// How a column is aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Left,
    Right,
}

/// A table under its headings.
#[derive(Debug)]
pub(crate) struct Table {
    heads: Vec<(&'static str, Side)>,
    rows: Vec<Row>,
}

#[derive(Debug)]
enum Row {
    Cells(Vec<String>),
    /// A line of its own under the row before it.
    Line(String),
}

impl Table {
    pub(crate) fn new(heads: &[(&'static str, Side)]) -> Table {
        Table { heads: heads.to_vec(), rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(Row::Cells(cells));
    }

    pub(crate) fn line(&mut self, line: String) {
        self.rows.push(Row::Line(line));
    }

    /// The table; cells of a left column are cut where the row would be wider than the style.
    pub(crate) fn text(&self, style: &Style) -> String {
        let widths = self.widths(style);
        let heads: Vec<String> = self.heads.iter().map(|(head, _)| (*head).to_owned()).collect();
        let mut out = style.paint(Ink::Faint, self.layout(&heads, &widths).trim_end());
        out.push('\n');
        for row in &self.rows {
            match row {
                Row::Cells(cells) => out.push_str(self.layout(cells, &widths).trim_end()),
                Row::Line(line) => out.push_str(&text::cut(line, style.width)),
            }
            out.push('\n');
        }
        out
    }

    fn widths(&self, style: &Style) -> Vec<usize> {
        let mut widths: Vec<usize> = self.heads.iter().map(|(head, _)| text::columns(head)).collect();
        for row in &self.rows {
            if let Row::Cells(cells) = row {
                for (width, cell) in widths.iter_mut().zip(cells) {
                    *width = (*width).max(text::columns(cell));
                }
            }
        }
        let total: usize = widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1);
        let mut excess = total.saturating_sub(style.width);
        // Words give way, numbers do not; the widest word first.
        while excess > 0 {
            let left = (0..widths.len()).filter(|n| self.heads[*n].1 == Side::Left && widths[*n] > 8);
            let Some(widest) = left.max_by_key(|n| widths[*n]) else { break };
            widths[widest] -= 1;
            excess -= 1;
        }
        widths
    }

    fn layout(&self, cells: &[String], widths: &[usize]) -> String {
        let laid: Vec<String> = cells
            .iter()
            .zip(widths)
            .zip(&self.heads)
            .map(|((cell, width), (_, side))| match side {
                Side::Left => text::left(&text::cut(cell, *width), *width),
                Side::Right => text::right(cell, *width),
            })
            .collect();
        laid.join("  ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_give_way_and_numbers_stay() {
        let mut table = Table::new(&[("name", Side::Left), ("n", Side::Right)]);
        table.row(vec!["a-name-that-is-long".to_owned(), "123456".to_owned()]);
        table.line("  under it".to_owned());
        let text = table.text(&Style { width: 20, colour: false });
        assert_eq!(text, "name               n\na-name-tha..  123456\n  under it\n");
    }
}
