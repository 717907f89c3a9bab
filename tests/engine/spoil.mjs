/* spoil.mjs KIND AMOUNT [OTHER] - organ records in F16 on stdin come back spoiled on stdout:
 *
 *   noise X     Gaussian noise of X standard deviations of the tensor is added
 *   zero P      a share P of the values, drawn at random, becomes 0
 *   small P     the share P with the smallest magnitudes becomes 0
 *   flip P      a share P of the values, drawn at random, changes its sign
 *   scale X     every value is multiplied by X
 *   shuffle P   a share P of the values trade places at random
 *   rows 1      the rows are put into another order
 *   turn 1      the matrix is transposed, and keeps its dims
 *   mix C       the tensor is turned towards that of OTHER, a file with the same records, until it
 *               has the cosine C to what it was; its length stays
 *
 * The random numbers are the same in every run. Bounded by the largest tensor. */
import { readFileSync } from "node:fs";

const [kind, text, otherFile] = process.argv.slice(2);
const amount = Number(text);

let state = 0x9e3779b97f4a7c15n;
function uniform() { /* xorshift64*, upper 53 bits */
    state ^= state >> 12n;
    state = BigInt.asUintN(64, state ^ (state << 25n));
    state ^= state >> 27n;
    return Number(BigInt.asUintN(64, state * 0x2545f4914f6cdd1dn) >> 11n) / 2 ** 53;
}
const gauss = () => Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform());

function toFloat(h) {
    const e = (h >> 10) & 31, m = h & 1023, sign = h & 0x8000 ? -1 : 1;
    if (e === 31) throw new Error("a value is not finite");
    return sign * (e ? (1 + m / 1024) * 2 ** (e - 15) : m * 2 ** -24);
}
function toHalf(x) {
    const sign = x < 0 ? 0x8000 : 0, a = Math.abs(x);
    if (a >= 65504) return sign | 0x7bff;
    const e = Math.max(Math.floor(Math.log2(a || 2 ** -30)), -14);
    const units = Math.round(a / 2 ** (e - 10)); /* 1024 or more unless the value is subnormal */
    return sign | (((e + 14) << 10) + units);
}

/* Fisher and Yates, on the values at these indices. */
function shuffle(list) {
    for (let i = list.length - 1; i > 0; i--) {
        const j = Math.floor(uniform() * (i + 1));
        [list[i], list[j]] = [list[j], list[i]];
    }
    return list;
}

const each = (x, fn) => x.map((v) => (uniform() < amount ? fn(v) : v));
const kinds = {
    noise(x) {
        const mean = x.reduce((s, v) => s + v, 0) / x.length;
        const std = Math.sqrt(x.reduce((s, v) => s + (v - mean) ** 2, 0) / x.length);
        return x.map((v) => v + amount * std * gauss());
    },
    zero: (x) => each(x, () => 0),
    flip: (x) => each(x, (v) => -v),
    scale: (x) => x.map((v) => v * amount),
    small(x) {
        const limit = Float64Array.from(x, Math.abs).sort()[Math.min(Math.floor(amount * x.length), x.length - 1)];
        return x.map((v) => (Math.abs(v) < limit ? 0 : v));
    },
    shuffle(x) {
        const at = [...x.keys()].filter(() => uniform() < amount), from = shuffle([...at]);
        const y = Float64Array.from(x);
        at.forEach((to, i) => { y[to] = x[from[i]]; });
        return y;
    },
    mix(x, columns, other) {
        const dot = (a, b) => a.reduce((s, v, i) => s + v * b[i], 0);
        const along = dot(other, x) / dot(x, x), across = other.map((v, i) => v - along * x[i]);
        const scale = Math.sqrt((1 - amount ** 2) * dot(x, x) / dot(across, across));
        return x.map((v, i) => amount * v + scale * across[i]);
    },
    turn(x, columns) {
        const rows = x.length / columns, y = new Float64Array(x.length);
        for (let i = 0; i < x.length; i++) y[(i % columns) * rows + Math.floor(i / columns)] = x[i];
        return y;
    },
    rows(x, columns) {
        const order = shuffle([...Array(x.length / columns).keys()]);
        const y = new Float64Array(x.length);
        order.forEach((from, to) => y.set(x.subarray(from * columns, (from + 1) * columns), to * columns));
        return y;
    }
};
if (!kinds[kind] || !(amount >= 0)) throw new Error("usage: spoil.mjs KIND AMOUNT");

const input = [];
for await (const part of process.stdin) input.push(part);
const all = Buffer.concat(input), out = Buffer.from(all), beside = otherFile ? readFileSync(otherFile) : all;
for (let at = 0; at < all.length;) {
    at += 4 + all.readUInt32LE(at);
    const dims = all.readUInt32LE(at);
    const columns = Number(all.readBigUInt64LE(at + 4));
    let n = 1;
    for (let d = 0; d < dims; d++) n *= Number(all.readBigUInt64LE(at + 4 + 8 * d));
    at += 4 + 8 * dims;
    if (all.readUInt32LE(at) !== 1) throw new Error("a tensor is not F16");
    at += 4;
    const read = (bytes) => Float64Array.from({ length: n }, (_, i) => toFloat(bytes.readUInt16LE(at + 2 * i)));
    kinds[kind](read(all), columns, read(beside)).forEach((v, i) => out.writeUInt16LE(toHalf(v), at + 2 * i));
    at += 2 * n;
}
process.stdout.write(out);
