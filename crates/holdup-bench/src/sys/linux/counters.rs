//! Hardware counters of one thread, per CPU, where the machine has them.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::fd::FromRawFd as _;

use crate::sample::{Counters, CpuCounters};

/// An event: its kind and number, as the kernel knows it.
type Number = (u32, u64);

/// Of `PERF_TYPE_HARDWARE`.
const CYCLES: Number = (0, 0);
const INSTRUCTIONS: Number = (0, 1);
const CACHE_REFERENCES: Number = (0, 2);
const CACHE_MISSES: Number = (0, 3);
const REFERENCE_CYCLES: Number = (0, 9);
/// Of `PERF_TYPE_RAW`: Intel's L2_RQSTS.REFERENCES and .MISS.
const L2_REFERENCES: Number = (4, 0xff24);
const L2_MISSES: Number = (4, 0x3f24);

/// No counters without these.
const ESSENTIAL: [Number; 3] = [CYCLES, INSTRUCTIONS, CACHE_MISSES];
/// `PERF_FORMAT_TOTAL_TIME_ENABLED` and `PERF_FORMAT_TOTAL_TIME_RUNNING`: more events than counters take turns.
const FORMAT_TIMES: u64 = 3;
/// `exclude_kernel` and `exclude_hv`: what an ordinary user may count.
const FLAGS: u64 = (1 << 5) | (1 << 6);
/// So many file descriptors may counters take, all threads together.
const MOST_FILES: usize = 512;

/// Which level the kernel's numbers for cache references and misses mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Caches {
    /// Intel: the third. The second has numbers of its own.
    Third,
    /// AMD: the second. The third is counted per complex of cores, not per thread.
    Second,
    /// Others: unknown.
    Unknown,
}

impl Caches {
    fn of(vendor: &str) -> Caches {
        match vendor {
            "GenuineIntel" => Caches::Third,
            "AuthenticAMD" | "HygonGenuine" => Caches::Second,
            _ => Caches::Unknown,
        }
    }

    fn wanted(self) -> &'static [Number] {
        match self {
            Caches::Third => &[REFERENCE_CYCLES, CACHE_REFERENCES, L2_REFERENCES, L2_MISSES],
            Caches::Second => &[REFERENCE_CYCLES, CACHE_REFERENCES],
            Caches::Unknown => &[REFERENCE_CYCLES],
        }
    }
}

/// The first version of `struct perf_event_attr`, which every kernel takes.
#[repr(C)]
#[derive(Default)]
struct Attr {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    bp_type: u32,
    bp_addr: u64,
}

/// Opens one event on one CPU (-1: on all); the seam at which tests put a machine with counters, or with only some.
type Open<'a> = &'a dyn Fn(Number, i32) -> io::Result<File>;

/// A CPU, or all of them, and what is counted there.
type Core = (Option<u32>, Vec<(Number, File)>);

/// The counters of the calling thread, counting since they were opened.
#[derive(Debug)]
pub struct Group {
    caches: Caches,
    /// Per CPU (or once for all), what is counted there.
    cores: Vec<Core>,
}

impl Group {
    /// Opens and starts the counters of the calling thread, one of so many: per CPU of these where file descriptors
    /// suffice, else over all.
    ///
    /// # Errors
    /// This machine has no counters, or this user may not use them.
    pub fn open(cpus: &[u32], threads: usize) -> io::Result<Group> {
        Group::open_with(Caches::of(&vendor()), cpus, threads, &perf_event_open)
    }

    fn open_with(caches: Caches, cpus: &[u32], threads: usize, open: Open<'_>) -> io::Result<Group> {
        let events = ESSENTIAL.len() + caches.wanted().len();
        let per_cpu = threads * cpus.len() * events <= MOST_FILES;
        let places = if per_cpu { cpus.iter().copied().map(Some).collect() } else { vec![None] };
        let core = |cpu: Option<u32>| {
            let at = cpu.map_or(-1, |cpu| cpu as i32);
            let essential = ESSENTIAL.iter().map(|number| Ok((*number, open(*number, at)?)));
            let mut events = essential.collect::<io::Result<Vec<_>>>()?;
            if per_cpu {
                let more = caches.wanted().iter().filter_map(|number| Some((*number, open(*number, at).ok()?)));
                events.extend(more);
            }
            Ok((cpu, events))
        };
        Ok(Group { caches, cores: places.into_iter().map(core).collect::<io::Result<Vec<_>>>()? })
    }

    /// Counts since the counters were opened.
    pub fn read(&mut self) -> Option<Counters> {
        let mut all = Counters::default();
        let caches = self.caches;
        let nominal_cycles = nominal_cycles();
        for (cpu, events) in &mut self.cores {
            let mut counts = Vec::new();
            for (number, file) in events {
                counts.push((*number, count(file)?));
            }
            let of = |number: Number| counts.iter().find(|(other, _)| *other == number).map(|(_, count)| *count);
            let (cycles, instructions) = (of(CYCLES)?, of(INSTRUCTIONS)?);
            all.cycles += cycles;
            all.instructions += instructions;
            all.cache_misses += of(CACHE_MISSES)?;
            let (second, third) = match caches {
                Caches::Third => ([L2_REFERENCES, L2_MISSES].map(of), [CACHE_REFERENCES, CACHE_MISSES].map(of)),
                Caches::Second => ([CACHE_REFERENCES, CACHE_MISSES].map(of), [None; 2]),
                Caches::Unknown => ([None; 2], [None; 2]),
            };
            all.cpus.extend(cpu.map(|cpu| CpuCounters {
                cpu,
                socket: socket(cpu),
                cycles,
                instructions,
                reference_cycles: of(REFERENCE_CYCLES),
                nominal_cycles,
                l2_references: second[0],
                l2_misses: second[1],
                l3_references: third[0],
                l3_misses: third[1],
            }));
        }
        Some(all)
    }
}

