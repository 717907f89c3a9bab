// build.js - the pages that write one model with a form: stack, quantize, prune, purify, adapter; and validate.
import * as api from "./api.js";
import { h, fill, field, check, bytes, select, table, command, commandText } from "./dom.js";
import { store, refresh, anatomy, info, fileBytes, modelSelect, names, freshName, stemOf } from "./store.js";
import { parseRanges, ranges } from "./selection.js";
import { run, resultTable } from "./run.js";
import { also } from "./kept.js";
import { nameField, outcome } from "./surgery.js";
import { empty } from "./study.js";

const number = (props, oninput) => h("input", { type: "number", ...props, oninput });
const lastBlock = async (name) => (await anatomy(name)).tensors.reduce((n, t) => Math.max(n, t.block ?? -1), -1);

// How large a model of organ-assemble would be, or why it cannot be written.
async function sizeOf(words, signal) {
  const j = await api.follow(await api.start("organ-assemble", words), () => {}, signal), found = /(\d+) bytes in \d+ file/.exec(j.stderr || "");
  api.remove(j.id).catch(() => {}); // the list of jobs is about work
  return found ? { bytes: Number(found[1]) } : { why: (j.stderr || "").trim().split("\n").pop().replace("organ-assemble: ", "") };
}

// A form with the command line that does the same, a preview where the tool has one, and its result. If
// args(false).looks, nothing is written; `shown` makes something of the rows then.
export function form(main, { title, lead, tool, args, output, fields, verb, preview, signal, shown = resultTable }) {
  const line = h("div"), panel = h("div", { class: "panel" }), out = h("div", { class: "output" });
  const what = outcome(panel, out, signal);
  const toolOf = () => args(false).tool || tool; // some forms use two tools
  const look = h("button", { type: "button", onclick: () => what.preview(toolOf(), args(true).words) }, "Preview"), send = h("button", { class: "primary" }, verb);
  const draw = () => {
    const { words, error, noPreview } = args(false);
    look.disabled = send.disabled = !!error;
    look.hidden = !!noPreview;
    fill(line, error ? h("p", { class: "faint" }, error) : command(commandText([toolOf(), ...words])));
  };
  if (output) output.addEventListener("input", draw);
  fill(main, h("h1", null, title), h("p", { class: "lead" }, lead),
    h("form", { class: "card", onsubmit: async (e) => {
      e.preventDefault();
      const { words, looks } = args(false);
      if (output && !looks) return what.write(toolOf(), words, output.value);
      fill(out);
      const j = await run(panel, tool, words, { signal });
      const rows = j ? await api.rows(j.id) : [];
      if (rows.length) fill(out, shown(rows, words));
    } }, fields, h("div", { class: "actions" }, preview ? look : null, send), line, panel), out);
  draw();
  return draw;
}

export async function stackView(main, signal, query) {
  await refresh();
  if (!names().length) return empty(main, "Stack");
  let rows = [], draw = () => {};
  const first = query.get("model") || names()[0];
  const list = h("div"), output = nameField(freshName(stemOf(first) + "-stack", ".gguf"));
  function addRow(name) {
    const blocks = h("input", { type: "text", required: true, spellcheck: "false", autocomplete: "off", oninput: () => draw() });
    const model = modelSelect(name, () => suggest());
    const row = { model, blocks };
    const suggest = async () => {
      const last = await lastBlock(model.value).catch(() => -1);
      blocks.value = last < 0 ? "" : last ? "0-" + last : "0";
      draw();
    };
    const remove = h("button", { type: "button", class: "quiet", onclick: () => { rows = rows.filter((r) => r !== row); el.remove(); draw(); } }, "Remove");
    const el = h("div", { class: "row" }, field("Model", model), field("Blocks, in this order", blocks, "For example 0-3,2-5 or 6"),
      rows.length ? h("div", { class: "field end" }, remove) : null);
    rows.push(row);
    list.append(el);
    return suggest();
  }
  const args = (preview) => ({
    error: rows.some((r) => !r.blocks.value.trim() || !parseRanges(r.blocks.value)) ? "Name the blocks of each model by numbers and ranges, such as 0-3,2-5." : null,
    words: [...(preview ? ["--check"] : ["--output", output.value]), ...rows.flatMap((r) => [r.model.value, r.blocks.value.replace(/\s/g, "")])],
  });
  const another = h("button", { type: "button", class: "quiet", onclick: () => addRow(names()[0]) }, "Add blocks of a model");
  draw = form(main, { title: "Stack", lead: "Drop, repeat or reorder blocks, or join those of several models. The first model gives everything else.",
    tool: "organ-stack", args, output, verb: "Stack", preview: true, signal,
    fields: [list, h("div", { class: "actions" }, another), h("div", { class: "row" }, field("Write a model named", output))] });
  for (let n = Math.max(1, also("rows", () => rows.length) || 1); n > 0; n--) await addRow(first);
}

