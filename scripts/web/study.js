// study.js - the pages that only read models: measure, compare.
import * as api from "./api.js";
import { h, fill, field, bytes, number, select, table, command, commandText } from "./dom.js";
import { store, refresh, anatomy, modelSelect, names, freshName, stemOf } from "./store.js";
import { nameOf } from "./selection.js";
import { anatomyMap } from "./map.js";
import { run, ended } from "./run.js";
import { downloadButton } from "./models.js";

const text = (v) => h("span", { class: "name" }, v ?? "–");
const valuesOf = (rows, key) => new Map(rows.filter((r) => typeof r[key] === "number").map((r) => [nameOf(r), r[key]]));
export const empty = (main, title) => fill(main, h("h1", null, title), h("p", { class: "empty" }, "There are no models yet. ", h("a", { href: "#/models" }, "Upload one.")));

// All models in one run. Results are kept in the folder "fleet", so the next run continues there.
function fleet(signal) {
  const panel = h("div", { class: "panel" }), out = h("div");
  const models = names().filter((n) => !store.organs.includes(n));
  const first = ["measure", "--output", "fleet", ...models], second = ["--output", "fleet.report", "--force", "fleet"];
  const button = h("button", { type: "button", onclick: async () => {
    fill(out);
    const j = await run(panel, "organ-fleet", first, { signal });
    if (!j) return;
    const rows = await api.rows(j.id);
    if (rows.length) fill(out, table(rows, [["model", "Model", text, "n"], ["status", "Status"], ["bytes", "Size", (v) => bytes(v), "num"], ["tensors", "Tensors"], ["theta", "mean theta"], ["calibrated", "calibrated"]]));
    if (!ended(j) || !ended(await run(panel, "organ-report", second, { signal }))) return;
    out.append(h("p", { class: "created" }, "The report is in the folder ", text("fleet.report"), ". ",
      downloadButton("/v1/files/fleet.report/Z_MEASURE_REPORT.html", "fleet.html", "Download as HTML")));
  } }, "Measure all models");
  return models.length < 2 ? null : h("section", { class: "card fleet" }, h("h2", null, "All models"),
    h("p", { class: "hint" }, "Measures every model in the list and ranks them in one report. Results of unchanged models are kept."),
    h("div", { class: "actions" }, button), command(commandText(["organ-fleet", ...first]) + "\n" + commandText(["organ-report", ...second])), panel, out);
}

export async function measureView(main, signal, query) {
  await refresh();
  if (!names().length) return empty(main, "Measure");
  const model = modelSelect(query.get("model") || undefined, () => show());
  const sample = h("input", { type: "number", min: 0, step: 1, value: "100000" });
  const line = h("div"), panel = h("div", { class: "panel" }), out = h("div", { class: "output" });
  const args = () => [model.value, "--sample", sample.value || "100000"];
  const show = () => fill(line, command(commandText(["organ-measure", ...args()])));
  sample.addEventListener("input", show);

  function result(a, rows) {
    const columns = [["theta", "theta, degrees"], ["calibrated", "calibrated theta, degrees"], ["row_theta", "row theta, degrees"], ["entropy", "entropy"],
      ["kurtosis", "excess kurtosis"], ["std", "standard deviation"], ["dimension", "dimension"]];
    const box = h("div");
    const draw = (key) => fill(box, anatomyMap(a.tensors, { values: valuesOf(rows, key), label: columns.find(([k]) => k === key)[1] }).el);
    draw("theta");
    const low = rows.filter((r) => typeof r.theta === "number").sort((x, y) => x.theta - y.theta);
    fill(out, h("section", { class: "card" }, h("div", { class: "title" }, h("h2", null, "Measures"), field("Colour", select(columns, "theta", draw))), box),
      h("section", null, h("h2", null, "All tensors, the lowest theta first"), table(low, [["name", "Name", (v, r) => text(nameOf(r)), "n"], ["class", "Class", undefined, "wide"], ["dtype", "Type", undefined, "wide"],
        ["theta", "theta"], ["calibrated", "calibrated"], ["row_theta", "row theta"], ["entropy", "entropy"], ["kurtosis", "kurtosis"], ["std", "std"]], 40)));
  }
  const report = h("button", { type: "button", onclick: async () => {
    const name = freshName(stemOf(model.value), ".report");
    const words = [model.value, "--output", name, "--sample", sample.value || "100000", "--force"];
    fill(line, command(commandText(["organ-report", ...words])));
    fill(out);
    if (ended(await run(panel, "organ-report", words, { signal })))
      fill(out, h("p", { class: "created" }, "The report is in the folder ", text(name), ". ",
        downloadButton("/v1/files/" + name + "/Z_MEASURE_REPORT.html", name + ".html", "Download as HTML"), " ",
        downloadButton("/v1/files/" + name + "/Z_MEASURE_REPORT.md", name + ".md", "as Markdown")));
  } }, "Write a report");
  fill(main, h("h1", null, "Measure"), h("p", { class: "lead" }, "Statistics of the values of each tensor. They describe a model; they do not tell how good it is."),
    h("form", { class: "card", onsubmit: async (e) => {
      e.preventDefault();
      fill(out);
      const name = model.value;
      const j = await run(panel, "organ-measure", args(), { signal });
      if (ended(j)) result(await anatomy(name), await api.rows(j.id));
    } }, h("div", { class: "row" }, field("Model", model), field("Values per tensor", sample, "0 reads all of them.")),
    h("div", { class: "actions" }, h("button", { class: "primary" }, "Measure"), report), line, panel), out, fleet(signal));
  show();
}

