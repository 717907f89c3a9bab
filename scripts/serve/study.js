// study.js - the pages that only read models: measure, compare.
import * as api from "./api.js";
import { h, fill, field, bytes, className, number, select, table, command, commandText } from "./dom.js";
import { refresh, anatomy, modelSelect, names, freshName, stemOf } from "./store.js";
import { nameOf } from "./selection.js";
import { anatomyMap } from "./map.js";
import { run, ended } from "./run.js";
import { downloadButton } from "./models.js";

const text = (v) => h("span", { class: "name" }, v ?? "–");
export const valuesOf = (rows, key) => new Map(rows.filter((r) => typeof r[key] === "number").map((r) => [nameOf(r), r[key]]));
export const empty = (main, title) => fill(main, h("h1", null, title), h("p", { class: "empty" }, "There are no models yet. ", h("a", { href: "#/models" }, "Upload one.")));

// All models in one run. Results are kept in the folder "fleet", so the next run continues there.
function fleet(signal) {
  const panel = h("div", { class: "panel" }), out = h("div");
  const models = names("language model");
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
  const imatrix = modelSelect(query.get("imatrix") || undefined, () => show(), "none", "importance matrix");
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
      h("section", null, h("h2", null, "All tensors, the lowest theta first"), table(low, [["name", "Name", (v, r) => text(nameOf(r)), "n"], ["class", "Class", className, "wide"], ["dtype", "Type", undefined, "wide"],
        ["theta", "theta"], ["calibrated", "calibrated"], ["row_theta", "row theta"], ["entropy", "entropy"], ["kurtosis", "kurtosis"], ["std", "std"]], 40)));
  }
  const experts = h("button", { type: "button", onclick: async () => {
    const words = [model.value, "--imatrix", imatrix.value, "--rank", "experts"];
    fill(line, command(commandText(["organ-measure", ...words])));
    fill(out);
    const j = await run(panel, "organ-measure", words, { signal });
    if (!ended(j)) return;
    const rows = (await api.rows(j.id)).sort((x, y) => x.expert - y.expert || x.block - y.block), name = (r) => "blk." + r.block + ".expert " + r.expert;
    const cells = rows.map((r) => ({ name: name(r), text: "expert " + r.expert + " of block " + r.block, block: r.block, role: "expert " + r.expert, class: "organ" }));
    fill(out, h("section", { class: "card experts" }, h("h2", null, "Experts"), h("p", { class: "hint" }, "The importance of each expert as a share of its block, on the text of the importance matrix."),
      anatomyMap(cells, { values: new Map(rows.map((r) => [name(r), r.share])), label: "share" }).el));
  } }, "Experts");
  const report = h("button", { type: "button", onclick: async () => {
    const name = freshName(stemOf(model.value), ".report");
    const words = [model.value, "--output", name, "--sample", sample.value || "100000", "--force", ...(imatrix.value ? ["--imatrix", imatrix.value] : [])];
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
    } }, h("div", { class: "row" }, field("Model", model), field("Values per tensor", sample, "0 reads all of them."), field("Importance matrix", imatrix, "For experts and reports.")),
    h("div", { class: "actions" }, h("button", { class: "primary" }, "Measure"), experts, report), line, panel), out, fleet(signal));
  show();
}

// Maps of differences, side by side and with the same colours. parts: { title, rows }.
export function differences(tensors, parts) {
  const columns = [["rel_l2", "relative L2 difference"], ["cosine", "cosine"], ["max_abs", "largest difference"]];
  const box = h("div", { class: "pair" });
  const draw = (key) => {
    const values = parts.map((p) => valuesOf(p.rows, key)), among = values.flatMap((v) => [...v.values()]);
    fill(box, parts.map((p, i) => h("div", null, p.title ? h("h3", { class: "name" }, p.title) : null,
      anatomyMap(tensors, { values: values[i], among, reverse: key === "cosine", label: columns.find(([k]) => k === key)[1] }).el)));
  };
  draw("rel_l2");
  return [h("div", { class: "title" }, h("h2", null, "Differences"), field("Colour", select(columns, "rel_l2", draw))), box, h("p", { class: "faint" }, "The cells of the strongest colour differ most.")];
}

