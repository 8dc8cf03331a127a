// The timeline: rows of threads against time, zoom and pan, two markers, and what is under the pointer.

import type { AccountState, Report, View } from "../report";
import { button, choice, element } from "./dom";
import { FlameGraph } from "./flame";
import * as format from "./format";
import { Overview } from "./overview";
import { drawOverlay, ticks } from "./overlay";
import { GROUP_WORDS, palette, ranks, type Palette } from "./palette";
import { Raster, lines, packed, type Lines } from "./raster";
import { arrange, type Grouping, type Row, type Sort } from "./rows";
import { ROW, type Marked, type Shown } from "./shown";
import { StatsPanel } from "./statspanel";
import { onTheme } from "./theme";
import { describe, describePath } from "./tip";
import { pieceAt, type Tracks } from "./tracks";

const RULER = 26;
/** The least that a window shows, in ns. */
const LEAST = 200;

export class Timeline implements Shown {
  rows: Row[] = [];
  from: number;
  to: number;
  a: number | null = null;
  b: number | null = null;
  selected = -1;
  /** Where the pointer or the keys are. */
  cursor: number | null = null;
  marked: Marked | null = null;
  arrows = true;
  colours: Palette;
  readonly ranks: Map<number, number>;
  /** States that a search found; the others are dimmed. */
  dim: Set<number> | null = null;

  private sort: Sort = "order";
  private grouping: Grouping = "none";
  private query = "";
  private raster: Raster;
  private dirty = false;
  /** The marked stretch is told as soon as it is painted: keys found it. */
  private telling = false;
  private buffer: ImageData | null = null;
  private pixels: Lines = lines(1);
  private readonly base = element("canvas", { class: "base", "aria-hidden": "true" });
  private readonly over = element("canvas", { class: "over", "aria-hidden": "true" });
  private readonly ruler = element("canvas", { class: "ruler", title: "Drag to select a stretch" });
  private readonly labels = element("div", { class: "labels", role: "listbox", "aria-label": "Threads" });
  private readonly lane = element("div", { class: "lane" });
  private readonly inner = element("div", { class: "inner" });
  private readonly scroller = element("div", { class: "scroller" });
  private readonly tip = element("div", { class: "tip", role: "status" });
  private readonly found = element("span", { class: "found", role: "status" });
  private readonly search = element("input", {
    type: "search",
    placeholder: "Search threads and locks  /",
    "aria-label": "Search threads and locks",
  });
  private readonly status = element("div", { class: "status", "aria-live": "off" });
  private readonly loading = element("span", { class: "loading" }, "reading the events \u2026");
  private readonly unprinted = element("p", { class: "unprinted note" });
  private readonly keysDialog = keyHelp();
  private readonly overview: Overview;
  private readonly panel: StatsPanel;
  private readonly flame: FlameGraph;

  constructor(
    readonly root: HTMLElement,
    readonly view: View,
    readonly report: Report,
    readonly tracks: Tracks,
  ) {
    this.from = view.start_ns;
    this.to = view.end_ns;
    this.ranks = ranks(view);
    this.colours = palette(view);
    this.raster = new Raster(tracks, this.colours, view.states, null);
    this.overview = new Overview(this);
    this.flame = new FlameGraph(this, (to) => this.jump(to), report.header.sample_period_ns);
    this.panel = new StatsPanel(this, this.flame);
    this.build();
    this.order();
    onTheme(() => this.recolour());
    new ResizeObserver(() => this.draw()).observe(this.lane);
    this.scroller.addEventListener("scroll", () => {
      this.hideTip();
      this.draw();
    });
    addEventListener("beforeprint", () => this.printing(true));
    addEventListener("afterprint", () => this.printing(false));
  }

  /** New data came in. */
  refresh(): void {
    this.overview.forget();
    this.panel.update();
    this.draw();
  }

