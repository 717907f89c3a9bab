/* api_tools.c - the list of allowed tools, options and kinds of values.
 *
 * --heat and "-" for stdin or stdout are missing because they need a terminal or a pipe.
 * --set-kv-file and --set-file are missing because their values contain a path that is not
 * confined to the data folder, and --config because the file does. For the same reason
 * --keep-experts takes numbers, not a file, and --dtype takes no @FILE. --sshlogin would start
 * programs on other hosts. */
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
                                      { "sample", API_SIZE, NULL },
                                      { "split-experts", API_FLAG, NULL },
                                      { "update", API_FLAG, NULL },
                                      { "svg", API_OUT, NULL },
                                      { "histogram", API_OUT, NULL },
                                      { "color", API_TEXT, NULL },
                                      { "where", API_TEXT, NULL },
                                      { "spectral", API_FLAG, NULL },
                                      { "blocks", API_FLAG, NULL },
                                      { "imatrix", API_IN, NULL },
                                      { "rank", API_WORD, " blocks experts " },
                                      { NULL, API_FLAG, NULL } };

static const api_option purify[] = { { "dir", API_IN, NULL },
                                     { "output", API_OUT, NULL },
                                     { "method", API_WORD, " haar fft " },
                                     { "strength", API_F64, NULL },
                                     { "dtype", API_RULES, NULL },
                                     { "imatrix", API_IN, NULL },
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
                                    { "imatrix", API_IN, NULL },
                                    { "align", API_FLAG, NULL },
                                    { "link", API_FLAG, NULL },
                                    { "svg", API_OUT, NULL },
                                    { NULL, API_FLAG, NULL } };

static const api_option assemble[] = { { "dir", API_IN, NULL },
                                       { "model", API_IN, NULL },
                                       { "keep-experts", API_RANGES, NULL },
                                       { "by", API_WORD, " importance " },
                                       { "output", API_OUT, NULL },
                                       { "shards", API_U64, NULL },
                                       { "shard-size", API_SIZE, NULL },
                                       { "dtype", API_RULES, NULL },
                                       { "fallback", API_TEXT, NULL },
                                       { "imatrix", API_IN, NULL },
                                       { "size", API_SIZE, NULL },
                                       { "bpw", API_F64, NULL },
                                       { "types", API_TEXT, NULL },
                                       { "sensitivity", API_IN, NULL },
                                       { "dry-run", API_FLAG, NULL },
                                       { "rules", API_OUT, NULL },
                                       { "report", API_OUT, NULL },
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
                                         { "align", API_FLAG, NULL },
                                         { "in-place", API_FLAG, NULL },
                                         { "no-undo", API_FLAG, NULL },
                                         { "all", API_FLAG, NULL },
                                         { "undo", API_OUT, NULL },
                                         { "adapter", API_IN, NULL },
                                         { "scale", API_F64, NULL },
                                         { "shards", API_U64, NULL },
                                         { "shard-size", API_SIZE, NULL },
                                         { "dtype", API_RULES, NULL },
                                         { "fallback", API_TEXT, NULL },
                                         { "imatrix", API_IN, NULL },
                                         { NULL, API_FLAG, NULL } };

static const api_option compare[] = { { "summary", API_FLAG, NULL },
                                      { "lineage", API_FLAG, NULL },
                                      { "keys", API_FLAG, NULL },
                                      { "align", API_FLAG, NULL },
                                      { "imatrix", API_IN, NULL },
                                      { "patch", API_OUT, NULL },
                                      { "map", API_LIST, NULL },
                                      { "sample", API_SIZE, NULL },
                                      { "split-experts", API_FLAG, NULL },
                                      { "where", API_TEXT, NULL },
                                      { "svg", API_OUT, NULL },
                                      { "color", API_TEXT, NULL },
                                      { NULL, API_FLAG, NULL } };

static const api_option keys[] = { { "output", API_OUT, NULL },    { "get", API_TEXT, NULL },
                                   { "set", API_TEXT, NULL },      { "delete", API_TEXT, NULL },
                                   { "rename", API_TEXT, NULL },   { "full", API_FLAG, NULL },
                                   { "in-place", API_FLAG, NULL }, { "recover", API_FLAG, NULL },
                                   { NULL, API_FLAG, NULL } };

static const api_option check[] = { { "data", API_FLAG, NULL },  { "hash", API_FLAG, NULL },
                                    { "verify", API_IN, NULL },  { "strict", API_FLAG, NULL },
                                    { "rules", API_FLAG, NULL }, { NULL, API_FLAG, NULL } };

