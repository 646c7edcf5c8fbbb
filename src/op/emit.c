/* Operators as C text: places, numbers, calls that several operators write (see emit.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "op/emit.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "op/formula/movement.h"
#include "op/formula/pointwise.h"

const mx_emission *mx_emission_of(const mx_op *op)
{
    static const mx_emission same = {.write = NULL, .reads = 1}, moves = {.write = mx_emit_movement, .all = true},
                             pointwise = {.write = mx_emit_pointwise};
    const mx_pointwise *use = mx_pointwise_of(op);
    return op->emit                                    ? op->emit
           : op->movement                              ? &moves
           : op->flags & (MX_OP_VIEW | MX_OP_IDENTITY) ? &same
           : use && use->form != MX_FORM_BACKWARD      ? &pointwise
                                                       : NULL;
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

void mx_emit_use(const mx_emit_call *n, const char *kernel)
{
    if (!mx_dict_set_number(&n->file->used, kernel, 1))
        n->file->body.failed = true;
}

void mx_emit_float(mx_text *text, double value)
{
    char buffer[40];
    value = (float)value;
    if (value != value || value - value != 0) {
        mx_text_add(text, value != value ? "NAN" : value > 0 ? "INFINITY" : "-INFINITY");
        return;
    }
    snprintf(buffer, sizeof buffer, "%.9g", value);
    for (char *p = buffer; *p; p++)
        *p = *p == ',' ? '.' : *p; /* some locales */
    mx_text_print(text, "%s%sf", buffer, strpbrk(buffer, ".e") ? "" : ".0");
}

void mx_emit_longs(mx_text *text, int n, const int64_t *numbers)
{
    mx_text_add(text, "(const long[]){");
    for (int i = 0; i < n; i++)
        mx_text_print(text, "%s%lld", i ? ", " : "", (long long)numbers[i]);
    mx_text_add(text, n ? "}" : "0}");
}

void mx_emit_print(const mx_emit_call *n, const char *format, ...)
{
    char text[512];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    mx_text_add(&n->file->body, text);
}

void mx_emit_open(const mx_emit_call *n, const char *kernel, int count)
{
    mx_emit_use(n, kernel);
    mx_emit_print(n, "    %s(", kernel);
    for (int i = 0; i < count; i++)
        mx_emit_print(n, "%s, ", n->in[i].place);
    mx_emit_print(n, "%s, ", n->out[0].place);
}

mx_code mx_emit_fail(const mx_emit_call *n, const char *format, ...)
{
    char text[256];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    return mx_fail(MX_ERR_UNSUPPORTED, "mx_compile_to_c: node '%s' (%s): %s", n->name, n->op->name, text);
}

void mx_emit_add(const mx_emit_call *n, double value)
{
    mx_text_add(&n->file->body, ", ");
    mx_emit_float(&n->file->body, value);
}

const char *mx_emit_or_null(const mx_emit_call *n, int i) { return i < n->n_in ? n->in[i].place : "NULL"; }

void mx_emit_split(const mx_emit_call *n, mx_split s)
{
    mx_emit_print(n, "%lld, %lld, %lld", (long long)s.before, (long long)s.size, (long long)s.after);
}

mx_code mx_emit_close(const mx_emit_call *n)
{
    mx_text_add(&n->file->body, ");\n");
    return MX_OK;
}

/* ---- moving elements --------------------------------------------------------------------------------------------- */

void mx_emit_move(const mx_emit_call *n, const mx_move *move)
{
    mx_text *body = &n->file->body;
    int64_t count = 1;
    for (int i = 0; i < move->ndim; i++)
        count *= move->dim[i];
    if (!count)
        return;
    mx_emit_use(n, "move");
    mx_text_add(body, "    move(");
    if (move->input == MX_FROM_VALUE) {
        mx_text_add(body, "(const float[]){");
        mx_emit_float(body, move->value);
        mx_text_add(body, "}, ");
    } else
        mx_emit_print(n, "%s + %lld, ",
                      move->input == MX_FROM_OUTPUT ? n->out[move->output].place : n->in[move->input].place,
                      (long long)move->from_offset);
    mx_emit_print(n, "%s + %lld, %lld, %d, ", n->out[move->output].place, (long long)move->to_offset, (long long)count,
                  move->ndim);
    mx_emit_longs(body, move->ndim, move->dim);
    mx_text_add(body, ", ");
    mx_emit_longs(body, move->ndim, move->from);
    mx_text_add(body, ", ");
    mx_emit_longs(body, move->ndim, move->to);
    mx_text_add(body, ");\n");
}

