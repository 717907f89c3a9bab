// surgery.js - the pages that write models: graft and merge, with tensors chosen on the map.
import * as api from "./api.js";
import * as kept from "./kept.js";
import { h, fill, field, check, select, command, commandText } from "./dom.js";
import { store, refresh, anatomy, modelSelect, names, freshName, stemOf } from "./store.js";
import { nameOf, selectOptions, mergeFilters } from "./selection.js";
import { anatomyMap } from "./map.js";
import { run, ended, succeeded, resultTable } from "./run.js";
import { created, downloadButton } from "./models.js";
import { empty, differences } from "./study.js";

export const nameField = (value) => h("input", { type: "text", required: true, maxlength: 200, pattern: "[A-Za-z0-9_][A-Za-z0-9._\\-]*", spellcheck: "false", autocomplete: "off", value });

// What a preview or a run shows below its form.
export function outcome(panel, out, signal) {
  return {
    async preview(tool, args) {
      fill(out);
      const j = await run(panel, tool, args, { signal });
      if (!succeeded(j)) return;
      const rows = await api.rows(j.id);
      fill(out, h("section", null, h("h2", null, "Preview: nothing was written"), rows.length ? resultTable(rows) : null));
    },
    async write(tool, args, name) {
      fill(out);
      const j = await run(panel, tool, args, { signal });
      if (!succeeded(j)) return false;
      await refresh();
      const first = store.models.find((m) => m.name.startsWith(stemOf(name) + "-00001-of-")); // if it was written as shards
      fill(out, created(store.models.some((m) => m.name === name) || store.organs.includes(name) || !first ? name : first.name));
      return true;
    },
  };
}

// Whether to write: yes, unless the models are strangers and nobody insists. What cannot be compared is
// left to the tool.
async function willing(panel, out, base, others, verb, signal) {
  fill(out);
  const strangers = [];
  for (const other of new Set(others)) {
    if (other === base) continue;
    const j = await run(panel, "organ-compare", [base, other, "--lineage"], { signal });
    if (!j || j.state === "stopped") return false;
    if (ended(j) && (await api.rows(j.id))[0]?.verdict === "strangers") strangers.push(other);
  }
  fill(panel);
  if (!strangers.length || kept.wasSure()) return true;
  return new Promise((resolve) => {
    const answer = (yes) => { fill(out); if (yes) kept.beSure(); resolve(yes); };
    fill(out, h("div", { class: "card warning", role: "alert" }, h("h2", null, "These models are strangers"),
      h("p", null, h("span", { class: "name" }, strangers.join(", ")), " and ", h("span", { class: "name" }, base), " do not stem from the same training. Tensors of one rarely work in the other, and the result will most likely write nonsense. Nothing was written yet."),
      h("div", { class: "actions" }, h("button", { type: "button", "data-sure": "1", onclick: () => answer(false) }, "Leave it"),
        h("button", { type: "button", class: "bad", "data-sure": "1", onclick: () => answer(true) }, verb + " all the same"))));
  });
}

// After a merge: what changed against each parent, from a sample of the values.
async function changes(out, name, parents, signal) {
  const panel = h("div", { class: "panel" }), parts = [], list = [...new Set(parents)].filter((n) => n !== name).slice(0, 8);
  const args = (parent) => [parent, name, "--sample", "100000"], picture = (parent) => stemOf(name) + "-against-" + stemOf(parent).slice(0, 80) + ".svg";
  out.append(panel);
  for (const parent of list) {
    const j = await run(panel, "organ-compare", args(parent), { signal });
    if (!ended(j)) return;
    parts.push({ title: "against " + parent, rows: await api.rows(j.id) });
  }
  fill(panel);
  const svg = (parent) => [...args(parent), "--svg", picture(parent), "--force"], links = h("span");
  const draw = h("button", { type: "button", onclick: async () => {
    fill(links);
    for (const parent of list)
      if (ended(await run(panel, "organ-compare", svg(parent), { signal }))) links.append(downloadButton("/v1/files/" + picture(parent), picture(parent), picture(parent)));
  } }, "Draw as SVG");
  out.append(h("section", { class: "card changes" }, differences((await anatomy(name)).tensors, parts).slice(1), h("div", { class: "actions" }, draw, links), panel,
    command(list.map((parent) => commandText(["organ-compare", ...svg(parent)])).join("\n"))));
  out.querySelector(".changes").prepend(h("h2", null, "What changed"));
}

