// selection.js - turns a set of chosen tensors into options of the tools; and the limits of a map's colours.

export const nameOf = (t) => (typeof t.name === "string" ? t.name : "base64:" + t.name.base64);

// The pattern of a tensor's row in the map: blk.*.ffn_gate.weight.
export function rowOf(t) {
  if (t.block === null) return nameOf(t);
  return nameOf(t).replace(new RegExp("(^|\\.)" + t.block + "\\."), "$1*.");
}

export function ranges(numbers) {
  const n = [...numbers].sort((a, b) => a - b), out = [];
  for (let i = 0; i < n.length; i++) {
    let j = i;
    while (n[j + 1] === n[j] + 1) j++;
    out.push(i === j ? String(n[i]) : n[i] + "-" + n[j]);
    i = j;
  }
  return out.join(",");
}

export function parseRanges(text) {
  const out = new Set();
  for (const item of text.split(",").map((s) => s.trim()).filter(Boolean)) {
    const m = /^(\d{1,5})(?:-(\d{1,5}))?$/.exec(item);
    if (!m || Number(m[2] ?? m[1]) < Number(m[1])) return null;
    for (let i = Number(m[1]); i <= Number(m[2] ?? m[1]); i++) out.add(i);
  }
  return out;
}

const labels = { skeleton: "attention", organ: "ffn", embed: "embedding" }; // of classes
const plain = /^[\w.*:\/ -]+$/; // no comma, and nothing that a pattern gives a meaning

// Options that select exactly these tensors. Classes and blocks are tried first, because they
// read best, then patterns and blocks, then names.
export function selectOptions(tensors, chosen) {
  const picked = tensors.filter((t) => chosen.has(nameOf(t)));
  if (!picked.length) return { error: "Choose at least one tensor on the map." };
  const classes = new Set(picked.map((t) => t.class)), rows = new Set(picked.map(rowOf));
  const blocks = new Set(picked.filter((t) => t.block !== null).map((t) => t.block));
  const exact = (f) => tensors.every((t) => f(t) === chosen.has(nameOf(t)));
  const type = ["--type", [...classes].map((c) => labels[c] || c).join(",")], layers = ["--layers", ranges(blocks)];
  if (exact((t) => classes.has(t.class))) return { args: type };
  if (exact((t) => blocks.has(t.block))) return { args: layers };
  if (exact((t) => classes.has(t.class) && blocks.has(t.block))) return { args: [...type, ...layers] };
  const few = (list) => [...list].join(",").length < 4000 && [...list].every((s) => plain.test(s) && !s.startsWith("base64:"));
  if (few(rows) && exact((t) => rows.has(rowOf(t)))) return { args: ["--tensors", [...rows].join(",")] };
  if (few(rows) && exact((t) => rows.has(rowOf(t)) && blocks.has(t.block)))
    return { args: ["--tensors", [...rows].join(","), ...layers] };
  const names = picked.map(nameOf);
  if (few(names) && names.every((n) => !n.includes("*"))) return { args: ["--tensors", names.join(",")] };
  return { error: "This choice cannot be written as options. Choose whole classes, rows or blocks." };
}

// Parameters of organ-merge: `value` for the chosen tensors and `rest` for all others. A list
// with one value per block gives each block its own.
export function mergeFilters(tensors, chosen, key, value, rest) {
  const blocks = tensors.reduce((n, t) => Math.max(n, (t.block ?? -1) + 1), 0);
  const rows = new Map();
  if (tensors.every((t) => chosen.has(nameOf(t)))) return { text: key + "=" + value };
  for (const t of tensors) {
    if (t.block === null && chosen.has(nameOf(t))) rows.set(nameOf(t), value);
    if (t.block === null) continue;
    if (!rows.has(rowOf(t))) rows.set(rowOf(t), Array(blocks).fill(rest));
    if (chosen.has(nameOf(t))) rows.get(rowOf(t))[t.block] = value;
  }
  const items = [];
  for (const [row, v] of rows) {
    if (Array.isArray(v) && v.every((x) => x === rest)) continue;
    if (!plain.test(row) || row.includes(" ")) return { error: "The name " + row + " cannot be written as a filter." };
    const all = !Array.isArray(v) || v.every((x) => x === value);
    items.push(key + ":" + row + "=" + (all ? value : "[" + v.join(",") + "]"));
  }
  if (!items.length) return { error: "Choose at least one tensor on the map." };
  const text = [...items, key + "=" + rest].join(",");
  return text.length < 4000 ? { text } : { error: "This choice is too long for a command line. Choose whole rows." };
}

// The limits of the colours, as in the pictures of organ-measure (set_scale in tools/common/picture.c): the 5 % and 95 %
// quantiles or, if these are equal, the smallest and the largest value; of degrees, to multiples of 5.
export function limits(values, degrees) {
  const v = [...values].filter((x) => typeof x === "number" && Number.isFinite(x)).sort((a, b) => a - b);
  if (!v.length) return null;
  let out = Math.floor(0.05 * (v.length - 1) + 0.5);
  if (v[out] === v[v.length - 1 - out]) out = 0;
  let low = v[out], high = v[v.length - 1 - out];
  if (degrees) [low, high] = [5 * Math.floor(low / 5), 5 * Math.ceil(high / 5)];
  if (high <= low) high = low + (Math.abs(low) > 100 ? Math.abs(low) / 100 : 1);
  return { low, high };
}
