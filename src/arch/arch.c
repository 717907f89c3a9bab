/* arch.c - look-ups in the records of architectures. */
#include "arch.h"

#include "base/text.h"

const gg_arch *gg_arch_find(const char *name, size_t len)
{
    const gg_arch *a = gg_archs;
    while (a->name && !gg_text_is(name, len, a->name)) a++;
    return a->name ? a : NULL;
}

bool gg_arch_has(const gg_arch *a, const char *trait)
{
    return a && gg_text_has_word(a->traits.text, trait, strlen(trait));
}

bool gg_arch_is_text(const gg_arch *a)
{
    return a && a->keys.line > 0;
}

bool gg_arch_is_known(const gg_arch *a)
{
    return gg_arch_is_text(a) || gg_arch_has(a, "no_code");
}

const char *gg_arch_shape_of(const char *rest, size_t len)
{
    size_t stem = len > 7 && memcmp(rest + len - 7, ".weight", 7) == 0 ? len - 7 : len;
    for (const gg_arch_shape *s = gg_arch_shapes; s->shape; s++) {
        const char *word, *words = s->names;
        size_t n;
        while (gg_text_next_word(&words, &word, &n)) {
            bool whole = word[n - 1] == '.';
            if (whole ? len == n - 1 && memcmp(word, rest, len) == 0
                      : stem == n && memcmp(word, rest, n) == 0)
                return strcmp(s->shape, "own") == 0 ? NULL : s->shape;
        }
    }
    return NULL;
}

const char *gg_arch_qkv_rows(const char *word, size_t len, size_t *n)
{
    static const char *const rows[] = { "heads*key:kvheads*key:kvheads*value",
                                        "eembd:kvheads*value:kvheads*value",
                                        "vheads*key:kvheads*value:kvheads*value",
                                        "rheads*rot:kvheads*rot:kvheads*rot" };
    const char *text = rows[0];
    for (size_t k = 1; k < 4 && len == 5; k++)
        if (rows[k][0] == word[4]) text = rows[k] + 1;
    if (len > 4 && word[3] == '=') text = word + 4;
    *n = text == word + 4 ? len - 4 : strlen(text);
    return text;
}
