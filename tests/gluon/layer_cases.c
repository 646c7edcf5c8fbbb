/* The cases of layer_cases.h.  SPDX-License-Identifier: Apache-2.0 */
#include "layer_cases.h"

const layer_case layer_cases[] = {
    {"Dense", "units=5, activation=relu", {.n = 2, .d = {4, 6}}, 0},
    {"Dense", "units=5, flatten=False", {.n = 3, .d = {2, 3, 6}}, 0},
    {"Dense", "units=3, use_bias=False, activation=tanh", {.n = 3, .d = {2, 3, 2}}, 0},
    {"Identity", "", {.n = 2, .d = {2, 5}}, 0},
    {"Embedding", "input_dim=7, output_dim=3", {.n = 2, .d = {2, 5}}, 7},
    {"Flatten", "", {.n = 3, .d = {2, 3, 4}}, 0},
    {"Dropout", "rate=0.4", {.n = 2, .d = {40, 30}}, 0},
    {"Dropout", "rate=0.4, axes=(0,)", {.n = 2, .d = {40, 30}}, 0},
    {"Dropout", "rate=0", {.n = 2, .d = {4, 3}}, 0},
    {"BatchNorm", "", {.n = 4, .d = {4, 3, 5, 5}}, 0},
    {"BatchNorm", "scale=False, center=False, axis=-1", {.n = 2, .d = {8, 3}}, 0},
    {"BatchNorm", "use_global_stats=True", {.n = 4, .d = {4, 3, 2, 2}}, 0},
    {"BatchNormReLU", "", {.n = 4, .d = {4, 3, 5, 5}}, 0},
    {"SyncBatchNorm", "", {.n = 4, .d = {4, 3, 5, 5}}, 0},
    {"LayerNorm", "", {.n = 2, .d = {4, 6}}, 0},
    {"GroupNorm", "num_groups=2", {.n = 3, .d = {2, 4, 5}}, 0},
    {"InstanceNorm", "", {.n = 4, .d = {2, 3, 4, 4}}, 0},
    {"Activation", "activation=relu", {.n = 2, .d = {4, 6}}, 0},
    {"Activation", "activation=sigmoid", {.n = 2, .d = {4, 6}}, 0},
    {"Activation", "activation=tanh", {.n = 2, .d = {4, 6}}, 0},
    {"Activation", "activation=softrelu", {.n = 2, .d = {4, 6}}, 0},
    {"Activation", "activation=softsign", {.n = 2, .d = {4, 6}}, 0},
    {"LeakyReLU", "alpha=0.2", {.n = 2, .d = {4, 6}}, 0},
    {"PReLU", "", {.n = 2, .d = {4, 6}}, 0},
    {"ELU", "", {.n = 2, .d = {4, 6}}, 0},
    {"SELU", "", {.n = 2, .d = {4, 6}}, 0},
    {"GELU", "", {.n = 2, .d = {4, 6}}, 0},
    {"Swish", "", {.n = 2, .d = {4, 6}}, 0},
    {"SiLU", "", {.n = 2, .d = {4, 6}}, 0},
    {"Conv1D", "channels=4, kernel_size=3, activation=relu", {.n = 3, .d = {2, 3, 8}}, 0},
    {"Conv2D", "channels=4, kernel_size=(3, 3), padding=(1, 1), activation=relu", {.n = 4, .d = {2, 3, 6, 6}}, 0},
    {"Conv2D",
     "channels=4, kernel_size=(3, 3), strides=(2, 2), groups=2, use_bias=False",
     {.n = 4, .d = {2, 4, 7, 7}},
     0},
    {"Conv3D", "channels=2, kernel_size=(2, 2, 2)", {.n = 5, .d = {1, 2, 4, 4, 4}}, 0},
    {"Conv1DTranspose", "channels=2, kernel_size=3, strides=2", {.n = 3, .d = {2, 3, 5}}, 0},
    {"Conv2DTranspose",
     "channels=2, kernel_size=(3, 3), strides=(2, 2), activation=relu",
     {.n = 4, .d = {2, 3, 4, 4}},
     0},
    {"Conv3DTranspose", "channels=2, kernel_size=(2, 2, 2)", {.n = 5, .d = {1, 2, 3, 3, 3}}, 0},
    {"MaxPool1D", "", {.n = 3, .d = {2, 3, 8}}, 0},
    {"MaxPool2D", "", {.n = 4, .d = {2, 3, 6, 6}}, 0},
    {"MaxPool2D", "pool_size=(3, 3), strides=(2, 2), padding=(1, 1), ceil_mode=True", {.n = 4, .d = {2, 3, 6, 6}}, 0},
    {"MaxPool3D", "", {.n = 5, .d = {1, 2, 4, 4, 4}}, 0},
    {"AvgPool1D", "", {.n = 3, .d = {2, 3, 8}}, 0},
    {"AvgPool2D", "count_include_pad=False, padding=(1, 1)", {.n = 4, .d = {2, 3, 6, 6}}, 0},
    {"AvgPool3D", "", {.n = 5, .d = {1, 2, 4, 4, 4}}, 0},
    {"GlobalMaxPool1D", "", {.n = 3, .d = {2, 3, 8}}, 0},
    {"GlobalMaxPool2D", "", {.n = 4, .d = {2, 3, 6, 6}}, 0},
    {"GlobalMaxPool3D", "", {.n = 5, .d = {1, 2, 4, 4, 4}}, 0},
    {"GlobalAvgPool1D", "", {.n = 3, .d = {2, 3, 8}}, 0},
    {"GlobalAvgPool2D", "", {.n = 4, .d = {2, 3, 6, 6}}, 0},
    {"GlobalAvgPool3D", "", {.n = 5, .d = {1, 2, 4, 4, 4}}, 0},
    {"RNN", "hidden_size=4", {.n = 3, .d = {5, 2, 3}}, 0},
    {"LSTM", "hidden_size=4, num_layers=2", {.n = 3, .d = {5, 2, 3}}, 0},
    {"GRU", "hidden_size=4, bidirectional=True", {.n = 3, .d = {5, 2, 3}}, 0},
    {"ReflectionPad2D", "padding=1", {.n = 4, .d = {2, 3, 4, 4}}, 0},
    {"RNNCell", "hidden_size=4", {.n = 2, .d = {2, 3}}, 0},
    {"LSTMCell", "hidden_size=4", {.n = 2, .d = {2, 3}}, 0},
    {"GRUCell", "hidden_size=4", {.n = 2, .d = {2, 3}}, 0},
    {"LSTMPCell", "hidden_size=4, projection_size=2", {.n = 2, .d = {2, 3}}, 0},
    {"MultiHeadAttention", "units=6, num_heads=2", {.n = 3, .d = {2, 5, 6}}, 0},
    {"PositionwiseFFN", "units=6, hidden_size=8", {.n = 3, .d = {2, 5, 6}}, 0},
    {"TransformerEncoderCell", "units=6, hidden_size=8, num_heads=2", {.n = 3, .d = {2, 5, 6}}, 0},
    {"TransformerEncoder", "num_layers=2, units=6, hidden_size=8, num_heads=2", {.n = 3, .d = {2, 5, 6}}, 0},
    {"SinusoidalPositionalEmbedding", "units=6", {.n = 3, .d = {2, 5, 6}}, 0},
    {"PixelShuffle1D", "factor=2", {.n = 3, .d = {2, 4, 3}}, 0},
    {"PixelShuffle2D", "factor=(2, 3)", {.n = 4, .d = {2, 6, 3, 2}}, 0},
    {"PixelShuffle3D", "factor=2", {.n = 5, .d = {1, 8, 2, 3, 2}}, 0},
    {"DeformableConvolution", "channels=4, kernel_size=(3, 3)", {.n = 4, .d = {2, 3, 5, 5}}, 0},
    {"ModulatedDeformableConvolution", "channels=4, kernel_size=(3, 3)", {.n = 4, .d = {2, 3, 5, 5}}, 0},
    {"Conv1DRNNCell",
     "input_shape=(3, 6), hidden_channels=3, i2h_kernel=3, h2h_kernel=3, i2h_pad=1",
     {.n = 3, .d = {2, 3, 6}},
     0},
    {"Conv1DLSTMCell",
     "input_shape=(3, 6), hidden_channels=3, i2h_kernel=3, h2h_kernel=3, i2h_pad=1",
     {.n = 3, .d = {2, 3, 6}},
     0},
    {"Conv1DGRUCell",
     "input_shape=(3, 6), hidden_channels=3, i2h_kernel=3, h2h_kernel=3, i2h_pad=1",
     {.n = 3, .d = {2, 3, 6}},
     0},
    {"Conv2DRNNCell",
     "input_shape=(3, 5, 4), hidden_channels=3, i2h_kernel=3, h2h_kernel=3, i2h_pad=1",
     {.n = 4, .d = {2, 3, 5, 4}},
     0},
    {"Conv2DLSTMCell",
     "input_shape=(3, 5, 4), hidden_channels=3, i2h_kernel=3, h2h_kernel=3, i2h_pad=1",
     {.n = 4, .d = {2, 3, 5, 4}},
     0},
    {"Conv2DGRUCell",
     "input_shape=(3, 5, 4), hidden_channels=3, i2h_kernel=3, h2h_kernel=3, i2h_pad=1",
     {.n = 4, .d = {2, 3, 5, 4}},
     0},
    {"Conv3DRNNCell",
     "input_shape=(2, 3, 4, 3), hidden_channels=3, i2h_kernel=3, h2h_kernel=3, i2h_pad=1",
     {.n = 5, .d = {1, 2, 3, 4, 3}},
     0},
    {"Conv3DLSTMCell",
     "input_shape=(2, 3, 4, 3), hidden_channels=3, i2h_kernel=3, h2h_kernel=3, i2h_pad=1",
     {.n = 5, .d = {1, 2, 3, 4, 3}},
     0},
    {"Conv3DGRUCell",
     "input_shape=(2, 3, 4, 3), hidden_channels=3, i2h_kernel=3, h2h_kernel=3, i2h_pad=1",
     {.n = 5, .d = {1, 2, 3, 4, 3}},
     0},
    {NULL, NULL, {0}, 0},
};

