//! The system: what only Linux has.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
pub use linux::{
    aside, ask_for_map, code_map, first_missing, give_memory_back, jit_dump, keep_little_memory, of_cgroup,
    of_container, of_unit, probe, record, record_live, signals, with_children,
};

#[cfg(not(target_os = "linux"))]
mod other;
#[cfg(not(target_os = "linux"))]
pub use other::{
    aside, ask_for_map, code_map, first_missing, give_memory_back, jit_dump, keep_little_memory, of_cgroup,
    of_container, of_unit, probe, record, record_live, signals, with_children,
};
