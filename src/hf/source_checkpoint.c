/* source_checkpoint.c - checkpoints, safetensors files and PEFT adapters as sources: moves, changes
 * and scales their values, a few MiB at a time. */
#include "base/error.h"
#include "checkpoint.h"
#include "gguf/first_bytes.h"
#include "organ/source.h"
#include "quant/quant.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct checkpoint_source {
    gg_source s;
    gg_checkpoint *ck;
    gg_gguf *header;
} checkpoint_source;

static const gg_checkpoint *checkpoint_of(const gg_source *s)
{
    return ((const checkpoint_source *)s)->ck;
}

static void show(checkpoint_source *c)
{
    gg_source *s = &c->s;
    c->header = &c->ck->header;
    s->headers = &c->header;
    s->n_headers = 1;
    s->tensors = c->header->tensors;
    s->n = c->header->n_tensors;
    s->meta = c->ck->has_keys ? &c->header->meta : NULL;
}

/* ---- reading ----------------------------------------------------------------------------------
 */

#define WINDOW ((uint64_t)4 << 20) /* bytes that are read at once to be moved */
#define BATCH ((size_t)2048)       /* elements that are converted at once */

/* What a reader holds: consecutive elements of one stored tensor, and its scales if it is F8. */
typedef struct ck_cache {
    uint32_t in;
    uint64_t from, n;
    uint8_t *raw;
    size_t cap;
    const gg_st_tensor *scaled; /* whose scales are loaded */
    float *scale;
    uint64_t scale_rows, scale_cols, block_rows, block_cols;
} ck_cache;

/* As when a tensor is re-encoded, values that would become infinite are refused. */
static gg_status check_f16(const float *x, size_t n, gg_error *err)
{
    bool fits = true;
    for (size_t i = 0; i < n; i++) fits = fits && x[i] > -65520.0f && x[i] < 65520.0f;
    if (fits) return GG_OK;
    gg_fail(err, GG_EFORMAT, "it has values that are too large for F16, or not finite");
    return gg_fix(err, "choose another dtype, for example BF16");
}

/* Reads n elements, which are whole blocks, into c->raw. */
static gg_status load_packed(const gg_checkpoint *ck, const ck_cache *c, const gg_st_tensor *t,
                             uint64_t from, uint64_t n, gg_error *err)
{
    const gg_dtype_info *dtype = gg_dtype_get(t->packed);
    uint64_t at = from / dtype->block_elems * dtype->block_bytes;
    size_t bytes = (size_t)(n / dtype->block_elems * dtype->block_bytes);
    uint8_t *blocks = malloc(bytes);
    float *x = t->type == GG_ST_F32 ? (float *)(void *)c->raw : malloc((size_t)n * sizeof *x);
    gg_status st = blocks && x ? gg_pread_all(ck->files[t->file].fd, blocks, bytes, t->at + at, err)
                               : gg_ck_no_room(err);
    if (st == GG_OK) st = ck->decode(t->packed, blocks, x, (size_t)n, err);
    if (st == GG_OK && t->type == GG_ST_F16) st = check_f16(x, (size_t)n, err);
    if (st == GG_OK && t->type == GG_ST_F16)
        for (size_t i = 0; i < n; i++) ((uint16_t *)(void *)c->raw)[i] = gg_f32_to_f16(x[i]);
    if (x != (float *)(void *)c->raw) free(x);
    free(blocks);
    return st == GG_OK ? GG_OK : gg_at_tensor(err, t->name, t->name_len);
}

static gg_status load_window(const gg_checkpoint *ck, ck_cache *c, uint32_t in, uint64_t from,
                             uint64_t n, gg_error *err)
{
    const gg_st_tensor *t = &ck->in.items[in];
    if (t->packed) { /* the blocks that have these elements */
        uint64_t block = gg_dtype_get(t->packed)->block_elems, end = from + n + block - 1;
        from -= from % block;
        n = end - end % block - from;
    }
    uint64_t size = gg_st_type_size(t->type), bytes = n * size;
    c->n = 0;
    if (bytes > c->cap) {
        free(c->raw);
        c->cap = 0;
        if (!(c->raw = malloc((size_t)bytes)))
            return gg_fail(err, GG_ENOMEM, "no memory for a tensor");
        c->cap = (size_t)bytes;
    }
    gg_status st = t->packed ? load_packed(ck, c, t, from, n, err)
                             : gg_pread_all(ck->files[t->file].fd, c->raw, (size_t)bytes,
                                            t->at + from * size, err);
    if (st != GG_OK) return st;
    c->in = in;
    c->from = from;
    c->n = n;
    return GG_OK;
}

