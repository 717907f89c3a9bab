/* check_context.h - what all rules of a check share: the model's keys and tensors with indices,
 * and the functions that report findings.
 * Internal.
 */
#pragma once

#include "arch/design.h"
#include "check_output.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A condition on keys, of rules.txt. */
typedef struct check_limit {
    const char *group;
    gg_check_level level;
    const char *rule, *key;
    bool otherwise; /* only if no rule before it was broken */
    const char *traits, *condition, *text;
} check_limit;

/* The requirements of a type of projector, see projectors.txt. */
typedef struct check_projector {
    const char *types, *needs;
    const char *output; /* "" if the width of the output is not known */
    unsigned side;
    bool blocks;
} check_projector;

typedef struct check_kind_word {
    const char *key, *value;
    gg_kind kind;
} check_kind_word;

typedef struct check {
    const gg_check_options *o;     /* who gets the findings */
    size_t found[GG_CHECK_LEVELS]; /* number of findings */
    gg_status status;              /* first failure of o->row or of a rule, or GG_OK */
    gg_error *err;
    bool of_file; /* it is a file: tell its kind, and what was not checked */
    /* What the report tells. */
    gg_kind kind;
    size_t tensors;
    char architecture[64];
    gg_check_level worst_level;
    char worst[320], unchecked[200];
    /* The rest is for the rules on keys and tensors. */
    const gg_check_input *in;
    gg_design d;         /* what the keys tell */
    size_t *by_name;     /* tensor indices, sorted by name */
    bool *expected;      /* per tensor: it is in the record of the architecture */
    const gg_arch *arch; /* the record, if it has tensors; else NULL */
    bool text_model;     /* of kind model or draft head, and no diffusion model */
} check;

/* ---- findings: check_context.c ------------------------------------------------------------ */

/* The place of a finding. */
typedef struct check_place {
    const char *name; /* NULL = own */
    size_t len;
    char own[200];
} check_place;

/* "" = the whole model. */
static inline check_place at_name(const char *name)
{
    return (check_place){ .name = name, .len = strlen(name) };
}
static inline check_place at_key(const gg_kv *kv)
{
    return (check_place){ .name = kv->key, .len = kv->key_len };
}
static inline check_place at_tensor(const gg_tensor *t)
{
    return (check_place){ .name = t->name, .len = t->name_len };
}
static inline check_place at_block(int64_t block)
{
    check_place p = { .name = NULL };
    p.len = (size_t)snprintf(p.own, sizeof p.own, "block %" PRId64, block);
    return p;
}
/* "ARCH.NAME"; of "/NAME" the name alone. */
check_place gg_check_at_key(const check *c, const char *name);

/* Reports a finding, escaped. Does nothing if c->status is set. */
void gg_check_say(check *c, gg_check_level level, const char *rule, check_place where,
                  const char *fmt, ...) GG_PRINTF(5, 6);
#define say_error(c, ...) gg_check_say(c, GG_CHECK_ERROR, __VA_ARGS__)
#define say_warning(c, ...) gg_check_say(c, GG_CHECK_WARNING, __VA_ARGS__)
#define say_note(c, ...) gg_check_say(c, GG_CHECK_NOTE, __VA_ARGS__)
/* The same with a finding whose texts are escaped already. */
void gg_check_report_finding(check *c, const gg_finding *f);
/* Tells that rules for this file were not applied, and why: a note of the rule "unchecked". */
void gg_check_unchecked(check *c, const char *fmt, ...) GG_PRINTF(2, 3);

/* ---- look-ups: check_context.c ------------------------------------------------------------ */

/* Makes the indices. They end with gg_check_close, also after an error. */
gg_status gg_check_open(check *c);
/* Sets kind, arch and text_model. */
void gg_check_find_architecture(check *c);
void gg_check_close(check *c);

/* The index of a tensor, or SIZE_MAX if it is absent. */
size_t gg_check_find(const check *c, const char *name, size_t name_len);
/* The same, or NULL. */
const gg_tensor *gg_check_tensor(const check *c, const char *name);

void gg_check_shape_text(uint32_t n, const uint64_t *dims, char *out, size_t size);

/* Applies the conditions on keys of a group. */
void gg_check_limits(check *c, const char *group);

/* ---- tables: made of rules.txt ----------------------------------------------------------------
 */

/* Each ends with NULL. */
extern const check_limit gg_check_limit_rows[];
extern const check_kind_word gg_check_kind_words[];
extern const check_projector gg_check_projectors[];
extern const gg_check_rule gg_check_rule_list[];
/* Lists of words. */
extern const char gg_check_contradictions[], gg_check_pre_tokenizers[], gg_check_only_f32[],
    gg_check_tokenizers[], gg_check_bpe[], gg_check_merging[], gg_check_no_merges[],
    gg_check_chat_starts[], gg_check_chat_ends[], gg_check_named[], gg_check_named_tokens[],
    gg_check_above_0[], gg_check_from_0[], gg_check_finite[];

/* ---- rules: each function checks the whole model ------------------------------------------- */

void gg_check_file_rules(check *c);       /* check_header.c: for every kind of file */
void gg_check_key_rules(check *c);        /* check_header.c */
void gg_check_vocabulary_rules(check *c); /* check_header.c */
void gg_check_table_rules(check *c);      /* check_tensors.c: compares with the table */
void gg_check_block_rules(check *c);      /* check_tensors.c: compares the blocks */

/* check_header.c: the layer N of a tensor direction.N of a control vector, from 1; 0 if it has
 * another name. */
uint64_t gg_check_direction_layer(const gg_tensor *t);

/* check_projector.c: rules for projectors. */
void gg_check_projector_rules(check *c);
/* The tensor *i that has the width of the output for a part ("vision"), and the width; *i is
 * SIZE_MAX if that is not known. Returns false if the projector does not have the part. */
bool gg_check_projector_output(const check *c, const char *part, size_t *i, uint64_t *width);
/* Checks a draft head without its target. */
void gg_check_head_rules(check *c);
/* The same for its data, with its own vocabulary, which is that of its target. */
gg_status gg_check_head_data(check *c, gg_source *s);
/* Compares a draft model with the model for which it drafts, the source `spec`. */
gg_status gg_check_target(check *head, gg_source *s, const char *spec);

/* check_data.c: reads all tensors and reports problems with their values. Of `c` only the part for
 * findings is used. */
gg_status gg_check_data(check *c, gg_source *s, const gg_run *run);
