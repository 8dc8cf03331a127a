//! The file of one process, read byte by byte. The process may run on, have been killed in the middle of a word, or be
//! of another holdup: nothing in the file is believed without a look.

use std::fmt;
use std::fs::File;
use std::io;
use std::mem::{offset_of, size_of};
use std::path::{Path, PathBuf};

use holdup_control::{self as control, BUCKETS, Policy, RwPolicy};
use holdup_trace::{LockFigures, Spread};

use super::sys;

/// What one process did so far.
#[derive(Clone, Debug, Default)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// Its program.
    pub program: PathBuf,
    /// One of the `STATE_` constants of [`holdup_control`].
    pub state: u32,
    /// Acquisitions of locks that are served.
    pub acquisitions: u64,
    /// Those that did not succeed at the first try.
    pub contended: u64,
    /// Those that slept.
    pub slept: u64,
    /// Acquisitions of locks that are left to glibc, by `holdup_control::Fallback`.
    pub fallbacks: [u64; 8],
    /// Futex calls of the interposer that slept.
    pub futex_waits: u64,
    /// Locks that the watchdog set back.
    pub watchdog_trips: u64,
    /// Reader-writer locks that prefer writers because of the policy.
    pub rw_preferring: u64,
    /// Whether the watchdog let readers in before writers again.
    pub rw_watchdog_trips: u64,
}

impl Process {
    /// Whether it is a program that has others run in another root or in other mounts, where the library cannot be
    /// read.
    pub fn leaves_root(&self) -> bool {
        let name = self.program.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| ["chroot", "unshare", "nsenter", "bwrap"].contains(&name))
    }
}

/// All that one process did.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// The sums.
    pub process: Process,
    /// When it began, on CLOCK_MONOTONIC.
    pub began_ns: u64,
    /// When its exit handlers ran; 0 while it runs, or if it was killed or executed another program.
    pub ended_ns: u64,
    /// One of [`control::Profile`], as a number.
    pub profile: u32,
    /// Locks that found no record of their own: the last of the locks stands for all of them, and has no address.
    pub locks_beyond: u64,
    /// Threads that ran at the same time, at most.
    pub threads: u32,
    /// What is loaded where.
    pub modules: Vec<Module>,
    /// The locks, in the order in which they were met.
    pub locks: Vec<Lock>,
}

/// Where a module is loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// Where its first byte is.
    pub base: u64,
    /// Behind its last.
    pub end: u64,
    /// Its path.
    pub path: PathBuf,
}

/// One lock, as in [`control::LockRecord`].
#[derive(Clone, Debug, Default)]
pub struct Lock {
    /// Where it is; 0 for those that found no record of their own.
    pub addr: u64,
    /// `__kind` of the mutex, or one of [`control::KIND_RWLOCK`] and those after it.
    pub kind: u32,
    /// The policy of its own, by a rule or by the watchdog.
    pub policy: Option<OwnPolicy>,
    /// Return address of the call that initialised it; 0 if it was not seen.
    pub init_site: u64,
    /// Return address of the first call that was seen to acquire it.
    pub first_site: u64,
    /// Acquisitions.
    pub acquisitions: u64,
    /// Those that did not succeed at the first try.
    pub contended: u64,
    /// Those that slept.
    pub slept: u64,
    /// Threads that acquired it; of more than 64 some count as one.
    pub threads: u32,
    /// Whether the watchdog has set it back.
    pub tripped: bool,
    /// Contended waits.
    pub wait: Durations,
    /// Times that it was held.
    pub hold: Durations,
    /// Where it is acquired.
    pub sites: Vec<Site>,
}

/// A policy of a single lock, whose kind says which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnPolicy {
    /// How threads wait for a mutex.
    Mutex(Policy),
    /// How they wait for a reader-writer lock.
    ReadWrite(RwPolicy),
}

