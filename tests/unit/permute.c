/* permute.c - a model with its units in another order, for tests and for docs/lineage.md:
 *
 *     permute IN.gguf OUT.gguf WHAT[,WHAT...] [NOISE] [SEED]
 *
 * WHAT: ffn, experts, heads, embedding or none. NOISE is the standard deviation of the noise that
 * is added to the matrices of attention and FFN, in units of their own. All tensors of IN must be
 * F16 or F32, in the names of the llama architecture. With NOISE 0 the result computes the same
 * function. Prints one line per unit: kind, block, expert (its old number), unit, the unit that now
 * has its place. */
#include "gguf/gguf.h"
#include "organ/gg_organ.h"
#include "organ/gg_quant.h"
#include "organ/tensor_names.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uint64_t state;

static uint64_t next(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static double uniform(void)
{
    return ((double)(next() >> 11) + 0.5) / 9007199254740992.0;
}

static double gauss(void)
{
    return sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform());
}

static void die(const char *what, const char *why)
{
    fprintf(stderr, "permute: %s: %s\n", what, why);
    exit(1);
}

/* Where the units of one kind come from. */
typedef struct order {
    size_t n;
    uint32_t *from;
} order;

static order shuffled(size_t n, bool shuffle)
{
    order o = { n, malloc(n * sizeof(uint32_t)) };
    for (uint32_t i = 0; i < n; i++) o.from[i] = i;
    for (size_t i = n; i > 1 && shuffle; i--) {
        size_t k = next() % i;
        uint32_t t = o.from[i - 1];
        o.from[i - 1] = o.from[k];
        o.from[k] = t;
    }
    return o;
}

static void show(const order *o, const char *kind, int64_t block, int64_t expert)
{
    for (size_t i = 0; i < o->n; i++)
        printf("%s\t%lld\t%lld\t%zu\t%u\n", kind, (long long)block, (long long)expert, i,
               o->from[i]);
}

typedef struct model {
    gg_source *s;
    bool ffn, experts, heads, embedding;
    size_t n_heads, n_kv, n_experts;
    double noise;
    order dims, kv, q, stack, *units; /* of the current block; units by new expert */
    int64_t block;
} model;

/* The order of query heads: groups move as a whole, and heads within them. */
static order query_heads(const model *m)
{
    size_t per = m->n_heads / m->n_kv;
    order q = shuffled(m->n_heads, false);
    for (size_t g = 0; g < m->n_kv; g++) {
        order w = shuffled(per, m->heads);
        for (size_t i = 0; i < per; i++)
            q.from[g * per + i] = (uint32_t)(m->kv.from[g] * per) + w.from[i];
        free(w.from);
    }
    return q;
}

static const gg_tensor *find(const model *m, const char *role)
{
    char name[80];
    snprintf(name, sizeof name, "blk.%lld.%s", (long long)m->block, role);
    size_t i = gg_source_find(m->s, name, strlen(name));
    return i == SIZE_MAX ? NULL : gg_source_tensor(m->s, i);
}

static void end_block(model *m)
{
    for (size_t e = 0; m->units && e < m->n_experts; e++) free(m->units[e].from);
    free(m->units);
    free(m->stack.from);
    free(m->kv.from);
    free(m->q.from);
}

static void start_block(model *m, int64_t block)
{
    end_block(m);
    m->block = block;
    m->kv = shuffled(m->n_kv, m->heads);
    m->q = query_heads(m);
    show(&m->kv, "kv", block, -1);
    show(&m->q, "head", block, -1);
    const gg_tensor *down = find(m, "ffn_down.weight"), *stack = find(m, "ffn_down_exps.weight");
    m->n_experts = stack ? stack->dims[2] : 1;
    m->stack = shuffled(m->n_experts, m->experts);
    if (stack) show(&m->stack, "expert", block, -1);
    m->units = calloc(m->n_experts, sizeof *m->units);
    for (size_t e = 0; e < m->n_experts && (down || stack); e++) {
        m->units[e] = shuffled((down ? down : stack)->dims[0], m->ffn);
        show(&m->units[e], "ffn", block, stack ? (int64_t)m->stack.from[e] : -1);
    }
}

/* The place that comes to place i of n along one axis of a tensor. */
static uint64_t by(const order *o, uint64_t i, uint64_t n)
{
    uint64_t size = n / o->n;
    return o->from[i / size] * size + i % size;
}

static bool is(const char *role, const char *names)
{
    char text[80];
    snprintf(text, sizeof text, " %.64s ", role);
    return strstr(names, text) != NULL;
}

static uint64_t column(const model *m, const char *role, uint64_t c, const gg_tensor *t, size_t e)
{
    if (is(role, " attn_output.weight ")) return by(&m->q, c, t->dims[0]);
    if (is(role, " ffn_down.weight ffn_down_exps.weight ")) return by(&m->units[e], c, t->dims[0]);
    if (is(role, " ffn_gate_inp.bias exp_probs_b.bias ")) return m->stack.from[c];
    return t->dims[0] == m->dims.n ? m->dims.from[c] : c;
}

