/* variants.mjs - healthy and damaged variants of small models, to compare the verdicts of
 * organ-check with those of the engine:
 *
 *     node variants.mjs LAB.gguf OUT-DIR [ONLY] prints "FILE<tab>KIND<tab>WHAT" per variant;
 *                                               ONLY is a pattern of the names of models
 *
 * LAB.gguf gives the tokenizer, and is itself one of the models. The others have random
 * weights and the least that their architecture needs. KIND is healthy or damaged: what
 * was intended. Whether a variant really is damaged is for the engine to say. */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { profiles } from "./models.mjs";
import { tables } from "./tables.mjs";
import { ARR, BLOCKS, BOOL, CTX, E, EXPERTS, EXPFF, F32, FF, HEAD, HEADS, I32, KV, STR, U16, U32, U64, VOCAB, array, copy, f32, learned, readModel, scalar, small, tensor, text, u32, useTokenizer, writeModel } from "./small.mjs";

const [lab, out, only] = process.argv.slice(2);
mkdirSync(out, { recursive: true });
useTokenizer(lab);

const rms = { "attention.layer_norm_rms_epsilon": f32(1e-5) }, eps = { "attention.layer_norm_epsilon": f32(1e-5) };
const heads = { "attention.head_count": u32(HEADS), "attention.head_count_kv": u32(KV), feed_forward_length: u32(FF) };
const mha = { "attention.head_count": u32(HEADS), feed_forward_length: u32(FF) };
const moe = { expert_count: u32(EXPERTS), expert_used_count: u32(2), expert_feed_forward_length: u32(EXPFF) };
const moeff = { expert_count: u32(EXPERTS), expert_used_count: u32(2) };
const TOP = `token_embd.weight:${E},${VOCAB} output_norm.weight:${E} output.weight:${E},${VOCAB} `;
const BIAS = `output_norm.bias:${E} `;
const NORMS = `%attn_norm.weight:${E} %ffn_norm.weight:${E} `;
const LN = `%attn_norm.bias:${E} %ffn_norm.bias:${E} `;
const Q = HEADS * HEAD, K = KV * HEAD;
const QKV = `%attn_q.weight:${E},${Q} %attn_k.weight:${E},${K} %attn_v.weight:${E},${K} %attn_output.weight:${Q},${E} `;
const QKVB = `%attn_q.bias:${Q} %attn_k.bias:${K} %attn_v.bias:${K} `;
const FUSED = `%attn_qkv.weight:${E},${Q + 2 * K} %attn_output.weight:${Q},${E} `;
const FULL = `%attn_qkv.weight:${E},${3 * E} %attn_output.weight:${E},${E} `;
const QKN = `%attn_q_norm.weight:${HEAD} %attn_k_norm.weight:${HEAD} `;
const MLP = `%ffn_gate.weight:${E},${FF} %ffn_up.weight:${E},${FF} %ffn_down.weight:${FF},${E} `;
const MLP2 = `%ffn_up.weight:${E},${FF} %ffn_down.weight:${FF},${E} `;
const MLP2B = `%ffn_up.bias:${FF} %ffn_down.bias:${E} `;
const POST = `%post_attention_norm.weight:${E} %post_ffw_norm.weight:${E} `;
const expert = (p, ff = EXPFF) => `${p}%ffn_gate_inp.weight:${E},${EXPERTS} ${p}%ffn_gate_exps.weight:${E},${ff},${EXPERTS} ${p}%ffn_up_exps.weight:${E},${ff},${EXPERTS} ${p}%ffn_down_exps.weight:${ff},${E},${EXPERTS} `;
const shared = (p, ff) => `${p}%ffn_gate_shexp.weight:${E},${ff} ${p}%ffn_up_shexp.weight:${E},${ff} ${p}%ffn_down_shexp.weight:${ff},${E} `;
const DENSE = MLP.replaceAll("%", "dense%");
const INNER = 2 * E, STATE = 8, RANK = 4;

