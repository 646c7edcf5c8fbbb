/* The representation of a JSON value, shared by the reader, the accessors and the writer.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_BASE_JSON_VALUE_H
#define MX_BASE_JSON_VALUE_H

#include "base/json.h"

struct mx_json {
    uint8_t kind;          /* mx_json_kind */
    bool whole;            /* a number written without point and exponent: its value is `integer` */
    uint32_t line, column; /* position in the text, from 1 */
    const char *key;       /* in an object: its name; otherwise NULL */
    union {
        bool truth;
        double number;
        const char *text;     /* ends with a zero byte */
        const mx_json *first; /* (count) items or members, contiguous */
    };
    union {
        int64_t count;   /* items, members or bytes of text */
        int64_t integer; /* value of an integer */
    };
};

/* Length of the UTF-8 character at `bytes` (at most `left` long); 0: not UTF-8. */
int mx_utf8_length(const unsigned char *bytes, size_t left);

#endif