  private recoloured(): void {
    this.colours = palette(this.view);
    this.raster = new Raster(this.tracks, this.colours, this.view.states, this.dim);
    this.overview.forget();
  }

  recolour(): void {
    this.recoloured();
    this.draw();
  }

  /** On paper the rows are as wide as a page, and as many as one has room for. */
  private printing(on: boolean): void {
    this.root.classList.toggle("printing", on);
    this.recoloured();
    this.paint();
    const fit = Math.floor(this.scroller.clientHeight / ROW);
    this.unprinted.textContent =
      fit < this.rows.length ? `${fit} of ${this.rows.length} rows are printed: those that were in view.` : "";
  }

  /** Shows this stretch, within what there is. */
  show(from: number, to: number): void {
    const { start_ns: start, end_ns: end } = this.view;
    const span = Math.min(end - start, Math.max(LEAST, to - from));
    const middle = (from + to) / 2;
    this.from = Math.max(start, Math.min(end - span, middle - span / 2));
    this.to = this.from + span;
    this.hideTip();
    this.panel.update();
    this.draw();
  }

  zoom(factor: number, around: number): void {
    const span = Math.max(LEAST, (this.to - this.from) * factor);
    const share = (around - this.from) / (this.to - this.from);
    const from = around - span * share;
    this.show(from, from + span);
  }

  pan(ns: number): void {
    this.show(this.from + ns, this.to + ns);
  }

  fit(): void {
    this.show(this.view.start_ns, this.view.end_ns);
  }

  /** Leads to a stretch of a thread: shows it with room on both sides, and marks it. */
  jump(target: Marked): void {
    const length = Math.max(LEAST, target.to - target.from);
    this.marked = target;
    this.a = target.from;
    this.b = target.to;
    this.show(target.from - length * 1.5, target.to + length * 1.5);
    this.lead(target.thread);
  }

  /** Selects a thread, and brings eyes and keys to the timeline. */
  lead(thread: number): void {
    this.select(thread);
    this.root.scrollIntoView({
      block: "start",
      behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth",
    });
    this.root.focus({ preventScroll: true });
  }

  /** Selects a thread and brings its row into view; a filter that hides it gives way. */
  select(thread: number): void {
    this.selected = thread;
    if (thread >= 0 && this.rowOf(thread) < 0 && this.query !== "") this.find("");
    const row = this.rowOf(thread);
    if (row >= 0) {
      const top = row * ROW;
      const { scrollTop, clientHeight } = this.scroller;
      if (top < scrollTop || top + ROW > scrollTop + clientHeight)
        this.scroller.scrollTop = Math.max(0, top - clientHeight / 2);
    }
    for (const label of this.labels.children)
      label.setAttribute("aria-selected", String((label as HTMLElement).dataset["thread"] === String(thread)));
    this.draw();
  }

  rowOf(thread: number): number {
    return this.rows.findIndex((row) => row.kind === "thread" && row.index === thread);
  }

  threads(): number[] {
    return this.rows.flatMap((row) => (row.kind === "thread" ? [row.index] : []));
  }

  setMarker(which: "a" | "b", time: number | null): void {
    this[which] = time === null ? null : Math.max(this.view.start_ns, Math.min(this.view.end_ns, time));
    this.panel.update();
    this.draw();
  }

  /** The two markers in order, if both are set. */
  selection(): [number, number] | null {
    if (this.a === null || this.b === null || this.a === this.b) return null;
    return [Math.min(this.a, this.b), Math.max(this.a, this.b)];
  }

  /** Threads by name, locks by name: threads that match are shown, waits that match stand out. */
  find(query: string): void {
    this.query = query.trim().toLowerCase();
    if (this.search.value.trim().toLowerCase() !== this.query) this.search.value = query;
    const hits = this.view.states.flatMap((state, index) =>
      this.query && state.label.toLowerCase().includes(this.query) ? [index] : [],
    );
    this.dim = hits.length > 0 ? new Set(hits) : null;
    this.order();
    const threads = this.threads().length;
    this.found.textContent =
      this.query === ""
        ? ""
        : `${threads} of ${this.view.threads.length} threads` +
          (hits.length > 0
            ? `; ${hits.length === 1 ? "1 kind of wait stands" : `${hits.length} kinds of waits stand`} out, Enter finds the next`
            : "");
    this.recolour();
    this.panel.update();
  }

