/* RNN for one element type: all layers and directions of a call (included by rnn_body.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */

static T *NAME(reserve_block)(const rnn_job *job, int64_t column)
{
    return (T *)job->reserve + job->shape.steps * job->shape.batch * column;
}

/* Where layer `layer` reads and writes. */
static const T *NAME(layer_input)(const rnn_job *job, int64_t layer)
{
    return layer ? NAME(reserve_block)(job, mx_rnn_input_column(&job->shape, layer)) : job->in[0];
}
static T *NAME(layer_output)(const rnn_job *job, int64_t layer, void *last)
{
    return layer == job->shape.layers - 1 ? last
                                          : NAME(reserve_block)(job, mx_rnn_input_column(&job->shape, layer + 1));
}

static NAME(network) NAME(network_of)(const rnn_job *job, int64_t layer, int64_t direction, void *output)
{
    const mx_rnn_shape *s = &job->shape;
    const int64_t gates = s->gates * s->hidden, inputs = mx_rnn_inputs(s, layer),
                  kept = mx_rnn_kept_column(s, layer, direction);
    const T *weight = (const T *)job->in[1] + mx_rnn_weight_at(s, layer, direction);
    const T *bias = (const T *)job->in[1] + mx_rnn_bias_at(s, layer, direction);
    const bool extra = s->mode == MX_CELL_LSTM || s->mode == MX_CELL_GRU;
    return (NAME(network)){.job = job, .s = s, .inputs = inputs, .width = s->directions * s->handed, .reverse = direction == 1,
                           .x = NAME(layer_input)(job, layer), .wx = weight, .wh = weight + gates * inputs,
                           .wr = weight + gates * (inputs + s->handed), .bx = bias, .bh = bias + gates,
                           .out = NAME(layer_output)(job, layer, output) + direction * s->handed,
                           .gates = NAME(reserve_block)(job, kept), .extra = NAME(reserve_block)(job, kept + gates),
                           .raw = NAME(reserve_block)(job, kept + gates + (extra ? s->hidden : 0))};
}

/* The panels of the weights in scratch, at a cache line's beginning; NULL: few steps need none. */
static T *NAME(panels_at)(const mx_rnn_shape *s, T *scratch)
{
    return s->steps >= PANEL_STEPS ? (T *)(((uintptr_t)scratch + MX_ALIGN - 1) / MX_ALIGN * MX_ALIGN) : NULL;
}

/* Fills the mask, 0 or 1 / (1 - p), and applies it; without dropout in this call the mask is 1. */
static void NAME(drop)(const rnn_job *job, T *x, T *mask, int64_t n)
{
    const double p = job->dropout;
    const uint32_t threshold = (uint32_t)(p * 65536);
    const T scale = p < 1 ? (T)(1 / (1 - p)) : 0;
    const mx_rng rng = p > 0 ? mx_rng_reserve((uint64_t)(n / PHILOX_GROUP + 1) * PHILOX_LANES) : (mx_rng){0};
    const philox_keys keys = philox_schedule(rng.seed);
    uint32_t words[PHILOX_GROUP];
    for (int64_t i = 0; i < n; i++) {
        if (p > 0 && i % PHILOX_GROUP == 0)
            philox_group(&keys, rng.counter + (uint64_t)(i / PHILOX_GROUP) * PHILOX_LANES, words);
        mask[i] = p > 0 ? ((words[i % PHILOX_GROUP] & 0xffff) >= threshold ? scale : 0) : 1;
        x[i] *= mask[i];
    }
}

static mx_code NAME(forward_layers)(const rnn_job *job, T *scratch)
{
    const mx_rnn_shape *s = &job->shape;
    const int64_t N = s->batch, gates = s->gates * s->hidden, P = s->handed, H = s->hidden;
    const bool lstm = s->mode == MX_CELL_LSTM;
    T *h = scratch, *c = h + N * P, *bias = c + N * H, *gh = bias + gates, *projected = gh + N * gates,
      *panels = projected + N * P;
    mx_code code = MX_OK;
    for (int64_t layer = 0; layer < s->layers && !code; layer++) {
        for (int64_t d = 0; d < s->directions && !code; d++) {
            const int64_t which = layer * s->directions + d;
            NAME(network) w = NAME(network_of)(job, layer, d, job->out[0]);
            w.h = h, w.c = c, w.bias = bias, w.gh = gh, w.projected = projected, w.panels = NAME(panels_at)(s, panels);
            memcpy(h, (const T *)job->in[2] + which * N * P, (size_t)(N * P) * sizeof(T));
            if (lstm)
                memcpy(c, (const T *)job->in[3] + which * N * H, (size_t)(N * H) * sizeof(T));
            code = NAME(forward)(&w);
            if (job->out[1])
                memcpy((T *)job->out[1] + which * N * P, h, (size_t)(N * P) * sizeof(T));
            if (job->out[2])
                memcpy((T *)job->out[2] + which * N * H, c, (size_t)(N * H) * sizeof(T));
        }
        if (s->dropout && layer + 1 < s->layers) {
            const int64_t width = s->directions * P, column = mx_rnn_input_column(s, layer + 1);
            NAME(drop)(job, NAME(reserve_block)(job, column), NAME(reserve_block)(job, column + width),
                       s->steps * N * width);
        }
    }
    return code;
}

