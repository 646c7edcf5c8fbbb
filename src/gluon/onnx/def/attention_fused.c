/* Attention in one operator of this library, as standard operators of ONNX.
 *
 * Heads are two axes, those of keys and those of queries that share them: q (N, KH, G, Tq, D), k and v (N, KH, 1, Tk, D), so
 * that MatMul broadcasts.  Since opset 23 ONNX has an operator of its own.  Without a mask, lengths or causality the scores go straight into Softmax.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "gluon/onnx/onnx.h"
#include "ndarray/array.h"
#include "op/formula/attention.h"

typedef struct writing {
    mx_onnx_out *o;
    const mx_attention_attrs *a;
    mx_attention_shape s; /* lengths and the batch are not used: they may be unknown */
    bool time_first;
} writing;

/* (.., .., groups, width, D) -> (N, groups, width, T, D) */
static const char *heads_first(const writing *w, const char *x)
{
    const char *y = mx_onnx_put(w->o, NULL, "Transpose", x);
    if (w->time_first)
        mx_onnx_set_ints(w->o, "perm", MX_ONNX_LIST(1, 2, 3, 0, 4));
    else
        mx_onnx_set_ints(w->o, "perm", MX_ONNX_LIST(0, 2, 3, 1, 4));
    return y;
}

/* A role of `width` heads for each of the heads of keys. */
static const char *role(const writing *w, const mx_attention_place *p, int64_t width)
{
    mx_onnx_out *o = w->o;
    const int64_t d = w->s.size, kv = w->s.kv_heads, columns = kv * width * d;
    const char *x = o->in[p->input];
    if (p->head == d) {
        if (o->in_shape[p->input].dim[2] != columns)
            x = mx_onnx_put(o, NULL, "Slice", x, mx_onnx_put_ints(o, MX_ONNX_LIST(p->first)),
                            mx_onnx_put_ints(o, MX_ONNX_LIST(p->first + columns)),
                            mx_onnx_put_ints(o, MX_ONNX_LIST(2)));
        x = mx_onnx_put(o, NULL, "Reshape", x, mx_onnx_put_ints(o, MX_ONNX_LIST(0, 0, kv, width, d)));
    } else { /* head after head */
        x = mx_onnx_put(o, NULL, "Reshape", x, mx_onnx_put_ints(o, MX_ONNX_LIST(0, 0, kv, width, p->head)));
        x = mx_onnx_put(o, NULL, "Slice", x, mx_onnx_put_ints(o, MX_ONNX_LIST(p->first)),
                        mx_onnx_put_ints(o, MX_ONNX_LIST(p->first + d)), mx_onnx_put_ints(o, MX_ONNX_LIST(4)));
    }
    return heads_first(w, x);
}

/* 0, 1 .. up to the size of axis 3 */
static const char *places(const writing *w, const char *x, const char **size)
{
    mx_onnx_out *o = w->o;
    const char *shape = mx_onnx_put(o, NULL, "Shape", x);
    *size = mx_onnx_put(o, NULL, "Gather", shape, mx_onnx_put_number(o, 3, MX_INT64));
    return mx_onnx_put(o, NULL, "Range", mx_onnx_put_number(o, 0, MX_INT64), *size, mx_onnx_put_number(o, 1, MX_INT64));
}

static const char *both(const writing *w, const char *a, const char *b)
{
    return a ? mx_onnx_put(w->o, NULL, "And", a, b) : b;
}

/* j < i + keys - queries + 1 */
static const char *earlier(const writing *w, const char *q, const char *k)
{
    mx_onnx_out *o = w->o;
    const char *queries, *keys, *i = places(w, q, &queries), *j = places(w, k, &keys);
    const char *shift =
        mx_onnx_put(o, NULL, "Add", mx_onnx_put(o, NULL, "Sub", keys, queries), mx_onnx_put_number(o, 1, MX_INT64));
    i = mx_onnx_put(o, NULL, "Reshape", i, mx_onnx_put_ints(o, MX_ONNX_LIST(-1, 1)));
    return mx_onnx_put(o, NULL, "Less", j, mx_onnx_put(o, NULL, "Add", i, shift));
}

static const char *within(const writing *w, const char *k)
{
    mx_onnx_out *o = w->o;
    const char *keys, *j = places(w, k, &keys);
    const char *length = mx_onnx_put_cast(o, NULL, o->in[MX_ATTENTION_LENGTH], MX_INT64);
    length = mx_onnx_put(o, NULL, "Reshape", length, mx_onnx_put_ints(o, MX_ONNX_LIST(-1, 1, 1, 1, 1)));
    return mx_onnx_put(o, NULL, "Less", j, length);
}

/* The mask with five axes, as booleans; NULL: it cannot be written */
static const char *visible(const writing *w)
{
    mx_onnx_out *o = w->o;
    const mx_shape_t *m = &o->in_shape[MX_ATTENTION_MASK];
    const int64_t kv = w->s.kv_heads, shared = w->s.heads / kv;
    const char *x = mx_onnx_put_cast(o, NULL, o->in[MX_ATTENTION_MASK], MX_BOOL);
    if (m->ndim == 3)
        return mx_onnx_put(o, NULL, "Unsqueeze", x, mx_onnx_put_ints(o, MX_ONNX_LIST(1, 2)));
    if (m->ndim == 4 && (m->dim[1] == 1 || kv == 1 || shared == 1))
        return mx_onnx_put(o, NULL, "Unsqueeze", x,
                           mx_onnx_put_ints(o, MX_ONNX_LIST(m->dim[1] == 1 || kv == 1 ? 1 : 2)));
    if (m->ndim == 4 && m->dim[2] >= 0 && m->dim[3] >= 0)
        return mx_onnx_put(o, NULL, "Reshape", x,
                           mx_onnx_put_ints(o, MX_ONNX_LIST(-1, kv, shared, m->dim[2], m->dim[3])));
    return NULL;
}

