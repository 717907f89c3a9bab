// models.js - the list of models with upload and download, and the page of one model.
import * as api from "./api.js";
import { h, fill, field, check, bytes, className, number, time, table, note, command, commandText, quote } from "./dom.js";
import { store, refresh, anatomy, info, exists, fileBytes, kindOf, freshName, stemOf } from "./store.js";
import { nameOf } from "./selection.js";
import { anatomyMap, smallMap } from "./map.js";
import { run, ended, succeeded, resultTable } from "./run.js";

const curl = (rest) => "curl -H @header " + rest;
const download = (path, name, button) => {
  const text = button.textContent;
  button.disabled = true;
  return api.download(path, name, (done, all) => { button.textContent = Math.floor((100 * done) / Math.max(1, all)) + " %"; })
    .catch((e) => { if (e.name !== "AbortError") note(e.message, "bad"); })
    .finally(() => { button.disabled = false; button.textContent = text; });
};
const downloadButton = (path, name, text = "Download") => {
  const b = h("button", { type: "button", class: "quiet", "data-download": name, onclick: () => download(path, name, b) }, text);
  return b;
};
export { downloadButton };

// A place for the small map of a model. The anatomies are read one after the other, and only
// those of the rows that are seen.
let queue = Promise.resolve();
const seen = new IntersectionObserver((entries) => {
  for (const e of entries) {
    if (!e.isIntersecting) continue;
    seen.unobserve(e.target);
    const name = e.target.dataset.model;
    queue = queue.then(async () => {
      if (!e.target.isConnected) return;
      try { fill(e.target, smallMap((await anatomy(name)).tensors)); } catch { fill(e.target, h("span", { class: "faint" }, "not readable")); }
    });
  }
});
function mapPlace(name) {
  const el = h("a", { class: "small", href: "#/model/" + encodeURIComponent(name), tabindex: "-1", "aria-hidden": "true", "data-model": name });
  seen.observe(el);
  return el;
}

function uploadForm(done) {
  const file = h("input", { type: "file", accept: ".gguf,.safetensors,.txt", required: true });
  const name = h("input", { type: "text", required: true, maxlength: 200, pattern: "[A-Za-z0-9_][A-Za-z0-9._\\-]*\\.(gguf|safetensors|txt)", spellcheck: "false", autocomplete: "off" });
  const replace = check("Replace a file of this name");
  const out = h("div", { "aria-live": "polite" }), line = h("div");
  const show = () => fill(line, name.value ? command(curl("-T " + quote(file.files[0] ? file.files[0].name : name.value) + " " +
    quote(api.curlUrl(api.pathOf(name.value) + (replace.box.checked ? "?force=1" : "")))), "With curl, where the file header contains: Authorization: Bearer TOKEN") : null);
  file.addEventListener("change", () => {
    const [, stem, ending] = file.files[0] ? /^(.*?)(\.gguf|\.safetensors|\.txt)?$/i.exec(file.files[0].name) : [];
    if (stem !== undefined) name.value = stem.replace(/[^A-Za-z0-9._-]/g, "_").replace(/^[.-]+/, "").slice(0, 190) + (ending || ".gguf").toLowerCase();
    show();
  });
  name.addEventListener("input", show);
  replace.box.addEventListener("change", show);
  const send = h("button", { class: "primary" }, "Upload");
  return h("form", { class: "card upload", onsubmit: async (e) => {
    e.preventDefault();
    const bar = h("progress", { max: 100, value: 0, "aria-label": "progress" }), text = h("span", { class: "faint" });
    fill(out, h("div", { class: "progress" }, bar, text));
    send.disabled = true;
    try {
      await api.upload(name.value, file.files[0], replace.box.checked, (n, all) => { bar.value = (100 * n) / all; text.textContent = bytes(n) + " of " + bytes(all); });
      fill(out);
      note(name.value + " was stored.");
      await done();
    } catch (why) {
      fill(out, h("p", { class: "error", role: "alert" }, why.message));
    }
    send.disabled = false;
  } }, h("h2", null, "Upload"), h("div", { class: "row" }, field("GGUF file, safetensors file, or a text (.txt)", file), field("Name on the server", name)),
  h("div", { class: "actions" }, send, replace.el), out, line);
}

