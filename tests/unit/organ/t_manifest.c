/* t_manifest.c - manifest.json: text, read, text again, the same; every value a model
 * can hold comes back to the bit; edits that contradict the files are refused. */
#include "files.h"

#include "base/output.h"
#include "gguf/gguf.h"
#include "organ/gg_organ.h"
#include "organ/gg_verbs.h"
#include "organ/manifest.h"

#include <fcntl.h>

/* Organ directory of a file of the test data at scratch("d"), anew. */
static const char *extract(const char *model)
{
    gg_remove_tree(scratch("d"));
    gg_source *s = NULL;
    gg_run run = { 0 };
    gg_extract_options o = { 0 };
    gg_extract_report r;
    gg_error e = GG_ERROR_INIT;
    T_CHECKF(gg_source_open(model, &s, &e) == GG_OK, "%s: %s", model, e.what);
    if (s)
        T_CHECKF(gg_extract(s, &o, scratch("d"), &run, &r, &e) == GG_OK, "%s: %s", model, e.what);
    gg_source_close(s);
    return scratch("d");
}

/* The text of a manifest, malloc'd; NULL if it is not written. */
static char *written(const gg_manifest *m, size_t *n, gg_error *e)
{
    int fd = open(scratch("written"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    bool ok = fd >= 0 && m && gg_manifest_write(m, fd, e) == GG_OK;
    if (fd >= 0) close(fd);
    return ok ? slurp(scratch("written"), n) : NULL;
}

/* ---- text -> load -> text ------------------------------------------------------- */

static void text_again(const char *stem)
{
    char path[200];
    snprintf(path, sizeof path, "tests/data/gguf/%s.gguf", stem);
    extract(path);
    size_t n, len = 0;
    char *was = slurp(scratch("d/manifest.json"), &n), *text = NULL;
    gg_manifest *m = NULL;
    gg_error e = GG_ERROR_INIT;
    T_CHECKF(gg_manifest_load(scratch("d"), &m, &e) == GG_OK, "%s: %s", stem, e.what);
    text = written(m, &len, &e);
    T_CHECKF(text && len == n && memcmp(text, was, n) == 0, "%s: another text", stem);
    gg_manifest_free(m);
    free(text);
    free(was);
}

static void same_text(void)
{
    each_valid(text_again);
}

/* The metadata of the manifest against that of the model, to the byte. */
static void same_metadata(const char *stem)
{
    char path[200];
    snprintf(path, sizeof path, "tests/data/gguf/%s.gguf", stem);
    extract(path);
    gg_source *a = NULL, *b = NULL;
    gg_error e = GG_ERROR_INIT;
    T_CHECK(gg_source_open(path, &a, &e) == GG_OK && gg_source_open(scratch("d"), &b, &e) == GG_OK);
    if (a && b) {
        const gg_meta *x = gg_source_meta(a), *y = gg_source_meta(b);
        T_CHECKF(x->n == y->n, "%s: %zu and %zu keys", stem, x->n, y->n);
        for (size_t i = 0; i < x->n && i < y->n; i++) {
            const gg_kv *p = &x->kv[i], *q = &y->kv[i];
            T_CHECKF(p->key_len == q->key_len && memcmp(p->key, q->key, p->key_len) == 0 &&
                         p->type == q->type && p->size == q->size &&
                         (p->size == 0 || memcmp(p->data, q->data, p->size) == 0) &&
                         p->count == q->count,
                     "%s: key %zu", stem, i);
        }
        T_EQ(gg_source_count(a), gg_source_count(b));
    }
    gg_source_close(a);
    gg_source_close(b);
}

static void same_values(void)
{
    each_valid(same_metadata);
}

/* ---- values by hand --------------------------------------------------------------- */

static gg_status load_text(const char *text, gg_manifest **m, gg_error *err)
{
    mkdir(scratch("h"), 0777);
    spew(scratch("h/manifest.json"), text, strlen(text));
    return gg_manifest_load(scratch("h"), m, err);
}

static void load_value(const char *type, const char *value, const char *want_hex)
{
    char text[1000];
    snprintf(text, sizeof text,
             "{\"format\": \"organ-manifest\", \"version\": 1, \"model\": {}, \"metadata\": "
             "[{\"key\": \"k\", \"type\": %s, \"value\": %s}], \"tensors\": []}",
             type, value);
    gg_manifest *m = NULL;
    gg_error e = GG_ERROR_INIT;
    gg_status st = load_text(text, &m, &e);
    if (!want_hex) {
        T_CHECKF(st == GG_EFORMAT && e.file[0], "%s %s: taken", type, value);
        T_CHECKF(!strstr(type, "u7") || strstr(e.what, "\"u7\""), "%s: %s", type, e.what);
    } else if (st != GG_OK) {
        T_CHECKF(st == GG_OK, "%s %s: %s", type, value, e.what);
    } else {
        char *hex = hex_of(m->meta.kv[0].data, m->meta.kv[0].size);
        T_CHECKF(m->meta.n == 1 && strcmp(hex, want_hex) == 0, "%s %s: %s", type, value, hex);
        free(hex);
    }
    gg_manifest_free(m);
}

static void values(void)
{
    static const char *const t[][3] = {
        { "\"u8\"", "255", "ff" },
        { "\"u8\"", "256", NULL },
        { "\"u8\"", "-1", NULL },
        { "\"u8\"", "1.5", NULL },
        { "\"u8\"", "2e2", "c8" },
        { "\"i8\"", "-128", "80" },
        { "\"i8\"", "-129", NULL },
        { "\"i8\"", "128", NULL },
        { "\"u16\"", "65535", "ffff" },
        { "\"i16\"", "-32768", "0080" },
        { "\"u32\"", "4294967295", "ffffffff" },
        { "\"u32\"", "4294967296", NULL },
        { "\"i32\"", "-2147483648", "00000080" },
        { "\"i32\"", "\"7\"", NULL },
        { "\"u64\"", "18446744073709551615", "ffffffffffffffff" },
        { "\"u64\"", "18446744073709551616", NULL },
        { "\"i64\"", "-9223372036854775808", "0000000000000080" },
        { "\"i64\"", "9223372036854775808", NULL },
        { "\"f32\"", "1", "0000803f" },
        { "\"f32\"", "-0", "00000080" },
        { "\"f32\"", "1e-45", "01000000" },
        { "\"f32\"", "0.1", "cdcccc3d" },
        { "\"f32\"", "1e39", NULL },
        { "\"f32\"", "{\"bits\": \"7fc00001\"}", "0100c07f" },
        { "\"f32\"", "{\"bits\": \"FF800000\"}", "000080ff" },
        { "\"f32\"", "{\"bits\": \"7fc0000\"}", NULL },
        { "\"f32\"", "{\"bits\": \"7fc0000g\"}", NULL },
        { "\"f32\"", "{\"bits\": 5}", NULL },
        { "\"f32\"", "{}", NULL },
        { "\"f32\"", "\"nan\"", NULL },
        { "\"f32\"", "NaN", NULL },
        { "\"f64\"", "0.1", "9a9999999999b93f" },
        { "\"f64\"", "5e-324", "0100000000000000" },
        { "\"f64\"", "{\"bits\": \"fff0000000000000\"}", "000000000000f0ff" },
        { "\"bool\"", "true", "01" },
        { "\"bool\"", "false", "00" },
        { "\"bool\"", "7", "07" },
        { "\"bool\"", "255", "ff" },
        { "\"bool\"", "256", NULL },
        { "\"bool\"", "null", NULL },
        { "\"str\"", "\"a\\u0000b\\n\"", "6100620a" },
        { "\"str\"", "\"\"", "" },
        { "\"str\"", "{\"base64\": \"/wA=\"}", "ff00" },
        { "\"str\"", "{\"base64\": \"\"}", "" },
        { "\"str\"", "{\"base64\": \"/wA\"}", NULL },
        { "\"str\"", "{\"base64\": \"/w==\\n\"}", NULL },
        { "\"str\"", "{\"base64\": 5}", NULL },
        { "\"str\"", "5", NULL },
        { "\"str\"", "null", NULL },
        { "\"arr\", \"items\": \"u8\"", "[1, 2, 255]", "0102ff" },
        { "\"arr\", \"items\": \"u8\"", "[]", "" },
        { "\"arr\", \"items\": \"u8\"", "[1, -2]", NULL },
        { "\"arr\", \"items\": \"u8\"", "5", NULL },
        { "\"arr\", \"items\": \"bool\"", "[true, false, 9]", "010009" },
        { "\"arr\", \"items\": \"str\"", "[\"a\", {\"base64\": \"/w==\"}]",
          "0100000000000000610100000000000000ff" },
        { "\"arr\", \"items\": \"arr\"", "[[1]]", NULL },
        { "\"arr\"", "[1]", NULL },
        { "\"arr\", \"items\": \"u7\"", "[1]", NULL },
        { "\"u7\"", "1", NULL },
        { "7", "1", NULL },
        { "null", "1", NULL },
    };
    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) load_value(t[i][0], t[i][1], t[i][2]);
}

static void broken_texts(void)
{
    static const char *const bad[] = {
        "",
        "{",
        "[]",
        "null",
        "{}",
        "{\"format\": \"organ-manifest\"}",
        "{\"format\": \"organ-manifest\", \"version\": 2, \"model\": {}, \"metadata\": [], "
        "\"tensors\": []}",
        "{\"format\": \"other\", \"version\": 1, \"model\": {}, \"metadata\": [], \"tensors\": []}",
        "{\"format\": \"organ-manifest\", \"version\": 1, \"model\": {}, \"metadata\": [], "
        "\"tensors\": {}}",
        "{\"format\": \"organ-manifest\", \"version\": 1, \"model\": {}, \"metadata\": {}, "
        "\"tensors\": []}",
        "{\"format\": \"organ-manifest\", \"version\": 1, \"model\": {}, \"metadata\": [5], "
        "\"tensors\": []}",
        "{\"format\": \"organ-manifest\", \"version\": 1, \"model\": {\"gguf_version\": 1}, "
        "\"metadata\": [], \"tensors\": []}",
        "{\"format\": \"organ-manifest\", \"version\": 1, \"model\": {}, \"metadata\": [{\"key\": "
        "\"\", \"type\": \"u8\", \"value\": 1}], \"tensors\": []}",
        "{\"format\": \"organ-manifest\", \"version\": 1, \"model\": {}, \"metadata\": [{\"key\": "
        "\"a\", \"type\": \"u8\"}], \"tensors\": []}",
        "{\"format\": \"organ-manifest\", \"version\": 1, \"model\": {}, \"metadata\": [{\"key\": "
        "\"a\", \"type\": \"u8\", \"value\": 1}, "
        "{\"key\": \"a\", \"type\": \"u8\", \"value\": 1}], \"tensors\": []}",
        "{\"format\": \"organ-manifest\", \"version\": 1, \"model\": {}, \"metadata\": [], "
        "\"tensors\": [],}",
        "{\"format\": \"organ-manifest\", \"version\": 1, \"model\": {}, \"metadata\": [], "
        "\"tensors\": []} x",
        "{\"format\": \"organ-manifest\", \"version\": 1, \"version\": 1, \"model\": {}, "
        "\"metadata\": [], \"tensors\": []}",
        "{\"format\": \"organ-manifest\", \"version\": 1, \"model\": {}, \"metadata\": [], "
        "\"tensors\": [7]}",
        "{\"format\": \"organ-manifest\", \"version\": 1, \"model\": {}, \"metadata\": [], "
        "\"tensors\": [{}]}",
        "{\"format\": \"organ-manifest\", \"version\": 1, \"model\": {}, \"metadata\": [], "
        "\"layout\": {\"files\": [{}]}, \"tensors\": []}",
        "{\"format\": \"organ-manifest\", \"version\": 1, \"model\": {}, \"metadata\": [], "
        "\"layout\": {\"files\": [{\"tensors\": 0, "
        "\"padding\": [{\"after\": null, \"base64\": \"!\"}]}]}, \"tensors\": []}",
        "{\"format\": \"organ-manifest\", \"version\": 1, \"model\": {}, \"metadata\": [], "
        "\"layout\": {\"files\": [{\"tensors\": 0, "
        "\"trailing\": {\"file\": \"../x\", \"bytes\": 1, \"sha256\": \"00\"}}]}, \"tensors\": []}",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        gg_manifest *m = NULL;
        gg_error e = GG_ERROR_INIT;
        T_CHECKF(load_text(bad[i], &m, &e) == GG_EFORMAT && !m && e.file[0], "taken: %s", bad[i]);
        gg_manifest_free(m);
    }
}

/* Trailing bytes whose hash somebody took out are written without one, and read again. */
static void trailing_without_hash(void)
{
    gg_manifest *m = NULL;
    gg_error e = GG_ERROR_INIT;
    char *once = NULL;
    size_t n = 0;
    mkdir(scratch("h"), 0777);
    spew(scratch("h/x.raw"), "x", 1);
    T_CHECK(load_text("{\"format\": \"organ-manifest\", \"version\": 1, \"model\": {}, "
                      "\"metadata\": [], \"layout\": {\"files\": "
                      "[{\"tensors\": 0, \"trailing\": {\"file\": \"x.raw\", \"bytes\": 1}}]}, "
                      "\"tensors\": []}",
                      &m, &e) == GG_OK);
    once = written(m, &n, &e);
    gg_manifest_free(m);
    m = NULL;
    T_CHECKF(once && load_text(once, &m, &e) == GG_OK, "its own text is refused: %s", e.what);
    gg_manifest_free(m);
    free(once);
}

/* Every cut of a real manifest is refused; none crashes. */
static void cut_texts(void)
{
    extract("tests/data/gguf/v3-basic.gguf");
    size_t n;
    char *text = slurp(scratch("d/manifest.json"), &n);
    for (size_t cut = 0; cut + 1 < n; cut += 7) {
        spew(scratch("d/manifest.json"), text, cut);
        gg_manifest *m = NULL;
        gg_error e = GG_ERROR_INIT;
        T_CHECKF(gg_manifest_load(scratch("d"), &m, &e) == GG_EFORMAT, "cut at %zu", cut);
        gg_manifest_free(m);
    }
    free(text);
}

/* ---- edits compared with the files ---------------------------------------------------- */

/* v3-basic with the first `from` of its manifest replaced by `to`, loaded. */
static gg_status load_edited(const char *from, const char *to, gg_error *e)
{
    extract("tests/data/gguf/v3-basic.gguf");
    size_t n;
    char *text = slurp(scratch("d/manifest.json"), &n), *at = strstr(text, from);
    T_CHECKF(at != NULL, "no %s in the manifest", from);
    FILE *f = fopen(scratch("d/manifest.json"), "w");
    if (!at || !f) exit(1);
    fprintf(f, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    fclose(f);
    free(text);
    gg_source *s = NULL;
    gg_status st = gg_source_open(scratch("d"), &s, e);
    gg_source_close(s);
    return st;
}

static void contradictions(void)
{
    static const struct {
        const char *from, *to, *says;
    } t[] = {
        { "\"dims\": [8, 3]", "\"dims\": [3, 8]", "dims" },
        { "\"dims\": [8, 3]", "\"dims\": [8, 3, 1]", "dims" },
        { "\"dims\": [8, 3]", "\"dims\": [8, 4]", "bytes" },
        { "\"dims\": [8, 3]", "\"dims\": [1, 1, 1, 8, 3]", "dims" },
        { "\"dims\": [8, 3]", "\"dims\": [-8, 3]", "" },
        { "\"dims\": [8, 3]", "\"dims\": [4294967296, 4294967296]", "" },
        { "\"dims\": [8, 3]", "\"dims\": 24", "dims" },
        { "\"dtype\": \"F32\"", "\"dtype\": \"I32\"", "dtype" },
        { "\"dtype\": \"F32\"", "\"dtype\": \"F16\"", "bytes" },
        { "\"dtype\": \"F32\"", "\"dtype\": \"Q4_2\"", "dtype" },
        { "\"dtype\": \"F32\"", "\"dtype\": \"F33\"", "dtype" },
        { "\"name\": \"a.weight\"", "\"name\": \"z.weight\"", "name" },
        { "\"name\": \"a.weight\"", "\"name\": \"b.weight\"", "different values" },
        { "\"name\": \"a.weight\"", "\"name\": 5", "" },
        { "\"bytes\": 96", "\"bytes\": 97", "bytes" },
        { "\"file\": \"other/a.bin\"", "\"file\": \"other/b.bin\"", "different values" },
        { "\"file\": \"other/a.bin\"", "\"file\": \"other/none.bin\"", "does not exist" },
        { "\"file\": \"other/a.bin\"", "\"file\": \"../d/other/a.bin\"", "path" },
        { "\"file\": \"other/a.bin\"", "\"file\": \"other/../other/a.bin\"", "path" },
        { "\"file\": \"other/a.bin\"", "\"file\": \"/etc/passwd\"", "path" },
        { "\"file\": \"other/a.bin\"", "\"file\": \"./other/a.bin\"", "path" },
        { "\"file\": \"other/a.bin\"", "\"file\": \"other//a.bin\"", "path" },
        { "\"file\": \"other/a.bin\"", "\"file\": \"other/a.bin\\u0000\"", "path" },
        { "\"file\": \"other/a.bin\"", "\"file\": \"\"", "path" },
        { "\"file\": \"other/a.bin\"", "\"file\": \"other\"", "" },
        { "\"file\": \"other/a.bin\", ", "", "" },
        { "\"sha256\": \"03b0", "\"sha256\": \"03B0", "sha256" },
        { "\"sha256\": \"03b0", "\"sha256\": \"3b0", "sha256" },
        { "\"class\": \"other\"", "\"class\": \"brain\"", "class" },
        { "\"offset\": 0", "\"offset\": -1", "" },
    };
    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) {
        gg_error e = GG_ERROR_INIT;
        gg_status st = load_edited(t[i].from, t[i].to, &e);
        T_CHECKF(st == GG_EFORMAT || st == GG_EUNSUPPORTED, "%s -> %s: status %d", t[i].from,
                 t[i].to, (int)st);
        T_CHECKF(strstr(e.what, t[i].says), "%s -> %s: %s", t[i].from, t[i].to, e.what);
        T_CHECK(e.file[0]);
    }
}

/* What a person may change without contradicting a file. */
static void honest_edits(void)
{
    static const char *const t[][2] = {
        { "\"class\": \"other\"", "\"class\": \"organ\"" },
        { "\"bytes\": 96, ", "" },
        { "\"offset\": 0, ", "" },
        { "\"sha256\": \"03b0c4327c6498989631d527265108632cf76b69a4bd277ad9729781f0f4d075\"",
          "\"note\": \"changed\"" },
        { "\"role\": \"a\", ", "" },
        { "\"dtype\": \"F32\"", "\"dtype\": \"f32\"" },
        { "\"model\"", "\"mine\": [1, {\"x\": null}], \"model\"" },
    };
    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) {
        gg_error e = GG_ERROR_INIT;
        T_CHECKF(load_edited(t[i][0], t[i][1], &e) == GG_OK, "%s -> %s: %s", t[i][0], t[i][1],
                 e.what);
    }
}

