// What lies over the rows: grid, words in long stretches, wake-up arrows, markers, the marked stretch, lost events.

import { OUTSIDE, piecesIn, type Exact } from "./tracks";
import { ROW, type Shown } from "./shown";

/** Arrows that are drawn at most; more would hide the rows. */
const MOST_ARROWS = 400;
/** Pieces looked at for arrows and words, per row. */
const MOST_PIECES = 1500;

/** Round steps of time, at most one per 110 pixels. */
export function ticks(from: number, to: number, width: number): { step: number; times: number[] } {
  const least = ((to - from) * 110) / Math.max(1, width);
  const power = 10 ** Math.floor(Math.log10(Math.max(1, least)));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((each) => each >= least) ?? power * 10;
  const times: number[] = [];
  for (let time = Math.ceil(from / step) * step; time <= to && times.length < 100; time += step) times.push(time);
  return { step, times };
}

export function drawOverlay(
  context: CanvasRenderingContext2D,
  line: Shown,
  width: number,
  height: number,
  scroll: number,
): void {
  const style = getComputedStyle(line.root);
  const colour = (name: string) => style.getPropertyValue(name);
  context.fillStyle = colour("--grid");
  for (const time of ticks(line.from, line.to, width).times) context.fillRect(Math.round(line.xOf(time)), 0, 1, height);
  lost(context, line, height, colour("--bad"));
  const first = Math.max(0, Math.floor(scroll / ROW));
  const last = Math.min(line.rows.length, Math.ceil((scroll + height) / ROW));
  const top = new Map<number, number>();
  for (let index = first; index < last; index++) {
    const row = line.rows[index];
    if (row?.kind !== "thread") continue;
    top.set(row.index, index * ROW - scroll);
    if (row.index === line.selected) {
      context.fillStyle = colour("--accent");
      context.fillRect(0, index * ROW - scroll, width, 1);
      context.fillRect(0, index * ROW - scroll + ROW - 1, width, 1);
    }
  }
  words(context, line, width, top, colour("--on-bar"));
  if (line.arrows) arrows(context, line, top, colour("--ink"));
  selection(context, line, height, colour("--accent"));
  const marked = line.marked;
  const y = marked ? top.get(marked.thread) : undefined;
  if (marked && y !== undefined) {
    const x = line.xOf(marked.from);
    context.strokeStyle = colour("--ink");
    context.lineWidth = 2;
    context.strokeRect(x - 1, y + 2, Math.max(2, line.xOf(marked.to) - x) + 2, ROW - 4);
  }
  if (line.cursor !== null) {
    context.fillStyle = colour("--soft");
    context.fillRect(Math.round(line.xOf(line.cursor)), 0, 1, height);
  }
}

/** Hatched from the first to the last lost event: figures of that time are too low. */
function lost(context: CanvasRenderingContext2D, line: Shown, height: number, colour: string): void {
  for (const { from_ns: from, to_ns: to } of line.view.lost) {
    const left = Math.max(-10, line.xOf(from));
    const right = Math.min(context.canvas.width, Math.max(line.xOf(to), line.xOf(from) + 2));
    if (right < 0 || left > context.canvas.width) continue;
    context.save();
    context.beginPath();
    context.rect(left, 0, right - left, height);
    context.clip();
    context.strokeStyle = colour;
    context.globalAlpha = 0.25;
    context.lineWidth = 1;
    context.beginPath();
    for (let x = Math.floor((left - height) / 12) * 12; x < right; x += 12) {
      context.moveTo(x, height);
      context.lineTo(x + height, 0);
    }
    context.stroke();
    context.restore();
  }
}

/** The pieces of the rows that are shown, unless a row has more of them than can be told apart. */
function eachPiece(
  line: Shown,
  top: Map<number, number>,
  visit: (exact: Exact, piece: number, thread: number, y: number) => void,
): void {
  for (const [thread, y] of top) {
    const exact = line.tracks.all[thread]?.exact;
    if (!exact) continue;
    const { begin, end } = piecesIn(exact, line.from, line.to);
    if (end - begin > MOST_PIECES) continue;
    for (let piece = begin; piece < end; piece++) visit(exact, piece, thread, y);
  }
}

/** What a stretch is, where there is room for it. */
function words(
  context: CanvasRenderingContext2D,
  line: Shown,
  width: number,
  top: Map<number, number>,
  colour: string,
): void {
  context.font = "10.5px system-ui, sans-serif";
  context.textBaseline = "middle";
  context.fillStyle = colour;
  const widths = new Map<string, number>();
  eachPiece(line, top, (exact, piece, _, y) => {
    const state = line.view.states[exact.states[piece] as number];
    if (!state || state.group === "sleeping") return;
    const left = Math.max(0, line.xOf(exact.starts[piece] as number));
    const room = Math.min(width, line.xOf(exact.starts[piece + 1] as number)) - left - 8;
    if (room < 40) return;
    // The colour says that it is a wait: for what it waits is worth more of the room.
    const label = state.group.startsWith("waiting") ? state.label.replace(/^waits (for|on) /, "") : state.label;
    const wide = widths.get(label) ?? context.measureText(label).width;
    widths.set(label, wide);
    const letters = Math.floor((label.length * room) / wide);
    const text = wide <= room ? label : letters > 6 ? `${label.slice(0, letters - 2)}\u2026` : "";
    context.fillText(text, left + 4, y + 13);
  });
}

/** From who woke to who was woken. */
function arrows(context: CanvasRenderingContext2D, line: Shown, top: Map<number, number>, colour: string): void {
  const found: [number, number, number, boolean][] = [];
  const add = (time: number, waker: number, woken: number) => {
    const to = top.get(woken);
    const from = top.get(waker - OUTSIDE - 1);
    if (to === undefined || from === undefined || from === to || time < line.from || time > line.to) return;
    found.push([
      line.xOf(time),
      from + ROW / 2,
      to + (from < to ? 3 : ROW - 5),
      woken === line.selected || waker - OUTSIDE - 1 === line.selected,
    ]);
  };
  eachPiece(line, top, (exact, piece, thread) => {
    const waker = exact.wakers[piece] as number;
    if (waker > OUTSIDE) add(exact.starts[piece] as number, waker, thread);
  });
  for (const { time, waker, woken } of line.tracks.loose.length <= 100_000 ? line.tracks.loose : [])
    if (waker > OUTSIDE) add(time, waker, woken);
  if (found.length > MOST_ARROWS) return;
  context.strokeStyle = context.fillStyle = colour;
  context.lineWidth = 1;
  for (const [x, from, to, strong] of found) {
    const down = to > from ? 1 : -1;
    context.globalAlpha = strong ? 0.95 : 0.55;
    context.beginPath();
    context.moveTo(x + 0.5, from);
    context.lineTo(x + 0.5, to - down * 4);
    context.stroke();
    context.beginPath();
    context.moveTo(x + 0.5, to);
    context.lineTo(x - 2.5, to - down * 5);
    context.lineTo(x + 3.5, to - down * 5);
    context.fill();
  }
  context.globalAlpha = 1;
}

function selection(context: CanvasRenderingContext2D, line: Shown, height: number, colour: string): void {
  context.fillStyle = colour;
  const between = line.selection();
  if (between) {
    const [from, to] = between.map((time) => line.xOf(time)) as [number, number];
    context.globalAlpha = 0.1;
    context.fillRect(from, 0, to - from, height);
    context.globalAlpha = 1;
  }
  for (const time of [line.a, line.b])
    if (time !== null) context.fillRect(Math.round(line.xOf(time)) - 0.5, 0, 1.5, height);
}
