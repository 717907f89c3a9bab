/* recast.mjs - turns a llama model in an organ directory into the same model in another
 * architecture, for which the engine supports multi-token prediction:
 *
 *   recast.mjs DIR step35|glm4moe|qwen35 BLOCKS NEXTN [EXPERT,EXPERT...]
 *
 * The first BLOCKS blocks do not change, so the probabilities do not change either if BLOCKS
 * is the number of all blocks. NEXTN prediction blocks follow them: copies of the model's last
 * blocks, with eh_proj near [1 0]. They are not trained. They only make changes visible.
 *
 *   step35    arrays with one value per block (heads, FFN lengths, sliding windows), a dense FFN
 *             in its prediction blocks, of which there may be several
 *   glm4moe   keys with one value; experts, a router and a shared expert in the prediction
 *             block or, with a list of experts, in all blocks. The block's FFN becomes the
 *             shared expert, and the other experts add a little. Expert 7 is the same in each
 *             list that has it.
 *   qwen35    not the same function: its first block is recurrent and made of noise, and the
 *             others also have norms and gates. An array tells which blocks are recurrent;
 *             another array has four values by chance.
 *
 * The noise is seeded by its place, so a block or an expert that two models have in common is
 * equal to the byte.
 */
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const [dir, arch] = process.argv.slice(2);
const [blocks, nextn] = process.argv.slice(4).map(Number);
const experts = (process.argv[6] ?? "0,1,2,3").split(",").map(Number), mixed = process.argv[6] !== undefined;
const manifest = JSON.parse(readFileSync(join(dir, "manifest.json"), "utf8"));
const key = (name) => manifest.metadata.find((kv) => kv.key === `llama.${name}`)?.value;
const width = key("embedding_length"), heads = key("attention.head_count"), kvHeads = key("attention.head_count_kv");
const ffn = key("feed_forward_length"), depth = key("block_count");

/* ==== Tensors: of the model, and made ==== */

/* A record: name and dtype with their lengths before them, dims in between, then the data. */
function read(name) {
    const entry = manifest.tensors.find((t) => t.name === name);
    const bytes = readFileSync(join(dir, entry.file));
    return { name, dims: entry.dims, dtype: entry.dtype, id: bytes.readUInt32LE(8 + name.length + 8 * entry.dims.length),
        data: bytes.subarray(12 + name.length + 8 * entry.dims.length) };
}

/* Uniform in -size to size, a sequence of its own for each name. */
function noise(name, size) {
    let state = [...name].reduce((h, c) => BigInt.asUintN(64, (h ^ BigInt(c.charCodeAt(0))) * 1099511628211n), 14695981039346656037n);
    return () => {
        state ^= BigInt.asUintN(64, state << 13n);
        state ^= state >> 7n;
        state ^= BigInt.asUintN(64, state << 17n);
        return (Number(state >> 40n) / 2 ** 23 - 1) * size;
    };
}

function make(name, dims, value) {
    const x = new Float32Array(dims.reduce((a, b) => a * b)).map((_, i) => value(i));
    return { name, dims, dtype: "F32", id: 0, data: Buffer.from(x.buffer) };
}

/* llama turns neighbours (2i, 2i + 1) of a head, these turn (i, i + half): the rows of
 * the query and the key change places, and rows are bytes whatever their dtype. */
function neox(t, n) {
    const row = t.data.length / t.dims[1], size = t.dims[1] / n, half = size / 2;
    const data = Buffer.alloc(t.data.length);
    for (let to = 0; to < t.dims[1]; to++) {
        const head = to - (to % size), i = to % size;
        const from = head + (i < half ? 2 * i : 2 * (i - half) + 1);
        t.data.copy(data, to * row, from * row, (from + 1) * row);
    }
    return { ...t, data };
}

/* Behind the rows of each head as many for a gate, which are 0: it is half open. */
function gated(t) {
    const size = t.data.length / heads, data = Buffer.alloc(2 * t.data.length);
    for (let h = 0; h < heads; h++) t.data.copy(data, 2 * h * size, h * size, (h + 1) * size);
    return { ...t, dims: [t.dims[0], 2 * t.dims[1]], data };
}