const models = {
    llama: () => small("llama", { ...rms, ...heads, "rope.dimension_count": u32(HEAD) }, TOP + NORMS + QKV + MLP),
    "llama-moe": () => small("llama", { ...rms, ...heads, expert_count: u32(EXPERTS), expert_used_count: u32(2) }, TOP + NORMS + QKV + expert("", FF)),
    mistral3: () => small("mistral3", { ...rms, ...heads }, TOP + NORMS + QKV + MLP),
    qwen2: () => small("qwen2", { ...rms, ...heads }, TOP + NORMS + QKV + QKVB + MLP),
    qwen2moe: () => small("qwen2moe", { ...rms, ...heads, ...moe, expert_shared_feed_forward_length: u32(FF) },
        TOP + NORMS + QKV + QKVB + expert("") + shared("", FF) + `%ffn_gate_inp_shexp.weight:${E} `),
    qwen3: () => small("qwen3", { ...rms, ...heads }, TOP + NORMS + QKV + QKN + MLP),
    qwen3moe: () => small("qwen3moe", { ...rms, ...heads, ...moe }, TOP + NORMS + QKV + QKN + expert("")),
    gemma: () => small("gemma", { ...rms, ...heads }, TOP.replace(/output\.weight\S+/, "") + NORMS + QKV + MLP),
    gemma2: () => small("gemma2", { ...rms, ...heads, "attention.sliding_window": u32(32) }, TOP.replace(/output\.weight\S+/, "") + NORMS + QKV + MLP + POST),
    gemma3: () => small("gemma3", { ...rms, ...heads, "attention.sliding_window": u32(32) }, TOP + NORMS + QKV + QKN + MLP + POST),
    phi2: () => small("phi2", { ...eps, ...mha, "rope.dimension_count": u32(8) }, TOP + BIAS + `output.bias:${VOCAB} %attn_norm.weight:${E} %attn_norm.bias:${E} ` + FULL + `%attn_qkv.bias:${3 * E} %attn_output.bias:${E} ` + MLP2 + MLP2B),
    phi3: () => small("phi3", { ...rms, ...heads, "rope.dimension_count": u32(HEAD) }, TOP + NORMS + FUSED + `%ffn_up.weight:${E},${2 * FF} %ffn_down.weight:${FF},${E} `),
    deepseek2: () => small("deepseek2", { ...rms, ...moe, ...mha, "attention.head_count_kv": u32(1), "attention.q_lora_rank": u32(24), "attention.kv_lora_rank": u32(16),
        "attention.key_length": u32(24), "attention.value_length": u32(16), "attention.key_length_mla": u32(24), "attention.value_length_mla": u32(16), "rope.dimension_count": u32(8),
        leading_dense_block_count: u32(1), expert_shared_count: u32(1) },
        TOP + NORMS + `%attn_q_a_norm.weight:24 %attn_kv_a_norm.weight:16 %attn_q_a.weight:${E},24 %attn_q_b.weight:24,${HEADS * 24} %attn_kv_a_mqa.weight:${E},24 %attn_k_b.weight:16,16,${HEADS} %attn_v_b.weight:16,16,${HEADS} %attn_output.weight:${HEADS * 16},${E} `
        + DENSE + expert("moe") + shared("moe", EXPFF)),
    "gpt-oss": () => small("gpt-oss", { ...rms, ...heads, ...moe, "attention.key_length": u32(HEAD), "attention.value_length": u32(HEAD), "attention.sliding_window": u32(32) },
        TOP + `%attn_norm.weight:${E} %post_attention_norm.weight:${E} %attn_sinks.weight:${HEADS} %attn_output.bias:${E} %ffn_gate_inp.bias:${EXPERTS} %ffn_gate_exps.bias:${EXPFF},${EXPERTS} %ffn_up_exps.bias:${EXPFF},${EXPERTS} %ffn_down_exps.bias:${E},${EXPERTS} ` + QKV + QKVB + expert("")),
    glm4: () => small("glm4", { ...rms, ...heads, "rope.dimension_count": u32(8) }, TOP + NORMS + QKV + POST + `%ffn_up.weight:${E},${2 * FF} %ffn_down.weight:${FF},${E} `),
    glm4moe: () => small("glm4moe", { ...rms, ...heads, ...moe, "rope.dimension_count": u32(8), leading_dense_block_count: u32(1), expert_shared_count: u32(1) },
        TOP + `%attn_norm.weight:${E} %post_attention_norm.weight:${E} ` + QKV + DENSE + expert("moe") + shared("moe", EXPFF) + `moe%exp_probs_b.bias:${EXPERTS} `),
    granite: () => small("granite", { ...rms, ...heads, logit_scale: f32(8), residual_scale: f32(0.2), embedding_scale: f32(12), "attention.scale": f32(0.1) }, TOP + NORMS + QKV + MLP),
    granitemoe: () => small("granitemoe", { ...rms, ...heads, logit_scale: f32(8), expert_count: u32(EXPERTS), expert_used_count: u32(2) }, TOP + NORMS + QKV + expert("", FF)),
    olmo2: () => small("olmo2", { ...rms, ...heads }, TOP + QKV + `%attn_q_norm.weight:${E} %attn_k_norm.weight:${K} ` + POST + MLP),
    starcoder2: () => small("starcoder2", { ...eps, ...heads }, TOP + BIAS + NORMS + LN + QKV + QKVB + `%attn_output.bias:${E} ` + MLP2 + MLP2B),
    falcon: () => small("falcon", { ...eps, ...heads, "rope.dimension_count": u32(HEAD) }, TOP + BIAS + `%attn_norm.weight:${E} %attn_norm.bias:${E} ` + FUSED + MLP2),
    gpt2: () => small("gpt2", { ...eps, ...mha }, TOP + BIAS + `position_embd.weight:${E},${CTX} ` + NORMS + LN + FULL + `%attn_qkv.bias:${3 * E} %attn_output.bias:${E} ` + MLP2 + MLP2B),
    bert: () => small("bert", { ...eps, ...mha, "attention.causal": scalar(BOOL, 0), pooling_type: u32(1) },
        `token_embd.weight:${E},${VOCAB} token_types.weight:${E},2 position_embd.weight:${E},${CTX} token_embd_norm.weight:${E} token_embd_norm.bias:${E} %attn_q.weight:${E},${E} %attn_k.weight:${E},${E} %attn_v.weight:${E},${E} %attn_q.bias:${E} %attn_k.bias:${E} %attn_v.bias:${E} %attn_output.weight:${E},${E} %attn_output.bias:${E} %attn_output_norm.weight:${E} %attn_output_norm.bias:${E} %layer_output_norm.weight:${E} %layer_output_norm.bias:${E} ` + MLP2 + MLP2B,
        { kv: { "tokenizer.ggml.token_type_count": u32(2) } }),
    t5: () => {
        const self = `attn_norm.weight:${E} attn_q.weight:${E},${E} attn_k.weight:${E},${E} attn_v.weight:${E},${E} attn_o.weight:${E},${E} ffn_norm.weight:${E} ffn_up.weight:${E},${FF} ffn_down.weight:${FF},${E}`;
        const cross = `cross_attn_norm.weight:${E} cross_attn_q.weight:${E},${E} cross_attn_k.weight:${E},${E} cross_attn_v.weight:${E},${E} cross_attn_o.weight:${E},${E}`;
        const list = [`token_embd.weight:${E},${VOCAB} output.weight:${E},${VOCAB} enc.output_norm.weight:${E} dec.output_norm.weight:${E} enc.blk.0.attn_rel_b.weight:${HEADS},8 dec.blk.0.attn_rel_b.weight:${HEADS},8`];
        for (let b = 0; b < BLOCKS; b++) for (const side of ["enc", "dec"])
            list.push(`${self}${side === "dec" ? ` ${cross}` : ""}`.split(" ").map((w) => `${side}.blk.${b}.${w}`).join(" "));
        return small("t5", { ...rms, ...mha, "attention.key_length": u32(HEAD), "attention.value_length": u32(HEAD), "attention.relative_buckets_count": u32(8) }, list.join(" "));
    },
    mamba: () => small("mamba", { ...rms, "ssm.conv_kernel": u32(4), "ssm.inner_size": u32(INNER), "ssm.state_size": u32(STATE), "ssm.time_step_rank": u32(RANK), feed_forward_length: u32(0), "attention.head_count": u32(0) },
        TOP + `%attn_norm.weight:${E} %ssm_in.weight:${E},${2 * INNER} %ssm_conv1d.weight:4,${INNER} %ssm_conv1d.bias:${INNER} %ssm_x.weight:${INNER},${RANK + 2 * STATE} %ssm_dt.weight:${RANK},${INNER} %ssm_dt.bias:${INNER} %ssm_a:${STATE},${INNER} %ssm_d:${INNER} %ssm_out.weight:${INNER},${E} `),
    mamba2: () => small("mamba2", { ...rms, "ssm.conv_kernel": u32(4), "ssm.inner_size": u32(INNER), "ssm.state_size": u32(STATE), "ssm.time_step_rank": u32(RANK), "ssm.group_count": u32(1), "attention.head_count": u32(0) },
        TOP + `%attn_norm.weight:${E} %ssm_in.weight:${E},${2 * INNER + 2 * STATE + RANK} %ssm_conv1d.weight:4,${INNER + 2 * STATE} %ssm_conv1d.bias:${INNER + 2 * STATE} %ssm_dt.bias:${RANK} %ssm_a:1,${RANK} %ssm_d:1,${RANK} %ssm_norm.weight:${INNER},1 %ssm_out.weight:${INNER},${E} `),
    rwkv6: () => small("rwkv6", { ...eps, feed_forward_length: u32(FF), "wkv.head_size": u32(16), time_mix_extra_dim: u32(8), time_decay_extra_dim: u32(8), "attention.head_count": u32(0), rescale_every_n_layers: u32(6), token_shift_count: u32(2) },
        TOP + BIAS + `token_embd_norm.weight:${E} token_embd_norm.bias:${E} %attn_norm.weight:${E} %attn_norm.bias:${E} %attn_norm_2.weight:${E} %attn_norm_2.bias:${E} %time_mix_w1.weight:${E},40 %time_mix_w2.weight:8,${E},5 %time_mix_lerp_x.weight:${E},1,1 %time_mix_lerp_fused.weight:${E},1,1,5 %time_mix_first.weight:16,4 %time_mix_decay.weight:${E} %time_mix_decay_w1.weight:${E},8 %time_mix_decay_w2.weight:8,${E} %time_mix_key.weight:${E},${E} %time_mix_value.weight:${E},${E} %time_mix_receptance.weight:${E},${E} %time_mix_gate.weight:${E},${E} %time_mix_ln.weight:${E} %time_mix_ln.bias:${E} %time_mix_output.weight:${E},${E} %channel_mix_lerp_k.weight:${E},1,1 %channel_mix_lerp_r.weight:${E},1,1 %channel_mix_key.weight:${E},${FF} %channel_mix_value.weight:${FF},${E} %channel_mix_receptance.weight:${E},${E} `),
    /* without a table of its own in organ-check */
    internlm2: () => small("internlm2", { ...rms, ...heads }, TOP + NORMS + QKV + MLP),
    smollm3: () => small("smollm3", { ...rms, ...heads }, TOP + NORMS + QKV + MLP),
    olmoe: () => small("olmoe", { ...rms, ...mha, ...moeff }, TOP + NORMS + QKV.replaceAll(`,${K} `, `,${E} `) + `%attn_q_norm.weight:${E} %attn_k_norm.weight:${E} ` + expert("", FF)),
    stablelm: () => small("stablelm", { ...eps, ...mha, "rope.dimension_count": u32(8) }, TOP + BIAS + NORMS + LN + QKV.replaceAll(`,${K} `, `,${E} `) + MLP),
    exaone: () => small("exaone", { ...rms, ...heads }, TOP + NORMS + QKV + MLP),
    cohere2: () => small("cohere2", { ...eps, ...heads, "attention.sliding_window": u32(32), logit_scale: f32(0.25) }, TOP.replace(/output\.weight\S+/, "") + `%attn_norm.weight:${E} ` + QKV + MLP),
    gptneox: () => small("gptneox", { ...eps, ...mha, "rope.dimension_count": u32(8), use_parallel_residual: scalar(BOOL, 1) }, TOP + BIAS + NORMS + LN + FULL + `%attn_qkv.bias:${3 * E} %attn_output.bias:${E} ` + MLP2 + MLP2B)
};

