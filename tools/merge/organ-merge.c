/* organ-merge - merge several models into one. */
#include "common/cli.h"
#include "common/lists.h"
#include "common/model_text.h"
#include "common/output_options.h"
#include "common/pictures.h"
#include "gg_merge.h"
#include "gguf/gguf.h" /* gg_shard_parse */

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* The help before the options, and after them. */
/* clang-format off */
static const char *const help[2] = {
    "usage: organ-merge [--method NAME] [--base M] M... --output OUT.gguf\n"
    "       organ-merge --config FILE --output OUT.gguf\n"
    "       organ-merge --svg FILE MODEL\n"
    "Merge models of one architecture, tensor by tensor, in bounded memory. They may\n"
    "have any types. The base, or else the first --model, gives keys and types.\n"
    ,
    "  organ-merge --method slerp,t=0.5 \\\n"
    "    tests/data/lab/lab-verse-q4_k_m.gguf \\\n"
    "    tests/data/lab/lab-code-q4_k_m.gguf --output /tmp/both.gguf --force\n"
    "  organ-merge --method task --base tests/data/lab/lab-base-q4_k_m.gguf \\\n"
    "    tests/data/lab/lab-verse-q4_k_m.gguf --check\n"
    "exit: 0 done, 1 models do not fit, 2 usage, 3 malformed input, 4 I/O failure\n"
};
/* clang-format on */

#define CONFIG_MAX ((size_t)16 << 20)

#define HOW_MERGED "How each tensor is merged, and with which parameters:"

#define PARAMETERS_TEXT 400
#define PARAMETERS_JSON 1600
/* NAME=DEFAULT, or NAME if it must be given, and then NAME:FILTER=DEFAULT; in JSON a list of
 * objects, in which a default of a part is a text, because it may be a ramp. */
static void parameters_text(const gg_merge_method_info *m, char text[PARAMETERS_TEXT],
                            char json[PARAMETERS_JSON])
{
    strcpy(text, m->n_parameters ? "" : "-");
    strcpy(json, "[");
    for (size_t i = 0; i < m->n_parameters; i++) {
        size_t n = strlen(text), k = strlen(json);
        double v = m->parameters[i].value;
        char value[32] = "null";
        if (!isnan(v)) snprintf(value, sizeof value, "%.9g", v);
        snprintf(text + n, PARAMETERS_TEXT - n, "%s%s%s%s", i ? "," : "", m->parameters[i].name,
                 isnan(v) ? "" : "=", isnan(v) ? "" : value);
        snprintf(json + k, PARAMETERS_JSON - k,
                 "%s{\"name\": \"%s\", \"default\": %s, \"meaning\": \"%s\"}", i ? ", " : "",
                 m->parameters[i].name, value, m->parameters[i].meaning);
    }
    for (const char *p = m->parts; p && *p; p += p[0] == ',') {
        int name = (int)strcspn(p, "="), all = (int)strcspn(p, ",");
        size_t n = strlen(text), k = strlen(json);
        snprintf(text + n, PARAMETERS_TEXT - n, ",%.*s", all, p);
        snprintf(json + k, PARAMETERS_JSON - k, ", {\"name\": \"%.*s\", \"default\": \"%.*s\"}",
                 name, p, all - name - 1, p + name + 1);
        p += all;
    }
    snprintf(json + strlen(json), PARAMETERS_JSON - strlen(json), "]");
}

static void print_methods(cli *c)
{
    table to = list_start(c, "name\talias\tbase\tleast\tmost\tparameters\tmeaning");
    static const char *const bases[] = { [GG_MERGE_BASE_KEYS] = "keys",
                                         [GG_MERGE_BASE_FIRST] = "first",
                                         [GG_MERGE_BASE_MAY] = "optional",
                                         [GG_MERGE_BASE_MUST] = "required" };
    gg_merge_method_info m;
    for (size_t i = 0; gg_merge_method_at(i, &m); i++) {
        char text[PARAMETERS_TEXT], json[PARAMETERS_JSON];
        parameters_text(&m, text, json);
        table_line(&to, cell_text(m.name), cell_text_if(m.alias), cell_text(bases[m.base]),
                   cell_u64(m.least), cell_u64(m.most), cell_json(text, json),
                   cell_text(m.meaning));
    }
}

