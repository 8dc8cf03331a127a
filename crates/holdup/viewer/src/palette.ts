// Colours come from the style sheet, so that a theme is one list of variables; the timeline needs them as numbers.

import type { AccountState, Leaf, View } from "../report";

export type Rgb = readonly [number, number, number];

export interface Palette {
  paper: Rgb;
  running: Rgb[];
  /** Able to run, without a CPU. */
  ready: Rgb;
  unknown: Rgb;
  switch: Rgb;
  row: Rgb;
  /** Per state, with waits for locks by lock. */
  states: Rgb[];
  /** Per kind of piece of the critical path. */
  leaves: Rgb[];
}

/** What a piece of the critical path looks like. */
export const LEAF_GROUPS: Record<Leaf, AccountState> = {
  running: "running",
  yielding: "spinning",
  cpu: "waiting_for_cpu",
  other_programs: "displaced",
  io: "waiting_for_io",
  memory: "waiting_for_memory",
  sleep: "sleeping",
  outside: "waiting_for_work",
  unknown: "unknown",
};

/** The states of the account, as the terminal's reports name them. */
export const GROUP_WORDS: Record<AccountState, string> = {
  running: "running",
  spinning: "spinning or yielding",
  waiting_for_cpu: "waiting for a CPU",
  displaced: "displaced by other programs",
  waiting_for_lock: "waiting for locks",
  waiting_for_work: "waiting for work",
  waiting_for_threads: "waiting for threads to come or end",
  waiting_for_io: "waiting for I/O",
  waiting_for_memory: "waiting for memory",
  sleeping: "sleeping",
  unknown: "not known",
};

/** CPUs beyond these begin again. */
const RUN_COLOURS = 4;

/** Locks beyond these share the last colour. */
export const LOCK_COLOURS = 8;

function rgb(style: CSSStyleDeclaration, name: string): Rgb {
  const hex = style.getPropertyValue(name).trim();
  const value = parseInt(hex.slice(1), 16);
  return [(value >> 16) & 255, (value >> 8) & 255, value & 255];
}

/** The colour variable of a lock by its place among the contended ones. */
export function lockColour(rank: number): string {
  return `--lock${Math.min(rank, LOCK_COLOURS - 1)}`;
}

/** Rank of each lock among those that hold threads up, by its index in the report; the report has the worst first. */
export function ranks(view: View): Map<number, number> {
  const locks = new Set<number>();
  for (const state of view.states) if (state.group === "waiting_for_lock" && state.lock !== null) locks.add(state.lock);
  return new Map([...locks].sort((a, b) => a - b).map((lock, rank) => [lock, rank]));
}

/** The colour variable of each state: who uses it follows the theme. */
export function variables(view: View): string[] {
  const ranked = ranks(view);
  return view.states.map((state) => {
    if (state.group === "running") return `--run${(state.cpu ?? 0) % RUN_COLOURS}`;
    if (state.group === "waiting_for_lock")
      return lockColour(state.lock === null ? LOCK_COLOURS : (ranked.get(state.lock) ?? LOCK_COLOURS));
    return `--${state.group}`;
  });
}

export function palette(view: View): Palette {
  const style = getComputedStyle(document.documentElement);
  const running = Array.from({ length: RUN_COLOURS }, (_, i) => rgb(style, `--run${i}`));
  const states = variables(view).map((name) => rgb(style, name));
  return {
    paper: rgb(style, "--paper"),
    row: rgb(style, "--lane"),
    running,
    ready: rgb(style, "--waiting_for_cpu"),
    unknown: rgb(style, "--unknown"),
    switch: rgb(style, "--switch"),
    states,
    leaves: view.leaves.map((leaf) => rgb(style, `--${leaf === "running" ? "run0" : LEAF_GROUPS[leaf]}`)),
  };
}
