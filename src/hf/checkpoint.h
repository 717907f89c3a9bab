/* checkpoint.h - Hugging Face checkpoints, safetensors files and PEFT adapters as models with GGUF
 * names, shapes and keys. Internal.
 *
 * Opening reads only headers. Values are read and moved when they are asked for: at most a few MiB
 * at a time, or one tensor as stored if it is transposed.
 */
#pragma once

#include "base/buf.h"
#include "base/io.h"
#include "base/text_index.h"
#include "gguf/gguf.h"
#include "hf.h"
#include "hf_fields.h"
#include "hf_files.h"
#include "organ/gg_organ.h"
#include "safetensors.h"

/* Elements of a stored tensor that become a part of a tensor of the model. */
typedef struct gg_ck_piece {
    uint32_t in;    /* index in gg_checkpoint.in */
    int64_t expert; /* -1 = none */
    uint64_t start; /* its first element in the tensor of the model */
    uint64_t n;
    gg_hf_view view;
} gg_ck_piece;

/* How each value changes: x + 1 and -exp(x), and their inverses. */
typedef enum gg_ck_op {
    GG_CK_NONE,
    GG_CK_PLUS_ONE,
    GG_CK_NEG_EXP,
    GG_CK_MINUS_ONE,
    GG_CK_LOG_NEG,
} gg_ck_op;

double gg_ck_change(gg_ck_op op, double x);

/* How a tensor of the model is made. */
typedef struct gg_ck_tensor {
    gg_ck_piece *pieces;
    size_t n_pieces;
    float *values; /* of a tensor that is made from config.json; otherwise NULL */
    gg_ck_op op;
    bool wide;      /* the values are F64, because F32 would lose bits that gg_ck_change needs */
    float times;    /* each value times this; 0 = not */
    uint32_t shape; /* n_dims and dims of one piece, row-major */
    uint64_t dims[GG_HF_AXES];
    const char *hf_name; /* for errors: the first stored tensor */
} gg_ck_tensor;

/* An open safetensors file. */
typedef struct gg_ck_file {
    char *path;
    int fd;
    gg_stamp stamp;
} gg_ck_file;

typedef struct gg_checkpoint {
    gg_gguf header; /* keys and tensors, as if from a GGUF file without data */
    bool has_keys;
    gg_ck_tensor *made; /* one for each tensor of the header */
    size_t cap;
    gg_text_index names_made; /* of the tensors, while they are listed */
    gg_names names;
    gg_ck_file *files;
    size_t n_files;
    gg_ck_file *others; /* what else it may have read, with stamps from before it was; fd is -1 */
    size_t n_others;
    gg_st_list in;                /* all stored tensors, file after file */
    const gg_st_tensor **by_name; /* sorted */
    char arch[64];                /* of a model, with what its stored names mean */
    gg_hf_match *match;
    const gg_st_tensor *head, *embeddings; /* NULL if there is none */
    gg_json *config; /* config.json, or that of an adapter; NULL if there is none */
    gg_hf_form form;
    bool adapter;
    bool may_store;    /* `stored` is allowed also where it is a conversion that fails */
    bool stored;       /* tensors have their stored names and types, and keys are __metadata__ */
    gg_error refusal;  /* why they are not those of GGUF, if `stored` */
    uint64_t block[2]; /* rows and columns that share a scale of F8 values; 0 = not stated */
    char *notes;       /* about the model as a whole: see gg_source_remarks */
    size_t file_notes; /* length of those about the files, which are true of any view */
    char *doubt;       /* the first of them that a strict run refuses; NULL = none */
    char note[256];    /* about the text of `beside`; "" = none */
    gg_error no_tokenizer;          /* why its tokenizer has not become keys; else GG_OK */
    bool scales, looked_for_scales; /* F8 tensors have scales */
    bool guessed;                   /* the size of the blocks of these scales was not stated */
    bool all_f32;                   /* every tensor becomes F32 */
    bool any_type;                  /* the tensors may be integers: they are not converted */
    /* Of a model that is written: gg_decode, for tensors that are stored in blocks. */
    gg_status (*decode)(uint32_t dtype, const void *blocks, float *out, size_t n, gg_error *err);
    /* Of a model that is written: what belongs beside its files, the name of that file, and the
     * GGUF names of the tensors in their order, one per line. */
    char *beside, *order;
    const char *beside_name;
} gg_checkpoint;

/* Whether the path is a safetensors file, its index, or a folder with config.json or
 * adapter_config.json and without a manifest.json. If that cannot be found out, err has the reason.
 */
bool gg_is_checkpoint(const char *path, gg_error *err);

/* Opens it with the options that are for checkpoints and adapters. Errors: GG_EUNSUPPORTED for a
 * class that is not covered, a tensor that it should not have, and types without a meaning here;
 * GG_EFORMAT for malformed files; GG_EIO; GG_ENOMEM. */
gg_status gg_checkpoint_open(const char *path, const gg_source_options *o, gg_checkpoint **out,
                             gg_error *err);
void gg_checkpoint_close(gg_checkpoint *ck); /* accepts NULL */

/* The kind of source that opens them (source_checkpoint.c). */
struct gg_source_kind;
extern const struct gg_source_kind gg_source_checkpoint;

