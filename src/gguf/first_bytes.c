/* first_bytes.c - the formats that are told from their first bytes, for every reader of files and
 * pipes. */
#include "first_bytes.h"

#include "base/cursor.h"
#include "base/io.h"
#include "base/text.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define AGAIN "the download probably failed: fetch the model again"
#define OLD "convert the original model again, or use a GGUF version of it"
#define UNPACK "unpack it first"
#define PICKLE "convert the PyTorch model to GGUF"
#define UTF16 "save a text as UTF-8; fetch a model again, and copy it as binary"

/* Beginnings of other formats, and what to do. */
static const struct {
    const char *magic;
    size_t len;
    const char *what, *fix;
    size_t at; /* where it is, if not at the beginning */
} known[] = {
    { "version https://git-lfs", 23, "this is a Git LFS pointer",
      "fetch the model itself with git lfs pull" },
    { "PK\3\4", 4, "this is a ZIP archive", "unpack it, or convert a PyTorch model to GGUF" },
    { "\x1f\x8b", 2, "this is a gzip file", "unpack it first: gunzip -c FILE > MODEL.gguf" },
    { "\x28\xb5\x2f\xfd", 4, "this is a zstd file", "unpack it first: zstd -d FILE -o MODEL.gguf" },
    { "\xfd"
      "7zXZ",
      5, "this is an xz file", "unpack it first: xz -dc FILE > MODEL.gguf" },
    { "BZh", 3, "this is a bzip2 file", "unpack it first: bzip2 -dc FILE > MODEL.gguf" },
    { "\x04\x22\x4d\x18", 4, "this is an lz4 file", "unpack it first: lz4 -d FILE MODEL.gguf" },
    { "7z\xbc\xaf", 4, "this is a 7z archive", UNPACK },
    { "Rar!", 4, "this is a RAR archive", UNPACK },
    { "ustar", 5, "this is a tar archive", "unpack it first: tar -xf FILE", 257 },
    { "MZqFpD", 6, "this is a llamafile or another program that runs on several systems",
      "take the model out of a llamafile: unzip FILE '*.gguf'" },
    { "jartsr='", 8, "this is a llamafile or another program that runs on several systems",
      "take the model out of a llamafile: unzip FILE '*.gguf'" },
    { "MZ", 2, "this is a program", "give a GGUF model" },
    { "\x7f"
      "ELF",
      4, "this is a program", "give a GGUF model" },
    { "\xcf\xfa\xed\xfe", 4, "this is a program", "give a GGUF model" },
    { "lmgg", 4, "this is a ggml file, as whisper.cpp and programs older than GGUF use",
      "run it with whisper.cpp if it is for speech, or use a GGUF version of the model" },
    { "fmgg", 4, "this is a GGMF file, older than GGUF", OLD },
    { "tjgg", 4, "this is a GGJT file, older than GGUF", OLD },
    { "algg", 4, "this is a GGLA adapter, older than GGUF", OLD },
    { "FUGG", 4, "this looks like a big-endian file", "convert it to little-endian" },
    { "\x80\x02", 2, "this is a Python pickle", PICKLE },
    { "\x80\x03", 2, "this is a Python pickle", PICKLE },
    { "\x80\x04", 2, "this is a Python pickle", PICKLE },
    { "\x80\x05", 2, "this is a Python pickle", PICKLE },
    { "\x93NUMPY", 6, "this is an array of NumPy", "use the model from which it was made" },
    { "\x89HDF\r\n", 6, "this is an HDF5 file, as Keras and TensorFlow use", PICKLE },
    { "TFL3", 4, "this is a TFLite model", "use the model from which it was made", 4 },
    { "\xff\xfe", 2, "this is text in UTF-16", UTF16 },
    { "\xfe\xff", 2, "this is text in UTF-16", UTF16 },
    { "\xef\xbb\xbfGGUF", 7, "this is a GGUF file that a program for text has copied",
      "fetch it again, and copy it as binary" },
};

bool gg_is_safetensors(const uint8_t *m, size_t size)
{
    return size > 8 && m[8] == '{' && m[4] == 0 && m[5] == 0 && m[6] == 0 && m[7] == 0;
}

/* The length of a text at the beginning, up to the first line break; 0 if there is none. */
static int text_length(const uint8_t *m, size_t size)
{
    int n = 0;
    while ((size_t)n < size && n < 80 && m[n] >= ' ' && m[n] < 127) n++;
    bool ends = (size_t)n == size || n == 80 || m[n] == '\n' || m[n] == '\r';
    return n >= 4 && ends ? n : 0;
}

