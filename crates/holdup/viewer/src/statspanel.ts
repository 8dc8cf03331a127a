// The figures of the selection, or of what is shown.

import { element } from "./dom";
import type { FlameGraph } from "./flame";
import * as format from "./format";
import { variables } from "./palette";
import { sum, type Stats } from "./stats";
import type { Shown } from "./shown";

/** How long the window must rest before its figures are added up, in ms. */
const REST = 120;
const MOST_WAITS = 6;

export class StatsPanel {
  readonly root = element("div", { class: "stats", role: "region", "aria-label": "Figures of the selection" });
  private timer = 0;
  private turn = 0;
  private readonly colours: string[];

  constructor(
    private readonly line: Shown,
    private readonly flame: FlameGraph,
  ) {
    this.colours = variables(line.view);
  }

  update(): void {
    this.flame.update();
    clearTimeout(this.timer);
    const turn = ++this.turn;
    this.timer = window.setTimeout(() => void this.work(turn), REST);
  }

  private async work(turn: number): Promise<void> {
    const { line } = this;
    if (line.tracks.ready < line.tracks.all.length) return;
    const [from, to] = line.selection() ?? [line.from, line.to];
    const stats = await sum(line.tracks, line.view, line.threads(), from, to, () => turn !== this.turn);
    if (stats && turn === this.turn) this.show(stats);
  }

  private show(stats: Stats): void {
    const seconds = Math.max(1e-12, (stats.to - stats.from) / 1e9);
    const what = this.line.selection() ? "Between the markers" : "In the window";
    const figures: [string, string, string][] = [
      ["span", "time", format.time(stats.to - stats.from)],
      ["switches", "switches", format.count(stats.switches)],
      ["rate", "switches/s", format.count(Math.round(stats.switches / seconds))],
      ["cpus", "CPUs busy", (stats.onCpuNs / (stats.to - stats.from)).toFixed(2)],
      ["threads", "threads", format.count(stats.threads)],
    ];
    const list = element(
      "dl",
      { class: "figures" },
      ...figures.flatMap(([name, label, value]) => {
        const exact: Record<string, string> = {
          switches: String(stats.switches),
          span: `${Math.round(stats.to - stats.from)} ns`,
        };
        return [
          element("dt", {}, label),
          element("dd", { "data-figure": name, ...(exact[name] ? { title: exact[name] } : {}) }, value),
        ];
      }),
    );
    this.root.replaceChildren(
      element("div", {}, element("h3", {}, what), list),
      element("div", {}, element("h3", {}, "Length of runs"), histogram(stats.runs)),
      element("div", { class: "waits" }, element("h3", {}, "Off the CPU"), this.waits(stats)),
    );
  }

  private waits(stats: Stats): HTMLElement {
    const most = Math.max(1, ...stats.waits.map((wait) => wait.ns));
    const rest = stats.waits.slice(MOST_WAITS);
    const more =
      rest.length === 0
        ? []
        : [
            element(
              "li",
              { class: "rest" },
              element("span", { class: "label" }, `and ${rest.length} more`),
              element("span", { class: "value" }, format.time(rest.reduce((ns, wait) => ns + wait.ns, 0))),
            ),
          ];
    return element(
      "ol",
      {},
      ...stats.waits.slice(0, MOST_WAITS).map((wait) => {
        const state = this.line.view.states[wait.state];
        return element(
          "li",
          {},
          element("i", {
            style: `width:${((wait.ns / most) * 100).toFixed(1)}%;background:var(${this.colours[wait.state] ?? "--unknown"})`,
          }),
          element("span", { class: "label", title: state?.label ?? "" }, state?.label ?? ""),
          element("span", { class: "value" }, `${format.time(wait.ns)}, ${format.count(wait.count)}\u00d7`),
        );
      }),
      ...more,
    );
  }
}

/** A bar per power of two. */
function histogram(runs: number[]): HTMLElement {
  const filled = runs.flatMap((hits, bin) => (hits ? [bin] : []));
  if (filled.length === 0) return element("p", { class: "note" }, "no run ended here");
  const first = Math.max(0, (filled[0] as number) - 1);
  const last = (filled[filled.length - 1] as number) + 1;
  const most = Math.max(...filled.map((bin) => runs[bin] as number));
  const bars = element("div", {
    class: "bars",
    role: "img",
    "aria-label": `Length of ${filled.reduce((all, bin) => all + (runs[bin] as number), 0)} runs`,
  });
  for (let bin = first; bin <= last; bin++) {
    const hits = runs[bin] ?? 0;
    const label = `${format.time(2 ** bin)} to ${format.time(2 ** (bin + 1))}: ${hits.toLocaleString("en")} runs`;
    bars.append(element("span", { title: label, style: `height:${hits ? Math.max(3, (hits / most) * 100) : 0}%` }));
  }
  const axis = element(
    "div",
    { class: "axis" },
    element("span", {}, format.time(2 ** first)),
    element("span", {}, format.time(2 ** (last + 1))),
  );
  return element("div", { class: "histogram" }, bars, axis);
}
