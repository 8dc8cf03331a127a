// Tables that sort by their heads, and filter by what is typed.

import { element } from "./dom";

export interface Column<T> {
  title: string;
  hint?: string;
  number?: boolean;
  value: (row: T) => string | number;
  text?: (row: T) => string;
  /** The exact value, shown on hover. */
  exact?: (row: T) => string;
  /** Long names may be broken anywhere; all else stays in a line. */
  wrap?: boolean;
  /** A colour variable shown in front. */
  colour?: (row: T) => string | null;
}

/** Rows that are shown before somebody asks for all. */
const MOST = 100;

export class Table<T> {
  readonly root: HTMLElement;
  private by: number;
  private down = true;
  private query = "";
  private all = false;
  private readonly body = element("tbody");
  private readonly more = element("button", { type: "button", class: "more" });
  private readonly heads: HTMLTableCellElement[];

  constructor(
    name: string,
    private readonly rows: T[],
    private readonly columns: Column<T>[],
    sortedBy: number,
    private readonly options: { pick?: (row: T) => void; look?: (row: T) => string; empty: string },
  ) {
    this.by = sortedBy;
    this.heads = columns.map((column, index) => {
      const press = element("button", { type: "button" }, column.title);
      if (column.hint) press.title = column.hint;
      press.addEventListener("click", () => this.sort(index));
      return element("th", { scope: "col", class: kind(column) }, press);
    });
    const filter = element("input", { type: "search", placeholder: "Filter", "aria-label": `Filter ${name}` });
    filter.addEventListener("input", () => {
      this.query = filter.value.trim().toLowerCase();
      this.show();
    });
    this.more.addEventListener("click", () => {
      this.all = true;
      this.show();
    });
    const table = element(
      "table",
      { "aria-label": name },
      element("thead", {}, element("tr", {}, ...this.heads)),
      this.body,
    );
    this.root =
      rows.length === 0
        ? element("p", { class: "note" }, options.empty)
        : element(
            "div",
            { class: "table" },
            filter,
            element("div", { class: "scroll", tabindex: "0" }, table),
            this.more,
          );
    this.show();
  }

  private sort(index: number): void {
    this.down = index === this.by ? !this.down : Boolean(this.columns[index]?.number);
    this.by = index;
    this.show();
  }

  private text(column: Column<T>, row: T): string {
    return column.text ? column.text(row) : String(column.value(row));
  }

  private show(): void {
    const column = this.columns[this.by];
    if (!column) return;
    const matches = (row: T) =>
      this.query === "" || this.columns.some((one) => this.text(one, row).toLowerCase().includes(this.query));
    const sign = this.down ? -1 : 1;
    const rows = this.rows.filter(matches).sort((a, b) => sign * compare(column.value(a), column.value(b)));
    this.heads.forEach((head, index) =>
      head.setAttribute("aria-sort", index !== this.by ? "none" : this.down ? "descending" : "ascending"),
    );
    this.body.replaceChildren(...rows.slice(0, this.all ? rows.length : MOST).map((row) => this.row(row)));
    this.more.hidden = this.all || rows.length <= MOST;
    this.more.textContent = `Show all ${rows.length} rows`;
  }

  private row(row: T): HTMLElement {
    const { pick, look } = this.options;
    const cells = this.columns.map((column, index) => {
      const cell = element(index === 0 ? "th" : "td", { class: kind(column) });
      if (column.exact) cell.title = column.exact(row);
      const colour = column.colour?.(row);
      if (colour) cell.append(element("i", { class: "swatch", style: `background:var(${colour})` }));
      const text = this.text(column, row);
      if (index === 0 && pick) {
        const press = element("button", { type: "button", class: "link" }, element("bdi", {}, text));
        press.addEventListener("click", () => pick(row));
        cell.append(press);
      } else cell.append(element("bdi", {}, text));
      return cell;
    });
    return element("tr", { class: look ? look(row) : "" }, ...cells);
  }
}

function kind<T>(column: Column<T>): string {
  return column.number ? "n" : column.wrap ? "w" : "";
}

function compare(a: string | number, b: string | number): number {
  return typeof a === "number" && typeof b === "number"
    ? a - b
    : String(a).localeCompare(String(b), undefined, { numeric: true });
}

