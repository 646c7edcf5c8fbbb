/* Matrix products of multi-head attention on projections in which heads and roles interleave.
 *
 *     self attention     queries_keys_values (L, B, heads * 3 * D): q, k, v of head after head
 *     between sequences  queries (Lq, B, heads * D), keys_values (Lk, B, heads * 2 * D)
 *     attention          (B * heads, Lq, Lk)
 *
 * qk: q k' / sqrt(D);  valatt: attention v, as (Lq, B, heads * D).  Kernels read the interleaved rows in place; gradients
 * split the roles.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "op/emit.h"
#include "op/formula/linalg.h"

#define HEADS_ATTRS(X) X(INT, heads, REQUIRED, "1..1000000", "number of heads")
MX_ATTRS(attention_heads, HEADS_ATTRS)

/* op->user: how many roles interleave in the last input that is not attention. */
static const int self_roles = 3, cross_roles = 2;

static mx_code misfit(const mx_infer *infer, int i, const char *wanted)
{
    char text[MX_SHAPE_TEXT], name[64];
    return mx_op_fail(infer->op, MX_ERR_SHAPE, "%s has shape %s, wanted %s", mx_op_input_name(infer->op, i, name),
                      mx_shape_text(&infer->in[i], text), wanted);
}

/* Checks (length, batch, heads * roles * D). */
static mx_code check_rows(const mx_infer *infer, int i, int64_t heads, int64_t roles)
{
    const mx_shape_t *s = &infer->in[i];
    if (s->ndim < 0 || (s->ndim == 3 && (s->dim[2] < 0 || (s->dim[2] % (heads * roles) == 0 && s->dim[2] > 0))))
        return MX_OK;
    return misfit(infer, i,
                  roles == 3   ? "(length, batch, heads * 3 * size)"
                  : roles == 2 ? "(length, batch, heads * 2 * size)"
                               : "(length, batch, heads * size)");
}

static mx_code infer_qk(mx_infer *infer)
{
    const int64_t heads = ((const mx_attention_heads_attrs *)infer->attrs)->heads;
    const bool self = infer->n_in == 1;
    const mx_shape_t *q = &infer->in[0], *k = &infer->in[infer->n_in - 1];
    if (check_rows(infer, 0, heads, self ? 3 : 1) || (!self && check_rows(infer, 1, heads, 2)))
        return mx_error_code();
    if (!mx_shape_known(q) || !mx_shape_known(k))
        return MX_OK;
    if (!self && (q->dim[1] != k->dim[1] || 2 * q->dim[2] != k->dim[2]))
        return misfit(infer, 1, "the batch of queries and twice as many columns");
    const mx_shape_t out = {.ndim = 3, .dim = {q->dim[1] * heads, q->dim[0], k->dim[0]}};
    return mx_infer_out(infer, 0, &out);
}

static mx_code infer_values(mx_infer *infer)
{
    const int64_t heads = ((const mx_attention_heads_attrs *)infer->attrs)->heads,
                  roles = *(const int *)infer->op->user;
    const mx_shape_t *rows = &infer->in[0], *attention = &infer->in[1];
    if (check_rows(infer, 0, heads, roles))
        return mx_error_code();
    if (attention->ndim >= 0 && attention->ndim != 3)
        return misfit(infer, 1, "(batch * heads, length, length)");
    if (rows->ndim != 3)
        return MX_OK;
    const int64_t batch = rows->dim[1], length = rows->dim[0]; /* -1: not known, an open batch */
    const mx_shape_t wanted = {.ndim = 3, .dim = {batch < 0 ? -1 : batch * heads, roles == 3 ? length : -1, length}};
    if (mx_infer_in(infer, 1, &wanted))
        return mx_error_code();
    const mx_shape_t out = {.ndim = 3, .dim = {attention->dim[1], batch, rows->dim[2] < 0 ? -1 : rows->dim[2] / roles}};
    return mx_infer_out(infer, 0, &out);
}

