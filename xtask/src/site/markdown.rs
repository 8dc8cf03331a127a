//! A page of Markdown as HTML: links lead to the pages of the site, headings have the anchors that the repository's
//! pages use, wide tables scroll by themselves.

use pulldown_cmark::{CowStr, Event, Options, Parser, Tag, TagEnd, html};

use super::path::{Target, page_at, relative};

/// A page of the site, without what stands around it.
pub struct Page {
    pub title: String,
    pub body: String,
    /// The text before the first heading below the title, then each heading's.
    pub sections: Vec<Section>,
}

/// A heading of the second or third level, and the words below it.
#[derive(Clone, Debug, PartialEq)]
pub struct Section {
    pub anchor: String,
    pub title: String,
    pub level: u8,
    pub text: String,
}

/// The page that lies at `source` in the repository, and what it links to.
pub fn page(source: &str, text: &str) -> Result<(Page, Vec<Target>), String> {
    let mut events: Vec<Event> =
        Parser::new_ext(text, Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH).collect();
    let mut targets = Vec::new();
    for event in &mut events {
        if let Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) = event
            && let Some((target, place)) = resolve(source, dest_url)?
        {
            *dest_url = CowStr::from(place);
            targets.push(target);
        }
    }
    let sections = anchored(&mut events);
    let mut body = String::new();
    html::push_html(&mut body, events.into_iter());
    let body = body.replace("<table>", "<div class=\"wide\"><table>").replace("</table>", "</table></div>");
    Ok((Page { title: title(text), body, sections }, targets))
}

/// A file that is no page, to read.
pub fn source(path: &str, text: &str) -> Page {
    let body = maud::html! { h1 { (path) } pre { code { (text) } } }.into_string();
    let whole = Section { anchor: String::new(), title: String::new(), level: 1, text: String::new() };
    Page { title: path.to_owned(), body, sections: vec![whole] }
}

/// The first heading.
pub fn title(text: &str) -> String {
    let mut title = String::new();
    for event in Parser::new(text).skip_while(|event| !matches!(event, Event::Start(Tag::Heading { .. }))) {
        match event {
            Event::Text(words) | Event::Code(words) => title.push_str(&words),
            Event::End(TagEnd::Heading(_)) => break,
            _ => {}
        }
    }
    title
}

/// What a link leads to inside the repository, and the same link inside the site; none if it leads elsewhere.
fn resolve(source: &str, link: &str) -> Result<Option<(Target, String)>, String> {
    if link.contains("://") || link.starts_with('#') || link.starts_with("mailto:") {
        return Ok(None);
    }
    let (path, anchor) = link.split_once('#').map_or((link, None), |(path, anchor)| (path, Some(anchor)));
    let target = Target::of(source, path)?;
    let mut place = relative(&page_at(source), &target.at());
    if let Some(anchor) = anchor {
        place.extend(["#", anchor]);
    }
    Ok(Some((target, place)))
}

/// Gives each heading its anchor, and collects the words below it.
fn anchored(events: &mut [Event]) -> Vec<Section> {
    let mut sections = vec![Section { anchor: String::new(), title: String::new(), level: 1, text: String::new() }];
    let mut used: Vec<String> = Vec::new();
    let mut heading: Option<(usize, String)> = None;
    for at in 0..events.len() {
        match &events[at] {
            Event::Start(Tag::Heading { .. }) => heading = Some((at, String::new())),
            Event::End(TagEnd::Heading(level)) => {
                let (start, title) = heading.take().unwrap_or_default();
                let anchor = anchor(&title, &mut used);
                let level = *level as u8;
                if let Event::Start(Tag::Heading { id, .. }) = &mut events[start] {
                    *id = Some(CowStr::from(anchor.clone()));
                }
                // The title itself stands for the page.
                if level > 1 {
                    sections.push(Section { anchor, title, level, text: String::new() });
                }
            }
            Event::Text(words) | Event::Code(words) => match (&mut heading, sections.last_mut()) {
                (Some((_, title)), _) => title.push_str(words),
                (None, Some(section)) => section.text.push_str(words),
                (None, None) => {}
            },
            Event::End(TagEnd::TableCell | TagEnd::Paragraph | TagEnd::Item) | Event::SoftBreak | Event::HardBreak => {
                let text = heading.as_mut().map(|(_, title)| title);
                if let Some(text) = text.or(sections.last_mut().map(|section| &mut section.text)) {
                    text.push(' ');
                }
            }
            _ => {}
        }
    }
    sections
}

/// The anchor that Markdown's usual renderers give a heading; the second of a name gets a number.
fn anchor(title: &str, used: &mut Vec<String>) -> String {
    let kept = |c: &char| c.is_alphanumeric() || "-_ ".contains(*c);
    let base = title.trim().to_lowercase().chars().filter(kept).collect::<String>().replace(' ', "-");
    let before = used.iter().filter(|name| **name == base).count();
    used.push(base.clone());
    if before == 0 { base } else { format!("{base}-{before}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_to_the_pages_of_the_site() {
        let text = "# A `b` c\n\nSee [x](guide.md#on-windows), [y](../examples/page_cache.c), [z](https://a.example/#q) \
                    and [w](benchmarks/).\n";
        let (page, targets) = page("docs/tour.md", text).unwrap();
        assert_eq!(page.title, "A b c");
        for there in ["\"guide.html#on-windows\"", "\"../examples/page_cache.c.html\"", "\"https://a.example/#q\""] {
            assert!(page.body.contains(there), "{there}: {}", page.body);
        }
        assert!(page.body.contains("\"benchmarks/index.html\""), "{}", page.body);
        assert!(targets.contains(&Target::Folder("docs/benchmarks".to_owned())), "{targets:?}");
        let why = super::page("docs/tour.md", "[a](no-such-page.md)").err().unwrap();
        assert_eq!(why, "docs/tour.md links to no-such-page.md, which is not there");
    }

    #[test]
    fn headings_have_anchors_and_words_are_found_below_them() {
        let text = "# T\n\nfirst\n\n## Two: `x`\n\n| a | b |\n|---|---|\n| c | d |\n\n## Two x\n\n```sh\nrun it\n```\n";
        let (page, _) = page("docs/tour.md", text).unwrap();
        let of = |section: &Section| (section.anchor.clone(), section.text.split_whitespace().collect::<String>());
        let found: Vec<_> = page.sections.iter().map(of).collect();
        let expected = [("", "first"), ("two-x", "abcd"), ("two-x-1", "runit")];
        assert_eq!(found, expected.map(|(anchor, text)| (anchor.to_owned(), text.to_owned())));
        assert!(page.body.contains("<h2 id=\"two-x-1\">") && page.body.contains("<div class=\"wide\"><table>"));
    }
}
