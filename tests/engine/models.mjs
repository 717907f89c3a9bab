/* models.mjs - small models of the architectures in src/arch/architectures.txt: which keys
 * and tensors they have. Sizes are chosen here; the records tell the rest. */
import { others, usual } from "./tables.mjs";

function usualShape(rest) {
    const stem = rest.replace(/\.weight$/, "");
    for (const [shape, names] of usual)
        for (const n of names)
            if (n.endsWith(".") ? rest === n.slice(0, -1) : stem === n) return shape;
    return null;
}

/* ==== Keys ==== */

const float = /epsilon|scale$|clamp|freq_base|softcapping|norm_eps|beta$|alpha|router_gain|logit|gate_lower_bound|magnitude|attn_factor|max_alibi/;
const bool = /expert_weights_norm|use_parallel_residual|causal|safe_gate|prefix_lm|norm_before/;
export const values = {
    context_length: 64, embedding_length: 64, "attention.head_count": 4, "attention.head_count_kv": 2, feed_forward_length: 96,
    expert_count: 4, expert_used_count: 2, expert_feed_forward_length: 32, expert_shared_feed_forward_length: 48, expert_shared_count: 1,
    expert_gating_func: 2, expert_group_scale: 0.5, experts_per_group: 2, expert_chunk_feed_forward_length: 32, expert_latent_length: 40, moe_latent_size: 40,
    leading_dense_block_count: 1, interleave_moe_layer_step: 2, moe_every_n_layers: 2, expert_weights_scale: 1,
    "attention.q_lora_rank": 24, "attention.kv_lora_rank": 16, "attention.key_length_mla": 24, "attention.value_length_mla": 16,
    "attention.key_length_swa": 16, "attention.value_length_swa": 16, target_hidden_size: 64,
    "attention.sliding_window": 32, "attention.relative_buckets_count": 8,
    "ssm.conv_kernel": 4, "ssm.inner_size": 128, "ssm.state_size": 16, "ssm.time_step_rank": 8, "ssm.group_count": 2, "kda.head_dim": 16,
    "wkv.head_size": 16, time_mix_extra_dim: 8, time_decay_extra_dim: 8, token_shift_count: 1,
    "attention.decay_lora_rank": 8, "attention.iclr_lora_rank": 12, "attention.value_residual_mix_lora_rank": 10, "attention.gate_lora_rank": 14,
    embedding_length_per_layer_input: 8, "hyper_connection.count": 4, "hyper_connection.low_rank": 8, "hyper_connection.sinkhorn_iterations": 2,
    "attention.indexer.head_count": 4, "attention.indexer.key_length": 64, "attention.indexer.top_k": 4, "attention.indexer.block_size": 8, "attention.indexer.local_blocks": 1,
    "attention.output_group_count": 2, "attention.output_lora_rank": 20, "shortconv.l_cache": 3, embedding_length_out: 64,
    "adapters.count": 2, "adapters.lora_rank": 8, "posnet.embedding_length": 64, "posnet.block_count": 6, "convnext.embedding_length": 64, "convnext.block_count": 2,
    features_length: 64, "attention.group_norm_groups": 4, "rope.dimension_count": 8, "hrm.layers_per_stack": 1, "hrm.h_cycles": 1, "hrm.l_cycles": 1,
    "attn_res.block_size": 2, hash_layer_count: 0
};
const list = (...x) => ({ list: x });
const sections = { ints: [4, 2, 2, 0] };
/* Keys of an architecture that differ from these values. null = without. */
const hybrid = { "attention.head_count_kv": list(0, 2, 0, 2) };
const interval = { "ssm.inner_size": 128, "ssm.time_step_rank": 8, "rope.dimension_sections": sections, "rope.dimension_count": 16 };
const mla = { "attention.head_count_kv": 1, "attention.key_length": 24, "attention.value_length": 16 };
const dsa = { ...mla, "rope.dimension_count": 8 };
const pattern = { flags: [1, 0, 1, 0] }, windowed = { "attention.sliding_window_pattern": pattern };
const image = { "rope.dimension_sections": sections };
const kda = { ...hybrid, ...mla, "attention.head_count_kv": list(0, 1, 0, 1), "rope.dimension_count": 8 };
const own = {
    lfm2: hybrid, lfm2moe: hybrid, granitehybrid: hybrid, jamba: hybrid, "minimax-01": { full_attention_interval: 2 }, bailingmoe3: { ...kda, "kda.gate_lower_bound": { f32: -5 } }, "kimi-linear": kda, "kimi-k3": kda,
    nemotron_h: { "attention.head_count_kv": list(0, 2, 0, 0), feed_forward_length: list(0, 0, 96, 96) },
    nemotron_h_moe: { "attention.head_count_kv": list(0, 2, 0, 0), feed_forward_length: list(0, 0, 96, 96) },
    qwen3next: interval, qwen35: interval, qwen35moe: interval, qwen4exp: interval,
    qwen2vl: image, qwen3tts: image, qwen3vl: image, qwen3vlmoe: image, paddleocr: image,
    gemma4: { ...windowed, "rope.dimension_count_swa": 16, "attention.value_length": 16 },
    granite_swa: windowed, maple: { ...windowed, swiglu_clamp_exp: { floats: [7, 7, 7, 7] } }, mimo2: windowed, spark2_5: windowed, step35: { ...windowed, "rope.dimension_count": 16 },
    deepseek32: dsa, "glm-dsa": dsa, mistral4: mla, hy_v4: { ...dsa, "attention.indexer.types": { flags: [1, 0, 1, 0] } },
    dots3note: { ...dsa, ...windowed, "attention.kv_lora_rank_swa": 16, "attention.key_length_mla_swa": 24, "attention.value_length_mla_swa": 16, "attention.indexer.types": { flags: [0, 1, 0, 1] } },
    deepseek4: { "attention.head_count_kv": 1, "attention.key_length": 32, "attention.value_length": 32, "rope.dimension_count": 16, "attention.compress_ratios": list(0, 0, 4, 128), swiglu_clamp_exp: { floats: [7, 7, 7, 7] }, expert_gating_func: 4, expert_weights_norm: { bool: 1 } },
    apertus: Object.fromEntries(["alpha_n", "alpha_p", "beta", "eps"].map((x) => [`/xielu.${x}`, { floats: [1, 1, 1, 1] }])),
    eagle3: { target_layers: { ints: [0, 1, 2] }, target_hidden_size: 64 }, dflash: { target_layers: { ints: [0, 1, 2] } },
    arwkv7: { token_shift_count: 1 }, rwkv6qwen2: { token_shift_count: 1 }, "gemma-embedding": { block_count: 6, pooling_type: 1, "attention.causal": { bool: 0 } }, "gemma4-assistant": { ...windowed, embedding_length_out: 48, nextn_predict_layers: 4 },
    hrm_text: { "hrm.h_cycles": 2 }, "minimax-m3": { "attention.indexer.head_count": 2 }, plamo2: { ...hybrid, "ssm.group_count": 0 },
    plm: { ...mla, "attention.head_count_kv": 4, "rope.dimension_count": 8, "attention.key_length": 24 }, "wavtokenizer-dec": { block_count: 6 },
    graniteswitch: { "adapters.token_ids_activate": { ints: [10, 11] }, "adapters.token_ids_substitute": { ints: [12, 13] } }
};