/* ---- gradients ----------------------------------------------------------------------------------------------------- */

/* Role `role` of `roles` as (length, batch * heads, D). */
static mx_array *take_role(mx_array *rows, int64_t heads, int64_t roles, int64_t role)
{
    if (!rows)
        return NULL;
    const int64_t length = rows->shape[0], all = rows->shape[1] * heads, size = rows->shape[2] / (heads * roles);
    const mx_shape_t apart = {.ndim = 4, .dim = {length, all, roles, size}},
                     one = {.ndim = 3, .dim = {length, all, size}};
    char text[64];
    if (roles == 1)
        return mx_g_reshape(rows, &one);
    snprintf(text, sizeof text, "axis=2, begin=%d, end=%d", (int)role, (int)role + 1);
    mx_array *view = mx_g_reshape(rows, &apart);
    return mx_g_reshape(mx_g_text(MX_OP("slice_axis"), text, 1, &view), &one);
}

/* The gradient of interleaved rows from that of its roles, NULL: zero. */
static mx_array *join_roles(mx_array **role, int roles, const mx_shape_t *shape)
{
    char text[64];
    mx_array *given = NULL, *parts[3];
    for (int i = 0; i < roles; i++)
        given = given ? given : role[i];
    if (!given)
        return NULL;
    const mx_shape_t apart = {.ndim = 4, .dim = {given->shape[0], given->shape[1], 1, given->shape[2]}};
    for (int i = 0; i < roles; i++)
        parts[i] = mx_g_reshape(role[i] ? role[i] : mx_g1("zeros_like", given), &apart);
    snprintf(text, sizeof text, "dim=2, num_args=%d", roles);
    return mx_g_reshape(roles == 1 ? parts[0] : mx_g_text(MX_OP("Concat"), text, roles, parts), shape);
}

/* Products per head with the length as the first axis. */
static mx_array *product(mx_array *a, bool transpose_a, mx_array *b, bool transpose_b, double alpha)
{
    struct { bool transpose_a, transpose_b; double alpha; int64_t axis; } attrs = {transpose_a, transpose_b, alpha, 0};
    return mx_g_call(MX_OP("_linalg_gemm2"), &attrs, 2, (mx_array *const[]){a, b});
}

static mx_array *length_first(mx_array *attention) /* (heads, Lq, Lk) -> (Lq, heads, Lk), or back */
{
    struct { int64_t dim1, dim2; } attrs = {0, 1};
    return mx_g_call(MX_OP("SwapAxis"), &attrs, 1, &attention);
}

/* dq = dA k / sqrt(D), dk = dA' q / sqrt(D) */
static mx_code grad_qk(mx_grad *grad)
{
    const int64_t heads = ((const mx_attention_heads_attrs *)grad->attrs)->heads;
    const bool self = grad->n_in == 1;
    mx_array *g = length_first(grad->ograd[0]);
    mx_array *q = take_role(grad->in[0], heads, self ? 3 : 1, 0),
             *k = take_role(grad->in[grad->n_in - 1], heads, self ? 3 : 2, self ? 1 : 0);
    if (!q || !k)
        return mx_error_code();
    const double scale = 1 / sqrt((double)q->shape[2]);
    mx_array *dq = product(g, false, k, false, scale), *dk = product(g, true, q, false, scale);
    if (!dq || !dk)
        return mx_error_code();
    if (self)
        grad->igrad[0] = join_roles((mx_array *[]){dq, dk, NULL}, 3, &grad->in_shape[0]);
    else {
        grad->igrad[0] = join_roles(&dq, 1, &grad->in_shape[0]);
        grad->igrad[1] = join_roles((mx_array *[]){dk, NULL}, 2, &grad->in_shape[1]);
    }
    return mx_has_error() ? mx_error_code() : MX_OK;
}

