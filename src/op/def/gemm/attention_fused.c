/* Attention as one operator: scores are never stored, neither forward nor backward.
 *
 *     _contrib_attention(query, key?, value?, mask?, valid_length?) -> output, lse, seed
 *
 * op/formula/attention.h says where the operands lie.  Hidden outputs: the logarithm of the sum of exponentials of every
 * query, from which the gradient recomputes the weights, and the random numbers that dropout used (seed and counter), from
 * which it recomputes what was dropped.  A query that sees no key gives zeros.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "base/error.h"
#include "ndarray/dtype.h"
#include "op/def/gemm/attention_fused.h"
#include "op/emit.h"

#define ATTENTION_ATTRS(X) \
    X(INT, heads, REQUIRED, "1..1000000", "number of heads of the queries") \
    X(INT, kv_heads, "0", "0..1000000", "number of heads of keys and values, a divisor of heads; 0: as many as heads") \
    X(ENUM, layout, "NTC", "NTC|TNC", "order of the axes: batch, time, columns, or time, batch, columns") \
    X(ENUM, roles, "apart", "apart|packed|interleaved|kv_interleaved", \
      "which inputs there are: apart: query, key and value; packed: query has the columns of all queries, keys and values, one after " \
      "another; interleaved: query has q, k, v of head after head; kv_interleaved: query, and key with k, v of head after head") \
    X(FLOAT, scale, "None", "", "factor of the products of queries and keys; None: 1 / sqrt(size of a head)") \
    X(BOOL, causal, "False", "", "query i sees keys j <= i + number of keys - number of queries") \
    X(FLOAT, dropout, "0.0", "0..1", "probability of dropping a weight in training mode") \
    X(BOOL, use_mask, "False", "", "mask says which keys a query sees") \
    X(BOOL, use_length, "False", "", "valid_length says how many keys, from the first on, a batch entry has")
MX_ATTRS(attention, ATTENTION_ATTRS)

static int64_t kv_heads(const mx_attention_attrs *a) { return a->kv_heads ? a->kv_heads : a->heads; }
static bool has_key(const mx_attention_attrs *a)
{
    return a->roles == MX_ROLES_APART || a->roles == MX_ROLES_KV_INTERLEAVED;
}

static bool lacks(const void *attrs, int input)
{
    const mx_attention_attrs *a = attrs;
    return (input == MX_ATTENTION_KEY && !has_key(a)) || (input == MX_ATTENTION_VALUE && a->roles != MX_ROLES_APART) ||
           (input == MX_ATTENTION_MASK && !a->use_mask) || (input == MX_ATTENTION_LENGTH && !a->use_length);
}
static int count_in(const void *attrs)
{
    int n = 0;
    for (int i = 0; i < MX_ATTENTION_INPUTS; i++)
        n += !lacks(attrs, i);
    return n;
}
static bool back_lacks(const void *attrs, int input)
{
    const int i = input - MX_ATTENTION_BACK_IN;
    return i >= 0 && i < MX_ATTENTION_INPUTS && lacks(attrs, i);
}
static int count_back_in(const void *attrs) { return count_in(attrs) + MX_ATTENTION_BACK_INPUTS - MX_ATTENTION_INPUTS; }
static int count_gradients(const void *attrs)
{
    const mx_attention_attrs *a = attrs;
    return a->roles == MX_ROLES_APART ? 3 : has_key(a) ? 2 : 1;
}

static mx_code check(const void *attrs)
{
    const mx_attention_attrs *a = attrs;
    if (a->heads % kv_heads(a))
        return mx_fail(MX_ERR_ATTRIBUTE, "_contrib_attention: kv_heads is %lld, wanted a divisor of heads=%lld",
                       (long long)a->kv_heads, (long long)a->heads);
    if (a->roles == MX_ROLES_INTERLEAVED && kv_heads(a) != a->heads)
        return mx_fail(MX_ERR_ATTRIBUTE,
                       "_contrib_attention: kv_heads is %lld and heads is %lld, but interleaved roles need as many",
                       (long long)a->kv_heads, (long long)a->heads);
    return MX_OK;
}

/* ---- inference -------------------------------------------------------------------------------------------------- */

static mx_code misfit(const mx_infer *infer, int i, const char *wanted)
{
    char text[MX_SHAPE_TEXT], name[64];
    return mx_op_fail(infer->op, MX_ERR_SHAPE, "%s has shape %s, wanted %s", mx_op_input_name(infer->op, i, name),
                      mx_shape_text(&infer->in[i], text), wanted);
}

