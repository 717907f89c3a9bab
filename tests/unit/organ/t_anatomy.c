/* t_anatomy.c - class, block, role and expert of names as converters write them, over
 * all families of models; names with other blocks; stacks of experts. */
#include "t.h"

#include "organ/gg_organ.h"
#include "organ/record.h"
#include "organ/tensor_names.h"
#include "quant/quant.h"

#define S GG_SKELETON
#define O GG_ORGAN
#define E GG_EMBED
#define N GG_NORM
#define A GG_ADAPTER
#define X GG_OTHER

static const struct row {
    const char *name;
    gg_class cls;
    int block;
    const char *role;
    int expert;
} rows[] = {
    /* llama and its kind */
    { "token_embd.weight", E, -1, "token_embd", -1 },
    { "output.weight", E, -1, "output", -1 },
    { "output_norm.weight", N, -1, "output_norm", -1 },
    { "rope_freqs.weight", S, -1, "rope_freqs", -1 },
    { "blk.0.attn_norm.weight", N, 0, "attn_norm", -1 },
    { "blk.0.attn_q.weight", S, 0, "attn_q", -1 },
    { "blk.1.attn_k.weight", S, 1, "attn_k", -1 },
    { "blk.31.attn_v.weight", S, 31, "attn_v", -1 },
    { "blk.7.attn_output.weight", S, 7, "attn_output", -1 },
    { "blk.7.ffn_norm.weight", N, 7, "ffn_norm", -1 },
    { "blk.7.ffn_gate.weight", O, 7, "ffn_gate", -1 },
    { "blk.7.ffn_up.weight", O, 7, "ffn_up", -1 },
    { "blk.127.ffn_down.weight", O, 127, "ffn_down", -1 },
    { "blk.3.attn_rot_embd.weight", S, 3, "attn_rot_embd", -1 },
    { "rope_factors_long.weight", S, -1, "rope_factors_long", -1 },
    { "rope_factors_short.weight", S, -1, "rope_factors_short", -1 },
    { "rope_factors_*long.weight", S, -1, "rope_factors_*long", -1 },
    /* biases and scales follow their weight */
    { "blk.2.attn_q.bias", S, 2, "attn_q.bias", -1 },
    { "blk.2.attn_k.bias", S, 2, "attn_k.bias", -1 },
    { "blk.2.attn_output.bias", S, 2, "attn_output.bias", -1 },
    { "blk.2.ffn_up.bias", O, 2, "ffn_up.bias", -1 },
    { "blk.2.attn_norm.bias", N, 2, "attn_norm.bias", -1 },
    { "output_norm.bias", N, -1, "output_norm.bias", -1 },
    { "output.bias", E, -1, "output.bias", -1 },
    { "blk.2.ffn_down.scale", O, 2, "ffn_down.scale", -1 },
    { "blk.2.attn_q.input_scale", S, 2, "attn_q.input_scale", -1 },
    /* norms of qwen3, olmo2, gemma, bitnet, phi */
    { "blk.4.attn_q_norm.weight", N, 4, "attn_q_norm", -1 },
    { "blk.4.attn_k_norm.weight", N, 4, "attn_k_norm", -1 },
    { "blk.4.post_attention_norm.weight", N, 4, "post_attention_norm", -1 },
    { "blk.4.post_ffw_norm.weight", N, 4, "post_ffw_norm", -1 },
    { "blk.4.post_ffw_norm_1.weight", N, 4, "post_ffw_norm_1", -1 },
    { "blk.4.pre_ffw_norm_2.weight", N, 4, "pre_ffw_norm_2", -1 },
    { "blk.4.post_norm.weight", N, 4, "post_norm", -1 },
    { "blk.4.attn_norm_2.weight", N, 4, "attn_norm_2", -1 },
    { "blk.4.attn_sub_norm.weight", N, 4, "attn_sub_norm", -1 },
    { "blk.4.ffn_sub_norm.weight", N, 4, "ffn_sub_norm", -1 },
    { "blk.4.ffn_norm_exps.weight", N, 4, "ffn_norm_exps", -1 },
    { "blk.4.layer_output_norm.weight", N, 4, "layer_output_norm", -1 },
    { "blk.4.attn_output_norm.weight", N, 4, "attn_output_norm", -1 },
    { "token_embd_norm.weight", N, -1, "token_embd_norm", -1 },
    { "per_layer_proj_norm.weight", N, -1, "per_layer_proj_norm", -1 },
    { "cls.norm.weight", N, -1, "cls.norm", -1 },
    /* fused */
    { "blk.5.attn_qkv.weight", S, 5, "attn_qkv", -1 },
    { "blk.5.attn_qkv.bias", S, 5, "attn_qkv.bias", -1 },
    { "blk.5.attn_gate.weight", S, 5, "attn_gate", -1 },
    { "blk.5.attn_sinks.weight", S, 5, "attn_sinks", -1 },
    { "blk.5.attn_sinks", S, 5, "attn_sinks", -1 },
    /* experts */
    { "blk.6.ffn_gate_inp.weight", O, 6, "ffn_gate_inp", -1 },
    { "blk.6.ffn_gate_inp.bias", O, 6, "ffn_gate_inp.bias", -1 },
    { "blk.6.ffn_gate_inp_shexp.weight", O, 6, "ffn_gate_inp_shexp", -1 },
    { "blk.6.exp_probs_b.bias", O, 6, "exp_probs_b.bias", -1 },
    { "blk.6.exp_probs_b_vl.bias", O, 6, "exp_probs_b_vl.bias", -1 },
    { "blk.6.ffn.act.scales", O, 6, "ffn.act.scales", -1 },
    { "output_res_score.weight", S, -1, "output_res_score", -1 },
    { "hrm.z_l_init", S, -1, "hrm.z_l_init", -1 },
    { "blk.6.ffn_gate_exps.weight", O, 6, "ffn_gate_exps", -1 },
    { "blk.6.ffn_up_exps.weight", O, 6, "ffn_up_exps", -1 },
    { "blk.6.ffn_down_exps.weight", O, 6, "ffn_down_exps", -1 },
    { "blk.6.ffn_gate_up_exps.weight", O, 6, "ffn_gate_up_exps", -1 },
    { "blk.6.ffn_down_exps.bias", O, 6, "ffn_down_exps.bias", -1 },
    { "blk.6.ffn_gate_shexp.weight", O, 6, "ffn_gate_shexp", -1 },
    { "blk.6.ffn_up_chexps.weight", O, 6, "ffn_up_chexps", -1 },
    { "blk.6.ffn_gate_tid2eid.weight", O, 6, "ffn_gate_tid2eid", -1 },
    { "blk.6.ffn_latent_down.weight", O, 6, "ffn_latent_down", -1 },
    { "blk.6.ffn_gate.0.weight", O, 6, "ffn_gate.0", 0 },
    { "blk.6.ffn_up.7.weight", O, 6, "ffn_up.7", 7 },
    { "blk.6.ffn_down.255.weight", O, 6, "ffn_down.255", 255 },
    { "blk.6.ffn_down.12.bias", O, 6, "ffn_down.12.bias", 12 },
    { "blk.6.ffn_latent.3.weight", O, 6, "ffn_latent.3", 3 },
    { "blk.6.ffn_.3.weight", O, 6, "ffn_.3", 3 },
    { "blk.6.ffn_up.03.weight", O, 6, "ffn_up.03", -1 },
    /* latent attention, indexers */
    { "blk.8.attn_q_a.weight", S, 8, "attn_q_a", -1 },
    { "blk.8.attn_q_b.weight", S, 8, "attn_q_b", -1 },
    { "blk.8.attn_kv_a_mqa.weight", S, 8, "attn_kv_a_mqa", -1 },
    { "blk.8.attn_kv_b.weight", S, 8, "attn_kv_b", -1 },
    { "blk.8.attn_k_b.weight", S, 8, "attn_k_b", -1 },
    { "blk.8.attn_v_b.weight", S, 8, "attn_v_b", -1 },
    { "blk.8.attn_q_a_norm.weight", N, 8, "attn_q_a_norm", -1 },
    { "blk.8.attn_kv_a_norm.weight", N, 8, "attn_kv_a_norm", -1 },
    { "blk.8.attn_output_a.weight", S, 8, "attn_output_a", -1 },
    { "blk.8.indexer.attn_k.weight", S, 8, "indexer.attn_k", -1 },
    { "blk.8.indexer.k_norm.weight", N, 8, "indexer.k_norm", -1 },
    { "blk.8.indexer_compressor_kv.weight", S, 8, "indexer_compressor_kv", -1 },
    { "blk.8.hc_attn_fn.weight", S, 8, "hc_attn_fn", -1 },
    { "output_hc_base.weight", S, -1, "output_hc_base", -1 },
    /* state space, recurrent, convolution */
    { "blk.9.ssm_in.weight", S, 9, "ssm_in", -1 },
    { "blk.9.ssm_conv1d.weight", S, 9, "ssm_conv1d", -1 },
    { "blk.9.ssm_conv1d.bias", S, 9, "ssm_conv1d.bias", -1 },
    { "blk.9.ssm_a", S, 9, "ssm_a", -1 },
    { "blk.9.ssm_d", S, 9, "ssm_d", -1 },
    { "blk.9.ssm_dt.bias", S, 9, "ssm_dt.bias", -1 },
    { "blk.9.ssm_out.weight", S, 9, "ssm_out", -1 },
    { "blk.9.ssm_norm.weight", N, 9, "ssm_norm", -1 },
    { "blk.9.ssm_dt_norm.weight", N, 9, "ssm_dt_norm", -1 },
    { "blk.9.shortconv.conv.weight", S, 9, "shortconv.conv", -1 },
    { "blk.9.time_mix_w1.weight", S, 9, "time_mix_w1", -1 },
    { "blk.9.time_mix_ln.weight", N, 9, "time_mix_ln", -1 },
    { "blk.9.channel_mix_key.weight", O, 9, "channel_mix_key", -1 },
    /* encoder and decoder, BERT */
    { "enc.blk.3.attn_q.weight", S, 3, "attn_q", -1 },
    { "dec.blk.11.cross_attn_k.weight", S, 11, "cross_attn_k", -1 },
    { "dec.blk.11.cross_attn_norm.weight", N, 11, "cross_attn_norm", -1 },
    { "enc.blk.0.ffn_up.weight", O, 0, "ffn_up", -1 },
    { "enc.blk.0.attn_rel_b.weight", S, 0, "attn_rel_b", -1 },
    { "enc.output_norm.weight", N, -1, "enc.output_norm", -1 },
    { "token_types.weight", E, -1, "token_types", -1 },
    { "position_embd.weight", E, -1, "position_embd", -1 },
    { "cls.weight", E, -1, "cls", -1 },
    { "cls.output.weight", E, -1, "cls.output", -1 },
    { "dense_2.weight", E, -1, "dense_2", -1 },
    /* gemma 3n */
    { "per_layer_token_embd.weight", E, -1, "per_layer_token_embd", -1 },
    { "per_layer_model_proj.weight", S, -1, "per_layer_model_proj", -1 },
    { "altup_proj.weight", S, -1, "altup_proj", -1 },
    { "blk.1.laurel_l.weight", S, 1, "laurel_l", -1 },
    { "blk.1.inp_gate.weight", S, 1, "inp_gate", -1 },
    { "blk.1.layer_output_scale.weight", S, 1, "layer_output_scale", -1 },
    /* multi-token prediction */
    { "blk.61.nextn.eh_proj.weight", S, 61, "nextn.eh_proj", -1 },
    { "blk.61.nextn.enorm.weight", N, 61, "nextn.enorm", -1 },
    { "blk.61.nextn.hnorm.weight", N, 61, "nextn.hnorm", -1 },
    { "blk.61.nextn.shared_head_norm.weight", N, 61, "nextn.shared_head_norm", -1 },
    { "blk.61.nextn.embed_tokens.weight", E, 61, "nextn.embed_tokens", -1 },
    { "mtp.0.e_proj.weight", X, -1, "mtp.0.e_proj", -1 },
    /* vision, audio, projectors */
    { "v.patch_embd.weight", E, -1, "v.patch_embd", -1 },
    { "v.class_embd", E, -1, "v.class_embd", -1 },
    { "v.position_embd.weight", E, -1, "v.position_embd", -1 },
    { "v.blk.3.attn_out.weight", S, 3, "attn_out", -1 },
    { "v.blk.3.ffn_down.weight", O, 3, "ffn_down", -1 },
    { "v.blk.3.ln1.weight", N, 3, "ln1", -1 },
    { "v.blk.3.ls2.weight", N, 3, "ls2", -1 },
    { "v.post_ln.bias", N, -1, "v.post_ln.bias", -1 },
    { "a.blk.2.attn_q.weight", S, 2, "attn_q", -1 },
    { "mm.0.weight", X, -1, "mm.0", -1 },
    { "mm.input_norm.weight", N, -1, "mm.input_norm", -1 },
    { "resampler.attn.q.weight", X, -1, "resampler.attn.q", -1 },
    /* adapters */
    { "blk.0.attn_q.weight.lora_a", A, 0, "attn_q.weight.lora_a", -1 },
    { "blk.0.ffn_up.weight.lora_b", A, 0, "ffn_up.weight.lora_b", -1 },
    { "token_embd.weight.lora_a", A, -1, "token_embd.weight.lora_a", -1 },
    { "direction.5", A, -1, "direction.5", -1 },
    /* what looks like something and is not */
    { "blk.00.attn_q.weight", X, -1, "blk.00.attn_q", -1 },
    { "blk.-1.attn_q.weight", X, -1, "blk.-1.attn_q", -1 },
    { "blk.12345678901.attn_q.weight", X, -1, "blk.12345678901.attn_q", -1 },
    { "blk.x.attn_q.weight", X, -1, "blk.x.attn_q", -1 },
    { "blk.3", X, -1, "blk.3", -1 },
    { "blk.3.", X, 3, "", -1 },
    { "xblk.3.attn_q.weight", X, -1, "xblk.3.attn_q", -1 },
    { "blk.6.ffn_gate.07.weight", O, 6, "ffn_gate.07", -1 },
    { "blk.6.ffn_gate.1x.weight", O, 6, "ffn_gate.1x", -1 },
    { "outputs.weight", X, -1, "outputs", -1 },
    { "abnorm.weight", X, -1, "abnorm", -1 },
    { ".weight", X, -1, ".weight", -1 },
    { "weight", X, -1, "weight", -1 },
    { "", X, -1, "", -1 },
    { "Token_embd.weight", X, -1, "Token_embd", -1 },
};

