//! A browser under the program's control: Chromium without a window, spoken to through two pipes by its DevTools
//! protocol.
//!
//! Nothing but the browser itself is needed: the shell gives it our pipes as descriptors 3 and 4, messages are JSON
//! with a zero byte behind each.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// How long the browser may take for anything: a machine can be very busy.
const PATIENCE: Duration = Duration::from_secs(120);

/// A running browser with one page.
pub struct Browser {
    child: Child,
    to: ChildStdin,
    from: Receiver<Value>,
    session: String,
    number: u64,
    /// What happened meanwhile: requests, messages of the console, exceptions.
    events: Vec<Value>,
    folder: PathBuf,
}

/// The browser's program, if there is one: `HOLDUP_CHROMIUM`, or what it is called on most systems.
pub fn find() -> Option<String> {
    let named = std::env::var("HOLDUP_CHROMIUM").ok();
    let usual = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"].map(str::to_owned);
    named.into_iter().chain(usual).find(|name| {
        let version = Command::new(name).arg("--version").stdin(Stdio::null()).stderr(Stdio::null()).output();
        version.is_ok_and(|output| output.status.success())
    })
}

impl Browser {
    /// Starts it; its profile goes into `folder`.
    pub fn start(program: &str, folder: &Path) -> Result<Browser, String> {
        let _ = std::fs::remove_dir_all(folder);
        std::fs::create_dir_all(folder).map_err(|why| format!("{}: {why}", folder.display()))?;
        let mut child = Command::new("sh")
            .args(["-c", "exec \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1", "sh", program])
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--hide-scrollbars"])
            .args([
                "--no-first-run",
                "--disable-dev-shm-usage",
                "--disable-background-networking",
                "--disable-extensions",
            ])
            .arg(format!("--user-data-dir={}", folder.display()))
            .arg("about:blank")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|why| format!("{program}: {why}"))?;
        let to = child.stdin.take().ok_or("no pipe to the browser")?;
        let output = child.stdout.take().ok_or("no pipe from the browser")?;
        let (send, from) = channel();
        std::thread::spawn(move || {
            let mut reader = BufReader::new(output);
            loop {
                let mut bytes = Vec::new();
                match reader.read_until(0, &mut bytes) {
                    Ok(length) if length > 0 => {}
                    _ => return,
                }
                bytes.pop();
                let Ok(message) = serde_json::from_slice(&bytes) else { continue };
                if send.send(message).is_err() {
                    return;
                }
            }
        });
        let folder = folder.to_owned();
        let mut browser = Browser { child, to, from, session: String::new(), number: 0, events: Vec::new(), folder };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }))?;
        let attached =
            browser.call("Target.attachToTarget", json!({ "targetId": target["targetId"], "flatten": true }))?;
        browser.session = attached["sessionId"].as_str().unwrap_or_default().to_owned();
        for domain in ["Page", "Runtime", "Network", "Log"] {
            browser.call(&format!("{domain}.enable"), json!({}))?;
        }
        Ok(browser)
    }

    /// One command, and what it gives back.
    pub fn call(&mut self, method: &str, parameters: Value) -> Result<Value, String> {
        self.number += 1;
        let id = self.number;
        let mut message = json!({ "id": id, "method": method, "params": parameters });
        if !self.session.is_empty() {
            message["sessionId"] = self.session.clone().into();
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.to.write_all(&bytes).map_err(|why| format!("{method}: {why}"))?;
        let until = Instant::now() + PATIENCE;
        loop {
            let message = self.receive(until).map_err(|why| format!("{method}: {why}"))?;
            if message["id"].as_u64() != Some(id) {
                self.events.push(message);
            } else if message["error"].is_null() {
                return Ok(message["result"].clone());
            } else {
                return Err(format!("{method}: {}", message["error"]));
            }
        }
    }

    fn receive(&mut self, until: Instant) -> Result<Value, String> {
        match self.from.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(message) => Ok(message),
            Err(RecvTimeoutError::Timeout) => Err("the browser does not answer".to_owned()),
            Err(RecvTimeoutError::Disconnected) => Err("the browser ended".to_owned()),
        }
    }

    /// The size of the window, and which colours the system wants.
    pub fn look(&mut self, width: u32, height: u32, dark: bool) -> Result<(), String> {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", size)?;
        let scheme = json!([{ "name": "prefers-color-scheme", "value": if dark { "dark" } else { "light" } }]);
        self.call("Emulation.setEmulatedMedia", json!({ "features": scheme })).map(drop)
    }

    /// Opens a page and waits until `ready` is true in it.
    pub fn open(&mut self, page: &Path, ready: &str) -> Result<(), String> {
        self.events.clear();
        let url = format!("file://{}", page.display());
        let gone = self.call("Page.navigate", json!({ "url": url }))?;
        if let Some(why) = gone["errorText"].as_str() {
            return Err(format!("{url}: {why}"));
        }
        self.wait(ready)
    }

    /// Waits until an expression is true.
    pub fn wait(&mut self, expression: &str) -> Result<(), String> {
        let until = Instant::now() + PATIENCE;
        // A page that is just being left answers for the next one, or not at all.
        while !matches!(self.eval(&format!("Boolean({expression})")), Ok(Value::Bool(true))) {
            if Instant::now() > until {
                return Err(format!("this never came true: {expression}\n{}", self.complaints().join("\n")));
            }
            std::thread::sleep(Duration::from_millis(25));
        }
        Ok(())
    }

    /// The value of an expression in the page; promises are waited for.
    pub fn eval(&mut self, expression: &str) -> Result<Value, String> {
        let parameters = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let found = self.call("Runtime.evaluate", parameters)?;
        match found["exceptionDetails"].is_null() {
            true => Ok(found["result"]["value"].clone()),
            false => Err(format!("{expression}: {}", found["exceptionDetails"])),
        }
    }

    /// The mouse: `mousePressed`, `mouseMoved`, `mouseReleased` or `mouseWheel` at a place of the window.
    pub fn mouse(&mut self, kind: &str, x: f64, y: f64, more: Value) -> Result<(), String> {
        let mut event = json!({ "type": kind, "x": x, "y": y });
        if let (Some(event), Value::Object(more)) = (event.as_object_mut(), more) {
            event.extend(more);
        }
        self.call("Input.dispatchMouseEvent", event).map(drop)
    }

    /// A press of the left button, at a place or from one to another.
    pub fn drag(&mut self, from: (f64, f64), to: (f64, f64), shift: bool) -> Result<(), String> {
        let keys = if shift { 8 } else { 0 };
        let held = json!({ "button": "left", "buttons": 1, "clickCount": 1, "modifiers": keys });
        self.mouse("mouseMoved", from.0, from.1, json!({ "modifiers": keys }))?;
        self.mouse("mousePressed", from.0, from.1, held.clone())?;
        if from != to {
            self.mouse("mouseMoved", (from.0 + to.0) / 2.0, (from.1 + to.1) / 2.0, held.clone())?;
            self.mouse("mouseMoved", to.0, to.1, held.clone())?;
        }
        self.mouse("mouseReleased", to.0, to.1, held)
    }

    /// A key, by its name in the protocol.
    pub fn key(&mut self, key: &str) -> Result<(), String> {
        self.keys(key, false)
    }

    /// A key, with or without shift.
    pub fn keys(&mut self, key: &str, shift: bool) -> Result<(), String> {
        let text = match key {
            "Enter" => "\r",
            key if key.chars().count() == 1 => key,
            _ => "",
        };
        let code = match key {
            "End" => 35,
            "Home" => 36,
            "ArrowLeft" => 37,
            "ArrowUp" => 38,
            "ArrowRight" => 39,
            "ArrowDown" => 40,
            "Enter" => 13,
            "Escape" => 27,
            "Tab" => 9,
            _ => 0,
        };
        let modifiers = if shift { 8 } else { 0 };
        let event = |kind: &str| json!({ "type": kind, "key": key, "text": text, "windowsVirtualKeyCode": code, "modifiers": modifiers });
        self.call("Input.dispatchKeyEvent", event("keyDown"))?;
        self.call("Input.dispatchKeyEvent", event("keyUp")).map(drop)
    }

    /// A picture of the whole page, also of what the window does not show.
    pub fn whole_picture(&mut self) -> Result<Vec<u8>, String> {
        let size = self.eval("[innerWidth, document.documentElement.scrollHeight]")?;
        let clip = json!({ "x": 0, "y": 0, "width": size[0], "height": size[1], "scale": 1 });
        let wanted = json!({ "format": "png", "captureBeyondViewport": true, "clip": clip });
        let shot = self.call("Page.captureScreenshot", wanted)?;
        decode(shot["data"].as_str().unwrap_or_default()).ok_or_else(|| "not base64".to_owned())
    }

    /// The page on paper, A4, as PDF.
    pub fn paper(&mut self) -> Result<Vec<u8>, String> {
        let size = json!({ "paperWidth": 8.27, "paperHeight": 11.69 });
        let made = self.call("Page.printToPDF", size)?;
        decode(made["data"].as_str().unwrap_or_default()).ok_or_else(|| "not base64".to_owned())
    }

    /// What the page did that it should not: requests other than for itself, messages of the console, exceptions.
    pub fn complaints(&mut self) -> Vec<String> {
        // Whatever is under way comes before the answer to this.
        let _ = self.call("Runtime.evaluate", json!({ "expression": "0" }));
        let bad = |event: &&Value| match event["method"].as_str() {
            Some("Network.requestWillBeSent") => event["params"]["type"] != "Document",
            Some("Runtime.consoleAPICalled" | "Runtime.exceptionThrown") => true,
            Some("Log.entryAdded") => event["params"]["entry"]["level"] == "error",
            _ => false,
        };
        self.events.iter().filter(bad).map(Value::to_string).collect()
    }

    /// A picture of the window as PNG.
    pub fn picture(&mut self) -> Result<Vec<u8>, String> {
        let shot = self.call("Page.captureScreenshot", json!({ "format": "png" }))?;
        decode(shot["data"].as_str().unwrap_or_default()).ok_or_else(|| "not base64".to_owned())
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        self.session.clear();
        let closed = self.to.write_all(b"{\"id\":0,\"method\":\"Browser.close\"}\0").is_ok();
        let until = Instant::now() + Duration::from_secs(10);
        while closed && Instant::now() < until && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn decode(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    let mut bits = 0u32;
    let mut count = 0;
    for c in text.bytes().filter(|c| *c != b'=') {
        let digit = match c {
            b'A'..=b'Z' => c - b'A',
            b'a'..=b'z' => c - b'a' + 26,
            b'0'..=b'9' => c - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = (bits << 6) | u32::from(digit);
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
        }
    }
    Some(out)
}