/* Inputs that the attributes ask for are there, and no others. */
static mx_code check_presence(const mx_infer *infer)
{
    char name[64];
    for (int i = 0; i < infer->n_in && i < MX_ATTENTION_INPUTS; i++)
        if (infer->in[i].ndim >= 0 && lacks(infer->attrs, i))
            return mx_op_fail(infer->op, MX_ERR_ARGUMENT, "input %s was given, but %s says that there is none",
                              mx_op_input_name(infer->op, i, name),
                              i == MX_ATTENTION_MASK     ? "use_mask=False"
                              : i == MX_ATTENTION_LENGTH ? "use_length=False"
                                                         : "roles");
    return MX_OK;
}

static bool fits(int64_t size, int64_t wanted) { return size < 0 || wanted < 0 || size == wanted; }

/* (N or 1, heads or 1, queries, keys) or (N or 1, queries, keys) */
static mx_code check_mask(const mx_infer *infer, int64_t batch, int64_t heads, int64_t queries, int64_t keys)
{
    const mx_shape_t *m = &infer->in[MX_ATTENTION_MASK];
    if (m->ndim < 0)
        return MX_OK;
    const int last = m->ndim - 1;
    if ((m->ndim != 3 && m->ndim != 4) || !(fits(m->dim[0], batch) || m->dim[0] == 1) ||
        !fits(m->dim[last - 1], queries) || !fits(m->dim[last], keys) ||
        (m->ndim == 4 && m->dim[1] >= 0 && m->dim[1] != heads && m->dim[1] != 1))
        return misfit(infer, MX_ATTENTION_MASK,
                      "(batch or 1, heads or 1, queries, keys) or (batch or 1, queries, keys)");
    return MX_OK;
}

/* Elements of a head, from the columns of the query; -1: unknown, 0: they do not fit */
static int64_t head_size(const mx_attention_attrs *a, const mx_shape_t *query)
{
    const int64_t columns = mx_attention_columns(a->roles, a->heads, kv_heads(a));
    return query->dim[2] < 0 ? -1 : query->dim[2] % columns ? 0 : query->dim[2] / columns;
}

static mx_code infer_key(mx_infer *infer, int64_t batch, int64_t size)
{
    const mx_attention_attrs *a = infer->attrs;
    const bool first = a->layout == 1;
    const int64_t columns = size < 0 ? -1 : kv_heads(a) * size * (a->roles == MX_ROLES_APART ? 1 : 2);
    const mx_shape_t key = {.ndim = 3, .dim = {first ? -1 : batch, first ? batch : -1, columns}};
    const mx_shape_t *k = &infer->in[MX_ATTENTION_KEY];
    if (k->ndim >= 0 && (k->ndim != 3 || !fits(k->dim[first], batch) || !fits(k->dim[2], columns)))
        return misfit(infer, MX_ATTENTION_KEY,
                      a->roles == MX_ROLES_APART ? "the batch of query and kv_heads * size columns"
                                                 : "the batch of query and kv_heads * 2 * size columns");
    if (mx_infer_in(infer, MX_ATTENTION_KEY, &key))
        return mx_error_code();
    if (a->roles != MX_ROLES_APART)
        return MX_OK;
    return mx_infer_in(infer, MX_ATTENTION_VALUE, k) ||
                   mx_infer_in(infer, MX_ATTENTION_KEY, &infer->in[MX_ATTENTION_VALUE])
               ? mx_error_code()
               : MX_OK;
}

static mx_code infer_shape(mx_infer *infer)
{
    const mx_attention_attrs *a = infer->attrs;
    const mx_shape_t *q = &infer->in[0], seed = {.ndim = 1, .dim = {2}};
    const bool first = a->layout == 1; /* time is the first axis */
    if (check_presence(infer) || mx_infer_out(infer, 2, &seed))
        return mx_error_code();
    if (q->ndim < 0)
        return MX_OK;
    const int64_t size = q->ndim == 3 ? head_size(a, q) : 0;
    if (!size)
        return misfit(infer, 0,
                      a->roles == MX_ROLES_PACKED        ? "three axes and (heads + 2 * kv_heads) * size columns"
                      : a->roles == MX_ROLES_INTERLEAVED ? "three axes and heads * 3 * size columns"
                                                         : "three axes and heads * size columns");
    const int64_t batch = q->dim[first], queries = q->dim[!first];
    if (has_key(a) && infer_key(infer, batch, size))
        return mx_error_code();
    const mx_shape_t *rows = has_key(a) ? &infer->in[MX_ATTENTION_KEY] : q;
    const mx_shape_t lengths = {.ndim = 1, .dim = {batch}}, lse = {.ndim = 3, .dim = {batch, a->heads, queries}},
                     out = {.ndim = 3, .dim = {q->dim[0], q->dim[1], size < 0 ? -1 : a->heads * size}};
    if ((a->use_mask && check_mask(infer, batch, a->heads, queries, rows->dim[!first])) ||
        (a->use_length && mx_infer_in(infer, MX_ATTENTION_LENGTH, &lengths)))
        return mx_error_code();
    return mx_infer_out(infer, 0, &out) || mx_infer_out(infer, 1, &lse) ? mx_error_code() : MX_OK;
}