/* Names with a part of their own, and of image and video models: the class, the part and
 * the block, or -1. All of them are known. */
static const struct family_row {
    const char *name;
    gg_class cls;
    gg_part part;
    int block;
    const char *role;
} family[] = {
#define TEXT GG_PART_TEXT
#define VIS GG_PART_VISION
#define AUD GG_PART_AUDIO
#define DIF GG_PART_DIFFUSION
    /* the same block number in five parts */
    { "blk.1.attn_q.weight", S, TEXT, 1, "attn_q" },
    { "v.blk.1.attn_q.weight", S, VIS, 1, "attn_q" },
    { "a.blk.1.attn_q.weight", S, AUD, 1, "attn_q" },
    { "enc.blk.1.attn_q.weight", S, GG_PART_ENCODER, 1, "attn_q" },
    { "dec.blk.1.attn_q.weight", S, GG_PART_DECODER, 1, "attn_q" },
    { "dec.output_norm.weight", N, GG_PART_DECODER, -1, "dec.output_norm" },
    /* vision and audio towers, projectors */
    { "v.norm_embd.weight", N, VIS, -1, "v.norm_embd" },
    { "v.patch_embd.weight.1", E, VIS, -1, "v.patch_embd.weight.1" },
    { "v.patch_embd.bias", E, VIS, -1, "v.patch_embd.bias" },
    { "v.patch_ln.weight", N, VIS, -1, "v.patch_ln" },
    { "v.backbone_ln.bias", N, VIS, -1, "v.backbone_ln.bias" },
    { "v.token_embd.img_break", E, VIS, -1, "v.token_embd.img_break" },
    { "v.image_newline", E, VIS, -1, "v.image_newline" },
    { "v.vision_pos_embed", E, VIS, -1, "v.vision_pos_embed" },
    { "v.deepstack.3.norm.weight", N, VIS, -1, "v.deepstack.3.norm" },
    { "v.deepstack.3.fc1.weight", X, VIS, -1, "v.deepstack.3.fc1" },
    { "v.blk.2.attn_post_norm.weight", N, VIS, 2, "attn_post_norm" },
    { "v.blk.2.3.attn.query.proj.weight", S, VIS, 2, "3.attn.query.proj" },
    { "v.blk.2.3.bn1.weight", N, VIS, 2, "3.bn1" },
    { "v.blk.2.3.layer_scale.gamma", N, VIS, 2, "3.layer_scale.gamma" },
    { "v.sam.blk.4.attn.qkv.weight", S, VIS, 4, "attn.qkv" },
    { "v.sam.blk.4.mlp.lin1.weight", O, VIS, 4, "mlp.lin1" },
    { "v.sam.blk.4.pre_ln.weight", N, VIS, 4, "pre_ln" },
    { "v.sam.patch_embd.weight", E, VIS, -1, "v.sam.patch_embd" },
    { "mm.soft_emb_norm.weight", N, VIS, -1, "mm.soft_emb_norm" },
    { "mm.post_norm.bias", N, VIS, -1, "mm.post_norm.bias" },
    { "mm.model.mlp.1.weight", X, VIS, -1, "mm.model.mlp.1" },
    { "mm.a.norm_pre.weight", N, AUD, -1, "mm.a.norm_pre" },
    { "mm.a.mlp.1.weight", X, AUD, -1, "mm.a.mlp.1" },
    { "resampler.ln_q.weight", N, VIS, -1, "resampler.ln_q" },
    { "resampler.ln_post.bias", N, VIS, -1, "resampler.ln_post.bias" },
    { "resampler.kv.weight", X, VIS, -1, "resampler.kv" },
    { "adapter.linear.norm1.weight", N, VIS, -1, "adapter.linear.norm1" },
    { "adapter.conv.weight", X, VIS, -1, "adapter.conv" },
    { "a.blk.7.norm_conv.weight", N, AUD, 7, "norm_conv" },
    { "a.blk.7.conv_norm.bias", N, AUD, 7, "conv_norm.bias" },
    { "a.blk.7.conv_pw1.weight", X, AUD, 7, "conv_pw1" },
    { "a.blk.7.pos_bias_u", S, AUD, 7, "pos_bias_u" },
    { "a.blk.7.ffn_up_1.weight", O, AUD, 7, "ffn_up_1" },
    { "a.conv1d.0.norm.weight", N, AUD, -1, "a.conv1d.0.norm" },
    { "a.position_embd.weight", E, AUD, -1, "a.position_embd" },
    /* importance matrices: the class of what was measured */
    { "blk.3.ffn_down.weight.in_sum2", O, GG_PART_IMATRIX, 3, "ffn_down.weight.in_sum2" },
    { "blk.3.attn_q.weight.counts", S, GG_PART_IMATRIX, 3, "attn_q.weight.counts" },
    { "output.weight.in_sum2", E, GG_PART_IMATRIX, -1, "output.weight.in_sum2" },
    { "blk.3.ffn_up_exps.weight.counts", O, GG_PART_IMATRIX, 3, "ffn_up_exps.weight.counts" },
    /* adapters */
    { "v.blk.3.attn_q.weight.lora_b", A, GG_PART_ADAPTER, 3, "attn_q.weight.lora_b" },
    { "direction.5", A, GG_PART_ADAPTER, -1, "direction.5" },
    /* Flux, Chroma, Flux 2 */
    { "double_blocks.18.img_attn.qkv.weight", S, DIF, 18, "img_attn.qkv" },
    { "double_blocks.18.txt_attn.proj.bias", S, DIF, 18, "txt_attn.proj.bias" },
    { "double_blocks.0.img_attn.norm.query_norm.scale", N, DIF, 0,
      "img_attn.norm.query_norm.scale" },
    { "double_blocks.0.img_mlp.0.weight", O, DIF, 0, "img_mlp.0" },
    { "double_blocks.0.txt_mlp.2.bias", O, DIF, 0, "txt_mlp.2.bias" },
    { "double_blocks.0.img_mod.lin.weight", X, DIF, 0, "img_mod.lin" },
    { "single_blocks.37.linear1.weight", X, DIF, 37, "linear1" },
    { "single_blocks.37.linear2.bias", X, DIF, 37, "linear2.bias" },
    { "single_blocks.37.modulation.lin.weight", X, DIF, 37, "modulation.lin" },
    { "single_blocks.37.norm.key_norm.scale", N, DIF, 37, "norm.key_norm.scale" },
    { "img_in.weight", E, DIF, -1, "img_in" },
    { "txt_in.bias", E, DIF, -1, "txt_in.bias" },
    { "time_in.in_layer.weight", E, DIF, -1, "time_in.in_layer" },
    { "vector_in.out_layer.weight", E, DIF, -1, "vector_in.out_layer" },
    { "guidance_in.in_layer.weight", E, DIF, -1, "guidance_in.in_layer" },
    { "final_layer.linear.weight", E, DIF, -1, "final_layer.linear" },
    { "final_layer.adaLN_modulation.1.weight", X, DIF, -1, "final_layer.adaLN_modulation.1" },
    { "distilled_guidance_layer.layers.2.in_layer.weight", X, DIF, 2, "in_layer" },
    { "distilled_guidance_layer.norms.1.scale", N, DIF, -1,
      "distilled_guidance_layer.norms.1.scale" },
    { "double_stream_modulation_img.lin.weight", X, DIF, -1, "double_stream_modulation_img.lin" },
    { "model.diffusion_model.double_blocks.3.img_attn.proj.weight", S, DIF, 3, "img_attn.proj" },
    /* SD3 */
    { "joint_blocks.23.x_block.attn.qkv.weight", S, DIF, 23, "x_block.attn.qkv" },
    { "joint_blocks.23.context_block.attn.ln_q.weight", N, DIF, 23, "context_block.attn.ln_q" },
    { "joint_blocks.2.context_block.mlp.fc1.weight", O, DIF, 2, "context_block.mlp.fc1" },
    { "joint_blocks.2.x_block.attn2.proj.weight", S, DIF, 2, "x_block.attn2.proj" },
    { "joint_blocks.2.x_block.adaLN_modulation.1.weight", X, DIF, 2, "x_block.adaLN_modulation.1" },
    { "x_embedder.proj.weight", E, DIF, -1, "x_embedder.proj" },
    { "t_embedder.mlp.0.weight", E, DIF, -1, "t_embedder.mlp.0" },
    { "y_embedder.mlp.2.bias", E, DIF, -1, "y_embedder.mlp.2.bias" },
    { "context_embedder.weight", E, DIF, -1, "context_embedder" },
    { "pos_embed", E, DIF, -1, "pos_embed" },
    /* SD1 and SDXL: UNets */
    { "input_blocks.0.0.weight", E, DIF, 0, "0" },
    { "input_blocks.1.0.in_layers.0.weight", N, DIF, 1, "0.in_layers.0" },
    { "input_blocks.1.0.in_layers.2.weight", X, DIF, 1, "0.in_layers.2" },
    { "input_blocks.1.0.emb_layers.1.weight", X, DIF, 1, "0.emb_layers.1" },
    { "input_blocks.1.1.transformer_blocks.0.attn1.to_q.weight", S, DIF, 1,
      "1.transformer_blocks.0.attn1.to_q" },
    { "input_blocks.1.1.transformer_blocks.0.attn2.to_out.0.bias", S, DIF, 1,
      "1.transformer_blocks.0.attn2.to_out.0.bias" },
    { "input_blocks.1.1.transformer_blocks.0.ff.net.0.proj.weight", O, DIF, 1,
      "1.transformer_blocks.0.ff.net.0.proj" },
    { "input_blocks.1.1.transformer_blocks.0.norm2.weight", N, DIF, 1,
      "1.transformer_blocks.0.norm2" },
    { "input_blocks.1.1.norm.weight", N, DIF, 1, "1.norm" },
    { "input_blocks.1.1.proj_in.weight", X, DIF, 1, "1.proj_in" },
    { "input_blocks.3.0.op.weight", X, DIF, 3, "0.op" },
    { "middle_block.1.transformer_blocks.0.attn1.to_k.weight", S, DIF, 1,
      "transformer_blocks.0.attn1.to_k" },
    { "output_blocks.5.0.skip_connection.weight", X, DIF, 5, "0.skip_connection" },
    { "output_blocks.5.0.out_layers.0.weight", N, DIF, 5, "0.out_layers.0" },
    { "output_blocks.5.0.out_layers.3.weight", X, DIF, 5, "0.out_layers.3" },
    { "time_embed.0.weight", E, DIF, -1, "time_embed.0" },
    { "label_emb.0.2.weight", E, DIF, -1, "label_emb.0.2" },
    { "out.0.weight", N, DIF, -1, "out.0" },
    { "out.2.weight", E, DIF, -1, "out.2" },
    { "model.diffusion_model.input_blocks.4.1.transformer_blocks.0.attn1.to_v.weight", S, DIF, 4,
      "1.transformer_blocks.0.attn1.to_v" },
    { "down_blocks.0.attentions.0.transformer_blocks.0.attn1.to_q.weight", S, DIF, 0,
      "attentions.0.transformer_blocks.0.attn1.to_q" },
    { "down_blocks.0.resnets.0.conv1.weight", X, DIF, 0, "resnets.0.conv1" },
    { "first_stage_model.decoder.conv_in.weight", X, DIF, -1, "first_stage_model.decoder.conv_in" },
    { "cond_stage_model.transformer.text_model.encoder.layers.3.self_attn.q_proj.weight", S,
      GG_PART_ENCODER, 3, "self_attn.q_proj" },
    { "cond_stage_model.transformer.text_model.encoder.layers.3.mlp.fc1.weight", O, GG_PART_ENCODER,
      3, "mlp.fc1" },
    { "cond_stage_model.transformer.text_model.encoder.layers.3.layer_norm1.weight", N,
      GG_PART_ENCODER, 3, "layer_norm1" },
    { "cond_stage_model.transformer.text_model.embeddings.token_embedding.weight", E,
      GG_PART_ENCODER, -1, "cond_stage_model.transformer.text_model.embeddings.token_embedding" },
    /* Wan */
    { "blocks.29.self_attn.q.weight", S, DIF, 29, "self_attn.q" },
    { "blocks.29.cross_attn.k_img.weight", S, DIF, 29, "cross_attn.k_img" },
    { "blocks.29.self_attn.norm_q.weight", N, DIF, 29, "self_attn.norm_q" },
    { "blocks.29.norm3.weight", N, DIF, 29, "norm3" },
    { "blocks.29.ffn.0.weight", O, DIF, 29, "ffn.0" },
    { "blocks.29.modulation", X, DIF, 29, "modulation" },
    { "patch_embedding.weight", E, DIF, -1, "patch_embedding" },
    { "text_embedding.2.weight", E, DIF, -1, "text_embedding.2" },
    { "time_projection.1.weight", E, DIF, -1, "time_projection.1" },
    { "img_emb.proj.0.weight", N, DIF, -1, "img_emb.proj.0" },
    { "img_emb.proj.1.weight", E, DIF, -1, "img_emb.proj.1" },
    { "head.head.weight", E, DIF, -1, "head.head" },
    { "head.modulation", X, DIF, -1, "head.modulation" },
    /* HunyuanVideo, as published and as ComfyUI renames it */
    { "double_blocks.2.img_attn_qkv.weight", S, DIF, 2, "img_attn_qkv" },
    { "double_blocks.2.img_attn_q_norm.weight", N, DIF, 2, "img_attn_q_norm" },
    { "double_blocks.2.img_mlp.fc1.weight", O, DIF, 2, "img_mlp.fc1" },
    { "double_blocks.2.img_mod.linear.weight", X, DIF, 2, "img_mod.linear" },
    { "single_blocks.2.q_norm.weight", N, DIF, 2, "q_norm" },
    { "txt_in.individual_token_refiner.blocks.1.self_attn_qkv.weight", S, DIF, 1, "self_attn_qkv" },
    { "txt_in.individual_token_refiner.blocks.1.self_attn.proj.bias", S, DIF, 1,
      "self_attn.proj.bias" },
    { "txt_in.individual_token_refiner.blocks.1.norm1.weight", N, DIF, 1, "norm1" },
    { "txt_in.individual_token_refiner.blocks.1.mlp.0.weight", O, DIF, 1, "mlp.0" },
    { "txt_in.individual_token_refiner.blocks.1.adaLN_modulation.1.bias", X, DIF, 1,
      "adaLN_modulation.1.bias" },
    { "txt_in.c_embedder.linear_2.weight", E, DIF, -1, "txt_in.c_embedder.linear_2" },
    { "img_in.proj.weight", E, DIF, -1, "img_in.proj" },
    /* HiDream, AuraFlow */
    { "double_stream_blocks.3.block.adaLN_modulation.1.weight", X, DIF, 3,
      "block.adaLN_modulation.1" },
    { "single_layers.7.attn.w1q.weight", S, DIF, 7, "attn.w1q" },
    { "modF.1.weight", X, DIF, -1, "modF.1" },
    /* Lumina 2, Z-Image */
    { "layers.25.attention.qkv.weight", S, DIF, 25, "attention.qkv" },
    { "layers.25.attention.out.weight", S, DIF, 25, "attention.out" },
    { "layers.25.attention.k_norm.weight", N, DIF, 25, "attention.k_norm" },
    { "layers.25.attention_norm1.weight", N, DIF, 25, "attention_norm1" },
    { "layers.25.ffn_norm2.weight", N, DIF, 25, "ffn_norm2" },
    { "layers.25.feed_forward.w1.weight", O, DIF, 25, "feed_forward.w1" },
    { "layers.25.adaLN_modulation.1.weight", X, DIF, 25, "adaLN_modulation.1" },
    { "noise_refiner.1.feed_forward.w3.weight", O, DIF, 1, "feed_forward.w3" },
    { "context_refiner.0.attention.qkv.weight", S, DIF, 0, "attention.qkv" },
    { "cap_embedder.0.weight", N, DIF, -1, "cap_embedder.0" },
    { "cap_embedder.1.weight", E, DIF, -1, "cap_embedder.1" },
    { "norm_final.weight", N, DIF, -1, "norm_final" },
    /* Qwen-Image */
    { "transformer_blocks.59.attn.to_q.weight", S, DIF, 59, "attn.to_q" },
    { "transformer_blocks.59.attn.add_k_proj.bias", S, DIF, 59, "attn.add_k_proj.bias" },
    { "transformer_blocks.59.attn.to_add_out.weight", S, DIF, 59, "attn.to_add_out" },
    { "transformer_blocks.59.attn.norm_added_q.weight", N, DIF, 59, "attn.norm_added_q" },
    { "transformer_blocks.59.img_mlp.net.0.proj.weight", O, DIF, 59, "img_mlp.net.0.proj" },
    { "transformer_blocks.59.txt_mod.1.weight", X, DIF, 59, "txt_mod.1" },
    { "txt_norm.weight", N, DIF, -1, "txt_norm" },
    { "time_text_embed.timestep_embedder.linear_1.weight", E, DIF, -1,
      "time_text_embed.timestep_embedder.linear_1" },
    { "norm_out.linear.weight", X, DIF, -1, "norm_out.linear" },
    { "proj_out.weight", E, DIF, -1, "proj_out" },
#undef TEXT
#undef VIS
#undef AUD
#undef DIF
};

