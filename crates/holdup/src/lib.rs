//! The program: everything that prints.
#![forbid(unsafe_code)]
