//! What every page is made of: its head, its end, text and data in it.

use std::fmt::Write as _;

use maud::{Markup, html};
use serde::Serialize;

use crate::text;

const STYLE: &str = include_str!("../../../viewer/dist/viewer.css");
const SCRIPT: &str = include_str!("../../../viewer/dist/viewer.js");

/// Everything up to the page's own content: `kind` chooses the style, `title` names the tab.
pub(crate) fn open(kind: &str, title: &str) -> String {
    let mut out = String::with_capacity(STYLE.len() + SCRIPT.len() + 1024);
    let _ = write!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
         script-src 'unsafe-inline'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{}</title>\n<style>\n{STYLE}</style>\n<script>\n{SCRIPT}</script>\n</head>\n<body class=\"{kind}\">\n",
        visible(html! { (title) })
    );
    out
}

/// The page's own content up to its first section: what it is about in small letters, and its one sentence.
pub(crate) fn header(about: &str, headline: &str) -> Markup {
    html! {
        header class="top" {
            div { p class="eyebrow" { (about) } h1 { (headline) } }
            div class="switches" { button type="button" class="theme" hidden { "Theme" } }
        }
    }
}

/// A page that is made as a whole: its kind, the tab's name, what it is about, its one sentence, and the rest.
pub(crate) fn whole(kind: &str, title: &str, about: &str, headline: &str, content: &Markup) -> String {
    let body = html! { (header(about, headline)) main { (content) } };
    open(kind, title) + &visible(body) + CLOSE
}

/// The end of every page.
pub(crate) const CLOSE: &str = "</body>\n</html>\n";

/// The names and values of the machine.
pub(crate) fn environment<'a>(facts: impl IntoIterator<Item = (&'a str, &'a str)>) -> Markup {
    html! {
        table class="environment" {
            tbody { @for (name, value) in facts { tr { th { (name) } td { (value) } } } }
        }
    }
}

/// Markup, whose foreign text maud has escaped, with control characters visible as well.
pub(crate) fn visible(markup: Markup) -> String {
    let mut out = String::with_capacity(markup.0.len());
    for c in markup.into_string().chars() {
        match c {
            '\n' | '\t' => out.push(' '),
            c if c.is_control() || text::is_bidi(c) => {
                let _ = write!(out, "&lt;U+{:04X}&gt;", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out
}

/// Data as it may stand in a script element: whatever strings hold, nothing ends the element.
///
/// # Errors
/// A key is not text.
pub fn json(data: &impl Serialize) -> serde_json::Result<String> {
    let text = serde_json::to_string(data)?;
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            // Invisible characters too: who reads the source of a page sees what is there.
            c if "<>&".contains(c) || c.is_control() || text::is_bidi(c) => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    Ok(out)
}
