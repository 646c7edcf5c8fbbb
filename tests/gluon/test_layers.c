/* Every layer class: shape and values of its output against reference loops, and a gradient for every parameter.
 *
 * The entries of `cases` name classes and options; a layer without an entry fails the test.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "gluon/class/class.h"
#include "block_check.h"

enum { MOST = 4096 };

/* The arguments of a reference computation: the input, the parameters as doubles, the output to fill. */
typedef struct reference {
    mx_block *block;
    const double *x; /* input */
    mx_dims in, out;
    double *y;          /* to be filled */
    const double *p[4]; /* own parameters, in order; NULL after the last */
    const int64_t *k;   /* numbers of the case: see its entry */
} reference;

typedef struct layer_case {
    const char *cls, *options;
    mx_dims in, out;
    void (*compute)(const reference *c);
    int64_t k[8];
    bool integers; /* the input holds small integers */
    bool train;    /* in training mode */
    bool no_gradient;
} layer_case;

static int64_t size(const mx_dims *d)
{
    int64_t n = 1;
    for (int i = 0; i < d->n; i++)
        n *= d->d[i];
    return n;
}

/* ---- products ------------------------------------------------------------------------------------------------------- */

/* k: flatten */
static void dense(const reference *c)
{
    const int64_t units = c->out.d[c->out.n - 1], n = size(&c->out) / units, features = size(&c->in) / n;
    for (int64_t i = 0; i < n; i++)
        for (int64_t u = 0; u < units; u++) {
            double sum = c->p[1] ? c->p[1][u] : 0;
            for (int64_t f = 0; f < features; f++)
                sum += c->x[i * features + f] * c->p[0][u * features + f];
            c->y[i * units + u] = sum > 0 || !c->k[0] ? sum : 0; /* k[0]: relu */
        }
}

static void embedding(const reference *c)
{
    const int64_t width = c->out.d[c->out.n - 1];
    for (int64_t i = 0; i < size(&c->in); i++)
        for (int64_t j = 0; j < width; j++)
            c->y[i * width + j] = c->p[0][(int64_t)c->x[i] * width + j];
}

/* ---- windows: convolutions and pools over up to three axes ------------------------------------------------------------- */

typedef struct grid {
    int64_t n, c, s[3]; /* examples, channels, spatial sizes (leading ones are 1) */
    bool last;          /* channels last */
} grid;

static grid grid_of(const mx_dims *d, bool last)
{
    grid g = {d->d[0], last ? d->d[d->n - 1] : d->d[1], {1, 1, 1}, last};
    const int axes = d->n - 2;
    for (int i = 0; i < axes; i++)
        g.s[3 - axes + i] = d->d[(last ? 1 : 2) + i];
    return g;
}

static int64_t at(const grid *g, int64_t n, int64_t c, const int64_t *s)
{
    const int64_t place = (s[0] * g->s[1] + s[1]) * g->s[2] + s[2], places = g->s[0] * g->s[1] * g->s[2];
    return g->last ? (n * places + place) * g->c + c : (n * g->c + c) * places + place;
}

#define FOR3(v, limit) for (v[0] = 0; v[0] < (limit)[0]; v[0]++) for (v[1] = 0; v[1] < (limit)[1]; v[1]++) for (v[2] = 0; v[2] < (limit)[2]; v[2]++)

typedef struct window {
    int64_t size[3], stride, pad, dilate, groups;
    bool last;
} window;

/* k: size of the window on every axis, stride, pad, dilation, groups, channels last */
static window window_of(const reference *c)
{
    const int axes = c->in.n - 2;
    window w = {{1, 1, 1}, c->k[1], c->k[2], c->k[3], c->k[4], c->k[5]};
    for (int i = 0; i < axes; i++)
        w.size[3 - axes + i] = c->k[0];
    return w;
}

/* The position of window cell q of output place o in the input; false if outside. Axes of size 1 have no stride and pad. */
static bool cell(const window *w, const grid *in, const int64_t *o, const int64_t *q, int axes, int64_t *place)
{
    for (int i = 0; i < 3; i++) {
        const bool real = i >= 3 - axes;
        place[i] = real ? o[i] * w->stride - w->pad + q[i] * w->dilate : 0;
        if (place[i] < 0 || place[i] >= in->s[i])
            return false;
    }
    return true;
}

static double weight_at(const reference *c, const window *w, int64_t row, int64_t column, int64_t columns,
                        const int64_t *q)
{
    const int64_t place = (q[0] * w->size[1] + q[1]) * w->size[2] + q[2], places = w->size[0] * w->size[1] * w->size[2];
    return c->p[0][w->last ? (row * places + place) * columns + column : (row * columns + column) * places + place];
}

static void convolution(const reference *c)
{
    const window w = window_of(c);
    const grid in = grid_of(&c->in, w.last), out = grid_of(&c->out, w.last);
    const int64_t per = in.c / w.groups, each = out.c / w.groups;
    int64_t o[3], q[3], place[3];
    for (int64_t n = 0; n < out.n; n++)
        for (int64_t f = 0; f < out.c; f++)
            FOR3(o, out.s)
            {
                double sum = c->p[1] ? c->p[1][f] : 0;
                FOR3(q, w.size)
                for (int64_t k = 0; k < per && cell(&w, &in, o, q, c->in.n - 2, place); k++)
                    sum += c->x[at(&in, n, f / each * per + k, place)] * weight_at(c, &w, f, k, per, q);
                c->y[at(&out, n, f, o)] = sum;
            }
}

