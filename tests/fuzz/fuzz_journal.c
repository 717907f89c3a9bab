/* fuzz_journal.c - any bytes as the journal of a change of keys, with its hash made right: the
 * model beside it keeps its size and all that the journal does not name, or is left alone. */
#include "room.h"

#include "base/cursor.h"
#include "base/sha256.h"
#include "keys/keys_write.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const fuzz_seeds[] = { "tests/fuzz/seeds/journal", NULL };

#define MODEL "model.gguf"
#define JOURNAL MODEL ".keys-undo"
#define HEAD 72 /* bytes before the old ones */

static void put_journal(const uint8_t *data, size_t size)
{
    uint8_t *bytes = malloc(size + 1);
    FUZZ_MUST(bytes);
    if (size) memcpy(bytes, data, size);
    if (size >= 32 && data[size - 1] % 16 != 0) {
        gg_sha256 h;
        gg_sha256_init(&h);
        gg_sha256_update(&h, bytes, size - 32);
        gg_sha256_final(&h, bytes + size - 32);
    }
    room_put(JOURNAL, bytes, size);
    free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    gg_error e = GG_ERROR_INIT, e2 = GG_ERROR_INIT;
    gg_recovery what;
    gg_source *s = NULL;
    room_copy("tests/fuzz/seeds/model/base.gguf", MODEL);
    put_journal(data, size);
    FUZZ_MUST(!room_open(MODEL));
    size_t n, m;
    uint8_t *before = room_get(MODEL, &n);
    gg_status st = gg_keys_recover(room(MODEL), &what, &e);
    uint8_t *after = room_get(MODEL, &m);
    FUZZ_MUST(n == m && room_has(JOURNAL) == (st != GG_OK) && (st == GG_OK || e.what[0]));
    uint64_t at = st == GG_OK ? gg_le64(data + 24) : 0, len = st == GG_OK ? gg_le64(data + 32) : 0;
    for (size_t i = 0; i < n; i++) FUZZ_MUST(before[i] == after[i] || (i >= at && i - at < len));
    if (st == GG_OK && memcmp(before, after, n) == 0)
        FUZZ_MUST(gg_source_open(room(MODEL), &s, &e2) == GG_OK);
    gg_source_close(s);
    free(before);
    free(after);
    room_remove(MODEL);
    if (room_has(JOURNAL)) room_remove(JOURNAL);
    FUZZ_MUST(room_count() == 0);
    return 0;
}
