//! The locks, one file each, and what they share: the bridge to `lock_api` and the checks of debug builds.

#[macro_use]
mod raw;

mod backoff;
mod mcs_spin;
pub(crate) mod misuse;
mod tas;
mod ticket;
mod ticket_spin;
pub(crate) mod ttas;

#[cfg(feature = "std")]
mod adaptive;
#[cfg(feature = "std")]
mod asymmetry;
#[cfg(feature = "std")]
mod clh;
#[cfg(feature = "std")]
mod clh_spin;
#[cfg(feature = "std")]
mod critical_section;
#[cfg(feature = "std")]
mod eventfd;
#[cfg(feature = "std")]
mod eventfd_sem;
#[cfg(feature = "std")]
mod fair;
#[cfg(feature = "std")]
pub(crate) mod futex;
#[cfg(feature = "std")]
mod futex_pi;
#[cfg(feature = "std")]
mod handle;
#[cfg(feature = "std")]
mod kernel;
#[cfg(feature = "std")]
mod learned;
#[cfg(feature = "std")]
mod mcs;
#[cfg(feature = "std")]
mod pipe;
#[cfg(feature = "std")]
mod recursive;
#[cfg(feature = "std")]
mod rw_adaptive;
#[cfg(feature = "std")]
mod rw_sharded;
#[cfg(feature = "std")]
mod srwlock;
#[cfg(feature = "std")]
mod sysv_sem;
#[cfg(feature = "std")]
mod wait_on_address;
#[cfg(feature = "std")]
mod win_event;
#[cfg(feature = "std")]
mod win_mutex;
#[cfg(feature = "std")]
mod win_semaphore;

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
    critical_section::CriticalSection,
    eventfd::EventFd,
    eventfd_sem::EventFdSem,
    fair::Fair,
    futex::Futex,
    futex_pi::FutexPi,
    mcs::Mcs,
    pipe::Pipe,
    recursive::{Recursive, RecursiveGuard, ThreadId},
    rw_adaptive::RwAdaptive,
    rw_sharded::RwSharded,
    srwlock::SrwLock,
    sysv_sem::SysvSem,
    wait_on_address::WaitOnAddress,
    win_event::WinEvent,
    win_mutex::WinMutex,
    win_semaphore::WinSemaphore,
};