export async function compareView(main, signal, query) {
  await refresh();
  if (names().length < 2) return empty(main, "Compare");
  const a = modelSelect(query.get("a") || undefined, () => show());
  const b = modelSelect(query.get("b") || names().find((n) => n !== a.value), () => show());
  const line = h("div"), panel = h("div", { class: "panel" }), out = h("div", { class: "output" });
  const lineage = () => [a.value, b.value, "--lineage"], full = () => [a.value, b.value];
  const show = () => fill(line, command(commandText(["organ-compare", ...lineage()]) + "\n" + commandText(["organ-compare", ...full()])));

  function verdict(row) {
    const range = row.matrices ? "The median cosine of " + number(row.matrices) + " matrices is " + number(row.cosine_median) + " (" + number(row.cosine_min) + " to " + number(row.cosine_max) + ")." : "";
    const related = row.verdict === "same lineage" || row.verdict === "identical";
    return h("section", { class: "card verdict " + (related ? "good" : "bad") }, h("h2", null, "Lineage"), h("p", { class: "big" }, row.verdict),
      h("p", null, range, " ", number(row.identical), " of ", number(row.tensors), " tensors are identical.",
        related ? "" : " Grafts and merges between these models are unlikely to work."));
  }
  function result(tensors, rows) {
    const columns = [["rel_l2", "relative L2 difference"], ["cosine", "cosine"], ["max_abs", "largest difference"]];
    const box = h("div");
    const draw = (key) => fill(box, anatomyMap(tensors, { values: valuesOf(rows, key), reverse: key === "cosine", label: columns.find(([k]) => k === key)[1] }).el);
    draw("rel_l2");
    const by = [...rows].sort((x, y) => (y.rel_l2 ?? Infinity) - (x.rel_l2 ?? Infinity));
    out.append(h("section", { class: "card" }, h("div", { class: "title" }, h("h2", null, "Differences"), field("Colour", select(columns, "rel_l2", draw))), box,
      h("p", { class: "faint" }, "The cells of the strongest colour differ most.")),
    h("section", null, h("h2", null, "All tensors, the most different first"), table(by, [["name", "Name", (v, r) => text(nameOf(r)), "n"], ["status", "Status"], ["dtype_a", "Type of A", undefined, "wide"],
      ["dtype_b", "Type of B", undefined, "wide"], ["cosine", "cosine"], ["rel_l2", "relative L2"], ["max_abs", "largest"]], 40)));
  }
  fill(main, h("h1", null, "Compare"), h("p", { class: "lead" }, "Do two models share a lineage, and where do they differ?"),
    h("form", { class: "card", onsubmit: async (e) => {
      e.preventDefault();
      fill(out);
      const first = a.value, words = [lineage(), full()];
      const one = await run(panel, "organ-compare", words[0], { signal });
      if (!ended(one)) return;
      const rows = await api.rows(one.id);
      if (rows.length) out.append(verdict(rows[0]));
      const two = await run(panel, "organ-compare", words[1], { signal });
      if (ended(two)) result((await anatomy(first)).tensors, await api.rows(two.id));
    } }, h("div", { class: "row" }, field("Model A", a), field("Model B", b)),
    h("div", { class: "actions" }, h("button", { class: "primary" }, "Compare")), line, panel), out);
  show();
}
