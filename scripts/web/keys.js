// keys.js - the page of metadata keys: view, and a list of edits that one run makes.
import * as api from "./api.js";
import { also } from "./kept.js";
import { h, fill, field, check, number, note, command, commandText, visible, table } from "./dom.js";
import { refresh, modelSelect, names, freshName, stemOf, store } from "./store.js";
import { run, ended } from "./run.js";
import { created } from "./models.js";
import { empty } from "./study.js";

const long = (v) => {
  if (v && typeof v === "object" && !Array.isArray(v)) return v.base64 !== undefined ? v : JSON.stringify(v);
  const s = Array.isArray(v) ? "[" + v.slice(0, 6).map((x) => (typeof x === "string" ? JSON.stringify(x) : number(x))).join(", ") + (v.length > 6 ? ", …" : "") + "]" : String(v);
  return s.length > 200 ? s.slice(0, 200) + "…" : s;
};

export async function keysView(main, signal, query) {
  await refresh();
  if (!names().length) return empty(main, "Keys");
  const model = modelSelect(query.get("model") || undefined, () => load());
  const out = h("div", { class: "output" }), panel = h("div", { class: "panel" }), edits = new Map(); // key -> {set|delete|rename}
  const editBox = h("div"), line = h("div"), reading = h("div", { class: "panel" });
  const target = h("input", { type: "text", pattern: "[A-Za-z0-9_][A-Za-z0-9._\\-]*", maxlength: 200, spellcheck: "false" });
  const inPlace = check("Change the model in place", { onchange: () => { target.disabled = inPlace.box.checked; draw(); } });

  function args() {
    const words = [model.value];
    for (const [key, e] of edits) {
      if (e.remove) words.push("--delete", key);
      else words.push("--set", key + "=" + e.type + ":" + e.value);
    }
    return words.concat(inPlace.box.checked ? ["--in-place"] : ["--output", target.value]);
  }
  function draw() {
    fill(line, command(commandText(["organ-keys", ...(edits.size ? args() : [model.value])])));
    fill(editBox, edits.size ? h("form", { class: "card", onsubmit: async (e) => {
      e.preventDefault();
      const to = inPlace.box.checked ? model.value : target.value;
      const j = await run(panel, "organ-keys", args(), { signal });
      if (!ended(j) || j.exit !== 0) return;
      edits.clear();
      await refresh();
      const again = modelSelect(to, () => load());
      model.replaceChildren(...again.childNodes);
      model.value = to;
      await load();
      if (store.models.some((m) => m.name === to)) panel.append(created(to));
    } }, h("h2", null, "Changes"), h("ul", { class: "edits" }, [...edits].map(([key, e]) => h("li", null,
      h("span", { class: "name" }, key), e.remove ? " is deleted " : " = ", e.remove ? null : h("span", { class: "name" }, e.value), " ",
      h("button", { type: "button", class: "quiet", onclick: () => { edits.delete(key); draw(); } }, "Undo")))),
    h("div", { class: "row" }, field("Write a new model", target), h("div", { class: "field" }, inPlace.el)),
    h("div", { class: "actions" }, h("button", { class: "primary" }, "Apply"))) : null);
  }
  target.addEventListener("input", draw);

  function editor(row, cell) {
    const value = h("input", { type: "text", value: String(row.value), "aria-label": "Value of " + visible(row.key), spellcheck: "false" });
    const back = () => fill(cell, show(row));
    fill(cell, h("form", { class: "inline-edit", onsubmit: (e) => {
      e.preventDefault();
      edits.set(row.key, { type: row.type, value: value.value });
      fill(cell, h("span", { class: "name changed" }, value.value));
      draw();
    }, onkeydown: (e) => { if (e.key === "Escape") back(); } }, value, h("button", null, "Keep"), h("button", { type: "button", class: "quiet", onclick: back }, "Cancel")));
    value.focus();
  }
  const show = (row) => h("span", { class: "name" }, long(row.value));
  function adder() {
    const key = h("input", { type: "text", required: true, spellcheck: "false" }), type = h("select", null,
      ["str", "u32", "i32", "f32", "bool", "u64", "i64", "f64", "u16", "i16", "u8", "i8"].map((t) => h("option", null, t)));
    const value = h("input", { type: "text", spellcheck: "false" });
    return h("form", { class: "card", onsubmit: (e) => {
      e.preventDefault();
      edits.set(key.value, { type: type.value, value: value.value });
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
    const rows = await api.rows(j.id);
    api.remove(j.id).catch(() => {}); // the list of jobs is about work, not about reading
    fill(reading);
    const box = table(rows, [["key", "Key", (v) => h("span", { class: "name" }, v), "n"], ["type", "Type"], ["count", "Count", undefined, "num wide"],
      ["value", "Value", (v, row) => h("div", { class: "value" }, show(row)), "v"],
      ["key", "", (v, row) => typeof v !== "string" ? "" : h("span", { class: "rowacts" },
        typeof row.value === "object" || row.type.endsWith("[]") ? null : h("button", { type: "button", class: "quiet", "aria-label": "Edit " + visible(v),
          onclick: (e) => editor(row, e.target.closest("tr").querySelector(".value")) }, "Edit"),
        h("button", { type: "button", class: "quiet", "aria-label": "Delete " + visible(v), onclick: () => { edits.set(v, { remove: true }); draw(); note(visible(v) + " will be deleted."); } }, "Delete")), "act"]], 400);
    fill(out, h("section", null, h("h2", null, number(rows.length) + " keys"), box), adder());
  }
  fill(main, h("h1", null, "Keys"), h("p", { class: "lead" }, "Metadata of a model. Edits are collected and written in one run."),
    h("div", { class: "card" }, h("div", { class: "row" }, field("Model", model)), line, reading), editBox, panel, out);
  await load();
}
