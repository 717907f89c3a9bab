/* patch_format.h - the keys of a patch, and the order of its result. Internal. */
#ifndef GG_PATCH_FORMAT_H
#define GG_PATCH_FORMAT_H

#include "gguf/gguf.h"
#include "organ/gg_patch.h"

#define PATCH_PREFIX "patch."
#define PATCH_VERSION "patch.version"
#define PATCH_BASE "patch.base.sha256"
#define PATCH_RESULT "patch.result.sha256"
#define PATCH_DELETE_KEYS "patch.delete.keys"
#define PATCH_DELETE_TENSORS "patch.delete.tensors"
#define PATCH_ORDER_KEYS "patch.order.keys"
#define PATCH_ORDER_TENSORS "patch.order.tensors"
#define PATCH_PAD_AFTER "patch.padding.after"
#define PATCH_PAD_SIZES "patch.padding.sizes"
#define PATCH_PAD_BYTES "patch.padding.bytes"
#define PATCH_TRAILING "patch.trailing" /* a tensor */

/* The name of a key or tensor. */
typedef struct patch_name {
    const char *name;
    size_t len, index; /* index: set by the owner of the list */
} patch_name;

/* A list of names in the order in which they were added. */
typedef struct patch_names {
    patch_name *list;
    size_t n, cap;
} patch_names;

gg_status gg_patch_names_add(patch_names *names, const char *name, size_t len, size_t index,
                             gg_error *err);

/* Add all strings of an array. kv may be NULL. */
gg_status gg_patch_names_of_array(const gg_kv *kv, patch_names *out, gg_error *err);

/* An entry of the result: entry `index` of the list of the patch or of the base. */
typedef struct patch_pick {
    bool patch;
    size_t index;
} patch_pick;

/* The inputs of a merge, for keys or for tensors. */
typedef struct patch_lists {
    patch_names base, patch, deleted;
    patch_names order; /* all names of the result; used if has_order */
    bool has_order;
} patch_lists;

/* Counts the entries of a patch in the report, and frees both lists. */
void gg_patch_lists_end(patch_lists *tensors, patch_lists *keys, gg_patch_report *report);

/* Returns the entries of the result, malloc'd. The default order is that of the base without
 * the deleted entries, followed by the entries that only the patch has. An entry of the patch
 * replaces the entry of the base with the same name. GG_EFORMAT if a deleted name is not in the
 * base or is also in the patch, or if the order does not contain each name of the result exactly
 * once. The lists are not changed. */
gg_status gg_patch_merge(const patch_lists *l, patch_pick **out, size_t *n, gg_error *err);

/* Check that the model is exactly one GGUF file. GG_EUSAGE if not. */
gg_status gg_patch_check_file(gg_source *s, gg_error *err);

/* The sha256 of the single file of a model. */
gg_status gg_patch_hash(const gg_source *s, char sha[65], const gg_run *run, gg_error *err);

bool gg_patch_is_own(const char *name, size_t len); /* begins with "patch." */

#endif
