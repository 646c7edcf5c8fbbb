/* RNN on the GPU: recurrent layers over the matrix product, laid out as op/rnn.h says, so that the numbers are the CPU's.
 *
 * The products with the inputs of all steps are one matrix product; then every step is a product with the state before and
 * one launch over the gates.  Backwards the gradients of all gates are kept, so that those of inputs and weights are
 * single products, too.  Plain LSTM layers of moderate size run all their steps in one launch (dnn_lstm.cu).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <cmath>

#include "cuda/kernels/dnn_channels.h"
#include "cuda/kernels/dnn_lstm.h"
#include "cuda/kernels/gemm.h"
extern "C" {
#include "op/rnn.h"
}

namespace
{

/* One call of RNN or _backward_RNN. */
struct job {
    const mx_kernel_call *call;
    mx_rnn_shape s;
    const void *lengths; /* (N); NULL: all steps */
    int length_type;
    double clip_min, clip_max, clip_nan; /* of LSTM cells; infinite: none; what NaN becomes */
    double dropout;                      /* 0: none in this call */
    const void *in[5], *output;          /* forward inputs; NULL: absent */
    void *reserve;
    const void *ograd[3]; /* backward: of output, state, cell; NULL: zero */
    void *out[4];         /* forward: output, state, cell (NULL: not wanted); backward: the gradients */
};

/* One layer and direction, as the kernels see it. */
template <class T> struct network {
    mx_rnn_shape s;
    const void *lengths;
    int length_type;
    T clip_min, clip_max, clip_nan;
    int64_t inputs, width; /* columns of x; of an output row, both directions */
    bool reverse;
    const T *x, *wx, *wh, *wr, *bx, *bh;
    T *out, *gates, *extra, *raw, *h, *c, *gh, *projected;
    const T *dout, *h0, *c0;
    T *dx, *dwx, *dwh, *dwr, *dbx, *dbh, *dgates, *dgh, *dh, *dh_next, *dc, *before, *draw, *dfull;
    bool add_dx;
    __device__ bool active(int64_t t, int64_t n) const
    {
        return !lengths || t < mx_cuda_load<int64_t>(lengths, length_type, n);
    }
    __device__ bool first(int64_t t, int64_t n, int64_t *previous) const /* no step before t took part */
    {
        *previous = reverse ? t + 1 : t - 1;
        return *previous < 0 || *previous >= s.steps || !active(*previous, n);
    }
};

template <class T> constexpr int type_of() { return sizeof(T) == 8 ? MX_FLOAT64 : MX_FLOAT32; }

template <class T>
static mx_code product(const job &j, bool ta, bool tb, int64_t m, int64_t n, int64_t k, const T *a, int64_t lda,
                       const T *b, int64_t ldb, double beta, T *c)
{
    if (!m || !n || !k)
        return MX_OK;
    return mx_cuda_gemm_run(j.call, type_of<T>(), {ta, tb, m, n, k, a, lda, b, ldb, c, n, 1, beta, 1, 0, 0, 0});
}

template <class T> __device__ T sigmoid(T x) { return 1 / (1 + exp(-x)); }

/* ---- forward --------------------------------------------------------------------------------------------------------- */

