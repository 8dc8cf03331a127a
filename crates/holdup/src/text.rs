//! Laying out text for a terminal: wrapping, padding, columns, and foreign text made harmless.

use unicode_width::UnicodeWidthChar as _;

/// Text from outside (names, details, environment) with control and bidirectional characters made visible, so that it
/// can neither move a terminal's cursor nor reorder a line.
pub fn clean(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => out.push(' '),
            c if c.is_control() || is_bidi(c) => out.push_str(&format!("<U+{:04X}>", u32::from(c))),
            c => out.push(c),
        }
    }
    out
}

/// Characters that change the direction of text or hide in it.
pub(crate) fn is_bidi(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// Breaks text at spaces so that no line is wider; a word that is wider than a line stands alone on its own.
/// Lines after the first begin with `indent` spaces.
pub fn wrap(text: &str, width: usize, indent: usize) -> String {
    let mut out = String::new();
    let mut column = 0;
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        let length = columns(word);
        if column > 0 && column + 1 + length > width {
            out.push('\n');
            out.push_str(&" ".repeat(indent));
            column = indent;
        } else if column > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += length;
    }
    out
}

/// `a`, `a and b`, `a, b and c`.
pub fn list<T: AsRef<str>>(items: &[T]) -> String {
    match items {
        [] => String::new(),
        [one] => one.as_ref().to_owned(),
        [first @ .., last] => {
            let first: Vec<&str> = first.iter().map(AsRef::as_ref).collect();
            format!("{} and {}", first.join(", "), last.as_ref())
        }
    }
}

/// Right-aligned in so many columns.
pub fn right(text: &str, width: usize) -> String {
    format!("{}{text}", " ".repeat(width.saturating_sub(columns(text))))
}

/// Left-aligned in so many columns.
pub fn left(text: &str, width: usize) -> String {
    format!("{text}{}", " ".repeat(width.saturating_sub(columns(text))))
}

/// Columns that the text takes on a terminal; colours take none.
pub fn columns(text: &str) -> usize {
    let mut count = 0;
    let mut escape = false;
    for c in text.chars() {
        match (escape, c) {
            (true, 'm') => escape = false,
            (true, _) => {}
            (false, '\u{1b}') => escape = true,
            (false, c) => count += c.width().unwrap_or(0),
        }
    }
    count
}

/// The text in at most so many columns, with two dots where something is left out.
pub fn cut(line: &str, width: usize) -> String {
    if columns(line) <= width {
        return line.to_owned();
    }
    let kept: String = line.chars().take(width.saturating_sub(2)).collect();
    format!("{}..", kept.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_at_spaces_and_long_words_stay_whole() {
        assert_eq!(wrap("aa bb cc", 5, 0), "aa bb\ncc");
        assert_eq!(wrap("aa bbbbbbbbb cc", 5, 1), "aa\n bbbbbbbbb\n cc");
        assert_eq!(wrap("", 5, 0), "");
    }

    #[test]
    fn foreign_text_moves_no_cursor_and_reorders_nothing() {
        assert_eq!(clean("a\u{1b}[2Jb\u{202e}c\nd"), "a<U+001B>[2Jb<U+202E>c d");
    }

    #[test]
    fn lists_read_as_sentences() {
        assert_eq!(list(&["a"]), "a");
        assert_eq!(list(&["a", "b", "c"]), "a, b and c");
    }

    #[test]
    fn colours_take_no_columns() {
        assert_eq!(columns("\u{1b}[32mab\u{1b}[0m"), 2);
    }
}
