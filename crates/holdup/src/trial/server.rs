//! Server mode: remedies are put under a server, and the figure comes from a load that is run against it.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use holdup_run::{Outcome, Started};

use super::program::{Program, Ready, Server};
use super::remedy::Remedy;
use super::run::{Expected, Failure, Real, Sample, last_words, unwatched};
use crate::interposer::Control;

/// How long a server may take until it serves, and until it ends when it is asked to.
const READY_WITHIN: Duration = Duration::from_secs(30);
const ENDS_WITHIN: Duration = Duration::from_secs(10);
/// How often it is asked whether it serves.
const ASK: Duration = Duration::from_millis(10);

/// Starts the server under the remedy, runs the load against it, and ends the server.
///
/// # Errors
/// Either of them failed.
pub fn run(
    real: &Real<'_>,
    server: &Server,
    remedy: Option<&Remedy>,
    control: Option<&Control>,
    expected: Option<&Expected>,
    limit: Duration,
) -> Result<Sample, Failure> {
    let port = free_port().map_err(|why| Failure::Server(format!("no free port: {why}")))?.to_string();
    let program = server.program.with("port", &port);
    let mut serving = real.start(&program, remedy, control)?;
    await_ready(&mut serving, &server.ready, &port, real.stop)?;
    let load = remedy.map_or_else(|| real.subject.program.clone(), |remedy| remedy.program(&real.subject.program));
    let outcome = drive(real, &load.with("port", &port), &mut serving, limit)?;
    let mut sample = real.sample(&outcome, expected)?;
    let ended = end(serving)?;
    sample.user_s = ended.process.user_ns as f64 / 1e9;
    sample.kernel_s = ended.process.kernel_ns as f64 / 1e9;
    sample.voluntary_switches = ended.process.voluntary_switches.unwrap_or(0);
    sample.involuntary_switches = ended.process.involuntary_switches.unwrap_or(0);
    Ok(sample)
}

/// Runs the load. If the server ends meanwhile, that is what has gone wrong, whatever the load says about it.
fn drive(real: &Real<'_>, load: &Program, serving: &mut Started, limit: Duration) -> Result<Outcome, Failure> {
    let mut driving = real.start(load, None, None)?;
    let waited = real.wait(&mut driving, limit);
    if has_ended(serving)? {
        let words = said(serving);
        return Err(Failure::Server(format!("the server ended under the load{words}")));
    }
    waited?;
    driving.finish().map_err(unwatched)
}

fn has_ended(serving: &mut Started) -> Result<bool, Failure> {
    // One millisecond is long enough to read what it wrote.
    let never = AtomicBool::new(false);
    serving.wait(Instant::now() + Duration::from_millis(1), &never).map_err(unwatched)
}

/// Waits until it serves.
pub fn await_ready(serving: &mut Started, ready: &Ready, port: &str, stop: &AtomicBool) -> Result<(), Failure> {
    let deadline = Instant::now() + READY_WITHIN;
    loop {
        if serving.wait(Instant::now() + ASK, stop).map_err(unwatched)? {
            let words = said(serving);
            return Err(Failure::Server(format!("the server ended before it was ready{words}")));
        }
        if stop.load(Ordering::Relaxed) {
            return Err(Failure::Stopped);
        }
        if is_ready(serving, ready, port) {
            return Ok(());
        }
        if Instant::now() >= deadline {
            let seconds = READY_WITHIN.as_secs();
            let words = said(serving);
            return Err(Failure::Server(format!("the server was not ready within {seconds} s{words}")));
        }
    }
}

fn is_ready(serving: &Started, ready: &Ready, port: &str) -> bool {
    match ready {
        Ready::Tcp(place) => {
            let port = place.replace("{port}", port).parse().unwrap_or(0);
            let address = SocketAddr::from(([127, 0, 0, 1], port));
            TcpStream::connect_timeout(&address, Duration::from_millis(200)).is_ok()
        }
        Ready::Output(words) => {
            let (out, err) = serving.output();
            out.contains(words.as_str()) || err.contains(words.as_str())
        }
    }
}

/// Asks it to end, and kills it if it does not.
pub fn end(mut serving: Started) -> Result<Outcome, Failure> {
    serving.terminate();
    let never = AtomicBool::new(false);
    // Whether it ended by itself or is killed by `finish` makes no difference to what it used.
    serving.wait(Instant::now() + ENDS_WITHIN, &never).map_err(unwatched)?;
    serving.finish().map_err(unwatched)
}

/// The last lines of a server, as the end of a message.
fn said(serving: &Started) -> String {
    let (out, err) = serving.output();
    match last_words(&out, &err) {
        words if words.is_empty() => " without a word".to_owned(),
        words => format!("; its last words:{words}"),
    }
}

/// A port that nobody listens on; another program could take it before the server does, which the server then says.
pub fn free_port() -> std::io::Result<u16> {
    TcpListener::bind(("127.0.0.1", 0))?.local_addr().map(|address| address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_free_port_is_found() {
        assert!(free_port().unwrap() > 0);
    }
}
