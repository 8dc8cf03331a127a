//! The events of a recording while they are open: rings for every CPU, and what is open for every thread.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd, RawFd};

use super::perf::Kernel;
use super::plan::{self, Manner, Need, Spec};
use super::ring::Ring;
use crate::assemble::Kind;

/// Open events.
pub struct Session<K> {
    kernel: K,
    cpus: Vec<Cpu>,
    specs: Vec<Spec>,
    events: Vec<(Kind, OwnedFd)>,
    manner: Manner,
    /// What was given up, as sentences without a full stop.
    pub notes: Vec<String>,
}

struct Cpu {
    number: u16,
    ring: Ring,
    owner: OwnedFd,
}

/// Why a thread's events could not be opened.
#[derive(Debug)]
pub enum OpenError {
    /// There is no such thread any more.
    Gone,
    /// The rights do not allow it.
    Forbidden(io::Error),
    /// There are too few file descriptors.
    Descriptors,
    /// Another call failed.
    Call(&'static str, io::Error),
}

/// Pages of a ring that are tried first: what a futex storm fills while the recorder waits for a CPU.
const PAGES: usize = 512;
/// The least that makes sense.
const PAGES_MIN: usize = 8;

impl<K: Kernel> Session<K> {
    /// Rings for these CPUs; `buffer_kib` is the size of each, `None` for as much as is allowed up to a default.
    pub fn new(
        kernel: K,
        cpus: &[u16],
        specs: Vec<Spec>,
        manner: Manner,
        buffer_kib: Option<u32>,
    ) -> Result<Self, OpenError> {
        let wanted = buffer_kib.map_or(PAGES, |kib| (kib as usize / 4).max(1).next_power_of_two());
        let mut pages = wanted;
        let mut notes = Vec::new();
        let cpus = loop {
            match rings(&kernel, cpus, pages) {
                Ok(cpus) => break cpus,
                Err(OpenError::Call("mmap", error))
                    if pages > PAGES_MIN
                        && matches!(error.raw_os_error(), Some(libc::EPERM | libc::ENOMEM)) =>
                {
                    pages /= 2;
                }
                Err(error) => return Err(error),
            }
        };
        if pages < wanted {
            notes.push(format!(
                "the buffer of each CPU has {} KiB instead of {} KiB, because this user may not lock more memory",
                pages * 4,
                wanted * 4
            ));
        }
        Ok(Session { kernel, cpus, specs, events: Vec::new(), manner, notes })
    }

    /// Opens all events for a thread and those that it will make. `know` learns their identifiers.
    pub fn open(&mut self, tid: u32, know: &mut impl FnMut(u64, Kind)) -> Result<(), OpenError> {
        let mut done: Vec<Kind> = Vec::new();
        while let Some(spec) = self.specs.iter().find(|spec| !done.contains(&spec.kind)).cloned() {
            match self.open_spec(&spec, tid) {
                Ok(opened) => {
                    for (kind, id, fd) in opened {
                        know(id, kind);
                        self.events.push((kind, fd));
                    }
                    done.push(spec.kind);
                }
                Err(error) => self.adapt(&spec, error)?,
            }
        }
        Ok(())
    }

    /// Makes the plan smaller so that it works without what failed; the error if there is no such plan.
    fn adapt(&mut self, spec: &Spec, error: OpenError) -> Result<(), OpenError> {
        let invalid = matches!(&error, OpenError::Call(_, why) if why.raw_os_error() == Some(libc::EINVAL));
        match error {
            OpenError::Descriptors if self.give_up_least() => {}
            OpenError::Forbidden(_) if spec.kernel => self.without_kernel(spec.kind),
            OpenError::Call(..) if spec.kind == Kind::Side && self.manner.build_ids && invalid => {
                self.manner.build_ids = false;
            }
            OpenError::Forbidden(why) | OpenError::Call(_, why) if spec.need != Need::Essential => {
                self.note(format!("{} are not recorded: {why}", noun(spec.kind)));
                self.drop_kind(spec.kind);
            }
            error => return Err(error),
        }
        Ok(())
    }

    fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    fn open_spec(&self, spec: &Spec, tid: u32) -> Result<Vec<(Kind, u64, OwnedFd)>, OpenError> {
        let attr = spec.attr(self.manner);
        let event = |cpu: Option<&Cpu>| {
            let fd = self.kernel.open(&attr, tid, cpu.map(|cpu| cpu.number)).map_err(open_error)?;
            let failed = |call| move |why| OpenError::Call(call, why);
            if let Some(filter) = &spec.filter {
                self.kernel.filter(fd.as_fd(), filter).map_err(failed("PERF_EVENT_IOC_SET_FILTER"))?;
            }
            if let Some(cpu) = cpu {
                self.kernel
                    .redirect(fd.as_fd(), cpu.owner.as_fd())
                    .map_err(failed("PERF_EVENT_IOC_SET_OUTPUT"))?;
            }
            let id = self.kernel.id(fd.as_fd()).map_err(failed("PERF_EVENT_IOC_ID"))?;
            Ok((spec.kind, id, fd))
        };
        // Linux looks at every event of a thread at every switch, so there are no more than needed: a ring belongs to one CPU,
        // and an event that threads to come inherit writes into the ring of its own CPU only; one that counts needs no ring.
        if spec.counts() {
            Ok(vec![event(None)?])
        } else {
            self.cpus.iter().map(|cpu| event(Some(cpu))).collect()
        }
    }

