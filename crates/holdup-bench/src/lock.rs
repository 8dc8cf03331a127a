//! What the laboratory asks of a lock, and how the peers answer.

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

    /// Runs a section that only reads; locks without readers exclude as ever.
    #[inline]
    fn with_shared<R>(&self, section: impl FnOnce() -> R) -> R {
        self.with(section)
    }

    /// False for the lock that does not synchronise at all: workloads then check nothing.
    const EXCLUDES: bool = true;
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

/// A lock of the `lock_api` interface.
#[derive(Debug)]
pub struct Raw<R>(R);

impl<R: lock_api::RawMutex + Sync + Send> BenchLock for Raw<R> {
    fn create(_: &Spec) -> Result<Self, String> {
        Ok(Raw(R::INIT))
    }

    #[inline(always)]
    fn with<T>(&self, section: impl FnOnce() -> T) -> T {
        let guard = self.0.lock();
        let result = section();
        // SAFETY: the guard is the one that `lock` gave to this context just above, used once.
        unsafe { self.0.unlock(guard) };
        result
    }
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