for (const t of tables) for (const name of t.names) for (const profile of profiles(t)) models[`${name}/${profile}`] = () => learned(t, name, profile);

/* ==== Variants ==== */

let count = 0;
function emit(kind, name, what, m) {
    const file = join(out, `${String(++count).padStart(3, "0")}-${name.replace("/", "-")}.gguf`);
    writeModel(m, file);
    console.log([file, kind, `${name}: ${what}`].join("\t"));
}

const key = (m, name) => `${m.kv.get("general.architecture").value}.${name}`;
const set = (m, name, e) => m.kv.set(name.includes(".ggml.") || name.startsWith("general.") || name.startsWith("split.") ? name : key(m, name), e);
const find = (m, part) => m.tensors.findIndex((t) => t.name.includes(part));
const number = (m, name) => m.kv.get(key(m, name))?.value.readUInt32LE(0);
const change = (m, f) => { const c = copy(m); try { return f(c) === false ? null : c; } catch { return null; } }; /* not every model has what a change changes */
const reshape = (t, dims) => Object.assign(t, tensor(t.name, dims));

/* Models that are evaluated only together with another, which is not done here. */
const unused = (m) => /^(eagle3|dflash|gemma4-assistant)$/.test(m.kv.get("general.architecture").value);
const halves = (t) => { const n = t.data.length / 4; Object.assign(t, { type: 1, data: Buffer.alloc(2 * n, Buffer.from([0, 0x3c])) }); };