static int lse_type(int type) { return mx_dtype_is_narrow(type) ? MX_FLOAT32 : type; }

/* Input i, and what it is called after, have the type of the query; mask and lengths any. */
static mx_code infer_operands(mx_infer *infer, int first, int type)
{
    for (int i = 0; i < MX_ATTENTION_INPUTS; i++) {
        if (i < MX_ATTENTION_MASK && !lacks(infer->attrs, i) && mx_infer_in_type(infer, first + i, type))
            return mx_error_code();
        if (i >= MX_ATTENTION_MASK && infer->in_type[first + i] == MX_DTYPE_NONE)
            infer->in_type[first + i] = lse_type(type);
    }
    return MX_OK;
}

static mx_code infer_type(mx_infer *infer)
{
    int type = infer->out_type[0];
    for (int i = 0; i < MX_ATTENTION_MASK && type == MX_DTYPE_NONE; i++)
        type = infer->in_type[i];
    if (infer_operands(infer, 0, type) || mx_infer_out_type(infer, 0, type) ||
        mx_infer_out_type(infer, 1, lse_type(type)))
        return mx_error_code();
    return mx_infer_out_type(infer, 2, MX_INT64);
}

/* _backward_attention(ograd, inputs of the operator, output, lse, seed) -> gradients of query, key, value */
static mx_code infer_backward(mx_infer *infer)
{
    const int in[] = {1, 2, 3, 4, 5, -2};
    if (mx_infer_through(infer, infer_shape, in, (const int[]){0, 7, 8, -2}) ||
        mx_infer_through(infer, infer_shape, in, (const int[]){6, 7, 8, -2}))
        return mx_error_code();
    for (int i = 0; i < infer->n_out; i++)
        if (mx_infer_out(infer, i, &infer->in[MX_ATTENTION_BACK_IN + i]))
            return mx_error_code();
    return MX_OK;
}

static mx_code infer_backward_type(mx_infer *infer)
{
    const int type = infer->in_type[MX_ATTENTION_BACK_IN] == MX_DTYPE_NONE ? infer->in_type[0]
                                                                           : infer->in_type[MX_ATTENTION_BACK_IN];
    if (infer_operands(infer, MX_ATTENTION_BACK_IN, type) || mx_infer_in_type(infer, MX_ATTENTION_BACK_GRAD, type) ||
        mx_infer_in_type(infer, MX_ATTENTION_BACK_OUT, type) ||
        mx_infer_in_type(infer, MX_ATTENTION_BACK_LSE, lse_type(type)) ||
        mx_infer_in_type(infer, MX_ATTENTION_BACK_SEED, MX_INT64))
        return mx_error_code();
    for (int i = 0; i < infer->n_out; i++)
        if (mx_infer_out_type(infer, i, type))
            return mx_error_code();
    return MX_OK;
}

/* _attention_pattern(inputs of the operator, seed) -> seen, kept (N, heads, queries, keys) */
static mx_code infer_pattern(mx_infer *infer)
{
    const mx_attention_attrs *a = infer->attrs;
    const int in[] = {0, 1, 2, 3, 4, -2};
    if (mx_infer_through(infer, infer_shape, in, (const int[]){-1, -1, 5, -2}))
        return mx_error_code();
    const mx_shape_t *q = &infer->in[0], *k = has_key(a) ? &infer->in[MX_ATTENTION_KEY] : q;
    const bool first = a->layout == 1;
    if (q->ndim < 0 || k->ndim < 0)
        return MX_OK;
    const mx_shape_t out = {.ndim = 4, .dim = {q->dim[first], a->heads, q->dim[!first], k->dim[!first]}};
    return mx_infer_out(infer, 0, &out) || mx_infer_out(infer, 1, &out) ? mx_error_code() : MX_OK;
}
static mx_code infer_pattern_type(mx_infer *infer)
{
    const int type = infer->in_type[0];
    if (infer_operands(infer, 0, type) || mx_infer_in_type(infer, MX_ATTENTION_INPUTS, MX_INT64))
        return mx_error_code();
    return mx_infer_out_type(infer, 0, type) || mx_infer_out_type(infer, 1, type) ? mx_error_code() : MX_OK;
}
static int count_pattern_in(const void *attrs) { return count_in(attrs) + 1; }

