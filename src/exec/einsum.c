/* Einstein's summation: "bij,bjk->bik" on arrays and symbols.
 *
 * Operands are combined from left to right.  The labels of two operands fall into four groups:
 *
 *     batch    in both, needed later          kept
 *     summed   in both, not needed later      summed over
 *     left     in the left one only           kept
 *     right    in the right one only          kept
 *
 * Transposed and merged to (batch, left, summed) and (batch, summed, right), their product is one batch_dot; its axes are
 * then split again.  Labels that only one operand has and nobody needs are summed first.  No step depends on sizes, so
 * the graph of a symbol works for all of them, and gradients are those of the operators.
 *
 * A term without labels is a number, an array of shape (1,).  Axes of "..." have labels below 'A', counted from the right.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <string.h>

#include "base/error.h"
#include "exec/list.h"
#include "gluon/einsum.h"
#include "gluon/op.gen.h"
#include "graph/node.h"

enum { MOST_TERMS = 16, ELLIPSIS = 1 }; /* operands; the label of the rightmost axis of "..." */

typedef struct term {
    mx_array *array;
    int n;                   /* labels */
    char label[MX_MAX_NDIM]; /* of the axes */
} term;

typedef struct call {
    const char *text; /* the subscripts */
    int count;
    term in[MOST_TERMS];
    term out; /* its array is unused */
} call;

static int find(const term *t, char label)
{
    const char *at = t->n ? memchr(t->label, label, (size_t)t->n) : NULL;
    return at ? (int)(at - t->label) : -1;
}

/* ---- subscripts ---------------------------------------------------------------------------------------------- */

static mx_code add_label(const call *c, term *t, char label)
{
    if (t->n == MX_MAX_NDIM)
        return mx_fail(MX_ERR_ARGUMENT, "einsum: a term of '%s' has more than %d labels", c->text, MX_MAX_NDIM);
    t->label[t->n++] = label;
    return MX_OK;
}

/* Reads one term up to ',' '-' or the end; `dots`: number of axes of "...", -1 if it is not known. */
static const char *read_term(const call *c, const char *p, term *t, int dots)
{
    for (; *p && *p != ',' && *p != '-'; p++) {
        if (*p == ' ')
            continue;
        if (!strncmp(p, "...", 3)) {
            if (dots < 0)
                return mx_fail_null(MX_ERR_SHAPE, "einsum: '...' in '%s' needs operands of known rank", c->text);
            for (int i = dots; i > 0; i--)
                if (add_label(c, t, (char)(ELLIPSIS + i - 1)))
                    return NULL;
            p += 2;
        } else if (!isalpha((unsigned char)*p))
            return mx_fail_null(MX_ERR_ARGUMENT, "einsum: '%c' in '%s' is not a letter, ',', '->' or '...'", *p,
                                c->text);
        else if (add_label(c, t, *p))
            return NULL;
    }
    return p;
}

/* How many axes "..." stands for in the term that starts at p. */
static int dots_of(const char *p, const mx_array *x)
{
    int letters = 0;
    for (; *p && *p != ',' && *p != '-'; p++)
        letters += isalpha((unsigned char)*p) != 0;
    return x->ndim < 0 ? -1 : x->ndim - letters;
}

/* Without "->" the result has the labels that occur once, in alphabetic order, after those of "...". */
static mx_code imply_result(call *c)
{
    for (int label = 1; label < 128; label++) {
        int times = 0;
        for (int i = 0; i < c->count; i++)
            for (int k = 0; k < c->in[i].n; k++)
                times += c->in[i].label[k] == label;
        if (times && label < 'A') /* "..." */
            memmove(c->out.label + 1, c->out.label, (size_t)c->out.n), c->out.label[0] = (char)label, c->out.n++;
        else if (times == 1 && add_label(c, &c->out, (char)label))
            return mx_error_code();
    }
    return MX_OK;
}

static mx_code read_result(call *c, const char *p)
{
    int dots = 0;
    for (int i = 0; i < c->count; i++)
        for (int k = 0; k < c->in[i].n; k++)
            if (c->in[i].label[k] < 'A' && c->in[i].label[k] > dots)
                dots = c->in[i].label[k];
    if (p[0] != '-' || p[1] != '>' || !(p = read_term(c, p + 2, &c->out, dots)) || *p)
        return mx_error_code() ? mx_error_code()
                               : mx_fail(MX_ERR_ARGUMENT, "einsum: '%s' is not like 'ij,jk->ik'", c->text);
    for (int k = 0; k < c->out.n; k++) {
        bool found = false;
        for (int i = 0; i < c->count; i++)
            found |= find(&c->in[i], c->out.label[k]) >= 0;
        if (!found || find(&c->out, c->out.label[k]) != k)
            return mx_fail(MX_ERR_ARGUMENT, "einsum: '%c' in the result of '%s' %s", c->out.label[k], c->text,
                           found ? "occurs twice" : "is in no operand");
    }
    return MX_OK;
}