/* ==== Kinds of blocks, which the keys above make ==== */

const recurrentBlocks = {
    lfm2: [0, 2], lfm2moe: [0, 2], granitehybrid: [0, 2], jamba: [0, 2], plamo2: [0, 2], "minimax-01": [0, 2], bailingmoe3: [0, 2], "kimi-linear": [0, 2], "kimi-k3": [0, 2],
    nemotron_h: [0], nemotron_h_moe: [0], qwen3next: [0, 1, 2], qwen35: [0, 1, 2], qwen35moe: [0, 1, 2], qwen4exp: [0, 1, 2]
};
function traits(name, profile, k, b) {
    const has = (x) => typeof k[x] === "number" ? k[x] > 0 : k[x] !== undefined;
    const at = (x) => (k[x]?.list ? k[x].list[b] : k[x]?.flags ? k[x].flags[b] : k[x]) ?? 0;
    let moe = has("expert_count") && b >= (k.leading_dense_block_count ?? 0);
    if (k.moe_every_n_layers && name === "nomic-bert-moe") moe = has("expert_count") && b % k.moe_every_n_layers === 1;
    if (name === "llama4" && (b + 1) % k.interleave_moe_layer_step) moe = false;
    const recurrent = (recurrentBlocks[name] ?? []).includes(b);
    const yes = { dense: !moe, moe, shared: moe && (has("expert_shared_count") || has("expert_shared_feed_forward_length")), mtp: b >= 4, trunk: b < 4, first: b === 0, later: b > 0,
        recurrent, attention: !recurrent, swa: at("attention.sliding_window_pattern") > 0, full: at("attention.sliding_window_pattern") === 0,
        ple: has("embedding_length_per_layer_input"), nople: !has("embedding_length_per_layer_input"), latent: has("moe_latent_size") || has("expert_latent_length"),
        gate: has("attention.gate_lora_rank"), hash: b < (k.hash_layer_count ?? 0), ownkv: true, sharedkv: false, hasff: at("feed_forward_length") > 0, noff: at("feed_forward_length") === 0,
        heads: true, stack: b < 2, ratio: at("attention.compress_ratios") > 0, ratio4: at("attention.compress_ratios") === 4, ratio128: at("attention.compress_ratios") === 128, indexed: has("attention.indexer.top_k") && (!k["attention.indexer.types"] || at("attention.indexer.types") > 0), qlora: has("attention.q_lora_rank"), mla: has("attention.key_length_mla"), all: true };
    yes.unindexed = !yes.indexed;
    for (const x of ["latent", "gate", "hash", "qlora", "mla"]) yes[`no${x}`] = !yes[x];
    return yes;
}

