/* t_lineage.c - the lineage verdict: its rules, chance, the lab's models, pairs by
 * index, and sums that do not depend on how the work is shared. */
#include "t.h"

#include "kin/gg_compare_model.h"
#include "kin/lineage.h"
#include "numeric/numeric.h"
#include "organ/tensor_names.h"

#include <math.h>

#define LAB "tests/data/lab/lab-"

static gg_lineage judge(double *cosines, size_t n, size_t tensors, size_t identical)
{
    gg_lineage l = { .tensors = tensors, .identical = identical };
    gg_lineage_judge(cosines, n, &l);
    return l;
}

static void rules(void)
{
    double same[] = { 0.99, 0.8, 0.85 }, low[] = { 0.0999, -0.02, 0.03, 0.01 },
           between[] = { 0.79, 0.99, 0.2 };
    double mostly[] = { 0.97, 0.01, 0.98, 0.99 }, half[] = { 0.98, 0.99, 0.97, 0.01, 0.02 },
           opposite[] = { -1, -1 };
    gg_lineage l = judge(same, 3, 9, 1);
    T_CHECK(l.verdict == GG_LINEAGE_SAME && l.min == 0.8 && l.median == 0.85 && l.max == 0.99 &&
            l.n == 3 && l.same == 3);
    l = judge(low, 4, 9, 1);
    T_CHECK(l.verdict == GG_LINEAGE_STRANGERS && l.median == 0.02 && l.strange == 4);
    T_EQ(judge(between, 3, 9, 1).verdict, GG_LINEAGE_UNDECIDABLE);
    T_EQ(judge(mostly, 4, 9, 1).verdict, GG_LINEAGE_SAME);      /* a graft from a stranger */
    T_EQ(judge(half, 5, 9, 1).verdict, GG_LINEAGE_UNDECIDABLE); /* a chimera */
    T_EQ(judge(opposite, 2, 9, 1).verdict, GG_LINEAGE_STRANGERS);
    T_CHECK(judge(NULL, 0, 9, 8).verdict == GG_LINEAGE_UNDECIDABLE);
    T_CHECK(judge(NULL, 0, 9, 9).verdict == GG_LINEAGE_IDENTICAL);
    T_CHECK(judge(NULL, 0, 0, 0).verdict == GG_LINEAGE_UNDECIDABLE);
}

static void texts(void)
{
    double c[] = { 0.9619, 0.98736, 0.9915 };
    gg_lineage l = judge(c, 3, 9, 0);
    char text[200], tiny[8];
    gg_lineage_text(&l, text, sizeof text);
    T_CHECKF(strcmp(text, "same lineage: median cosine 0.987 (0.962 to 0.992) of 3 matrices") == 0,
             "%s", text);
    gg_lineage_text(&l, tiny, sizeof tiny);
    T_STR(tiny, "same li");
    l = judge(NULL, 0, 2, 2);
    gg_lineage_text(&l, text, sizeof text);
    T_CHECKF(strcmp(text, "identical: all 2 tensors, byte for byte") == 0, "%s", text);
    l = judge(NULL, 0, 2, 1);
    gg_lineage_text(&l, text, sizeof text);
    T_CHECKF(
        strcmp(text,
               "undecidable: no weight matrices have equal shapes, so lineage cannot be judged") ==
            0,
        "%s", text);
    l = judge(NULL, 0, 0, 0);
    gg_lineage_text(&l, text, sizeof text);
    T_CHECKF(strcmp(text, "undecidable: no tensors match, so lineage cannot be judged") == 0, "%s",
             text);
}

/* Independent noise of the smallest size that counts stays clear of the threshold. */
static void chance(void)
{
    enum { N = GG_LINEAGE_VALUES, TRIALS = 200 };
    static float a[N], b[N];
    double worst = 0;
    for (uint64_t i = 0; i < TRIALS; i++) {
        gg_compare acc = GG_COMPARE_INIT;
        gg_gauss_fill(a, N, 2 * i + 1);
        gg_gauss_fill(b, N, 2 * i + 2);
        gg_compare_add(&acc, a, b, N);
        double c = fabs(gg_compare_finish(&acc).cosine);
        if (c > worst) worst = c;
    }
    T_CHECKF(worst < GG_LINEAGE_STRANGE_BELOW && worst > 0.01, "%g", worst);
}

static gg_compare_row row_of(const char *name, uint64_t d0, uint64_t d1, gg_tensor *t)
{
    *t = (gg_tensor){ .name = name,
                      .name_len = strlen(name),
                      .n_dims = 2,
                      .dims = { d0, d1, 1, 1 },
                      .elements = d0 * d1,
                      .a = gg_anatomy_of(name, strlen(name)) };
    return (gg_compare_row){
        .status = GG_SAME_DIFFERS, .a = t, .b = t, .measured = true, .compared = d0 * d1
    };
}

