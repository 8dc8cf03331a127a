//! From a lock's name to its type.

use holdup_locks::SpinPolicy;

#[cfg(feature = "broken-locks")]
use super::broken;
use super::interface::{BenchLock, Nothing, Ours, Reentrant, Shared, Visitor};
use super::straddle::Straddle;
use super::table::for_each;
use crate::spec::{Backoff, Rmw, Spec, SpinOn};
use crate::sys::{pthread, srwlock};

/// The factors and kernel objects of our own locks, by the registry's identifier.
macro_rules! ours {
    (adaptive, $lock:ty) => {
        impl Ours for $lock {
            fn configured(spec: &Spec) -> Self {
                spec.spin.map_or(Self::new(), Self::with_spin)
            }
        }
    };
    (futex, $lock:ty) => {
        impl Ours for $lock {
            fn configured(spec: &Spec) -> Self {
                spec.spin.map_or(Self::new(), Self::with_spin)
            }
        }
    };
    (tas, $lock:ty) => {
        impl<R: holdup_locks::Rmw + Send + Sync> Ours for holdup_locks::Tas<R> {
            fn configured(spec: &Spec) -> Self {
                let usual = SpinPolicy::DEFAULT.with_spin_on(holdup_locks::SpinOn::Rmw);
                Self::with_policy(policy(spec, usual))
            }
        }
    };
    (ttas, $lock:ty) => {
        impl<R: holdup_locks::Rmw + Send + Sync> Ours for holdup_locks::Ttas<R> {
            fn configured(spec: &Spec) -> Self {
                Self::with_policy(policy(spec, SpinPolicy::DEFAULT))
            }
        }
    };
    (eventfd, $lock:ty) => {
        ours!(kernel object, $lock);
    };
    (eventfd_sem, $lock:ty) => {
        ours!(kernel object, $lock);
    };
    (sysv_sem, $lock:ty) => {
        ours!(kernel object, $lock);
    };
    (futex_pi, $lock:ty) => {
        ours!(kernel object, $lock);
    };
    (pipe, $lock:ty) => {
        ours!(kernel object, $lock);
    };
    (win_event, $lock:ty) => {
        ours!(kernel object, $lock);
    };
    (win_semaphore, $lock:ty) => {
        ours!(kernel object, $lock);
    };
    (srwlock, $lock:ty) => {
        ours!(kernel object, $lock);
    };
    (wait_on_address, $lock:ty) => {
        ours!(kernel object, $lock);
    };
    (win_mutex, $lock:ty) => {
        ours!(entered, $lock, |_| Self::new());
    };
    (critical_section, $lock:ty) => {
        ours!(entered, $lock, |spec| spec.spin.map_or(Self::new(), Self::with_spin));
    };
    (entered, $lock:ty, |$spec:pat_param| $new:expr) => {
        impl Ours for $lock {
            fn configured($spec: &Spec) -> Self {
                $new
            }

            fn make(&self) -> Result<(), String> {
                self.create().map_err(|error| error.to_string())
            }

            fn accept<V: Visitor>(_wrapped: bool, visitor: V) -> V::Out {
                visitor.visit::<super::interface::Entered<$lock>>()
            }
        }

        impl super::interface::Enter for $lock {
            #[inline(always)]
            fn enter(&self) {
                self.enter();
            }

            #[inline(always)]
            unsafe fn leave(&self) {
                // SAFETY: the caller promises what this asks.
                unsafe { self.leave() };
            }
        }
    };
    (kernel object, $lock:ty) => {
        impl Ours for $lock {
            fn make(&self) -> Result<(), String> {
                self.create().map_err(|error| error.to_string())
            }
        }
    };
    ($id:ident, $lock:ty) => {
        impl Ours for $lock {}
    };
}

/// How a spin lock of ours waits in this cell.
fn policy(spec: &Spec, usual: SpinPolicy) -> SpinPolicy {
    let mut policy = usual;
    if let Some(backoff) = spec.backoff {
        policy = policy.with_backoff(match backoff {
            Backoff::None => holdup_locks::Backoff::None,
            Backoff::Count => holdup_locks::Backoff::Count,
            Backoff::Exponential => holdup_locks::Backoff::Exponential,
        });
    }
    if let Some(spin_on) = spec.spin_on {
        policy = policy.with_spin_on(match spin_on {
            SpinOn::Read => holdup_locks::SpinOn::Read,
            SpinOn::Rmw => holdup_locks::SpinOn::Rmw,
        });
    }
    policy
}

/// Makes the dispatcher.
macro_rules! dispatcher {
    (
        [
            maps { $($map:literal: $map_source:literal, $map_summary:literal;)* }
            peers { $($(#[$only:meta])? $name:literal: $type:ty, $family:literal, $recursive:literal, $source:literal, $summary:literal;)* }
        ]
        $({ $id:ident, $own:literal, $lock:ty, $own_family:ident, timed: $timed:ident, fifo: $fifo:ident,
            oversubscribable: $over:ident, $own_summary:literal, $own_source:literal })*
    ) => {        $(ours!($id, $lock);)*

        /// Calls the visitor with the type behind a cell's lock; `wrapped` makes a lock recursive that is not.
        pub(crate) fn dispatch<V: Visitor>(name: &str, rmw: Option<Rmw>, wrapped: bool, visitor: V) -> V::Out {
            match (name, rmw) {
                ("none", _) => visitor.visit::<Nothing>(),
                ("tas", Some(Rmw::CmpXchg)) => {
                    <holdup_locks::Tas<holdup_locks::CompareExchange> as Ours>::accept(wrapped, visitor)
                }
                ("ttas", Some(Rmw::CmpXchg)) => {
                    <holdup_locks::Ttas<holdup_locks::CompareExchange> as Ours>::accept(wrapped, visitor)
                }
                $(($own, _) => <$lock as Ours>::accept(wrapped, visitor),)*
                $($(#[$only])? ($name, _) => peer::<$type, V>(wrapped && !$recursive, visitor),)*
                _ => visitor.unknown(name),
            }
        }
    };
}

fn peer<L: BenchLock, V: Visitor>(wrapped: bool, visitor: V) -> V::Out {
    if wrapped { visitor.visit::<Reentrant<L>>() } else { visitor.visit::<L>() }
}

for_each! { dispatcher }
