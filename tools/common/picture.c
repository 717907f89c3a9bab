/* picture.c - draws the tensors of a model as a grid with one column per block and one row per
 * role: the layout, an SVG file and a map for terminals. */
#include "picture.h"

#include "base/buf.h"
#include "base/grow.h"
#include "organ/manifest.h"
#include "organ/source_layout.h"
#include "json/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct gg_picture_cell { /* one tensor */
    char *name;                  /* owned, NUL-terminated */
    size_t name_len;
    gg_anatomy a;
    double value; /* NaN = none */
} gg_picture_cell;

typedef struct grid_role {
    const char *name; /* role within a block, with the prefix of the block */
    size_t name_len;
    const char *prefix; /* "enc." of "enc.blk.0.attn_q", "double_blocks." of an image model */
    size_t prefix_len;
    gg_class cls;
} grid_role;

typedef struct grid_cell { /* mean over the tensors that share a square, such as experts */
    double sum;
    size_t measured, tensors;
} grid_cell;

typedef struct grid {
    const gg_picture *p;
    grid_role *roles; /* by class, then by first appearance */
    size_t n_roles;
    int64_t *blocks; /* ascending */
    size_t n_blocks;
    grid_cell *cells; /* [role * n_blocks + block] */
    size_t *role_of;  /* for each tensor that belongs to a block: its role */
    size_t *sides;    /* tensors without a block */
    size_t n_sides;
    double low, high; /* of the colour scale; low < high */
} grid;

/* ---- colours ------------------------------------------------------------------ */

/* A colour scale with equal perceptual steps from dark to light that colour-blind readers can also
 * distinguish. t is 0..1; rgb receives values from 0 to 255.
 * The lightness (CIE L*) rises in equal steps from 15 to 90, and the hue goes from violet through
 * blue and green to yellow. The order is therefore visible in greyscale and to colour-blind
 * readers. */
static void scale_color(double t, unsigned rgb[3])
{
    static const unsigned char stops[9][3] = {
        { 68, 1, 84 },    { 71, 45, 123 }, { 59, 82, 139 },  { 44, 114, 142 }, { 33, 145, 140 },
        { 40, 174, 128 }, { 94, 201, 98 }, { 173, 220, 48 }, { 253, 231, 37 }
    };
    double at = (t > 0 ? t < 1 ? t : 1 : 0) * 8;
    int i = (int)at;
    if (i > 7) i = 7;
    double part = at - i;
    for (int k = 0; k < 3; k++)
        rgb[k] = (unsigned)(stops[i][k] * (1 - part) + stops[i + 1][k] * part + 0.5);
}

/* Colours that colour-blind readers can distinguish too (Okabe and Ito, "Color Universal Design").
 * The first, of the base, is grey. */
static void source_color(double source, unsigned rgb[3])
{
    static const unsigned char colors[9][3] = {
        { 150, 150, 158 }, { 0, 114, 178 }, { 230, 159, 0 },  { 0, 158, 115 }, { 204, 121, 167 },
        { 86, 180, 233 },  { 213, 94, 0 },  { 240, 228, 66 }, { 90, 60, 120 }
    };
    int i = source < 8 ? (int)source : 8;
    for (int k = 0; k < 3; k++) rgb[k] = colors[i][k];
}

/* The place of a value on the scale, 0 to 1. */
static double place_on_scale(const grid *g, double value)
{
    double t = (value - g->low) / (g->high - g->low);
    return t < 0 ? 0 : t > 1 ? 1 : t;
}

/* The colour of a value: of its place on the scale, or of its source. */
static void value_color(const grid *g, double value, unsigned rgb[3])
{
    if (g->p->sources) source_color(value, rgb);
    else scale_color(place_on_scale(g, value), rgb);
}

/* The name of the source that a value stands for. */
static const char *source_name(const grid *g, double value)
{
    size_t i = value >= 0 && value < (double)g->p->n_sources ? (size_t)value : 0;
    return g->p->n_sources ? g->p->sources[i] : "";
}

/* A source has a letter as well as a colour. */
static char source_letter(double source)
{
    return source < 26 ? (char)('A' + (int)source) : '+';
}

/* ---- roles and blocks ------------------------------------------------------------ */

