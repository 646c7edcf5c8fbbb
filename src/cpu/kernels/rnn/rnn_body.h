/* RNN for one element type: forward and backward over a layer and direction.
 *
 * Included with T, NAME(x), GEMM, GEMM_RUN, SIGMOID and TANH defined.  The products with the inputs of all steps are one
 * matrix product; then every step is a product with the previous state and one pass over the gates.  Backward saves
 * the gradients of all gates, so that those of inputs and weights are single products, too.
 *
 * SPDX-License-Identifier: Apache-2.0 */

typedef struct NAME(network) { /* one layer and direction */
    const rnn_job *job;
    const mx_rnn_shape *s;
    int64_t inputs, width; /* columns of x; of an output row, both directions */
    bool reverse;
    const T *x;                        /* (T, N, inputs) */
    const T *wx, *wh, *wr;             /* i2h (G H, inputs), h2h (G H, P), h2r (P, H) */
    const T *bx, *bh;                  /* (G H) */
    T *out;                            /* (T, N, P) in rows of `width` */
    T *gates, *extra, *raw;            /* saved: (T, N, G H), (T, N, H), (T, N, H) */
    T *h, *c;                          /* (N, P), (N, H): the state now */
    T *panels, *bias, *gh, *projected; /* scratch: weights as panels, (G H), (N, G H), (N, P); panels may be NULL */
    int64_t t;                         /* the step */
    /* backward */
    const T *dout;    /* (T, N, P) in rows of `width`; NULL: zero */
    const T *h0, *c0; /* (N, P), (N, H): states before the first step */
    T *dx;            /* (T, N, inputs) */
    bool add_dx;      /* the other direction has already written it */
    T *dwx, *dwh, *dwr, *dbx, *dbh;
    T *dgates, *dgh;      /* (T, N, G H); GRU: dgh is another array, else the same */
    T *dh, *dh_next, *dc; /* (N, P), (N, P), (N, H) */
    T *before;            /* (T, N, P): the state before every step */
    T *draw;              /* projection: (T, N, P), the gradient of the projected state */
    T *dfull;             /* projection: (N, H) */
} NAME(network);

static mx_code NAME(product)(bool ta, bool tb, int64_t m, int64_t n, int64_t k, const T *a, int64_t lda, const T *b,
                             int64_t ldb, T beta, T *c, const T *bias)
{
    GEMM g = {.trans_a = ta, .trans_b = tb, .m = m, .n = n, .k = k, .alpha = 1, .beta = beta, .a = a, .lda = lda, .b = b,
              .ldb = ldb, .c = c, .ldc = n, .bias = bias, .batch = 1};
    return m && n ? GEMM_RUN(&g) : MX_OK;
}

/* The h2h weights, which every step multiplies with, as panels: (G H, P), transposed or not. */
static void NAME(keep_weights)(const NAME(network) *w, bool transposed)
{
    const int64_t gates = w->s->gates * w->s->hidden, P = w->s->handed;
    const GEMM g = {
        .trans_b = transposed, .n = transposed ? gates : P, .k = transposed ? P : gates, .b = w->wh, .ldb = P};
    if (w->panels)
        GEMM_PACK(&g, w->panels);
}

/* c (N, n) = beta c + a (N, k) times the h2h weights + bias */
static mx_code NAME(recur)(const NAME(network) *w, bool transposed, const T *a, T beta, T *c, const T *bias)
{
    const int64_t gates = w->s->gates * w->s->hidden, P = w->s->handed;
    const int64_t n = transposed ? gates : P, k = transposed ? P : gates;
    const GEMM g = {.trans_b = transposed && !w->panels, .m = w->s->batch, .n = n, .k = k, .alpha = 1, .beta = beta, .a = a,
                    .lda = k, .b = w->panels ? w->panels : w->wh, .ldb = P, .c = c, .ldc = n, .bias = bias, .batch = 1,
                    .panels_b = w->panels != NULL};
    return g.m && n ? GEMM_RUN(&g) : MX_OK;
}

#define MX_CELL_FUNCTION static inline __attribute__((always_inline))
#define MX_CELL(name) NAME(cell_##name)
#include "op/formula/rnn_cells.h"
#undef MX_CELL_FUNCTION
#undef MX_CELL

/* ---- one step, forward ---------------------------------------------------------------------------------------- */

