/* mkmodel.c - GGUF models for tests, of any shape, with data from a generator:
 *
 *     mkmodel OUT.gguf [-a ALIGNMENT] [-s SEED] [-k KEY=U32] [-n COUNT] [-p PADDING]
 *         [-v TOKENS,MERGES] TENSOR...
 *
 * After -n each tensor with a % in its name comes COUNT times, numbered in place of
 * it; -p is the byte that padding is made of. -v makes a vocabulary of byte-level BPE, whose texts
 * have up to four letters.
 * TENSOR is NAME:TYPE:DIMS ("blk.0.ffn_up.weight:F32:64x32"). Types that can be
 * encoded get bell-shaped values, others pseudo-random bytes. */
#include "organ/gg_gguf.h"

#include "base/buf.h"
#include "gguf/gguf.h"
#include "quant/quant.h"
#include "write/keys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t state = 88172645463325252ull;

static uint64_t next(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static void die(const char *what, const char *why)
{
    fprintf(stderr, "mkmodel: %s: %s\n", what, why);
    exit(1);
}

static gg_tensor parse(char *spec)
{
    gg_tensor t = { .dims = GG_DIMS_ONE };
    char *dims = strrchr(spec, ':');
    if (dims) *dims++ = '\0';
    char *type = dims ? strrchr(spec, ':') : NULL;
    if (!type) die(spec, "give NAME:TYPE:DIMS");
    *type++ = '\0';
    const gg_dtype_info *info = gg_dtype_by_name(type);
    if (!info) die(type, "no tensor type");
    t.name = spec;
    t.name_len = strlen(spec);
    t.dtype = info->id;
    for (char *p = dims; *p && t.n_dims < GG_MAX_DIMS; p += *p == 'x')
        t.dims[t.n_dims++] = strtoull(p, &p, 10);
    gg_error err = GG_ERROR_INIT;
    if (gg_tensor_extent(t.dtype, t.n_dims, t.dims, &t.elements, &t.bytes, &err) != GG_OK)
        die(spec, err.what);
    return t;
}

static int padding;

static void put_padding(FILE *f, uint64_t n)
{
    while (n--) fputc(padding, f);
}

/* t, count times under numbered names. */
static gg_tensor *repeat(gg_tensor *list, size_t *n, const gg_tensor *t, unsigned long count)
{
    const char *mark = strchr(t->name, '%');
    unsigned long times = mark && count ? count : 1;
    list = realloc(list, (*n + times) * sizeof *list);
    for (unsigned long i = 0; i < times; i++) {
        char *name = malloc(t->name_len + 24);
        if (!list || !name) die("memory", "none");
        if (times > 1) sprintf(name, "%.*s%lu%s", (int)(mark - t->name), t->name, i, mark + 1);
        else strcpy(name, t->name);
        list[*n] = *t;
        list[*n].name = name;
        list[(*n)++].name_len = strlen(name);
    }
    return list;
}

static void put_bytes(FILE *f, uint64_t n)
{
    static uint64_t block[1 << 13];
    while (n > 0) {
        size_t step = n < sizeof block ? (size_t)n : sizeof block;
        for (size_t i = 0; i < (step + 7) / 8; i++) block[i] = next();
        if (fwrite(block, 1, step, f) != step) die("write", "failed");
        n -= step;
    }
}

static float bell(void)
{
    float sum = 0;
    for (int i = 0; i < 4; i++) sum += (float)(next() >> 40) / 16777216.0f - 0.5f;
    return sum * 0.05f;
}

static void put_values(FILE *f, const gg_tensor *t)
{
    uint64_t row = t->dims[0], row_bytes = t->elements ? t->bytes / (t->elements / row) : 0;
    float *x = malloc(row * sizeof *x + 1);
    char *blocks = malloc(row_bytes + 1);
    if (!x || !blocks) die("memory", "none");
    for (uint64_t r = 0; row && r < t->elements / row; r++) {
        gg_error err = GG_ERROR_INIT;
        for (uint64_t i = 0; i < row; i++) x[i] = bell();
        if (gg_encode(t->dtype, x, blocks, row, row, NULL, &err) != GG_OK) die(t->name, err.what);
        if (fwrite(blocks, 1, row_bytes, f) != row_bytes) die("write", "failed");
    }
    free(x);
    free(blocks);
}

/* Text number i: the letters of single bytes, and then words of the letters a to z. Returns its
 * length. */
static size_t spell(unsigned long i, char text[5])
{
    size_t n = 2;
    if (i < 256) {
        bool self = (i >= 0x21 && i <= 0x7e) || (i >= 0xa1 && i != 0xad);
        unsigned long c = self ? i : i < 0x21 ? 0x100 + i : i == 0xad ? 0x143 : 0x121 + i - 0x7f;
        n = c < 0x80 ? 1 : 2;
        text[0] = (char)(c < 0x80 ? c : 0xc0 | c >> 6);
        text[1] = (char)(0x80 | (c & 0x3f));
        return n;
    }
    i -= 256;
    for (unsigned long most = 26 * 26; i >= most; most *= 26) i -= most, n++;
    for (size_t k = n; k-- > 0; i /= 26) text[k] = (char)('a' + i % 26);
    return n;
}

/* Sets a vocabulary. Words are made of all but the last letter and the last, or, for merges beyond
 * the number of words, of the first letter and the others. */
static void set_vocabulary(gg_meta *meta, unsigned long tokens, unsigned long merges, gg_error *err)
{
    gg_buf texts = GG_BUF_INIT, types = GG_BUF_INIT, pairs = GG_BUF_INIT;
    unsigned long words = tokens - 256, n = 0;
    if (tokens <= 256 || words > 26ul * 26 * (1 + 26 + 26 * 26))
        die("-v", "too few or many tokens");
    for (unsigned long i = 0; i < tokens; i++) {
        char text[5];
        size_t len = spell(i, text);
        gg_array_add_str(&texts, text, len, err);
        gg_buf_append(&types, "\1\0\0", 4, err);
    }
    for (unsigned long i = 256; n < merges && i < 2 * tokens; i++) {
        char text[5], pair[6];
        size_t len = spell(i < tokens ? i : i - words, text), at = i < tokens ? len - 1 : 1;
        memcpy(pair, text, at);
        pair[at] = ' ';
        memcpy(pair + at + 1, text + at, len - at);
        if (i >= tokens && len < 3) continue; /* it has that merge */
        gg_array_add_str(&pairs, pair, len + 1, err);
        n++;
    }
    gg_meta_set_str(meta, "tokenizer.ggml.model", "gpt2", 4, err);
    gg_meta_set_str(meta, "tokenizer.ggml.pre", "gpt-2", 5, err);
    gg_meta_set_array(meta, "tokenizer.ggml.tokens", GG_TYPE_STR, tokens, &texts, err);
    gg_meta_set_array(meta, "tokenizer.ggml.token_type", GG_TYPE_I32, tokens, &types, err);
    gg_meta_set_array(meta, "tokenizer.ggml.merges", GG_TYPE_STR, n, &pairs, err);
    gg_buf_free(&texts);
    gg_buf_free(&types);
    gg_buf_free(&pairs);
}

int main(int argc, char **argv)
{
    gg_error err = GG_ERROR_INIT;
    gg_meta meta = GG_META_INIT;
    gg_tensor *t = NULL, one;
    unsigned long count = 0;
    size_t n = 0, len = 0;
    uint64_t alignment = 0, data_bytes;
    if (argc < 2)
        die("usage", "mkmodel OUT.gguf [-a ALIGNMENT] [-s SEED] [-k KEY=U32] NAME:TYPE:DIMS...");
    gg_meta_set_str(&meta, "general.architecture", "llama", 5, &err);
    gg_meta_set_str(&meta, "general.name", "made", 4, &err);
    for (int i = 2; i < argc; i++) {
        char *eq = i + 1 < argc ? strchr(argv[i + 1], '=') : NULL;
        if (strcmp(argv[i], "-a") == 0 && i + 1 < argc) {
            gg_meta_set_u32(&meta, "general.alignment", (uint32_t)strtoul(argv[++i], NULL, 10),
                            &err);
        } else if (strcmp(argv[i], "-s") == 0 && i + 1 < argc) {
            state += strtoull(argv[++i], NULL, 10) * 2654435761u;
        } else if (strcmp(argv[i], "-k") == 0 && eq) {
            *eq = '\0';
            gg_meta_set_u32(&meta, argv[++i], (uint32_t)strtoul(eq + 1, NULL, 10), &err);
        } else if (strcmp(argv[i], "-n") == 0 && i + 1 < argc) {
            count = strtoul(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "-v") == 0 && i + 1 < argc && strchr(argv[i + 1], ',')) {
            char *rest;
            unsigned long tokens = strtoul(argv[++i], &rest, 10);
            set_vocabulary(&meta, tokens, strtoul(rest + 1, NULL, 10), &err);
        } else if (strcmp(argv[i], "-p") == 0 && i + 1 < argc) {
            padding = atoi(argv[++i]);
        } else {
            one = parse(argv[i]);
            t = repeat(t, &n, &one, count);
        }
    }
    uint8_t *header = NULL;
    if (gg_meta_alignment(&meta, &alignment, &err) != GG_OK ||
        gg_plan_offsets(t, n, alignment, &data_bytes, &err) != GG_OK ||
        gg_header_emit(3, &meta, t, n, &header, &len, &err) != GG_OK)
        die(argv[1], err.what);
    FILE *f = fopen(argv[1], "wb");
    if (!f) die(argv[1], "cannot write");
    fwrite(header, 1, len, f);
    uint64_t at = len;
    for (size_t i = 0; i < n; i++) {
        put_padding(f, gg_align_up(at, alignment) - at);
        if (gg_can_encode(t[i].dtype) && t[i].bytes < (8u << 20)) put_values(f, &t[i]);
        else put_bytes(f, t[i].bytes);
        at = gg_align_up(at, alignment) + t[i].bytes;
    }
    if (n) put_padding(f, gg_align_up(at, alignment) - at);
    if (fclose(f) != 0) die(argv[1], "cannot write");
    gg_meta_free(&meta);
    free(header);
    for (size_t i = 0; i < n; i++) free((void *)(uintptr_t)t[i].name);
    free(t);
    return 0;
}
