//! Hardware counters of the target, per CPU, where the machine has them.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

use holdup_trace::{Counter, Event, Tid, What};
use perf_event_open_sys::bindings as b;

use super::perf::{Attr, Kernel};

/// An event that counts: its kind and number, as the kernel knows it.
type Number = (u32, u64);

const fn generic(event: u32) -> Number {
    (b::PERF_TYPE_HARDWARE, event as u64)
}

const fn raw(event: u64) -> Number {
    (b::PERF_TYPE_RAW, event)
}

/// What every processor counts.
const ALWAYS: [(Counter, Number); 3] = [
    (Counter::Cycles, generic(b::PERF_COUNT_HW_CPU_CYCLES)),
    (Counter::Instructions, generic(b::PERF_COUNT_HW_INSTRUCTIONS)),
    (Counter::ReferenceCycles, generic(b::PERF_COUNT_HW_REF_CPU_CYCLES)),
];

/// Intel's: the kernel's numbers for caches mean the last level there; L2_RQSTS.REFERENCES and .MISS are the second.
const OF_INTEL: [(Counter, Number); 4] = [
    (Counter::L3References, generic(b::PERF_COUNT_HW_CACHE_REFERENCES)),
    (Counter::L3Misses, generic(b::PERF_COUNT_HW_CACHE_MISSES)),
    (Counter::L2References, raw(0xff24)),
    (Counter::L2Misses, raw(0x3f24)),
];

/// AMD's: the same numbers mean the second level. The third is counted per complex of cores, not per thread.
const OF_AMD: [(Counter, Number); 2] = [
    (Counter::L2References, generic(b::PERF_COUNT_HW_CACHE_REFERENCES)),
    (Counter::L2Misses, generic(b::PERF_COUNT_HW_CACHE_MISSES)),
];

/// What is counted on a processor of this maker.
fn counted(vendor: &str) -> impl Iterator<Item = (Counter, Number)> {
    let caches: &[(Counter, Number)] = match vendor {
        "GenuineIntel" => &OF_INTEL,
        "AuthenticAMD" | "HygonGenuine" => &OF_AMD,
        _ => &[],
    };
    ALWAYS.iter().chain(caches).copied()
}

/// The counters of some threads and of all that they make.
#[derive(Debug)]
pub struct Counters<K> {
    kernel: K,
    events: Vec<(Counter, u16, OwnedFd)>,
    cpus: Vec<u16>,
    /// Cycles at the nominal frequency when counting began.
    nominal: Option<u64>,
    last: BTreeMap<(Counter, u16), u64>,
}

impl<K: Kernel> Counters<K> {
    /// Opens what there is, for these threads on these CPUs; counting begins at once, or when the thread executes a
    /// program. A counter that does not open on the first CPU of the first thread is left out.
    ///
    /// # Errors
    /// Why there is none, as the end of a sentence that begins with "hardware counters".
    pub fn open(kernel: K, vendor: &str, tids: &[u32], cpus: &[u16], on_exec: bool) -> Result<Self, String> {
        let mut events = Vec::new();
        let mut first_error = None;
        for (counter, number) in counted(vendor) {
            let attr = attr(number, on_exec);
            let opened: io::Result<Vec<_>> = tids
                .iter()
                .flat_map(|tid| cpus.iter().map(move |cpu| (*tid, *cpu)))
                .map(|(tid, cpu)| Ok((counter, cpu, kernel.open(&attr, tid, cpu)?)))
                .collect();
            match opened {
                Ok(opened) => events.extend(opened),
                Err(error) => drop(first_error.get_or_insert(error)),
            }
        }
        match first_error {
            Some(error) if events.is_empty() => Err(why(&error)),
            _ => {
                let nominal = kernel.nominal_cycles();
                Ok(Counters { kernel, events, cpus: cpus.to_vec(), nominal, last: BTreeMap::new() })
            }
        }
    }

    /// Totals since the beginning, of those that have changed.
    pub fn read(&mut self, time_ns: u64) -> Vec<Event> {
        let mut totals: BTreeMap<(Counter, u16), u64> = BTreeMap::new();
        for (counter, cpu, event) in &self.events {
            let Ok(value) = self.kernel.count(event.as_fd()) else { continue };
            *totals.entry((*counter, *cpu)).or_default() += value;
        }
        if let Some((now, begun)) = self.kernel.nominal_cycles().zip(self.nominal) {
            let passed = now.saturating_sub(begun);
            totals.extend(self.cpus.iter().map(|cpu| ((Counter::NominalCycles, *cpu), passed)));
        }
        let changed = totals.into_iter().filter(|(key, total)| *total != self.last.get(key).copied().unwrap_or(0));
        let changed: Vec<_> = changed.collect();
        self.last.extend(changed.iter().copied());
        let count = |((counter, cpu), value)| Event { time_ns, tid: Tid(0), cpu, what: What::Count { counter, value } };
        changed.into_iter().map(count).collect()
    }
}