/* Damage that any architecture can have; null where it does not apply. */
const damages = {
    "a tensor is missing": (m) => { if (find(m, "blk.1.") < 0) return false; m.tensors.splice(find(m, "blk.1."), 1); },
    "the last tensor of a block is missing": (m) => { m.tensors.splice(m.tensors.findLastIndex((t) => t.name.includes("blk.2.")), 1); },
    "a norm in f16": (m) => { const i = m.tensors.findIndex((t) => /norm\S*\.weight/.test(t.name) && t.dims.length === 1); if (i < 0) return false; halves(m.tensors[i]); },
    "a matrix in f64": (m) => { if (unused(m)) return false; const t = m.tensors.findLast((x) => /blk.*(ffn|attn|ssm|time|channel)_\w+\.weight/.test(x.name) && x.dims.length === 2); if (!t) return false; Object.assign(t, { type: 28, data: Buffer.alloc(8 * t.dims[0] * t.dims[1]) }); },
    "a matrix in i8": (m) => { if (unused(m)) return false; const t = m.tensors.findLast((x) => /blk.*(ffn|attn|ssm|time|channel)_\w+\.weight/.test(x.name) && x.dims.length === 2); if (!t) return false; Object.assign(t, { type: 24, data: Buffer.alloc(t.dims[0] * t.dims[1]) }); },
    "embedding_length is u64": (m) => { set(m, "embedding_length", scalar(U64, E)); },
    "head_count is missing": (m) => m.kv.delete(key(m, "attention.head_count")),
    "token_embd is missing": (m) => { const i = find(m, "token_embd.weight"); if (i < 0) return false; m.tensors.splice(i, 1); },
    "fused and separate attention": (m) => { const t = m.tensors.find((x) => /blk\.1\.attn_q\.weight/.test(x.name)); if (!t) return false; m.tensors.push(tensor("blk.1.attn_qkv.weight", [E, 3 * t.dims[1]])); },
    "a required key is missing": (m) => { const k = [...m.kv.keys()].filter((x) => x.startsWith(key(m, "")) && !/block_count|length$/.test(x)); return k.length ? m.kv.delete(k[k.length - 1]) : false; },
    "the middle block is missing": (m) => { m.tensors = m.tensors.filter((t) => !t.name.includes("blk.1.")); },
    "the last block is missing": (m) => { m.tensors = m.tensors.filter((t) => !t.name.includes("blk.2.")); },
    "block_count is too large": (m) => { set(m, "block_count", u32(BLOCKS + 1)); },
    "block_count is too small": (m) => { set(m, "block_count", u32(BLOCKS - 1)); },
    "a tensor too many": (m) => { m.tensors.push(tensor("blk.1.strange.weight", [E])); },
    "a matrix has a row less": (m) => {
        const t = m.tensors.find((x) => x.name.includes("blk.2.") && x.dims.length === 2) ?? m.tensors.find((x) => x.dims.length === 2);
        reshape(t, [t.dims[0], t.dims[1] - 1]);
    },
    "embedding_length is wrong": (m) => { set(m, "embedding_length", u32(2 * E)); },
    "feed_forward_length is wrong": (m) => { if (!number(m, "feed_forward_length")) return false; set(m, "feed_forward_length", u32(FF + 32)); },
    "head_count is wrong": (m) => { if (!number(m, "attention.head_count")) return false; set(m, "attention.head_count", u32(8)); },
    "head_count_kv is wrong": (m) => { if (!number(m, "attention.head_count_kv")) return false; set(m, "attention.head_count_kv", u32(4)); },
    "expert_count is wrong": (m) => { if (!number(m, "expert_count")) return false; set(m, "expert_count", u32(EXPERTS + 2)); },
    "more experts used than there are": (m) => { if (!number(m, "expert_count")) return false; set(m, "expert_used_count", u32(EXPERTS + 1)); },
    "the epsilon is missing": (m) => m.kv.delete(key(m, "attention.layer_norm_rms_epsilon")) || m.kv.delete(key(m, "attention.layer_norm_epsilon")),
    "a token less than rows": (m) => { for (const n of ["tokens", "scores", "token_type"]) { const e = m.kv.get(`tokenizer.ggml.${n}`); m.kv.set(`tokenizer.ggml.${n}`, { ...e, value: e.value.slice(0, -1) }); } },
    "the norm behind the blocks is missing": (m) => { const i = m.tensors.findIndex((t) => /output_norm\.weight/.test(t.name) && !t.name.includes("blk")); if (i < 0) return false; m.tensors.splice(i, 1); }
};