/* ==== Formulas ==== */

const names = new Map(others.filter((r) => r.kind === "name").map((r) => {
    const [how, otherwise] = r.name.split(" = "), [name, key] = how.split(" ");
    return [name, { key: key === "-" ? undefined : key, otherwise }];
}));
const PER = /head_count|feed_forward_length|used_count/;
function number(k, name, b, vocab) {
    if (/^\d+$/.test(name)) return Number(name);
    if (name === "vocab") return vocab;
    if (name === "types") return 2;
    if (name === "targets") return 3;
    const n = names.get(name);
    if (!n) return NaN;
    let v = n.key ? k[n.key] : undefined;
    if (v?.list) v = PER.test(n.key) ? v.list[b] : v.list[0];
    if (name === "firstheads" && v === undefined) v = NaN;
    if (v !== undefined && !(v === 0 && n.otherwise && !/kvheads/.test(name))) return v;
    return n.otherwise ? side(k, n.otherwise, b, vocab) : NaN;
}
function side(k, text, b, vocab) {
    return text.split(/(?=[+-])/).reduce((sum, part) => {
        const p = part.replace(/^[+-]/, "").split(/([*/])/);
        let v = number(k, p[0], b, vocab);
        for (let i = 1; i < p.length; i += 2) v = p[i] === "*" ? v * number(k, p[i + 1], b, vocab) : Math.floor(v / number(k, p[i + 1], b, vocab));
        return part[0] === "-" ? sum - v : sum + v;
    }, 0);
}

/* ==== Models ==== */

/* Shapes of which the engine takes several. */
const odd = {
    "rwkv6qwen2 time_mix_key.weight": "embd,embd", "rwkv6qwen2 time_mix_value.weight": "embd,embd",
    "arwkv7 time_mix_ln.weight": "embd", "deepseek4 attn_output_a.weight": "heads*key/ogroups,olora,ogroups", "plamo2 ssm_x.weight": "inner,64+2*state", "plamo2 ssm_dt.weight": "64,dtrank", "plamo2 ssm_dt_norm": "64",
    "kimi-linear ssm_conv1d_q.weight": "conv,1,heads*kdahead", "kimi-linear ssm_conv1d_k.weight": "conv,1,heads*kdahead", "kimi-linear ssm_conv1d_v.weight": "conv,1,heads*kdahead", "kimi-linear ssm_a": "1,heads",
    "kimi-k3 ssm_conv1d_q.weight": "conv,1,heads*kdahead", "kimi-k3 ssm_conv1d_k.weight": "conv,1,heads*kdahead", "kimi-k3 ssm_conv1d_v.weight": "conv,1,heads*kdahead", "kimi-k3 ssm_a": "heads",
    "bailingmoe3 ssm_conv1d_q.weight": "conv,1,heads*kdahead", "bailingmoe3 ssm_conv1d_k.weight": "conv,1,heads*kdahead", "bailingmoe3 ssm_conv1d_v.weight": "conv,1,heads*kdahead", "bailingmoe3 ssm_a": "1,heads",
    "qwen4exp output_hc_norm.weight": "embd,hc", "qwen4exp hc_attn_norm.weight": "embd,hc", "qwen4exp hc_ffn_norm.weight": "embd,hc"
};

function entry(word) {
    const [, w, mark, shape] = /^([^?^|&=]+)([?^|&]?)(?:=(.*))?$/.exec(word);
    const rest = w.endsWith(".") ? w.slice(0, -1) : /\.(weight|bias)/.test(w) || w.includes(".lora_") ? w : `${w}.weight`;
    return { rest, mark, shape: shape ?? usualShape(rest) };
}
const rowsOf = { "": "heads*key:kvheads*key:kvheads*value", e: "embd:kvheads*value:kvheads*value", v: "heads*key:kvheads*value:kvheads*value", r: "heads*rot:kvheads*rot:kvheads*rot" };
function expand(word) {
    if (/^gate_up_exps&?$/.test(word)) return ["ffn_gate_exps", "ffn_up_exps"].map((x) => x + word.slice(12));
    const m = /^qkv(?:_(\w))?(?:=(.*))?$/.exec(word);
    if (!m) return [word];
    const [q, k, v] = (m[2] ?? rowsOf[m[1] ?? ""]).split(":");
    return [`attn_q=embd,${q}`, `attn_k=embd,${k}`, `attn_v=embd,${v}`];
}

