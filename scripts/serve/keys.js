// keys.js - the page of metadata keys: view, and a list of edits that one run makes.
import * as api from "./api.js";
import { also } from "./kept.js";
import { h, fill, field, check, lines, number, note, command, commandText, visible, table } from "./dom.js";
import { refresh, modelSelect, names, freshName, stemOf, store } from "./store.js";
import { run, succeeded, ended } from "./run.js";
import { created } from "./models.js";
import { empty } from "./study.js";

const long = (v) => {
  if (v && typeof v === "object" && !Array.isArray(v)) return v.base64 !== undefined ? visible(v) : JSON.stringify(v);
  const s = Array.isArray(v) ? "[" + v.slice(0, 6).map((x) => (typeof x === "string" ? JSON.stringify(x) : number(x))).join(", ") + (v.length > 6 ? ", …" : "") + "]" : String(v);
  return s.length > 400 ? s.slice(0, 400) + "…" : s;
};
const show = (v, more = "") => lines("span", long(v), { class: "name text" + more });
const single = (row) => typeof row.value !== "object" && !row.type.endsWith("[]"); // what the page can set, and set again

// A browser shows each line break as \n and gives it back so. The value keeps its own, unless it has several kinds.
const shown = (s) => s.replace(/\r\n?/g, "\n");
function changed(text, before) {
  if (text === shown(before)) return before;
  if (!before.includes("\r")) return text;
  return /^(?:[^\r\n]|\r\n)*$/.test(before) ? text.replaceAll("\n", "\r\n") : null;
}

// The form of one value. keep(value) gets a value that differs from the row's, or undefined for the row's own.
function editor(row, now, keep, back) {
  let before = now;
  const text = row.type === "str", error = h("p", { class: "error", role: "alert" });
  const value = h(text ? "textarea" : "input", { "aria-label": "Value of " + visible(row.key), spellcheck: "false",
    rows: text ? Math.max(2, Math.min(14, shown(now).split("\n").length)) : null, value: now });
  const file = h("input", { type: "file", "aria-label": "Take the value from a file", onchange: async () => {
    error.textContent = "";
    file.form.inert = true; // so that Keep takes the file, not what stood there before
    try {
      before = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(await file.files[0].arrayBuffer());
      value.value = before;
    } catch { error.textContent = "This file is not text in UTF-8."; }
    file.form.inert = false;
  } });
  return h("form", { class: "inline-edit", onsubmit: (e) => {
    e.preventDefault();
    const given = text ? changed(value.value, before) : value.value;
    if (given === null) error.textContent = "This text mixes line breaks of several kinds, which a browser does not keep. Change it in a file, and choose that file here.";
    else if (given.includes("\0")) error.textContent = "A value with a NUL byte cannot be set here.";
    else keep(given === String(row.value) ? undefined : given);
  }, onkeydown: (e) => {
    if (e.key === "Escape") back();
    if (e.key === "Enter" && (e.ctrlKey || e.metaKey)) e.currentTarget.requestSubmit();
  } }, value, text ? h("label", { class: "faint" }, "or from a file ", file) : null, error,
  h("span", { class: "rowacts" }, h("button", null, "Keep"), h("button", { type: "button", class: "quiet", onclick: back }, "Cancel")));
}

