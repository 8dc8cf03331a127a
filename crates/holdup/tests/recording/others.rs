//! What strangers did to the CPUs while a program was recorded: they can hide what its threads do to each other.

use std::fs;

use holdup_bench::machine::Window;

/// The kernel counts the CPU time of processes in hundredths of a second.
const TICK_NS: u64 = 10_000_000;

/// The CPUs, watched from here on.
pub struct Others {
    cpus: Window,
    /// Ticks of this process and of the children that it has waited for.
    ours: u64,
}

impl Others {
    pub fn so_far() -> Others {
        let cpus: Vec<u32> = (0..std::thread::available_parallelism().unwrap().get() as u32).collect();
        Others { cpus: Window::open(&cpus), ours: ours() }
    }

    /// Since then: the share of all CPU time that went to others, or that the hypervisor took.
    pub fn share(self) -> f64 {
        let found = self.cpus.close((ours() - self.ours) * TICK_NS);
        found.background_share + found.steal_share
    }
}

fn ours() -> u64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    // The name stands in brackets and may contain anything; utime, stime, cutime and cstime are the 14th to 17th field.
    let fields = stat.rsplit_once(')').unwrap().1.split_whitespace();
    fields.skip(11).take(4).map(|word| word.parse::<u64>().unwrap()).sum()
}

#[test]
fn a_stranger_at_work_is_seen() {
    let cpus = std::thread::available_parallelism().unwrap().get();
    let others = Others::so_far();
    // Nobody has waited for it when its share is asked for, so it is a stranger.
    let mut busy = std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(500));
    let share = others.share();
    busy.kill().unwrap();
    busy.wait().unwrap();
    assert!(share > 0.1 / cpus as f64, "one of {cpus} CPUs was busy, and {share} was seen");
    assert!(share <= 1.0, "{share}");
}
