/* Making calls: a sample, then changes of shapes, types, values and attributes (see garbage.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "garbage.h"

#define COUNT(list) (sizeof(list) / sizeof *(list))
#define MOST_ELEMENTS 20000 /* of a changed input */

uint64_t garbage_roll(garbage_dice *dice, uint64_t below)
{
    uint64_t bits = 0;
    if (dice->at + 2 <= dice->size) {
        bits = (uint64_t)dice->bytes[dice->at] << 8 | dice->bytes[dice->at + 1];
        dice->at += 2;
    } else if (dice->state) {
        dice->state ^= dice->state << 13, dice->state ^= dice->state >> 7, dice->state ^= dice->state << 17;
        bits = dice->state >> 16;
    }
    return bits % below;
}

static bool chance(garbage_dice *dice, int percent) { return garbage_roll(dice, 100) < (uint64_t)percent; }

static void tell(garbage_call *call, const char *format, ...) MX_PRINTF(2, 3);
static void tell(garbage_call *call, const char *format, ...)
{
    size_t used = strlen(call->story);
    va_list args;
    va_start(args, format);
    vsnprintf(call->story + used, sizeof call->story - used, format, args);
    va_end(args);
}

/* ---- inputs --------------------------------------------------------------------------------------------- */

static int64_t elements(const mx_shape_t *shape)
{
    int64_t n = 1;
    for (int i = 0; i < shape->ndim; i++)
        n = n > MOST_ELEMENTS ? n : n * shape->dim[i];
    return n;
}

/* Input k in another shape; its elements are repeated. */
static void reshape(garbage_call *call, int k, mx_shape_t shape)
{
    int64_t size = elements(&shape), old = call->values.size[k];
    if (size > MOST_ELEMENTS)
        return;
    double *v = calloc((size_t)size + 1, sizeof *v);
    for (int64_t i = 0; v && old && i < size; i++)
        v[i] = call->values.v[k][i % old];
    if (!v)
        return;
    free(call->values.v[k]);
    call->values.v[k] = v;
    call->values.size[k] = size;
    call->values.shape[k] = shape;
    tell(call, " input %d has shape (", k);
    for (int i = 0; i < shape.ndim; i++)
        tell(call, "%s%lld", i ? "," : "", (long long)shape.dim[i]);
    tell(call, ");");
}

static void change_shape(garbage_call *call, int k, garbage_dice *dice)
{
    static const int64_t sizes[] = {0, 1, 2, 3, 5, 7, 8, 9, 15, 17, 33, 100, 1000};
    mx_shape_t shape = call->values.shape[k];
    if (chance(dice, 70) && shape.ndim > 0)
        shape.dim[garbage_roll(dice, (uint64_t)shape.ndim)] = sizes[garbage_roll(dice, COUNT(sizes))];
    else {
        shape.ndim = (int)garbage_roll(dice, MX_MAX_NDIM + 1);
        for (int i = 0; i < shape.ndim; i++)
            shape.dim[i] = sizes[garbage_roll(dice, 5)];
    }
    reshape(call, k, shape);
}

static void change_type(garbage_call *call, int k, garbage_dice *dice)
{
    int type = (int)garbage_roll(dice, MX_DTYPE_END);
    if (!mx_dtype_valid(type))
        return;
    call->types[k] = type;
    tell(call, " input %d is %s;", k, mx_dtype_name((mx_dtype)type));
}

static void change_values(garbage_call *call, int k, garbage_dice *dice)
{
    static const double numbers[] = {0,   -0.0, 1,    -1,   0.5,   127, -128,     255,      65504,
                                     1e9, -1e9, 1e18, 3e38, 1e300, NAN, INFINITY, -INFINITY};
    double number = numbers[garbage_roll(dice, COUNT(numbers))];
    bool all = chance(dice, 30);
    for (int64_t i = 0; i < call->values.size[k]; i++)
        if (all || chance(dice, 20))
            call->values.v[k][i] = number;
    tell(call, " %s %g in input %d;", all ? "only" : "some", number, k);
}

static void change_input(garbage_call *call, garbage_dice *dice)
{
    static void (*const changes[])(garbage_call *, int, garbage_dice *) = {change_shape, change_shape, change_type,
                                                                           change_values};
    if (call->c.n_in == 0)
        return;
    int k = (int)garbage_roll(dice, (uint64_t)call->c.n_in);
    if (!call->c.absent[k])
        changes[garbage_roll(dice, COUNT(changes))](call, k, dice);
}

/* ---- attributes ----------------------------------------------------------------------------------------- */

