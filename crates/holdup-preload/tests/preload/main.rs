//! Programs under the library: they behave as without it, under every policy, and the figures say what they did.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message, in its helpers too")]

mod side_by_side;

use std::fs;
use std::mem::offset_of;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use holdup_control::{
    COUNT_FILE, ENV, Fallback, Figures, KIND_RWLOCK, LockRecord, MAGIC, Policy, Profile, RULE_INIT, RULE_OBJECT,
    RULE_SITE, Rule, RwPolicy, SAYS_NOTHING, SETTINGS_FILE, STATE_OTHER, STATE_SERVES, Settings, ThreadSlot, VERSION,
};

const POLICIES: [Policy; 8] = [
    Policy::Glibc,
    Policy::SpinPark(50),
    Policy::SpinLearn,
    Policy::Ttas,
    Policy::Capped(1),
    Policy::Capped(2),
    Policy::Throttle(1),
    Policy::Throttle(2),
];

fn set(bytes: &mut [u8], offset: usize, value: &[u8]) {
    bytes[offset..offset + value.len()].copy_from_slice(value);
}

/// The library, which cargo does not build for tests by itself: beside the tests, from what they were built of.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["rustc", "--quiet", "--lib", "--crate-type", "cdylib", "--package", "holdup-preload"]);
        cargo.arg("--target-dir").arg(target);
        cargo.current_dir(env!("CARGO_MANIFEST_DIR"));
        assert!(cargo.status().expect("cargo runs").success());
        target.join("debug/libholdup_preload.so")
    })
}

fn compile(source: &str, name: &str, flags: &[&str]) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/interposer");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let mut command = Command::new("gcc");
    command.args(["-O1", "-g", "-Wall", "-pthread"]).args(flags).arg(folder.join(source)).arg("-o").arg(&program);
    assert!(command.status().expect("gcc compiles the fixtures").success(), "{source}");
    program
}

fn checks() -> &'static Path {
    static CHECKS: OnceLock<PathBuf> = OnceLock::new();
    CHECKS.get_or_init(|| compile("preload_checks.c", "preload_checks", &[]))
}

fn plugin() -> &'static Path {
    static PLUGIN: OnceLock<PathBuf> = OnceLock::new();
    PLUGIN.get_or_init(|| compile("preload_plugin.c", "preload_plugin.so", &["-shared", "-fPIC"]))
}

/// The folder that a program and its observer share.
struct Control {
    folder: PathBuf,
}

