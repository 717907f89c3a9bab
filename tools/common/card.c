/* card.c - --card: a model card in Markdown, made of the keys of the model that was written. */
#include "card.h"

#include "key_text.h"
#include "markdown.h"
#include "model_text.h"
#include "pictures.h" /* texts in files */

#include "base/output.h"
#include "organ/gg_info.h"
#include "organ/gg_organ.h"
#include "organ/gg_quant.h"

#include <stdlib.h>
#include <string.h>

const cli_option card_group[] = {
    { "card", CLI_NEW_FILE, .at = offsetof(cli, card), .arg = "FILE", .needs = "output",
      .flow = "; " },
    { 0 },
};

static gg_status put_key(gg_buf *b, const char *name, gg_text value, gg_error *err)
{
    if (!value.at) return GG_OK;
    gg_status st = gg_buf_printf(b, err, "| %s | ", name);
    if (st == GG_OK) st = markdown_put(b, value.at, value.len, err);
    return st == GG_OK ? gg_buf_text(b, " |\n", err) : st;
}

static gg_status put_history(gg_buf *b, const gg_kv *history, gg_error *err)
{
    const char *line;
    size_t len;
    uint64_t pos = 0;
    if (!history) return GG_OK;
    gg_status st = gg_buf_text(b, "\nWhat was done, in this order:\n\n", err);
    while (st == GG_OK && gg_kv_next_str(history, &pos, &line, &len)) {
        st = gg_buf_text(b, "- ", err);
        if (st == GG_OK) st = markdown_put(b, line, len, err);
        if (st == GG_OK) st = gg_buf_text(b, "\n", err);
    }
    return st;
}

static gg_status put_card(const cli *c, gg_source *s, gg_buf *b, gg_error *err)
{
    gg_info i;
    char verdict[700];
    gg_status st = gg_info_of(s, NULL, &i, err);
    if (st != GG_OK) return st;
    gg_buf_text(b, "# ", err);
    markdown_put(b, i.name.at ? i.name.at : "A model", i.name.at ? i.name.len : 7, err);
    gg_buf_printf(b, err, "\n\nThis model was written by %s.\n", c->tool);
    put_history(b, gg_meta_find(gg_source_meta(s), "organ.history"), err);
    gg_buf_text(b, "\n| key | value |\n|---|---|\n", err);
    put_key(b, "architecture", i.architecture, err);
    put_key(b, "license", i.license, err);
    gg_buf_printf(b, err, "| parameters | %llu in %zu tensors |\n", (unsigned long long)i.elements,
                  i.tensors);
    gg_buf_text(b, "| types | ", err);
    for (size_t k = 0; k < i.n_types; k++)
        gg_buf_printf(b, err, "%s%s", k ? ", " : "", gg_dtype_get(i.types[k].dtype)->name);
    gg_check_verdict_text(&i.check, verdict);
    gg_buf_text(b, " |\n| check | ", err);
    markdown_put(b, verdict, strlen(verdict), err);
    return gg_buf_text(b, " |\n", err);
}

static gg_status card_end(cli *c, gg_status done)
{
    gg_source *s = NULL;
    gg_buf text = GG_BUF_INIT;
    if (done == GG_OK)
        done = gg_source_open_with(gg_output_where(written_path(c, false)),
                                   &(gg_source_options){ .header_only = true }, &s, &c->err);
    if (done == GG_OK) done = put_card(c, s, &text, &c->err);
    gg_source_close(s);
    done = text_end(c, c->card, c->card_file, &text, done);
    gg_buf_free(&text);
    return done;
}

void card_begin(cli *c)
{
    if (!c->card) return;
    if (!written_path(c, false))
        cli_usage(c, "--card describes a model in a file: name the output");
    if (cli_given_any(c, "dry-run check reads in-place"))
        cli_usage(c, "--card describes a model that is written: leave it out");
    if (cli_given_any(c, "shards shard-size"))
        cli_usage(c,
                  "--card describes a model in one file: write it of the model, then split that");
    if (text_open(c, c->card, &c->card_file) != GG_OK) exit(cli_end(c, c->err.status));
    c->finish = card_end;
}
