/* Attention by cuDNN's fused kernels, where they are faster than ours: 16-bit elements, with or without a causal mask.
 *
 *     forward    s = scale q k';  masked;  p = softmax(s);  out = p v;  lse = log of the sum of exp(s)
 *     backward   p = exp(s - lse);  dv = p' dout;  ds = p (dout v' - delta);  dq = scale ds k;  dk = scale ds' q
 *
 * Sums of dq in a fixed order need the weights in memory.  Where all of them are small, this costs nothing; elsewhere cuDNN
 * adds up in any order, unless MXNET_ENFORCE_DETERMINISM is set: then a few batch entries are computed at a time.
 *
 * cuDNN recognises such a graph of products, reductions and functions of elements, in which only the operands lie in memory.
 * Choices are cached for the life of the process.  Masks, lengths, dropout (whose random numbers are ours) and grouped
 * queries backward are for our own kernels.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <cstring>
#include <limits>
#include <map>

#include "cuda/kernels/dnn_drawing.h"
#include "cuda/kernels/gemm/attention_fused.h"

#define MOST_CANDIDATES 4
#define MOST_WORKSPACE ((size_t)512 << 20)
#define MUCH_WEIGHT ((int64_t)32 << 20)   /* bytes of weights from which on sums in a fixed order take longer */
#define MOST_WEIGHT ((int64_t)480 << 20)  /* at a time */

