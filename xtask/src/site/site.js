// The theme, the contents on narrow screens, and a search over all pages that needs no server.
"use strict";

// The reports keep the theme under the same name.
const themeKey = "holdup-theme";
const page = document.documentElement;
try {
  const stored = localStorage.getItem(themeKey);
  if (stored === "light" || stored === "dark") page.dataset.theme = stored;
} catch {
  /* A page from a file may have no storage. */
}

const site = {
  /** Shows what is found for these words; resolves when it is shown. */
  async search(query) {
    const words = query.toLowerCase().split(/\s+/).filter(Boolean);
    const list = document.querySelector(".results");
    if (words.length === 0) {
      list.hidden = true;
      return;
    }
    await index();
    const found = rank(words);
    list.replaceChildren(...found.slice(0, 25).map((one) => row(one, words)));
    if (found.length === 0) {
      const none = document.createElement("li");
      none.className = "none";
      none.textContent = `No page has ${words.length > 1 ? "all of these words" : `"${words[0]}"`}.`;
      list.append(none);
    }
    list.hidden = false;
  },
};

let loading;
/** The index is large: it is loaded with the first search, as a script, for files may not be fetched. */
function index() {
  loading ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = `${document.body.dataset.root}search.js`;
    script.addEventListener("load", resolve);
    script.addEventListener("error", reject);
    document.head.append(script);
  });
  return loading;
}

/** The sections that have all words, best first: a word in a heading says more than one in the text. */
function rank(words) {
  const found = [];
  for (const entry of window.siteIndex) {
    const [, title, heading, text] = entry.map((part) => part.toLowerCase());
    let score = 0;
    for (const word of words) {
      const place = weight(title, word, heading === "" ? 12 : 4) + weight(heading, word, 8) + weight(text, word, 1);
      if (place === 0) {
        score = 0;
        break;
      }
      score += place;
    }
    const phrase = words.join(" ");
    if (score > 0 && words.length > 1) score += weight(heading, phrase, 16) + weight(text, phrase, 12);
    // Figures and decisions are for who looks for them: the guides come first.
    if (/^(docs\/(benchmarks|decisions)|CHANGELOG|crates)/.test(entry[0])) score /= 3;
    if (score > 0) found.push({ entry, score });
  }
  return found.sort((a, b) => b.score - a.score).map((one) => one.entry);
}

/** More where the word begins one of the text's. */
function weight(text, word, points) {
  const at = text.indexOf(word);
  if (at < 0) return 0;
  const begins = (` ${text}`).search(new RegExp(`[^\\p{L}\\p{N}]${word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}`, "u")) >= 0;
  return begins ? points * 2 : points;
}

function row([place, title, heading, text], words) {
  const item = document.createElement("li");
  const link = document.createElement("a");
  link.href = document.body.dataset.root + place;
  const name = document.createElement("b");
  name.textContent = heading === "" ? title : `${title} › ${heading}`;
  const about = document.createElement("small");
  excerpt(about, text, words);
  link.append(name, about);
  item.append(link);
  return item;
}

/** The text around the words where they stand together, or around the first of them; the words are marked. */
function excerpt(into, text, words) {
  const places = [words.join(" "), ...words].map((word) => text.toLowerCase().indexOf(word)).filter((at) => at >= 0);
  const start = Math.max(0, (places[0] ?? 0) - 50);
  let rest = text.slice(start, start + 160).trim();
  if (start > 0) into.append("… ");
  while (rest !== "") {
    const lower = rest.toLowerCase();
    const next = words.map((word) => [lower.indexOf(word), word]).filter(([at]) => at >= 0).sort((a, b) => a[0] - b[0])[0];
    if (next === undefined) break;
    const [at, word] = next;
    const mark = document.createElement("mark");
    mark.textContent = rest.slice(at, at + word.length);
    into.append(rest.slice(0, at), mark);
    rest = rest.slice(at + word.length);
  }
  into.append(rest);
}

function isDark() {
  return page.dataset.theme ? page.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function theme() {
  const button = document.querySelector("button.theme");
  const name = () => {
    button.textContent = isDark() ? "Light" : "Dark";
    button.title = `Switch to ${isDark() ? "light" : "dark"} colours`;
  };
  button.hidden = false;
  button.addEventListener("click", () => {
    page.dataset.theme = isDark() ? "light" : "dark";
    try {
      localStorage.setItem(themeKey, page.dataset.theme);
    } catch {
      /* Then it lasts as long as the page. */
    }
    name();
  });
  name();
}

function contents() {
  const button = document.querySelector("button.menu");
  const nav = document.querySelector("nav");
  button.addEventListener("click", () => button.setAttribute("aria-expanded", String(nav.classList.toggle("open"))));
  nav.addEventListener("click", (event) => {
    if (event.target.closest("a")) nav.classList.remove("open");
  });
  const current = nav.querySelector("[aria-current]");
  // Only the navigation scrolls, never the page.
  if (current) nav.scrollTop = current.offsetTop - nav.offsetTop - nav.clientHeight / 3;
}

function keys() {
  const input = document.querySelector(".search input");
  const list = document.querySelector(".results");
  const close = () => (list.hidden = true);
  input.addEventListener("input", () => site.search(input.value));
  input.addEventListener("focus", () => input.value && site.search(input.value));
  document.addEventListener("click", (event) => event.target.closest(".search") || close());
  document.addEventListener("keydown", (event) => {
    const links = [...list.querySelectorAll("a")];
    const at = links.indexOf(document.activeElement);
    if (event.key === "/" && document.activeElement !== input) {
      event.preventDefault();
      input.focus();
    } else if (event.key === "Escape") {
      close();
    } else if (event.key === "Enter" && document.activeElement === input && !list.hidden) {
      links[0]?.click();
    } else if (!list.hidden && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
      event.preventDefault();
      const next = at + (event.key === "ArrowDown" ? 1 : -1);
      (next < 0 ? input : links[Math.min(next, links.length - 1)])?.focus();
    }
  });
}

document.addEventListener("DOMContentLoaded", () => {
  theme();
  contents();
  keys();
  document.body.dataset.ready = "yes";
});