static const char *const whole[] = {
    "0", "1", "2", "3", "5", "-1", "-2", "8", "64", "2147483648", "-9223372036854775808", "None"};
static const char *const real[] = {"0", "1", "-1", "0.5", "1e-30", "1e30", "nan", "inf", "-inf", "None"};
static const char *const types[] = {"float32", "float64", "float16", "bfloat16", "uint8",
                                    "int8",    "int32",   "int64",   "bool",     "None"};
static const char *const words[] = {"", "x", "None", "NCHW", "NHWC", "clip", "%n", "((("};

static void tuple(char *text, size_t size, garbage_dice *dice)
{
    int n = (int)garbage_roll(dice, 6);
    size_t used = (size_t)snprintf(text, size, "(");
    for (int i = 0; i < n; i++)
        used += (size_t)snprintf(text + used, size - used, "%s,",
                                 whole[garbage_roll(dice, chance(dice, 90) ? 8 : COUNT(whole))]);
    snprintf(text + used, size - used, ")");
}

static const char *odd_value(const mx_field *field, char *text, size_t size, garbage_dice *dice)
{
    char choice[64];
    switch (field->type) {
    case MX_FIELD_BOOL: return garbage_roll(dice, 2) ? "True" : "False";
    case MX_FIELD_INT: return whole[garbage_roll(dice, COUNT(whole))];
    case MX_FIELD_FLOAT: return real[garbage_roll(dice, COUNT(real))];
    case MX_FIELD_DTYPE: return types[garbage_roll(dice, COUNT(types))];
    case MX_FIELD_ENUM:
        for (int i = (int)garbage_roll(dice, 6); i >= 0; i--)
            if (mx_rule_choice(field->rule, i, choice))
                return snprintf(text, size, "%s", choice), text;
        return "None";
    case MX_FIELD_DIMS:
    case MX_FIELD_FLOATS: return tuple(text, size, dice), text;
    default: return words[garbage_roll(dice, COUNT(words))];
    }
}

/* Changes one attribute; a value that does not parse leaves the call as it was. */
static void change_attribute(garbage_call *call, garbage_dice *dice)
{
    const mx_schema *schema = call->c.op->schema;
    char text[256];
    if (!schema || schema->count == 0)
        return;
    const mx_field *field = &schema->fields[garbage_roll(dice, (uint64_t)schema->count)];
    const char *value = odd_value(field, text, sizeof text, dice);
    if (field->type == MX_FIELD_PTR || mx_schema_set(schema, call->c.attrs, call->c.op->name, field->name, value))
        mx_error_clear();
    else
        tell(call, " %s=%s;", field->name, value);
}

/* ---- calls ---------------------------------------------------------------------------------------------- */

static bool draw(garbage_call *call, garbage_dice *dice)
{
    static const mx_dtype list[] = {MX_FLOAT32, MX_FLOAT64, MX_FLOAT16, MX_BFLOAT16,
                                    MX_INT32,   MX_UINT8,   MX_INT64,   MX_INT8};
    mx_dtype first = chance(dice, 60) ? MX_FLOAT32 : list[garbage_roll(dice, COUNT(list))];
    for (size_t i = 0; i <= COUNT(list); i++) {
        mx_dtype type = i == 0 ? first : list[i - 1];
        if (!ops_draw(&call->c, type, &call->values))
            continue;
        if (ops_types(&call->c, type, 0, call->types))
            return true;
        ops_values_free(&call->values);
    }
    return false;
}

bool garbage_make_plain(garbage_call *call, mx_op *op, garbage_dice *dice)
{
    memset(call, 0, sizeof *call);
    int samples = ops_sample_count(op);
    if (samples == 0 || !ops_case_open(&call->c, op, (int)garbage_roll(dice, (uint64_t)samples)))
        return false;
    if (!draw(call, dice)) {
        ops_case_close(&call->c);
        return false;
    }
    tell(call, "%s sample %d as %s:", op->name, call->c.number,
         call->c.n_in ? mx_dtype_name((mx_dtype)call->types[0]) : "-");
    return true;
}

bool garbage_make(garbage_call *call, mx_op *op, garbage_dice *dice)
{
    if (!garbage_make_plain(call, op, dice))
        return false;
    for (int changes = chance(dice, 50) ? 0 : 1 + (int)garbage_roll(dice, 3); changes > 0; changes--)
        chance(dice, 50) ? change_input(call, dice) : change_attribute(call, dice);
    return true;
}

void garbage_free(garbage_call *call)
{
    ops_values_free(&call->values);
    ops_case_close(&call->c);
}