namespace
{
using attention::job;
using dnn::drawing;
using dnn::extent;
using dnn::part;
using dnn::raw;
using dnn::transposed;
using dnn::whole;

/* ---- attention as a graph -------------------------------------------------------------------------------------- */

enum { ID_QUERY = 1, ID_KEY, ID_VALUE, ID_OUT, ID_LSE, ID_SCALE, ID_HIDDEN, ID_ONE,
       ID_OUT_GRAD, ID_QUERY_GRAD, ID_KEY_GRAD, ID_VALUE_GRAD, ID_QUERY_SUM, ID_DELTA };

/* What a graph depends on; compared byte by byte, so all of it is int64_t. */
struct kind {
    int64_t device, backward, dtype, causal, ordered, batch, heads, kv_heads, queries, keys, size;
    int64_t query[3], key[3], value[3], out[3]; /* elements from one batch entry, head, row to the next */
};

static extent rows_of(const kind &k, int64_t heads, int64_t rows, const int64_t *step)
{
    return {{k.batch, heads, rows, k.size}, {step[0], step[1], step[2], 1}};
}

static const cudnnDataType_t F32 = CUDNN_DATA_FLOAT;

/* scores where a query sees a key, else minus infinity */
static raw hide(drawing *g, const extent &square, raw scores)
{
    const raw row = g->between(CUDNN_DATA_INT32, square), column = g->between(CUDNN_DATA_INT32, square);
    g->pointwise(CUDNN_POINTWISE_GEN_INDEX, row, scores, nullptr, nullptr, F32, 2);
    g->pointwise(CUDNN_POINTWISE_GEN_INDEX, column, scores, nullptr, nullptr, F32, 3);
    const raw seen = g->pointwise(CUDNN_POINTWISE_CMP_GE, g->between(CUDNN_DATA_BOOLEAN, square), row, column, nullptr,
                                  CUDNN_DATA_BOOLEAN);
    return g->pointwise(CUDNN_POINTWISE_BINARY_SELECT, g->between(F32, square), scores, g->number(ID_HIDDEN), seen);
}

static void draw_forward(drawing *g, const kind &k)
{
    const cudnnDataType_t type = dnn::data_type((int)k.dtype);
    const extent square = whole(k.batch, k.heads, k.queries, k.keys), row = whole(k.batch, k.heads, k.queries, 1);
    const raw q = g->stored(ID_QUERY, type, rows_of(k, k.heads, k.queries, k.query)),
              key = g->stored(ID_KEY, type, transposed(rows_of(k, k.kv_heads, k.keys, k.key))),
              v = g->stored(ID_VALUE, type, rows_of(k, k.kv_heads, k.keys, k.value)),
              out = g->stored(ID_OUT, type, rows_of(k, k.heads, k.queries, k.out)), lse = g->stored(ID_LSE, F32, row);
    const raw products = g->product(g->between(F32, square), q, key);
    raw scores = g->pointwise(CUDNN_POINTWISE_MUL, g->between(F32, square), products, g->number(ID_SCALE));
    if (k.causal)
        scores = hide(g, square, scores);
    const raw most = g->reduce(CUDNN_REDUCE_TENSOR_MAX, g->between(F32, row), scores);
    const raw less = g->pointwise(CUDNN_POINTWISE_SUB, g->between(F32, square), scores, most);
    const raw power = g->pointwise(CUDNN_POINTWISE_EXP, g->between(F32, square), less);
    const raw sum = g->reduce(CUDNN_REDUCE_TENSOR_ADD, g->between(F32, row), power);
    const raw logarithm = g->pointwise(CUDNN_POINTWISE_LOG, g->between(F32, row), sum);
    g->pointwise(CUDNN_POINTWISE_ADD, lse, most, logarithm);
    g->product(out, g->pointwise(CUDNN_POINTWISE_DIV, g->between(type, square), power, sum), v);
}

/* delta = sum over a row of out dout */
static raw draw_delta(drawing *g, const kind &k, raw out, raw out_grad)
{
    const extent row = whole(k.batch, k.heads, k.queries, 1);
    const raw both =
        g->pointwise(CUDNN_POINTWISE_MUL, g->between(F32, whole(k.batch, k.heads, k.queries, k.size)), out_grad, out);
    const raw sum = g->reduce(CUDNN_REDUCE_TENSOR_ADD, g->between(F32, row), both);
    return g->pointwise(CUDNN_POINTWISE_MUL, g->stored(ID_DELTA, F32, row), sum, g->number(ID_ONE));
}

/* p = exp(scale q k' - lse) */
static raw draw_weights(drawing *g, const kind &k, raw q, raw key, raw scale)
{
    const extent square = whole(k.batch, k.heads, k.queries, k.keys);
    const raw lse = g->stored(ID_LSE, F32, whole(k.batch, k.heads, k.queries, 1));
    const raw products = g->product(g->between(F32, square), q, key);
    const raw scores = g->pointwise(CUDNN_POINTWISE_MUL, g->between(F32, square), products, scale);
    raw less = g->pointwise(CUDNN_POINTWISE_SUB, g->between(F32, square), scores, lse);
    if (k.causal)
        less = hide(g, square, less);
    return g->pointwise(CUDNN_POINTWISE_EXP, g->between(F32, square), less);
}

static void draw_backward(drawing *g, const kind &k)
{
    const cudnnDataType_t type = dnn::data_type((int)k.dtype);
    const extent square = whole(k.batch, k.heads, k.queries, k.keys), queries = rows_of(k, k.heads, k.queries, k.query),
                 keys = rows_of(k, k.heads, k.keys, k.key), values = rows_of(k, k.heads, k.keys, k.value),
                 outs = rows_of(k, k.heads, k.queries, k.out);
    const raw q = g->stored(ID_QUERY, type, queries), key = g->stored(ID_KEY, type, transposed(keys)),
              v = g->stored(ID_VALUE, type, transposed(values)), out_grad = g->stored(ID_OUT_GRAD, type, outs),
              scale = g->number(ID_SCALE), query_grad = g->stored(ID_QUERY_GRAD, type, queries);
    const raw delta = draw_delta(g, k, g->stored(ID_OUT, type, outs), out_grad);
    const raw p = draw_weights(g, k, q, key, scale);
    g->product(g->stored(ID_VALUE_GRAD, type, values), g->view(g->between(type, transposed(square)), p), out_grad);
    const raw dp = g->product(g->between(F32, square), out_grad, v);
    const raw less = g->pointwise(CUDNN_POINTWISE_SUB, g->between(F32, square), dp, delta);
    const raw weighed = g->pointwise(CUDNN_POINTWISE_MUL, g->between(F32, square), less, p);
    const raw ds = g->pointwise(CUDNN_POINTWISE_MUL, g->between(F32, square), weighed, scale);
    g->product(g->stored(ID_KEY_GRAD, type, keys), g->view(g->between(type, transposed(square)), ds), q);
    const raw key_rows = g->view(g->between(type, keys), key);
    if (k.ordered) {
        g->product(query_grad, ds, key_rows);
        return;
    }
    const raw sum = g->stored(ID_QUERY_SUM, F32, whole(k.batch, k.heads, k.queries, k.size));
    g->product(sum, ds, key_rows);
    g->pointwise(CUDNN_POINTWISE_IDENTITY, query_grad, sum);
}

/* ---- choosing -------------------------------------------------------------------------------------------------- */

struct by_bytes {
    bool operator()(const kind &a, const kind &b) const { return memcmp(&a, &b, sizeof a) < 0; }
};

struct made {
    drawing pieces;
    part graph;
    dnn::choice choice; /* without a plan: our own kernels are used */
};

static void put(int64_t to[3], const mx_attention_place &p) { to[0] = p.batch, to[1] = p.head, to[2] = p.time; }

static kind kind_of(const mx_cuda_device *d, const job &j, int type, bool backward)
{
    kind k;
    memset(&k, 0, sizeof k);
    k.device = d->id, k.backward = backward, k.dtype = type, k.causal = j.s.causal, k.batch = j.s.batch;
    k.heads = j.s.heads, k.kv_heads = j.s.kv_heads, k.queries = j.s.queries, k.keys = j.s.keys, k.size = j.s.size;
    put(k.query, j.s.query), put(k.key, j.s.key), put(k.value, j.s.value), put(k.out, j.s.out);
    return k;
}

static bool suits(const job &j, int type, bool backward)
{
    const mx_attention_shape &s = j.s;
    const bool plain = !j.mask.data && !j.length.data && !(s.dropout > 0) && (!s.causal || s.queries == s.keys);
    const bool all = j.query_grad && j.key_grad && j.value_grad && s.heads == s.kv_heads;
    return (type == MX_FLOAT16 || type == MX_BFLOAT16) && plain && (all || !backward) && s.keys && s.queries;
}

/* ours(): runs our own kernel, and says whether that failed. */
static const dnn::choice *choice_for(mx_cuda_device *d, const kind &k, const dnn::tensors &t,
                                     const std::function<bool()> &ours)
{
    /* Never destroyed: cuDNN is already unloaded when the destructors of the process run. */
    static std::map<kind, made, by_bytes> &choices = *new std::map<kind, made, by_bytes>;
    const auto known = choices.find(k);
    if (known != choices.end() && (known->second.choice.measured || dnn::capturing(d)))
        return &known->second.choice;
    made next;
    float time = -1;
    const dnn::wishes w = {0, 0, MOST_WORKSPACE, MOST_CANDIDATES};
    (k.backward ? draw_backward : draw_forward)(&next.pieces, k);
    next.choice.measured = true;
    if (!next.pieces.status)
        next.graph = dnn::graph_of(d->dnn, next.pieces.operations);
    if (!next.graph.status && dnn::choose(&next.choice, d, next.graph, w, t, &time) && next.choice.measured) {
        const float other = dnn::timed(d, ours);
        if (other >= 0 && other < time)
            next.choice.plan = part();
    }
    made &cached = choices[k];
    cached = std::move(next);
    return &cached.choice;
}

static mx_code run(const mx_kernel_call *call, mx_cuda_device *d, const kind &k, const dnn::tensors &t,
                   const std::function<bool()> &ours)
{
    std::lock_guard<std::mutex> guard(dnn::lock());
    const dnn::choice *c = choice_for(d, k, t, ours);
    if (c->plan.status)
        return MX_DECLINED;
    mx_cuda_scratch workspace(d, c->workspace);
    if (c->workspace && !workspace.memory)
        return mx_error_code();
    return mx_cuda_dnn_fail(call, dnn::execute(d->dnn, *c, t, workspace.memory));
}

} // namespace

