/* dense.mjs - a small dense model with random weights, of which organ-stack makes mixtures:
 *
 *   dense.mjs llama|qwen2|qwen3 TOKENIZER.gguf OUT.gguf
 */
import { f32, small, u32, useTokenizer, writeModel } from "./small.mjs";
const [arch, tokens, out] = process.argv.slice(2);
useTokenizer(tokens);
const norms = arch === "qwen3" ? " %attn_q_norm.weight:16 %attn_k_norm.weight:16" : "";
const keys = { feed_forward_length: u32(96), "attention.head_count": u32(4), "attention.head_count_kv": u32(2),
    "attention.layer_norm_rms_epsilon": f32(1e-6), "attention.key_length": u32(16), "attention.value_length": u32(16) };
const m = small(arch, keys, "token_embd.weight:64,384 output_norm.weight:64 output.weight:64,384" +
    " %attn_norm.weight:64 %attn_q.weight:64,64 %attn_k.weight:64,32 %attn_v.weight:64,32 %attn_output.weight:64,64" +
    " %ffn_norm.weight:64 %ffn_gate.weight:64,96 %ffn_up.weight:64,96 %ffn_down.weight:96,64" + norms);
/* Large enough that the feed-forward layers matter for the perplexity. */
for (const t of m.tensors) {
    if (!/ffn_(gate|up|down)|output.weight/.test(t.name)) continue;
    const x = new Float32Array(t.data.buffer, t.data.byteOffset, t.data.length / 4);
    for (let i = 0; i < x.length; i++) x[i] *= 4;
}
writeModel(m, out);
