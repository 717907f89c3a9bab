/* anatomy_svg.c - draws a model's anatomy as one SVG file, with one column per block, one row per
 * role, and a colour scale. Tensors outside the blocks are listed at the side. CSS adapts the text
 * and the background to the viewer's light or dark scheme; the squares keep their colours. */
#include "anatomy_grid.h"

#include "base/buf.h"

#include <string.h>

#define CELL_H 18
#define LEFT 190 /* width of the role names */
#define TOP 74
#define SIDE_W 250 /* the list of tensors without a block */

typedef struct svg {
    gg_buf text;
    gg_error *err;
    const gg_grid *g;
    const gg_measures *list;
    const char *column;
    size_t cell_w, grid_w, height;
} svg;

/* Appends any bytes as XML text. Markup is escaped, and bytes that XML does not allow are written
 * as \xNN. */
static void put_text(svg *s, const char *bytes, size_t n)
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
        if (as) gg_buf_text(&s->text, as, s->err);
        else gg_buf_append(&s->text, &safe[i], 1, s->err);
    }
}

/* Four significant digits are enough for a picture. */
static void put_value(svg *s, double v)
{
    gg_buf_printf(&s->text, s->err, "%.4g", v);
}

static void put_square(svg *s, size_t x, size_t y, size_t w, bool measured, double value)
{
    unsigned c[3];
    gg_grid_color(gg_grid_place(s->g, value), c);
    gg_buf_printf(&s->text, s->err, "<rect x=\"%zu\" y=\"%zu\" width=\"%zu\" height=\"%d\" ", x, y,
                  w > 3 ? w - 1 : w, CELL_H - 1);
    if (measured) gg_buf_printf(&s->text, s->err, "fill=\"#%02x%02x%02x\"", c[0], c[1], c[2]);
    else gg_buf_text(&s->text, "class=\"none\"", s->err);
    gg_buf_text(&s->text, "><title>", s->err);
}

/* Opens a text element of a CSS class. x is a whole number below 2^53. */
static void open_text(svg *s, size_t x, size_t y, const char *class)
{
    gg_buf_printf(&s->text, s->err, "<text x=\"%zu\" y=\"%zu\" class=\"%s\">", x, y, class);
}

static void put_head(svg *s, const char *title)
{
    size_t width = LEFT + s->grid_w + (s->g->n_sides ? SIDE_W : 0) + 20;
    gg_buf_printf(&s->text, s->err,
                  "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%zu\" height=\"%zu\" "
                  "viewBox=\"0 0 %zu %zu\" role=\"img\">\n",
                  width, s->height, width, s->height);
    gg_buf_text(&s->text, "<title>", s->err);
    put_text(s, title, strlen(title));
    gg_buf_text(&s->text,
                "</title>\n<style>\n"
                ":root { color-scheme: light dark }\n"
                ".ground { fill: #ffffff } text { fill: #1c1c1e; font: 12px sans-serif }\n"
                ".big { font-size: 16px; font-weight: bold } .dim { fill: #63636b } .right { "
                "text-anchor: end }\n"
                ".mid { text-anchor: middle } .none { fill: none; stroke: #9a9aa2; "
                "stroke-dasharray: 2 2 }\n"
                "@media (prefers-color-scheme: dark) {\n"
                ".ground { fill: #17171a } text { fill: #ececf0 } .dim { fill: #a4a4ae } .none { "
                "stroke: #77777f }\n"
                "}\n</style>\n<rect class=\"ground\" width=\"100%\" height=\"100%\"/>\n",
                s->err);
    open_text(s, 12, 24, "big");
    put_text(s, title, strlen(title));
    gg_buf_text(&s->text, "</text>\n", s->err);
}

static void put_scale(svg *s)
{
    open_text(s, 12, 44, "dim");
    gg_buf_printf(&s->text, s->err, "%s  ", s->column);
    put_value(s, s->g->low);
    gg_buf_text(&s->text, "</text>\n", s->err);
    for (unsigned i = 0; i < 48; i++) {
        unsigned c[3];
        gg_grid_color(i / 47.0, c);
        gg_buf_printf(
            &s->text, s->err,
            "<rect x=\"%u\" y=\"34\" width=\"4\" height=\"12\" fill=\"#%02x%02x%02x\"/>\n",
            148 + 4 * i, c[0], c[1], c[2]);
    }
    open_text(s, 348, 44, "dim");
    put_value(s, s->g->high);
    gg_buf_text(&s->text, "</text>\n", s->err);
}

