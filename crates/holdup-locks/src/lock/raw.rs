//! The bridge from a lock's own four functions to the traits of `lock_api`, with the misuse checks of debug builds.
//!
//! A stateless lock writes `acquire`, `try_acquire`, `release`, `held`, and `acquire_until` where it can give up; the
//! macros here make `RawMutex`, `RawMutexTimed` and, with the feature `lock_api_04`, the older traits of them.

/// `raw_mutex!([generics] Type, Guard)`: implements `RawMutex` from `acquire`, `try_acquire`, `release` and `held`.
macro_rules! raw_mutex {
    ([$($generics:tt)*] $lock:ty, $guard:ident, $init:expr) => {
        // SAFETY: the file's numbered invariants argue mutual exclusion; `acquire` has Acquire and `release` has
        // Release semantics. The guard carries no state, so forgetting it leaves the lock held and nothing else.
        unsafe impl<$($generics)*> lock_api::RawMutex for $lock {
            #[allow(clippy::declare_interior_mutable_const, reason = "lock_api asks for a constant")]
            const INIT: Self = $init;
            type Guard = lock_api::$guard;

            #[inline]
            fn lock(&self) -> Self::Guard {
                $crate::lock::misuse::before_lock(self);
                self.acquire();
                $crate::lock::misuse::acquired(self);
                lock_api::$guard::new()
            }
            #[inline]
            fn try_lock(&self) -> Option<Self::Guard> {
                self.try_acquire().then(|| {
                    $crate::lock::misuse::acquired(self);
                    lock_api::$guard::new()
                })
            }
            #[inline]
            unsafe fn unlock(&self, _guard: Self::Guard) {
                $crate::lock::misuse::before_unlock(self);
                self.release();
            }
            #[inline]
            fn is_locked(&self) -> bool {
                self.held()
            }
        }

        // SAFETY: the same four functions and the same argument as for lock_api 0.5 above.
        #[cfg(feature = "lock_api_04")]
        unsafe impl<$($generics)*> lock_api_04::RawMutex for $lock {
            #[allow(clippy::declare_interior_mutable_const, reason = "lock_api asks for a constant")]
            const INIT: Self = $init;
            type GuardMarker = lock_api_04::$guard;

            #[inline]
            fn lock(&self) {
                let _ = lock_api::RawMutex::lock(self);
            }
            #[inline]
            fn try_lock(&self) -> bool {
                lock_api::RawMutex::try_lock(self).is_some()
            }
            #[inline]
            unsafe fn unlock(&self) {
                // SAFETY: the caller holds the lock, and the guard carries no state.
                unsafe { lock_api::RawMutex::unlock(self, lock_api::$guard::new()) };
            }
            #[inline]
            fn is_locked(&self) -> bool {
                self.held()
            }
        }
    };
}

/// `raw_mutex_timed!([generics] Type)`: implements `RawMutexTimed` from `acquire_until`.
macro_rules! raw_mutex_timed {
    ([$($generics:tt)*] $lock:ty) => {
        // SAFETY: `acquire_until` acquires as `acquire` does, or takes nothing and returns false after its deadline.
        #[cfg(feature = "std")]
        unsafe impl<$($generics)*> lock_api::RawMutexTimed for $lock {
            type Duration = core::time::Duration;
            type Instant = std::time::Instant;

            #[inline]
            fn try_lock_for(&self, timeout: Self::Duration) -> Option<Self::Guard> {
                let taken = self.try_acquire() || self.acquire_until($crate::sys::deadline_after(timeout));
                taken.then(|| {
                    $crate::lock::misuse::acquired(self);
                    Self::Guard::new()
                })
            }
            #[inline]
            fn try_lock_until(&self, timeout: Self::Instant) -> Option<Self::Guard> {
                let taken = self.try_acquire() || self.acquire_until($crate::sys::deadline_at(timeout));
                taken.then(|| {
                    $crate::lock::misuse::acquired(self);
                    Self::Guard::new()
                })
            }
        }

        // SAFETY: as for lock_api 0.5 above.
        #[cfg(all(feature = "std", feature = "lock_api_04"))]
        unsafe impl<$($generics)*> lock_api_04::RawMutexTimed for $lock {
            type Duration = core::time::Duration;
            type Instant = std::time::Instant;

            #[inline]
            fn try_lock_for(&self, timeout: Self::Duration) -> bool {
                lock_api::RawMutexTimed::try_lock_for(self, timeout).is_some()
            }
            #[inline]
            fn try_lock_until(&self, timeout: Self::Instant) -> bool {
                lock_api::RawMutexTimed::try_lock_until(self, timeout).is_some()
            }
        }
    };
}

