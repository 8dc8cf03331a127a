// The whole recording in one strip: how many threads ran and how many waited for locks, and which part is shown below.

import { element } from "./dom";
import type { Shown } from "./shown";
import { BUCKET_BYTES } from "./tracks";

const HEIGHT = 36;

export class Overview {
  readonly canvas = element("canvas", { class: "overview", title: "The whole recording: drag to move the window" });
  private picture: HTMLCanvasElement | null = null;

  constructor(private readonly line: Shown) {
    let held = false;
    const go = (event: PointerEvent) => {
      const box = this.canvas.getBoundingClientRect();
      const { start_ns: start, end_ns: end } = line.view;
      const middle = start + ((event.clientX - box.left) / box.width) * (end - start);
      const span = line.to - line.from;
      line.show(middle - span / 2, middle + span / 2);
    };
    this.canvas.addEventListener("pointerdown", (event) => {
      held = true;
      this.canvas.setPointerCapture(event.pointerId);
      go(event);
    });
    this.canvas.addEventListener("pointermove", (event) => {
      if (held) go(event);
    });
    this.canvas.addEventListener("pointerup", () => {
      held = false;
    });
  }

  forget(): void {
    this.picture = null;
  }

  paint(ratio: number): void {
    const width = Math.max(1, Math.round(this.canvas.clientWidth * ratio));
    const height = Math.round(HEIGHT * ratio);
    if (!this.picture || this.picture.width !== width) this.picture = this.draw(width, height);
    if (this.canvas.width !== width) {
      this.canvas.width = width;
      this.canvas.height = height;
    }
    const context = this.canvas.getContext("2d");
    if (!context) return;
    context.clearRect(0, 0, width, height);
    context.drawImage(this.picture, 0, 0);
    const { start_ns: start, end_ns: end } = this.line.view;
    const style = getComputedStyle(this.line.root);
    const x = (time: number) => ((time - start) / (end - start)) * width;
    context.fillStyle = style.getPropertyValue("--paper");
    context.globalAlpha = 0.6;
    context.fillRect(0, 0, x(this.line.from), height);
    context.fillRect(x(this.line.to), 0, width, height);
    context.globalAlpha = 1;
    context.strokeStyle = style.getPropertyValue("--accent");
    context.lineWidth = 2 * ratio;
    context.strokeRect(
      x(this.line.from) + ratio,
      ratio,
      Math.max(3, x(this.line.to) - x(this.line.from)) - 2 * ratio,
      height - 2 * ratio,
    );
  }

  private draw(width: number, height: number): HTMLCanvasElement {
    const picture = element("canvas");
    picture.width = width;
    picture.height = height;
    const context = picture.getContext("2d");
    if (!context) return picture;
    const running = new Float64Array(width);
    const waiting = new Float64Array(width);
    this.add(running, waiting);
    const most = Math.max(1e-9, ...running.map((value, x) => value + (waiting[x] as number)));
    const style = getComputedStyle(this.line.root);
    const colours = [
      style.getPropertyValue("--run0"),
      style.getPropertyValue("--lock0"),
      style.getPropertyValue("--bad"),
    ] as const;
    for (let x = 0; x < width; x++) {
      const ran = ((running[x] as number) / most) * (height - 4);
      const waits = ((waiting[x] as number) / most) * (height - 4);
      context.fillStyle = colours[0];
      context.fillRect(x, height - ran, 1, ran);
      context.fillStyle = colours[1];
      context.fillRect(x, height - ran - waits, 1, waits);
    }
    const { start_ns: start, end_ns: end, lost } = this.line.view;
    context.fillStyle = colours[2];
    for (const gap of lost) {
      const from = ((gap.from_ns - start) / (end - start)) * width;
      context.fillRect(from, 0, Math.max(2, ((gap.to_ns - gap.from_ns) / (end - start)) * width), 3);
    }
    return picture;
  }

  private add(running: Float64Array, waiting: Float64Array): void {
    const width = running.length;
    const { view, tracks } = this.line;
    const perNs = width / (view.end_ns - view.start_ns);
    for (const track of tracks.all) {
      const level = track.levels[0];
      if (level && tracks.summaries.length > 0) {
        for (let bucket = 0; bucket < level.buckets; bucket++) {
          const x = Math.floor((bucket * width) / level.buckets);
          const at = level.at + bucket * BUCKET_BYTES;
          running[x] = (running[x] as number) + ((tracks.summaries[at] as number) / 255) * (width / level.buckets);
          waiting[x] = (waiting[x] as number) + ((tracks.summaries[at + 2] as number) / 255) * (width / level.buckets);
        }
      } else if (track.exact) {
        const { starts, states, count } = track.exact;
        for (let piece = 0; piece < count; piece++) {
          const group = view.states[states[piece] as number]?.group;
          const into = group === "running" ? running : group === "waiting_for_lock" ? waiting : null;
          if (!into) continue;
          let at = Math.max(0, ((starts[piece] as number) - view.start_ns) * perNs);
          const to = Math.min(width, ((starts[piece + 1] as number) - view.start_ns) * perNs);
          while (at < to) {
            const next = Math.min(to, Math.floor(at) + 1);
            into[Math.floor(at)] = (into[Math.floor(at)] as number) + next - at;
            at = next;
          }
        }
      }
    }
  }
}