#undef S
#undef O
#undef E
#undef N
#undef A
#undef X

static void table(void)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct row *r = &rows[i];
        gg_anatomy a = gg_anatomy_of(r->name, strlen(r->name));
        T_CHECKF(a.cls == r->cls, "%s is %s, not %s", r->name, gg_class_name(a.cls),
                 gg_class_name(r->cls));
        T_CHECKF(a.block == r->block, "%s: block %lld", r->name, (long long)a.block);
        T_CHECKF(a.expert == r->expert, "%s: expert %lld", r->name, (long long)a.expert);
        T_CHECKF(a.role_at + a.role_len <= strlen(r->name), "%s: role past the end", r->name);
        T_CHECKF(a.role_len == strlen(r->role) &&
                     memcmp(r->name + a.role_at, r->role, a.role_len) == 0,
                 "%s: role %.*s", r->name, (int)a.role_len, r->name + a.role_at);
        T_CHECK(a.mtp == (strstr(r->name, "nextn.") || strncmp(r->name, "mtp.", 4) == 0));
        T_CHECKF(a.stack == (strstr(r->name, "_exps.") && r->cls == GG_ORGAN), "%s: stack",
                 r->name);
        T_CHECKF(a.known || r->cls == GG_OTHER, "%s: unknown, yet of a class", r->name);
    }
    T_CHECK(sizeof rows / sizeof rows[0] >= 100);
}

