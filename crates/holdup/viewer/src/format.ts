// Numbers and names as the terminal's reports write them (crates/holdup/src/report/number.rs and text.rs).

/** Three significant digits. */
export function plain(value: number): string {
  if (!Number.isFinite(value)) return "n/a";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size < 1e-6 || size >= 1e15) return value.toExponential(1).replace("e+", "e");
  const short = rounded(value);
  const digits = 2 - Math.floor(Math.log10(Math.abs(short)));
  return short.toFixed(Math.max(0, Math.min(9, digits)));
}

/** A large number with k, M, G or T behind it. */
function scaled(value: number): string {
  const size = rounded(Math.abs(value));
  const found = (
    [
      [1e12, "T"],
      [1e9, "G"],
      [1e6, "M"],
      [1e3, "k"],
    ] as const
  ).find(([step]) => size >= step);
  return found && size < 1e15 ? plain(value / found[0]) + found[1] : plain(value);
}

export function count(value: number): string {
  if (Math.abs(value) < 1000 && Number.isInteger(value)) return String(value);
  return value > 0 && value < 0.01 ? "<0.01" : scaled(value);
}

export function time(ns: number): string {
  if (!Number.isFinite(ns)) return "n/a";
  const size = rounded(Math.abs(ns));
  for (const [step, unit] of [
    [1e9, "s"],
    [1e6, "ms"],
    [1e3, "us"],
  ] as const) {
    if (size >= step) return plain(ns / step) + unit;
  }
  if (size !== 0 && size < 0.01) return "<0.01ns";
  return size !== 0 && size < 1 ? `${hundredths(ns)}ns` : `${plain(ns)}ns`;
}

/** With three significant digits; halves go away from zero, as in Rust's `round`. */
function rounded(value: number): number {
  if (value === 0 || !Number.isFinite(value)) return value;
  const power = 2 - Math.floor(Math.log10(Math.abs(value)));
  const place = power >= 0 ? 10 ** power : 1 / 10 ** -power;
  return (Math.sign(value) * Math.round(Math.abs(value) * place)) / place;
}

/** Two decimals; a true half goes to the even digit, as Rust prints it. Only odd eighths are such halves. */
function hundredths(value: number): string {
  const half = Number.isInteger(value * 8) && !Number.isInteger(value * 4);
  return (half ? evenly(value * 100) / 100 : value).toFixed(2);
}

/** A moment, with as many digits as the step between neighbouring moments needs. */
export function moment(ns: number, step = 1): string {
  const digits = Math.min(9, Math.max(0, 9 - Math.floor(Math.log10(Math.max(1, step)) + 1e-9)));
  return `${(ns / 1e9).toFixed(digits)}s`;
}

export function percent(share: number): string {
  return share > 0 && share < 0.005 ? "<1%" : `${evenly(share * 100)}%`;
}

/** A whole number; halves go to the even one, as Rust prints them. */
function evenly(value: number): number {
  const below = Math.floor(value);
  if (value - below !== 0.5) return Math.round(value);
  return below % 2 === 0 ? below : below + 1;
}

/** Control and bidirectional characters made visible: foreign text neither hides nor reorders anything. */
export function clean(text: string): string {
  return text
    .replace(/[\n\t]/g, " ")
    .replace(
      /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g,
      (c) => `<U+${(c.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}>`,
    );
}

/** The last part of a path. */
export function base(path: string): string {
  return clean(
    path
      .split("/")
      .filter((part) => part !== "")
      .pop() ?? path,
  );
}
