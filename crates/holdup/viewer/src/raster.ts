// One row of the timeline as three lines of pixels: what ran (top), everything (middle), switches (strip below).
// Each pixel is the mixture of what happened in its time, so that zooming out blurs but hides nothing.

import type { StateRow } from "../report";
import type { Palette, Rgb } from "./palette";
import {
  BUCKET_BYTES,
  firstAt,
  pieceAt,
  type Exact,
  type PathPiece,
  type Level,
  type Track,
  type Tracks,
} from "./tracks";

export interface Lines {
  top: Uint32Array;
  middle: Uint32Array;
  strip: Uint32Array;
}

export function lines(width: number): Lines {
  return { top: new Uint32Array(width), middle: new Uint32Array(width), strip: new Uint32Array(width) };
}

/** Pixels as ImageData has them on a little-endian machine, which all of today's browsers run on. */
export function pack(red: number, green: number, blue: number): number {
  return (0xff000000 | (blue << 16) | (green << 8) | red) >>> 0;
}

export function packed(colour: Rgb): number {
  return pack(colour[0], colour[1], colour[2]);
}

function mix(over: Rgb, share: number, under: Rgb): Rgb {
  const at = (i: 0 | 1 | 2) => Math.round(over[i] * share + under[i] * (1 - share));
  return [at(0), at(1), at(2)];
}

export interface Window {
  from: number;
  to: number;
  width: number;
}

export class Raster {
  private readonly running: boolean[];
  private readonly tones: Float64Array;
  private readonly tops: Float64Array;
  private readonly flatTop: Uint32Array;
  private readonly flatMiddle: Uint32Array;
  private readonly empty: number;
  private readonly greens: Uint32Array;
  private switches = new Uint32Array(0);

  constructor(
    private readonly tracks: Tracks,
    private readonly colours: Palette,
    states: StateRow[],
    dim: ReadonlySet<number> | null,
  ) {
    const tone = (colour: Rgb, index: number): Rgb =>
      dim && !dim.has(index) ? mix(colour, 0.18, colours.row) : colour;
    const shades = colours.states.map(tone);
    this.running = states.map((state) => state.group === "running");
    this.tones = Float64Array.from(shades.flat());
    const tops = shades.map((shade, i) => (this.running[i] ? shade : colours.row));
    this.tops = Float64Array.from(tops.flat());
    this.flatTop = Uint32Array.from(tops.map(packed));
    this.flatMiddle = Uint32Array.from(shades.map(packed));
    this.empty = packed(colours.row);
    this.greens = Uint32Array.from({ length: 256 }, (_, i) =>
      i === 0 ? this.empty : packed(mix(colours.switch, 0.25 + 0.75 * (i / 255), colours.row)),
    );
  }

  /** Draws a row; tells how many switches a pixel has on average, or -1 if only a summary was at hand. */
  row(track: Track, window: Window, out: Lines): number {
    out.top.fill(this.empty);
    out.middle.fill(this.empty);
    out.strip.fill(this.empty);
    if (this.switches.length < window.width) this.switches = new Uint32Array(window.width);
    this.switches.fill(0);
    const level = this.level(track, window);
    if (level) {
      this.summary(level, window, out);
      return -1;
    }
    return track.exact ? this.exact(track.exact, window, out) : 0;
  }

  /** Draws the critical path: what took most of each pixel. */
  path(window: Window, out: Lines): void {
    out.top.fill(this.empty);
    out.middle.fill(this.empty);
    out.strip.fill(this.empty);
    const { path } = this.tracks;
    const scale = window.width / (window.to - window.from);
    let piece = Math.max(
      0,
      firstAt(path, window.from, (one) => one.to),
    );
    for (; piece < path.length; piece++) {
      const { from, to, leaf } = path[piece] as PathPiece;
      if (from >= window.to) break;
      const colour = packed(this.colours.leaves[leaf] ?? this.colours.unknown);
      const begin = Math.max(0, Math.round((from - window.from) * scale));
      const end = Math.min(window.width, Math.max(begin + 1, Math.round((to - window.from) * scale)));
      out.middle.fill(colour, begin, end);
      out.top.fill(colour, begin, end);
    }
  }

  /** The summary to draw: none where the events themselves are few enough. */
  private level(track: Track, window: Window): Level | null {
    const span = this.tracks.view.end_ns - this.tracks.view.start_ns;
    const pixel = (window.to - window.from) / window.width;
    const finest = track.levels[track.levels.length - 1];
    if (!finest) return null;
    if (track.exact && span / finest.buckets > pixel) return null;
    return track.levels.find((level) => span / level.buckets <= pixel) ?? finest;
  }