static const char *softmax(const writing *w, const char *scores, const char *seen)
{
    mx_onnx_out *o = w->o;
    const int type = o->in_type[0];
    if (seen)
        scores =
            mx_onnx_put(o, NULL, "Where", seen, scores, mx_onnx_put_number(o, type == MX_FLOAT16 ? -6e4 : -1e30, type));
    const char *y = mx_onnx_put(o, NULL, "Softmax", scores);
    mx_onnx_set_int(o, "axis", -1);
    return seen ? mx_onnx_put(o, NULL, "Where", seen, y, mx_onnx_put_number(o, 0, type))
                : y; /* a query may see nothing */
}

/* ONNX's own operator, of opset 23: its causality starts at the first key, ours ends at the last one. */
static bool is_plain(const mx_onnx_out *o, const mx_attention_attrs *a)
{
    const int time = a->layout == MX_ATTENTION_TNC ? 0 : 1;
    const bool own = o->n_in < 2 || !*o->in[1],
               equal = own || (o->in_shape[1].ndim == 3 && o->in_shape[0].dim[time] >= 0 &&
                               o->in_shape[0].dim[time] == o->in_shape[1].dim[time]);
    return o->opset >= 23 && !a->use_mask && !a->use_length && (!a->causal || equal);
}

static mx_code write_plain(const writing *w, const char *q, const char *k, const char *v)
{
    mx_onnx_out *o = w->o;
    const int64_t d = w->s.size, order[2][4] = {{0, 2, 1, 3}, {2, 0, 1, 3}};
    q = mx_onnx_put_shaped(o, NULL, q, MX_ONNX_LIST(0, w->s.heads, -1, d));
    k = mx_onnx_put_shaped(o, NULL, k, MX_ONNX_LIST(0, w->s.kv_heads, -1, d));
    v = mx_onnx_put_shaped(o, NULL, v, MX_ONNX_LIST(0, w->s.kv_heads, -1, d));
    const char *y = mx_onnx_put(o, NULL, "Attention", q, k, v);
    mx_onnx_set_float(o, "scale", w->s.scale);
    mx_onnx_set_int(o, "is_causal", w->a->causal);
    mx_onnx_put_shaped(o, o->out[0], mx_onnx_put_ordered(o, NULL, y, 4, order[w->time_first]), MX_ONNX_LIST(0, 0, -1));
    return mx_onnx_done(o);
}

static mx_code write_attention(mx_onnx_out *o)
{
    const mx_attention_attrs *a = o->attrs;
    const mx_shape_t *q_shape = &o->in_shape[0];
    if (q_shape->ndim != 3 || q_shape->dim[2] < 1)
        return mx_onnx_refuse(o, "the size of its features is not known");
    const writing w = {o, a, MX_ATTENTION_SHAPE(a, q_shape->dim, o->n_in > 1 && o->in_shape[1].ndim == 3 ? o->in_shape[1].dim : q_shape->dim),
                       a->layout == MX_ATTENTION_TNC};
    const char *q = role(&w, &w.s.query, w.s.heads / w.s.kv_heads), *k = role(&w, &w.s.key, 1),
               *v = role(&w, &w.s.value, 1);
    if (is_plain(o, a))
        return write_plain(&w, q, k, v);
    const char *seen = a->causal ? earlier(&w, q, k) : NULL;
    seen = a->use_length ? both(&w, seen, within(&w, k)) : seen;
    const char *mask = a->use_mask ? visible(&w) : NULL;
    if (a->use_mask && !mask)
        return mx_onnx_refuse(o, "the shape of its mask is not known");
    seen = mask ? both(&w, seen, mask) : seen;
    q = mx_onnx_put(o, NULL, "Mul", q, mx_onnx_put_number(o, w.s.scale, o->in_type[0]));
    const char *turned = mx_onnx_put(o, NULL, "Transpose", k);
    mx_onnx_set_ints(o, "perm", MX_ONNX_LIST(0, 1, 2, 4, 3));
    const char *y = mx_onnx_put(o, NULL, "MatMul", softmax(&w, mx_onnx_put(o, NULL, "MatMul", q, turned), seen), v);
    y = mx_onnx_put(o, NULL, "Transpose", y);
    if (w.time_first)
        mx_onnx_set_ints(o, "perm", MX_ONNX_LIST(3, 0, 1, 2, 4));
    else
        mx_onnx_set_ints(o, "perm", MX_ONNX_LIST(0, 3, 1, 2, 4));
    mx_onnx_put(o, o->out[0], "Reshape", y, mx_onnx_put_ints(o, MX_ONNX_LIST(0, 0, -1)));
    return mx_onnx_done(o);
}

const mx_onnx_row mx_onnx_attention_fused[] = {WRITE(NULL, "_contrib_attention", write_attention), {0}};