impl Control {
    fn new(policy: Policy, profile: Profile) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = Path::new("/dev/shm").join(format!("holdup-preload-{}-{number}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let mut bytes = vec![0; size_of::<Settings>()];
        set(&mut bytes, offset_of!(Settings, magic), &MAGIC.to_ne_bytes());
        set(&mut bytes, offset_of!(Settings, version), &VERSION.to_ne_bytes());
        let size = size_of::<Settings>() as u32;
        set(&mut bytes, offset_of!(Settings, bytes), &size.to_ne_bytes());
        set(&mut bytes, offset_of!(Settings, policy), &policy.pack().to_ne_bytes());
        set(&mut bytes, offset_of!(Settings, profile), &(profile as u32).to_ne_bytes());
        fs::write(folder.join(SETTINGS_FILE), bytes).unwrap();
        fs::write(folder.join(COUNT_FILE), [0; 4]).unwrap();
        Control { folder }
    }

    /// In place, for a program may have the file mapped.
    fn write(&self, offset: usize, value: &[u8]) {
        use std::os::unix::fs::FileExt;
        let file = fs::OpenOptions::new().write(true).open(self.folder.join(SETTINGS_FILE)).unwrap();
        file.write_all_at(value, offset as u64).unwrap();
    }

    fn with(self, offset: usize, value: &[u8]) -> Self {
        self.write(offset, value);
        self
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env("LD_PRELOAD", library()).env(ENV, &self.folder);
        command
    }

    fn run(&self, words: &[&str]) -> Output {
        self.command(checks()).args(words).output().unwrap()
    }

    fn check(self, words: &[&str]) -> Vec<Seen> {
        let output = self.run(words);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {} {said}", output.status);
        assert_eq!(said, "", "the library prints nothing");
        self.seen()
    }

    fn seen(&self) -> Vec<Seen> {
        let files = fs::read_dir(&self.folder).unwrap().map(|entry| entry.unwrap().path());
        files
            .filter(|path| !path.ends_with(SETTINGS_FILE) && !path.ends_with(COUNT_FILE))
            .map(|path| Seen(fs::read(path).unwrap()))
            .collect()
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// The figures of one process, as bytes.
struct Seen(Vec<u8>);

impl Seen {
    fn u32(&self, offset: usize) -> u32 {
        u32::from_ne_bytes(self.0[offset..offset + 4].try_into().unwrap())
    }

    fn u64(&self, offset: usize) -> u64 {
        u64::from_ne_bytes(self.0[offset..offset + 8].try_into().unwrap())
    }

    fn state(&self) -> u32 {
        assert_eq!(self.u64(offset_of!(Figures, magic)), MAGIC);
        assert_eq!(self.u32(offset_of!(Figures, bytes)) as usize, self.0.len());
        self.u32(offset_of!(Figures, state))
    }

    fn fallbacks(&self, why: Fallback) -> u64 {
        self.u64(offset_of!(Figures, fallbacks) + 8 * why as usize)
    }

    fn threads(&self, field: usize) -> u64 {
        let len = self.u32(offset_of!(Figures, threads_len)) as usize;
        let first = offset_of!(Figures, threads) + field;
        (0..len).map(|at| self.u64(first + at * size_of::<ThreadSlot>())).sum()
    }

    fn acquisitions(&self) -> u64 {
        self.threads(offset_of!(ThreadSlot, acquisitions))
    }

    fn locks(&self) -> usize {
        self.u32(offset_of!(Figures, locks_len)) as usize
    }

    fn lock(&self, at: usize, field: usize) -> u64 {
        self.u64(offset_of!(Figures, locks) + at * size_of::<LockRecord>() + field)
    }

    /// Sum over all locks.
    fn all(&self, field: usize) -> u64 {
        (0..self.locks()).map(|at| self.lock(at, field)).sum()
    }
}

fn under_every_policy(words: &[&str]) {
    for policy in POLICIES {
        let seen = Control::new(policy, Profile::Off).check(words);
        assert!(seen.iter().any(|seen| seen.state() == STATE_SERVES && seen.acquisitions() > 0), "{policy:?}");
    }
    Control::new(Policy::Throttle(1), Profile::Sampled).check(words);
    Control::new(Policy::Capped(1), Profile::Full).check(words);
}

#[test]
fn one_thread_at_a_time() {
    under_every_policy(&["exclusion"]);
}

#[test]
fn in_every_way_to_lock() {
    under_every_policy(&["every_way"]);
}

#[test]
fn times_run_out_as_without() {
    under_every_policy(&["timed"]);
}

#[test]
fn types_keep_their_error_codes() {
    under_every_policy(&["types"]);
}

#[test]
fn conditions_are_waited_for() {
    under_every_policy(&["condition"]);
}

#[test]
fn a_wait_for_a_condition_can_be_cancelled() {
    under_every_policy(&["cancel"]);
}

#[test]
fn children_of_forks_go_on() {
    under_every_policy(&["forks"]);
}

#[test]
fn a_plugin_may_use_glibc_on_the_same_mutex() {
    under_every_policy(&["deepbind", plugin().to_str().unwrap()]);
}

#[test]
fn destroyed_only_when_free() {
    under_every_policy(&["destroy"]);
}

#[test]
fn c11_mutexes() {
    under_every_policy(&["c11"]);
}

#[test]
fn policies_change_while_threads_wait() {
    for words in [&["every_way"][..], &["types"], &["condition"], &["deepbind", plugin().to_str().unwrap()]] {
        let control = Control::new(Policy::Glibc, Profile::Sampled);
        let mut child = control.command(checks()).args(words).spawn().unwrap();
        let mut turn = 0;
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            control.write(offset_of!(Settings, policy), &POLICIES[turn % POLICIES.len()].pack().to_ne_bytes());
            turn += 1;
            std::thread::sleep(std::time::Duration::from_millis(2));
        };
        assert!(status.success(), "{words:?}: {status}");
    }
}

#[test]
fn locks_before_any_constructor() {
    under_every_policy(&["early"]);
}

#[test]
fn more_threads_than_slots() {
    for profile in [Profile::Off, Profile::Full] {
        let seen = Control::new(Policy::SpinPark(10), profile).check(&["thousands"]);
        // Each thread locks once, and the first once more.
        assert_eq!(seen[0].acquisitions(), 4301);
    }
}

#[test]
fn without_settings_nothing_is_touched() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    for value in [None, Some(""), Some("/nowhere"), Some("/dev/shm")] {
        let mut command = Command::new(checks());
        command.arg("exclusion").env("LD_PRELOAD", library()).current_dir(folder).env_remove(ENV);
        if let Some(value) = value {
            command.env(ENV, value);
        }
        let output = command.output().unwrap();
        assert!(output.status.success());
        assert_eq!(output.stderr, b"");
    }
}

#[test]
fn settings_of_another_version_are_not_believed() {
    let next = (VERSION + 1).to_ne_bytes();
    let control = Control::new(Policy::Throttle(1), Profile::Full).with(offset_of!(Settings, version), &next);
    assert!(control.check(&["exclusion"]).is_empty());
}

#[test]
fn another_program_is_left_alone() {
    let control = Control::new(Policy::Throttle(1), Profile::Full);
    let seen = control.with(offset_of!(Settings, program), b"nginx\0").check(&["exclusion"]);
    assert_eq!(seen[0].state(), STATE_OTHER);
    assert!(seen[0].0.len() < 4096, "and gets no large file");
    let control = Control::new(Policy::Throttle(1), Profile::Full);
    let seen = control.with(offset_of!(Settings, program), b"preload_checks\0").check(&["one"]);
    assert_eq!(seen[0].state(), STATE_SERVES);
}

#[test]
fn acquisitions_are_counted_exactly() {
    for profile in [Profile::Off, Profile::Count, Profile::Sampled, Profile::Full] {
        let seen = Control::new(Policy::Glibc, profile).check(&["one"]);
        assert_eq!(seen[0].acquisitions(), 1000, "{profile:?}");
        if profile == Profile::Off {
            assert_eq!(seen[0].locks(), 0, "nobody waited");
            continue;
        }
        assert_eq!(seen[0].locks(), 1);
        assert_eq!(seen[0].lock(0, offset_of!(LockRecord, acquisitions)), 1000, "{profile:?}");
        assert_ne!(seen[0].u64(offset_of!(Figures, ended_ns)), 0);
    }
}

#[test]
fn counts_survive_a_kill() {
    let control = Control::new(Policy::Glibc, Profile::Count);
    let output = control.run(&["killed"]);
    assert!(!output.status.success());
    let seen = &control.seen()[0];
    assert_eq!(seen.acquisitions(), 1000);
    assert_eq!(seen.u64(offset_of!(Figures, ended_ns)), 0);
    let counted = seen.lock(0, offset_of!(LockRecord, acquisitions));
    assert!((969..=1000).contains(&counted), "{counted}: a lock's own count lags by less than 32");
}

#[test]
fn a_wait_is_told_with_its_place() {
    for policy in POLICIES {
        let seen = &Control::new(policy, Profile::Full).check(&["held"])[0];
        assert_eq!(seen.acquisitions(), 2);
        assert_eq!(seen.threads(offset_of!(ThreadSlot, contended)), 1, "{policy:?}");
        let sleeps = policy != Policy::Ttas;
        assert_eq!(seen.threads(offset_of!(ThreadSlot, slept)), u64::from(sleeps));
        assert_eq!(seen.all(offset_of!(LockRecord, contended)), 1);
        assert_eq!(seen.all(offset_of!(LockRecord, waiters)) as u32, 0);
        assert_eq!(seen.u64(offset_of!(Figures, futex_waits)) > 0, sleeps);
        let wait_ns = seen.all(offset_of!(LockRecord, wait.ns));
        assert!(wait_ns > 10_000_000, "{wait_ns}");
        assert_eq!(seen.all(offset_of!(LockRecord, wait.count)), 1);
        assert_eq!(seen.all(offset_of!(LockRecord, hold.count)), 2);
        assert!(seen.all(offset_of!(LockRecord, hold.max_ns)) > 10_000_000);
        let site = seen.all(offset_of!(LockRecord, sites));
        assert_ne!(site, 0);
        assert_eq!(seen.all(offset_of!(LockRecord, sites) + 8), 1);
        assert!(in_program(seen, site), "the place lies in the program");
    }
}

/// Whether an address lies in the first module, which is the program.
fn in_program(seen: &Seen, address: u64) -> bool {
    let module = offset_of!(Figures, modules);
    seen.u32(offset_of!(Figures, modules_len)) > 0
        && (seen.u64(module)..seen.u64(module + 8)).contains(&address)
        && String::from_utf8_lossy(&seen.0[module + 16..module + 256]).contains("preload_checks")
}

#[test]
fn other_kinds_are_left_to_glibc_and_counted() {
    let seen = Control::new(Policy::Throttle(1), Profile::Count).check(&["others"]);
    let sum = |why| seen.iter().map(|seen| seen.fallbacks(why)).sum::<u64>();
    assert_eq!(sum(Fallback::Shared), 20_000);
    assert_eq!(sum(Fallback::Robust), 2, "the one that died and the one that found it");
    assert_eq!(sum(Fallback::Inherit), 1);
    assert!(sum(Fallback::Protect) <= 1);
}

#[test]
fn read_write_and_spin_locks_are_counted() {
    for profile in [Profile::Off, Profile::Count, Profile::Full] {
        let seen = &Control::new(Policy::Glibc, profile).check(&["passed"])[0];
        assert_eq!(seen.fallbacks(Fallback::Spin), 100);
        assert_eq!(seen.fallbacks(Fallback::ReadWrite), 101);
        if profile != Profile::Off {
            assert_eq!(seen.all(offset_of!(LockRecord, acquisitions)), 201);
            // The reader waits for the writer, who may not lock twice.
            assert_eq!(seen.all(offset_of!(LockRecord, contended)), 1);
        }
    }
}

fn with_rw(rw: RwPolicy, profile: Profile) -> Control {
    Control::new(Policy::Glibc, profile).with(offset_of!(Settings, rw), &rw.pack().to_ne_bytes())
}

#[test]
fn only_locks_of_the_default_kind_come_to_prefer_writers() {
    for profile in [Profile::Off, Profile::Full] {
        let seen = &with_rw(RwPolicy::PreferWriter, profile).check(&["rw_kinds"])[0];
        assert_eq!(seen.u64(offset_of!(Figures, rw_preferring)), 3, "one made by a constant, one made twice");
        assert_eq!(seen.fallbacks(Fallback::ReadWrite), 5 * 8);
    }
}

#[test]
fn a_reader_waits_behind_a_waiting_writer_unless_it_reads_already() {
    for profile in [Profile::Off, Profile::Sampled] {
        with_rw(RwPolicy::PreferWriter, profile).check(&["rw_prefers"]);
        for rw in [RwPolicy::Glibc, RwPolicy::SpinPark(20)] {
            let seen = &with_rw(rw, profile).check(&["rw_default"])[0];
            assert_eq!(seen.u64(offset_of!(Figures, rw_preferring)), 0);
        }
    }
}

#[test]
fn the_watchdog_lets_readers_in_before_writers_again() {
    let patience = (offset_of!(Settings, watchdog_ms), 50u32.to_ne_bytes());
    let control = with_rw(RwPolicy::PreferWriter, Profile::Off).with(patience.0, &patience.1);
    let seen = &control.check(&["rw_crosswise"])[0];
    assert_eq!(seen.u64(offset_of!(Figures, rw_watchdog_trips)), 1);
    let seen = &with_rw(RwPolicy::Glibc, Profile::Off).check(&["rw_crosswise"])[0];
    assert_eq!(seen.u64(offset_of!(Figures, rw_watchdog_trips)), 0);
}

#[test]
fn the_watchdog_sets_a_stuck_lock_back() {
    for policy in [Policy::SpinPark(10), Policy::Ttas, Policy::Capped(1), Policy::Throttle(1), Policy::Throttle(2)] {
        let control = Control::new(policy, Profile::Off);
        let seen = &control.with(offset_of!(Settings, watchdog_ms), &100u32.to_ne_bytes()).check(&["stuck"])[0];
        assert_eq!(seen.u64(offset_of!(Figures, watchdog_trips)), 1, "{policy:?}");
        assert_eq!(seen.lock(0, offset_of!(LockRecord, tripped)) as u32, 1);
        let own = seen.lock(0, offset_of!(LockRecord, policy)) as u32;
        assert_eq!(Policy::unpack(own), Some(Policy::Glibc));
    }
    let seen = &Control::new(Policy::Throttle(1), Profile::Off).check(&["stuck"])[0];
    assert_eq!(seen.u64(offset_of!(Figures, watchdog_trips)), 0, "unless it is off");
}

#[test]
fn locks_beyond_the_records_share_the_last() {
    let seen = &Control::new(Policy::Glibc, Profile::Count).check(&["crowd"])[0];
    assert_eq!(seen.acquisitions(), 20_100);
    assert_eq!(seen.locks(), holdup_control::LOCKS - 1);
    let last = holdup_control::LOCKS - 1;
    let counted =
        seen.all(offset_of!(LockRecord, acquisitions)) + seen.lock(last, offset_of!(LockRecord, acquisitions));
    assert!(counted > 8000 && counted <= 20_100, "{counted}");
    assert_eq!(seen.u64(offset_of!(Figures, locks_beyond)), 20_001 - last as u64);
}

#[test]
fn rules_are_for_their_reader_writer_locks_alone() {
    let lines = |control: &Control| {
        let said = String::from_utf8(control.run(&["rw_rules"]).stdout).unwrap();
        said.lines().map(|line| line.split(' ').map(|word| word.parse().unwrap()).collect()).collect::<Vec<Vec<u64>>>()
    };
    let without = lines(&Control::new(Policy::Glibc, Profile::Off));
    let [places, kinds, anew] = &without[..] else { panic!("{without:?}") };
    assert_eq!((&kinds[..], &anew[..]), (&[0, 0, 0, 0][..], &[0][..]));
    let rules = [(RULE_OBJECT, places[0], 56), (RULE_INIT, places[1], places[2]), (RULE_SITE, places[3], places[4])];
    // Two of the locks come to prefer writers, and so does the third, though the policy is another for all else.
    for (rw, profile) in [(RwPolicy::Glibc, Profile::Off), (RwPolicy::SpinPark(30), Profile::Full)] {
        let control = with_rw(rw, profile).with(offset_of!(Settings, rules_len), &3u32.to_ne_bytes());
        for (at, (kind, start, len)) in rules.iter().enumerate() {
            let rule = offset_of!(Settings, rules) + at * size_of::<Rule>();
            control.write(rule + offset_of!(Rule, kind), &kind.to_ne_bytes());
            control.write(rule + offset_of!(Rule, policy), &SAYS_NOTHING.to_ne_bytes());
            control.write(rule + offset_of!(Rule, rw), &RwPolicy::PreferWriter.pack().to_ne_bytes());
            control.write(rule + offset_of!(Rule, start), &start.to_ne_bytes());
            control.write(rule + offset_of!(Rule, len), &len.to_ne_bytes());
        }
        let ruled = lines(&control);
        assert_eq!(ruled[1..], [vec![2, 2, 2, 0], vec![0]], "{rw} {profile:?}");
        let seen = &control.seen()[0];
        assert_eq!(seen.u64(offset_of!(Figures, rw_preferring)), 3);
        let policies = (0..seen.locks()).map(|at| seen.lock(at, offset_of!(LockRecord, policy)) as u32);
        let own = policies.filter(|word| *word == RwPolicy::PreferWriter.pack()).count();
        assert_eq!(own, 3, "each has a record");
    }
}

#[test]
fn a_rule_for_mutexes_is_not_for_reader_writer_locks() {
    let rule = offset_of!(Settings, rules);
    let control = with_rw(RwPolicy::Glibc, Profile::Count)
        .with(offset_of!(Settings, rules_len), &1u32.to_ne_bytes())
        .with(rule + offset_of!(Rule, kind), &RULE_OBJECT.to_ne_bytes())
        .with(rule + offset_of!(Rule, policy), &Policy::Throttle(2).pack().to_ne_bytes())
        .with(rule + offset_of!(Rule, rw), &SAYS_NOTHING.to_ne_bytes())
        .with(rule + offset_of!(Rule, len), &(1u64 << 30).to_ne_bytes());
    let seen = &control.check(&["passed"])[0];
    let is_rw = |at: &usize| seen.lock(*at, offset_of!(LockRecord, kind)) as u32 == KIND_RWLOCK;
    let policies: Vec<u32> =
        (0..seen.locks()).filter(is_rw).map(|at| seen.lock(at, offset_of!(LockRecord, policy)) as u32).collect();
    assert_eq!(policies, [u32::MAX]);
}

#[test]
fn a_rule_is_for_its_lock_alone() {
    let offset = String::from_utf8(Control::new(Policy::Glibc, Profile::Off).run(&["rules"]).stdout).unwrap();
    let offset: u64 = offset.trim().parse().unwrap();
    let rule = offset_of!(Settings, rules);
    let seen = &Control::new(Policy::Glibc, Profile::Off)
        .with(offset_of!(Settings, rules_len), &1u32.to_ne_bytes())
        .with(rule + offset_of!(Rule, kind), &RULE_OBJECT.to_ne_bytes())
        .with(rule + offset_of!(Rule, policy), &Policy::Throttle(2).pack().to_ne_bytes())
        .with(rule + offset_of!(Rule, start), &offset.to_ne_bytes())
        .with(rule + offset_of!(Rule, len), &40u64.to_ne_bytes())
        .check(&["rules"])[0];
    let mut own: Vec<u32> = (0..seen.locks()).map(|at| seen.lock(at, offset_of!(LockRecord, policy)) as u32).collect();
    own.sort_unstable();
    assert_eq!(own, [Policy::Throttle(2).pack(), u32::MAX]);
}