/* dA = dO v', dv = A' dO */
static mx_code grad_values(mx_grad *grad)
{
    const int64_t heads = ((const mx_attention_heads_attrs *)grad->attrs)->heads;
    const int roles = *(const int *)grad->op->user;
    mx_array *g = take_role(grad->ograd[0], heads, 1, 0), *v = take_role(grad->in[0], heads, roles, roles - 1),
             *role[3] = {NULL};
    if (grad->wanted[0]) {
        role[roles - 1] = product(length_first(grad->in[1]), true, g, false, 1);
        grad->igrad[0] = join_roles(role, roles, &grad->in_shape[0]);
    }
    if (grad->wanted[1])
        grad->igrad[1] = length_first(product(g, false, v, true, 1));
    return (grad->wanted[0] && !grad->igrad[0]) || (grad->wanted[1] && !grad->igrad[1]) ? mx_error_code() : MX_OK;
}

/* ---- references ------------------------------------------------------------------------------------------------------ */

/* Element d of role `role` of head `which` (batch * heads) at place t. */
static double at(const double *x, const mx_shape_t *s, int64_t heads, int64_t roles, int64_t t, int64_t which,
                 int64_t role, int64_t d)
{
    const int64_t size = s->dim[2] / (heads * roles);
    return x[((t * s->dim[1] * heads + which) * roles + role) * size + d];
}

static void ref_qk(const mx_reference_call *call)
{
    const int64_t heads = ((const mx_attention_heads_attrs *)call->attrs)->heads;
    const bool self = call->n_in == 1;
    const mx_shape_t *out = &call->out_shape[0], *ks = &call->in_shape[call->n_in - 1];
    const int64_t size = call->in_shape[0].dim[2] / (heads * (self ? 3 : 1));
    for (int64_t e = 0; e < mx_shape_size(out); e++) {
        const int64_t which = e / out->dim[2] / out->dim[1], i = e / out->dim[2] % out->dim[1], j = e % out->dim[2];
        double sum = 0;
        for (int64_t d = 0; d < size; d++)
            sum += at(call->in[0], &call->in_shape[0], heads, self ? 3 : 1, i, which, 0, d) *
                   at(call->in[call->n_in - 1], ks, heads, self ? 3 : 2, j, which, self ? 1 : 0, d);
        call->out[0][e] = sum / sqrt((double)size);
    }
}

static void reference_values(const mx_reference_call *call, int64_t roles)
{
    const int64_t heads = ((const mx_attention_heads_attrs *)call->attrs)->heads;
    const mx_shape_t *out = &call->out_shape[0], *rows = &call->in_shape[0];
    const int64_t size = out->dim[2] / heads, length = rows->dim[0];
    for (int64_t e = 0; e < mx_shape_size(out); e++) {
        const int64_t d = e % size, which = e / size % (heads * out->dim[1]), i = e / size / heads / out->dim[1];
        call->out[0][e] = 0;
        for (int64_t j = 0; j < length; j++)
            call->out[0][e] += call->in[1][(which * out->dim[0] + i) * length + j] *
                               at(call->in[0], rows, heads, roles, j, which, roles - 1, d);
    }
}
static void ref_self_values(const mx_reference_call *call) { reference_values(call, 3); }
static void ref_cross_values(const mx_reference_call *call) { reference_values(call, 2); }

#define SAMPLES(...) (const mx_sample[]){__VA_ARGS__, {0}}
#define PRODUCT(op, c) .name = "_contrib_interleaved_matmul_" op, .c_name = "interleaved_matmul_" c, .schema = &attention_heads_schema, \
    .precision = MX_PRECISION_TARGET
/* ---- as C text (op/emit.h) ---------------------------------------------------------------------------------------- */

/* heads, elements of a head, roles of the rows (length, batch, heads * roles * size) that hold keys and values */
typedef struct emit_sizes {
    int64_t queries, keys, batch, heads, each;
    int roles;
} emit_sizes;