/* Each parameter once, with the methods that take it. */
static void print_parameters(cli *c)
{
    table to = list_start(c, "name\tmethods\tmeaning");
    gg_merge_method_info m, other;
    for (size_t i = 0; gg_merge_method_at(i, &m); i++)
        for (size_t k = 0; k < m.n_parameters; k++) {
            const char *name = m.parameters[k].name;
            char methods[400] = "";
            bool first = true;
            for (size_t j = 0; gg_merge_method_at(j, &other); j++)
                for (size_t l = 0; l < other.n_parameters; l++) {
                    if (strcmp(other.parameters[l].name, name) != 0) continue;
                    if (j < i) first = false;
                    size_t n = strlen(methods);
                    snprintf(methods + n, sizeof methods - n, "%s%s", n ? "," : "", other.name);
                }
            if (!first) continue;
            table_line(&to, cell_text(name), cell_text(methods),
                       cell_text(m.parameters[k].meaning));
        }
}

/* The i-th name of a method, the aliases last, or NULL. */
static const char *method_name(size_t i)
{
    static gg_merge_method_info m; /* its strings are those of the library */
    for (size_t k = 0; gg_merge_method_at(k, &m); k++)
        if (i-- == 0) return m.name;
    for (size_t k = 0; gg_merge_method_at(k, &m); k++)
        if (m.alias && i-- == 0) return m.alias;
    return NULL;
}

static struct {
    const char *method, *base, *output, *config, *named, *folder, *svg, *finished, *words;
    int embeddings;
    bool check, list;
    gg_texts models, meanings;
    gg_merge_options o;
} opt;

static const cli_option options[] = {
    { "method", CLI_TEXT, .to = &opt.method, .arg = "NAME", .list = method_name, .help = "" },
    { "base", CLI_PARAMS, .to = &opt.base, .arg = "M",
      .help = "the model that the others were trained from" },
    { "model", CLI_PARAMS, .to = &opt.models, .arg = "M", .place = 1, .many = true,
      .help = "a model to merge (may be repeated); - is stdin" },
    { .name = NULL,
      .help = "  NAME,P=V  M,P=V    parameters (--list-parameters) of all models, or of one.\n     "
              "                V is a number, a ramp over the blocks 0.2..0.8, or a list\n         "
              "            [0,0.5,1]. P:FILTER=V is for a class, a role or a glob" },
    { "config", CLI_FILE, .to = &opt.config, .arg = "FILE", .local = true,
      .excludes = "method base model", .excludes_why = "names the method and the models",
      .help = "a mergekit configuration in JSON (YAML: organ merge --config FILE.yml); - is stdin, "
              "and --config-name its name" },
    { "config-name", CLI_TEXT, .to = &opt.named, .arg = "NAME", .local = true, .needs = "config" },
    { "models", CLI_DIR, .to = &opt.folder, .arg = "DIR", .local = true, .needs = "config",
      .help = "the folder of its models; --named NAME=FILE; --list-config" },
    { "named", CLI_TEXT, .to = &opt.meanings, .arg = "NAME=FILE", .many = true, .local = true,
      .needs = "config" },
    { "list-config", CLI_FLAG, .to = &opt.list, .needs = "config" },
    { "embed-from", CLI_WORD, .to = &opt.embeddings, .arg = "base", .values = "base",
      .help = "keep the embeddings of the base (or the first model)" },
    { "vocabulary", CLI_MODEL, .to = &opt.words, .arg = "V", .excludes = "embed-from",
      .values = "base union", .help = "base, union or a MODEL: move all embeddings to it first" },
    { "align", CLI_FLAG, .to = &opt.o.align,
      .help = "align hidden units first; --partial: even of strangers" },
    { "seed", CLI_U64, .to = &opt.o.seed, .arg = "N",
      .help = "for methods that drop values at random (0)" },
    { "output", CLI_NEW_MODEL, .to = &opt.output, .arg = "FILE",
      .help = "the model to write; - is stdout" },
    { "check", CLI_FLAG, .to = &opt.check,
      .help = "print what would be done to each tensor; write nothing" },
    { "svg", CLI_NEW_FILE, .to = &opt.svg, .arg = "FILE", .excludes = "json",
      .excludes_why = "draws a picture and prints no table",
      .help = "draw how each tensor is merged, or was merged into MODEL" },
    { "card", CLI_NEW_FILE, .to = &opt.o.card, .arg = "FILE",
      .help = "write a model card in Markdown; --no-hash leaves out sha256" },
    { "no-hash", CLI_FLAG, .to = &opt.o.no_hash },
    { .group = output_group, .to = &opt.o.output },
    { "strict", CLI_FLAG, .at = offsetof(cli, run.strict),
      .help = "refuse strangers, and what fails" },
    { "no-strict", CLI_FLAG, .at = offsetof(cli, run.lenient), .excludes = "strict", .flow = "; ",
      .help = "(note it)" },
    { .group = cli_writes },
    { "list-methods", CLI_ACT, .act = print_methods, .help = "list the methods" },
    { "list-parameters", CLI_ACT, .act = print_parameters, .flow = "; " },
    { .group = cli_common },
    { "json", CLI_FLAG, .at = offsetof(cli, json), .flow = ", ", .needs = "check",
      .needs_why = "nothing else prints a table", .help = "(with --check)" },
    { 0 },
};

