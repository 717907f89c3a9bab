/* table.c - TSV or JSON Lines. */
#include "table.h"

#include "json/json.h" /* JSON writer */

#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "organ/manifest_json.h"   /* names that are not UTF-8 */
#include "verbs/shared/key_text.h" /* values as the manual page shows them */

static atomic_int lost_by;

table table_start(bool json, const char *columns)
{
    if (!json) puts(columns);
    return (table){ json, columns, columns, true };
}

/* Prints what precedes a cell: a tab, or the JSON name of its column. */
static void lead(table *t)
{
    size_t n = strcspn(t->next, "\t");
    if (t->json) printf("%s\"%.*s\": ", t->first ? "{" : ", ", (int)n, t->next);
    else if (!t->first) putchar('\t');
    t->first = false;
    t->next += n + (t->next[n] == '\t');
}

static gg_status to_stdout(void *ctx, const char *bytes, size_t n, gg_error *err)
{
    (void)ctx;
    return fwrite(bytes, 1, n, stdout) == n ? GG_OK : gg_fail_errno(err, "write failed");
}

void cell_bytes(table *t, const char *bytes, size_t n)
{
    lead(t);
    if (t->json) {
        gg_json_out o = { to_stdout, NULL };
        gg_error err = GG_ERROR_INIT; /* a failed write is noticed when stdout is closed */
        gg_mj_put_bytes(&o, bytes, n, &err);
        return;
    }
    char small[512];
    size_t need = gg_escape(bytes, n, small, sizeof small);
    if (need < sizeof small) {
        fputs(small, stdout);
        return;
    }
    char *big = malloc(need + 1);
    if (!big) return;
    gg_escape(bytes, n, big, need + 1);
    fputs(big, stdout);
    free(big);
}

gg_key_out cell_open(table *t)
{
    lead(t);
    return (gg_key_out){ to_stdout, NULL };
}

void cell_text(table *t, const char *text)
{
    cell_bytes(t, text, strlen(text));
}

void cell_u64(table *t, uint64_t v)
{
    lead(t);
    printf("%llu", (unsigned long long)v);
}

void cell_i64(table *t, int64_t v)
{
    lead(t);
    printf("%lld", (long long)v);
}

void cell_f64(table *t, double v)
{
    char text[32];
    lead(t);
    gg_format_f64(v, text);
    fputs(t->json && !isfinite(v) ? "null" : text, stdout);
}

void cell_bool(table *t, bool v)
{
    lead(t);
    fputs(v ? "true" : "false", stdout);
}

void cell_null(table *t)
{
    lead(t);
    fputs(t->json ? "null" : "-", stdout);
}

void cell_json(table *t, const char *tsv, const char *json)
{
    lead(t);
    fputs(t->json ? json : tsv, stdout);
}

void table_row(table *t)
{
    puts(t->json ? "}" : "");
    t->next = t->columns;
    t->first = true;
    int none = 0;
    if (ferror(stdout)) atomic_compare_exchange_strong(&lost_by, &none, errno);
}

int table_errno(void)
{
    return atomic_load(&lost_by);
}