static void files_cut_or_grown(void)
{
    for (int grown = 0; grown < 2; grown++) {
        extract("tests/data/gguf/v3-basic.gguf");
        size_t n;
        char *bytes = slurp(scratch("d/other/a.bin"), &n);
        spew(scratch("d/other/a.bin"), bytes, grown ? n + 1 : n - 1);
        free(bytes);
        gg_manifest *m = NULL;
        gg_error e = GG_ERROR_INIT;
        T_CHECK(gg_manifest_load(scratch("d"), &m, &e) == GG_EFORMAT &&
                strcmp(e.tensor, "a.weight") == 0);
        gg_manifest_free(m);
    }
}

/* ---- the model's name, history --------------------------------------------------------- */

static void name_is_in_two_places(void)
{
    static const struct {
        const char *from, *to, *want;
    } t[] = {
        { "\"name\": \"tiny odd\",\n    \"blocks\"", "\"name\": \"new\",\n    \"blocks\"", "new" },
        { "\"key\": \"general.name\", \"type\": \"str\", \"value\": \"tiny odd\"",
          "\"key\": \"general.name\", \"type\": \"str\", \"value\": \"by key\"", "by key" },
    };
    for (size_t i = 0; i < 2; i++) {
        gg_error e = GG_ERROR_INIT;
        T_EQ(load_edited(t[i].from, t[i].to, &e), GG_OK);
        gg_manifest *m = NULL;
        const char *s;
        size_t n;
        T_EQ(gg_manifest_load(scratch("d"), &m, &e), GG_OK);
        if (!m) continue;
        T_CHECK(gg_kv_str(gg_meta_find(&m->meta, "general.name"), &s, &n) &&
                n == strlen(t[i].want) && memcmp(s, t[i].want, n) == 0);
        gg_manifest_free(m);
    }
}

