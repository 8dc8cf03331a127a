//! The locks, one file each, and what they share: the bridge to `lock_api` and the checks of debug builds.

#[macro_use]
mod raw;

mod backoff;
mod mcs_spin;
pub(crate) mod misuse;
mod tas;
mod ticket;
mod ticket_spin;
mod ttas;

#[cfg(feature = "std")]
mod adaptive;
#[cfg(feature = "std")]
mod clh;
#[cfg(feature = "std")]
mod clh_spin;
#[cfg(feature = "std")]
mod eventfd;
#[cfg(feature = "std")]
mod eventfd_sem;
#[cfg(feature = "std")]
mod fair;
#[cfg(feature = "std")]
mod futex;
#[cfg(feature = "std")]
mod futex_pi;
#[cfg(feature = "std")]
mod kernel;
#[cfg(feature = "std")]
mod mcs;
#[cfg(feature = "std")]
mod pipe;
#[cfg(feature = "std")]
mod recursive;
#[cfg(feature = "std")]
mod sysv_sem;

pub use self::backoff::{Backoff, SpinOn, SpinPolicy};
pub use self::mcs_spin::McsSpin;
pub use self::tas::Tas;
pub use self::ticket::Ticket;
pub use self::ticket_spin::TicketSpin;
pub use self::ttas::{CompareExchange, Exchange, Rmw, Ttas};

#[cfg(feature = "std")]
pub use self::{
    adaptive::Adaptive,
    clh::Clh,
    clh_spin::{ClhNode, ClhSpin},
    eventfd::EventFd,
    eventfd_sem::EventFdSem,
    fair::Fair,
    futex::Futex,
    futex_pi::FutexPi,
    mcs::Mcs,
    pipe::Pipe,
    recursive::{Recursive, RecursiveGuard, ThreadId},
    sysv_sem::SysvSem,
};
