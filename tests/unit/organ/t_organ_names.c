/* t_organ_names.c - file names for tensors of any name: safe, unique even where case
 * does not count, the same on every run. */
#include "t.h"

#include "organ/gg_organ.h"
#include "organ/manifest.h"
#include "organ/tensor_names.h"

#include <ctype.h>
#include <strings.h>

/* clang-format off */
#define N(text) { text, sizeof text - 1 }
/* clang-format on */

static const struct hostile {
    const char *s;
    size_t n;
} hostile[] = {
    N(""),
    N("."),
    N(".."),
    N("../x"),
    N("../../../etc/passwd"),
    N("/etc/passwd"),
    N("a/b"),
    N("a\\b"),
    N("C:\\x"),
    N("file:///etc"),
    N("a\nb"),
    N("\x1b[2J"),
    N("%s%n"),
    N("$(touch x)"),
    N("-rf"),
    N("=1+1"),
    N("~"),
    N("~root"),
    N("a\0b"),
    N("\0"),
    N("\0a"),
    N("\xff\xfe"),
    N("\xe2\x80\xaegnp"),
    N(" "),
    N("a "),
    N(" a"),
    N("a."),
    N(".a"),
    N("con"),
    N("CON"),
    N("nul.weight"),
    N("aux"),
    N("com1"),
    N("lpt9.weight"),
    N("a..b"),
    N("a.b"),
    N("a_b"),
    N("A_B"),
    N("A.b"),
    N("a.B"),
    N("a_b.weight"),
    N("a.b.weight"),
    N("a_b_weight"),
    N(".weight"),
    N("weight"),
    N("manifest.json"),
    N("blk.0.ffn_gate.weight"),
    N("blk.0.ffn_gate.bias"),
    N("blk_0_ffn_gate"),
    N("BLK.0.FFN_GATE.weight"),
    N("blk.0.ffn_gate_bias"),
    N("blk.0.ffn.gate.weight"),
    N("blk.0.ffn_gate"),
    N("*"),
    N("?"),
    N("|"),
    N("\""),
    N("'"),
    N("\t"),
    N("\r"),
    N("\x7f"),
    N("\xc2\x80"),
    N("a-0123456789abcdef"),
    N("<script>"),
    N("xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
      "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx1"),
    N("xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
      "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx2"),
};
#define COUNT (sizeof hostile / sizeof hostile[0])

static void fill(gg_tensor *t)
{
    for (size_t i = 0; i < COUNT; i++)
        t[i] = (gg_tensor){ .name = hostile[i].s, .name_len = hostile[i].n };
}

static char **names_of(gg_tensor *t, size_t n)
{
    char **names = NULL;
    gg_error e = GG_ERROR_INIT;
    for (size_t i = 0; i < n; i++) t[i].a = gg_anatomy_of(t[i].name, t[i].name_len);
    T_EQ(gg_organ_file_names(t, n, &names, &e), GG_OK);
    return names;
}

static void names_free(char **names, size_t n)
{
    for (size_t i = 0; names && i < n; i++) free(names[i]);
    free(names);
}

/* FOLDER/WORD.bin: a known folder; letters, digits, _ and - only; not too long; no
 * name that a system reserves. */
static bool safe(const char *p)
{
    const char *slash = strchr(p, '/');
    gg_class c;
    if (!slash || strchr(slash + 1, '/') || !gg_class_by_name(p, (size_t)(slash - p), &c))
        return false;
    const char *word = slash + 1;
    size_t n = strlen(word);
    if (n < 5 || n > 200 || strcmp(word + n - 4, ".bin") != 0 || *word == '-') return false;
    for (size_t i = 0; i + 4 < n; i++)
        if (!isalnum((unsigned char)word[i]) && word[i] != '_' && word[i] != '-') return false;
    return strcasecmp(word, "con.bin") != 0 && strcasecmp(word, "nul.bin") != 0 &&
           strcasecmp(word, "com1.bin") != 0;
}

