// Light or dark: as the system has it, until somebody chooses.

const KEY = "holdup-theme";

function stored(): string | null {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null;
  }
}

function keep(theme: string): void {
  try {
    localStorage.setItem(KEY, theme);
  } catch {
    /* A page from a file may have no storage: the choice lasts as long as the page. */
  }
}

export function isDark(): boolean {
  const chosen = document.documentElement.dataset["theme"];
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

/** As early as possible, so that nothing flashes. A theme in the address wins: `#theme=dark`. */
export function applyTheme(): void {
  const chosen = /theme=(light|dark)/.exec(location.hash)?.[1] ?? stored();
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset["theme"] = chosen;
}

let listeners: (() => void)[] = [];

export function onTheme(listener: () => void): void {
  listeners = [...listeners, listener];
}

export function toggleTheme(): void {
  const theme = isDark() ? "light" : "dark";
  document.documentElement.dataset["theme"] = theme;
  keep(theme);
  listeners.forEach((listener) => listener());
}

/** Paper is white, whatever the screen is: pictures that are drawn are drawn anew for it. */
export function lightOnPaper(): void {
  const root = document.documentElement;
  let chosen: string | undefined;
  addEventListener("beforeprint", () => {
    chosen = root.dataset["theme"];
    root.dataset["theme"] = "light";
  });
  addEventListener("afterprint", () => {
    if (chosen === undefined) delete root.dataset["theme"];
    else root.dataset["theme"] = chosen;
  });
}

export function themeButton(): void {
  for (const found of document.querySelectorAll<HTMLButtonElement>("button.theme")) {
    const name = () => {
      found.textContent = isDark() ? "Light" : "Dark";
      found.title = `Switch to ${isDark() ? "light" : "dark"} colours (T)`;
    };
    found.hidden = false;
    found.addEventListener("click", toggleTheme);
    onTheme(name);
    name();
  }
  const system = matchMedia("(prefers-color-scheme: dark)");
  system.addEventListener("change", () => listeners.forEach((listener) => listener()));
}