/* Elements of a piece that are `step` apart in the stored tensor, from `src` on. */
typedef struct ck_run {
    const gg_ck_tensor *t;
    const gg_ck_piece *p;
    uint64_t at[GG_HF_AXES]; /* indices of the first element */
    uint64_t src, step;
    size_t n;
    bool plain; /* values are copied */
} ck_run;

/* Makes the window hold the run: with as many axes from the last as fit in WINDOW, or the whole
 * tensor. */
static gg_status choose_window(const gg_checkpoint *ck, ck_cache *c, const ck_run *r, gg_error *err)
{
    const gg_ck_piece *p = r->p;
    const gg_hf_view *v = &p->view;
    uint64_t size = gg_st_type_size(ck->in.items[p->in].type), base = r->src, all = 1;
    uint64_t best_from = r->src, best_n = 0, span = (r->n - 1) * r->step + 1;
    if (c->n && c->in == p->in && r->src >= c->from && r->src + span <= c->from + c->n)
        return GG_OK;
    for (uint32_t k = v->n; k-- > 0;) {
        base -= r->at[k] * v->step[k];
        all += (v->count[k] - 1) * v->step[k];
        if (all * size > WINDOW) break;
        best_from = base;
        best_n = all;
    }
    if (best_n == 0 && r->step == 1) best_n = span;
    if (best_n == 0) {
        best_from = 0;
        best_n = ck->in.items[p->in].elements;
    }
    return load_window(ck, c, p->in, best_from, best_n, err);
}

static gg_status load_scales(const gg_checkpoint *ck, ck_cache *c, const gg_st_tensor *in,
                             gg_error *err)
{
    if (c->scaled == in) return GG_OK;
    const gg_st_tensor *s = gg_ck_scale_of(ck, in);
    if (!s) return GG_OK; /* it is 1 */
    free(c->scale);
    c->scaled = NULL;
    uint8_t *raw = malloc((size_t)s->bytes);
    c->scale = malloc((size_t)s->elements * sizeof *c->scale);
    gg_status st = raw && c->scale
                       ? gg_pread_all(ck->files[s->file].fd, raw, (size_t)s->bytes, s->at, err)
                       : gg_ck_no_room(err);
    if (st == GG_OK) gg_st_decode(s->type, raw, c->scale, (size_t)s->elements);
    for (uint64_t i = 0; i < s->elements && st == GG_OK && !ck->stored; i++)
        if (!(c->scale[i] > 0 && isfinite(c->scale[i])))
            st = gg_ck_refuse(ck, s, GG_EFORMAT, "download it again, or save the model as BF16",
                              err, "its value %llu is %g, and a scale must be above 0",
                              (unsigned long long)i, (double)c->scale[i]);
    free(raw);
    if (st != GG_OK) return st;
    uint64_t cols = in->n_dims ? in->dims[in->n_dims - 1] : 1,
             rows = cols ? in->elements / cols : 0;
    c->scale_cols = s->n_dims == 2 && s->dims[1] ? s->dims[1] : 1;
    c->scale_rows = s->elements / c->scale_cols;
    /* not 0: check_scales wants a scale with elements */
    c->block_rows = (rows + c->scale_rows - 1) / c->scale_rows;
    c->block_cols = (cols + c->scale_cols - 1) / c->scale_cols;
    c->scaled = in;
    if (in->n_dims != 2) return GG_OK; /* one for each of several matrices */
    bool guessed = false;              /* check_f8_scales has noted it */
    uint64_t size = gg_ck_block_size(ck, 0, rows, c->scale_rows, &guessed);
    if (size) c->block_rows = size;
    size = gg_ck_block_size(ck, 1, cols, c->scale_cols, &guessed);
    if (size) c->block_cols = size;
    return GG_OK;
}

/* Multiplies consecutive elements from `src` on by their scales. */
static void apply_scales(const ck_cache *c, const gg_st_tensor *in, uint64_t src, uint64_t step,
                         float *x, size_t n)
{
    uint64_t cols = in->n_dims ? in->dims[in->n_dims - 1] : 1;
    for (size_t i = 0; i < n; i++) {
        /* not 0: the tensor has an element and its scale as well */
        uint64_t e = src + i * step, row = e / cols / c->block_rows, col = e % cols / c->block_cols;
        if (row >= c->scale_rows) row = c->scale_rows - 1;
        if (col >= c->scale_cols) col = c->scale_cols - 1;
        x[i] *= c->scale[row * c->scale_cols + col];
    }
}

