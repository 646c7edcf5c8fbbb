/* LSTM with projections or clipped states, step by step.  SPDX-License-Identifier: Apache-2.0
 *
 *     x W' + b for all steps (T, N, 4 H); then, in a Scan over the steps:
 *     i f c o = x_t + h R';  c = f c + i tanh(c), clipped;  h = (o tanh(c)) P'
 *
 * H units, P the size of the projection, or H.  Parameters lie in our order: i f c o. */
#include <math.h>

#include "gluon/onnx/def/rnn.h"
#include "gluon/onnx/write_graph.h"

enum { MOST_NETWORKS = 64 };

typedef struct network {       /* one layer and direction */
    const char *w, *r, *p, *b; /* (4 H, I), (4 H, P), (P, H) or NULL, (4 H) */
    int64_t number;            /* layer * directions + direction */
    bool back;
} network;

typedef struct layers {
    const mx_rnn_attrs *a;
    int64_t directions, handed, at; /* at: position in the vector of parameters */
    network net[MOST_NETWORKS];
} layers;

/* The next numbers of the vector as a matrix, or, if columns is 0, a vector. */
static const char *next(mx_onnx_out *o, layers *l, int64_t rows, int64_t columns)
{
    const int64_t end = l->at + rows * (columns ? columns : 1);
    const char *x = mx_onnx_put(o, NULL, "Slice", o->in[1], mx_onnx_put_ints(o, MX_ONNX_LIST(l->at)),
                                mx_onnx_put_ints(o, MX_ONNX_LIST(end)), mx_onnx_put_ints(o, MX_ONNX_LIST(0)));
    l->at = end;
    return columns ? mx_onnx_put(o, NULL, "Reshape", x, mx_onnx_put_ints(o, MX_ONNX_LIST(rows, columns))) : x;
}

static const char *transposed(mx_onnx_out *o, const char *x)
{
    const char *y = mx_onnx_put(o, NULL, "Transpose", x);
    mx_onnx_set_ints(o, "perm", MX_ONNX_LIST(1, 0));
    return y;
}

static void take_networks(mx_onnx_out *o, layers *l, int64_t width)
{
    const int64_t gates = 4 * l->a->state_size, n = l->a->num_layers * l->directions;
    for (int64_t i = 0; i < n; i++) {
        network *net = &l->net[i];
        *net = (network){.number = i, .back = i % l->directions == 1};
        net->w = transposed(o, next(o, l, gates, i < l->directions ? width : l->directions * l->handed));
        net->r = transposed(o, next(o, l, gates, l->handed));
        if (l->a->projection_size != MX_NONE_INT)
            net->p = transposed(o, next(o, l, l->handed, l->a->state_size));
    }
    for (int64_t i = 0; i < n; i++) {
        const char *one = next(o, l, gates, 0);
        l->net[i].b = mx_onnx_put(o, NULL, "Add", one, next(o, l, gates, 0));
    }
}

/* State `number` of input i: (N, units). */
static const char *state(mx_onnx_out *o, int i, int64_t number, int64_t units)
{
    if (mx_onnx_zero_state(o, i)) {
        const char *shape = mx_onnx_put(o, NULL, "Shape", o->in[0]);
        const char *batch = mx_onnx_put(o, NULL, "Slice", shape, mx_onnx_put_ints(o, MX_ONNX_LIST(1)),
                                        mx_onnx_put_ints(o, MX_ONNX_LIST(2)));
        shape = mx_onnx_put(o, NULL, "Concat", batch, mx_onnx_put_ints(o, MX_ONNX_LIST(units)));
        mx_onnx_set_int(o, "axis", 0);
        return mx_onnx_put(o, NULL, "Expand", mx_onnx_put_number(o, 0, o->in_type[0]), shape);
    }
    const char *y = mx_onnx_put(o, NULL, "Gather", o->in[i], mx_onnx_put_number(o, (double)number, MX_INT64));
    mx_onnx_set_int(o, "axis", 0);
    return y;
}

static const char *clipped(mx_onnx_out *o, const mx_rnn_attrs *a, const char *x)
{
    if (isnan(a->lstm_state_clip_min) && isnan(a->lstm_state_clip_max))
        return x;
    const char *low =
        isnan(a->lstm_state_clip_min) ? NULL : mx_onnx_put_number(o, a->lstm_state_clip_min, o->in_type[0]);
    const char *high =
        isnan(a->lstm_state_clip_max) ? NULL : mx_onnx_put_number(o, a->lstm_state_clip_max, o->in_type[0]);
    return mx_onnx_put(o, NULL, "Clip", x, low, high);
}

