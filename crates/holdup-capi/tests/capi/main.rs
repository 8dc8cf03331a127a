//! The C and C++ interface, tested as its users meet it: headers, an installed library, programs compiled by gcc and
//! clang.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message, in its helpers too")]

mod examples;
mod header;
mod install;
mod misuse;
mod programs;
mod toolchain;