/* The transpose: every input cell is added to the window of outputs that would have read it. */
static void transposed(const reference *c)
{
    const window w = window_of(c);
    const grid in = grid_of(&c->in, false), out = grid_of(&c->out, false);
    const int64_t per = in.c / w.groups, each = out.c / w.groups;
    int64_t o[3], q[3], place[3];
    for (int64_t i = 0; i < size(&c->out); i++)
        c->y[i] = c->p[1] ? c->p[1][i / (out.s[0] * out.s[1] * out.s[2]) % out.c] : 0;
    for (int64_t n = 0; n < in.n; n++)
        for (int64_t k = 0; k < in.c; k++)
            FOR3(o, in.s)
    FOR3(q, w.size)
    for (int64_t f = 0; f < each && cell(&w, &out, o, q, c->in.n - 2, place); f++)
        c->y[at(&out, n, k / per * each + f, place)] += c->x[at(&in, n, k, o)] * weight_at(c, &w, k, f, each, q);
}

/* k[6]: average; 2: padding does not count */
static void pool(const reference *c)
{
    window w = window_of(c);
    const grid in = grid_of(&c->in, w.last), out = grid_of(&c->out, w.last);
    if (!c->k[0]) /* global */
        memcpy(w.size, in.s, sizeof w.size), w.stride = 1, w.dilate = 1;
    int64_t o[3], q[3], place[3];
    for (int64_t n = 0; n < out.n; n++)
        for (int64_t f = 0; f < out.c; f++)
            FOR3(o, out.s)
            {
                double sum = 0, most = -INFINITY;
                int64_t inside = 0;
                FOR3(q, w.size)
                {
                    if (!cell(&w, &in, o, q, c->in.n - 2, place))
                        continue;
                    const double x = c->x[at(&in, n, f, place)];
                    sum += x, most = x > most ? x : most, inside++;
                }
                const double count = c->k[6] == 2 ? (double)inside : (double)(w.size[0] * w.size[1] * w.size[2]);
                c->y[at(&out, n, f, o)] = c->k[6] ? sum / count : most;
            }
}

/* ---- elementwise --------------------------------------------------------------------------------------------------------- */

#define ELEMENTWISE(name, formula) \
    static void name(const reference *c) \
    { \
        for (int64_t i = 0; i < size(&c->in); i++) { \
            const double x = c->x[i]; \
            c->y[i] = formula; \
        } \
    }
static double sigmoid(double x) { return 1 / (1 + exp(-x)); }
ELEMENTWISE(identity, x)
ELEMENTWISE(relu, x > 0 ? x : 0)
ELEMENTWISE(logistic, sigmoid(x))
ELEMENTWISE(hyperbolic, tanh(x))
ELEMENTWISE(softrelu, log1p(exp(x)))
ELEMENTWISE(softsign, x / (1 + fabs(x)))
ELEMENTWISE(leaky, x > 0 ? x : 0.1 * x)
ELEMENTWISE(elu, x > 0 ? x : 1.5 * (exp(x) - 1))
ELEMENTWISE(selu, 1.0507009873554804935 * (x > 0 ? x : 1.6732632423543772848 * (exp(x) - 1)))
ELEMENTWISE(gelu, x * 0.5 * (1 + erf(x / sqrt(2))))
ELEMENTWISE(swish, x * sigmoid(2 * x))
ELEMENTWISE(prelu_one, x > 0 ? x : c->p[0][0] * x)
ELEMENTWISE(prelu_channels, x > 0 ? x : c->p[0][i / 4 % 3] * x)
ELEMENTWISE(normalized, (x - (i / 4 % 2 ? 0.5 : 0.25)) / (i / 4 % 2 ? 4 : 2))

static void reflection(const reference *c)
{
    const grid in = grid_of(&c->in, false), out = grid_of(&c->out, false);
    int64_t o[3];
    for (int64_t n = 0; n < out.n; n++)
        for (int64_t f = 0; f < out.c; f++)
            FOR3(o, out.s)
            {
                int64_t p[3] = {0};
                for (int i = 1; i < 3; i++) {
                    p[i] = llabs(o[i] - c->k[0]);
                    p[i] = p[i] >= in.s[i] ? 2 * (in.s[i] - 1) - p[i] : p[i];
                }
                c->y[at(&out, n, f, o)] = c->x[at(&in, n, f, p)];
            }
}

static void to_tensor(const reference *c) /* (H, W, C) -> (C, H, W) / 255 */
{
    const int64_t area = c->in.d[0] * c->in.d[1], channels = c->in.d[2];
    for (int64_t i = 0; i < area; i++)
        for (int64_t k = 0; k < channels; k++)
            c->y[k * area + i] = c->x[i * channels + k] / 255;
}