/* ---- gradient ----------------------------------------------------------------------------------------------------- */

static mx_attention_use call_of(const mx_attention_attrs *a, const mx_shape_t *in)
{
    return (mx_attention_use){MX_ATTENTION_SHAPE(a, in[0].dim, in[1].dim), a->roles, a->layout == 1};
}

/* The same numbers by operators that have gradients themselves. */
static mx_code gradient_again(mx_grad *grad, const mx_attention_attrs *a)
{
    mx_array *in[MX_ATTENTION_INPUTS + 1], *out[2] = {NULL, NULL};
    const mx_attention_use c = call_of(a, grad->in_shape);
    const bool hides = a->causal || a->use_mask || a->use_length;
    for (int i = 0; i < MX_ATTENTION_INPUTS; i++)
        in[i] = i < grad->n_in && grad->in[i] && !lacks(a, i) ? mx_detach(grad->in[i]) : MX_NONE;
    in[MX_ATTENTION_INPUTS] = mx_detach(grad->out[2]);
    if ((hides || a->dropout > 0) && mx_invoke(MX_OP("_attention_pattern"), a, MX_ATTENTION_INPUTS + 1, in, 2, out))
        return mx_error_code();
    return mx_attention_compose(grad, &c, hides ? mx_detach(out[0]) : NULL, a->dropout > 0 ? mx_detach(out[1]) : NULL);
}

static mx_code gradient(mx_grad *grad)
{
    mx_attention_attrs a = *(const mx_attention_attrs *)grad->attrs;
    mx_array *in[MX_ATTENTION_BACK_INPUTS], *out[MX_MAX_OUTPUTS] = {NULL};
    if (grad->ograd[1] || grad->ograd[2])
        return mx_op_fail(grad->op, MX_ERR_AUTOGRAD, "the hidden outputs have no gradient");
    if (!grad->ograd[0])
        return MX_OK;
    a.dropout = grad->training ? a.dropout : 0; /* the gradient does not depend on the mode that it runs in */
    if (grad->create_graph)
        return gradient_again(grad, &a);
    in[MX_ATTENTION_BACK_GRAD] = grad->ograd[0];
    for (int i = 0; i < MX_ATTENTION_INPUTS; i++)
        in[MX_ATTENTION_BACK_IN + i] = i < grad->n_in && grad->in[i] ? grad->in[i] : MX_NONE;
    for (int i = 0; i < 3; i++)
        in[MX_ATTENTION_BACK_OUT + i] = grad->out[i];
    if (mx_invoke(MX_OP("_backward_attention"), &a, MX_ATTENTION_BACK_INPUTS, in, MX_MAX_OUTPUTS, out))
        return mx_error_code();
    for (int i = 0; i < count_gradients(&a); i++)
        grad->igrad[i] = grad->wanted[i] ? out[i] : NULL;
    return MX_OK;
}

/* ---- references --------------------------------------------------------------------------------------------------- */

/* Shape and values of a call whose inputs begin at number `first`; seed (2) or NULL. */
static mx_attention_shape values_of(const mx_reference_call *call, int first, const double *seed,
                                    mx_attention_values *v)
{
    const mx_attention_attrs *a = call->attrs;
    mx_attention_shape s = call_of(a, call->in_shape + first).s;
    *v = (mx_attention_values){.input = {call->in[first], call->in[first + 1], call->in[first + 2]}};
    if (a->use_mask) {
        const mx_shape_t *mask = &call->in_shape[first + MX_ATTENTION_MASK];
        v->mask = call->in[first + MX_ATTENTION_MASK];
        mx_attention_use_mask(&s, mask->ndim, mask->dim);
    }
    if (a->use_length)
        v->valid_length = call->in[first + MX_ATTENTION_LENGTH];
    if (seed)
        v->rng = (mx_rng){(uint64_t)(int64_t)seed[0], (uint64_t)(int64_t)seed[1]};
    return s;
}

