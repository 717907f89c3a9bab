/* learn.mjs - makes src/check/learned.txt from what was learned of an engine:
 *
 *     node learn.mjs FOLDER > learned.txt
 *
 * FOLDER has architectures.tsv (architecture, variant, tensor, blocks, status, shape, note) and
 * architectures-keys.tsv (architecture, key, type, status, note). A row names the blocks of a
 * model of four (or five) blocks; the kinds of blocks that these stand for are told below.
 * Architectures with a table of their own in architectures.txt are left out. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { tablesOf, usual } from "./tables.mjs";

const folder = process.argv[2];
const rows = (name) => readFileSync(join(folder, name), "utf8").trimEnd().split("\n").slice(1).map((l) => l.split("\t"));

/* ==== Architectures that architectures.txt has already ==== */

const known = new Set(tablesOf("architectures").flatMap((t) => t.names));

/* The part of a name that tables use: without .weight, and with a dot if it has no suffix. */
const word = (rest) => (rest.endsWith(".weight") ? rest.slice(0, -7) : rest.endsWith(".bias") ? rest : `${rest}.`);
function usualShape(w) {
    const stem = w.replace(/\.bias$|\.$/, "");
    for (const [shape, names] of usual)
        for (const n of names) {
            if (n.endsWith("*") ? (n.endsWith(".*") ? `${stem}.`.startsWith(n.slice(0, -1)) && !w.endsWith(".") : stem.startsWith(n.slice(0, -1))) : n === w) return shape;
        }
    return null;
}

/* ==== Kinds of blocks ==== */

const hybrid = { "0,2": "recurrent", "1,3": "attention" }, windows = { "0,2": "swa", "1,3": "full" };
const interval = { "0,1,2": "recurrent", 3: "attention", "3,4": "attention", 4: "mtp", "0,1,2,3": "trunk" };
const usualKinds = { 0: "dense", "1,2,3": "moe", "1,2,3,4": "moe", 4: "mtp", "0,1,2,3": "trunk" };
const kinds = {
    llama4: { "0,2": "dense", "1,3": "moe" }, "nomic-bert-moe": { "0,2": "dense", "1,3": "moe" },
    deci: { "0,2,3": "heads" }, "modern-bert": { 0: "first", "1,2,3": "later" }, arwkv7: { 0: "first", "1,2,3": "later" },
    qwen3next: interval, qwen35: interval, qwen35moe: interval, qwen4exp: interval,
    plamo2: hybrid, jamba: hybrid, granitehybrid: hybrid, lfm2: hybrid, lfm2moe: hybrid, "minimax-01": hybrid, bailingmoe3: hybrid, "kimi-linear": hybrid, "kimi-k3": hybrid,
    gemma4: { ...windows, "0": "swa&ownkv", "1": "full&ownkv", "2": "swa&sharedkv", "3": "full&sharedkv" }, "gemma4-assistant": windows,
    nemotron_h: { 0: "recurrent", 1: "attention&noff", "2,3": "hasff" }, nemotron_h_moe: { 0: "recurrent", 1: "attention&noff", "2,3": "hasff" },
    "exaone-moe": { "0,4": "dense|mtp", "1,2,3": "moe&trunk" }, hy_v4: { "0,2": "indexed" }, dots3note: { "1,3": "indexed" }, hrm_text: { "0,1": "stack" },
    deepseek4: { 2: "ratio4", 3: "ratio128", "2,3": "ratio", "0,1": "hash" }
};

