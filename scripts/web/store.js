// store.js - the models of the server and their anatomies, kept until the lists change.
import * as api from "./api.js";
import { select } from "./dom.js";

const cache = new Map();
export const store = { models: [], organs: [], folders: [], health: null };

export async function refresh() {
  Object.assign(store, await api.list());
  store.folders = store.organs;
  store.organs = store.organs.map((o) => o.name);
  for (const key of cache.keys()) if (!current(key)) cache.delete(key);
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

// A split model is listed under its first shard only.
const laterShard = /-(?!00001)\d{5}-of-\d{5}\.gguf$/;
export const names = () => [...store.models.map((m) => m.name).filter((n) => !laterShard.test(n)), ...store.organs];
export const exists = (name) => store.models.some((m) => m.name === name) || store.organs.includes(name);

export function modelSelect(value, onchange, empty) {
  const options = names().map((n) => [n]);
  return select(empty ? [["", empty], ...options] : options, value, onchange);
}

// A name for an output that is not taken.
export function freshName(stem, ending) {
  const clean = stem.replace(/[^A-Za-z0-9._-]/g, "_").replace(/^[.-]+/, "").slice(0, 150) || "model";
  for (let i = 1; ; i++) {
    const name = clean + (i > 1 ? "-" + i : "") + ending;
    if (!exists(name)) return name;
  }
}
export const stemOf = (name) => name.replace(/-00001-of-\d{5}/, "").replace(/\.(gguf|organs)$/, "");