impl OwnPolicy {
    /// What stands in the record of a lock of this kind, if it has one.
    fn of(kind: u32, word: u32) -> Option<OwnPolicy> {
        match (kind, word) {
            (_, u32::MAX) => None,
            (control::KIND_RWLOCK, word) => RwPolicy::unpack(word).map(OwnPolicy::ReadWrite),
            (_, word) => Policy::unpack(word).map(OwnPolicy::Mutex),
        }
    }
}

/// As it stands on a command line.
impl fmt::Display for OwnPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OwnPolicy::Mutex(policy) => policy.fmt(f),
            OwnPolicy::ReadWrite(policy) => policy.fmt(f),
        }
    }
}

impl Lock {
    /// Whether its acquisitions are among those of the threads, and not of a kind that is only counted.
    pub fn is_served(&self) -> bool {
        ![control::KIND_RWLOCK, control::KIND_SPIN].contains(&self.kind)
    }

    /// The same for a recording.
    pub fn summary(&self) -> LockFigures {
        LockFigures {
            addr: self.addr,
            acquisitions: self.acquisitions,
            contended: self.contended,
            slept: self.slept,
            threads: self.threads,
            wait: self.wait.summary(),
            hold: self.hold.summary(),
        }
    }
}

/// Durations that were measured, as in [`control::Durations`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Durations {
    /// How many were measured.
    pub count: u64,
    /// How many there were.
    pub of: u64,
    /// The measured ones together.
    pub ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// How many of which length.
    pub buckets: [u32; BUCKETS],
}

impl Default for Durations {
    fn default() -> Durations {
        Durations { count: 0, of: 0, ns: 0, max_ns: 0, buckets: [0; BUCKETS] }
    }
}

impl Durations {
    /// All of them together: those that were not measured are taken to be like those that were.
    pub fn total_ns(&self) -> u64 {
        if !self.is_estimate() {
            return self.ns;
        }
        let total = u128::from(self.ns) * u128::from(self.of) / u128::from(self.count);
        u64::try_from(total).unwrap_or(u64::MAX)
    }

    /// Whether some were not measured.
    pub fn is_estimate(&self) -> bool {
        self.count > 0 && self.count < self.of
    }

    fn summary(&self) -> Spread {
        Spread {
            count: self.count,
            // How many each that was measured stands for; a recording has whole numbers.
            scale: self.of.saturating_add(self.count / 2).checked_div(self.count).unwrap_or(1).max(1),
            sum_ns: self.ns,
            p50_ns: self.quantile_ns(0.5),
            p99_ns: self.quantile_ns(0.99),
            max_ns: self.max_ns,
        }
    }

    /// The duration that this share of them does not exceed. Buckets double in width: within one, durations are taken
    /// as spread evenly, and none is longer than the longest.
    pub fn quantile_ns(&self, share: f64) -> u64 {
        let all: u64 = self.buckets.iter().map(|count| u64::from(*count)).sum();
        if all == 0 {
            return 0;
        }
        let wanted = (share * all as f64).ceil().clamp(1.0, all as f64);
        let mut below = 0.0;
        for (index, count) in self.buckets.iter().enumerate().filter(|(_, count)| **count > 0) {
            let count = f64::from(*count);
            if below + count >= wanted {
                let start = if index == 0 { 0.0 } else { (1_u64 << index) as f64 };
                let width = if index == 0 { 2.0 } else { start };
                let within = start + width * (wanted - below) / count;
                return (within as u64).min(self.max_ns);
            }
            below += count;
        }
        self.max_ns
    }
}

/// A place that acquires a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    /// Return address; 0 for the rest.
    pub addr: u64,
    /// Contended acquisitions from there.
    pub contended: u64,
    /// How long they waited together.
    pub wait_ns: u64,
}

/// Reads the sums of a process; `None` for a file that is not ready, or no file of figures of this version.
///
/// # Errors
/// The file cannot be read.
pub fn read_process(path: &Path) -> io::Result<Option<Process>> {
    let file = File::open(path)?;
    Ok(head(&file).and_then(|head| process(&file, &head)))
}

