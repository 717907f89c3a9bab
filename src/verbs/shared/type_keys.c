/* type_keys.c - sets general.file_type and general.quantization_version. */
#include "type_keys.h"
#include "gguf/gguf.h"

#include <string.h>

bool gg_is_integer(uint32_t dtype)
{
    return dtype == GG_I8 || dtype == GG_I16 || dtype == GG_I32 || dtype == GG_I64;
}

bool gg_is_quantized(uint32_t dtype)
{
    switch (dtype) {
    case GG_F32:
    case GG_F16:
    case GG_BF16:
    case GG_F64:
    case GG_I8:
    case GG_I16:
    case GG_I32:
    case GG_I64: return false;
    default: return true;
    }
}

static bool is_matrix(const gg_tensor *t)
{
    return t->dims[1] > 1 || t->dims[2] > 1 || t->dims[3] > 1;
}

/* Returns the dtype of most tensors; UINT32_MAX without tensors. Linear search, few types. */
static uint32_t most_common_type(const gg_tensor *tensors, size_t n, bool matrices)
{
    struct {
        uint32_t dtype;
        size_t count;
        uint64_t bytes;
    } seen[128];
    size_t types = 0, best = 0;
    for (size_t i = 0; i < n; i++) {
        if (matrices && !is_matrix(&tensors[i])) continue;
        size_t k = 0;
        while (k < types && seen[k].dtype != tensors[i].dtype) k++;
        if (k == sizeof seen / sizeof seen[0]) continue;
        if (k == types) {
            seen[types].dtype = tensors[i].dtype;
            seen[types].count = 0;
            seen[types++].bytes = 0;
        }
        seen[k].count++;
        seen[k].bytes += tensors[i].bytes;
    }
    for (size_t k = 1; k < types; k++)
        if (seen[k].count > seen[best].count ||
            (seen[k].count == seen[best].count && seen[k].bytes > seen[best].bytes))
            best = k;
    return types ? seen[best].dtype : UINT32_MAX;
}

void gg_meta_delete_imatrix(gg_meta *meta)
{
    static const char *const keys[] = { "quantize.imatrix.file", "quantize.imatrix.dataset",
                                        "quantize.imatrix.entries_count",
                                        "quantize.imatrix.chunks_count" };
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) gg_meta_delete(meta, keys[i]);
}

gg_status gg_type_keys_update(gg_meta *meta, const gg_tensor *tensors, size_t n, gg_error *err)
{
    uint32_t dtype = most_common_type(tensors, n, true);
    if (dtype == UINT32_MAX) dtype = most_common_type(tensors, n, false);
    const gg_dtype_info *info = dtype == UINT32_MAX ? NULL : gg_dtype_get(dtype);
    gg_status st = GG_OK;
    if (info && info->file_type >= 0)
        st = gg_meta_set_u32(meta, "general.file_type", (uint32_t)info->file_type, err);
    else gg_meta_delete(meta, "general.file_type");
    for (size_t i = 0; i < n && st == GG_OK; i++)
        if (gg_is_quantized(tensors[i].dtype))
            return gg_meta_set_u32(meta, "general.quantization_version", 2, err);
    gg_meta_delete(meta, "general.quantization_version");
    gg_meta_delete_imatrix(meta);
    return st;
}

/* GGUF requires general.quantization_version if any tensor is quantized. */
static gg_status add_version(gg_meta *meta, uint32_t dtype, gg_error *err)
{
    static const char key[] = "general.quantization_version";
    if (!gg_is_quantized(dtype) || gg_meta_find(meta, key)) return GG_OK;
    return gg_meta_set_u32(meta, key, 2, err);
}

gg_status gg_type_keys_change(gg_meta *meta, const gg_source *base, const gg_tensor *tensors,
                              size_t n, gg_error *err)
{
    gg_status st = GG_OK;
    for (size_t i = 0; i < n; i++) {
        size_t k = gg_source_find(base, tensors[i].name, tensors[i].name_len);
        if (k != SIZE_MAX && gg_source_tensor(base, k)->dtype != tensors[i].dtype)
            return gg_type_keys_update(meta, tensors, n, err);
    }
    for (size_t i = 0; i < n && st == GG_OK && gg_source_meta(base); i++)
        if (gg_source_find(base, tensors[i].name, tensors[i].name_len) == SIZE_MAX)
            st = add_version(meta, tensors[i].dtype, err);
    return st;
}