/* Element j of row n at step t: gates become activations, the state moves on where the sequence has not ended. */
template <class T> static mx_code step_forward(const job &job, const network<T> w, int64_t t)
{
    const int64_t H = w.s.hidden;
    return mx_cuda_each(job.call, w.s.batch * H, [=] __device__(int64_t i) {
        const int64_t n = i / H, j = i % H, row = t * w.s.batch + n;
        T *g = w.gates + row * w.s.gates * H, *out = w.out + row * w.width,
          *h = w.s.projection ? w.raw + row * H : w.h + n * H;
        if (!w.active(t, n)) {
            if (w.s.projection)
                h[j] = 0;
            else
                out[j] = 0;
            return;
        }
        if (w.s.mode == MX_CELL_LSTM) {
            const T in = sigmoid(g[j] + w.bx[j] + w.bh[j]), forget = sigmoid(g[H + j] + w.bx[H + j] + w.bh[H + j]);
            const T fresh = tanh(g[2 * H + j] + w.bx[2 * H + j] + w.bh[2 * H + j]);
            const T open = sigmoid(g[3 * H + j] + w.bx[3 * H + j] + w.bh[3 * H + j]);
            T cell = forget * w.c[n * H + j] + in * fresh;
            cell = cell < w.clip_min ? w.clip_min : cell > w.clip_max ? w.clip_max : cell;
            cell = cell != cell ? w.clip_nan : cell;
            g[j] = in, g[H + j] = forget, g[2 * H + j] = fresh, g[3 * H + j] = open;
            w.c[n * H + j] = w.extra[row * H + j] = cell;
            h[j] = open * tanh(cell);
        } else if (w.s.mode == MX_CELL_GRU) {
            const T *gh = w.gh + n * 3 * H, hn = gh[2 * H + j] + w.bh[2 * H + j];
            const T r = sigmoid(g[j] + w.bx[j] + gh[j] + w.bh[j]),
                    z = sigmoid(g[H + j] + w.bx[H + j] + gh[H + j] + w.bh[H + j]);
            const T fresh = tanh(g[2 * H + j] + w.bx[2 * H + j] + r * hn);
            g[j] = r, g[H + j] = z, g[2 * H + j] = fresh;
            w.extra[row * H + j] = hn;
            h[j] = fresh + z * (h[j] - fresh);
        } else {
            const T v = g[j] + w.bx[j] + w.bh[j];
            g[j] = h[j] = w.s.mode == MX_CELL_RELU ? (v < 0 ? 0 : v) : tanh(v);
        }
        if (!w.s.projection)
            out[j] = h[j];
    });
}

/* h = raw h2r' for the rows that took part. */
template <class T> static mx_code project(const job &job, const network<T> w, int64_t t)
{
    const int64_t P = w.s.handed, H = w.s.hidden, N = w.s.batch;
    const mx_code code = product<T>(job, false, true, N, P, H, w.raw + t * N * H, H, w.wr, H, 0, w.projected);
    return code ? code : mx_cuda_each(job.call, N * P, [=] __device__(int64_t i) {
        const int64_t n = i / P, j = i % P;
        const bool active = w.active(t, n);
        if (active)
            w.h[i] = w.projected[i];
        w.out[(t * N + n) * w.width + j] = active ? w.projected[i] : 0;
    });
}

/* The layer for dnn_lstm.cu; false: it is none that is served there. */
static bool as_lstm(const job &job, const network<float> &w, bool backward, mx_cuda_lstm *s)
{
    if (w.s.mode != MX_CELL_LSTM || w.s.projection || w.lengths || w.clip_min > -INFINITY || w.s.steps > INT32_MAX / 2)
        return false;
    *s = {};
    s->steps = (int)w.s.steps, s->batch = (int)w.s.batch, s->hidden = (int)w.s.hidden, s->width = w.width,
    s->reverse = w.reverse;
    s->wh = w.wh, s->bias = w.bx, s->gates = w.gates, s->cells = w.extra, s->out = w.out, s->h = w.h, s->c = w.c;
    s->c0 = w.c0, s->dout = w.dout, s->dgates = w.dgates, s->dh = w.dh, s->dc = w.dc;
    return mx_cuda_lstm_suits(job.call, *s, backward);
}
static bool as_lstm(const job &, const network<double> &, bool, mx_cuda_lstm *) { return false; }

template <class T> static mx_code forward(const job &job, const network<T> &w)
{
    const mx_rnn_shape &s = w.s;
    const int64_t gates = s.gates * s.hidden, N = s.batch;
    const bool gru = s.mode == MX_CELL_GRU;
    mx_code code =
        product<T>(job, false, true, s.steps * N, gates, w.inputs, w.x, w.inputs, w.wx, w.inputs, 0, w.gates);
    mx_cuda_lstm lstm;
    if (!code && as_lstm(job, w, false, &lstm))
        return mx_cuda_lstm_forward(job.call, lstm);
    for (int64_t i = 0; i < s.steps && !code; i++) {
        const int64_t t = w.reverse ? s.steps - 1 - i : i;
        code = product<T>(job, false, true, N, gates, s.handed, w.h, s.handed, w.wh, s.handed, gru ? 0 : 1,
                          gru ? w.gh : w.gates + t * N * gates);
        code = code ? code : step_forward<T>(job, w, t);
        code = code || !s.projection ? code : project<T>(job, w, t);
    }
    return code;
}