double gg_ck_change(gg_ck_op op, double x)
{
    switch (op) {
    case GG_CK_PLUS_ONE: return x + 1;
    case GG_CK_MINUS_ONE: return x - 1;
    case GG_CK_NEG_EXP: return -gg_hf_exp(x);
    case GG_CK_LOG_NEG: return gg_hf_log(-x);
    default: return x;
    }
}

/* Changes n values, which are stored as `raw` and decoded as `x`, and stores them as F32 or F64. An
 * F16 tensor is computed in F16, as the reference does. */
static void change_values(const gg_ck_tensor *t, gg_st_type type, const uint8_t *raw,
                          const float *x, size_t n, uint8_t *out)
{
    bool half = type == GG_ST_F16 && (t->op == GG_CK_PLUS_ONE || t->op == GG_CK_NEG_EXP);
    for (size_t i = 0; i < n; i++) {
        double y = x[i];
        if (type == GG_ST_F64) memcpy(&y, raw + i * sizeof y, sizeof y);
        y = gg_ck_change(t->op, y);
        float f = (float)y;
        if (half) f = gg_f16_to_f32(gg_f32_to_f16(f));
        if (t->times != 0) f *= t->times;
        if (t->wide) memcpy(out + i * sizeof y, &y, sizeof y);
        else memcpy(out + i * sizeof f, &f, sizeof f);
    }
}

/* Of a model that is converted, values that F32 cannot hold are refused, as when a tensor is
 * re-encoded. Tensors under stored names are only shown. */
static gg_status check_range(const gg_checkpoint *ck, const ck_run *r, const uint8_t *raw, size_t n,
                             gg_error *err)
{
    const gg_st_tensor *in = &ck->in.items[r->p->in];
    if (ck->stored || (r->t->wide && in->type == GG_ST_F64) ||
        gg_count_narrowed(gg_st_dtype(in->type), raw, n) == 0)
        return GG_OK;
    return gg_ck_refuse(ck, in, GG_EUNSUPPORTED, "repair the checkpoint, or save it as F32", err,
                        "it has %s values that F32 cannot hold", in->type_name);
}

/* Moves the elements of a run, which lie in the window, to `out`. */
static gg_status move_run(const gg_checkpoint *ck, const ck_cache *c, const ck_run *r, uint8_t *out,
                          gg_error *err)
{
    const gg_st_tensor *in = &ck->in.items[r->p->in];
    size_t size = gg_st_type_size(in->type);
    const uint8_t *raw = c->raw + (r->src - c->from) * size;
    if (r->plain && r->step == 1) {
        memcpy(out, raw, r->n * size);
        return GG_OK;
    }
    uint8_t strided[BATCH * 8];
    float x[BATCH];
    for (size_t done = 0; done < r->n;) {
        size_t n = r->n - done < BATCH ? r->n - done : BATCH;
        const uint8_t *from = raw + done * r->step * size;
        if (r->step != 1) {
            uint8_t *to = r->plain ? out + done * size : strided;
            for (size_t i = 0; i < n; i++) memcpy(to + i * size, from + i * r->step * size, size);
            from = strided;
        }
        if (!r->plain) {
            if (check_range(ck, r, from, n, err) != GG_OK) return err->status;
            gg_st_decode(in->type, from, x, n);
            if (c->scaled == in) apply_scales(c, in, r->src + done * r->step, r->step, x, n);
            change_values(r->t, in->type, from, x, n, out + done * (r->t->wide ? 8 : 4));
        }
        done += n;
    }
    return GG_OK;
}

/* The piece that has element `e`. */
static const gg_ck_piece *piece_at(const gg_ck_tensor *t, uint64_t e)
{
    size_t low = 0, high = t->n_pieces;
    while (high - low > 1) {
        size_t mid = low + (high - low) / 2;
        if (t->pieces[mid].start <= e) low = mid;
        else high = mid;
    }
    return &t->pieces[low];
}

/* The longest run from element e of a tensor on, of at most `most` elements. */
static ck_run run_from(const gg_checkpoint *ck, size_t index, uint64_t e, size_t most)
{
    const gg_ck_tensor *t = &ck->made[index];
    ck_run r = { .t = t, .p = piece_at(t, e) };
    const gg_hf_view *v = &r.p->view;
    uint64_t left = e - r.p->start;
    r.src = v->first;
    for (uint32_t k = v->n; k-- > 0;) {
        /* not 0: element e is in the view */
        r.at[k] = left % v->count[k];
        left /= v->count[k];
        r.src += r.at[k] * v->step[k];
    }
    uint64_t more = v->count[v->n - 1] - r.at[v->n - 1];
    r.step = v->step[v->n - 1];
    r.n = more < most ? (size_t)more : most;
    r.plain = !t->op && t->times == 0 &&
              gg_st_dtype(ck->in.items[r.p->in].type) == ck->header.tensors[index].dtype;
    return r;
}