/* The rule is called with arrays that have shapes only. */
mx_code mx_emit_moves(const mx_emit_call *n, const mx_movement *rule)
{
    MX_SCOPE;
    enum { MOST = 256 };
    mx_array *arrays[MOST];
    const int total = n->n_in + n->n_out;
    if (total > MOST)
        return mx_emit_fail(n, "%d inputs and outputs, at most %d can be written as C", total, MOST);
    for (int i = 0; i < total; i++) {
        const mx_shape_t *shape = i < n->n_in ? n->in[i].shape : n->out[i - n->n_in].shape;
        arrays[i] = shape ? mx_scope_add(mx_array_abstract(shape, MX_FLOAT32, mx_cpu(0))) : MX_NONE;
        if (!arrays[i])
            return mx_error_code();
    }
    const mx_kernel_call call = {
        .op = n->op, .attrs = n->attrs, .n_in = n->n_in, .n_out = n->n_out, .in = arrays, .out = arrays + n->n_in};
    for (int i = 0;; i++) {
        mx_move move = {0};
        if (!rule->plan(&call, i, &move))
            return MX_OK;
        if (move.input == MX_FROM_VALUE)
            memset(move.from, 0, sizeof move.from);
        if (n->out[move.output].there)
            mx_emit_move(n, &move);
    }
}

mx_code mx_emit_movement(const mx_emit_call *n) { return mx_emit_moves(n, n->op->movement); }

mx_code mx_emit_copy(const mx_emit_call *n)
{
    mx_emit_open(n, "copy", 1);
    mx_emit_print(n, "%lld", (long long)mx_shape_size(n->y));
    return mx_emit_close(n);
}

mx_code mx_emit_matmul(const mx_emit_call *n, bool ta, bool tb, double alpha)
{
    const mx_shape_t *a = n->x, *b = n->in[1].shape;
    if (a->ndim < 2 || a->ndim != b->ndim)
        return mx_emit_fail(n, "inputs have %d and %d axes, wanted two matrices or batches of them", a->ndim, b->ndim);
    const int64_t m = a->dim[a->ndim - (ta ? 1 : 2)], k = a->dim[a->ndim - (ta ? 2 : 1)];
    const int64_t cols = b->dim[b->ndim - (tb ? 2 : 1)];
    mx_emit_open(n, "matmul", 2);
    mx_emit_print(n, "%lld, %lld, %lld, %lld, %d, %d", (long long)mx_emit_over(mx_shape_size(n->y), m * cols),
                  (long long)m, (long long)cols, (long long)k, ta, tb);
    mx_emit_add(n, alpha);
    return mx_emit_close(n);
}

mx_split mx_emit_rows(const mx_emit_call *n)
{
    return (mx_split){n->x->dim[0], mx_emit_over(mx_shape_size(n->x), n->x->dim[0]), 1};
}

mx_code mx_emit_softmax(const mx_emit_call *n, mx_split s, double scale, bool logs, const char *lengths)
{
    mx_emit_open(n, "softmax", 1);
    mx_emit_print(n, "%s, ", lengths);
    mx_emit_split(n, s);
    mx_emit_add(n, scale);
    mx_emit_print(n, ", %d", logs);
    return mx_emit_close(n);
}

/* ---- windows ----------------------------------------------------------------------------------------------------- */

mx_code mx_emit_take_image(const mx_emit_call *n, int layout, mx_emit_image *image)
{
    if (n->x->ndim < 3 || n->x->ndim > 5)
        return mx_emit_fail(n, "data has %d axes, wanted 3 to 5 (batch, channels, one to three image axes)",
                            n->x->ndim);
    const bool last = layout >= 3; /* NWC, NHWC, NDHWC */
    *image = (mx_emit_image){n->x->ndim - 2, last, last ? 1 : 2, n->x->dim[last ? n->x->ndim - 1 : 1]};
    return MX_OK;
}

/* An image with fewer axes has size 1 along the others. */
mx_code mx_emit_close_windows(const mx_emit_call *n, const mx_emit_image *image, const mx_emit_windows *w)
{
    for (int i = image->axes; i < 3; i++)
        mx_emit_print(n, ", (window){1, 1, 1, 1, 0, 1}");
    for (int i = 0; i < image->axes; i++) {
        const int64_t in = n->x->dim[image->first + i], out = n->y->dim[image->first + i];
        mx_emit_print(n, ", (window){%lld, %lld, %lld, %lld, %lld, %lld}", (long long)in, (long long)out,
                      (long long)mx_emit_dim(&w->kernel, i, in), (long long)mx_emit_dim(&w->stride, i, 1),
                      (long long)mx_emit_dim(&w->pad, i, 0), (long long)mx_emit_dim(&w->dilate, i, 1));
    }
    return mx_emit_close(n);
}
