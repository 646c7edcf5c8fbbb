/* The wire format of Protocol Buffers.  SPDX-License-Identifier: Apache-2.0 */
#include "base/protobuf.h"

#include <string.h>

/* ---- reading --------------------------------------------------------------------------------------------------- */

static bool take_varint(mx_proto *m, uint64_t *value)
{
    *value = 0;
    for (int shift = 0; shift < 64 && m->at < m->end; shift += 7) {
        const unsigned char byte = *m->at++;
        *value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128)
            return true;
    }
    m->broken = true; /* it ends inside a number, or the number has more than ten bytes */
    return false;
}

static bool take_fixed(mx_proto *m, int bytes, uint64_t *value)
{
    *value = 0;
    if (m->end - m->at < bytes) {
        m->broken = true;
        return false;
    }
    for (int i = 0; i < bytes; i++)
        *value |= (uint64_t)*m->at++ << (8 * i);
    return true;
}

bool mx_proto_number(mx_proto *list, mx_proto_kind kind, uint64_t *value)
{
    if (list->broken || list->at >= list->end)
        return false;
    return kind == MX_PROTO_VARINT ? take_varint(list, value)
                                   : take_fixed(list, kind == MX_PROTO_FIXED32 ? 4 : 8, value);
}

bool mx_proto_next(mx_proto *m, mx_proto_field *field)
{
    uint64_t key;
    if (m->broken || m->at >= m->end || !take_varint(m, &key))
        return false;
    *field = (mx_proto_field){.number = (uint32_t)(key >> 3), .kind = (mx_proto_kind)(key & 7)};
    switch (field->kind) {
    case MX_PROTO_VARINT: return take_varint(m, &field->value);
    case MX_PROTO_FIXED64: return take_fixed(m, 8, &field->value);
    case MX_PROTO_FIXED32: return take_fixed(m, 4, &field->value);
    case MX_PROTO_BYTES:
        if (!take_varint(m, &field->value) || field->value > (uint64_t)(m->end - m->at))
            break;
        field->bytes = m->at;
        field->size = (int64_t)field->value;
        m->at += field->size;
        return true;
    }
    m->broken = true; /* a length beyond the end, or a kind that no writer uses (groups) */
    return false;
}

/* ---- writing --------------------------------------------------------------------------------------------------- */

void mx_proto_put_varint(mx_text *text, uint64_t value)
{
    unsigned char bytes[10];
    size_t n = 0;
    for (; value > 127; value >>= 7)
        bytes[n++] = (unsigned char)(value | 128);
    bytes[n++] = (unsigned char)value;
    mx_text_add_bytes(text, bytes, n);
}

void mx_proto_put_key(mx_text *text, uint32_t number, mx_proto_kind kind)
{
    mx_proto_put_varint(text, (uint64_t)number << 3 | kind);
}

void mx_proto_put_int(mx_text *text, uint32_t number, int64_t value)
{
    mx_proto_put_key(text, number, MX_PROTO_VARINT);
    mx_proto_put_varint(text, (uint64_t)value);
}

static void put_bits(mx_text *text, uint64_t bits, int bytes)
{
    for (int i = 0; i < bytes; i++)
        mx_text_add_char(text, (char)(bits >> (8 * i)));
}

void mx_proto_put_float(mx_text *text, uint32_t number, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    mx_proto_put_key(text, number, MX_PROTO_FIXED32);
    put_bits(text, bits, 4);
}

void mx_proto_put_double(mx_text *text, uint32_t number, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    mx_proto_put_key(text, number, MX_PROTO_FIXED64);
    put_bits(text, bits, 8);
}

void mx_proto_put_bytes(mx_text *text, uint32_t number, const void *bytes, size_t size)
{
    mx_proto_put_key(text, number, MX_PROTO_BYTES);
    mx_proto_put_varint(text, size);
    mx_text_add_bytes(text, bytes, size);
}

void mx_proto_put_text(mx_text *text, uint32_t number, const char *value)
{
    mx_proto_put_bytes(text, number, value, strlen(value));
}

void mx_proto_put_message(mx_text *text, uint32_t number, mx_text *message)
{
    mx_proto_put_bytes(text, number, message->data ? message->data : "", message->length);
    text->failed |= message->failed;
    mx_text_clear(message);
}
