//! Which way to capture: the one that is asked for, or the best of those that this machine and user allow, and why it
//! is no better one.

use std::io;

use super::bpf::{self, Capture};
use super::perf::{Kernel as _, Linux};
use super::{machine, plan, status};
use crate::{Backend, Detail, Error, Options};

/// A way to capture, with what it needs.
#[derive(Debug, PartialEq, Eq)]
pub enum Way<B> {
    /// Programs inside the kernel, which are loaded.
    Bpf(B),
    /// Performance events.
    Perf,
    /// Looks from outside.
    Sampler,
}

/// A way, and why it is not the one that would be taken otherwise: a sentence without a full stop.
pub type Choice<B> = (Way<B>, Option<String>);

/// What can be tried; a seam for tests.
pub trait Ways {
    /// Programs inside the kernel.
    type Bpf;
    /// Opens an event.
    fn events(&self) -> io::Result<()>;
    /// Whether this process has rights that most have not.
    fn is_privileged(&self) -> bool;
    /// Loads the programs; else why not, as the end of a sentence.
    fn bpf(&self) -> Result<Self::Bpf, String>;
    /// Whether the kernel keeps even root from what could change or read it (lockdown).
    fn is_locked_down(&self) -> bool;
}

/// Chooses.
///
/// # Errors
/// What is asked for by name cannot be had.
pub fn choose<W: Ways>(asked: Backend, detail: Detail, ways: &W) -> Result<Choice<W::Bpf>, Error> {
    let refused = if asked == Backend::Auto { ways.events().err() } else { None };
    if let Some(why) = refused.filter(is_forbidden) {
        let note = format!(
            "the kernel gives no events here (perf_event_open: {why}), so threads were looked at from outside from \
             time to time; 'holdup doctor' says what would give more"
        );
        return Ok((Way::Sampler, Some(note)));
    }
    let wanted = match asked {
        Backend::Sampler => return Ok((Way::Sampler, None)),
        Backend::Perf => false,
        Backend::Auto => detail == Detail::Allowed && ways.is_privileged(),
        Backend::Bpf => true,
    };
    if !wanted {
        return Ok((Way::Perf, None));
    }
    match ways.bpf().map_err(|why| explained(why, ways)) {
        Ok(bpf) => Ok((Way::Bpf(bpf), None)),
        Err(why) if asked == Backend::Bpf => Err(Error::Refused(format!("capture by BPF is not possible here: {why}"))),
        Err(why) => {
            let note = format!("captured by perf events, which slow the program down more than BPF: {why}");
            Ok((Way::Perf, Some(note)))
        }
    }
}

fn is_forbidden(why: &io::Error) -> bool {
    matches!(why.raw_os_error(), Some(libc::EACCES | libc::EPERM | libc::ENOSYS))
}

/// A locked kernel answers with the same error as one that wants more rights.
fn explained(why: String, ways: &impl Ways) -> String {
    let unexplained = why.contains("os error 1)") || why.contains("os error 13)");
    if unexplained && ways.is_locked_down() {
        return format!(
            "the kernel is locked down (/sys/kernel/security/lockdown), so it loads no such programs ({why})"
        );
    }
    why
}

/// This machine and user.
pub struct Here<'a>(pub &'a Options);

impl Ways for Here<'_> {
    type Bpf = Capture;

    fn events(&self) -> io::Result<()> {
        let cpu = machine::online_cpus().first().copied().unwrap_or(0);
        Linux.open(&plan::ring_owner(1), 0, cpu).map(drop)
    }

    fn is_privileged(&self) -> bool {
        status::is_privileged()
    }

    fn bpf(&self) -> Result<Capture, String> {
        bpf::unsuitable().map_or_else(|| Capture::open(self.0, machine::online_cpus().len()), Err)
    }

    fn is_locked_down(&self) -> bool {
        std::fs::read_to_string("/sys/kernel/security/lockdown").is_ok_and(|text| is_locked(&text))
    }
}

/// The level that is in force stands in brackets.
fn is_locked(text: &str) -> bool {
    text.contains('[') && !text.contains("[none]")
}

#[cfg(test)]
mod tests {
    use super::super::bpf::suit::{Facts, judge};
    use super::*;
    use crate::doctor::{CAP_BPF, CAP_PERFMON};

    /// A machine that has all, but for what a test takes from it.
    struct Fake {
        events: Option<i32>,
        facts: Facts,
        load: Option<&'static str>,
        locked: bool,
    }

    fn fake() -> Fake {
        let capabilities = 1 << CAP_BPF | 1 << CAP_PERFMON;
        let facts = Facts { release: (6, 1), btf: true, capabilities, first_namespace: true, known_machine: true };
        Fake { events: None, facts, load: None, locked: false }
    }