static gg_status print_tensor(void *ctx, const gg_merge_row *row, gg_error *err)
{
    table *to = ctx;
    const gg_tensor *t = row->t;
    const gg_dtype_info *type = gg_dtype_get(t->dtype);
    (void)err;
    table_begin(to, "name\tclass\tdtype\telements\thow\tparameters");
    table_line(to, cell_bytes(t->name, t->name_len), cell_class(gg_class_name(row->t->a.cls)),
               cell_text(type ? type->name : "?"), cell_u64(t->elements), cell_text(row->how),
               cell_text(row->parameters[0] ? row->parameters : "-"));
    return GG_OK;
}

/* Copies parameters, and rounds their numbers to four digits, which are enough for a picture. */
static void shorten(const char *text, char *to, size_t size)
{
    size_t n = 0;
    for (char before = 0; *text && n + 1 < size; before = text[-1]) {
        char *end = NULL;
        double v = before == '=' || before == ',' ? strtod(text, &end) : 0;
        if (!end || end == text) {
            to[n++] = *text++;
            continue;
        }
        int wrote = snprintf(to + n, size - n, "%.4g", v);
        n = (size_t)wrote < size - n ? n + (size_t)wrote : size - 1;
        text = end;
    }
    to[n] = 0;
}

/* Tensors with the same parameters have the same colour. */
static gg_status draw_tensor(void *ctx, const gg_merge_row *row, gg_error *err)
{
    char source[300], shown[256];
    double index;
    shorten(row->parameters, shown, sizeof shown);
    snprintf(source, sizeof source, "%s %s", row->how,
             strchr(row->parameters, '=') ? shown : row->parameters);
    gg_status st = gg_picture_source(ctx, source, &index, err);
    return st == GG_OK ? gg_picture_add(ctx, row->t, index, err) : st;
}

/* Where the text after the path of "PATH,NAME=VALUE,..." begins: its first comma that a parameter
 * follows, or the end. */
static size_t path_length(const char *text)
{
    for (const char *comma = strchr(text, ','); comma; comma = strchr(comma + 1, ',')) {
        size_t n = 1;
        while (islower((unsigned char)comma[n]) || isdigit((unsigned char)comma[n]) ||
               comma[n] == '_')
            n++;
        if (n > 1 && (comma[n] == '=' || comma[n] == ':')) return (size_t)(comma - text);
    }
    return strlen(text);
}