  /** The next piece after the middle of the window that a search found, or the next switch of the selected thread. */
  next(step: 1 | -1): void {
    const wanted = this.dim;
    const at = this.marked ? (step > 0 ? this.marked.from : this.marked.to) : (this.from + this.to) / 2;
    let best: Marked | null = null;
    for (const thread of this.selected >= 0 && !wanted ? [this.selected] : this.threads()) {
      const exact = this.tracks.all[thread]?.exact;
      if (!exact) continue;
      const middle = pieceAt(exact, at);
      for (
        let piece = middle + (step > 0 ? 1 : -1), tries = 0;
        piece >= 0 && piece < exact.count && tries < 200_000;
        piece += step, tries++
      ) {
        const state = exact.states[piece] as number;
        if (wanted ? !wanted.has(state) : this.view.states[state]?.group !== "running") continue;
        const from = exact.starts[piece] as number;
        const closer = best === null || (step > 0 ? from < best.from : from > best.from);
        if (closer) best = { from, to: exact.starts[piece + 1] as number, thread };
        break;
      }
    }
    if (!best) return;
    const span = this.to - this.from;
    this.marked = best;
    this.telling = true;
    this.select(best.thread);
    if (best.from < this.from || best.to > this.to || best.to - best.from < span / 400) {
      const wide = Math.min(span, Math.max(LEAST, (best.to - best.from) * 40));
      const middle = (best.from + best.to) / 2;
      this.show(middle - wide / 2, middle + wide / 2);
    }
  }

  timeAt(x: number): number {
    return this.from + ((this.to - this.from) * x) / Math.max(1, this.lane.clientWidth);
  }

  xOf(time: number): number {
    return ((time - this.from) / (this.to - this.from)) * this.lane.clientWidth;
  }

  setSort(sort: Sort): void {
    this.sort = sort;
    this.order();
    this.draw();
  }

  setGrouping(grouping: Grouping): void {
    this.grouping = grouping;
    this.order();
    this.draw();
  }

  private build(): void {
    const tools = element("div", { class: "tools" });
    this.search.addEventListener("input", () => this.find(this.search.value));
    this.search.addEventListener("keydown", (event) => {
      if (event.key === "Enter") this.next(event.shiftKey ? -1 : 1);
      if (event.key === "Escape") {
        this.find("");
        this.root.focus();
      }
      event.stopPropagation();
    });
    const sorts: [string, string][] = [
      ["order", "by start"],
      ["name", "by name"],
      ["cpu", "by CPU time"],
      ["lock", "by lock wait"],
      ["switches", "by switches"],
    ];
    const groups: [string, string][] = [
      ["none", "no groups"],
      ["process", "by process"],
      ["name", "by name"],
    ];
    const arrows = element("input", { type: "checkbox", checked: "" });
    arrows.addEventListener("change", () => {
      this.arrows = arrows.checked;
      this.draw();
    });
    tools.append(
      this.search,
      choice("Sort", sorts, (value) => this.setSort(value as Sort)),
      choice("Group", groups, (value) => this.setGrouping(value as Grouping)),
      element("label", {}, arrows, " wake-up arrows"),
      element(
        "span",
        { class: "buttons" },
        button("\u2212", "Zoom out (-)", () => this.zoom(2, (this.from + this.to) / 2)),
        button("+", "Zoom in (+)", () => this.zoom(0.5, (this.from + this.to) / 2)),
        button("All", "Show everything (0)", () => this.fit()),
        button("A\u2013B", "Show what is between the markers (Z)", () => this.zoomToSelection()),
        button("Keys", "Keys and mouse (?)", () => this.keysDialog.showModal()),
      ),
    );
    this.lane.append(this.base, this.over);
    this.inner.append(this.labels, this.lane);
    this.scroller.append(this.inner);
    const head = element(
      "div",
      { class: "head" },
      element("div", { class: "corner" }),
      element("div", { class: "tops" }, this.overview.canvas, this.ruler),
    );
    this.root.tabIndex = 0;
    this.root.replaceChildren(
      element("div", { class: "title" }, element("h2", {}, "Timeline"), this.found, this.loading),
      tools,
      legend(),
      element("div", { class: "frame" }, head, this.scroller, this.status),
      this.unprinted,
      this.panel.root,
      this.flame.root,
      this.tip,
      this.keysDialog,
    );
    this.labels.addEventListener("click", (event) => {
      const label = (event.target as Element).closest<HTMLElement>("[data-thread]");
      if (label) this.select(Number(label.dataset["thread"]));
    });
    this.pointer();
    this.keys();
  }