mx_code mx_cuda_attention_dnn(const mx_kernel_call *call, const job &j, int type)
{
    mx_cuda_device *d = mx_cuda_of(call);
    const float scale = (float)j.s.scale, hidden = -std::numeric_limits<float>::infinity();
    if (!suits(j, type, false))
        return MX_DECLINED;
    if (!d || !mx_cuda_dnn(d))
        return mx_error_code();
    dnn::tensors t = {{ID_QUERY, ID_KEY, ID_VALUE, ID_OUT, ID_LSE, ID_SCALE},
                      {j.query, j.key, j.value, j.result, j.lse, &scale}};
    if (j.s.causal)
        t.add(ID_HIDDEN, &hidden);
    return run(call, d, kind_of(d, j, type, false), t,
               [&] { return mx_cuda_attention_forward(call, j, type, false) != MX_OK; });
}

namespace
{
/* Gradients of some batch entries. */
static mx_code some_back(const mx_kernel_call *call, mx_cuda_device *d, const job &j, int type, bool ordered)
{
    const float scale = (float)j.s.scale, hidden = -std::numeric_limits<float>::infinity(), one = 1;
    dnn::tensors t = {{ID_QUERY, ID_KEY, ID_VALUE, ID_OUT, ID_LSE, ID_SCALE, ID_ONE, ID_OUT_GRAD, ID_QUERY_GRAD,
                       ID_KEY_GRAD, ID_VALUE_GRAD, ID_DELTA},
                      {j.query, j.key, j.value, j.out, j.lse, &scale, &one, j.out_grad, j.query_grad, j.key_grad,
                       j.value_grad, j.delta}};
    kind k = kind_of(d, j, type, true);
    k.ordered = ordered;
    const mx_cuda_scratch sum(d, ordered ? 0 : (size_t)(k.batch * k.heads * k.queries * k.size) * sizeof(float));
    if (sum.bytes && !sum.memory)
        return mx_error_code();
    if (j.s.causal)
        t.add(ID_HIDDEN, &hidden);
    if (!ordered)
        t.add(ID_QUERY_SUM, sum.memory);
    return run(call, d, k, t, [&] { return mx_cuda_attention_backward(call, j, type, false) != MX_OK; });
}

/* How many batch entries to compute at a time, so that all slices are of one size and sums have a fixed order; 0: sums in any
 * order are allowed, or not even the weights of one entry fit. */
static int64_t entries_at_once(const mx_attention_shape &s)
{
    const int64_t each = s.heads * ((s.queries + 63) / 64 * 64) * ((s.keys + 127) / 128 * 128) * 2;
    const int64_t most = mx_flags_get()->deterministic ? MOST_WEIGHT : MUCH_WEIGHT;
    int64_t entries = most / each < s.batch ? most / each : s.batch;
    while (entries > 1 && s.batch % entries)
        entries--;
    return mx_flags_get()->deterministic || entries == s.batch ? entries : 0;
}

static job from_entry(job j, int64_t n, int64_t entries, int type)
{
    const auto move = [&](auto *x, int64_t step) {
        return (decltype(x))((char *)x + n * step * (int64_t)mx_dtype_size((mx_dtype)type));
    };
    const int64_t rows = n * j.s.heads * j.s.queries;
    j.query = move(j.query, j.s.query.batch), j.key = move(j.key, j.s.key.batch);
    j.value = move(j.value, j.s.value.batch), j.out = move(j.out, j.s.out.batch);
    j.out_grad = move(j.out_grad, j.s.out.batch), j.query_grad = move(j.query_grad, j.s.query.batch);
    j.key_grad = move(j.key_grad, j.s.key.batch), j.value_grad = move(j.value_grad, j.s.value.batch);
    j.lse = (float *)j.lse + rows, j.delta = (float *)j.delta + rows;
    j.s.batch = entries;
    return j;
}
} // namespace

mx_code mx_cuda_attention_dnn_back(const mx_kernel_call *call, const job &j, int type)
{
    mx_cuda_device *d = mx_cuda_of(call);
    if (!suits(j, type, true))
        return MX_DECLINED;
    if (!d || !mx_cuda_dnn(d))
        return mx_error_code();
    const int64_t entries = entries_at_once(j.s);
    if (!entries)
        return mx_flags_get()->deterministic ? MX_DECLINED : some_back(call, d, j, type, false);
    mx_code code = MX_OK;
    for (int64_t n = 0; !code && n < j.s.batch; n += entries)
        code = some_back(call, d, from_entry(j, n, entries, type), type, true);
    return code;
}
