/* One entry per attribute type: how a value is parsed, printed, compared.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_OP_SCHEMA_TYPES_H
#define MX_OP_SCHEMA_TYPES_H

#include "op/schema.h"

typedef struct mx_field_type_row {
    const char *name;                                                      /* "int": for descriptions */
    const char *wanted;                                                    /* "an integer": for messages */
    bool (*parse)(const mx_field *field, const char *text, void *value);   /* false: not a valid spelling */
    void (*print)(const mx_field *field, const void *value, char *buffer); /* MX_VALUE_TEXT bytes */
    bool (*equal)(const void *a, const void *b);
    void (*none)(void *value);
    bool (*is_none)(const void *value);
    mx_code (*check)(const mx_field *field, const void *value, const char *who); /* NULL: any value is allowed */
} mx_field_type_row;

extern const mx_field_type_row mx_field_types[MX_FIELD_TYPES];

#endif
