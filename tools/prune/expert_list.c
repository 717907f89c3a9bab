/* expert_list.c - reads which experts are kept: a list, or a file with a line per block. */
#include "prune.h"

#include "base/lines.h"

#include <stdlib.h>
#include <string.h>

static gg_status add_listed(gg_keep_experts *k, uint64_t block, const char *list, gg_error *err)
{
    kept_line *l;
    gg_status st = gg_keep_experts_add(k, block, &l, err);
    return st == GG_OK ? gg_ranges_parse(&l->listed, NULL, list, err) : st;
}

/* "3<TAB>0-3,7" */
static gg_status read_kept(void *ctx, char *text, size_t number, gg_error *err)
{
    text[strcspn(text, "\r")] = '\0';
    char *tab = strchr(text, '\t'), *end;
    if (text[0] == '\0' || (number == 1 && strncmp(text, "block\t", 6) == 0)) return GG_OK;
    unsigned long long block = strtoull(text, &end, 10);
    if (!tab || end != tab || text[0] < '0' || text[0] > '9' || tab - text > 9)
        return gg_fail(err, GG_EUSAGE,
                       "line %zu: expected a block number, a tab and experts such as "
                       "0-3,7",
                       number);
    return add_listed(ctx, block, tab + 1, err);
}

static gg_status read_kept_file(gg_keep_experts *k, const char *path, gg_error *err)
{
    gg_lines from = { path, "the list of experts", EXPERT_LIST_MAX };
    gg_status st = gg_each_line(&from, read_kept, k, err);
    if (st != GG_OK || k->n > 0) return st;
    gg_fail(err, GG_EUSAGE, "the file lists no experts");
    return gg_at_file(err, path);
}

gg_status gg_keep_experts_parse(const char *text, gg_keep_experts **out, gg_error *err)
{
    gg_keep_experts *k;
    gg_status st = gg_keep_experts_new(text, &k, err);
    if (st != GG_OK) return st;
    bool list = text[strspn(text, "0123456789,-")] == '\0';
    st = list ? add_listed(k, UINT64_MAX, text, err) : read_kept_file(k, text, err);
    if (st == GG_OK && k->n) qsort(k->lines, k->n, sizeof *k->lines, gg_kept_line_order);
    for (size_t i = 1; i < k->n && st == GG_OK; i++)
        if (k->lines[i].block == k->lines[i - 1].block) {
            gg_fail(err, GG_EUSAGE, "block %llu is listed twice",
                    (unsigned long long)k->lines[i].block);
            st = gg_at_file(err, text);
        }
    if (st == GG_OK) *out = k;
    else gg_keep_experts_free(k);
    return st;
}
