/* hf_files.h - which files of a folder are those of a checkpoint or adapter. Internal. */
#pragma once

#include "json/json.h"

#define GG_HF_INDEX "model.safetensors.index.json"
#define GG_HF_CONFIG "config.json"
#define GG_HF_ADAPTER_CONFIG "adapter_config.json"
#define GG_HF_MISTRAL "params.json" /* what Mistral has in place of config.json */

/* What a folder holds. */
typedef enum gg_hf_form {
    GG_HF_NOTHING,
    GG_HF_MODEL, /* a checkpoint */
    GG_HF_PEFT,  /* an adapter of PEFT */
    GG_HF_MLX,   /* an adapter of MLX */
    GG_HF_FILE,  /* one safetensors file with nothing beside it */
    GG_HF_FORMS
} gg_hf_form;

/* The safetensors files, in the order of their names. */
typedef struct gg_hf_files {
    char **list;
    size_t n;
    gg_json *index;    /* of a checkpoint with an index; else NULL */
    char skipped[200]; /* other files of the folder that could have been meant; "" = none */
} gg_hf_files;

/* Whether the folder has a file of that name; false also if that cannot be found out, which fails.
 */
bool gg_hf_has_file(const char *folder, const char *name, gg_error *err);

/* Whether a file of that name is an adapter of PEFT or MLX. */
bool gg_hf_is_adapter(const char *name);

/* The form of a folder. With `adapter`, an adapter counts also where there is a model. If a file
 * cannot be looked for, err has the reason. */
gg_hf_form gg_hf_form_of(const char *folder, bool adapter, gg_error *err);

/* The files of a folder that are read beside the weights, and how large each may be: each of them
 * has a row here, so that none is replaced or changes unnoticed. The last row has no name. */
typedef struct gg_hf_beside_file {
    const char *name;
    uint64_t most; /* bytes */
} gg_hf_beside_file;
extern const gg_hf_beside_file gg_hf_beside_files[];

/* Weights of other programs, or adapters: the end of the file's name, or its name; what the file
 * is, and what to do. The last row has no name. */
typedef struct gg_hf_foreign {
    const char *end, *what, *fix;
} gg_hf_foreign;
extern const gg_hf_foreign gg_hf_foreign_weights[], gg_hf_foreign_adapters[];

/* Whether a file of a checkpoint's folder with this name may be read: weights, and those above. */
bool gg_hf_is_read(const char *name);
#define GG_HF_TEMPLATES "additional_chat_templates" /* a folder of .jinja files */

/* Reads FOLDER/NAME, malloc'd; *bytes stays NULL if it is absent. Errors: GG_EUNSUPPORTED if it is
 * too large or has no row; GG_EIO; GG_ENOMEM. */
gg_status gg_hf_read(const char *folder, const char *name, char **bytes, size_t *len,
                     gg_error *err);

/* Lists the names of the .jinja files in GG_HF_TEMPLATES, with that folder before them. */
gg_status gg_hf_list_templates(const char *folder, gg_hf_files *files, gg_error *err);

/* Like gg_at_file, for FOLDER/NAME. */
gg_status gg_hf_at(const char *folder, const char *name, gg_error *err);

/* Parses FOLDER/NAME. */
gg_status gg_hf_parse(const char *folder, const char *name, gg_json **out, gg_error *err);

/* Finds the files of that form; `only` names one of them that was asked for, or is NULL. Errors:
 * GG_EFORMAT, with its name, for a missing shard and an index that names files outside its folder;
 * GG_EUNSUPPORTED for other formats; GG_EIO; GG_ENOMEM. */
gg_status gg_hf_find_files(const char *folder, gg_hf_form form, const char *only,
                           gg_hf_files *files, gg_error *err);
void gg_hf_files_free(gg_hf_files *files);
