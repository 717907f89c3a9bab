/* mutate.c - changes inputs that begin with a GGUF header by its structure: keys and tensors are
 * removed, doubled, exchanged and changed, while the counts, the padding and the data stay right,
 * so that the code behind the reader is reached. JSON texts and the headers of safetensors files
 * are changed as json_change.h does. Other inputs are changed by the engine alone. */
#include "fuzz.h"
#include "json_change.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max); /* of the engine */

#define MOST_ITEMS 160
#define SCRATCH 1024
#define ALIGN 32

/* A key with its value, or a tensor: bytes of the input, or of the scratch if it was changed. */
typedef struct item {
    const uint8_t *p;
    size_t n;
} item;

typedef struct header {
    uint32_t version;
    size_t n_keys, n_tensors;
    item keys[MOST_ITEMS], tensors[MOST_ITEMS];
    size_t data;     /* where it begins */
    int64_t more[2]; /* added to the counts that are written, so that they are wrong */
    uint8_t scratch[SCRATCH];
} header;

typedef struct reader {
    const uint8_t *p;
    size_t n, at;
} reader;

static uint32_t state;

static size_t below(size_t n)
{
    state = state * 1664525u + 1013904223u;
    return n ? (state >> 8) % n : 0;
}

/* ---- reading ------------------------------------------------------------------------------- */

static bool skip(reader *r, uint64_t n)
{
    if (n > r->n - r->at) return false;
    r->at += (size_t)n;
    return true;
}

static bool number(reader *r, size_t width, uint64_t *v)
{
    if (width > r->n - r->at) return false;
    *v = 0;
    for (size_t i = 0; i < width; i++) *v |= (uint64_t)r->p[r->at + i] << 8 * i;
    r->at += width;
    return true;
}

static bool string(reader *r)
{
    uint64_t n;
    return number(r, 8, &n) && skip(r, n);
}

static bool value(reader *r, uint64_t type)
{
    static const uint8_t widths[] = { 1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8 };
    uint64_t of, n;
    if (type == 8) return string(r);
    if (type < sizeof widths && widths[type]) return skip(r, widths[type]);
    if (type != 9 || !number(r, 4, &of) || !number(r, 8, &n)) return false;
    if (of < sizeof widths && widths[of]) return n <= r->n && skip(r, n * widths[of]);
    if (of != 8) return false;
    while (n-- > 0)
        if (!string(r)) return false;
    return true;
}

static bool key(reader *r)
{
    uint64_t type;
    return string(r) && number(r, 4, &type) && value(r, type);
}

static bool tensor(reader *r)
{
    uint64_t n_dims;
    return string(r) && number(r, 4, &n_dims) && n_dims <= 8 && skip(r, 8 * n_dims + 12);
}

static bool items(reader *r, bool (*one)(reader *), item *list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t from = r->at;
        if (!one(r)) return false;
        list[i] = (item){ r->p + from, r->at - from };
    }
    return true;
}

static bool parse(header *h, const uint8_t *data, size_t size)
{
    reader r = { data, size, 4 };
    uint64_t version, n_tensors, n_keys;
    if (size < 24 || memcmp(data, "GGUF", 4) != 0) return false;
    if (!number(&r, 4, &version) || !number(&r, 8, &n_tensors) || !number(&r, 8, &n_keys) ||
        n_tensors >= MOST_ITEMS || n_keys >= MOST_ITEMS)
        return false;
    h->version = (uint32_t)version;
    h->n_keys = (size_t)n_keys;
    h->n_tensors = (size_t)n_tensors;
    h->more[0] = h->more[1] = 0;
    if (!items(&r, key, h->keys, h->n_keys) || !items(&r, tensor, h->tensors, h->n_tensors))
        return false;
    h->data = (r.at + ALIGN - 1) / ALIGN * ALIGN;
    if (h->data > size) h->data = size;
    return true;
}

/* ---- writing ------------------------------------------------------------------------------- */

static void put(uint8_t *b, size_t width, uint64_t v)
{
    for (size_t i = 0; i < width; i++) b[i] = (uint8_t)(v >> 8 * i);
}

/* The header and the data; 0 if they have more than `max` bytes. */
static size_t build(const header *h, const uint8_t *data, size_t size, uint8_t *out, size_t max)
{
    size_t at = 24;
    if (max < at) return 0;
    memcpy(out, "GGUF", 4);
    put(out + 4, 4, h->version);
    put(out + 8, 8, h->n_tensors + (uint64_t)h->more[0]);
    put(out + 16, 8, h->n_keys + (uint64_t)h->more[1]);
    for (size_t i = 0; i < h->n_keys + h->n_tensors; i++) {
        const item *x = i < h->n_keys ? &h->keys[i] : &h->tensors[i - h->n_keys];
        if (x->n > max - at) return 0;
        memcpy(out + at, x->p, x->n);
        at += x->n;
    }
    for (; at % ALIGN != 0 && h->data < size; at++)
        if (at < max) out[at] = 0;
        else return 0;
    if (size - h->data > max - at) return 0;
    memcpy(out + at, data + h->data, size - h->data);
    return at + size - h->data;
}