const STATE = 16, GROUPS = 2, INNER = STATE * GROUPS; /* of a recurrent block */

function recurrent(b) {
    const near = (role, dims, value, size) => {
        const off = noise(`${b} ${role}`, size);
        return make(`blk.${b}.${role}`, dims, () => value + off());
    };
    return [near("attn_qkv.weight", [width, 3 * INNER], 0, 0.2), near("attn_gate.weight", [width, INNER], 0, 0.2), near("ssm_conv1d.weight", [4, 3 * INNER], 0.25, 0.1),
        near("ssm_dt.bias", [GROUPS], 0, 0.1), near("ssm_a", [GROUPS], -1, 0.5), near("ssm_beta.weight", [width, GROUPS], 0, 0.1),
        near("ssm_alpha.weight", [width, GROUPS], 0, 0.1), near("ssm_norm.weight", [STATE], 1, 0.1), near("ssm_out.weight", [INNER, width], 0, 0.02)];
}

/* Block `from` of the model under number `to`: all but its FFN. */
function attention(from, to) {
    const of = (role) => read(`blk.${from}.${role}.weight`);
    const qwen = arch === "qwen35";
    const norm = (role) => make(`blk.${from}.${role}.weight`, [width / heads], () => 1.5);
    const q = neox(of("attn_q"), heads), mixer = [qwen ? gated(q) : q, neox(of("attn_k"), kvHeads), of("attn_v"), of("attn_output")];
    const all = [of("attn_norm"), ...(qwen && to === 0 ? recurrent(from) : mixer), of("ffn_norm")];
    if (qwen && to > 0) all.push(norm("attn_q_norm"), norm("attn_k_norm"));
    return all.map((t) => ({ ...t, name: `blk.${to}.${t.name.split(".").slice(2).join(".")}` }))
        .map((t) => (arch === "step35" ? t : { ...t, name: t.name.replace("ffn_norm", "post_attention_norm") }));
}

function dense(from, to, suffix = "") {
    return ["gate", "up", "down"].map((role) => ({ ...read(`blk.${from}.ffn_${role}.weight`), name: `blk.${to}.ffn_${role}${suffix}.weight` }));
}

/* Experts: expert e has the FFN of block e, counted around; the next round gate and up
 * in each other's place. `seed` is the block that the router is made for. */
function mixture(to, seed) {
    const tensor = (role, e) => {
        const other = Math.floor(e / depth) % 2 === 1;
        return read(`blk.${e % depth}.ffn_${other ? { gate: "up", up: "gate", down: "down" }[role] : role}.weight`);
    };
    const stacks = ["gate", "up", "down"].map((role) => {
        const of = experts.map((e) => tensor(role, e));
        if (of.some((t) => t.id !== of[0].id)) throw new Error(`ffn_${role} has not one dtype in all blocks`);
        return { ...of[0], name: `blk.${to}.ffn_${role}_exps.weight`, dims: [...of[0].dims, of.length], data: Buffer.concat(of.map((t) => t.data)) };
    });
    const row = experts.map((e) => noise(`${seed} router ${e}`, 0.3)), bias = experts.map((e) => noise(`${seed} bias ${e}`, 0.1)());
    return [...stacks, make(`blk.${to}.ffn_gate_inp.weight`, [width, experts.length], (i) => row[Math.floor(i / width)]()),
        make(`blk.${to}.exp_probs_b.bias`, [experts.length], (i) => bias[i])];
}

function prediction(k) {
    const from = depth - nextn + k, to = blocks + k, seed = `nextn ${k}`;
    const near = (role, dims, value, size) => {
        const off = noise(`${seed} ${role}`, size);
        return make(`blk.${to}.nextn.${role}.weight`, dims, (i) => value(i) + off());
    };
    return [
        ...attention(from, to),
        ...(arch === "glm4moe" ? [...mixture(to, seed), ...dense(from, to, "_shexp")] : dense(from, to)),
        near("eh_proj", [2 * width, width], (i) => (i % (2 * width) === Math.floor(i / (2 * width)) ? 1 : 0), 0.01),
        near("enorm", [width], () => 0.1, 0.01),
        near("hnorm", [width], () => 0.1, 0.01),
        near("shared_head_norm", [width], () => 1, 0.1)
    ];
}

