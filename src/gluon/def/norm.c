/* BatchNorm layers.  SPDX-License-Identifier: Apache-2.0 */
#include "base/thread.h"
#include "exec/call.h"
#include "gluon/comm.h"
#include "gluon/block/layers.h"
#include "gluon/op.gen.h"
#include "gluon/train/sync_norm.h"

#define NORM_OPTIONS(X) \
    X(FLOAT, momentum, "0.9", "0..1", "of the running mean and variance") \
    X(FLOAT, epsilon, "1e-05", "", "added to the variance") \
    X(BOOL, center, "True", "", "learn beta") \
    X(BOOL, scale, "True", "", "learn gamma") \
    X(BOOL, use_global_stats, "False", "", "use the running statistics in training too") \
    X(PTR, beta_initializer, "zeros", "mx_initializer", "initial value of beta") \
    X(PTR, gamma_initializer, "ones", "mx_initializer", "initial value of gamma") \
    X(PTR, running_mean_initializer, "zeros", "mx_initializer", "initial value of the running mean") \
    X(PTR, running_variance_initializer, "ones", "mx_initializer", "initial value of the running variance")
#define CHANNELS_OPTION(X) X(INT, in_channels, "0", "0..", "number of channels; 0: inferred at the first forward")

#define BATCH_NORM_OPTIONS(X) X(INT, axis, "1", "", "axis of the channels") NORM_OPTIONS(X) CHANNELS_OPTION(X)
MX_ATTRS(batch_norm_layer, BATCH_NORM_OPTIONS)

#define SYNC_OPTIONS(X) \
    CHANNELS_OPTION(X) \
    X(INT, num_devices, "None", "1..", "devices that share the statistics, of all processes together; each context of a process needs a thread of its own. None: one of each process") \
    NORM_OPTIONS(X)
MX_ATTRS(sync_batch_norm_layer, SYNC_OPTIONS)
#define MOST_CONTEXTS 1024 /* of one process */

/* gamma, beta and the running statistics, of either kind of layer; o: its options. */
#define ADD_PARAMETERS(self, o) \
    add_parameters(self, (o)->in_channels, (o)->scale, (o)->center, (o)->gamma_initializer, (o)->beta_initializer, \
                   (o)->running_mean_initializer, (o)->running_variance_initializer)
static mx_code add_parameters(mx_block *self, int64_t channels, bool scale, bool center, mx_initializer *gamma,
                              mx_initializer *beta, mx_initializer *mean, mx_initializer *variance)
{
    mx_shape_t shape = {.ndim = 1, .dim = {mx_known_size(channels)}};
    if (mx_layer_affine(self, shape, scale, center, gamma, beta) ||
        mx_layer_parameter(self, "running_mean", shape, mx_initializer_or(mean, "zeros"), MX_FLOAT32, MX_GRAD_NULL,
                           false) < 0 ||
        mx_layer_parameter(self, "running_var", shape, mx_initializer_or(variance, "ones"), MX_FLOAT32, MX_GRAD_NULL,
                           false) < 0)
        return mx_error_code();
    self->own.items[0]->ones = !scale;
    self->own.items[0]->differentiable = scale, self->own.items[1]->differentiable = center;
    return MX_OK;
}

static mx_code build_batch_norm(mx_block *self)
{
    MX_SCOPE;
    const mx_batch_norm_layer_attrs *o = mx_options(self);
    mx_batch_norm_attrs *a = mx_layer_prepare_op(self);
    if (!a)
        return mx_error_code();
    a->eps = o->epsilon, a->momentum = o->momentum, a->fix_gamma = !o->scale;
    a->use_global_stats = o->use_global_stats, a->axis = o->axis;
    return ADD_PARAMETERS(self, o);
}

static mx_array *forward_batch_norm(mx_block *self, mx_arrays in)
{
    mx_array *x = in.v[0];
    mx_array *inputs[] = {x, mx_own(self, 0, x), mx_own(self, 1, x), mx_own(self, 2, x), mx_own(self, 3, x)};
    return mx_call_one(MX_OP("BatchNorm"), self->prepared, 5, inputs, NULL);
}

static void print_batch_norm(mx_block *self, mx_text *text)
{
    const mx_batch_norm_attrs *a = self->prepared;
    mx_text_print(text, "%s(axis=%lld, eps=", self->class_name, (long long)a->axis);
    mx_text_add_number(text, a->eps);
    mx_text_add(text, ", momentum=");
    mx_text_add_number(text, a->momentum);
    mx_text_print(text, ", fix_gamma=%s, use_global_stats=%s, in_channels=", a->fix_gamma ? "True" : "False",
                  a->use_global_stats ? "True" : "False");
    mx_print_size(text, mx_parameter_shape(self->own.items[0]).d[0]);
    mx_text_add(text, ")");
}