static grid_role role_of(const gg_picture_cell *r)
{
    grid_role k = { .name = r->name + r->a.role_at,
                    .name_len = r->a.role_len,
                    .prefix = r->name,
                    .cls = r->a.cls };
    for (size_t i = 0; r->a.expert >= 0 && i + 1 < k.name_len; i++)
        if (k.name[i] == '.' && k.name[i + 1] >= '0' && k.name[i + 1] <= '9') k.name_len = i;
    /* The prefix before the block number, unless it is just "blk.". */
    size_t at = r->a.role_at ? r->a.role_at - 1 : 0;
    while (at > 0 && r->name[at - 1] >= '0' && r->name[at - 1] <= '9') at--;
    if (at >= 4 && memcmp(r->name + at - 4, "blk.", 4) == 0) at -= 4;
    k.prefix_len = at;
    return k;
}

typedef struct named { /* a row that belongs to a block */
    grid_role role;
    size_t row, first; /* first: the first row with this role */
} named;

static int order_name(const grid_role *x, const grid_role *y)
{
    if (x->name_len != y->name_len) return x->name_len < y->name_len ? -1 : 1;
    if (x->prefix_len != y->prefix_len) return x->prefix_len < y->prefix_len ? -1 : 1;
    int c = memcmp(x->name, y->name, x->name_len);
    return c ? c : memcmp(x->prefix, y->prefix, x->prefix_len);
}

/* The display order of roles: by class, then by first appearance. */
static int order_shown(const void *a, const void *b)
{
    const named *x = a, *y = b;
    if (x->role.cls != y->role.cls) return x->role.cls < y->role.cls ? -1 : 1;
    return x->row < y->row ? -1 : x->row > y->row;
}

static int order_roles(const void *a, const void *b)
{
    int c = order_name(&((const named *)a)->role, &((const named *)b)->role);
    return c ? c : order_shown(a, b);
}

static size_t find_block(const grid *g, int64_t block)
{
    const int64_t *at = bsearch(&block, g->blocks, g->n_blocks, sizeof *g->blocks, gg_order_i64);
    return (size_t)(at - g->blocks);
}

static void list_blocks(grid *g, const gg_picture *p)
{
    for (size_t i = 0; i < p->n; i++)
        if (p->cells[i].a.block >= 0) g->blocks[g->n_blocks++] = p->cells[i].a.block;
    if (g->n_blocks == 0) return;
    qsort(g->blocks, g->n_blocks, sizeof *g->blocks, gg_order_i64);
    size_t used = 1;
    for (size_t i = 1; i < g->n_blocks; i++)
        if (g->blocks[i] != g->blocks[used - 1]) g->blocks[used++] = g->blocks[i];
    g->n_blocks = used;
}

/* Collects the roles and assigns one to each row. Sorting keeps this fast even if every tensor
 * has a role of its own. */
static bool list_roles(grid *g, const gg_picture *p)
{
    named *all = calloc(p->n + 1, sizeof *all);
    size_t n = 0;
    if (!all) return false;
    for (size_t i = 0; i < p->n; i++)
        if (p->cells[i].a.block >= 0) all[n++] = (named){ role_of(&p->cells[i]), i, i };
    qsort(all, n, sizeof *all, order_roles);
    for (size_t i = 1; i < n; i++)
        if (order_name(&all[i - 1].role, &all[i].role) == 0) all[i].first = all[i - 1].first;
    qsort(all, n, sizeof *all, order_shown);
    for (size_t i = 0; i < n; i++) {
        if (all[i].first == all[i].row) {
            g->role_of[all[i].row] = g->n_roles;
            g->roles[g->n_roles++] = all[i].role;
        } else {
            g->role_of[all[i].row] = g->role_of[all[i].first]; /* not its first row */
        }
    }
    free(all);
    return true;
}

/* ---- scale ----------------------------------------------------------------------- */

/* The nearest multiple of 5 that is at least v, or at most. */
static double multiple_of_five(double v, bool up)
{
    if (!(fabs(v) < 1e15)) return v;
    int64_t n = (int64_t)(v / 5);
    if (up && 5 * (double)n < v) n++;
    if (!up && 5 * (double)n > v) n--;
    return 5 * (double)n;
}

/* Limits that a few outliers do not move: the 5 % and 95 % quantiles. If these are equal, because
 * few tensors differ, the smallest and the largest value. */
static bool set_scale(grid *g, const gg_picture *p)
{
    double *v = calloc(p->n + 1, sizeof *v);
    size_t n = 0;
    if (!v) return false;
    for (size_t i = 0; i < p->n; i++)
        if (!isnan(p->cells[i].value)) v[n++] = p->cells[i].value;
    if (n) {
        qsort(v, n, sizeof *v, gg_order_f64);
        size_t out = (size_t)(0.05 * (double)(n - 1) + 0.5);
        if (v[out] == v[n - 1 - out]) out = 0;
        g->low = v[out];
        g->high = v[n - 1 - out];
    }
    free(v);
    if (p->unit && strcmp(p->unit, "degrees") == 0) {
        g->low = multiple_of_five(g->low, false);
        g->high = multiple_of_five(g->high, true);
    }
    if (!(g->high > g->low)) g->high = g->low + (fabs(g->low) > 100 ? fabs(g->low) / 100 : 1);
    return true;
}

