// What happened in a stretch of time, over the threads that are shown. Works in slices, so that the page stays smooth.

import type { View } from "../report";
import { pieceAt, type Tracks } from "./tracks";

export interface Wait {
  state: number;
  ns: number;
  count: number;
}

export interface Stats {
  from: number;
  to: number;
  switches: number;
  threads: number;
  onCpuNs: number;
  /** Runs that ended in the stretch, by the logarithm of their length. */
  runs: number[];
  waits: Wait[];
}

/** How many pieces are added up before the page gets its turn. */
const SLICE = 200_000;

export async function sum(
  tracks: Tracks,
  view: View,
  threads: number[],
  from: number,
  to: number,
  stop: () => boolean,
): Promise<Stats | null> {
  const stats: Stats = { from, to, switches: 0, threads: threads.length, onCpuNs: 0, runs: [], waits: [] };
  const waits = view.states.map((_, state): Wait => ({ state, ns: 0, count: 0 }));
  const running = view.states.map((state) => state.group === "running");
  let left = SLICE;
  for (const index of threads) {
    const exact = tracks.all[index]?.exact;
    if (!exact) continue;
    const { starts, states, count } = exact;
    for (let piece = Math.max(0, pieceAt(exact, from)); piece < count; piece++) {
      const begin = starts[piece] as number;
      const end = starts[piece + 1] as number;
      if (begin >= to) break;
      const inside = Math.min(end, to) - Math.max(begin, from);
      if (inside <= 0) continue;
      const state = states[piece] as number;
      if (running[state]) {
        stats.onCpuNs += inside;
        // The last piece of a thread ends with the thread or the recording, not by a switch that was seen.
        if (end <= to && piece + 1 < count) {
          stats.switches++;
          const bin = Math.floor(Math.log2(Math.max(1, end - begin)));
          stats.runs[bin] = (stats.runs[bin] ?? 0) + 1;
        }
      } else {
        const wait = waits[state] as Wait;
        wait.ns += inside;
        wait.count++;
      }
      if (--left === 0) {
        left = SLICE;
        await new Promise((resume) => setTimeout(resume, 0));
        if (stop()) return null;
      }
    }
  }
  stats.waits = waits.filter((wait) => wait.count > 0).sort((a, b) => b.ns - a.ns);
  return stats;
}
