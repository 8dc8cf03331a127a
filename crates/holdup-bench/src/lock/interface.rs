//! What the laboratory asks of a lock, and how the peers answer.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

use lock_api::GetThreadId as _;

use crate::spec::Spec;

/// A lock under test.
///
/// A section is a closure: guards, raw locks whose guards carry state, and queue locks whose node lives on the caller's
/// stack all fit, and each is inlined into the loop that calls it.
pub trait BenchLock: Sync + Send + Sized {
    /// A free lock with the cell's options; [`BenchLock::settle`] follows once it lies in its final place.
    ///
    /// # Errors
    /// This machine cannot have it.
    fn create(spec: &Spec) -> Result<Self, String>;

    /// Called once, in the lock's final place, before its first use.
    fn settle(&self) -> Result<(), String> {
        Ok(())
    }

    /// Runs the section while holding the lock.
    fn with<R>(&self, section: impl FnOnce() -> R) -> R;

    /// Runs the section if the lock is free, without waiting; `None` where it is taken. Where the laboratory does not
    /// try a lock (see `can_try` in the catalog), it waits.
    #[inline]
    fn try_with<R>(&self, section: impl FnOnce() -> R) -> Option<R> {
        Some(self.with(section))
    }

    /// Runs a section that only reads; locks without readers exclude as ever.
    #[inline]
    fn with_shared<R>(&self, section: impl FnOnce() -> R) -> R {
        self.with(section)
    }

    /// False for the lock that does not synchronise at all: workloads then check nothing.
    const EXCLUDES: bool = true;

    /// What the wrapper adds to an uncontended acquisition, if this is a lock that had to be wrapped to be recursive.
    /// Such locks only serve the workloads that take a lock more than once.
    fn wrapper_ns(_: &Spec) -> Option<f64> {
        None
    }

    /// Whether [`BenchLock::wrapper_ns`] has an answer.
    const WRAPPED: bool = false;
}

/// No synchronisation: the loop itself.
#[derive(Debug)]
pub struct Nothing;

impl BenchLock for Nothing {
    const EXCLUDES: bool = false;

    fn create(_: &Spec) -> Result<Nothing, String> {
        Ok(Nothing)
    }

    #[inline(always)]
    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        section()
    }
}

/// Something to do with the type behind a lock's name.
pub(crate) trait Visitor {
    /// What comes of it.
    type Out;

    /// Does it.
    fn visit<L: BenchLock>(self) -> Self::Out;

    /// There is no lock of this name.
    fn unknown(self, name: &str) -> Self::Out;
}

/// One of our own locks, with the cell's options.
pub trait Ours: lock_api::RawMutex + Sync + Send + Sized {
    /// A free lock with the cell's options.
    fn configured(_: &Spec) -> Self {
        Self::INIT
    }

    /// Makes its kernel object, where it has one.
    fn make(&self) -> Result<(), String> {
        Ok(())
    }

    /// Shows the visitor how the lock is measured; `wrapped` makes it recursive if it is not.
    fn accept<V: Visitor>(wrapped: bool, visitor: V) -> V::Out {
        if wrapped { visitor.visit::<RawRecursive<Self>>() } else { visitor.visit::<Raw<Self>>() }
    }
}

/// A lock of ours over an object that is recursive by itself.
#[allow(dead_code, reason = "only Windows has such objects")]
pub trait Enter: Ours {
    /// Takes it, once more if this thread has it.
    fn enter(&self);

    /// Gives one level back.
    ///
    /// # Safety
    /// The calling thread has taken that level and not given it back.
    unsafe fn leave(&self);
}

/// A recursive object under test, by its own entry: depth is the object's own, as in the programs of Win32.
#[derive(Debug)]
#[allow(dead_code, reason = "only Windows has such objects")]
pub struct Entered<L>(L);

impl<L: Enter> BenchLock for Entered<L> {
    fn create(spec: &Spec) -> Result<Self, String> {
        Ok(Entered(L::configured(spec)))
    }

    fn settle(&self) -> Result<(), String> {
        self.0.make()
    }

    #[inline(always)]
    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        self.0.enter();
        let result = section();
        // SAFETY: the level that was taken just above.
        unsafe { self.0.leave() };
        result
    }
}

/// A lock of ours under test.
#[derive(Debug)]
pub struct Raw<L>(L);

impl<L: Ours> BenchLock for Raw<L> {
    fn create(spec: &Spec) -> Result<Self, String> {
        Ok(Raw(L::configured(spec)))
    }

    fn settle(&self) -> Result<(), String> {
        self.0.make()
    }

    #[inline(always)]
    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        let guard = self.0.lock();
        let result = section();
        // SAFETY: the guard is the one that `lock` gave to this context just above, used once.
        unsafe { self.0.unlock(guard) };
        result
    }

    #[inline(always)]
    fn try_with<R>(&self, section: impl FnOnce() -> R) -> Option<R> {
        let guard = self.0.try_lock()?;
        let result = section();
        // SAFETY: as in `with`.
        unsafe { self.0.unlock(guard) };
        Some(result)
    }
}

/// One of our own reader-writer locks, with the cell's options.
pub trait OursShared: lock_api::RawRwLock + Sync + Send + Sized {
    /// A free lock with the cell's options.
    fn configured(spec: &Spec) -> Self;
}

impl OursShared for holdup_locks::RwAdaptive {
    fn configured(spec: &Spec) -> Self {
        spec.spin.map_or(Self::new(), Self::with_spin)
    }
}

impl OursShared for holdup_locks::RwSharded {
    fn configured(spec: &Spec) -> Self {
        spec.spin.map_or(Self::new(), Self::with_spin)
    }
}

