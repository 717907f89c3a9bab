/* tokenizer_sp.c - reads tokenizer.model, a SentencePiece model: a message of protocol buffers. */
#include "base/cursor.h"
#include "base/error.h"
#include "tokenizer_parts.h"

#include <ctype.h>
#include <string.h>

/* ---- protocol buffers ------------------------------------------------------------------------ */

/* A field: its number, and a varint, four or eight bytes, or a run of bytes. */
typedef struct field {
    uint32_t number, wire;
    uint64_t value;    /* of a varint, or the bits of a fixed number */
    const char *bytes; /* of a run */
    size_t len;
} field;

typedef struct message {
    const char *file; /* where offsets count from */
    const char *at, *end;
} message;

static gg_status fail_message(const message *m, gg_error *err)
{
    gg_fail_at((uint64_t)(m->at - m->file), err,
               "this SentencePiece model is damaged, or its end is missing");
    return gg_fix(err, "download it again");
}

static bool read_varint(message *m, uint64_t *value)
{
    *value = 0;
    for (unsigned shift = 0; shift < 64 && m->at < m->end; shift += 7) {
        uint8_t byte = (uint8_t)*m->at++;
        *value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) return true;
    }
    return false;
}

/* Reads the next field. Returns false at the end, or with an error. */
static bool next_field(message *m, field *f, gg_error *err)
{
    uint64_t tag;
    if (m->at >= m->end || err->status != GG_OK) return false;
    *f = (field){ 0 };
    if (!read_varint(m, &tag) || tag >> 3 == 0 || tag >> 3 > UINT32_MAX) {
        fail_message(m, err);
        return false;
    }
    f->number = (uint32_t)(tag >> 3);
    f->wire = tag & 7;
    size_t left = (size_t)(m->end - m->at), fixed = f->wire == 5 ? 4 : f->wire == 1 ? 8 : 0;
    if (fixed && fixed <= left) {
        f->value = fixed == 4 ? gg_le32((const uint8_t *)m->at) : gg_le64((const uint8_t *)m->at);
        m->at += fixed;
        return true;
    }
    if ((f->wire == 0 || f->wire == 2) && read_varint(m, &f->value)) {
        if (f->wire == 0) return true;
        f->bytes = m->at;
        f->len = (size_t)f->value;
        if (f->value <= (uint64_t)(m->end - m->at)) {
            m->at += f->len;
            return true;
        }
    }
    fail_message(m, err);
    return false;
}

/* ---- the model ------------------------------------------------------------------------------- */

enum { PIECES = 1, TRAINER = 2, NORMALIZER = 3 };
enum { PIECE_TEXT = 1, PIECE_SCORE = 2, PIECE_TYPE = 3, KIND = 3 };
enum { NORMALIZER_TABLE = 2, NORMALIZER_PREFIX = 3, NORMALIZER_SPACES = 4 };
enum { SP_UNKNOWN = 2, SP_CONTROL = 3, SP_UNUSED = 5, SP_BYTE = 6 };
enum { KIND_UNIGRAM = 1, KIND_BPE = 2 };

bool gg_tk_is_sp(const char *bytes, size_t len)
{
    return len > 1 && bytes[0] == (PIECES << 3 | 2);
}

/* The converter takes a user-defined piece for a normal one; tokenizer_config.json names those that
 * matter. */
static int32_t type_of_piece(uint64_t type)
{
    return type == SP_UNKNOWN   ? GG_TOKEN_UNKNOWN
           : type == SP_CONTROL ? GG_TOKEN_CONTROL
           : type == SP_UNUSED  ? GG_TOKEN_UNUSED
           : type == SP_BYTE    ? GG_TOKEN_BYTE
                                : GG_TOKEN_NORMAL;
}

static gg_status read_piece(const message *whole, const field *f, gg_hf_token *token, gg_error *err)
{
    message m = { whole->file, f->bytes, f->bytes + f->len };
    field part;
    *token = (gg_hf_token){ .text = "", .type = GG_TOKEN_NORMAL };
    while (next_field(&m, &part, err)) {
        uint32_t bits = (uint32_t)part.value;
        if (part.number == PIECE_TEXT && part.wire == 2) {
            token->text = part.bytes;
            token->len = part.len;
        } else if (part.number == PIECE_SCORE && part.wire == 5)
            memcpy(&token->score, &bits, sizeof bits);
        else if (part.number == PIECE_TYPE && part.wire == 0)
            token->type = type_of_piece(part.value);
    }
    return err->status;
}