/* ---- normalisation --------------------------------------------------------------------------------------------------------- */

/* Elements i of the same group(i) share mean and variance; gamma and beta by number(i). */
static void normalize(const reference *c, int64_t groups, int64_t (*group)(const reference *c, int64_t i),
                      int64_t (*number)(const reference *c, int64_t i))
{
    for (int64_t g = 0; g < groups; g++) {
        double sum = 0, squares = 0, count = 0;
        for (int64_t i = 0; i < size(&c->in); i++)
            if (group(c, i) == g)
                sum += c->x[i], count++;
        for (int64_t i = 0; i < size(&c->in); i++)
            if (group(c, i) == g)
                squares += (c->x[i] - sum / count) * (c->x[i] - sum / count);
        for (int64_t i = 0; i < size(&c->in); i++)
            if (group(c, i) == g)
                c->y[i] = (c->x[i] - sum / count) / sqrt(squares / count + 1e-5) * c->p[0][number(c, i)] +
                          c->p[1][number(c, i)];
    }
}

static int64_t channel(const reference *c, int64_t i)
{
    return i / (size(&c->in) / c->in.d[0] / c->in.d[1]) % c->in.d[1];
}
static int64_t example_channel(const reference *c, int64_t i) { return i / (size(&c->in) / c->in.d[0] / c->in.d[1]); }
static int64_t row(const reference *c, int64_t i) { return i / c->in.d[c->in.n - 1]; }
static int64_t column(const reference *c, int64_t i) { return i % c->in.d[c->in.n - 1]; }
static int64_t example_group(const reference *c, int64_t i) { return i / (size(&c->in) / c->in.d[0] / c->k[0]); }
static int64_t group_number(const reference *c, int64_t i) { return example_group(c, i) % c->k[0]; }

static void batch_norm_train(const reference *c) { normalize(c, c->in.d[1], channel, channel); }
static void batch_norm_predict(const reference *c)
{
    for (int64_t i = 0; i < size(&c->in); i++) {
        const int64_t k = channel(c, i);
        const double y = (c->x[i] - c->p[2][k]) / sqrt(c->p[3][k] + 1e-5) * (c->k[1] ? 1 : c->p[0][k]) + c->p[1][k];
        c->y[i] = c->k[0] && y < 0 ? 0 : y; /* k: relu, gamma is fixed */
    }
}
static void layer_norm(const reference *c) { normalize(c, size(&c->in) / c->in.d[c->in.n - 1], row, column); }
static void instance_norm(const reference *c) { normalize(c, c->in.d[0] * c->in.d[1], example_channel, channel); }
static void group_norm(const reference *c) { normalize(c, c->in.d[0] * c->k[0], example_group, group_number); }

/* ---- recurrent layers: one layer and direction; k: kind of cell, gates ------------------------------------------------------- */

enum { RELU, TANH, LSTM, GRU, CELL_SIZE = 3 };

/* a: i2h x + bias, b: h2h h + bias, both (G H) */
static void step(int64_t kind, const double *a, const double *b, double *h, double *cells)
{
    enum { H = CELL_SIZE };
    for (int j = 0; j < H; j++) {
        const double sum = a[j] + b[j], next = a[H + j] + b[H + j];
        if (kind == LSTM) {
            cells[j] = sigmoid(next) * cells[j] + sigmoid(sum) * tanh(a[2 * H + j] + b[2 * H + j]);
            h[j] = sigmoid(a[3 * H + j] + b[3 * H + j]) * tanh(cells[j]);
        } else if (kind == GRU)
            h[j] = (1 - sigmoid(next)) * tanh(a[2 * H + j] + sigmoid(sum) * b[2 * H + j]) + sigmoid(next) * h[j];
        else
            h[j] = kind == TANH ? tanh(sum) : sum > 0 ? sum : 0;
    }
}

static void recurrent(const reference *c)
{
    enum { H = CELL_SIZE };
    const int64_t steps = c->in.d[0], batch = c->in.d[1], features = c->in.d[2], gates = c->k[1] * H;
    for (int64_t n = 0; n < batch; n++) {
        double h[H] = {0}, cells[H] = {0}, a[4 * H] = {0}, b[4 * H] = {0};
        for (int64_t t = 0; t < steps; t++) {
            for (int64_t g = 0; g < gates; g++) {
                a[g] = c->p[2][g], b[g] = c->p[3][g];
                for (int64_t f = 0; f < features; f++)
                    a[g] += c->p[0][g * features + f] * c->x[(t * batch + n) * features + f];
                for (int64_t j = 0; j < H; j++)
                    b[g] += c->p[1][g * H + j] * h[j];
            }
            step(c->k[0], a, b, h, cells);
            memcpy(c->y + (t * batch + n) * H, h, sizeof h);
        }
    }
}

/* ---- the cases ---------------------------------------------------------------------------------------------------------------- */