/// What the event counted; where events took turns, what it would have counted without.
fn count(file: &mut File) -> Option<u64> {
    let mut bytes = [0; 24];
    file.read_exact(&mut bytes).ok()?;
    let mut words = bytes.chunks_exact(8).filter_map(|word| word.try_into().ok().map(u64::from_ne_bytes));
    let (value, enabled, running) = (words.next()?, words.next()?, words.next()?);
    Some(match (1..enabled).contains(&running) {
        true => (u128::from(value) * u128::from(enabled) / u128::from(running)) as u64,
        false => value,
    })
}

/// Cycles at the nominal frequency since some moment, asleep or not; where the processor counts them.
fn nominal_cycles() -> Option<u64> {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: reads a counter that every x86-64 processor has.
    return Some(unsafe { std::arch::x86_64::_rdtsc() });
    #[cfg(not(target_arch = "x86_64"))]
    None
}

fn vendor() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let vendor = info.lines().find_map(|line| line.strip_prefix("vendor_id")?.split_once(':'));
    vendor.map_or(String::new(), |(_, vendor)| vendor.trim().to_owned())
}

fn socket(cpu: u32) -> Option<u32> {
    let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id");
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn perf_event_open((kind, config): Number, cpu: i32) -> io::Result<File> {
    let size = size_of::<Attr>() as u32;
    let attr = Attr { kind, size, config, read_format: FORMAT_TIMES, flags: FLAGS, ..Attr::default() };
    // SAFETY: the structure is as large as its size field says and lives through the call, which only reads it.
    let fd = unsafe { libc::syscall(libc::SYS_perf_event_open, &raw const attr, 0, cpu, -1, 8) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a fresh descriptor that nobody else owns.
    Ok(unsafe { File::from_raw_fd(fd as i32) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::io::{Seek as _, Write as _};

    /// A file that reads like an event.
    fn event(words: &[u64]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        for word in words {
            file.write_all(&word.to_ne_bytes()).unwrap();
        }
        file.rewind().unwrap();
        file
    }

    /// Counts by number, ten times as many on CPU 1, always counting.
    fn machine(number: Number, cpu: i32) -> io::Result<File> {
        let value = match number {
            CYCLES => 100,
            INSTRUCTIONS => 50,
            CACHE_MISSES => 7,
            L2_MISSES => 9,
            _ => 20,
        };
        Ok(event(&[if cpu == 1 { value * 10 } else { value }, 5, 5]))
    }

    #[test]
    fn a_machine_with_counters_gives_all_of_each_cpu() {
        let mut group = Group::open_with(Caches::Third, &[0, 1], 2, &machine).unwrap();
        let counters = group.read().unwrap();
        assert_eq!((counters.cycles, counters.instructions, counters.cache_misses), (1_100, 550, 77));
        let [first, second] = counters.cpus[..] else { panic!("{counters:?}") };
        assert_eq!((first.cpu, first.cycles, second.cpu, second.cycles), (0, 100, 1, 1_000));
        assert_eq!((first.l3_misses, first.l2_misses, first.l2_references), (Some(7), Some(9), Some(20)));
    }

    #[test]
    fn amd_counts_the_second_level_by_the_kernels_numbers() {
        let mut group = Group::open_with(Caches::Second, &[0], 1, &machine).unwrap();
        let core = group.read().unwrap().cpus[0];
        assert_eq!((core.l2_misses, core.l2_references, core.l3_misses), (Some(7), Some(20), None));
    }

    #[test]
    fn many_threads_on_many_cpus_are_counted_over_all_cpus() {
        let all_cpus: Vec<u32> = (0..64).collect();
        let mut group = Group::open_with(Caches::Third, &all_cpus, 64, &machine).unwrap();
        let counters = group.read().unwrap();
        assert_eq!((counters.cycles, counters.cpus.len()), (100, 0));
    }

    #[test]
    fn an_essential_event_that_cannot_be_opened_means_no_counters() {
        for fails_at in 0..ESSENTIAL.len() {
            let opened = Cell::new(0);
            let group =
                Group::open_with(Caches::Unknown, &[0], 1, &|number, cpu| match opened.replace(opened.get() + 1)
                    == fails_at
                {
                    true => Err(io::Error::from_raw_os_error(libc::ENOENT)),
                    false => machine(number, cpu),
                });
            assert!(group.is_err());
        }
    }

    #[test]
    fn other_events_may_be_missing() {
        let some = |number, cpu| match ESSENTIAL.contains(&number) {
            true => machine(number, cpu),
            false => Err(io::Error::from_raw_os_error(libc::ENOENT)),
        };
        let core = Group::open_with(Caches::Third, &[0], 1, &some).unwrap().read().unwrap().cpus[0];
        assert_eq!((core.reference_cycles, core.l2_misses, core.l3_misses), (None, None, Some(7)));
    }

    #[test]
    fn events_that_took_turns_are_scaled_and_a_short_read_is_no_figure() {
        assert_eq!(count(&mut event(&[10, 100, 25])), Some(40));
        assert_eq!(count(&mut event(&[10, 100, 0])), Some(10));
        assert_eq!(count(&mut event(&[10, 100])), None);
    }
}