/* Produces the first elements of a run, and sets its length to their number. */
static gg_status produce_run(const gg_checkpoint *ck, ck_cache *c, ck_run *r, uint8_t *out,
                             gg_error *err)
{
    const gg_st_tensor *in = &ck->in.items[r->p->in];
    size_t size = gg_st_type_size(in->type);
    gg_status st = GG_OK;
    if (r->step == 1 && r->plain && !in->packed && r->n * size >= WINDOW / 64)
        return gg_pread_all(ck->files[in->file].fd, out, r->n * size, in->at + r->src * size, err);
    if (r->step == 1 && r->n > WINDOW / 16) r->n = WINDOW / 16;
    if (in->type == GG_ST_F8_E4M3 || in->type == GG_ST_F8_E5M2) st = load_scales(ck, c, in, err);
    if (st == GG_OK) st = choose_window(ck, c, r, err);
    if (st == GG_OK) st = move_run(ck, c, r, out, err);
    return st;
}

static size_t element_size(const gg_checkpoint *ck, size_t i)
{
    return (size_t)gg_dtype_get(ck->header.tensors[i].dtype)->block_bytes;
}

/* Reads n bytes from `offset` on, which are whole elements. */
static gg_status read_elements(const gg_checkpoint *ck, const gg_data *d, uint64_t offset,
                               uint8_t *out, size_t n, gg_error *err)
{
    /* not 0: types have bytes */
    size_t size = element_size(ck, d->index);
    uint64_t e = offset / size;
    gg_status st = GG_OK;
    for (n /= size; n > 0 && st == GG_OK;) {
        ck_run r = run_from(ck, d->index, e, n);
        st = produce_run(ck, d->cache, &r, out, err);
        out += r.n * size;
        e += r.n;
        n -= r.n;
    }
    return st;
}

static gg_status read_checkpoint(gg_data *d, uint64_t offset, void *buf, size_t n, gg_error *err)
{
    const gg_checkpoint *ck = checkpoint_of(d->source);
    const gg_ck_tensor *t = &ck->made[d->index];
    if (t->values) {
        memcpy(buf, (const uint8_t *)t->values + offset, n);
        return GG_OK;
    }
    if (!d->cache && !(d->cache = calloc(1, sizeof(ck_cache)))) return gg_ck_no_room(err);
    size_t size = element_size(ck, d->index);
    uint8_t one[8] = { 0 }, *out = buf;
    gg_status st = GG_OK;
    while (n > 0 && st == GG_OK) {
        /* not 0: types have bytes */
        size_t skip = (size_t)(offset % size), part = n;
        if (skip || n < size) { /* a part of an element */
            if (size - skip < part) part = size - skip;
            st = read_elements(ck, d, offset - skip, one, size, err);
            memcpy(out, one + skip, part);
        } else {
            part -= n % size;
            st = read_elements(ck, d, offset, out, part, err);
        }
        offset += part;
        out += part;
        n -= part;
    }
    return st;
}

static void end_checkpoint(gg_data *d)
{
    ck_cache *c = d->cache;
    if (!c) return;
    free(c->raw);
    free(c->scale);
    free(c);
}

/* ---- the source ---------------------------------------------------------------------------------
 */

/* A file by its contents, whatever its name; by its name, if its contents are damaged or an index.
 */
static bool is_checkpoint(const gg_spec *spec)
{
    if (!spec->folder && spec->n >= 4 && memcmp(spec->bytes, "GGUF", 4) == 0) return false;
    if (!spec->folder && gg_is_safetensors(spec->bytes, spec->n)) return true;
    return gg_is_checkpoint(spec->path, spec->err);
}

static gg_status open_checkpoint(gg_source *s, const char *path, gg_error *err)
{
    checkpoint_source *c = (checkpoint_source *)s;
    gg_status st = gg_checkpoint_open(path, &s->o, &c->ck, err);
    if (st != GG_OK) return st;
    if (s->o.whole && c->ck->no_tokenizer.status != GG_OK) {
        *err = c->ck->no_tokenizer;
        return err->status;
    }
    show(c);
    if (s->o.strict && c->ck->doubt) {
        gg_fail(err, GG_NO, "%s", c->ck->doubt);
        gg_fix_by(err, "strict", "correct it, or write it anyway");
        return gg_at_file(err, path);
    }
    for (char *p = c->ck->notes; p && *p;) { /* one per line */
        size_t n = strcspn(p, "\n");
        p[n] = '\0';
        gg_source_note(s, path, p + 1);
        p[n] = '\n';
        p += n + 1;
    }
    return GG_OK;
}