  private markersAroundMarked(): void {
    if (!this.marked) return;
    this.setMarker("a", this.marked.from);
    this.setMarker("b", this.marked.to);
  }

  private zoomToSelection(): void {
    const selection = this.selection();
    if (selection) this.show(selection[0], selection[1]);
  }

  private order(): void {
    const query = this.query;
    const named = (index: number) => (this.view.threads[index]?.label ?? "").toLowerCase().includes(query);
    const any = query === "" || this.view.threads.some((_, index) => named(index));
    const threads = arrange(this.view, this.report, this.sort, this.grouping, any ? named : () => this.dim !== null);
    this.rows = this.report.path.length > 0 ? [{ kind: "path" }, ...threads] : threads;
    this.labels.replaceChildren(
      ...this.rows.map((row) => {
        if (row.kind === "group") return element("div", { class: "group", role: "presentation" }, row.label);
        if (row.kind === "path")
          return element(
            "div",
            {
              class: "path",
              role: "presentation",
              title: "What the elapsed time is made of, followed backwards from the end",
            },
            "critical path",
          );
        const { label = "", problem = null } = this.view.threads[row.index] ?? {};
        const doubt = problem ? [element("span", { class: "doubt", "aria-label": problem }, "!")] : [];
        return element(
          "div",
          {
            class: "thread",
            role: "option",
            "data-thread": String(row.index),
            title: [label, accountWords(this.report, row.index), ...(problem ? [problem] : [])].join("\n"),
            "aria-selected": String(row.index === this.selected),
          },
          element("bdi", {}, label),
          ...doubt,
          accountBar(this.report, row.index),
        );
      }),
    );
    this.inner.style.height = `${Math.max(1, this.rows.length) * ROW}px`;
    this.scroller.style.setProperty("--rows", String(Math.max(3, this.rows.length)));
  }

  draw(): void {
    if (this.dirty) return;
    this.dirty = true;
    requestAnimationFrame(() => {
      this.dirty = false;
      this.paint();
    });
  }

  private paint(): void {
    const printing = this.root.classList.contains("printing");
    const ratio = printing ? 2 : Math.min(2, devicePixelRatio || 1);
    const width = Math.max(1, Math.round(this.lane.clientWidth * ratio));
    const height = Math.max(1, Math.round(this.scroller.clientHeight * ratio));
    for (const canvas of [this.base, this.over]) {
      if (canvas.width !== width || canvas.height !== height) {
        canvas.width = width;
        canvas.height = height;
      }
      canvas.style.height = `${this.scroller.clientHeight}px`;
    }
    this.paintRows(width, height, ratio);
    const context = this.over.getContext("2d");
    if (context) {
      // What is drawn for paper is kept as drawing, and a cleared stretch would clear the rows below it too: a new canvas does not.
      if (printing) this.over.width = width;
      else context.clearRect(0, 0, width, height);
      context.setTransform(ratio, 0, 0, ratio, 0, 0);
      drawOverlay(context, this, this.lane.clientWidth, this.scroller.clientHeight, this.scroller.scrollTop);
    }
    this.paintRuler(ratio);
    this.overview.paint(ratio);
    this.say();
    if (this.telling) this.tell();
    this.telling = false;
  }

