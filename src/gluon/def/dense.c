/* Dense and Embedding layers.  SPDX-License-Identifier: Apache-2.0 */
#include "gluon/block/layers.h"
#include "gluon/op.gen.h"

/* ---- Dense: activation(x W' + b) ------------------------------------------------------------------------------ */

#define DENSE_OPTIONS(X) \
    X(INT, units, REQUIRED, "", "number of outputs") \
    X(STR, activation, "None", "", "relu, sigmoid, tanh, softrelu or softsign; None: linear") \
    X(BOOL, use_bias, "True", "", "add a bias") \
    X(BOOL, flatten, "True", "", "take all axes but the first as features; else only the last") \
    X(DTYPE, dtype, "float32", "", "element type of the parameters") \
    X(PTR, weight_initializer, "None", "mx_initializer", "None: the network's") \
    X(PTR, bias_initializer, "zeros", "mx_initializer", "initial value of the bias") \
    X(INT, in_units, "0", "0..", "number of inputs; 0: inferred at the first forward")
MX_ATTRS(dense_layer, DENSE_OPTIONS)

/* Sizes are checked when they are used: programs construct layers of size 0 that they never call. */
static mx_code check_size(const mx_block *self, const char *option, int64_t size)
{
    return size >= 1 ? MX_OK
                     : mx_fail(MX_ERR_ATTRIBUTE, "%s (%s): %s=%lld, wanted at least 1", self->name, self->class_name,
                               option, (long long)size);
}

static mx_code build_dense(mx_block *self)
{
    MX_SCOPE;
    const mx_dense_layer_attrs *o = mx_options(self);
    mx_shape_t weight = {.ndim = 2, .dim = {mx_known_size(o->units), mx_known_size(o->in_units)}},
               bias = {.ndim = 1, .dim = {mx_known_size(o->units)}};
    if (mx_layer_parameter(self, "weight", weight, o->weight_initializer, o->dtype, MX_GRAD_WRITE, true) < 0)
        return mx_error_code();
    if (o->use_bias && mx_layer_parameter(self, "bias", bias, mx_initializer_or(o->bias_initializer, "zeros"), o->dtype,
                                          MX_GRAD_WRITE, true) < 0)
        return mx_error_code();
    return mx_layer_activation(self, o->activation) ? MX_OK : mx_error_code();
}

static mx_array *forward_dense(mx_block *self, mx_arrays in)
{
    const mx_dense_layer_attrs *o = mx_options(self);
    mx_array *x = in.v[0];
    if (check_size(self, "units", o->units))
        return NULL;
    mx_array *weight = mx_own(self, 0, x), *bias = weight ? mx_own(self, 1, x) : NULL;
    mx_array *y =
        mx_fully_connected(x, weight, bias, .num_hidden = o->units, .no_bias = bias == MX_NONE, .flatten = o->flatten);
    return mx_activate(self, y);
}

static void print_dense(mx_block *self, mx_text *text)
{
    const mx_dense_layer_attrs *o = mx_options(self);
    mx_text_add(text, "Dense(");
    mx_print_size(text, mx_parameter_shape(self->own.items[0]).d[1]);
    mx_text_print(text, " -> %lld, ", (long long)o->units);
    if (o->activation)
        mx_text_print(text, "Activation(%s))", o->activation);
    else
        mx_text_add(text, "linear)");
}

static const mx_layer dense_methods = {
    .single = true, .build = build_dense, .forward = forward_dense, .print = print_dense};

/* ---- Embedding: rows of a table --------------------------------------------------------------------------------- */

#define EMBEDDING_OPTIONS(X) \
    X(INT, input_dim, REQUIRED, "", "number of rows: size of the vocabulary") \
    X(INT, output_dim, REQUIRED, "", "length of a row") \
    X(DTYPE, dtype, "float32", "", "element type of the table") \
    X(PTR, weight_initializer, "None", "mx_initializer", "None: the network's") \
    X(BOOL, sparse_grad, "False", "", "the gradient is row_sparse: only the rows that were looked up")
MX_ATTRS(embedding_layer, EMBEDDING_OPTIONS)

static mx_code build_embedding(mx_block *self)
{
    const mx_embedding_layer_attrs *o = mx_options(self);
    const mx_dims dims = MX_DIMS(o->input_dim > 0 ? o->input_dim : 0, o->output_dim > 0 ? o->output_dim : 0);
    const mx_stype stype = o->sparse_grad ? MX_ROW_SPARSE : MX_STYPE_DEFAULT;
    mx_parameter *made = mx_block_parameter(self, "weight", .shape = dims, .init = o->weight_initializer,
                                            .dtype = o->dtype, .allow_deferred_init = true, .grad_stype = stype);
    return made ? MX_OK : mx_error_code();
}

static mx_array *forward_embedding(mx_block *self, mx_arrays in)
{
    const mx_embedding_layer_attrs *o = mx_options(self);
    if (check_size(self, "input_dim", o->input_dim) || check_size(self, "output_dim", o->output_dim))
        return NULL;
    return mx_op_embedding(in.v[0], mx_own(self, 0, in.v[0]), .input_dim = o->input_dim, .output_dim = o->output_dim,
                           .dtype = o->dtype, .sparse_grad = o->sparse_grad);
}

static void print_embedding(mx_block *self, mx_text *text)
{
    const mx_embedding_layer_attrs *o = mx_options(self);
    mx_text_print(text, "Embedding(%lld -> %lld, %s)", (long long)o->input_dim, (long long)o->output_dim,
                  mx_dtype_name(o->dtype));
}

static const mx_layer embedding_methods = {.single = true, .build = build_embedding,
                                           .forward = forward_embedding,
                                           .print = print_embedding,
                                           .kwargs = "input_dim output_dim dtype sparse_grad"};

mx_class mx_classes_dense[] = {
    {.kind = MX_LAYER, .name = "Dense", .node = "fwd", .doc = "a fully connected layer: activation(x W' + b)", .schema = &dense_layer_schema, .positional = 1,
     .methods = &dense_methods},
    {.kind = MX_LAYER, .name = "Embedding", .node = "fwd", .doc = "maps integers to rows of a learned table", .schema = &embedding_layer_schema,
     .positional = 2, .methods = &embedding_methods},
    {0},
};
