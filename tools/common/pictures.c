/* pictures.c - pictures of models in files and on terminals. */
#include "pictures.h"

#include "base/io.h" /* whole writes */
#include "table.h"   /* the width of the terminal */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void title_of(const gg_source *s, const char *name, char title[128])
{
    const gg_meta *meta = gg_source_meta(s);
    const char *text;
    size_t len;
    if (meta && gg_kv_str(gg_meta_find(meta, "general.name"), &text, &len) && len > 0) {
        snprintf(title, 128, "%.*s", (int)(len < 127 ? len : 127), text);
        return;
    }
    const char *slash = strrchr(name, '/');
    if (slash && slash[1]) name = slash + 1;
    snprintf(title, 128, "%s", strcmp(name, "-") == 0 ? "model" : name);
}

void picture_title(const gg_source *s, char title[128])
{
    title_of(s, gg_source_name(s), title);
}

gg_status picture_allowed(cli *c, const char *path)
{
    if (!path || strcmp(path, "-") == 0) return GG_OK;
    char magic[4] = "";
    FILE *f = fopen(path, "rb");
    if (f && fread(magic, 1, 4, f) == 4 && memcmp(magic, "GGUF", 4) == 0) {
        fclose(f);
        gg_fail(&c->err, GG_EUSAGE, "a picture does not replace a model");
        gg_fix(&c->err, "give the picture another name");
        return gg_at_file(&c->err, path);
    }
    if (f) fclose(f);
    return gg_refuse_existing(path, c->run.force, &c->err);
}

gg_status text_open(cli *c, const char *path, gg_output **out)
{
    if (!path || cli_is_stdout(path)) return GG_OK;
    gg_status st = gg_output_open(path, c->run.force, out, &c->err);
    return st == GG_OK ? GG_OK : gg_at_file(&c->err, path);
}

gg_status text_end(cli *c, const char *path, gg_output *out, const gg_buf *text, gg_status done)
{
    if (done == GG_OK && text->len && out) {
        done = gg_write_all(gg_output_fd(out), text->data, text->len, &c->err);
        if (done == GG_OK) done = gg_output_commit(out, &c->err);
        else gg_output_abort(out);
        return done == GG_OK ? GG_OK : gg_at_file(&c->err, path);
    }
    gg_output_abort(out);
    if (done == GG_OK && text->len) fwrite(text->data, 1, text->len, stdout);
    return done;
}

gg_status picture_write(cli *c, const char *path, const gg_buf *text)
{
    gg_output *out = NULL;
    gg_status st = text_open(c, path, &out);
    return st == GG_OK ? text_end(c, path, out, text, st) : st;
}

gg_status picture_save(cli *c, const gg_picture *p, const char *path)
{
    gg_buf text = GG_BUF_INIT;
    gg_status st = gg_picture_draw(p, GG_PICTURE_SVG, 0, &text.data, &text.len, &c->err);
    if (st == GG_OK) st = picture_write(c, path, &text);
    gg_buf_free(&text);
    return st;
}

static gg_picture_form terminal_colors(void)
{
    const char *depth = getenv("COLORTERM"), *term = getenv("TERM"), *no = getenv("NO_COLOR");
    if (!isatty(STDOUT_FILENO) || (no && *no) || !term || strcmp(term, "dumb") == 0)
        return GG_PICTURE_PLAIN;
    bool deep = depth && (strcmp(depth, "truecolor") == 0 || strcmp(depth, "24bit") == 0);
    return deep ? GG_PICTURE_TRUE : GG_PICTURE_256;
}

gg_status picture_show(cli *c, const gg_picture *p)
{
    char *text;
    size_t len;
    gg_status st = gg_picture_draw(p, terminal_colors(), (unsigned)table_terminal(), &text, &len,
                                   &c->err);
    if (st != GG_OK) return st;
    fwrite(text, 1, len, stdout);
    free(text);
    return GG_OK;
}

gg_status picture_finished(cli *c, const char *model, const char *svg, const char *text,
                           gg_status (*fill)(gg_picture *p, const gg_source *s, gg_error *err))
{
    gg_source *s;
    char title[128];
    gg_status st = cli_open(c, gg_output_where(model), CLI_HEADER_ONLY, &s);
    if (st != GG_OK) return st;
    title_of(s, model, title);
    gg_picture p = { .title = title, .text = text };
    st = picture_allowed(c, svg);
    if (st == GG_OK && fill(&p, s, &c->err) != GG_OK) st = gg_at_file(&c->err, model);
    if (st == GG_OK) st = picture_save(c, &p, svg);
    gg_picture_free(&p);
    gg_source_close(s);
    return st;
}