static void NAME(copy_or_zero)(T *to, const void *from, int64_t at, int64_t n)
{
    if (from)
        memcpy(to, (const T *)from + at, (size_t)n * sizeof(T));
    else
        memset(to, 0, (size_t)n * sizeof(T));
}

/* The gradient of layer `layer`'s input becomes that of the output of the layer below. */
static void NAME(undrop)(const rnn_job *job, T *dx, int64_t layer)
{
    const mx_rnn_shape *s = &job->shape;
    const int64_t width = s->directions * s->handed;
    const T *mask = NAME(reserve_block)(job, mx_rnn_input_column(s, layer) + width);
    for (int64_t i = 0; i < s->steps * s->batch * width; i++)
        dx[i] *= mask[i];
}

static mx_code NAME(backward_direction)(const rnn_job *job, int64_t layer, int64_t d, const T *dout, T *dx, T *scratch)
{
    const mx_rnn_shape *s = &job->shape;
    const int64_t N = s->batch, rows = s->steps * N, gates = s->gates * s->hidden, P = s->handed, H = s->hidden;
    const int64_t which = layer * s->directions + d, inputs = mx_rnn_inputs(s, layer);
    NAME(network) w = NAME(network_of)(job, layer, d, (void *)job->output);
    T *weight = (T *)job->out[1] + mx_rnn_weight_at(s, layer, d),
      *bias = (T *)job->out[1] + mx_rnn_bias_at(s, layer, d);
    w.dgates = scratch, w.before = w.dgates + rows * gates, w.dh = w.before + rows * P, w.dh_next = w.dh + N * P;
    w.dc = w.dh_next + N * P, w.dfull = w.dc + N * H, w.draw = w.dfull + N * H;
    T *rest = w.draw + (s->projection ? rows * P : 0);
    w.dgh = s->mode == MX_CELL_GRU ? rest : w.dgates;
    w.panels = NAME(panels_at)(s, rest + (s->mode == MX_CELL_GRU ? rows * gates : 0));
    w.dout = dout ? dout + d * P : NULL, w.dx = dx, w.add_dx = d > 0;
    w.h0 = (const T *)job->in[2] + which * N * P;
    w.c0 = s->mode == MX_CELL_LSTM ? (const T *)job->in[3] + which * N * H : NULL;
    w.dwx = weight, w.dwh = weight + gates * inputs, w.dwr = weight + gates * (inputs + P), w.dbx = bias,
    w.dbh = bias + gates;
    NAME(copy_or_zero)(w.dh, job->ograd[1], which * N * P, N * P);
    NAME(copy_or_zero)(w.dc, job->ograd[2], which * N * H, N * H);
    mx_code code = NAME(backward)(&w);
    memcpy((T *)job->out[2] + which * N * P, w.dh, (size_t)(N * P) * sizeof(T));
    if (job->out[3])
        memcpy((T *)job->out[3] + which * N * H, w.dc, (size_t)(N * H) * sizeof(T));
    return code;
}

static mx_code NAME(backward_layers)(const rnn_job *job, T *scratch)
{
    const mx_rnn_shape *s = &job->shape;
    const int64_t between = s->steps * s->batch * s->directions * s->handed;
    const T *dout = job->ograd[0];
    mx_code code = MX_OK;
    for (int64_t layer = s->layers - 1; layer >= 0 && !code; layer--) {
        T *dx = layer ? scratch + layer % 2 * between : job->out[0];
        for (int64_t d = 0; d < s->directions && !code; d++)
            code = NAME(backward_direction)(job, layer, d, dout, dx, scratch + 2 * between);
        if (layer && s->dropout)
            NAME(undrop)(job, dx, layer);
        dout = dx;
    }
    return code;
}