static void families(void)
{
    for (size_t i = 0; i < sizeof family / sizeof family[0]; i++) {
        const struct family_row *r = &family[i];
        gg_anatomy a = gg_anatomy_of(r->name, strlen(r->name));
        T_CHECKF(a.cls == r->cls, "%s is %s, not %s", r->name, gg_class_name(a.cls),
                 gg_class_name(r->cls));
        T_CHECKF(a.part == r->part, "%s is of %s, not %s", r->name, gg_part_name(a.part),
                 gg_part_name(r->part));
        T_CHECKF(a.block == r->block, "%s: block %lld", r->name, (long long)a.block);
        T_CHECKF(a.role_len == strlen(r->role) &&
                     memcmp(r->name + a.role_at, r->role, a.role_len) == 0,
                 "%s: role %.*s", r->name, (int)a.role_len, r->name + a.role_at);
        T_CHECKF(a.known, "%s: unknown", r->name);
        T_CHECKF(!a.stack || a.part == GG_PART_TEXT, "%s: stack", r->name);
        for (size_t n = 0; n < strlen(r->name); n++) { /* nothing past the end is read */
            char *exact = malloc(n ? n : 1);
            if (!exact) exit(1);
            memcpy(exact, r->name, n);
            a = gg_anatomy_of(exact, n);
            T_CHECK(a.role_at + a.role_len <= n && a.part < GG_PART_COUNT);
            free(exact);
        }
    }
}