/* A source of these tensors. It owns the checkpoint, also if it cannot be made. */
gg_status gg_source_of_checkpoint(gg_checkpoint *ck, const char *name, gg_source **out,
                                  gg_error *err);

/* The scales of a stored F8 tensor, or NULL. */
const gg_st_tensor *gg_ck_scale_of(const gg_checkpoint *ck, const gg_st_tensor *t);

/* How many rows (axis 0) or columns (1) of n share a scale if there are so many blocks: as
 * config.json states, or 128; or else the power of two that gives so many, or equal parts, and
 * *guessed becomes true. 0 if none does. */
uint64_t gg_ck_block_size(const gg_checkpoint *ck, int axis, uint64_t n, uint64_t blocks,
                          bool *guessed);

/* ---- for adapters (peft.c) ------------------------------------------------------------------ */

/* The tensor of that name, which has no pieces if it is new; NULL without memory. Valid until the
 * next call. */
gg_ck_tensor *gg_ck_tensor_named(gg_checkpoint *ck, const char *name, size_t len, gg_error *err);
/* Whether the model has a tensor of that name. Needs gg_ck_finish. */
bool gg_ck_has(const gg_checkpoint *ck, const char *name);
/* Drops those that have stayed new, when all tensors are named. */
void gg_ck_drop_empty(gg_checkpoint *ck);
/* Adds a piece. Errors: those of gg_ck_check_type; GG_ENOMEM. */
gg_status gg_ck_add_piece(const gg_checkpoint *ck, gg_ck_tensor *t, const gg_ck_piece *piece,
                          gg_error *err);
/* Refuses a stored tensor whose values cannot be read, or are integers and no weights.
 * gg_ck_add_piece calls it, so that no tensor of the model is made of one. */
gg_status gg_ck_check_type(const gg_checkpoint *ck, const gg_st_tensor *in, gg_error *err);
/* Adds the elements of a stored tensor that `move` takes. The first ones give *t its shape. */
gg_status gg_ck_add_moved(const gg_checkpoint *ck, gg_ck_tensor *t, const gg_st_tensor *in,
                          int64_t expert, const gg_hf_move *move, gg_error *err);

/* Adds the files of the folder that may be read beside weights to ck->others. */
gg_status gg_ck_list_beside(gg_checkpoint *ck, const char *folder, gg_error *err);
/* Adds all files of another checkpoint to ck->others. */
gg_status gg_ck_list_other(gg_checkpoint *ck, const gg_checkpoint *other, gg_error *err);

/* Takes an open file; fd is -1 if err has the reason why it is not open. */
gg_status gg_ck_add_file(gg_checkpoint *ck, const char *path, int fd, gg_error *err);

/* The stored tensor of that name, or NULL. */
const gg_st_tensor *gg_ck_stored(const gg_checkpoint *ck, const char *name);

/* Adds a note. A doubt is one about something that was left out or not understood. */
gg_status gg_ck_note(gg_checkpoint *ck, bool doubt, gg_error *err, const char *fmt, ...)
    GG_PRINTF(4, 5);

/* Compares the fields of a JSON file with their table; notes those that no row fits. */
gg_status gg_ck_check_fields(gg_checkpoint *ck, const gg_fields *f, const gg_json_node *root,
                             gg_error *err);

/* Sets *same to whether two stored tensors have the same type and bytes. */
gg_status gg_ck_same_values(const gg_checkpoint *ck, const gg_st_tensor *a, const gg_st_tensor *b,
                            bool *same, gg_error *err);

gg_status gg_ck_no_room(gg_error *err);

/* Gives all tensors their shapes, types and offsets. With f32_rules some are always F32. */
gg_status gg_ck_finish(gg_checkpoint *ck, bool f32_rules, gg_error *err);

/* Fails because of a stored tensor; `fix` says what to do, or is NULL. */
gg_status gg_ck_refuse(const gg_checkpoint *ck, const gg_st_tensor *t, gg_status status,
                       const char *fix, gg_error *err, const char *fmt, ...) GG_PRINTF(6, 7);

/* The base that a configuration names, as a path; "" if there is none, or its name is longer. */
#define GG_PEFT_BASE 1024
void gg_peft_base(const gg_json_node *config, bool mlx, char path[GG_PEFT_BASE]);

/* Makes the tensors of an adapter, whose file is open. `config` is NULL or
 * adapter_config.json. */
gg_status gg_peft_open(gg_checkpoint *ck, const char *folder, const gg_json_node *config,
                       const gg_source_options *o, gg_error *err);

/* Adds the keys that adapter_config.json gives an adapter under its stored names. */
gg_status gg_peft_stored_keys(gg_checkpoint *ck, const gg_json_node *config, gg_error *err);

/* The class that config.json names; NULL if it fails. *by_type tells that it names none, so that
 * model_type has decided. */
const gg_hf_class *gg_ck_class(const gg_json_node *config, bool *by_type, gg_error *err);
/* The keys of config.json. */
gg_status gg_ck_keys(const gg_json_node *config, const gg_hf_class *class, const char *folder,
                     gg_meta *meta, gg_error *err);
