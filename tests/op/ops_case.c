/* Reading samples, drawing inputs, reporting (see ops_case.h).  SPDX-License-Identifier: Apache-2.0 */
#include "ops_case.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "ndarray/convert.h"

ops_totals ops_total;

/* ---- reporting ------------------------------------------------------------------------------------------ */

#define PRINTED 6 /* failures of one operator that are printed */
static int failed_here;

void ops_fail_reset(void) { failed_here = 0; }

void ops_fail(const ops_case *c, const char *format, ...)
{
    ops_total.failures++;
    if (++failed_here > PRINTED)
        return;
    printf("  %s", c->op->name);
    if (c->sample)
        printf(" sample %d [%s | %s | %s]", c->number, c->sample->shapes, c->sample->attrs ? c->sample->attrs : "",
               c->sample->note ? c->sample->note : "");
    printf(": ");
    va_list args;
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    printf("%s\n", failed_here == PRINTED ? " (further failures of this operator are not printed)" : "");
}

void ops_check_error(const ops_case *c, const char *what)
{
    if (!mx_has_error())
        ops_fail(c, "%s: failed without an error", what);
    else if (!strstr(mx_error_message(), c->op->name))
        ops_fail(c, "%s: the message does not name the operator: \"%s\"", what, mx_error_message());
    mx_error_clear();
}

/* ---- samples -------------------------------------------------------------------------------------------- */

int ops_sample_count(const mx_op *op)
{
    int n = 0;
    while (op->samples && op->samples[n].shapes)
        n++;
    return n;
}

static bool parse_shape(const char *text, size_t length, mx_shape_t *shape)
{
    shape->ndim = 0;
    if (length == 2 && !strncmp(text, "()", 2))
        return true;
    for (const char *p = text, *end = text + length; p < end;) {
        char *after;
        if (shape->ndim == MX_MAX_NDIM)
            return false;
        shape->dim[shape->ndim++] = strtoll(p, &after, 10);
        if (after == p || after > end)
            return false;
        p = after + strspn(after, " ");
        p += p < end && *p == ',';
    }
    return true;
}

static bool parse_notes(ops_case *c, bool *absent)
{
    const char *p = c->sample->note ? c->sample->note : "";
    for (size_t n; *(p += strspn(p, " ,")); p += n) {
        n = strcspn(p, " ,");
        int k = 0;
        const struct {
            const char *word;
            bool *flag;
        } flags[] = {{"distinct", &c->distinct}, {"nograd", &c->nograd},        {"train", &c->train},
                     {"random", &c->random},     {"floatonly", &c->float_only}, {"f32only", &c->f32_only},
                     {"positive", &c->positive}, {"dominant", &c->dominant},    {"symmetric", &c->symmetric}};
        bool known = false;
        for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
            if (n == strlen(flags[i].word) && !strncmp(p, flags[i].word, n))
                known = *flags[i].flag = true;
        if (sscanf(p, "int:%d", &k) == 1 && k >= 0 && k < OPS_MAX_IN)
            known = c->integer[k] = true;
        if (sscanf(p, "absent:%d", &k) == 1 && k >= 0 && k < OPS_MAX_IN)
            known = absent[k] = true;
        if (!known)
            return ops_fail(c, "unknown note '%.*s'", (int)n, p), false;
    }
    return true;
}

/* An absent input has an empty place in the shapes, or none at all when the list is too short for one. */
static bool parse_shapes(ops_case *c, const bool *absent)
{
    const char *p = c->sample->shapes;
    int given = *p ? 1 : 0, missing = 0;
    for (const char *q = p; *q; q++)
        given += *q == ';';
    for (int k = 0; k < OPS_MAX_IN; k++)
        missing += absent[k];
    const bool no_places = given + missing <= c->op->declared_inputs;
    int left = given;
    while (left > 0 || (c->n_in < OPS_MAX_IN && absent[c->n_in])) {
        int k = c->n_in++;
        if (k >= OPS_MAX_IN)
            return ops_fail(c, "too many inputs"), false;
        size_t length = left > 0 ? strcspn(p, ";") : 0;
        c->absent[k] = absent[k] || (left > 0 && !length);
        c->shape[k] = MX_UNKNOWN_SHAPE;
        if (absent[k] && (no_places || !left) && length)
            continue; /* this shape belongs to the next input */
        if (!c->absent[k] && !parse_shape(p, length, &c->shape[k]))
            return ops_fail(c, "the shapes cannot be read"), false;
        p += length + (p[length] == ';');
        left--;
    }
    while (!(c->op->flags & MX_OP_LIST) && c->n_in < c->op->declared_inputs) { /* omitted at the end */
        c->absent[c->n_in] = true;
        c->shape[c->n_in++] = MX_UNKNOWN_SHAPE;
    }
    return true;
}

