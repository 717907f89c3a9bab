/* tables.mjs - reads the records of architectures, see src/arch/architectures.txt. */
import { readFileSync } from "node:fs";

const words = (text) => (text ?? "").split(" ").filter(Boolean);
const fields = new Set("kind keys globals block experts weights mixture window recurrent state cache reads arrays traits".split(" "));

const lines = readFileSync(new URL("../../src/arch/architectures.txt", import.meta.url), "utf8").replace(/\n +/g, " ").split("\n")
    .map((line) => line.match(/^([a-z]+) (.*)$/)?.slice(1)).filter(Boolean);

/* The tables beside the records: { kind: "shape", shape: "..." }. */
export const others = lines.filter(([word]) => ["shape", "type", "name"].includes(word)).map(([word, value]) => ({ kind: word, [word]: value }));

const all = new Map();
let record = null;
for (const [word, value] of lines)
    if (word === "arch") {
        const [name, , like] = words(value);
        all.set(name, (record = { ...all.get(like), name }));
    } else if (fields.has(word)) record[word] = value === "-" ? "" : value;

/* The architectures that llama.cpp loads. */
export const tables = [...all.values()].filter((r) => r.keys !== undefined)
    .map((r) => ({ names: [r.name], keys: words(r.keys), globals: r.globals, block: r.block }));

/* The usual shapes: [shape, [name, ...]]. */
export const usual = others.filter((r) => r.kind === "shape" && !r.shape.startsWith("own ")).map((r) => [words(r.shape)[0], words(r.shape).slice(1)]);
