//! A program that the kernel stops when its control group has used up the CPU time of a period.

use std::fs;
use std::path::PathBuf;

use super::build::{self, Frames};
use super::place::{Place, text};
use super::{alone, skip};

/// A control group that may use a fifth of a CPU; gone with this.
struct Group(PathBuf);

impl Group {
    fn new() -> Option<Group> {
        let of = |root: &str| Group(PathBuf::from(root).join(format!("holdup-test-{}", std::process::id())));
        let limited = |group: &Group, file: &str, text: &str| {
            fs::create_dir(&group.0).is_ok() && fs::write(group.0.join(file), text).is_ok()
        };
        let (one, two) = (of("/sys/fs/cgroup/cpu"), of("/sys/fs/cgroup"));
        if limited(&one, "cpu.cfs_quota_us", "20000") {
            return Some(one);
        }
        limited(&two, "cpu.max", "20000 100000").then_some(two)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn a_limit_of_the_cpu_time_is_what_holds_the_program_up() {
    let Some(group) = Group::new() else { return skip("no control group with a limit can be made here") };
    let place = Place::new();
    let program = match build::program("healthy_cpu_bound.c", Frames::Pointers) {
        Ok(program) => place.copy_in(&program),
        Err(why) => return skip(&why),
    };
    let _alone = alone();
    let script = format!("echo $$ > '{}/cgroup.procs' && exec {}", group.0.display(), program.display());
    let recorded = place.record("l.holdup", &["sh", "-c", &script]);
    assert!(recorded.status.success(), "{}", text(&recorded));
    let said = text(&place.holdup(&["report", "l.holdup"]).output().unwrap());
    assert_eq!(place.report("l.holdup")["findings"][0]["kind"], "cpu-quota", "{said}");
    assert!(said.contains("The control group of healthy_cpu_bou"), "{said}");
}