static void reference(const mx_reference_call *call)
{
    mx_attention_values v;
    mx_attention_shape s = values_of(call, 0, NULL, &v);
    s.dropout = 0;
    mx_attention_reference(&s, &v, call->out[0], call->out[1]);
    call->out[2][0] = call->out[2][1] = 0;
}

static void backward_reference(const mx_reference_call *call)
{
    mx_attention_values v;
    const mx_attention_shape s = values_of(call, MX_ATTENTION_BACK_IN, call->in[MX_ATTENTION_BACK_SEED], &v);
    for (int i = 0; i < call->n_out; i++)
        for (int64_t k = 0; k < mx_shape_size(&call->out_shape[i]); k++)
            call->out[i][k] = 0;
    mx_attention_back_reference(&s, &v, call->in[0], call->in[MX_ATTENTION_BACK_OUT], call->in[MX_ATTENTION_BACK_LSE],
                                call->out);
}

static void pattern_reference(const mx_reference_call *call)
{
    mx_attention_values v;
    const mx_attention_shape s = values_of(call, 0, call->in[MX_ATTENTION_INPUTS], &v);
    mx_attention_pattern_reference(&s, &v, call->out[0], call->out[1]);
}

/* ---- as C text (op/emit.h) ------------------------------------------------------------------------------------------ */

static void emit_place(const mx_emit_call *n, const mx_attention_place *p)
{
    mx_emit_print(n, ", (const long[]){%lld, %lld, %lld, %lld}", (long long)p->first, (long long)p->batch,
                  (long long)p->time, (long long)p->head);
}

static mx_code emit(const mx_emit_call *n)
{
    const mx_attention_attrs *a = n->attrs;
    mx_attention_shape s =
        MX_ATTENTION_SHAPE(a, n->x->dim, has_key(a) ? n->in[MX_ATTENTION_KEY].shape->dim : n->x->dim);
    if (a->use_mask)
        mx_attention_use_mask(&s, n->in[MX_ATTENTION_MASK].shape->ndim, n->in[MX_ATTENTION_MASK].shape->dim);
    mx_emit_use(n, "attend");
    mx_emit_print(n, "    attend(%s, %s, %s, %s, %s, %s", n->in[0].place, n->in[s.key.input].place,
                  n->in[s.value.input].place, mx_emit_or_null(n, MX_ATTENTION_MASK),
                  mx_emit_or_null(n, MX_ATTENTION_LENGTH), n->out[0].place);
    mx_emit_print(n, ", (const long[]){%lld, %lld, %lld, %lld, %lld, %lld, %lld, %lld}", (long long)s.batch,
                  (long long)s.heads, (long long)(s.heads / s.kv_heads), (long long)s.queries, (long long)s.keys,
                  (long long)s.size, (long long)s.mask_batch, (long long)s.mask_head);
    emit_place(n, &s.query);
    emit_place(n, &s.key);
    emit_place(n, &s.value);
    emit_place(n, &s.out);
    mx_emit_add(n, s.scale);
    mx_emit_print(n, ", %d", s.causal);
    return mx_emit_close(n);
}

#define SAMPLES(...) (const mx_sample[]){__VA_ARGS__, {0}}
#define INPUTS "query key? value? mask? valid_length?"

static bool draws(const void *attrs) { return ((const mx_attention_attrs *)attrs)->dropout > 0; }