/* Variants that are used, and the condition that each stands for. Others are left out. */
const choice = {
    qwen35: { mtp: "" }, qwen35moe: { mtp: "" }, deepseek32: { mtp: "" }, "glm-dsa": { mtp: "" }, bailingmoe2: { mtp: "" }, exaone4: { mtp: "" },
    "exaone-moe": { mtp: "" }, mimo2: { mtp: "" }, step35: { mtp: "" }, openelm: { dense: "" }, grok: { moe: "" },
    gemma3n: { dense: "" }, gemma4: { dense: "ple", "no-ple": "nople", moe: "moe" }, hy_v3: { moe: "" },
    "kimi-k3": { moe: "nolatent", latent: "latent" }, nemotron_h_moe: { moe: "nolatent", latent: "latent" }, arwkv7: { dense: "nogate", gate: "gate" },
    hy_v4: { dsa: "" }, deepseek4: { moe: "nohash", hash: "hash" }, qwen3vl: { dense: "" }, deci: { skips: "" }, jamba: { moe: "" },
    cohere2moe: { moe: "", shared: "" }, "ernie4_5-moe": { moe: "", shared: "" }
};
/* Tensors that are there if experts of all tokens are. */
const shared = /_shexp/;

const names = { groups: "group", qlora: "qrank", kvlora: "kvrank", mixextra: "mix", decayextra: "decay", decaylora: "ldecay", iclrlora: "liclr", vmixlora: "lvalue", gatelora: "lgate", wkvhead: "wkv" };
/* Numbers that are not what they seem, and shapes that the engine takes in other forms too. */
const fixes = {
    gemma4: [[/^4\*ple$/, "blocks*ple"]], gemma3n: [[/^1024$/, "256*blocks"]],
    qwen4exp: [[/^4\*embd$/, "hc*embd"]],
    deepseek4: [[/^4\*embd$/, "hc*embd"], [/^kvheads$/, "1"], [/^36$/, "ogroups*olora"], [/^24$/, "hc*hc+2*hc"], [/^128$/, "2*ixkey"], [/^(heads\*key\/2|olora|ogroups)$/, "=any"]],
    graniteswitch: [[/^3$/, "adapters+1"]], hy_v4: [[/^4\*embd$/, "hc*embd"], [/^kvheads$/, "1"], [/^8$/, "2*hc"]], rwkv6qwen2: [[/^30$/, "5*mixextra"]], plamo2: [[/^=96$/, "=any"]], "kimi-linear": [[/^1$/, "1"]], grovemoe: [[/^experts\/2$/, "experts/pergroup"]]
};
function formula(arch, tensor, shape) {
    if (arch === "deepseek4" && tensor === "blk.N.attn_compressor_ape.weight") return shape.startsWith("2") ? "2*key,4" : "key,128";
    if (arch === "deepseek4" && tensor === "blk.N.indexer_compressor_ape.weight") return "2*ixkey,4";
    if (/norm|conv1d_[qkv]/.test(tensor) && arch === "hy_v4" && tensor.includes("hc_")) return "any";
    /* one row per label; sizes that follow the embedding length, or the largest of several keys */
    if (/^cls(\.output)?\./.test(tensor) && /\b1\b/.test(shape)) return "any";
    if (tensor === "token_types.weight") return "embd,types";
    if (arch === "plamo2" && /ssm_dt(_norm|\.weight)|ssm_x/.test(tensor)) return "any";
    if (arch === "step35" && tensor === "rope_freqs.weight") return "any";
    if (arch === "rwkv6qwen2" && /time_mix_(key|value)\./.test(tensor)) return "any";
    return shape.split(" ").map((side) => (fixes[arch] ?? []).reduce((x, [from, to]) => x.replace(from, to), side)
        .replace(/^(=.*|-|)$/, "any")
        .replace(/(\w+)\*\(([^)]*)\)/g, (_, f, sum) => sum.replace(/\w+/g, (x) => `${f}*${x}`))
        .replace(/[a-z]+/g, (n) => names[n] ?? n)).join(",").replace(/.*\bany\b.*/, "any");
}

/* ==== Tables ==== */

const archs = new Map(), variants = new Map();
for (const [arch, variant, tensor, blocks, status, shape, note] of rows("architectures.tsv")) {
    if (status === "not loaded" || status === "-" || known.has(arch)) continue;
    const chosen = choice[arch];
    if (!variants.has(arch)) variants.set(arch, new Set());
    if (chosen && !(variant in chosen)) continue;
    variants.get(arch).add(variant);
    if (!archs.has(arch)) archs.set(arch, []);
    archs.get(arch).push({ variant, tensor, blocks, status, shape: formula(arch, tensor, shape), note });
}

