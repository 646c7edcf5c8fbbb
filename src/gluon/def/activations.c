/* Activation layers: Activation, LeakyReLU, PReLU, ELU, SELU, GELU, Swish.  SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "exec/call.h"
#include "gluon/block/layers.h"
#include "gluon/op.gen.h"

/* ---- Activation -------------------------------------------------------------------------------------------------- */

#define ACTIVATION_OPTIONS(X) X(STR, activation, REQUIRED, "", "relu, sigmoid, tanh, softrelu or softsign")
MX_ATTRS(activation_layer, ACTIVATION_OPTIONS)

static mx_code build_activation(mx_block *self)
{
    const char *name = ((const mx_activation_layer_attrs *)mx_options(self))->activation;
    mx_op *op = mx_op_find("Activation");
    void *attrs = op ? mx_layer_prepare(self, op->schema->size) : NULL;
    return attrs ? mx_schema_set(op->schema, attrs, "Activation", "act_type", name) : mx_error_code();
}

static mx_array *forward_activation(mx_block *self, mx_arrays in)
{
    return mx_call_one(MX_OP("Activation"), self->prepared, 1, in.v, NULL);
}

static void print_activation(mx_block *self, mx_text *text)
{
    mx_text_print(text, "Activation(%s)", ((const mx_activation_layer_attrs *)mx_options(self))->activation);
}
static const mx_layer activation = {
    .build = build_activation, .prepare = build_activation, .forward = forward_activation, .print = print_activation};

/* ---- the LeakyReLU operator's family ------------------------------------------------------------------------------- */

#define ALPHA_OPTIONS(X) X(FLOAT, alpha, REQUIRED, "0..", "slope for negative numbers")
MX_ATTRS(alpha, ALPHA_OPTIONS)
#define ELU_OPTIONS(X) X(FLOAT, alpha, "1.0", "", "the limit at minus infinity is -alpha")
MX_ATTRS(elu, ELU_OPTIONS)
#define PRELU_OPTIONS(X) \
    X(PTR, alpha_initializer, "None", "mx_initializer", "initial value of the learned slope; None: 0.25") \
    X(INT, in_channels, "1", "1..", "1: one slope for all; else one per channel")
MX_ATTRS(prelu, PRELU_OPTIONS)
#define SWISH_OPTIONS(X) X(FLOAT, beta, "1.0", "", "x * sigmoid(beta * x)")
MX_ATTRS(swish, SWISH_OPTIONS)

static mx_code prepare(mx_block *self, const char *act_type, double slope)
{
    mx_op *op = mx_op_find("LeakyReLU");
    char *attrs = op ? mx_layer_prepare(self, op->schema->size) : NULL;
    if (!attrs)
        return mx_error_code();
    memcpy(attrs, op->defaults, op->schema->size);
    *(double *)(attrs + mx_schema_find(op->schema, "slope")->offset) = slope;
    return mx_schema_set(op->schema, attrs, op->name, "act_type", act_type);
}

static mx_code build_leaky(mx_block *self)
{
    return prepare(self, "leaky", ((const mx_alpha_attrs *)mx_options(self))->alpha);
}
static mx_code build_elu(mx_block *self)
{
    return prepare(self, "elu", ((const mx_elu_attrs *)mx_options(self))->alpha);
}
static mx_code build_selu(mx_block *self) { return prepare(self, "selu", 0.25); }
static mx_code build_gelu(mx_block *self) { return prepare(self, "gelu", 0.25); }

static mx_array *forward_leaky(mx_block *self, mx_arrays in)
{
    const int own = self->own.length ? 0 : -1; /* PReLU's slope */
    mx_array *inputs[] = {in.v[0], mx_own(self, own, in.v[0])};
    return mx_call_one(MX_OP("LeakyReLU"), self->prepared, 2, inputs, NULL);
}

static mx_array *forward_swish(mx_block *self, mx_arrays in)
{
    const double beta = ((const mx_swish_attrs *)mx_options(self))->beta;
    mx_array *x = in.v[0];
    return mx_mul(x, mx_sigmoid(mx_mul_scalar(x, .scalar = beta)));
}

static mx_code build_prelu(mx_block *self)
{
    MX_SCOPE;
    const mx_prelu_attrs *o = mx_options(self);
    if (prepare(self, "prelu", 0.25))
        return mx_error_code();
    mx_shape_t shape = {.ndim = 1, .dim = {o->in_channels}};
    mx_initializer *init = o->alpha_initializer
                               ? o->alpha_initializer
                               : mx_class_create(mx_class_find(MX_INITIALIZER, "constant"), "value=0.25");
    return init && mx_layer_parameter(self, "alpha", shape, init, MX_FLOAT32, MX_GRAD_WRITE, true) >= 0
               ? MX_OK
               : mx_error_code();
}

static void print_leaky(mx_block *self, mx_text *text)
{
    mx_text_add(text, "LeakyReLU(");
    mx_print_option(self, text, "alpha");
    mx_text_add(text, ")");
}

static const mx_layer leaky_relu = {.build = build_leaky,
                                    .prepare = build_leaky,
                                    .forward = forward_leaky,
                                    .print = print_leaky},
    elu = {.build = build_elu, .prepare = build_elu, .forward = forward_leaky},
                      selu = {.build = build_selu, .forward = forward_leaky},
                      gelu = {.build = build_gelu, .forward = forward_leaky},
                      prelu = {.build = build_prelu, .forward = forward_leaky}, swish = {.forward = forward_swish};

mx_class mx_classes_activations[] = {
    {.kind = MX_LAYER, .name = "Activation", .node = "fwd", .doc = "applies a function elementwise", .schema = &activation_layer_schema, .positional = 1,
     .hint = "@activation", .methods = &activation},
    {.kind = MX_LAYER, .name = "LeakyReLU", .node = "fwd", .doc = "x where positive, else alpha * x", .schema = &alpha_schema, .positional = 1,
     .methods = &leaky_relu, .c_name = "leaky_relu"},
    {.kind = MX_LAYER, .name = "PReLU", .node = "fwd", .doc = "x where positive, else a learned multiple of x", .schema = &prelu_schema, .methods = &prelu,
     .c_name = "prelu"},
    {.kind = MX_LAYER, .name = "ELU", .doc = "x where positive, else alpha * (exp(x) - 1)", .schema = &elu_schema, .methods = &elu, .c_name = "elu"},
    {.kind = MX_LAYER, .name = "SELU", .node = "fwd", .doc = "ELU scaled so that activations keep mean 0 and variance 1", .methods = &selu, .c_name = "selu"},
    {.kind = MX_LAYER, .name = "GELU", .node = "fwd", .doc = "x times the probability that a standard normal number is below x", .methods = &gelu, .c_name = "gelu"},
    {.kind = MX_LAYER, .name = "Swish", .doc = "x * sigmoid(beta * x)", .schema = &swish_schema, .methods = &swish},
    {0},
};
