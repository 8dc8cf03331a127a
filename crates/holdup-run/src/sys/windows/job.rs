//! Job objects: everything that a started program starts, as one.

use std::io;
use std::os::windows::io::{AsRawHandle as _, FromRawHandle as _, OwnedHandle};
use std::process::Child;
use std::ptr;
use std::time::Instant;

use windows_sys::Win32::Foundation::FILETIME;
use windows_sys::Win32::System::JobObjects::{
    AssignProcessToJobObject, CreateJobObjectW, JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE,
    JOBOBJECT_BASIC_ACCOUNTING_INFORMATION, JOBOBJECT_EXTENDED_LIMIT_INFORMATION, JobObjectBasicAccountingInformation,
    JobObjectExtendedLimitInformation, QueryInformationJobObject, SetInformationJobObject, TerminateJobObject,
};
use windows_sys::Win32::System::LibraryLoader::{GetModuleHandleW, GetProcAddress};
use windows_sys::Win32::System::ProcessStatus::{GetProcessMemoryInfo, PROCESS_MEMORY_COUNTERS};
use windows_sys::Win32::System::Threading::GetProcessTimes;
use windows_sys::core::w;

use crate::ended::ProcessUse;

/// What a call that returns 0 for a failure has done.
pub fn check(succeeded: i32) -> io::Result<()> {
    if succeeded == 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The system counts in steps of 100 ns.
fn filetime_ns(time: FILETIME) -> u64 {
    (u64::from(time.dwHighDateTime) << 32 | u64::from(time.dwLowDateTime)) * 100
}

/// Whether the system is Wine: its ntdll exports what that of Windows does not have.
fn is_wine() -> bool {
    // SAFETY: constant names that end in a zero; every process has ntdll.
    unsafe { GetProcAddress(GetModuleHandleW(w!("ntdll.dll")), c"wine_get_version".as_ptr().cast()).is_some() }
}

/// A job that a process is put into right after its start; what it started before that is not in it.
#[derive(Debug)]
pub struct Job(OwnedHandle);

impl Job {
    /// A job with this process. With `ends_with_us` its processes end when the handle closes, also when we are killed.
    pub fn with(child: &Child, ends_with_us: bool) -> io::Result<Job> {
        // SAFETY: null means default security and no name; the result is checked before it becomes an owned handle.
        let job = unsafe {
            let handle = CreateJobObjectW(ptr::null(), ptr::null());
            check(i32::from(!handle.is_null()))?;
            Job(OwnedHandle::from_raw_handle(handle))
        };
        if ends_with_us {
            let mut limits = JOBOBJECT_EXTENDED_LIMIT_INFORMATION::default();
            limits.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE;
            // SAFETY: reads one structure of the size and kind that it is told.
            check(unsafe {
                SetInformationJobObject(
                    job.0.as_raw_handle(),
                    JobObjectExtendedLimitInformation,
                    ptr::from_ref(&limits).cast(),
                    size_of_val(&limits) as u32,
                )
            })?;
        }
        // SAFETY: two handles that are open.
        check(unsafe { AssignProcessToJobObject(job.0.as_raw_handle(), child.as_raw_handle()) })?;
        Ok(job)
    }

    /// Ends all its processes.
    pub fn terminate(&self) {
        // SAFETY: an open handle.
        unsafe { TerminateJobObject(self.0.as_raw_handle(), 1) };
    }

    /// CPU time of all its processes in user mode and in the kernel, those that have ended too.
    fn cpu_ns(&self) -> Option<(u64, u64)> {
        let mut account = JOBOBJECT_BASIC_ACCOUNTING_INFORMATION::default();
        // SAFETY: writes one structure of the size and kind that it is told.
        let done = unsafe {
            QueryInformationJobObject(
                self.0.as_raw_handle(),
                JobObjectBasicAccountingInformation,
                ptr::from_mut(&mut account).cast(),
                size_of_val(&account) as u32,
                ptr::null_mut(),
            )
        };
        let ns = |time: i64| u64::try_from(time).unwrap_or(0) * 100;
        (done != 0).then(|| (ns(account.TotalUserTime), ns(account.TotalKernelTime)))
    }
}

/// What a process and its job used since it was started. The larger account counts: the job's has the children, and
/// Wine does not keep one: there an ended process has neither memory nor faults.
pub fn process_use(began: Instant, child: &Child, job: Option<&Job>) -> ProcessUse {
    let elapsed_ns = began.elapsed().as_nanos() as u64;
    let handle = child.as_raw_handle();
    let mut times = [Default::default(); 4];
    let [created, ended, kernel, user] = &mut times;
    let mut memory = PROCESS_MEMORY_COUNTERS::default();
    // SAFETY: an open handle; the calls write the places given, of the size they are told.
    let known = unsafe {
        GetProcessTimes(handle, created, ended, kernel, user);
        GetProcessMemoryInfo(handle, &raw mut memory, size_of_val(&memory) as u32) != 0
    };
    let (user_ns, kernel_ns) = (filetime_ns(*user), filetime_ns(*kernel));
    let (job_user_ns, job_kernel_ns) = job.and_then(Job::cpu_ns).unwrap_or((0, 0));
    // Wine gives the caller's own times as those of any process.
    let (user_ns, kernel_ns) = if is_wine() { (0, 0) } else { (user_ns, kernel_ns) };
    ProcessUse {
        elapsed_ns,
        user_ns: user_ns.max(job_user_ns),
        kernel_ns: kernel_ns.max(job_kernel_ns),
        // Windows does not tell faults with I/O from those without.
        minor_faults: known.then_some(u64::from(memory.PageFaultCount)).filter(|faults| *faults != 0),
        max_rss_bytes: memory.PeakWorkingSetSize as u64,
        ..ProcessUse::default()
    }
}