static void history_grows(void)
{
    static const char *const steps[][3] = {
        { NULL, "{\"op\": \"a\"}", "[{\"op\": \"a\"}]" },
        { "[{\"op\": \"a\"}]", "{\"op\": \"b\"}", "[{\"op\": \"a\"}, {\"op\": \"b\"}]" },
        { "[]", "{}", "[{}]" },
    };
    gg_error e = GG_ERROR_INIT;
    for (size_t i = 0; i < 3; i++) {
        char *text = strdup(steps[i][1]);
        T_CHECK(gg_history_add(steps[i][0], &text, &e) == GG_OK && strcmp(text, steps[i][2]) == 0);
        free(text);
    }
    T_CHECK(
        load_edited(
            "\"file\": \"other/a.bin\"",
            "\"z\": {\"theta\": 41.5}, \"history\": [{\"op\": \"x\"}], \"file\": \"other/a.bin\"",
            &e) == GG_OK);
    gg_manifest *m = NULL;
    T_EQ(gg_manifest_load(scratch("d"), &m, &e), GG_OK);
    if (m)
        T_CHECK(strcmp(m->entries[0].z, "{\"theta\": 41.5}") == 0 &&
                strcmp(m->entries[0].history, "[{\"op\": \"x\"}]") == 0);
    gg_manifest_free(m);
}