// Renames and deletes; asks first. after(name): the list has changed, and the file has this name or, if
// it is gone, none. The shards of a split model are deleted together, and keep their names.
function manage(name, after) {
  const ending = /\.(gguf|safetensors|txt)$/.exec(name)?.[0] ?? "", shard = /^(.*)-\d{5}-of-(\d{5})\.gguf$/.exec(name);
  const files = shard ? store.models.map((m) => m.name).filter((n) => n.startsWith(shard[1] + "-") && n.endsWith("-of-" + shard[2] + ".gguf") && n.length === name.length) : [name];
  const box = h("span", { class: "manage" });
  const act = async (what, then) => {
    try {
      await what();
      await refresh(true);
      after(then);
    } catch (e) { note(e.message, "bad"); }
  };
  const closed = () => fill(box, shard ? null : h("button", { type: "button", class: "quiet", "aria-label": "Rename " + name, onclick: renaming }, "Rename"),
    h("button", { type: "button", class: "quiet", "aria-label": "Delete " + name, onclick: deleting }, "Delete"));
  const back = () => h("button", { type: "button", class: "quiet", onclick: closed }, "Keep");
  function renaming() {
    const to = h("input", { type: "text", required: true, maxlength: 200, pattern: "[A-Za-z0-9_][A-Za-z0-9._\\-]*" + ending.replace(".", "\\."), spellcheck: "false", value: name, "aria-label": "New name" });
    const line = h("div"), draw = () => fill(line, command(curl("-d '' " + quote(api.curlUrl(api.pathOf(name) + "?rename=" + to.value))), "With curl, where the file header contains: Authorization: Bearer TOKEN"));
    to.addEventListener("input", draw);
    fill(box, h("form", { class: "confirm", onsubmit: (e) => { e.preventDefault(); act(() => api.rename(name, to.value), to.value); } }, to, h("button", null, "Rename"), back(), line));
    draw();
    to.focus();
  }
  function deleting() {
    const sure = h("button", { type: "button", class: "bad", onclick: () => act(() => Promise.all(files.map(api.erase)), null) }, "Delete for good");
    fill(box, h("div", { class: "confirm", role: "alert" }, h("span", null, "Delete ", h("span", { class: "name" }, files.length > 1 ? files.length + " shards of " + name : name), "? This cannot be undone."), sure, back(),
      command(files.map((f) => curl("-X DELETE " + quote(api.curlUrl(api.pathOf(f))))).join("\n"), "With curl, where the file header contains: Authorization: Bearer TOKEN")));
    box.querySelector("button.quiet").focus(); // so that Enter deletes nothing
  }
  closed();
  return box;
}

const kindTag = (i) => h("span", { class: "kind k-" + kindOf(i).split(" ")[0], title: i.problem || null }, kindOf(i) || "file");
function kindPlace(name) {
  const el = h("span", null, h("span", { class: "faint" }, "…"));
  info(name).then((i) => fill(el, kindTag(i)));
  return el;
}

export async function modelsView(main) {
  await refresh(true);
  const lists = h("div");
  const model = (name) => h("a", { class: "name", href: "#/model/" + encodeURIComponent(name) }, name);
  function show() {
    fill(lists,
      h("section", { class: "first" }, store.models.length ? table(store.models, [
        ["name", "Name", model, "n short"], ["name", "Kind", kindPlace, "k"], ["name", "Map", mapPlace, "m wide"], ["bytes", "Size", (v) => bytes(v), "num"], ["modified", "Changed", time, "num wide"],
        ["name", "", (v) => downloadButton("/v1/files/" + v, v), "act"]]) : h("p", { class: "empty" }, "There are no models yet. Upload one below.")),
      store.organs.length ? h("section", null, h("h2", null, "Organ directories"),
        table(store.folders, [["name", "Name", model, "n short"], ["name", "Kind", kindPlace, "k"], ["name", "Map", mapPlace, "m wide"], ["modified", "Changed", time, "num"]])) : null,
      store.texts.length ? h("section", null, h("h2", null, "Texts"), table(store.texts, [["name", "Name", (v) => h("span", { class: "name" }, v), "n short"],
        ["bytes", "Size", (v) => bytes(v), "num"], ["modified", "Changed", time, "num wide"],
        ["name", "", (v) => h("span", { class: "rowacts" }, downloadButton(api.pathOf(v), v), manage(v, show)), "act"]])) : null);
  }
  show();
  fill(main, h("h1", null, "Models"), lists, uploadForm(async () => { await refresh(true); show(); }));
}

const fact = (text, value) => (value === null || value === undefined || value === "" ? null : h("div", { class: "fact" }, h("b", null, value), h("span", null, text)));