/* ---- backward -------------------------------------------------------------------------------------------------------- */

/* dh += the gradient of this step's output; with a projection that is kept and taken through it. */
template <class T> static mx_code enter_step(const job &job, const network<T> w, int64_t t)
{
    const int64_t P = w.s.handed, N = w.s.batch;
    const mx_code code = mx_cuda_each(job.call, N * P, [=] __device__(int64_t i) {
        const int64_t n = i / P, j = i % P, row = t * N + n;
        const bool active = w.active(t, n);
        if (active && w.dout)
            w.dh[i] += w.dout[row * w.width + j];
        if (w.s.projection)
            w.draw[row * P + j] = active ? w.dh[i] : 0;
    });
    return code || !w.s.projection
               ? code
               : product<T>(job, false, false, N, w.s.hidden, P, w.dh, P, w.wr, w.s.hidden, 0, w.dfull);
}

/* dc += dh o (1 - tanh(c)^2), cut where the cell was clipped; then the gates' own slopes. */
template <class T>
__device__ void lstm_back(const network<T> &w, const T *g, int64_t row, int64_t t, int64_t n, int64_t j, T dh, T *d)
{
    const int64_t H = w.s.hidden;
    int64_t previous;
    const bool first = w.first(t, n, &previous);
    const T before = first ? w.c0[n * H + j] : w.extra[(previous * w.s.batch + n) * H + j];
    const T in = g[j], forget = g[H + j], fresh = g[2 * H + j], open = g[3 * H + j], kept = w.extra[row * H + j],
            y = tanh(kept);
    T cell = w.dc[n * H + j] + dh * open * (1 - y * y);
    cell = w.clip_min > -(T)INFINITY && (kept <= w.clip_min || kept >= w.clip_max) ? 0 : cell;
    d[j] = cell * fresh * in * (1 - in);
    d[H + j] = cell * before * forget * (1 - forget);
    d[2 * H + j] = cell * in * (1 - fresh * fresh);
    d[3 * H + j] = dh * y * open * (1 - open);
    w.dc[n * H + j] = cell * forget;
}

template <class T> static mx_code step_backward(const job &job, const network<T> w, int64_t t)
{
    const int64_t H = w.s.hidden, G = w.s.gates, most = H > w.s.handed ? H : w.s.handed;
    return mx_cuda_each(job.call, w.s.batch * most, [=] __device__(int64_t i) {
        const int64_t n = i / most, j = i % most, row = t * w.s.batch + n, P = w.s.handed;
        const bool active = w.active(t, n), gru = w.s.mode == MX_CELL_GRU;
        T *d = w.dgates + row * G * H, *dgh = w.dgh + row * G * H;
        if (j < P && !(active && gru))
            w.dh_next[n * P + j] = active ? 0 : w.dh[n * P + j];
        if (j >= H)
            return;
        if (!active) {
            for (int64_t k = 0; k < G; k++)
                d[k * H + j] = dgh[k * H + j] = 0;
            return;
        }
        const T *g = w.gates + row * G * H, dh = w.s.projection ? w.dfull[n * H + j] : w.dh[n * P + j];
        if (w.s.mode == MX_CELL_LSTM) {
            lstm_back(w, g, row, t, n, j, dh, d);
        } else if (gru) {
            const T r = g[j], z = g[H + j], fresh = g[2 * H + j], dn = dh * (1 - z) * (1 - fresh * fresh);
            d[j] = dgh[j] = dn * w.extra[row * H + j] * r * (1 - r);
            d[H + j] = dgh[H + j] = dh * (w.before[row * H + j] - fresh) * z * (1 - z);
            d[2 * H + j] = dn, dgh[2 * H + j] = dn * r;
            w.dh_next[n * P + j] = dh * z;
        } else
            d[j] = w.s.mode == MX_CELL_RELU ? (g[j] > 0 ? dh : 0) : dh * (1 - g[j] * g[j]);
    });
}

