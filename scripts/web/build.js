// build.js - the pages that stack blocks, make adapters, and try a model in an engine.
import * as api from "./api.js";
import { h, fill, field, select, command, commandText } from "./dom.js";
import { refresh, anatomy, modelSelect, names, freshName, stemOf } from "./store.js";
import { parseRanges } from "./selection.js";
import { run, resultTable } from "./run.js";
import { nameField, outcome } from "./surgery.js";
import { empty } from "./study.js";

const number = (props, oninput) => h("input", { type: "number", ...props, oninput });
const lastBlock = async (name) => (await anatomy(name)).tensors.reduce((n, t) => Math.max(n, t.block ?? -1), -1);

// A form with the command line that does the same, a preview where the tool has one, and its result.
function form(main, { title, lead, tool, args, output, fields, verb, preview, signal }) {
  const line = h("div"), panel = h("div", { class: "panel" }), out = h("div", { class: "output" });
  const what = outcome(panel, out, signal);
  const look = h("button", { type: "button", onclick: () => what.preview(tool, args(true).words) }, "Preview"), send = h("button", { class: "primary" }, verb);
  const draw = () => {
    const { words, error } = args(false);
    look.disabled = send.disabled = !!error;
    fill(line, error ? h("p", { class: "faint" }, error) : command(commandText([tool, ...words])));
  };
  if (output) output.addEventListener("input", draw);
  fill(main, h("h1", null, title), h("p", { class: "lead" }, lead),
    h("form", { class: "card", onsubmit: async (e) => {
      e.preventDefault();
      if (output) return what.write(tool, args(false).words, output.value);
      fill(out);
      const j = await run(panel, tool, args(false).words, { signal });
      const rows = j ? await api.rows(j.id) : [];
      if (rows.length) fill(out, resultTable(rows));
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
  await addRow(first);
}

export async function loraView(main, signal, query) {
  await refresh();
  if (names().length < 2) return empty(main, "Adapter");
  let draw = () => {};
  const rename = () => { output.value = freshName(stemOf(tuned.value) + "-lora", ".gguf"); draw(); };
  const base = modelSelect(query.get("base") || undefined, () => draw());
  const tuned = modelSelect(query.get("tuned") || names().find((n) => n !== base.value), () => rename());
  const keep = select([["energy", "a share of the difference"], ["rank", "a number of singular values"]], undefined, () => draw());
  const energy = number({ min: 0, max: 1, step: "any", value: "0.9", required: true }, () => draw());
  const rank = number({ min: 1, step: 1, value: "16", required: true }, () => draw());
  const energyBox = field("Share, 0 to 1", energy), rankBox = field("Rank", rank), output = nameField("");
  const args = () => {
    energyBox.hidden = keep.value !== "energy";
    rankBox.hidden = keep.value !== "rank";
    const value = keep.value === "rank" ? rank.value : energy.value;
    return { error: value ? null : "Give a number.", words: ["--base", base.value, "--tuned", tuned.value, "--" + keep.value, value, "--output", output.value] };
  };
  draw = form(main, { title: "Adapter", lead: "Write the difference of two models as a LoRA adapter.", tool: "organ-lora", args, output, verb: "Make the adapter", signal,
    fields: [h("div", { class: "row" }, field("Base", base, "The adapter will be applied to it."), field("Fine-tune", tuned, "What the adapter makes of it.")),
      h("div", { class: "row" }, field("Keep per matrix", keep), energyBox, rankBox, field("Write an adapter named", output))] });
  rename();
}

export async function validateView(main, signal, query) {
  await refresh();
  if (!names().length) return empty(main, "Validate");
  let draw = () => {};
  const model = modelSelect(query.get("model") || undefined, () => draw());
  const text = h("input", { type: "text", maxlength: 200, spellcheck: "false", autocomplete: "off", oninput: () => draw() });
  const reference = modelSelect(undefined, () => draw(), "none"), referenceBox = field("Compare with", reference, "Its perplexity is the measure.");
  const args = () => {
    const named = text.value.trim();
    referenceBox.hidden = !named;
    return { words: [model.value, ...(named ? ["--text", named] : []), ...(named && reference.value ? ["--reference", reference.value] : [])] };
  };
  draw = form(main, { title: "Validate", lead: "Load a model in an inference engine on the server, and measure its perplexity.", tool: "organ-validate", args, verb: "Validate", signal,
    fields: [h("div", { class: "row" }, field("Model", model), field("Text file on the server", text, "Without a text, the engine only loads the model."), referenceBox)] });
}
