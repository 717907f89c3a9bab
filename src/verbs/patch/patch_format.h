/* patch_format.h - the keys of a patch, and the order of what it makes. Internal. */
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

/* A key or tensor by its name. */
typedef struct patch_name {
    const char *name;
    size_t len, index; /* index: whatever the list's owner wants to find by it */
} patch_name;

/* A list of names; in the order they were added in. */
typedef struct patch_names {
    patch_name *list;
    size_t n, cap;
} patch_names;

gg_status gg_patch_names_add(patch_names *names, const char *name, size_t len, size_t index,
                             gg_error *err);

/* All strings of an array; kv may be NULL. */
gg_status gg_patch_names_of_array(const gg_kv *kv, patch_names *out, gg_error *err);

/* An entry of the result: entry `index` of the patch's list or of the base's. */
typedef struct patch_pick {
    bool patch;
    size_t index;
} patch_pick;

/* What goes into a merge, for keys or for tensors. */
typedef struct patch_lists {
    patch_names base, patch, deleted;
    patch_names order; /* all names of the result; used if has_order */
    bool has_order;
} patch_lists;

void gg_patch_lists_free(patch_lists *l);

/* The entries of the result, malloc'd. Without an order: the base's without those deleted,
 * each replaced by the patch's of its name, then what only the patch has. GG_EFORMAT when a
 * deleted name is not in the base, or is in the patch, and when the order is not one of
 * exactly the result's names. The lists are left as they were. */
gg_status gg_patch_merge(const patch_lists *l, patch_pick **out, size_t *n, gg_error *err);

/* Is that a model of exactly one GGUF file? GG_EUSAGE if not. */
gg_status gg_patch_check_file(gg_source *s, gg_error *err);

/* sha256 of a model's one file. */
gg_status gg_patch_hash(const gg_source *s, char sha[65], const gg_run *run, gg_error *err);

bool gg_patch_is_own(const char *name, size_t len); /* begins with "patch." */

#endif
