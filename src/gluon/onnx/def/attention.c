/* Attention, and what old transformers of this library are made of.  SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "gluon/onnx/onnx.h"
#include "ndarray/array.h"

/* ---- reading Attention --------------------------------------------------------------------------------------------- */

/* (B, S, H D) -> (B, H, S, D) */
static mx_array *split_heads(mx_array *x, int64_t heads)
{
    if (!x || x->ndim != 3 || x->shape[2] < 0 || heads < 1)
        return x;
    x = mx_reshape(x, .shape = MX_DIMS(0, 0, heads, x->shape[2] / heads));
    return mx_transpose(x, .axes = MX_DIMS(0, 2, 1, 3));
}

/* 0 where `allowed`, minus infinity elsewhere */
static mx_array *bias_of(mx_array *allowed, mx_dtype type)
{
    mx_array *y = mx_onnx_cast(mx_onnx_cast(allowed, MX_INT32), MX_FLOAT32);
    y = mx_where(y, mx_zeros_like(y), mx_plus_scalar(mx_zeros_like(y), .scalar = -INFINITY));
    return mx_onnx_cast(y, type);
}

/* Positions of keys minus those of queries that are allowed, as a bias (S, T) or (B, 1, S, T). */
static mx_array *causal_bias(mx_onnx_in *n, int64_t s, int64_t t, mx_array *offset, bool causal, mx_dtype type)
{
    const int64_t left = mx_onnx_int(n, "left_window_size", -1), right = mx_onnx_int(n, "right_window_size", -1);
    mx_array *i = mx_reshape(mx_onnx_count(n, s, MX_FLOAT32), .shape = MX_DIMS(s, 1));
    mx_array *j = mx_reshape(mx_onnx_count(n, t, MX_FLOAT32), .shape = MX_DIMS(1, t));
    mx_array *d = mx_sub(j, mx_add(i, offset)); /* key - query */
    mx_array *allowed = mx_ones_like(d);
    allowed = causal ? mx_mul(allowed, mx_lesser_equal_scalar(d, .scalar = 0)) : allowed;
    allowed = left >= 0 ? mx_mul(allowed, mx_greater_equal_scalar(d, .scalar = (double)-left)) : allowed;
    allowed = right >= 0 ? mx_mul(allowed, mx_lesser_equal_scalar(d, .scalar = (double)right)) : allowed;
    return bias_of(allowed, type);
}

static mx_array *mask_of(mx_onnx_in *n, int64_t t, mx_dtype type)
{
    mx_array *mask = n->in[3];
    const int rank = mx_onnx_rank(n, 3);
    if (rank < 1)
        return NULL;
    mask = mask->dtype == MX_BOOL ? bias_of(mask, type) : mask;
    const int64_t width = mask ? mask->shape[rank - 1] : -1;
    if (mask && width >= 0 && width < t) { /* keys that the mask does not mention are not seen */
        mx_array *one = mx_slice_axis(mask, .axis = rank - 1, .begin = 0, .end = 1);
        one = mx_plus_scalar(mx_zeros_like(one), .scalar = -INFINITY);
        mask = mx_concat(MX_ARRAYS(mask, mx_repeat(one, .repeats = t - width, .axis = rank - 1)), .num_args = 2,
                         .dim = rank - 1);
    }
    return mask;
}

static mx_array *softmax_or_zeros(mx_array *scores)
{
    mx_array *top = mx_max(scores, .axis = MX_DIMS(-1), .keepdims = true);
    mx_array *finite = mx_where(mx_greater_scalar(top, .scalar = -INFINITY), top, mx_zeros_like(top));
    mx_array *e = mx_exp(mx_sub(scores, finite)), *sum = mx_sum(e, .axis = MX_DIMS(-1), .keepdims = true);
    return mx_div(e, mx_add(sum, mx_equal_scalar(sum, .scalar = 0)));
}

