//! Connections that wait to be accepted, on the sockets that the target listens on.
//!
//! The kernel lists listening sockets before all others in /proc/PID/net/tcp, with the length of their queues, so that
//! only the beginning is read. Of Unix sockets it tells when asked (see `unix_diag`). Whose they are is asked once, of
//! those whose queue is not empty.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};

use holdup_trace::{Counter, Event};
use rustc_hash::FxHashMap;

use super::machine;
use super::unix_diag::UnixSockets;

/// How long connections have waited since the first look, all together.
#[derive(Debug, Default)]
pub struct Backlog {
    last_ns: Option<u64>,
    waited_ns: u64,
    unix: UnixSockets,
    /// Whether the target has these sockets.
    owned: FxHashMap<u64, bool>,
}

impl Backlog {
    /// Looks at the queues of these processes; the time since the last look counts for each that waits now.
    pub fn sample(&mut self, pids: &[u32]) -> Option<Event> {
        let first = pids.first()?;
        let time_ns = machine::now_ns();
        let passed_ns = time_ns - self.last_ns.replace(time_ns).unwrap_or(time_ns);
        let tables = ["tcp", "tcp6"].map(|table| listening(&format!("/proc/{first}/net/{table}")));
        for (inode, queued) in tables.into_iter().flatten().chain(self.unix.listening()) {
            if queued > 0 && *self.owned.entry(inode).or_insert_with(|| pids.iter().any(|pid| has(*pid, inode))) {
                self.waited_ns += queued * passed_ns;
            }
        }
        let waited = Event::total(time_ns, Counter::ConnectionsWaitedNs, self.waited_ns);
        (self.waited_ns > 0).then_some(waited)
    }
}

/// The inodes of the listening sockets at the beginning of a table, and how many connections wait at each.
fn listening(table: &str) -> Vec<(u64, u64)> {
    let Ok(file) = File::open(table) else { return Vec::new() };
    let lines = BufReader::new(file).lines().map_while(Result::ok);
    lines.skip(1).map_while(|line| socket(&line)).collect()
}

/// A line of such a table, if the socket listens.
fn socket(line: &str) -> Option<(u64, u64)> {
    const LISTENS: &str = "0A";
    let mut words = line.split_ascii_whitespace().skip(3);
    (words.next()? == LISTENS).then_some(())?;
    let (_, queued) = words.next()?.split_once(':')?;
    Some((words.nth(4)?.parse().ok()?, u64::from_str_radix(queued, 16).ok()?))
}

/// Whether a process has a descriptor of this socket.
fn has(pid: u32, inode: u64) -> bool {
    let name = format!("socket:[{inode}]");
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    descriptors.filter_map(|one| fs::read_link(one.path()).ok()).any(|target| target.as_os_str() == name.as_str())
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use holdup_trace::What;

    use super::*;

    #[test]
    fn lines_of_the_table_are_read() {
        let listens = "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000011 00:00000000 00000000     0        0 4711 1 \
                       ffff 100 0 0 10 0";
        assert_eq!(socket(listens), Some((4711, 17)));
        assert_eq!(socket(&listens.replace(" 0A ", " 01 ")), None, "a connection");
        assert_eq!(socket("  sl  local_address rem_address   st tx_queue rx_queue"), None);
    }

    #[test]
    fn who_is_not_accepted_waits() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
        let address = listener.local_addr().expect("an address");
        let _clients: Vec<TcpStream> = (0..3).map(|_| TcpStream::connect(address).expect("connected")).collect();
        let mut backlog = Backlog::default();
        backlog.sample(&[std::process::id()]);
        let began_ns = machine::now_ns();
        std::thread::sleep(std::time::Duration::from_millis(20));
        let event = backlog.sample(&[std::process::id()]).expect("connections wait");
        let What::Count { value, .. } = event.what else { panic!("{event:?}") };
        assert!(value >= 3 * (event.time_ns - began_ns), "three of them: {value}");
        assert_eq!(Backlog::default().sample(&[]), None, "nobody");
    }
}
