//! Pictures of `holdup top` in a real terminal: for people to look at, and for the guide.
//!
//! tmux is the terminal; what it shows, with its colours, becomes a page, and Chromium takes the picture.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::recording::{Bench, output};
use crate::run::root;
use crate::viewer_cost::browser::{self, Browser};

/// Columns and rows.
const SIZES: &[(u32, u32)] = &[(80, 24), (200, 50)];
/// The size that the guide shows.
const GUIDE: (u32, u32) = (80, 24);
/// What runs where no process is named.
const PROGRAM: (&str, &[&str]) = ("sysbench", &["threads", "--threads=8", "--thread-locks=2", "--time=60", "run"]);
/// For the first two looks, with a history.
const LOOKS: Duration = Duration::from_secs(9);
/// Pixels of a character at 14 pixels in the page's font.
const CELL: (f64, f64) = (8.43, 17.0);

/// Takes a picture of each size of the process with the number that is given (of sysbench otherwise); they
/// go to target/top-shots, those of the guide to docs/images.
pub fn write(args: &[String]) -> Result<(), String> {
    let bench = Bench::new("top-shots")?;
    let chromium = browser::find().ok_or("there is no Chromium; HOLDUP_CHROMIUM names one")?;
    let out = root().join("target/top-shots");
    std::fs::create_dir_all(&out).map_err(|why| format!("{}: {why}", out.display()))?;
    let mut browser = Browser::start(&chromium, &bench.folder.join("profile"))?;
    for size in SIZES {
        let own = if args.is_empty() { Some(start()?) } else { None };
        let pid = own.as_ref().map_or_else(|| args[0].clone(), |child| child.0.id().to_string());
        let text = screen(&bench, &pid, *size)?;
        let file = bench.folder.join("screen.html");
        std::fs::write(&file, page(&text)).map_err(|why| format!("{}: {why}", file.display()))?;
        browser.look(pixels(size.0, CELL.0), pixels(size.1, CELL.1), true)?;
        browser.open(&file, "document.fonts.status === 'loaded'")?;
        let picture = browser.picture()?;
        let name = format!("top-{}x{}.png", size.0, size.1);
        keep(&out.join(&name), &picture)?;
        if own.is_some() && *size == GUIDE {
            keep(&root().join("docs/images/top.png"), &picture)?;
        }
    }
    Ok(())
}

/// A child that is ended with this.
struct Own(Child);