/* ---- all of it --------------------------------------------------------------------- */

static void fill_cells(grid *g, const gg_picture *p)
{
    for (size_t i = 0; i < p->n; i++) {
        const gg_picture_cell *r = &p->cells[i];
        if (r->a.block < 0) {
            g->sides[g->n_sides++] = i;
            continue;
        }
        grid_cell *c = &g->cells[g->role_of[i] * g->n_blocks + find_block(g, r->a.block)];
        c->tensors++;
        if (isnan(r->value)) continue;
        if (p->sources) { /* one name only: the last of the list */
            c->measured = 1;
            c->sum = c->sum > r->value ? c->sum : r->value;
            continue;
        }
        c->measured++;
        c->sum += r->value;
    }
}

static void free_grid(grid *g)
{
    free(g->roles);
    free(g->blocks);
    free(g->sides);
    free(g->role_of);
    free(g->cells);
    *g = (grid){ 0 };
}

/* Fails only with GG_ENOMEM. */
static gg_status make_grid(const gg_picture *p, grid *g, gg_error *err)
{
    *g = (grid){ .p = p };
    size_t n = p->n + 1;
    g->roles = calloc(n, sizeof *g->roles);
    g->blocks = calloc(n, sizeof *g->blocks);
    g->sides = calloc(n, sizeof *g->sides);
    g->role_of = calloc(n, sizeof *g->role_of);
    if (g->roles && g->blocks && g->sides && g->role_of && list_roles(g, p) && set_scale(g, p)) {
        list_blocks(g, p);
        /* Every tensor may have a block of its own, so both counts are at most n. */
        if (g->n_roles == 0 || g->n_blocks < ((size_t)64 << 20) / sizeof *g->cells / g->n_roles)
            g->cells = calloc(g->n_roles * g->n_blocks + 1, sizeof *g->cells);
    }
    if (!g->cells) {
        free_grid(g);
        return gg_fail(err, GG_ENOMEM, "no memory for a picture of %zu tensors", p->n);
    }
    fill_cells(g, p);
    return GG_OK;
}

/* ---- the caller's tensors ------------------------------------------------------------ */

gg_status gg_picture_add(gg_picture *p, const gg_tensor *t, double value, gg_error *err)
{
    if (GG_ROOM(p->cells, p->n, &p->cap, err) != GG_OK) return err->status;
    gg_picture_cell *c = &p->cells[p->n];
    *c = (gg_picture_cell){ malloc(t->name_len + 1), t->name_len, t->a, value };
    if (!c->name) return gg_fail(err, GG_ENOMEM, "no memory for a picture of %zu tensors", p->n);
    memcpy(c->name, t->name, t->name_len);
    c->name[t->name_len] = 0;
    p->n++;
    return GG_OK;
}

/* Names that are too far down to have a colour of their own are not looked for, so that the time
 * does not grow with the square of their number. */
gg_status gg_picture_source(gg_picture *p, const char *name, double *index, gg_error *err)
{
    for (size_t i = 0; i < p->n_sources && i < 64; i++)
        if (strcmp(p->sources[i], name) == 0) {
            *index = (double)i;
            return GG_OK;
        }
    if (GG_ROOM(p->sources, p->n_sources, NULL, err) != GG_OK) return err->status;
    char *copy = strdup(name);
    if (!copy) return gg_fail(err, GG_ENOMEM, "out of memory");
    *index = (double)p->n_sources;
    p->sources[p->n_sources++] = copy;
    return GG_OK;
}

void gg_picture_free(gg_picture *p)
{
    for (size_t i = 0; i < p->n; i++) free(p->cells[i].name);
    free(p->cells);
    for (size_t i = 0; i < p->n_sources; i++) free(p->sources[i]);
    free(p->sources);
    p->cells = NULL;
    p->sources = NULL;
    p->n = p->cap = p->n_sources = 0;
}

/* ---- origins of tensors, by the history of the manifest ------------------------------- */

