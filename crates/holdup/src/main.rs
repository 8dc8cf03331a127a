//! `holdup`: finds what is holding threads up, and proves which cure works.
#![forbid(unsafe_code)]

fn main() {}
