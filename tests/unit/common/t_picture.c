/* t_picture.c - pictures of models: escapes, the colour scale, sources. */
#include "common/picture.h"
#include "organ/tensor_names.h"
#include "t.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void add(gg_picture *p, const char *name, double value)
{
    gg_error err = GG_ERROR_INIT;
    gg_tensor t = { .name = (char *)(uintptr_t)name, .name_len = strlen(name) };
    t.a = gg_anatomy_of(name, t.name_len);
    T_EQ(gg_picture_add(p, &t, value, &err), GG_OK);
}

static void test_svg(void)
{
    gg_error err = GG_ERROR_INIT;
    gg_picture p = { .title = "a & b", .column = "theta", .unit = "degrees" };
    char *text;
    size_t len;
    add(&p, "blk.0.attn_q.weight", 41);
    add(&p, "blk.1.attn_q.weight", NAN);
    add(&p, "blk.0.ffn_up.0.weight", 52);
    add(&p, "blk.0.ffn_up.1.weight", 58);
    add(&p, "a<&>\"\x01\xff", 44);
    T_CHECK(gg_picture_draw(&p, GG_PICTURE_SVG, 0, &text, &len, &err) == GG_OK &&
            strlen(text) == len);
    T_CHECK(strstr(text, "a &amp; b") && strstr(text, "a&lt;&amp;&gt;&quot;\\x01\\xff"));
    T_CHECK(strstr(text, "ffn_up (2 tensors): 55<") && strstr(text, ">40</text>"));
    T_CHECK(strstr(text, "class=\"none\"") && !strstr(text, "<script"));
    free(text);
    T_CHECK(gg_picture_draw(&p, GG_PICTURE_PLAIN, 80, &text, &len, &err) == GG_OK);
    T_CHECK(!strchr(text, '\033') && strstr(text, "attn_q") && strchr(text, '?'));
    free(text);
    T_CHECK(gg_picture_draw(&p, GG_PICTURE_TRUE, 1, &text, &len, &err) == GG_OK &&
            strstr(text, "\033[38;2;"));
    free(text);
    T_CHECK(gg_picture_draw(&p, GG_PICTURE_256, 80, &text, &len, &err) == GG_OK);
    T_CHECK(strstr(text, "\033[38;5;") && !strstr(text, "\033[38;2;"));
    for (const char *c = text; (c = strstr(c, "\033[38;5;")) != NULL;) { /* of the cube */
        int color = atoi(c += 7);
        T_CHECK(color >= 16 && color <= 231);
    }
    free(text);
    gg_picture_free(&p);
    p.title = NULL;
    T_CHECK(gg_picture_draw(&p, GG_PICTURE_SVG, 0, &text, &len, &err) == GG_OK &&
            strstr(text, "model"));
    free(text);
}

/* One of 40 values is far away: it must not squeeze the others into one colour. */
static void test_outlier(void)
{
    gg_error err = GG_ERROR_INIT;
    gg_picture p = { .column = "x" };
    char *text, name[32];
    size_t len;
    for (int i = 0; i < 40; i++) {
        snprintf(name, sizeof name, "blk.%d.attn_q.weight", i);
        add(&p, name, i == 7 ? 1e30 : i);
    }
    T_EQ(gg_picture_draw(&p, GG_PICTURE_PLAIN, 80, &text, &len, &err), GG_OK);
    T_CHECK(strstr(text, "blocks 0 to 39"));
    /* seven marks of the lowest height, the outlier as high as the limit */
    T_CHECK(strstr(text, "\u2581\u2581\u2581\u2581\u2581\u2581\u2581\u2588\u2582"));
    free(text);
    gg_picture_free(&p);
}

static void test_sources(void)
{
    gg_error err = GG_ERROR_INIT;
    gg_picture p = { 0 };
    char *text, name[16];
    size_t len;
    double index;
    for (int i = 0; i < 12; i++) {
        snprintf(name, sizeof name, "model <%d>", i % 11);
        T_EQ(gg_picture_source(&p, name, &index, &err), GG_OK);
        T_EQ((int)index, i % 11);
        add(&p, "output.weight", index);
    }
    T_EQ(gg_picture_draw(&p, GG_PICTURE_SVG, 0, &text, &len, &err), GG_OK);
    T_CHECK(strstr(text, "model &lt;7&gt;</text>") && strstr(text, "3 others</text>"));
    T_CHECK(!strstr(text, "quantile"));
    free(text);
    T_EQ(gg_picture_draw(&p, GG_PICTURE_PLAIN, 80, &text, &len, &err), GG_OK);
    T_CHECK(strstr(text, "K model <10>"));
    free(text);
    gg_picture_free(&p);
}

/* A title is cut where a character begins. */
static void test_long_title(void)
{
    gg_error err = GG_ERROR_INIT;
    char title[1200] = "a", want[1200] = "<title>a", *text;
    for (int i = 0; i < 341; i++) strcat(title, "\u20ac");
    for (int i = 0; i < 340; i++) strcat(want, "\u20ac");
    gg_picture p = { .title = title, .column = "x" };
    size_t len;
    add(&p, "output.weight", 1);
    T_EQ(gg_picture_draw(&p, GG_PICTURE_SVG, 0, &text, &len, &err), GG_OK);
    T_CHECK(strstr(text, strcat(want, "</title>")));
    free(text);
    gg_picture_free(&p);
}

static const t_case cases[] = { { "escapes", test_svg },
                                { "outliers", test_outlier },
                                { "sources", test_sources },
                                { "a long title", test_long_title } };

T_MAIN(cases)