/* Puts the arguments into the form of a configuration. */
static gg_status read_arguments(cli *c, gg_merge_config *to)
{
    size_t n = strcspn(opt.method, ",");
    to->models = calloc(opt.models.n + 1, sizeof *to->models);
    to->method = strndup(opt.method, n);
    to->parameters = strdup(opt.method[n] ? opt.method + n + 1 : "");
    to->base = opt.base ? strdup(opt.base) : NULL;
    to->words = opt.words ? strdup(opt.words) : NULL;
    bool ok = to->models && to->method && to->parameters && (to->base || !opt.base) &&
              (to->words || !opt.words);
    for (size_t i = 0; ok && i < opt.models.n; i++, to->n_models++) {
        const char *text = opt.models.items[i];
        n = path_length(text);
        if (n == 0) return gg_fail(&c->err, GG_EUSAGE, "the path of a model is empty");
        to->models[i].path = strndup(text, n);
        to->models[i].parameters = strdup(text[n] ? text + n + 1 : "");
        ok = to->models[i].path && to->models[i].parameters;
    }
    return ok ? GG_OK : gg_fail(&c->err, GG_ENOMEM, "no memory for the models");
}

/* Adds a path to what was found for the name of a model. The shards of a model count once. */
static gg_status add_found(cli *c, gg_buf *found, size_t *n, const char *path)
{
    size_t prefix;
    uint32_t no, count;
    if (gg_shard_parse(path, &prefix, &no, &count) && no > 0) return GG_OK;
    return gg_buf_printf(found, &c->err, "%s%s", (*n)++ ? ", " : "", path);
}

/* Adds the files PATTERN, in the order of their names. */
static gg_status add_matches(cli *c, gg_buf *found, size_t *n, const char *dir, const char *start)
{
    gg_status st = GG_OK;
    size_t len = strlen(start);
    struct dirent **list = NULL;
    int many = scandir(dir, &list, NULL, alphasort);
    if (many < 0 && errno != ENOENT && errno != ENOTDIR) {
        gg_fail_errno(&c->err, "cannot read the folder");
        return gg_at_file(&c->err, dir);
    }
    for (int i = 0; i < many; i++) {
        const char *name = list[i]->d_name;
        size_t all = strlen(name);
        bool match = all > len + 5 && strncmp(name, start, len) == 0 &&
                     strcmp(name + all - 5, ".gguf") == 0;
        char *path = match && st == GG_OK ? gg_path_in(dir, name, &c->err) : NULL;
        if (match && st == GG_OK) st = path ? add_found(c, found, n, path) : GG_ENOMEM;
        free(path);
        free(list[i]);
    }
    free(list);
    return st;
}

/* Looks for a model of a configuration: DIR/NAME, if that is a file or a folder that is a model;
 * DIR/NAME.gguf; the files DIR/NAME-....gguf; the GGUF files in DIR/NAME. The first of them that
 * exist count. */
static gg_status look_for(cli *c, const char *name, gg_buf *found, size_t *n)
{
    struct stat s;
    gg_buf b = GG_BUF_INIT;
    char *path = gg_path_in(opt.folder, name, &c->err);
    gg_status st = path ? GG_OK : GG_ENOMEM;
    bool exists = path && cli_stat(c, path, &s);
    if (exists && S_ISDIR(s.st_mode)) {
        st = add_matches(c, found, n, path, "");
        if (st == GG_OK && *n == 0) st = add_found(c, found, n, path);
    } else if (exists) {
        st = add_found(c, found, n, path);
    }
    if (st == GG_OK && *n == 0) st = gg_buf_printf(&b, &c->err, "%s.gguf", path);
    if (st == GG_OK && *n == 0 && cli_stat(c, b.data, &s)) st = add_found(c, found, n, b.data);
    gg_buf_free(&b);
    if (st == GG_OK && *n == 0) {
        char *slash = strrchr(path, '/');
        b = (gg_buf)GG_BUF_INIT;
        st = gg_buf_printf(&b, &c->err, "%s-", slash ? slash + 1 : path);
        if (slash) *slash = 0;
        if (st == GG_OK) st = add_matches(c, found, n, slash ? path : ".", b.data);
        gg_buf_free(&b);
    }
    free(path);
    return st;
}

/* Whether a name is that of a model, although it looks like MODEL+ADAPTER. A part after the last
 * slash counts only if the name of the model has that slash. */