export async function quantizeView(main, signal, query) {
  await refresh();
  if (!names().length) return empty(main, "Quantize");
  let draw = () => {};
  const presets = (await api.names("presets")).map((p) => [p.name, p.name + (p.name === p.dtype ? "" : " (mostly " + p.dtype + ")")]);
  const rename = () => { output.value = freshName(stemOf(model.value) + "-" + (goal.value === "dtype" ? preset.value.toLowerCase() : goal.value === "keep" ? "copy" : goal.value), ".gguf"); draw(); };
  const model = modelSelect(query.get("model") || undefined, () => rename());
  const goal = select([["dtype", "a preset or type"], ["bpw", "bits per weight"], ["size", "a size"], ["keep", "the types it has"]], query.get("keep") ? "keep" : undefined, () => rename());
  const preset = select(presets, "Q4_K_M", () => rename());
  const bits = number({ min: 1, max: 32, step: "any", value: "4.5", required: true }, () => draw());
  const size = h("input", { type: "text", value: "2G", required: true, pattern: "[0-9]+(\\.[0-9]+)?[kKmMgGtT]?[bB]?", oninput: () => draw() });
  const imatrix = modelSelect(query.get("imatrix") || undefined, () => draw(), "none", "importance matrix"), output = nameField("");
  const files = select([["", "one file"], ["shards", "a number of shards"], ["shard-size", "shards of a size"]], query.get("keep") ? "shards" : "", () => draw());
  const shards = number({ min: 1, max: 99999, step: 1, value: "2", required: true }, () => draw()), most = h("input", { type: "text", value: "2G", required: true, pattern: "[0-9]+(\\.[0-9]+)?[kKmMgGtT]?[bB]?", oninput: () => draw() });
  const parts = { shards: field("Shards", shards), "shard-size": field("Largest shard", most, "For example 2G or 900M.") };
  const estimate = h("p", { class: "estimate", role: "status" });
  const boxes = { dtype: field("Preset", preset), bpw: field("Bits per weight", bits, "The types are chosen per tensor."), size: field("Size", size, "For example 2G or 900M. The types are chosen per tensor.") };
  const args = (preview) => {
    for (const [key, box] of [...Object.entries(boxes), ...Object.entries(parts)]) {
      box.hidden = key !== goal.value && key !== files.value;
      box.querySelector("input, select").disabled = box.hidden;
    }
    const value = { dtype: preset.value.toLowerCase(), bpw: bits.value, size: size.value, keep: "" }[goal.value], split = { shards: shards.value, "shard-size": most.value }[files.value];
    const words = [model.value, ...(value ? ["--" + goal.value, value] : []), ...(imatrix.value && value ? ["--imatrix", imatrix.value] : []), ...(split ? ["--" + files.value, split] : [])];
    return { error: value || goal.value === "keep" ? (files.value && !split ? "Say how the shards are cut." : null) : "Say how large the model may be.", noPreview: !["bpw", "size"].includes(goal.value), words: [...words, ...(preview ? ["--dry-run"] : ["--output", output.value])] };
  };
  // The size that a preset gives, as a plan without writing knows it.
  let asked = "", latest = 0;
  async function predict() {
    const words = args(true).words, key = words.join("\n");
    if (!["dtype", "keep"].includes(goal.value)) return fill(estimate, h("span", null, "")), asked = "";
    if (key === asked) return;
    asked = key;
    const mine = ++latest;
    estimate.textContent = "…";
    const size = await sizeOf(words, signal).catch((e) => ({ why: e.message })), before = fileBytes(model.value);
    if (mine !== latest || signal.aborted) return;
    estimate.textContent = size.why ?? "The result has " + bytes(size.bytes) + (before ? "; the source has " + bytes(before) : "") + ".";
  }
  draw = form(main, { title: "Quantize", lead: "Write a model with other types: smaller, and a little less exact. The best source is an F16 or F32 file.", tool: "organ-assemble", args, output, verb: "Quantize", preview: true, signal,
    fields: [h("div", { class: "row" }, field("Model", model), field("Aim at", goal), Object.values(boxes)),
      h("div", { class: "row" }, field("Importance matrix", imatrix, "Values that matter more are kept better. Types of about 2 bits need one."), field("Write", files), Object.values(parts), field("Named", output)), estimate] });
  const drawn = draw;
  draw = () => { drawn(); predict(); };
  rename();
}