/* A hostile number of keys. They are not searched one by one, which would take minutes, and the
 * duplicate is found. */
static void many_keys(void)
{
    enum { MANY = 100000 };
    for (int twice = 0; twice < 2; twice++) {
        mkdir(scratch("h"), 0777);
        FILE *f = fopen(scratch("h/manifest.json"), "w");
        if (!f) exit(1);
        fputs("{\"format\": \"organ-manifest\", \"version\": 1, \"model\": {}, \"tensors\": [], "
              "\"metadata\": [",
              f);
        for (int i = 0; i < MANY; i++)
            fprintf(f, "%s{\"key\": \"k%d\", \"type\": \"u8\", \"value\": 1}", i ? ",\n" : "",
                    twice && i == MANY - 1 ? 7 : i);
        fputs("]}", f);
        fclose(f);
        gg_manifest *m = NULL;
        gg_error e = GG_ERROR_INIT;
        gg_status st = gg_manifest_load(scratch("h"), &m, &e);
        T_CHECKF(twice ? st == GG_EFORMAT && strstr(e.what, "k7")
                       : st == GG_OK && m->meta.n == MANY,
                 "%s", e.what);
        gg_manifest_free(m);
    }
}

/* What could not be read back is not written: over 1 GiB, here of histories that share
 * their bytes. */