  private paintRows(width: number, height: number, ratio: number): void {
    const context = this.base.getContext("2d", { alpha: false });
    if (!context) return;
    if (!this.buffer || this.buffer.width !== width || this.buffer.height !== height) {
      this.buffer = new ImageData(width, height);
      this.pixels = lines(width);
    }
    const data = new Uint32Array(this.buffer.data.buffer);
    data.fill(packed(this.colours.paper));
    const scroll = this.scroller.scrollTop;
    const window = { from: this.from, to: this.to, width };
    const first = Math.max(0, Math.floor(scroll / ROW));
    const last = Math.min(this.rows.length, Math.ceil((scroll + height / ratio) / ROW));
    for (let index = first; index < last; index++) {
      const row = this.rows[index];
      const track = row?.kind === "thread" ? this.tracks.all[row.index] : undefined;
      if (row?.kind === "path") this.raster.path(window, this.pixels);
      else if (track) this.raster.row(track, window, this.pixels);
      else continue;
      const put = (line: Uint32Array, from: number, to: number) => {
        const begin = Math.max(0, Math.round((index * ROW - scroll + from) * ratio));
        const end = Math.min(height, Math.round((index * ROW - scroll + to) * ratio));
        for (let y = begin; y < end; y++) data.set(line, y * width);
      };
      put(this.pixels.top, 3, 8);
      put(this.pixels.middle, 8, 18);
      put(this.pixels.strip, 19, 22);
    }
    context.putImageData(this.buffer, 0, 0);
  }

