/* Presets against llama-quantize's choices on nine models, and on one with an importance matrix
 * (tests/data/presets.tsv): the type of every tensor, general.file_type, and which presets are
 * refused. */
#include "files.h"

#include "compute/dtype_rules.h"
#include "gguf/gguf.h"
#include "organ/gg_quant.h"

#define TENSORS 1024 /* of a model, at most */

typedef struct model {
    char name[32];
    gg_meta meta;
    gg_tensor patterns[32], list[TENSORS];
    char names[TENSORS][64];
    size_t n_patterns, n;
    uint64_t blocks;
    bool imatrix;
} model;

static size_t models, presets, refused, checked;

static uint32_t type_of(const char *name)
{
    const gg_dtype_info *info = gg_dtype_by_name(name);
    T_CHECKF(info, "%s", name);
    return info ? (uint32_t)info->id : UINT32_MAX;
}

static void add_pattern(model *m, char *field[])
{
    gg_tensor *t = &m->patterns[m->n_patterns++];
    *t = (gg_tensor){ .name = strdup(field[1]), .dtype = type_of(field[2]), .dims = GG_DIMS_ONE };
    t->name_len = strlen(t->name);
    for (char *d = strtok(field[3], "x"); d; d = strtok(NULL, "x"))
        t->dims[t->n_dims++] = strtoull(d, NULL, 10);
}

static void add(model *m, const gg_tensor *pattern, uint64_t block)
{
    const char *percent = strchr(pattern->name, '%');
    char *name = m->names[m->n];
    if (percent)
        snprintf(name, sizeof m->names[0], "blk.%llu%s", (unsigned long long)block, percent + 1);
    else snprintf(name, sizeof m->names[0], "%s", pattern->name);
    m->list[m->n] = *pattern;
    m->list[m->n].name = name;
    m->list[m->n++].name_len = strlen(name);
}

/* The tensors of a model as they come in its file: the roles of a block, block by block. */
static void list_tensors(model *m)
{
    m->n = 0;
    for (size_t i = 0; i < m->n_patterns;) {
        size_t end = i;
        while (end < m->n_patterns && strchr(m->patterns[end].name, '%')) end++;
        for (uint64_t b = 0; b < m->blocks && end > i; b++)
            for (size_t k = i; k < end; k++) add(m, &m->patterns[k], b);
        if (end == i) add(m, &m->patterns[end++], 0);
        i = end;
    }
}

/* The type stated for a tensor: that of its role, in the run of blocks with it, or the default. */
static uint32_t wanted(const gg_tensor *t, char *field[], size_t n)
{
    uint64_t block = strtoull(t->name + 4, NULL, 10);
    for (size_t i = 4; i < n; i++) {
        char *eq = strchr(field[i], '='), role[64], runs[512];
        size_t len = (size_t)(eq - field[i]);
        if (strncmp(field[i], "blk.%", 5) == 0)
            snprintf(role, sizeof role, "blk.%llu%.*s", (unsigned long long)block, (int)len - 5,
                     field[i] + 5);
        else snprintf(role, sizeof role, "%.*s", (int)len, field[i]);
        if (strcmp(role, t->name) != 0) continue;
        snprintf(runs, sizeof runs, "%s", eq + 1);
        for (char *run = strtok(runs, ","); run; run = strtok(NULL, ",")) {
            char *times = strchr(run, 'x');
            uint64_t count = times ? strtoull(times + 1, NULL, 10) : 1;
            if (times) *times = '\0';
            if (block < count || strncmp(t->name, "blk.", 4) != 0) return type_of(run);
            block -= count;
        }
    }
    return t->n_dims < 2 ? t->dtype : type_of(field[3]);
}

static void check_preset(model *m, char *field[], size_t n)
{
    uint32_t dtypes[TENSORS];
    gg_error e = GG_ERROR_INIT;
    const gg_preset *p = gg_preset_by_name(field[1]);
    T_CHECKF(p, "%s", field[1]);
    if (!p) return;
    list_tensors(m);
    gg_preset_model whole = { m->list, m->n, &m->meta, m->imatrix };
    gg_status st = gg_preset_choose(p, &whole, dtypes, NULL, &e);
    presets++;
    if (strcmp(field[2], "refused") == 0) {
        refused++;
        T_CHECKF(st == GG_EUSAGE, "%s, %s: %d", m->name, field[1], st);
        T_CHECKF(strstr(e.what, "importance matrix"), "%s, %s: %s", m->name, field[1], e.what);
        return;
    }
    T_CHECKF(st == GG_OK, "%s, %s: %s", m->name, field[1], e.what);
    uint64_t file_type = UINT64_MAX;
    T_EQ(gg_preset_keys(p, &m->meta, &e), GG_OK);
    gg_kv_u64(gg_meta_find(&m->meta, "general.file_type"), &file_type);
    T_EQ(file_type, (uint64_t)strtoull(field[2], NULL, 10));
    for (size_t i = 0; i < m->n && st == GG_OK; i++, checked++) {
        uint32_t want = wanted(&m->list[i], field, n);
        T_CHECKF(dtypes[i] == want, "%s, %s: %s is %s, %s wanted", m->name, field[1],
                 m->list[i].name, gg_dtype_get(dtypes[i])->name, gg_dtype_get(want)->name);
    }
}

static void end_model(model *m)
{
    for (size_t i = 0; i < m->n_patterns; i++) free((char *)(uintptr_t)m->patterns[i].name);
    gg_meta_free(&m->meta);
    memset(m, 0, sizeof *m);
}

static void line(model *m, char *field[], size_t n)
{
    gg_error e = GG_ERROR_INIT;
    if (strcmp(field[0], "model") == 0) {
        end_model(m);
        snprintf(m->name, sizeof m->name, "%s", field[1]);
        m->imatrix = n > 2 && strcmp(field[2], "imatrix") == 0;
        models++;
    } else if (strcmp(field[0], "key") == 0) {
        const char *count = strstr(field[1], ".block_count=u32:");
        if (count) m->blocks = strtoull(strrchr(count, ':') + 1, NULL, 10);
        T_CHECKF(gg_meta_set_text(&m->meta, field[1], &e) == GG_OK, "%s: %s", field[1], e.what);
    } else if (strcmp(field[0], "tensor") == 0) {
        add_pattern(m, field);
    } else {
        check_preset(m, field, n);
    }
}

static void choices(void)
{
    static model m;
    char *text = slurp("tests/data/presets.tsv", NULL), *rest = text;
    while (*rest) {
        char *field[32], *at = rest;
        size_t n = 0;
        rest += strcspn(rest, "\n");
        if (*rest) *rest++ = '\0';
        if (*at == '#') continue;
        for (char *tab; n < 31; at = tab + 1) {
            field[n++] = at;
            if (!(tab = strchr(at, '\t'))) break;
            *tab = '\0';
        }
        line(&m, field, n);
    }
    end_model(&m);
    free(text);
    T_EQ(models, (size_t)10);
    T_EQ(presets, (size_t)9 * 27 + 30);
    T_CHECKF(refused == 36 && checked > 40000, "%zu refused, %zu tensors", refused, checked);
}

static const t_case cases[] = { { "choices", choices } };

T_MAIN(cases)