    /// Gives up the events that are needed least, to have their descriptors; `false` if all that are left are needed.
    fn give_up_least(&mut self) -> bool {
        let Some(least) =
            self.specs.iter().map(|spec| spec.need).min().filter(|need| *need != Need::Essential)
        else {
            return false;
        };
        let kinds: Vec<Kind> =
            self.specs.iter().filter(|spec| spec.need == least).map(|spec| spec.kind).collect();
        let what = if least == Need::Extra { "blocking system calls" } else { "futex calls and samples" };
        self.note(format!("{what} are not recorded, because there are too few file descriptors for them"));
        kinds.into_iter().for_each(|kind| self.drop_kind(kind));
        true
    }

    fn without_kernel(&mut self, kind: Kind) {
        // In user mode alone there is nothing to see of switches and wake-ups.
        if matches!(kind, Kind::Switch | Kind::Waking) {
            self.drop_kind(kind);
        }
        self.specs.iter_mut().filter(|spec| spec.kind == kind).for_each(|spec| spec.kernel = false);
    }

    fn drop_kind(&mut self, kind: Kind) {
        self.specs.retain(|spec| spec.kind != kind);
        self.events.retain(|(other, _)| *other != kind);
    }

    /// Whether events of this kind are open, and in the kernel too.
    pub fn has(&self, wanted: impl Fn(&Spec) -> bool) -> bool {
        self.specs.iter().any(wanted)
    }

    /// Empties all rings, each by its place in the list of CPUs. How much the fullest held, of 1.
    pub fn drain(&mut self, mut reader: impl FnMut(usize, [&[u8]; 2])) -> f64 {
        let mut fullest = 0.0f64;
        for (lane, cpu) in self.cpus.iter_mut().enumerate() {
            let size = cpu.ring.size();
            let count = cpu.ring.drain(|parts| reader(lane, parts));
            fullest = fullest.max(count as f64 / size as f64);
        }
        fullest
    }

    /// What all events of this kind counted.
    pub fn count(&self, kind: Kind) -> Option<u64> {
        let mut counts = self
            .events
            .iter()
            .filter(|(other, _)| *other == kind)
            .filter_map(|(_, fd)| self.kernel.count(fd.as_fd()).ok())
            .peekable();
        counts.peek()?;
        Some(counts.sum())
    }

    /// Stops all events; what is in the rings stays.
    pub fn disable(&self) {
        for (_, fd) in &self.events {
            // It can fail only for a thread that has ended, which is as good.
            let _ = self.kernel.disable(fd.as_fd());
        }
    }

    /// What to poll for rings that fill.
    pub fn descriptors(&self) -> impl Iterator<Item = RawFd> {
        self.cpus.iter().map(|cpu| cpu.owner.as_raw_fd())
    }
}

fn rings(kernel: &impl Kernel, cpus: &[u16], pages: usize) -> Result<Vec<Cpu>, OpenError> {
    let mut rings = Vec::with_capacity(cpus.len());
    for &number in cpus {
        let watermark = u32::try_from(pages * 1024).unwrap_or(u32::MAX);
        let owner = kernel.open(&plan::ring_owner(watermark), 0, Some(number)).map_err(open_error)?;
        let ring = kernel.map(owner.as_fd(), pages).map_err(|error| OpenError::Call("mmap", error))?;
        rings.push(Cpu { number, ring, owner });
    }
    Ok(rings)
}

fn open_error(error: io::Error) -> OpenError {
    match error.raw_os_error() {
        Some(libc::ESRCH) => OpenError::Gone,
        Some(libc::EACCES | libc::EPERM) => OpenError::Forbidden(error),
        Some(libc::EMFILE | libc::ENFILE) => OpenError::Descriptors,
        _ => OpenError::Call("perf_event_open", error),
    }
}

fn noun(kind: Kind) -> &'static str {
    match kind {
        Kind::Side => "switches",
        Kind::FutexWait => "futex waits",
        Kind::FutexWoke => "futex wakes",
        Kind::FutexEnd => "ends of futex waits",
        Kind::CountCalls | Kind::CountAgain => "counts of futex calls",
        Kind::Sample => "CPU samples",
        Kind::MajorFault => "major page faults",
        Kind::Call(_) => "some blocking system calls",
        Kind::Switch => "reasons of switches",
        Kind::Waking => "wake-ups",
    }
}
