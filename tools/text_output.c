/* text_output.c - files of text that appear when the work is done. */
#include "text_output.h"

#include "base/error.h"  /* the file's name in errors */
#include "base/io.h"     /* whole writes */
#include "base/output.h" /* outputs that appear only when whole */

#include <stdio.h>
#include <string.h>

static bool is_stdout(const text_output *o)
{
    return strcmp(o->path, "-") == 0;
}

gg_status text_output_open(cli *c, text_output *o)
{
    if (!o->path || is_stdout(o)) return GG_OK;
    gg_status st = gg_output_open(o->path, c->run.force, &o->file, &c->err);
    return st == GG_OK ? GG_OK : gg_at_file(&c->err, o->path);
}

static gg_status write_text(cli *c, text_output *o)
{
    if (!o->file) {
        fwrite(o->text.data, 1, o->text.len, stdout);
        return GG_OK;
    }
    gg_status st = gg_write_all(gg_output_fd(o->file), o->text.data, o->text.len, &c->err);
    if (st == GG_OK) st = gg_output_commit(o->file, &c->err);
    else gg_output_abort(o->file);
    o->file = NULL;
    return st == GG_OK ? GG_OK : gg_at_file(&c->err, o->path);
}

gg_status text_output_end(cli *c, text_output *o, gg_status done)
{
    if (done == GG_OK && o->path && o->text.data) done = write_text(c, o);
    gg_output_abort(o->file);
    o->file = NULL;
    gg_buf_free(&o->text);
    return done;
}