/* Changes after which a model is as sound as before. */
const healthy = {
    "as it is": () => {},
    "matrices in bf16": (m) => { m.tensors = m.tensors.map((t) => (t.dims.length === 2 && /blk.*(attn|ffn)_.*weight/.test(t.name) && !/norm|rel_b|gate_inp/.test(t.name) ? tensor(t.name, t.dims, 30) : t)); },
    "keys of its own and no name": (m) => { m.kv.delete("general.name"); m.kv.set("my.note", text("hello")); m.kv.set("general.tags", array(STR, ["a", "b"])); },
    "tensors in another order": (m) => { m.tensors.reverse(); }
};

const tokens = (m, f) => { const e = m.kv.get("tokenizer.ggml.tokens"); m.kv.set("tokenizer.ggml.tokens", { ...e, value: f([...e.value]) }); };
const shorter = (m, name) => { const e = m.kv.get(`tokenizer.ggml.${name}`); m.kv.set(`tokenizer.ggml.${name}`, { ...e, value: e.value.slice(0, -7) }); };

/* Damage to the one llama model, which need not be repeated for each architecture. */
const single = {
    "architecture is missing": (m) => m.kv.delete("general.architecture"),
    "architecture is unknown": (m) => { m.kv.set("general.architecture", text("lama")); },
    "context_length is missing": (m) => m.kv.delete("llama.context_length"),
    "embedding_length is missing": (m) => m.kv.delete("llama.embedding_length"),
    "block_count is missing": (m) => m.kv.delete("llama.block_count"),
    "head_count is missing": (m) => m.kv.delete("llama.attention.head_count"),
    "feed_forward_length is missing": (m) => m.kv.delete("llama.feed_forward_length"),
    "block_count is u64": (m) => { m.kv.set("llama.block_count", scalar(U64, BLOCKS)); },
    "head_count is f32": (m) => { m.kv.set("llama.attention.head_count", f32(HEADS)); },
    "the epsilon is u32": (m) => { m.kv.set("llama.attention.layer_norm_rms_epsilon", u32(1)); },
    "architecture is u32": (m) => { m.kv.set("general.architecture", u32(1)); },
    "block_count is 0": (m) => { m.kv.set("llama.block_count", u32(0)); },
    "block_count is 600": (m) => { m.kv.set("llama.block_count", u32(600)); },
    "rope.dimension_count is half": (m) => { m.kv.set("llama.rope.dimension_count", u32(8)); },
    "rope scaling is unknown": (m) => { m.kv.set("llama.rope.scaling.type", text("magic")); },
    "key_length is wrong": (m) => { m.kv.set("llama.attention.key_length", u32(32)); },
    "head_count array is short": (m) => { m.kv.set("llama.attention.head_count", array(U32, [HEADS, HEADS])); },
    "feed_forward_length array is long": (m) => { m.kv.set("llama.feed_forward_length", array(U32, [FF, FF, FF, FF])); },
    "head_count_kv array is f32": (m) => { m.kv.set("llama.attention.head_count_kv", array(F32, [KV, KV, KV])); },
    "experts used without experts": (m) => { m.kv.set("llama.expert_used_count", u32(2)); },
    "experts without tensors": (m) => { m.kv.set("llama.expert_count", u32(4)); m.kv.set("llama.expert_used_count", u32(2)); },
    "tokens are missing": (m) => m.kv.delete("tokenizer.ggml.tokens"),
    "the tokenizer is missing": (m) => m.kv.delete("tokenizer.ggml.model"),
    "the tokenizer is unknown": (m) => { m.kv.set("tokenizer.ggml.model", text("abacus")); },
    "the tokenizer lacks merges": (m) => { m.kv.set("tokenizer.ggml.model", text("gpt2")); },
    "the pre-tokenizer is unknown": (m) => { m.kv.set("tokenizer.ggml.model", text("gpt2")); m.kv.set("tokenizer.ggml.merges", array(STR, ["a b"])); m.kv.set("tokenizer.ggml.pre", text("nonsense")); },
    "scores are short": (m) => shorter(m, "scores"),
    "token types are short": (m) => shorter(m, "token_type"),
    "token types are f32": (m) => { m.kv.set("tokenizer.ggml.token_type", array(F32, Array(VOCAB).fill(1))); },
    "scores are strings": (m) => { m.kv.set("tokenizer.ggml.scores", array(STR, Array(VOCAB).fill("1"))); },
    "a token is there twice": (m) => { tokens(m, (t) => { t[300] = t[301]; return t; }); },
    "tokens are numbers": (m) => { m.kv.set("tokenizer.ggml.tokens", array(U32, Array(VOCAB).fill(1))); },
    "bos_token_id is a string": (m) => { m.kv.set("tokenizer.ggml.bos_token_id", text("1")); },
    "output has other rows": (m) => reshape(m.tensors[find(m, "output.weight")], [E, VOCAB - 1]),
    "token_embd is transposed": (m) => reshape(m.tensors[find(m, "token_embd")], [VOCAB, E]),
    "token_embd is missing": (m) => { m.tensors.splice(find(m, "token_embd"), 1); },
    "a norm is too long": (m) => reshape(m.tensors[find(m, "blk.0.attn_norm")], [E + 1]),
    "attn_k has query heads": (m) => reshape(m.tensors[find(m, "blk.1.attn_k")], [E, Q]),
    "ffn_gate has another length": (m) => reshape(m.tensors[find(m, "blk.1.ffn_gate")], [E, FF + 32]),
    "a tensor has a misspelt name": (m) => { m.tensors[find(m, "blk.1.ffn_up")].name = "blk.1.ffn_upp.weight"; },
    "blocks are renumbered from 1": (m) => { m.tensors.forEach((t) => { t.name = t.name.replace(/blk\.(\d)/, (_, n) => `blk.${Number(n) + 1}`); }); },
    "a block is numbered 7": (m) => { m.tensors.forEach((t) => { t.name = t.name.replace("blk.2.", "blk.7."); }); },
    "a name is too long": (m) => { m.tensors.push(tensor(`blk.0.${"x".repeat(60)}`, [E])); },
    "two tensors have one name": (m) => { m.tensors.push(tensor("blk.0.attn_norm.weight", [E])); },
    "a bias of the wrong length": (m) => { m.tensors.push(tensor("blk.0.attn_output.bias", [E / 2])); },
    "rope_freqs of the wrong length": (m) => { m.tensors.push(tensor("rope_freqs.weight", [HEAD])); },
    "fused and separate attention": (m) => { m.tensors.push(tensor("blk.0.attn_qkv.weight", [E, Q + 2 * K])); },
    "expert stacks in a dense model": (m) => { m.tensors.push(tensor("blk.0.ffn_up_exps.weight", [E, FF, 4])); },
    "split.count without shards": (m) => { set(m, "split.count", scalar(U16, 2)); set(m, "split.no", scalar(U16, 0)); set(m, "split.tensors.count", scalar(I32, m.tensors.length)); },
    "split.count is u32": (m) => { set(m, "split.count", u32(1)); },
    "the file is cut in the data": (m) => { m.cut = 0.7; },
    "the file is cut in the header": (m) => { m.cut = 0.001; },
    "the magic is wrong": (m) => { m.magic = "GGML"; },
    "offsets are shifted": (m) => { m.shift = 32; },
    "alignment is 48": (m) => { set(m, "general.alignment", u32(48)); },
    "alignment is u64": (m) => { set(m, "general.alignment", scalar(U64, 32)); },
    "alignment is 64, data at 32": (m) => { set(m, "general.alignment", u32(64)); },
    "a tensor type that was removed": (m) => { m.tensors[find(m, "blk.1.ffn_up")].type = 4; },
    "a tensor type of a fork": (m) => { const t = m.tensors[find(m, "blk.1.ffn_norm")]; t.type = 141; }
};

