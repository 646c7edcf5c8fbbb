/* Pointwise kernels of a network that is written as C, made from the rows of op/formula/pointwise.h.
 *
 * A row's formula is C over m_* functions; here they become the float functions of <math.h> or small helpers that are
 * written out (kernels.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "op/formula/pointwise.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "gluon/emit/emit.h"
#include "gluon/op.gen.h"

typedef struct formula {
    const char *name, *text;                      /* over x, or over a and b */
    const char *elementwise, *broadcast, *scalar; /* operators; NULL: a function of x, whose operator is `name` */
} formula;

static const formula formulas[] = {
#define U(name, aliases, forward, ...) {#name, #forward, NULL, NULL, NULL},
#define B(id, elementwise, a1, broadcast, a2, scalar, a3, i1, o1, i2, o2, forward, ...) \
    {#id, #forward, elementwise, broadcast, scalar},
#define C(id, elementwise, a1, broadcast, a2, scalar, a3, forward, ...) \
    {#id, "(float)(" #forward ")", elementwise, broadcast, scalar},
    MX_UNARY_ROWS(U) MX_LINEAR_ROWS(U) MX_STEP_ROWS(U) MX_BINARY_ROWS(B) MX_COMPARE_ROWS(C)
#undef U
#undef B
#undef C
};
#define FORMULAS ((int)(sizeof formulas / sizeof *formulas))

static const struct {
    const char *id, *op;
} reversed[] = {
#define R(id, name, ...) {#id, name},
    MX_REVERSED_ROWS(R)
#undef R
};

/* What m_* functions are called in the file; those that are not here and not helpers of kernels.c have no float form. */
static const struct {
    const char *name, *text;
} spelling[] = {
    {"T", "float"},          {"m_half", "0.5f"},      {"m_degree", "57.295780f"}, {"m_fabs", "fabsf"},
    {"m_sqrt", "sqrtf"},     {"m_cbrt", "cbrtf"},     {"m_exp", "expf"},          {"m_expm1", "expm1f"},
    {"m_log", "logf"},       {"m_log10", "log10f"},   {"m_log2", "log2f"},        {"m_log1p", "log1pf"},
    {"m_sin", "sinf"},       {"m_cos", "cosf"},       {"m_tan", "tanf"},          {"m_asin", "asinf"},
    {"m_acos", "acosf"},     {"m_atan", "atanf"},     {"m_sinh", "sinhf"},        {"m_cosh", "coshf"},
    {"m_tanh", "tanhf"},     {"m_asinh", "asinhf"},   {"m_acosh", "acoshf"},      {"m_atanh", "atanhf"},
    {"m_tgamma", "tgammaf"}, {"m_lgamma", "lgammaf"}, {"m_erf", "erff"},          {"m_rint", "rintf"},
    {"m_round", "roundf"},   {"m_ceil", "ceilf"},     {"m_floor", "floorf"},      {"m_trunc", "truncf"},
    {"m_hypot", "hypotf"},   {"m_pow", "powf"},
};
static const char *const helpers[] = {"m_sigmoid", "m_softplus", "m_sign", "m_max", "m_min", "m_div", "m_mod"};

/* The word as the file spells it; NULL: it has no float form. */
static const char *spell(mx_emit *emit, const char *word)
{
    for (size_t i = 0; i < sizeof spelling / sizeof *spelling; i++)
        if (!strcmp(spelling[i].name, word))
            return spelling[i].text;
    for (size_t i = 0; i < sizeof helpers / sizeof *helpers; i++)
        if (!strcmp(helpers[i], word))
            return mx_emit_use(emit, word), word;
    return strncmp(word, "m_", 2) ? word : NULL;
}

/* Appends a formula to `out`; false: a function in it has no float form. */
static bool translate(mx_emit *emit, mx_text *out, const char *text)
{
    while (*text) {
        size_t n = 0;
        char word[32] = "";
        while ((isalnum((unsigned char)text[n]) || text[n] == '_') && n < sizeof word - 1)
            word[n] = text[n], n++;
        const char *spelled = n ? spell(emit, word) : NULL;
        if (n && !spelled)
            return false;
        if (n)
            mx_text_add(out, spelled);
        else
            mx_text_add_char(out, *text);
        text += n ? n : 1;
    }
    return true;
}

static const formula *find_formula(const char *name)
{
    for (int i = 0; i < FORMULAS; i++)
        if (!strcmp(formulas[i].name, name))
            return &formulas[i];
    return NULL;
}

/* Writes a kernel unless it is there: head, the formula, tail. */
static mx_code make_kernel(const mx_emit_node *n, const char *kernel, const formula *f, const char *head,
                           const char *tail)
{
    mx_emit *emit = n->emit;
    if (mx_dict_find(&emit->made, kernel))
        return MX_OK;
    mx_text text = {0};
    const bool known = translate(emit, &text, f->text);
    if (!known || !mx_text_get(&text) || !mx_dict_set_number(&emit->made, kernel, 1)) {
        mx_text_free(&text);
        return known ? MX_ERR_MEMORY : mx_emit_fail(n, "'%s' has no counterpart in <math.h>", f->name);
    }
    mx_text_print(&emit->kernels, "static void %s(%s%s%s", kernel, head, mx_text_get(&text), tail);
    mx_text_free(&text);
    return MX_OK;
}

mx_code mx_emit_unary(const mx_emit_node *n, const char *function)
{
    const formula *f = find_formula(function);
    char kernel[64];
    snprintf(kernel, sizeof kernel, "map%s%s", function[0] == '_' ? "" : "_", function);
    if (make_kernel(n, kernel, f,
                    "const float *from, float *to, long n)\n"
                    "{\n"
                    "    for (long i = 0; i < n; i++) {\n"
                    "        const float x = from[i];\n"
                    "        to[i] = ",
                    ";\n    }\n}\n"))
        return mx_error_code();
    mx_emit_open(n, kernel, 1);
    mx_text_print(&n->emit->body, "%lld);\n", (long long)mx_shape_size(n->y));
    return MX_OK;
}

/* ---- two arrays ------------------------------------------------------------------------------------------------ */

static mx_code zip_equal(const mx_emit_node *n, const formula *f, const char *a, const char *b, const char *y,
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
    mx_text_print(&n->emit->body, "    %s(%s, %s, %s, %lld);\n", kernel, a, b, y, (long long)size);
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

static mx_code zip_broadcast(const mx_emit_node *n, const formula *f, const char *a, const char *b, const char *y,
                             const mx_shape_t *as, const mx_shape_t *bs, const mx_shape_t *ys)
{
    char kernel[64];
    int64_t a_step[MX_MAX_NDIM], b_step[MX_MAX_NDIM];
    mx_text *body = &n->emit->body;
    snprintf(kernel, sizeof kernel, "broadcast_%s", f->name);
    mx_emit_use(n->emit, "advance");
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

mx_code mx_emit_zip(const mx_emit_node *n, const char *function, int64_t a, int64_t b, int64_t y)
{
    const formula *f = find_formula(function);
    const mx_shape_t *shape = n->emit->shape;
    char at[3][48];
    mx_emit_at(n->emit, a, at[0]);
    mx_emit_at(n->emit, b, at[1]);
    mx_emit_at(n->emit, y, at[2]);
    const int64_t size = mx_shape_size(&shape[y]);
    if (mx_shape_size(&shape[a]) == size && mx_shape_size(&shape[b]) == size)
        return zip_equal(n, f, at[0], at[1], at[2], size);
    return zip_broadcast(n, f, at[0], at[1], at[2], &shape[a], &shape[b], &shape[y]);
}

/* ---- an array and a number --------------------------------------------------------------------------------------- */

static mx_code with_scalar(const mx_emit_node *n, const formula *f, bool turned)
{
    const mx_scalar_attrs *attrs = n->node->attrs;
    char kernel[64];
    snprintf(kernel, sizeof kernel, "%s_%s", turned ? "number" : "scalar", f->name);
    if (make_kernel(n, kernel, f,
                    turned ? "const float *from, float *to, long n, float a)\n"
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
    mx_text_print(&n->emit->body, "%lld, ", (long long)mx_shape_size(n->y));
    mx_emit_float(&n->emit->body, attrs->scalar);
    mx_text_add(&n->emit->body, ");\n");
    return MX_OK;
}

/* ---- the rows as operators --------------------------------------------------------------------------------------- */

static mx_code write_row(const mx_emit_node *n)
{
    const char *op = n->node->op->name;
    for (size_t i = 0; i < sizeof reversed / sizeof *reversed; i++)
        if (!strcmp(reversed[i].op, op))
            return with_scalar(n, find_formula(reversed[i].id), true);
    for (int i = 0; i < FORMULAS; i++) {
        const formula *f = &formulas[i];
        if (!f->elementwise && !strcmp(f->name, op))
            return mx_emit_unary(n, op);
        if (f->elementwise && !strcmp(f->scalar, op))
            return with_scalar(n, f, false);
        if (f->elementwise && (!strcmp(f->elementwise, op) || !strcmp(f->broadcast, op)))
            return mx_emit_zip(n, f->name, n->in[0], n->in[1], n->out);
    }
    return mx_emit_fail(n, "this operator cannot be written as C");
}

const mx_emit_row *mx_emit_find_pointwise(const mx_op *op)
{
    static const mx_emit_row row = {.op = "", .write = write_row};
    bool found = false;
    for (size_t i = 0; i < sizeof reversed / sizeof *reversed; i++)
        found |= !strcmp(reversed[i].op, op->name);
    for (int i = 0; i < FORMULAS && !found; i++) {
        const formula *f = &formulas[i];
        found = !f->elementwise ? !strcmp(f->name, op->name)
                                : !strcmp(f->scalar, op->name) || !strcmp(f->elementwise, op->name) ||
                                      !strcmp(f->broadcast, op->name);
    }
    return found ? &row : NULL;
}