/* ---- changing ------------------------------------------------------------------------------ */

static void remove_item(item *list, size_t *n)
{
    size_t i = below(*n);
    if (*n == 0) return;
    memmove(list + i, list + i + 1, (*n - i - 1) * sizeof *list);
    --*n;
}

static void double_item(item *list, size_t *n)
{
    size_t i = below(*n), to = below(*n + 1);
    if (*n == 0 || *n >= MOST_ITEMS) return;
    item x = list[i];
    memmove(list + to + 1, list + to, (*n - to) * sizeof *list);
    list[to] = x;
    ++*n;
}

static void exchange(item *list, size_t n)
{
    size_t i = below(n), j = below(n);
    if (n == 0) return;
    item x = list[i];
    list[i] = list[j];
    list[j] = x;
}

/* A copy of an item in the scratch; the item is then the copy. NULL if it is too long. */
static uint8_t *own(header *h, item *x)
{
    if (x->n > SCRATCH) return NULL;
    memmove(h->scratch, x->p, x->n);
    x->p = h->scratch;
    return h->scratch;
}

static uint64_t odd_number(void)
{
    static const uint64_t odd[] = { 0,
                                    1,
                                    2,
                                    3,
                                    7,
                                    8,
                                    31,
                                    32,
                                    33,
                                    64,
                                    128,
                                    255,
                                    256,
                                    512,
                                    4096,
                                    65535,
                                    65536,
                                    UINT32_MAX,
                                    (uint64_t)1 << 32,
                                    INT64_MAX,
                                    UINT64_MAX };
    return odd[below(sizeof odd / sizeof odd[0])];
}

/* Keys that the code reads, and names of tensors. */
static const char *const names[] = { "general.alignment",
                                     "general.architecture",
                                     "general.type",
                                     "general.name",
                                     "general.file_type",
                                     "split.no",
                                     "split.count",
                                     "split.tensors.count",
                                     "llama.block_count",
                                     "llama.embedding_length",
                                     "llama.feed_forward_length",
                                     "llama.attention.head_count",
                                     "llama.attention.head_count_kv",
                                     "llama.expert_count",
                                     "llama.expert_used_count",
                                     "llama.context_length",
                                     "llama.rope.dimension_count",
                                     "llama.nextn_predict_layers",
                                     "tokenizer.ggml.tokens",
                                     "tokenizer.ggml.model",
                                     "tokenizer.chat_template",
                                     "adapter.lora.alpha",
                                     "adapter.type",
                                     "imatrix.chunk_count",
                                     "imatrix.datasets",
                                     "token_embd.weight",
                                     "output.weight",
                                     "output_norm.weight",
                                     "blk.0.attn_q.weight",
                                     "blk.0.attn_qkv.weight",
                                     "blk.1.ffn_up.weight",
                                     "blk.1.ffn_up_exps.weight",
                                     "blk.0.ffn_gate_inp.weight",
                                     "blk.0.attn_norm.weight",
                                     "blk.2.ffn_down.weight",
                                     "blk.0.attn_q.weight.sample",
                                     "blk.0.attn_q.weight.in_sum2",
                                     "blk.0.attn_q.weight.counts",
                                     "blk.0.attn_q.weight.lora_a",
                                     "blk.0.attn_q.weight.lora_b",
                                     "enc.blk.0.attn_q.weight",
                                     "rope_freqs.weight" };

/* Gives a key or a tensor another name: a known one, or its own with one byte changed. */
static void rename_item(header *h, item *x)
{
    const char *name = names[below(sizeof names / sizeof names[0])];
    uint8_t *b = own(h, x);
    if (!b) return;
    reader r = { b, x->n, 0 };
    if (!string(&r)) return;
    size_t old = r.at, n = strlen(name);
    if (below(4) == 0) {
        if (old > 8) b[8 + below(old - 8)] = (uint8_t)(33 + below(94));
        return;
    }
    if (8 + n + x->n - old > SCRATCH) return;
    memmove(b + 8 + n, b + old, x->n - old);
    put(b, 8, n);
    memcpy(b + 8, name, n);
    x->n = 8 + n + x->n - old;
}

