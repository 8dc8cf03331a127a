//! The events of a recording while they are open: rings for every CPU, and what is open for every thread.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd, RawFd};

use super::assemble::Kind;
use super::bpf::Capture;
use super::perf::{EVERYBODY, Kernel};
use super::plan::{self, Begin, Manner, Need, Source, Spec};
use super::ring::Ring;

/// Open events.
pub struct Session<K> {
    kernel: K,
    cpus: Vec<Cpu>,
    specs: Vec<Spec>,
    events: Vec<(Kind, OwnedFd)>,
    manner: Manner,
    /// What was given up, as sentences without a full stop.
    pub notes: Vec<String>,
    /// Programs inside the kernel that tell of switches, wake-ups and calls instead of events.
    pub bpf: Option<Capture>,
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
const PAGES: usize = 1024;
/// Pages of all rings together: a machine with many CPUs rarely has a storm on all of them.
const PAGES_TOTAL: usize = 16384;
/// The least that makes sense.
const PAGES_MIN: usize = 8;
/// What part of a ring, once filled, wakes the recorder: most of the ring is for the time until it runs.
const WATERMARK: usize = 8;

impl<K: Kernel> Session<K> {
    /// Rings for these CPUs; `buffer_kib` is the size of each, `None` for as much as is allowed up to a default.
    pub fn new(
        kernel: K,
        cpus: &[u16],
        specs: Vec<Spec>,
        manner: Manner,
        buffer_kib: Option<u32>,
    ) -> Result<Self, OpenError> {
        let wanted =
            buffer_kib.map_or_else(|| default_pages(cpus.len()), |kib| (kib as usize / 4).max(1).next_power_of_two());
        let mut pages = wanted;
        let mut notes = Vec::new();
        let cpus = loop {
            match rings(&kernel, cpus, pages) {
                Ok(cpus) => break cpus,
                Err(OpenError::Call("mmap", error))
                    if pages > PAGES_MIN && matches!(error.raw_os_error(), Some(libc::EPERM | libc::ENOMEM)) =>
                {
                    pages /= 2;
                }
                Err(error) => return Err(error),
            }
        };
        // Somewhat less than the default is usual where an ordinary user may not lock more memory: nothing to act on.
        if pages < if buffer_kib.is_some() { wanted } else { wanted / 4 } {
            notes.push(format!(
                "the buffer of each CPU has {} KiB instead of {} KiB, because this user may not lock more memory",
                pages * 4,
                wanted * 4
            ));
        }
        Ok(Session { kernel, cpus, specs, events: Vec::new(), manner, notes, bpf: None })
    }

    /// Opens the events that tell of all programs; before those of threads. `know` learns their identifiers.
    pub fn open_everybody(&mut self, know: &mut impl FnMut(u64, Kind)) -> Result<(), OpenError> {
        self.open_all(true, EVERYBODY, know)
    }

    /// Opens all events for a thread and those that it will make. `know` learns their identifiers.
    pub fn open(&mut self, tid: u32, know: &mut impl FnMut(u64, Kind)) -> Result<(), OpenError> {
        self.open_all(false, tid, know)
    }

    /// Opens all events for a thread of a process from which the kernel took them when it executed a program as
    /// somebody else; they begin at once. Their identifiers, with what they are.
    pub fn open_again(&mut self, tid: u32) -> Result<Vec<(u64, Kind)>, OpenError> {
        let before = std::mem::replace(&mut self.manner.begin, Begin::Later);
        let of_threads = self.specs.iter().filter(|spec| !spec.everybody);
        let opened: Result<Vec<_>, _> =
            of_threads.map(|spec| Ok((spec.begins_on_demand(), self.open_spec(spec, tid)?))).collect();
        self.manner.begin = before;
        let mut known = Vec::new();
        for (on_demand, events) in opened? {
            for (kind, id, fd) in events {
                if !on_demand {
                    // It can fail only for a process that has ended, which is as good.
                    let _ = self.kernel.enable(fd.as_fd());
                }
                known.push((id, kind));
                self.events.push((kind, fd));
            }
        }
        Ok(known)
    }

