//! The C and C++ interface, tested as its users meet it: headers, an installed library, programs compiled by gcc and clang.

mod examples;
mod header;
mod install;
mod misuse;
mod programs;
mod toolchain;
