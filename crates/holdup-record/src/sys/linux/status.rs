//! What the kernel says of itself and of this process.

use std::fs;

use crate::doctor::{CAP_BPF, CAP_PERFMON, CAP_SYS_ADMIN};

/// The status file of this process.
pub fn own_status() -> String {
    fs::read_to_string("/proc/self/status").unwrap_or_default()
}

/// What the kernel calls itself.
pub fn kernel() -> String {
    fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned()
}

/// What this process may do.
pub fn effective_capabilities() -> u64 {
    hexadecimal(&own_status(), "CapEff:")
}

/// Whether this process has any of the rights by which a privileged one captures.
pub fn is_privileged() -> bool {
    let capabilities = effective_capabilities();
    [CAP_SYS_ADMIN, CAP_PERFMON, CAP_BPF].iter().any(|number| capabilities >> number & 1 == 1)
}

/// A line of a status file.
pub fn field<'a>(status: &'a str, key: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(key)).map(str::trim)
}

/// The same as a number.
pub fn hexadecimal(status: &str, key: &str) -> u64 {
    field(status, key).and_then(|text| u64::from_str_radix(text, 16).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_is_understood() {
        let status = "Name:\tx\nCapEff:\t000001ffffffffff\nSeccomp:\t2\nSeccomp_filters:\t1\n";
        assert_eq!(hexadecimal(status, "CapEff:"), 0x1ff_ffff_ffff);
        assert_eq!(field(status, "Seccomp:"), Some("2"));
        assert_eq!(hexadecimal("", "CapEff:"), 0);
    }
}
