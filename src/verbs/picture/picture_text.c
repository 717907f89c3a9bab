/* picture_text.c - draws the grid of a model on a terminal, with one character per block and role.
 * The height of the character shows the same as its colour, so the map also works without colours.
 * If there are more blocks than columns, adjacent blocks are averaged. */
#include "picture_grid.h"

#include "base/buf.h"

#include <math.h>
#include <string.h>

#define NAME 24 /* columns for the role names */

typedef struct heat {
    gg_buf text;
    gg_error *err;
    const gg_grid *g;
    gg_picture_colors colors;
    size_t per; /* blocks per character */
} heat;

/* The nearest colour of the terminal's 6 x 6 x 6 colour cube, which starts at number 16. */
static unsigned cube_color(const unsigned rgb[3])
{
    unsigned at[3];
    for (int k = 0; k < 3; k++) at[k] = rgb[k] < 48 ? 0 : rgb[k] < 115 ? 1 : (rgb[k] - 35) / 40;
    return 16 + 36 * at[0] + 6 * at[1] + at[2];
}

static void put_mark(heat *h, const char *mark, const unsigned c[3])
{
    if (h->colors == GG_PICTURE_TRUE)
        gg_buf_printf(&h->text, h->err, "\033[38;2;%u;%u;%um", c[0], c[1], c[2]);
    if (h->colors == GG_PICTURE_256)
        gg_buf_printf(&h->text, h->err, "\033[38;5;%um", cube_color(c));
    gg_buf_text(&h->text, mark, h->err);
    if (h->colors != GG_PICTURE_PLAIN) gg_buf_text(&h->text, "\033[0m", h->err);
}

static void put_height(heat *h, double t)
{
    static const char *const marks[] = { "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };
    unsigned c[3];
    gg_grid_color(t, c);
    put_mark(h, marks[t >= 1 ? 7 : (int)(t * 8)], c);
}

static void put_mean(heat *h, double v)
{
    if (h->g->p->sources) {
        unsigned c[3];
        gg_grid_value_color(h->g, v, c);
        put_mark(h, (char[2]){ gg_grid_letter(v), 0 }, c);
    } else {
        put_height(h, gg_grid_place(h->g, v));
    }
}

/* Returns how many bytes of the escaped `text` fit into `room` columns; *columns receives the
 * number of columns they fill. */
static size_t fit(const char *text, size_t room, size_t *columns)
{
    size_t i = 0;
    *columns = 0;
    while (text[i]) {
        size_t n = 1;
        while (((unsigned char)text[i + n] & 0xc0) == 0x80) n++;
        if (*columns == room) break;
        ++*columns;
        i += n;
    }
    return i;
}

static void put_name(heat *h, const char *prefix, size_t prefix_len, const char *name, size_t len,
                     size_t room)
{
    char safe[512];
    size_t used = gg_escape(prefix, prefix_len, safe, sizeof safe / 2), columns;
    if (used >= sizeof safe / 2) used = sizeof safe / 2 - 1;
    gg_escape(name, len, safe + used, sizeof safe - used);
    size_t n = fit(safe, room, &columns), blanks = room - columns;
    gg_buf_printf(&h->text, h->err, "%*s", (int)blanks, "");
    gg_buf_append(&h->text, safe, n, h->err);
}

static void put_role_row(heat *h, size_t role)
{
    const gg_grid *g = h->g;
    const grid_role *k = &g->roles[role];
    double sum = 0;
    size_t n = 0;
    put_name(h, k->prefix, k->prefix_len, k->name, k->name_len, NAME);
    gg_buf_text(&h->text, " ", h->err);
    for (size_t b = 0; b < g->n_blocks; b += h->per) {
        grid_cell c = { 0, 0, 0 };
        for (size_t i = b; i < b + h->per && i < g->n_blocks; i++) {
            const grid_cell *one = &g->cells[role * g->n_blocks + i];
            c.tensors += one->tensors;
            if (g->p->sources && c.measured) continue; /* the first block of the mark */
            c.sum += one->sum;
            c.measured += one->measured;
        }
        if (c.measured) put_mean(h, c.sum / (double)c.measured);
        else gg_buf_text(&h->text, c.tensors ? "?" : " ", h->err);
        sum += c.sum;
        n += c.measured;
    }
    if (n && !g->p->sources) gg_buf_printf(&h->text, h->err, " %.4g", sum / (double)n);
    gg_buf_text(&h->text, "\n", h->err);
}

static void put_escaped(heat *h, const char *text)
{
    while (*text) {
        char safe[1024];
        size_t n = strcspn(text, "\n");
        gg_escape(text, n, safe, sizeof safe);
        gg_buf_printf(&h->text, h->err, "%s\n", safe);
        text += n + (text[n] == '\n');
    }
}

static void put_legend(heat *h)
{
    const gg_picture *p = h->g->p;
    put_name(h, "", 0, p->column, strlen(p->column), NAME - 7);
    gg_buf_printf(&h->text, h->err, " %6.3g ", h->g->low);
    for (int i = 0; i < 16; i++) put_height(h, i / 15.0);
    gg_buf_printf(&h->text, h->err, " %.4g\n", h->g->high);
}

static void put_origins(heat *h)
{
    for (size_t i = 0; i < h->g->p->n_sources; i++) {
        put_mean(h, (double)i);
        gg_buf_text(&h->text, " ", h->err);
        put_escaped(h, h->g->p->sources[i]);
    }
}

static void put_blocks(heat *h)
{
    const gg_grid *g = h->g;
    if (g->n_blocks == 0) return;
    gg_buf_printf(&h->text, h->err, "%*s blocks %lld to %lld", NAME, "", (long long)g->blocks[0],
                  (long long)g->blocks[g->n_blocks - 1]);
    if (h->per > 1) gg_buf_printf(&h->text, h->err, ", %zu per mark", h->per);
    gg_buf_text(&h->text, g->p->sources ? "\n" : "; right: the mean\n", h->err);
}

static void put_side(heat *h, const gg_picture_cell *c)
{
    put_name(h, "", 0, c->name, c->name_len, NAME);
    gg_buf_text(&h->text, " ", h->err);
    if (isnan(c->value)) {
        gg_buf_text(&h->text, "?", h->err);
    } else {
        put_mean(h, c->value);
        if (!h->g->p->sources) gg_buf_printf(&h->text, h->err, " %.4g", c->value);
    }
    gg_buf_text(&h->text, "\n", h->err);
}

gg_status gg_picture_text(const gg_picture *p, unsigned width, gg_picture_colors colors, char **out,
                          size_t *len, gg_error *err)
{
    gg_grid g;
    gg_status st = gg_grid_make(p, &g, err);
    if (st != GG_OK) return st;
    heat h = { GG_BUF_INIT, err, &g, colors, 1 };
    size_t room = width > NAME + 20 ? width - NAME - 9 : 11;
    h.per = g.n_blocks ? (g.n_blocks + room - 1) / room : 1;
    put_escaped(&h, p->title ? p->title : "model");
    if (p->text) put_escaped(&h, p->text);
    if (p->sources) put_origins(&h);
    else put_legend(&h);
    put_blocks(&h);
    for (size_t r = 0; r < g.n_roles; r++) put_role_row(&h, r);
    for (size_t i = 0; i < g.n_sides; i++) put_side(&h, &p->cells[g.sides[i]]);
    gg_grid_free(&g);
    if (err->status != GG_OK) {
        gg_buf_free(&h.text);
        return err->status;
    }
    *out = gg_buf_take(&h.text, len);
    return GG_OK;
}
