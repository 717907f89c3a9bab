/* gg_lora.h - make a LoRA adapter from the difference of two models.
 *
 * The general rules of organ.h apply.
 */
#ifndef GG_LORA_H
#define GG_LORA_H

#include "organ/gg_organ.h"
#include "organ/gg_verbs.h"

GG_BEGIN_DECLS

/* A pair of the adapter. `kept` is the share of the squared difference that it holds, 0..1. */
typedef struct gg_lora_row {
    const char *name; /* of the base's tensor; not NUL-terminated */
    size_t name_len;
    uint64_t rows, cols, experts; /* experts is 1 unless the tensor is a stack */
    uint64_t rank;
    double kept;
} gg_lora_row;

typedef gg_status (*gg_lora_fn)(void *ctx, const gg_lora_row *row, gg_error *err);

typedef struct gg_lora_options {
    const gg_select *select; /* NULL = all */
    uint32_t rank;           /* at most that many per matrix; 0 = as many as `energy` needs */
    double energy;  /* share of the squared difference to keep; 0 without a rank = rank 32 */
    gg_lora_fn row; /* called for each pair in order before the file is complete */
    void *row_ctx;
} gg_lora_options;

typedef struct gg_lora_report {
    size_t pairs, equal, lost; /* tensors with a pair, without a difference, and left out */
    uint64_t largest;          /* largest rank */
    double kept;               /* share of the squared difference of the pairs' tensors */
    uint64_t bytes;            /* written */
} gg_lora_report;

/* Writes an adapter that turns `base` nearly into `tuned` as the GGUF file `output`; "-" is stdout.
 * The difference of each matrix, and of each expert of a stack, is cut after the leading singular
 * values. The file has F32 tensors X.lora_a and X.lora_b and adapter.lora.alpha, as llama.cpp
 * loads it. alpha is the rank that was asked for, or 32, and the factors are scaled so that
 * the adapter has its full effect at strength 1.
 *
 * The name of the base is recorded in general.base_model.0.name, a tensor that the adapter changes
 * in adapter.base.tensor, and the SHA-256 of its data in adapter.base.sha256.
 *
 * Tensors of the tuned model that the base does not have are noted before anything is computed,
 * and an adapter that is larger than the tuned model is noted. Tensors that differ but cannot be
 * part of an adapter are left out, and run->note names them: those that are not matrices, and
 * token_embd.weight of a model without output.weight, because engines multiply by it too and
 * adapters for it have another form.
 *
 * Both models are seekable, with the same architecture. Matrices are held as floats one at a time:
 * 4 bytes per value of the largest one, and the factors. Results do not depend on run->threads.
 * Errors: GG_NO if nothing is selected, if no selected matrix differs, if a selected tensor is
 * missing in one model or has other dims there; GG_EUNSUPPORTED for a dtype that cannot be decoded;
 * GG_EFORMAT for values that are not finite and for models without keys; GG_EUSAGE for a wrong
 * option and for an output that is one of the models. */
gg_status gg_lora_extract(gg_source *base, gg_source *tuned, const gg_lora_options *o,
                          const char *output, const gg_run *run, gg_lora_report *report,
                          gg_error *err);

GG_END_DECLS

#endif