#define D(...) {.n = MX_COUNT(__VA_ARGS__), .d = {__VA_ARGS__}}
static const layer_case cases[] = {
    {"Dense", "units=4", D(3, 5), D(3, 4), dense, .k = {0}},
    {"Dense", "units=4, activation=relu", D(3, 2, 3), D(3, 4), dense, .k = {1}},
    {"Dense", "units=4, flatten=False, use_bias=False", D(3, 2, 5), D(3, 2, 4), dense, .k = {0}},
    {"RNN", "hidden_size=3, activation=relu", D(4, 2, 5), D(4, 2, 3), recurrent, .k = {RELU, 1}},
    {"RNN", "hidden_size=3, activation=tanh", D(4, 2, 5), D(4, 2, 3), recurrent, .k = {TANH, 1}},
    {"LSTM", "hidden_size=3", D(4, 2, 5), D(4, 2, 3), recurrent, .k = {LSTM, 4}},
    {"GRU", "hidden_size=3", D(4, 2, 5), D(4, 2, 3), recurrent, .k = {GRU, 3}},
    {"Embedding", "input_dim=7, output_dim=3", D(2, 4), D(2, 4, 3), embedding, .k = {0}, .integers = true},
    {"Conv1D", "channels=3, kernel_size=3", D(2, 2, 8), D(2, 3, 6), convolution, .k = {3, 1, 0, 1, 1}},
    {"Conv2D", "channels=4, kernel_size=3, strides=2, padding=1", D(2, 3, 7, 6), D(2, 4, 4, 3), convolution, .k = {3, 2, 1, 1, 1}},
    {"Conv2D", "channels=4, kernel_size=(2, 2), groups=2, dilation=2, use_bias=False", D(1, 4, 5, 5), D(1, 4, 3, 3), convolution, .k = {2, 1, 0, 2, 2}},
    {"Conv2D", "channels=4, kernel_size=3, layout=NHWC", D(2, 5, 6, 3), D(2, 3, 4, 4), convolution, .k = {3, 1, 0, 1, 1, 1}},
    {"Conv3D", "channels=2, kernel_size=2, padding=1", D(1, 3, 3, 4, 3), D(1, 2, 4, 5, 4), convolution, .k = {2, 1, 1, 1, 1}},
    {"Conv1DTranspose", "channels=3, kernel_size=3, strides=2", D(2, 2, 4), D(2, 3, 9), transposed, .k = {3, 2, 0, 1, 1}},
    {"Conv2DTranspose", "channels=4, kernel_size=3, strides=2, padding=1, output_padding=1", D(2, 3, 3, 2), D(2, 4, 6, 4), transposed, .k = {3, 2, 1, 1, 1}},
    {"Conv2DTranspose", "channels=4, kernel_size=2, groups=2, in_channels=2", D(1, 2, 3, 3), D(1, 4, 4, 4), transposed, .k = {2, 1, 0, 1, 2}},
    {"Conv3DTranspose", "channels=2, kernel_size=2, use_bias=False", D(1, 3, 2, 3, 2), D(1, 2, 3, 4, 3), transposed, .k = {2, 1, 0, 1, 1}},
    {"MaxPool1D", "pool_size=2", D(2, 3, 6), D(2, 3, 3), pool, .k = {2, 2, 0, 1}},
    {"MaxPool2D", "", D(2, 3, 6, 4), D(2, 3, 3, 2), pool, .k = {2, 2, 0, 1}},
    {"MaxPool2D", "pool_size=3, strides=2, padding=1", D(2, 3, 7, 5), D(2, 3, 4, 3), pool, .k = {3, 2, 1, 1}},
    {"MaxPool2D", "pool_size=2, ceil_mode=True", D(1, 2, 5, 5), D(1, 2, 3, 3), pool, .k = {2, 2, 0, 1}},
    {"MaxPool2D", "pool_size=2, layout=NHWC", D(1, 4, 6, 3), D(1, 2, 3, 3), pool, .k = {2, 2, 0, 1, 1, 1}},
    {"MaxPool3D", "pool_size=2, strides=1", D(1, 2, 3, 4, 3), D(1, 2, 2, 3, 2), pool, .k = {2, 1, 0, 1}},
    {"AvgPool1D", "pool_size=3, strides=1", D(2, 3, 6), D(2, 3, 4), pool, .k = {3, 1, 0, 1, 1, 0, 1}},
    {"AvgPool2D", "pool_size=3, strides=2, padding=1", D(2, 3, 7, 5), D(2, 3, 4, 3), pool, .k = {3, 2, 1, 1, 1, 0, 1}},
    {"AvgPool2D", "pool_size=3, strides=2, padding=1, count_include_pad=False", D(2, 3, 7, 5), D(2, 3, 4, 3), pool, .k = {3, 2, 1, 1, 1, 0, 2}},
    {"AvgPool3D", "", D(1, 2, 4, 4, 2), D(1, 2, 2, 2, 1), pool, .k = {2, 2, 0, 1, 1, 0, 1}},
    {"GlobalMaxPool1D", "", D(2, 3, 6), D(2, 3, 1), pool, .k = {0, 1}},
    {"GlobalMaxPool2D", "", D(2, 3, 6, 5), D(2, 3, 1, 1), pool, .k = {0, 1}},
    {"GlobalMaxPool3D", "", D(2, 3, 2, 3, 2), D(2, 3, 1, 1, 1), pool, .k = {0, 1}},
    {"GlobalAvgPool1D", "", D(2, 3, 6), D(2, 3, 1), pool, .k = {0, 1, 0, 1, 1, 0, 1}},
    {"GlobalAvgPool2D", "", D(2, 3, 6, 5), D(2, 3, 1, 1), pool, .k = {0, 1, 0, 1, 1, 0, 1}},
    {"GlobalAvgPool3D", "", D(2, 3, 2, 3, 2), D(2, 3, 1, 1, 1), pool, .k = {0, 1, 0, 1, 1, 0, 1}},
    {"Activation", "activation=relu", D(3, 5), D(3, 5), relu, .k = {0}},
    {"Activation", "activation=sigmoid", D(3, 5), D(3, 5), logistic, .k = {0}},
    {"Activation", "activation=tanh", D(3, 5), D(3, 5), hyperbolic, .k = {0}},
    {"Activation", "activation=softrelu", D(3, 5), D(3, 5), softrelu, .k = {0}},
    {"Activation", "activation=softsign", D(3, 5), D(3, 5), softsign, .k = {0}},
    {"LeakyReLU", "alpha=0.1", D(3, 5), D(3, 5), leaky, .k = {0}},
    {"PReLU", "", D(3, 5), D(3, 5), prelu_one, .k = {0}},
    {"PReLU", "in_channels=3", D(2, 3, 4), D(2, 3, 4), prelu_channels, .k = {0}},
    {"ELU", "alpha=1.5", D(3, 5), D(3, 5), elu, .k = {0}},
    {"SELU", "", D(3, 5), D(3, 5), selu, .k = {0}},
    {"GELU", "", D(3, 5), D(3, 5), gelu, .k = {0}},
    {"Swish", "beta=2", D(3, 5), D(3, 5), swish, .k = {0}},
    {"Dropout", "rate=0.5", D(3, 5), D(3, 5), identity, .k = {0}},
    {"Dropout", "rate=0", D(3, 5), D(3, 5), identity, .k = {0}, .train = true},
    {"Flatten", "", D(2, 3, 4), D(2, 12), identity, .k = {0}},
    {"Identity", "", D(2, 3, 4), D(2, 3, 4), identity, .k = {0}},
    {"ReflectionPad2D", "padding=2", D(1, 2, 4, 3), D(1, 2, 8, 7), reflection, .k = {2}},
    {"BatchNorm", "", D(4, 3, 2, 2), D(4, 3, 2, 2), batch_norm_predict, .k = {0}},
    {"BatchNorm", "scale=False, center=False", D(4, 3, 2), D(4, 3, 2), batch_norm_predict, .k = {0, 1}},
    {"BatchNorm", "", D(4, 3, 2, 2), D(4, 3, 2, 2), batch_norm_train, .k = {0}, .train = true},
    {"BatchNorm", "use_global_stats=True", D(4, 3), D(4, 3), batch_norm_predict, .k = {0}, .train = true},
    {"BatchNormReLU", "", D(4, 3, 2, 2), D(4, 3, 2, 2), batch_norm_predict, .k = {1}},
    {"LayerNorm", "", D(3, 4, 5), D(3, 4, 5), layer_norm, .k = {0}},
    {"InstanceNorm", "scale=True", D(2, 3, 4, 2), D(2, 3, 4, 2), instance_norm, .k = {0}},
    {"GroupNorm", "num_groups=2", D(2, 4, 3), D(2, 4, 3), group_norm, .k = {2}},
    {"ToTensor", "", D(4, 3, 2), D(2, 4, 3), to_tensor, .k = {0}, .integers = true, .no_gradient = true},
    {"Normalize", "mean=(0.25, 0.5), std=(2, 4)", D(2, 2, 2), D(2, 2, 2), normalized, .k = {0}},
    {"Cast", "dtype=float64", D(3, 5), D(3, 5), identity, .k = {0}},
};