/// `raw_mutex_fair!(Type)`: implements `RawMutexFair` for a lock whose every release hands over to the first waiter;
/// with `both:` also that of lock_api 0.4.
macro_rules! raw_mutex_fair {
    ($lock:ty) => {
        // SAFETY: `unlock` serves the first of the queue and lets nobody steal the lock, so it is the fair unlock.
        unsafe impl lock_api::RawMutexFair for $lock {
            #[inline]
            unsafe fn unlock_fair(&self, guard: Self::Guard) {
                // SAFETY: the caller's promise is the one that `unlock` asks for.
                unsafe { lock_api::RawMutex::unlock(self, guard) };
            }
        }
    };
    (both: $lock:ty) => {
        raw_mutex_fair!($lock);

        // SAFETY: as for lock_api 0.5 above.
        #[cfg(feature = "lock_api_04")]
        unsafe impl lock_api_04::RawMutexFair for $lock {
            #[inline]
            unsafe fn unlock_fair(&self) {
                // SAFETY: as above.
                unsafe { lock_api_04::RawMutex::unlock(self) };
            }
        }
    };
}

/// `clh_raw_mutex!(Type)`: implements `RawMutex` for a wrapper of the CLH queue, whose guard carries its node.
#[cfg(feature = "std")]
macro_rules! clh_raw_mutex {
    ($lock:ty) => {
        // SAFETY: the invariants in clh_spin.rs argue mutual exclusion and the orderings; the guard is the node of its
        // acquisition, and forgetting it leaks the node while the lock stays held.
        unsafe impl lock_api::RawMutex for $lock {
            #[allow(clippy::declare_interior_mutable_const, reason = "lock_api asks for a constant")]
            const INIT: Self = Self::new();
            type Guard = ClhNode;

            #[inline]
            fn lock(&self) -> ClhNode {
                $crate::lock::misuse::before_lock(self);
                let node = self.0.acquire();
                $crate::lock::misuse::acquired(self);
                node
            }
            #[inline]
            fn try_lock(&self) -> Option<ClhNode> {
                let node = self.0.try_acquire()?;
                $crate::lock::misuse::acquired(self);
                Some(node)
            }
            #[inline]
            unsafe fn unlock(&self, node: ClhNode) {
                $crate::lock::misuse::before_unlock(self);
                self.0.release(node);
            }
            #[inline]
            fn is_locked(&self) -> bool {
                self.0.held()
            }
        }
    };
}

/// `raw_rw_lock!([generics] Type)`: implements `RawRwLock`, `RawRwLockDowngrade` and `RawRwLockTimed` from
/// `acquire_shared`, `acquire_exclusive`, `release_shared` and their like.
#[cfg(feature = "std")]
macro_rules! raw_rw_lock {
    ([$($generics:tt)*] $lock:ty) => {
        // SAFETY: the file's numbered invariants argue that a writer is in alone; coming in has Acquire and leaving has
        // Release semantics. The guards carry no state, so forgetting one leaves the lock held and nothing else.
        unsafe impl<$($generics)*> lock_api::RawRwLock for $lock {
            #[allow(clippy::declare_interior_mutable_const, reason = "lock_api asks for a constant")]
            const INIT: Self = Self::new();
            type SharedGuard = lock_api::GuardNoSend;
            type ExclusiveGuard = lock_api::GuardNoSend;

            #[inline]
            fn lock_shared(&self) -> Self::SharedGuard {
                $crate::lock::misuse::before_rw_lock(self);
                self.acquire_shared();
                lock_api::GuardNoSend::new()
            }
            #[inline]
            fn try_lock_shared(&self) -> Option<Self::SharedGuard> {
                self.try_acquire_shared().then(lock_api::GuardNoSend::new)
            }
            #[inline]
            unsafe fn unlock_shared(&self, _guard: Self::SharedGuard) {
                $crate::lock::misuse::before_shared_unlock(self);
                self.release_shared();
            }
            #[inline]
            fn lock_exclusive(&self) -> Self::ExclusiveGuard {
                $crate::lock::misuse::before_rw_lock(self);
                self.acquire_exclusive();
                $crate::lock::misuse::acquired(self);
                lock_api::GuardNoSend::new()
            }
            #[inline]
            fn try_lock_exclusive(&self) -> Option<Self::ExclusiveGuard> {
                self.try_acquire_exclusive().then(|| {
                    $crate::lock::misuse::acquired(self);
                    lock_api::GuardNoSend::new()
                })
            }
            #[inline]
            unsafe fn unlock_exclusive(&self, _guard: Self::ExclusiveGuard) {
                $crate::lock::misuse::before_rw_unlock(self);
                self.release_exclusive();
            }
            #[inline]
            fn is_locked(&self) -> bool {
                self.held()
            }
            #[inline]
            fn is_locked_exclusive(&self) -> bool {
                self.held_exclusive()
            }
        }

        // SAFETY: `downgrade_exclusive` lets readers in, and the caller as one of them, in the step in which it leaves.
        unsafe impl<$($generics)*> lock_api::RawRwLockDowngrade for $lock {
            #[inline]
            unsafe fn downgrade(&self, guard: Self::ExclusiveGuard) -> Self::SharedGuard {
                $crate::lock::misuse::before_rw_unlock(self);
                self.downgrade_exclusive();
                guard
            }
        }

        // SAFETY: these acquire as the untimed functions do, or take nothing and return false after the deadline.
        unsafe impl<$($generics)*> lock_api::RawRwLockTimed for $lock {
            type Duration = core::time::Duration;
            type Instant = std::time::Instant;

            #[inline]
            fn try_lock_shared_for(&self, timeout: Self::Duration) -> Option<Self::SharedGuard> {
                let taken = self.try_acquire_shared() || self.acquire_shared_until($crate::sys::deadline_after(timeout));
                taken.then(lock_api::GuardNoSend::new)
            }
            #[inline]
            fn try_lock_shared_until(&self, timeout: Self::Instant) -> Option<Self::SharedGuard> {
                let taken = self.try_acquire_shared() || self.acquire_shared_until($crate::sys::deadline_at(timeout));
                taken.then(lock_api::GuardNoSend::new)
            }
            #[inline]
            fn try_lock_exclusive_for(&self, timeout: Self::Duration) -> Option<Self::ExclusiveGuard> {
                let taken =
                    self.try_acquire_exclusive() || self.acquire_exclusive_until($crate::sys::deadline_after(timeout));
                taken.then(|| {
                    $crate::lock::misuse::acquired(self);
                    lock_api::GuardNoSend::new()
                })
            }
            #[inline]
            fn try_lock_exclusive_until(&self, timeout: Self::Instant) -> Option<Self::ExclusiveGuard> {
                let taken =
                    self.try_acquire_exclusive() || self.acquire_exclusive_until($crate::sys::deadline_at(timeout));
                taken.then(|| {
                    $crate::lock::misuse::acquired(self);
                    lock_api::GuardNoSend::new()
                })
            }
        }
    };
}