  private paintRuler(ratio: number): void {
    const width = this.lane.clientWidth;
    if (this.ruler.width !== Math.round(width * ratio)) {
      this.ruler.width = Math.round(width * ratio);
      this.ruler.height = Math.round(RULER * ratio);
    }
    const context = this.ruler.getContext("2d");
    if (!context) return;
    const style = getComputedStyle(this.root);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, RULER);
    context.font = "12px system-ui, sans-serif";
    context.fillStyle = context.strokeStyle = style.getPropertyValue("--soft");
    context.textBaseline = "middle";
    const { step, times } = ticks(this.from, this.to, width);
    for (const time of times) {
      const x = this.xOf(time);
      context.fillRect(Math.round(x), RULER - 6, 1, 6);
      const text = format.moment(time, step);
      if (x + 4 + context.measureText(text).width < width) context.fillText(text, x + 4, RULER / 2 - 1);
    }
    for (const [name, time] of [
      ["A", this.a],
      ["B", this.b],
    ] as const) {
      if (time === null || time < this.from || time > this.to) continue;
      const x = this.xOf(time);
      context.fillStyle = style.getPropertyValue("--accent");
      context.fillRect(x - 7, 3, 14, 15);
      context.fillStyle = style.getPropertyValue("--paper");
      context.textAlign = "center";
      context.fillText(name, x, 11);
      context.textAlign = "left";
    }
  }

  /** The line below: markers and their difference, always. */
  private say(): void {
    const at = (time: number | null) => (time === null ? "not set" : format.moment(time));
    const difference =
      this.a !== null && this.b !== null
        ? `${format.time(Math.abs(this.b - this.a))} (${Math.abs(Math.round(this.b - this.a)).toLocaleString("en")} ns)`
        : "\u2013";
    const parts: [string, string, string][] = [
      [
        "shown",
        "shown",
        `${format.moment(this.from, (this.to - this.from) / 1000)} to ${format.moment(this.to, (this.to - this.from) / 1000)}, ${format.time(this.to - this.from)}`,
      ],
      ["cursor", "cursor", at(this.cursor)],
      ["a", "A", at(this.a)],
      ["b", "B", at(this.b)],
      ["difference", "B \u2212 A", difference],
    ];
    if (this.tracks.ready >= this.tracks.all.length) this.loading.remove();
    this.status.replaceChildren(
      ...parts.map(([name, label, value]) =>
        element("span", { "data-part": name }, element("b", {}, label), ` ${value}`),
      ),
    );
  }

  private threadAt(y: number): number {
    const row = this.rows[Math.floor((y + this.scroller.scrollTop) / ROW)];
    return row?.kind === "thread" ? row.index : -1;
  }

  private pointer(): void {
    const place = (event: MouseEvent, target: Element) => {
      const box = target.getBoundingClientRect();
      return { x: event.clientX - box.left, y: event.clientY - box.top };
    };
    const wheel = (event: WheelEvent) => {
      event.preventDefault();
      const unit = event.deltaMode === 1 ? 16 : 1;
      const perPixel = (this.to - this.from) / Math.max(1, this.lane.clientWidth);
      const sideways = event.shiftKey ? event.deltaY + event.deltaX : event.deltaX;
      if (Math.abs(sideways) > 0 && (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)))
        this.pan(sideways * unit * perPixel);
      else
        this.zoom(
          Math.exp(Math.max(-60, Math.min(60, event.deltaY * unit)) * 0.006),
          this.timeAt(place(event, this.lane).x),
        );
    };
    this.lane.addEventListener("wheel", wheel, { passive: false });
    this.ruler.addEventListener("wheel", wheel, { passive: false });

    let drag: { x: number; from: number; to: number; select: boolean; moved: boolean; which: "a" | "b" } | null = null;
    const down = (event: PointerEvent, onRuler: boolean) => {
      if (event.button !== 0) return;
      const { x } = place(event, this.lane);
      const near = (time: number | null) => time !== null && Math.abs(this.xOf(time) - x) < 8;
      const which = onRuler && near(this.a) && !near(this.b) ? "a" : "b";
      drag = { x, from: this.from, to: this.to, select: onRuler || event.shiftKey, moved: false, which };
      if (drag.select && !(onRuler && (near(this.a) || near(this.b)))) {
        this.setMarker("a", this.timeAt(x));
        this.setMarker("b", this.timeAt(x));
      }
      (event.currentTarget as Element).setPointerCapture(event.pointerId);
      this.root.focus({ preventScroll: true });
    };
    const move = (event: PointerEvent) => {
      const { x, y } = place(event, this.over);
      this.cursor = this.timeAt(x);
      if (drag) {
        if (Math.abs(x - drag.x) > 2) drag.moved = true;
        if (drag.select) this.setMarker(drag.which, this.timeAt(x));
        else if (drag.moved) {
          const shift = ((drag.x - x) * (drag.to - drag.from)) / Math.max(1, this.lane.clientWidth);
          this.show(drag.from + shift, drag.to + shift);
        }
        this.hideTip();
        return;
      }
      if (event.currentTarget === this.lane) this.hover(x, y, event.clientX, event.clientY);
      this.draw();
    };
    const up = (event: PointerEvent) => {
      if (drag && !drag.moved && !drag.select) {
        const { x, y } = place(event, this.over);
        this.pick(this.threadAt(y), this.timeAt(x));
      }
      if (drag && !drag.moved && drag.select) {
        this.a = this.b = null;
        this.marked = null;
        this.panel.update();
        this.draw();
      }
      drag = null;
    };
    for (const target of [this.lane, this.ruler] as HTMLElement[]) {
      target.addEventListener("pointerdown", (event) => down(event, target === this.ruler));
      target.addEventListener("pointermove", move);
      target.addEventListener("pointerup", up);
      target.addEventListener("pointercancel", () => {
        drag = null;
      });
      target.addEventListener("pointerleave", () => {
        this.cursor = null;
        this.hideTip();
        this.draw();
      });
    }
    this.lane.addEventListener("dblclick", () => {
      if (!this.marked) return;
      const { from, to } = this.marked;
      this.show(from - (to - from), to + (to - from));
    });
  }

  /** Selects the thread, and its piece there. */
  private pick(thread: number, time: number): void {
    this.marked = null;
    const exact = this.tracks.all[thread]?.exact;
    const piece = exact ? pieceAt(exact, time) : -1;
    if (exact && piece >= 0 && piece < exact.count)
      this.marked = { thread, from: exact.starts[piece] as number, to: exact.starts[piece + 1] as number };
    this.select(thread);
  }

  private hover(x: number, y: number, pageX: number, pageY: number): void {
    const thread = this.threadAt(y);
    const row = this.rows[Math.floor((y + this.scroller.scrollTop) / ROW)];
    const content =
      row?.kind === "path"
        ? describePath(this, this.timeAt(x))
        : thread < 0
          ? null
          : describe(this, thread, this.timeAt(x), (this.to - this.from) / Math.max(1, this.lane.clientWidth));
    if (!content) {
      this.hideTip();
      return;
    }
    this.tip.replaceChildren(...content);
    this.tip.style.visibility = "visible";
    const { offsetWidth: width, offsetHeight: height } = this.tip;
    this.tip.style.left = `${pageX + 16 + width < innerWidth ? pageX + 16 : Math.max(4, pageX - 16 - width)}px`;
    this.tip.style.top = `${pageY + 18 + height < innerHeight ? pageY + 18 : Math.max(4, pageY - 12 - height)}px`;
  }

  /** What the pointer would tell of the marked stretch. */
  private tell(): void {
    const { marked } = this;
    const row = marked ? this.rowOf(marked.thread) : -1;
    if (!marked || row < 0) return;
    const box = this.lane.getBoundingClientRect();
    const x = Math.max(0, Math.min(box.width - 1, this.xOf((marked.from + marked.to) / 2)));
    const y = row * ROW - this.scroller.scrollTop + ROW / 2;
    this.hover(x, y, box.left + x, box.top + y);
  }

  private hideTip(): void {
    this.tip.style.visibility = "hidden";
  }

  /** Keys work wherever the focus is, but in fields. */
  private keys(): void {
    document.addEventListener("keydown", (event) => {
      const target = event.target as HTMLElement;
      if (
        event.ctrlKey ||
        event.metaKey ||
        event.altKey ||
        /^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName) ||
        this.keysDialog.open
      )
        return;
      const inside = this.root.contains(target) && target.tagName !== "BUTTON";
      const span = this.to - this.from;
      const centre = this.cursor ?? (this.from + this.to) / 2;
      const anywhere: Record<string, () => void> = {
        "/": () => {
          this.search.focus();
          this.search.select();
        },
        a: () => this.setMarker("a", centre),
        b: () => this.setMarker("b", centre),
        "+": () => this.zoom(0.5, centre),
        "=": () => this.zoom(0.5, centre),
        "-": () => this.zoom(2, centre),
        "0": () => this.fit(),
        z: () => this.zoomToSelection(),
        n: () => this.next(1),
        p: () => this.next(-1),
        m: () => this.markersAroundMarked(),
        "?": () => this.keysDialog.showModal(),
        Escape: () => {
          this.a = this.b = null;
          this.marked = null;
          this.hideTip();
          this.panel.update();
          this.draw();
        },
      };
      const focused: Record<string, () => void> = {
        ArrowLeft: () => this.pan(-span / (event.shiftKey ? 2 : 10)),
        ArrowRight: () => this.pan(span / (event.shiftKey ? 2 : 10)),
        ArrowUp: () => this.step(-1),
        ArrowDown: () => this.step(1),
        Home: () => this.show(this.view.start_ns, this.view.start_ns + span),
        End: () => this.show(this.view.end_ns - span, this.view.end_ns),
      };
      const act = anywhere[event.key] ?? (inside ? focused[event.key] : undefined);
      if (!act) return;
      event.preventDefault();
      act();
    });
  }

  private step(by: 1 | -1): void {
    const threads = this.threads();
    const at = threads.indexOf(this.selected);
    const next = threads[Math.max(0, Math.min(threads.length - 1, at + by))];
    if (next !== undefined) this.select(next);
  }
}