static bool parse_attrs(ops_case *c)
{
    const mx_schema *schema = c->op->schema;
    const char *text = c->sample->attrs ? c->sample->attrs : "";
    if (!schema)
        return !*text || (ops_fail(c, "attributes for an operator without any"), false);
    c->attrs = malloc(schema->size);
    memcpy(c->attrs, c->op->defaults, schema->size);
    if (mx_schema_parse(schema, c->attrs, c->op->name, text) || mx_schema_check(schema, c->attrs, c->op->name)) {
        ops_fail(c, "attributes: %s", mx_error_message());
        mx_error_clear();
        return false;
    }
    return true;
}

bool ops_case_open(ops_case *c, mx_op *op, int number)
{
    bool absent[OPS_MAX_IN] = {false};
    *c = (ops_case){.op = op, .sample = &op->samples[number], .number = number};
    c->low = c->sample->low, c->high = c->sample->high;
    if (c->low == 0 && c->high == 0)
        c->low = -2, c->high = 2;
    if (!parse_notes(c, absent) || !parse_shapes(c, absent) || !parse_attrs(c))
        return ops_case_close(c), false;
    if (c->positive && c->low <= 0)
        c->low = c->high / 64;
    c->n_out = mx_op_count_out(op, c->attrs);
    c->n_visible = mx_op_count_visible(op, c->attrs);
    if (c->n_out < 0 || c->n_out > MX_MAX_OUTPUTS || c->n_visible > c->n_out) {
        ops_fail(c, "%d outputs, %d of them visible", c->n_out, c->n_visible);
        return ops_case_close(c), false;
    }
    return true;
}

void ops_case_close(ops_case *c)
{
    free(c->attrs);
    c->attrs = NULL;
}

bool ops_mutates(const mx_op *op, int i) { return i < 32 && (op->mutates >> i & 1); }

/* ---- values --------------------------------------------------------------------------------------------- */

double ops_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 11) * 0x1p-53;
}

uint64_t ops_seed(const ops_case *c, int stream)
{
    uint64_t h = 14695981039346656037u;
    for (const char *p = c->op->name; *p; p++)
        h = (h ^ (unsigned char)*p) * 1099511628211u;
    h = (h ^ (uint64_t)c->number) * 1099511628211u;
    h = (h ^ (uint64_t)stream) * 1099511628211u;
    for (int i = 0; i < 4; i++)
        ops_random(&h);
    return h;
}

void ops_values_add(ops_values *values, const mx_shape_t *shape)
{
    const int i = values->n++;
    values->shape[i] = *shape;
    values->size[i] = mx_shape_known(shape) ? mx_shape_size(shape) : 0;
    /* One element more than needed, so that a reference that reads an empty array finds a number. */
    values->v[i] = shape->ndim < 0 ? NULL : calloc((size_t)values->size[i] + 1, sizeof(double));
}

void ops_values_free(ops_values *values)
{
    for (int i = 0; i < values->n; i++)
        free(values->v[i]);
    values->n = 0;
}

void ops_values_copy(ops_values *to, const ops_values *from)
{
    to->n = 0;
    for (int i = 0; i < from->n; i++) {
        ops_values_add(to, &from->shape[i]);
        if (from->v[i])
            memcpy(to->v[i], from->v[i], (size_t)from->size[i] * sizeof(double));
    }
}

/* The range of a type: integers in tests are small enough for every type. */
static void type_range(mx_dtype dtype, double *low, double *high)
{
    const char class = mx_dtype_table[dtype].kind;
    *low = class == 'u' || class == 'b' ? 0 : -127;
    *high = class == 'b' ? 1 : class == 'u' ? 255 : 127;
}

