// Hover or arrow keys read the exact values of a chart; the legend shows and hides lines. The page reads well without.
"use strict";
for (const figure of document.querySelectorAll("figure")) {
  const svg = figure.querySelector(".plot svg");
  if (!svg) continue;
  const tip = figure.querySelector(".tip"), guide = svg.querySelector(".guide");
  const rows = figure.querySelectorAll("tbody tr"), heads = figure.querySelectorAll("thead th");
  const buttons = [...figure.querySelectorAll(".legend button")];
  const xs = svg.dataset.xs.split(" ").map(Number), width = svg.viewBox.baseVal.width;
  let at = -1;
  svg.querySelectorAll("use title").forEach((title) => title.remove());
  const line = (i) => svg.querySelector(`[data-line="${i}"]`);
  const hide = () => { at = -1; tip.style.visibility = guide.style.visibility = "hidden"; };
  const show = (index) => {
    at = Math.max(0, Math.min(xs.length - 1, index));
    const found = [];
    buttons.forEach((button, i) => {
      const mark = line(i).querySelector(`[data-x="${at}"]`);
      if (mark && button.getAttribute("aria-pressed") === "true") {
        found.push([Number(mark.getAttribute("y")), button, rows[i].cells[at + 1].textContent]);
      }
    });
    found.sort((a, b) => a[0] - b[0]);
    const title = document.createElement("b"), table = document.createElement("table");
    title.textContent = `${heads[0].textContent} ${heads[at + 1].textContent}`;
    for (const [, button, value] of found) {
      const row = table.insertRow();
      row.insertCell().append(button.querySelector("svg").cloneNode(true));
      row.insertCell().textContent = button.textContent;
      row.insertCell().textContent = value;
    }
    tip.replaceChildren(title, table);
    guide.setAttribute("transform", `translate(${xs[at]})`);
    tip.style.visibility = guide.style.visibility = "visible";
    const box = svg.getBoundingClientRect(), x = (xs[at] / width) * box.width;
    const right = x + 14 + tip.offsetWidth <= box.width;
    tip.style.transform = `translate(${right ? x + 14 : Math.max(0, x - 14 - tip.offsetWidth)}px, 8px)`;
  };
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect(), x = ((event.clientX - box.left) / box.width) * width;
    let best = 0;
    xs.forEach((place, i) => { if (Math.abs(place - x) < Math.abs(xs[best] - x)) best = i; });
    show(best);
  });
  svg.addEventListener("pointerleave", hide);
  svg.addEventListener("blur", hide);
  svg.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step) { show(at < 0 ? (step > 0 ? 0 : xs.length - 1) : at + step); event.preventDefault(); }
    if (event.key === "Escape") hide();
  });
  buttons.forEach((button, i) => {
    const light = (on) => { line(i).classList.toggle("lit", on); svg.classList.toggle("dim", on); };
    for (const event of ["pointerenter", "focus"]) button.addEventListener(event, () => light(true));
    for (const event of ["pointerleave", "blur"]) button.addEventListener(event, () => light(false));
  });
  buttons.forEach((button, i) => button.addEventListener("click", () => {
    const on = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", String(on));
    line(i).classList.toggle("off", !on);
  }));
}