static void what_counts(void)
{
    gg_tensor t;
    gg_compare_row r = row_of("blk.0.ffn_up.weight", 256, 512, &t);
    T_CHECK(gg_lineage_counts(&r));
    r.measured = false;
    T_CHECK(!gg_lineage_counts(&r));
    r = row_of("blk.0.ffn_up.weight", 16, 4096, &t);
    T_CHECK(!gg_lineage_counts(&r));
    r = row_of("blk.0.attn_q.weight", 64, 63, &t);
    T_CHECK(!gg_lineage_counts(&r));
    r = row_of("blk.0.attn_norm.weight", 256, 256, &t);
    T_CHECK(!gg_lineage_counts(&r));
    r = row_of("token_embd.weight", 256, 1024, &t);
    T_CHECK(!gg_lineage_counts(&r));
}

/* ---- the lab ---------------------------------------------------------------------- */

static gg_source *open_lab(const char *name)
{
    char path[256];
    gg_source *s = NULL;
    gg_error err = GG_ERROR_INIT;
    snprintf(path, sizeof path, LAB "%s-q4_k_m.gguf", name);
    T_CHECKF(gg_source_open(path, &s, &err) == GG_OK, "%s: %s", path, err.what);
    return s;
}

static gg_lineage lineage(const char *a, const char *b, uint64_t sample, unsigned threads)
{
    gg_source *sa = open_lab(a), *sb = open_lab(b);
    gg_lineage l = { .n = 99999 };
    if (sa && sb) {
        gg_error err = GG_ERROR_INIT;
        gg_run run = { .threads = threads };
        gg_compare_options o = { .sample = sample };
        T_CHECKF(gg_lineage_of(sa, sb, &o, &run, &l, &err) == GG_OK, "%s", err.what);
    }
    gg_source_close(sa);
    gg_source_close(sb);
    return l;
}

static void lab(void)
{
    static const struct {
        const char *a, *b;
        gg_lineage_verdict want;
    } pairs[] = {
        { "base", "verse", GG_LINEAGE_SAME },          { "base", "code", GG_LINEAGE_SAME },
        { "verse", "code", GG_LINEAGE_SAME },          { "base", "stranger", GG_LINEAGE_STRANGERS },
        { "stranger", "verse", GG_LINEAGE_STRANGERS }, { "code", "stranger", GG_LINEAGE_STRANGERS },
        { "code", "code", GG_LINEAGE_IDENTICAL }
    };
    static const uint64_t samples[] = { 0, GG_LINEAGE_SAMPLE, 32 };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        for (size_t k = 0; k < 3; k++) {
            gg_lineage l = lineage(pairs[i].a, pairs[i].b, samples[k], 2);
            T_CHECKF(l.verdict == pairs[i].want && l.n == 28 && l.tensors == 39, "%s %s: %s, %zu",
                     pairs[i].a, pairs[i].b, gg_lineage_name(l.verdict), l.n);
            gg_lineage one = lineage(pairs[i].a, pairs[i].b, samples[k], 1);
            T_CHECK(memcmp(&l.min, &one.min, sizeof l.min) == 0 &&
                    memcmp(&l.median, &one.median, sizeof l.median) == 0);
        }
}

static gg_status keep(void *ctx, const gg_compare_row *row, gg_error *err)
{
    (void)err;
    double **out = ctx;
    *(*out)++ = row->cosine;
    return GG_OK;
}

/* The pairs of a list: the first FFN matrix of each block of verse against those of base. */
static void pairs_by_index(void)
{
    gg_source *a = open_lab("verse"), *b = open_lab("base");
    if (a && b) {
        gg_error err = GG_ERROR_INIT;
        gg_run run = { 0 };
        gg_tensor_pair list[4];
        for (unsigned i = 0; i < 4; i++) {
            char name[64];
            snprintf(name, sizeof name, "blk.%u.ffn_up.weight", i);
            list[i] = (gg_tensor_pair){ gg_source_find(a, name, strlen(name)),
                                        gg_source_find(b, name, strlen(name)) };
        }
        double cosines[4], *at = cosines;
        gg_compare_options o = { .pairs = list, .n_pairs = 4, .row = keep, .ctx = &at };
        gg_lineage l;
        T_EQ(gg_lineage_of(a, b, &o, &run, &l, &err), GG_OK);
        T_CHECK(l.verdict == GG_LINEAGE_SAME && l.n == 4 && l.min > 0.95);
        gg_compare_report report;
        T_EQ(gg_compare_models(a, b, &o, &run, &report, &err), GG_OK);
        T_CHECK(at == cosines + 4 && report.model.tensors == 4 &&
                report.model.by[GG_SAME_DIFFERS] == 4);
        /* Blocks at other depths are strangers. */
        for (unsigned i = 0; i < 4; i++) list[i].b = gg_source_find(b, "blk.0.ffn_up.weight", 19);
        at = cosines;
        o.pairs = list + 1;
        o.n_pairs = 3;
        T_EQ(gg_compare_models(a, b, &o, &run, NULL, &err), GG_OK);
        T_CHECK(at == cosines + 3);
        T_CHECK(fabs(cosines[0]) < 0.1 && fabs(cosines[1]) < 0.1 && fabs(cosines[2]) < 0.1);
    }
    gg_source_close(a);
    gg_source_close(b);
}

static const t_case cases[] = {
    { "rules", rules },   { "texts", texts },
    { "chance", chance }, { "what counts", what_counts },
    { "lab", lab },       { "pairs by index", pairs_by_index },
};

T_MAIN(cases)