static gg_status read_kind(const message *whole, const field *f, uint64_t *kind, gg_error *err)
{
    message m = { whole->file, f->bytes, f->bytes + f->len };
    field part;
    while (next_field(&m, &part, err))
        if (part.number == KIND && part.wire == 0) *kind = part.value;
    return err->status;
}

/* Notes what the model does with a text before it is split, and engines do not. */
static gg_status note_normalizer(gg_tk *tk, const message *whole, const field *f, gg_error *err)
{
    message m = { whole->file, f->bytes, f->bytes + f->len };
    bool table = false, spaces = true;
    field part;
    while (next_field(&m, &part, err)) {
        if (part.number == NORMALIZER_TABLE && part.wire == 2) table = part.len > 0;
        if (part.number == NORMALIZER_PREFIX && part.wire == 0) tk->no_prefix = part.value == 0;
        if (part.number == NORMALIZER_SPACES && part.wire == 0) spaces = part.value != 0;
    }
    if (table)
        gg_tk_note(tk, err,
                   "tokenizer.model changes letters before a text is split, which engines do not "
                   "do: text that is changed gets other tokens");
    if (spaces)
        gg_tk_note(tk, err,
                   "tokenizer.model takes several spaces for one, which engines do not do");
    return err->status;
}

/* Whether it is a vocabulary of tiktoken: lines of a token in base64 and its number. */
static bool is_tiktoken(const char *bytes, size_t len)
{
    const char *end = memchr(bytes, '\n', len), *space = end ? memchr(bytes, ' ', len) : NULL;
    if (!space || space == bytes || space + 1 >= end) return false;
    for (const char *p = bytes; p < space; p++)
        if (!isalnum((unsigned char)*p) && !strchr("+/=", *p)) return false;
    for (const char *p = space + 1; p < end; p++)
        if (!isdigit((unsigned char)*p) && *p != '\r') return false;
    return true;
}

static gg_status count_pieces(gg_tk *tk, message m, uint64_t *n, gg_error *err)
{
    field f;
    uint64_t kind = KIND_UNIGRAM;
    bool whole = false;
    *n = 0;
    while (next_field(&m, &f, err)) {
        if (f.number == PIECES && f.wire == 2) ++*n;
        if (f.number == TRAINER && f.wire == 2) read_kind(&m, &f, &kind, err);
        if (f.number == TRAINER) whole = true;
        if (f.number == NORMALIZER && f.wire == 2) note_normalizer(tk, &m, &f, err);
    }
    if (err->status == GG_OK && *n == 0) {
        gg_fail(err, GG_EFORMAT, "this SentencePiece model has no pieces");
        return gg_fix(err, "download it again");
    }
    if (err->status == GG_OK && !whole)
        gg_tk_note(tk, err,
                   "tokenizer.model has nothing after its %llu pieces, as if its end were missing",
                   (unsigned long long)*n);
    if (err->status == GG_OK && kind != KIND_UNIGRAM && kind != KIND_BPE)
        gg_fail(err, GG_EUNSUPPORTED, "this SentencePiece model splits text into words or letters");
    if (err->status == GG_OK && kind == KIND_UNIGRAM)
        gg_tk_note(tk, err,
                   "tokenizer.model is a Unigram model; engines join its pieces by their scores, "
                   "which may split a text in another way");
    return err->status;
}

gg_status gg_tk_read_sp(gg_tk *tk, const char *bytes, size_t len, gg_error *err)
{
    message m = { bytes, bytes, bytes + len };
    field f;
    gg_hf_token token;
    uint64_t n, id = 0;
    if (is_tiktoken(bytes, len)) {
        gg_fail(err, GG_EUNSUPPORTED, "this is a vocabulary of tiktoken, which lacks the merges");
        return gg_fix(err, "add the tokenizer.json of the model, as transformers has it");
    }
    if (count_pieces(tk, m, &n, err) != GG_OK || gg_tk_room(tk, n, n, err) != GG_OK)
        return err->status;
    while (next_field(&m, &f, err))
        if (f.number == PIECES && f.wire == 2 && read_piece(&m, &f, &token, err) == GG_OK)
            gg_tk_set(tk, id++, &token, err);
    tk->model = "llama";
    tk->pre = tk->from->pre ? tk->from->pre : "default";
    tk->scores = true;
    return err->status;
}
