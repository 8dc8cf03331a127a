//! Facts about the machine, as Windows tells them; an error says why one cannot be had.

use std::ffi::{CStr, c_char, c_void};
use std::ptr;

use windows_sys::Wdk::System::SystemInformation::{NtQuerySystemInformation, SystemProcessorPerformanceInformation};
use windows_sys::Wdk::System::SystemServices::RtlGetVersion;
use windows_sys::Win32::System::LibraryLoader::{GetModuleHandleW, GetProcAddress};
use windows_sys::Win32::System::Performance::QueryPerformanceFrequency;
use windows_sys::Win32::System::Registry::{HKEY_LOCAL_MACHINE, RRF_RT_REG_SZ, RegGetValueW};
use windows_sys::Win32::System::SystemInformation::OSVERSIONINFOW;
use windows_sys::Win32::System::WindowsProgramming::SYSTEM_PROCESSOR_PERFORMANCE_INFORMATION;
use windows_sys::core::w;

use crate::sys::CpuTimes;

fn not_told<T>(what: &str) -> Result<T, String> {
    Err(format!("Windows does not tell {what}"))
}

/// The processor's name.
pub fn cpu() -> Result<String, String> {
    let mut text = [0_u16; 128];
    let mut bytes = size_of_val(&text) as u32;
    // SAFETY: both names are constants that end in a zero; the value is written to the array, whose size is told.
    let status = unsafe {
        RegGetValueW(
            HKEY_LOCAL_MACHINE,
            w!(r"HARDWARE\DESCRIPTION\System\CentralProcessor\0"),
            w!("ProcessorNameString"),
            RRF_RT_REG_SZ,
            ptr::null_mut(),
            text.as_mut_ptr().cast::<c_void>(),
            &raw mut bytes,
        )
    };
    let end = text.iter().position(|unit| *unit == 0).unwrap_or(text.len());
    match status {
        0 => Ok(String::from_utf16_lossy(&text[..end]).trim().to_owned()),
        error => Err(format!("RegGetValueW: {}", std::io::Error::from_raw_os_error(error.cast_signed()))),
    }
}

/// The CPUs that this process may use: Windows names no others.
pub fn cpus_online() -> Result<String, String> {
    Ok(super::allowed_cpus().iter().map(u32::to_string).collect::<Vec<_>>().join(","))
}

/// The system's version, and who plays it if it is not Windows itself.
pub fn kernel() -> Result<String, String> {
    let mut version = OSVERSIONINFOW { dwOSVersionInfoSize: size_of::<OSVERSIONINFOW>() as u32, ..Default::default() };
    // SAFETY: writes one structure, whose size it is told.
    let status = unsafe { RtlGetVersion(&raw mut version) };
    if status < 0 {
        return Err(format!("RtlGetVersion: {status:#x}"));
    }
    let windows = format!("Windows {}.{}.{}", version.dwMajorVersion, version.dwMinorVersion, version.dwBuildNumber);
    Ok(match translated_by() {
        Some(other) => format!("{other}, in the place of {windows}"),
        None => windows,
    })
}

/// Wine and its version, and the system under it: its ntdll exports what that of Windows does not have.
pub fn translated_by() -> Option<String> {
    // SAFETY: a constant name that ends in a zero; every process has ntdll.
    let ntdll = unsafe { GetModuleHandleW(w!("ntdll.dll")) };
    // SAFETY: a loaded module and constant names that end in a zero.
    let (version, host) = unsafe {
        (
            GetProcAddress(ntdll, c"wine_get_version".as_ptr().cast()),
            GetProcAddress(ntdll, c"wine_get_host_version".as_ptr().cast()),
        )
    };
    // SAFETY: Wine declares it so: no argument, and a constant string as the result.
    let version = unsafe {
        let call = std::mem::transmute::<unsafe extern "system" fn() -> isize, unsafe extern "C" fn() -> *const c_char>(
            version?,
        );
        CStr::from_ptr(call()).to_string_lossy()
    };
    let mut name = format!("Wine {version}");
    if let Some(host) = host {
        let (mut system, mut release) = (ptr::null::<c_char>(), ptr::null::<c_char>());
        // SAFETY: Wine declares it so: two places for constant strings, which it fills.
        unsafe {
            let call = std::mem::transmute::<
                unsafe extern "system" fn() -> isize,
                unsafe extern "C" fn(*mut *const c_char, *mut *const c_char),
            >(host);
            call(&raw mut system, &raw mut release);
            if !system.is_null() && !release.is_null() {
                let (system, release) = (CStr::from_ptr(system), CStr::from_ptr(release));
                name = format!("{name} on {} {}", system.to_string_lossy(), release.to_string_lossy());
            }
        }
    }
    Some(name)
}

/// Not told.
pub fn governor() -> Result<String, String> {
    not_told("who decides about the clock frequency")
}

/// Not told.
pub fn load() -> Result<String, String> {
    not_told("load averages")
}

/// The performance counter and its rate.
pub fn clock_source() -> Result<String, String> {
    let mut ticks_per_s = 0;
    // SAFETY: writes one integer into the one given.
    unsafe { QueryPerformanceFrequency(&raw mut ticks_per_s) };
    Ok(format!("performance counter, {ticks_per_s} ticks per second"))
}

/// Not told.
pub fn c_library() -> Result<String, String> {
    Err("on Windows every program brings its own".to_owned())
}

/// Not told.
pub fn hardware_counters() -> Result<String, String> {
    Err("holdup has no driver for them on Windows".to_owned())
}

/// Not told.
pub fn slice_ns() -> Result<u64, String> {
    not_told("time slices")
}

/// Not told.
pub fn split_locks() -> Result<String, String> {
    not_told("what it does about them")
}

/// Whether the clock can be read by a system call of its own.
pub const CLOCK_CALL: bool = false;

/// Never called: the performance counter has no other way to be read.
pub fn clock_by_system_call() {}

/// What these CPUs did since boot. What a hypervisor took, Windows does not tell. Under Wine there is no telling either
/// what a worker itself used: its server works for it, and nobody keeps its account when it has ended.
pub fn cpu_times(cpus: &[u32]) -> Option<CpuTimes> {
    if translated_by().is_some() {
        return None;
    }
    const TICK_NS: u64 = 15_625_000;
    let mut all = [SYSTEM_PROCESSOR_PERFORMANCE_INFORMATION::default(); usize::BITS as usize];
    let mut filled = 0;
    // SAFETY: writes at most as many bytes as the array has, and says how many.
    let status = unsafe {
        NtQuerySystemInformation(
            SystemProcessorPerformanceInformation,
            all.as_mut_ptr().cast(),
            size_of_val(&all) as u32,
            &raw mut filled,
        )
    };
    let known = filled as usize / size_of::<SYSTEM_PROCESSOR_PERFORMANCE_INFORMATION>();
    if status < 0 {
        return None;
    }
    let mut times = CpuTimes { resolution_ns: TICK_NS * cpus.len() as u64, ..CpuTimes::default() };
    for &cpu in cpus {
        let cpu = all[..known].get(cpu as usize)?;
        times.idle_ns += u64::try_from(cpu.IdleTime).ok()? * 100;
    }
    Some(times)
}