    impl Ways for Fake {
        type Bpf = &'static str;

        fn events(&self) -> io::Result<()> {
            self.events.map_or(Ok(()), |errno| Err(io::Error::from_raw_os_error(errno)))
        }

        fn is_privileged(&self) -> bool {
            self.facts.capabilities != 0
        }

        fn bpf(&self) -> Result<&'static str, String> {
            match (judge(&self.facts), self.load) {
                (Some(why), _) => Err(why),
                (None, Some(why)) => Err(why.to_owned()),
                (None, None) => Ok("loaded"),
            }
        }

        fn is_locked_down(&self) -> bool {
            self.locked
        }
    }

    #[track_caller]
    fn falls_back(machine: &Fake, to: &Way<&'static str>, words: &[&str]) {
        let (way, note) = choose(Backend::Auto, Detail::Allowed, machine).unwrap();
        assert_eq!(way, *to);
        let note = note.expect("it is said why");
        assert!(words.iter().all(|word| note.contains(word)), "{note}");
        assert!(!note.contains('\n') && !note.ends_with('.') && !note.contains(". "), "one sentence: {note}");
    }

    #[test]
    fn everything_that_is_missing_leads_to_the_next_way_and_is_told_in_one_sentence() {
        let facts = || fake().facts;
        let without = |facts| Fake { facts, ..fake() };
        falls_back(&without(Facts { btf: false, ..facts() }), &Way::Perf, &["perf events", "without BTF"]);
        falls_back(&without(Facts { release: (5, 7), ..facts() }), &Way::Perf, &["Linux 5.15", "this is 5.7"]);
        let monitor = Facts { capabilities: 1 << CAP_PERFMON, ..facts() };
        falls_back(&without(monitor), &Way::Perf, &["CAP_BPF", "setcap cap_bpf,cap_perfmon+ep"]);
        falls_back(&without(Facts { first_namespace: false, ..facts() }), &Way::Perf, &["container"]);
        let refused = "Operation not permitted (os error 1)";
        let locked = Fake { load: Some(refused), locked: true, ..fake() };
        falls_back(&locked, &Way::Perf, &["locked down", "lockdown", refused]);
        falls_back(&Fake { locked: false, ..locked }, &Way::Perf, &[refused]);
        falls_back(&Fake { load: Some("unknown func"), locked: true, ..fake() }, &Way::Perf, &["BPF: unknown func"]);
        for errno in [libc::EACCES, libc::EPERM, libc::ENOSYS] {
            falls_back(
                &Fake { events: Some(errno), ..fake() },
                &Way::Sampler,
                &["no events", "from outside", "doctor"],
            );
        }
    }

    #[test]
    fn the_best_way_needs_no_words_and_a_passing_error_is_no_refusal() {
        let chosen = |asked, detail, machine: &Fake| choose(asked, detail, machine).unwrap();
        let (auto, allowed, user) = (Backend::Auto, Detail::Allowed, Detail::User);
        assert_eq!(chosen(auto, allowed, &fake()), (Way::Bpf("loaded"), None));
        assert_eq!(chosen(auto, user, &fake()), (Way::Perf, None));
        let nobody = Fake { facts: Facts { capabilities: 0, ..fake().facts }, ..fake() };
        assert_eq!(chosen(auto, allowed, &nobody), (Way::Perf, None), "an ordinary user expects no more");
        assert_eq!(chosen(auto, allowed, &Fake { events: Some(libc::EMFILE), ..fake() }).0, Way::Bpf("loaded"));
    }

    #[test]
    fn what_is_asked_for_by_name_is_had_or_refused() {
        let chosen = |asked, machine: &Fake| choose(asked, Detail::Allowed, machine);
        let poor = Fake { events: Some(libc::EPERM), facts: Facts { btf: false, ..fake().facts }, ..fake() };
        assert_eq!(chosen(Backend::Perf, &poor).unwrap(), (Way::Perf, None));
        assert_eq!(chosen(Backend::Sampler, &fake()).unwrap(), (Way::Sampler, None));
        let why = chosen(Backend::Bpf, &poor).unwrap_err().to_string();
        assert!(why.contains("BPF is not possible here") && why.contains("BTF"), "{why}");
    }

    #[test]
    fn the_level_in_brackets_is_in_force() {
        assert!(is_locked("none [integrity] confidentiality\n") && is_locked("none integrity [confidentiality]"));
        assert!(!is_locked("[none] integrity confidentiality\n") && !is_locked(""));
    }
}
