//! Pages for people: self-contained HTML files that need no server and no network.
//!
//! All pages share a shell: one style sheet and one script (built from `viewer/src`, see `cargo xtask viewer`), a theme
//! switch, tables that sort. A content security policy in the page forbids every request. Foreign text enters as text
//! only: maud escapes it and [`visible`] shows what would hide in it; into data it comes through [`json`].

mod findings;
mod frame;
mod pack;
mod recording;
mod states;
#[cfg(test)]
mod tests;
mod track;
mod trial;

use frame::json;
pub(crate) use frame::{CLOSE, environment, header, open, visible, whole};
#[cfg(test)]
pub(super) use recording::View;
pub use recording::recording;
pub use trial::trial;
