/* t_select.c - what the selection options mean, and what is wrong with bad ones. */
#include "files.h"

#include "organ/gg_organ.h"
#include "organ/select.h"
#include "organ/tensor_names.h"

static const char *const names[] = {
    "token_embd.weight",
    "blk.0.attn_norm.weight",
    "blk.0.attn_q.weight",
    "blk.0.attn_q.bias",
    "blk.0.ffn_up.weight",
    "blk.1.attn_q.weight",
    "blk.1.ffn_up_exps.weight",
    "blk.2.ffn_up.0.weight",
    "blk.2.ffn_up.3.weight",
    "blk.10.ffn_gate_inp.weight",
    "blk.10.ffn_norm_exps.weight",
    "output.weight",
    "odd\tname",
};
#define COUNT (sizeof names / sizeof names[0])

/* One letter a name, x where selected. */
static void selects(const gg_select *s, const char *want, const char *what)
{
    char got[COUNT + 1] = "";
    for (size_t i = 0; i < COUNT; i++) {
        gg_anatomy a = gg_anatomy_of(names[i], strlen(names[i]));
        got[i] = gg_select_match(s, names[i], strlen(names[i]), &a) ? 'x' : '.';
    }
    T_CHECKF(strcmp(got, want) == 0, "%s: %s, not %s", what, got, want);
}

static void one(gg_select_kind kind, const char *text, const char *want)
{
    gg_select *s = NULL;
    gg_error e = GG_ERROR_INIT;
    T_CHECK(gg_select_new(&s, &e) == GG_OK && gg_select_empty(s));
    T_CHECKF(gg_select_add(s, kind, text, &e) == GG_OK, "%s: %s", text, e.what);
    T_CHECKF(!gg_select_empty(s), "%s: still empty", text);
    selects(s, want, text);
    gg_select_free(s);
}

static void empty_is_all(void)
{
    gg_select *s = NULL;
    gg_error e = GG_ERROR_INIT;
    T_EQ(gg_select_new(&s, &e), GG_OK);
    selects(s, "xxxxxxxxxxxxx", "empty");
    selects(NULL, "xxxxxxxxxxxxx", "none");
    T_CHECK(gg_select_empty(NULL) && !gg_select_has_experts(NULL) && gg_select_expert(NULL, 5));
    gg_select_free(s);
    gg_select_free(NULL);
}

static void types(void)
{
    one(GG_SELECT_TYPES, "embed", "x..........x.");
    one(GG_SELECT_TYPES, "organ", "....x.xxxx...");
    one(GG_SELECT_TYPES, "organs,norm", ".x..x.xxxxx..");
    one(GG_SELECT_TYPES, "skeleton", "..xx.x.......");
    one(GG_SELECT_TYPES, "other", "............x");
    one(GG_SELECT_TYPES, "adapter", ".............");
}

static void parts(void)
{
    one(GG_SELECT_PARTS, "text", "xxxxxxxxxxxxx");
    one(GG_SELECT_PARTS, "vision,Audio", ".............");
    static const struct {
        const char *name;
        bool want;
    } t[] = { { "v.blk.1.attn_q.weight", true },  { "a.blk.1.attn_q.weight", true },
              { "blk.1.attn_q.weight", false },   { "enc.blk.1.attn_q.weight", false },
              { "v.blk.2.attn_q.weight", false }, { "v.post_ln.weight", false } };
    gg_select *s = NULL;
    gg_error e = GG_ERROR_INIT;
    T_CHECK(gg_select_new(&s, &e) == GG_OK &&
            gg_select_add(s, GG_SELECT_PARTS, "vision", &e) == GG_OK &&
            gg_select_add(s, GG_SELECT_PARTS, "audio", &e) == GG_OK &&
            gg_select_add(s, GG_SELECT_LAYERS, "1", &e) == GG_OK);
    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) {
        gg_anatomy a = gg_anatomy_of(t[i].name, strlen(t[i].name));
        T_CHECKF(gg_select_match(s, t[i].name, strlen(t[i].name), &a) == t[i].want, "%s",
                 t[i].name);
    }
    gg_select_free(s);
}

static void layers(void)
{
    one(GG_SELECT_LAYERS, "0", ".xxxx........");
    one(GG_SELECT_LAYERS, "1-2", ".....xxxx....");
    one(GG_SELECT_LAYERS, "0,10", ".xxxx....xx..");
    one(GG_SELECT_LAYERS, "5-20,1", ".....xx..xx..");
    one(GG_SELECT_LAYERS, "000000001", ".....xx......");
}