/* Appends a member that is text; a path without its folders. Returns whether there is one. */
static bool put_member(gg_buf *b, const gg_json_node *entry, const char *key, const char *before,
                       gg_error *err)
{
    const char *text;
    size_t len;
    if (gg_json_string(gg_json_get(entry, key), &text, &len, NULL) != GG_OK) return false;
    for (size_t i = len; i-- > 1;)
        if (text[i - 1] == '/' && strcmp(key, "from") == 0) {
            text += i;
            len -= i;
            break;
        }
    gg_buf_text(b, before, err);
    gg_buf_append(b, text, len, err);
    return true;
}

/* {"op": "graft", "from": "a/code.gguf", "how": "linear:0.5"} is "code.gguf, linear:0.5". */
static void put_entry(gg_buf *b, const gg_json_node *entry, gg_error *err)
{
    if (b->len) gg_buf_text(b, "; ", err);
    if (!put_member(b, entry, "from", "", err)) put_member(b, entry, "op", "", err);
    put_member(b, entry, "how", ", ", err);
    put_member(b, entry, "method", ", ", err);
}

/* Describes a tensor's history; "" if it has none. */
static gg_status describe_history(const gg_entry *e, gg_buf *b, gg_error *err)
{
    gg_json *json;
    gg_buf_clear(b);
    gg_buf_text(b, "", err);
    if (!e->history) return err->status;
    gg_status st = gg_json_parse(e->history, strlen(e->history), &json, err);
    if (st != GG_OK) return st;
    const gg_json_node *n = gg_json_first(gg_json_root(json));
    for (; n; n = gg_json_next(n)) put_entry(b, n, err);
    gg_json_free(json);
    return err->status;
}

gg_status gg_picture_origins(gg_picture *p, const gg_source *dir, gg_error *err)
{
    const gg_manifest *m = gg_source_manifest(dir);
    if (!m)
        return gg_fail(err, GG_NO,
                       "only organ directories have a history of grafts: give the "
                       "directory that organ-graft wrote");
    gg_buf b = GG_BUF_INIT;
    bool any = false;
    double index;
    gg_status st = gg_picture_source(p, "as in the base", &index, err);
    for (size_t i = 0; i < m->n_entries && st == GG_OK; i++) {
        const gg_entry *e = &m->entries[i];
        st = describe_history(e, &b, err);
        index = 0;
        any = any || b.len;
        if (st == GG_OK && b.len) st = gg_picture_source(p, b.data, &index, err);
        if (st == GG_OK) st = gg_picture_add(p, &e->t, index, err);
    }
    gg_buf_free(&b);
    if (!any) p->text = "This organ directory has no history: no tensor was replaced or changed.";
    return st;
}

/* ---- drawing ------------------------------------------------------------------ */

/* A drawing that is being made. Of its errors the first is kept. */
typedef struct drawing {
    gg_buf text;
    gg_error *err;
    const grid *g;
    double cell_w; /* SVG: the width of a square, and where the next line begins */
    size_t y;
    gg_picture_form form; /* terminals: the form, and blocks per character */
    size_t per;
} drawing;

#define PUT(d, ...) gg_buf_printf(&(d)->text, (d)->err, __VA_ARGS__)

/* ---- SVG --------------------------------------------------------------------------------
 *
 * One file, 400 units wide, that grows with the window up to a limit. CSS adapts the text and the
 * background to the viewer's light or dark scheme; the squares keep their colours. */

#define WIDTH 400
#define LEFT 130 /* width of the role names */
#define CELL_H 15
#define CELL_W 26  /* at most */
#define LETTER_W 9 /* at least, for a letter in a square */
#define LINE 13    /* height of a line of text */
#define COLUMNS 68 /* characters that fit into a line */
#define ROLE 32    /* and beside the grid */

/* Appends any bytes as XML text. Markup is escaped, and bytes that XML does not allow are written
 * as \xNN. */
static void put_text(drawing *d, const char *bytes, size_t n)
{
    char safe[1024];
    size_t len = gg_escape(bytes, n, safe, sizeof safe);
    if (len >= sizeof safe) {
        len = sizeof safe - 1; /* truncated, but not inside a character */
        while (len > 0 && ((unsigned char)safe[len - 1] & 0xc0) == 0x80) len--;
        if (len > 0 && (unsigned char)safe[len - 1] >= 0xc0) len--;
    }
    for (size_t i = 0; i < len; i++) {
        const char *as = safe[i] == '<'   ? "&lt;"
                         : safe[i] == '>' ? "&gt;"
                         : safe[i] == '&' ? "&amp;"
                         : safe[i] == '"' ? "&quot;"
                                          : NULL;
        if (as) PUT(d, "%s", as);
        else gg_buf_append(&d->text, &safe[i], 1, d->err);
    }
}

