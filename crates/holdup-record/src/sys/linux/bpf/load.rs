//! The committed object, its settings, and its way into the kernel.

use std::error::Error;

use aya::programs::BtfTracePoint;
use aya::{Btf, Ebpf, EbpfLoader, VerifierLogLevel};

/// Compiled by `cargo xtask bpf`.
static OBJECT: &[u8] = aya::include_bytes_aligned!("../../../../bpf/capture.bpf.o");

/// The programs and the tracepoints that they are attached to; whether a recording can do without.
const PROGRAMS: [(&str, &str, Need); 10] = [
    ("on_switch", "sched_switch", Need::Essential),
    ("on_waking", "sched_waking", Need::Essential),
    ("on_call_end", "sys_exit", Need::Essential),
    ("on_fork", "sched_process_fork", Need::Essential),
    ("on_exec", "sched_process_exec", Need::Essential),
    ("on_exit", "sched_process_exit", Need::Essential),
    // Without these, some who are woken by a timer seem to be woken by whom it interrupts.
    ("on_timer", "hrtimer_expire_entry", Need::Wanted),
    ("on_timer_end", "hrtimer_expire_exit", Need::Wanted),
    ("on_interrupt", "irq_handler_entry", Need::Wanted),
    ("on_interrupt_end", "irq_handler_exit", Need::Wanted),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Need {
    Essential,
    Wanted,
}

/// What the programs are told before they are loaded; see the constants in the object's source.
pub struct Settings {
    pub stack_words: u32,
    pub ring_mask: u32,
    pub wake_bytes: u64,
    pub zero_period: u32,
    pub state_is_given: u8,
    pub blocking_calls: [u64; 16],
}

/// Loads them, with so many rings of so many bytes.
///
/// # Errors
/// Why not, as the end of a sentence.
pub fn load(settings: &Settings, rings: usize, ring_bytes: u32) -> Result<Ebpf, String> {
    let btf = Btf::from_sys_fs().map_err(|why| reason(&why))?;
    let names: Vec<String> = (0..rings).map(|ring| format!("ring{ring}")).collect();
    let mut loader = EbpfLoader::new();
    loader
        .btf(Some(&btf))
        .verifier_log_level(verbosity())
        .override_global("stack_words", &settings.stack_words, true)
        .override_global("ring_mask", &settings.ring_mask, true)
        .override_global("wake_bytes", &settings.wake_bytes, true)
        .override_global("zero_period", &settings.zero_period, true)
        .override_global("state_is_given", &settings.state_is_given, true)
        .override_global("blocking_calls", &settings.blocking_calls, true);
    for name in &names {
        loader.map_max_entries(name, ring_bytes);
    }
    let mut programs = loader.load(OBJECT).map_err(|why| reason(&why))?;
    for (name, tracepoint, need) in PROGRAMS {
        let loaded = program(&mut programs, name)?.load(tracepoint, &btf);
        match loaded {
            Err(why) if need == Need::Essential => return Err(format!("{tracepoint}: {}", reason(&why))),
            _ => {}
        }
    }
    Ok(programs)
}

/// Attaches what could be loaded. Ends of what is told in pairs come first, so that none begins without its end.
///
/// # Errors
/// Why not, as the end of a sentence.
pub fn attach(programs: &mut Ebpf) -> Result<(), String> {
    for (name, tracepoint, need) in PROGRAMS.iter().rev() {
        match program(programs, name)?.attach() {
            Err(why) if *need == Need::Essential => return Err(format!("{tracepoint}: {}", reason(&why))),
            _ => {}
        }
    }
    Ok(())
}

/// The innermost cause, in one line: those around it say what was tried, and the verifier's log is long.
pub fn reason(error: &dyn Error) -> String {
    if std::env::var_os(VERBOSE).is_some() {
        return format!("{error}: {error:?}");
    }
    let mut inner = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string().lines().next().unwrap_or_default().to_owned()
}

/// Set to have the verifier's log where a program is refused.
const VERBOSE: &str = "HOLDUP_BPF_LOG";

fn verbosity() -> VerifierLogLevel {
    match std::env::var_os(VERBOSE) {
        Some(_) => VerifierLogLevel::DEBUG | VerifierLogLevel::STATS,
        None => VerifierLogLevel::DISABLE,
    }
}

fn program<'a>(programs: &'a mut Ebpf, name: &str) -> Result<&'a mut BtfTracePoint, String> {
    let found = programs.program_mut(name).and_then(|program| program.try_into().ok());
    found.ok_or_else(|| format!("the program {name} is missing"))
}
