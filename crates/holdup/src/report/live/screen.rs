//! The screen in cells: the same on a terminal and, as plain lines, without one.

use holdup_analyze::{Account, AccountState};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget as _;

use super::super::number;
use super::super::recording::account::{self, CHARACTERS};
use super::{LockRow, Sort, ThreadRow, View, chosen};
use crate::live::history::{History, Point};
use crate::text;

/// What the user has chosen.
#[derive(Clone, Debug, Default)]
pub struct Controls {
    /// The screen stands still.
    pub paused: bool,
    /// By what threads are sorted.
    pub sort: Sort,
    /// What threads must have in their name or state.
    pub filter: String,
    /// The filter is being written.
    pub editing: bool,
    /// Which of the threads shown is chosen.
    pub selected: usize,
    /// Its call path is shown.
    pub open: bool,
    /// What the user should know.
    pub message: String,
    /// Whether colours may be used.
    pub colour: bool,
    /// Whether there are keys: a last line says which.
    pub keys: bool,
}

/// Columns of a thread's bar.
const BAR: usize = 16;
/// Columns of a thread's name.
const NAME: usize = 22;
/// Lines of findings at most.
const FINDINGS: usize = 3;
const LEVELS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const KEYS: &str = "q quit  p pause  s sort  / filter  w write last minute  arrows, Enter call path";

/// Puts it into the cells of this area.
pub fn draw(view: &View, history: &History, controls: &Controls, area: Rect, buffer: &mut Buffer) {
    let width = usize::from(area.width);
    let mut lines = head(view, history, controls, width);
    let room = usize::from(area.height).saturating_sub(lines.len() + usize::from(controls.keys));
    lines.extend(findings(view, controls, width, room));
    let room = usize::from(area.height).saturating_sub(lines.len() + usize::from(controls.keys));
    lines.extend(locks(view, controls, width, room / 2));
    let room = usize::from(area.height).saturating_sub(lines.len() + usize::from(controls.keys));
    lines.extend(threads(view, controls, width, room));
    let last = area.height.saturating_sub(1);
    let body = if controls.keys { last } else { area.height };
    for (y, line) in (0..body).zip(lines) {
        line.render(Rect { y: area.y + y, height: 1, ..area }, buffer);
    }
    if controls.keys {
        foot(controls, width).render(Rect { y: area.y + last, height: 1, ..area }, buffer);
    }
}

/// The same as plain lines, so wide and at most so high.
pub fn plain(view: &View, history: &History, columns: u16, rows: u16) -> String {
    let area = Rect::new(0, 0, columns, rows);
    let mut buffer = Buffer::empty(area);
    draw(view, history, &Controls::default(), area, &mut buffer);
    let line = |y| {
        let cells = (0..columns).filter_map(|x| buffer.cell((x, y)));
        let line: String = cells.map(ratatui::buffer::Cell::symbol).collect();
        line.trim_end().to_owned()
    };
    let lines: Vec<String> = (0..rows).map(line).collect();
    format!("{}\n", lines.join("\n").trim_end())
}

fn head(view: &View, history: &History, controls: &Controls, width: usize) -> Vec<Line<'static>> {
    let mut lines: Vec<Line<'static>> = Vec::new();
    for (at, line) in text::wrap(&view.context, width, 0).lines().take(3).enumerate() {
        let style = if at == 0 { bold(controls) } else { Style::default() };
        lines.push(Line::styled(line.to_owned(), style));
    }
    lines.push(bar(&view.account, width.saturating_sub(2), controls));
    let words = text::wrap(&account::words(&view.account), width, 0);
    lines.extend(words.lines().take(2).map(|line| Line::from(line.to_owned())));
    lines.push(sparks(history, width));
    lines
}

