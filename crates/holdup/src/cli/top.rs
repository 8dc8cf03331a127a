//! `holdup top`: what the threads of a running program do, on a screen that is refreshed.

use std::io::{self, IsTerminal as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use holdup_record::Target;
use holdup_trace::{Room, Trigger};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::whom::Whom;
use super::{Error, Status, capture, measure, output, stop};
use crate::live::history::History;
use crate::live::{self, Feed};
use crate::report::live::json::Top;
use crate::report::live::screen::{self, Controls};
use crate::report::live::{View, chosen};
use crate::sys::{Keyboard, Keys};

/// Shows where a running program's time goes: the account, locks, threads and findings of the last seconds.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    /// Time between two looks; each shows that much, or up to a second more
    #[arg(long, value_name = "TIME", default_value = "2s")]
    interval: String,
    /// Print one screen after one interval, as plain lines, and end
    #[arg(long)]
    once: bool,
    /// Print the facts of one look as JSON
    #[arg(long, requires = "once")]
    json: bool,
    /// CPU samples per second and CPU; 0 for none
    #[arg(long, value_name = "HZ", default_value_t = 200, value_parser = clap::value_parser!(u32).range(0..=20_000))]
    rate: u32,
    #[command(flatten)]
    whom: Whom,
}

const EXAMPLES: &str = "\
Examples:
  holdup top -p 1234                      a running process
  holdup top -p 12,34                     two of them
  holdup top --cgroup /system.slice/nginx.service
  holdup top --once -p 1234               one screen, for a script or a ticket
  holdup top --once --json -p 1234        its facts (docs/recording-json.md)
  holdup top -- ./server                  starts a program; what it prints is
                                          thrown away

Keys: q quits, p pauses, s sorts threads by lock, CPU, switches, name, / filters
them, the arrows choose one, Enter shows where it left a CPU last, w writes the
last minute as a recording for 'holdup report'. Without a terminal, it prints a
screen after each interval.";

/// What is kept for 'w', and the memory for it.
const LAST: Duration = Duration::from_secs(60);
const MEMORY: usize = 20 << 20;
/// The first screen comes sooner than the others.
const FIRST: Duration = Duration::from_millis(1000);
/// How often keys are looked at.
const KEYS: Duration = Duration::from_millis(100);
/// Lines of a screen without a terminal.
const ROWS: u16 = 48;

/// Watches until the user or the program ends it.
///
/// # Errors
/// Nothing can be recorded, or the terminal does not do what is needed.
pub fn run(options: &Options) -> Result<Status, Error> {
    let interval = measure::limit_of("--interval", Some(&options.interval))?.unwrap_or(LAST);
    if !(Duration::from_millis(100)..=LAST / 2).contains(&interval) {
        return Err(Error::Argument(format!("--interval {}: give a time between 100ms and 30s", options.interval)));
    }
    let target = options.whom.target("top")?;
    let program = capture::name_of(&target);
    let stop = stop::asked()?;
    let room = Room { span_ns: LAST.as_nanos() as u64, bytes: MEMORY };
    let feed = Feed::begin(settings(options, target), room, Duration::MAX, stop).map_err(capture::refused)?;
    let history = History::new(interval.as_secs_f64());
    let mut watch = Watch { feed, history, interval, program, view: View::default(), controls: Controls::default() };
    let shown = match options.once || !io::stdout().is_terminal() {
        true => watch.print(options, stop),
        false => watch.screen(stop),
    };
    let interrupted = stop.swap(true, Ordering::Relaxed);
    let outcome = watch.feed.end().map_err(capture::refused)?;
    outcome.notes.iter().for_each(|note| output::note(format_args!("holdup: {note}")));
    shown?;
    let by_signal = interrupted.then(holdup_record::stopped_by).flatten();
    Ok(by_signal.map_or(Status::Success, |signal| Status::Child(128 + signal)))
}

fn settings(options: &Options, target: Target) -> holdup_record::Options {
    holdup_record::Options {
        sample_hz: options.rate,
        silent: true,
        threads: options.whom.threads(),
        ..holdup_record::Options::new(target, "live")
    }
}

/// A program that is watched.
struct Watch {
    feed: Feed,
    history: History,
    interval: Duration,
    program: String,
    view: View,
    controls: Controls,
}

impl Watch {
    /// One screen as plain lines or as JSON; or one after another until somebody ends it.
    fn print(&mut self, options: &Options, stop: &AtomicBool) -> Result<(), Error> {
        loop {
            let due = Instant::now() + self.interval;
            while Instant::now() < due && !stop.load(Ordering::Relaxed) && !self.feed.has_ended() {
                thread::sleep(KEYS.min(due.saturating_duration_since(Instant::now())));
            }
            let Some(look) = self.feed.look(self.interval) else { return Ok(()) };
            if options.json {
                return output::print(&output::json(&Top::new(&look))?);
            }
            self.history.add(&look.recording.report.facts);
            let columns = u16::try_from(output::style().width).unwrap_or(u16::MAX);
            output::print(&screen::plain(&View::new(&look), &self.history, columns, ROWS))?;
            if options.once || stop.load(Ordering::Relaxed) || self.feed.has_ended() {
                return Ok(());
            }
            output::print("\n")?;
        }
    }

