//! What strangers did to the CPUs while a program was recorded: they can hide what its threads do to each other.

use std::fs;

/// CPU time so far, in ticks of the kernel's clock.
pub struct Others {
    /// Of the whole machine, idle or not.
    all: u64,
    /// Of everything that ran.
    busy: u64,
    /// Of this process and of the children that it has waited for.
    ours: u64,
}

impl Others {
    pub fn so_far() -> Others {
        let stat = fs::read_to_string("/proc/stat").unwrap();
        let cpu: Vec<u64> = stat
            .lines()
            .next()
            .unwrap()
            .split_whitespace()
            .skip(1)
            .map(|word| word.parse().unwrap())
            .collect();
        // user, nice, system, idle, iowait, irq, softirq, steal; what guests use is part of user.
        let all = cpu[..8].iter().sum();
        Others { all, busy: all - cpu[3] - cpu[4], ours: ours() }
    }

    /// Since then: the share of all CPU time that went to others.
    pub fn share(&self) -> f64 {
        let now = Others::so_far();
        let others = (now.busy - self.busy).saturating_sub(now.ours - self.ours);
        others as f64 / (now.all - self.all).max(1) as f64
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