export async function graftView(main, signal, query) {
  await refresh();
  if (names().length < 2) return empty(main, "Graft");
  let tensors = [], chosen = new Set(), loads = 0;
  const base = modelSelect(query.get("base") || undefined, () => load());
  const donor = modelSelect(query.get("donor") || names().find((n) => n !== base.value), () => load());
  const kind = select([["organ-transplant", "a model file"], ["organ-graft", "an organ directory"]], undefined, () => { rename(); draw(); });
  const match = select([["convert", "equal shape; convert the type"], ["exact", "equal shape and type"], ["retype", "equal shape; keep the donor's type"]], undefined, () => draw());
  const blend = select([["", "replace"], ["linear", "blend, linear"], ["slerp", "blend, along the arc"]], undefined, () => draw());
  const share = h("input", { type: "text", value: "0.5", size: 10, oninput: () => draw() });
  const shareBox = field("Donor's share", share, "0 to 1, or 0.2..0.8 over the blocks"), matchBox = field("Must match", match);
  const output = nameField("");
  const line = h("div"), map = h("div"), panel = h("div", { class: "panel" }), out = h("div", { class: "output" });
  const buttons = [h("button", { type: "button", onclick: () => what.preview(kind.value, args(true)) }, "Preview"), h("button", { class: "primary" }, "Graft")];
  const what = outcome(panel, out, signal);
  output.addEventListener("input", () => draw());

  function args(preview) {
    const words = kind.value === "organ-graft" ? ["--target", base.value, "--source", donor.value] : ["--base", base.value, "--donor", donor.value];
    words.push(...(selectOptions(tensors, chosen).args || []));
    if (blend.value) words.push("--blend", blend.value + ":" + share.value);
    else words.push("--match", match.value);
    return words.concat(preview ? ["--check"] : ["--output", output.value]);
  }
  function rename() {
    output.value = freshName(stemOf(base.value) + "-" + stemOf(donor.value), kind.value === "organ-graft" ? ".organs" : ".gguf");
  }
  function draw() {
    const s = selectOptions(tensors, chosen);
    shareBox.hidden = !blend.value;
    matchBox.hidden = !!blend.value;
    for (const b of buttons) b.disabled = !!s.error;
    fill(line, s.error ? h("p", { class: "faint" }, s.error) : command(commandText([kind.value, ...args(false)])));
  }
  async function load() {
    const mine = ++loads;
    fill(map, h("p", { class: "faint" }, "Reading the anatomy…"));
    fill(out);
    fill(panel);
    try {
      const [b, d] = await Promise.all([anatomy(base.value), anatomy(donor.value)]);
      if (mine !== loads) return;
      tensors = d.tensors;
      const there = new Set(b.tensors.map(nameOf));
      chosen = new Set(tensors.filter((t) => t.class === "organ" && there.has(nameOf(t))).map(nameOf));
      fill(map, anatomyMap(tensors, { chosen, possible: there, onchange: draw }).el);
    } catch (e) {
      tensors = [];
      chosen = new Set();
      fill(map, h("p", { class: "error", role: "alert" }, e.message));
    }
    rename();
    draw();
  }
  fill(main, h("h1", null, "Graft"), h("p", { class: "lead" }, "Put organs of one model into another. Choose them on the map of the donor."),
    h("form", { onsubmit: async (e) => {
      e.preventDefault();
      const words = args(false);
      if (await willing(panel, out, base.value, [donor.value], "Graft", signal)) what.write(kind.value, words, output.value);
    } },
      h("div", { class: "card" }, h("div", { class: "row" }, field("Base", base, "It gives everything that is not chosen."), field("Donor", donor, "It gives the chosen tensors."))),
      h("div", { class: "card" }, h("h2", null, "Tensors from the donor"), map),
      h("div", { class: "card" }, h("div", { class: "row" }, field("Write", kind), field("Named", output), field("How", blend), shareBox, matchBox),
        h("div", { class: "actions" }, buttons), line, panel)), out);
  await load();
}

// How a method of organ-merge is shown. base, models: the fields of the form; key, value: the parameter of
// the chosen tensors, per model if `each`; rest: its value for the other tensors.
function methodOf(m) {
  const takes = (name) => m.parameters && m.parameters.find((p) => p.name === name);
  const base = m.base === "required" || m.base === "first", first = m.base === "first" ? 1 : 0;
  const key = ["weight", "t", "scale"].find(takes);
  const value = key && (takes(key).default ?? (m.name === "nearswap" ? 0.001 : 0.5));
  const more = !takes("density") ? "" : takes("gamma") ? "density=0.9,gamma=" + takes("gamma").default : "density=0.5";
  return { text: m.name + ": " + m.meaning, base, models: Math.min(m.most - first, Math.max(m.least - first, base ? 1 : 2)), most: m.most - first, key, value: String(value),
    rest: key === "scale" ? "1" : "0", each: key === "weight", more };
}