static mx_code read_subscripts(call *c, mx_arrays operands)
{
    const char *p = c->text;
    for (int i = 0;; i++, p++) {
        if (i == operands.n || i == MOST_TERMS)
            return mx_fail(MX_ERR_ARGUMENT, "einsum: '%s' has more terms than the %lld operands given", c->text,
                           (long long)operands.n);
        term *t = &c->in[c->count++];
        t->array = operands.v[i];
        const int dots = dots_of(p, t->array);
        if (dots < 0 && t->array->ndim >= 0)
            return mx_fail(MX_ERR_SHAPE, "einsum: operand %d has %d axes, '%s' names more", i, t->array->ndim, c->text);
        if (!(p = read_term(c, p, t, dots)))
            return mx_error_code();
        if (t->array->ndim >= 0 && t->n != t->array->ndim)
            return mx_fail(MX_ERR_SHAPE, "einsum: operand %d has %d axes, '%s' names %d", i, t->array->ndim, c->text,
                           t->n);
        if (*p != ',')
            break;
    }
    if (c->count != operands.n)
        return mx_fail(MX_ERR_ARGUMENT, "einsum: '%s' has %d terms, there are %lld operands", c->text, c->count,
                       (long long)operands.n);
    return *p ? read_result(c, p) : imply_result(c);
}

/* ---- axes ---------------------------------------------------------------------------------------------------- */

static void drop_label(term *t, int at) { memmove(t->label + at, t->label + at + 1, (size_t)(--t->n - at)); }

/* "ii": the diagonal. */
static mx_code take_diagonals(term *t)
{
    for (int i = 0; i < t->n; i++)
        for (int j = i + 1; j < t->n; j++)
            if (t->label[i] == t->label[j]) {
                const char label = t->label[i];
                if (!(t->array = mx_diag(t->array, .axis1 = i, .axis2 = j)))
                    return mx_error_code();
                drop_label(t, j), drop_label(t, i);
                t->label[t->n++] = label;
                i = -1;
                break;
            }
    return MX_OK;
}

/* Sums over the axes whose labels `unwanted` has. */
static mx_code sum_over(term *t, const bool *unwanted)
{
    mx_dims axes = {.n = 0};
    for (int i = t->n - 1; i >= 0; i--)
        if (unwanted[(int)t->label[i]]) {
            axes.d[axes.n++] = i;
            drop_label(t, i);
        }
    if (axes.n)
        t->array = mx_sum(t->array, .axis = axes);
    return t->array ? MX_OK : mx_error_code();
}

/* Sizes agree; an axis of size 1 beside another size is broadcast, that is, dropped. */
static mx_code agree_on_sizes(call *c)
{
    int64_t size[128];
    for (int label = 0; label < 128; label++)
        size[label] = -1;
    for (int i = 0; i < c->count; i++)
        for (int k = 0; k < c->in[i].n && c->in[i].array->ndim >= 0; k++) {
            const int label = c->in[i].label[k];
            const int64_t n = c->in[i].array->shape[k];
            if (n >= 0 && n != 1 && size[label] >= 0 && size[label] != 1 && n != size[label])
                return mx_fail(MX_ERR_SHAPE, "einsum: '%c' in '%s' has %lld elements in operand %d, %lld before",
                               label < 'A' ? '.' : label, c->text, (long long)n, i, (long long)size[label]);
            size[label] = size[label] == -1 || size[label] == 1 ? n : size[label];
        }
    for (int i = 0; i < c->count; i++) {
        bool unwanted[128] = {false};
        for (int k = 0; k < c->in[i].n && c->in[i].array->ndim >= 0; k++)
            unwanted[(int)c->in[i].label[k]] = c->in[i].array->shape[k] == 1 && size[(int)c->in[i].label[k]] != 1;
        if (sum_over(&c->in[i], unwanted))
            return mx_error_code();
    }
    return MX_OK;
}

/* The axes in the order of `labels`, all of which t has. */
static mx_code arrange(term *t, const char *labels, int n)
{
    mx_dims axes = {.n = n};
    bool same = true;
    for (int i = 0; i < n; i++) {
        axes.d[i] = find(t, labels[i]);
        same &= axes.d[i] == i;
    }
    if (!same)
        t->array = mx_transpose(t->array, .axes = axes);
    memcpy(t->label, labels, (size_t)n);
    return t->array ? MX_OK : mx_error_code();
}

/* ---- products ------------------------------------------------------------------------------------------------ */

/* `count` axes from `at` on become one; none: a new one of size 1. */
static mx_array *merge(mx_array *x, int at, int count)
{
    mx_dims codes = {.n = at + 2};
    codes.d[at] = -3, codes.d[at + 1] = -2; /* 0: as it is, -3: two axes in one, -2: all others */
    if (!count)
        return mx_expand_dims(x, .axis = at);
    for (; x && count > 1; count--)
        x = mx_reshape(x, .shape = codes);
    return x;
}

