/* gauss.mjs COUNT VALUES [SEED] - organ records in F32 on stdout: COUNT tensors g.0, g.1, ... of
 * VALUES independent Gaussian values each, in rows of 256. The same in every run. */
import { writeSync } from "node:fs";

const [count, values, seed = 1] = process.argv.slice(2).map(Number);
if (!(count > 0 && values > 0 && values % 256 === 0)) throw new Error("usage: gauss.mjs COUNT VALUES [SEED]");

let state = (seed * 0x9e3779b9) >>> 0;
function uniform() { /* mulberry32 */
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
}
function write(bytes) {
    for (let at = 0; at < bytes.length;) {
        try {
            at += writeSync(1, bytes, at);
        } catch (e) {
            if (e.code !== "EAGAIN") throw e;
        }
    }
}
for (let i = 0; i < count; i++) {
    const name = Buffer.from(`g.${i}`), head = Buffer.alloc(4 + name.length + 4 + 16 + 4);
    head.writeUInt32LE(name.length, 0);
    name.copy(head, 4);
    head.writeUInt32LE(2, 4 + name.length);
    head.writeBigUInt64LE(256n, 8 + name.length);
    head.writeBigUInt64LE(BigInt(values / 256), 16 + name.length);
    write(head);
    for (let at = 0; at < values;) {
        const x = new Float32Array(Math.min(values - at, 1 << 16));
        for (let k = 0; k < x.length; k += 2) {
            const r = Math.sqrt(-2 * Math.log(1 - uniform())), a = 2 * Math.PI * uniform();
            x[k] = r * Math.cos(a);
            x[k + 1] = r * Math.sin(a);
        }
        write(Buffer.from(x.buffer));
        at += x.length;
    }
}