/* Labels only every n-th block, so that the numbers do not overlap. */
static void put_block_numbers(svg *s)
{
    size_t each = 1;
    while (each * s->cell_w < 24) each *= each == 1 ? 2 : each == 2 ? 5 : 2;
    for (size_t b = 0; b < s->g->n_blocks; b += each) {
        open_text(s, LEFT + b * s->cell_w + s->cell_w / 2, TOP - 6, "mid dim");
        gg_buf_printf(&s->text, s->err, "%lld</text>\n", (long long)s->g->blocks[b]);
    }
}

static void put_cell(svg *s, size_t role, size_t block, size_t y)
{
    const gg_grid *g = s->g;
    const grid_cell *c = &g->cells[role * g->n_blocks + block];
    if (c->tensors == 0) return;
    double mean = c->measured ? c->sum / (double)c->measured : 0;
    put_square(s, LEFT + block * s->cell_w, y, s->cell_w, c->measured > 0, mean);
    put_text(s, g->roles[role].prefix, g->roles[role].prefix_len);
    gg_buf_printf(&s->text, s->err, "blk.%lld.", (long long)g->blocks[block]);
    put_text(s, g->roles[role].name, g->roles[role].name_len);
    if (c->tensors > 1) gg_buf_printf(&s->text, s->err, " (%zu tensors)", c->tensors);
    gg_buf_printf(&s->text, s->err, ": %s ", s->column);
    if (c->measured) put_value(s, mean);
    else gg_buf_text(&s->text, "not measured", s->err);
    gg_buf_text(&s->text, "</title></rect>\n", s->err);
}

/* Draws the roles by class, with a gap between two classes. Returns the y of the next row. */
static size_t put_grid(svg *s, bool draw)
{
    const gg_grid *g = s->g;
    size_t y = TOP;
    for (size_t r = 0; r < g->n_roles; r++) {
        if (r > 0 && g->roles[r].cls != g->roles[r - 1].cls) y += CELL_H / 2;
        if (draw) {
            open_text(s, LEFT - 8, y + 13, "right");
            put_text(s, g->roles[r].prefix, g->roles[r].prefix_len);
            put_text(s, g->roles[r].name, g->roles[r].name_len < 28 ? g->roles[r].name_len : 28);
            gg_buf_text(&s->text, "</text>\n", s->err);
            for (size_t b = 0; b < g->n_blocks; b++) put_cell(s, r, b, y);
        }
        y += CELL_H;
    }
    return y;
}

static void put_sides(svg *s)
{
    const gg_grid *g = s->g;
    for (size_t i = 0; i < g->n_sides; i++) {
        const gg_tensor_measure *r = &s->list->rows[g->sides[i]];
        size_t x = LEFT + s->grid_w + 24, y = TOP + i * CELL_H,
               len = r->t.name_len < 32 ? r->t.name_len : 32;
        put_square(s, x, y, CELL_H, gg_grid_has(g, r), g->get(r));
        put_text(s, r->t.name, r->t.name_len);
        gg_buf_printf(&s->text, s->err, ": %s ", s->column);
        if (gg_grid_has(g, r)) put_value(s, g->get(r));
        else gg_buf_text(&s->text, "not measured", s->err);
        gg_buf_text(&s->text, "</title></rect>\n", s->err);
        open_text(s, x + CELL_H + 6, y + 13, "");
        put_text(s, r->t.name, len);
        gg_buf_text(&s->text, "</text>\n", s->err);
    }
}

gg_status gg_anatomy_svg(const gg_measures *list, const char *column, const char *title, char **out,
                         size_t *len, gg_error *err)
{
    gg_grid g;
    gg_status st = gg_grid_make(list, column, &g, err);
    if (st != GG_OK) return st;
    svg s = { GG_BUF_INIT, err, &g, list, column, 0, 0, 0 };
    s.cell_w = g.n_blocks <= 24 ? 30 : g.n_blocks <= 80 ? 14 : g.n_blocks <= 200 ? 8 : 4;
    s.grid_w = g.n_blocks * s.cell_w;
    if (s.grid_w < 240) s.grid_w = 240; /* room for the colour scale above the grid */
    size_t bottom = put_grid(&s, false), side = TOP + g.n_sides * CELL_H;
    s.height = (bottom > side ? bottom : side) + 16;
    put_head(&s, title ? title : "model");
    put_scale(&s);
    put_block_numbers(&s);
    put_grid(&s, true);
    put_sides(&s);
    gg_buf_text(&s.text, "</svg>\n", err);
    gg_grid_free(&g);
    if (err->status != GG_OK) {
        gg_buf_free(&s.text);
        return err->status;
    }
    *out = gg_buf_take(&s.text, len);
    return GG_OK;
}