static void draw_distinct(double *v, int64_t n, double low, double high, bool whole, uint64_t *state)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t k = (int64_t)(ops_random(state) * (double)(i + 1));
        v[i] = v[k];
        v[k] = (double)i;
    }
    for (int64_t i = 0; i < n; i++)
        v[i] = whole ? low + v[i] : (float)(low + (high - low) * (v[i] + 0.25 + 0.5 * ops_random(state)) / (double)n);
}

static bool all_differ(const double *v, int64_t n, mx_dtype dtype)
{
    if (dtype != MX_FLOAT16 && dtype != MX_BFLOAT16)
        return true;
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < i; k++)
            if (v[i] == v[k])
                return false;
    return true;
}

static void round_to(double *v, int64_t n, mx_dtype dtype)
{
    char element[8];
    for (int64_t i = 0; i < n; i++) {
        mx_convert(element, dtype, &v[i], MX_FLOAT64, 1);
        mx_convert(&v[i], MX_FLOAT64, element, dtype, 1);
    }
}

static bool draw_one(const ops_case *c, int k, mx_dtype dtype, double *v, int64_t n)
{
    uint64_t state = ops_seed(c, k);
    const bool whole = !mx_dtype_is_float(dtype) || c->integer[k];
    double low = c->low, high = c->high, least, most;
    type_range(dtype, &least, &most);
    if (whole) {
        low = ceil(low), high = c->integer[k] ? ceil(high) - 1 : floor(high);
        if (!mx_dtype_is_float(dtype))
            low = fmax(low, least), high = fmin(high, most);
        if (low > high)
            return false;
    }
    if (c->distinct) {
        if (whole && c->integer[k] && high - low + 1 < (double)n)
            goto repeated; /* indices cannot all differ */
        if (whole && low + (double)n - 1 > (mx_dtype_is_float(dtype) ? 2000 : most))
            return false;
        draw_distinct(v, n, low, high, whole, &state);
        round_to(v, n, dtype);
        return all_differ(v, n, dtype);
    }
repeated:
    for (int64_t i = 0; i < n; i++)
        v[i] = whole ? low + floor(ops_random(&state) * (high - low + 1))
                     : (float)(low + (high - low) * ops_random(&state));
    if (mx_dtype_is_float(dtype))
        round_to(v, n, dtype);
    return true;
}

/* A diagonal larger than the rest of its row, in all square matrices of the last two axes. */
static void make_dominant(const ops_case *c, mx_dtype dtype, const mx_shape_t *shape, double *v, int64_t size)
{
    const int64_t n = shape->ndim < 2 ? 0 : shape->dim[shape->ndim - 1];
    if (!n || shape->dim[shape->ndim - 2] != n)
        return;
    for (int64_t i = 0; i < size; i++)
        if (i / n % n == i % n)
            v[i] += (double)n * c->high;
    round_to(v, size, dtype);
}

/* Input 0 of symmetric cases is seen as (A + A') / 2. */
void ops_make_symmetric(const mx_shape_t *shape, double *v, int64_t size)
{
    const int64_t n = shape->ndim < 2 ? 0 : shape->dim[shape->ndim - 1];
    for (int64_t i = 0; n && shape->dim[shape->ndim - 2] == n && i < size; i++) {
        const int64_t mirror = i - i % (n * n) + i % n * n + i / n % n;
        if (mirror > i)
            v[i] = v[mirror] = (v[i] + v[mirror]) / 2;
    }
}

bool ops_draw(const ops_case *c, mx_dtype dtype, ops_values *in)
{
    bool ok = true;
    in->n = 0;
    for (int k = 0; k < c->n_in; k++) {
        ops_values_add(in, &c->shape[k]);
        if (in->v[k])
            ok &= draw_one(c, k, dtype, in->v[k], in->size[k]);
        if (in->v[k] && c->dominant)
            make_dominant(c, dtype, &in->shape[k], in->v[k], in->size[k]);
        if (in->v[k] && c->symmetric && !k) {
            ops_make_symmetric(&in->shape[k], in->v[k], in->size[k]);
            round_to(in->v[k], in->size[k], dtype);
        }
    }
    if (!ok)
        ops_values_free(in);
    return ok;
}
