/* Operators that expand into calls of others (see expand.h).  SPDX-License-Identifier: Apache-2.0 */
#include "op/expand.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/thread.h"
#include "ndarray/sparse.h"

mx_op *mx_expansion_op(mx_expansion *how, int i)
{
    mx_op *op = __atomic_load_n(&how->found[i], __ATOMIC_ACQUIRE);
    if (!op && (op = mx_op_find(how->name[i])))
        __atomic_store_n(&how->found[i], op, __ATOMIC_RELEASE);
    return op;
}

/* ---- types ------------------------------------------------------------------------------------------------------- */

mx_dtype mx_float_of(mx_dtype dtype)
{
    return dtype == MX_DTYPE_NONE || mx_dtype_is_float(dtype) ? dtype : mx_default_float();
}

mx_array *mx_expand_cast(mx_array *x, mx_dtype dtype)
{
    struct { mx_dtype dtype; } attrs = {dtype};
    if (!x || dtype == MX_DTYPE_NONE || x->dtype == MX_DTYPE_NONE || (mx_dtype)x->dtype == dtype)
        return x;
    return mx_g_call(MX_OP("Cast"), &attrs, 1, &x);
}

/* A number as a 0-d array of a type on a context. */
static mx_array *settle(const mx_array *number, mx_dtype dtype, mx_context context)
{
    struct { mx_dims shape; mx_context ctx; mx_dtype dtype; double value; } attrs = {
        {.n = 0}, context, dtype == MX_DTYPE_NONE ? mx_default_float() : dtype, 0};
    if (number->dtype != MX_INT64 || dtype != MX_INT64) {
        attrs.value = mx_item(number);
        return mx_g_call(MX_OP("_full"), &attrs, 0, NULL);
    }
    const mx_shape_t shape = {.ndim = 0}; /* integers beyond 2^53 stay exact */
    return mx_scope_add(mx_array_of_bytes(&shape, MX_INT64, context, mx_data(number)));
}

mx_array *mx_expand_array(mx_array *x, mx_dtype dtype, const mx_array *like)
{
    if (!x || x == MX_NONE)
        return x;
    if (!mx_is_number(x))
        return mx_expand_cast(x, dtype);
    return settle(x, dtype, like ? like->context : mx_context_resolve((mx_context){0}));
}

/* Changes the common type of the inputs to the one that the operator computes in. */
static mx_code apply_rules(const mx_expand *call, mx_dtype *type)
{
    const uint32_t rules = call->how->rules;
    if ((rules & MX_NOT_BOOL) && *type == MX_BOOL)
        return mx_op_fail(call->op, MX_ERR_DTYPE, "is not defined for bool; convert it with astype first");
    if ((rules & MX_NOT_FLOAT) && mx_dtype_is_float(*type))
        return mx_op_fail(call->op, MX_ERR_DTYPE, "is not defined for %s, wanted integers or bool",
                          mx_dtype_name(*type));
    if (rules & MX_TO_FLOAT)
        *type = mx_float_of(*type);
    if ((rules & MX_FROM_BOOL) && *type == MX_BOOL)
        *type = MX_INT64;
    return MX_OK;
}

static const mx_array *first_array(int n, mx_array *const *in)
{
    for (int i = 0; i < n; i++)
        if (in[i] && in[i] != MX_NONE && !mx_is_number(in[i]))
            return in[i];
    return NULL;
}

mx_code mx_expand_promote(const mx_expand *call, mx_array **promoted)
{
    mx_dtype type = mx_result_type((mx_arrays){call->in, call->n_in});
    if (apply_rules(call, &type))
        return mx_error_code();
    const mx_array *like = first_array(call->n_in, call->in);
    for (int i = 0; i < call->n_in; i++)
        if (!(promoted[i] = mx_expand_array(call->in[i], type, like)))
            return mx_error_code();
    return MX_OK;
}

mx_array *mx_expand_by_rules(const mx_expand *call, mx_array *x)
{
    if (!x || x == MX_NONE)
        return NULL;
    mx_dtype type = mx_is_number(x) ? mx_result_type((mx_arrays){&x, 1}) : (mx_dtype)x->dtype;
    return apply_rules(call, &type) ? NULL : mx_expand_array(x, type, NULL);
}

/* ---- calls -------------------------------------------------------------------------------------------------------- */

mx_array *mx_expand_text(mx_op *op, int n_in, mx_array *const *in, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    const int length = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (length >= (int)sizeof text)
        return mx_fail_null(MX_ERR_ATTRIBUTE, "%s: the attributes are too long", mx_op_name(op));
    return mx_g_text(op, text, n_in, in);
}

