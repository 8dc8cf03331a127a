// Flame graphs of the selection, or of what is shown: CPU samples by call path, and the time off the CPU by where the
// threads left it, by what they waited for, or by what the waits came from. A click leads to the moments.

import type { Role } from "../report";
import { choice, element } from "./dom";
import * as format from "./format";
import { variables } from "./palette";
import type { Marked, Shown } from "./shown";
import { OUTSIDE, firstAt, pieceAt, type Exact } from "./tracks";

/** How long the window must rest before the graph is made anew, in ms. */
const REST = 250;
/** Pieces that are added up before the page gets its turn. */
const SLICE = 50_000;
/** Waits that are followed to what they came from; of more, every second, every third, and so on. */
const FOLLOWED = 100_000;
const DEEPEST = 6;
/** Narrower frames are left out, as a share of the width. */
const LEAST = 0.002;
const MOST_ROWS = 48;
const MOST_MOMENTS = 8;

const ROLES: Record<Role, string> = {
  program: "--run0",
  lock: "--lock0",
  runtime: "--waiting_for_work",
  scheduler: "--displaced",
  kernel: "--displaced",
};

type By = "cpu" | "off-thread" | "off-lock" | "off-blame";

/** One box of a path, and its colour. */
interface Step {
  name: string;
  colour: string;
}

class Node {
  ns = 0;
  /** The longest of its moments. */
  moments: Marked[] = [];
  readonly children = new Map<string, Node>();
  constructor(
    readonly step: Step,
    readonly parent: Node | null,
  ) {}

  add(path: Step[], ns: number, moment: Marked): void {
    let at: Node = this;
    at.count(ns, moment);
    for (const step of path) {
      let next = at.children.get(step.name);
      if (!next) at.children.set(step.name, (next = new Node(step, at)));
      at = next;
      at.count(ns, moment);
    }
  }

  private count(ns: number, moment: Marked): void {
    this.ns += ns;
    const length = moment.to - moment.from;
    const last = this.moments[MOST_MOMENTS - 1];
    if (last && last.to - last.from >= length) return;
    this.moments.push(moment);
    this.moments.sort((a, b) => b.to - b.from - (a.to - a.from) || a.from - b.from);
    this.moments.length = Math.min(this.moments.length, MOST_MOMENTS);
  }

  sorted(): Node[] {
    return [...this.children.values()].sort((a, b) => b.ns - a.ns);
  }
}

export class FlameGraph {
  readonly root = element("details", { class: "flame" });
  private readonly graph = element("div", { class: "boxes", role: "tree", "aria-label": "Flame graph" });
  private readonly told = element("div", { class: "told", "aria-live": "polite" });
  private readonly colours: string[];
  private by: By = "off-thread";
  private timer = 0;
  private turn = 0;

  constructor(
    private readonly line: Shown,
    private readonly jump: (to: Marked) => void,
    private readonly periodNs: number,
  ) {
    this.colours = variables(line.view);
    const kinds: [string, string][] = [
      ["off-thread", "off the CPU, by thread"],
      ["off-lock", "off the CPU, by what is waited for"],
      ["off-blame", "off the CPU, by what it came from"],
      ["cpu", "on the CPU, by thread"],
    ];
    const chosen = choice("Time", kinds, (value) => {
      this.by = value as By;
      this.update();
    });
    this.root.append(
      element("summary", {}, element("h3", {}, "Flame graph")),
      element("div", { class: "tools" }, chosen),
      this.graph,
      this.told,
    );
    this.root.addEventListener("toggle", () => this.update());
    this.graph.addEventListener("keydown", (event) => this.key(event));
  }

  update(): void {
    clearTimeout(this.timer);
    const turn = ++this.turn;
    if (this.root.open) this.timer = window.setTimeout(() => void this.work(turn), REST);
  }

  private async work(turn: number): Promise<void> {
    const { line } = this;
    if (line.tracks.ready < line.tracks.all.length) return;
    const [from, to] = line.selection() ?? [line.from, line.to];
    const all = new Node({ name: "all", colour: "--sleeping" }, null);
    if (this.by === "cpu") this.samples(all, from, to);
    else if (!(await this.waits(all, from, to, () => turn !== this.turn))) return;
    if (turn === this.turn) this.show(all);
  }

