/* small.mjs - small GGUF models with random weights: reads and writes files, and makes models with the
 * keys and tensors of a record (models.mjs). useTokenizer comes first. */
import { readFileSync, writeFileSync } from "node:fs";
import { model } from "./models.mjs";

/* ==== GGUF, as far as it is needed here ==== */

export const SIZES = [1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8];
export const U16 = 2, I32 = 5, U32 = 4, F32 = 6, BOOL = 7, STR = 8, ARR = 9, U64 = 10;

export function readModel(path) {
    const b = readFileSync(path);
    let at = 24;
    const u64 = () => Number(b.readBigUInt64LE((at += 8) - 8)), u32 = () => b.readUInt32LE((at += 4) - 4);
    const bytes = (n) => b.subarray(at, (at += n));
    const value = (type) => (type === STR ? bytes(u64()) : bytes(SIZES[type]));
    const nTensors = Number(b.readBigUInt64LE(8)), nKeys = Number(b.readBigUInt64LE(16));
    const kv = new Map(), tensors = [];
    for (let i = 0; i < nKeys; i++) {
        const key = bytes(u64()).toString(), type = u32();
        if (type !== ARR) kv.set(key, { type, value: value(type) });
        else {
            const items = u32(), n = u64();
            kv.set(key, { type, items, value: Array.from({ length: n }, () => value(items)) });
        }
    }
    for (let i = 0; i < nTensors; i++) {
        const name = bytes(u64()).toString(), dims = Array.from({ length: u32() }, u64);
        tensors.push({ name, dims, type: u32(), offset: u64() });
    }
    const start = Math.ceil(at / 32) * 32;
    tensors.forEach((t, i) => {
        t.data = b.subarray(start + t.offset, i + 1 < nTensors ? start + tensors[i + 1].offset : b.length);
    });
    return { kv, tensors };
}

export function writeModel(m, path) {
    const align = m.align ?? 32, parts = [];
    const u32 = (v) => { const x = Buffer.alloc(4); x.writeUInt32LE(v); parts.push(x); };
    const u64 = (v) => { const x = Buffer.alloc(8); x.writeBigUInt64LE(BigInt(v)); parts.push(x); };
    const str = (s) => { const x = Buffer.from(s); u64(x.length); parts.push(x); };
    const put = (type, v) => (type === STR ? str(v) : parts.push(v));
    parts.push(Buffer.from(m.magic ?? "GGUF"));
    u32(3);
    u64(m.tensors.length);
    u64(m.kv.size);
    for (const [key, e] of m.kv) {
        str(key);
        u32(e.type);
        if (e.type !== ARR) put(e.type, e.value);
        else { u32(e.items); u64(e.value.length); e.value.forEach((v) => put(e.items, v)); }
    }
    let offset = m.shift ?? 0;
    for (const t of m.tensors) {
        str(t.name);
        u32(t.dims.length);
        t.dims.forEach(u64);
        u32(t.type);
        u64(offset);
        offset += Math.ceil(t.data.length / align) * align;
    }
    const size = parts.reduce((n, p) => n + p.length, 0);
    parts.push(Buffer.alloc(Math.ceil(size / align) * align - size));
    for (const t of m.tensors) parts.push(t.data, Buffer.alloc(Math.ceil(t.data.length / align) * align - t.data.length));
    let file = Buffer.concat(parts);
    if (m.cut) file = file.subarray(0, Math.floor(file.length * m.cut));
    writeFileSync(path, file);
}

export const scalar = (type, v) => {
    const b = Buffer.alloc(SIZES[type]);
    if (type === F32) b.writeFloatLE(v); else if (type === U64) b.writeBigUInt64LE(BigInt(v)); else if (type === U16) b.writeUInt16LE(v);
    else if (type === BOOL) b.writeUInt8(v ? 1 : 0); else if (type === I32) b.writeInt32LE(v); else b.writeUInt32LE(v);
    return { type, value: b };
};
export const u32 = (v) => scalar(U32, v), f32 = (v) => scalar(F32, v), text = (s) => ({ type: STR, value: s });
export const array = (items, list) => ({ type: ARR, items, value: list.map((v) => (items === STR ? v : scalar(items, v).value)) });
export const copy = (m) => ({ ...m, kv: new Map(m.kv), tensors: m.tensors.map((t) => ({ ...t })) });

