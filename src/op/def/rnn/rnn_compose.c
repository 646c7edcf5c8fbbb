/* The gradient of RNN as a composition, for higher-order gradients (see rnn.h for the geometry).
 *
 *     forward again, step by step, with basic operators; then back through the steps, newest first:
 *         dh, dc of a step's states -> gradients da, db of its gates' two sides -> dh, dc of the states before it
 *     weights:  dWx = da' x,  dWh = db' h,  dbx = sum of da,  dbh = sum of db,  projection: dWr = dh' raw
 *
 * Steps past the end of a sequence pass their states on: with mask m in {0, 1}  h' = m hn + (1 - m) h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "op/def/rnn/rnn_compose.h"

#include <math.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/error.h"
#include "op/formula/movement.h"

typedef struct step {        /* (N, ...) each; what backward needs */
    mx_array *h, *c;         /* states before it */
    mx_array *i, *f, *g, *o; /* gates; GRU: r, z, n and the h side of n; others: g is the activation's argument */
    mx_array *cell, *tanh_cell, *raw; /* LSTM: c before it is clipped, tanh of c after; h before the projection */
} step;

typedef struct network { /* of one layer and direction */
    const mx_rnn_shape *s;
    const mx_rnn_limits *limits;
    mx_array *wx, *wh, *wr, *bx, *bh;
    mx_array *x;                           /* (T N, inputs) */
    mx_array **mask;                       /* (T) of (N, 1); NULL: no lengths */
    step *steps;                           /* (T) in the order of time */
    mx_array **out;                        /* (T) of (N, P) */
    mx_array *h, *c;                       /* states: first before the steps, then after them */
    mx_array *dwx, *dwh, *dwr, *dbx, *dbh; /* gradients */
    mx_array *dx, *dh, *dc;
    bool back;
} network;

static mx_array *shaped(mx_array *x, int64_t a, int64_t b)
{
    return mx_g_reshape(x, &(mx_shape_t){.ndim = b < 0 ? 1 : 2, .dim = {a, b}});
}
static mx_array *by(mx_array *a, mx_array *b) { return mx_g2("dot", a, b); }
static mx_array *by_turned(mx_array *a, mx_array *b)
{
    return mx_g_text(MX_OP("dot"), "transpose_b=True", 2, (mx_array *const[]){a, b});
}
static mx_array *turned_by(mx_array *a, mx_array *b)
{
    return mx_g_text(MX_OP("dot"), "transpose_a=True", 2, (mx_array *const[]){a, b});
}
static mx_array *plus(mx_array *sum, mx_array *more, bool first) { return first ? more : mx_g_add(sum, more); }
static mx_array *sigmoid(mx_array *x) { return mx_g1("sigmoid", x); }
static mx_array *part(mx_array *x, int64_t k, int64_t size) { return mx_g_slice_axis(x, 1, k * size, (k + 1) * size); }
static mx_array *above(mx_array *x, const char *op, double limit)
{
    char text[64];
    snprintf(text, sizeof text, "scalar=%.17g", limit);
    return mx_g_text(mx_op_find(op), text, 1, &x);
}

/* m a + (1 - m) b */
static mx_array *choose(mx_array *m, mx_array *a, mx_array *b)
{
    return m ? mx_g_add(mx_g_mul(m, a), mx_g_mul(mx_g_rsub(1, m), b)) : a;
}

/* ---- forward ------------------------------------------------------------------------------------------------------ */

static mx_array *clipped(const mx_rnn_limits *l, mx_array *c)
{
    char text[96];
    if (isnan(l->least))
        return c;
    snprintf(text, sizeof text, "a_min=%.17g, a_max=%.17g", l->least, l->most);
    return mx_g_text(MX_OP("clip"), text, 1, &c);
}

/* a, b (N, G H): the gates' sides of the input and of h; returns c after the step, NULL if there is none. */
static mx_array *run_cell(const network *w, step *t, mx_array *a, mx_array *b)
{
    const int64_t H = w->s->hidden;
    if (w->s->mode == MX_CELL_LSTM) {
        mx_array *sum = mx_g_add(a, b);
        t->i = sigmoid(part(sum, 0, H)), t->f = sigmoid(part(sum, 1, H));
        t->g = mx_g1("tanh", part(sum, 2, H)), t->o = sigmoid(part(sum, 3, H));
        t->cell = mx_g_add(mx_g_mul(t->f, t->c), mx_g_mul(t->i, t->g));
        mx_array *c = clipped(w->limits, t->cell);
        t->tanh_cell = mx_g1("tanh", c);
        t->raw = mx_g_mul(t->o, t->tanh_cell);
        return c;
    }
    if (w->s->mode == MX_CELL_GRU) {
        mx_array *r = mx_g_add(part(a, 0, H), part(b, 0, H)), *z = mx_g_add(part(a, 1, H), part(b, 1, H));
        t->i = sigmoid(r), t->f = sigmoid(z), t->o = part(b, 2, H);
        t->g = mx_g1("tanh", mx_g_add(part(a, 2, H), mx_g_mul(t->i, t->o)));
        t->raw = mx_g_add(mx_g_mul(mx_g_rsub(1, t->f), t->g), mx_g_mul(t->f, t->h));
        return NULL;
    }
    t->g = mx_g_add(a, b);
    t->raw = w->s->mode == MX_CELL_TANH ? mx_g1("tanh", t->g) : mx_g1("relu", t->g);
    return NULL;
}