static bool is_whole_name(void *ctx, const char *name)
{
    cli *c = ctx;
    struct stat s;
    gg_buf found = GG_BUF_INIT;
    size_t n = 0;
    const char *end = strrchr(name, '/'), *plus = strchr(name, '+');
    bool whole = cli_stat(c, name, &s);
    if (!whole && opt.folder) look_for(c, name, &found, &n);
    if (!whole && opt.folder && n == 0 && end && plus > end) look_for(c, end + 1, &found, &n);
    gg_buf_free(&found);
    return whole || n > 0;
}

/* Replaces the name of a model of a configuration by the file that it means. A name with slashes,
 * as ORG/MODEL, may also be found by its end. */
static gg_status find_in_folder(cli *c, char **path)
{
    struct stat s;
    if (!*path || strcmp(*path, "-") == 0 || cli_stat(c, *path, &s)) return GG_OK;
    const char *end = strrchr(*path, '/'), *names[] = { *path, end ? end + 1 : NULL };
    gg_buf found = GG_BUF_INIT;
    size_t n = 0;
    gg_status st = GG_OK;
    for (int i = 0; i < 2 && st == GG_OK && n == 0 && names[i]; i++)
        st = look_for(c, names[i], &found, &n);
    if (st == GG_OK && n == 1) {
        free(*path);
        *path = gg_buf_take(&found, NULL);
        return *path ? GG_OK : gg_fail(&c->err, GG_ENOMEM, "no memory for the models");
    }
    if (st == GG_OK && n == 0) {
        st = gg_fail(&c->err, GG_EIO,
                     "there is no model '%.200s' in %.200s, nor a file of the name with .gguf or "
                     "-*.gguf, nor a folder with *.gguf",
                     end ? end + 1 : *path, opt.folder);
        gg_fix(&c->err, "name the file in the configuration, or give another folder to --models");
    } else if (st == GG_OK) {
        st = gg_fail(&c->err, GG_EUSAGE, "the model '%.200s' may be each of %.600s", *path,
                     found.data);
        gg_fix(&c->err, "name one of them in the configuration");
    }
    gg_buf_free(&found);
    return st;
}

/* A choice of a vocabulary that is not the path of a model. */
static bool is_word(const char *words)
{
    return strcmp(words, "base") == 0 || strcmp(words, "union") == 0;
}

static gg_status read_models(cli *c, gg_merge_config *to)
{
    gg_buf text = GG_BUF_INIT;
    if (!opt.config) return read_arguments(c, to);
    gg_status st = cli_read_file(opt.config, CONFIG_MAX, &text, &c->err);
    to->named = &opt.meanings;
    to->list = opt.list;
    to->is_model = is_whole_name;
    to->ctx = c;
    if (st == GG_OK) st = gg_merge_config_read(text.data, text.len, to, &c->err);
    gg_buf_free(&text);
    if (to->has_seed && !cli_given(c, "seed")) opt.o.seed = to->seed;
    if (opt.list) return st;
    for (char *p = to->notes, *end; p && *p && st == GG_OK; p = end + 1) {
        end = strchr(p, '\n');
        *end = '\0';
        cli_note(c, "%s", p);
    }
    if (opt.folder && st == GG_OK) st = find_in_folder(c, &to->base);
    for (size_t i = 0; opt.folder && i < to->n_models && st == GG_OK; i++)
        st = find_in_folder(c, &to->models[i].path);
    for (size_t i = 0; opt.folder && i < to->n_tokens && st == GG_OK; i++)
        st = find_in_folder(c, &to->tokens[i].model);
    if (opt.words && st == GG_OK) {
        free(to->words);
        to->words = strdup(opt.words);
        if (!to->words) st = gg_fail(&c->err, GG_ENOMEM, "no memory for the models");
    } else if (opt.folder && st == GG_OK && to->words && !is_word(to->words)) {
        st = find_in_folder(c, &to->words);
    }
    return st;
}

/* Opens the activations that "activations=FILE" names among the parameters of a model, and takes
 * them out of the text. */
