//! What is written into pages.
