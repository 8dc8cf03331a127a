//! The least of HTTP/1.1 that serves figures: GET and HEAD, one request a connection. Everything that a client can make
//! large or slow has a limit: the request, the time, the connections.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Bytes of a request's head.
const MOST_BYTES: usize = 8 << 10;
/// Connections that are answered at the same time; others are turned away.
const MOST_CONNECTIONS: usize = 8;
/// How long a request may take to come, and an answer to be taken.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long to wait where no connection can be taken.
const NO_CONNECTION: Duration = Duration::from_millis(200);
/// A thread that answers needs little.
const STACK: usize = 512 << 10;
/// What text is.
const PLAIN: &str = "text/plain; charset=utf-8";

/// What is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status, with its name.
    pub status: &'static str,
    /// What the body is.
    pub kind: &'static str,
    /// The body.
    pub body: Arc<[u8]>,
}

impl Answer {
    /// A text.
    pub fn text(status: &'static str, text: &str) -> Answer {
        Answer { status, kind: PLAIN, body: text.as_bytes().into() }
    }

    /// What was asked for.
    pub fn ok(kind: &'static str, body: Arc<[u8]>) -> Answer {
        Answer { status: "200 OK", kind, body }
    }
}

/// What is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The path, decoded.
    pub path: String,
    /// Whether the asker takes OpenMetrics.
    pub takes_openmetrics: bool,
    /// Whether the body is wanted.
    pub body: bool,
}

/// Says what is at a path.
pub type Site = dyn Fn(&Request) -> Answer + Send + Sync;

/// Serves until the process ends, in threads of its own.
///
/// # Errors
/// No thread can be started.
pub fn serve(listener: TcpListener, site: Arc<Site>) -> io::Result<()> {
    let here = listener.local_addr()?;
    thread::Builder::new().name("serve".into()).stack_size(STACK).spawn(move || accept(&listener, here, &site))?;
    Ok(())
}

fn accept(listener: &TcpListener, here: SocketAddr, site: &Arc<Site>) {
    let open = Arc::new(AtomicUsize::new(0));
    loop {
        let Ok((stream, _)) = listener.accept() else {
            // Too many files are open, for example.
            thread::sleep(NO_CONNECTION);
            continue;
        };
        let place = Place::take(&open);
        let Some(place) = place else {
            let _ = stream.set_nonblocking(true);
            let _ =
                (&stream).write(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            continue;
        };
        let site = site.clone();
        let handle = move || {
            // Whoever does not hear the answer has gone.
            let _ = answer(&stream, here, &site, place);
        };
        // Without a thread the connection is closed.
        let _ = thread::Builder::new().name("answer".into()).stack_size(STACK).spawn(handle);
    }
}

/// One of the connections that are answered at the same time.
struct Place(Arc<AtomicUsize>);

impl Place {
    fn take(open: &Arc<AtomicUsize>) -> Option<Place> {
        let place = Place(open.clone());
        (open.fetch_add(1, Ordering::Relaxed) < MOST_CONNECTIONS).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn answer(stream: &TcpStream, here: SocketAddr, site: &Arc<Site>, _place: Place) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (answer, body) = match request(stream) {
        Ok(head) => match parse(&head, here) {
            Ok(request) => (site(&request), request.body),
            Err(answer) => (answer, true),
        },
        Err(answer) => (answer, true),
    };
    let allow = if answer.status.starts_with("405") { "Allow: GET, HEAD\r\n" } else { "" };
    let head = format!(
        "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nCache-Control: no-store\r\n\
         X-Content-Type-Options: nosniff\r\n{allow}Connection: close\r\n\r\n",
        answer.status,
        answer.kind,
        answer.body.len()
    );
    let until = Instant::now() + PATIENCE;
    write_all(stream, head.as_bytes(), until)?;
    if body {
        write_all(stream, &answer.body, until)?;
    }
    stream.shutdown(Shutdown::Write)?;
    // What is not read when the connection closes would take the answer with it.
    stream.set_read_timeout(Some(NO_CONNECTION))?;
    let mut rest = [0; MOST_BYTES];
    let _ = (&*stream).read(&mut rest);
    Ok(())
}

/// The head of a request.
fn request(mut stream: &TcpStream) -> Result<Vec<u8>, Answer> {
    let late = || Answer::text("408 Request Timeout", "the request took too long\n");
    let until = Instant::now() + PATIENCE;
    let mut head = Vec::new();
    let mut buffer = [0; 1024];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || stream.set_read_timeout(Some(left)).is_err() {
            return Err(late());
        }
        let read = stream.read(&mut buffer).map_err(|_| late())?;
        if read == 0 {
            return Err(Answer::text("400 Bad Request", "the request has no end\n"));
        }
        head.extend_from_slice(&buffer[..read]);
        if let Some(end) = head.windows(4).position(|four| four == b"\r\n\r\n") {
            head.truncate(end);
            return Ok(head);
        }
        if head.len() > MOST_BYTES {
            return Err(Answer::text("431 Request Header Fields Too Large", "the request is too large\n"));
        }
    }
}

fn write_all(mut stream: &TcpStream, mut bytes: &[u8], until: Instant) -> io::Result<()> {
    while !bytes.is_empty() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_write_timeout(Some(left))?;
        match stream.write(bytes)? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            written => bytes = bytes.get(written..).unwrap_or_default(),
        }
    }
    Ok(())
}