const defaultCondition = { dense: "dense", moe: "moe", shared: "moe" };
function condition(arch, variant) {
    return choice[arch]?.[variant] ?? defaultCondition[variant] ?? "";
}
const both = (a, b) => [...new Set([a, b].flatMap((x) => x.split("&")).filter(Boolean))].join("&");
const pairs = { dense: "moe", ple: "nople", nolatent: "latent", nogate: "gate", nohash: "hash" };
const opposite = { ...pairs, ...Object.fromEntries(Object.entries(pairs).map(([a, b]) => [b, a])) };

function table(arch, list) {
    const all = variants.get(arch), tensors = new Map();
    for (const r of list) {
        const inBlock = r.tensor.startsWith("blk.N."), name = inBlock ? r.tensor.slice(6) : r.tensor;
        const kind = r.blocks === "all" || r.blocks === "-" ? "" : (kinds[arch]?.[r.blocks] ?? usualKinds[r.blocks]);
        if (!inBlock && /\.N\./.test(name)) {
            for (const b of r.blocks.split(",")) tensors.set(name.replace(".N.", `.${b}.`), { w: name.replace(".N.", `.${b}.`), global: true, uses: [{ ...r, kind: "" }] });
            continue;
        }
        if (kind === undefined) { console.error(`${arch}: no kind for blocks ${r.blocks} (${r.tensor})`); continue; }
        const id = `${name} ${inBlock}`;
        if (!tensors.has(id)) tensors.set(id, { w: name, global: !inBlock, uses: [] });
        for (const k of kind.split("|")) tensors.get(id).uses.push({ ...r, kind: k });
    }
    const globals = [], block = [];
    for (const t of tensors.values()) {
        /* one entry per kind and shape, with the variants that have it */
        const entries = new Map();
        for (const u of t.uses) {
            const id = `${u.kind} ${u.shape}`;
            const e = entries.get(id) ?? { kind: u.kind, shape: u.shape, variants: new Set(), optional: false, fused: false };
            e.variants.add(u.variant);
            e.optional ||= u.status === "optional";
            e.fused ||= u.note === "added: refused" && /^(attn_qkv|ffn_gate_up_exps)\.weight$/.test(t.w);
            entries.set(id, e);
        }
        for (const e of entries.values()) {
            let conditions = [""];
            if (e.variants.size < all.size) {
                conditions = [...new Set([...e.variants].map((v) => both(condition(arch, v), e.kind)))];
                /* two opposite conditions are none */
                const bare = [...new Set([...e.variants].map((v) => condition(arch, v)))];
                if (bare.some((c) => c === "" || bare.includes(opposite[c]))) conditions = [e.kind];
            } else conditions = [e.kind];
            if (shared.test(t.w) && [...all].includes("shared")) conditions = [both(e.kind, "shared")];
            const w = word(t.w), shape = usualShape(w) === e.shape ? "" : `=${e.shape}`;
            const mark = e.fused ? "^" : e.optional ? "?" : "";
            for (const c of conditions) (t.global ? globals : block).push({ c, w, mark, shape });
        }
    }
    return { globals, block };
}