/* Changes the bytes of a value, or gives it another type with a value of that type. */
static void change_value(header *h, item *x)
{
    uint8_t *b = own(h, x);
    if (!b) return;
    reader r = { b, x->n, 0 };
    if (!string(&r) || r.at + 4 > x->n || r.at + 16 > SCRATCH) return;
    size_t at = r.at;
    if (below(2)) {
        x->n = at + 4 + LLVMFuzzerMutate(b + at + 4, x->n - at - 4, SCRATCH - at - 4);
        return;
    }
    static const uint8_t types[] = { 0, 4, 5, 6, 7, 10, 11, 12 },
                         widths[] = { 1, 4, 4, 4, 1, 8, 8, 8 };
    size_t k = below(sizeof types);
    put(b + at, 4, types[k]);
    put(b + at + 4, 8, odd_number());
    x->n = at + 4 + widths[k];
}

/* Changes the shape, the type or the offset of a tensor. */
static void change_tensor(header *h, item *x)
{
    uint8_t *b = own(h, x);
    if (!b) return;
    reader r = { b, x->n, 0 };
    uint64_t n_dims, v;
    if (!string(&r) || !number(&r, 4, &n_dims) || r.at + 8 * n_dims + 12 > x->n) return;
    size_t dims = r.at, type = dims + 8 * (size_t)n_dims;
    switch (below(4)) {
    case 0:
        if (n_dims) put(b + dims + 8 * below((size_t)n_dims), 8, odd_number());
        break;
    case 1: put(b + type, 4, below(44)); break;
    case 2:
        r.at = type + 4;
        if (number(&r, 8, &v)) put(b + type + 4, 8, v + ALIGN * (below(9) - 4u));
        break;
    default: /* one dimension more, or less */
        if (n_dims > 0 && below(2)) {
            put(b + dims - 4, 4, n_dims - 1);
            memmove(b + type - 8, b + type, 12);
            x->n -= 8;
        } else if (x->n + 8 <= SCRATCH) {
            put(b + dims - 4, 4, n_dims + 1);
            memmove(b + type + 8, b + type, 12);
            put(b + type, 8, 1 + below(3));
            x->n += 8;
        }
    }
}

static void change(header *h)
{
    item *keys = h->keys, *tensors = h->tensors, *k = &keys[below(h->n_keys)],
         *t = &tensors[below(h->n_tensors)];
    bool has_keys = h->n_keys > 0, has_tensors = h->n_tensors > 0;
    switch (below(16)) {
    case 0: remove_item(keys, &h->n_keys); break;
    case 1: double_item(keys, &h->n_keys); break;
    case 2: exchange(keys, h->n_keys); break;
    case 3: remove_item(tensors, &h->n_tensors); break;
    case 4: double_item(tensors, &h->n_tensors); break;
    case 5: exchange(tensors, h->n_tensors); break;
    case 6: h->version = (uint32_t)below(5); break;
    case 7: h->more[below(2)] = (int64_t)below(5) - 2; break;
    case 8:
    case 9:
        if (has_keys) rename_item(h, k);
        break;
    case 10:
    case 11:
        if (has_tensors) rename_item(h, t);
        break;
    case 12:
    case 13:
        if (has_keys) change_value(h, k);
        break;
    default:
        if (has_tensors) change_tensor(h, t);
    }
}

/* The bytes before a JSON text: none, or the length of the header of a safetensors file, which
 * becomes *end. SIZE_MAX if it is neither. */
static size_t text_at(const uint8_t *data, size_t size, size_t *end)
{
    *end = size;
    if (size > 2 && data[0] == '{') return 0;
    if (size < 11 || data[8] != '{' || data[4] || data[5] || data[6] || data[7]) return SIZE_MAX;
    *end = 8 + (data[0] | (size_t)data[1] << 8 | (size_t)data[2] << 16 | (size_t)data[3] << 24);
    return *end <= size ? 8 : SIZE_MAX;
}

/* Returns the new size; 0 if that is too large. */
static size_t change_text(uint8_t *data, size_t size, size_t max, size_t at, size_t end)
{
    json_text t = { malloc(end - at + 1), end - at, below };
    FUZZ_MUST(t.p);
    memcpy(t.p, data + at, t.n);
    for (size_t k = below(3) + 1; k-- > 0;) json_change(&t);
    size_t n = at + t.n + size - end;
    if (n <= max) {
        memmove(data + at + t.n, data + end, size - end);
        memcpy(data + at, t.p, t.n);
        if (at) put(data, 8, t.n);
    }
    free(t.p);
    return n <= max ? n : 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed)
{
    static header h;
    size_t end;
    state = seed;
    if (below(2)) return LLVMFuzzerMutate(data, size, max);
    size_t text = text_at(data, size, &end), changed;
    if (text != SIZE_MAX && (changed = change_text(data, size, max, text, end)) > 0) return changed;
    if (!parse(&h, data, size)) return LLVMFuzzerMutate(data, size, max);
    uint8_t *out = malloc(max + 1);
    FUZZ_MUST(out);
    change(&h);
    size_t n = build(&h, data, size, out, max);
    if (n) memcpy(data, out, n);
    free(out);
    return n ? n : LLVMFuzzerMutate(data, size, max);
}