mx_op mx_family_attention_fused[] = {
    {.name = "_contrib_attention", .c_name = "attention", MX_EMIT(emit), .inputs = INPUTS, .outputs = "output lse seed",
     .doc = "scaled dot-product attention of several heads, softmax(scale q k') v, with dropout of the weights; never stores the scores",
     .schema = &attention_schema, .flags = MX_OP_RANDOM | MX_OP_TRAINING, .draws = draws, .n_out = 3, .n_visible = 1, .count_in = count_in, .lacks = lacks,
     .infer_shape = infer_shape, .infer_type = infer_type, .check = check, .gradient = gradient, .grad_in = MX_ALL_ARGS, .grad_out = 7,
     .no_grad_inputs = 1 << MX_ATTENTION_MASK | 1 << MX_ATTENTION_LENGTH, .precision = MX_PRECISION_TARGET, .reference = reference,
     .look = MX_LOOK_WEIGHTS, .shows = "heads",
     .samples = SAMPLES({"2,3,4;2,5,4;2,5,4", "heads=2", 0, 0, "floatonly"},
                        {"2,4,6;2,4,3;2,4,3", "heads=2, kv_heads=1, causal=True", 0, 0, "floatonly"},
                        {"3,2,4;5,2,4;5,2,4;;2", "heads=2, layout=TNC, use_length=True, scale=0.3", 0, 5, "floatonly int:4 absent:3"},
                        {"2,3,4;2,5,4;2,5,4;2,2,3,5", "heads=2, use_mask=True", 0, 2, "floatonly int:3"},
                        {"2,3,4;2,5,4;2,5,4;1,3,5;2", "heads=2, use_mask=True, use_length=True, causal=True", 0, 3, "floatonly int:3 int:4"},
                        {"2,3,16", "heads=4, kv_heads=2, roles=packed, causal=True", 0, 0, "floatonly"},
                        {"3,2,12", "heads=2, layout=TNC, roles=interleaved", 0, 0, "floatonly"},
                        {"3,2,4;5,2,8", "heads=2, layout=TNC, roles=kv_interleaved", 0, 0, "floatonly"},
                        {"1,70,24", "heads=2, roles=packed, causal=True", -1, 1, "floatonly nograd"},
                        {"2,5,4;2,3,4;2,3,4", "heads=2, causal=True", 0, 0, "floatonly"},
                        {"2,3,4;2,0,4;2,0,4", "heads=2", 0, 0, "floatonly nograd"},
                        {"2,3,4;2,5,4;2,5,4", "heads=2, dropout=0.5", 0, 0, "floatonly"},
                        {"2,3,4;2,5,4;2,5,4", "heads=2, dropout=0.5", 0, 0, "floatonly train random"})},
    {.name = "_backward_attention", .inputs = "ograd query key? value? mask? valid_length? output lse seed", .outputs = "query key value",
     .doc = "gradient of attention", .schema = &attention_schema, .flags = MX_OP_HIDDEN | MX_OP_NO_GRADIENT, .n_out = 3, .count_in = count_back_in,
     .lacks = back_lacks, .count_out = count_gradients, .count_visible = count_gradients, .infer_shape = infer_backward,
     .infer_type = infer_backward_type, .check = check, .reference = backward_reference,
     .samples = SAMPLES({"2,3,4;2,3,4;2,5,4;2,5,4;;;2,3,4;2,2,3;2", "heads=2", 1, 2, "floatonly int:8 absent:4 absent:5"},
                        {"2,3,6;2,3,6;2,5,3;2,5,3;;;2,3,6;2,2,3;2", "heads=2, kv_heads=1, causal=True", 0.5, 2, "floatonly int:8 absent:4 absent:5"},
                        {"3,2,4;3,2,12;;;2,3,3;2;3,2,4;2,2,3;2", "heads=2, layout=TNC, roles=interleaved, use_mask=True, use_length=True", 0, 2, "floatonly int:4 int:5 int:8 absent:2 absent:3"},
                        {"2,3,4;2,3,12;;;;;2,3,4;2,2,3;2", "heads=2, roles=packed, dropout=0.4", 1, 2, "floatonly int:8 absent:2 absent:3 absent:4 absent:5"},
                        {"3,2,4;3,2,4;5,2,8;;;;3,2,4;2,2,3;2", "heads=2, layout=TNC, roles=kv_interleaved, dropout=0.5", 1, 2, "floatonly int:8 absent:3 absent:4 absent:5"})},
    {.name = "_attention_pattern", .inputs = INPUTS " seed", .outputs = "seen kept",
     .doc = "where queries of attention see keys (1, else 0), and the factors of dropout", .schema = &attention_schema,
     .flags = MX_OP_HIDDEN | MX_OP_ZERO_GRADIENT, .n_out = 2, .count_in = count_pattern_in, .lacks = lacks, .infer_shape = infer_pattern,
     .infer_type = infer_pattern_type, .check = check, .reference = pattern_reference,
     .samples = SAMPLES({"2,3,4;2,5,4;2,5,4;;;2", "heads=2, causal=True, dropout=0.5", 0, 9, "floatonly int:5 absent:3 absent:4"},
                        {"3,2,12;;;2,1,3,3;2;2", "heads=2, layout=TNC, roles=interleaved, use_mask=True, use_length=True", 0, 4, "floatonly int:3 int:4 int:5 absent:1 absent:2"},
                        {"1,2,3;1,90,3;1,90,3;;;2", "heads=1, dropout=0.3", 0, 9, "floatonly int:5 absent:3 absent:4"})},
    {0},
};