/* Joins attn_qkv and its three parts to "qkv=Q:K:V", and gate and up of experts to gate_up_exps. */
function apart(list) {
    const out = [...new Map(list.map((x) => [`${x.c} ${x.w}${x.shape}`, x])).values()];
    const full = (x) => x.shape.slice(1) || usualShape(x.w);
    for (const c of new Set(out.map((x) => x.c))) {
        const at = (w, mark) => out.find((x) => x.c === c && x.w === w && x.mark === mark);
        const parts = ["attn_q", "attn_k", "attn_v"].map((w) => at(w, "")), biases = ["attn_q.bias", "attn_k.bias", "attn_v.bias"].map((w) => at(w, "?"));
        const fused = at("attn_qkv", "^");
        if (fused && parts.every(Boolean)) {
            const sides = parts.map((x) => full(x).split(",")[1]);
            if (biases.every((b, i) => b && full(b) === sides[i]) && parts.every((x) => full(x).startsWith("embd,"))) {
                out.splice(out.indexOf(parts[0]), 1, { c, w: "qkv", mark: "", shape: `=${sides.join(":")}` });
                for (const x of [...parts, ...biases, fused]) if (out.includes(x)) out.splice(out.indexOf(x), 1);
            } else {
                for (const x of parts) x.mark = "|";
                out.splice(out.indexOf(fused), 1);
                out.splice(out.indexOf(parts[0]), 0, fused);
            }
        } else if (fused) fused.mark = "?";
        const both = ["ffn_gate_exps", "ffn_up_exps"].map((w) => at(w, "")), stack = at("ffn_gate_up_exps", "^");
        if (stack && both.every(Boolean)) {
            if ([stack, ...both].every((x) => x.shape === "")) {
                out.splice(out.indexOf(stack), 1, { c, w: "gate_up_exps", mark: "", shape: "" });
                for (const x of both) out.splice(out.indexOf(x), 1);
            } else {
                for (const x of both) x.mark = "|";
                out.splice(out.indexOf(stack), 1);
                out.splice(out.indexOf(both[0]), 0, stack);
            }
        } else if (stack) stack.mark = "?";
    }
    return out;
}

const kindsOfQkv = { "heads*key:kvheads*key:kvheads*value": "qkv", "embd:kvheads*value:kvheads*value": "qkv_e", "heads*key:kvheads*value:kvheads*value": "qkv_v", "heads*rot:kvheads*rot:kvheads*rot": "qkv_r" };
function text(list) {
    const sections = new Map();
    for (const x of list) {
        const w = `${x.w}${x.mark}${x.shape}`;
        sections.set(x.c, [...(sections.get(x.c) ?? []), x.w === "qkv" ? (kindsOfQkv[x.shape.slice(1)] ?? w) : w]);
    }
    let out = [...new Set(sections.get("") ?? [])].join(" ");
    for (const [c, words] of sections) if (c) out += ` ${c}: ${words.join(" ")}`;
    return out.trim();
}

/* ==== Keys ==== */