const tensors = ["token_embd", "output_norm", "output"].map((n) => read(`${n}.weight`));
for (let b = 0; b < blocks; b++) tensors.push(...attention(b, b), ...(mixed ? [...mixture(b, b), ...dense(b, b, "_shexp")] : dense(b, b)));
for (let k = 0; k < nextn; k++) tensors.push(...prediction(k));

/* ==== Keys ==== */

const all = blocks + nextn;
const u32 = (name, value) => ({ key: `${arch}.${name}`, type: "u32", value });
const f32 = (name, value) => ({ key: `${arch}.${name}`, type: "f32", value });
const each = (name, items, value) => ({ key: `${arch}.${name}`, type: "arr", items, value: Array.from({ length: all }, (_, i) => value(i)) });
const keys = [
    u32("context_length", key("context_length")), u32("embedding_length", width), u32("block_count", all),
    u32("attention.key_length", width / heads), u32("attention.value_length", width / heads),
    u32("rope.dimension_count", width / heads), f32("rope.freq_base", key("rope.freq_base")),
    f32("attention.layer_norm_rms_epsilon", key("attention.layer_norm_rms_epsilon"))
];
const mixture_keys = [
    u32("expert_count", experts.length), u32("expert_used_count", 2), f32("expert_weights_scale", 0.25), u32("expert_feed_forward_length", ffn),
    u32("leading_dense_block_count", mixed ? 0 : blocks)
];
const scalars = [u32("attention.head_count", heads), u32("attention.head_count_kv", kvHeads), u32("feed_forward_length", ffn)];
if (arch === "glm4moe") {
    keys.push(...mixture_keys, ...scalars, u32("expert_shared_count", 1));
} else if (arch === "qwen35") {
    keys.push(...scalars, { key: "qwen35.rope.dimension_sections", type: "arr", items: "i32", value: [11, 11, 10, 0] },
        each("attention.recurrent_layers", "bool", (i) => i === 0), u32("ssm.conv_kernel", 4), u32("ssm.inner_size", INNER),
        u32("ssm.state_size", STATE), u32("ssm.time_step_rank", GROUPS), u32("ssm.group_count", GROUPS));
} else {
    /* Windows longer than any text here: they only say which blocks turn the whole head.
     * The last prediction block differs from all others. */
    keys.push(...mixture_keys, each("attention.head_count", "u32", () => heads), each("attention.head_count_kv", "u32", () => kvHeads),
        each("feed_forward_length", "u32", () => ffn), each("attention.sliding_window_pattern", "bool", (i) => i < blocks + 1),
        each("swiglu_clamp_exp", "f32", () => 0), u32("attention.sliding_window", 512), f32("rope.freq_base_swa", key("rope.freq_base")));
}
if (nextn > 0) keys.push(u32("nextn_predict_layers", nextn));
manifest.metadata = manifest.metadata.flatMap((kv) =>
    kv.key === "llama.block_count" ? keys : kv.key.startsWith("llama.") ? [] : [kv.key === "general.architecture" ? { ...kv, value: arch } : kv]);

/* ==== The directory anew ==== */

for (const entry of manifest.tensors) rmSync(join(dir, entry.file));
manifest.tensors = tensors.map((t, i) => {
    const head = Buffer.alloc(12 + t.name.length + 8 * t.dims.length);
    head.writeUInt32LE(t.name.length, 0);
    head.write(t.name, 4);
    head.writeUInt32LE(t.dims.length, 4 + t.name.length);
    t.dims.forEach((d, k) => head.writeBigUInt64LE(BigInt(d), 8 + t.name.length + 8 * k));
    head.writeUInt32LE(t.id, head.length - 4);
    writeFileSync(join(dir, `${i}.bin`), Buffer.concat([head, t.data]));
    return { name: t.name, dims: t.dims, dtype: t.dtype, bytes: t.data.length, file: `${i}.bin` };
});
writeFileSync(join(dir, "manifest.json"), JSON.stringify(manifest));
