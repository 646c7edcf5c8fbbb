/* Schemas: what the attributes of an operator (or the options of a layer, optimizer, ...) are.
 *
 * A schema is written once, as an X-macro list:
 *
 *     #define SOFTMAX_ATTRS(X) \
 *         X(INT,   axis,        "-1",   "", "axis along which the values sum to one") \
 *         X(FLOAT, temperature, "None", "", "divides the input")
 *     MX_ATTRS(softmax, SOFTMAX_ATTRS)
 *
 * which gives `struct mx_softmax_attrs { int64_t axis; double temperature; }` and the table `softmax_schema`.
 * Defaults, parser, printer, equality, the C call with named arguments and the description are derived from the table.
 * Kernels see the struct, never strings.  A default of REQUIRED means that there is none.
 *
 * The rule column: ENUM: the choices "relu|sigmoid"; INT and FLOAT: a range "1..", "0..1", or "".
 *
 *     type    C type       None is
 *     BOOL    bool         its default
 *     INT     int64_t      MX_NONE_INT
 *     FLOAT   double       NaN
 *     ENUM    int          -1
 *     DTYPE   mx_dtype     MX_DTYPE_NONE
 *     DIMS    mx_dims      n == -1           (numbers inside may be MX_NONE_INT)
 *     FLOATS  mx_floats    n == -1
 *     STR     const char*  NULL              (interned: lives as long as the process)
 *     CTX     mx_context   type == 0
 *     PTR     void*        NULL              (an object; only for layers and the like, never in files)
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_OP_SCHEMA_H
#define MX_OP_SCHEMA_H

#include <math.h>
#include <stddef.h>

#include "gluon/array.h"

typedef enum mx_field_type {
    MX_FIELD_BOOL,
    MX_FIELD_INT,
    MX_FIELD_FLOAT,
    MX_FIELD_ENUM,
    MX_FIELD_DTYPE,
    MX_FIELD_DIMS,
    MX_FIELD_FLOATS,
    MX_FIELD_STR,
    MX_FIELD_CTX,
    MX_FIELD_PTR,
    MX_FIELD_TYPES
} mx_field_type;

typedef bool mx_c_BOOL;
typedef int64_t mx_c_INT;
typedef double mx_c_FLOAT;
typedef int mx_c_ENUM;
typedef mx_dtype mx_c_DTYPE;
typedef mx_dims mx_c_DIMS;
typedef mx_floats mx_c_FLOATS;
typedef const char *mx_c_STR;
typedef mx_context mx_c_CTX;
typedef void *mx_c_PTR;

typedef struct mx_field {
    const char *name;
    mx_field_type type;
    size_t offset;        /* in the attribute struct; filled in by mx_schema_layout */
    const char *fallback; /* default in its textual spelling; NULL: required */
    const char *rule;     /* choices or range, see above */
    const char *doc;
} mx_field;

typedef struct mx_schema {
    const char *name; /* of the struct: mx_<name>_attrs */
    mx_field *fields;
    int count;
    size_t size; /* of the attribute struct */
} mx_schema;

#define REQUIRED NULL
#define MX_ATTR_MEMBER(type, name, fallback, rule, doc) mx_c_##type name;
#define MX_ATTR_ROW(type, name, fallback, rule, doc) {#name, MX_FIELD_##type, 0, fallback, rule, doc},

/* Defines the struct mx_<op>_attrs and the table <op>_schema. */
#define MX_ATTRS(op, LIST)                                     \
    typedef struct mx_##op##_attrs {                           \
        LIST(MX_ATTR_MEMBER)                                   \
    } mx_##op##_attrs;                                         \
    static mx_field op##_fields[] = {LIST(MX_ATTR_ROW)};       \
    static mx_schema op##_schema = {#op, op##_fields, sizeof op##_fields / sizeof *op##_fields, sizeof(mx_##op##_attrs)};

/* Computes the offsets of the fields; called once per schema when it is registered. */
void mx_schema_layout(mx_schema *schema);
const mx_field *mx_schema_find(const mx_schema *schema, const char *name); /* NULL if there is no such field */
/* Fills `attrs` (schema->size bytes) with the defaults; required fields get the None of their type. */
void mx_schema_defaults(const mx_schema *schema, void *attrs);
/* Sets one field from text; errors name `who`, the field, the text and what is allowed. */
mx_code mx_schema_set(const mx_schema *schema, void *attrs, const char *who, const char *name, const char *text);
/* "learning_rate=0.1, momentum=0.9" */
mx_code mx_schema_parse(const mx_schema *schema, void *attrs, const char *who, const char *list);
/* Required fields present, numbers inside their ranges. */
mx_code mx_schema_check(const mx_schema *schema, const void *attrs, const char *who);
bool mx_schema_equal(const mx_schema *schema, const void *a, const void *b);
/* The Python spelling of a field's value ("(1, 1)", "True", "None", "relu") into buffer; returns buffer. */
#define MX_VALUE_TEXT 512
const char *mx_field_text(const mx_field *field, const void *attrs, char *buffer);
/* Numeric range of a rule; false if it has none. */
bool mx_rule_range(const char *rule, double *low, double *high);
/* Choice number `index` of an ENUM rule copied into buffer (64 bytes); NULL past the end. */
const char *mx_rule_choice(const char *rule, int index, char *buffer);
const char *mx_intern(const char *text); /* the interned copy of a text; NULL with an error if out of memory */

#endif
