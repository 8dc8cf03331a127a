// A thread's row: summaries at several levels, and exactly what it did when, as columns.

import { blob } from "./data";
import type { Role, ThreadRow, View } from "../report";

/**
 * As in track.rs: running, without a CPU, waiting for locks, otherwise off the CPU, the states that took most of the
 * latter two, and the switches as a logarithm.
 */
export const BUCKET_BYTES = 7;
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
  /** Which state on which call path: index of the view's kinds. */
  kinds: Uint16Array;
  wakers: Uint32Array;
}

/** A piece of the critical path: what, by the view's leaves, and whose; -1 if nobody's. */
export interface PathPiece {
  from: number;
  to: number;
  leaf: number;
  thread: number;
}

/** The CPU samples, in order of time. */
export interface Samples {
  times: Float64Array;
  threads: Uint32Array;
  paths: Uint32Array;
}

/** Every call path once, outermost function first. */
export interface CallPaths {
  functions: string[];
  roles: Role[];
  paths: number[][];
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

/** The pieces in order of their kinds and then of time, and how many each kind has that occurs. */
function byKind(kinds: Uint16Array): { order: Uint32Array; counts: number[] } {
  const next: number[] = [];
  for (const kind of kinds) next[kind] = (next[kind] ?? 0) + 1;
  const counts = next.filter(() => true);
  let sum = 0;
  next.forEach((many, kind) => {
    next[kind] = sum;
    sum += many;
  });
  const order = new Uint32Array(kinds.length);
  kinds.forEach((kind, piece) => {
    const at = next[kind] as number;
    order[at] = piece;
    next[kind] = at + 1;
  });
  return { order, counts };
}

function exact(bytes: Uint8Array, stateOf: Uint16Array): Exact {
  const numbers = new Numbers(bytes);
  const count = numbers.next();
  const starts = new Float64Array(count + 1);
  const kinds = new Uint16Array(count);
  const wakers = new Uint32Array(count);
  starts[0] = numbers.next();
  for (let i = 0; i < count; i++) kinds[i] = numbers.next();
  // Lengths and wakers come kind by kind: alike ones stand together, which makes them small.
  const { order, counts } = byKind(kinds);
  let at = 0;
  for (const many of counts) {
    const lengths = numbers.planes(many);
    for (let i = 0; i < many; i++) starts[(order[at + i] as number) + 1] = lengths[i] as number;
    at += many;
  }
  for (let i = 0; i < count; i++) wakers[order[i] as number] = numbers.next();
  for (let i = 0; i < count; i++) starts[i + 1] = (starts[i + 1] as number) + (starts[i] as number);
  const states = kinds.map((kind) => stateOf[kind] as number);
  return { count, starts, states, kinds, wakers };
}

function pathPieces(bytes: Uint8Array): PathPiece[] {
  const numbers = new Numbers(bytes);
  const pieces: PathPiece[] = [];
  const count = numbers.next();
  let from = numbers.next();
  for (let i = 0; i < count; i++) {
    const to = from + numbers.next();
    pieces.push({ from, to, leaf: numbers.next(), thread: numbers.next() - 1 });
    from = to;
  }
  return pieces;
}

function samples(bytes: Uint8Array): Samples {
  const numbers = new Numbers(bytes);
  const [times, threads, paths]: [number[], number[], number[]] = [[], [], []];
  let time = 0;
  while (numbers.more) {
    time += numbers.next();
    times.push(time);
    threads.push(numbers.next());
    paths.push(numbers.next());
  }
  return { times: Float64Array.from(times), threads: Uint32Array.from(threads), paths: Uint32Array.from(paths) };
}

/** Index of the first that is not before that moment. */
export function firstAt<T>(list: ArrayLike<T>, time: number, at: (one: T) => number): number {
  let low = 0;
  let high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (at(list[middle] as T) < time) low = middle + 1;
    else high = middle;
  }
  return low;
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
  path: PathPiece[] = [];
  samples: Samples = { times: new Float64Array(0), threads: new Uint32Array(0), paths: new Uint32Array(0) };
  callPaths: CallPaths = { functions: [], roles: [], paths: [] };
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
    this.path = pathPieces(await blob("path"));
    seen();
    const stateOf = Uint16Array.from(this.view.kinds, ({ state }) => state);
    for (const track of this.all) {
      track.exact = exact(await blob(`track-${track.index}`), stateOf);
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
    this.samples = samples(await blob("samples"));
    this.callPaths = JSON.parse(new TextDecoder().decode(await blob("paths"))) as CallPaths;
    seen();
  }
}
