/* picture_svg.c - draws the grid of a model as one SVG file, 400 units wide, that grows with the
 * window up to a limit. Tensors outside the blocks are listed below the grid. CSS adapts the text
 * and the background to the viewer's light or dark scheme; the squares keep their colours. */
#include "picture_grid.h"

#include "base/buf.h"

#include <math.h>
#include <string.h>

#define WIDTH 400
#define LEFT 130 /* width of the role names */
#define CELL_H 15
#define CELL_W 26  /* at most */
#define LETTER_W 9 /* at least, for a letter in a square */
#define LINE 13    /* height of a line of text */
#define COLUMNS 68 /* characters that fit into a line */
#define ROLE 32    /* and beside the grid */

typedef struct svg {
    gg_buf text;
    gg_error *err;
    const gg_grid *g;
    double cell_w;
    size_t y; /* where the next line begins */
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

/* Appends at most `columns` characters, with an ellipsis if there are more. */
static void put_cut(svg *s, const char *bytes, size_t n, size_t columns)
{
    size_t at = 0, used = 0;
    while (at < n && used < columns) {
        at++, used++;
        while (at < n && ((unsigned char)bytes[at] & 0xc0) == 0x80) at++;
    }
    if (at == n) {
        put_text(s, bytes, n);
        return;
    }
    do at--;
    while (at > 0 && ((unsigned char)bytes[at] & 0xc0) == 0x80);
    put_text(s, bytes, at);
    gg_buf_text(&s->text, "…", s->err);
}

/* Four significant digits are enough for a picture. */
static void put_number(svg *s, double v)
{
    gg_buf_printf(&s->text, s->err, "%.4g", v);
}

/* What a tensor's square stands for, as in "0.9871" or "code.gguf". */
static void put_value(svg *s, double v)
{
    const gg_picture *p = s->g->p;
    if (isnan(v)) {
        gg_buf_text(&s->text, p->sources ? "from nowhere" : "no value", s->err);
    } else if (p->sources) {
        const char *name = gg_grid_source(s->g, v);
        put_text(s, name, strlen(name));
    } else {
        put_number(s, v);
    }
}

/* Opens a square whose title follows. */
static void put_square(svg *s, double x, size_t y, double w, double value)
{
    gg_buf_printf(&s->text, s->err, "<rect x=\"%.2f\" y=\"%zu\" width=\"%.2f\" height=\"%d\" ", x,
                  y, w > 3 ? w - 1 : w, CELL_H - 1);
    if (isnan(value)) {
        gg_buf_text(&s->text, "class=\"none\"", s->err);
    } else {
        unsigned c[3];
        gg_grid_value_color(s->g, value, c);
        gg_buf_printf(&s->text, s->err, "fill=\"#%02x%02x%02x\"", c[0], c[1], c[2]);
    }
    gg_buf_text(&s->text, "><title>", s->err);
}

/* Ends a square. The letter of its source makes it readable without colours. */
static void close_square(svg *s, double x, size_t y, double w, double value)
{
    unsigned c[3];
    gg_buf_text(&s->text, "</title></rect>", s->err);
    if (s->g->p->sources && !isnan(value) && w >= LETTER_W) {
        gg_grid_value_color(s->g, value, c);
        bool light = 2 * c[0] + 5 * c[1] + c[2] > 8 * 140;
        gg_buf_printf(&s->text, s->err, "<text x=\"%.2f\" y=\"%zu\" class=\"mid %s\">%c</text>",
                      x + (w - 1) / 2, y + 11, light ? "on-light" : "on-dark",
                      gg_grid_letter(value));
    }
    gg_buf_text(&s->text, "\n", s->err);
}

/* Opens a text element of a CSS class. */
static void open_text(svg *s, double x, size_t y, const char *class)
{
    gg_buf_printf(&s->text, s->err, "<text x=\"%.4g\" y=\"%zu\" class=\"%s\">", x, y, class);
}

static void close_text(svg *s)
{
    gg_buf_text(&s->text, "</text>\n", s->err);
}

/* Draws text, broken at blanks and newlines into lines that fit. */
static void put_lines(svg *s, const char *text, const char *class)
{
    while (*text) {
        size_t n = strcspn(text, "\n"), next = n + (text[n] == '\n');
        if (n > COLUMNS) {
            for (n = COLUMNS; n > 0 && text[n] != ' ';) n--;
            if (n == 0) n = strcspn(text, " \n");
            next = n + (text[n] != 0);
        }
        open_text(s, 10, s->y + LINE - 3, class);
        put_cut(s, text, n, COLUMNS);
        close_text(s);
        s->y += LINE;
        text += next;
    }
}

static void put_head(svg *s, const char *title)
{
    gg_buf_text(&s->text, "<title>", s->err);
    put_text(s, title, strlen(title));
    gg_buf_text(
        &s->text,
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
        s->err);
    open_text(s, 10, 20, "big");
    put_cut(s, title, strlen(title), 48);
    close_text(s);
    s->y = 28;
    if (s->g->p->text) put_lines(s, s->g->p->text, "");
}

static void put_scale(svg *s)
{
    const gg_picture *p = s->g->p;
    s->y += 4;
    open_text(s, LEFT - 6, s->y + 10, "right");
    put_number(s, s->g->low);
    close_text(s);
    for (unsigned i = 0; i < 48; i++) {
        unsigned c[3];
        gg_grid_color(i / 47.0, c);
        gg_buf_printf(&s->text, s->err,
                      "<rect x=\"%u\" y=\"%zu\" width=\"4\" height=\"11\" "
                      "fill=\"#%02x%02x%02x\"/>\n",
                      LEFT + 4 * i, s->y + 1, c[0], c[1], c[2]);
    }
    open_text(s, LEFT + 4 * 48 + 6, s->y + 10, "");
    put_number(s, s->g->high);
    close_text(s);
    open_text(s, 10, s->y + 10, "");
    put_cut(s, p->column, strlen(p->column), 14);
    if (p->unit) gg_buf_printf(&s->text, s->err, " (%s)", p->unit);
    close_text(s);
    s->y += 16;
    put_lines(s, "The colours run from the 5 % to the 95 % quantile of the values.", "dim");
}

static void put_sources(svg *s)
{
    const gg_picture *p = s->g->p;
    size_t shown = p->n_sources > 9 ? 9 : p->n_sources;
    s->y += 2;
    for (size_t i = 0; i < shown; i++) {
        put_square(s, 10, s->y, CELL_H, (double)i);
        put_text(s, p->sources[i], strlen(p->sources[i]));
        close_square(s, 10, s->y, CELL_H, (double)i);
        open_text(s, 10 + CELL_H + 5, s->y + 11, "");
        if (i == 8 && p->n_sources > 9)
            gg_buf_printf(&s->text, s->err, "%zu others", p->n_sources - 8);
        else put_cut(s, p->sources[i], strlen(p->sources[i]), COLUMNS - 4);
        close_text(s);
        s->y += CELL_H + 1;
    }
}

/* Labels only every n-th block, so that the numbers do not overlap. */
static void put_block_numbers(svg *s)
{
    size_t each = 1;
    if (s->g->n_blocks == 0) return;
    s->y += 18;
    while ((double)each * s->cell_w < 20) each *= each % 3 == 2 ? 5 : 2;
    open_text(s, LEFT - 6, s->y - 4, "right dim");
    gg_buf_text(&s->text, "block", s->err);
    close_text(s);
    for (size_t b = 0; b < s->g->n_blocks; b += each) {
        open_text(s, LEFT + ((double)b + 0.5) * s->cell_w, s->y - 4, "mid dim");
        gg_buf_printf(&s->text, s->err, "%lld", (long long)s->g->blocks[b]);
        close_text(s);
    }
}

static void put_cell(svg *s, size_t role, size_t block)
{
    const gg_grid *g = s->g;
    const grid_cell *c = &g->cells[role * g->n_blocks + block];
    if (c->tensors == 0) return;
    double mean = c->measured ? c->sum / (double)c->measured : NAN;
    put_square(s, LEFT + (double)block * s->cell_w, s->y, s->cell_w, mean);
    put_text(s, g->roles[role].prefix, g->roles[role].prefix_len);
    gg_buf_printf(&s->text, s->err, "blk.%lld.", (long long)g->blocks[block]);
    put_text(s, g->roles[role].name, g->roles[role].name_len);
    if (c->tensors > 1) gg_buf_printf(&s->text, s->err, " (%zu tensors)", c->tensors);
    gg_buf_text(&s->text, ": ", s->err);
    put_value(s, mean);
    close_square(s, LEFT + (double)block * s->cell_w, s->y, s->cell_w, mean);
}

/* The name beside a row. A long one is squeezed, and a very long one cut. */
static void put_role(svg *s, const char *prefix, size_t prefix_len, const char *name, size_t len)
{
    size_t room = prefix_len + 4 < ROLE ? ROLE - prefix_len : ROLE;
    bool squeeze = (room < ROLE ? prefix_len : 0) + (len < room ? len : room) > 20;
    gg_buf_printf(&s->text, s->err, "<text x=\"%d\" y=\"%zu\" class=\"right\"", LEFT - 6,
                  s->y + 11);
    if (squeeze)
        gg_buf_printf(&s->text, s->err, " textLength=\"%d\" lengthAdjust=\"spacingAndGlyphs\"",
                      LEFT - 12);
    gg_buf_text(&s->text, ">", s->err);
    if (room < ROLE) put_text(s, prefix, prefix_len);
    put_cut(s, name, len, room);
    close_text(s);
}

/* The roles by class, with a gap between two classes. */
static void put_roles(svg *s)
{
    const gg_grid *g = s->g;
    for (size_t r = 0; r < g->n_roles; r++) {
        const grid_role *k = &g->roles[r];
        if (r > 0 && k->cls != g->roles[r - 1].cls) s->y += CELL_H / 2;
        put_role(s, k->prefix, k->prefix_len, k->name, k->name_len);
        for (size_t b = 0; b < g->n_blocks; b++) put_cell(s, r, b);
        s->y += CELL_H;
    }
}

static void put_sides(svg *s)
{
    const gg_grid *g = s->g;
    if (g->n_sides) s->y += CELL_H / 2;
    for (size_t i = 0; i < g->n_sides; i++) {
        const gg_picture_cell *c = &g->p->cells[g->sides[i]];
        put_role(s, "", 0, c->name + c->a.role_at, c->a.role_len);
        put_square(s, LEFT, s->y, CELL_W, c->value);
        put_text(s, c->name, c->name_len);
        gg_buf_text(&s->text, ": ", s->err);
        put_value(s, c->value);
        close_square(s, LEFT, s->y, CELL_W, c->value);
        s->y += CELL_H;
    }
}

gg_status gg_picture_svg(const gg_picture *p, char **out, size_t *len, gg_error *err)
{
    gg_grid g;
    gg_status st = gg_grid_make(p, &g, err);
    if (st != GG_OK) return st;
    svg s = { GG_BUF_INIT, err, &g, 0, 0 };
    s.cell_w = (WIDTH - LEFT - 8) / (double)(g.n_blocks ? g.n_blocks : 1);
    if (s.cell_w > CELL_W) s.cell_w = CELL_W;
    put_head(&s, p->title ? p->title : "model");
    if (p->sources) put_sources(&s);
    else put_scale(&s);
    put_block_numbers(&s);
    put_roles(&s);
    put_sides(&s);
    gg_buf_text(&s.text, "</svg>\n", err);
    gg_grid_free(&g);
    gg_buf whole = GG_BUF_INIT;
    gg_buf_printf(&whole, err,
                  "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"640\" height=\"%zu\" "
                  "viewBox=\"0 0 %d %zu\" role=\"img\">\n",
                  (s.y + 10) * 640 / WIDTH, WIDTH, s.y + 10);
    gg_buf_append(&whole, s.text.data, s.text.len, err);
    gg_buf_free(&s.text);
    if (err->status != GG_OK) {
        gg_buf_free(&whole);
        return err->status;
    }
    *out = gg_buf_take(&whole, len);
    return GG_OK;
}