static void experts(void)
{
    one(GG_SELECT_EXPERTS, "0", "......xx.....");
    one(GG_SELECT_EXPERTS, "3-9", "......x.x....");
    one(GG_SELECT_EXPERTS, "7", "......x......");
    gg_select *s = NULL;
    gg_error e = GG_ERROR_INIT;
    T_CHECK(gg_select_new(&s, &e) == GG_OK &&
            gg_select_add(s, GG_SELECT_EXPERTS, "0-3,17", &e) == GG_OK);
    T_CHECK(gg_select_has_experts(s) && gg_select_expert(s, 0) && gg_select_expert(s, 17) &&
            !gg_select_expert(s, 4));
    gg_select_free(s);
}

static void globs(void)
{
    one(GG_SELECT_TENSORS, "*", "xxxxxxxxxxxxx");
    one(GG_SELECT_TENSORS, "*.bias", "...x.........");
    one(GG_SELECT_TENSORS, "blk.?.attn_q.*", "..xx.x.......");
    one(GG_SELECT_TENSORS, "blk.[01].attn_q.weight,output*", "..x..x.....x.");
    one(GG_SELECT_TENSORS, "*ffn_up*", "....x.xxx....");
    one(GG_SELECT_TENSORS, "output", ".............");
}

static void options_are_and(void)
{
    gg_select *s = NULL;
    gg_error e = GG_ERROR_INIT;
    T_EQ(gg_select_new(&s, &e), GG_OK);
    T_CHECK(gg_select_add(s, GG_SELECT_TYPES, "organ", &e) == GG_OK &&
            gg_select_add(s, GG_SELECT_LAYERS, "0-1", &e) == GG_OK);
    selects(s, "....x.x......", "organ of 0-1");
    T_EQ(gg_select_add(s, GG_SELECT_TYPES, "skeleton", &e), GG_OK); /* the same option again: or */
    selects(s, "..xxxxx......", "organ or skeleton of 0-1");
    T_EQ(gg_select_add(s, GG_SELECT_TENSORS, "*.weight", &e), GG_OK);
    selects(s, "..x.xxx......", "and *.weight");
    gg_select_free(s);
}

static void by_names(const char *list, const char *want)
{
    spew(scratch("names"), list, strlen(list));
    one(GG_SELECT_NAMES, scratch("names"), want);
}

/* The first line of a table is its header; any later line is a name. */
static void header_of_names(void)
{
    static const struct {
        const char *list;
        bool selects; /* a tensor called "name" */
    } t[] = { { "name\n", false },
              { "name\tclass\na\tembed\n", false },
              { "a\nname\n", true },
              { "name\nname\n", true },
              { "names\n", false } };
    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) {
        gg_select *s = NULL;
        gg_error e = GG_ERROR_INIT;
        gg_anatomy a = gg_anatomy_of("name", 4);
        spew(scratch("names"), t[i].list, strlen(t[i].list));
        T_EQ(gg_select_new(&s, &e), GG_OK);
        T_EQ(gg_select_add(s, GG_SELECT_NAMES, scratch("names"), &e), GG_OK);
        T_CHECKF(gg_select_match(s, "name", 4, &a) == t[i].selects, "list %zu", i);
        gg_select_free(s);
    }
}

static void names_files(void)
{
    by_names("output.weight\nblk.0.attn_q.weight\n", "..x........x.");
    by_names("output.weight", "...........x.");
    by_names("name\tclass\noutput.weight\tembed\n", "...........x.");
    by_names("output.weight\r\nblk.0.attn_q.bias\r\n", "...x.......x.");
    by_names("\n\nodd\\tname\n", "............x");
    by_names("", ".............");
    by_names("output.weight\noutput.weight\nnone\n", "...........x.");
    gg_select *s = NULL;
    gg_error e = GG_ERROR_INIT, e2 = GG_ERROR_INIT;
    T_EQ(gg_select_new(&s, &e), GG_OK);
    T_CHECK(gg_select_add(s, GG_SELECT_NAMES, scratch("nowhere"), &e) == GG_EIO && e.file[0]);
    spew(scratch("names"), "a\\q\n", 4);
    T_CHECK(gg_select_add(s, GG_SELECT_NAMES, scratch("names"), &e2) == GG_EUSAGE && e2.file[0]);
    gg_select_free(s);
}

static void bad(gg_select_kind kind, const char *text)
{
    gg_select *s = NULL;
    gg_error e = GG_ERROR_INIT, fresh = GG_ERROR_INIT;
    T_EQ(gg_select_new(&s, &fresh), GG_OK);
    T_CHECKF(gg_select_add(s, kind, text, &e) == GG_EUSAGE && e.what_arg, "'%s': %s", text, e.what);
    gg_select_free(s);
}

