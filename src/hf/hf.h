/* hf.h - Hugging Face checkpoints in terms of GGUF: classes, keys, names, and how values move.
 * Internal.
 *
 * Nothing here reads tensors. The tables are in hf_tables.txt; hf.c interprets them.
 */
#pragma once

#include "base/buf.h"
#include "organ/gg_gguf.h"
#include "json/json.h"

/* ---- the tables --------------------------------------------------------------------------- */

/* A model class of config.json and the GGUF architecture that it becomes. */
typedef struct gg_hf_class {
    const char *name;       /* "LlamaForCausalLM" */
    const char *arch;       /* "llama" */
    const char *model_type; /* in config.json; NULL = the class is only read, not written */
    const char *when;       /* it is written if the model has this key, not 0; NULL = always */
} gg_hf_class;

/* Where a key comes from. `value` is a list of alternatives, of which the first that config.json
 * can give is taken: an expression of fields, numbers and * / + -, evaluated from left to right, or
 * 'text', or a list of names of which `one of` the fields has one. */
typedef struct gg_hf_key {
    const char *archs; /* architectures that have it; "!..." = all but these; NULL = all */
    const char *key;   /* without the architecture */
    uint32_t type;     /* a gg_type */
    const char *value;
    const char *same; /* the alternatives that mean the same: those before the word `else` */
} gg_hf_key;

/* A tensor name. In `hf` and `gguf`, "L." and "B." stand for the block, and E for an expert. The
 * prefixes of models (model., transformer. and others) and the endings .weight and .bias are left
 * out; a name that has neither is written in full, and so is then its GGUF name. A tensor for
 * which several rows in a row have the same name becomes several tensors. */
typedef struct gg_hf_name {
    const char *archs; /* NULL = all */
    const char *hf;
    const char *gguf; /* "-" = the tensor is not part of the model */
    const char *ops;  /* how values move, see gg_hf_views; NULL = not at all */
} gg_hf_name;

/* A field of config.json that is written for other programs: the value of a key, divided by that of
 * another (`by`, or NULL); or, as a flag, whether a tensor exists, with `by` as in the table. */
typedef struct gg_hf_field_row {
    const char *archs, *field, *from, *by;
} gg_hf_field_row;

/* Traits of architectures that the code asks for: the rows "trait" of hf_tables.txt, which explain
 * them.
 */
typedef enum gg_hf_trait {
    GG_HF_PLUS_ONE,
    GG_HF_IN_TRANSFORMER,
    GG_HF_IN_BACKBONE,
    GG_HF_IN_GPT_NEOX,
    GG_HF_COPIED_HEAD,
    GG_HF_NO_HEAD,
    GG_HF_TIED,
    GG_HF_SPARE_ROWS,
    GG_HF_DROPS_PREDICTIONS,
    GG_HF_PREDICTIONS,
    GG_HF_LINEAR_BLOCKS,
    GG_HF_WINDOWS,
    GG_HF_WINDOW_6,
    GG_HF_WINDOW_2,
    GG_HF_SAME_WINDOWS,
    GG_HF_LONG_ROPE,
    GG_HF_LLAMA3_ROPE,
    GG_HF_ROPE_SECTIONS,
    GG_HF_FIXED_SCALING,
    GG_HF_SIGMOID_ROUTER,
    GG_HF_ADDED_TOKENS,
    GG_HF_END_OF_TURN_107,
    GG_HF_CODE_VOCABULARIES,
    GG_HF_NO_BEGIN,
    GG_HF_NO_SPACE_PREFIX,
    GG_HF_STATES_SPACE_PREFIX,
    GG_HF_OWN_MERGES,
    GG_HF_TRAITS
} gg_hf_trait;

extern const char *const gg_hf_traits[]; /* the architectures of each */

/* Tensors whose names begin so belong to a part of the model, named in words, that is not its
 * language model. */
typedef struct gg_hf_part {
    const char *start, *name;
} gg_hf_part;

/* Lists of words, of which the rows "words" of hf_tables.txt say what they are. */
extern const char gg_hf_prefixes[], gg_hf_blocks[], gg_hf_beside_weights[], gg_hf_always_f32[],
    gg_hf_pair_ends[];

extern const gg_hf_part gg_hf_parts[];                      /* the last has no start */
extern const gg_hf_class gg_hf_classes[];                   /* the last has no name */
extern const gg_hf_key gg_hf_keys[];                        /* the last has no key */
extern const gg_hf_key gg_hf_yarn_keys[];                   /* of rope scaling */
extern const gg_hf_name gg_hf_names[];                      /* the last has no hf */
extern const gg_hf_field_row gg_hf_fields[], gg_hf_flags[]; /* the last has no field */

/* Whether a name is longer than one of these ends, and ends so. */
bool gg_hf_ends_with(const char *ends, const char *name, size_t len);

/* Whether a list of architectures, as in the tables, has this one. */
bool gg_hf_has(const char *archs, const char *arch);
bool gg_hf_is(const char *arch, gg_hf_trait trait);

/* The class with that name, or NULL. */
const gg_hf_class *gg_hf_class_find(const char *name, size_t len);

/* Sets the architecture among the keys, "" if there is none. Returns whether a class has it. */
bool gg_hf_arch(const gg_meta *meta, char arch[64]);

/* ---- keys --------------------------------------------------------------------------------- */