// What organ-info says: one card.
function infoCard(name, i, t) {
  if (i.problem) return h("section", { class: "card" }, h("h2", null, "This file cannot be read"), h("p", { class: "error", role: "alert" }, i.problem));
  const types = new Map(), sum = t.reduce((n, x) => n + x.bytes, 0) || 1;
  for (const x of t) types.set(x.dtype, (types.get(x.dtype) || 0) + x.bytes);
  const mix = [...types].sort((x, y) => y[1] - x[1]), bar = h("div", { class: "mix", "aria-hidden": "true" });
  mix.forEach(([, b], k) => {
    const part = h("i", { class: "v" + Math.max(1, 8 - 2 * k) });
    part.style.flexGrow = String(b / sum);
    bar.append(part);
  });
  const cache = [["4,096", i.cache_4k], ["32,768", i.cache_32k], [number(i.context), i.cache_full]].filter(([c, b], k, list) => b && (k === 2 || Number(c.replace(",", "")) < i.context) && list[2][1]);
  const row = (head, value) => (value ? [h("dt", null, head), h("dd", null, value)] : []);
  return h("section", { class: "card info" },
    h("div", { class: "facts" }, fact("parameters", short(i.parameters)), i.active && i.active !== i.parameters ? fact("used per token", short(i.active)) : null, fact("size", bytes(i.bytes)),
      fact("bits per weight", i.bpw ? i.bpw.toFixed(2) : null), fact("blocks", i.blocks && number(i.blocks)), fact("context", i.context && number(i.context)), fact("tensors", number(t.length))),
    bar, h("p", { class: "faint" }, mix.map(([d, b]) => d + " " + (b / sum >= 0.005 ? Math.round((100 * b) / sum) : "<1") + " %").join(", ")),
    h("dl", { class: "about" }, row("Shape", [i.embedding && "embedding " + number(i.embedding), i.heads && number(i.heads) + " heads" + (i.heads_kv && i.heads_kv !== i.heads ? " (" + number(i.heads_kv) + " for keys and values)" : ""),
      i.experts && number(i.experts) + " experts, " + number(i.experts_used) + " used at once"].filter(Boolean).join(", ")),
    row("Vocabulary", i.vocabulary && h("a", { href: "#/vocabulary?model=" + encodeURIComponent(name) }, number(i.vocabulary) + " tokens (" + (i.tokenizer ?? "–") + ")")), row("Chat template", i.kind === "language model" ? i.template : null), row("Licence", i.license), row("Made from", i.origin),
    row("Shards", i.shards + i.missing > 1 ? i.shards + " present, " + i.missing + " missing" : null),
    row("Memory", cache.length ? bytes(i.bytes) + " of weights, and for keys and values " + cache.map(([c, b]) => bytes(b) + " at " + c + " tokens").join(", ") + (i.cache_full_q8_0 ? " (" + bytes(i.cache_full_q8_0) + " as q8_0)" : "") : null),
    row("Check", i.verdict ? h("span", { class: i.errors ? "error" : i.verdict === "no findings" ? "good" : "warn" }, i.verdict) : null)),
    command(commandText(["organ-info", name])));
}

// Whether a model and its cache fit into the memory of a machine.
function fitForm(name, signal) {
  const size = h("input", { type: "text", value: "24G", required: true, pattern: "[0-9]+(\\.[0-9]+)?[kKmMgGtT]?[bB]?", oninput: () => draw() });
  const line = h("div"), panel = h("div", { class: "panel" }), out = h("div", { class: "output", role: "status" }), args = () => [name, "--fit", size.value];
  const draw = () => fill(line, command(commandText(["organ-info", ...args()])));
  draw();
  return h("form", { class: "card fit", onsubmit: async (e) => {
    e.preventDefault();
    fill(out);
    const j = await run(panel, "organ-info", args(), { signal });
    if (!ended(j)) return;
    const row = (await api.rows(j.id))[0], fits = row && row.fit;
    fill(out, h("p", { class: fits ? "good" : "warn" }, fits ? "It fits with a context of " + number(row.fit) + " tokens" + (row.context && row.fit >= row.context ? ", all that it was trained for." : ".") : "It does not fit."));
  } }, h("h2", null, "Does it fit?"), h("div", { class: "row" }, field("Memory", size, "Of the graphics card or the machine, such as 24G.")), h("div", { class: "actions" }, h("button", null, "Try")), out, line, panel);
}