static void go_forward(network *w)
{
    const mx_rnn_shape *s = w->s;
    mx_array *gx = mx_g_add(by_turned(w->x, w->wx), w->bx);
    for (int64_t k = 0; k < s->steps; k++) {
        const int64_t t = w->back ? s->steps - 1 - k : k;
        step *at = &w->steps[t];
        mx_array *m = w->mask ? w->mask[t] : NULL;
        at->h = w->h, at->c = w->c;
        mx_array *c = run_cell(w, at, mx_g_slice_axis(gx, 0, t * s->batch, (t + 1) * s->batch),
                               mx_g_add(by_turned(w->h, w->wh), w->bh));
        mx_array *h = s->projection ? by_turned(at->raw, w->wr) : at->raw;
        w->out[t] = m ? mx_g_mul(m, h) : h;
        w->h = choose(m, h, w->h);
        w->c = c ? choose(m, c, w->c) : w->c;
    }
}

/* ---- backward ----------------------------------------------------------------------------------------------------- */

static mx_array *through_sigmoid(mx_array *g, mx_array *y) { return mx_g_mul(g, mx_g_mul(y, mx_g_rsub(1, y))); }
static mx_array *through_tanh(mx_array *g, mx_array *y) { return mx_g_mul(g, mx_g_rsub(1, mx_g_mul(y, y))); }

/* LSTM: dc is the gradient of c after the step and becomes that of c before it. */
static mx_array *back_lstm(const network *w, const step *t, mx_array *m, mx_array *draw, mx_array **dc)
{
    mx_array *d = mx_g_add(m ? mx_g_mul(m, *dc) : *dc, through_tanh(mx_g_mul(draw, t->o), t->tanh_cell));
    if (!isnan(w->limits->least))
        d = mx_g_mul(d, mx_g_mul(above(t->cell, "_greater_scalar", w->limits->least),
                                 above(t->cell, "_lesser_scalar", w->limits->most)));
    mx_array *before = mx_g_mul(d, t->f);
    *dc = m ? mx_g_add(mx_g_mul(mx_g_rsub(1, m), *dc), before) : before;
    mx_array *gates[4] = {through_sigmoid(mx_g_mul(d, t->g), t->i), through_sigmoid(mx_g_mul(d, t->c), t->f),
                          through_tanh(mx_g_mul(d, t->i), t->g),
                          through_sigmoid(mx_g_mul(draw, t->tanh_cell), t->o)};
    return mx_g_join(4, gates, 1, false);
}

/* GRU: r, z, n are t->i, t->f, t->g; the two sides differ in the last gate. */
static mx_array *back_gru(const step *t, mx_array *draw, mx_array **db, mx_array **dh)
{
    mx_array *dn = through_tanh(mx_g_mul(draw, mx_g_rsub(1, t->f)), t->g);
    mx_array *dz = through_sigmoid(mx_g_mul(draw, mx_g_sub(t->h, t->g)), t->f);
    mx_array *dr = through_sigmoid(mx_g_mul(dn, t->o), t->i);
    *db = mx_g_join(3, (mx_array *const[]){dr, dz, mx_g_mul(dn, t->i)}, 1, false);
    *dh = mx_g_mul(draw, t->f);
    return mx_g_join(3, (mx_array *const[]){dr, dz, dn}, 1, false);
}