/// Reads everything; `None` for a file that is not ready, or no file of figures of this version.
///
/// # Errors
/// The file cannot be read.
pub fn read(path: &Path) -> io::Result<Option<Figures>> {
    let file = File::open(path)?;
    let Some(head) = head(&file) else { return Ok(None) };
    let Some(process) = process(&file, &head) else { return Ok(None) };
    let modules = part(&file, &head, &MODULES).unwrap_or_default();
    let locks = part(&file, &head, &LOCKS).unwrap_or_default();
    let mut locks: Vec<Lock> = locks.chunks_exact(LOCKS.size).filter_map(|bytes| lock(Bytes(bytes))).collect();
    let locks_beyond = head.u64(offset_of!(control::Figures, locks_beyond));
    if locks_beyond > 0 {
        let served = locks.iter().filter(|lock| lock.is_served()).map(|lock| lock.acquisitions);
        let own = served.fold(0, u64::saturating_add);
        // The shared record has what was slow; what was fast is in the threads' sums.
        let rest = process.acquisitions.saturating_sub(own);
        locks.extend(beyond(&file).map(|lock| Lock { acquisitions: rest.max(lock.acquisitions), ..lock }));
    }
    Ok(Some(Figures {
        process,
        began_ns: head.u64(offset_of!(control::Figures, began_ns)),
        ended_ns: head.u64(offset_of!(control::Figures, ended_ns)),
        profile: head.u32(offset_of!(control::Figures, profile)),
        locks_beyond,
        threads: head.count(&THREADS) as u32,
        modules: modules.chunks_exact(MODULES.size).filter_map(|bytes| module(Bytes(bytes))).collect(),
        locks,
    }))
}

/// Where the array of one kind of record is, and how long it can be.
struct Array {
    at: usize,
    size: usize,
    most: usize,
    len_at: usize,
}

const THREADS: Array = Array {
    at: offset_of!(control::Figures, threads),
    size: size_of::<control::ThreadSlot>(),
    most: control::THREADS,
    len_at: offset_of!(control::Figures, threads_len),
};

const MODULES: Array = Array {
    at: offset_of!(control::Figures, modules),
    size: size_of::<control::Module>(),
    most: control::MODULES,
    len_at: offset_of!(control::Figures, modules_len),
};

const LOCKS: Array = Array {
    at: offset_of!(control::Figures, locks),
    size: size_of::<control::LockRecord>(),
    most: control::LOCKS,
    len_at: offset_of!(control::Figures, locks_len),
};

/// Everything in front of the arrays.
struct Head(Vec<u8>);

impl Head {
    fn u32(&self, at: usize) -> u32 {
        Bytes(&self.0).u32(at)
    }

    fn u64(&self, at: usize) -> u64 {
        Bytes(&self.0).u64(at)
    }

    /// How many records of an array are in use; never more than it has, and none in the short file of a process that is
    /// not served.
    fn count(&self, array: &Array) -> usize {
        let whole = self.size() == size_of::<control::Figures>() as u64;
        if whole { (self.u32(array.len_at) as usize).min(array.most) } else { 0 }
    }

    /// How large the file says that it is.
    fn size(&self) -> u64 {
        u64::from(self.u32(offset_of!(control::Figures, bytes)))
    }
}

/// The head of a file that is of our making and whole.
fn head(file: &File) -> Option<Head> {
    let mut bytes = vec![0; THREADS.at];
    sys::read_at(file, &mut bytes, 0).ok()?;
    let head = Head(bytes);
    let sizes = [size_of::<control::Figures>() as u64, THREADS.at as u64];
    let ours = head.u64(offset_of!(control::Figures, magic)) == control::MAGIC
        && head.u32(offset_of!(control::Figures, version)) == control::VERSION
        && sizes.contains(&head.size());
    let whole = file.metadata().is_ok_and(|about| about.len() >= head.size());
    (ours && whole).then_some(head)
}

