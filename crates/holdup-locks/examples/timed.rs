//! A lock that is not waited for longer than the caller has time: for a duration, until an instant, or not at all.
//!
//! `cargo run -p holdup-locks --example timed`

use holdup_locks::{Adaptive, Mutex};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

static DEVICE: Mutex<Adaptive, u32> = Mutex::new(0);

/// Uses the device if it becomes free in time.
fn use_within(patience: Duration) -> Result<u32, String> {
    let asked = Instant::now();
    let mut device = DEVICE.try_lock_for(patience).ok_or_else(|| format!("busy for {patience:?}"))?;
    *device += 1;
    assert!(asked.elapsed() < Duration::from_secs(60), "the device was free");
    Ok(*device)
}

fn main() {
    let (holds, held) = channel();
    let (release, released) = channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let _device = DEVICE.lock();
            holds.send(()).expect("the other thread waits for this");
            released.recv().expect("the other thread sends this");
        });
        held.recv().expect("the device's user says that it has it");
        let refused = use_within(Duration::from_millis(20));
        println!("while it is held: {refused:?}");
        assert!(refused.is_err());
        assert!(DEVICE.try_lock().is_none());
        assert!(DEVICE.try_lock_until(Instant::now()).is_none());

        release.send(()).expect("the device's user waits for this");
        let used = use_within(Duration::from_secs(600));
        println!("once it is free: {used:?}");
        assert_eq!(used, Ok(1));
    });
}

#[test]
fn runs() {
    main();
}
