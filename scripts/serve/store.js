// store.js - the models of the server and their anatomies, kept until the lists change.
import * as api from "./api.js";
import { h, select } from "./dom.js";

const cache = new Map(), infos = new Map();
export const store = { models: [], organs: [], folders: [], texts: [], health: null };

// Also asks what each file is, unless the list alone is wanted.
export async function refresh(listOnly) {
  Object.assign(store, await api.list());
  store.folders = store.organs;
  store.organs = store.organs.map((o) => o.name);
  for (const c of [cache, infos]) for (const key of c.keys()) if (!current(key)) c.delete(key);
  for (const [key, i] of infos) if (i.problem) infos.delete(key); // it may have been the server
  if (!listOnly) await Promise.all(all().map(info));
}

const stamp = (name) => {
  const m = store.models.find((x) => x.name === name) || store.folders.find((x) => x.name === name);
  return m ? name + "\n" + m.modified + "\n" + m.bytes : null;
};
const current = (key) => [...store.models, ...store.folders].some((m) => stamp(m.name) === key);

export async function anatomy(name) {
  const key = stamp(name);
  if (key && cache.has(key)) return cache.get(key);
  const a = await api.anatomy(name);
  if (key) cache.set(key, a);
  return a;
}

// What organ-info says, or { problem } if the file cannot be read.
export async function info(name) {
  const key = stamp(name) || name;
  if (!infos.has(key)) infos.set(key, await api.info(name).catch((e) => ({ problem: e.message })));
  return infos.get(key);
}
export const infoOf = (name) => infos.get(stamp(name)) || {};
export const kindOf = (i) => (i.form === "organ directory" ? i.form : i.kind || (i.problem ? "not readable" : ""));

// A split model is listed under its first shard only.
const laterShard = /-(?!00001)\d{5}-of-\d{5}\.gguf$/;
const all = () => [...store.models.map((m) => m.name).filter((n) => !laterShard.test(n)), ...store.organs];
const order = ["language model", "organ directory", "adapter", "importance matrix"];
const rank = (kind) => (order.indexOf(kind) + order.length + 1) % (order.length + 1); // others last
// Files that hold no model: they are added to one, or guide how one is written.
const helpers = ["adapter", "control vector", "importance matrix", "not readable"];
const takes = (want, kind) => (want === "model" ? !helpers.includes(kind) : want === "any" ? kind !== "not readable" : kind === want);
// What a field can take: "model" (language models first, then other kinds), "any" file that can be read, or one kind.
export const names = (want = "model") => all().map((n) => [n, kindOf(infoOf(n))]).filter(([, k]) => takes(want, k))
  .sort(([, x], [, y]) => rank(x) - rank(y) || (x < y ? -1 : x > y ? 1 : 0)).map(([n]) => n);
export const exists = (name) => store.texts.some((t) => t.name === name) || store.models.some((m) => m.name === name) || store.organs.includes(name);

// The bytes of a file; null for a folder or a split model.
export const fileBytes = (name) => (/-\d{5}-of-\d{5}\.gguf$/.test(name) ? null : store.models.find((m) => m.name === name)?.bytes ?? null);

const title = (kind) => (kind ? kind[0].toUpperCase() + kind.slice(1) : "Other");
export function modelSelect(value, onchange, empty, want) {
  const list = names(want), el = select(empty ? [["", empty]] : [], undefined, onchange), groups = new Map();
  for (const n of list) {
    const k = kindOf(infoOf(n));
    if (!groups.has(k)) groups.set(k, h("optgroup", { label: title(k) }));
    groups.get(k).append(h("option", { value: n }, n));
  }
  for (const g of groups.values()) el.append(...(groups.size > 1 ? [g] : g.children));
  if (value !== undefined && list.includes(value)) el.value = value;
  return el;
}

// A name for an output that is not taken.
export function freshName(stem, ending) {
  const clean = stem.replace(/[^A-Za-z0-9._-]/g, "_").replace(/^[.-]+/, "").slice(0, 150) || "model";
  for (let i = 1; ; i++) {
    const name = clean + (i > 1 ? "-" + i : "") + ending;
    if (!exists(name)) return name;
  }
}
export const stemOf = (name) => name.replace(/-00001-of-\d{5}/, "").replace(/\.(gguf|safetensors|organs)$/, "");
