// The script of every page: the theme, sortable tables, charts that answer, and on a recording's page the timeline.

import { charts } from "./charts";
import { canInflate, json } from "./data";
import type { Report, View } from "../report";
import { element } from "./dom";
import * as format from "./format";
import { makeSortable } from "./table";
import { tables } from "./tables";
import { applyTheme, lightOnPaper, themeButton, toggleTheme } from "./theme";
import { Timeline } from "./timeline";
import { Tracks } from "./tracks";

declare global {
  interface Window {
    /** For tests and the curious. */
    holdup?: { timeline: Timeline | null; ready: boolean; openedMs: number; readyMs: number; format: typeof format };
  }
}

applyTheme();
lightOnPaper();
document.addEventListener("DOMContentLoaded", () => {
  themeButton();
  for (const table of document.querySelectorAll<HTMLTableElement>("table.sortable")) makeSortable(table);
  charts();
  copyable();
  document.addEventListener("keydown", (event) => {
    const field = /^(INPUT|SELECT|TEXTAREA)$/.test((event.target as HTMLElement).tagName);
    if (event.key === "t" && !field && !event.ctrlKey && !event.metaKey && !event.altKey) toggleTheme();
  });
  recording();
});

/** A command in a page is there to be run: a click copies it. */
function copyable(): void {
  if (!navigator.clipboard) return;
  for (const code of document.querySelectorAll<HTMLElement>("code.command")) {
    const press = element("button", { type: "button", class: "copy", title: "Copy the command" }, "copy");
    press.addEventListener("click", () => {
      navigator.clipboard.writeText(code.textContent ?? "").then(
        () => {
          press.textContent = "copied";
        },
        () => {
          press.textContent = "cannot copy";
        },
      );
    });
    code.after(" ", press);
  }
}

function recording(): void {
  const report = json<Report>("report");
  const view = json<View>("view");
  const place = document.getElementById("timeline");
  const below = document.getElementById("tables");
  if (!report || !view || !place || !below) return;
  const state = { timeline: null as Timeline | null, ready: false, openedMs: 0, readyMs: 0, format };
  window.holdup = state;
  if (!canInflate()) {
    place.replaceChildren(
      element(
        "p",
        { class: "note" },
        "This browser is too old for the timeline: it needs one from 2023 or later. The findings above and the tables below work.",
      ),
    );
    tables(below, report, view, null);
    return;
  }
  const tracks = new Tracks(view);
  const line = new Timeline(place, view, report, tracks);
  state.timeline = line;
  tables(below, report, view, line);
  for (const press of document.querySelectorAll<HTMLButtonElement>("button.moment")) {
    press.addEventListener("click", () => {
      line.jump({
        thread: Number(press.dataset["thread"]),
        from: Number(press.dataset["from"]),
        to: Number(press.dataset["to"]),
      });
    });
  }
  fromAddress(line);
  const failed = (why: unknown) =>
    place.append(element("p", { class: "bad" }, `The timeline cannot be read: ${String(why)}`));
  tracks
    .load(() => {
      line.refresh();
      if (!state.openedMs) state.openedMs = performance.now();
    })
    .then(() => {
      state.ready = true;
      state.readyMs = performance.now();
    }, failed);
}

/** `#from=1200000000&to=1350000000`: a page can be opened at a place, in ns since the beginning; `a` and `b` are the markers. */
function fromAddress(line: Timeline): void {
  const wanted = new URLSearchParams(location.hash.slice(1));
  const at = (name: string) => (wanted.has(name) ? Number(wanted.get(name)) : -1);
  if (at("a") >= 0) line.setMarker("a", at("a"));
  if (at("b") >= 0) line.setMarker("b", at("b"));
  if (at("from") >= 0 && at("to") > at("from")) line.show(at("from"), at("to"));
}