    fn screen(&mut self, stop: &AtomicBool) -> Result<(), Error> {
        self.controls = Controls { keys: true, colour: output::style().colour, ..Controls::default() };
        self.view.context = format!("{}: the first look takes a second ...", self.program);
        let mut terminal = ratatui::try_init().map_err(Error::Output)?;
        let shown = self.show(&mut terminal, stop);
        // Dropped, it would say that on stderr, which may be the terminal that is gone, and abort where that fails.
        if terminal.show_cursor().is_err() {
            std::mem::forget(terminal);
        }
        let restored = ratatui::try_restore();
        shown.and(restored).map_err(Error::Output)
    }

    fn show(&mut self, terminal: &mut DefaultTerminal, stop: &AtomicBool) -> io::Result<()> {
        let mut due = Instant::now() + FIRST.min(self.interval);
        let mut ended = false;
        let keyboard = Keyboard::open();
        while !stop.load(Ordering::Relaxed) {
            terminal.draw(|frame| {
                let area = frame.area();
                screen::draw(&self.view, &self.history, &self.controls, area, frame.buffer_mut());
            })?;
            match keyboard.wait(KEYS.min(due.saturating_duration_since(Instant::now()))) {
                Keys::None => {}
                Keys::Some if self.keys()? => return Ok(()),
                Keys::Some => {}
                Keys::Gone => return Ok(()),
            }
            if !ended && self.feed.has_ended() {
                ended = true;
                self.look();
                self.controls.message = "the program has ended; w writes the last minute, q quits".to_owned();
            }
            if Instant::now() >= due {
                due = Instant::now() + self.interval;
                if !self.controls.paused && !ended {
                    self.look();
                }
            }
        }
        Ok(())
    }

    fn look(&mut self) {
        if let Some(look) = self.feed.look(self.interval) {
            self.history.add(&look.recording.report.facts);
            self.view = View::new(&look);
        }
    }

    /// Does what all keys ask for that were pressed; whether that is to end.
    fn keys(&mut self) -> io::Result<bool> {
        while event::poll(Duration::ZERO)? {
            if let Event::Key(key) = event::read()?
                && key.kind != KeyEventKind::Release
                && self.key(key)
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Does what a key asks for; whether that is to end.
    fn key(&mut self, key: KeyEvent) -> bool {
        let controls = &mut self.controls;
        if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) {
            return true;
        }
        if controls.editing {
            match key.code {
                KeyCode::Enter => controls.editing = false,
                KeyCode::Esc => (controls.editing, controls.filter) = (false, String::new()),
                KeyCode::Backspace => {
                    controls.filter.pop();
                }
                KeyCode::Char(letter) => controls.filter.push(letter),
                _ => {}
            }
            return false;
        }
        controls.message.clear();
        let last = chosen(&self.view, &controls.filter, controls.sort).len().saturating_sub(1);
        match key.code {
            KeyCode::Char('q') => return true,
            KeyCode::Char('p') => controls.paused = !controls.paused,
            KeyCode::Char('s') => controls.sort = controls.sort.next(),
            KeyCode::Char('/') => controls.editing = true,
            KeyCode::Char('w') => self.controls.message = self.write(),
            KeyCode::Up => controls.selected = controls.selected.min(last).saturating_sub(1),
            KeyCode::Down => controls.selected = (controls.selected + 1).min(last),
            KeyCode::PageUp => controls.selected = controls.selected.min(last).saturating_sub(10),
            KeyCode::PageDown => controls.selected = (controls.selected + 10).min(last),
            KeyCode::Enter => controls.open = !controls.open,
            KeyCode::Esc if controls.open => controls.open = false,
            KeyCode::Esc => controls.filter.clear(),
            _ => {}
        }
        false
    }

    /// Writes the last minute; what came of it.
    fn write(&self) -> String {
        let path = capture::free_name(&self.program);
        let Some(extent) = self.feed.extent() else { return "nothing was recorded yet".to_owned() };
        let trigger = Trigger { condition: "key w".to_owned(), time_ns: extent.last_ns, seen: String::new() };
        let Some(bytes) = self.feed.last(LAST, "written by holdup top", Some(trigger)) else {
            return "nothing was recorded yet".to_owned();
        };
        match live::write_new(&path, &bytes) {
            Ok(()) => format!("wrote {}; 'holdup report' shows it", path.display()),
            Err(why) => format!("{}: {why}", path.display()),
        }
    }
}