static void mistakes(void)
{
    static const char *const numbers[] = { "",    ",",   "1,",   ",1",  "a",     "1-",
                                           "-1",  "5-4", "1--2", "1 2", "1-2-3", "99999999999",
                                           "0x1", "1;2", "1, 2", "+1" };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        bad(GG_SELECT_LAYERS, numbers[i]);
        bad(GG_SELECT_EXPERTS, numbers[i]);
    }
    static const char *const kinds[] = { "",       "brain", "organ,", ",organ", "organ, norm",
                                         "ORGANX", "all" };
    static const char *const parts[] = { "", "brain", "text,", ",text", "text, audio", "texts" };
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) bad(GG_SELECT_PARTS, parts[i]);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) bad(GG_SELECT_TYPES, kinds[i]);
    bad(GG_SELECT_TENSORS, "");
    bad(GG_SELECT_TENSORS, "a,,b");
    bad(GG_SELECT_TENSORS, "a,");
    gg_select *s = NULL;
    gg_error e = GG_ERROR_INIT, e2 = GG_ERROR_INIT;
    T_EQ(gg_select_new(&s, &e), GG_OK);
    T_EQ(gg_select_add(s, GG_SELECT_KINDS, "1", &e), GG_EUSAGE);
    T_EQ(gg_select_add(s, (gg_select_kind)-1, "1", &e2), GG_EUSAGE);
    T_CHECK(gg_select_empty(s));
    gg_select_free(s);
}

static void glob_table(void)
{
    static const struct {
        const char *pattern, *name;
        bool want;
    } t[] = {
        { "", "", true },
        { "", "a", false },
        { "*", "", true },
        { "**", "a", true },
        { "?", "", false },
        { "?", "a", true },
        { "a*b", "ab", true },
        { "a*b", "axxb", true },
        { "a*b", "axxbc", false },
        { "*a*b*", "xaxbx", true },
        { "[abc]", "b", true },
        { "[abc]", "d", false },
        { "[a-c]", "b", true },
        { "[!a-c]", "b", false },
        { "[^a-c]", "d", true },
        { "[]]", "]", true },
        { "[!]]", "]", false },
        { "[a-]", "-", true },
        { "[", "[", true },
        { "[a", "[a", true },
        { "[a", "a", false },
        { "*.weight", "x.weight", true },
        { "*.weight", ".weight", true },
        { "a?c", "abc", true },
        { "a?c", "ac", false },
        { "\\*", "\\x", true },
        { "[\xe0-\xff]", "\xf0", true },
        { "*aab", "aaaaab", true },
        { "a*a*a", "aa", false },
        { "blk.*.attn_*.weight", "blk.3.attn_q.weight", true },
    };
    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++)
        T_CHECKF(gg_glob(t[i].pattern, t[i].name) == t[i].want, "%s on %s", t[i].pattern,
                 t[i].name);
    /* many stars against a long name that does not match: no explosion */
    char pattern[200], name[4000];
    for (size_t i = 0; i < 60; i++) memcpy(pattern + 2 * i, "*a", 2);
    strcpy(pattern + 120, "*b");
    memset(name, 'a', sizeof name);
    name[sizeof name - 1] = '\0';
    T_CHECK(!gg_glob(pattern, name));
}

static void maps(void)
{
    gg_map *m = NULL;
    gg_error e = GG_ERROR_INIT;
    T_CHECK(gg_map_donor(NULL, 7) == 7);
    T_EQ(gg_map_parse("10-15=20-25,3=0,4=4", &m, &e), GG_OK);
    T_CHECK(gg_map_donor(m, 10) == 20 && gg_map_donor(m, 15) == 25 && gg_map_donor(m, 3) == 0 &&
            gg_map_donor(m, 4) == 4);
    T_CHECK(gg_map_donor(m, 16) == -1 && gg_map_donor(m, 0) == -1 && gg_map_donor(m, -1) == -1);
    gg_map_free(m);
    gg_map_free(NULL);
    static const char *const wrong[] = { "",      "1",       "1=",   "=1",      "1-2=3",
                                         "1=2-3", "2-1=3-2", "1=1,", "1=1,1=2", "1-3=1-3,2=5",
                                         "a=b",   "1=1;2=2", "1==2", "-1=0" };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        gg_error e2 = GG_ERROR_INIT;
        m = NULL;
        T_CHECKF(gg_map_parse(wrong[i], &m, &e2) == GG_EUSAGE && e2.what_arg &&
                     strcmp(e2.what_arg, "map") == 0,
                 "'%s' taken", wrong[i]);
    }
}

static const t_case cases[] = {
    { "empty is all", empty_is_all },
    { "types", types },
    { "--part", parts },
    { "layers", layers },
    { "experts", experts },
    { "globs", globs },
    { "options are and", options_are_and },
    { "files of names", names_files },
    { "the header of a list of names", header_of_names },
    { "mistakes", mistakes },
    { "glob table", glob_table },
    { "maps", maps },
};

T_MAIN(cases)