static emit_sizes sizes_of(const mx_emit_call *n, const mx_shape_t *rows, int64_t queries)
{
    const int roles = *(const int *)n->op->user;
    const int64_t heads = ((const mx_attention_heads_attrs *)n->attrs)->heads;
    return (emit_sizes){queries, rows->dim[0], rows->dim[1], heads, mx_emit_over(rows->dim[2], heads * roles), roles};
}

static void emit_sizes_of(const mx_emit_call *n, const char *kernel, const char *second, const emit_sizes *s)
{
    mx_emit_use(n, kernel);
    mx_emit_print(n, "    %s(%s, %s, %s, %lld, %lld, %lld, %lld, %lld", kernel, n->in[0].place, second, n->out[0].place,
                  (long long)s->queries, (long long)s->keys, (long long)s->batch, (long long)s->heads,
                  (long long)s->each);
}

static mx_code emit_qk(const mx_emit_call *n)
{
    const bool apart = n->n_in > 1; /* queries are a separate input */
    const emit_sizes s = sizes_of(n, apart ? n->in[1].shape : n->x, n->x->dim[0]);
    emit_sizes_of(n, "match_keys", n->in[apart].place, &s);
    mx_emit_print(n, ", %d, %d", apart ? 1 : 3, s.roles); /* roles of the rows that hold the queries, and the keys */
    return mx_emit_close(n);
}

static mx_code emit_values(const mx_emit_call *n)
{
    const emit_sizes s = sizes_of(n, n->x, n->in[1].shape->dim[1]);
    emit_sizes_of(n, "weigh_values", n->in[1].place, &s);
    mx_emit_print(n, ", %d", s.roles);
    return mx_emit_close(n);
}

mx_op mx_family_attention[] = {
    {PRODUCT("selfatt_qk", "selfatt_qk"), MX_EMIT(emit_qk), .inputs = "queries_keys_values", .doc = "attention scores of self-attention: q k' / sqrt(size of a head)", .infer_shape = infer_qk, .gradient = grad_qk,
     .grad_in = 1, .reference = ref_qk, .user = &self_roles, .samples = SAMPLES({"3,2,12", "heads=2", 0, 0, "floatonly"}, {"5,1,27", "heads=3", 0, 0, "floatonly"})},
    {PRODUCT("selfatt_valatt", "selfatt_valatt"), MX_EMIT(emit_values), .inputs = "queries_keys_values attention", .doc = "weighted values of self-attention", .infer_shape = infer_values,
     .gradient = grad_values, .grad_in = 3, .reference = ref_self_values, .user = &self_roles,
     .samples = SAMPLES({"3,2,12;4,3,3", "heads=2", 0, 0, "floatonly"}, {"5,1,27;3,5,5", "heads=3", 0, 0, "floatonly"})},
    {PRODUCT("encdec_qk", "encdec_qk"), MX_EMIT(emit_qk), .inputs = "queries keys_values", .doc = "attention scores between two sequences: q k' / sqrt(size of a head)", .infer_shape = infer_qk,
     .gradient = grad_qk, .grad_in = 3, .reference = ref_qk, .user = &cross_roles,
     .samples = SAMPLES({"3,2,4;5,2,8", "heads=2", 0, 0, "floatonly"}, {"2,1,9;4,1,18", "heads=3", 0, 0, "floatonly"})},
    {PRODUCT("encdec_valatt", "encdec_valatt"), MX_EMIT(emit_values), .inputs = "keys_values attention", .doc = "weighted values of attention between two sequences",
     .infer_shape = infer_values, .gradient = grad_values, .grad_in = 3, .reference = ref_cross_values, .user = &cross_roles,
     .samples = SAMPLES({"5,2,8;4,3,5", "heads=2", 0, 0, "floatonly"}, {"4,1,18;3,2,4", "heads=3", 0, 0, "floatonly"})},
    {0},
};