/* dy (T N, P): gradients of the outputs; w->dh, w->dc: of the last states, then of the first. */
static void go_back(network *w, mx_array *dy, mx_array **da)
{
    const mx_rnn_shape *s = w->s;
    const mx_shape_t gates = {.ndim = 1, .dim = {s->gates * s->hidden}};
    for (int64_t k = 0; k < s->steps; k++) {
        const int64_t t = w->back ? k : s->steps - 1 - k;
        const step *at = &w->steps[t];
        const bool first = k == 0;
        mx_array *m = w->mask ? w->mask[t] : NULL, *db, *straight = NULL;
        mx_array *dh = mx_g_add(w->dh, mx_g_slice_axis(dy, 0, t * s->batch, (t + 1) * s->batch));
        dh = m ? mx_g_mul(m, dh) : dh;
        if (s->projection)
            w->dwr = plus(w->dwr, turned_by(dh, at->raw), first);
        mx_array *draw = s->projection ? by(dh, w->wr) : dh;
        if (s->mode == MX_CELL_LSTM)
            da[t] = db = back_lstm(w, at, m, draw, &w->dc);
        else if (s->mode == MX_CELL_GRU)
            da[t] = back_gru(at, draw, &db, &straight);
        else
            da[t] = db = s->mode == MX_CELL_TANH ? through_tanh(draw, at->raw)
                                                 : mx_g_mul(draw, above(at->g, "_greater_scalar", 0));
        mx_array *before = by(db, w->wh);
        before = straight ? mx_g_add(before, straight) : before;
        w->dh = m ? mx_g_add(mx_g_mul(mx_g_rsub(1, m), w->dh), before) : before;
        w->dwh = plus(w->dwh, turned_by(db, at->h), first);
        w->dbh = plus(w->dbh, mx_g_sum_to(db, &gates), first);
    }
    mx_array *all = mx_g_join((int)s->steps, da, 0, false); /* (T N, G H) */
    w->dwx = turned_by(all, w->x), w->dbx = mx_g_sum_to(all, &gates), w->dx = by(all, w->wx);
}

/* ---- layers ------------------------------------------------------------------------------------------------------- */

typedef struct layers {
    const mx_rnn_shape *s;
    const mx_grad *grad;
    network *networks; /* (layers * directions) */
    mx_array **room;   /* (T) or as many as there are pieces of parameters */
} layers;

static mx_array *cut(mx_array *parameters, int64_t *at, int64_t rows, int64_t columns)
{
    const int64_t count = rows * (columns < 0 ? 1 : columns), begin = *at;
    *at += count;
    return shaped(mx_g_slice_axis(parameters, 0, begin, begin + count), rows, columns);
}

/* The state of network k among (networks, N, size). */
static mx_array *state_at(mx_array *states, int64_t k, int64_t batch, int64_t size)
{
    return shaped(mx_g_slice_axis(states, 0, k, k + 1), batch, size);
}

static void open_network(const layers *l, int64_t k)
{
    const mx_rnn_shape *s = l->s;
    network *w = &l->networks[k];
    const int64_t layer = k / s->directions, direction = k % s->directions, gates = s->gates * s->hidden;
    int64_t weight = mx_rnn_weight_at(s, layer, direction), bias = mx_rnn_bias_at(s, layer, direction);
    mx_array *parameters = l->grad->in[1];
    w->wx = cut(parameters, &weight, gates, mx_rnn_inputs(s, layer)),
    w->wh = cut(parameters, &weight, gates, s->handed);
    w->wr = s->projection ? cut(parameters, &weight, s->handed, s->hidden) : NULL;
    w->bx = cut(parameters, &bias, gates, -1), w->bh = cut(parameters, &bias, gates, -1);
    w->h = state_at(l->grad->in[2], k, s->batch, s->handed);
    w->c = s->mode == MX_CELL_LSTM ? state_at(l->grad->in[3], k, s->batch, s->hidden) : NULL;
    w->back = direction;
}

static mx_array *layers_forward(const layers *l, mx_array *x)
{
    const mx_rnn_shape *s = l->s;
    for (int64_t k = 0; k < s->layers * s->directions; k++) {
        network *w = &l->networks[k];
        open_network(l, k);
        w->x = x;
        go_forward(w);
        if ((k + 1) % s->directions)
            continue;
        for (int64_t t = 0; t < s->steps; t++)
            l->room[t] =
                s->directions == 1 ? w->out[t] : mx_g_join(2, (mx_array *const[]){w[-1].out[t], w->out[t]}, 1, false);
        x = mx_g_join((int)s->steps, l->room, 0, false);
    }
    return x;
}

/* The gradient of a last state; zeros if none arrived. */
static mx_array *last_gradient(const layers *l, int output, int64_t k, mx_array *like, int64_t size)
{
    const bool there = output < l->grad->n_out - 1 && l->grad->ograd[output];
    return there ? state_at(l->grad->ograd[output], k, l->s->batch, size) : mx_g1("zeros_like", like);
}

