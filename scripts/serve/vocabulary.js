// vocabulary.js - the page of vocabularies: look at one, compare two, and write a model with another one.
import { h, field, bytes, number, select, table } from "./dom.js";
import { store, refresh, modelSelect, names, freshName, stemOf } from "./store.js";
import { nameField } from "./surgery.js";
import { form } from "./build.js";
import { resultTable } from "./run.js";
import { empty } from "./study.js";

const percent = (v) => (100 * v).toPrecision(3) + " %";

// What organ-vocab tells of one model, from its rows: item, name, value, share, text.
function facts(rows) {
  const of = (item) => rows.filter((r) => r.item === item), one = (item) => of(item)[0]?.value;
  const row = (head, value) => (value ? [h("dt", null, head), h("dd", null, value)] : []);
  const list = (item, text) => of(item).map(text).join(", ");
  const types = of("type").some((r) => r.name === "unused") ? of("type") : [...of("type"), { name: "unused", value: 0 }];
  const roles = of("special");
  return h("section", { class: "card words" }, h("h2", null, "Vocabulary"),
    h("dl", { class: "about" }, row("Size", number(one("tokens")) + " tokens"), row("Kind", [one("model"), one("pre")].filter(Boolean).join(", ")),
      row("Types", types.map((r) => number(r.value) + " " + r.name).join(", ")),
      row("Oddities", list("count", (r) => number(r.value) + " " + r.name)),
      row("Scripts", list("script", (r) => r.name + " " + percent(r.share))),
      row("Rows", list("bytes", (r) => r.name + ": " + bytes(r.value) + ", " + percent(r.share) + " of the model"))),
    roles.length ? [h("h2", null, "Special tokens"), table(roles, [["name", "Key", undefined, "n"], ["value", "Id", undefined, "num"], ["text", "Text", (v) => h("span", { class: "name" }, v ?? "–")]])] : null);
}

export async function vocabularyView(main, signal, query) {
  await refresh();
  if (!names().length) return empty(main, "Vocabulary");
  let draw = () => {};
  const writes = () => ["trim", "transplant", "add"].includes(goal.value);
  const ending = { trim: "-trimmed", transplant: "-words", add: "-padded" };
  const rename = () => { output.value = freshName(stemOf(model.value) + (ending[goal.value] || ""), ".gguf"); draw(); };
  const model = modelSelect(query.get("model") || undefined, () => rename());
  const goal = select([["look", "look at it"], ["compare", "compare it with another"], ["trim", "keep only some tokens"], ["transplant", "take that of another model"], ["add", "add unused tokens"]], query.get("do") || undefined, () => rename());
  const other = modelSelect(names().find((n) => n !== model.value), () => draw());
  const text = select([["", "none"], ...store.texts.map((t) => [t.name])], undefined, () => draw());
  const form_of = select([["keep", "tokens that stay"], ["used", "ids and counts"]], undefined, () => draw());
  const method = select([["mean", "mean of the pieces"], ["length", "weighted by length"], ["omp", "matching pursuit"], ["random", "random"]], undefined, () => draw());
  const multiple = h("input", { type: "number", min: 1, step: 1, value: "64", required: true, oninput: () => draw() }), output = nameField("");
  const boxes = { compare: [field("Other model", other)], trim: [field("List", text, "A text on the server: one token or id per line."), field("It has", form_of)], add: [field("Multiple of", multiple, "Unused tokens are added up to a multiple of this.")] };
  boxes.transplant = [boxes.compare[0], field("Rows of new tokens", method)];
  const outputBox = field("Write a model named", output);
  const args = () => {
    for (const box of new Set(Object.values(boxes).flat())) box.hidden = !(boxes[goal.value] || []).includes(box);
    outputBox.hidden = !writes();
    for (const box of [...Object.values(boxes).flat(), outputBox]) box.querySelector("input, select").disabled = box.hidden;
    const words = { look: [model.value], compare: [model.value, other.value], trim: ["trim", model.value, "--" + form_of.value, text.value], transplant: ["transplant", model.value, "--from", other.value, "--method", method.value], add: ["add", model.value, "--pad", multiple.value] }[goal.value];
    const error = goal.value === "trim" && !text.value ? "Upload the list of tokens as a text first, on the page of models."
      : ["compare", "transplant"].includes(goal.value) && (!other.value || other.value === model.value) ? "Choose another model." : null;
    return { looks: !writes(), error, words: [...words, ...(writes() ? ["--output", output.value] : [])] };
  };
  draw = form(main, { title: "Vocabulary", lead: "Look at the tokens of a model, compare those of two, or write a model with another vocabulary.", tool: "organ-vocab", args, output, verb: "Go", signal,
    fields: [h("div", { class: "row" }, field("Model", model), field("Do", goal), [...new Set(Object.values(boxes).flat())], outputBox)],
    shown: (rows, words) => (words.length === 1 ? facts(rows) : resultTable(rows)) });
  rename();
}