export async function compareView(main, signal, query) {
  await refresh();
  if (names("any").length < 2) return empty(main, "Compare");
  const a = modelSelect(query.get("a") || undefined, () => show(), undefined, "any");
  const b = modelSelect(query.get("b") || names().find((n) => n !== a.value), () => show(), undefined, "any");
  const c = modelSelect(query.get("c") || undefined, () => show(), "none", "any");
  const line = h("div"), panel = h("div", { class: "panel" }), out = h("div", { class: "output" });
  const others = () => [b.value, c.value].filter(Boolean);
  const show = () => fill(line, command(others().flatMap((o) => [["organ-compare", a.value, o, "--lineage"], ["organ-compare", a.value, o]]).map(commandText).join("\n")));

  function verdict(row, other) {
    const range = row.matrices ? "The median cosine of " + number(row.matrices) + " matrices is " + number(row.cosine_median) + " (" + number(row.cosine_min) + " to " + number(row.cosine_max) + ")." : "";
    const related = row.verdict === "same lineage" || row.verdict === "identical";
    return h("section", { class: "card verdict " + (related ? "good" : "bad") }, h("h2", null, c.value ? ["Lineage of ", text(other)] : "Lineage"), h("p", { class: "big" }, row.verdict),
      h("p", null, range, " ", number(row.identical), " of ", number(row.tensors), " tensors are identical.",
        related ? "" : " Grafts and merges between these models are unlikely to work."));
  }
  function result(tensors, parts) {
    const by = new Map();
    parts.forEach((p, i) => p.rows.forEach((r) => by.set(nameOf(r), { ...by.get(nameOf(r)), ...(i ? { dtype_c: r.dtype_b, rel_c: r.rel_l2, cos_c: r.cosine } : r) })));
    const rows = [...by.values()].sort((x, y) => (y.rel_l2 ?? Infinity) - (x.rel_l2 ?? Infinity)), two = parts.length > 1;
    out.append(h("section", { class: "card" }, differences(tensors, parts)),
      h("section", null, h("h2", null, "All tensors, the most different first"), table(rows, [["name", "Name", (v, r) => text(nameOf(r)), "n"], ["status", "Status"], ["dtype_a", "Type of A", undefined, "wide"],
        ["dtype_b", "Type of B", undefined, "wide"], two ? ["dtype_c", "Type of C", undefined, "wide"] : null, ["cosine", two ? "cosine to B" : "cosine"], two ? ["cos_c", "cosine to C"] : null,
        ["rel_l2", two ? "relative L2 of B" : "relative L2"], two ? ["rel_c", "relative L2 of C"] : ["max_abs", "largest"]].filter(Boolean), 40)));
  }
  fill(main, h("h1", null, "Compare"), h("p", { class: "lead" }, "Do models share a lineage, and where do they differ? Two fine-tunes can be compared with their base at once."),
    h("form", { class: "card", onsubmit: async (e) => {
      e.preventDefault();
      fill(out);
      const first = a.value, list = others(), parts = [];
      for (const other of list) {
        const one = await run(panel, "organ-compare", [first, other, "--lineage"], { signal });
        if (!ended(one)) return;
        const rows = await api.rows(one.id);
        if (rows.length) out.append(verdict(rows[0], other));
      }
      for (const other of list) {
        const two = await run(panel, "organ-compare", [first, other], { signal });
        if (!ended(two)) return;
        parts.push({ title: list.length > 1 ? other : null, rows: await api.rows(two.id) });
      }
      result((await anatomy(first)).tensors, parts);
    } }, h("div", { class: "row" }, field("Model A", a, "The base, if the others were made from it."), field("Model B", b), field("Model C", c, "For example a second fine-tune.")),
    h("div", { class: "actions" }, h("button", { class: "primary" }, "Compare")), line, panel), out);
  show();
}
