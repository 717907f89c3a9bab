/* markdown.h - text in Markdown. */
#pragma once

#include "base/buf.h"

/* Appends text that Markdown shows as it is: one line without markup, HTML or links. */
gg_status markdown_put(gg_buf *b, const void *text, size_t len, gg_error *err);
