/* Comparisons, logic, bits, choices.  SPDX-License-Identifier: Apache-2.0
 *
 * Results of ONNX's comparisons are bool; ours have the type of the inputs. */
#include <string.h>

#include "gluon/onnx/onnx.h"
#include "ndarray/array.h"

static mx_array *compare(const char *op, mx_array *a, mx_array *b)
{
    switch (op[0] == 'L' || op[0] == 'G' ? op[0] + (strstr(op, "Or") != NULL) : op[0]) {
    case 'L': return mx_lesser(a, b);
    case 'L' + 1: return mx_lesser_equal(a, b);
    case 'G': return mx_greater(a, b);
    case 'G' + 1: return mx_greater_equal(a, b);
    default: return mx_equal(a, b);
    }
}

static mx_code read_compare(mx_onnx_in *n)
{
    n->out[0] = mx_onnx_cast(compare(n->op, n->in[0], n->in[1]), MX_BOOL);
    return MX_OK;
}

/* The result as our type. */
static mx_code write_bool(mx_onnx_out *o, const char *op, const char *a, const char *b)
{
    mx_onnx_put_cast(o, o->out[0], mx_onnx_put(o, NULL, op, a, b), o->out_type[0]);
    return mx_onnx_done(o);
}

static const char *scalar(mx_onnx_out *o)
{
    const mx_field *field = mx_schema_find(o->node->op->schema, "scalar");
    return mx_onnx_put_number(o, *(const double *)((const char *)o->attrs + field->offset), o->in_type[0]);
}

static mx_code write_compare(mx_onnx_out *o) { return write_bool(o, o->row->onnx, o->in[0], o->in[1]); }
static mx_code write_compare_scalar(mx_onnx_out *o) { return write_bool(o, o->row->onnx, o->in[0], scalar(o)); }

static mx_code write_not_equal_of(mx_onnx_out *o, const char *b)
{
    const char *equal = mx_onnx_put(o, NULL, "Equal", o->in[0], b);
    mx_onnx_put_cast(o, o->out[0], mx_onnx_put(o, NULL, "Not", equal), o->out_type[0]);
    return mx_onnx_done(o);
}

static mx_code write_not_equal(mx_onnx_out *o) { return write_not_equal_of(o, o->in[1]); }
static mx_code write_not_equal_scalar(mx_onnx_out *o) { return write_not_equal_of(o, scalar(o)); }

/* ---- logic ----------------------------------------------------------------------------------------------------- */

static mx_code read_logic(mx_onnx_in *n)
{
    mx_array *a = mx_onnx_cast(n->in[0], MX_INT32), *b = n->n_in > 1 ? mx_onnx_cast(n->in[1], MX_INT32) : MX_NONE;
    mx_array *y = n->op[0] == 'A'   ? mx_logical_and(a, b)
                  : n->op[0] == 'O' ? mx_logical_or(a, b)
                  : n->op[0] == 'X' ? mx_logical_xor(a, b)
                                    : mx_logical_not(a);
    n->out[0] = mx_cast(y, .dtype = MX_BOOL);
    return MX_OK;
}

static const char *as_bool(mx_onnx_out *o, const char *x) { return mx_onnx_put_cast(o, NULL, x, MX_BOOL); }

static mx_code write_logic(mx_onnx_out *o)
{
    return write_bool(o, o->row->onnx, as_bool(o, o->in[0]), as_bool(o, o->in[1]));
}

static mx_code write_logic_scalar(mx_onnx_out *o)
{
    return write_bool(o, o->row->onnx, as_bool(o, o->in[0]), as_bool(o, scalar(o)));
}

static mx_code write_not(mx_onnx_out *o)
{
    mx_onnx_put_cast(o, o->out[0], mx_onnx_put(o, NULL, "Not", as_bool(o, o->in[0])), o->out_type[0]);
    return mx_onnx_done(o);
}