  private samples(all: Node, from: number, to: number): void {
    const { samples } = this.line.tracks;
    const shown = new Set(this.line.threads());
    for (let at = firstAt(samples.times, from, (time) => time); at < samples.times.length; at++) {
      const time = samples.times[at] as number;
      const thread = samples.threads[at] as number;
      if (time >= to) break;
      if (!shown.has(thread)) continue;
      const path = [this.thread(thread), ...this.frames(samples.paths[at] as number)];
      all.add(path, this.periodNs, { thread, from: time, to: time + this.periodNs });
    }
  }

  private async waits(all: Node, from: number, to: number, stop: () => boolean): Promise<boolean> {
    const { view, tracks } = this.line;
    const rows = this.line.threads().flatMap((thread) => {
      const exact = tracks.all[thread]?.exact;
      return exact ? [{ thread, exact, begin: Math.max(0, pieceAt(exact, from)), end: pieceAt(exact, to) + 1 }] : [];
    });
    const pieces = rows.reduce((sum, row) => sum + Math.max(0, row.end - row.begin), 0);
    const stride = this.by === "off-blame" ? Math.max(1, Math.ceil(pieces / FOLLOWED)) : 1;
    let left = SLICE;
    for (const { thread, exact, begin, end } of rows) {
      for (let piece = begin; piece < Math.min(end, exact.count); piece += stride) {
        if (--left === 0) {
          left = SLICE;
          await new Promise((resume) => setTimeout(resume, 0));
          if (stop()) return false;
        }
        const moment = { thread, from: exact.starts[piece] as number, to: exact.starts[piece + 1] as number };
        const state = exact.states[piece] as number;
        const ns = (Math.min(moment.to, to) - Math.max(moment.from, from)) * stride;
        if (view.states[state]?.group === "running" || ns <= 0) continue;
        const wait = this.state(state);
        if (this.by === "off-blame") {
          this.follow(all, [wait], exact, piece, thread, moment, stride, 0);
        } else {
          const frames = this.frames(view.kinds[exact.kinds[piece] as number]?.call_path ?? -1);
          all.add(this.by === "off-lock" ? [wait, ...frames] : [this.thread(thread), ...frames, wait], ns, moment);
        }
      }
    }
    return true;
  }

  /** What a wait came from: what its waker did meanwhile, and where that one waited too, its waker. */
  private follow(
    all: Node,
    path: Step[],
    exact: Exact,
    piece: number,
    waits: number,
    moment: Marked,
    weight: number,
    depth: number,
  ): void {
    const { view, tracks } = this.line;
    const waker = (exact.wakers[piece + 1] ?? 0) - OUTSIDE - 1;
    const its = tracks.all[waker]?.exact;
    if (!its || waker === waits || depth >= DEEPEST) {
      all.add(path, (moment.to - moment.from) * weight, moment);
      return;
    }
    const end = Math.min(its.count, pieceAt(its, moment.to) + 1);
    for (let at = Math.max(0, pieceAt(its, moment.from)); at < end; at++) {
      const from = Math.max(moment.from, its.starts[at] as number);
      const to = Math.min(moment.to, its.starts[at + 1] as number);
      if (to <= from) continue;
      const state = its.states[at] as number;
      const running = view.states[state]?.group === "running";
      const does = running ? { name: "runs", colour: "--run0" } : this.state(state);
      const step = { name: `${view.threads[waker]?.label ?? "?"} ${does.name}`, colour: does.colour };
      const part = { thread: moment.thread, from, to };
      if (running) all.add([...path, step], (to - from) * weight, part);
      else this.follow(all, [...path, step], its, at, waker, part, weight, depth + 1);
    }
  }

  private thread(index: number): Step {
    return { name: this.line.view.threads[index]?.label ?? "?", colour: "--unknown" };
  }

  private state(index: number): Step {
    return { name: this.line.view.states[index]?.label ?? "?", colour: this.colours[index] ?? "--unknown" };
  }

  private frames(path: number): Step[] {
    const { functions, roles, paths } = this.line.tracks.callPaths;
    return (paths[path] ?? []).map((index) => ({
      name: functions[index] ?? "?",
      colour: ROLES[roles[index] ?? "program"],
    }));
  }