/* BatchNorm followed by relu, as one layer. */
static mx_array *forward_batch_norm_relu(mx_block *self, mx_arrays in) { return mx_relu(forward_batch_norm(self, in)); }

/* ---- for several devices -------------------------------------------------------------------------------------------- */

/* Of one process; -1 with an error. */
static int contexts_of(const mx_block *self, int64_t devices)
{
    const int processes = mx_world_size();
    if (devices == MX_NONE_INT || devices == 1)
        return 1;
    if (devices % processes == 0 && devices / processes <= MOST_CONTEXTS)
        return (int)(devices / processes);
    mx_fail(MX_ERR_ARGUMENT, "%s: num_devices=%lld cannot be divided among %d processes with up to %d contexts each",
            self->class_name, (long long)devices, processes, MOST_CONTEXTS);
    return -1;
}

static mx_code build_sync(mx_block *self)
{
    MX_SCOPE;
    const mx_sync_batch_norm_layer_attrs *o = mx_options(self);
    const int contexts = contexts_of(self, o->num_devices);
    mx_sync_batch_norm_attrs *a = contexts > 0 ? mx_layer_prepare_op(self) : NULL;
    if (!a)
        return mx_error_code();
    a->eps = o->epsilon, a->momentum = o->momentum, a->fix_gamma = !o->scale;
    a->use_global_stats = o->use_global_stats, a->ndev = contexts, a->key = self->prefix;
    return ADD_PARAMETERS(self, o);
}

static mx_array *forward_sync(mx_block *self, mx_arrays in)
{
    mx_array *x = in.v[0];
    mx_array *inputs[] = {x, mx_own(self, 0, x), mx_own(self, 1, x), mx_own(self, 2, x), mx_own(self, 3, x)};
    const mx_sync_batch_norm_attrs *a = self->prepared;
    const mx_sync_norm_options shared = {a->eps, a->momentum, a->fix_gamma, (int)a->ndev, a->key};
    if (mx_thread.modes.training && !a->use_global_stats && (a->ndev > 1 || mx_world_size() > 1))
        return mx_sync_norm(inputs, &shared);
    return mx_call_one(MX_OP("_contrib_SyncBatchNorm"), self->prepared, 5, inputs, NULL);
}

static void print_sync(mx_block *self, mx_text *text)
{
    const mx_sync_batch_norm_attrs *a = self->prepared;
    mx_text_print(text, "%s(eps=", self->class_name);
    mx_text_add_number(text, a->eps);
    mx_text_add(text, ", momentum=");
    mx_text_add_number(text, a->momentum);
    mx_text_print(text, ", fix_gamma=%s, use_global_stats=%s, ndev=%d, key='%s', in_channels=",
                  a->fix_gamma ? "True" : "False", a->use_global_stats ? "True" : "False", (int)a->ndev, self->prefix);
    mx_print_size(text, mx_parameter_shape(self->own.items[0]).d[0]);
    mx_text_add(text, ")");
}

/* ---- the classes ------------------------------------------------------------------------------------------------- */

static const mx_layer batch_norm = {.single = true, .build = build_batch_norm,
                                    .forward = forward_batch_norm,
                                    .print = print_batch_norm,
                                    .op = "BatchNorm",
                                    .kwargs = "axis eps momentum fix_gamma use_global_stats",
                                    .wide = true},
                      batch_norm_relu = {.single = true, .build = build_batch_norm,
                                         .forward = forward_batch_norm_relu,
                                         .print = print_batch_norm,
                                         .op = "BatchNorm",
                                         .kwargs = "axis eps momentum fix_gamma use_global_stats",
                                         .wide = true},
    sync = {.single = true, .build = build_sync,
            .forward = forward_sync,
            .print = print_sync,
            .op = "_contrib_SyncBatchNorm",
            .kwargs = "eps momentum fix_gamma use_global_stats ndev key",
            .wide = true};

mx_class mx_classes_norm[] = {
    {.kind = MX_LAYER, .name = "BatchNorm", .node = "fwd", .doc = "normalises each channel over the batch", .schema = &batch_norm_layer_schema, .methods = &batch_norm},
    {.kind = MX_LAYER, .name = "BatchNormReLU", .node = "fwd", .doc = "BatchNorm followed by relu", .schema = &batch_norm_layer_schema, .methods = &batch_norm_relu,
     .c_name = "batch_norm_relu"},
    {.kind = MX_LAYER, .name = "SyncBatchNorm", .node = "fwd", .doc = "normalises each channel over the batches of all processes, and of their contexts that run in threads of their own", .schema = &sync_batch_norm_layer_schema,
     .methods = &sync, .group = "contrib"},
    {0},
};
