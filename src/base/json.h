/* JSON: a strict reader into one block of memory, and a writer onto a text.
 *
 * The reader accepts RFC 8259 and nothing else: no comments, no trailing commas, no NaN, valid UTF-8, at most
 * mx_limits.depth levels.  It allocates once, at most MX_JSON_FACTOR bytes per byte of text plus a constant, before
 * it looks at the contents.  Messages name line and column; prefix them with the file's name using
 * mx_error_context().
 *
 * Accessors accept NULL and return NULL or false for it without a new error, so lookups nest.
 *
 *     mx_json *root = mx_json_parse(text, length);
 *     const mx_json *nodes = mx_json_member(root, "nodes", MX_JSON_ARRAY);
 *     for (int64_t i = 0; i < mx_json_count(nodes); i++)
 *         name = mx_json_text(mx_json_member(mx_json_at(nodes, i), "name", MX_JSON_TEXT));
 *     mx_json_free(root);
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_BASE_JSON_H
#define MX_BASE_JSON_H

#include "base/text.h"

#define MX_JSON_FACTOR 64 /* "[0,0,0]" has two bytes per value: see json.c */

typedef enum mx_json_kind {
    MX_JSON_NULL, MX_JSON_BOOL, MX_JSON_NUMBER, MX_JSON_TEXT, MX_JSON_ARRAY, MX_JSON_OBJECT
} mx_json_kind;
typedef struct mx_json mx_json;

/* The root of the parsed text, to be freed with mx_json_free; NULL with MX_ERR_FILE if it is not JSON. */
mx_json *mx_json_parse(const char *text, size_t length);
void mx_json_free(mx_json *root);

mx_json_kind mx_json_kind_of(const mx_json *value);         /* NULL counts as MX_JSON_NULL */
int64_t mx_json_count(const mx_json *value);                /* items or members; 0 for everything else */
const mx_json *mx_json_at(const mx_json *value, int64_t i); /* i-th item or member; NULL outside */
const char *mx_json_key(const mx_json *member);             /* of a member of an object; NULL otherwise */
/* The member of that name (the last one of several); NULL without an error if there is none or it is no object. */
const mx_json *mx_json_get(const mx_json *object, const char *key);

/* These record an error with line and column if the value is missing or of another kind. */
const mx_json *mx_json_member(const mx_json *object, const char *key, mx_json_kind kind);
const char *mx_json_text(const mx_json *value); /* UTF-8; valid until the root is freed */
bool mx_json_number(const mx_json *value, double *number);
bool mx_json_int(const mx_json *value, int64_t *number); /* a number without fraction that fits */
bool mx_json_bool(const mx_json *value, bool *truth);
/* For the caller's own checks: records "line L, column C: ..." as MX_ERR_FILE. */
void mx_json_fail(const mx_json *value, const char *format, ...) MX_PRINTF(2, 3);

/* ---- writing -------------------------------------------------------------------------------------------- */
void mx_json_write_text(mx_text *out, const char *text); /* quoted, escaped; invalid UTF-8 becomes U+FFFD */
void mx_json_write_number(mx_text *out, double value);   /* NaN and infinities become null */
void mx_json_write(mx_text *out, const mx_json *value);  /* on one line */

#endif