static gg_status open_activations(cli *c, char *text, gg_source **out)
{
    static const char key[] = "activations=";
    char *at = text;
    while (at && strncmp(at, key, sizeof key - 1) != 0) at = (at = strchr(at, ',')) ? at + 1 : NULL;
    if (!at) return GG_OK;
    char *path = at + sizeof key - 1;
    size_t n = path_length(path);
    char *name = strndup(path, n);
    if (!name) return gg_fail(&c->err, GG_ENOMEM, "no memory for the models");
    gg_status st = cli_open(c, name, CLI_SPOOLED, out);
    free(name);
    if (path[n]) memmove(at, path + n + 1, strlen(path + n + 1) + 1);
    else *(at > text ? at - 1 : at) = 0;
    return st;
}

/* Opens the models. Standard input can be only one of them. */
static gg_status open_models(cli *c, const gg_merge_config *from, gg_merge_models *to,
                             gg_merge_model *list)
{
    bool piped = from->base && strcmp(from->base, "-") == 0;
    gg_status st = from->base ? cli_open(c, from->base, CLI_SPOOLED, &to->base) : GG_OK;
    for (size_t i = 0; i < from->n_models && st == GG_OK; i++) {
        const char *path = from->models[i].path;
        bool pipe = strcmp(path, "-") == 0;
        if (pipe && piped) {
            gg_fail(&c->err, GG_EUSAGE, "this model is given twice");
            gg_fix(&c->err, "give each model once; use its weight to count it more");
            return gg_at_file(&c->err, path);
        }
        piped = piped || pipe;
        if (!opt.config) st = open_activations(c, from->models[i].parameters, &list[i].activations);
        list[i].parameters = from->models[i].parameters;
        if (st == GG_OK) st = cli_open(c, path, CLI_SPOOLED, &list[i].source);
        to->n++;
        const gg_source *first = to->base ? to->base : list[0].source;
        if (st == GG_OK && first != list[i].source) st = cli_like(c, first, &list[i].source);
    }
    if (st == GG_EIO && opt.config && !opt.folder) {
        c->err.fix[0] = '\0'; /* published configurations name no paths */
        gg_fix(&c->err, "give the folder of its models, or the file of each (--models DIR, "
                        "--named NAME=FILE)");
    }
    return st;
}

/* Replaces "auto" by the template that most models have, the first of several; NULL if none has. */
static gg_status find_template(cli *c, const gg_merge_models *models, gg_merge_config *config)
{
    const char *best = NULL, *text[2];
    size_t len[2], best_len = 0, most = 0;
    for (size_t i = 0; i < models->n; i++) {
        size_t same = 0;
        for (size_t k = 0; k <= models->n; k++) {
            const gg_source *s = models->list[k == 0 ? i : k - 1].source;
            const gg_kv *kv = gg_meta_find(gg_source_meta(s), "tokenizer.chat_template");
            bool has = kv && gg_kv_str(kv, &text[k > 0], &len[k > 0]);
            if (k == 0 && !has) break;
            same += k > 0 && has && len[0] == len[1] && memcmp(text[0], text[1], len[0]) == 0;
        }
        if (same > most) best = text[0], best_len = len[0], most = same;
    }
    free(config->chat_template);
    config->chat_template = best ? strndup(best, best_len) : NULL;
    return !best || config->chat_template ? GG_OK
                                          : gg_fail(&c->err, GG_ENOMEM, "no memory for a template");
}

/* Sets the template of a configuration, before the keys of --set-kv. *kept is freed by the caller,
 * after the merge. */
static gg_status set_template(cli *c, const gg_merge_models *models, gg_merge_config *config,
                              char **kept)
{
    static const char key[] = "tokenizer.chat_template=str:";
    gg_output_options *o = &opt.o.output;
    gg_status st = GG_OK;
    if (config->chat_template && strcmp(config->chat_template, "auto") == 0)
        st = find_template(c, models, config);
    if (st != GG_OK || !config->chat_template) return st;
    size_t n = strlen(config->chat_template), list = (o->set_kv.n + 1) * sizeof(char *);
    *kept = calloc(1, list + sizeof key + n);
    if (!*kept) return gg_fail(&c->err, GG_ENOMEM, "no memory for a template");
    const char **texts = (const char **)(void *)*kept;
    char *text = *kept + list;
    snprintf(text, sizeof key + n, "%s%s", key, config->chat_template);
    texts[0] = text;
    for (size_t i = 0; i < o->set_kv.n; i++) texts[i + 1] = o->set_kv.items[i];
    o->set_kv = (gg_texts){ texts, o->set_kv.n + 1 };
    return GG_OK;
}