// The shares of each expert: share[expert][block], or null if no importance matrix tells them.
async function expertShares(model, imatrix, signal) {
  const share = [], words = [model, "--imatrix", imatrix, "--rank", "experts"];
  const j = await api.follow(await api.start("organ-measure", words), () => {}, signal);
  const rows = await api.rows(j.id).catch(() => []);
  api.remove(j.id).catch(() => {}); // the list of jobs is about work
  if (!rows.length) throw new Error((j.stderr || "").trim() || "This importance matrix has no experts of the model.");
  for (const r of rows) (share[r.expert] ??= [])[r.block] = r.share;
  return share;
}

export async function pruneView(main, signal, query) {
  await refresh();
  if (!names().length) return empty(main, "Prune");
  let draw = () => {}, about = {}, boxes = [], latest = 0;
  const model = modelSelect(query.get("model") || undefined, () => load());
  const imatrix = modelSelect(query.get("imatrix") || undefined, () => look(), "none", "importance matrix");
  const goal = select([["keep-experts", "the best experts"], ["experts", "experts that I choose"], ["keep-units", "the best hidden units"], ["share", "a share of the experts' weights"]], "keep-units", () => rename());
  const experts = number({ min: 1, step: 1, required: true }, () => draw()), units = number({ min: 1, step: 1, required: true }, () => draw());
  const share = number({ min: 1, max: 99, step: "any", value: "50", required: true }, () => draw()), output = nameField("");
  const fields = { "keep-experts": field("Experts per block", experts), "keep-units": field("Units", units, "Of each expert, or of the FFN of each block."), share: field("Percent", share, "As fewer experts or fewer units, whichever loses less.") };
  const place = h("div", { class: "experts" });
  const listed = () => boxes.flatMap((b, e) => (b.box.checked ? [e] : []));
  const args = (preview) => {
    const what = goal.value, list = listed(), least = about.experts_used || 1;
    for (const [key, box] of Object.entries(fields)) {
      box.hidden = key !== what;
      box.querySelector("input").disabled = box.hidden;
    }
    for (const b of boxes) b.box.indeterminate = what !== "experts"; // not the user's choice
    const value = { "keep-experts": experts.value, experts: ranges(list), "keep-units": units.value, share: share.value && share.value + "%" }[what];
    const count = what === "experts" ? list.length : what === "keep-experts" ? Number(value) : least;
    const error = what !== "experts" && !imatrix.value ? "Choose an importance matrix: it tells which are the best."
      : !value ? (what === "experts" ? "Choose the experts to keep." : "Say how many to keep.")
        : count < least ? "Each token uses " + least + " experts: keep at least as many." : null;
    return { error, words: [model.value, "--" + what, value, ...(what === "experts" ? [] : ["--imatrix", imatrix.value]), ...(preview ? ["--dry-run"] : ["--output", output.value])] };
  };
  const rename = () => { output.value = freshName(stemOf(model.value) + "-pruned", ".gguf"); draw(); };

  // The table of experts: a box to keep each, and its share of every block.
  function showExperts(shares, problem) {
    const blocks = [...new Set((shares || []).flatMap((s) => Object.keys(s)))].sort((x, y) => x - y), percent = (v) => (typeof v === "number" ? (100 * v).toPrecision(3) + " %" : "–");
    boxes = [...Array(about.experts).keys()].map((e) => check("Expert " + e, { checked: boxes[e]?.box.checked ?? true, onchange: () => { goal.value = "experts"; draw(); } }));
    const rows = boxes.map((b, e) => {
      const own = blocks.map((k) => shares[e]?.[k]), known = own.filter((v) => typeof v === "number");
      return { keep: b.el, mean: known.length ? known.reduce((n, v) => n + v, 0) / known.length : null, ...Object.fromEntries(blocks.map((k, i) => ["b" + k, own[i]])) };
    });
    fill(place, h("h2", null, "Experts"), h("p", { class: "hint" }, shares ? "The importance of each expert as a share of its block, on the text of the importance matrix. " : "Choose an importance matrix to see how much each expert does. ", "Remove a tick to keep only the others, in every block."),
      problem ? h("p", { class: "error", role: "alert" }, problem) : null,
      table(rows, [["keep", "Keep", (v) => v], ...(blocks.length ? [["mean", "mean", percent, "num"]] : []), ...blocks.map((k) => ["b" + k, "block " + k, percent, "num"])], 1024));
  }
  async function load() {
    const mine = ++latest, name = model.value, [i, a] = await Promise.all([info(name), anatomy(name).catch(() => ({ tensors: [] }))]);
    if (mine !== latest) return;
    about = i;
    boxes = [];
    const length = a.tensors.find((t) => /^ffn_down(_exps)?$/.test(t.role))?.dims[0];
    for (const o of goal.options) o.disabled = !i.experts && o.value !== "keep-units"; // --share is about experts too
    if (goal.selectedOptions[0].disabled || (i.experts && goal.value === "keep-units")) goal.value = i.experts ? "keep-experts" : "keep-units";
    experts.value = i.experts ? Math.max(i.experts_used || 1, Math.ceil(i.experts / 2)) : "";
    units.value = length ? Math.max(1, Math.floor(length / 2)) : "";
    place.hidden = !i.experts;
    fill(place);
    rename();
    await look();
  }
  async function look() {
    const mine = ++latest;
    let shares = null, problem = null;
    draw();
    if (!about.experts) return;
    try {
      if (imatrix.value) shares = await expertShares(model.value, imatrix.value, signal);
    } catch (e) { problem = e.message; }
    if (mine !== latest || signal.aborted) return;
    showExperts(shares, problem);
    draw();
  }
  draw = form(main, { title: "Prune", lead: "Write a mixture of experts with fewer experts, or any model with fewer hidden units in its FFNs.", tool: "organ-prune", args, output, verb: "Prune", preview: true, signal,
    fields: [h("div", { class: "row" }, field("Model", model), field("Importance matrix", imatrix, "It tells which experts and units do most."), field("Keep", goal), Object.values(fields)), place,
      h("div", { class: "row" }, field("Write a model named", output))] });
  await load();
}

