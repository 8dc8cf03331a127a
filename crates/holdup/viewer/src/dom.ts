// Making elements. Text is only ever set as text.

type Child = Node | string;

export function element<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Record<string, string> = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

export function button(label: string, title: string, press: () => void): HTMLButtonElement {
  const made = element("button", { type: "button", title }, label);
  made.addEventListener("click", press);
  return made;
}

/** A labelled choice. */
export function choice(label: string, options: [string, string][], chosen: (value: string) => void): HTMLLabelElement {
  const select = element("select");
  for (const [value, text] of options) select.append(element("option", { value }, text));
  select.addEventListener("change", () => chosen(select.value));
  return element("label", {}, `${label} `, select);
}
