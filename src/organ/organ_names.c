/* organ_names.c - make safe and unique file names for tensors.
 *
 * blk.0.ffn_gate.weight becomes blk_0_ffn_gate.bin, and .bias becomes _bias. "-" and 16 hex
 * digits of the SHA-256 of the name are appended in these cases: the name contains bytes other
 * than letters, digits, _ and "."; it is empty or too long; some system reserves it; or an
 * earlier tensor has the same file name, ignoring case. Plain names contain no "-", so the two
 * kinds cannot collide.
 */
#include "organ/gg_organ.h"

#include "base/sha256.h"
#include "manifest.h"
#include "tensor_names.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define STEM_MAX 100

static bool reserved(const char *stem)
{
    static const char *const names[] = { "con", "prn", "aux", "nul" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcasecmp(stem, names[i]) == 0) return true;
    return (strncasecmp(stem, "com", 3) == 0 || strncasecmp(stem, "lpt", 3) == 0) &&
           isdigit((unsigned char)stem[3]) && !stem[4];
}

/* Makes the file name without extension. Returns false if a hash must be appended. */
static bool make_stem(const gg_tensor *t, char stem[STEM_MAX + 1])
{
    size_t len = t->name_len, n = 0;
    bool plain = len > 0;
    if (len > 7 && memcmp(t->name + len - 7, ".weight", 7) == 0) len -= 7;
    for (size_t i = 0; i < len; i++) {
        char c = t->name[i];
        bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                    c == '_';
        if (!word && c != '.') plain = false;
        if (c == '.' && (i == 0 || i + 1 == len || t->name[i + 1] == '.')) plain = false;
        if (n == STEM_MAX) {
            plain = false;
            break;
        }
        stem[n++] = word ? c : '_';
    }
    stem[n] = '\0';
    return plain && !reserved(stem);
}

static bool set_name(char **slot, const gg_tensor *t, const char *stem, bool hashed)
{
    const char *folder = gg_class_folder((gg_class)t->a.cls);
    size_t size = strlen(folder) + strlen(stem) + 40;
    char hex[65] = "";
    if (hashed) {
        gg_sha256 h;
        unsigned char digest[32];
        gg_sha256_init(&h);
        gg_sha256_update(&h, t->name, t->name_len);
        gg_sha256_final(&h, digest);
        gg_sha256_hex(digest, hex);
    }
    free(*slot);
    *slot = malloc(size);
    if (*slot) snprintf(*slot, size, "%s/%s%s%.16s.bin", folder, stem, hashed ? "-" : "", hex);
    return *slot != NULL;
}

typedef struct key {
    char *name;
    size_t index;
} key;

static int order_keys(const void *a, const void *b)
{
    const key *x = a, *y = b;
    int c = strcasecmp(x->name, y->name);
    return c ? c : x->index < y->index ? -1 : x->index > y->index;
}

static bool name_all(const gg_tensor *tensors, size_t n, char **names, key *keys)
{
    char stem[STEM_MAX + 1];
    for (size_t i = 0; i < n; i++) {
        bool plain = make_stem(&tensors[i], stem);
        if (!set_name(&names[i], &tensors[i], stem, !plain)) return false;
        keys[i] = (key){ names[i], i };
    }
    qsort(keys, n, sizeof *keys, order_keys);
    /* Of equal names the first tensor keeps the plain one. First mark, then rename, because the
     * list must remain sorted by the original names. */
    for (size_t i = n; i-- > 1;)
        if (strcasecmp(keys[i].name, keys[i - 1].name) != 0) keys[i].index = SIZE_MAX;
    for (size_t i = 1; i < n; i++)
        if (keys[i].index != SIZE_MAX) {
            size_t k = keys[i].index;
            make_stem(&tensors[k], stem);
            if (!set_name(&names[k], &tensors[k], stem, true)) return false;
        }
    return true;
}

gg_status gg_organ_file_names(const gg_tensor *tensors, size_t n, char ***out, gg_error *err)
{
    char **names = calloc(n ? n : 1, sizeof *names);
    key *keys = calloc(n ? n : 1, sizeof *keys);
    bool ok = names && keys && name_all(tensors, n, names, keys);
    free(keys);
    if (ok) {
        *out = names;
        return GG_OK;
    }
    for (size_t i = 0; names && i < n; i++) free(names[i]);
    free(names);
    return gg_fail(err, GG_ENOMEM, "no memory for %zu file names", n);
}
