//! Rows of cells under headings.

use super::Text;

/// A table.
#[derive(Clone, Debug)]
pub struct Table {
    pub(super) columns: Vec<Column>,
    pub(super) items: Vec<Item>,
    /// Spaces between two columns.
    pub(super) gap: usize,
    pub(super) name: &'static str,
    pub(super) title: Title,
    pub(super) in_blocks: bool,
}

/// What the title over rows says of a key, by its heading and its value.
type Title = fn(&str, &str) -> String;

/// What a column's cells have in common.
#[derive(Clone, Debug)]
pub struct Column {
    /// The heading's lines, the lowest last.
    pub(super) head: Vec<Text>,
    pub(super) side: Side,
    pub(super) fit: Fit,
    pub(super) at_least: usize,
    pub(super) key: bool,
}

/// How a column is aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Left,
    Right,
}

/// What becomes of a cell that has no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fit {
    /// It keeps its room.
    Fixed,
    /// It is cut in the middle.
    Cut,
    /// It stands alone on its line, whole; the rest of the row follows below.
    Whole,
    /// It goes on below itself.
    Wrapped,
}

#[derive(Clone, Debug)]
pub(super) enum Item {
    Row(Row),
    /// A title over the rows that follow.
    Group(Text),
    Gap,
}

/// A row. With fewer cells than the table has columns, the last one has the rest of the line.
#[derive(Clone, Debug)]
pub struct Row {
    pub(super) above: Option<Text>,
    pub(super) cells: Vec<Text>,
    pub(super) below: Vec<Text>,
}

impl Column {
    /// Words, which give way where a row is too wide. A line break in the heading makes two lines of it.
    pub fn left(head: &str) -> Column {
        Column { fit: Fit::Cut, ..Column::fixed(head) }
    }

    /// Numbers, which are never cut.
    pub fn right(head: &str) -> Column {
        Column { side: Side::Right, ..Column::fixed(head) }
    }

    /// What stands on the left and is never cut, such as intervals.
    pub fn fixed(head: &str) -> Column {
        let head = head.split('\n').map(Text::from).collect();
        Column { head, side: Side::Left, fit: Fit::Fixed, at_least: 0, key: false }
    }

    /// One of the first columns, by which rows belong together: what repeats the row before stays out, and on a
    /// terminal keys that have no room, or are more than two, become titles over their rows.
    #[must_use]
    pub fn key(self) -> Column {
        Column { key: true, ..self }
    }

    /// Cells that find no room stand on lines of their own.
    #[must_use]
    pub fn whole(self) -> Column {
        Column { fit: Fit::Whole, ..self }
    }

    /// Cells that find no room go on in the next line.
    #[must_use]
    pub fn wrapped(self) -> Column {
        Column { fit: Fit::Wrapped, ..self }
    }

    /// Never narrower than this.
    #[must_use]
    pub fn at_least(self, columns: usize) -> Column {
        Column { at_least: columns, ..self }
    }
}

impl Table {
    /// A table without rows.
    pub fn new(columns: impl IntoIterator<Item = Column>) -> Table {
        Table {
            columns: columns.into_iter().collect(),
            items: Vec::new(),
            gap: 2,
            name: "",
            title: |head, value| format!("{head} {value}"),
            in_blocks: false,
        }
    }

    /// What a page calls it.
    #[must_use]
    pub fn named(self, name: &'static str) -> Table {
        Table { name, ..self }
    }

    /// What a title says of a key, by its heading and its value.
    #[must_use]
    pub fn titled(self, title: Title) -> Table {
        Table { title, ..self }
    }

    /// So many spaces between two columns.
    #[must_use]
    pub fn gap(self, gap: usize) -> Table {
        Table { gap, ..self }
    }

    /// Columns that have no room stand below, beside the first column once more.
    #[must_use]
    pub fn in_blocks(self) -> Table {
        Table { in_blocks: true, ..self }
    }

    /// Adds a row.
    pub fn row<T: Into<Text>>(&mut self, cells: impl IntoIterator<Item = T>) -> &mut Row {
        self.items.push(Item::Row(Row::new(cells)));
        match self.items.last_mut() {
            Some(Item::Row(row)) => row,
            _ => unreachable!("a row was just pushed"),
        }
    }

    /// Begins a group of rows with a title.
    pub fn group(&mut self, title: impl Into<Text>) {
        self.items.push(Item::Group(title.into().inked(super::Ink::Bold)));
    }

    /// Whether it has no row.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = &Row> {
        self.items.iter().filter_map(Item::row)
    }

    /// How many of the row's keys are those of the row before.
    pub(super) fn repeated(&self, before: Option<&Row>, row: &Row) -> usize {
        let keys = self.columns.iter().take_while(|column| column.key).count();
        let before = before.map(|before| before.cells.iter()).unwrap_or_default();
        before.zip(&row.cells).take(keys).take_while(|(a, b)| a == b).count()
    }

    pub(super) fn has_heads(&self) -> bool {
        self.columns.iter().flat_map(|column| &column.head).any(|head| !head.is_empty())
    }
}

impl Item {
    pub(super) fn row(&self) -> Option<&Row> {
        match self {
            Item::Row(row) => Some(row),
            _ => None,
        }
    }
}

impl Row {
    /// A row by itself.
    pub fn new<T: Into<Text>>(cells: impl IntoIterator<Item = T>) -> Row {
        Row { above: None, cells: cells.into_iter().map(Into::into).collect(), below: Vec::new() }
    }

    /// A line over the row, for a name that needs the room.
    pub fn above(&mut self, text: impl Into<Text>) -> &mut Row {
        self.above = Some(text.into());
        self
    }

    /// A line below the row, about it.
    pub fn below(&mut self, text: impl Into<Text>) -> &mut Row {
        self.below.push(text.into());
        self
    }
}