/* Another axis of channels is the same layer between two exchanges of axes. */
static void test_axis_of_instance_norm(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *x = check_array(MX_DIMS(2, 3, 4, 5), 1), *found[2];
    for (int last = 0; last < 2; last++) {
        mx_block *block = last ? mx_instance_norm(.axis = 3, .scale = true) : mx_instance_norm(.scale = true);
        mx_initialize(block, NULL, mx_cpu(0));
        mx_array *in = last ? x : mx_swapaxes(x, .dim1 = 1, .dim2 = 3);
        mx_call(block, in);
        for (int i = 0; i < 2; i++)
            mx_parameter_set_data(mx_params_at(mx_block_params(block), i), check_array(MX_DIMS(5), 7 + i));
        found[last] = mx_call(block, in);
        check_no_error();
    }
    found[0] = mx_swapaxes(found[0], .dim1 = 1, .dim2 = 3);
    check_near(found[1], MX_DIMS(2, 3, 4, 5), check_values(found[0]), 1e-6);
}

/* ---- running them ---------------------------------------------------------------------------------------------------------------- */

static const double *copied(
    mx_array *x) /* check_values reuses its memory; one case needs few arrays, but two forwards */
{
    static double memory[8][MOST];
    static int next;
    double *values = memory[next++ % 8];
    memcpy(values, check_values(x), (size_t)mx_size(x) * sizeof *values);
    return values;
}

