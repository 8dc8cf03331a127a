//! How each policy waits for a mutex that is held, and what a release has to wake.

use std::ffi::c_int;
use std::sync::atomic::Ordering;

use holdup_control::Policy;

use super::mutex::{ADAPTIVE, FREE, Mutex, RECURSIVE, WAITED};
use super::process::Served;
use super::wait::{self, Deadline, PLACED_SPINS, Wait};
use super::{capped, clock, throttle};

/// Waits until the mutex is ours, or until the moment has come, if there is one; the errors are those of
/// `pthread_mutex_timedlock`, and without a moment there are none.
#[cold]
pub fn lock(served: Served, mutex: &Mutex, kind: c_int, deadline: Option<Deadline>, site: usize) -> Result<(), c_int> {
    if let Some(deadline) = &deadline {
        deadline.check()?;
    }
    let mut wait = Wait::begin(served, mutex, kind, deadline, site);
    let began = served.process.times_waits().then(clock::now);
    by_policy(&mut wait)?;
    wait.end(site, began);
    Ok(())
}

fn by_policy(wait: &mut Wait) -> Result<(), c_int> {
    loop {
        return match wait.policy() {
            Policy::Glibc if wait.kind != ADAPTIVE => wait.spin_park(0),
            Policy::SpinPark(looks) => wait.spin_park(looks),
            Policy::Glibc | Policy::SpinLearn => wait.park(Wait::spin_as_learned),
            Policy::Ttas => match wait.spin_backing_off() {
                Ok(false) => continue,
                ended => ended.map(drop),
            },
            Policy::Capped(_) if wait.kind == RECURSIVE => wait.spin_park(PLACED_SPINS),
            Policy::Capped(most) => wait.park(|wait, taken| capped::spin(wait.mutex, most, taken)),
            Policy::Throttle(most) => throttle::lock(wait, most),
        };
    }
}

/// Releases a mutex and wakes one of its waiters, if any sleeps and nobody awake has taken over to wake it.
pub fn release(served: Served, mutex: &Mutex, kind: c_int) -> c_int {
    let looks_for_spinners = mutex.capped.load(Ordering::Relaxed) != 0 && kind != RECURSIVE;
    let must_wake = looks_for_spinners && capped::leave_wake(served.thread, mutex);
    if mutex.word.swap(FREE, Ordering::Release) >= WAITED || must_wake {
        return wait::wake(mutex);
    }
    0
}