function legend(): HTMLElement {
  const parts: [string, string][] = [
    ["--run0", "runs"],
    ["--lock0", "waits for a lock"],
    ["--waiting_for_cpu", "for a CPU"],
    ["--displaced", "displaced by others"],
    ["--spinning", "yields"],
    ["--waiting_for_work", "for work"],
    ["--waiting_for_threads", "for threads"],
    ["--waiting_for_io", "for I/O"],
    ["--waiting_for_memory", "for memory"],
    ["--sleeping", "sleeps"],
    ["--unknown", "not known"],
    ["--switch", "switch"],
  ];
  return element(
    "ul",
    { class: "key" },
    ...parts.map(([colour, text]) => element("li", {}, element("i", { style: `background:var(${colour})` }), text)),
  );
}

/** The states of a thread's account that it was in, in the account's order. */
function accountOf(report: Report, thread: number): [AccountState, number][] {
  const account = report.threads[thread]?.account ?? {};
  return (Object.keys(GROUP_WORDS) as AccountState[]).flatMap((state): [AccountState, number][] =>
    (account[state] ?? 0) > 0 ? [[state, account[state] as number]] : [],
  );
}

/** Where a thread's time goes, below its name. */
function accountBar(report: Report, thread: number): HTMLElement {
  const parts = accountOf(report, thread).map(([state, share]) =>
    element("i", { style: `background:var(--${state});flex:${share.toFixed(4)}` }),
  );
  return element("span", { class: "account", "aria-hidden": "true" }, ...parts);
}