export async function purifyView(main, signal, query) {
  await refresh();
  if (!names().length) return empty(main, "Purify");
  let draw = () => {};
  const usual = { haar: "0.125", fft: "0.04" };
  const rename = () => { output.value = freshName(stemOf(model.value) + "-pure", store.organs.includes(model.value) ? ".organs" : ".gguf"); draw(); };
  const model = modelSelect(query.get("model") || undefined, () => rename());
  const method = select([["haar", "haar: wavelet details"], ["fft", "fft: the tail of the spectrum"]], undefined, () => { strength.value = usual[method.value]; draw(); });
  const strength = number({ min: 0, max: 1, step: "any", value: usual.haar, required: true }, () => draw());
  const type = select([["", "all matrices"], ["ffn", "FFN"], ["attention", "attention"]], "ffn", () => draw()), output = nameField("");
  const args = (preview) => ({ error: strength.value ? null : "Give a strength.", words: [model.value, "--method", method.value, "--strength", strength.value, ...(type.value ? ["--type", type.value] : []),
    ...(preview ? ["--dry-run"] : ["--output", output.value])] });
  draw = form(main, { title: "Purify", lead: "Damp the incoherent part of each matrix. In measurements this made no model better; it shows how much detail a model can do without.", tool: "organ-purify", args, output, verb: "Purify", preview: true, signal,
    fields: [h("div", { class: "row" }, field("Model", model), field("Filter", method), field("Strength, 0 to 1", strength), field("Tensors", type)), h("div", { class: "row" }, field("Write", output))] });
  rename();
}