/// `raw_rw_lock_upgrade!(Type)`: implements `RawRwLockUpgrade` from `acquire_upgradable` and its like.
#[cfg(feature = "std")]
macro_rules! raw_rw_lock_upgrade {
    ($lock:ty) => {
        // SAFETY: the file's numbered invariants argue that at most one reader can be upgraded, and that no writer
        // comes in between its sections as reader and as writer.
        unsafe impl lock_api::RawRwLockUpgrade for $lock {
            type UpgradableGuard = lock_api::GuardNoSend;

            #[inline]
            fn lock_upgradable(&self) -> Self::UpgradableGuard {
                $crate::lock::misuse::before_rw_lock(self);
                self.acquire_upgradable();
                lock_api::GuardNoSend::new()
            }
            #[inline]
            fn try_lock_upgradable(&self) -> Option<Self::UpgradableGuard> {
                self.try_acquire_upgradable().then(lock_api::GuardNoSend::new)
            }
            #[inline]
            unsafe fn unlock_upgradable(&self, _guard: Self::UpgradableGuard) {
                $crate::lock::misuse::before_shared_unlock(self);
                self.release_upgradable();
            }
            #[inline]
            unsafe fn upgrade(&self, guard: Self::UpgradableGuard) -> Self::ExclusiveGuard {
                $crate::lock::misuse::before_shared_unlock(self);
                self.upgrade_shared();
                $crate::lock::misuse::acquired(self);
                guard
            }
            #[inline]
            unsafe fn try_upgrade(
                &self,
                guard: Self::UpgradableGuard,
            ) -> Result<Self::ExclusiveGuard, Self::UpgradableGuard> {
                if !self.try_upgrade_shared() {
                    return Err(guard);
                }
                $crate::lock::misuse::acquired(self);
                Ok(guard)
            }
        }
    };
}

/// `check_drop!([generics] Type)`: in debug builds, dropping a held lock panics with the lock's name; `rw` before it
/// for a reader-writer lock.
macro_rules! check_drop {
    (rw [$($generics:tt)*] $lock:ty) => {
        #[cfg(debug_assertions)]
        impl<$($generics)*> Drop for $lock {
            fn drop(&mut self) {
                $crate::lock::misuse::before_rw_drop(self);
            }
        }
    };
    ([$($generics:tt)*] $lock:ty $(, $name:literal)?) => {
        #[cfg(debug_assertions)]
        impl<$($generics)*> Drop for $lock {
            fn drop(&mut self) {
                $crate::lock::misuse::before_drop(self);
            }
        }
    };
}

/// `modelled!([generics] Type; fields)`: a model can make the loom atomics in these fields.
macro_rules! modelled {
    ([$($generics:tt)*] $lock:ty; $($field:tt),*) => {
        #[cfg(loom)]
        impl<$($generics)*> crate::model::Make for $lock {
            fn make(&self) {
                #[allow(unused_imports, reason = "some fields are locks themselves")]
                use $crate::model::Make as _;
                make_atomics!(self; $($field),*);
            }
        }
    };
}