impl Drop for Own {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start() -> Result<Own, String> {
    let child = Command::new(PROGRAM.0).args(PROGRAM.1).stdout(Stdio::null()).spawn();
    child.map(Own).map_err(|why| format!("{}: {why}", PROGRAM.0))
}

/// What a terminal of that size shows of `holdup top` after a while, with its colours.
fn screen(bench: &Bench, pid: &str, (columns, rows): (u32, u32)) -> Result<String, String> {
    let tmux = |words: &[&str]| {
        let socket = bench.folder.join("tmux");
        output(Command::new("tmux").arg("-S").arg(socket).args(["-f", "/dev/null"]).args(words))
    };
    let (columns, rows) = (columns.to_string(), rows.to_string());
    let top = format!("{} top -p {pid}", bench.holdup.display());
    tmux(&["new-session", "-d", "-x", &columns, "-y", &rows, &top])?;
    std::thread::sleep(LOOKS);
    let shown = tmux(&["capture-pane", "-e", "-p"]);
    let ended = tmux(&["send-keys", "q"]);
    std::thread::sleep(Duration::from_millis(500));
    // The server ends with its last session, which the key has ended.
    let _ = tmux(&["kill-server"]);
    ended?;
    Ok(String::from_utf8_lossy(&shown?.stdout).into_owned())
}

fn pixels(cells: u32, size: f64) -> u32 {
    (f64::from(cells) * size) as u32 + 24
}

fn page(text: &str) -> String {
    let mut html = String::from(
        "<!doctype html><meta charset=utf-8><style>body{margin:12px;background:#1b1d22;color:#d8dbe0}\
         pre{margin:0;font:14px/17px 'DejaVu Sans Mono',monospace}</style><pre>",
    );
    let mut style = Style::default();
    let mut rest = text;
    while let Some(at) = rest.find("\x1b[") {
        put(&mut html, &rest[..at], &style);
        let code = &rest[at + 2..];
        let end = code.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(code.len());
        if code[end..].starts_with('m') {
            style.set(&code[..end]);
        }
        rest = code.get(end + 1..).unwrap_or_default();
    }
    put(&mut html, rest, &style);
    html + "</pre>"
}

fn put(html: &mut String, text: &str, style: &Style) {
    if text.is_empty() {
        return;
    }
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    let _ = write!(html, "<span style=\"{}\">{text}</span>", style.css());
}

/// How characters look, as the codes before them said (ECMA-48, SGR).
#[derive(Default)]
struct Style {
    bold: bool,
    dim: bool,
    reversed: bool,
    fore: Option<String>,
    back: Option<String>,
}

/// The sixteen colours of a terminal.
const COLOURS: [&str; 16] = [
    "#30343c", "#e06c75", "#98c379", "#e5c07b", "#61afef", "#c678dd", "#56b6c2", "#d8dbe0", "#7b828e", "#ef8a91",
    "#b2d694", "#f0d399", "#85c3f5", "#d599e6", "#7ccad4", "#ffffff",
];

impl Style {
    fn set(&mut self, codes: &str) {
        let mut codes = codes.split([';', ':']).map(|code| code.parse::<usize>().unwrap_or(0));
        while let Some(code) = codes.next() {
            match code {
                0 => *self = Style::default(),
                1 => self.bold = true,
                2 => self.dim = true,
                7 => self.reversed = true,
                22 => (self.bold, self.dim) = (false, false),
                27 => self.reversed = false,
                30..=37 => self.fore = Some(COLOURS[code - 30].to_owned()),
                90..=97 => self.fore = Some(COLOURS[code - 82].to_owned()),
                40..=47 => self.back = Some(COLOURS[code - 40].to_owned()),
                100..=107 => self.back = Some(COLOURS[code - 92].to_owned()),
                38 => self.fore = extended(&mut codes),
                48 => self.back = extended(&mut codes),
                39 => self.fore = None,
                49 => self.back = None,
                _ => {}
            }
        }
    }

    fn css(&self) -> String {
        let (mut fore, mut back) = (self.fore.clone(), self.back.clone());
        if self.reversed {
            let (was, behind) = (fore, back);
            fore = Some(behind.unwrap_or_else(|| "#1b1d22".to_owned()));
            back = Some(was.unwrap_or_else(|| "#d8dbe0".to_owned()));
        }
        let mut css = String::new();
        for (name, value) in [("color", fore), ("background", back)] {
            let _ = value.map(|value| write!(css, "{name}:{value};"));
        }
        css.push_str(if self.bold { "font-weight:bold;" } else { "" });
        css.push_str(if self.dim { "opacity:0.6;" } else { "" });
        css
    }
}

/// A colour of 256, or by its parts.
fn extended(codes: &mut impl Iterator<Item = usize>) -> Option<String> {
    let part = |value: usize| if value == 0 { 0 } else { 55 + 40 * value };
    match codes.next()? {
        5 => Some(match codes.next()? {
            code @ 0..=15 => COLOURS[code].to_owned(),
            code @ 16..=231 => {
                let code = code - 16;
                format!("rgb({},{},{})", part(code / 36), part(code / 6 % 6), part(code % 6))
            }
            code => format!("rgb({0},{0},{0})", 8 + 10 * code.saturating_sub(232)),
        }),
        2 => Some(format!("rgb({},{},{})", codes.next()?, codes.next()?, codes.next()?)),
        _ => None,
    }
}

fn keep(file: &Path, bytes: &[u8]) -> Result<(), String> {
    std::fs::write(file, bytes).map_err(|why| format!("{}: {why}", file.display()))?;
    eprintln!("{}", file.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_of_a_terminal_become_colours_of_a_page() {
        let html = page("a<b\x1b[1;31mred\x1b[0m\x1b[38;5;196mbright\x1b[39;7mback\x1b[K");
        for part in ["a&lt;b", "color:#e06c75;font-weight:bold;\">red<", "color:rgb(255,0,0);\">bright<", "\">back<"] {
            assert!(html.contains(part), "{part}: {html}");
        }
        assert!(html.contains("color:#1b1d22;background:#d8dbe0;"), "{html}");
    }
}