/* before (T, N, P): the state before every step. */
template <class T> static mx_code gather_before(const job &job, const network<T> w)
{
    const int64_t P = w.s.handed, N = w.s.batch;
    return mx_cuda_each(job.call, w.s.steps * N * P, [=] __device__(int64_t i) {
        const int64_t j = i % P, n = i / P % N, t = i / P / N;
        int64_t previous;
        w.before[i] = w.first(t, n, &previous) ? w.h0[n * P + j] : w.out[(previous * N + n) * w.width + j];
    });
}

template <class T> struct column_sum {
    typedef T number;
    struct channel {
    };
    const T *from;
    __device__ channel start(int64_t, int) const { return {}; }
    __device__ void visit(const channel &, int64_t at, T *a, T *) const { *a += from[at]; }
};

/* to (columns), and `again` if there is one: sums over the rows */
template <class T>
static mx_code sum_columns(const job &job, const T *from, int64_t rows, int64_t columns, T *to, T *again)
{
    mx_cuda_device *d = mx_cuda_of(job.call);
    return !d ? mx_error_code()
              : mx_cuda_channel_sums<1>(job.call, d, mx_cuda_channels(rows, columns), column_sum<T>{from},
                                        [=] __device__(int64_t c, double sum, double) {
                                            to[c] = (T)sum;
                                            if (again)
                                                again[c] = (T)sum;
                                        });
}

/* The products over all steps: dW = dG' X, dX = dG W, db = sums of dG. */
template <class T> static mx_code finish(const job &job, const network<T> &w)
{
    const mx_rnn_shape &s = w.s;
    const int64_t rows = s.steps * s.batch, gates = s.gates * s.hidden, P = s.handed, I = w.inputs;
    const bool both = w.dgh == w.dgates; /* but for GRU */
    mx_code code = sum_columns<T>(job, w.dgates, rows, gates, w.dbx, both ? w.dbh : nullptr);
    code = code || both ? code : sum_columns<T>(job, w.dgh, rows, gates, w.dbh, nullptr);
    code = code ? code : product<T>(job, true, false, gates, I, rows, w.dgates, gates, w.x, I, 0, w.dwx);
    code = code ? code : product<T>(job, true, false, gates, P, rows, w.dgh, gates, w.before, P, 0, w.dwh);
    code = code || !s.projection
               ? code
               : product<T>(job, true, false, P, s.hidden, rows, w.draw, P, w.raw, s.hidden, 0, w.dwr);
    return code ? code : product<T>(job, false, false, rows, I, gates, w.dgates, gates, w.wx, I, w.add_dx, w.dx);
}

template <class T> static mx_code backward(const job &job, network<T> &w)
{
    const mx_rnn_shape &s = w.s;
    const int64_t gates = s.gates * s.hidden, N = s.batch;
    mx_code code = gather_before<T>(job, w);
    mx_cuda_lstm lstm;
    if (!code && as_lstm(job, w, true, &lstm)) {
        code = mx_cuda_lstm_backward(job.call, lstm);
        return code ? code : finish<T>(job, w);
    }
    for (int64_t i = s.steps - 1; i >= 0 && !code; i--) {
        const int64_t t = w.reverse ? s.steps - 1 - i : i;
        code = enter_step<T>(job, w, t);
        code = code ? code : step_backward<T>(job, w, t);
        code = code ? code
                    : product<T>(job, false, false, N, s.handed, gates, w.dgh + t * N * gates, gates, w.wh, s.handed, 1,
                                 w.dh_next);
        T *swap = w.dh;
        w.dh = w.dh_next, w.dh_next = swap;
    }
    return code ? code : finish<T>(job, w);
}

/* ---- all layers and directions ------------------------------------------------------------------------------------------ */

template <class T> static T *reserve_block(const job &j, int64_t column)
{
    return (T *)j.reserve + j.s.steps * j.s.batch * column;
}