static void NAME(lstm_row)(const rnn_job *job, T *g, T *c, T *kept, T *h, int64_t H)
{
    const T low = (T)job->clip_min, high = (T)job->clip_max, nan = (T)job->clip_nan;
    T *gi = g, *gf = g + H, *gg = g + 2 * H, *go = g + 3 * H;
    MX_IVDEP
    for (int64_t j = 0; j < H; j++) {
        const T i = SIGMOID(gi[j]), f = SIGMOID(gf[j]), n = TANH(gg[j]), o = SIGMOID(go[j]);
        const T cell = NAME(cell_lstm_cell)(i, f, n, c[j], low, high, nan);
        gi[j] = i, gf[j] = f, gg[j] = n, go[j] = o;
        c[j] = kept[j] = cell;
        h[j] = o * TANH(cell);
    }
}

static void NAME(gru_row)(T *g, const T *gh, T *kept, T *h, int64_t H)
{
    T *gr = g, *gz = g + H, *gn = g + 2 * H;
    MX_IVDEP
    for (int64_t j = 0; j < H; j++) {
        const T hn = gh[2 * H + j], r = SIGMOID(gr[j] + gh[j]), z = SIGMOID(gz[j] + gh[H + j]),
                n = TANH(NAME(cell_gru_new)(gn[j], r, hn));
        gr[j] = r, gz[j] = z, gn[j] = n;
        kept[j] = hn;
        h[j] = NAME(cell_gru_state)(n, z, h[j]);
    }
}

static void NAME(plain_row)(bool relu, T *g, T *h, int64_t H)
{
    MX_IVDEP
    for (int64_t j = 0; j < H; j++)
        g[j] = h[j] = relu ? NAME(cell_plain_relu)(g[j]) : TANH(g[j]);
}

/* Rows [begin, end) of the batch: gates become activations; the state is updated where the sequence has not ended. */
static void NAME(step_rows)(void *arg, int64_t begin, int64_t end)
{
    const NAME(network) *w = arg;
    const mx_rnn_shape *s = w->s;
    const int64_t H = s->hidden;
    for (int64_t n = begin; n < end; n++) {
        const int64_t row = w->t * s->batch + n;
        T *g = w->gates + row * s->gates * H, *h = s->projection ? w->raw + row * H : w->h + n * H;
        T *out = w->out + row * w->width;
        if (!rnn_active(w->job, w->t, n)) {
            memset(out, 0, (size_t)s->handed * sizeof(T));
            if (s->projection)
                memset(h, 0, (size_t)H * sizeof(T));
            continue;
        }
        if (s->mode == MX_CELL_LSTM)
            NAME(lstm_row)(w->job, g, w->c + n * H, w->extra + row * H, h, H);
        else if (s->mode == MX_CELL_GRU)
            NAME(gru_row)(g, w->gh + n * s->gates * H, w->extra + row * H, h, H);
        else
            NAME(plain_row)(s->mode == MX_CELL_RELU, g, h, H);
        if (!s->projection)
            memcpy(out, h, (size_t)H * sizeof(T));
    }
}

/* h = raw h2r' for the active rows */
static mx_code NAME(project)(const NAME(network) *w)
{
    const mx_rnn_shape *s = w->s;
    const T *raw = w->raw + w->t * s->batch * s->hidden;
    mx_code code = NAME(product)(false, true, s->batch, s->handed, s->hidden, raw, s->hidden, w->wr, s->hidden, 0,
                                 w->projected, NULL);
    for (int64_t n = 0; n < s->batch && !code; n++)
        if (rnn_active(w->job, w->t, n)) {
            const T *from = w->projected + n * s->handed;
            memcpy(w->h + n * s->handed, from, (size_t)s->handed * sizeof(T));
            memcpy(w->out + (w->t * s->batch + n) * w->width, from, (size_t)s->handed * sizeof(T));
        }
    return code;
}

static mx_code NAME(forward)(NAME(network) *w)
{
    const mx_rnn_shape *s = w->s;
    const int64_t gates = s->gates * s->hidden, N = s->batch;
    const bool gru = s->mode == MX_CELL_GRU;
    for (int64_t j = 0; j < gates; j++)
        w->bias[j] = gru ? w->bx[j] : w->bx[j] + w->bh[j];
    NAME(keep_weights)(w, true);
    mx_code code = NAME(product)(false, true, s->steps * N, gates, w->inputs, w->x, w->inputs, w->wx, w->inputs, 0,
                                 w->gates, w->bias);
    for (int64_t i = 0; i < s->steps && !code && !mx_stop_wanted(); i++) {
        w->t = w->reverse ? s->steps - 1 - i : i;
        T *to = gru ? w->gh : w->gates + w->t * N * gates;
        code = NAME(recur)(w, true, w->h, gru ? 0 : 1, to, gru ? w->bh : NULL);
        if (code)
            break;
        mx_parallel(N, ROW_GRAIN(gates), NAME(step_rows), w);
        if (s->projection)
            code = NAME(project)(w);
    }
    return code;
}