/* A field of config.json. With "text_config", its members come before those of the root. `path` may
 * have one dot: "rope_scaling.factor". rope_parameters, which later versions of transformers write,
 * is found under the names that earlier ones used: rope_scaling.NAME, rope_theta,
 * partial_rotary_factor and rope_local_base_freq. NULL if it is absent or null. */
const gg_json_node *gg_hf_field(const gg_json_node *config, const char *path);

/* Changes the path of a field within rope_parameters to the name that gg_hf_field takes. */
void gg_hf_old_path(char *path, size_t size);
bool gg_hf_is_rope_object(const char *path); /* rope_parameters and the objects in it */

/* The value as a text for people: escaped, and cut if it is long. */
void gg_hf_value_text(const gg_json_node *node, char out[80]);

/* Lists fields that should have the same value and do not: those of rotary positions that are
 * stated in two places, and several fields of which the same key can be made. */
gg_status gg_hf_contradictions(const gg_json_node *config, const char *arch, gg_buf *to,
                               gg_error *err);

/* Sets the keys of the architecture that config.json gives. */
gg_status gg_hf_make_keys(const gg_json_node *config, const char *arch, gg_meta *meta,
                          gg_error *err);

/* The number that the `value` of a gg_hf_key gives with this config.json; false if none. */
bool gg_hf_value(const gg_json_node *config, const char *text, double *value);

/* Makes rope_freqs.weight for rope scaling of type llama3: *n malloc'd factors in *out, or none. */
gg_status gg_hf_rope_freqs(const gg_json_node *config, float **out, size_t *n, gg_error *err);

/* Exponential function and natural logarithm of positive finite numbers, with the same bits on
 * every machine. */
double gg_hf_exp(double x);
double gg_hf_log(double x);

/* ---- names -------------------------------------------------------------------------------- */

#define GG_HF_NAME 128

typedef struct gg_hf_match {
    const gg_hf_name *rule; /* NULL = unknown name */
    int64_t block, expert;  /* -1 = none */
    bool mtp;               /* `block` is counted from the first prediction block */
    const char *ending;     /* ".weight", ".bias" or "" */
    const char *part;       /* what it belongs to if not to the language model, in words; or NULL */
} gg_hf_match;

/* Finds the row for a tensor name. */
gg_hf_match gg_hf_find(const char *arch, const char *name, size_t len);

/* The next row for the same name, or NULL. */
const gg_hf_name *gg_hf_further(const gg_hf_name *rule);

/* Writes the GGUF name that the rule gives a matched tensor; false if it does not fit. */
bool gg_hf_gguf_name(const gg_hf_name *rule, const gg_hf_match *m, char out[GG_HF_NAME]);

/* Whether one is added to a norm of that name. */
bool gg_hf_is_plus_one(const char *arch, const char *name, size_t len);

/* Whether the tensor of that GGUF name is always F32 in GGUF files. */
bool gg_hf_is_f32(const char *name, uint32_t n_dims);

/* ---- movement of values ------------------------------------------------------------------- */

#define GG_HF_AXES 8
#define GG_HF_VIEWS 3

/* Elements of a row-major array in another order: axis i has count[i] items that are step[i]
 * elements apart; the first element is `first`. */
typedef struct gg_hf_view {
    uint32_t n;
    uint64_t first, count[GG_HF_AXES], step[GG_HF_AXES];
    uint8_t origin[GG_HF_AXES]; /* axis of the array that it is a part of */
} gg_hf_view;

uint64_t gg_hf_view_elements(const gg_hf_view *v);

/* What becomes of a tensor: its views one after another, each value changed. */
typedef struct gg_hf_move {
    gg_hf_view view[GG_HF_VIEWS];
    uint32_t n_views;
    bool neg_exp; /* y = -exp(x) */
    uint32_t n_dims;
    uint64_t dims[GG_HF_AXES]; /* row-major */
} gg_hf_move;

/* Sizes that words of `ops` name. */
typedef struct gg_hf_sizes {
    uint64_t heads, kv, nope, value, groups, key_heads, value_heads, key_dim, value_dim, vocab;
} gg_hf_sizes;

/* Takes them from the keys of a model; those that are absent are 0. */
gg_hf_sizes gg_hf_sizes_of(const gg_meta *meta);

/* Applies `ops` to an array with these row-major dims. Returns false if they do not fit. The words,
 * applied from left to right to the axes as they are then:
 *     cutK:a,b,c   cuts axis K into axes of these sizes; * is the size that is left
 *     swapJ,K      exchanges two axes
 *     takeK:f,n    takes n items of axis K from f on
 *     halfK:i      takes the first or second half of axis K
 *     squeeze      removes axes of length 1
 *     keep         keeps all axes; without it those that were cut from one axis are joined again
 *     exp          y = -exp(x)
 *     +            another view of the same array follows in the first axis
 * Sizes are numbers or words of the table in hf.c. */
bool gg_hf_views(const char *ops, const gg_hf_sizes *sizes, uint32_t n_dims, const uint64_t *dims,
                 gg_hf_move *out);

/* Sets what moves the halves of a LoRA pair where `ops` moves the matrix: its columns are those of
 * lora_A, its rows those of lora_B. That of an embedding is stored transposed, and the pair of a
 * Conv1D (swap0,1) is not. Returns whether columns move. */
bool gg_hf_pair_ops(const char *ops, bool embedding, const char **a, const char **b);
