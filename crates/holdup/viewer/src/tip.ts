// What is under the pointer: who, what, how long, who woke it.

import { element } from "./dom";
import * as format from "./format";
import type { Shown } from "./shown";
import { GROUP_WORDS, LEAF_GROUPS } from "./palette";
import { NO_WAKER, OUTSIDE, firstAt, pieceAt, type Exact } from "./tracks";

/** Who made the thread runnable at the beginning of a piece, in words; nothing if nobody is known. */
export function waker(line: Shown, exact: Exact, piece: number): string {
  const number = exact.wakers[piece] ?? NO_WAKER;
  if (number === NO_WAKER) return "";
  if (number === OUTSIDE) return "a thread outside the recording";
  return line.view.threads[number - OUTSIDE - 1]?.label ?? "";
}

export function describe(line: Shown, thread: number, time: number, pixel: number): Node[] | null {
  const exact = line.tracks.all[thread]?.exact;
  const row = line.view.threads[thread];
  if (!row) return null;
  const title = element("b", {}, row.problem ? `${row.label} !` : row.label);
  if (!exact) return [title, element("div", {}, "the events are still being read")];
  const piece = pieceAt(exact, time);
  if (piece < 0 || piece >= exact.count)
    return [title, element("div", {}, time < row.born_ns ? "not started yet" : "ended")];
  const last = pieceAt(exact, time + pixel);
  if (last - piece > 3) return [title, ...crowd(line, exact, piece, Math.min(last, exact.count - 1), pixel)];
  const from = exact.starts[piece] as number;
  const to = exact.starts[piece + 1] as number;
  const state = line.view.states[exact.states[piece] as number];
  const facts: [string, string][] = [
    ["from", format.moment(from)],
    ["lasts", format.time(to - from)],
  ];
  const here = waker(line, exact, piece);
  const after = waker(line, exact, piece + 1);
  if (here !== "") facts.push(["woken by", here]);
  if (after !== "" && state?.group !== "running")
    facts.push([state?.group === "waiting_for_lock" ? "ended by (it released)" : "ended by", after]);
  return [title, element("div", { class: "state" }, state?.label ?? ""), list(facts)];
}

/** The critical path at that moment: what it is, and on which thread. */
export function describePath(line: Shown, time: number): Node[] | null {
  const { path } = line.tracks;
  const piece = path[firstAt(path, time + 1, (one) => one.to)];
  if (!piece || piece.from > time) return null;
  const leaf = line.view.leaves[piece.leaf] ?? "unknown";
  const facts: [string, string][] = [
    ["thread", line.view.threads[piece.thread]?.label ?? "outside the recording"],
    ["from", format.moment(piece.from)],
    ["lasts", format.time(piece.to - piece.from)],
  ];
  const what = leaf === "outside" ? "waiting for the outside" : GROUP_WORDS[LEAF_GROUPS[leaf]];
  return [element("b", {}, "critical path"), element("div", { class: "state" }, what), list(facts)];
}

/** Too much for a pixel: its sums. */
function crowd(line: Shown, exact: Exact, first: number, last: number, pixel: number): Node[] {
  const sums = new Map<number, number>();
  let switches = 0;
  for (let piece = first; piece <= last; piece++) {
    const state = exact.states[piece] as number;
    sums.set(state, (sums.get(state) ?? 0) + (exact.starts[piece + 1] as number) - (exact.starts[piece] as number));
    if (line.view.states[state]?.group === "running") switches++;
  }
  const all = (exact.starts[last + 1] as number) - (exact.starts[first] as number);
  const parts = [...sums]
    .sort((a, b) => b[1] - a[1])
    .slice(0, 4)
    .map(([state, ns]): [string, string] => [format.percent(ns / all), line.view.states[state]?.label ?? ""]);
  return [
    element("div", { class: "state" }, `${format.count(switches)} switches in ${format.time(Math.max(all, pixel))}`),
    list(parts),
    element("div", { class: "more" }, "zoom in to see each"),
  ];
}

function list(facts: [string, string][]): HTMLElement {
  return element("dl", {}, ...facts.flatMap(([label, value]) => [element("dt", {}, label), element("dd", {}, value)]));
}