/* ---- one step, backward ------------------------------------------------------------------------------------------ */

static void NAME(lstm_row_back)(const rnn_job *job, const T *g, const T *kept, const T *before, const T *dh, T *dc,
                                T *d, int64_t H)
{
    const T low = (T)job->clip_min, high = (T)job->clip_max;
    MX_IVDEP
    for (int64_t j = 0; j < H; j++) {
        const T i = g[j], f = g[H + j], n = g[2 * H + j], o = g[3 * H + j], y = TANH(kept[j]);
        const T cell = NAME(cell_lstm_cell_back)(dc[j], dh[j], o, y, kept[j], low, high);
        d[j] = NAME(cell_sigmoid_back)(cell * n, i);
        d[H + j] = NAME(cell_sigmoid_back)(cell * before[j], f);
        d[2 * H + j] = NAME(cell_tanh_back)(cell * i, n);
        d[3 * H + j] = NAME(cell_sigmoid_back)(dh[j] * y, o);
        dc[j] = cell * f;
    }
}

/* d: gradient of what i2h adds, dgh: of what h2h adds; next: what reaches the previous state directly */
static void NAME(gru_row_back)(const T *g, const T *hn, const T *before, const T *dh, T *d, T *dgh, T *next, int64_t H)
{
    MX_IVDEP
    for (int64_t j = 0; j < H; j++) {
        const T r = g[j], z = g[H + j], n = g[2 * H + j], dn = NAME(cell_gru_new_back)(dh[j], z, n);
        d[j] = dgh[j] = NAME(cell_sigmoid_back)(dn * hn[j], r);
        d[H + j] = dgh[H + j] = NAME(cell_gru_update_back)(dh[j], before[j], z, n);
        d[2 * H + j] = dn;
        dgh[2 * H + j] = dn * r;
        next[j] = NAME(cell_gru_state_back)(dh[j], z);
    }
}

static void NAME(plain_row_back)(bool relu, const T *g, const T *dh, T *d, int64_t H)
{
    MX_IVDEP
    for (int64_t j = 0; j < H; j++)
        d[j] = relu ? NAME(cell_plain_relu_back)(dh[j], g[j]) : NAME(cell_tanh_back)(dh[j], g[j]);
}

/* The cell before step t: of the neighbouring step, or the first one. */
static const T *NAME(cell_before)(const NAME(network) *w, int64_t t, int64_t n)
{
    const int64_t previous = w->reverse ? t + 1 : t - 1, H = w->s->hidden;
    if (previous < 0 || previous >= w->s->steps || !rnn_active(w->job, previous, n))
        return w->c0 + n * H;
    return w->extra + (previous * w->s->batch + n) * H;
}

static void NAME(back_rows)(void *arg, int64_t begin, int64_t end)
{
    const NAME(network) *w = arg;
    const mx_rnn_shape *s = w->s;
    const int64_t H = s->hidden, gates = s->gates * H, P = s->handed;
    for (int64_t n = begin; n < end; n++) {
        const int64_t row = w->t * s->batch + n;
        const T *g = w->gates + row * gates, *dh = s->projection ? w->dfull + n * H : w->dh + n * P;
        T *d = w->dgates + row * gates, *next = w->dh_next + n * P;
        if (!rnn_active(w->job, w->t, n)) {
            memset(d, 0, (size_t)gates * sizeof(T));
            memset(w->dgh + row * gates, 0, (size_t)gates * sizeof(T));
            memcpy(next, w->dh + n * P, (size_t)P * sizeof(T));
            continue;
        }
        if (s->mode != MX_CELL_GRU)
            memset(next, 0, (size_t)P * sizeof(T));
        if (s->mode == MX_CELL_LSTM)
            NAME(lstm_row_back)(w->job, g, w->extra + row * H, NAME(cell_before)(w, w->t, n), dh, w->dc + n * H, d, H);
        else if (s->mode == MX_CELL_GRU)
            NAME(gru_row_back)(g, w->extra + row * H, w->before + row * H, dh, d, w->dgh + row * gates, next, H);
        else
            NAME(plain_row_back)(s->mode == MX_CELL_RELU, g, dh, d, H);
    }
}

