/* The wire format of Protocol Buffers: reading and writing messages without schemas.
 *
 * A message is a list of fields; a field is a key (number and kind), then a varint, 4 or 8 bytes, or a length and bytes
 * (texts, messages inside, packed lists).  A cursor walks over the fields of one message in memory and never leaves it: a
 * length is compared with the bytes that are left before anything is done with it.
 *
 *     mx_proto message = mx_proto_of(bytes, size);
 *     for (mx_proto_field f; mx_proto_next(&message, &f);)
 *         if (f.number == 7 && f.kind == MX_PROTO_BYTES) ... mx_proto inside = mx_proto_inside(&f);
 *     if (message.broken) ...
 *
 * Writers append to a text (base/text.h), which holds bytes as well.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_BASE_PROTOBUF_H
#define MX_BASE_PROTOBUF_H

#include "base/text.h"

typedef enum mx_proto_kind {
    MX_PROTO_VARINT = 0,
    MX_PROTO_FIXED64 = 1,
    MX_PROTO_BYTES = 2,
    MX_PROTO_FIXED32 = 5
} mx_proto_kind;

typedef struct mx_proto {
    const unsigned char *at, *end; /* what is left of the message */
    bool broken;                   /* it is not a message: nothing more is read */
} mx_proto;

typedef struct mx_proto_field {
    uint32_t number;
    mx_proto_kind kind;
    uint64_t value;             /* of a varint, or the bits of 4 or 8 bytes */
    const unsigned char *bytes; /* (size) of MX_PROTO_BYTES */
    int64_t size;
} mx_proto_field;

static inline mx_proto mx_proto_of(const void *bytes, int64_t size)
{
    return (mx_proto){(const unsigned char *)bytes, (const unsigned char *)bytes + size, false};
}
static inline mx_proto mx_proto_inside(const mx_proto_field *field)
{
    return field->kind == MX_PROTO_BYTES ? mx_proto_of(field->bytes, field->size) : (mx_proto){0};
}
bool mx_proto_next(mx_proto *message, mx_proto_field *field); /* false at the end, or if it is broken */
/* The next number of a packed list; `kind` of its numbers. */
bool mx_proto_number(mx_proto *list, mx_proto_kind kind, uint64_t *value);

/* ---- writing: fields are appended to `text` ----------------------------------------------------------------------- */
void mx_proto_put_key(mx_text *text, uint32_t number, mx_proto_kind kind);
void mx_proto_put_varint(mx_text *text, uint64_t value); /* without a key */
void mx_proto_put_int(mx_text *text, uint32_t number, int64_t value);
void mx_proto_put_float(mx_text *text, uint32_t number, float value);
void mx_proto_put_double(mx_text *text, uint32_t number, double value);
void mx_proto_put_bytes(mx_text *text, uint32_t number, const void *bytes, size_t size);
void mx_proto_put_text(mx_text *text, uint32_t number, const char *value);
/* A message as a field; it is emptied, and a failure is handed on. */
void mx_proto_put_message(mx_text *text, uint32_t number, mx_text *message);

#endif