/// The bytes of the records of an array that are in use.
fn part(file: &File, head: &Head, array: &Array) -> Option<Vec<u8>> {
    let mut bytes = vec![0; head.count(array) * array.size];
    sys::read_at(file, &mut bytes, array.at as u64).ok()?;
    Some(bytes)
}

fn process(file: &File, head: &Head) -> Option<Process> {
    let threads = part(file, head, &THREADS)?;
    let sum = |at: usize| -> u64 {
        let slots = threads.chunks_exact(THREADS.size);
        slots.map(|slot| Bytes(slot).u64(at)).fold(0, u64::saturating_add)
    };
    let fallbacks = offset_of!(control::Figures, fallbacks);
    Some(Process {
        pid: head.u32(offset_of!(control::Figures, pid)),
        program: sys::path_of(Bytes(&head.0).path(offset_of!(control::Figures, program))),
        state: head.u32(offset_of!(control::Figures, state)),
        acquisitions: sum(offset_of!(control::ThreadSlot, acquisitions)),
        contended: sum(offset_of!(control::ThreadSlot, contended)),
        slept: sum(offset_of!(control::ThreadSlot, slept)),
        fallbacks: std::array::from_fn(|index| head.u64(fallbacks + 8 * index)),
        futex_waits: head.u64(offset_of!(control::Figures, futex_waits)),
        watchdog_trips: head.u64(offset_of!(control::Figures, watchdog_trips)),
        rw_preferring: head.u64(offset_of!(control::Figures, rw_preferring)),
        rw_watchdog_trips: head.u64(offset_of!(control::Figures, rw_watchdog_trips)),
    })
}

fn module(bytes: Bytes<'_>) -> Option<Module> {
    let module = Module {
        base: bytes.u64(offset_of!(control::Module, base)),
        end: bytes.u64(offset_of!(control::Module, end)),
        path: sys::path_of(bytes.path(offset_of!(control::Module, path))),
    };
    (module.base < module.end && !module.path.as_os_str().is_empty()).then_some(module)
}

/// A record that is ready.
fn lock(bytes: Bytes<'_>) -> Option<Lock> {
    let addr = bytes.u64(offset_of!(control::LockRecord, addr));
    (addr != 0).then(|| record(bytes))
}

/// The last record, which stands for all locks that have none.
fn beyond(file: &File) -> Option<Lock> {
    let mut bytes = vec![0; LOCKS.size];
    sys::read_at(file, &mut bytes, (LOCKS.at + (LOCKS.most - 1) * LOCKS.size) as u64).ok()?;
    Some(Lock { addr: 0, policy: None, ..record(Bytes(&bytes)) })
}

fn record(bytes: Bytes<'_>) -> Lock {
    let kind = bytes.u32(offset_of!(control::LockRecord, kind));
    let acquisitions = bytes.u64(offset_of!(control::LockRecord, acquisitions));
    let contended = bytes.u64(offset_of!(control::LockRecord, contended));
    Lock {
        addr: bytes.u64(offset_of!(control::LockRecord, addr)),
        kind,
        policy: OwnPolicy::of(kind, bytes.u32(offset_of!(control::LockRecord, policy))),
        init_site: bytes.u64(offset_of!(control::LockRecord, init_site)),
        first_site: bytes.u64(offset_of!(control::LockRecord, first_site)),
        acquisitions,
        contended,
        slept: bytes.u64(offset_of!(control::LockRecord, slept)),
        threads: bytes.u64(offset_of!(control::LockRecord, threads)).count_ones(),
        tripped: bytes.u32(offset_of!(control::LockRecord, tripped)) != 0,
        wait: durations(bytes.from(offset_of!(control::LockRecord, wait)), contended),
        hold: durations(bytes.from(offset_of!(control::LockRecord, hold)), acquisitions),
        sites: sites(bytes.from(offset_of!(control::LockRecord, sites))),
    }
}

