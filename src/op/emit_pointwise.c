/* Pointwise functions as C text, generated from the table in op/formula/pointwise.h (see emit.h).
 *
 * A formula is C over m_* functions; here they become the float functions of <math.h> or small helpers
 * (gluon/emit/kernels.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "op/formula/pointwise.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "op/emit.h"
#include "op/formula/math.h"
#include "op/formula/pointwise_numbers.h"

typedef struct formula {
    const char *name, *text; /* over x, or over a and b */
} formula;

static const formula formulas[MX_ROW_COUNT] = {
#define U(name, aliases, forward, ...) [MX_ROW_##name] = {#name, #forward},
#define B(id, elementwise, a1, broadcast, a2, scalar, a3, i1, o1, i2, o2, forward, ...) [MX_ROW_##id] = {#id, #forward},
#define C(id, elementwise, a1, broadcast, a2, scalar, a3, forward, ...) [MX_ROW_##id] = {#id, "(float)(" #forward ")"},
    MX_UNARY_ROWS(U) MX_LINEAR_ROWS(U) MX_STEP_ROWS(U) MX_BINARY_ROWS(B) MX_COMPARE_ROWS(C)
#undef U
#undef B
#undef C
};

/* Over x, p, q and r. */
static const formula number_formulas[] = {
#define TEXT(...) #__VA_ARGS__
#define P(name, ...) {#name, TEXT(__VA_ARGS__)},
    MX_NUMBER_ROWS(P)
#undef P
#undef TEXT
};

/* Names of m_* functions in the file; those missing here and in the helpers of kernels.c have no float form. */
static const struct {
    const char *name, *text;
} spelling[] = {
#define F(name) {"m_" #name, #name "f"},
    {"T", "float"},
    MX_LIBM_ROWS(F) MX_LIBM_PAIR_ROWS(F) F(lgamma)
#undef F
};
static const char *const helpers[] = {
#define H(name, expression) "m_" #name,
    MX_CHOICE_ROWS(H, H) MX_COMPOSED_ROWS(H, H)
#undef H
};

/* The name as spelled in the file; NULL: it has no float form. */
static const char *spell(const mx_emit_call *n, const char *word)
{
    for (size_t i = 0; i < sizeof spelling / sizeof *spelling; i++)
        if (!strcmp(spelling[i].name, word))
            return spelling[i].text;
    for (size_t i = 0; i < sizeof helpers / sizeof *helpers; i++)
        if (!strcmp(helpers[i], word))
            return mx_emit_use(n, word), word;
    return strncmp(word, "m_", 2) ? word : NULL;
}

/* Appends a formula to `out`; false: a function in it has no float form. */
static bool translate(const mx_emit_call *n, mx_text *out, const char *text)
{
    while (*text) {
        size_t length = 0;
        char word[32] = "";
        while ((isalnum((unsigned char)text[length]) || text[length] == '_') && length < sizeof word - 1)
            word[length] = text[length], length++;
        const char *spelled = length ? spell(n, word) : NULL;
        if (length && !spelled)
            return false;
        if (length)
            mx_text_add(out, spelled);
        else
            mx_text_add_char(out, *text);
        text += length ? length : 1;
    }
    return true;
}

/* Writes a kernel unless it is already written: head, formula, tail. */
static mx_code make_kernel(const mx_emit_call *n, const char *kernel, const formula *f, const char *head,
                           const char *tail)
{
    mx_emit_file *file = n->file;
    if (mx_dict_find(&file->made, kernel))
        return MX_OK;
    mx_text text = {0};
    const bool known = translate(n, &text, f->text);
    if (!known || !mx_text_get(&text) || !mx_dict_set_number(&file->made, kernel, 1)) {
        mx_text_free(&text);
        return known ? MX_ERR_MEMORY : mx_emit_fail(n, "'%s' has no counterpart in <math.h>", f->name);
    }
    mx_text_print(&file->kernels, "static void %s(%s%s%s", kernel, head, mx_text_get(&text), tail);
    mx_text_free(&text);
    return MX_OK;
}

