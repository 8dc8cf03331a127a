//! The program behind the `holdup` command: plans sweeps, runs workers, keeps results, and says what they mean.
//!
//! Only this crate prints, decides exit statuses, and knows command lines, JSON and colour.
#![forbid(unsafe_code)]

pub mod advice;
pub mod claim;
pub mod cli;
pub mod experiment;
pub mod export;
pub mod interposer;
pub mod live;
pub mod metric;
pub mod plan;
pub mod plot;
pub mod profile;
pub mod recording;
pub mod report;
pub mod results;
pub mod runner;
pub mod scratch;
pub mod selftest;
pub mod shell;
pub mod slow;
pub mod stats;
pub mod store;
pub mod sys;
pub mod tables;
pub mod text;
pub mod trial;
pub mod warning;
pub mod watch;