/* Where text begins, after the mark of UTF-8 and spaces. */
static size_t text_at(const uint8_t *m, size_t size)
{
    size_t at = size >= 3 && memcmp(m, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    while (at < size && memchr(" \t\r\n", m[at], 4)) at++;
    return at;
}

/* What a text in angle brackets is; NULL if it is none. */
static const char *markup(const uint8_t *m, size_t size)
{
    static const struct {
        const char *begin, *what;
    } kinds[] = {
        { "<!doctype", "this is an HTML page" },
        { "<html", "this is an HTML page" },
        { "<head", "this is an HTML page" },
        { "<!--", "this is an HTML page" },
        { "<?xml", "this is an XML document, perhaps a server's error message" },
        { "<error", "this is an XML document, perhaps a server's error message" },
    };
    size_t at = text_at(m, size);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        size_t n = strlen(kinds[i].begin);
        if (size - at >= n && strncasecmp((const char *)m + at, kinds[i].begin, n) == 0)
            return kinds[i].what;
    }
    return NULL;
}

/* JSON begins with a bracket, and what follows is text. Returns its place, or SIZE_MAX. */
static size_t json_at(const uint8_t *m, size_t size)
{
    size_t at = text_at(m, size), end;
    if (at == size || (m[at] != '{' && m[at] != '[')) return SIZE_MAX;
    for (end = at + 1; end < size; end++)
        if (m[end] < ' ' && !memchr("\t\r\n", m[end], 3)) return SIZE_MAX;
    return at;
}

/* The row of the table for these bytes; -1 = none. */
static int known_kind(const uint8_t *m, size_t size)
{
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (size >= known[i].at + known[i].len &&
            memcmp(m + known[i].at, known[i].magic, known[i].len) == 0)
            return (int)i;
    return -1;
}

/* A message of protocol buffers whose first field is a small number, a version, and whose next one
 * has a length, as in ONNX and Core ML. */
static bool is_protocol_buffer(const uint8_t *m, size_t size)
{
    return size > 8 && m[0] == 8 && m[1] > 0 && m[1] < 32 && (m[2] & 7) == 2 && m[2] < 128 &&
           m[3] > 0;
}

/* The older format of importance matrices: a count, and the length of a name before the name. In
 * an organ record the name comes first. */
static bool is_old_imatrix(const uint8_t *m, size_t size)
{
    if (size < 12 || m[4] == 0 || m[4] > 127 || m[5] || m[6] || m[7]) return false;
    for (size_t i = 8; i < size && i < 8u + m[4]; i++)
        if (m[i] <= ' ' || m[i] > '~') return false;
    return true;
}

bool gg_is_other_kind(const uint8_t *m, size_t size)
{
    if (gg_is_safetensors(m, size)) return false; /* the length of its header may be any number */
    return known_kind(m, size) >= 0 || markup(m, size) || is_protocol_buffer(m, size) ||
           is_old_imatrix(m, size) || json_at(m, size) != SIZE_MAX;
}

static gg_status other(gg_error *err, const char *not_a, const char *what, const char *fix)
{
    gg_fail_at(0, err, "%s, not a %s", what, not_a);
    return gg_fix(err, "%s", fix);
}

gg_status gg_fail_other_kind(const uint8_t *m, size_t size, const char *not_a, gg_error *err)
{
    size_t zeros = 0, json = json_at(m, size);
    while (zeros < size && m[zeros] == 0) zeros++;
    if (size && zeros == size) {
        gg_fail_at(0, err, "all zeros: the download did not finish");
        return gg_fix(err, "fetch the file again");
    }
    if (gg_is_safetensors(m, size))
        return other(err, not_a, "this is a safetensors file",
                     "save it, and give its name; a pipe cannot carry it");
    int row = known_kind(m, size);
    if (row >= 0) return other(err, not_a, known[row].what, known[row].fix);
    if (markup(m, size)) return other(err, not_a, markup(m, size), AGAIN);
    if (is_protocol_buffer(m, size))
        return other(err, not_a, "this is a protocol buffer, as ONNX and Core ML use",
                     "use the model from which it was made");
    if (is_old_imatrix(m, size))
        return other(err, not_a, "this is an importance matrix in the older format",
                     "encode a model with it, or convert it to GGUF");
    int n = json == SIZE_MAX ? text_length(m, size) : text_length(m + json, size - json);
    if (json != SIZE_MAX) {
        gg_fail_at(0, err, "this is JSON, not a %s%s%.*s", not_a,
                   n ? ", perhaps a server's error message: " : "", n, (const char *)m + json);
        return gg_fix(err, n ? "check the address, and fetch the model again"
                             : "give the folder of a checkpoint or of an organ directory");
    }
    if (n) {
        gg_fail_at(0, err, "this is a text file, not a %s: %.*s", not_a, n, (const char *)m);
        return gg_fix(err, "check the address, and fetch the model again");
    }
    return GG_OK;
}

/* ---- a ZIP archive at the end of a file ------------------------------------------------------ */

