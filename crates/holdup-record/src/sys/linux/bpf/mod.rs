//! Capture by programs inside the kernel (BPF): switches, wake-ups, futex and other blocking calls of the recorded
//! processes alone, without an event for each thread and without a copy of every stack.
//!
//! `bpf/capture.bpf.c` is the kernel's part. Its records have the frame of perf's samples, so that its rings are merged
//! with those of perf, which go on telling of mappings, names, births and deaths, samples and page faults.

mod load;
pub mod suit;

use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};

use aya::Ebpf;
use aya::maps::{HashMap, MapData, PerCpuArray, RingBuf};
use holdup_trace::BLOCKING_CALLS;

pub use self::suit::unsuitable;

use super::snapshot;
use super::words::is_thread;
use crate::Options;

/// The programs while they are attached.
pub struct Capture {
    rings: Vec<RingBuf<MapData>>,
    /// Ready when a ring has much in it.
    ready: OwnedFd,
    groups: HashMap<MapData, u32, Ranges>,
    cpus: PerCpuArray<MapData, Tally>,
    mores: Option<HashMap<MapData, u32, More>>,
    seen: Option<HashMap<MapData, u64, u8>>,
    /// What a ring held.
    bytes: Vec<u8>,
    /// Detaches them when it is dropped.
    _programs: Ebpf,
}

/// Executable memory of a process as the kernel's part keeps it: how many ranges, and from and to of each.
type Ranges = [u64; 1 + 2 * MAX_RANGES];
/// What is added to it later.
type More = [u64; 1 + 2 * MAX_MORE];
/// What a CPU counts; see `struct cpu`.
type Tally = [u64; 7];

const MAX_RANGES: usize = 256;
const MAX_MORE: usize = 16;
/// Rings that the kernel's part has; CPUs share them if there are more.
const RINGS: usize = 8;
/// Bytes of all rings together, and of one at least.
const ROOM: u32 = 32 << 20;
const LEAST_ROOM: u32 = 1 << 20;
/// Programs whose time is not measured for each one whose is.
const MEASURED_ONE_IN: u64 = 64;

impl Capture {
    /// Loads and attaches the programs for this machine. They record nothing until they are told whom to
    /// [`follow`](Capture::follow).
    ///
    /// # Errors
    /// Why not, as the end of a sentence.
    pub fn open(options: &Options, cpus: usize) -> Result<Capture, String> {
        let count = cpus.clamp(1, RINGS).next_power_of_two();
        let size = options.buffer_kib.map_or(ROOM / count as u32, |kib| kib * 1024).max(LEAST_ROOM);
        let mut calls = [0u64; 16];
        for nr in BLOCKING_CALLS.iter().filter_map(|call| call.number(super::decode::NUMBERING)) {
            calls[usize::from(nr.0) / 64 % 16] |= 1 << (nr.0 % 64);
        }
        let settings = load::Settings {
            stack_words: options.stack_bytes / 8,
            ring_mask: count as u32 - 1,
            wake_bytes: u64::from(size / 8),
            zero_period: super::plan::ZERO_PERIOD,
            state_is_given: u8::from(suit::release() >= (5, 18)),
            blocking_calls: calls,
        };
        let mut programs = load::load(&settings, count, size)?;
        let mut rings = Vec::new();
        for number in 0..count {
            let ring = programs.take_map(&format!("ring{number}")).ok_or("a ring is missing")?;
            rings.push(RingBuf::try_from(ring).map_err(|why| load::reason(&why))?);
        }
        let mut table = |name: &str| programs.take_map(name).ok_or_else(|| format!("the map {name} is missing"));
        let groups = HashMap::try_from(table("groups")?).map_err(|why| load::reason(&why))?;
        let mores = HashMap::try_from(table("mores")?).map_err(|why| load::reason(&why))?;
        let seen = HashMap::try_from(table("seen")?).map_err(|why| load::reason(&why))?;
        let cpus = PerCpuArray::try_from(table("cpus")?).map_err(|why| load::reason(&why))?;
        let ready = watch(&rings).map_err(|why| format!("epoll: {why}"))?;
        load::attach(&mut programs)?;
        Ok(Capture {
            rings,
            ready,
            groups,
            cpus,
            mores: Some(mores),
            seen: Some(seen),
            bytes: Vec::new(),
            _programs: programs,
        })
    }

    /// Records a process from now on, and those that it will make.
    ///
    /// # Errors
    /// Why not, as the end of a sentence.
    pub fn follow(&mut self, pid: u32) -> Result<(), String> {
        let ranges = ranges::<{ 1 + 2 * MAX_RANGES }>(pid, |_| true);
        self.groups.insert(pid, ranges, 0).map_err(|why| load::reason(&why))
    }

    /// Records nothing any more.
    pub fn stop(&mut self) {
        let followed: Vec<u32> = self.groups.keys().filter_map(Result::ok).collect();
        for pid in followed {
            // It may have ended meanwhile.
            let _ = self.groups.remove(&pid);
        }
    }

    /// What tells the kernel's part of what it cannot know; once.
    pub fn learner(&mut self) -> Option<Learner> {
        Some(Learner { mores: self.mores.take()?, seen: self.seen.take()? })
    }

    /// How many rings there are.
    pub fn lanes(&self) -> usize {
        self.rings.len()
    }

