// models.js - the list of models with upload and download, and the page of one model.
import * as api from "./api.js";
import { h, fill, field, check, bytes, number, time, table, note, command, commandText, quote } from "./dom.js";
import { store, refresh, anatomy, freshName, stemOf } from "./store.js";
import { nameOf } from "./selection.js";
import { anatomyMap, smallMap } from "./map.js";
import { run, ended, resultTable } from "./run.js";

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
  const file = h("input", { type: "file", accept: ".gguf", required: true });
  const name = h("input", { type: "text", required: true, maxlength: 200, pattern: "[A-Za-z0-9_][A-Za-z0-9._\\-]*\\.gguf", spellcheck: "false", autocomplete: "off" });
  const replace = check("Replace a model of this name");
  const out = h("div", { "aria-live": "polite" }), line = h("div");
  const show = () => fill(line, name.value ? command(curl("-T " + quote(file.files[0] ? file.files[0].name : name.value) + " " +
    quote(api.curlUrl("/v1/models/" + name.value + (replace.box.checked ? "?force=1" : "")))), "With curl, where the file header contains: Authorization: Bearer TOKEN") : null);
  file.addEventListener("change", () => {
    if (file.files[0]) name.value = file.files[0].name.replace(/\.gguf$/i, "").replace(/[^A-Za-z0-9._-]/g, "_").replace(/^[.-]+/, "").slice(0, 190) + ".gguf";
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
  } }, h("h2", null, "Upload a model"), h("div", { class: "row" }, field("GGUF file", file), field("Name on the server", name)),
  h("div", { class: "actions" }, send, replace.el), out, line);
}

export async function modelsView(main) {
  await refresh();
  const lists = h("div");
  const model = (name) => h("a", { class: "name", href: "#/model/" + encodeURIComponent(name) }, name);
  function show() {
    fill(lists,
      h("section", { class: "first" }, store.models.length ? table(store.models, [
        ["name", "Name", model, "n short"], ["name", "Map", mapPlace, "m wide"], ["bytes", "Size", (v) => bytes(v), "num"], ["modified", "Changed", time, "num wide"],
        ["name", "", (v) => downloadButton("/v1/files/" + v, v), "act"]]) : h("p", { class: "empty" }, "There are no models yet. Upload one below.")),
      store.organs.length ? h("section", null, h("h2", null, "Organ directories"),
        table(store.folders, [["name", "Name", model, "n short"], ["name", "Map", mapPlace, "m wide"], ["modified", "Changed", time, "num"]])) : null);
  }
  show();
  fill(main, h("h1", null, "Models"), lists, uploadForm(async () => { await refresh(); show(); }));
}

const fact = (text, value) => h("div", { class: "fact" }, h("b", null, value), h("span", null, text));

export async function modelView(main, signal, name) {
  await refresh();
  const a = await anatomy(name), isDir = store.organs.includes(name);
  const t = a.tensors, sum = (f) => t.reduce((n, x) => n + f(x), 0);
  const types = new Map();
  for (const x of t) types.set(x.dtype, (types.get(x.dtype) || 0) + x.bytes);
  const mix = [...types].sort((x, y) => y[1] - x[1]).slice(0, 3).map(([d, b]) => d + " " + Math.round((100 * b) / Math.max(1, sum((x) => x.bytes))) + " %");
  const blocks = new Set(t.filter((x) => x.block !== null).map((x) => x.block)).size;
  const out = h("div", { class: "output" }), line = h("div");
  const act = (text, tool, args, after) => h("button", { type: "button", onclick: async () => {
    fill(line, command(commandText([tool, ...args])));
    const panel = h("div", { class: "panel" });
    fill(out, panel);
    const j = await run(panel, tool, args, { signal });
    if (ended(j)) await after(j);
  } }, text);
  const organs = freshName(stemOf(name), ".organs"), whole = freshName(stemOf(name), ".gguf");
  const to = (verb, key) => h("a", { class: "button", href: "#/" + verb + "?" + key + "=" + encodeURIComponent(name) }, verb[0].toUpperCase() + verb.slice(1));
  fill(main,
    h("p", { class: "crumb" }, h("a", { href: "#/models" }, "Models")),
    h("h1", { class: "name" }, name),
    h("p", { class: "lead" }, [a.title, a.architecture].filter(Boolean).map((x) => h("span", { class: "name" }, x)).flatMap((x, i) => (i ? [" · ", x] : [x]))),
    h("div", { class: "facts" }, fact("parameters", short(sum((x) => x.elements))), fact("tensors", number(t.length)), fact("blocks", number(blocks)),
      fact("of tensor data", bytes(sum((x) => x.bytes))), fact("types by size", mix.join(", ") || "–")),
    h("div", { class: "actions" }, to("measure", "model"), to("compare", "a"), to("graft", "base"), to("merge", "model"), to("stack", "model"), to("validate", "model"), to("keys", "model"),
      act("Check", "organ-check", [name], async (j) => {
        const rows = await api.rows(j.id);
        out.append(rows.length ? resultTable(rows) : h("p", { class: "good" }, "No findings: an engine should load this model."));
      }),
      isDir ? act("Assemble", "organ-assemble", [name, "--output", whole], async () => { await refresh(); out.append(created(whole)); })
        : act("Extract", "organ-extract", [name, "--output", organs], async () => { await refresh(); out.append(created(organs)); }),
      isDir ? null : downloadButton("/v1/files/" + name, name)),
    line, out,
    h("section", { class: "card" }, h("h2", null, "Anatomy"), t.length ? anatomyMap(t).el : h("p", { class: "empty" }, "This model has no tensors.")),
    h("section", null, h("h2", null, "Tensors"), table(t.map((x) => ({ ...x, name: nameOf(x) })), [
      ["name", "Name", (v) => h("span", { class: "name" }, v), "n"], ["class", "Class", undefined, "wide"], ["block", "Block", undefined, "num"], ["dtype", "Type"],
      ["dims", "Shape", (v) => v.join(" × "), "num"], ["bytes", "Size", (v) => bytes(v), "num"]], 60)),
    command(commandText(["organ-extract", name, "--list"])),
    isDir ? null : command(curl("-O " + quote(api.curlUrl("/v1/files/" + name))), "Download with curl, where the file header contains: Authorization: Bearer TOKEN"));
}

export function created(name) {
  const dir = store.organs.includes(name);
  return h("p", { class: "created" }, h("a", { class: "name", href: "#/model/" + encodeURIComponent(name) }, name), " was written. ",
    dir ? null : downloadButton("/v1/files/" + name, name));
}

function short(n) {
  if (n >= 1e9) return (n / 1e9).toPrecision(3) + " B";
  return n >= 1e6 ? (n / 1e6).toPrecision(3) + " M" : number(n);
}
