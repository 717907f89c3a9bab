// dom.js - builds elements and formats values. Text from models and from the server is inserted
// with textContent only; nothing in this page parses HTML.
import { keep } from "./kept.js";

// Characters that are invisible or reorder a line are shown as escapes, as the tools do.
const unseen = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

export function visible(value) {
  if (value && typeof value === "object" && typeof value.base64 === "string") return "base64:" + value.base64;
  return String(value).replace(unseen, (c) => "\\u{" + c.codePointAt(0).toString(16) + "}");
}

// h("button", { class: "x", onclick: f }, "text", child...)
export function h(tag, props, ...children) {
  const el = document.createElement(tag);
  for (const [key, value] of Object.entries(props || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (typeof value === "function") el.addEventListener(key.slice(2), value);
    else if (key === "value") el.value = value;
    else el.setAttribute(key, value === true ? "" : value);
  }
  el.append(...children.flat().filter((c) => c !== null && c !== undefined && c !== false)
    .map((c) => (c instanceof Node ? c : document.createTextNode(visible(c)))));
  return el;
}

export function bytes(n) {
  const units = ["B", "KB", "MB", "GB", "TB"];
  let i = 0;
  for (; n >= 1000 && i < 4; i++) n /= 1000;
  return (i && n < 100 ? n.toPrecision(3) : String(Math.round(n))) + "\u00a0" + units[i];
}

export function number(v) {
  if (v === null || v === undefined) return "–";
  if (typeof v !== "number") return visible(typeof v === "object" ? JSON.stringify(v) : v);
  if (Number.isInteger(v)) return v.toLocaleString("en-US");
  const a = Math.abs(v);
  return a >= 1e5 || a < 1e-4 ? v.toExponential(2) : String(Number(v.toPrecision(4)));
}

export function seconds(s) {
  if (s < 60) return s.toFixed(s < 10 ? 1 : 0) + "\u00a0s";
  return Math.floor(s / 60) + "\u00a0min " + Math.round(s % 60) + "\u00a0s";
}

export function time(iso) {
  if (!iso) return "–";
  const t = new Date(iso);
  const today = t.toDateString() === new Date().toDateString();
  const two = (n) => String(n).padStart(2, "0");
  const day = t.getFullYear() + "-" + two(t.getMonth() + 1) + "-" + two(t.getDate());
  return h("time", { datetime: iso, title: iso }, (today ? "" : day + " ") + two(t.getHours()) + ":" + two(t.getMinutes()));
}

// What people call the classes of tensors.
const classes = { skeleton: "attention", organ: "FFN", embed: "embedding" };
export const className = (c) => classes[c] ?? c;

// Text of several lines.
export function lines(tag, text, props) {
  const el = h(tag, props);
  el.textContent = text.split("\n").map(visible).join("\n");
  return el;
}

let lastId = 0;
export function field(label, control, hint) {
  control.id = control.id || "f" + ++lastId;
  keep(label, control);
  const note = hint && h("span", { class: "hint", id: control.id + "h" }, hint);
  if (note) control.setAttribute("aria-describedby", note.id);
  return h("div", { class: "field" }, h("label", { for: control.id }, label), control, note);
}

export function check(label, props) {
  const box = h("input", { type: "checkbox", ...props });
  keep(label, box);
  return { box, el: h("label", { class: "check" }, box, label) };
}

export function select(options, value, onchange) {
  const el = h("select", { onchange: onchange && (() => onchange(el.value)) },
    options.map(([v, text]) => h("option", { value: v }, text ?? v)));
  if (value !== undefined && options.some(([v]) => v === value)) el.value = value;
  return el;
}

export function fill(el, ...children) {
  el.replaceChildren(...children.flat().filter(Boolean));
  return el;
}

// A table of objects. columns: [key, heading, format?, class?]; more rows follow on request.
export function table(rows, columns, limit = 200) {
  const numeric = new Set(columns.map(([key]) => key).filter((key) => rows.slice(0, 50).some((r) => typeof r[key] === "number")));
  const body = h("tbody");
  let shown = 0;
  const more = h("button", { class: "quiet", type: "button", onclick: () => add(1000) }, "");
  function add(n) {
    for (const row of rows.slice(shown, shown + n)) {
      body.append(h("tr", null, columns.map(([key, , format, cls]) => {
        const v = format ? format(row[key], row) : number(row[key]);
        return h("td", { class: cls ?? (numeric.has(key) ? "num" : "") }, v);
      })));
    }
    shown = Math.min(rows.length, shown + n);
    more.hidden = shown >= rows.length;
    more.textContent = "Show more of " + rows.length.toLocaleString("en-US") + " rows";
  }
  add(limit);
  const head = h("thead", null, h("tr", null, columns.map(([key, text, , cls]) =>
    h("th", { scope: "col", class: cls ?? (numeric.has(key) ? "num" : "") }, text))));
  const acts = columns.some(([, , , cls]) => cls === "act");
  return h("div", null, h("div", { class: "scroll" + (acts ? " acts" : ""), tabindex: "0", role: "region", "aria-label": "table" },
    h("table", null, head, body)), more);
}

const notes = () => document.getElementById("notes");
export function note(text, kind = "info") {
  const el = h("p", { class: "note " + kind }, text,
    h("button", { class: "close", type: "button", "aria-label": "Dismiss", onclick: () => el.remove() }, "×"));
  notes().append(el);
  while (notes().children.length > 3) notes().firstChild.remove();
  if (kind === "info") setTimeout(() => el.remove(), 8000);
}

// ---- command lines ----

export function quote(word) {
  return /^[\w.\/=,:@%+-]+$/.test(word) ? word : "'" + word.replaceAll("'", "'\\''") + "'";
}

export const commandText = (words) => words.map(quote).join(" ");

export function command(text, where = "In the data folder") {
  const code = lines("code", text);
  const copy = h("button", { class: "quiet", type: "button", onclick: async () => {
    await navigator.clipboard.writeText(text).catch(() => getSelection().selectAllChildren(code));
    copy.textContent = "Copied";
    setTimeout(() => { copy.textContent = "Copy"; }, 1500);
  } }, "Copy");
  return h("div", { class: "command" }, h("span", { class: "where" }, where), h("pre", null, code), copy);
}