/* Axis `at` of x becomes the axes begin .. begin + count of `like`. */
static mx_array *split(mx_array *x, int at, mx_array *like, int begin, int count)
{
    return count == 1 || !x ? x
           : count          ? mx_reshape_like(x, like, .lhs_begin = at, .lhs_end = at + 1, .rhs_begin = begin,
                                              .rhs_end = begin + count)
                            : mx_squeeze(x, .axis = MX_DIMS(at));
}

typedef struct groups {
    int batch, summed, left, right;                               /* labels in each */
    char a[MX_MAX_NDIM], b[MX_MAX_NDIM], result[2 * MX_MAX_NDIM]; /* orders: batch left summed, batch summed right */
} groups;

static void add_group(groups *g, const term *from, const term *other, const bool *needed, int kind)
{
    for (int i = 0; i < from->n; i++) {
        const char label = from->label[i];
        const bool both = find(other, label) >= 0, wanted = needed[(int)label];
        if (kind == 0 && both && wanted)
            g->result[g->batch] = g->a[g->batch] = g->b[g->batch] = label, g->batch++;
        else if (kind == 1 && !both)
            g->result[g->batch + g->left] = g->a[g->batch + g->left] = label, g->left++;
        else if (kind == 2 && both && !wanted)
            g->a[g->batch + g->left + g->summed] = g->b[g->batch + g->summed] = label, g->summed++;
        else if (kind == 3 && !both)
            g->result[g->batch + g->left + g->right] = g->b[g->batch + g->summed + g->right] = label, g->right++;
    }
}

/* a becomes the product of a and b, summed over what is not needed. */
static mx_code multiply(const call *c, term *a, term *b, const bool *needed)
{
    groups g = {0};
    for (int kind = 0; kind < 3; kind++)
        add_group(&g, a, b, needed, kind);
    add_group(&g, b, a, needed, 3);
    const int n = g.batch + g.left + g.right;
    if (n > MX_MAX_NDIM)
        return mx_fail(MX_ERR_ARGUMENT, "einsum: a product in '%s' has more than %d axes", c->text, MX_MAX_NDIM);
    if (arrange(a, g.a, a->n) || arrange(b, g.b, b->n))
        return mx_error_code();
    if (!a->n || !b->n || (!g.left && !g.right && !g.summed)) /* elementwise, or by a number */
        a->array = mx_mul(a->array, b->array);
    else {
        mx_array *left = merge(merge(merge(a->array, g.batch + g.left, g.summed), g.batch, g.left), 0, g.batch);
        mx_array *right = merge(merge(merge(b->array, g.batch + g.summed, g.right), g.batch, g.summed), 0, g.batch);
        mx_array *y = left && right ? mx_batch_dot(left, right) : NULL;
        y = split(y, 2, b->array, g.batch + g.summed, g.right);
        y = split(y, 1, a->array, g.batch, g.left);
        a->array = n ? split(y, 0, a->array, 0, g.batch) : y;
    }
    memcpy(a->label, g.result, (size_t)n);
    a->n = n;
    return a->array ? MX_OK : mx_error_code();
}

/* Labels of the result and of the operands from `first` on. */
static void note_needed(const call *c, int first, bool *needed)
{
    memset(needed, 0, 128);
    for (int k = 0; k < c->out.n; k++)
        needed[(int)c->out.label[k]] = true;
    for (int i = first; i < c->count; i++)
        for (int k = 0; k < c->in[i].n; k++)
            needed[(int)c->in[i].label[k]] = true;
}

/* Sums over the labels of t that neither `other` (NULL: none) nor the rest needs. */
static mx_code sum_alone(term *t, const term *other, const bool *needed)
{
    bool unwanted[128] = {false};
    for (int k = 0; k < t->n; k++)
        unwanted[(int)t->label[k]] = !needed[(int)t->label[k]] && (!other || find(other, t->label[k]) < 0);
    return sum_over(t, unwanted);
}

mx_array *mx_einsum(const char *subscripts, mx_arrays operands)
{
    call c = {.text = subscripts};
    bool needed[128];
    if (mx_list_check(&operands, "einsum", "operands"))
        return NULL;
    if (!subscripts || !operands.n)
        return mx_fail_null(MX_ERR_ARGUMENT, "einsum: expected subscripts and operands");
    if (read_subscripts(&c, operands) || agree_on_sizes(&c))
        return NULL;
    for (int i = 0; i < c.count; i++)
        if (take_diagonals(&c.in[i]))
            return NULL;
    term *sum = &c.in[0];
    for (int i = 1; i < c.count; i++) {
        note_needed(&c, i + 1, needed);
        if (sum_alone(sum, &c.in[i], needed) || sum_alone(&c.in[i], sum, needed) || multiply(&c, sum, &c.in[i], needed))
            return NULL;
    }
    note_needed(&c, c.count, needed);
    if (sum_alone(sum, NULL, needed) || arrange(sum, c.out.label, c.out.n))
        return NULL;
    return sum->array == operands.v[0] ? mx_copy(sum->array) : sum->array;
}
