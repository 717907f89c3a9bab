/* fuzz_manifest.c - any text as a manifest: refused, or read to something that is
 * written, read and written again the same. */
#include "room.h"

#include "organ/gg_organ.h"
#include "organ/manifest.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *const fuzz_seeds[] = { "tests/fuzz/seeds/manifest", NULL };

/* The text of a manifest that was read from the file; NULL when it was refused. */
static char *again(size_t *n)
{
    gg_manifest *m = NULL;
    gg_error e = GG_ERROR_INIT;
    if (gg_manifest_read(room("manifest.json"), &m, &e) != GG_OK) {
        FUZZ_MUST(!m && e.what[0] && e.file[0]);
        return NULL;
    }
    for (size_t i = 0; i < m->n_entries; i++) {
        const char *f = m->entries[i].file;
        FUZZ_MUST(f && f[0] && f[0] != '/' && strncmp(f, "../", 3) != 0 && !strstr(f, "/../"));
    }
    int fd = open(room("written"), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    FUZZ_MUST(fd >= 0 && gg_manifest_write(m, fd, &e) == GG_OK && close(fd) == 0);
    gg_manifest_free(m);
    return (char *)room_get("written", n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t n = 0, m = 0;
    room_put("manifest.json", data, size);
    char *once = again(&n);
    if (!once) return 0;
    room_put("manifest.json", once, n);
    char *twice = again(&m);
    FUZZ_MUST(twice && n == m && memcmp(once, twice, n) == 0);
    free(once);
    free(twice);
    return 0;
}
