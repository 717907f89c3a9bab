/* gguf_type.c - names and sizes of the metadata value types. */
#include "organ/gg_gguf.h"

#include "gguf/gguf.h"

#include <string.h>

static const struct {
    const char *name;
    size_t size;
} types[GG_TYPE_COUNT] = {
    [GG_TYPE_U8] = { "u8", 1 },   [GG_TYPE_I8] = { "i8", 1 },     [GG_TYPE_U16] = { "u16", 2 },
    [GG_TYPE_I16] = { "i16", 2 }, [GG_TYPE_U32] = { "u32", 4 },   [GG_TYPE_I32] = { "i32", 4 },
    [GG_TYPE_F32] = { "f32", 4 }, [GG_TYPE_BOOL] = { "bool", 1 }, [GG_TYPE_STR] = { "str", 0 },
    [GG_TYPE_ARR] = { "arr", 0 }, [GG_TYPE_U64] = { "u64", 8 },   [GG_TYPE_I64] = { "i64", 8 },
    [GG_TYPE_F64] = { "f64", 8 },
};

const char *gg_type_name(uint32_t type)
{
    return type < GG_TYPE_COUNT ? types[type].name : NULL;
}

size_t gg_type_size(uint32_t type)
{
    return type < GG_TYPE_COUNT ? types[type].size : 0;
}

bool gg_type_by_name(const char *name, size_t len, uint32_t *type)
{
    for (uint32_t i = 0; i < GG_TYPE_COUNT; i++)
        if (strlen(types[i].name) == len && memcmp(types[i].name, name, len) == 0)
            return *type = i, true;
    return false;
}
