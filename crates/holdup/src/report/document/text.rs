//! Text with colours, harmless wherever it came from.

use std::ops::Add;

use crate::text;

/// What a colour says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ink {
    /// It matters.
    Bold,
    /// It went well.
    Good,
    /// It went badly.
    Bad,
    /// It matters less.
    Faint,
    /// The line of a chart with this number.
    Line(usize),
}

/// Text in which control and bidirectional characters are made visible; parts of it may bear a colour.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text(Vec<Span>);

/// A part in one colour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) text: String,
    pub(super) ink: Option<Ink>,
}

/// The text in a colour.
pub fn ink(ink: Ink, text: impl Into<Text>) -> Text {
    text.into().inked(ink)
}

impl From<&str> for Text {
    fn from(foreign: &str) -> Text {
        let mut text = Text::default();
        text.push(&text::clean(foreign), None);
        text
    }
}

impl From<String> for Text {
    fn from(text: String) -> Text {
        Text::from(text.as_str())
    }
}

impl From<&String> for Text {
    fn from(text: &String) -> Text {
        Text::from(text.as_str())
    }
}

impl<T: Into<Text>> Add<T> for Text {
    type Output = Text;

    fn add(mut self, other: T) -> Text {
        self.append(&other.into());
        self
    }
}

impl Text {
    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// In this colour, but for parts that have one.
    #[must_use]
    pub fn inked(mut self, ink: Ink) -> Text {
        self.0.iter_mut().for_each(|span| span.ink = span.ink.or(Some(ink)));
        self
    }

    pub(super) fn spans(&self) -> &[Span] {
        &self.0
    }

    /// Without colours.
    pub(super) fn plain(&self) -> String {
        self.0.iter().map(|span| span.text.as_str()).collect()
    }

    /// Columns that it takes on a terminal.
    pub(super) fn columns(&self) -> usize {
        self.0.iter().map(|span| text::columns(&span.text)).sum()
    }

    /// Adds what is harmless already.
    fn push(&mut self, text: &str, ink: Option<Ink>) {
        match self.0.last_mut() {
            _ if text.is_empty() => {}
            Some(last) if last.ink == ink => last.text.push_str(text),
            _ => self.0.push(Span { text: text.to_owned(), ink }),
        }
    }

    fn append(&mut self, other: &Text) {
        other.0.iter().for_each(|span| self.push(&span.text, span.ink));
    }

    /// Broken at spaces so that no line is wider; a word that is wider than a line stands alone on its own.
    /// Lines after the first begin with so many spaces.
    pub(super) fn wrapped(&self, width: usize, hang: usize) -> Vec<Text> {
        let mut lines = Vec::new();
        let mut line = Text::default();
        let mut column = 0;
        for word in self.words() {
            let length = word.columns();
            if column > 0 && column + 1 + length > width {
                lines.push(std::mem::take(&mut line));
                line.push(&" ".repeat(hang), None);
                column = hang;
            } else if column > 0 {
                let before = line.0.last().and_then(|span| span.ink);
                line.push(" ", before.filter(|ink| word.0[0].ink == Some(*ink)));
                column += 1;
            }
            line.append(&word);
            column += length;
        }
        lines.push(line);
        lines
    }

    fn words(&self) -> Vec<Text> {
        let mut words = vec![Text::default()];
        for span in &self.0 {
            for (index, part) in span.text.split(' ').enumerate() {
                if index > 0 {
                    words.push(Text::default());
                }
                if let Some(word) = words.last_mut() {
                    word.push(part, span.ink);
                }
            }
        }
        words.retain(|word| !word.is_empty());
        words
    }

    /// In at most so many columns, with two dots in the middle where something is left out.
    pub(super) fn cut(&self, width: usize) -> Text {
        if self.columns() <= width {
            return self.clone();
        }
        let room = width.saturating_sub(2);
        let characters: Vec<(char, Option<Ink>)> =
            self.0.iter().flat_map(|span| span.text.chars().map(|c| (c, span.ink))).collect();
        let fitting = |characters: &mut dyn Iterator<Item = &(char, Option<Ink>)>, room: usize| {
            let mut used = 0;
            let fits = characters.take_while(|(c, _)| {
                used += text::columns(c.encode_utf8(&mut [0; 4]));
                used <= room
            });
            fits.count()
        };
        let head = fitting(&mut characters.iter(), room.div_ceil(2));
        let tail = fitting(&mut characters[head..].iter().rev(), room / 2);
        let mut cut = Text::default();
        let mut put = |(c, ink): &(char, Option<Ink>)| cut.push(c.encode_utf8(&mut [0; 4]), *ink);
        characters[..head].iter().for_each(&mut put);
        "..".chars().for_each(|c| put(&(c, characters[head].1)));
        characters[characters.len() - tail..].iter().for_each(&mut put);
        cut
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_at_spaces_and_words_keep_their_colours() {
        let text = Text::from("aa ") + ink(Ink::Bold, "bb cc") + "dd ee";
        let lines = text.wrapped(5, 1);
        assert_eq!(lines.iter().map(Text::plain).collect::<Vec<_>>(), ["aa bb", " ccdd", " ee"]);
        assert_eq!(lines[1].0[1], Span { text: "cc".to_owned(), ink: Some(Ink::Bold) });
        assert_eq!(lines[1].0[2], Span { text: "dd".to_owned(), ink: None });
        assert_eq!(Text::from("aa bbbbbbbbb cc").wrapped(5, 1).len(), 3, "a long word has its own line");
        assert_eq!(Text::default().wrapped(5, 0), [Text::default()]);
    }

    #[test]
    fn names_are_cut_in_the_middle() {
        let cut = |text: &str, width| Text::from(text).cut(width).plain();
        assert_eq!(cut("a-name-that-is-long", 12), "a-nam..-long");
        assert_eq!(cut("short", 5), "short");
        assert_eq!(cut("short", 0), "..");
        assert_eq!(cut("名前名前名前", 8), "名..前", "a character of two columns is not halved");
    }

    #[test]
    fn foreign_text_is_harmless() {
        assert_eq!(Text::from("a\u{1b}[2J\nb\u{202e}").plain(), "a<U+001B>[2J b<U+202E>");
    }
}
