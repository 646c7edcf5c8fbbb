/* Inception version 3 (Szegedy et al. 2015, "Rethinking the Inception Architecture for Computer Vision").
 *
 * A module is a list of parallel branches, whose results are concatenated; a branch is a list of layers.  In the tables
 * a layer is an entry, a branch ends with END, and a branch that ends with CROSS is followed by two parallel convolutions.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "gluon/nn.gen.h"
#include "gluon/zoo/zoo.h"

typedef enum layer_kind { LAST, CONV, WIDE, TALL, MAX, AVG, CROSS, END } layer_kind;
typedef struct layer_row {
    layer_kind kind;
    int channels, kernel, stride, pad; /* of CONV; WIDE and TALL have kernels 1x7 and 7x1 */
} layer_row;
#define C(...) {CONV, __VA_ARGS__}
#define W(channels) {WIDE, channels, 0, 0, 0}
#define T(channels) {TALL, channels, 0, 0, 0}
#define ONLY(kind) {kind, 0, 0, 0, 0}

static const layer_row stem[] = {C(32, 3, 2, 0), C(32, 3, 1, 0),  C(64, 3, 1, 1), ONLY(MAX),
                                 C(80, 1, 1, 0), C(192, 3, 1, 0), ONLY(MAX),      ONLY(LAST)};

#define A(name, pooled) \
    static const layer_row name[] = { \
        C(64, 1, 1, 0), ONLY(END), \
        C(48, 1, 1, 0), C(64, 5, 1, 2), ONLY(END), \
        C(64, 1, 1, 0), C(96, 3, 1, 1), C(96, 3, 1, 1), ONLY(END), \
        ONLY(AVG), C(pooled, 1, 1, 0), ONLY(END), ONLY(LAST)}
#define SEVENS(name, inner) \
    static const layer_row name[] = { \
        C(192, 1, 1, 0), ONLY(END), \
        C(inner, 1, 1, 0), W(inner), T(192), ONLY(END), \
        C(inner, 1, 1, 0), T(inner), W(inner), T(inner), W(192), ONLY(END), \
        ONLY(AVG), C(192, 1, 1, 0), ONLY(END), ONLY(LAST)}
A(a32, 32);
A(a64, 64);
SEVENS(c128, 128);
SEVENS(c160, 160);
SEVENS(c192, 192);
static const layer_row b[] = {
    C(384, 3, 2, 0), ONLY(END),
    C(64, 1, 1, 0), C(96, 3, 1, 1), C(96, 3, 2, 0), ONLY(END),
    ONLY(MAX), ONLY(END), ONLY(LAST),
};
static const layer_row d[] = {
    C(192, 1, 1, 0), C(320, 3, 2, 0), ONLY(END),
    C(192, 1, 1, 0), W(192), T(192), C(192, 3, 2, 0), ONLY(END),
    ONLY(MAX), ONLY(END), ONLY(LAST),
};
static const layer_row e[] = {
    C(320, 1, 1, 0), ONLY(END),
    C(384, 1, 1, 0), ONLY(CROSS),
    C(448, 1, 1, 0), C(384, 3, 1, 1), ONLY(CROSS),
    ONLY(AVG), C(192, 1, 1, 0), ONLY(END), ONLY(LAST),
};

static const struct {
    const char *prefix;
    const layer_row *rows;
} modules[] = {{"A1_", a32},  {"A2_", a64},  {"A3_", a64}, {"B_", b},  {"C1_", c128}, {"C2_", c160},
               {"C3_", c160}, {"C4_", c192}, {"D_", d},    {"E1_", e}, {"E2_", e}};

/* Convolution, normalisation, relu as a sequence. */
static mx_block *conv(int64_t channels, mx_dims kernel, mx_dims stride, mx_dims pad)
{
    mx_block *sequence = mx_zoo_sequence("");
    mx_zoo_add(sequence, mx_conv2d(channels, kernel, .strides = stride, .padding = pad, .use_bias = false));
    mx_zoo_add(sequence, mx_batch_norm(.epsilon = 0.001));
    mx_zoo_add(sequence, mx_activation("relu"));
    return sequence;
}

static mx_block *make_layer(const layer_row *row)
{
    const mx_dims one = MX_DIMS(1, 1);
    switch (row->kind) {
    case WIDE: return conv(row->channels, MX_DIMS(1, 7), one, MX_DIMS(0, 3));
    case TALL: return conv(row->channels, MX_DIMS(7, 1), one, MX_DIMS(3, 0));
    case MAX: return mx_zoo_max_pool(3, 2, 0);
    case AVG: return mx_zoo_avg_pool(3, 1, 1);
    default:
        return conv(row->channels, MX_DIMS(row->kernel, row->kernel), MX_DIMS(row->stride, row->stride),
                    MX_DIMS(row->pad, row->pad));
    }
}

/* Parallel 1x3 and 3x1 convolutions, each a branch of one layer. */
static mx_block *make_cross(void)
{
    const mx_dims one = MX_DIMS(1, 1);
    mx_block *cross = mx_hybrid_concatenate(.axis = 1, .prefix = "");
    mx_block *wide = mx_zoo_sequence(""), *tall = mx_zoo_sequence("");
    mx_zoo_add(wide, conv(384, MX_DIMS(1, 3), one, MX_DIMS(0, 1)));
    mx_zoo_add(tall, conv(384, MX_DIMS(3, 1), one, MX_DIMS(1, 0)));
    mx_zoo_add(cross, wide);
    mx_zoo_add(cross, tall);
    return cross;
}

/* The branch that begins at *rows, which is advanced past its end. */
static mx_block *make_branch(const layer_row **rows)
{
    mx_block *branch = mx_zoo_sequence("");
    for (; (*rows)->kind != END && (*rows)->kind != CROSS; ++*rows)
        mx_zoo_add(branch, make_layer(*rows));
    if ((*rows)++->kind == END)
        return branch;
    mx_block *both = mx_zoo_sequence("");
    mx_zoo_add(both, branch);
    mx_zoo_add(both, make_cross());
    return both;
}

static mx_block *make_module(const char *prefix, const layer_row *rows)
{
    mx_block *module = mx_hybrid_concatenate(.axis = 1, .prefix = prefix);
    mx_name_scope(module)
    {
        while (rows->kind != LAST)
            mx_zoo_add(module, make_branch(&rows));
    }
    return module;
}

mx_code mx_build_inception(mx_block *self, int64_t classes)
{
    MX_SCOPE;
    mx_name_scope(self)
    {
        mx_block *features = mx_zoo_sequence("");
        for (const layer_row *row = stem; row->kind != LAST; row++)
            mx_zoo_add(features, make_layer(row));
        for (size_t i = 0; i < sizeof modules / sizeof *modules; i++)
            mx_zoo_add(features, make_module(modules[i].prefix, modules[i].rows));
        mx_zoo_add(features, mx_zoo_avg_pool(8, 8, 0));
        mx_zoo_add(features, mx_dropout(0.5));
        return mx_zoo_classifier(self, features, mx_dense(classes));
    }
    return mx_error_code();
}