/* Unusual, but sound. */
const odd = {
    "tied embeddings": (m) => { m.tensors.splice(find(m, "output.weight"), 1); },
    "fused attention": (m) => {
        for (let b = 0; b < BLOCKS; b++) {
            m.tensors = m.tensors.filter((t) => !new RegExp(`blk\\.${b}\\.attn_[qkv]\\.weight`).test(t.name));
            m.tensors.push(tensor(`blk.${b}.attn_qkv.weight`, [E, Q + 2 * K]));
        }
    },
    "biases in one block": (m) => { m.tensors.push(tensor("blk.1.attn_output.bias", [E]), tensor("blk.1.ffn_up.bias", [FF])); },
    "per-layer arrays of one value": (m) => { m.kv.set("llama.attention.head_count", array(U32, [HEADS, HEADS, HEADS])); m.kv.set("llama.feed_forward_length", array(I32, [FF, FF, FF])); },
    "no scores": (m) => m.kv.delete("tokenizer.ggml.scores"),
    "no token types": (m) => m.kv.delete("tokenizer.ggml.token_type"),
    "more scores than tokens": (m) => { m.kv.set("tokenizer.ggml.scores", array(F32, Array(VOCAB + 8).fill(0))); },
    "a special token out of range": (m) => { m.kv.set("tokenizer.ggml.eot_token_id", u32(99999)); },
    "no token is numbered -1": (m) => { m.kv.set("tokenizer.ggml.padding_token_id", u32(0xffffffff)); },
    "rope_freqs": (m) => { m.tensors.push(tensor("rope_freqs.weight", [HEAD / 2])); },
    "rope scaling": (m) => { m.kv.set("llama.rope.scaling.type", text("yarn")); m.kv.set("llama.rope.scaling.factor", f32(4)); },
    "alignment 64": (m) => { set(m, "general.alignment", u32(64)); m.align = 64; },
    "an odd file type": (m) => { set(m, "general.file_type", u32(15)); },
    "split.count 0": (m) => { set(m, "split.count", scalar(U16, 0)); set(m, "split.no", scalar(U16, 0)); set(m, "split.tensors.count", scalar(I32, 1)); },
    "no head_count_kv": (m) => { m.kv.delete("llama.attention.head_count_kv"); for (let b = 0; b < BLOCKS; b++) for (const r of ["attn_k", "attn_v"]) reshape(m.tensors[find(m, `blk.${b}.${r}.`)], [E, Q]); },
    "key_length stated": (m) => { m.kv.set("llama.attention.key_length", u32(HEAD)); m.kv.set("llama.attention.value_length", u32(HEAD)); },
    "larger heads": (m) => {
        m.kv.set("llama.attention.key_length", u32(32)); m.kv.set("llama.attention.value_length", u32(32)); m.kv.set("llama.rope.dimension_count", u32(32));
        for (let b = 0; b < BLOCKS; b++) {
            reshape(m.tensors[find(m, `blk.${b}.attn_q.`)], [E, HEADS * 32]);
            for (const r of ["attn_k", "attn_v"]) reshape(m.tensors[find(m, `blk.${b}.${r}.`)], [E, KV * 32]);
            reshape(m.tensors[find(m, `blk.${b}.attn_output.`)], [HEADS * 32, E]);
        }
    },
    "one expert used": (m) => { m.kv.set("llama.expert_used_count", u32(0)); m.kv.set("llama.expert_count", u32(0)); },
    "empty tokens": (m) => { tokens(m, (t) => { t[300] = t[301] = ""; return t; }); },
    "a scale beside a weight": (m) => { m.tensors.push(tensor("blk.0.attn_q.scale", [1])); },
    "zero-sized keys": (m) => { m.kv.set("my.empty", array(U32, [])); }
};