  private summary(level: Level, window: Window, out: Lines): void {
    const { start_ns: start, end_ns: end } = this.tracks.view;
    const bytes = this.tracks.summaries;
    const perNs = level.buckets / (end - start);
    const { row, ready: without, unknown, states } = this.colours;
    const run = this.colours.running[0] as Rgb;
    for (let x = 0; x < window.width; x++) {
      const from = window.from + ((window.to - window.from) * x) / window.width;
      const to = window.from + ((window.to - window.from) * (x + 1)) / window.width;
      const first = Math.max(0, Math.floor((from - start) * perNs));
      const last = Math.min(level.buckets, Math.max(first + 1, Math.floor((to - start) * perNs)));
      if (first >= last) continue;
      let running = 0,
        ready = 0,
        off = 0,
        changes = 0,
        red = 0,
        green = 0,
        blue = 0;
      for (let bucket = first; bucket < last; bucket++) {
        const at = level.at + bucket * BUCKET_BYTES;
        running += bytes[at] as number;
        ready += bytes[at + 1] as number;
        changes = Math.max(changes, bytes[at + 6] as number);
        for (const kind of [0, 1]) {
          const share = bytes[at + 2 + kind] as number;
          const colour = states[bytes[at + 4 + kind] as number] ?? unknown;
          off += share;
          red += colour[0] * share;
          green += colour[1] * share;
          blue += colour[2] * share;
        }
      }
      const all = 255 * (last - first);
      const known = Math.min(1, (running + ready + off) / all);
      const scale = known > 0 ? known / (running + ready + off) : 0;
      const rest = 1 - known;
      const channel = (i: 0 | 1 | 2, sum: number) =>
        (run[i] * running + without[i] * ready + sum) * scale + row[i] * rest;
      out.middle[x] = pack(channel(0, red), channel(1, green), channel(2, blue));
      const share = Math.min(1, running / all);
      out.top[x] = packed(mix(run, share, row));
      out.strip[x] = this.greens[Math.min(255, changes * 2)] as number;
    }
  }

  private exact(track: Exact, window: Window, out: Lines): number {
    const { starts, states, count } = track;
    const { tones, tops, switches, running } = this;
    const scale = window.width / (window.to - window.from);
    let piece = Math.max(0, pieceAt(track, window.from));
    let seen = 0;
    let column = -1,
      red = 0,
      green = 0,
      blue = 0,
      tr = 0,
      tg = 0,
      tb = 0,
      filled = 0;
    const flush = () => {
      if (column < 0 || filled <= 0) return;
      const rest = Math.max(0, 1 - filled);
      const { row } = this.colours;
      out.middle[column] = pack(red + row[0] * rest, green + row[1] * rest, blue + row[2] * rest);
      out.top[column] = pack(tr + row[0] * rest, tg + row[1] * rest, tb + row[2] * rest);
      red = green = blue = tr = tg = tb = filled = 0;
    };
    for (; piece < count; piece++) {
      const from = Math.max(0, ((starts[piece] as number) - window.from) * scale);
      const end = ((starts[piece + 1] as number) - window.from) * scale;
      if (from >= window.width) break;
      const to = Math.min(window.width, end);
      const state = states[piece] as number;
      if (end < window.width && end >= 0 && running[state] && piece + 1 < count) {
        seen++;
        switches[end | 0] = (switches[end | 0] as number) + 1;
      }
      let at = from;
      while (at < to) {
        const x = at | 0;
        if (x !== column) {
          flush();
          column = x;
        }
        if (at === x && to >= x + 1) {
          // Whole pixels of one state.
          const whole = to | 0;
          out.middle.fill(this.flatMiddle[state] as number, x, whole);
          out.top.fill(this.flatTop[state] as number, x, whole);
          at = whole;
          continue;
        }
        const part = Math.min(to, x + 1) - at;
        const i = state * 3;
        red += (tones[i] as number) * part;
        green += (tones[i + 1] as number) * part;
        blue += (tones[i + 2] as number) * part;
        tr += (tops[i] as number) * part;
        tg += (tops[i + 1] as number) * part;
        tb += (tops[i + 2] as number) * part;
        filled += part;
        at = Math.min(to, x + 1);
      }
    }
    flush();
    const density = seen / window.width;
    this.mark(out, window.width, density);
    return density;
  }

  /** Every switch a thin green line; where there are too many of them, their density in the strip alone. */
  private mark(out: Lines, width: number, density: number): void {
    const strength = Math.max(0, Math.min(1, (0.35 - density) / 0.25));
    const line = packed(this.colours.switch);
    for (let x = 0; x < width; x++) {
      const hits = this.switches[x] as number;
      if (hits === 0) continue;
      out.strip[x] = this.greens[Math.min(255, 90 + Math.round(Math.log2(hits + 1) * 24))] as number;
      if (strength >= 1) {
        out.top[x] = out.middle[x] = line;
      } else if (strength > 0) {
        out.top[x] = blend(out.top[x] as number, this.colours.switch, strength);
        out.middle[x] = blend(out.middle[x] as number, this.colours.switch, strength);
      }
    }
  }
}

function blend(under: number, over: Rgb, share: number): number {
  const part = (shift: number, value: number) => Math.round(((under >> shift) & 255) * (1 - share) + value * share);
  return pack(part(0, over[0]), part(8, over[1]), part(16, over[2]));
}