/// A figure of a look, and how its most is printed.
type Figure = (&'static str, fn(&Point) -> f64, fn(f64) -> String);

/// How three figures went over the last minute.
fn sparks(history: &History, width: usize) -> Line<'static> {
    let figures: [Figure; 3] = [
        ("CPUs", |point| point.cpus, |most| format!("{most:.2}")),
        ("locks", |point| point.locks, number::percent),
        ("switches/s", |point| point.switches, |most| number::count(most.round())),
    ];
    let columns = (width.saturating_sub(44) / 3).clamp(4, 60);
    let spark = |(name, figure, print): Figure| {
        let (levels, most) = history.levels(columns, LEVELS.len() as u64 - 1, figure);
        let drawn: String = levels.iter().filter_map(|level| LEVELS.get(*level as usize)).collect();
        format!("{name} {drawn} to {}", print(most))
    };
    Line::from(format!("last minute: {}", figures.map(spark).join("  ")))
}

fn findings(view: &View, controls: &Controls, width: usize, room: usize) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    for finding in view.findings.iter().take(FINDINGS) {
        let style = if view.has_findings { ink(Color::Red, controls) } else { Style::default() };
        let wrapped = text::wrap(finding, width.saturating_sub(2), 0);
        for (at, line) in wrapped.lines().take(2).enumerate() {
            let mark = if at == 0 { "* " } else { "  " };
            lines.push(Line::from(vec![Span::styled(mark, style), Span::raw(line.to_owned())]));
        }
    }
    // Locks and threads keep most of a low screen.
    lines.truncate((room / 4).max(2));
    lines
}

fn locks(view: &View, controls: &Controls, width: usize, room: usize) -> Vec<Line<'static>> {
    let heading = format!("{:>5} {:>8} {:>8} {:>7}  lock", "lost", "waits/s", "longest", "waiting");
    let mut lines = vec![Line::styled(heading, bold(controls))];
    if view.locks.is_empty() {
        lines.push(Line::from("      no thread had to wait for a lock"));
    }
    let rows = view.locks.iter().take(room.saturating_sub(2).max(1));
    lines.extend(rows.map(|lock| lock_line(lock, width)));
    lines.push(Line::default());
    lines
}

fn lock_line(lock: &LockRow, width: usize) -> Line<'static> {
    let waiting = match lock.waiters.len() {
        0 => "-".to_owned(),
        count => count.to_string(),
    };
    let mut what = lock.name.clone();
    if let Some((_, ns)) = lock.waiters.first() {
        what += &format!(" for {}", number::time_ns(*ns as f64));
    }
    if !lock.holder.is_empty() {
        what += &format!(" <- {}", lock.holder);
    }
    if let Some(place) = lock.place.as_ref().filter(|place| !what.contains(place.as_str())) {
        what += &format!(", in {place}");
    }
    let figures = format!(
        "{:>5} {:>8} {:>8} {:>7}  ",
        number::percent(lock.lost),
        number::count(lock.waits_per_s.round()),
        number::time_ns(lock.longest_ns as f64),
        waiting
    );
    Line::from(text::cut(&(figures + &what), width))
}

fn threads(view: &View, controls: &Controls, width: usize, room: usize) -> Vec<Line<'static>> {
    let rows = chosen(view, &controls.filter, controls.sort);
    let heading = format!(
        "{} {} {:>4} {:>4} {:>7}  now",
        text::left(&format!("thread (by {})", controls.sort.name()), NAME),
        text::left("time", BAR + 2),
        "CPU",
        "lock",
        "sw/s"
    );
    let mut lines = vec![Line::styled(text::cut(&heading, width), bold(controls))];
    let selected = controls.selected.min(rows.len().saturating_sub(1));
    if controls.open
        && let Some(row) = rows.get(selected)
    {
        lines.push(thread_line(row, width, true, controls));
        lines.extend(opened(row, width));
        return lines;
    }
    let shown = room.saturating_sub(1).max(1);
    let first = (selected + 1).saturating_sub(shown);
    for (at, row) in rows.iter().enumerate().skip(first).take(shown) {
        lines.push(thread_line(row, width, controls.keys && at == selected, controls));
    }
    if rows.is_empty() {
        lines.push(Line::from("  no thread"));
    }
    lines
}