static void unknown_is_said(void)
{
    static const char *const unknown[] = { "blk.00.attn_q.weight", "weight", "", "blk.3.",
                                           "outputs.weight",       "foo.bar" };
    static const char *const known[] = { "rope_freqs.weight", "mm.0.weight",
                                         "blk.61.nextn.eh_proj.weight", "conv1d.weight",
                                         "fc.weight" };
    for (size_t i = 0; i < 6; i++)
        T_CHECKF(!gg_anatomy_of(unknown[i], strlen(unknown[i])).known, "%s", unknown[i]);
    for (size_t i = 0; i < 5; i++)
        T_CHECKF(gg_anatomy_of(known[i], strlen(known[i])).known, "%s", known[i]);
}

/* No prefix of any name is read past its end. */
static void prefixes(void)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (size_t n = 0; n <= strlen(rows[i].name); n++) {
            char *exact = malloc(n ? n : 1);
            if (!exact) exit(1);
            memcpy(exact, rows[i].name, n);
            gg_anatomy a = gg_anatomy_of(exact, n);
            T_CHECK(a.role_at + a.role_len <= n && a.cls < GG_CLASS_COUNT);
            free(exact);
        }
}

static void classes_have_names(void)
{
    static const char *const names[] = { "skeleton", "organ", "embed", "norm", "adapter", "other" };
    static const char *const folders[] = { "skeleton", "organs",   "embed",
                                           "norm",     "adapters", "other" };
    for (int i = 0; i < GG_CLASS_COUNT; i++) {
        gg_class c = GG_CLASS_COUNT;
        T_CHECK(strcmp(gg_class_name((gg_class)i), names[i]) == 0 &&
                strcmp(gg_class_folder((gg_class)i), folders[i]) == 0);
        T_CHECK(gg_class_by_name(names[i], strlen(names[i]), &c) && c == (gg_class)i);
        T_CHECK(gg_class_by_name(folders[i], strlen(folders[i]), &c) && c == (gg_class)i);
    }
    gg_class c;
    T_CHECK(!gg_class_by_name("", 0, &c) && !gg_class_by_name("orga", 4, &c) &&
            !gg_class_by_name("attnx", 5, &c));
    static const struct {
        const char *name;
        gg_class cls;
    } aliases[] = { { "attention", GG_SKELETON }, { "attn", GG_SKELETON },
                    { "ffn", GG_ORGAN },          { "embedding", GG_EMBED },
                    { "normalization", GG_NORM }, { "Organ", GG_ORGAN },
                    { "FFN", GG_ORGAN },          { "Attention", GG_SKELETON },
                    { "ADAPTERS", GG_ADAPTER } };
    for (size_t i = 0; i < sizeof aliases / sizeof aliases[0]; i++)
        T_CHECKF(gg_class_by_name(aliases[i].name, strlen(aliases[i].name), &c) &&
                     c == aliases[i].cls,
                 "%s", aliases[i].name);
    gg_part p;
    for (int i = 0; i < GG_PART_COUNT; i++) {
        const char *name = gg_part_name((gg_part)i);
        T_CHECK(gg_part_by_name(name, strlen(name), &p) && p == (gg_part)i);
    }
    T_CHECK(gg_part_by_name("Vision", 6, &p) && p == GG_PART_VISION);
    T_CHECK(!gg_part_by_name("visio", 5, &p) && !gg_part_by_name("", 0, &p));
}