static void close_checkpoint(gg_source *s)
{
    gg_checkpoint_close(((checkpoint_source *)s)->ck);
}

/* The place of a tensor whose bytes are stored as they are. */
static gg_status place_in_checkpoint(gg_source *s, size_t i, gg_data *d, gg_error *err)
{
    const gg_checkpoint *ck = checkpoint_of(s);
    const gg_ck_tensor *t = &ck->made[i];
    const gg_ck_piece *p = t->pieces;
    (void)err;
    if (t->n_pieces != 1 || t->op || t->times != 0) return GG_OK;
    const gg_st_tensor *in = &ck->in.items[p->in];
    if (in->packed || gg_st_dtype(in->type) != ck->header.tensors[i].dtype) return GG_OK;
    uint64_t step = 1;
    for (uint32_t k = p->view.n; k-- > 0; step *= p->view.count[k])
        if (p->view.count[k] != 1 && p->view.step[k] != step) return GG_OK;
    d->fd = ck->files[in->file].fd;
    d->at = in->at + p->view.first * gg_st_type_size(in->type);
    return GG_OK;
}

/* The file that has its first value. */
static const char *file_of_checkpoint(const gg_source *s, size_t i)
{
    const gg_checkpoint *ck = checkpoint_of(s);
    const gg_ck_tensor *t = &ck->made[i];
    return t->n_pieces ? ck->files[ck->in.items[t->pieces[0].in].file].path : ck->files[0].path;
}

static gg_status each_file_of_checkpoint(const gg_source *s, gg_source_file_fn *fn, void *ctx,
                                         gg_error *err)
{
    const gg_checkpoint *ck = checkpoint_of(s);
    gg_status st = GG_OK;
    for (size_t i = 0; ck && i < ck->n_files && st == GG_OK; i++)
        st = fn(ctx, &ck->files[i].stamp, ck->files[i].fd, ck->files[i].path, err);
    for (size_t i = 0; ck && i < ck->n_others && st == GG_OK; i++)
        st = fn(ctx, &ck->others[i].stamp, -1, ck->others[i].path, err);
    return st;
}

const gg_source_kind gg_source_checkpoint = {
    .size = sizeof(checkpoint_source),
    .is = is_checkpoint,
    .open = open_checkpoint,
    .close = close_checkpoint,
    .place = place_in_checkpoint,
    .read = read_checkpoint,
    .end = end_checkpoint,
    .file_of = file_of_checkpoint,
    .each_file = each_file_of_checkpoint,
};

gg_status gg_source_of_checkpoint(gg_checkpoint *ck, const char *name, gg_source **out,
                                  gg_error *err)
{
    gg_source *s = gg_source_new(&gg_source_checkpoint, name, err);
    if (!s) {
        gg_checkpoint_close(ck);
        return GG_ENOMEM;
    }
    ((checkpoint_source *)s)->ck = ck;
    show((checkpoint_source *)s);
    return gg_source_opened(s, GG_OK, out, err);
}

bool gg_source_is_checkpoint(const gg_source *s)
{
    while (s->of) s = s->of;
    return s->kind == &gg_source_checkpoint && s->meta && !checkpoint_of(s)->stored &&
           !checkpoint_of(s)->adapter;
}

bool gg_source_lacks_vocabulary(const gg_source *s)
{
    return gg_source_is_checkpoint(s) && !gg_meta_find(s->meta, "tokenizer.ggml.tokens");
}

const gg_error *gg_source_refusal(const gg_source *s)
{
    while (s->of) s = s->of;
    return s->kind == &gg_source_checkpoint && checkpoint_of(s)->stored ? &checkpoint_of(s)->refusal
                                                                        : NULL;
}

gg_stored gg_source_stored(const gg_source *s)
{
    if (!gg_source_refusal(s)) return GG_STORED_NOTHING;
    while (s->of) s = s->of;
    const gg_checkpoint *ck = checkpoint_of(s);
    return ck->adapter ? GG_STORED_ADAPTER : ck->config ? GG_STORED_MODEL : GG_STORED_FILE;
}

const char *gg_source_remarks(const gg_source *s)
{
    while (s->of) s = s->of;
    return s->kind == &gg_source_checkpoint ? checkpoint_of(s)->notes : NULL;
}

gg_hf_beside gg_source_hf_beside(const gg_source *s)
{
    const gg_checkpoint *ck = checkpoint_of(s);
    return (gg_hf_beside){ ck->beside_name, ck->beside, ck->order, ck->note };
}