static void names_are_safe_and_unique(void)
{
    gg_tensor t[COUNT];
    fill(t);
    char **names = names_of(t, COUNT);
    for (size_t i = 0; names && i < COUNT; i++) {
        /* An empty stem leaves "-HASH": a leading dash is harmless below a folder. */
        T_CHECKF(safe(names[i]) || (hostile[i].n == 0 && strstr(names[i], "/-")), "%zu: %s", i,
                 names[i]);
        for (size_t k = 0; k < i; k++)
            T_CHECKF(strcasecmp(names[i], names[k]) != 0, "%zu and %zu: %s", k, i, names[i]);
    }
    names_free(names, COUNT);
}

static void names_are_stable(void)
{
    gg_tensor t[COUNT], one;
    fill(t);
    char **a = names_of(t, COUNT), **b = names_of(t, COUNT);
    for (size_t i = 0; a && b && i < COUNT; i++) T_STR(a[i], b[i]);
    names_free(b, COUNT);
    one = t[3]; /* a hostile name alone has the name it has among others */
    b = names_of(&one, 1);
    T_CHECK(a && b && strcmp(a[3], b[0]) == 0);
    names_free(b, 1);
    names_free(a, COUNT);
}

static void plain_names_are_plain(void)
{
    static const char *const t[][2] = { { "blk.0.ffn_gate.weight", "organs/blk_0_ffn_gate.bin" },
                                        { "blk.0.ffn_gate.bias", "organs/blk_0_ffn_gate_bias.bin" },
                                        { "token_embd.weight", "embed/token_embd.bin" },
                                        { "output_norm.weight", "norm/output_norm.bin" },
                                        { "blk.12.attn_q.weight", "skeleton/blk_12_attn_q.bin" },
                                        { "blk.0.attn_q.weight.lora_a",
                                          "adapters/blk_0_attn_q_weight_lora_a.bin" },
                                        { "blk.3.ffn_up.17.weight", "organs/blk_3_ffn_up_17.bin" },
                                        { "rope_freqs.weight", "skeleton/rope_freqs.bin" } };
    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) {
        gg_tensor one = { .name = t[i][0], .name_len = strlen(t[i][0]) };
        char **names = names_of(&one, 1);
        T_CHECKF(names && strcmp(names[0], t[i][1]) == 0, "%s: %s", t[i][0],
                 names ? names[0] : "?");
        names_free(names, 1);
    }
}

/* Of names that collide, the first keeps the plain one. */
static void first_keeps_the_plain_name(void)
{
    gg_tensor t[3] = { { .name = "a.b", .name_len = 3 },
                       { .name = "a_b", .name_len = 3 },
                       { .name = "A_B", .name_len = 3 } };
    char **names = names_of(t, 3);
    T_CHECK(names && strcmp(names[0], "other/a_b.bin") == 0);
    T_CHECK(names && strncmp(names[1], "other/a_b-", 10) == 0 &&
            strncmp(names[2], "other/A_B-", 10) == 0);
    names_free(names, 3);
}

/* Many names that all collide: not a quadratic matter. */
static void many(void)
{
    enum { MANY = 20000 };
    char(*text)[16] = calloc(MANY, sizeof *text);
    gg_tensor *t = calloc(MANY, sizeof *t);
    if (!text || !t) exit(1);
    for (size_t i = 0; i < MANY; i++) {
        snprintf(text[i], sizeof text[i], "a");
        for (size_t bit = 0; bit < 14; bit++) text[i][bit + 1] = i >> bit & 1 ? '.' : '_';
        t[i] = (gg_tensor){ .name = text[i], .name_len = 15 };
    }
    char **names = names_of(t, MANY);
    T_CHECK(names != NULL);
    names_free(names, MANY);
    free(t);
    free(text);
}

static void none(void)
{
    char **names = names_of(NULL, 0);
    T_CHECK(names != NULL);
    free(names);
}

static const t_case cases[] = {
    { "names are safe and unique", names_are_safe_and_unique },
    { "names are stable", names_are_stable },
    { "plain names are plain", plain_names_are_plain },
    { "the first keeps the plain name", first_keeps_the_plain_name },
    { "many colliding names", many },
    { "no names", none },
};

T_MAIN(cases)
