//! Import: a file from perf itself, files made here, and files that are broken in every way.
use super::*;