static mx_code read_attention(mx_onnx_in *n)
{
    const bool flat = mx_onnx_rank(n, 0) == 3, causal = mx_onnx_int(n, "is_causal", 0);
    mx_array *q = split_heads(n->in[0], mx_onnx_int(n, "q_num_heads", 0));
    mx_array *k = split_heads(n->in[1], mx_onnx_int(n, "kv_num_heads", 0)),
             *v = split_heads(n->in[2], mx_onnx_int(n, "kv_num_heads", 0));
    if (!q || !k || !v || q->ndim != 4 || k->ndim != 4)
        return mx_onnx_fail(n, MX_ERR_FILE, "its inputs have neither three nor four axes");
    const mx_dtype type = (mx_dtype)q->dtype;
    const int64_t past = mx_onnx_given(n, 4) ? n->in[4]->shape[2] : 0;
    k = mx_onnx_given(n, 4) ? mx_concat(MX_ARRAYS(n->in[4], k), .num_args = 2, .dim = 2) : k;
    v = mx_onnx_given(n, 5) ? mx_concat(MX_ARRAYS(n->in[5], v), .num_args = 2, .dim = 2) : v;
    mx_array *present[2] = {k, v};
    if (!k || !v)
        return mx_error_code();
    const int64_t s = q->shape[2], t = k->shape[2], depth = q->shape[3],
                  groups = k->shape[1] > 0 ? q->shape[1] / k->shape[1] : 1;
    if (s < 0 || t < 0 || depth < 1)
        return mx_onnx_fail(n, MX_ERR_SHAPE, "sequence lengths are not known; give the shapes of the inputs");
    if (groups > 1) {
        k = mx_repeat(k, .repeats = groups, .axis = 1);
        v = mx_repeat(v, .repeats = groups, .axis = 1);
    }
    const double scale = mx_onnx_float(n, "scale", 1 / sqrt((double)depth)), cap = mx_onnx_float(n, "softcap", 0);
    mx_array *root = mx_onnx_matmul(n, mx_mul_scalar(q, .scalar = sqrt(scale)),
                                    mx_transpose(mx_mul_scalar(k, .scalar = sqrt(scale)), .axes = MX_DIMS(0, 1, 3, 2)));
    root = cap > 0 ? mx_mul_scalar(mx_tanh(mx_div_scalar(root, .scalar = cap)), .scalar = cap) : root;
    mx_array *scores = root, *lengths = mx_onnx_given(n, 6) ? mx_reshape(mx_cast(n->in[6], .dtype = MX_FLOAT32),
                                                                         .shape = MX_DIMS(-1, 1, 1, 1))
                                                            : NULL;
    if (mx_onnx_given(n, 3))
        scores = mx_add(scores, mask_of(n, t, type));
    if (causal || mx_onnx_int(n, "left_window_size", -1) >= 0 || mx_onnx_int(n, "right_window_size", -1) >= 0) {
        mx_array *offset = lengths ? mx_minus_scalar(lengths, .scalar = (double)s)
                                   : mx_onnx_constant(MX_DIMS(1, 1), MX_FLOAT32, &(double){(double)past});
        scores = mx_add(scores, causal_bias(n, s, t, offset, causal, type));
    }
    if (lengths) {
        mx_array *j = mx_reshape(mx_onnx_count(n, t, MX_FLOAT32), .shape = MX_DIMS(1, 1, 1, t));
        scores = mx_add(scores, bias_of(mx_lesser(j, lengths), type));
    }
    const mx_onnx_type *wide = mx_onnx_type_of(mx_onnx_int(n, "softmax_precision", 0));
    mx_array *weights = mx_onnx_cast(
        softmax_or_zeros(wide && wide->dtype != MX_DTYPE_NONE ? mx_onnx_cast(scores, wide->dtype) : scores), type);
    mx_array *y = mx_onnx_matmul(n, weights, v);
    n->out[0] = flat ? mx_reshape(mx_transpose(y, .axes = MX_DIMS(0, 2, 1, 3)), .shape = MX_DIMS(0, 0, -1)) : y;
    for (int i = 1; i < 3 && i < n->n_out; i++)
        n->out[i] = present[i - 1];
    const int64_t mode = mx_onnx_int(n, "qk_matmul_output_mode", 0);
    if (n->n_out > 3)
        n->out[3] = mode == 3 ? weights : mode == 2 ? scores : root;
    return MX_OK;
}