/** The same in words, largest first. */
function accountWords(report: Report, thread: number): string {
  return accountOf(report, thread)
    .sort((a, b) => b[1] - a[1])
    .filter(([, share]) => share >= 0.005)
    .map(([state, share]) => `${GROUP_WORDS[state]} ${format.percent(share)}`)
    .join(", ");
}

/** All that keys and mouse do, over the page; Escape closes it. */
function keyHelp(): HTMLDialogElement {
  const rows: [string, string][] = [
    ["wheel, + \u2212", "zoom around the pointer, or the middle"],
    ["drag, shift+wheel, \u2190 \u2192", "pan; with shift, \u2190 \u2192 pan by half a window"],
    ["Home  End", "the beginning, the end"],
    ["0", "show everything"],
    ["\u2191 \u2193, click", "select a thread; a click selects the stretch too, a double click shows it"],
    ["N  P", "next and previous run of the selected thread, or hit of a search; tells what it is"],
    ["A  B", "set a marker at the pointer, or in the middle"],
    ["M", "set both markers around the stretch that N, P or a click found"],
    ["shift+drag, drag on the ruler", "set both markers"],
    ["Z", "show what is between the markers"],
    ["Esc", "remove the markers"],
    ["/", "search threads and locks; Enter finds the next hit, Esc ends the search"],
    ["T", "light or dark"],
    ["?", "this list"],
  ];
  const dialog = element(
    "dialog",
    { class: "keys", "aria-label": "Keys and mouse" },
    element("h2", {}, "Keys and mouse"),
    element("dl", {}, ...rows.flatMap(([keys, what]) => [element("dt", {}, keys), element("dd", {}, what)])),
    element(
      "p",
      { class: "note" },
      "Arrow keys, Home and End work while the timeline has the focus. In the tables, Enter on a head sorts, on a name leads to the timeline.",
    ),
  );
  dialog.append(button("Close", "Close (Esc)", () => dialog.close()));
  return dialog;
}
