/* keys_edit.c - deletes, renames and sets keys. */
#include "organ/gg_keys.h"

#include "base/error.h"
#include "gguf/gguf.h"
#include "verbs/shared/key_text.h"

#include <stdlib.h>
#include <string.h>

/* The other shards contain the same numbers. A set in which they differ cannot be opened. */
static gg_status refuse_split(const char *key, size_t n, gg_error *err)
{
    const gg_kv kv = { .key = key, .key_len = n };
    if (!gg_is_split_key(&kv)) return GG_OK;
    gg_fail(err, GG_EUSAGE, "%.*s numbers the shards of a split model and cannot be changed",
            (int)n, key);
    return gg_fix(err, "use organ-assemble to split models and merge shards");
}

static gg_status find(gg_meta *meta, const char *key, gg_kv **out, gg_error *err)
{
    gg_status st = refuse_split(key, strlen(key), err);
    if (st != GG_OK) return st;
    const gg_kv *kv = gg_keys_find(meta, key);
    *out = kv ? &meta->kv[kv - meta->kv] : NULL;
    if (kv) return refuse_split(kv->key, kv->key_len, err);
    gg_fail(err, GG_NO, "there is no key '%s'", key);
    return gg_fix(err, "list the keys with organ-keys");
}

static gg_status delete (gg_meta *meta, const char *key, gg_error *err)
{
    gg_kv *kv;
    gg_status st = find(meta, key, &kv, err);
    if (st != GG_OK) return st;
    meta->n--;
    memmove(kv, kv + 1, (size_t)(meta->kv + meta->n - kv) * sizeof *kv);
    return GG_OK;
}

/* Renames a key without moving it: a copy with the new name is appended and then replaces the
 * old entry. */
static gg_status rename_key(gg_meta *meta, const char *text, gg_error *err)
{
    const char *eq = strchr(text, '=');
    if (!eq || eq == text || !eq[1]) {
        gg_fail(err, GG_EUSAGE, "%s: expected OLD=NEW", text);
        return gg_fix(err, "for example llama.block_count=qwen2.block_count");
    }
    char *old = strndup(text, (size_t)(eq - text));
    if (!old) return gg_fail(err, GG_ENOMEM, "no memory for a key");
    gg_kv *kv;
    gg_status st = find(meta, old, &kv, err);
    free(old);
    if (st == GG_OK) st = refuse_split(eq + 1, strlen(eq + 1), err);
    if (st != GG_OK) return st;
    if (gg_meta_find(meta, eq + 1)) {
        gg_fail(err, GG_EUSAGE, "%s: the key '%s' already exists", text, eq + 1);
        return gg_fix(err, "delete it in the same run");
    }
    size_t at = (size_t)(kv - meta->kv);
    gg_kv named = *kv;
    named.key = eq + 1;
    named.key_len = strlen(eq + 1);
    st = gg_meta_set(meta, &named, err);
    if (st != GG_OK) return st;
    meta->kv[at] = meta->kv[meta->n - 1];
    meta->n--;
    return GG_OK;
}

/* In gg_meta_set_text, "KEY=" deletes the key. A user is more likely to mean an empty text, so
 * that it is refused here. */
static gg_status set(gg_meta *meta, const char *text, gg_error *err)
{
    const char *eq = strchr(text, '=');
    if (eq && eq > text && !eq[1]) {
        gg_fail(err, GG_EUSAGE, "%s: no value is given", text);
        return gg_fix_hint(err, GG_HINT_DELETE_KEY,
                           "write %sstr: for an empty text, or delete the key", text);
    }
    gg_status st = eq ? refuse_split(text, (size_t)(eq - text), err) : GG_OK;
    return st == GG_OK ? gg_meta_set_text(meta, text, err) : st;
}

static gg_status set_file(gg_meta *meta, const char *text, gg_error *err)
{
    const char *eq = strchr(text, '=');
    gg_status st = eq ? refuse_split(text, (size_t)(eq - text), err) : GG_OK;
    return st == GG_OK ? gg_meta_set_file(meta, text, err) : st;
}

gg_status gg_keys_edit(gg_meta *meta, const gg_key_edits *e, gg_error *err)
{
    gg_status st = GG_OK;
    for (size_t i = 0; i < e->n_deletes && st == GG_OK; i++) st = delete (meta, e->deletes[i], err);
    for (size_t i = 0; i < e->n_renames && st == GG_OK; i++)
        st = rename_key(meta, e->renames[i], err);
    for (size_t i = 0; i < e->n_sets && st == GG_OK; i++) st = set(meta, e->sets[i], err);
    for (size_t i = 0; i < e->n_files && st == GG_OK; i++) st = set_file(meta, e->files[i], err);
    return st;
}