// Folds an adapter into its base, or makes one from two models.
export async function loraView(main, signal, query) {
  await refresh();
  if (!names().length) return empty(main, "Adapter");
  let draw = () => {};
  const has = names("adapter").length > 0;
  const rename = () => { output.value = folds() ? freshName(stemOf(base.value) + "-" + stemOf(adapter.value || "adapter"), ".gguf") : freshName(stemOf(tuned.value) + "-lora", ".gguf"); draw(); };
  const job = select([["make", "make an adapter from two models"], ["fold", "fold an adapter into a model"]], query.get("fold") ? "fold" : "make", () => rename()), folds = () => job.value === "fold";
  const base = modelSelect(query.get("base") || undefined, () => rename());
  const tuned = modelSelect(query.get("tuned") || names().find((n) => n !== base.value), () => rename());
  const adapter = modelSelect(query.get("fold") || undefined, () => rename(), has ? undefined : "there is none", "adapter");
  const scale = number({ step: "any", value: "1", required: true }, () => draw());
  const keep = select([["energy", "a share of the difference"], ["rank", "a number of singular values"]], undefined, () => draw());
  const energy = number({ min: 0, max: 1, step: "any", value: "0.9", required: true }, () => draw());
  const rank = number({ min: 1, step: 1, value: "16", required: true }, () => draw());
  const energyBox = field("Share, 0 to 1", energy), rankBox = field("Rank", rank), output = nameField("");
  const tunedBox = field("Fine-tune", tuned, "What the adapter makes of it."), keepBox = field("Keep per matrix", keep);
  const adapterBox = field("Adapter file", adapter, "It must have been made for the base."), scaleBox = field("Scale", scale, "1 applies it in full.");
  const args = () => {
    for (const [box, on] of [[tunedBox, !folds()], [keepBox, !folds()], [energyBox, !folds() && keep.value === "energy"], [rankBox, !folds() && keep.value === "rank"], [adapterBox, folds()], [scaleBox, folds()]]) {
      box.hidden = !on;
      box.querySelector("input, select").disabled = !on;
    }
    if (folds()) return { tool: "organ-transplant", error: !adapter.value ? "There is no adapter here: upload one, or make one." : !scale.value ? "Give a scale." : null,
      words: ["--base", base.value, "--adapter", adapter.value, ...(scale.value === "1" ? [] : ["--scale", scale.value]), "--output", output.value] };
    const value = keep.value === "rank" ? rank.value : energy.value;
    return { error: value ? null : "Give a number.", words: ["--base", base.value, "--tuned", tuned.value, "--" + keep.value, value, "--output", output.value] };
  };
  draw = form(main, { title: "Adapter", lead: "Write the difference of two models as a LoRA adapter, or fold an adapter into a model.", tool: "organ-lora", args, output, verb: "Write", signal,
    fields: [h("div", { class: "row" }, field("Do", job), field("Base", base, "The model that the adapter is applied to."), tunedBox, adapterBox),
      h("div", { class: "row" }, keepBox, energyBox, rankBox, scaleBox, field("Write a file named", output))] });
  rename();
}

export async function validateView(main, signal, query) {
  await refresh();
  if (!names().length) return empty(main, "Validate");
  let draw = () => {};
  const model = modelSelect(query.get("model") || undefined, () => draw());
  const text = select([["", "none"], ...store.texts.map((t) => [t.name])], undefined, () => draw());
  const reference = modelSelect(undefined, () => draw(), "none"), referenceBox = field("Compare with", reference, "Its perplexity is the measure.");
  const args = () => {
    const named = text.value;
    referenceBox.hidden = !named;
    return { words: [model.value, ...(named ? ["--text", named] : []), ...(named && reference.value ? ["--reference", reference.value] : [])] };
  };
  draw = form(main, { title: "Validate", lead: "Load a model in an inference engine on the server, and measure its perplexity.", tool: "organ-validate", args, verb: "Validate", signal,
    fields: [h("div", { class: "row" }, field("Model", model), field("Text", text, "Without a text, the engine only loads the model. Texts are uploaded on the page of models."), referenceBox)] });
}