static void other_blocks(void)
{
    static const struct {
        const char *name;
        int64_t block;
        const char *want;
    } t[] = { { "blk.3.attn_q.weight", 20, "blk.20.attn_q.weight" },
              { "blk.300.ffn_up.bias", 0, "blk.0.ffn_up.bias" },
              { "enc.blk.1.ffn_up.weight", 2, "enc.blk.2.ffn_up.weight" },
              { "v.blk.9.ln1.weight", 10, "v.blk.10.ln1.weight" },
              { "blk.6.ffn_gate.12.weight", 7, "blk.7.ffn_gate.12.weight" },
              { "blk.0.attn_q.weight.lora_a", 5, "blk.5.attn_q.weight.lora_a" },
              { "output.weight", 1, NULL },
              { "blk.00.x", 1, NULL } };
    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) {
        char out[64];
        size_t n = 0;
        bool ok = gg_name_with_block(t[i].name, strlen(t[i].name), t[i].block, out, sizeof out, &n);
        T_CHECKF(ok == (t[i].want != NULL), "%s", t[i].name);
        if (ok && t[i].want) T_CHECKF(strcmp(out, t[i].want) == 0 && n == strlen(out), "%s", out);
        for (size_t size = 0; ok && size <= n;
             size++) /* too small a place: false, nothing past it */
            T_CHECK(!gg_name_with_block(t[i].name, strlen(t[i].name), t[i].block, out, size,
                                        &(size_t){ 0 }));
    }
}