template <class T> static network<T> network_of(const job &j, int64_t layer, int64_t direction, void *output)
{
    const mx_rnn_shape &s = j.s;
    const int64_t gates = s.gates * s.hidden, inputs = mx_rnn_inputs(&s, layer),
                  kept = mx_rnn_kept_column(&s, layer, direction);
    const T *weight = (const T *)j.in[1] + mx_rnn_weight_at(&s, layer, direction);
    const T *bias = (const T *)j.in[1] + mx_rnn_bias_at(&s, layer, direction);
    const bool extra = s.mode == MX_CELL_LSTM || s.mode == MX_CELL_GRU;
    network<T> w = {};
    w.s = s, w.lengths = j.lengths, w.length_type = j.length_type;
    w.clip_min = (T)j.clip_min, w.clip_max = (T)j.clip_max, w.clip_nan = (T)j.clip_nan;
    w.inputs = inputs, w.width = s.directions * s.handed, w.reverse = direction == 1;
    w.x = layer ? reserve_block<T>(j, mx_rnn_input_column(&s, layer)) : (const T *)j.in[0];
    w.wx = weight, w.wh = weight + gates * inputs, w.wr = weight + gates * (inputs + s.handed), w.bx = bias,
    w.bh = bias + gates;
    w.out = (layer == s.layers - 1 ? (T *)output : reserve_block<T>(j, mx_rnn_input_column(&s, layer + 1))) +
            direction * s.handed;
    w.gates = reserve_block<T>(j, kept), w.extra = reserve_block<T>(j, kept + gates);
    w.raw = reserve_block<T>(j, kept + gates + (extra ? s.hidden : 0));
    return w;
}

static __device__ uint32_t random_word(mx_rng rng, int64_t i) /* word i of the groups of 64 (see random.cu) */
{
    uint32_t words[4];
    mx_philox(rng.seed, rng.counter + (uint64_t)(i / 64 * 16 + i % 16), words);
    return words[i % 64 / 16];
}

/* Fills the mask, 0 or 1 / (1 - p), and applies it; without dropout in this call the mask is 1. */
template <class T> static mx_code drop(const job &j, T *x, T *mask, int64_t n)
{
    const double p = j.dropout;
    const uint32_t threshold = (uint32_t)(p * 65536);
    const T scale = p < 1 ? (T)(1 / (1 - p)) : 0;
    const mx_rng rng = p > 0 ? mx_rng_reserve((uint64_t)(n / 64 + 1) * 16) : mx_rng{0, 0};
    return mx_cuda_each(j.call, n, [=] __device__(int64_t i) {
        mask[i] = p > 0 ? ((random_word(rng, i) & 0xffff) >= threshold ? scale : 0) : 1;
        x[i] *= mask[i];
    });
}

template <class T>
static mx_code copy(const job &j, T *to, const void *from, int64_t at, int64_t n) /* from NULL: zeros */
{
    const T *source = from ? (const T *)from + at : nullptr;
    return !to ? MX_OK : mx_cuda_each(j.call, n, [=] __device__(int64_t i) { to[i] = source ? source[i] : 0; });
}

template <class T> static mx_code forward_direction(const job &j, int64_t layer, int64_t d, T *scratch)
{
    const mx_rnn_shape &s = j.s;
    const int64_t N = s.batch, P = s.handed, H = s.hidden, which = layer * s.directions + d;
    network<T> w = network_of<T>(j, layer, d, j.out[0]);
    w.h = scratch, w.c = w.h + N * P, w.gh = w.c + N * H, w.projected = w.gh + N * s.gates * H;
    mx_code code = copy<T>(j, w.h, j.in[2], which * N * P, N * P);
    code = code || s.mode != MX_CELL_LSTM ? code : copy<T>(j, w.c, j.in[3], which * N * H, N * H);
    code = code ? code : forward<T>(j, w);
    code = code || !j.out[1] ? code : copy<T>(j, (T *)j.out[1] + which * N * P, w.h, 0, N * P);
    return code || !j.out[2] ? code : copy<T>(j, (T *)j.out[2] + which * N * H, w.c, 0, N * H);
}