/* Pairs of features are rotated by angles that depend on the position. */
static mx_code read_rotary(mx_onnx_in *n)
{
    const int64_t heads = mx_onnx_int(n, "num_heads", 0), interleaved = mx_onnx_int(n, "interleaved", 0);
    const bool flat = mx_onnx_rank(n, 0) == 3;
    mx_array *x = flat ? mx_reshape(n->in[0], .shape = MX_DIMS(0, 0, heads, -1))
                       : mx_transpose(n->in[0], .axes = MX_DIMS(0, 2, 1, 3));
    if (!x || x->ndim != 4 || x->shape[3] < 1)
        return mx_onnx_fail(n, MX_ERR_FILE, "its input has neither three nor four axes");
    const int64_t depth = x->shape[3], given = mx_onnx_int(n, "rotary_embedding_dim", 0),
                  turned = given ? given : depth, half = turned / 2;
    mx_array *rest = turned < depth ? mx_slice_axis(x, .axis = 3, .begin = turned, .end = depth) : NULL;
    mx_array *part = rest ? mx_slice_axis(x, .axis = 3, .begin = 0, .end = turned) : x, *table[2];
    for (int i = 0; i < 2; i++) {
        table[i] = mx_onnx_given(n, 3) ? mx_take(n->in[i + 1], n->in[3]) : n->in[i + 1]; /* (B, S, half) */
        table[i] = mx_expand_dims(mx_slice_axis(table[i], .axis = -1, .begin = 0, .end = half), .axis = 2);
    }
    mx_array *a, *b;
    if (interleaved) {
        mx_array *pairs = mx_reshape(part, .shape = MX_DIMS(0, 0, 0, -4, half, 2));
        a = mx_reshape(mx_slice_axis(pairs, .axis = 4, .begin = 0, .end = 1), .shape = MX_DIMS(0, 0, 0, half));
        b = mx_reshape(mx_slice_axis(pairs, .axis = 4, .begin = 1, .end = 2), .shape = MX_DIMS(0, 0, 0, half));
    } else {
        a = mx_slice_axis(part, .axis = 3, .begin = 0, .end = half);
        b = mx_slice_axis(part, .axis = 3, .begin = half, .end = 2 * half);
    }
    mx_array *real = mx_sub(mx_mul(a, table[0]), mx_mul(b, table[1])),
             *imaginary = mx_add(mx_mul(a, table[1]), mx_mul(b, table[0]));
    mx_array *y = interleaved ? mx_reshape(mx_stack(MX_ARRAYS(real, imaginary), .axis = 4, .num_args = 2),
                                           .shape = MX_DIMS(0, 0, 0, -3))
                              : mx_concat(MX_ARRAYS(real, imaginary), .num_args = 2, .dim = 3);
    y = rest ? mx_concat(MX_ARRAYS(y, rest), .num_args = 2, .dim = 3) : y;
    n->out[0] = flat ? mx_reshape(y, .shape = MX_DIMS(0, 0, -3)) : mx_transpose(y, .axes = MX_DIMS(0, 2, 1, 3));
    return MX_OK;
}

/* ---- interleaved projections of this library ------------------------------------------------------------------------ */

/* Part i of `parts` of (T, B, H * parts * D) as (B H, T, D). */
static const char *part_of(mx_onnx_out *o, const char *x, int64_t heads, int parts, int i)
{
    const char *y = mx_onnx_put(o, NULL, "Reshape", x, mx_onnx_put_ints(o, MX_ONNX_LIST(0, 0, heads, parts, -1)));
    y = mx_onnx_put(o, NULL, "Gather", y, mx_onnx_put_number(o, i, MX_INT64));
    mx_onnx_set_int(o, "axis", 3);
    y = mx_onnx_put(o, NULL, "Transpose", y); /* (T, B, H, D) -> (B, H, T, D) */
    mx_onnx_set_ints(o, "perm", MX_ONNX_LIST(1, 2, 0, 3));
    return y;
}