mx_code mx_emit_unary(const mx_emit_call *n, int row)
{
    const formula *f = &formulas[row];
    char kernel[64];
    snprintf(kernel, sizeof kernel, "map%s%s", f->name[0] == '_' ? "" : "_", f->name);
    if (make_kernel(n, kernel, f,
                    "const float *from, float *to, long n)\n"
                    "{\n"
                    "    for (long i = 0; i < n; i++) {\n"
                    "        const float x = from[i];\n"
                    "        to[i] = ",
                    ";\n    }\n}\n"))
        return mx_error_code();
    mx_emit_open(n, kernel, 1);
    mx_emit_print(n, "%lld);\n", (long long)mx_shape_size(n->y));
    return MX_OK;
}

/* ---- an array and attributes ------------------------------------------------------------------------------------ */

mx_code mx_emit_numbers(const mx_emit_call *n, int row, const mx_emit_value *in, const double *number)
{
    char kernel[64];
    snprintf(kernel, sizeof kernel, "numbers_%s", number_formulas[row].name);
    if (make_kernel(n, kernel, &number_formulas[row],
                    "const float *from, float *to, long n, float p, float q, float r)\n"
                    "{\n"
                    "    for (long i = 0; i < n; i++) {\n"
                    "        float x = from[i], t = 0;\n"
                    "        (void)p, (void)q, (void)r, (void)t;\n"
                    "        to[i] = ",
                    ";\n    }\n}\n"))
        return mx_error_code();
    mx_emit_print(n, "    %s(%s, %s, %lld", kernel, in->place, n->out[0].place, (long long)mx_shape_size(n->y));
    for (int k = 0; k < 3; k++)
        mx_emit_add(n, number[k]);
    return mx_emit_close(n);
}

mx_code mx_emit_slopes(const mx_emit_call *n, int row, int64_t outer, int64_t channels, int64_t inner)
{
    char kernel[64];
    snprintf(kernel, sizeof kernel, "slopes_%s", number_formulas[row].name);
    if (make_kernel(n, kernel, &number_formulas[row],
                    "const float *from, const float *slope, float *to, long outer, long channels, long inner)\n"
                    "{\n"
                    "    for (long i = 0; i < outer * channels * inner; i++) {\n"
                    "        const float x = from[i], p = slope[i / inner % channels];\n"
                    "        to[i] = ",
                    ";\n    }\n}\n"))
        return mx_error_code();
    mx_emit_open(n, kernel, 2);
    mx_emit_print(n, "%lld, %lld, %lld", (long long)outer, (long long)channels, (long long)inner);
    return mx_emit_close(n);
}

mx_code mx_emit_number_op(const mx_emit_call *n)
{
    const mx_number_use *use = n->op->user;
    double number[3] = {0};
    use->numbers(n->attrs, n->x, number);
    return mx_emit_numbers(n, use->row, &n->in[0], number);
}

/* ---- two arrays ------------------------------------------------------------------------------------------------ */

static mx_code zip_equal(const mx_emit_call *n, const formula *f, const char *a, const char *b, const char *y,
                         int64_t size)
{
    char kernel[64];
    snprintf(kernel, sizeof kernel, "zip_%s", f->name);
    if (make_kernel(n, kernel, f,
                    "const float *first, const float *second, float *to, long n)\n"
                    "{\n"
                    "    for (long i = 0; i < n; i++) {\n"
                    "        const float a = first[i], b = second[i];\n"
                    "        to[i] = ",
                    ";\n    }\n}\n"))
        return mx_error_code();
    mx_emit_print(n, "    %s(%s, %s, %s, %lld);\n", kernel, a, b, y, (long long)size);
    return MX_OK;
}

/* Strides of `x` seen as an array of shape `y`: 0 where it repeats. */
static void repeating_strides(const mx_shape_t *x, const mx_shape_t *y, int64_t *stride)
{
    int64_t step = 1;
    for (int i = y->ndim - 1; i >= 0; i--) {
        const int k = i - (y->ndim - x->ndim);
        stride[i] = k < 0 || x->dim[k] == 1 ? 0 : step;
        step *= k < 0 ? 1 : x->dim[k];
    }
}