    fn open_all(&mut self, everybody: bool, tid: u32, know: &mut impl FnMut(u64, Kind)) -> Result<(), OpenError> {
        let mut done: Vec<(Kind, Source)> = Vec::new();
        while let Some(spec) = self
            .specs
            .iter()
            .find(|spec| spec.everybody == everybody && !done.contains(&(spec.kind, spec.source)))
            .cloned()
        {
            match self.open_spec(&spec, tid) {
                Ok(opened) => {
                    for (kind, id, fd) in opened {
                        know(id, kind);
                        self.events.push((kind, fd));
                    }
                    done.push((spec.kind, spec.source));
                    // It sees what these would.
                    match spec.kind {
                        Kind::Call if spec.kernel => {
                            self.specs.retain(|other| other.kind != Kind::Call || other.kernel);
                        }
                        Kind::Sample if spec.kernel => self.specs.retain(|other| other.kind != Kind::Fault),
                        _ => {}
                    }
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
        let event = |cpu: &Cpu| {
            let fd = self.kernel.open(&attr, tid, cpu.number).map_err(open_error)?;
            let failed = |call| move |why| OpenError::Call(call, why);
            if let Some(filter) = &spec.filter {
                self.kernel.filter(fd.as_fd(), filter).map_err(failed("PERF_EVENT_IOC_SET_FILTER"))?;
            }
            self.kernel.redirect(fd.as_fd(), cpu.owner.as_fd()).map_err(failed("PERF_EVENT_IOC_SET_OUTPUT"))?;
            let id = self.kernel.id(fd.as_fd()).map_err(failed("PERF_EVENT_IOC_ID"))?;
            Ok((spec.kind, id, fd))
        };
        // A ring belongs to one CPU, and an event that threads to come inherit writes into the ring of its own CPU
        // only.
        self.cpus.iter().map(event).collect()
    }

    /// Gives up the events that are needed least, to have their descriptors; `false` if all that are left are needed.
    fn give_up_least(&mut self) -> bool {
        let Some(least) = self.specs.iter().map(|spec| spec.need).min().filter(|need| *need != Need::Essential) else {
            return false;
        };
        let kinds: Vec<Kind> = self.specs.iter().filter(|spec| spec.need == least).map(|spec| spec.kind).collect();
        let what = if least == Need::Extra { "blocking system calls" } else { "futex calls and samples" };
        self.note(format!("{what} are not recorded, because there are too few file descriptors for them"));
        kinds.into_iter().for_each(|kind| self.drop_kind(kind));
        true
    }

    fn without_kernel(&mut self, kind: Kind) {
        // In user mode alone there is nothing to see of switches and wake-ups.
        if kind == Kind::Call {
            // Those of single calls are left.
            return self.specs.retain(|spec| spec.kind != Kind::Call || !spec.kernel);
        }
        if matches!(kind, Kind::Switch | Kind::Waking | Kind::DeepPlace | Kind::SleepPlace) {
            self.drop_kind(kind);
        }
        for spec in self.specs.iter_mut().filter(|spec| spec.kind == kind) {
            (spec.kernel, spec.everybody) = (false, false);
        }
    }

    fn drop_kind(&mut self, kind: Kind) {
        self.specs.retain(|spec| spec.kind != kind);
        self.events.retain(|(other, _)| *other != kind);
    }

    /// Whether events of this kind are open, and in the kernel too.
    pub fn has(&self, wanted: impl Fn(&Spec) -> bool) -> bool {
        self.specs.iter().any(wanted)
    }

    /// How many rings there are.
    pub fn lanes(&self) -> usize {
        self.cpus.len() + self.bpf.as_ref().map_or(0, Capture::lanes)
    }

    /// Empties all rings: each CPU's by its place in the list of CPUs, then those of programs inside the kernel.
    pub fn drain(&mut self, mut reader: impl FnMut(usize, [&[u8]; 2])) {
        for (lane, cpu) in self.cpus.iter_mut().enumerate() {
            cpu.ring.drain(|parts| reader(lane, parts));
        }
        let first = self.cpus.len();
        if let Some(bpf) = &mut self.bpf {
            bpf.drain(|lane, parts| reader(first + lane, parts));
        }
    }

    /// Lets the events begin that were opened to begin later. Empties the rings from time to time meanwhile.
    pub fn enable(&mut self, mut reader: impl FnMut(usize, [&[u8]; 2])) {
        const PORTION: usize = 64;
        let late = |kind: Kind| {
            let is_late = |spec: &&Spec| !spec.begins_first() && !spec.begins_on_demand();
            self.specs.iter().filter(is_late).any(|spec| spec.kind == kind)
        };
        for (done, (_, fd)) in self.events.iter().filter(|(kind, _)| late(*kind)).enumerate() {
            // It can fail only for a thread that has ended, which is as good.
            let _ = self.kernel.enable(fd.as_fd());
            if done % PORTION == 0 {
                for (lane, cpu) in self.cpus.iter_mut().enumerate() {
                    cpu.ring.drain(|parts| reader(lane, parts));
                }
            }
        }
    }

    /// Lets the events begin that are opened to be there on demand.
    pub fn enable_places(&self) {
        for (_, fd) in self.events.iter().filter(|(kind, _)| *kind == Kind::SleepPlace) {
            // What cannot be had is not in the recording, which then says less of where threads sleep.
            let _ = self.kernel.enable(fd.as_fd());
        }
    }

    /// Stops all events; what is in the rings stays.
    pub fn disable(&mut self) {
        if let Some(bpf) = &mut self.bpf {
            bpf.stop();
        }
        for (_, fd) in &self.events {
            // It can fail only for a thread that has ended, which is as good.
            let _ = self.kernel.disable(fd.as_fd());
        }
    }

    /// CPU time that the kernel's programs took so far.
    pub fn spent_ns(&self) -> u64 {
        self.bpf.as_ref().map_or(0, Capture::spent_ns)
    }

    /// What to poll for rings that fill.
    pub fn descriptors(&self) -> impl Iterator<Item = RawFd> {
        self.cpus.iter().map(|cpu| cpu.owner.as_raw_fd()).chain(self.bpf.as_ref().map(Capture::descriptor))
    }
}

fn default_pages(cpus: usize) -> usize {
    let fair = (PAGES_TOTAL / cpus.max(1)).max(1);
    PAGES.min(1 << fair.ilog2())
}

fn rings(kernel: &impl Kernel, cpus: &[u16], pages: usize) -> Result<Vec<Cpu>, OpenError> {
    let mut rings = Vec::with_capacity(cpus.len());
    for &number in cpus {
        let watermark = u32::try_from(pages * 4096 / WATERMARK).unwrap_or(u32::MAX);
        let owner = kernel.open(&plan::ring_owner(watermark), 0, number).map_err(open_error)?;
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
        Kind::FutexReturn => "futex wakes",
        Kind::FutexZero => "futex wakes that wake nobody",
        Kind::Sample => "CPU samples",
        Kind::MajorFault => "major page faults",
        Kind::Fault => "places of page faults",
        Kind::Call => "blocking system calls",
        Kind::Switch => "reasons of switches",
        Kind::DeepPlace | Kind::SleepPlace => "places of sleeps",
        Kind::Waking => "wake-ups",
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::fs::File;
    use std::os::fd::BorrowedFd;

    use super::*;
    use crate::sys::linux::perf::Attr;
    use crate::sys::linux::plan::Begin;
    use crate::{Options, Target};

    /// A kernel that fails in the n-th call of one kind, and counts calls.
    #[derive(Default)]
    struct Scripted {
        opens: Cell<u64>,
        enabled: Cell<usize>,
        /// From which open on, up to which, with which error number.
        fails: Option<(u64, u64, i32)>,
        forbids_kernel: bool,
        descriptors: Option<u64>,
        /// Pages of all rings that may be locked.
        pages: Cell<usize>,
        filter_fails: bool,
    }

    impl Kernel for &Scripted {
        fn open(&self, attr: &Attr, _: u32, _: u16) -> io::Result<OwnedFd> {
            let open = self.opens.get();
            self.opens.set(open + 1);
            let error = match self.fails {
                Some((from, to, error)) if (from..to).contains(&open) => Some(error),
                _ if self.forbids_kernel && attr.exclude_kernel() == 0 => Some(libc::EACCES),
                _ if self.descriptors.is_some_and(|limit| open >= limit) => Some(libc::EMFILE),
                _ => None,
            };
            match error {
                Some(error) => Err(io::Error::from_raw_os_error(error)),
                None => Ok(File::open("/dev/null")?.into()),
            }
        }

        fn redirect(&self, _: BorrowedFd<'_>, _: BorrowedFd<'_>) -> io::Result<()> {
            Ok(())
        }

        fn filter(&self, _: BorrowedFd<'_>, _: &str) -> io::Result<()> {
            if self.filter_fails { Err(io::Error::from_raw_os_error(libc::EINVAL)) } else { Ok(()) }
        }

        fn id(&self, _: BorrowedFd<'_>) -> io::Result<u64> {
            Ok(self.opens.get())
        }

        fn enable(&self, _: BorrowedFd<'_>) -> io::Result<()> {
            self.enabled.set(self.enabled.get() + 1);
            Ok(())
        }

        fn disable(&self, _: BorrowedFd<'_>) -> io::Result<()> {
            Ok(())
        }

        fn count(&self, _: BorrowedFd<'_>) -> io::Result<u64> {
            Ok(0)
        }

        fn map(&self, _: BorrowedFd<'_>, pages: usize) -> io::Result<Ring> {
            if pages > self.pages.get() {
                return Err(io::Error::from_raw_os_error(libc::EPERM));
            }
            // Any memory that can be shared does for a ring that nobody fills.
            let file = tempfile::tempfile()?;
            file.set_len(4096 * (pages as u64 + 1))?;
            Ring::map(file.as_fd(), pages)
        }
    }

    fn scripted() -> Scripted {
        Scripted { pages: Cell::new(4096), ..Scripted::default() }
    }

    fn specs() -> Vec<Spec> {
        let options = Options { stack_bytes: 512, ..Options::new(Target::Processes(vec![1]), "unused") };
        plan::plan(&options, false, |_| Some(1))
    }

    fn manner(begin: Begin) -> Manner {
        Manner { begin, stack_bytes: 512, build_ids: true }
    }

    fn opened(kernel: &Scripted) -> Result<Session<&Scripted>, OpenError> {
        let mut session = Session::new(kernel, &[0, 1], specs(), manner(Begin::OnExec), None)?;
        session.open_everybody(&mut |_, _| {})?;
        session.open(100, &mut |_, _| {})?;
        Ok(session)
    }

    #[test]
    fn everything_is_opened_where_everything_is_allowed() {
        let kernel = scripted();
        let session = opened(&kernel).unwrap_or_else(|error| panic!("{error:?}"));
        // Every kind has an event for each CPU.
        assert_eq!((&session.notes, session.events.len()), (&Vec::new(), session.specs.len() * 2));
        assert_eq!(session.specs.iter().filter(|spec| spec.kind == Kind::Call).count(), 1, "one for all calls");
    }

    #[test]
    fn what_was_opened_to_begin_later_begins_at_once_but_for_what_begins_first() {
        let kernel = scripted();
        let mut session = opened(&kernel).unwrap_or_else(|error| panic!("{error:?}"));
        session.enable(|_, _| {});
        let attr = |kind, begin| {
            let spec = specs().into_iter().find(|spec| spec.kind == kind).unwrap();
            let attr = spec.attr(manner(begin));
            (attr.disabled(), attr.enable_on_exec())
        };
        let kinds = [Kind::Side, Kind::Switch, Kind::FutexWait, Kind::Waking];
        assert_eq!(kinds.map(|kind| attr(kind, Begin::Later)), [(0, 0), (0, 0), (1, 0), (1, 0)]);
        assert_eq!(kinds.map(|kind| attr(kind, Begin::OnExec)), [(1, 1), (0, 0), (1, 1), (0, 0)]);
        // The events of two kinds begin first and need no beginning; those of one kind wait.
        let all = session.specs.len();
        assert_eq!(kernel.enabled.get(), (all - 3) * 2);
        session.enable_places();
        assert_eq!(kernel.enabled.get(), (all - 2) * 2);
    }

    #[test]
    fn any_open_that_fails_for_good_costs_at_most_its_own_kind() {
        let is_needless = |spec: &&Spec| spec.kind == Kind::Fault || (spec.kind == Kind::Call && !spec.kernel);
        let needless = specs().iter().filter(is_needless).count();
        let all = (specs().len() - needless) as u64 * 2 + 2;
        let everybody = specs().iter().filter(|spec| spec.everybody).count() as u64 * 2;
        let essential = [0, 1, 2 + everybody, 3 + everybody];
        for open in 0..all {
            // Out of memory, say, at this call and at the same one in the next try.
            let kernel = Scripted { fails: Some((open, open + 1, libc::ENOMEM)), ..scripted() };
            match opened(&kernel) {
                Ok(session) => {
                    assert_eq!(session.notes.len(), 1, "open {open}: {:?}", session.notes);
                    assert!(session.has(|spec| spec.kind == Kind::Side));
                }
                // The first two are the rings, two the events without which there is no recording.
                Err(OpenError::Call("perf_event_open", _)) => {
                    assert!(essential.contains(&open), "open {open}")
                }
                Err(error) => panic!("open {open}: {error:?}"),
            }
        }
    }

    #[test]
    fn without_rights_in_the_kernel_there_are_samples_of_user_mode_and_no_scheduler() {
        let kernel = Scripted { forbids_kernel: true, ..scripted() };
        let session = opened(&kernel).unwrap_or_else(|error| panic!("{error:?}"));
        assert!(session.has(|spec| spec.kind == Kind::Sample && !spec.kernel));
        assert!(!session.has(|spec| spec.everybody));
        assert!(session.has(|spec| spec.kind == Kind::Call && !spec.kernel), "single calls are allowed");
        assert!(session.has(|spec| spec.kind == Kind::FutexWait));
        assert!(session.has(|spec| spec.kind == Kind::Fault), "no sample shows the kernel's page faults");
        assert_eq!(session.notes, Vec::<String>::new(), "the capabilities say it");
    }

    #[test]
    fn without_any_rights_the_error_says_so() {
        let kernel = Scripted { fails: Some((2, u64::MAX, libc::EACCES)), ..scripted() };
        assert!(matches!(opened(&kernel), Err(OpenError::Forbidden(_))));
        let threads = 2 + specs().iter().filter(|spec| spec.everybody).count() as u64 * 2;
        let kernel = Scripted { fails: Some((threads, u64::MAX, libc::ESRCH)), ..scripted() };
        assert!(matches!(opened(&kernel), Err(OpenError::Gone)));
    }

    #[test]
    fn too_few_descriptors_cost_the_least_needed_first() {
        let kernel = Scripted { descriptors: Some(16), ..scripted() };
        // Opens are counted and never given back here, so that in the end only what is essential fits, or not even
        // that.
        match opened(&kernel) {
            Ok(session) => assert!(!session.has(|spec| spec.kind == Kind::Call)),
            Err(error) => panic!("{error:?}"),
        }
        let kernel = Scripted { descriptors: Some(3), ..scripted() };
        assert!(matches!(opened(&kernel), Err(OpenError::Descriptors)));
    }

    #[test]
    fn old_kernels_without_build_ids_are_asked_again() {
        let side = 2 + specs().iter().filter(|spec| spec.everybody).count() as u64 * 2;
        let kernel = Scripted { fails: Some((side, side + 1, libc::EINVAL)), ..scripted() };
        let session = opened(&kernel).unwrap_or_else(|error| panic!("{error:?}"));
        assert!(!session.manner.build_ids);
        assert_eq!(session.notes, Vec::<String>::new());
    }

    #[test]
    fn a_filter_that_the_kernel_does_not_know_costs_the_event_and_is_told() {
        let kernel = Scripted { filter_fails: true, ..scripted() };
        let session = opened(&kernel).unwrap_or_else(|error| panic!("{error:?}"));
        assert!(!session.has(|spec| spec.filter.is_some()));
        assert!(session.notes.iter().any(|note| note.starts_with("futex waits are not recorded")));
    }

    #[test]
    fn rings_are_as_large_as_may_be_locked() {
        let kernel = Scripted { pages: Cell::new(64), ..scripted() };
        let session = opened(&kernel).unwrap_or_else(|error| panic!("{error:?}"));
        assert_eq!(session.notes.len(), 1, "{:?}", session.notes);
        assert!(session.notes[0].contains("256 KiB"));
        let kernel = Scripted { pages: Cell::new(4), ..scripted() };
        assert!(matches!(opened(&kernel), Err(OpenError::Call("mmap", _))));
        assert_eq!(default_pages(2), 1024);
        assert_eq!(default_pages(64), 256);
        assert_eq!(default_pages(1000), 16);
    }
}