export async function modelView(main, signal, name) {
  await refresh(true);
  const i = await info(name), isDir = store.organs.includes(name), kind = i.kind;
  const a = await anatomy(name).catch((e) => { // a file that cannot be read can still be kept in order
    if (!exists(name)) throw e;
    return { problem: e.message, tensors: [] };
  });
  const t = a.tensors;
  const out = h("div", { class: "output" }), line = h("div");
  const act = (text, tool, args, after) => h("button", { type: "button", onclick: async () => {
    fill(line, command(commandText([tool, ...args])));
    const panel = h("div", { class: "panel" });
    fill(out, panel);
    const j = await run(panel, tool, args, { signal });
    if (text === "Check" ? ended(j) : succeeded(j)) await after(j);
  } }, text);
  const whenModel = (...list) => (!kind || kind === "language model" ? list : []);
  const organs = freshName(stemOf(name), ".organs"), whole = freshName(stemOf(name), ".gguf");
  const files = [isDir ? null : downloadButton("/v1/files/" + name, name), manage(name, (to) => { location.hash = to ? "#/model/" + encodeURIComponent(to) : "#/models"; })];
  if (a.problem)
    return fill(main, h("p", { class: "crumb" }, h("a", { href: "#/models" }, "Models")), h("h1", { class: "name" }, name), h("p", { class: "lead" }, kindTag({ problem: a.problem })),
      infoCard(name, { problem: i.problem || a.problem }, t), h("div", { class: "actions" }, files));
  const to = (verb, key) => h("a", { class: "button", href: "#/" + verb + "?" + key + "=" + encodeURIComponent(name) }, verb[0].toUpperCase() + verb.slice(1));
  fill(main,
    h("p", { class: "crumb" }, h("a", { href: "#/models" }, "Models")),
    h("h1", { class: "name" }, name),
    h("p", { class: "lead" }, kindTag(i), " ", [a.title, a.architecture].filter(Boolean).map((x) => h("span", { class: "name" }, x)).flatMap((x, i) => (i ? [" · ", x] : [x]))),
    infoCard(name, i, t),
    h("div", { class: "actions" }, whenModel(to("measure", "model"), to("compare", "a"), to("graft", "base"), to("merge", "model"), to("stack", "model"), to("quantize", "model"), h("a", { class: "button", href: "#/quantize?keep=1&model=" + encodeURIComponent(name) }, "Split or join"), to("prune", "model"), to("purify", "model"), to("validate", "model")),
      kind === "adapter" ? to("adapter", "fold") : kind === "importance matrix" ? [to("quantize", "imatrix"), to("prune", "imatrix")] : null, to("keys", "model"),
      act("Check", "organ-check", [name], async (j) => {
        const rows = await api.rows(j.id);
        const sound = i.verdict === "no findings";
        out.append(h("p", { class: i.errors ? "error" : sound ? "good" : "warn" },
          sound && kind === "language model" ? "No findings: an engine should load this model." : i.verdict ?? ""), rows.length ? resultTable(rows) : "");
      }),
      isDir ? act("Assemble", "organ-assemble", [name, "--output", whole], async () => { await refresh(); out.append(created(whole)); })
        : act("Extract", "organ-extract", [name, "--output", organs], async () => { await refresh(); out.append(created(organs)); }),
      files),
    line, out, kind && kind !== "language model" ? null : fitForm(name, signal),
    h("section", { class: "card" }, h("h2", null, "Anatomy"), t.length ? anatomyMap(t).el : h("p", { class: "empty" }, "This model has no tensors.")),
    h("section", null, h("h2", null, "Tensors"), table(t.map((x) => ({ ...x, name: nameOf(x) })), [
      ["name", "Name", (v) => h("span", { class: "name" }, v), "n"], ["class", "Class", className, "wide"], ["block", "Block", undefined, "num"], ["dtype", "Type"],
      ["dims", "Shape", (v) => v.join(" × "), "num"], ["bytes", "Size", (v) => bytes(v), "num"]], 60)),
    command(commandText(["organ-extract", name, "--list"])),
    isDir ? null : command(curl("-O " + quote(api.curlUrl("/v1/files/" + name))), "Download with curl, where the file header contains: Authorization: Bearer TOKEN"));
}

export function created(name) {
  const dir = store.organs.includes(name), about = h("span", { class: "faint" });
  info(name).then((i) => fill(about, h("span", null, i.problem || [kindOf(i), bytes(fileBytes(name) ?? i.bytes), i.bpw ? i.bpw.toFixed(2) + " bits per weight" : null, i.verdict].filter(Boolean).join(", "))));
  return h("p", { class: "created" }, h("a", { class: "name", href: "#/model/" + encodeURIComponent(name) }, name), " was written. ", about,
    dir ? null : downloadButton("/v1/files/" + name, name));
}

function short(n) {
  if (n >= 1e9) return (n / 1e9).toPrecision(3) + " B";
  return n >= 1e6 ? (n / 1e6).toPrecision(3) + " M" : number(n);
}
