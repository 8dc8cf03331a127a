// Which threads are shown, in which order, under which headings.

import type { Report, View } from "../report";

export type Sort = "order" | "name" | "cpu" | "lock" | "switches";
export type Grouping = "none" | "process" | "name";

export type Row = { kind: "group"; label: string } | { kind: "path" } | { kind: "thread"; index: number };

/** `worker-3` and `worker-4` do the same work. */
export function withoutNumber(name: string): string {
  return name.replace(/[0-9]+$/, "").replace(/[-_#:/ ]+$/, "");
}

export function arrange(
  view: View,
  report: Report,
  sort: Sort,
  grouping: Grouping,
  wanted: (index: number) => boolean,
): Row[] {
  const threads = view.threads.map((_, index) => index).filter(wanted);
  const figure = (index: number): number => {
    const thread = report.threads[index];
    if (!thread) return 0;
    if (sort === "cpu") return thread.on_cpu_ns;
    if (sort === "lock") return thread.lock_wait_ns;
    return thread.voluntary + thread.involuntary;
  };
  const name = (index: number) => view.threads[index]?.label ?? "";
  if (sort === "name") threads.sort((a, b) => name(a).localeCompare(name(b), undefined, { numeric: true }));
  else if (sort !== "order") threads.sort((a, b) => figure(b) - figure(a) || a - b);
  if (grouping === "none") return threads.map((index) => ({ kind: "thread", index }));
  const groups = new Map<string, number[]>();
  for (const index of threads) {
    const row = view.threads[index];
    const key = grouping === "process" ? (row?.process ?? "") : withoutNumber(row?.name ?? "") || "(no name)";
    const members = groups.get(key);
    if (members) members.push(index);
    else groups.set(key, [index]);
  }
  return [...groups].flatMap(([label, members]): Row[] => [
    { kind: "group", label: `${label}: ${members.length === 1 ? "1 thread" : `${members.length} threads`}` },
    ...members.map((index): Row => ({ kind: "thread", index })),
  ]);
}
