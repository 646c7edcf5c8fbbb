/* What is known of the arrays by which a program hides keys from attention.
 *
 * Softmax takes a length for every row, (N * heads, queries).  Programs make them of one length for every batch entry, by
 * operators that move, repeat and add elements.  Which of them were equal is found by trial: such operators are linear, so
 * they run on random numbers in place of what is not made by them, and equal results come from equal elements.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "pass/attention_hidden.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/rng.h"
#include "gluon/op.gen.h"
#include "op/formula/pointwise.h"

enum { MOST_NODES = 64, MOST_DEPTH = 32, TRIALS = 4, BELOW = 1 << 10 /* exact in every type of number */ };

/* ---- kinds of operators -------------------------------------------------------------------------------------------- */

/* Elements of the inputs in other places, types or numbers. */
static bool moves(const mx_gnode *node)
{
    static const char *const repeating[] = {"broadcast_axis", "broadcast_to", "broadcast_like", "repeat", "tile", NULL};
    int i = 0;
    if (node->op->flags & MX_OP_RANDOM)
        return false;
    while (repeating[i] && strcmp(node->op->name, repeating[i]))
        i++;
    return repeating[i] || node->op->look == MX_LOOK_SHAPE || node->op->flags & (MX_OP_IDENTITY | MX_OP_VIEW) ||
           mx_gnode_is(node, "Cast") || mx_gnode_is(node, "amp_cast");
}

static bool is_constant(const mx_gnode *node)
{
    return mx_gnode_is(node, "zeros_like") || mx_gnode_is(node, "ones_like");
}

static bool is_row(const mx_gnode *node, int row)
{
    const mx_pointwise *use = mx_pointwise_of(node->op);
    return use && use->row == row && use->form != MX_FORM_BACKWARD;
}

/* Results of 1 and 0, whatever the inputs are. */
static bool decides(const mx_gnode *node)
{
    const mx_pointwise *use = mx_pointwise_of(node->op);
    return is_constant(node) || is_row(node, MX_ROW_logical_not) ||
           (use && use->row >= MX_ROW_equal && use->row <= MX_ROW_logical_xor);
}

/* ---- trials -------------------------------------------------------------------------------------------------------- */

/* Values of one trial: an entry that is used twice has the same numbers. */
typedef struct trial {
    uint64_t seed;
    int n;
    mx_gentry entry[MOST_NODES];
    mx_array *value[MOST_NODES];
} trial;

static mx_array *random_numbers(trial *t, const mx_shape_t *shape, int type)
{
    mx_dims dims = {.n = shape->ndim};
    memcpy(dims.d, shape->dim, (size_t)shape->ndim * sizeof *dims.d);
    mx_array *numbers = type == MX_DTYPE_NONE ? NULL : mx_empty(dims, MX_FLOAT32, mx_cpu(0));
    for (int64_t i = 0; numbers && i < mx_size(numbers); i++) {
        uint32_t words[4];
        mx_philox(t->seed, ((uint64_t)t->n << 32) + (uint64_t)i, words);
        ((float *)mx_data(numbers))[i] = (float)(words[0] % BELOW);
    }
    return numbers ? mx_cast(numbers, .dtype = (mx_dtype)type) : NULL;
}

static mx_array *value_of(trial *t, mx_gentry e, int depth);

static mx_array *run(trial *t, const mx_gnode *node, int depth)
{
    mx_array *in[8], *out[MX_MAX_OUTPUTS] = {NULL};
    if (node->n_in > 8 || node->n_out != 1)
        return NULL;
    for (int i = 0; i < node->n_in; i++)
        if (!(in[i] = node->in[i].node ? value_of(t, node->in[i], depth + 1) : MX_NONE))
            return NULL;
    return mx_invoke(node->op, node->attrs, node->n_in, in, 1, out) ? NULL : out[0];
}

/* NULL: not to be had, perhaps with an error */
static mx_array *value_of(trial *t, mx_gentry e, int depth)
{
    for (int i = 0; i < t->n; i++)
        if (t->entry[i].node == e.node && t->entry[i].output == e.output)
            return t->value[i];
    if (depth > MOST_DEPTH || !mx_shape_known(&e.node->out_shape[e.output]))
        return NULL;
    const bool linear = e.node->op && (moves(e.node) || is_constant(e.node) || is_row(e.node, MX_ROW_add));
    mx_array *value =
        linear ? run(t, e.node, depth) : random_numbers(t, &e.node->out_shape[e.output], e.node->out_type[e.output]);
    if (!value || t->n == MOST_NODES)
        return NULL;
    t->entry[t->n] = e, t->value[t->n++] = value;
    return value;
}

static bool constant_parts(const double *x, int64_t size, int64_t parts)
{
    const int64_t part = size / parts;
    for (int64_t i = 0; i < size; i++)
        if (x[i] != x[i / part * part])
            return false;
    return true;
}

static bool one_trial(mx_gentry lengths, int64_t parts, uint64_t seed)
{
    MX_SCOPE;
    trial t = {.seed = seed};
    mx_array *found = value_of(&t, lengths, 0);
    const int64_t size = found ? mx_size(found) : 0;
    const size_t bytes = (size_t)size * sizeof(double);
    double *x = size > 0 ? mx_alloc(bytes) : NULL;
    const bool same =
        x && size % parts == 0 && !mx_array_read_doubles(found, x, size) && constant_parts(x, size, parts);
    mx_free(x, bytes);
    return same;
}

bool mx_attention_constant_parts(mx_gentry lengths, int64_t parts)
{
    bool same = parts > 0;
    for (uint64_t i = 1; same && i <= TRIALS; i++)
        same = one_trial(lengths, parts, i);
    mx_error_clear(); /* of a trial that could not run: nothing is known */
    return same;
}

/* ---- masks ---------------------------------------------------------------------------------------------------------- */

static bool zero_or_one(mx_gentry e, int *budget)
{
    if (!e.node || --*budget < 0)
        return false;
    if (e.node->out_type[e.output] == MX_BOOL || (e.node->op && decides(e.node)))
        return true;
    const mx_pointwise *use = e.node->op ? mx_pointwise_of(e.node->op) : NULL;
    const bool product = use && use->row == MX_ROW_mul && use->form == MX_FORM_BINARY;
    bool all = product || (e.node->op && moves(e.node) && !mx_gnode_is(e.node, "Pad"));
    for (int i = 0; all && i < e.node->n_in; i++)
        all = zero_or_one(e.node->in[i], budget);
    return all;
}

bool mx_attention_zero_or_one(mx_gentry mask)
{
    int budget = MOST_NODES;
    return zero_or_one(mask, &budget);
}