/* With WIDE=1: every key is absent or has another type, and one tensor of every role is absent, or has
 * another shape or type. */
function everything(name, m) {
    for (const [k, e] of m.kv) {
        if (k.startsWith("general.") || k.startsWith("tokenizer.")) continue;
        const vary = (what, value) => { const c = copy(m); if (value) c.kv.set(k, value); else c.kv.delete(k); emit("damaged", name, `${k} ${what}`, c); };
        vary("is missing");
        if (e.type === U32) {
            const v = e.value.readUInt32LE(0);
            vary("is u64", scalar(U64, v)); vary("is i32", scalar(I32, v)); vary("is f32", f32(v)); vary("is a short array", array(U32, [v, v])); vary("is an array", array(U32, Array(number(m, "block_count")).fill(v)));
            vary("is one more", u32(v + 1)); vary("is 0", u32(0));
        } else if (e.type === F32) { vary("is u32", u32(1)); vary("is f64", { type: 12, value: Buffer.alloc(8) }); }
        else if (e.type === BOOL) vary("is u32", u32(1));
        else if (e.type === ARR) { vary("is a scalar", u32(1)); vary("is short", { ...e, value: e.value.slice(1) }); vary("is an array of strings", array(STR, e.value.map(() => "a"))); vary("is an array of u64", array(U64, e.value.map(() => 1))); }
    }
    const seen = new Set();
    for (const [i, t] of m.tensors.entries()) {
        const role = t.name.replace(/^((?:enc|dec)\.)?blk\.\d+/, "$1blk");
        if (seen.has(role)) continue;
        seen.add(role);
        const vary = (what, f) => { const c = copy(m); f(c.tensors, c.tensors[i]); emit("damaged", name, `${t.name} ${what}`, c); };
        vary("is missing", (all) => all.splice(i, 1));
        vary("is longer", (all, x) => reshape(x, x.dims.map((d, k) => (k === x.dims.length - 1 ? d + 1 : d))));
        vary("is f16", (all, x) => halves(x));
        vary("is i32", (all, x) => { x.type = 26; });
    }
}

for (const [name, make] of Object.entries(models)) {
    if (only && !new RegExp(only).test(name)) continue;
    const m = make();
    if (process.env.WIDE) { emit("healthy", name, "as it is", m); everything(name, m); continue; }
    if (process.env.HEALTHY) { emit("healthy", name, "as it is", m); continue; }
    for (const [what, f] of Object.entries(healthy)) { const c = change(m, f); if (c) emit("healthy", name, what, c); }
    for (const [what, f] of Object.entries(damages)) { const c = change(m, f); if (c) emit("damaged", name, what, c); }
}
if (only && !new RegExp(only).test("llama")) process.exit(0);
const llama = models.llama();
for (const [what, f] of Object.entries(single)) emit("damaged", "llama", what, change(llama, f) ?? llama);
for (const [what, f] of Object.entries(odd)) emit("healthy", "llama", what, change(llama, f) ?? llama);
