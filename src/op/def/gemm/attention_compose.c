/* The gradient of attention as a composition of operators, for gradients of gradients.
 *
 * Heads become the first axis of matrices: q (N heads, Tq, D), k and v (N heads, Tk, D), those of keys and values repeated for
 * the query heads that share them.  With w = softmax(scale q k') on seen keys, f the factors of dropout and g the gradient:
 *
 *     dv = (w f)' g,   dp = (g v') f,   ds = w (dp - sum(w dp)),   dq = scale ds k,   dk = scale ds' q
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "op/def/gemm/attention_fused.h"
#include "op/formula/linalg.h"
#include "op/formula/movement.h"

/* (N, T, heads, D) or (T, N, heads, D) -> (N, heads, T, D), and back */
static mx_array *heads_first(mx_array *x, bool time_first)
{
    return mx_g_transpose(x, time_first ? (const int[]){1, 2, 0, 3} : (const int[]){0, 2, 1, 3});
}
static mx_array *heads_last(mx_array *x, bool time_first)
{
    return mx_g_transpose(x, time_first ? (const int[]){2, 0, 1, 3} : (const int[]){0, 2, 1, 3});
}

/* The columns of a role: as (.., .., heads, D) */
static mx_array *take(mx_array *x, const mx_attention_place *p, int64_t heads, int64_t size)
{
    if (!x)
        return NULL;
    const int64_t columns = x->shape[2];
    if (p->head == size) { /* heads are adjacent */
        const mx_shape_t apart = {.ndim = 4, .dim = {x->shape[0], x->shape[1], heads, size}};
        return mx_g_reshape(heads * size == columns ? x : mx_g_slice_axis(x, 2, p->first, p->first + heads * size),
                            &apart);
    }
    const mx_shape_t mixed = {.ndim = 4, .dim = {x->shape[0], x->shape[1], heads, p->head}};
    return mx_g_slice_axis(mx_g_reshape(x, &mixed), 3, p->first, p->first + size);
}

/* (N, kv_heads, T, D) -> (N heads, T, D): each head as often as query heads use it */
static mx_array *repeat(mx_array *x, const mx_attention_shape *s)
{
    if (!x)
        return NULL;
    const int64_t times = s->heads / s->kv_heads, length = x->shape[2];
    const mx_shape_t one = {.ndim = 4, .dim = {s->batch * s->kv_heads, 1, length, s->size}},
                     all = {.ndim = 4, .dim = {s->batch * s->kv_heads, times, length, s->size}},
                     flat = {.ndim = 3, .dim = {s->batch * s->heads, length, s->size}};
    return mx_g_reshape(times == 1 ? x : mx_g_broadcast_to(mx_g_reshape(x, &one), &all), &flat);
}

/* and the sum over those */
static mx_array *fold(mx_array *x, const mx_attention_shape *s, int64_t heads, int64_t length)
{
    const int64_t times = s->heads / heads;
    const mx_shape_t apart = {.ndim = 4, .dim = {s->batch, heads, length, s->size}};
    if (times > 1)
        x = mx_g_fold(x, s->batch * heads, times, length * s->size);
    return mx_g_reshape(x, &apart);
}

static mx_array *sum_last(mx_array *x) { return mx_g_text(MX_OP("sum"), "axis=-1, keepdims=True", 1, &x); }

/* Softmax over the keys that are seen; zeros where none is.  scores (N heads, Tq, Tk) */
static mx_array *weights(mx_array *scores, mx_array *seen)
{
    if (!seen || !scores)
        return mx_g1("softmax", scores);
    const double far = scores->dtype == MX_FLOAT16 ? 3e4 : 1e30;
    mx_array *hidden = mx_g_scale(mx_g_rsub(1, seen), -far);
    return mx_g_mul(mx_g1("softmax", mx_g_add(mx_g_mul(scores, seen), hidden)), seen);
}

/* ---- the roles' gradients as those of the inputs ----------------------------------------------------------------- */