/* dh += the gradient of this step's output; with a projection it is saved and multiplied by it. */
static mx_code NAME(enter_step)(NAME(network) *w)
{
    const mx_rnn_shape *s = w->s;
    const int64_t P = s->handed;
    for (int64_t n = 0; n < s->batch; n++) {
        const int64_t row = w->t * s->batch + n;
        T *dh = w->dh + n * P;
        const bool active = rnn_active(w->job, w->t, n);
        for (int64_t j = 0; j < P && active && w->dout; j++)
            dh[j] += w->dout[row * w->width + j];
        for (int64_t j = 0; j < P && s->projection; j++)
            w->draw[row * P + j] = active ? dh[j] : 0;
    }
    if (!s->projection)
        return MX_OK;
    return NAME(product)(false, false, s->batch, s->hidden, P, w->dh, P, w->wr, s->hidden, 0, w->dfull, NULL);
}

static void NAME(gather_before)(const NAME(network) *w)
{
    const mx_rnn_shape *s = w->s;
    const int64_t P = s->handed;
    for (int64_t t = 0; t < s->steps; t++)
        for (int64_t n = 0; n < s->batch; n++) {
            const int64_t previous = w->reverse ? t + 1 : t - 1;
            const bool first = previous < 0 || previous >= s->steps || !rnn_active(w->job, previous, n);
            const T *from = first ? w->h0 + n * P : w->out + (previous * s->batch + n) * w->width;
            memcpy(w->before + (t * s->batch + n) * P, from, (size_t)P * sizeof(T));
        }
}

typedef struct NAME(sum_job) {
    const T *from; /* (rows, columns) */
    T *to;         /* (columns) */
    int64_t rows, columns;
} NAME(sum_job);

static void NAME(sum_columns)(void *arg, int64_t begin, int64_t end)
{
    const NAME(sum_job) *job = arg;
    memset(job->to + begin, 0, (size_t)(end - begin) * sizeof(T));
    for (int64_t i = 0; i < job->rows; i++) {
        const T *from = job->from + i * job->columns;
        T *to = job->to;
        MX_IVDEP
        for (int64_t j = begin; j < end; j++)
            to[j] += from[j];
    }
}

/* The products over all steps: dW = dG' X, dX = dG W, db = sums of dG. */
static mx_code NAME(finish)(NAME(network) *w)
{
    const mx_rnn_shape *s = w->s;
    const int64_t rows = s->steps * s->batch, gates = s->gates * s->hidden, P = s->handed, I = w->inputs;
    NAME(sum_job) sums[2] = {{w->dgates, w->dbx, rows, gates}, {w->dgh, w->dbh, rows, gates}};
    mx_parallel(gates, 1 + MX_GRAIN / (rows + 1), NAME(sum_columns), &sums[0]);
    if (w->dgh == w->dgates)
        memcpy(w->dbh, w->dbx, (size_t)gates * sizeof(T));
    else
        mx_parallel(gates, 1 + MX_GRAIN / (rows + 1), NAME(sum_columns), &sums[1]);
    mx_code code = NAME(product)(true, false, gates, I, rows, w->dgates, gates, w->x, I, 0, w->dwx, NULL);
    if (!code)
        code = NAME(product)(true, false, gates, P, rows, w->dgh, gates, w->before, P, 0, w->dwh, NULL);
    if (!code && s->projection)
        code = NAME(product)(true, false, P, s->hidden, rows, w->draw, P, w->raw, s->hidden, 0, w->dwr, NULL);
    if (!code)
        code = NAME(product)(false, false, rows, I, gates, w->dgates, gates, w->wx, I, w->add_dx, w->dx, NULL);
    return code;
}

static mx_code NAME(backward)(NAME(network) *w)
{
    const mx_rnn_shape *s = w->s;
    const int64_t gates = s->gates * s->hidden, N = s->batch;
    mx_code code = MX_OK;
    NAME(gather_before)(w);
    NAME(keep_weights)(w, false);
    for (int64_t i = s->steps - 1; i >= 0 && !code; i--) {
        w->t = w->reverse ? s->steps - 1 - i : i;
        code = NAME(enter_step)(w);
        if (code)
            break;
        mx_parallel(N, ROW_GRAIN(gates), NAME(back_rows), w);
        code = NAME(recur)(w, false, w->dgh + w->t * N * gates, 1, w->dh_next, NULL);
        T *swap = w->dh;
        w->dh = w->dh_next, w->dh_next = swap;
    }
    return code ? code : NAME(finish)(w);
}

#include "cpu/kernels/rnn/rnn_layers_body.h"