static mx_code zip_broadcast(const mx_emit_call *n, const formula *f, const char *a, const char *b, const char *y,
                             const mx_shape_t *as, const mx_shape_t *bs, const mx_shape_t *ys)
{
    char kernel[64];
    int64_t a_step[MX_MAX_NDIM], b_step[MX_MAX_NDIM];
    mx_text *body = &n->file->body;
    snprintf(kernel, sizeof kernel, "broadcast_%s", f->name);
    mx_emit_use(n, "advance");
    if (make_kernel(n, kernel, f,
                    "const float *first, const float *second, float *to, long count, int n, const long *dim,\n"
                    "                      const long *first_step, const long *second_step)\n"
                    "{\n"
                    "    long at[16] = {0}, p = 0, q = 0;\n"
                    "    for (long i = 0; i < count; i++) {\n"
                    "        const float a = first[p], b = second[q];\n"
                    "        to[i] = ",
                    ";\n        advance(n, at, dim, first_step, &p, second_step, &q);\n    }\n}\n"))
        return mx_error_code();
    repeating_strides(as, ys, a_step);
    repeating_strides(bs, ys, b_step);
    mx_text_print(body, "    %s(%s, %s, %s, %lld, %d, ", kernel, a, b, y, (long long)mx_shape_size(ys), (int)ys->ndim);
    mx_emit_longs(body, ys->ndim, ys->dim);
    mx_text_add(body, ", ");
    mx_emit_longs(body, ys->ndim, a_step);
    mx_text_add(body, ", ");
    mx_emit_longs(body, ys->ndim, b_step);
    mx_text_add(body, ");\n");
    return MX_OK;
}

mx_code mx_emit_zip(const mx_emit_call *n, int row, const mx_emit_value *a, const mx_emit_value *b,
                    const mx_emit_value *y)
{
    const formula *f = &formulas[row];
    const int64_t size = mx_shape_size(y->shape);
    if (mx_shape_size(a->shape) == size && mx_shape_size(b->shape) == size)
        return zip_equal(n, f, a->place, b->place, y->place, size);
    return zip_broadcast(n, f, a->place, b->place, y->place, a->shape, b->shape, y->shape);
}

/* ---- an array and a number --------------------------------------------------------------------------------------- */

static mx_code with_scalar(const mx_emit_call *n, const formula *f, bool reversed)
{
    char kernel[64];
    snprintf(kernel, sizeof kernel, "%s_%s", reversed ? "number" : "scalar", f->name);
    if (make_kernel(n, kernel, f,
                    reversed ? "const float *from, float *to, long n, float a)\n"
                               "{\n"
                               "    for (long i = 0; i < n; i++) {\n"
                               "        const float b = from[i];\n"
                               "        to[i] = "
                             : "const float *from, float *to, long n, float b)\n"
                               "{\n"
                               "    for (long i = 0; i < n; i++) {\n"
                               "        const float a = from[i];\n"
                               "        to[i] = ",
                    ";\n    }\n}\n"))
        return mx_error_code();
    mx_emit_open(n, kernel, 1);
    mx_emit_print(n, "%lld, ", (long long)mx_shape_size(n->y));
    mx_emit_float(&n->file->body, *(const double *)n->attrs);
    return mx_emit_close(n);
}

/* ---- operators --------------------------------------------------------------------------------------------------- */

mx_code mx_emit_pointwise(const mx_emit_call *n)
{
    const mx_pointwise *use = mx_pointwise_of(n->op);
    switch (use->form) {
    case MX_FORM_UNARY: return mx_emit_unary(n, use->row);
    case MX_FORM_BINARY: return mx_emit_zip(n, use->row, &n->in[0], &n->in[1], &n->out[0]);
    case MX_FORM_SCALAR:
    case MX_FORM_REVERSED: return with_scalar(n, &formulas[use->row], use->form == MX_FORM_REVERSED);
    default: return mx_emit_fail(n, "this operator cannot be written as C");
    }
}