fn thread_line(row: &ThreadRow, width: usize, selected: bool, controls: &Controls) -> Line<'static> {
    let percent = |share: f64| if share == 0.0 { "-".to_owned() } else { number::percent(share) };
    let cpu = row.account.share(AccountState::Running) + row.account.share(AccountState::Spinning);
    let name = text::left(&text::cut(&row.name, NAME), NAME);
    let style = if selected { Style::default().add_modifier(Modifier::REVERSED) } else { Style::default() };
    let mut spans = vec![Span::styled(name, style), Span::raw(" ")];
    spans.extend(bar(&row.account, BAR, controls).spans);
    let rest = format!(
        " {:>4} {:>4} {:>7}  {}",
        percent(cpu),
        percent(row.account.share(AccountState::Lock)),
        number::count(row.switches_per_s.round()),
        row.now
    );
    spans.push(Span::raw(text::cut(&rest, width.saturating_sub(NAME + BAR + 3))));
    Line::from(spans)
}

/// Where a thread left a CPU last, and where it runs.
fn opened(row: &ThreadRow, width: usize) -> Vec<Line<'static>> {
    let mut lines = vec![Line::from("  left a CPU last in")];
    if row.call_path.is_empty() {
        lines.push(Line::from("    a place that is not known"));
    }
    lines.extend(row.call_path.iter().map(|frame| Line::from(text::cut(&format!("    {frame}"), width))));
    if let Some(place) = &row.runs_in {
        lines.push(Line::from(text::cut(&format!("  runs mostly in {place}"), width)));
    }
    lines
}

/// `[####====....]`, each state with its character and colour.
fn bar(account: &Account, columns: usize, controls: &Controls) -> Line<'static> {
    let mut spans = vec![Span::raw("[")];
    let (mut told, mut drawn) = (0.0, 0);
    for (state, character) in CHARACTERS {
        told += account.share(state);
        let until = ((told * columns as f64).round() as usize).min(columns);
        let part: String = std::iter::repeat_n(character, until.saturating_sub(drawn)).collect();
        drawn = drawn.max(until);
        spans.push(Span::styled(part, ink(colour(state), controls)));
    }
    spans.push(Span::raw(format!("{}]", " ".repeat(columns - drawn))));
    Line::from(spans)
}

fn foot(controls: &Controls, width: usize) -> Line<'static> {
    let mut left = if controls.paused { "PAUSED  ".to_owned() } else { String::new() };
    if controls.editing {
        left += &format!("filter: {}_  (Enter keeps it, Esc clears it)", controls.filter);
    } else if !controls.message.is_empty() {
        left += &controls.message;
    } else {
        if !controls.filter.is_empty() {
            left += &format!("filter: {}  ", controls.filter);
        }
        left += if controls.open { "Enter or Esc closes  q quit  p pause" } else { KEYS };
    }
    Line::styled(text::cut(&text::clean(&left), width), bold(controls))
}

fn colour(state: AccountState) -> Color {
    match state {
        AccountState::Running => Color::Green,
        AccountState::Spinning => Color::LightYellow,
        AccountState::CpuOwn | AccountState::CpuOther => Color::Yellow,
        AccountState::Lock => Color::Red,
        AccountState::Barrier => Color::Blue,
        AccountState::Io => Color::Magenta,
        AccountState::Memory => Color::Cyan,
        AccountState::Work | AccountState::Sleep | AccountState::Unknown => Color::DarkGray,
    }
}

fn ink(colour: Color, controls: &Controls) -> Style {
    if controls.colour { Style::default().fg(colour) } else { Style::default() }
}

fn bold(controls: &Controls) -> Style {
    if controls.keys { Style::default().add_modifier(Modifier::BOLD) } else { Style::default() }
}
