// Charts of a run: pointer or arrow keys read the exact values, the legend shows and hides lines. The page reads well without.

import { element } from "./dom";

export function charts(): void {
  for (const figure of document.querySelectorAll<HTMLElement>("figure")) {
    const svg = figure.querySelector<SVGSVGElement>(".plot svg");
    const tip = figure.querySelector<HTMLElement>(".tip");
    const guide = svg?.querySelector<SVGElement>(".guide");
    if (svg && tip && guide) new Chart(figure, svg, tip, guide);
  }
}

class Chart {
  private at = -1;
  private readonly rows: HTMLTableRowElement[];
  private readonly heads: HTMLTableCellElement[];
  private readonly buttons: HTMLButtonElement[];
  private readonly xs: number[];

  constructor(
    figure: HTMLElement,
    private readonly svg: SVGSVGElement,
    private readonly tip: HTMLElement,
    private readonly guide: SVGElement,
  ) {
    this.rows = [...figure.querySelectorAll<HTMLTableRowElement>("tbody tr")];
    this.heads = [...figure.querySelectorAll<HTMLTableCellElement>("thead th")];
    this.buttons = [...figure.querySelectorAll<HTMLButtonElement>(".legend button")];
    this.xs = (svg.dataset["xs"] ?? "").split(" ").map(Number);
    svg.querySelectorAll("use title").forEach((title) => title.remove());
    svg.addEventListener("pointermove", (event) => this.follow(event));
    svg.addEventListener("pointerleave", () => this.hide());
    svg.addEventListener("blur", () => this.hide());
    svg.addEventListener("keydown", (event) => this.key(event));
    this.buttons.forEach((press, index) => this.legend(press, index));
  }

  private line(index: number): Element | null {
    return this.svg.querySelector(`[data-line="${index}"]`);
  }

  private hide(): void {
    this.at = -1;
    this.tip.style.visibility = this.guide.style.visibility = "hidden";
  }

  private show(index: number): void {
    const at = (this.at = Math.max(0, Math.min(this.xs.length - 1, index)));
    const found = this.buttons.flatMap((press, i) => {
      const mark = this.line(i)?.querySelector(`[data-x="${at}"]`);
      if (!mark || press.getAttribute("aria-pressed") !== "true") return [];
      return [{ y: Number(mark.getAttribute("y")), press, value: this.rows[i]?.cells[at + 1]?.textContent ?? "" }];
    });
    found.sort((a, b) => a.y - b.y);
    const table = element("table");
    for (const { press, value } of found) {
      const row = table.insertRow();
      const swatch = press.querySelector("svg")?.cloneNode(true);
      row.insertCell().append(...(swatch ? [swatch] : []));
      row.insertCell().textContent = press.textContent;
      row.insertCell().textContent = value;
    }
    this.tip.replaceChildren(
      element("b", {}, `${this.heads[0]?.textContent ?? ""} ${this.heads[at + 1]?.textContent ?? ""}`),
      table,
    );
    this.guide.setAttribute("transform", `translate(${this.xs[at] ?? 0})`);
    this.tip.style.visibility = this.guide.style.visibility = "visible";
    const box = this.svg.getBoundingClientRect();
    const x = ((this.xs[at] ?? 0) / this.svg.viewBox.baseVal.width) * box.width;
    const width = this.tip.offsetWidth;
    this.tip.style.transform = `translate(${x + 14 + width <= box.width ? x + 14 : Math.max(0, x - 14 - width)}px, 8px)`;
  }

  private follow(event: PointerEvent): void {
    const box = this.svg.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * this.svg.viewBox.baseVal.width;
    let best = 0;
    this.xs.forEach((place, i) => {
      if (Math.abs(place - x) < Math.abs((this.xs[best] ?? 0) - x)) best = i;
    });
    this.show(best);
  }

  private key(event: KeyboardEvent): void {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step) {
      this.show(this.at < 0 ? (step > 0 ? 0 : this.xs.length - 1) : this.at + step);
      event.preventDefault();
    }
    if (event.key === "Escape") this.hide();
  }

  private legend(press: HTMLButtonElement, index: number): void {
    const light = (on: boolean) => {
      this.line(index)?.classList.toggle("lit", on);
      this.svg.classList.toggle("dim", on);
    };
    for (const event of ["pointerenter", "focus"]) press.addEventListener(event, () => light(true));
    for (const event of ["pointerleave", "blur"]) press.addEventListener(event, () => light(false));
    press.addEventListener("click", () => {
      const on = press.getAttribute("aria-pressed") !== "true";
      press.setAttribute("aria-pressed", String(on));
      this.line(index)?.classList.toggle("off", !on);
    });
  }
}