static mx_array *input_of(const layer_case *c)
{
    return c->integers ? check_integers(c->in, 2, 7) : check_array(c->in, 2);
}

static mx_block *made(const layer_case *c)
{
    mx_block *block = mx_class_create(mx_class_find(MX_LAYER, c->cls), c->options);
    check_no_error();
    mx_initialize(block, mx_xavier(), mx_cpu(0));
    mx_call(block, input_of(c)); /* shapes are known from here on */
    mx_params *params = mx_block_params(block);
    for (int64_t i = 0; i < mx_params_count(params); i++) {
        mx_array *value = check_array(mx_parameter_shape(mx_params_at(params, i)), 10 + (int)i);
        if (strstr(mx_parameter_name(mx_params_at(params, i)), "running_var"))
            value = mx_plus_scalar(mx_abs(value), .scalar = 0.5);
        if (mx_parameter_grad_req(mx_params_at(params, i)) ||
            strstr(mx_parameter_name(mx_params_at(params, i)), "running"))
            mx_parameter_set_data(mx_params_at(params, i), value);
    }
    check_no_error();
    return block;
}

static mx_array *run(const layer_case *c, mx_block *block, mx_array *x)
{
    mx_array *y = NULL;
    MX_MODE_(-1, c->train) y = mx_call(block, x);
    return y;
}

static void check_forward(const layer_case *c)
{
    static double y[MOST];
    mx_block *block = made(c);
    mx_array *x = input_of(c);
    reference p = {block, copied(x), c->in, c->out, y, {0}, c->k};
    for (int64_t i = 0; i < mx_params_count(mx_block_params(block)); i++)
        p.p[i] = copied(mx_parameter_data(mx_params_at(mx_block_params(block), i), mx_cpu(0)));
    c->compute(&p);
    check_near(run(c, block, x), c->out, y, 2e-5);
}

/* sum(y * r) for a fixed r */
static mx_array *head(const layer_case *c, mx_block *block, mx_array *x)
{
    mx_array *y = run(c, block, x);
    return y ? mx_sum(mx_mul(y, mx_cast(check_array(c->out, 77), .dtype = mx_dtype_of(y)))) : NULL;
}

static double head_at(const layer_case *c, mx_block *block, mx_array *x, mx_parameter *p, mx_array *start,
                      mx_array *direction, double step)
{
    mx_parameter_set_data(p, mx_add(start, mx_mul_scalar(direction, .scalar = step)));
    return mx_item(head(c, block, x));
}

/* The derivative along a direction, by differences, is the gradient times the direction. */
static void check_gradient(const layer_case *c, mx_block *block, mx_array *x, mx_parameter *p)
{
    const char *name = mx_parameter_name(p);
    mx_array *grad = mx_array_copy(mx_parameter_grad(p, mx_cpu(0))),
             *start = mx_array_copy(mx_parameter_data(p, mx_cpu(0)));
    mx_array *direction = check_array(mx_parameter_shape(p), 33);
    const double h = 1e-2, wanted = (head_at(c, block, x, p, start, direction, h) -
                                     head_at(c, block, x, p, start, direction, -h)) /
                                    (2 * h);
    const double have = mx_item(mx_sum(mx_mul(grad, direction)));
    mx_parameter_set_data(p, start);
    check_no_error();
    if (!(fabs(have - wanted) <= 2e-2 * (1 + fabs(wanted))))
        fail_msg("%s(%s): the gradient of %s along a direction is %g, by differences %g", c->cls, c->options, name,
                 have, wanted);
}

static void check_backward(const layer_case *c)
{
    mx_block *block = made(c);
    mx_array *x = input_of(c), *y = NULL;
    mx_attach_grad(x, MX_GRAD_WRITE);
    MX_MODE_(1, -1) y = head(c, block, x);
    assert_int_equal(mx_backward(y), MX_OK);
    mx_params *params = mx_block_params(block);
    for (int64_t i = 0; i < mx_params_count(params); i++)
        if (mx_parameter_grad_req(mx_params_at(params, i)))
            check_gradient(c, block, x, mx_params_at(params, i));
    for (int64_t i = 0; i < mx_size(x); i++)
        assert_true(isfinite(check_values(mx_gradient(x))[i]));
}

static void test_every_case(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        MX_SCOPE;
        print_message("%s(%s)\n", cases[i].cls, cases[i].options);
        check_forward(&cases[i]);
        if (!cases[i].no_gradient)
            check_backward(&cases[i]);
    }
}

static void test_every_class_has_a_case(void **state)
{
    (void)state;
    for (int i = 0; mx_class_at(i); i++) {
        /* Transforms of images have tests of their own: test_vision_data. */
        bool found = mx_class_kind_of(mx_class_at(i)) != MX_LAYER || mx_class_at(i)->group;
        for (size_t k = 0; !found && k < sizeof cases / sizeof *cases; k++)
            found = !strcmp(mx_class_name(mx_class_at(i)), cases[k].cls);
        if (!found)
            fail_msg("the layer %s has no case here", mx_class_name(mx_class_at(i)));
    }
}