/* Returns how many of the n bytes fit into `room` columns; *columns gets how many they fill. */
static size_t fitting_bytes(const char *text, size_t n, size_t room, size_t *columns)
{
    size_t i = 0;
    for (*columns = 0; i < n && *columns < room; ++*columns) {
        i++;
        while (i < n && ((unsigned char)text[i] & 0xc0) == 0x80) i++;
    }
    return i;
}

/* Appends at most `columns` characters, with an ellipsis if there are more. */
static void put_cut(drawing *d, const char *bytes, size_t n, size_t columns)
{
    size_t used;
    bool cut = fitting_bytes(bytes, n, columns, &used) < n;
    put_text(d, bytes, fitting_bytes(bytes, n, columns - cut, &used));
    if (cut) PUT(d, "…");
}

/* What a tensor's square stands for, as in "0.9871" or "code.gguf". */
static void put_value(drawing *d, double v)
{
    const gg_picture *p = d->g->p;
    if (isnan(v)) {
        PUT(d, "%s", p->sources ? "from nowhere" : "no value");
    } else if (p->sources) {
        const char *name = source_name(d->g, v);
        put_text(d, name, strlen(name));
    } else {
        PUT(d, "%.4g", v);
    }
}

/* Opens a square whose title follows. */
static void put_square(drawing *d, double x, double w, double value)
{
    PUT(d, "<rect x=\"%.2f\" y=\"%zu\" width=\"%.2f\" height=\"%d\" ", x, d->y, w > 3 ? w - 1 : w,
        CELL_H - 1);
    if (isnan(value)) {
        PUT(d, "class=\"none\"");
    } else {
        unsigned c[3];
        value_color(d->g, value, c);
        PUT(d, "fill=\"#%02x%02x%02x\"", c[0], c[1], c[2]);
    }
    PUT(d, "><title>");
}

/* Ends a square. The letter of its source makes it readable without colours. */
static void close_square(drawing *d, double x, double w, double value)
{
    unsigned c[3];
    PUT(d, "</title></rect>");
    if (d->g->p->sources && !isnan(value) && w >= LETTER_W) {
        value_color(d->g, value, c);
        bool light = 2 * c[0] + 5 * c[1] + c[2] > 8 * 140;
        PUT(d, "<text x=\"%.2f\" y=\"%zu\" class=\"mid %s\">%c</text>", x + (w - 1) / 2, d->y + 11,
            light ? "on-light" : "on-dark", source_letter(value));
    }
    PUT(d, "\n");
}

/* Opens a text element of a CSS class. */
static void open_text(drawing *d, double x, size_t y, const char *class)
{
    PUT(d, "<text x=\"%.4g\" y=\"%zu\" class=\"%s\">", x, y, class);
}

#define CLOSE_TEXT "</text>\n"
#define LABEL(d, x, y, class, ...) \
    (open_text(d, x, y, class), PUT(d, __VA_ARGS__), PUT(d, CLOSE_TEXT))

/* Draws text, broken at blanks and newlines into lines that fit. */
static void put_lines(drawing *d, const char *text, const char *class)
{
    while (*text) {
        size_t n = strcspn(text, "\n"), next = n + (text[n] == '\n');
        if (n > COLUMNS) {
            for (n = COLUMNS; n > 0 && text[n] != ' ';) n--;
            if (n == 0) n = strcspn(text, " \n");
            next = n + (text[n] != 0);
        }
        open_text(d, 10, d->y + LINE - 3, class);
        put_cut(d, text, n, COLUMNS);
        PUT(d, CLOSE_TEXT);
        d->y += LINE;
        text += next;
    }
}

static void put_head(drawing *d, const char *title)
{
    PUT(d, "<title>");
    put_text(d, title, strlen(title));
    gg_buf_text(
        &d->text,
        "</title>\n<style>\n"
        "svg { max-width: 100%; height: auto } :root { color-scheme: light dark }\n"
        ".ground { fill: #ffffff } text { fill: #1c1c1e; font: 10px sans-serif }\n"
        ".big { font-size: 13px; font-weight: bold } .dim { fill: #63636b } .right { "
        "text-anchor: end }\n"
        ".mid { text-anchor: middle } .on-light { fill: #1c1c1e } .on-dark { fill: #ffffff }\n"
        ".none { fill: none; stroke: #9a9aa2; "
        "stroke-dasharray: 2 2 }\n"
        "@media (prefers-color-scheme: dark) {\n"
        ".ground { fill: #17171a } text { fill: #ececf0 } .dim { fill: #a4a4ae } .none { "
        "stroke: #77777f }\n"
        "}\n</style>\n<rect class=\"ground\" width=\"100%\" height=\"100%\"/>\n",
        d->err);
    open_text(d, 10, 20, "big");
    put_cut(d, title, strlen(title), 48);
    PUT(d, CLOSE_TEXT);
    d->y = 28;
    if (d->g->p->text) put_lines(d, d->g->p->text, "");
}

