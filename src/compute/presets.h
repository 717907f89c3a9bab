/* presets.h - the tables that are made of presets.txt. Internal. */
#pragma once

#include "organ/gg_quant.h"
#include "organ/gg_verbs.h"

typedef struct gg_preset_kind {
    bool whole; /* the part is the whole name */
    const char *part, *kind;
} gg_preset_kind;

/* Kinds and presets are words with "|" between them, conditions have "&". */
typedef struct gg_preset_rule {
    const char *kinds, *when, *presets;
    uint32_t dtype;
} gg_preset_rule;

typedef struct gg_type_shorter {
    uint32_t dtype, instead;
} gg_type_shorter;

extern const gg_preset gg_presets[];
extern const gg_preset_kind gg_preset_kinds[];
extern const gg_preset_rule gg_preset_rules[];
extern const gg_type_shorter gg_types_shorter[];
extern const char *const gg_delicate_parts[], *const gg_delicate_image_parts[],
                                                  *const gg_delicate_image_blocks[];
extern const size_t gg_presets_n, gg_preset_kinds_n, gg_preset_rules_n, gg_types_shorter_n,
    gg_delicate_parts_n, gg_delicate_image_parts_n, gg_delicate_image_blocks_n;

/* clang-format off */
#define PRESET(name, file_type, dtype) { #name, file_type, GG_##dtype }
#define KIND(how, part, kind) { #how[0] == 'w', #part, #kind }
#define RULE(kinds, when, presets, dtype) { #kinds, #when, #presets, GG_##dtype }
#define SHORTER(dtype, instead) { GG_##dtype, GG_##instead }
/* clang-format on */
