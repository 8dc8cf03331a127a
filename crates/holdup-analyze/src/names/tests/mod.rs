//! Real programs: compiled, stopped where they wait, and named.

mod bed;
mod damage;
mod languages;
mod made;
mod paths;
mod samples;
mod variables;