export async function keysView(main, signal, query) {
  await refresh();
  if (!names("any").length) return empty(main, "Keys");
  const model = modelSelect(query.get("model") || undefined, () => load(), undefined, "any");
  const out = h("div", { class: "output" }), panel = h("div", { class: "panel" }), edits = new Map(); // key -> { remove } or { type, value }
  const editBox = h("div"), line = h("div"), reading = h("div", { class: "panel" });
  const target = h("input", { type: "text", pattern: "[A-Za-z0-9_][A-Za-z0-9._\\-]*", maxlength: 200, spellcheck: "false" });
  const inPlace = check("Change the model in place", { onchange: () => { target.disabled = inPlace.box.checked; draw(); } });
  let rows = new Map();

  const words = (list) => [...list].flatMap(([key, e]) => (e.remove ? ["--delete", key] : ["--set", key + "=" + e.type + ":" + e.value]));
  const args = () => [model.value, ...words(edits), ...(inPlace.box.checked ? ["--in-place"] : ["--output", target.value])];
  // The edits that set everything as it was; null if there are none, because a list cannot be set here.
  function inverse() {
    const list = [...edits.keys()].map((key) => [key, rows.get(key)]);
    if (list.some(([, row]) => row && !single(row))) return null;
    return list.map(([key, row]) => [key, row ? { type: row.type, value: String(row.value) } : { remove: true }]);
  }
  async function apply(list, words) {
    const undo = inPlace.box.checked && list ? inverse() : null, to = inPlace.box.checked ? model.value : target.value;
    fill(panel);
    if (!succeeded(await run(panel, "organ-keys", words, { signal }))) return;
    edits.clear();
    await refresh();
    const again = modelSelect(to, () => load(), undefined, "any");
    model.replaceChildren(...again.childNodes);
    model.value = to;
    await load();
    const back = undo && [to, ...undo.flatMap((e) => words1(e)), "--in-place"];
    panel.append(inPlace.box.checked ? h("p", { class: "created" }, h("span", { class: "name" }, to), " was changed in place. ",
      back ? h("button", { type: "button", class: "quiet", onclick: () => { fill(line, command(commandText(["organ-keys", ...back]))); apply(null, back); } }, "Undo") : null) : created(to));
  }
  const words1 = (e) => words([e]);
  function draw() {
    fill(line, command(commandText(["organ-keys", ...(edits.size ? args() : [model.value])])));
    fill(editBox, edits.size ? h("form", { class: "card", onsubmit: (e) => {
      e.preventDefault();
      apply(edits, args());
    } }, h("h2", null, "Changes"), h("ul", { class: "edits" }, [...edits].map(([key, e]) => h("li", null,
      h("span", { class: "name" }, key), e.remove ? " is deleted " : " = ", e.remove ? null : show(e.value), " ",
      h("button", { type: "button", class: "quiet", onclick: () => { edits.delete(key); drawValue(key); draw(); } }, "Undo")))),
    h("div", { class: "row" }, field("Write a new model", target), h("div", { class: "field" }, inPlace.el)),
    inPlace.box.checked ? h("p", { class: "hint" }, inverse() ? "The page can undo this until you leave it." : "This cannot be undone, because a list is deleted.") : null,
    h("div", { class: "actions" }, h("button", { class: "primary" }, "Apply"))) : null);
  }
  target.addEventListener("input", draw);

  const cells = new Map(); // key -> the element of its value
  function drawValue(key) {
    const cell = cells.get(key), e = edits.get(key);
    if (cell) fill(cell, e ? (e.remove ? h("span", { class: "changed" }, "is deleted") : show(e.value, " changed")) : show(rows.get(key).value));
  }
  function edit(row) {
    const before = edits.get(row.key), cell = cells.get(row.key), back = () => drawValue(row.key);
    const form = editor(row, before && !before.remove ? before.value : String(row.value), (value) => {
      if (value === undefined) edits.delete(row.key);
      else edits.set(row.key, { type: row.type, value });
      back();
      draw();
    }, back);
    fill(cell, form);
    form.querySelector("textarea, input").focus();
  }
  function adder() {
    const key = h("input", { type: "text", required: true, spellcheck: "false" }), type = h("select", null,
      ["str", "u32", "i32", "f32", "bool", "u64", "i64", "f64", "u16", "i16", "u8", "i8"].map((t) => h("option", null, t)));
    const value = h("textarea", { rows: 1, spellcheck: "false" });
    return h("form", { class: "card", onsubmit: (e) => {
      e.preventDefault();
      edits.set(key.value, { type: type.value, value: value.value });
      drawValue(key.value);
      key.value = value.value = "";
      draw();
    } }, h("h2", null, "Add a key"), h("div", { class: "row" }, field("Key", key), field("Type", type), field("Value", value)),
    h("div", { class: "actions" }, h("button", null, "Add")));
  }
  async function load() {
    edits.clear();
    for (const [key, e] of also("edits", () => [...edits]) || []) edits.set(key, e);
    fill(panel);
    target.value = freshName(stemOf(model.value) + "-keys", ".gguf");
    draw();
    fill(out);
    const name = model.value, j = await run(reading, "organ-keys", [name], { signal, reading: true });
    if (!ended(j) || name !== model.value) return;
    const list = await api.rows(j.id);
    api.remove(j.id).catch(() => {}); // the list of jobs is about work, not about reading
    fill(reading);
    rows = new Map(list.filter((r) => typeof r.key === "string").map((r) => [r.key, r]));
    cells.clear();
    const box = table(list, [["key", "Key", (v) => h("span", { class: "name" }, v), "n"], ["type", "Type", undefined, "wide"], ["count", "Count", undefined, "num wide"],
      ["value", "Value", (v, row) => {
        const cell = h("div", { class: "value" }, show(row.value));
        if (typeof row.key === "string") cells.set(row.key, cell);
        if (edits.has(row.key)) drawValue(row.key);
        return cell;
      }, "v"],
      ["key", "", (v, row) => typeof v !== "string" ? "" : h("span", { class: "rowacts" },
        single(row) ? h("button", { type: "button", class: "quiet", "aria-label": "Edit " + visible(v), onclick: () => edit(row) }, "Edit") : null,
        h("button", { type: "button", class: "quiet", "aria-label": "Delete " + visible(v), onclick: () => { edits.set(v, { remove: true }); drawValue(v); draw(); note(visible(v) + " will be deleted."); } }, "Delete")), "act"]], 400);
    fill(out, h("section", null, h("h2", null, number(list.length) + " keys"), box), adder());
    draw();
  }
  fill(main, h("h1", null, "Keys"), h("p", { class: "lead" }, "Metadata of a model. Edits are collected and written in one run."),
    h("div", { class: "card" }, h("div", { class: "row" }, field("Model", model)), line, reading), editBox, panel, out);
  await load();
}