#define ZIP_END 22   /* bytes of the record at the end, which a comment follows */
#define ZIP64_END 56 /* of the one for large archives, which is before it and a locator */
#define ZIP64_LOCATOR 20
#define ZIP_ENTRY 46                      /* of an entry of the directory, which its name follows */
#define ZIP_DIRECTORY ((uint64_t)1 << 20) /* no larger directory is read */

/* Finds the directory of a ZIP archive in the last n bytes of a file, at m. Other data may precede
 * the archive, so its offsets are not used: the directory ends where the records begin. Returns the
 * size of the directory, and where it ends; 0 if there is none. */
static uint64_t zip_directory(const uint8_t *m, size_t n, size_t *end)
{
    for (size_t at = n; at-- > 0;) {
        if (n - at < ZIP_END || memcmp(m + at, "PK\5\6", 4) != 0) continue;
        if (gg_le16(m + at + 20) != n - at - ZIP_END) continue;
        uint64_t size = gg_le32(m + at + 12);
        *end = at;
        if (at >= ZIP64_LOCATOR + ZIP64_END && memcmp(m + at - ZIP64_LOCATOR, "PK\6\7", 4) == 0) {
            *end = at - ZIP64_LOCATOR - ZIP64_END;
            size = gg_le64(m + *end + 40);
        }
        return size;
    }
    return 0;
}

/* Finds the name of a GGUF file in the directory of an archive. */
static bool zip_model(const uint8_t *m, size_t n, char *name, size_t room)
{
    for (size_t at = 0; n - at > ZIP_ENTRY && memcmp(m + at, "PK\1\2", 4) == 0;) {
        size_t len = gg_le16(m + at + 28), rest = gg_le16(m + at + 30) + gg_le16(m + at + 32);
        const char *text = (const char *)m + at + ZIP_ENTRY;
        if (n - at - ZIP_ENTRY < len) return false;
        if (len < room && gg_text_ends(text, len, ".gguf")) {
            memcpy(name, text, len);
            name[len] = 0;
            return true;
        }
        if (n - at - ZIP_ENTRY - len < rest) return false;
        at += ZIP_ENTRY + len + rest;
    }
    return false;
}

/* Whether the file ends with a ZIP archive that contains a model, as llamafiles do. */
static bool ends_with_model(int fd, uint64_t size, char *name, size_t room)
{
    const uint64_t most = ZIP_END + UINT16_MAX + ZIP64_LOCATOR + ZIP64_END;
    size_t n = (size_t)(size < most ? size : most), end = 0;
    gg_error ignored = GG_ERROR_INIT;
    uint8_t *m = malloc(n + 1), *directory = NULL;
    bool found = false;
    if (m && gg_pread_all(fd, m, n, size - n, &ignored) == GG_OK) {
        uint64_t bytes = zip_directory(m, n, &end), at = size - n + end;
        if (bytes && bytes <= ZIP_DIRECTORY && bytes <= at) directory = malloc((size_t)bytes);
        if (directory && gg_pread_all(fd, directory, (size_t)bytes, at - bytes, &ignored) == GG_OK)
            found = zip_model(directory, (size_t)bytes, name, room);
    }
    free(directory);
    free(m);
    return found;
}

gg_status gg_fail_other_file(int fd, uint64_t size, const uint8_t *m, size_t n, const char *not_a,
                             gg_error *err)
{
    char name[256];
    if (!ends_with_model(fd, size, name, sizeof name)) return gg_fail_other_kind(m, n, not_a, err);
    bool archive = n >= 4 && memcmp(m, "PK\3\4", 4) == 0;
    gg_fail_at(0, err, "%s, not a %s; the model '%s' is in it",
               archive ? "this is a ZIP archive"
                       : "this is a llamafile, a program with a ZIP archive at its end",
               not_a, name);
    return gg_fix(err, "take the model out: unzip FILE '*.gguf'");
}

const char *gg_text_damage(const uint8_t *m, size_t size)
{
    bool replaced = false, other = false, utf8 = true;
    size_t line_ends = 0, plain = 0;
    uint32_t character;
    for (size_t i = 0, n; i < size && utf8; i += n) {
        n = gg_utf8_next((const char *)m + i, size - i, &character);
        if (n == 0) {
            utf8 = size - i < 4; /* the last character may be cut */
            break;
        }
        replaced = replaced || character == 0xfffd;
        other = other || (character >= 0x80 && character < 0xa0); /* no text has these */
    }
    for (size_t i = 0; i < size; i++)
        if (m[i] == '\n') *(i && m[i - 1] == '\r' ? &line_ends : &plain) += 1;
    if (utf8 && replaced) return "read it as text and replaced bytes by U+FFFD";
    if (utf8 && other) return "took it for text in another encoding and wrote it as UTF-8";
    return line_ends > 1 && plain == 0 ? "converted its line ends, as if it were text" : NULL;
}