typedef struct roles {
    mx_array *x[3]; /* query, key, value: (N, heads, T, D) */
} roles;

/* (.., .., heads D) */
static mx_array *columns(mx_array *x, const mx_attention_use *c)
{
    mx_array *last = heads_last(x, c->time_first);
    if (!last)
        return NULL;
    const mx_shape_t flat = {.ndim = 3, .dim = {last->shape[0], last->shape[1], last->shape[2] * last->shape[3]}};
    return mx_g_reshape(last, &flat);
}

/* Roles first to last of one input, side by side or head after head. */
static mx_array *join(const roles *r, int first, const mx_attention_use *c, bool interleaved, const mx_shape_t *shape)
{
    mx_array *parts[3];
    const int n = 3 - first;
    for (int i = 0; i < n; i++) {
        parts[i] = interleaved ? heads_last(r->x[first + i], c->time_first) : columns(r->x[first + i], c);
        if (!parts[i])
            return NULL;
    }
    return mx_g_reshape(mx_g_join(n, parts, interleaved ? 3 : 2, false), shape);
}

static mx_code give(mx_grad *grad, const mx_attention_use *c, const roles *r)
{
    const mx_shape_t *shape = grad->in_shape;
    mx_array **d = grad->igrad;
    if (c->roles == MX_ROLES_PACKED || c->roles == MX_ROLES_INTERLEAVED) {
        d[0] = join(r, 0, c, c->roles == MX_ROLES_INTERLEAVED, &shape[0]);
    } else {
        d[0] = columns(r->x[0], c);
        d[1] = c->roles == MX_ROLES_APART ? columns(r->x[1], c) : join(r, 1, c, true, &shape[1]);
        if (c->roles == MX_ROLES_APART)
            d[2] = columns(r->x[2], c);
    }
    return mx_has_error() ? mx_error_code() : MX_OK;
}

mx_code mx_attention_compose(mx_grad *grad, const mx_attention_use *c, mx_array *seen, mx_array *kept)
{
    const mx_attention_shape *s = &c->s;
    const mx_shape_t flat = {.ndim = 3, .dim = {s->batch * s->heads, s->queries, s->size}},
                     matrix = {.ndim = 3, .dim = {s->batch * s->heads, s->queries, s->keys}};
    seen = seen ? mx_g_reshape(seen, &matrix) : NULL, kept = kept ? mx_g_reshape(kept, &matrix) : NULL;
    mx_array *q = mx_g_reshape(heads_first(take(grad->in[0], &s->query, s->heads, s->size), c->time_first), &flat);
    mx_array *k = repeat(heads_first(take(grad->in[s->key.input], &s->key, s->kv_heads, s->size), c->time_first), s);
    mx_array *v =
        repeat(heads_first(take(grad->in[s->value.input], &s->value, s->kv_heads, s->size), c->time_first), s);
    mx_array *g = mx_g_reshape(heads_first(take(grad->ograd[0], &s->out, s->heads, s->size), c->time_first), &flat);

    mx_array *w = weights(mx_linalg_multiply(q, false, k, true, s->scale), seen);
    mx_array *dp = mx_linalg_multiply(g, false, v, true, 1);
    dp = kept ? mx_g_mul(dp, kept) : dp;
    mx_array *ds = mx_g_mul(w, mx_g_sub(dp, sum_last(mx_g_mul(w, dp))));
    mx_array *dq = mx_linalg_multiply(ds, false, k, false, s->scale),
             *dk = mx_linalg_multiply(ds, true, q, false, s->scale);
    mx_array *dv = mx_linalg_multiply(kept ? mx_g_mul(w, kept) : w, true, g, false, 1);
    const roles r = {
        {fold(dq, s, s->heads, s->queries), fold(dk, s, s->kv_heads, s->keys), fold(dv, s, s->kv_heads, s->keys)}};
    return r.x[0] && r.x[1] && r.x[2] ? give(grad, c, &r) : mx_error_code();
}