static void too_long_to_write(void)
{
    enum { N = 66 };
    const size_t len = (size_t)16 << 20;
    static char name[] = "t", file[] = "other/t.bin";
    char *history = malloc(len + 1);
    gg_entry *entries = calloc(N, sizeof *entries);
    gg_file_layout layout = { .n_tensors = N, .version = 3 };
    int fd = open("/dev/null", O_WRONLY);
    if (!history || !entries || fd < 0) exit(1);
    memset(history, ' ', len);
    history[0] = '[';
    history[len - 1] = ']';
    history[len] = '\0';
    for (int i = 0; i < N; i++)
        entries[i] =
            (gg_entry){ .t = { .name = name, .name_len = 1, .n_dims = 1, .dims = GG_DIMS_ONE },
                        .file = file,
                        .history = history };
    gg_manifest m = { .version = 3, .entries = entries, .files = &layout, .n_files = 1 };
    for (int over = 0; over < 2; over++) {
        gg_error e = GG_ERROR_INIT;
        m.n_entries = over ? N : N - 4;
        gg_status st = gg_manifest_write(&m, fd, &e);
        T_CHECKF(st == (over ? GG_EUNSUPPORTED : GG_OK) && (!over || e.fix[0]), "%s", e.what);
    }
    close(fd);
    free(history);
    free(entries);
}