static void put_scale(drawing *d)
{
    const gg_picture *p = d->g->p;
    d->y += 4;
    LABEL(d, LEFT - 6, d->y + 10, "right", "%.4g", d->g->low);
    for (unsigned i = 0; i < 48; i++) {
        unsigned c[3];
        scale_color(i / 47.0, c);
        PUT(d, "<rect x=\"%u\" y=\"%zu\" width=\"4\" height=\"11\" fill=\"#%02x%02x%02x\"/>\n",
            LEFT + 4 * i, d->y + 1, c[0], c[1], c[2]);
    }
    LABEL(d, LEFT + 4 * 48 + 6, d->y + 10, "", "%.4g", d->g->high);
    open_text(d, 10, d->y + 10, "");
    put_cut(d, p->column, strlen(p->column), 14);
    if (p->unit) PUT(d, " (%s)", p->unit);
    PUT(d, CLOSE_TEXT);
    d->y += 16;
    put_lines(d, "The colours run from the 5 % to the 95 % quantile of the values.", "dim");
}

static void put_sources(drawing *d)
{
    const gg_picture *p = d->g->p;
    size_t shown = p->n_sources > 9 ? 9 : p->n_sources;
    d->y += 2;
    for (size_t i = 0; i < shown; i++) {
        put_square(d, 10, CELL_H, (double)i);
        put_text(d, p->sources[i], strlen(p->sources[i]));
        close_square(d, 10, CELL_H, (double)i);
        open_text(d, 10 + CELL_H + 5, d->y + 11, "");
        if (i == 8 && p->n_sources > 9) PUT(d, "%zu others", p->n_sources - 8);
        else put_cut(d, p->sources[i], strlen(p->sources[i]), COLUMNS - 4);
        PUT(d, CLOSE_TEXT);
        d->y += CELL_H + 1;
    }
}

/* Labels only every n-th block, so that the numbers do not overlap. */
static void put_block_numbers(drawing *d)
{
    size_t each = 1;
    if (d->g->n_blocks == 0) return;
    d->y += 18;
    while ((double)each * d->cell_w < 20) each *= each % 3 == 2 ? 5 : 2;
    LABEL(d, LEFT - 6, d->y - 4, "right dim", "block");
    for (size_t b = 0; b < d->g->n_blocks; b += each) {
        LABEL(d, LEFT + ((double)b + 0.5) * d->cell_w, d->y - 4, "mid dim", "%lld",
              (long long)d->g->blocks[b]);
    }
}

static void put_cell(drawing *d, size_t role, size_t block)
{
    const grid *g = d->g;
    const grid_cell *c = &g->cells[role * g->n_blocks + block];
    if (c->tensors == 0) return;
    double mean = c->measured ? c->sum / (double)c->measured : NAN;
    double x = LEFT + (double)block * d->cell_w;
    put_square(d, x, d->cell_w, mean);
    put_text(d, g->roles[role].prefix, g->roles[role].prefix_len);
    PUT(d, "blk.%lld.", (long long)g->blocks[block]);
    put_text(d, g->roles[role].name, g->roles[role].name_len);
    if (c->tensors > 1) PUT(d, " (%zu tensors)", c->tensors);
    PUT(d, ": ");
    put_value(d, mean);
    close_square(d, x, d->cell_w, mean);
}

/* The name beside a row. A long one is squeezed, and a very long one cut. */
static void put_role(drawing *d, const char *prefix, size_t prefix_len, const char *name,
                     size_t len)
{
    size_t room = prefix_len + 4 < ROLE ? ROLE - prefix_len : ROLE;
    bool squeeze = (room < ROLE ? prefix_len : 0) + (len < room ? len : room) > 20;
    PUT(d, "<text x=\"%d\" y=\"%zu\" class=\"right\"", LEFT - 6, d->y + 11);
    if (squeeze) PUT(d, " textLength=\"%d\" lengthAdjust=\"spacingAndGlyphs\"", LEFT - 12);
    PUT(d, ">");
    if (room < ROLE) put_text(d, prefix, prefix_len);
    put_cut(d, name, len, room);
    PUT(d, CLOSE_TEXT);
}