/** A row of a table that is there already; headings of groups span it. */
interface Written {
  row: HTMLTableRowElement;
  heading: Written | null;
  cells: string[];
  text: string;
}

/** A table with fewer rows is seen at a glance. */
const FILTERED = 6;

/** Lets the heads of a table that is there already sort it, and a field filter it. Sorted rows leave the headings of their groups. */
export function makeSortable(table: HTMLTableElement): void {
  const heads = [...table.querySelectorAll<HTMLTableCellElement>("thead th")];
  const body = table.tBodies[0];
  if (!body) return;
  const rows = written(body, heads.length);
  let query = "";
  let by = -1;
  const show = () => {
    const order = heads[by]?.getAttribute("aria-sort") ?? "none";
    const sign = order === "descending" ? -1 : 1;
    const plain = rows.filter((one) => one.heading !== one);
    const matching = new Set(plain.filter((one) => one.text.includes(query)));
    const headings = new Set([...matching].map((one) => one.heading));
    for (const one of rows)
      one.row.hidden = one.heading === one ? order !== "none" || !headings.has(one) : !matching.has(one);
    const sorted =
      order === "none" ? rows : [...plain].sort((a, b) => sign * compareText(a.cells[by] ?? "", b.cells[by] ?? ""));
    body.classList.toggle("sorted", order !== "none" || query !== "");
    body.append(...sorted.map(({ row }) => row));
  };
  heads.forEach((head, column) => {
    if (!head.textContent) return;
    const press = element(
      "button",
      { type: "button", class: "sort", title: "Sort by this column" },
      ...head.childNodes,
    );
    head.replaceChildren(press);
    head.setAttribute("aria-sort", "none");
    press.addEventListener("click", () => {
      const order =
        { none: "ascending", ascending: "descending", descending: "none" }[head.getAttribute("aria-sort") ?? "none"] ??
        "none";
      heads.forEach((other) => {
        if (other.hasAttribute("aria-sort")) other.setAttribute("aria-sort", "none");
      });
      head.setAttribute("aria-sort", order);
      by = column;
      show();
    });
  });
  if (rows.length < FILTERED) return;
  const filter = element("input", {
    type: "search",
    class: "filter",
    placeholder: "Filter",
    "aria-label": `Filter ${table.getAttribute("aria-label") ?? "the table"}`,
  });
  filter.addEventListener("input", () => {
    query = filter.value.trim().toLowerCase();
    show();
  });
  (table.closest(".scroll") ?? table).before(filter);
}

function written(body: HTMLTableSectionElement, columns: number): Written[] {
  let heading: Written | null = null;
  return [...body.rows].map((row) => {
    // A cell that spans others stands in the first of them.
    const cells = [...row.cells].flatMap((cell) => [
      cell.textContent ?? "",
      ...Array<string>(cell.colSpan - 1).fill(""),
    ]);
    const one: Written = { row, heading, cells, text: cells.join("\n").toLowerCase() };
    if (columns > 1 && row.cells.length === 1 && row.cells[0]?.colSpan === columns) heading = one.heading = one;
    return one;
  });
}

/** A figure such as `24.1ns [23-25]`, `1.2k`, `0.98x` or `41%` by its size, anything else by its letters. */
export function compareText(a: string, b: string): number {
  const [x, y] = [size(a), size(b)];
  if (x !== null && y !== null) return x - y;
  if (x !== null || y !== null) return x !== null ? -1 : 1;
  return a.localeCompare(b, undefined, { numeric: true });
}

const UNITS: Record<string, number> = {
  ns: 1,
  us: 1e3,
  ms: 1e6,
  s: 1e9,
  k: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  "%": 0.01,
  x: 1,
};

/** Signs in front, such as that of a doubt, do not count. */
function size(text: string): number | null {
  const found = /^[\s<?~=*\u2248]*(-?[0-9][0-9.,]*(?:e[-+]?[0-9]+)?)\s*(ns|us|ms|s|k|M|G|T|x|%)?(?![a-zA-Z])/.exec(
    text,
  );
  return found ? Number((found[1] as string).replace(/,/g, "")) * (UNITS[found[2] ?? ""] ?? 1) : null;
}