/* One step; *h and *c become the next states. */
static void put_step(mx_onnx_out *o, const mx_rnn_attrs *a, const network *net, const char *x, const char **h,
                     const char **c)
{
    const char *z = mx_onnx_put(o, NULL, "Add", x, mx_onnx_put(o, NULL, "MatMul", *h, net->r));
    const int64_t units = a->state_size;
    const char *gate[4];
    gate[0] = mx_onnx_put(o, NULL, "Split", z, mx_onnx_put_ints(o, MX_ONNX_LIST(units, units, units, units)));
    for (int k = 1; k < 4; k++)
        gate[k] = mx_onnx_more(o, NULL);
    mx_onnx_set_int(o, "axis", 1);
    for (int k = 0; k < 4; k++)
        gate[k] = mx_onnx_put(o, NULL, k == 2 ? "Tanh" : "Sigmoid", gate[k]);
    *c = mx_onnx_put(o, NULL, "Add", mx_onnx_put(o, NULL, "Mul", gate[1], *c),
                     mx_onnx_put(o, NULL, "Mul", gate[0], gate[2]));
    *c = clipped(o, a, *c);
    *h = mx_onnx_put(o, NULL, "Mul", gate[3], mx_onnx_put(o, NULL, "Tanh", *c));
    *h = net->p ? mx_onnx_put(o, NULL, "MatMul", *h, net->p) : *h;
}

static mx_text put_body(mx_onnx_out *o, const mx_rnn_attrs *a, const network *net)
{
    mx_onnx_body body;
    mx_shape_t any = {.ndim = 2, .dim = {-1, -1}};
    const int type = o->in_type[0];
    mx_onnx_begin_body(o, &body);
    const char *h = mx_onnx_body_input(o, &body, &any, type), *c = mx_onnx_body_input(o, &body, &any, type),
               *x = mx_onnx_body_input(o, &body, &any, type);
    put_step(o, a, net, x, &h, &c);
    mx_onnx_body_output(o, &body, &(mx_onnx_operand){h, any, type, NULL});
    mx_onnx_body_output(o, &body, &(mx_onnx_operand){c, any, type, NULL});
    mx_onnx_body_output(o, &body, &(mx_onnx_operand){h, any, type, NULL});
    return mx_onnx_end_body(o, &body);
}

/* Results (T, N, P) of one network; *h and *c get its last states (1, N, ...). */
static const char *put_network(mx_onnx_out *o, const layers *l, const network *net, const char *x, const char **h,
                               const char **c)
{
    const char *xw = mx_onnx_put(o, NULL, "Add", mx_onnx_put(o, NULL, "MatMul", x, net->w), net->b);
    const char *first = state(o, 2, net->number, l->handed), *memory = state(o, 3, net->number, l->a->state_size);
    mx_text graph = put_body(o, l->a, net);
    const char *last = mx_onnx_put(o, NULL, "Scan", first, memory, xw), *cell = mx_onnx_more(o, NULL),
               *y = mx_onnx_more(o, NULL);
    mx_onnx_set_graph(o, "body", &graph);
    mx_onnx_set_int(o, "num_scan_inputs", 1);
    mx_onnx_set_ints(o, "scan_input_directions", MX_ONNX_LIST(net->back));
    mx_onnx_set_ints(o, "scan_output_directions", MX_ONNX_LIST(net->back));
    const char *axis = mx_onnx_put_ints(o, MX_ONNX_LIST(0));
    *h = mx_onnx_put(o, NULL, "Unsqueeze", last, axis);
    *c = mx_onnx_put(o, NULL, "Unsqueeze", cell, axis);
    return y;
}

static void put_joined(mx_onnx_out *o, const char *out, int n, const char *const *parts, int axis)
{
    mx_onnx_node(o, out, "Concat", n, parts);
    mx_onnx_set_int(o, "axis", axis);
}

mx_code mx_onnx_write_lstm_steps(mx_onnx_out *o)
{
    const mx_rnn_attrs *a = o->attrs;
    layers l = {.a = a, .directions = a->bidirectional ? 2 : 1,
                .handed = a->projection_size != MX_NONE_INT ? a->projection_size : a->state_size};
    const int n = (int)(a->num_layers * l.directions);
    const char *h[MOST_NETWORKS], *c[MOST_NETWORKS], *x = o->in[0];
    if (n > MOST_NETWORKS)
        return mx_onnx_refuse(o, "it has too many layers");
    take_networks(o, &l, o->in_shape[0].dim[2]);
    for (int64_t k = 0; k < a->num_layers; k++) {
        const char *y[2], *out = k + 1 == a->num_layers ? o->out[0] : mx_onnx_spare(o);
        for (int64_t d = 0; d < l.directions; d++) {
            const int64_t i = k * l.directions + d;
            y[d] = put_network(o, &l, &l.net[i], x, &h[i], &c[i]);
        }
        put_joined(o, out, (int)l.directions, y, 2);
        x = out;
    }
    if (a->state_outputs) {
        put_joined(o, o->out[1], n, h, 0);
        put_joined(o, o->out[2], n, c, 0);
    }
    return mx_onnx_done(o);
}