/* The base or the model with that path; NULL if there is none. */
static gg_source *model_of(const gg_merge_config *from, const gg_merge_models *models,
                           const char *path)
{
    if (from->base && strcmp(from->base, path) == 0) return models->base;
    for (size_t i = 0; i < models->n; i++)
        if (strcmp(from->models[i].path, path) == 0) return models->list[i].source;
    return NULL;
}

static bool has_vocabulary(const gg_source *s)
{
    return s && gg_meta_find(gg_source_meta(s), "tokenizer.ggml.tokens");
}

static bool any_has_vocabulary(const gg_merge_models *models)
{
    bool any = has_vocabulary(models->base);
    for (size_t i = 0; i < models->n; i++) any = any || has_vocabulary(models->list[i].source);
    return any;
}

/* Sets the vocabulary of the result. *list is freed, and *other closed, after the merge. */
static gg_status set_vocabulary(cli *c, const gg_merge_config *from, const gg_merge_models *models,
                                gg_merge_token **list, gg_source **other)
{
    gg_merge_vocabulary *v = &opt.o.vocabulary;
    gg_status st = GG_OK;
    *v = (gg_merge_vocabulary){ .multiple = from->multiple, .n_tokens = from->n_tokens };
    if (!from->words) return GG_OK;
    if (opt.config && !opt.words && !any_has_vocabulary(models)) {
        v->n_tokens = 0;
        cli_note(c, "no model has a vocabulary, so the configuration's choice of one is left out: "
                    "all must have as many tokens");
        return GG_OK;
    }
    v->words = strcmp(from->words, "base") == 0    ? GG_MERGE_WORDS_BASE
               : strcmp(from->words, "union") == 0 ? GG_MERGE_WORDS_UNION
                                                   : GG_MERGE_WORDS_OF;
    if (v->words == GG_MERGE_WORDS_OF && !(v->of = model_of(from, models, from->words))) {
        st = cli_open(c, from->words, CLI_HEADER_ONLY, other);
        v->of = *other;
    }
    *list = calloc(from->n_tokens + 1, sizeof **list);
    if (!*list) return gg_fail(&c->err, GG_ENOMEM, "no memory for the models");
    for (size_t i = 0; i < from->n_tokens && st == GG_OK; i++) {
        const struct gg_merge_config_token *t = &from->tokens[i];
        (*list)[i] = (gg_merge_token){ t->text, NULL, t->token, t->id, t->forced };
        if (!t->model || ((*list)[i].model = model_of(from, models, t->model))) continue;
        st = gg_fail(&c->err, GG_EUNSUPPORTED,
                     "token '%.100s' gets the row of '%.200s', which is not one of the models",
                     t->text, t->model);
    }
    v->tokens = *list;
    return st;
}

static gg_status merge_models(cli *c, const gg_merge_models *models)
{
    gg_merge_report r = { 0 };
    table rows = { .json = c->json };
    gg_picture picture = { .title = opt.output ? opt.output : "merge", .text = HOW_MERGED };
    if (opt.svg) {
        opt.o.row = draw_tensor;
        opt.o.ctx = &picture;
    } else if (opt.check) {
        opt.o.row = print_tensor;
        opt.o.ctx = &rows;
    }
    gg_status st = gg_merge(models, &opt.o, opt.check ? NULL : opt.output, &c->run, &r, &c->err);
    if (st == GG_OK && opt.svg) st = picture_save(c, &picture, opt.svg);
    if (opt.svg) gg_picture_free(&picture);
    if (st == GG_OK && !opt.check && c->verbose)
        cli_note(c, "%zu tensor%s merged, %zu copied; %llu bytes", r.merged, cli_s(r.merged),
                 r.copied, (unsigned long long)r.bytes);
    return st;
}

