/* vocab_look.h - what organ-vocab prints about vocabularies. Internal. */
#pragma once

#include "common/cli.h"
#include "common/table.h"
#include "vocab/vocab.h"

/* One screen about the vocabulary. */
gg_status look_screen(cli *c, const gg_source *s, const gg_vocab *v);
/* One row per token, or only for those that have the text. GG_NO if none has. */
gg_status look_list(cli *c, const gg_vocab *v, const char *find);
/* What differs between two vocabularies, and whether the first can draft for the second. GG_NO if
 * they differ. */
gg_status look_compare(cli *c, gg_source *const s[2], const gg_vocab v[2]);
