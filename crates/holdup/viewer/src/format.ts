// Numbers and names as the terminal's reports write them (crates/holdup/src/report/number.rs and text.rs).

/** Three significant digits. */
export function plain(value: number): string {
  if (!Number.isFinite(value)) return "n/a";
  if (value === 0) return "0";
  const rounded = Number(value.toPrecision(3));
  const size = Math.abs(rounded);
  if (size < 1e-6 || size >= 1e15) return value.toExponential(1);
  const digits = Math.max(0, 2 - Math.floor(Math.log10(size)));
  return rounded.toFixed(digits);
}

export function count(value: number): string {
  if (Math.abs(value) < 1000 && Number.isInteger(value)) return String(value);
  if (value > 0 && value < 0.01) return "<0.01";
  for (const [step, letter] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]] as const) {
    if (Math.abs(Number(value.toPrecision(3))) >= step) return plain(value / step) + letter;
  }
  return plain(value);
}

export function time(ns: number): string {
  for (const [step, unit] of [[1e9, "s"], [1e6, "ms"], [1e3, "us"]] as const) {
    if (Math.abs(Number(ns.toPrecision(3))) >= step) return plain(ns / step) + unit;
  }
  return `${plain(ns)}ns`;
}

/** A moment, with as many digits as the step between neighbouring moments needs. */
export function moment(ns: number, step = 1): string {
  const digits = Math.min(9, Math.max(0, 9 - Math.floor(Math.log10(Math.max(1, step)) + 1e-9)));
  return `${(ns / 1e9).toFixed(digits)}s`;
}

export function percent(share: number): string {
  return share > 0 && share < 0.005 ? "<1%" : `${(share * 100).toFixed(0)}%`;
}

/** Control and bidirectional characters made visible: foreign text neither hides nor reorders anything. */
export function clean(text: string): string {
  return text.replace(/[\n\t]/g, " ").replace(/[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g,
    (c) => `<U+${(c.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}>`);
}

/** The last part of a path. */
export function base(path: string): string {
  return clean(path.split("/").filter((part) => part !== "").pop() ?? path);
}