/* The roles by class, with a gap between two classes. */
static void put_roles(drawing *d)
{
    const grid *g = d->g;
    for (size_t r = 0; r < g->n_roles; r++) {
        const grid_role *k = &g->roles[r];
        if (r > 0 && k->cls != g->roles[r - 1].cls) d->y += CELL_H / 2;
        put_role(d, k->prefix, k->prefix_len, k->name, k->name_len);
        for (size_t b = 0; b < g->n_blocks; b++) put_cell(d, r, b);
        d->y += CELL_H;
    }
}

static void put_sides(drawing *d)
{
    const grid *g = d->g;
    if (g->n_sides) d->y += CELL_H / 2;
    for (size_t i = 0; i < g->n_sides; i++) {
        const gg_picture_cell *c = &g->p->cells[g->sides[i]];
        put_role(d, "", 0, c->name + c->a.role_at, c->a.role_len);
        put_square(d, LEFT, CELL_W, c->value);
        put_text(d, c->name, c->name_len);
        PUT(d, ": ");
        put_value(d, c->value);
        close_square(d, LEFT, CELL_W, c->value);
        d->y += CELL_H;
    }
}

static gg_buf draw_svg(const grid *g, gg_error *err)
{
    const gg_picture *p = g->p;
    drawing s = { .err = err, .g = g };
    s.cell_w = (WIDTH - LEFT - 8) / (double)(g->n_blocks ? g->n_blocks : 1);
    if (s.cell_w > CELL_W) s.cell_w = CELL_W;
    put_head(&s, p->title ? p->title : "model");
    if (p->sources) put_sources(&s);
    else put_scale(&s);
    put_block_numbers(&s);
    put_roles(&s);
    put_sides(&s);
    gg_buf_text(&s.text, "</svg>\n", err);
    gg_buf whole = GG_BUF_INIT;
    gg_buf_printf(&whole, err,
                  "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"640\" height=\"%zu\" "
                  "viewBox=\"0 0 %d %zu\" role=\"img\">\n",
                  (s.y + 10) * 640 / WIDTH, WIDTH, s.y + 10);
    gg_buf_append(&whole, s.text.data, s.text.len, err);
    gg_buf_free(&s.text);
    return whole;
}

/* ---- terminals --------------------------------------------------------------------------
 *
 * One character per block and role. Its height shows the same as its colour, so the map also works
 * without colours. If there are more blocks than columns, adjacent blocks are averaged. */

#define NAME_COLUMNS 24 /* columns for the role names */

/* The nearest colour of the terminal's 6 x 6 x 6 colour cube, which starts at number 16. */
static unsigned cube_color(const unsigned rgb[3])
{
    unsigned at[3];
    for (int k = 0; k < 3; k++) at[k] = rgb[k] < 48 ? 0 : rgb[k] < 115 ? 1 : (rgb[k] - 35) / 40;
    return 16 + 36 * at[0] + 6 * at[1] + at[2];
}

static void put_mark(drawing *d, const char *mark, const unsigned c[3])
{
    if (d->form == GG_PICTURE_TRUE) PUT(d, "\033[38;2;%u;%u;%um", c[0], c[1], c[2]);
    if (d->form == GG_PICTURE_256) PUT(d, "\033[38;5;%um", cube_color(c));
    PUT(d, "%s", mark);
    if (d->form != GG_PICTURE_PLAIN) PUT(d, "\033[0m");
}