export async function mergeView(main, signal, query) {
  await refresh();
  if (names().length < 2) return empty(main, "Merge");
  let tensors = [], chosen = new Set(), loads = 0, rows = [], keptRows = kept.also("rows", () => rows.length);
  const first = query.get("model") || names().find((n) => /base/i.test(n)) || names()[0];
  const methods = new Map((await api.names("methods")).map((m) => [(m.alias || m.name).replaceAll("_", "-"), methodOf(m)]));
  const method = select([...methods].map(([k, m]) => [k, m.text]), "iso", () => reset());
  const base = modelSelect(first, () => load());
  const value = h("input", { type: "text", value: "0.5", size: 8, oninput: () => draw() });
  const words = select([["", "all models have the same"], ["base", "that of the base, or of the first model"], ["union", "all tokens of all models"], ["model", "that of a model"]], undefined, () => draw());
  const speaker = modelSelect(undefined, () => draw()), speakerBox = field("Whose vocabulary", speaker);
  const more = h("input", { type: "text", value: "", spellcheck: "false", oninput: () => draw() });
  const output = nameField(freshName("merged", ".gguf"));
  output.addEventListener("input", () => draw());
  const list = h("div"), baseBox = field("Base", base, "It gives keys and types."), valueBox = field("Value", value), line = h("div"), map = h("div"), panel = h("div", { class: "panel" }), out = h("div", { class: "output" });
  const mapCard = h("div", { class: "card" }, h("h2", null, "Where to merge"), h("p", { class: "hint" }, "Tensors that are not chosen stay as in the base, or in the first model."), map);
  const what = outcome(panel, out, signal);
  const buttons = [h("button", { type: "button", onclick: () => what.preview("organ-merge", args(true)) }, "Preview"), h("button", { class: "primary" }, "Merge")];
  const m = () => methods.get(method.value);

  // The filters of one model, or of the method. The first model of a plain mean keeps its weight.
  function filters(v, keep) {
    if (!m().key) return {};
    if (keep) return tensors.every((t) => chosen.has(nameOf(t))) ? { text: m().key + "=" + v } : mergeFilters(tensors, chosen, m().key, v, "1");
    return mergeFilters(tensors, chosen, m().key, v, m().rest);
  }
  function parts() {
    const common = [method.value, m().each ? null : filters(value.value).text, more.value.trim() || null].filter(Boolean).join(",");
    const argv = ["--method", common];
    if (m().base) argv.push("--base", base.value);
    rows.forEach((r, i) => {
      const f = m().each ? filters(r.weight.value, !m().base && i === 0).text : null;
      argv.push("--model", [r.model.value, f].filter(Boolean).join(","));
    });
    const v = words.value === "model" ? speaker.value : words.value;
    if (v) argv.push("--vocabulary", v);
    return argv;
  }
  const args = (preview) => parts().concat(preview ? ["--check"] : ["--output", output.value]);
  function draw() {
    const s = filters(m().each ? rows[0].weight.value : value.value);
    for (const b of buttons) b.disabled = !!s.error;
    speakerBox.hidden = words.value !== "model";
    fill(line, s.error ? h("p", { class: "faint" }, s.error) : command(commandText(["organ-merge", ...args(false)])));
  }
  function addRow(name) {
    const model = modelSelect(name, () => draw()), weight = h("input", { type: "text", value: "1", size: 8, oninput: () => draw() });
    const row = { model, weight, el: null };
    row.el = h("div", { class: "row" }, field("Model", model), m().each ? field("Weight", weight) : null,
      rows.length >= m().models ? h("div", { class: "field end" }, h("button", { type: "button", class: "quiet", onclick: () => { rows = rows.filter((r) => r !== row); row.el.remove(); draw(); } }, "Remove")) : null);
    rows.push(row);
    list.append(row.el);
  }
  function reset() {
    rows = [];
    fill(list);
    baseBox.hidden = !m().base;
    valueBox.hidden = !m().key || !!m().each;
    mapCard.hidden = !m().key;
    valueBox.querySelector("label").textContent = m().key === "t" ? "t for the chosen tensors" : "Value";
    if (m().key) value.value = m().value;
    more.value = m().more;
    const others = names().filter((n) => n !== base.value);
    const start = m().base ? others : [base.value, ...others];
    const more_rows = keptRows ? Math.max(m().models, keptRows) : m().models;
    keptRows = 0;
    for (let i = 0; i < more_rows; i++) addRow(start[i % start.length]);
    another.hidden = m().models >= m().most;
    return load();
  }
  async function load() {
    const mine = ++loads, name = m().base ? base.value : rows[0].model.value;
    try {
      const a = await anatomy(name);
      if (mine !== loads) return;
      tensors = a.tensors;
      chosen = new Set(tensors.map(nameOf));
      fill(map, anatomyMap(tensors, { chosen, onchange: draw }).el);
    } catch (e) {
      tensors = [];
      fill(map, h("p", { class: "error", role: "alert" }, e.message));
    }
    draw();
  }
  const another = h("button", { type: "button", class: "quiet", onclick: () => { addRow(names()[0]); draw(); } }, "Add a model");
  fill(main, h("h1", null, "Merge"), h("p", { class: "lead" }, "Combine models that share a lineage, tensor by tensor."),
    h("form", { onsubmit: async (e) => {
      e.preventDefault();
      const argv = args(false), name = output.value, parents = [m().base ? base.value : rows[0].model.value, ...rows.map((r) => r.model.value)];
      if (await willing(panel, out, parents[0], parents.slice(1), "Merge", signal) && await what.write("organ-merge", argv, name)) await changes(out, name, parents, signal);
    } },
      h("div", { class: "card" }, h("div", { class: "row" }, field("Method", method), baseBox), list, another), mapCard,
      h("div", { class: "card" }, h("div", { class: "row" }, valueBox, field("More parameters", more, "For example normalize=true"), field("Vocabulary", words), speakerBox, field("Write a model named", output)),
        h("div", { class: "actions" }, buttons), line, panel)), out);
  await reset();
}