/// What was measured of so many.
fn durations(bytes: Bytes<'_>, all: u64) -> Durations {
    // One that stands for itself alone was always measured, but for those under way now.
    let scale = bytes.u64(offset_of!(control::Durations, scale));
    let count = bytes.u64(offset_of!(control::Durations, count));
    let buckets = offset_of!(control::Durations, buckets);
    Durations {
        count,
        of: if scale > 1 { all.max(count) } else { count },
        ns: bytes.u64(offset_of!(control::Durations, ns)),
        max_ns: bytes.u64(offset_of!(control::Durations, max_ns)),
        buckets: std::array::from_fn(|index| bytes.u32(buckets + 4 * index)),
    }
}

fn sites(bytes: Bytes<'_>) -> Vec<Site> {
    let at = |index: usize| bytes.from(index * size_of::<control::Site>());
    let site = |bytes: Bytes<'_>| Site {
        addr: bytes.u64(offset_of!(control::Site, addr)),
        contended: bytes.u64(offset_of!(control::Site, contended)),
        wait_ns: bytes.u64(offset_of!(control::Site, wait_ns)),
    };
    let sites = (0..control::SITES).map(|index| site(at(index)));
    sites.filter(|site| site.contended > 0 || site.wait_ns > 0).collect()
}

/// Bytes with words at offsets; what lies outside is zero.
#[derive(Clone, Copy)]
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn from(self, at: usize) -> Bytes<'a> {
        Bytes(self.0.get(at..).unwrap_or_default())
    }

    fn u32(self, at: usize) -> u32 {
        let word = self.from(at).0.first_chunk();
        word.map_or(0, |word| u32::from_ne_bytes(*word))
    }

    fn u64(self, at: usize) -> u64 {
        let word = self.from(at).0.first_chunk();
        word.map_or(0, |word| u64::from_ne_bytes(*word))
    }

    fn path(self, at: usize) -> &'a [u8] {
        self.from(at).0.first_chunk().map_or(&[], control::path)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A file of figures with one thread, one module and one lock.
    pub fn specimen() -> Vec<u8> {
        let mut file = vec![0; size_of::<control::Figures>()];
        let size = file.len() as u32;
        let mut put = |at: usize, bytes: &[u8]| file[at..at + bytes.len()].copy_from_slice(bytes);
        put(offset_of!(control::Figures, magic), &control::MAGIC.to_ne_bytes());
        put(offset_of!(control::Figures, version), &control::VERSION.to_ne_bytes());
        put(offset_of!(control::Figures, bytes), &size.to_ne_bytes());
        put(offset_of!(control::Figures, pid), &4711_u32.to_ne_bytes());
        put(offset_of!(control::Figures, state), &control::STATE_SERVES.to_ne_bytes());
        put(offset_of!(control::Figures, program), b"/bin/prog");
        put(offset_of!(control::Figures, fallbacks) + 8, &3_u64.to_ne_bytes());
        for len in [THREADS.len_at, MODULES.len_at, LOCKS.len_at] {
            put(len, &1_u32.to_ne_bytes());
        }
        put(THREADS.at + offset_of!(control::ThreadSlot, acquisitions), &100_u64.to_ne_bytes());
        put(MODULES.at + offset_of!(control::Module, base), &0x1000_u64.to_ne_bytes());
        put(MODULES.at + offset_of!(control::Module, end), &0x2000_u64.to_ne_bytes());
        put(MODULES.at + offset_of!(control::Module, path), b"/bin/prog");
        let at = |field: usize| LOCKS.at + field;
        put(at(offset_of!(control::LockRecord, addr)), &0x1800_u64.to_ne_bytes());
        put(at(offset_of!(control::LockRecord, policy)), &u32::MAX.to_ne_bytes());
        put(at(offset_of!(control::LockRecord, acquisitions)), &100_u64.to_ne_bytes());
        put(at(offset_of!(control::LockRecord, threads)), &0b1011_u64.to_ne_bytes());
        let wait = offset_of!(control::LockRecord, wait);
        put(at(wait + offset_of!(control::Durations, max_ns)), &1500_u64.to_ne_bytes());
        put(at(wait + offset_of!(control::Durations, buckets) + 40), &4_u32.to_ne_bytes());
        let site = offset_of!(control::LockRecord, sites) + size_of::<control::Site>();
        put(at(site + offset_of!(control::Site, addr)), &0x1234_u64.to_ne_bytes());
        put(at(site + offset_of!(control::Site, wait_ns)), &77_u64.to_ne_bytes());
        file
    }

    fn parse(bytes: &[u8]) -> Option<Figures> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("1");
        std::fs::write(&path, bytes).unwrap();
        read(&path).unwrap()
    }

    #[test]
    fn what_the_interposer_wrote_is_read() {
        let figures = parse(&specimen()).unwrap();
        assert_eq!((figures.process.pid, figures.process.acquisitions), (4711, 100));
        assert_eq!(figures.process.program, Path::new("/bin/prog"));
        assert_eq!(figures.process.fallbacks, [0, 3, 0, 0, 0, 0, 0, 0]);
        assert_eq!(figures.modules, [Module { base: 0x1000, end: 0x2000, path: "/bin/prog".into() }]);
        let [lock] = &figures.locks[..] else { panic!("{:?}", figures.locks) };
        assert_eq!((lock.addr, lock.acquisitions, lock.threads, lock.policy), (0x1800, 100, 3, None));
        assert_eq!(lock.sites, [Site { addr: 0x1234, contended: 0, wait_ns: 77 }]);
        assert!(!lock.wait.is_estimate());
    }

    #[test]
    fn a_policy_is_one_of_the_locks_kind() {
        let (mutex, read_write) = (Policy::Throttle(2).pack(), RwPolicy::PreferWriter.pack());
        assert_eq!(OwnPolicy::of(0, mutex).unwrap().to_string(), "throttle:2");
        assert_eq!(OwnPolicy::of(control::KIND_RWLOCK, read_write).unwrap().to_string(), "prefer-writer");
        assert_eq!(OwnPolicy::of(control::KIND_RWLOCK, u32::MAX), None);
    }

    #[test]
    fn what_is_not_whole_or_not_ours_is_nothing() {
        let good = specimen();
        assert!(parse(&[]).is_none());
        assert!(parse(&good[..good.len() - 1]).is_none());
        for field in [
            offset_of!(control::Figures, magic),
            offset_of!(control::Figures, version),
            offset_of!(control::Figures, bytes),
        ] {
            let mut bad = good.clone();
            bad[field] ^= 1;
            assert!(parse(&bad).is_none(), "field at {field}");
        }
    }

    #[test]
    fn the_short_file_of_a_process_that_is_not_served_is_read() {
        let mut short = specimen()[..THREADS.at].to_vec();
        let at = offset_of!(control::Figures, bytes);
        assert!(parse(&short).is_none(), "it says that it is longer");
        short[at..at + 4].copy_from_slice(&(THREADS.at as u32).to_ne_bytes());
        let figures = parse(&short).unwrap();
        assert_eq!((figures.process.pid, figures.process.acquisitions, figures.locks.len()), (4711, 0, 0));
    }

    #[test]
    fn counts_beyond_the_arrays_are_cut() {
        let mut bad = specimen();
        for len in [THREADS.len_at, MODULES.len_at, LOCKS.len_at] {
            bad[len..len + 4].copy_from_slice(&u32::MAX.to_ne_bytes());
        }
        let figures = parse(&bad).unwrap();
        assert_eq!((figures.locks.len(), figures.modules.len()), (1, 1), "records that are not ready are none");
        assert_eq!(figures.threads as usize, control::THREADS);
    }

    #[test]
    fn any_word_may_be_nonsense() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..50 {
            let mut bytes = specimen();
            let ready = 24..LOCKS.at + LOCKS.size;
            for _ in 0..400 {
                bytes[random.usize(ready.clone())] = random.u8(..);
            }
            if let Some(figures) = parse(&bytes) {
                figures.locks.iter().for_each(|lock| {
                    let _ = (lock.wait.quantile_ns(0.99), lock.hold.total_ns());
                });
            }
        }
    }

    #[test]
    fn what_was_not_measured_is_like_what_was() {
        let few = Durations { count: 1, of: 4, ns: 700, ..Durations::default() };
        assert!(few.is_estimate());
        assert_eq!(few.total_ns(), 2800);
        assert_eq!(Durations { of: 4, ..Durations::default() }.total_ns(), 0);
        assert_eq!(Durations { count: 4, of: 4, ns: 700, ..Durations::default() }.total_ns(), 700);
    }

    #[test]
    fn locks_without_a_record_are_one() {
        let mut file = specimen();
        let at = offset_of!(control::Figures, locks_beyond);
        file[at..at + 8].copy_from_slice(&5_u64.to_ne_bytes());
        let at = LOCKS.at + (LOCKS.most - 1) * LOCKS.size + offset_of!(control::LockRecord, acquisitions);
        file[at..at + 8].copy_from_slice(&77_u64.to_ne_bytes());
        let figures = parse(&file).unwrap();
        let all: Vec<(u64, u64)> = figures.locks.iter().map(|lock| (lock.addr, lock.acquisitions)).collect();
        assert_eq!((figures.locks_beyond, &all[..]), (5, &[(0x1800, 100), (0, 77)][..]));
        let at = THREADS.at + offset_of!(control::ThreadSlot, acquisitions);
        file[at..at + 8].copy_from_slice(&1000_u64.to_ne_bytes());
        assert_eq!(parse(&file).unwrap().locks[1].acquisitions, 900, "what the others did not take");
    }

    #[test]
    fn counts_that_overflow_are_the_most_there_is() {
        let many = Durations { count: 3, of: u64::MAX, ..Durations::default() };
        assert_eq!(many.summary().scale, u64::MAX / 3);
        let mut file = specimen();
        file[LOCKS.len_at..LOCKS.len_at + 4].copy_from_slice(&2_u32.to_ne_bytes());
        file.copy_within(LOCKS.at..LOCKS.at + LOCKS.size, LOCKS.at + LOCKS.size);
        let beyond = offset_of!(control::Figures, locks_beyond);
        for at in [beyond, LOCKS.at, LOCKS.at + LOCKS.size] {
            let at = if at == beyond { at } else { at + offset_of!(control::LockRecord, acquisitions) };
            file[at..at + 8].copy_from_slice(&u64::MAX.to_ne_bytes());
        }
        let taken: Vec<u64> = parse(&file).unwrap().locks.iter().map(|lock| lock.acquisitions).collect();
        assert_eq!(taken, [u64::MAX, u64::MAX, 0], "nothing is left for those that have no record");
    }

    #[test]
    fn quantiles_lie_in_their_bucket_and_below_the_longest() {
        let mut durations = Durations { max_ns: 1500, ..Durations::default() };
        durations.buckets[10] = 4;
        assert_eq!(durations.quantile_ns(0.5), 1024 + 512 - 36, "cut at the longest");
        durations.max_ns = 4000;
        assert_eq!(durations.quantile_ns(0.5), 1536);
        assert_eq!(durations.quantile_ns(1.0), 2048);
        durations.buckets[0] = 96;
        assert!(durations.quantile_ns(0.5) < 2);
        assert_eq!(Durations::default().quantile_ns(0.99), 0);
    }
}