static void put_height(drawing *d, double t)
{
    static const char *const marks[] = { "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };
    unsigned c[3];
    scale_color(t, c);
    put_mark(d, marks[t >= 1 ? 7 : (int)(t * 8)], c);
}

static void put_mean(drawing *d, double v)
{
    if (d->g->p->sources) {
        unsigned c[3];
        value_color(d->g, v, c);
        put_mark(d, (char[2]){ source_letter(v), 0 }, c);
    } else {
        put_height(d, place_on_scale(d->g, v));
    }
}

static void put_right(drawing *d, const char *prefix, size_t prefix_len, const char *name,
                      size_t len, size_t room)
{
    char safe[512];
    size_t used = gg_escape(prefix, prefix_len, safe, sizeof safe / 2), columns;
    if (used >= sizeof safe / 2) used = sizeof safe / 2 - 1;
    gg_escape(name, len, safe + used, sizeof safe - used);
    size_t n = fitting_bytes(safe, strlen(safe), room, &columns), blanks = room - columns;
    PUT(d, "%*s", (int)blanks, "");
    gg_buf_append(&d->text, safe, n, d->err);
}

static void put_role_row(drawing *d, size_t role)
{
    const grid *g = d->g;
    const grid_role *k = &g->roles[role];
    double sum = 0;
    size_t n = 0;
    put_right(d, k->prefix, k->prefix_len, k->name, k->name_len, NAME_COLUMNS);
    PUT(d, " ");
    for (size_t b = 0; b < g->n_blocks; b += d->per) {
        grid_cell c = { 0, 0, 0 };
        for (size_t i = b; i < b + d->per && i < g->n_blocks; i++) {
            const grid_cell *one = &g->cells[role * g->n_blocks + i];
            c.tensors += one->tensors;
            if (g->p->sources && c.measured) continue; /* the first block of the mark */
            c.sum += one->sum;
            c.measured += one->measured;
        }
        if (c.measured) put_mean(d, c.sum / (double)c.measured);
        else PUT(d, "%s", c.tensors ? "?" : " ");
        sum += c.sum;
        n += c.measured;
    }
    if (n && !g->p->sources) PUT(d, " %.4g", sum / (double)n);
    PUT(d, "\n");
}

static void put_escaped(drawing *d, const char *text)
{
    while (*text) {
        char safe[1024];
        size_t n = strcspn(text, "\n");
        gg_escape(text, n, safe, sizeof safe);
        PUT(d, "%s\n", safe);
        text += n + (text[n] == '\n');
    }
}

static void put_text_scale(drawing *d)
{
    const gg_picture *p = d->g->p;
    put_right(d, "", 0, p->column, strlen(p->column), NAME_COLUMNS - 7);
    PUT(d, " %6.3g ", d->g->low);
    for (int i = 0; i < 16; i++) put_height(d, i / 15.0);
    PUT(d, " %.4g\n", d->g->high);
}

static void put_text_sources(drawing *d)
{
    for (size_t i = 0; i < d->g->p->n_sources; i++) {
        put_mean(d, (double)i);
        PUT(d, " ");
        put_escaped(d, d->g->p->sources[i]);
    }
}

static void put_block_range(drawing *d)
{
    const grid *g = d->g;
    if (g->n_blocks == 0) return;
    PUT(d, "%*s blocks %lld to %lld", NAME_COLUMNS, "", (long long)g->blocks[0],
        (long long)g->blocks[g->n_blocks - 1]);
    if (d->per > 1) PUT(d, ", %zu per mark", d->per);
    PUT(d, "%s", g->p->sources ? "\n" : "; right: the mean\n");
}

static void put_side_mark(drawing *d, const gg_picture_cell *c)
{
    put_right(d, "", 0, c->name, c->name_len, NAME_COLUMNS);
    PUT(d, " ");
    if (isnan(c->value)) {
        PUT(d, "?");
    } else {
        put_mean(d, c->value);
        if (!d->g->p->sources) PUT(d, " %.4g", c->value);
    }
    PUT(d, "\n");
}

static gg_buf draw_text(const grid *g, gg_picture_form form, unsigned width, gg_error *err)
{
    const gg_picture *p = g->p;
    drawing h = { .err = err, .g = g, .form = form, .per = 1 };
    size_t room = width > NAME_COLUMNS + 20 ? width - NAME_COLUMNS - 9 : 11;
    /* not 0: at least 11 */
    h.per = g->n_blocks ? (g->n_blocks + room - 1) / room : 1;
    put_escaped(&h, p->title ? p->title : "model");
    if (p->text) put_escaped(&h, p->text);
    if (p->sources) put_text_sources(&h);
    else put_text_scale(&h);
    put_block_range(&h);
    for (size_t r = 0; r < g->n_roles; r++) put_role_row(&h, r);
    for (size_t i = 0; i < g->n_sides; i++) put_side_mark(&h, &p->cells[g->sides[i]]);
    return h.text;
}

gg_status gg_picture_draw(const gg_picture *p, gg_picture_form form, unsigned width, char **out,
                          size_t *len, gg_error *err)
{
    grid g;
    gg_status st = make_grid(p, &g, err);
    if (st != GG_OK) return st;
    gg_buf text = form == GG_PICTURE_SVG ? draw_svg(&g, err) : draw_text(&g, form, width, err);
    free_grid(&g);
    if (err->status != GG_OK) gg_buf_free(&text);
    else *out = gg_buf_take(&text, len);
    return err->status;
}
