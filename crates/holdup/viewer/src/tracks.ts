// A thread's row: summaries at several levels, and exactly what it did when, as columns.

import { blob } from "./data";
import type { ThreadRow, View } from "../report";

/** As in track.rs: running, runnable, lock, blocked, the state off CPU, and the switches as a logarithm. */
export const BUCKET_BYTES = 6;
export const NO_WAKER = 0;
export const OUTSIDE = 1;

export interface Level {
  buckets: number;
  at: number;
}

/** What a thread did, exactly: piece i lasts from starts[i] to starts[i + 1]. */
export interface Exact {
  count: number;
  starts: Float64Array;
  states: Uint16Array;
  wakers: Uint32Array;
}

export interface Track {
  index: number;
  row: ThreadRow;
  levels: Level[];
  exact: Exact | null;
}

export interface Loose {
  time: number;
  waker: number;
  woken: number;
}

class Numbers {
  private at = 0;
  constructor(private readonly bytes: Uint8Array) {}

  get more(): boolean {
    return this.at < this.bytes.length;
  }

  /** So many numbers as planes: how many bytes each has, then the lowest byte of all, then the next of all. */
  planes(count: number): Float64Array {
    const values = new Float64Array(count);
    const { bytes } = this;
    for (let left = this.next(), scale = 1; left > 0; left--, scale *= 256) {
      for (let i = 0; i < count; i++) values[i] = (values[i] as number) + (bytes[this.at + i] ?? 0) * scale;
      this.at += count;
    }
    return values;
  }

  next(): number {
    const bytes = this.bytes;
    let byte = bytes[this.at++] ?? 0;
    if (byte < 0x80) return byte;
    let value = byte & 0x7f;
    let scale = 128;
    do {
      byte = bytes[this.at++] ?? 0;
      value += (byte & 0x7f) * scale;
      scale *= 128;
    } while (byte >= 0x80);
    return value;
  }
}

/** The pieces in order of their states and then of time, and how many each state has that occurs. */
function byState(states: Uint16Array): { order: Uint32Array; counts: number[] } {
  const next: number[] = [];
  for (const state of states) next[state] = (next[state] ?? 0) + 1;
  const counts = next.filter(() => true);
  let sum = 0;
  next.forEach((many, state) => {
    next[state] = sum;
    sum += many;
  });
  const order = new Uint32Array(states.length);
  states.forEach((state, piece) => {
    const at = next[state] as number;
    order[at] = piece;
    next[state] = at + 1;
  });
  return { order, counts };
}

function exact(bytes: Uint8Array): Exact {
  const numbers = new Numbers(bytes);
  const count = numbers.next();
  const starts = new Float64Array(count + 1);
  const states = new Uint16Array(count);
  const wakers = new Uint32Array(count);
  starts[0] = numbers.next();
  for (let i = 0; i < count; i++) states[i] = numbers.next();
  // Lengths and wakers come state by state: alike ones stand together, which makes them small.
  const { order, counts } = byState(states);
  let at = 0;
  for (const many of counts) {
    const lengths = numbers.planes(many);
    for (let i = 0; i < many; i++) starts[(order[at + i] as number) + 1] = lengths[i] as number;
    at += many;
  }
  for (let i = 0; i < count; i++) wakers[order[i] as number] = numbers.next();
  for (let i = 0; i < count; i++) starts[i + 1] = (starts[i + 1] as number) + (starts[i] as number);
  return { count, starts, states, wakers };
}

/** The first of the pieces that the window shows, and one behind the last. */
export function piecesIn(track: Exact, from: number, to: number): { begin: number; end: number } {
  return { begin: Math.max(0, pieceAt(track, from)), end: Math.min(track.count, pieceAt(track, to) + 1) };
}

/** Index of the piece that lasts at that moment; -1 before the first, count after the last. */
export function pieceAt(track: Exact, time: number): number {
  let low = 0;
  let high = track.count + 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((track.starts[middle] as number) <= time) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

export class Tracks {
  readonly all: Track[];
  summaries = new Uint8Array(0);
  loose: Loose[] = [];
  /** How many rows are exact already. */
  ready = 0;

  constructor(readonly view: View) {
    let at = 0;
    this.all = view.threads.map((row, index) => {
      const levels = row.levels.map((buckets) => {
        const level = { buckets, at };
        at += buckets * BUCKET_BYTES;
        return level;
      });
      return { index, row, levels, exact: null };
    });
  }

  /** The summaries first, so that there is something to see; then row by row, with room for the page in between. */
  async load(seen: () => void): Promise<void> {
    this.summaries = new Uint8Array(await blob("summaries"));
    seen();
    for (const track of this.all) {
      track.exact = exact(await blob(`track-${track.index}`));
      this.ready++;
      seen();
      await new Promise((resume) => setTimeout(resume, 0));
    }
    const numbers = new Numbers(await blob("wakes"));
    let time = 0;
    while (numbers.more) {
      time += numbers.next();
      this.loose.push({ time, waker: numbers.next(), woken: numbers.next() });
    }
    seen();
  }
}