static void test_dropout(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_block *block = mx_dropout(0.25);
    mx_array *x = mx_ones(.shape = MX_DIMS(4000)), *y = NULL;
    mx_train_mode()
        y = mx_call(block, x);
    int64_t zeros = 0;
    for (int64_t i = 0; i < 4000; i++) {
        const double v = check_values(y)[i];
        zeros += v == 0;
        assert_true(v == 0 || fabs(v - 1 / 0.75) < 1e-6);
    }
    assert_true(zeros > 800 && zeros < 1200);
}

static void test_running_statistics(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_block *block = mx_batch_norm(.momentum = 0.5);
    mx_array *x = check_array(MX_DIMS(8, 2), 1), *y = NULL;
    mx_initialize(block, NULL, mx_cpu(0));
    mx_record()
        y = mx_sum(mx_call(block, x));
    mx_backward(y);
    double mean = 0;
    for (int i = 0; i < 8; i++)
        mean += check_values(x)[2 * i] / 8;
    assert_true(fabs(check_values(mx_parameter_data(mx_params_at(mx_block_params(block), 2), mx_cpu(0)))[0] -
                     0.5 * mean) < 1e-5);
}

/* Layers of no size can be made; the first use says what is wrong. */
static void test_layers_of_no_size(void **state)
{
    (void)state;
    static const struct { const char *cls, *options, *part; } rows[] = {
        {"Dense", "units=0", "units=0"}, {"Dense", "units=-1, in_units=3", "units=-1"},
        {"Embedding", "input_dim=0, output_dim=3", "input_dim=0"}, {"Embedding", "input_dim=3, output_dim=-1", "output_dim=-1"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        MX_SCOPE;
        mx_block *layer = mx_class_create(mx_class_find(MX_LAYER, rows[i].cls), rows[i].options);
        check_no_error();
        mx_initialize(layer, NULL, mx_cpu(0));
        check_no_error();
        assert_null(mx_call(layer, check_array(MX_DIMS(2, 3), 1)));
        check_error(MX_ERR_ATTRIBUTE, rows[i].part);
    }
}

static void test_bad_options(void **state)
{
    (void)state;
    static const struct { const char *cls, *options, *part; } rows[] = {
        {"Dense", NULL, "units"}, {"Dense", "units=3, activation=nothing", "nothing"}, {"Dense", "unit=3", "unit"},
        {"Conv2D", "channels=3, kernel_size=(3, 3, 3)", "kernel_size"}, {"Conv2D", "channels=3, kernel_size=0", "kernel_size"},
        {"Conv2D", "channels=3, kernel_size=3, strides=0", "strides"}, {"Conv2D", "channels=3, kernel_size=3, padding=-1", "padding"},
        {"Conv2D", "channels=3, kernel_size=3, groups=2", "groups"}, {"Conv2D", "channels=4, kernel_size=3, groups=2, in_channels=3", "groups"},
        {"Conv2D", "channels=3, kernel_size=3, layout=NCW", "layout"}, {"MaxPool2D", "pool_size=0", "pool_size"},
        {"MaxPool2D", "pool_size=(2, 2, 2)", "pool_size"}, {"AvgPool1D", "strides=(1, 1)", "strides"}, {"MaxPool3D", "padding=(1, 1)", "padding"},
        {"MaxPool2D", "layout=abc", "layout"},
        {"Dropout", "rate=1.5", "rate"}, {"Activation", "activation=None", "activation"}, {"PReLU", "in_channels=0", "in_channels"},
        {"Flatten", "x=1", "Flatten"}, {"BatchNorm", "momentum=2", "momentum"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        MX_SCOPE;
        int64_t before = 0;
        for (int again = 0; again < 3; again++) { /* texts and name counters are created in the first round */
            if (mx_class_create(mx_class_find(MX_LAYER, rows[i].cls), rows[i].options))
                fail_msg("%s(%s) was accepted", rows[i].cls, rows[i].options);
            check_error(MX_ERR_ATTRIBUTE, rows[i].part);
            assert_true(again < 2 || check_live() == before);
            before = check_live();
        }
    }
}

static void test_wrong_inputs(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *x = check_array(MX_DIMS(2, 3), 1);
    mx_block *block = mx_dense(2);
    mx_initialize(block, NULL, mx_cpu(0));
    assert_null(mx_call(block, x, x));
    check_error(MX_ERR_ARGUMENT, mx_block_name(block), "2 inputs", "1");
    assert_null(mx_call(block, (mx_array *)NULL));
    check_error(MX_ERR_ARGUMENT, mx_block_name(block));
    assert_null(mx_call(mx_l2_loss(), x));
    check_error(MX_ERR_ARGUMENT, "l2loss", "1 inputs", "at least 2");
    mx_block *conv = mx_conv2d(2, MX_DIMS(5, 5));
    mx_initialize(conv, NULL, mx_cpu(0));
    assert_null(mx_call(conv, x));
    check_error(MX_ERR_SHAPE, mx_block_name(conv));
    check_shape(mx_call(conv, check_array(MX_DIMS(1, 3, 6, 6), 1)),
                MX_DIMS(1, 2, 2, 2)); /* a failed initialisation has no effect */
    assert_null(mx_call(conv, check_array(MX_DIMS(1, 3, 2, 2), 1)));
    check_error(MX_ERR_SHAPE, mx_block_name(conv));
}

/* Texts and initializers that were given may be freed later. */
static void test_options_are_kept(void **state)
{
    (void)state;
    MX_SCOPE;
    char activation[8] = "relu", layout[8] = "NCHW";
    mx_block *block = NULL;
    mx_scoped()
        block = mx_keep(
            mx_conv2d(2, MX_DIMS(1, 1), .activation = activation, .layout = layout, .weight_initializer = mx_one()));
    memset(activation, 'x', 7);
    memset(layout, 'x', 7);
    assert_string_equal(mx_block_text(block), "Conv2D(None -> 2, kernel_size=(1, 1), stride=(1, 1), Activation(relu))");
    mx_initialize(block, NULL, mx_cpu(0));
    check_shape(mx_call(block, check_array(MX_DIMS(1, 1, 2, 2), 1)), MX_DIMS(1, 2, 2, 2));
    mx_release(block);
}

static void test_registry(void **state)
{
    (void)state;
    MX_SCOPE;
    assert_string_equal(mx_class_name(mx_class_find(MX_LAYER, "dense")), "Dense"); /* any case */
    assert_ptr_equal(mx_class_find(MX_LAYER, "DENSE"), mx_class_find(MX_LAYER, "Dense"));
    assert_ptr_equal(mx_class_find(MX_LOSS, "softmaxceloss"), mx_class_find(MX_LOSS, "SoftmaxCrossEntropyLoss"));
    assert_int_equal(mx_class_kind_of(mx_class_find(MX_LOSS, "L2Loss")), MX_LOSS);
    assert_null(mx_class_find(MX_LOSS, "Dense"));
    check_error(MX_ERR_ARGUMENT, "loss", "Dense");
    assert_null(mx_class_at(-1));
    assert_null(mx_class_at(1000000));
    for (int i = 0; mx_class_at(i); i++) {
        const char *text = mx_class_describe(mx_class_at(i));
        check_no_error();
        assert_non_null(strstr(text, mx_class_name(mx_class_at(i))));
    }
}

/* States are inputs and outputs; in files parameters are named after cells; wrong inputs are errors. */
static void test_recurrent_states(void **state)
{
    MX_SCOPE;
    (void)state;
    mx_block *net = mx_lstm(3, .num_layers = 2, .bidirectional = true, .layout = "NTC", .prefix = "net_");
    mx_initialize(net, mx_xavier(), mx_cpu(0));
    mx_array *x = check_array((mx_dims)D(2, 5, 4), 1), *h = check_array((mx_dims)D(4, 2, 3), 2),
             *c = check_array((mx_dims)D(4, 2, 3), 3);
    mx_arrays out = mx_block_call_many(net, MX_ARRAYS(x, h, c));
    check_no_error();
    assert_int_equal(out.n, 3);
    assert_true(mx_shape(out.v[0]).d[1] == 5 && mx_shape(out.v[0]).d[2] == 6 && mx_shape(out.v[2]).d[0] == 4);
    mx_arrays first = mx_block_call_many(net, MX_ARRAYS(mx_slice_axis(x, .axis = 1, .begin = 0, .end = 5), h, c));
    mx_hybridize(net);
    mx_arrays plan = mx_block_call_many(net, MX_ARRAYS(x, h, c));
    check_no_error();
    for (int i = 0; i < 3; i++)
        for (int64_t k = 0; k < mx_size(out.v[i]); k++)
            assert_true(check_values(out.v[i])[k] == check_values(first.v[i])[k] &&
                        fabs(check_values(plan.v[i])[k] - check_values(out.v[i])[k]) < 1e-6);
    assert_int_equal(mx_block_call_many(net, MX_ARRAYS(x, h)).n, 0);
    assert_int_equal(mx_error_code(), MX_ERR_ARGUMENT);
    mx_error_clear();
    assert_int_equal(mx_block_call_many(net, MX_ARRAYS(check_array((mx_dims)D(2, 5, 7), 1))).n, 0);
    assert_int_equal(mx_error_code(), MX_ERR_SHAPE);
    mx_error_clear();
    assert_null(mx_lstm(3, .layout = "CNT"));
    mx_error_clear();
    assert_null(mx_rnn(3, .activation = "gelu"));
    mx_error_clear();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_axis_of_instance_norm),
        cmocka_unit_test(test_every_class_has_a_case), cmocka_unit_test(test_every_case), cmocka_unit_test(test_recurrent_states),
        cmocka_unit_test(test_dropout),
        cmocka_unit_test(test_running_statistics), cmocka_unit_test(test_layers_of_no_size), cmocka_unit_test(test_bad_options), cmocka_unit_test(test_wrong_inputs),
        cmocka_unit_test(test_options_are_kept), cmocka_unit_test(test_registry),
    };
    return cmocka_run_group_tests_name("layers", tests, NULL, NULL);
}