const keys = new Map();
const everywhere = new Set(["context_length", "embedding_length", "block_count", "attention.head_count", "feed_forward_length"]);
const common = rows("architectures-keys.tsv").filter((r) => r[0] === "*");
const own = rows("architectures-keys.tsv").filter((r) => r[0] !== "*");
for (const arch of archs.keys()) {
    const need = new Set(["attention.head_count", "feed_forward_length"]);
    for (const [a, full, , status, note] of own) {
        if (a !== arch || full === "tokenizer.ggml.tokens") continue;
        const key = full.startsWith(`${arch}.`) ? full.slice(arch.length + 1) : `/${full}`, zero = /expected[^;]*\b0\b/.test(note.replace(/got.*/, ""));
        if (key === "attention.indexer.types" && arch === "hy_v4") continue; /* by default every block has one */
        if (status === "optional" || (status === "decides-tensors" && !zero && key !== "attention.head_count")) need.delete(key);
        else if ((status === "required-by-graph" || !/\(variant/.test(note ?? "")) && !everywhere.has(key)) need.add(key);
    }
    /* what another key gives, or a default */
    if (arch === "hy_v3") need.delete("feed_forward_length");
    if (arch === "gemma4") for (const k of ["attention.value_length", "rope.dimension_count_swa"]) need.delete(k);
    /* a model of it without experts loads too */
    if (arch === "step35") for (const k of ["feed_forward_length", "expert_count", "expert_used_count", "rope.dimension_count", "expert_shared_feed_forward_length"]) need.delete(k);
    keys.set(arch, [...need].join(" "));
}

/* The types of keys: type -> keys, of which each has the architectures that read it. Keys that all or few
 * architectures read have "*": an architecture that does not read them has none of that name. */
const general = [["*", "general.architecture", "str"], ["*", "general.name", "str"], ["*", "general.file_type", "u32"]];
const types = new Map();
for (const [a, full, type] of [...general, ...common, ...own]) {
    const key = full.startsWith(`${a}.`) ? full.slice(a.length + 1) : `/${full}`;
    if (type === "raw" || full === "tokenizer.ggml.tokens") continue; /* rules of their own */
    if (!types.has(key)) types.set(key, new Map());
    types.get(key).set(type, [...(types.get(key).get(type) ?? []), a]);
}
const typed = new Map();
for (const [key, byType] of types)
    for (const [type, list] of byType) {
        const all = byType.size === 1 && (list.includes("*") || list.length > 100 || list.length < 5);
        const group = `${type}\t${all ? "*" : list.join(" ")}`;
        typed.set(group, [...(typed.get(group) ?? []), key]);
    }

/* ==== Output ==== */

/* What the rows cannot tell. */
const conv = (b) => b.replace(/(ssm_conv1d_[qkv])\??=\S*/g, "$1=conv,1,heads*kdahead").replace(/(ssm_a\.)\??=1,heads,1,1/, "$1=1,heads");
const keysOf = (head, q) => `attn_qkv^=embd,heads*${head}+2*kvheads*${head} attn_q|=embd,heads*${head} attn_v?=embd,kvheads*${head} attn_output=heads*${head},embd attn_q_norm=${head} `
    + `${q}&ownkv: attn_k|=embd,kvheads*${head} attn_k_norm=${head} ${q}&sharedkv: attn_k?=embd,kvheads*${head} attn_k_norm?=${head}`;
const overrides = {
    "glm-dsa": (b) => b.replace(/ indexer.*? dense:/, " dense:") + " indexed: indexer.k_norm?=ixkey indexer.k_norm.bias?=ixkey indexer.proj=embd,ixheads indexer.attn_k=embd,ixkey indexer.attn_q_b=qrank,ixheads*ixkey "
        + "unindexed: indexer.k_norm?=ixkey indexer.k_norm.bias?=ixkey indexer.proj?=embd,ixheads indexer.attn_k?=embd,ixkey indexer.attn_q_b?=qrank,ixheads*ixkey",
    "kimi-linear": conv, "kimi-k3": conv, hy_v3: (b) => `${b.replace(/(_shexp)(?=[ =]|$)/g, "$1?").replace("ffn_gate_up_exps? ", "").replace(/ dense: .* moe: .*/, " ffn_gate? ffn_down? ffn_up? ffn_gate_inp^ exp_probs_b.?=experts ffn_down_exps& gate_up_exps& ffn_gate_shexp? ffn_up_shexp? ffn_down_shexp?")} mtp: nextn.eh_proj nextn.enorm nextn.hnorm nextn.embed_tokens? nextn.shared_head_head? nextn.shared_head_norm?`,
    gemma4: (b) => b.replace(/swa: .*?attn_k_norm\S* full: .*?attn_k_norm\S*/, `swa: ${keysOf("keyswa", "swa")} full: ${keysOf("key", "full")}`).replace("ffn_gate_inp?", "ffn_gate_inp ffn_gate_inp.scale.=embd"),
    bailingmoe3: (b) => `${conv(b).replace(/ attn_q_a\S* attn_q_a_norm\S* attn_q_b\S*/, "")} attention&qlora: attn_q_a attn_q_a_norm attn_q_b attention&noqlora: attn_q=embd,heads*keymla`,
    mistral4: (b) => `${b.replace("attn_k_b attn_v_b ", "")} mla: attn_k_b attn_v_b nomla: attn_kv_b`,
    dots3note: (b) => `${b.replace(/attn_kv_a_norm |attn_q_b |attn_kv_a_mqa=\S* |attn_k_b |attn_v_b |attn_output=\S* /g, "")} full: attn_kv_a_norm attn_q_b attn_kv_a_mqa attn_k_b attn_v_b attn_output=heads*valuemla,embd swa: `
        + "attn_kv_a_norm=kvrankswa attn_q_b=qrank,heads*kmlaswa attn_kv_a_mqa=embd,kvrankswa+rot attn_k_b=kmlaswa-rot,kvrankswa,heads attn_v_b=kvrankswa,vmlaswa,heads attn_output=heads*vmlaswa,embd",
    dflash: (b) => `${b} attn_conv_base.?=any attn_conv_proj?=any ffn_conv_base.?=any ffn_conv_proj?=any`,
    deci: (b) => b.replace("ffn_norm ffn_gate ffn_down ffn_up", "").replace(" heads:", " hasff: ffn_norm ffn_gate ffn_down ffn_up heads:").trim().replace(/ +/g, " "),
    arwkv7: (b) => `${b.replace("time_mix_lerp_fused=embd,1,1,6 ", "")} time_mix_lerp_fused=embd,1,1,6 nogate: time_mix_lerp_fused=embd,1,1,5`,
    jamba: (b) => `${b.replace(/ffn_gate_inp\?|ffn_gate_exps|ffn_down_exps|ffn_up_exps|ffn_gate\b|ffn_down\b|ffn_up\b/g, "").replace(/=embd,ff,experts|=ff,embd,experts/g, "")} all: ffn_gate_inp^ ffn_gate| ffn_down| ffn_up| ffn_gate_exps&=embd,ff,experts ffn_down_exps&=ff,embd,experts ffn_up_exps&=embd,ff,experts`.replace(/ +/g, " ")
};


const globalOverrides = {
    eagle3: "token_embd?=any fc=3*hidden,embd enc.output_norm?=3*hidden output_norm output?=any d2t.?=any rope_freqs?=key/2",
    dflash: "token_embd? fc=targets*embd,embd enc.output_norm output_norm output?=any d2t.?=any rope_freqs?=key/2 markov_w1?=any markov_w2?=any conf_proj?=any conf_proj.bias?=1 "
        + "selector_predecessor?=any selector_successor?=any selector_hidden?=any"
};
const groups = new Map();
for (const [arch, list] of archs) {
    const t = table(arch, list);
    /* either attn_qkv, or its parts */
    const either = (b) => b.replace(/attn_qkv\?=(.*?) trunk: attn_q attn_k attn_v/, "attn_qkv^=$1 trunk: attn_q| attn_k| attn_v|");
    const g = globalOverrides[arch] ?? text(t.globals), b = either(overrides[arch]?.(text(apart(t.block))) ?? text(apart(t.block))), id = [keys.get(arch), g, b].join("\n");
    groups.set(id, [...(groups.get(id) ?? []), arch]);
}
/* "FIELD WORD...", in lines of at most 100 columns. */
const wrap = (field, list) => list.split(" ").filter(Boolean).reduce((lines, w) => {
    const longer = `${lines.at(-1)} ${w}`;
    return longer.length > 100 ? [...lines, `    ${w}`] : [...lines.slice(0, -1), longer];
}, [field]).join("\n");
console.log(`# learned.txt - tables of architectures, made by tests/engine/learn.mjs from what was learned of
# llama.cpp v0.5.0. architectures.txt describes the format.`);
for (const [id, list] of groups) {
    const [k, g, b] = id.split("\n");
    console.log(`\n${[wrap("arch", list.join(" ")), wrap("keys", k), wrap("globals", g), wrap("block", b)].join("\n")}`);
}
console.log(`
# Keys that engines read with one type only. A type is "u32", "u32|arr" (also an array with one value
# per block), "arr[u32]" or "arr_len" (any array); "*" stands for all architectures.`);
for (const [group, list] of [...typed].sort((a, b) => (a[0] < b[0] ? -1 : 1))) {
    const [type, all] = group.split("\t");
    console.log(`\n${[wrap("type", type), wrap("keys", list.join(" ")), wrap("archs", all)].join("\n")}`);
}
console.error(`${archs.size} architectures, ${groups.size} tables`);