    /// Empties the rings.
    pub fn drain(&mut self, mut reader: impl FnMut(usize, [&[u8]; 2])) {
        acknowledge(&self.ready);
        for (lane, ring) in self.rings.iter_mut().enumerate() {
            self.bytes.clear();
            while let Some(record) = ring.next() {
                self.bytes.extend_from_slice(&record);
            }
            reader(lane, [&self.bytes, &[]]);
        }
    }

    /// What to poll for rings that fill.
    pub fn descriptor(&self) -> RawFd {
        self.ready.as_raw_fd()
    }

    /// CPU time that the programs took inside the kernel so far, by a sample of their runs.
    pub fn spent_ns(&self) -> u64 {
        let tallies = self.cpus.get(&0, 0).ok();
        tallies.iter().flat_map(|cpus| cpus.iter()).map(|tally| tally[5] * MEASURED_ONE_IN).sum()
    }
}

/// Tells the kernel's part of executable memory that no system call of the process has mapped: what came with the
/// execution of a program, such as the dynamic linker. And of stacks that are not remembered any more.
pub struct Learner {
    mores: HashMap<MapData, u32, More>,
    /// Hashes of stacks that were told.
    seen: HashMap<MapData, u64, u8>,
}

impl Learner {
    /// The process has executed a program.
    pub fn learn(&mut self, pid: u32) {
        let loader = |path: &str| path.contains("/ld-") || path.contains("/ld.") || path == "[vdso]";
        let found = ranges::<{ 1 + 2 * MAX_MORE }>(pid, loader);
        // A process that has ended needs nothing, and nobody would take it away again: the table would fill with them.
        let told = found[0] > 0 && self.mores.insert(pid, found, 0).is_ok();
        if told && !is_thread(pid) {
            let _ = self.mores.remove(&pid);
        }
    }

    /// Stacks with these hashes are to be told anew if they come again.
    pub fn forget(&mut self, hashes: &[u64]) {
        // The kernel's part may have forgotten some itself.
        hashes.iter().for_each(|hash| drop(self.seen.remove(hash)));
    }
}

/// Executable memory of a process, of the files wanted.
fn ranges<const WORDS: usize>(pid: u32, wanted: impl Fn(&str) -> bool) -> [u64; WORDS] {
    let mut words = [0; WORDS];
    let mappings = snapshot::mappings_of(pid);
    let kept = mappings.iter().filter(|mapping| wanted(&mapping.path)).take(WORDS / 2);
    for (at, mapping) in kept.enumerate() {
        words[0] = at as u64 + 1;
        words[1 + 2 * at] = mapping.start;
        words[2 + 2 * at] = mapping.start.saturating_add(mapping.len);
    }
    words
}

/// A descriptor that is ready once for each time that a ring wakes its reader, not as long as there is something in it.
fn watch(rings: &[RingBuf<MapData>]) -> io::Result<OwnedFd> {
    // SAFETY: asks for a new descriptor, which nobody else owns.
    let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: as above.
    let ready = unsafe { OwnedFd::from_raw_fd(fd) };
    for ring in rings {
        let mut event = libc::epoll_event { events: (libc::EPOLLIN | libc::EPOLLET) as u32, u64: 0 };
        // SAFETY: both descriptors are open, and the event lives through the call.
        let added = unsafe { libc::epoll_ctl(fd, libc::EPOLL_CTL_ADD, ring.as_raw_fd(), &raw mut event) };
        if added < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(ready)
}

fn acknowledge(ready: &OwnedFd) {
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; RINGS];
    // SAFETY: there is room for as many events as are asked for; the call does not wait. What fails is tried again.
    unsafe { libc::epoll_wait(ready.as_raw_fd(), events.as_mut_ptr(), RINGS as libc::c_int, 0) };
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;
    use std::thread;
    use std::time::Duration;

    use super::super::{decode, inside};
    use super::*;
    use crate::{Backend, Target};

    fn options() -> Options {
        Options { sample_hz: 0, capture: Backend::Bpf, ..Options::new(Target::Processes(vec![1]), "unused") }
    }

    /// Sleeps with these words on the stack.
    #[inline(never)]
    fn sleep_with(secret: u64) {
        let words = black_box([secret; 24]);
        thread::sleep(Duration::from_millis(2));
        black_box(&words);
    }

    #[test]
    fn nothing_of_a_stack_leaves_the_kernel_but_addresses_of_code_and_stack() {
        let refused = unsuitable().map_or_else(|| Capture::open(&options(), 2), Err);
        let mut capture = match refused {
            Ok(capture) => capture,
            Err(why) => return println!("skipped: {why}"),
        };
        capture.follow(std::process::id()).expect("this process can be followed");
        let secret = 0x0123_4567_89ab;
        thread::spawn(move || (0..20).for_each(|_| sleep_with(black_box(secret)))).join().expect("the thread ends");
        capture.stop();
        let mut bytes = Vec::new();
        capture.drain(|_, [first, second]| {
            bytes.extend_from_slice(first);
            bytes.extend_from_slice(second);
        });
        let mut rest = &bytes[..];
        let mut stacks = 0;
        while let Some(len) = decode::length(rest) {
            let frame = decode::frame(&rest[..len]).expect("every record has a frame");
            assert!(inside::is_ours(frame));
            stacks += usize::from(frame.id & 0xff == 6);
            rest = &rest[len..];
        }
        assert!(stacks > 0 && rest.is_empty(), "{stacks} stacks, {} bytes left", rest.len());
        assert!(!bytes.windows(8).any(|word| word == secret.to_ne_bytes()), "a word of the program's is in the ring");
    }
}