static mx_code read_where(mx_onnx_in *n)
{
    /* Broadcasts all three: x * 0 would spread infinities, so shapes come from comparisons. */
    mx_array *c = mx_onnx_cast(n->in[0], MX_INT32), *x = n->in[1], *y = n->in[2];
    if (!c || !x || !y)
        return mx_error_code();
    const mx_shape_t a = mx_array_shape(c), b = mx_array_shape(x), d = mx_array_shape(y);
    if (mx_shape_known(&a) && mx_shape_equal(&a, &b) && mx_shape_equal(&a, &d)) {
        n->out[0] = mx_where(c, x, y);
        return MX_OK;
    }
    const mx_dtype type = (mx_dtype)x->dtype;
    mx_array *all = mx_add(mx_add(mx_zeros_like(c), mx_cast(mx_zeros_like(x), .dtype = MX_INT32)),
                           mx_cast(mx_zeros_like(y), .dtype = MX_INT32));
    mx_array *zeros = mx_onnx_cast(all, type);
    n->out[0] = mx_where(mx_add(c, all), mx_broadcast_like(x, zeros), mx_broadcast_like(y, zeros));
    if (x->ndim != y->ndim || x->ndim != c->ndim) /* broadcast_like needs equal numbers of axes: addition does not */
        mx_error_clear(), n->out[0] = mx_where(mx_add(c, all), mx_add(x, zeros), mx_add(y, zeros));
    return MX_OK;
}

static mx_code write_where(mx_onnx_out *o)
{
    const char *condition = as_bool(o, o->in[0]);
    if (mx_onnx_out_rank(o, 0) == 1 && mx_onnx_out_rank(o, 1) > 1) { /* a condition per row */
        int64_t shape[MX_MAX_NDIM] = {-1};
        for (int i = 1; i < o->in_shape[1].ndim; i++)
            shape[i] = 1;
        condition = mx_onnx_put(o, NULL, "Reshape", condition, mx_onnx_put_ints(o, o->in_shape[1].ndim, shape));
    }
    mx_onnx_put(o, o->out[0], "Where", condition, o->in[1], o->in[2]);
    return mx_onnx_done(o);
}

const mx_onnx_row mx_onnx_compare[] = {
    BOTH("Equal", "broadcast_equal", read_compare, write_compare),
    BOTH("Equal", "_equal", read_compare, write_compare),
    BOTH("Equal", "_equal_scalar", read_compare, write_compare_scalar),
    WRITE(NULL, "broadcast_not_equal", write_not_equal),
    WRITE(NULL, "_not_equal", write_not_equal),
    WRITE(NULL, "_not_equal_scalar", write_not_equal_scalar),
    BOTH("Greater", "broadcast_greater", read_compare, write_compare),
    BOTH("Greater", "_greater", read_compare, write_compare),
    BOTH("Greater", "_greater_scalar", read_compare, write_compare_scalar),
    BOTH("GreaterOrEqual", "broadcast_greater_equal", read_compare, write_compare),
    BOTH("GreaterOrEqual", "_greater_equal", read_compare, write_compare),
    BOTH("GreaterOrEqual", "_greater_equal_scalar", read_compare, write_compare_scalar),
    BOTH("Less", "broadcast_lesser", read_compare, write_compare),
    BOTH("Less", "_lesser", read_compare, write_compare),
    BOTH("Less", "_lesser_scalar", read_compare, write_compare_scalar),
    BOTH("LessOrEqual", "broadcast_lesser_equal", read_compare, write_compare),
    BOTH("LessOrEqual", "_lesser_equal", read_compare, write_compare),
    BOTH("LessOrEqual", "_lesser_equal_scalar", read_compare, write_compare_scalar),
    BOTH("And", "broadcast_logical_and", read_logic, write_logic),
    BOTH("And", "_logical_and", read_logic, write_logic),
    BOTH("And", "_logical_and_scalar", read_logic, write_logic_scalar),
    BOTH("Or", "broadcast_logical_or", read_logic, write_logic),
    BOTH("Or", "_logical_or", read_logic, write_logic),
    BOTH("Or", "_logical_or_scalar", read_logic, write_logic_scalar),
    BOTH("Xor", "broadcast_logical_xor", read_logic, write_logic),
    BOTH("Xor", "_logical_xor", read_logic, write_logic),
    BOTH("Xor", "_logical_xor_scalar", read_logic, write_logic_scalar),
    BOTH("Not", "logical_not", read_logic, write_not),
    BOTH("Where", "where", read_where, write_where),
    {0}};
