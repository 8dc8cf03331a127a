//! What the limits of this process do to it.

use std::io;
use std::ptr::null_mut;

use rustix::process::{Resource, getrlimit};

/// Whether the stack of the first thread may not grow to so many bytes.
pub fn has_less_stack(bytes: u64) -> bool {
    getrlimit(Resource::Stack).current.is_some_and(|limit| limit < bytes)
}

/// Where the reason is a limit of processes and threads: which, and the command that lifts it.
pub fn no_more_processes(why: &io::Error) -> Option<String> {
    let refused = why.raw_os_error() == Some(libc::EAGAIN);
    refused.then(|| too_many_processes(getrlimit(Resource::Nproc).current))
}

fn too_many_processes(limit: Option<u64>) -> String {
    match limit {
        Some(limit) => format!(
            "this user may have no more processes and threads than {limit} (ulimit -u); run \
             `sudo prlimit --nproc=4096 --pid $$` in this shell first"
        ),
        None => "the system has no room for more processes and threads: a limit of its own (kernel.threads-max) or of \
                 the container (pids.max) is reached; end some, or allow more"
            .to_owned(),
    }
}

/// A write beyond the limit of file size (`ulimit -f`) fails from now on, as one to a full disk does, where it ended
/// the process without a word. Programs that it starts are still ended: a handler, unlike a signal that is ignored, is
/// not theirs.
pub fn outlive_file_limit() {
    extern "C" fn go_on(_: libc::c_int) {}
    // SAFETY: all-zero actions are valid; both live through the calls, and the handler does nothing.
    unsafe {
        let mut before: libc::sigaction = std::mem::zeroed();
        let known = libc::sigaction(libc::SIGXFSZ, std::ptr::null(), &raw mut before) == 0;
        if known && before.sa_sigaction == libc::SIG_DFL {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = go_on as *const () as libc::sighandler_t;
            action.sa_flags = libc::SA_RESTART;
            // If it cannot be had, the limit does what it always did.
            libc::sigaction(libc::SIGXFSZ, &raw const action, null_mut());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_for_want_of_processes_names_the_limit_and_the_command() {
        let told = no_more_processes(&io::Error::from_raw_os_error(libc::EAGAIN));
        assert!(told.is_some_and(|told| told.contains("processes and threads")));
        assert_eq!(no_more_processes(&io::Error::from_raw_os_error(libc::ENOENT)), None);
        assert!(too_many_processes(Some(5)).contains("than 5 (ulimit -u); run `sudo prlimit --nproc=4096"));
        assert!(too_many_processes(None).contains("pids.max"));
    }
}
