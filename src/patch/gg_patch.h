/* gg_patch.h - patches: what has to change in one GGUF file to make another, byte for byte.
 * tools/compare makes them (patch_write.h), tools/graft applies them (patch_apply.h).
 *
 * A patch is itself a GGUF file. docs/formats.md describes it.
 */
#pragma once

#include "organ/gg_organ.h"
#include "organ/gg_verbs.h"

#define GG_PATCH_PREFIX "patch."
#define GG_PATCH_VERSION "patch.version"
#define GG_PATCH_BASE "patch.base.sha256" /* names the base */
#define GG_PATCH_RESULT "patch.result.sha256"
#define GG_PATCH_DELETE_KEYS "patch.delete.keys"
#define GG_PATCH_DELETE_TENSORS "patch.delete.tensors"
#define GG_PATCH_ORDER_KEYS "patch.order.keys"
#define GG_PATCH_ORDER_TENSORS "patch.order.tensors"
#define GG_PATCH_PAD_AFTER "patch.padding.after"
#define GG_PATCH_PAD_SIZES "patch.padding.sizes"
#define GG_PATCH_PAD_BYTES "patch.padding.bytes"
#define GG_PATCH_TRAILING "patch.trailing" /* a tensor */

typedef struct gg_patch_report {
    size_t tensors, keys;                 /* stored in the patch */
    size_t deleted_tensors, deleted_keys; /* removed by the patch */
    uint64_t bytes;                       /* written */
} gg_patch_report;

static inline bool gg_is_patch(const gg_source *s)
{
    const gg_meta *meta = gg_source_meta(s);
    return meta && gg_meta_find(meta, GG_PATCH_BASE);
}

/* A key or tensor of the base or the patch. */
typedef struct gg_patch_name {
    const char *name;
    size_t len, index; /* index: in the base, or in the patch */
    bool patch;
} gg_patch_name;

/* A list of names in the order in which they were added. */
typedef struct gg_patch_names {
    gg_patch_name *list;
    size_t n, cap;
    gg_patch_name *sorted; /* by name, for gg_patch_find; NULL until gg_patch_sort */
} gg_patch_names;

/* What makes a result, for keys or for tensors. */
typedef struct gg_patch_lists {
    gg_patch_names base, patch, deleted;
    gg_patch_names order; /* all names of the result; used if has_order */
    bool has_order;
} gg_patch_lists;

gg_status gg_patch_add(gg_patch_names *names, const gg_patch_name *one, gg_error *err);
void gg_patch_names_free(gg_patch_names *names);

/* List the keys and tensors of a source, of a patch without its own. */
gg_status gg_patch_keys(const gg_source *s, bool patch, gg_patch_names *out, gg_error *err);
gg_status gg_patch_tensors(const gg_source *s, bool patch, gg_patch_names *out, gg_error *err);
bool gg_is_patch_key(const char *name, size_t len);

/* gg_patch_sort is called when the list is complete, and before gg_patch_find. */
int gg_patch_name_order(const void *a, const void *b);
gg_status gg_patch_sort(gg_patch_names *names, gg_error *err);
const gg_patch_name *gg_patch_find(const gg_patch_names *in, const gg_patch_name *name);

/* Lists the entries of the result. The default order is that of the base without the deleted
 * entries, followed by the entries that only the patch has. An entry of the patch replaces the
 * entry of the base with the same name. Whether the right names are deleted is known by the hash
 * of the result. */
gg_status gg_patch_merge(gg_patch_lists *l, gg_patch_names *out, gg_error *err);

/* Counts the entries of a patch in the report, and frees both lists. */
void gg_patch_count_and_free(gg_patch_lists *tensors, gg_patch_lists *keys,
                             gg_patch_report *report);

/* GG_EUSAGE unless the model is exactly one GGUF file; and the SHA-256 of this file. */
gg_status gg_patch_needs_one_file(gg_source *s, gg_error *err);
gg_status gg_patch_file_sha256(const gg_source *s, char sha[65], const gg_run *run, gg_error *err);
