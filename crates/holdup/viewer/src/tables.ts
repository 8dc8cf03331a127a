// The tables of a recording: locks, threads, pairs, functions, binaries. Every figure comes from the JSON report.

import type { Code, Lock, Pair, Report, ThreadFacts, View } from "../report";
import { element } from "./dom";
import * as format from "./format";
import { lockColour, ranks } from "./palette";
import { Table, type Column } from "./table";
import type { Timeline } from "./timeline";

export function tables(root: HTMLElement, report: Report, view: View, line: Timeline | null): void {
  const seconds = Math.max(1e-12, (report.end_ns - report.start_ns) / 1e9);
  const ns = <T>(title: string, hint: string, value: (row: T) => number): Column<T> => ({
    title,
    hint,
    number: true,
    value,
    text: (row) => format.time(value(row)),
    exact: (row) => `${value(row)} ns`,
  });
  const count = <T>(title: string, hint: string, value: (row: T) => number): Column<T> => ({
    title,
    hint,
    number: true,
    value,
    text: (row) => format.count(value(row)),
    exact: (row) => String(value(row)),
  });
  const share = <T>(title: string, hint: string, value: (row: T) => number): Column<T> => ({
    title,
    hint,
    number: true,
    value,
    text: (row) => format.percent(value(row)),
  });
  const byTid = new Map(report.threads.map((thread, index) => [thread.tid, index]));
  const label = (tid: number) => view.threads[byTid.get(tid) ?? -1]?.label ?? `thread ${tid}`;
  const life = (thread: ThreadFacts) => Math.max(1, thread.ended_ns - thread.born_ns);
  const index = new Map(report.threads.map((thread, at) => [thread, at]));
  const row = (thread: ThreadFacts) => view.threads[index.get(thread) ?? -1];
  const since = (time: number) => time - Number(view.zero_ns);

  const ranked = ranks(view);
  const colour = (lock: Lock) => {
    const rank = ranked.get(report.locks.indexOf(lock));
    return rank === undefined ? null : lockColour(rank);
  };

  const locks = new Table<Lock>(
    "Locks",
    report.locks,
    [
      { title: "lock", wrap: true, colour, value: (lock) => lock.name },
      { title: "kind", value: (lock) => (lock.contention ? lock.primitive : `${lock.primitive} (idle by design)`) },
      count("waits", "Waits that slept", (lock) => lock.waits),
      count("waits/s", "Waits per second of the recording", (lock) => Math.round(lock.waits / seconds)),
      ns("waited", "Time of all waits, each until the thread ran again", (lock) => lock.wait_ns.sum_ns),
      ns("median", "Median wait", (lock) => lock.wait_ns.median_ns),
      ns("p99", "99 of 100 waits are not longer", (lock) => lock.wait_ns.p99_ns),
      ns("longest", "The longest wait", (lock) => lock.wait_ns.max_ns),
      count("at once", "Most threads that waited at the same time", (lock) => lock.max_waiters),
      count("wasted", "Calls that woke nobody", (lock) => lock.wasted_wakes),
      { title: "where", wrap: true, value: (lock) => lock.wait_sites[0]?.place ?? "" },
    ],
    4,
    {
      empty: "No thread waited on a futex, or waits were not recorded.",
      look: (lock) => (lock.contention ? "role-lock" : "idle"),
      pick: (lock) => {
        const longest = lock.longest[0];
        if (!line || !longest) return;
        line.find(lock.name);
        line.jump({ thread: byTid.get(longest.tid) ?? -1, from: since(longest.from_ns), to: since(longest.to_ns) });
      },
    },
  );

  const threads = new Table<ThreadFacts>(
    "Threads",
    report.threads,
    [
      {
        title: "thread",
        wrap: true,
        value: (thread) => row(thread)?.label ?? "",
        text: (thread) => `${row(thread)?.label ?? ""}${row(thread)?.problem ? " !" : ""}`,
        exact: (thread) => row(thread)?.problem ?? "",
      },
      ns("lived", "Time between its first and last event", life),
      ns("on CPU", "CPU time", (thread) => thread.on_cpu_ns),
      share("CPU", "Share of its life on a CPU", (thread) => thread.on_cpu_ns / life(thread)),
      ns("lock wait", "Time in waits for locks", (thread) => thread.lock_wait_ns),
      share("lock", "Share of its life in waits for locks", (thread) => thread.lock_wait_ns / life(thread)),
      count("switches", "Times it left a CPU", (thread) => thread.voluntary + thread.involuntary),
      count("involuntary", "Times it could have gone on", (thread) => thread.involuntary),
      ns("run median", "Median length of its stays on a CPU", (thread) => thread.run_ns.median_ns),
      ns("delay p99", "From runnable to running", (thread) => thread.run_delay_ns.p99_ns),
      count("wakes", "Futex calls by it that woke somebody", (thread) => thread.wakes),
      count("moves", "Times it ran on another CPU than before", (thread) => thread.migrations),
    ],
    2,
    { empty: "No thread ran.", pick: (thread) => line?.lead(index.get(thread) ?? -1) },
  );

  const pairs = new Table<Pair>(
    "Pairs",
    report.pairs,
    [
      { title: "one", wrap: true, value: (pair) => label(pair.a) },
      { title: "other", wrap: true, value: (pair) => label(pair.b) },
      count("round trips", "One woke the other and was woken by it", (pair) => pair.round_trips),
      count("per second", "Round trips per second of the recording", (pair) => Math.round(pair.round_trips / seconds)),
      count("wakes \u2192", "The one woke the other", (pair) => pair.a_wakes_b),
      count("wakes \u2190", "The other woke the one", (pair) => pair.b_wakes_a),
      ns("run median", "How long either ran in between", (pair) => pair.run_ns.median_ns),
    ],
    2,
    {
      empty: "No two threads woke each other.",
      pick: (pair) => line?.jump({ thread: byTid.get(pair.a) ?? -1, from: since(pair.from_ns), to: since(pair.to_ns) }),
    },
  );

  const samples = report.totals.user_samples + (report.totals.kernel_samples ?? 0);
  const hits: Column<Code>[] = [
    count("hits", "CPU samples in it", (code) => code.hits),
    {
      title: "percent",
      hint: "Of all CPU samples",
      number: true,
      value: (code) => code.hits,
      text: (code) => `${((100 * code.hits) / Math.max(1, samples)).toFixed(1)}%`,
    },
    count("with callees", "CPU samples in it or in what it called", (code) => code.inclusive),
  ];
  const whose: Column<Code> = { title: "whose", hint: "Whose code it is", value: (code) => code.frame.role };
  const look = (code: Code) => `role-${code.frame.role}`;
  const module: Column<Code> = { title: "module", wrap: true, value: (code) => format.base(code.frame.module) };
  const none = "There are no CPU samples in this recording.";
  const symbols = new Table<Code>(
    "Symbols",
    report.symbols,
    [
      {
        title: "routine",
        wrap: true,
        value: (code) => format.clean(code.frame.function ?? `${format.base(code.frame.module)}+${code.frame.offset}`),
      },
      ...hits,
      whose,
      { title: "address", value: (code) => code.frame.offset },
      module,
      {
        title: "source",
        wrap: true,
        value: (code) =>
          code.frame.file ? `${format.base(code.frame.file)}${code.frame.line ? `:${code.frame.line}` : ""}` : "",
      },
    ],
    1,
    { empty: none, look },
  );
  const modules = new Table<Code>(
    "Modules",
    report.modules,
    [module, ...hits, whose, { title: "path", wrap: true, value: (code) => format.clean(code.frame.module) }],
    1,
    { empty: none, look },
  );

  tabs(root, [
    ["Locks", report.locks.length, locks.root],
    ["Threads", report.threads.length, threads.root],
    ["Pairs", report.pairs.length, pairs.root],
    ["Symbols", report.symbols.length, symbols.root],
    ["Modules", report.modules.length, modules.root],
  ]);
}

function tabs(root: HTMLElement, all: [string, number, HTMLElement][]): void {
  const bar = element("div", { class: "tabs", role: "tablist" });
  const panels = all.map(([name, , content]) =>
    element(
      "div",
      { class: "panel", role: "tabpanel", "aria-label": name },
      element("h3", { class: "print" }, name),
      content,
    ),
  );
  const presses = all.map(([name, size], index) => {
    const press = element(
      "button",
      { type: "button", role: "tab" },
      `${name} `,
      element("small", {}, format.count(size)),
    );
    press.addEventListener("click", () => show(index));
    press.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!step) return;
      const next = (index + step + all.length) % all.length;
      show(next);
      presses[next]?.focus();
      event.preventDefault();
    });
    return press;
  });
  const show = (wanted: number) => {
    panels.forEach((panel, index) => panel.classList.toggle("shown", index === wanted));
    presses.forEach((press, index) => {
      press.setAttribute("aria-selected", String(index === wanted));
      press.tabIndex = index === wanted ? 0 : -1;
    });
  };
  bar.append(...presses);
  root.replaceChildren(bar, ...panels);
  show(0);
}