static gg_tensor tensor(const char *name, uint32_t dtype, uint32_t n, uint64_t a, uint64_t b,
                        uint64_t c)
{
    gg_tensor t = { .name = name,
                    .name_len = strlen(name),
                    .n_dims = n,
                    .dims = { a, b, c, 1 },
                    .dtype = dtype,
                    .offset = 1000,
                    .a = gg_anatomy_of(name, strlen(name)) };
    gg_error e = GG_ERROR_INIT;
    T_EQ(gg_tensor_extent(dtype, n, t.dims, &t.elements, &t.bytes, &e), GG_OK);
    return t;
}

static void stacks(void)
{
    gg_tensor t = tensor("blk.2.ffn_up_exps.weight", GG_Q8_0, 3, 64, 5, 8), e;
    uint64_t n = 0;
    char name[GG_RECORD_NAME + 1];
    T_CHECK(gg_is_expert_stack(&t, &n) && n == 8);
    uint64_t next = t.offset;
    for (uint64_t i = 0; i < 8; i++) {
        char want[64];
        snprintf(want, sizeof want, "blk.2.ffn_up.%d.weight", (int)i);
        T_CHECK(gg_expert_tensor(&t, n, i, &e, name) && strcmp(name, want) == 0 &&
                e.name_len == strlen(want));
        T_CHECK(e.n_dims == 2 && e.dims[0] == 64 && e.dims[1] == 5 && e.dims[2] == 1 &&
                e.bytes == 340 && e.elements == 320);
        T_CHECK(e.offset == next && gg_anatomy_of(e.name, e.name_len).expert == (int64_t)i);
        next += e.bytes;
    }
    T_CHECK(next == t.offset + t.bytes && !gg_expert_tensor(&t, n, 8, &e, name));
    gg_tensor bias = tensor("blk.2.ffn_up_exps.bias", GG_F32, 2, 5, 8, 1);
    T_CHECK(gg_is_expert_stack(&bias, &n) && n == 8 && gg_expert_tensor(&bias, n, 3, &e, name) &&
            strcmp(name, "blk.2.ffn_up.3.bias") == 0);
    gg_tensor no[] = { tensor("blk.2.ffn_up.weight", GG_F32, 2, 4, 8, 1),
                       tensor("ffn_up_exps.weight", GG_F32, 3, 4, 4, 2),
                       tensor("blk.2.ffn_norm_exps.weight", GG_F32, 2, 4, 4, 1),
                       tensor("blk.2.ffn_up_exps.weight", GG_F32, 1, 4, 1, 1),
                       tensor("blk.2.ffn_up_exps.weight", GG_F32, 3, 4, 4, 0),
                       tensor("blk.2.ffn_exps.weight", GG_F32, 3, 4, 4, 2),
                       tensor("blk.2.ffn_up_exps", GG_F32, 3, 4, 4, 2) };
    for (size_t i = 0; i < sizeof no / sizeof no[0]; i++)
        T_CHECKF(!gg_is_expert_stack(&no[i], &n), "case %zu", i);
    /* Whatever is a stack gets its name back from those of its experts. */
    static const char *const names[] = { "blk.2.ffn_gate_exps.scale", "blk.2.ffn_new_exps.weight",
                                         "blk.2.ffn__exps.weight", "blk.2.ffn_a.b_exps.bias",
                                         "blk.2.ffn_\034_exps.weight" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char stack[GG_RECORD_NAME + 8];
        size_t len = 0;
        t = tensor(names[i], GG_F32, 3, 4, 4, 12);
        T_CHECKF(gg_is_expert_stack(&t, &n) && gg_expert_tensor(&t, n, 11, &e, name) &&
                     gg_anatomy_of(name, e.name_len).expert == 11 &&
                     gg_stack_name(name, e.name_len, stack, sizeof stack, &len) &&
                     strcmp(stack, names[i]) == 0,
                 "case %zu", i);
    }
}

/* Every tensor that llama.cpp v0.5.0 asks for in any architecture. */
static void engine_names(void)
{
    char name[200], cls[20];
    size_t n = 0;
    FILE *f = fopen("tests/data/tensor-names.tsv", "r");
    T_CHECK(f != NULL);
    for (; f && fscanf(f, "%199s %19s", name, cls) == 2; n++) {
        gg_anatomy a = gg_anatomy_of(name, strlen(name));
        T_CHECKF(strcmp(gg_class_name(a.cls), cls) == 0, "%s is %s, not %s", name,
                 gg_class_name(a.cls), cls);
        T_CHECKF(a.known && a.cls != GG_OTHER && a.role_len > 0, "%s has no class or role", name);
    }
    T_CHECKF(n == 313, "%zu names", n);
    if (f) fclose(f);
}

static const t_case cases[] = {
    { "tensors of all architectures", engine_names },
    { "names of all families", table },
    { "families", families },
    { "what no rule knows is said to be unknown", unknown_is_said },
    { "no name is read past its end", prefixes },
    { "classes have names", classes_have_names },
    { "names with another block", other_blocks },
    { "stacks of experts", stacks },
};

T_MAIN(cases)
