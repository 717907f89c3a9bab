/* tables.mjs - reads the tables of organ-check, see src/check/architectures.txt. */
import { readFileSync } from "node:fs";

const words = (text) => (text ?? "").split(" ").filter(Boolean);

/* The records of a file: an object per table, { kind: "arch", arch: "llama mistral3", keys, globals, block }. */
export function records(name) {
    const text = readFileSync(new URL(`../../src/check/${name}.txt`, import.meta.url), "utf8");
    const all = [];
    for (const line of text.replace(/\n +/g, " ").split("\n")) {
        const [, field, value] = line.match(/^([a-z]+) ?(.*)$/) ?? [];
        if (!field) continue;
        if (["arch", "type", "shape", "list", "name", "window"].includes(field)) all.push({ kind: field });
        all.at(-1)[field] = value;
    }
    return all;
}

/* The tables of architectures in a file. */
export const tablesOf = (name) => records(name).filter((r) => r.kind === "arch")
    .map((r) => ({ names: words(r.arch), keys: words(r.keys), globals: r.globals, block: r.block }));

/* The usual shapes: [shape, [name, ...]]. */
export const usual = records("architectures").filter((r) => r.kind === "shape").map((r) => [words(r.shape)[0], words(r.shape).slice(1)]);
