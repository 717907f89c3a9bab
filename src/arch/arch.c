/* arch.c - look-ups in the records of architectures. */
#include "records.h"

#include "base/text.h"

#include <pthread.h>

static void write_words(void)
{
    const char *word = gg_arch_words_of_all;
    for (size_t i = 0; i < gg_arch_counts[2]; i++, word += strlen(word) + 1)
        gg_arch_word_room[i + 2] = word;
}

static void write_texts(void)
{
    const uint16_t *code = gg_arch_texts;
    char *to = gg_arch_letter_room;
    gg_arch_text_room[0] = (gg_arch_words){ "", 0 };
    for (size_t i = 1; i <= gg_arch_counts[1]; i++, code++) {
        gg_arch_text_room[i] = (gg_arch_words){ to, *code++ };
        for (bool word = false; *code; code++) {
            if (*code == 1) *to++ = '\n';
            else if (word) *to++ = ' ';
            word = *code != 1;
            if (!word) continue;
            size_t n = strlen(gg_arch_word_room[*code]);
            memcpy(to, gg_arch_word_room[*code], n);
            to += n;
        }
        *to++ = '\0';
    }
}

static void write_records(void)
{
    write_words();
    write_texts();
    const gg_arch_words *t = gg_arch_text_room;
    for (size_t i = 0; i < gg_arch_counts[0]; i++) {
        const gg_arch_row *r = &gg_arch_rows[i];
        const uint16_t *f = r->text;
        gg_arch_room[i] = (gg_arch){
            gg_arch_word_room[r->name],
            r->line,
            t[f[0]],
            t[f[1]],
            t[f[2]],
            t[f[3]],
            t[f[4]],
            t[f[5]],
            t[f[6]],
            t[f[7]],
            t[f[8]],
            t[f[9]],
            t[f[10]],
            t[f[11]],
            t[f[12]],
            t[f[13]],
        };
    }
}

const gg_arch *gg_arch_all(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, write_records);
    return gg_arch_room;
}

const gg_arch *gg_arch_find(const char *name, size_t len)
{
    const gg_arch *a = gg_arch_all();
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

static bool lists_key(const gg_arch_agreement *a, const char *key)
{
    const char *at = a->keys, *word;
    size_t n;
    while (gg_text_next_word(&at, &word, &n)) {
        bool open = word[n - 1] == '*';
        if (open ? strncmp(word, key, n - 1) == 0 : gg_text_is(word, n, key)) return true;
    }
    return false;
}

bool gg_arch_agrees(const char *what, const char *key)
{
    for (const gg_arch_agreement *a = gg_arch_agreements; a->what; a++)
        if (strcmp(a->what, what) == 0 && lists_key(a, key)) return true;
    return false;
}

const char *gg_arch_absent(const char *key)
{
    static const char absent[] = "absent=";
    for (const gg_arch_agreement *a = gg_arch_agreements; a->what; a++)
        if (strncmp(a->what, absent, sizeof absent - 1) == 0 && lists_key(a, key))
            return a->what + sizeof absent - 1;
    return NULL;
}