template <class T> static mx_code forward_layers(const job &j, T *scratch)
{
    const mx_rnn_shape &s = j.s;
    const int64_t width = s.directions * s.handed;
    mx_code code = MX_OK;
    for (int64_t layer = 0; layer < s.layers && !code; layer++) {
        for (int64_t d = 0; d < s.directions && !code; d++)
            code = forward_direction<T>(j, layer, d, scratch);
        const int64_t column = mx_rnn_input_column(&s, layer + 1);
        if (!code && s.dropout && layer + 1 < s.layers)
            code =
                drop<T>(j, reserve_block<T>(j, column), reserve_block<T>(j, column + width), s.steps * s.batch * width);
    }
    return code;
}

template <class T>
static mx_code backward_direction(const job &j, int64_t layer, int64_t d, const T *dout, T *dx, T *scratch)
{
    const mx_rnn_shape &s = j.s;
    const int64_t N = s.batch, rows = s.steps * N, gates = s.gates * s.hidden, P = s.handed, H = s.hidden;
    const int64_t which = layer * s.directions + d, inputs = mx_rnn_inputs(&s, layer);
    network<T> w = network_of<T>(j, layer, d, (void *)j.output);
    T *weight = (T *)j.out[1] + mx_rnn_weight_at(&s, layer, d), *bias = (T *)j.out[1] + mx_rnn_bias_at(&s, layer, d);
    w.dgates = scratch, w.before = w.dgates + rows * gates, w.dh = w.before + rows * P, w.dh_next = w.dh + N * P;
    w.dc = w.dh_next + N * P, w.dfull = w.dc + N * H, w.draw = w.dfull + N * H;
    w.dgh = s.mode == MX_CELL_GRU ? w.draw + (s.projection ? rows * P : 0) : w.dgates;
    w.dout = dout ? dout + d * P : nullptr, w.dx = dx, w.add_dx = d > 0;
    w.h0 = (const T *)j.in[2] + which * N * P;
    w.c0 = s.mode == MX_CELL_LSTM ? (const T *)j.in[3] + which * N * H : nullptr;
    w.dwx = weight, w.dwh = weight + gates * inputs, w.dwr = weight + gates * (inputs + P), w.dbx = bias,
    w.dbh = bias + gates;
    mx_code code = copy<T>(j, w.dh, j.ograd[1], which * N * P, N * P);
    code = code ? code : copy<T>(j, w.dc, j.ograd[2], which * N * H, N * H);
    code = code ? code : backward<T>(j, w);
    code = code ? code : copy<T>(j, (T *)j.out[2] + which * N * P, w.dh, 0, N * P);
    return code || !j.out[3] ? code : copy<T>(j, (T *)j.out[3] + which * N * H, w.dc, 0, N * H);
}

template <class T> static mx_code backward_layers(const job &j, T *scratch)
{
    const mx_rnn_shape &s = j.s;
    const int64_t width = s.directions * s.handed, between = s.steps * s.batch * width;
    const T *dout = (const T *)j.ograd[0];
    mx_code code = MX_OK;
    for (int64_t layer = s.layers - 1; layer >= 0 && !code; layer--) {
        T *dx = layer ? scratch + layer % 2 * between : (T *)j.out[0];
        for (int64_t d = 0; d < s.directions && !code; d++)
            code = backward_direction<T>(j, layer, d, dout, dx, scratch + 2 * between);
        const T *mask = layer ? reserve_block<T>(j, mx_rnn_input_column(&s, layer) + width) : nullptr;
        if (!code && layer && s.dropout)
            code = mx_cuda_each(j.call, between, [=] __device__(int64_t i) { dx[i] *= mask[i]; });
        dout = dx;
    }
    return code;
}

/* ---- entries ------------------------------------------------------------------------------------------------------------ */

static mx_rnn_shape geometry(const mx_rnn_attrs *a, const mx_array *data)
{
    mx_rnn_shape s = {};
    s.mode = a->mode, s.steps = data->shape[0], s.batch = data->shape[1], s.input = data->shape[2],
    s.hidden = a->state_size;
    s.projection = a->projection_size != MX_NONE_INT, s.handed = s.projection ? a->projection_size : a->state_size;
    s.layers = a->num_layers, s.directions = a->bidirectional ? 2 : 1, s.gates = mx_rnn_gates(a->mode),
    s.dropout = a->p > 0;
    return s;
}

