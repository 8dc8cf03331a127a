// What a recording's page carries: the JSON report itself, the names beside it, and the timeline's columns.
// The other side is crates/holdup/src/report/page/.

export type Group = "running" | "runnable" | "lock" | "idle" | "blocked" | "lost";

export interface StateRow {
  group: Group;
  label: string;
  cpu: number | null;
  lock: number | null;
}

export interface ThreadRow {
  label: string;
  name: string;
  process: string;
  /** Why its figures are too low, if they are. */
  problem: string | null;
  born_ns: number;
  ended_ns: number;
  pieces: number;
  levels: number[];
}

export interface View {
  zero_ns: string;
  start_ns: number;
  end_ns: number;
  states: StateRow[];
  threads: ThreadRow[];
  lost: { count: number; from_ns: number; to_ns: number }[];
}

export interface Distribution {
  count: number;
  sum_ns: number;
  min_ns: number;
  median_ns: number;
  p90_ns: number;
  p99_ns: number;
  max_ns: number;
}

export interface Frame {
  function: string | null;
  module: string;
  offset: string;
  file: string | null;
  line: number | null;
  role: string;
}

export interface ThreadReport {
  tid: number;
  pid: number;
  name: string;
  born_ns: number;
  ended_ns: number;
  on_cpu_ns: number;
  off: { reason: string; idle: boolean; count: number; time_ns: number }[];
  voluntary: number;
  involuntary: number;
  lock_wait_ns: number;
  wakes: number;
  migrations: number;
  run_ns: Distribution;
  run_delay_ns: Distribution;
  user_samples: number;
  kernel_samples: number;
}

export interface LockReport {
  name: string;
  primitive: string;
  contention: boolean;
  waits: number;
  wait_ns: Distribution;
  refused_waits: number;
  timeouts: number;
  wakes: number;
  wasted_wakes: number;
  max_waiters: number;
  contended_ns: number;
  address: string | null;
  wait_sites: { place: string | null; count: number; time_ns: number }[];
  longest: { tid: number; from_ns: number; to_ns: number }[];
}

export interface PairReport {
  a: number;
  b: number;
  a_wakes_b: number;
  b_wakes_a: number;
  round_trips: number;
  run_ns: Distribution;
  from_ns: number;
  to_ns: number;
}

export interface Code {
  frame: Frame;
  hits: number;
  inclusive: number;
}

export interface Report {
  headline: string;
  start_ns: number;
  end_ns: number;
  totals: {
    events: number;
    lost: number;
    switches: number;
    on_cpu_ns: number;
    thread_ns: number;
    lock_wait_ns: number;
    user_samples: number;
    kernel_samples: number | null;
  };
  threads: ThreadReport[];
  locks: LockReport[];
  pairs: PairReport[];
  symbols: Code[];
  modules: Code[];
}

function text(id: string): string {
  const element = document.getElementById(id);
  const found = element?.textContent ?? "";
  // The bytes are needed once; the document need not keep them.
  element?.remove();
  return found;
}

/** Data that stays in the document: small, and others may want to read it. */
export function json<T>(id: string): T | null {
  const found = document.getElementById(id)?.textContent;
  return found ? (JSON.parse(found) as T) : null;
}

/** Whether the browser can undo the compression (all since 2023). */
export function canInflate(): boolean {
  return typeof DecompressionStream === "function";
}

/** Bytes from a script element: base64 of raw deflate. */
export async function blob(id: string): Promise<Uint8Array> {
  const packed = fromBase64(text(id));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

function fromBase64(coded: string): Uint8Array<ArrayBuffer> {
  const native = (Uint8Array as unknown as { fromBase64?: (text: string) => Uint8Array<ArrayBuffer> }).fromBase64;
  if (native) return native.call(Uint8Array, coded);
  const plain = atob(coded);
  const bytes = new Uint8Array(plain.length);
  for (let i = 0; i < plain.length; i++) bytes[i] = plain.charCodeAt(i);
  return bytes;
}
