/* api_tools.c - the allow-list of tools, options and kinds of values. Left out are --heat
 * and "-" for stdin or stdout, which need a terminal or a pipe, and --set-kv-file, whose
 * KEY=FILE could read any file. */
#include "api.h"

const api_option api_common[] = { { "quiet", API_FLAG, NULL },
                                  { "verbose", API_FLAG, NULL },
                                  { "threads", API_U64, NULL },
                                  { NULL, API_FLAG, NULL } };

const api_option api_selection[] = { { "type", API_TEXT, NULL },    { "part", API_TEXT, NULL },
                                     { "layers", API_LIST, NULL },  { "tensors", API_TEXT, NULL },
                                     { "experts", API_LIST, NULL }, { "names-from", API_IN, NULL },
                                     { NULL, API_FLAG, NULL } };

static const char match_modes[] = " exact retype convert ";

static const api_option extract[] = { { "model", API_IN, NULL },
                                      { "output", API_OUT, NULL },
                                      { "list", API_FLAG, NULL },
                                      { "split-experts", API_FLAG, NULL },
                                      { NULL, API_FLAG, NULL } };

static const api_option measure[] = {
    { "dir", API_IN, NULL },     { "summary", API_FLAG, NULL },       { "wells", API_U64, NULL },
    { "sample", API_U64, NULL }, { "split-experts", API_FLAG, NULL }, { "update", API_FLAG, NULL },
    { "svg", API_OUT, NULL },    { "color", API_TEXT, NULL },         { NULL, API_FLAG, NULL }
};

static const api_option purify[] = { { "dir", API_IN, NULL },
                                     { "output", API_OUT, NULL },
                                     { "method", API_WORD, " haar fft " },
                                     { "strength", API_F64, NULL },
                                     { "dtype", API_TEXT, NULL },
                                     { "dry-run", API_FLAG, NULL },
                                     { NULL, API_FLAG, NULL } };

static const api_option graft[] = { { "source", API_IN, NULL },
                                    { "target", API_IN, NULL },
                                    { "output", API_OUT, NULL },
                                    { "map", API_LIST, NULL },
                                    { "match", API_WORD, match_modes },
                                    { "check", API_FLAG, NULL },
                                    { "skip-mismatched", API_FLAG, NULL },
                                    { "add", API_FLAG, NULL },
                                    { "router", API_FLAG, NULL },
                                    { "adapter", API_IN, NULL },
                                    { "scale", API_F64, NULL },
                                    { "blend", API_TEXT, NULL },
                                    { "ancestor", API_IN, NULL },
                                    { "link", API_FLAG, NULL },
                                    { NULL, API_FLAG, NULL } };

static const api_option assemble[] = {
    { "dir", API_IN, NULL },          { "output", API_OUT, NULL },  { "shards", API_U64, NULL },
    { "shard-size", API_SIZE, NULL }, { "dtype", API_TEXT, NULL },  { "fallback", API_TEXT, NULL },
    { "no-verify", API_FLAG, NULL },  { "set-kv", API_TEXT, NULL }, { NULL, API_FLAG, NULL }
};

static const api_option transplant[] = { { "base", API_IN, NULL },
                                         { "donor", API_IN, NULL },
                                         { "output", API_OUT, NULL },
                                         { "map", API_LIST, NULL },
                                         { "match", API_WORD, match_modes },
                                         { "check", API_FLAG, NULL },
                                         { "skip-mismatched", API_FLAG, NULL },
                                         { "add", API_FLAG, NULL },
                                         { "set-kv", API_TEXT, NULL },
                                         { "copy-kv", API_TEXT, NULL },
                                         { "mtp", API_FLAG, NULL },
                                         { "blend", API_TEXT, NULL },
                                         { "ancestor", API_IN, NULL },
                                         { "in-place", API_FLAG, NULL },
                                         { "undo", API_OUT, NULL },
                                         { NULL, API_FLAG, NULL } };

static const api_option compare[] = {
    { "summary", API_FLAG, NULL },       { "lineage", API_FLAG, NULL }, { "keys", API_FLAG, NULL },
    { "patch", API_OUT, NULL },          { "map", API_LIST, NULL },     { "sample", API_U64, NULL },
    { "split-experts", API_FLAG, NULL }, { NULL, API_FLAG, NULL }
};

/*    name                options     args  selects json     force */
const api_tool api_tools[] = { { "organ-extract", extract, 1, true, "list", true },
                               { "organ-measure", measure, 1000, true, "", true },
                               { "organ-purify", purify, 1, true, "", true },
                               { "organ-graft", graft, 0, true, "check", true },
                               { "organ-assemble", assemble, 1, false, NULL, true },
                               { "organ-transplant", transplant, 0, true, "check", true },
                               { "organ-compare", compare, 2, true, "", true },
                               { NULL, NULL, 0, false, NULL, false } };