/* (B, H, T, D) -> (B H, T, D) */
static const char *merged(mx_onnx_out *o, const char *out, const char *x)
{
    const char *shape = mx_onnx_put(o, NULL, "Shape", x);
    const char *tail = mx_onnx_put(o, NULL, "Slice", shape, mx_onnx_put_ints(o, MX_ONNX_LIST(2)),
                                   mx_onnx_put_ints(o, MX_ONNX_LIST(4)));
    const char *all = mx_onnx_put(o, NULL, "Concat", mx_onnx_put_ints(o, MX_ONNX_LIST(-1)), tail);
    mx_onnx_set_int(o, "axis", 0);
    return mx_onnx_put(o, out, "Reshape", x, all);
}

static mx_code write_scores(mx_onnx_out *o, const char *q, const char *k, double depth)
{
    q = mx_onnx_put(o, NULL, "Mul", q, mx_onnx_put_number(o, 1 / sqrt(depth), o->in_type[0]));
    const char *kt = mx_onnx_put(o, NULL, "Transpose", k);
    mx_onnx_set_ints(o, "perm", MX_ONNX_LIST(0, 1, 3, 2));
    merged(o, o->out[0], mx_onnx_put(o, NULL, "MatMul", q, kt));
    return mx_onnx_done(o);
}

static mx_code write_self_scores(mx_onnx_out *o)
{
    const mx_attention_heads_attrs *a = o->attrs;
    const int64_t width = o->in_shape[0].ndim == 3 ? o->in_shape[0].dim[2] : -1;
    if (width < 1)
        return mx_onnx_refuse(o, "the size of its features is not known");
    return write_scores(o, part_of(o, o->in[0], a->heads, 3, 0), part_of(o, o->in[0], a->heads, 3, 1),
                        (double)width / (3.0 * (double)a->heads));
}

static mx_code write_cross_scores(mx_onnx_out *o)
{
    const mx_attention_heads_attrs *a = o->attrs;
    const int64_t width = o->in_shape[0].ndim == 3 ? o->in_shape[0].dim[2] : -1;
    if (width < 1)
        return mx_onnx_refuse(o, "the size of its features is not known");
    return write_scores(o, part_of(o, o->in[0], a->heads, 1, 0), part_of(o, o->in[1], a->heads, 2, 0),
                        (double)width / (double)a->heads);
}

/* attention (B H, S, T) times values (B, H, T, D) -> (S, B, H D) */
static mx_code write_values(mx_onnx_out *o, int parts)
{
    const mx_attention_heads_attrs *a = o->attrs;
    const char *v = part_of(o, o->in[0], a->heads, parts, parts - 1);
    const char *shape = mx_onnx_put(o, NULL, "Shape", o->in[1]);
    const char *tail = mx_onnx_put(o, NULL, "Slice", shape, mx_onnx_put_ints(o, MX_ONNX_LIST(1)),
                                   mx_onnx_put_ints(o, MX_ONNX_LIST(3)));
    const char *wide = mx_onnx_put(o, NULL, "Concat", mx_onnx_put_ints(o, MX_ONNX_LIST(-1, a->heads)), tail);
    mx_onnx_set_int(o, "axis", 0);
    const char *y = mx_onnx_put(o, NULL, "MatMul", mx_onnx_put(o, NULL, "Reshape", o->in[1], wide), v);
    y = mx_onnx_put(o, NULL, "Transpose", y);
    mx_onnx_set_ints(o, "perm", MX_ONNX_LIST(2, 0, 1, 3));
    mx_onnx_put(o, o->out[0], "Reshape", y, mx_onnx_put_ints(o, MX_ONNX_LIST(0, 0, -1)));
    return mx_onnx_done(o);
}

static mx_code write_self_values(mx_onnx_out *o) { return write_values(o, 3); }
static mx_code write_cross_values(mx_onnx_out *o) { return write_values(o, 2); }

const mx_onnx_row mx_onnx_attention[] = {
    READ("Attention", read_attention),
    READ("RotaryEmbedding", read_rotary),
    WRITE(NULL, "_contrib_interleaved_matmul_selfatt_qk", write_self_scores),
    WRITE(NULL, "_contrib_interleaved_matmul_selfatt_valatt", write_self_values),
    WRITE(NULL, "_contrib_interleaved_matmul_encdec_qk", write_cross_scores),
    WRITE(NULL, "_contrib_interleaved_matmul_encdec_valatt", write_cross_values),
    {0}};
