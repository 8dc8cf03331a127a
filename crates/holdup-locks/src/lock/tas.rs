//! Test-and-set: the oldest spin lock. Waiters repeat the atomic operation itself.
//!
//! The word, its invariants and its orderings are those of [`Ttas`](crate::Ttas); only what a waiter looks at differs.
//! Each look takes the line exclusively, also from the holder who needs it to release: that is what the experiment
//! "read against atomic operation" measures.
//!
//! Source: Anderson, "The performance of spin lock alternatives", IEEE TPDS 1990, section 2.

use super::backoff::{SpinOn, SpinPolicy};
use super::ttas::{Exchange, Rmw, Ttas};

const POLICY: SpinPolicy = SpinPolicy::DEFAULT.with_spin_on(SpinOn::Rmw);

/// Test-and-set: spins on the atomic operation itself; backs off at random, then gives the CPU away. 12 bytes.
///
/// ```
/// use holdup_locks::{Mutex, Tas};
///
/// static FLAGS: Mutex<Tas, u8> = Mutex::new(0);
/// *FLAGS.lock() |= 1;
/// assert_eq!(*FLAGS.lock(), 1);
/// ```
///
/// # Cost
/// One atomic operation to take, one plain store to release. Each look of a waiter takes the line exclusively, also
/// from the holder.
///
/// Measured: uncontended 0.49, tight 2.38 of pthread's time ([table](crate#measured)).
///
/// # When not to use it
/// With more than a few contenders, around sections that sleep, or where fairness matters; see [`Ttas`](crate::Ttas).
/// Here for comparison.
///
/// # Source
/// Anderson, "The performance of spin lock alternatives", IEEE TPDS 1990, section 2.
pub struct Tas<R: Rmw = Exchange>(Ttas<R>);

impl<R: Rmw> Tas<R> {
    /// A free lock that waits as `policy` says.
    #[must_use]
    pub const fn with_policy(policy: SpinPolicy) -> Self {
        Self(Ttas::with_policy(policy))
    }

    #[inline]
    fn acquire(&self) {
        self.0.acquire();
    }

    #[cfg(feature = "std")]
    fn acquire_until(&self, deadline: crate::sys::DeadlineNs) -> bool {
        self.0.acquire_until(deadline)
    }

    #[inline]
    fn try_acquire(&self) -> bool {
        self.0.try_acquire()
    }

    #[inline]
    fn release(&self) {
        self.0.release();
    }

    #[inline]
    fn held(&self) -> bool {
        self.0.held()
    }
}

impl<R: Rmw> Default for Tas<R> {
    fn default() -> Self {
        Self::with_policy(POLICY)
    }
}

raw_mutex!([R: Rmw] Tas<R>, GuardNoSend, Self::with_policy(POLICY));
raw_mutex_timed!([R: Rmw] Tas<R>);
check_drop!([R: Rmw] Tas<R>);
modelled!([R: Rmw] Tas<R>; 0);
