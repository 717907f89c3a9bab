/* gguf_kind.c - names the format of a file that is not GGUF. */
#include "gguf/gguf.h"
#include "gguf_read.h"

#include "base/error.h"

#include <string.h>

#define AGAIN "the download probably failed: fetch the model again"
#define OLD "convert the original model again, or use a GGUF version of it"
#define UNPACK "unpack it first"

/* Beginnings of other formats, and what to do. */
static const struct {
    const char *magic;
    size_t len;
    const char *what, *fix;
} known[] = {
    { "<!DOCTYPE", 9, "this is an HTML page", AGAIN },
    { "<!doctype", 9, "this is an HTML page", AGAIN },
    { "<html", 5, "this is an HTML page", AGAIN },
    { "<HTML", 5, "this is an HTML page", AGAIN },
    { "<?xml", 5, "this is an XML document, perhaps a server's error message", AGAIN },
    { "version https://git-lfs", 23, "this is a Git LFS pointer",
      "fetch the model itself with git lfs pull" },
    { "PK\3\4", 4, "this is a ZIP archive", "unpack it, or convert a PyTorch model to GGUF" },
    { "\x1f\x8b", 2, "this is a gzip file", "unpack it first: gunzip -c FILE > MODEL.gguf" },
    { "\x28\xb5\x2f\xfd", 4, "this is a zstd file", "unpack it first: zstd -d FILE -o MODEL.gguf" },
    { "\xfd"
      "7zXZ",
      5, "this is an xz file", "unpack it first: xz -dc FILE > MODEL.gguf" },
    { "BZh", 3, "this is a bzip2 file", "unpack it first: bzip2 -dc FILE > MODEL.gguf" },
    { "7z\xbc\xaf", 4, "this is a 7z archive", UNPACK },
    { "Rar!", 4, "this is a RAR archive", UNPACK },
    { "lmgg", 4, "this is a GGML file, older than GGUF", OLD },
    { "fmgg", 4, "this is a GGMF file, older than GGUF", OLD },
    { "tjgg", 4, "this is a GGJT file, older than GGUF", OLD },
    { "algg", 4, "this is a GGLA adapter, older than GGUF", OLD },
    { "FUGG", 4, "this looks like a big-endian file", "convert it to little-endian" },
    { "\x80\x02", 2, "this is a Python pickle", "convert the PyTorch model to GGUF" },
};

/* safetensors: the length of a header in JSON, and the header. */
static bool is_safetensors(const uint8_t *m, uint64_t size)
{
    return size > 8 && m[8] == '{' && m[4] == 0 && m[5] == 0 && m[6] == 0 && m[7] == 0;
}

/* The length of a text at the beginning, up to the first line break; 0 if there is none. */
static int text_length(const uint8_t *m, uint64_t size)
{
    int n = 0;
    while ((uint64_t)n < size && n < 80 && m[n] >= ' ' && m[n] < 127) n++;
    bool ends = (uint64_t)n == size || n == 80 || m[n] == '\n' || m[n] == '\r';
    return n >= 4 && ends ? n : 0;
}

/* The row of the table for these bytes; -1 = none. */
static int find_known(const uint8_t *m, uint64_t size)
{
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (size >= known[i].len && memcmp(m, known[i].magic, known[i].len) == 0) return (int)i;
    return -1;
}

bool gg_is_other_kind(const uint8_t *m, uint64_t size)
{
    return find_known(m, size) >= 0;
}

static gg_status tell(gg_error *err, const char *what, const char *fix)
{
    gg_fail_at(0, err, "%s, not a GGUF model", what);
    return gg_fix(err, "%s", fix);
}

gg_status gg_fail_kind(const uint8_t *m, uint64_t size, gg_error *err)
{
    uint64_t zeros = 0;
    while (zeros < size && m[zeros] == 0) zeros++;
    if (zeros == size) {
        gg_fail_at(0, err, "all zeros: the download did not finish");
        return gg_fix(err, "fetch the file again");
    }
    int row = find_known(m, size);
    if (row >= 0) return tell(err, known[row].what, known[row].fix);
    if (is_safetensors(m, size))
        return tell(err, "this is a safetensors file",
                    "convert it to GGUF with convert_hf_to_gguf.py of llama.cpp");
    int n = text_length(m, size);
    if (n && (m[0] == '{' || m[0] == '['))
        gg_fail_at(0, err, "this is JSON, perhaps a server's error message: %.*s", n,
                   (const char *)m);
    else if (n)
        gg_fail_at(0, err, "this is a text file, not a GGUF model: %.*s", n, (const char *)m);
    if (n) return gg_fix(err, "check the address, and fetch the model again");
    gg_fail_at(0, err, "this is not a GGUF model (first bytes %02x %02x %02x %02x)", m[0], m[1],
               m[2], m[3]);
    return gg_fix(err, "give a GGUF model");
}