fn why(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP) => {
            "are not there: this machine shows none, as most virtual machines do".into()
        }
        Some(libc::EACCES | libc::EPERM) => {
            "are not allowed to this user; `holdup doctor` says what allows them".into()
        }
        _ => format!("could not be opened: {error}"),
    }
}

fn attr((kind, number): Number, on_exec: bool) -> Attr {
    let mut attr = Attr { type_: kind, config: number, ..Default::default() };
    // Where there are more events than counters, they take turns: see `Kernel::count`.
    attr.read_format = u64::from(b::PERF_FORMAT_TOTAL_TIME_ENABLED | b::PERF_FORMAT_TOTAL_TIME_RUNNING);
    attr.size = size_of::<Attr>() as u32;
    attr.set_inherit(1);
    attr.set_exclude_kernel(1);
    attr.set_exclude_hv(1);
    attr.set_disabled(on_exec.into());
    attr.set_enable_on_exec(on_exec.into());
    attr
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::fs::File;
    use std::os::fd::BorrowedFd;

    use super::super::ring::Ring;
    use super::*;

    /// A machine that has these counters and gives these values, one after the other.
    struct Scripted {
        has: fn(u64) -> Result<(), i32>,
        values: RefCell<Vec<u64>>,
    }

    impl Kernel for Scripted {
        fn open(&self, attr: &Attr, _: u32, _: u16) -> io::Result<OwnedFd> {
            (self.has)(attr.config).map_err(io::Error::from_raw_os_error)?;
            Ok(File::open("/dev/null")?.into())
        }
        fn count(&self, _: BorrowedFd<'_>) -> io::Result<u64> {
            Ok(self.values.borrow_mut().remove(0))
        }
        fn redirect(&self, _: BorrowedFd<'_>, _: BorrowedFd<'_>) -> io::Result<()> {
            unreachable!("counters have no ring")
        }
        fn filter(&self, _: BorrowedFd<'_>, _: &str) -> io::Result<()> {
            unreachable!("counters have no filter")
        }
        fn id(&self, _: BorrowedFd<'_>) -> io::Result<u64> {
            unreachable!("counters have no records")
        }
        fn enable(&self, _: BorrowedFd<'_>) -> io::Result<()> {
            unreachable!("counters count from the first")
        }
        fn disable(&self, _: BorrowedFd<'_>) -> io::Result<()> {
            unreachable!("counters are closed")
        }
        fn map(&self, _: BorrowedFd<'_>, _: usize) -> io::Result<Ring> {
            unreachable!("counters have no ring")
        }
    }

    fn values(events: &[Event]) -> Vec<(u16, Counter, u64)> {
        let value = |event: &Event| match event.what {
            What::Count { counter, value } => Some((event.cpu, counter, value)),
            _ => None,
        };
        events.iter().filter_map(value).collect()
    }

    #[test]
    fn totals_are_per_cpu_over_all_threads_and_given_when_they_change() {
        let script = vec![10, 20, 1, 2, 30, 20, 1, 2];
        // Cycles only; two threads on two CPUs.
        let has = |number| if number == 0 { Ok(()) } else { Err(libc::ENOENT) };
        let machine = Scripted { has, values: RefCell::new(script) };
        let mut counters = Counters::open(machine, "", &[1, 2], &[0, 1], true).unwrap();
        assert_eq!(values(&counters.read(5)), [(0, Counter::Cycles, 11), (1, Counter::Cycles, 22)]);
        assert_eq!(values(&counters.read(6)), [(0, Counter::Cycles, 31)]);
    }

    #[test]
    fn each_maker_counts_the_caches_that_its_numbers_mean() {
        let of = |vendor| -> Vec<Counter> {
            let machine = Scripted { has: |_| Ok(()), values: RefCell::new((1..100).collect()) };
            let mut counters = Counters::open(machine, vendor, &[1], &[0], true).unwrap();
            values(&counters.read(5)).into_iter().map(|(_, counter, _)| counter).collect()
        };
        let of_all = [Counter::Cycles, Counter::Instructions, Counter::ReferenceCycles];
        assert_eq!(of(""), of_all);
        assert!(of("AuthenticAMD").contains(&Counter::L2Misses) && !of("AuthenticAMD").contains(&Counter::L3Misses));
        assert!(of("GenuineIntel").contains(&Counter::L2Misses) && of("GenuineIntel").contains(&Counter::L3Misses));
    }

    #[test]
    fn a_machine_without_counters_says_so() {
        let open = |has| {
            let machine = Scripted { has, values: RefCell::default() };
            Counters::open(machine, "", &[1], &[0], false).err().unwrap()
        };
        assert!(open(|_| Err(libc::ENOENT)).contains("virtual machines"));
        assert!(open(|_| Err(libc::EACCES)).contains("doctor"));
        assert!(open(|_| Err(libc::EIO)).contains("could not be opened"));
    }
}