static const api_option stack[] = { { "output", API_OUT, NULL },    { "drop", API_RANGES, NULL },
                                    { "drop-mtp", API_FLAG, NULL }, { "check", API_FLAG, NULL },
                                    { "svg", API_OUT, NULL },       { NULL, API_FLAG, NULL } };

static const api_option merge[] = {
    { "method", API_TEXT, NULL },     { "base", API_PARAMS, NULL },
    { "model", API_PARAMS, NULL },    { "output", API_OUT, NULL },
    { "check", API_FLAG, NULL },      { "svg", API_OUT, NULL },
    { "seed", API_U64, NULL },        { "embed-from", API_WORD, " base " },
    { "no-hash", API_FLAG, NULL },    { "card", API_OUT, NULL },
    { "set-kv", API_TEXT, NULL },     { "shards", API_U64, NULL },
    { "shard-size", API_SIZE, NULL }, { "dtype", API_RULES, NULL },
    { "fallback", API_TEXT, NULL },   { "imatrix", API_IN, NULL },
    { "align", API_FLAG, NULL },      { NULL, API_FLAG, NULL }
};

static const api_option lora[] = { { "base", API_IN, NULL },    { "tuned", API_IN, NULL },
                                   { "output", API_OUT, NULL }, { "rank", API_U64, NULL },
                                   { "energy", API_F64, NULL }, { NULL, API_FLAG, NULL } };

static const api_option fleet[] = {
    { "output", API_INTO, NULL }, { "threads", API_U64, NULL },
    { "sample", API_SIZE, NULL }, { "by", API_WORD, " theta calibrated signal row_theta edge " },
    { "quiet", API_FLAG, NULL },  { "lineage", API_FLAG, NULL },
    { NULL, API_FLAG, NULL }
};

static const char fleet_verbs[] = " dissect measure pipeline ";

static const api_option report[] = {
    { "output", API_INTO, NULL },        { "title", API_TEXT, NULL },
    { "wells", API_U64, NULL },          { "sample", API_SIZE, NULL },
    { "format", API_WORD, " md html " }, { "quiet", API_FLAG, NULL },
    { "spectral", API_FLAG, NULL },      { NULL, API_FLAG, NULL }
};

static const api_option validate[] = {
    { "text", API_IN, NULL },       { "reference", API_IN, NULL },
    { "max-ratio", API_F64, NULL }, { "engine", API_WORD, " llama-perplexity node llama-cli " },
    { "context", API_U64, NULL },   { "threads", API_U64, NULL },
    { "quiet", API_FLAG, NULL },    { NULL, API_FLAG, NULL }
};

/* clang-format off */
/*    name                options     args             selects force  strict json    script */
const api_tool api_tools[] = {
    { "organ-extract",    extract,    1, "i",    NULL, true,   true,  false, "list",  false },
    { "organ-measure",    measure, 1000, "i",    NULL, true,   true,  false, "",      false },
    { "organ-purify",     purify,     1, "i",    NULL, true,   true,  true,  "",      false },
    { "organ-graft",      graft,      1, "i",    NULL, true,   true,  true,  "check", false },
    { "organ-assemble",   assemble,   1, "i",    NULL, false,  true,  true,  NULL,    false },
    { "organ-transplant", transplant, 0, "i",    NULL, true,   true,  true,  "check", false },
    { "organ-compare",    compare,    2, "i",    NULL, true,   true,  false, "",      false },
    { "organ-keys",       keys,    1000, "it",   NULL, false,  true,  true,  "-",     false },
    { "organ-check",      check,   1000, "i",    NULL, false,  false, false, "",      false },
    { "organ-stack",      stack,   1000, "ib*",  NULL, false,  true,  true,  "check", false },
    { "organ-merge",      merge,      1, "i",    NULL, false,  true,  true,  "check", false },
    { "organ-lora",       lora,       0, "i",    NULL, true,   true,  false, "",      false },
    { "organ-fleet",      fleet,   1000, "vi", fleet_verbs, false, true, false, "", true },
    { "organ-report",     report,  1000, "i",    NULL, false,  true,  false, NULL,    true },
    { "organ-validate",   validate,   1, "i",    NULL, false,  false, false, "",      true },
    { NULL, NULL, 0, "i", NULL, false, false, false, NULL, false }
};
/* clang-format on */
