//! The lock laboratory: workloads, locks and factors, measured in worker processes.
#![allow(
    unsafe_code,
    reason = "resource use, affinity and shared test data need system calls and raw cells; every block argues its contract"
)]
