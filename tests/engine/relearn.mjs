/* relearn.mjs - learns from the installed engine which tensors and keys an architecture needs, and
 * reports where the records differ:
 *
 *     node relearn.mjs LAB.gguf LOAD ENGINE-DIR [PATTERN]
 *
 * LOAD is load.c, compiled; it tries each model in a child process. A model starts with the keys of our
 * record and without tensors. What the loader asks for is added, in the shape that it expects, until
 * it loads and evaluates a token. Then every tensor and key is left out once, which tells whether
 * it is required. Prints for each model
 *
 *     ARCHITECTURE/PROFILE <tab> NAME <tab> engine: STATUS SHAPE <tab> table: STATUS SHAPE
 *
 * for every difference, and "agrees" if there is none. The exit status is 1 if a model differs. With
 * ALL=1 the rows that agree are printed too: together they describe the engine. */
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { profiles, values } from "./models.mjs";
import { ARR, F32, I32, U32, array, copy, f32, learned, scalar, tensor, u32, useTokenizer, writeModel } from "./small.mjs";
import { tables } from "./tables.mjs";

const [lab, load, engine, only] = process.argv.slice(2);
useTokenizer(lab);
const folder = mkdtempSync(join(tmpdir(), "relearn.")), file = join(folder, "model.gguf");
process.on("exit", () => rmSync(folder, { recursive: true }));

const child = spawn(load, [engine], { stdio: ["pipe", "pipe", "ignore"], env: { ...process.env, GGML_NO_BACKTRACE: "1" } });
const answers = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
/* "ok", "refused" or "crash", and what the engine said */
async function attempt(m) {
    writeModel(m, file);
    child.stdin.write(`${file}\n`);
    const [, verdict, why = ""] = (await answers.next()).value.split("\t");
    return { verdict: verdict === "ok" ? "ok" : /^load: /.test(why) ? "refused" : "crash", why };
}

const status = { ok: "optional", refused: "required", crash: "required-by-graph" };
const without = (m, name) => ({ ...m, tensors: m.tensors.filter((t) => t.name !== name) });
function withoutKey(m, key) {
    const c = copy(m);
    c.kv.delete(key);
    return c;
}

/* Adds what the engine asks for. Returns false if its message does not tell. */
function grow(m, arch, why) {
    const key = /key not found in model: (\S+)/.exec(why)?.[1], type = /key (\S+) has wrong type \S+ but expected type (\S+)/.exec(why);
    const absent = /(?:tensor|missing tensor) '([^']+)'(?: not found)?/.exec(why)?.[1], shape = /tensor '([^']+)' has wrong shape; expected\s+([\d, ]+), got/.exec(why);
    if (shape) {
        const dims = shape[2].split(",").map(Number), t = m.tensors.find((x) => x.name === shape[1]);
        if (!t || dims.includes(0)) return false;
        Object.assign(t, tensor(t.name, dims));
    } else if (type) m.kv.set(type[1], { f32: f32(1), bool: scalar(7, 1), i32: scalar(I32, 1) }[type[2]] ?? u32(1));
    else if (key) m.kv.set(key, /array/.test(why) ? array(I32, [0, 1, 2]) : u32(values[key.slice(arch.length + 1)] ?? 1));
    else if (absent && !m.tensors.some((t) => t.name === absent)) m.tensors.push(tensor(absent, [1]));
    else return false;
    return true;
}

async function learn(arch, profile, ours) {
    const m = copy(ours), rows = new Map(), shapes = (t) => t.dims.join(" ").replace(/( 1)+$/, "");
    const known = new Map(ours.tensors.map((t) => [t.name, t]));
    m.tensors = [];
    let last = await attempt(m);
    for (let i = 0; i < 2000 && last.verdict === "refused" && grow(m, arch, last.why); i++) last = await attempt(m);
    /* what the loader does not ask for may still be needed: the shapes and the rest of our table */
    if (last.verdict !== "ok") m.tensors = m.tensors.map((t) => known.get(t.name) ?? t);
    for (const t of ours.tensors) {
        if (last.verdict === "ok") break;
        if (m.tensors.some((x) => x.name === t.name)) continue;
        m.tensors.push(t);
        last = await attempt(m);
    }
    if (last.verdict !== "ok") return [["", `does not load: ${last.why}`, "?"]];
    /* tensors that come together with another one, such as a router, are not asked for without it */
    const whole = { ...m, tensors: [...m.tensors, ...ours.tensors.filter((t) => !m.tensors.some((x) => x.name === t.name))] };
    if ((await attempt(whole)).verdict === "ok") m.tensors = whole.tensors;
    for (const t of m.tensors) {
        if (profile === "mtp" && t.name.startsWith("blk.4.")) continue; /* not loaded without a request */
        const engine = `${status[(await attempt(without(m, t.name))).verdict]} ${shapes(t)}`;
        rows.set(t.name, [engine, known.has(t.name) ? `required ${shapes(known.get(t.name))}` : "not required"]);
    }
    for (const t of ours.tensors) if (!m.tensors.some((x) => x.name === t.name)) rows.set(t.name, ["not asked for", `required ${shapes(t)}`]);
    const needed = new Set(["context_length", "embedding_length", "block_count", ...ours.required]);
    for (const key of m.kv.keys()) {
        if (!key.startsWith(`${arch}.`)) continue;
        const name = key.slice(arch.length + 1);
        rows.set(key, [status[(await attempt(withoutKey(m, key))).verdict], needed.has(name) ? "required" : ours.kv.has(key) ? "optional" : "unknown"]);
    }
    return [...rows].map(([name, [a, b]]) => [name, a, b]);
}

const differs = (a, b) => a.replace("-by-graph", "") !== b && !(a === "required" && b === "optional") && !(a === "required-by-graph" && b === "optional");
let worst = 0, agreed = 0, total = 0;
for (const t of tables)
    for (const name of t.names)
        for (const profile of profiles(t)) {
            const label = `${name}/${profile}`;
            if (only && !new RegExp(only).test(label)) continue;
            const ours = { ...learned(t, name, profile), required: t.keys };
            const rows = await learn(name, profile, ours), odd = rows.filter(([, a, b]) => differs(a, b));
            for (const r of process.env.ALL ? rows : odd) console.log([label, r[0], `engine: ${r[1]}`, `table: ${r[2]}`].join("\t"));
            total++;
            if (odd.length) worst = 1;
            else if (++agreed) console.log(`${label}\tagrees`);
        }
console.log(`${agreed} of ${total} models agree with their table`);
child.stdin.end();
process.exitCode = worst;
