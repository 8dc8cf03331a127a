//! Programs under other conditions, each in a job.

use std::io::{self, Read};
use std::os::windows::io::AsRawHandle as _;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use windows_sys::Win32::Foundation::{
    ERROR_COMMITMENT_LIMIT, ERROR_INTERNAL_ERROR, ERROR_NO_SYSTEM_RESOURCES, WAIT_OBJECT_0,
};
use windows_sys::Win32::System::Threading::{SetProcessAffinityMask, WaitForSingleObject};

use super::exit::{code, signal_name};
use super::job::{Job, check, process_use};
use super::schedule::{mask, refuse};
use crate::conditions::Conditions;
use crate::ended::Outcome;
use crate::sys::kept::Kept;

/// How long a stop may go unseen.
const GLANCE: Duration = Duration::from_millis(50);

/// What a start is refused with where the system is short of something; under Wine, where a new process came to its end
/// before it had begun (`ERROR_INTERNAL_ERROR`).
pub fn lacks_for_now(why: &io::Error) -> bool {
    let code = why.raw_os_error().map(i32::cast_unsigned);
    code.is_some_and(|code| matches!(code, ERROR_COMMITMENT_LIMIT | ERROR_INTERNAL_ERROR | ERROR_NO_SYSTEM_RESOURCES))
}

/// A program in a job of its own, which ends with us.
#[derive(Debug)]
pub struct Started {
    child: Child,
    job: Job,
    began: Instant,
    out: Stream,
    err: Stream,
    ended_at: Option<Instant>,
}

impl Started {
    pub fn new(command: &mut Command, conditions: &Conditions) -> io::Result<Started> {
        refuse(conditions).map_err(io::Error::other)?;
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let began = Instant::now();
        let mut child = command.spawn()?;
        let job = Job::with(&child, true).and_then(|job| {
            if let Some(cpus) = &conditions.cpus {
                // SAFETY: an open handle and a plain number.
                check(unsafe { SetProcessAffinityMask(child.as_raw_handle(), mask(cpus)) })?;
            }
            Ok(job)
        });
        let job = match job {
            Ok(job) => job,
            Err(why) => {
                child.kill()?;
                child.wait()?;
                return Err(why);
            }
        };
        let (out, err) = (Stream::of(child.stdout.take()), Stream::of(child.stderr.take()));
        Ok(Started { child, job, began, out, err, ended_at: None })
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn wait(&mut self, deadline: Instant, stop: Option<&AtomicBool>) -> io::Result<bool> {
        while self.ended_at.is_none() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
                return Ok(false);
            }
            let longest = if stop.is_some() { left.min(GLANCE) } else { left };
            let wait_ms = longest.as_millis().clamp(1, 1 << 20) as u32;
            // SAFETY: the child's handle is open until the child is dropped.
            if unsafe { WaitForSingleObject(self.child.as_raw_handle(), wait_ms) } == WAIT_OBJECT_0 {
                self.ended_at = Some(Instant::now());
            }
        }
        Ok(true)
    }

    pub fn output(&self) -> (String, String) {
        (self.out.text(), self.err.text())
    }

    /// There is no asking here: ends the job.
    pub fn terminate(&self) {
        self.job.terminate();
    }

    pub fn finish(mut self) -> io::Result<Outcome> {
        // Nothing of the job outlives this.
        self.job.terminate();
        let status = self.child.wait()?;
        let mut process = process_use(self.began, &self.child, Some(&self.job));
        let ended_at = self.ended_at.unwrap_or_else(Instant::now);
        process.elapsed_ns = ended_at.duration_since(self.began).as_nanos() as u64;
        self.out.finish();
        self.err.finish();
        Ok(Outcome {
            status,
            code: code(status),
            signal: signal_name(status),
            stdout: self.out.text(),
            stderr: self.err.text(),
            stdout_hash: self.out.kept().hash(),
            process,
        })
    }
}

/// One of a child's output streams, read by a thread: pipes cannot be polled here.
#[derive(Debug)]
struct Stream {
    kept: Arc<Mutex<Kept>>,
    reader: Option<JoinHandle<()>>,
}

impl Stream {
    fn of(pipe: Option<impl Read + Send + 'static>) -> Stream {
        let kept = Arc::new(Mutex::new(Kept::new()));
        let ours = Arc::clone(&kept);
        let reader = pipe.map(|mut pipe| {
            std::thread::spawn(move || {
                let mut buffer = [0; 16_384];
                while let Ok(count @ 1..) = pipe.read(&mut buffer) {
                    ours.lock().unwrap_or_else(PoisonError::into_inner).append(&buffer[..count]);
                }
            })
        });
        Stream { kept, reader }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn text(&self) -> String {
        self.kept().text()
    }

    /// Waits for the end of the stream: all who could write to it have ended.
    fn finish(&mut self) {
        // A reader that panicked has kept what it read before.
        let _ = self.reader.take().map(JoinHandle::join);
    }
}
