// What a timeline shows at the moment, for the parts that draw it and tell of it.

import type { View } from "../report";
import type { Row } from "./rows";
import type { Tracks } from "./tracks";

/** Height of a row in CSS pixels; the style sheet knows it too. */
export const ROW = 24;

export interface Marked {
  from: number;
  to: number;
  thread: number;
}

export interface Shown {
  readonly root: HTMLElement;
  readonly view: View;
  readonly tracks: Tracks;
  readonly rows: Row[];
  readonly from: number;
  readonly to: number;
  readonly a: number | null;
  readonly b: number | null;
  readonly selected: number;
  readonly cursor: number | null;
  readonly marked: Marked | null;
  readonly arrows: boolean;
  xOf(time: number): number;
  threads(): number[];
  selection(): [number, number] | null;
  show(from: number, to: number): void;
}