static void no_directory(void)
{
    gg_manifest *m = NULL;
    gg_error e = GG_ERROR_INIT;
    T_CHECK(gg_manifest_load(scratch("nowhere"), &m, &e) != GG_OK && e.file[0] && e.fix[0]);
    T_CHECK(!gg_is_organ_dir(scratch("nowhere"), &e) && !gg_is_organ_dir("tests/data", &e) &&
            gg_is_organ_dir(extract("tests/data/gguf/kv-only.gguf"), &e));
    static const char other[] = "{\"name\": \"a web application\"}\n";
    spew(scratch("d/manifest.json"), other, sizeof other - 1);
    T_CHECK(!gg_is_organ_dir(scratch("d"), &e));
}

static const t_case cases[] = {
    { "text, read, text again", same_text },
    { "metadata to the byte", same_values },
    { "values by hand", values },
    { "broken texts", broken_texts },
    { "trailing bytes without a hash", trailing_without_hash },
    { "cut texts", cut_texts },
    { "contradictions", contradictions },
    { "honest edits", honest_edits },
    { "files cut or grown", files_cut_or_grown },
    { "the name is in two places", name_is_in_two_places },
    { "history grows", history_grows },
    { "many keys", many_keys },
    { "too long to write", too_long_to_write },
    { "no directory", no_directory },
};

T_MAIN(cases)
