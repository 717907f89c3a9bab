/* api_tools.c - the list of allowed tools, options and kinds of values.
 *
 * --heat and "-" for stdin or stdout are missing because they need a terminal or a pipe.
 * --set-kv-file and --set-file are missing because their values contain a path that is not
 * confined to the data folder. For the same reason --keep-experts takes numbers, not a file. */
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

static const api_option extract[] = {
    { "model", API_IN, NULL },           { "output", API_OUT, NULL }, { "list", API_FLAG, NULL },
    { "split-experts", API_FLAG, NULL }, { "where", API_TEXT, NULL }, { NULL, API_FLAG, NULL }
};

static const api_option measure[] = { { "dir", API_IN, NULL },
                                      { "summary", API_FLAG, NULL },
                                      { "wells", API_U64, NULL },
                                      { "sample", API_U64, NULL },
                                      { "split-experts", API_FLAG, NULL },
                                      { "update", API_FLAG, NULL },
                                      { "svg", API_OUT, NULL },
                                      { "color", API_TEXT, NULL },
                                      { "where", API_TEXT, NULL },
                                      { "spectral", API_FLAG, NULL },
                                      { "blocks", API_FLAG, NULL },
                                      { NULL, API_FLAG, NULL } };

static const api_option purify[] = { { "dir", API_IN, NULL },
                                     { "output", API_OUT, NULL },
                                     { "method", API_WORD, " haar fft " },
                                     { "strength", API_F64, NULL },
                                     { "dtype", API_TEXT, NULL },
                                     { "dry-run", API_FLAG, NULL },
                                     { NULL, API_FLAG, NULL } };

static const api_option graft[] = { { "source", API_IN, NULL },
                                    { "target", API_IN, NULL },
                                    { "donor", API_IN, NULL },
                                    { "base", API_IN, NULL },
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

static const api_option assemble[] = { { "dir", API_IN, NULL },
                                       { "model", API_IN, NULL },
                                       { "keep-experts", API_RANGES, NULL },
                                       { "output", API_OUT, NULL },
                                       { "shards", API_U64, NULL },
                                       { "shard-size", API_SIZE, NULL },
                                       { "dtype", API_TEXT, NULL },
                                       { "fallback", API_TEXT, NULL },
                                       { "imatrix", API_IN, NULL },
                                       { "no-verify", API_FLAG, NULL },
                                       { "set-kv", API_TEXT, NULL },
                                       { NULL, API_FLAG, NULL } };

static const api_option transplant[] = { { "base", API_IN, NULL },
                                         { "donor", API_IN, NULL },
                                         { "target", API_IN, NULL },
                                         { "source", API_IN, NULL },
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
                                         { "no-undo", API_FLAG, NULL },
                                         { "all", API_FLAG, NULL },
                                         { "undo", API_OUT, NULL },
                                         { "adapter", API_IN, NULL },
                                         { "scale", API_F64, NULL },
                                         { "shards", API_U64, NULL },
                                         { "shard-size", API_SIZE, NULL },
                                         { "dtype", API_TEXT, NULL },
                                         { "fallback", API_TEXT, NULL },
                                         { "imatrix", API_IN, NULL },
                                         { NULL, API_FLAG, NULL } };

static const api_option compare[] = {
    { "summary", API_FLAG, NULL },       { "lineage", API_FLAG, NULL }, { "keys", API_FLAG, NULL },
    { "patch", API_OUT, NULL },          { "map", API_LIST, NULL },     { "sample", API_U64, NULL },
    { "split-experts", API_FLAG, NULL }, { "where", API_TEXT, NULL },   { NULL, API_FLAG, NULL }
};

static const api_option keys[] = { { "output", API_OUT, NULL },    { "get", API_TEXT, NULL },
                                   { "set", API_TEXT, NULL },      { "delete", API_TEXT, NULL },
                                   { "rename", API_TEXT, NULL },   { "full", API_FLAG, NULL },
                                   { "in-place", API_FLAG, NULL }, { "recover", API_FLAG, NULL },
                                   { NULL, API_FLAG, NULL } };

static const api_option check[] = { { "data", API_FLAG, NULL },  { "hash", API_FLAG, NULL },
                                    { "verify", API_IN, NULL },  { "strict", API_FLAG, NULL },
                                    { "rules", API_FLAG, NULL }, { NULL, API_FLAG, NULL } };

/*    name                options     args  selects force strict json */
const api_tool api_tools[] = { { "organ-extract", extract, 1, true, true, false, "list" },
                               { "organ-measure", measure, 1000, true, true, false, "" },
                               { "organ-purify", purify, 1, true, true, true, "" },
                               { "organ-graft", graft, 0, true, true, true, "check" },
                               { "organ-assemble", assemble, 1, false, true, true, NULL },
                               { "organ-transplant", transplant, 0, true, true, true, "check" },
                               { "organ-compare", compare, 2, true, true, false, "" },
                               { "organ-keys", keys, 1, false, true, true, "-" },
                               { "organ-check", check, 1000, false, false, false, "" },
                               { NULL, NULL, 0, false, false, false, NULL } };