static mx_array *layers_back(const layers *l, mx_array *dy)
{
    const mx_rnn_shape *s = l->s;
    for (int64_t layer = s->layers - 1; layer >= 0; layer--) {
        mx_array *dx = NULL;
        for (int64_t d = 0; d < s->directions; d++) {
            const int64_t k = layer * s->directions + d;
            network *w = &l->networks[k];
            w->dh = last_gradient(l, 1, k, w->h, s->handed);
            w->dc = s->mode == MX_CELL_LSTM ? last_gradient(l, 2, k, w->c, s->hidden) : NULL;
            go_back(w, s->directions == 1 ? dy : part(dy, d, s->handed), l->room);
            dx = plus(dx, w->dx, d == 0);
        }
        dy = dx;
    }
    return dy;
}

/* All weights, then all biases, as one list of numbers. */
static mx_array *parameter_gradient(const layers *l)
{
    const int64_t networks = l->s->layers * l->s->directions;
    int n = 0;
    for (int64_t k = 0; k < 2 * networks; k++) {
        const network *w = &l->networks[k % networks];
        mx_array *const pieces[2][3] = {{w->dwx, w->dwh, w->dwr}, {w->dbx, w->dbh, NULL}};
        for (int i = 0; i < (k < networks && l->s->projection ? 3 : 2); i++) {
            mx_array *piece = pieces[k >= networks][i];
            l->room[n++] = piece ? shaped(piece, piece->size, -1) : NULL;
        }
    }
    return mx_g_join(n, l->room, 0, false);
}

static mx_array *state_gradient(const layers *l, bool cells)
{
    const int64_t networks = l->s->layers * l->s->directions;
    for (int64_t k = 0; k < networks; k++)
        l->room[k] = cells ? l->networks[k].dc : l->networks[k].dh;
    return mx_g_join((int)networks, l->room, 0, true);
}

/* Masks of the steps from the lengths (N); false: failed. */
static bool make_masks(const mx_grad *grad, const mx_rnn_shape *s, mx_array *lengths, mx_array **mask)
{
    char text[64];
    snprintf(text, sizeof text, "dtype=%s", mx_dtype_name((mx_dtype)grad->in_type[0]));
    mx_array *numbers = mx_g_text(MX_OP("Cast"), text, 1, &lengths);
    for (int64_t t = 0; t < s->steps; t++)
        if (!(mask[t] = shaped(above(numbers, "_greater_scalar", (double)t), s->batch, 1)))
            return false;
    return true;
}

static mx_code compose(const layers *l)
{
    const mx_grad *grad = l->grad;
    const mx_rnn_shape *s = l->s;
    mx_array *x = shaped(grad->in[0], s->steps * s->batch, s->input), *y = layers_forward(l, x);
    mx_array *dy = grad->ograd[0] ? shaped(grad->ograd[0], s->steps * s->batch, s->directions * s->handed)
                                  : mx_g1("zeros_like", y);
    mx_array *dx = layers_back(l, dy);
    mx_array *gradients[4] = {mx_g_reshape(dx, &grad->in_shape[0]), parameter_gradient(l), state_gradient(l, false),
                              s->mode == MX_CELL_LSTM ? state_gradient(l, true) : NULL};
    for (int i = 0; i < (s->mode == MX_CELL_LSTM ? 4 : 3); i++) {
        if (!gradients[i])
            return mx_error_code();
        grad->igrad[i] = grad->wanted[i] ? gradients[i] : NULL;
    }
    return MX_OK;
}

mx_code mx_rnn_compose(mx_grad *grad, const mx_rnn_shape *s, const mx_rnn_limits *limits, mx_array *lengths)
{
    const size_t networks = (size_t)(s->layers * s->directions), T = (size_t)s->steps, pieces = 5 * networks;
    const size_t room = T > pieces ? T : pieces;
    const size_t bytes =
        networks * (sizeof(network) + T * (sizeof(step) + sizeof(mx_array *))) + (T + room) * sizeof(mx_array *);
    network *memory = mx_alloc_zero(bytes);
    if (!memory)
        return MX_ERR_MEMORY;
    step *steps = (step *)(memory + networks);
    mx_array **lists = (mx_array **)(steps + networks * T), **mask = lists + networks * T;
    layers l = {s, grad, memory, mask + T};
    mx_code code = lengths && !make_masks(grad, s, lengths, mask) ? mx_error_code() : MX_OK;
    for (size_t k = 0; k < networks; k++)
        memory[k] = (network){.s = s, .limits = limits, .mask = lengths ? mask : NULL, .steps = steps + k * T,
                              .out = lists + k * T};
    code = code ? code : compose(&l);
    mx_free(memory, bytes);
    return code;
}