/// What a head asks for.
fn parse(head: &[u8], here: SocketAddr) -> Result<Request, Answer> {
    let bad = |why: &str| Answer::text("400 Bad Request", why);
    let text = std::str::from_utf8(head).map_err(|_| bad("the request is no text\n"))?;
    let mut lines = text.split("\r\n");
    let words: Vec<&str> = lines.next().unwrap_or_default().split(' ').collect();
    let [method, target, version] = words.as_slice() else { return Err(bad("this is no request of HTTP/1.1\n")) };
    if !matches!(*version, "HTTP/1.0" | "HTTP/1.1") {
        return Err(Answer::text("505 HTTP Version Not Supported", "write HTTP/1.1\n"));
    }
    let body = match *method {
        "GET" => true,
        "HEAD" => false,
        _ => return Err(Answer::text("405 Method Not Allowed", "GET and HEAD are answered\n")),
    };
    let mut takes_openmetrics = false;
    for line in lines {
        let Some((name, value)) = line.split_once(':') else { return Err(bad("a header has no colon\n")) };
        if name.eq_ignore_ascii_case("host") && here.ip().is_loopback() && !is_this_machine(value.trim()) {
            return Err(Answer::text("421 Misdirected Request", "this is served to this machine alone\n"));
        }
        takes_openmetrics |= name.eq_ignore_ascii_case("accept") && value.contains("application/openmetrics-text");
    }
    let path = target.split(['?', '#']).next().unwrap_or_default();
    let path = decoded(path).filter(|path| path.starts_with('/')).ok_or_else(|| bad("this is no path\n"))?;
    Ok(Request { path, takes_openmetrics, body })
}

/// Whether a name is one that only this machine has: a page elsewhere can have its own name mean this machine, and read
/// what is served here.
fn is_this_machine(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

/// `%2F` as `/`; `None` where that makes no text.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'%' => {
                let digits = [rest.next()?, rest.next()?].map(|digit| char::from(digit).to_digit(16));
                let [Some(high), Some(low)] = digits else { return None };
                bytes.push(u8::try_from(high * 16 + low).ok()?);
            }
            byte => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn here() -> SocketAddr {
        "127.0.0.1:1".parse().unwrap()
    }

    fn status(head: &str) -> &'static str {
        parse(head.as_bytes(), here()).map_or_else(|answer| answer.status, |_| "200 OK")
    }

    #[test]
    fn only_what_can_be_answered_is_taken() {
        let request =
            |path: &str, takes_openmetrics, body| Ok(Request { path: path.to_owned(), takes_openmetrics, body });
        let local =
            b"GET /a%20b?x=1 HTTP/1.1\r\nHost: localhost:9\r\naccept: text/plain,application/openmetrics-text;q=0.5";
        assert_eq!(parse(local, here()), request("/a b", true, true));
        assert_eq!(parse(b"HEAD / HTTP/1.0\r\nAccept: */*", here()), request("/", false, false));
        assert_eq!(status("GET / HTTP/1.1\r\nHost: [::1]:9765"), "200 OK");
        for (head, expected) in [
            ("POST / HTTP/1.1", "405"),
            ("GET / HTTP/2", "505"),
            ("GET /", "400"),
            ("", "400"),
            ("GET / HTTP/1.1\r\nno colon", "400"),
            ("GET x HTTP/1.1", "400"),
            ("GET /%ff HTTP/1.1", "400"),
            ("GET /%f HTTP/1.1", "400"),
            ("GET / HTTP/1.1\r\nHost: evil.example", "421"),
        ] {
            assert!(status(head).starts_with(expected), "{head}: {}", status(head));
        }
        assert!(parse(&[0xff, 0xfe], here()).is_err());
    }

    fn served() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        serve(listener, Arc::new(|request: &Request| Answer::text("200 OK", &request.path))).unwrap();
        at
    }

    fn ask(at: SocketAddr, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(at).unwrap();
        // The answer may come before all is sent.
        let _ = stream.write_all(request);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8(answer).unwrap()
    }

    #[test]
    fn head_has_no_body_and_what_is_too_large_is_refused() {
        let at = served();
        let whole = ask(at, b"GET /x HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert!(whole.starts_with("HTTP/1.1 200 OK\r\n") && whole.ends_with("\r\n\r\n/x"), "{whole}");
        let head = ask(at, b"HEAD /x HTTP/1.1\r\n\r\n");
        assert!(head.contains("Content-Length: 2\r\n") && head.ends_with("\r\n\r\n"), "{head}");
        let large = format!("GET / HTTP/1.1\r\nX: {}", "y".repeat(MOST_BYTES));
        assert!(ask(at, large.as_bytes()).starts_with("HTTP/1.1 431 "));
    }

    #[test]
    fn silent_connections_are_few_and_turn_others_away_until_they_are_gone() {
        let at = served();
        let mut silent: Vec<TcpStream> = (0..MOST_CONNECTIONS).map(|_| TcpStream::connect(at).unwrap()).collect();
        // They are taken in order: this one comes after all of them.
        assert!(ask(at, b"").starts_with("HTTP/1.1 503 "));
        // The first has its answer, and by then its place is free, or it is as soon as the connection is closed.
        for stream in &mut silent {
            stream.write_all(b"GET /y HTTP/1.0\r\n\r\n").unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            assert!(answer.ends_with("/y"), "{answer}");
        }
        drop(silent);
        let until = Instant::now() + 4 * PATIENCE;
        while !ask(at, b"GET /z HTTP/1.0\r\n\r\n").ends_with("/z") {
            assert!(Instant::now() < until, "no place became free");
        }
    }
}