/* The profiles of a table: dense, moe, with prediction blocks. */
export function profiles(t) {
    const out = [];
    const dense = /\bdense(&\w+)*:/.test(t.block), moe = /\bmoe(&\w+)*:|exps&/.test(t.block), needs = t.keys.includes("expert_count");
    if (!needs && (dense || moe)) out.push("dense");
    if (moe || needs) out.push("moe");
    if (!out.length) out.push("dense");
    if (/\bmtp:/.test(t.block)) out.push("mtp");
    if (/\blatent:/.test(t.block)) out.push("latent");
    return out;
}

/* { keys: name -> number, {list}, {flags} or text; tensors: [name, dims] } */
export function model(t, name, profile, vocab) {
    const k = {}, unknown = [];
    const put = (key) => { if (key in k) return; if (key in values) k[key] = values[key]; else if (float.test(key)) k[key] = { f32: 1e-5 }; else if (bool.test(key)) k[key] = { bool: 1 }; };
    for (const x of ["context_length", "embedding_length", "attention.head_count", "feed_forward_length", ...t.keys]) put(x);
    k.block_count ??= profile === "mtp" ? 5 : 4;
    if (profile === "mtp") k.nextn_predict_layers = 1;
    const experts = profile !== "dense" && !(profile === "mtp" && !t.keys.includes("expert_count") && !/\bmoe|exps&/.test(t.block));
    if (experts) for (const x of ["expert_count", "expert_used_count"]) put(x);
    if (!experts) for (const x of Object.keys(k)) if (x.startsWith("expert_") && !t.keys.includes(x)) delete k[x];
    if (/\bdense(&\w+)*:/.test(t.block) && experts && t.keys.includes("expert_count") && !/llama4|nomic/.test(name)) put("leading_dense_block_count");
    if (name === "nomic-bert-moe") put("moe_every_n_layers");
    for (const [x, v] of Object.entries(own[name] ?? {})) if (v === null) delete k[x]; else k[x] = v;
    for (const [x, v] of Object.entries(k)) {
        if (v?.list?.length === 4 && k.block_count === 5 && PER.test(x)) k[x] = { list: [...v.list, v.list[3] || 2] };
        if (v?.flags && k.block_count === 5) k[x] = { flags: [...v.flags, 0] };
    }
    if (name === "gemma4" && profile === "moe") k.embedding_length_per_layer_input = 0;
    if (profile === "latent") k[t.keys.includes("kda.head_dim") ? "expert_latent_length" : "moe_latent_size"] = 40;
    const build = () => {
        const tensors = [], need = new Set();
        const numbered = (word) => {
            const of = word.match(/^(.*)\.%/)?.[1];
            return of ? Array.from({ length: k[`${of}.block_count`] }, (_, i) => word.replace("%", i)) : [word];
        };
        const add = (word, b) => {
            for (const x of expand(word).flatMap(numbered)) {
                const e = entry(x);
                if (e.mark === "?" || ((e.mark === "^" || e.mark === "&") && !(name === "hy_v3" && experts))) continue;
                const full = b < 0 ? e.rest : `blk.${b}.${e.rest}`;
                if (!e.shape || e.shape === "any") e.shape = odd[`${name} ${e.rest}`];
                if (!e.shape) { unknown.push(full); continue; }
                for (const n of e.shape.matchAll(/[a-z]+/g)) need.add(n[0]);
                tensors.push([full, e.shape.split(",").map((s) => side(k, s, Math.max(b, 0), vocab))]);
            }
        };
        let there = true;
        for (const w of t.globals.split(" ").filter(Boolean))
            if (w.endsWith(":")) there = w.slice(0, -1).split("&").every((x) => traits(name, profile, k, 0)[x]);
            else if (there) add(w, -1);
        for (let b = 0; b < k.block_count; b++) {
            const yes = traits(name, profile, k, b);
            let active = true;
            for (const w of t.block.split(" ").filter(Boolean))
                if (w.endsWith(":")) active = w.slice(0, -1).split("&").every((x) => yes[x]);
                else if (active) add(w, b);
        }
        return { tensors, need };
    };
    /* keys that the shapes of its tensors need */
    const soft = new Set(["key", "value", "rot", "keyswa", "valueswa", "headsize", "firstheads", "head", "any", "vocab", "types", "context", "blocks", "nextn", "moelatent", "latent"]);
    for (const n of build().need) if (!soft.has(n) && names.get(n)?.key && !(n === "sharedff" && k.expert_shared_feed_forward_length)) put(names.get(n).key);
    unknown.length = 0;
    const { tensors } = build();
    return { keys: k, tensors, unknown };
}
