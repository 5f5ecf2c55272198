// Words and elements that the parts of the page share. Entry points: what is exported.

export const by = (id) => document.getElementById(id);

// ---- words

export function age(seconds) {
  if (seconds === null || seconds === undefined) return "";
  const whole = Math.floor(seconds);
  if (whole < 120) return `${whole}s`;
  if (whole < 7200) return `${Math.floor(whole / 60)}m`;
  if (whole < 172800) return `${Math.floor(whole / 3600)}h`;
  return `${Math.floor(whole / 86400)}d`;
}

export function bytes(count) {
  for (const [unit, size] of [["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]]) if (count >= size) return `${(count / size).toFixed(1)} ${unit}`;
  return `${count} B`;
}

export const number = (value) => value.toLocaleString("en");
export const milliseconds = (seconds) => (seconds < 1 ? `${Math.round(seconds * 1000)} ms` : `${seconds.toFixed(1)} s`);
// As the commands count.
export const counted = (value, noun) => `${number(value)} ${noun}${value === 1 ? "" : "s"}`;
export const joined = (...texts) => texts.filter((text) => text).join("; ");
export const named = (of) => (of.tenant && of.tenant !== "default" ? `${of.tenant}/${of.name}` : of.name);
export const clusterName = (name) => name || "(local)";

// ---- elements

// Texts become text, never HTML: they come from clusters and guests.
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== false && value !== "") made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

export const cell = (text, kind = "") => element("td", { class: kind }, text);
export const button = (text, onclick, kind = "") => element("button", { type: "button", class: kind, onclick }, text);

// Puts what is new in the place of what is there. Who has marked a text of it wants to copy that, who holds a button of it down would click on
// nothing, and who uses the keyboard stays where he is.
export function replace(place, ...children) {
  const marked = getSelection();
  if (!marked.isCollapsed && place.contains(marked.anchorNode)) return;
  if (place.querySelector(":active")) return;
  const focused = place.contains(document.activeElement) && document.activeElement.dataset.focus;
  place.replaceChildren(...children);
  if (focused) place.querySelector(`[data-focus="${CSS.escape(focused)}"]`)?.focus();
}

// Head and body of a table.
export function tableOf(heads, rows, none) {
  const titles = heads.map(([title, kind]) => (title ? element("th", { class: kind ?? "", scope: "col" }, title) : element("td")));
  const body = rows.length ? rows : [element("tr", {}, element("td", { colspan: heads.length, class: "none" }, none))];
  return [element("thead", {}, element("tr", {}, ...titles)), element("tbody", {}, ...body)];
}

export const table = (id, heads, rows, none) => replace(by(id), ...tableOf(heads, rows, none));

// A button that keeps the focus when what is around it is made anew.
export function kept(made, name) {
  made.setAttribute("data-focus", name);
  return made;
}
