/* hf_write.h - what hf_write.c and hf_config.c share. Internal. */
#pragma once

#include "base/float_bits.h"
#include "checkpoint.h"

/* A module of PEFT that has a pair. */
typedef struct gg_hf_module {
    const char *name;
    uint64_t rank;
} gg_hf_module;

typedef struct gg_hf_writer {
    gg_checkpoint *ck;
    gg_source *s;
    const gg_source *base; /* of an adapter; NULL for a model */
    gg_st_type decoded;    /* the type that quantized tensors get */
    char arch[64];
    gg_hf_sizes sizes;
    int64_t trunk; /* the number of the first prediction block */
    bool *done;    /* tensors that are written, as a part of an array */
    bool fan_in_fan_out;
    gg_names names;
    gg_hf_module *modules; /* malloc'd */
    size_t n_modules, cap_modules;
} gg_hf_writer;

gg_status gg_hf_add_module(gg_hf_writer *w, const char *name, uint64_t rank, gg_error *err);

/* Makes config.json or adapter_config.json in w->ck->beside. What config.json cannot say is in
 * w->ck->note. */
gg_status gg_hf_model_config(gg_hf_writer *w, gg_error *err);
gg_status gg_hf_adapter_config(gg_hf_writer *w, gg_error *err);