  /** Draws from a node on: what is above it fills the width. */
  private show(node: Node): void {
    const boxes: HTMLElement[] = [];
    const above: Node[] = [];
    for (let at: Node | null = node; at; at = at.parent) above.unshift(at);
    const whole = Math.max(1, above[0]?.ns ?? 1);
    let rows = 0;
    const draw = (one: Node, row: number, left: number, width: number) => {
      if (width < LEAST || row >= MOST_ROWS) return;
      rows = Math.max(rows, row + 1);
      const words = `${one.step.name}: ${format.time(one.ns)}, ${format.percent(one.ns / whole)}`;
      const box = element(
        "button",
        {
          type: "button",
          role: "treeitem",
          "aria-level": String(row + 1),
          "aria-label": words,
          title: words,
          tabindex: one === node ? "0" : "-1",
          style: `left:${(left * 100).toFixed(3)}%;width:${(width * 100).toFixed(3)}%;top:${row * 20}px;background:var(${one.step.colour})`,
        },
        one.step.name,
      );
      box.addEventListener("click", () => {
        this.show(one);
        this.graph.querySelector<HTMLElement>("[tabindex='0']")?.focus();
      });
      boxes.push(box);
      let at = left;
      if (row + 1 < above.length) draw(above[row + 1] as Node, row + 1, left, width);
      else
        for (const child of one.sorted()) {
          const share = (child.ns / Math.max(1, one.ns)) * width;
          draw(child, row + 1, at, share);
          at += share;
        }
    };
    if (node.ns > 0) draw(above[0] as Node, 0, 0, 1);
    this.graph.style.height = `${rows * 20}px`;
    this.graph.replaceChildren(...boxes);
    this.tell(node);
  }

  /** What the chosen box is, and where to look at it. */
  private tell(node: Node): void {
    if (node.ns === 0) {
      const none = this.by === "cpu" ? "no CPU sample lies here" : "no thread was off the CPU here";
      this.told.replaceChildren(element("p", { class: "note" }, none));
      return;
    }
    const label = (thread: number) => this.line.view.threads[thread]?.label ?? "";
    this.told.replaceChildren(
      element(
        "p",
        {},
        element("b", {}, node.step.name),
        ` ${format.time(node.ns)}; ${this.by === "cpu" ? "some" : "longest"} moments:`,
      ),
      element(
        "div",
        { class: "moments" },
        ...node.moments.map((moment) => {
          const words = `${format.moment(moment.from, 1000)}, ${format.time(moment.to - moment.from)} ${label(moment.thread)}`;
          const press = element("button", { type: "button", class: "moment" }, words);
          press.addEventListener("click", () => this.jump(moment));
          return press;
        }),
      ),
    );
  }

  /** Arrow keys go from box to box: down to the callees, up to the caller, left and right along a row. */
  private key(event: KeyboardEvent): void {
    const boxes = [...this.graph.querySelectorAll<HTMLElement>("button")];
    const at = boxes.indexOf(document.activeElement as HTMLElement);
    const level = (box: HTMLElement | undefined) => Number(box?.getAttribute("aria-level") ?? 0);
    const here = level(boxes[at]);
    const along = (step: 1 | -1, wanted: number, until: number) => {
      for (let next = at + step; next >= 0 && next < boxes.length; next += step) {
        if (level(boxes[next]) === wanted) return boxes[next];
        if (level(boxes[next]) <= until) return undefined;
      }
      return undefined;
    };
    const targets: Record<string, () => HTMLElement | undefined> = {
      ArrowDown: () => along(1, here + 1, here),
      ArrowUp: () => along(-1, here - 1, 0),
      ArrowRight: () => along(1, here, 0),
      ArrowLeft: () => along(-1, here, 0),
      Home: () => boxes[0],
    };
    const find = targets[event.key];
    if (at < 0 || !find) return;
    event.preventDefault();
    event.stopPropagation();
    const target = find();
    if (!target) return;
    boxes.forEach((box) => (box.tabIndex = box === target ? 0 : -1));
    target.focus();
  }
}