/* ==== Small models ==== */

let source;
export const useTokenizer = (path) => { source = readModel(path); };
export const VOCAB = 384, E = 64, HEADS = 4, KV = 2, HEAD = 16, FF = 96, EXPERTS = 4, EXPFF = 32, BLOCKS = 3, CTX = 64;
let seed = 12345;
const random = () => ((seed = (seed * 1103515245 + 12345) & 0x7fffffff) / 0x40000000 - 1) * 0.05;

export function tensor(name, dims, type = 0) {
    const n = dims.reduce((a, b) => a * b, 1), norm = /norm|_ln|ssm_d/.test(name);
    const x = new Float32Array(n);
    for (let i = 0; i < n; i++) x[i] = norm ? 1 : /ssm_a/.test(name) ? -1 : random();
    if (type === 0) return { name, dims, type, data: Buffer.from(x.buffer) };
    const half = Buffer.alloc(2 * n); /* bf16: the upper halves */
    for (let i = 0; i < n; i++) half.writeUInt16LE(new Uint32Array(x.buffer, 4 * i, 1)[0] >>> 16, 2 * i);
    return { name, dims, type, data: half };
}

/* chameleon needs the 8192 tokens of images */
const vocabularyOf = (name) => (name === "chameleon" ? 8200 : VOCAB);
export function tokenizer(n) {
    const kv = new Map(), grown = (e) => Array.from({ length: n }, (_, i) => (i < VOCAB ? e.value[i] : e.items === STR ? Buffer.from(`<image ${i}>`) : e.value[VOCAB - 1]));
    for (const [key, e] of source.kv)
        if (key.startsWith("tokenizer.")) kv.set(key, e.type === ARR ? { ...e, value: grown(e) } : e);
    return kv;
}

/* NAME:D,D words; "%" words come once per block. */
export function small(arch, keys, list, options = {}) {
    const kv = new Map([["general.architecture", text(arch)], ["general.name", text("small")]]);
    const base = { context_length: u32(CTX), embedding_length: u32(E), block_count: u32(BLOCKS), ...keys };
    for (const [k, v] of Object.entries(base)) if (v) kv.set(k[0] === "/" ? k.slice(1) : `${arch}.${k}`, v);
    for (const [k, v] of tokenizer(vocabularyOf(arch))) kv.set(k, v);
    for (const [k, v] of Object.entries(options.kv ?? {})) kv.set(k, v);
    const tensors = [];
    const add = (word, name) => {
        const [, shape] = word.split(":");
        tensors.push(tensor(name, shape.split(",").map(Number)));
    };
    const words = list.split(/\s+/).filter(Boolean);
    for (const w of words) if (!w.includes("%")) add(w, w.split(":")[0]);
    for (let b = 0; b < BLOCKS; b++)
        for (const w of words)
            if (w.includes("%")) {
                if (w.startsWith("dense%") && b > 0) continue;
                if (w.startsWith("moe%") && b === 0) continue;
                add(w, w.split(":")[0].replace(/^(dense|moe)/, "").replace("%", `blk.${b}.`));
            }
    return { kv, tensors };
}

/* A model of an architecture, as its record tells. */
export function learned(t, name, profile) {
    const { keys, tensors, unknown } = model(t, name, profile, vocabularyOf(name)), list = {};
    for (const [k, v] of Object.entries(keys))
        list[k] = v.list ? array(U32, v.list) : v.floats ? array(F32, v.floats) : v.ints ? array(I32, v.ints) : v.flags ? array(U32, v.flags) : v.text ? text(v.text) : v.f32 !== undefined ? f32(v.f32) : v.bool !== undefined ? scalar(BOOL, v.bool)
            : /(scale|clamp_exp|_beta|magnitude)$/.test(k) ? f32(v) : u32(v);
    for (const x of unknown) process.stderr.write(`${name}: no shape for ${x}\n`);
    const m = small(name, list, "", { kv: /bert/.test(name) ? { "tokenizer.ggml.token_type_count": u32(2) } : {} });
    if (!("rope.dimension_count" in keys)) m.kv.delete(`${name}.rope.dimension_count`);
    for (const [full, dims] of tensors) {
        if (dims.some((d) => !(d > 0))) process.stderr.write(`${name}: ${full} has shape ${dims}\n`);
        else m.tensors.push(tensor(full, dims));
    }
    return m;
}