/// A reader-writer lock of ours under test.
#[derive(Debug)]
pub struct Shared<L>(L);

impl<L: OursShared> BenchLock for Shared<L> {
    fn create(spec: &Spec) -> Result<Self, String> {
        Ok(Shared(L::configured(spec)))
    }

    #[inline(always)]
    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        let guard = self.0.lock_exclusive();
        let result = section();
        // SAFETY: the guard is the one that `lock_exclusive` gave to this context just above, used once.
        unsafe { self.0.unlock_exclusive(guard) };
        result
    }

    #[inline(always)]
    fn with_shared<R>(&self, section: impl FnOnce() -> R) -> R {
        let guard = self.0.lock_shared();
        let result = section();
        // SAFETY: the guard is the one that `lock_shared` gave to this context just above, used once.
        unsafe { self.0.unlock_shared(guard) };
        result
    }
}

/// A lock of ours in our wrapper that makes it recursive.
pub struct RawRecursive<L: Ours>(holdup_locks::Recursive<L>);

impl<L: Ours> BenchLock for RawRecursive<L> {
    const WRAPPED: bool = true;

    fn create(spec: &Spec) -> Result<Self, String> {
        L::configured(spec).make()?;
        Ok(RawRecursive(holdup_locks::Recursive::new(L::configured(spec))))
    }

    #[inline(always)]
    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        self.0.lock();
        let result = section();
        // SAFETY: this thread took it just above.
        unsafe { self.0.unlock() };
        result
    }

    fn wrapper_ns(spec: &Spec) -> Option<f64> {
        difference_ns::<Self, Raw<L>>(spec)
    }
}

/// A peer made recursive by the same protocol as `holdup_locks::Recursive`, which only takes locks of its own
/// interface.
pub struct Reentrant<L> {
    inner: L,
    /// The number of the thread that holds `inner`; 0 is nobody. Written only by the holder, so a thread reads its own
    /// number there if and only if it holds the lock.
    owner: AtomicUsize,
}

impl<L: BenchLock> BenchLock for Reentrant<L> {
    const WRAPPED: bool = true;

    fn create(spec: &Spec) -> Result<Self, String> {
        Ok(Reentrant { inner: L::create(spec)?, owner: AtomicUsize::new(0) })
    }

    fn settle(&self) -> Result<(), String> {
        self.inner.settle()
    }

    #[inline(always)]
    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        let me = holdup_locks::ThreadId.nonzero_thread_id().get();
        if self.owner.load(Relaxed) == me {
            return section();
        }
        self.inner.with(|| {
            self.owner.store(me, Relaxed);
            let result = section();
            self.owner.store(0, Relaxed);
            result
        })
    }

    fn wrapper_ns(spec: &Spec) -> Option<f64> {
        difference_ns::<Self, L>(spec)
    }
}

/// How much longer an uncontended acquisition of the first lock takes than one of the second.
fn difference_ns<A: BenchLock, B: BenchLock>(spec: &Spec) -> Option<f64> {
    let (first, second) = (A::create(spec).ok()?, B::create(spec).ok()?);
    first.settle().ok()?;
    second.settle().ok()?;
    let times: Vec<(f64, f64)> = (0..9).map(|_| (pair_ns(&first), pair_ns(&second))).collect();
    let least = |of: fn(&(f64, f64)) -> f64| times.iter().map(of).fold(f64::INFINITY, f64::min);
    Some(least(|times| times.0) - least(|times| times.1))
}

fn pair_ns<L: BenchLock>(lock: &L) -> f64 {
    const PAIRS: u32 = 2_000;
    let start = Instant::now();
    for _ in 0..PAIRS {
        lock.with(|| std::hint::black_box(()));
    }
    start.elapsed().as_nanos() as f64 / f64::from(PAIRS)
}

/// A lock whose guard releases it when dropped.
macro_rules! guarded {
    ($($lock:ty: $new:expr, $acquire:ident $(, $share:ident)?;)*) => {
        $(impl BenchLock for $lock {
            fn create(_: &Spec) -> Result<Self, String> {
                Ok($new)
            }

            #[inline(always)]
            fn with<R>(&self, section: impl FnOnce() -> R) -> R {
                let _guard = self.$acquire();
                section()
            }

            $(#[inline(always)]
            fn with_shared<R>(&self, section: impl FnOnce() -> R) -> R {
                let _guard = self.$share();
                section()
            })?
        })*
    };
}

guarded! {
    std::sync::Mutex<()>: std::sync::Mutex::new(()), lock;
    std::sync::RwLock<()>: std::sync::RwLock::new(()), write, read;
    parking_lot::Mutex<()>: parking_lot::Mutex::new(()), lock;
    parking_lot::FairMutex<()>: parking_lot::FairMutex::new(()), lock;
    parking_lot::RwLock<()>: parking_lot::RwLock::new(()), write, read;
    spin::mutex::SpinMutex<()>: spin::mutex::SpinMutex::new(()), lock;
    spin::mutex::TicketMutex<()>: spin::mutex::TicketMutex::new(()), lock;
    usync::Mutex<()>: usync::Mutex::new(()), lock;
    spin::rwlock::RwLock<()>: spin::rwlock::RwLock::new(()), write, read;
    usync::RwLock<()>: usync::RwLock::new(()), write, read;
}

impl BenchLock for mcslock::raw::spins::Mutex<()> {
    fn create(_: &Spec) -> Result<Self, String> {
        Ok(mcslock::raw::spins::Mutex::new(()))
    }

    #[inline(always)]
    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        self.lock_with_then(&mut mcslock::raw::MutexNode::new(), |()| section())
    }
}