/* The lengths may stand in the place of the cell state where there is none. */
static const mx_array *lengths_of(const mx_kernel_call *call, const mx_rnn_attrs *a)
{
    if (!a->use_sequence_length)
        return nullptr;
    const bool last = call->n_in > 4 && !mx_is_none(call->in[4]);
    if (!last && (a->mode == MX_CELL_LSTM || call->n_in < 4 || mx_is_none(call->in[3])))
        return nullptr;
    return call->in[last ? 4 : 3];
}

static mx_code job_of(const mx_kernel_call *call, job *j)
{
    const mx_rnn_attrs *a = (const mx_rnn_attrs *)call->attrs;
    const bool clip = !std::isnan(a->lstm_state_clip_min);
    const mx_array *lengths = lengths_of(call, a);
    *j = {};
    j->call = call, j->s = geometry(a, call->in[0]);
    j->lengths = lengths ? mx_data(lengths) : nullptr, j->length_type = lengths ? lengths->dtype : 0;
    j->clip_min = clip ? a->lstm_state_clip_min : -INFINITY, j->clip_max = clip ? a->lstm_state_clip_max : INFINITY;
    j->clip_nan = clip && !a->lstm_state_clip_nan ? a->lstm_state_clip_min : NAN;
    for (int i = 0; i < 5 && i < call->n_in; i++)
        j->in[i] = mx_is_none(call->in[i]) ? nullptr : mx_data(call->in[i]);
    if (a->mode == MX_CELL_LSTM && !j->in[3])
        return mx_op_fail(call->op, MX_ERR_ARGUMENT, "state_cell is absent, but lstm needs it");
    return MX_OK;
}

template <class T> static mx_code rnn(const mx_kernel_call *call)
{
    const mx_rnn_attrs *a = (const mx_rnn_attrs *)call->attrs;
    job j;
    mx_cuda_device *d = mx_cuda_of(call);
    if (!d || job_of(call, &j))
        return mx_error_code();
    j.out[0] = mx_data(call->out[0]), j.reserve = mx_data(call->out[call->n_out - 1]);
    if (a->state_outputs)
        j.out[1] = mx_data(call->out[1]), j.out[2] = a->mode == MX_CELL_LSTM ? mx_data(call->out[2]) : nullptr;
    j.dropout = call->training ? a->p : 0;
    const int64_t each = j.s.batch * (2 * j.s.handed + j.s.hidden + j.s.gates * j.s.hidden);
    mx_cuda_scratch scratch(d, (size_t)each * sizeof(T));
    return scratch.memory ? forward_layers<T>(j, scratch.as<T>()) : mx_error_code();
}

enum { IN_OUTPUT = 5, IN_RESERVE, IN_GRADS };

template <class T> static mx_code rnn_backward(const mx_kernel_call *call)
{
    job j;
    mx_cuda_device *d = mx_cuda_of(call);
    if (!d || job_of(call, &j))
        return mx_error_code();
    j.output = mx_data(call->in[IN_OUTPUT]), j.reserve = mx_data(call->in[IN_RESERVE]);
    for (int i = 0; i < 3; i++)
        j.ograd[i] = mx_is_none(call->in[IN_GRADS + i]) ? nullptr : mx_data(call->in[IN_GRADS + i]);
    for (int i = 0; i < call->n_out; i++)
        j.out[i] = mx_data(call->out[i]);
    const mx_rnn_shape &s = j.s;
    const int64_t rows = s.steps * s.batch, gates = s.gates * s.hidden;
    const int64_t each = rows * gates * (s.mode == MX_CELL_GRU ? 2 : 1) + rows * s.handed * (s.projection ? 2 : 1) +
                         2 * s.batch * (s.handed + s.hidden);
    mx_cuda_scratch scratch(d, (size_t)(2 * rows * s.directions * s.handed + each) * sizeof(T));
    return scratch.memory ? backward_layers<T>(j, scratch.as<T>()) : mx_error_code();
}

MX_CUDA_FLOATS(run_rnn, rnn)
MX_CUDA_FLOATS(run_rnn_backward, rnn_backward)

} // namespace

MX_CUDA_KERNELS(rnn) = {{"RNN", run_rnn, NULL}, {"_backward_RNN", run_rnn_backward, NULL}, {NULL, NULL, NULL}};