static size_t field_bytes(mx_field_type type)
{
    static const size_t bytes[MX_FIELD_TYPES] = {
        [MX_FIELD_BOOL] = sizeof(mx_c_BOOL),     [MX_FIELD_INT] = sizeof(mx_c_INT),   [MX_FIELD_FLOAT] = sizeof(mx_c_FLOAT),
        [MX_FIELD_ENUM] = sizeof(mx_c_ENUM),     [MX_FIELD_DTYPE] = sizeof(mx_c_DTYPE), [MX_FIELD_DIMS] = sizeof(mx_c_DIMS),
        [MX_FIELD_FLOATS] = sizeof(mx_c_FLOATS), [MX_FIELD_STR] = sizeof(mx_c_STR),   [MX_FIELD_CTX] = sizeof(mx_c_CTX),
        [MX_FIELD_PTR] = sizeof(mx_c_PTR)};
    return bytes[type];
}

mx_code mx_expand_same(const mx_expand *call, mx_op *op, int n_in, mx_array *const *in, int n_out, mx_array **out)
{
    _Alignas(16) char attrs[2048];
    const mx_schema *from = call->op->schema;
    if (!op)
        return mx_error_code();
    if (op->schema && op->schema->size > sizeof attrs)
        return mx_op_fail(op, MX_ERR_ATTRIBUTE, "attributes are too large");
    if (op->schema)
        memcpy(attrs, op->defaults, op->schema->size);
    for (int i = 0; op->schema && i < op->schema->count; i++) {
        const mx_field *to = &op->schema->fields[i], *source = mx_schema_find(from, to->name);
        if (source && source->type == to->type)
            memcpy(attrs + to->offset, (const char *)call->attrs + source->offset, field_bytes(to->type));
    }
    for (int i = 0; i < n_in; i++)
        if (!in[i])
            return mx_error_code();
    return mx_invoke(op, op->schema ? attrs : NULL, n_in, in, n_out, out);
}

/* ---- the entry ---------------------------------------------------------------------------------------------------- */

static mx_code check_inputs(const mx_op *op, int n_in, mx_array *const *in)
{
    char name[64];
    for (int i = 0; i < n_in; i++)
        if (!in[i] || (in[i] == MX_NONE && !mx_op_input_optional(op, i)))
            return !in[i] && mx_has_error()
                       ? mx_error_code()
                       : mx_op_fail(op, MX_ERR_ARGUMENT, "input %s is required", mx_op_input_name(op, i, name));
        else if (in[i] != MX_NONE && !mx_array_any_ok(in[i], op->name, mx_op_input_name(op, i, name)))
            return mx_error_code();
    return MX_OK;
}

/* A result goes where the caller wants it; NumPy converts it to that array's type. */
static mx_code deliver(mx_array *made, mx_array **out)
{
    if (!made)
        return mx_has_error() ? mx_error_code() : mx_fail(MX_ERR_STATE, "there is no result");
    if (!*out || *out == made) {
        *out = made;
        return MX_OK;
    }
    if (!mx_array_any_ok(*out, "out", "out"))
        return mx_error_code();
    if (mx_dtype_is_float(made->dtype) && !mx_dtype_is_float((*out)->dtype))
        return mx_fail(MX_ERR_DTYPE, "out is %s, which cannot hold a result of type %s",
                       mx_dtype_name((mx_dtype)(*out)->dtype), mx_dtype_name((mx_dtype)made->dtype));
    mx_array *same = mx_expand_cast(made, (mx_dtype)(*out)->dtype);
    return same ? mx_invoke(MX_OP("_copy"), NULL, 1, &same, 1, out) : mx_error_code();
}

mx_code mx_expand_call(mx_op *op, const void *attrs, int n_in, mx_array *const *in, int n_out, mx_array **out)
{
    mx_array *made[MX_MAX_OUTPUTS] = {NULL}, *padded[MX_MAX_DECLARED];
    const bool list = op->flags & MX_OP_LIST;
    if (!list && n_in > op->declared_inputs)
        return mx_op_fail(op, MX_ERR_ARGUMENT, "got %d inputs, wanted at most %d (%s)", n_in, op->declared_inputs,
                          op->inputs);
    if (!list && n_in < op->declared_inputs) {
        for (int i = 0; i < op->declared_inputs; i++)
            padded[i] = i < n_in ? in[i] : MX_NONE;
        in = padded, n_in = op->declared_inputs;
    }
    attrs = attrs ? attrs : op->defaults;
    mx_code code = op->schema ? mx_schema_check(op->schema, attrs, op->name) : MX_OK;
    code = code ? code : op->check ? op->check(attrs) : MX_OK;
    code = code ? code : check_inputs(op, n_in, in);
    if (code)
        return code;
    const mx_expand call = {op, (mx_expansion *)(uintptr_t)op->user, attrs, n_in, in, made};
    const bool shapes = mx_set_np_shape(true);
    code = call.how->run(&call);
    for (int i = 0, n = mx_op_count_visible(op, attrs); !code && i < n && i < n_out; i++)
        code = deliver(made[i], &out[i]);
    mx_set_np_shape(shapes);
    return code;
}
