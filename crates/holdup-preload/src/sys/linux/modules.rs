//! Which module an address lies in, asked of the dynamic linker without its lock (glibc 2.35 and later): a hook may run
//! while another thread holds that lock and waits for the very mutex that the hook is about.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::transmute;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use holdup_control::{self as control, Figures, MODULES, PATH};

/// `_dl_find_object`, or null where the C library has none.
static FIND: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// `struct dl_find_object`, with more room at its end than it has.
#[repr(C)]
struct Found {
    flags: u64,
    map_start: usize,
    map_end: usize,
    link_map: *const LinkMap,
    rest: [u64; 16],
}

#[repr(C)]
struct LinkMap {
    load_bias: usize,
    name: *const c_char,
}

/// Where a module lies, and how the loader calls it (the program: nothing).
struct Place {
    base: usize,
    end: usize,
    name: &'static [u8],
}

/// Looks for the function, and enters the program.
pub fn know_program(figures: *mut Figures) {
    // SAFETY: the names end with 0; the second is looked up only where it is, for a failed look-up allocates.
    unsafe {
        let version = CStr::from_ptr(libc::gnu_get_libc_version()).to_bytes();
        if has_find_object(version) {
            FIND.store(libc::dlsym(libc::RTLD_DEFAULT, c"_dl_find_object".as_ptr()), Ordering::Relaxed);
        }
        // The entry point lies in the program.
        let entry = libc::getauxval(libc::AT_ENTRY);
        enter(figures, entry);
    }
}

/// Whether a C library of this version, as "2.36", has the function.
fn has_find_object(version: &[u8]) -> bool {
    let text = std::str::from_utf8(version).unwrap_or_default();
    let mut parts = text.split('.').map(|part| part.parse().unwrap_or(0));
    (parts.next(), parts.next()) >= (Some(2), Some(35))
}

/// Enters the module of an address into the figures, if it has one that is not there yet.
pub fn know(figures: &'static Figures, address: u64) {
    let len = (figures.modules_len.load(Ordering::Relaxed) as usize).min(MODULES);
    let known = figures.modules[..len]
        .iter()
        .any(|module| (module.base.load(Ordering::Relaxed)..module.end.load(Ordering::Relaxed)).contains(&address));
    if !known && address != 0 {
        enter(ptr::from_ref(figures).cast_mut(), address);
    }
}

fn enter(figures: *mut Figures, address: u64) {
    let Some(place) = place(address as usize) else { return };
    // SAFETY: the figures are mapped as long as the process lives.
    let len = unsafe { &(*figures).modules_len };
    let next = len.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |len| (len < MODULES as u32).then_some(len + 1));
    let Ok(at) = next else { return };
    let name = if place.name.is_empty() {
        // SAFETY: the program's path was written when the file was made.
        unsafe { (&raw const (*figures).program).read() }
    } else {
        control::path_bytes(place.name)
    };
    // SAFETY: nobody else writes this entry, and of others none reads its name.
    unsafe {
        let module = &raw mut (*figures).modules[at as usize];
        (&raw mut (*module).path).write(name);
        (*module).base.store(place.base as u64, Ordering::Relaxed);
        // While this is 0, the entry holds no address.
        (*module).end.store(place.end as u64, Ordering::Relaxed);
    }
}

/// Whether an address lies within a range of a module, which is named as the loader does, or not at all for the
/// program.
pub fn lies_in(address: u64, module: &[u8; PATH], start: u64, len: u64) -> bool {
    let Some(place) = place(address as usize) else { return false };
    let offset = address.wrapping_sub(place.base as u64);
    (start..start.saturating_add(len)).contains(&offset)
        && control::path(module) == control::path(&control::path_bytes(place.name))
}

fn place(address: usize) -> Option<Place> {
    let find = FIND.load(Ordering::Relaxed);
    if find.is_null() {
        return None;
    }
    // SAFETY: `_dl_find_object` has this signature.
    let find: extern "C" fn(*const c_void, *mut Found) -> c_int = unsafe { transmute(find) };
    let mut found = Found { flags: 0, map_start: 0, map_end: 0, link_map: ptr::null(), rest: [0; 16] };
    if find(address as *const c_void, &raw mut found) != 0 || found.link_map.is_null() {
        return None;
    }
    // SAFETY: the loader gives a module that is loaded, and whose code or data is in use; its name ends with 0.
    let name = unsafe { CStr::from_ptr((*found.link_map).name) }.to_bytes();
    Some(Place { base: found.map_start, end: found.map_end, name })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        assert!(has_find_object(b"2.35"));
        assert!(has_find_object(b"2.100"));
        assert!(has_find_object(b"3.0"));
        assert!(!has_find_object(b"2.34"));
        assert!(!has_find_object(b""));
    }
}
