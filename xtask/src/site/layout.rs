//! What stands around every page: the head, the navigation, the search.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::markdown::Page;
use super::nav::Part;
use super::path::relative;

/// A whole page.
pub fn page(at: &str, page: &Page, parts: &[Part]) -> Markup {
    let to = |place: &str| relative(at, place);
    let title = if at == "index.html" { "holdup".to_owned() } else { format!("{} · holdup", page.title) };
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                link rel="stylesheet" href=(to("site.css"));
                // Before anything is shown, for the theme.
                script src=(to("site.js")) {}
            }
            body data-root=(root(at)) {
                a.skip href="#content" { "Skip to the page" }
                header {
                    a.name href=(to("index.html")) { "holdup" }
                    div.search role="search" {
                        input type="search" placeholder="Search (/)" aria-label="Search all pages" autocomplete="off"
                            spellcheck="false";
                        ol.results hidden aria-live="polite" {}
                    }
                    button.menu type="button" aria-expanded="false" aria-controls="nav" { "Contents" }
                    button.theme type="button" hidden { "Dark" }
                }
                div.columns {
                    nav id="nav" aria-label="Pages" { @for part in parts { (navigation(at, part)) } }
                    main id="content" { (PreEscaped(&page.body)) }
                }
            }
        }
    }
}

/// The way to the site's own folder, for links that the script makes.
fn root(at: &str) -> String {
    "../".repeat(at.matches('/').count())
}

fn navigation(at: &str, part: &Part) -> Markup {
    let here = part.pages.iter().any(|entry| entry.at == at);
    let pages = html! {
        ul {
            @for entry in &part.pages {
                li {
                    a href=(relative(at, &entry.at)) aria-current=[(entry.at == at).then_some("page")] { (entry.title) }
                    @if entry.at == at && entry.sections.len() > 3 {
                        ul.sections {
                            @for section in entry.sections.iter().filter(|section| section.level == 2) {
                                li { a href=(format!("#{}", section.anchor)) { (section.title) } }
                            }
                        }
                    }
                }
            }
        }
    };
    html! {
        @if part.is_long() {
            details open[here] { summary { (part.name) } (pages) }
        } @else {
            h2 { (part.name) }
            (pages)
        }
    }
}