mx_block *layer_case_make(const layer_case *c, mx_array **in)
{
    mx_class *cls = mx_class_find(MX_LAYER, c->cls);
    if (!cls)
        return mx_error_clear(), NULL;
    *in = c->below ? check_integers(c->in, 5, c->below) : check_array(c->in, 5);
    return mx_class_create(cls, c->options);
}

#define D1(a) \
    { \
        .n = 1, .d = { a } \
    }
#define D2(a, b) \
    { \
        .n = 2, .d = { a, b } \
    }
const loss_case loss_cases[] = {
    {"L2Loss", "", {D2(4, 5), D2(4, 5)}, 0, false},
    {"L1Loss", "weight=0.5", {D2(4, 5), D2(4, 5)}, 0, false},
    {"SigmoidBinaryCrossEntropyLoss", "", {D2(4, 5), D2(4, 5)}, 2, false},
    {"SoftmaxCrossEntropyLoss", "", {D2(4, 5), D1(4)}, 5, false},
    {"SoftmaxCrossEntropyLoss", "sparse_label=False", {D2(4, 5), D2(4, 5)}, 2, false},
    {"KLDivLoss", "from_logits=False", {D2(4, 5), D2(4, 5)}, 3, false},
    {"HuberLoss", "rho=0.5", {D2(4, 5), D2(4, 5)}, 0, false},
    {"HingeLoss", "", {D2(4, 5), D2(4, 5)}, 0, true},
    {"SquaredHingeLoss", "", {D2(4, 5), D2(4, 5)}, 0, true},
    {"LogisticLoss", "", {D2(4, 5), D2(4, 5)}, 0, true},
    {"LogisticLoss", "label_format=binary", {D2(4, 5), D2(4, 5)}, 2, false},
    {"PoissonNLLLoss", "", {D2(4, 5), D2(4, 5)}, 4, false},
    {"PoissonNLLLoss", "compute_full=True", {D2(4, 5), D2(4, 5)}, 4, false},
    {"CosineEmbeddingLoss", "", {D2(4, 5), D2(4, 5), D1(4)}, 0, true},
    {"TripletLoss", "", {D2(4, 5), D2(4, 5), D2(4, 5)}, 0, false},
    {"SDMLLoss", "", {D2(4, 5), D2(4, 5)}, 0, false},
    {"CTCLoss", "", {{.n = 3, .d = {2, 8, 5}}, D2(2, 3)}, 4, false},
    {NULL, NULL, {D1(0)}, 0, false},
};

mx_block *loss_case_make(const loss_case *c, mx_array **in, int64_t *count)
{
    mx_class *cls = mx_class_find(MX_LOSS, c->cls);
    int64_t n = 0;
    if (!cls)
        return mx_error_clear(), NULL;
    for (; n < MOST_INPUTS && c->in[n].n; n++) {
        const bool label = n == 1 || (n == 2 && c->signs);
        in[n] = label && c->below ? check_integers(c->in[n], 11, c->below) : check_array(c->in[n], 11 + (int)n);
        if (label && c->signs && (n == 2 || !c->in[2].n))
            in[n] = mx_minus_scalar(mx_mul_scalar(mx_greater_scalar(in[n], .scalar = 0), .scalar = 2), .scalar = 1);
    }
    *count = n;
    return mx_class_create(cls, c->options);
}