static uint64_t row(const model *m, const char *role, uint64_t r, const gg_tensor *t, size_t e)
{
    if (is(role, " attn_q.weight ")) return by(&m->q, r, t->dims[1]);
    if (is(role, " attn_k.weight attn_v.weight ")) return by(&m->kv, r, t->dims[1]);
    if (is(role, " attn_output.weight ffn_down.weight ffn_down_exps.weight "))
        return m->dims.from[r];
    if (is(role, " ffn_gate.weight ffn_up.weight ffn_gate_exps.weight ffn_up_exps.weight "))
        return by(&m->units[e], r, t->dims[1]);
    if (is(role, " ffn_gate_up_exps.weight "))
        return r % m->units[e].n == r ? m->units[e].from[r]
                                      : m->units[e].n + m->units[e].from[r - m->units[e].n];
    return is(role, " ffn_gate_inp.weight ffn_down_exps.bias ") ? m->stack.from[r] : r;
}

static void move(const model *m, const gg_tensor *t, const uint8_t *from, uint8_t *to)
{
    const gg_anatomy *a = &t->a;
    char role[64];
    snprintf(role, sizeof role, "%.*s", (int)(t->name_len - (a->block >= 0 ? a->role_at : 0)),
             t->name + (a->block >= 0 ? a->role_at : 0));
    size_t size = t->dtype == GG_F16 ? 2 : 4;
    uint64_t rows = t->n_dims > 1 ? t->dims[1] : 1;
    uint64_t width = t->dims[0], *columns = malloc(width * sizeof *columns);
    for (uint64_t line = 0; line < t->elements / width; line++) {
        uint64_t r = line % rows, e = line / rows, old = t->n_dims > 2 ? m->stack.from[e] : e;
        for (uint64_t c = 0; r == 0 && c < width; c++) columns[c] = column(m, role, c, t, e);
        const uint8_t *source = from + (old * rows + row(m, role, r, t, e)) * width * size;
        for (uint64_t c = 0; c < width; c++)
            memcpy(to + (line * width + c) * size, source + columns[c] * size, size);
    }
    free(columns);
}

static void add_noise(double noise, const gg_tensor *t, uint8_t *data)
{
    gg_error err = GG_ERROR_INIT;
    float *x = malloc(t->elements * sizeof *x);
    double sum = 0;
    gg_decode(t->dtype, data, x, t->elements, &err);
    for (uint64_t i = 0; i < t->elements; i++) sum += (double)x[i] * (double)x[i];
    double deviation = noise * sqrt(sum / (double)t->elements);
    for (uint64_t i = 0; i < t->elements; i++) x[i] += (float)(deviation * gauss());
    if (gg_encode(t->dtype, x, data, t->elements, t->elements, NULL, &err) != GG_OK)
        die(t->name, err.what);
    free(x);
}

static void write_tensor(model *m, size_t i, int out)
{
    const gg_tensor *t = gg_source_tensor(m->s, i);
    gg_data d;
    gg_error err = GG_ERROR_INIT;
    uint8_t *from = malloc(t->bytes), *to = malloc(t->bytes);
    if (t->dtype != GG_F16 && t->dtype != GG_F32) die(t->name, "not F16 or F32");
    if (t->a.block >= 0 && t->a.block != m->block) start_block(m, t->a.block);
    if (gg_data_open(m->s, i, &d, &err) != GG_OK ||
        gg_data_read(&d, 0, from, t->bytes, &err) != GG_OK)
        die(t->name, err.what);
    move(m, t, from, to);
    if (m->noise > 0 && t->n_dims > 1 && (t->a.cls == GG_SKELETON || t->a.cls == GG_ORGAN))
        add_noise(m->noise, t, to);
    if (pwrite(out, to, t->bytes, (off_t)d.at) != (ssize_t)t->bytes) die(t->name, "cannot write");
    gg_data_close(&d);
    free(from);
    free(to);
}

static int copy(const char *from, const char *to)
{
    static char buf[1 << 16];
    int in = open(from, O_RDONLY), out = open(to, O_RDWR | O_CREAT | O_TRUNC, 0666);
    if (in < 0) die(from, "cannot open");
    if (out < 0) die(to, "cannot create");
    for (ssize_t n; (n = read(in, buf, sizeof buf)) > 0;)
        if (write(out, buf, (size_t)n) != n) die(to, "cannot write");
    close(in);
    return out;
}

int main(int argc, char **argv)
{
    gg_error err = GG_ERROR_INIT;
    model m = { .block = -1 };
    if (argc < 4) die("usage", "IN.gguf OUT.gguf WHAT [NOISE] [SEED]");
    m.ffn = strstr(argv[3], "ffn") != NULL;
    m.experts = strstr(argv[3], "experts") != NULL;
    m.heads = strstr(argv[3], "heads") != NULL;
    m.embedding = strstr(argv[3], "embedding") != NULL;
    m.noise = argc > 4 ? strtod(argv[4], NULL) : 0;
    state = 88172645463325252ull + (argc > 5 ? strtoull(argv[5], NULL, 10) * 1234567891011ull : 0);
    if (gg_source_open(argv[1], &m.s, &err) != GG_OK) die(argv[1], err.what);
    const gg_meta *meta = gg_source_meta(m.s);
    m.n_heads = gg_arch_number(meta, "attention.head_count");
    m.n_kv = gg_arch_number(meta, "attention.head_count_kv");
    if (!m.n_heads || !m.n_kv) die(argv[1], "no keys for its heads");
    m.dims = shuffled(gg_arch_number(meta, "embedding_length"), m.embedding);
    show(&m.dims, "embedding", -1, -1);
    int out = copy(argv[1], argv[2]);
    for (size_t i = 0; i < gg_source_count(m.s); i++) write_tensor(&m, i, out);
    end_block(&m);
    free(m.dims.from);
    gg_source_close(m.s);
    return close(out) != 0;
}