/* Lists the name of a configuration, and the models of it that get adapters. */
static gg_status list_config(cli *c)
{
    gg_merge_config config = { 0 };
    gg_status st = read_models(c, &config);
    table to = { .json = c->json };
    if (st == GG_OK) table_begin(&to, "kind\tname\tbase\tadapter");
    if (st == GG_OK && config.name)
        table_line(&to, cell_text("name"), cell_text(config.name), cell_text("-"), cell_text("-"));
    for (size_t i = 0; i < config.n_adapters && st == GG_OK; i++) {
        struct gg_merge_config_adapter *a = &config.adapters[i];
        if (opt.folder) st = find_in_folder(c, &a->base);
        if (opt.folder && st == GG_OK) st = find_in_folder(c, &a->lora);
        if (st == GG_OK)
            table_line(&to, cell_text("adapter"), cell_text(a->name), cell_text(a->base),
                       cell_text(a->lora));
    }
    gg_merge_config_free(&config);
    return st;
}

static gg_status merge(cli *c)
{
    gg_merge_config config = { 0 };
    gg_merge_model *list = NULL;
    gg_merge_token *tokens = NULL;
    gg_source *other = NULL;
    char *template = NULL;
    const gg_texts given = opt.o.output.set_kv; /* which belongs to cli.c */
    gg_status st = opt.svg ? picture_allowed(c, opt.svg) : GG_OK;
    if (st == GG_OK) st = read_models(c, &config);
    gg_merge_models models = { .slices = config.slices, .n_slices = config.n_slices };
    if (st == GG_OK && !(list = calloc(config.n_models + 1, sizeof *list)))
        st = gg_fail(&c->err, GG_ENOMEM, "no memory for the models");
    models.list = list;
    opt.o.method = config.method;
    opt.o.parameters = config.parameters;
    if (!opt.o.output.dtype) opt.o.output.dtype = config.dtype;
    if (st == GG_OK) st = open_models(c, &config, &models, list);
    if (st == GG_OK) st = set_template(c, &models, &config, &template);
    if (st == GG_OK) st = set_vocabulary(c, &config, &models, &tokens, &other);
    if (st == GG_OK) st = merge_models(c, &models);
    gg_source_close(other);
    free(tokens);
    gg_source_close(models.base);
    for (size_t i = 0; i < models.n; i++) {
        gg_source_close(list[i].source);
        gg_source_close(list[i].activations);
    }
    free(list);
    free(template);
    opt.o.output.set_kv = given;
    gg_merge_config_free(&config);
    return st;
}

static gg_status draw_recalled(gg_picture *p, const gg_source *s, gg_error *err)
{
    return gg_merge_recall(s, draw_tensor, p, err);
}

/* Checks what a merge, or else the picture of a finished one, needs. */
static void check_inputs(const cli *c)
{
    if (opt.svg && opt.models.n == 1 && c->args.n == 1 &&
        !cli_given_any(
            c, "method config base output check embed-from vocabulary align card no-hash set-kv "
               "set-kv-file dtype shards shard-size fallback imatrix")) {
        opt.finished = c->args.items[0];
        return;
    }
    if (opt.config && opt.models.n) cli_usage(c, "unexpected argument '%s'", c->args.items[0]);
    if (!opt.config && opt.models.n == 0) cli_usage(c, "give the models to merge");
    if (!opt.output && !opt.check && !opt.list) cli_usage(c, "give --output or --check");
}

int main(int argc, char **argv)
{
    CLI_TOOL(c, merge);
    cli_start(&c, argc, argv, options);
    cli_writes_models(&c);
    check_inputs(&c);
    c.stored_names = opt.output && cli_has_ending(opt.output, ".safetensors");
    if (opt.finished)
        return cli_end(&c, picture_finished(&c, opt.finished, opt.svg, HOW_MERGED, draw_recalled));
    output_options_end(&c, &opt.o.output);
    opt.o.embeddings_from_base = cli_given(&c, "embed-from");
    if (!opt.config && !opt.method) {
        opt.method = opt.base ? "iso" : "linear";
        cli_note(&c, "method %s, because there is %s base (see --list-methods)", opt.method,
                 opt.base ? "a" : "no");
    }
    gg_status st = opt.list ? list_config(&c) : merge(&c);
    if (st != GG_OK && opt.config) gg_at_file(&c.err, opt.named ? opt.named : opt.config);
    return cli_end(&c, st);
}
