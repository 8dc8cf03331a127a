//! A report as data: headings, paragraphs, fields, commands and tables, built once and printed for a terminal or as
//! HTML.
//!
//! What stands in a [`Text`] is harmless: control and bidirectional characters are made visible where a text is made,
//! so no printer has to think of them. Widths and line breaks are the terminal's affair, markup the page's: a report
//! knows neither.
//!
//! ```
//! use holdup::report::Style;
//! use holdup::report::document::{Column, Document, Ink, Table, ink};
//!
//! let mut document = Document::default();
//! document.headline("Threads lose 41% of their working time waiting for g_lock.");
//! document.heading("Where the time goes");
//! let mut table = Table::new([Column::left("thread"), Column::right("waits")]);
//! table.row(["worker", "12.3k"]).below("most of them in cache_get");
//! table.row([ink(Ink::Faint, "logger"), "9".into()]);
//! document.table(table);
//! document.field(6, "try", |value| value.paragraph("Do less while the lock is held."));
//! assert_eq!(document.terminal(&Style::default()), "\
//! Threads lose 41% of their working time waiting for g_lock.
//!
//! Where the time goes
//! thread  waits
//! worker  12.3k
//!     most of them in cache_get
//! logger      9
//! try    Do less while the lock is held.
//! ");
//! assert!(document.html().into_string().contains("<td class=\"n\">12.3k</td>"));
//! ```

mod html;
mod table;
mod terminal;
mod text;

pub use table::{Column, Row, Table};
pub use text::{Ink, Text, ink};

/// A report, or a part of one.
#[derive(Clone, Debug, Default)]
pub struct Document(Vec<Block>);

#[derive(Clone, Debug)]
enum Block {
    /// Breaks at spaces; lines after the first begin with so many.
    Paragraph {
        text: Text,
        hang: usize,
    },
    /// Stands off from what is before it.
    Heading(Text),
    /// One line whatever its length: cut in the middle where there is no room.
    Line(Text),
    /// Words that a shell reads back.
    Command(Vec<Text>),
    /// A label, in so many columns, and what it is of.
    Field {
        label: Text,
        width: usize,
        value: Document,
    },
    Table(Table),
    Indented(usize, Document),
    List(Vec<Text>),
    /// An empty line.
    Gap,
}

impl<T: Into<Text>> From<T> for Document {
    /// A paragraph alone.
    fn from(text: T) -> Document {
        let mut document = Document::default();
        document.paragraph(text);
        document
    }
}

impl Document {
    /// The sentence that matters most.
    pub fn headline(&mut self, text: impl Into<Text>) {
        self.paragraph(text.into().inked(Ink::Bold));
    }

    /// The title of what follows, after an empty line.
    pub fn heading(&mut self, text: impl Into<Text>) {
        self.0.push(Block::Heading(text.into()));
    }

    /// A heading, and the things that stand under it.
    pub fn section<T: Into<Text>>(&mut self, title: impl Into<Text>, items: impl IntoIterator<Item = T>) {
        self.heading(title);
        self.0.push(Block::List(items.into_iter().map(Into::into).collect()));
    }

    /// Sentences.
    pub fn paragraph(&mut self, text: impl Into<Text>) {
        self.hanging(0, text);
    }

    /// A paragraph whose lines after the first begin with so many spaces.
    pub fn hanging(&mut self, hang: usize, text: impl Into<Text>) {
        self.0.push(Block::Paragraph { text: text.into(), hang });
    }

    /// One line, which is cut in the middle where it is too long.
    pub fn line(&mut self, text: impl Into<Text>) {
        self.0.push(Block::Line(text.into()));
    }

    /// A command to copy: words as a shell reads them, broken between words.
    pub fn command<W: Into<Text>>(&mut self, words: impl IntoIterator<Item = W>) {
        self.0.push(Block::Command(words.into_iter().map(Into::into).collect()));
    }

    /// A label in so many columns, and its value beside it.
    pub fn field(&mut self, width: usize, label: impl Into<Text>, value: impl FnOnce(&mut Document)) {
        let mut document = Document::default();
        value(&mut document);
        self.0.push(Block::Field { label: label.into(), width, value: document });
    }

    /// A table.
    pub fn table(&mut self, table: Table) {
        self.0.push(Block::Table(table));
    }

    /// What `content` adds, so many columns to the right.
    pub fn indented(&mut self, columns: usize, content: impl FnOnce(&mut Document)) {
        let mut document = Document::default();
        content(&mut document);
        self.0.push(Block::Indented(columns, document));
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// An empty line.
    pub fn gap(&mut self) {
        self.0.push(Block::Gap);
    }

    /// Everything of the other, after this.
    pub fn append(&mut self, other: Document) {
        self.0.extend(other.0);
    }
}
