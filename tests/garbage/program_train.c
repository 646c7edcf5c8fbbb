/* A random program as a network: its inputs are parameters, the sum of its outputs' means is the prediction.  A few steps of
 * training give the same bits in every way (see program.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "gluon/nn.gen.h"
#include "gluon/op.gen.h"
#include "gluon/step.h"
#include "outcome.h"
#include "program.h"

#define TRAINED 3 /* steps; the first of a fused step runs as the imperative loop */

typedef struct way {
    const char *name;
    bool hybridized, fused, recompute;
} way;
static const way ways[] = {{"trained", false, false, false},
                           {"trained hybridized", true, false, false},
                           {"trained with fused steps", false, true, false},
                           {"trained hybridized with fused steps", true, true, false},
                           {"trained hybridized, recomputing", true, false, true},
                           {"trained with fused steps, recomputing", true, true, true}};

static const struct {
    const char *name, *options;
} optimizers[] = {{"sgd", "learning_rate=0.01, momentum=0.9"},
                  {"adam", "learning_rate=0.01"},
                  {"nag", "wd=0.1"},
                  {"rmsprop", "centered=1"},
                  {"sgd", "multi_precision=1"},
                  {"adagrad", NULL}};

typedef struct network {
    const program *p;
    mx_parameter *parameter[PROGRAM_VALUES]; /* of inputs; others NULL */
} network;

/* data is a number that is added, so that the prediction depends on it. */
static mx_array *forward(mx_block *self, mx_arrays in)
{
    const network *n = mx_block_user(self);
    mx_array *value[PROGRAM_VALUES], *out[MX_MAX_OUTPUTS], *sum = in.v[0];
    for (int i = 0; i < n->p->n_values; i++)
        value[i] = n->parameter[i] ? mx_parameter_data(n->parameter[i], (mx_context){0}) : NULL;
    if (mx_error_code() || program_compute(n->p, value))
        return NULL;
    const int count = program_outputs(n->p, value, out);
    for (int i = 0; i < count; i++)
        sum = mx_add(sum, mx_cast(mx_mean(out[i]), .dtype = MX_FLOAT32));
    return sum;
}

static mx_array *difference(mx_block *self, mx_arrays in) { return (void)self, mx_sub(in.v[0], in.v[1]); }

static mx_block *make_network(network *n, const program *p)
{
    memset(n, 0, sizeof *n);
    n->p = p;
    mx_block *block = mx_block_new("Program", forward, .hybrid = true, .prefix = "program_", .user = n);
    for (int i = 0; i < p->n_values; i++) {
        const program_value *v = &p->value[i];
        char name[16];
        if (!v->input)
            continue;
        snprintf(name, sizeof name, "x%d", i);
        mx_array *start = ops_array(&v->shape, v->type, v->elements, false);
        n->parameter[i] = mx_block_parameter(block, name, .shape = mx_shape(start), .dtype = v->type,
                                             .grad_req = program_learns(v) ? MX_GRAD_WRITE : MX_GRAD_NULL);
        if (mx_parameter_initialize(n->parameter[i], mx_zero(), NULL, 0, false) ||
            mx_parameter_set_data(n->parameter[i], start))
            return NULL;
    }
    return block;
}

static mx_array *step(mx_block *net, mx_block *loss, mx_trainer *trainer, mx_array *data, mx_array *label)
{
    mx_array *result = NULL;
    mx_record()
        result = mx_call(loss, mx_call(net, data), label);
    return mx_backward(result) || mx_trainer_step(trainer, 1) ? NULL : result;
}

/* Outputs: the losses of all steps; gradients: the parameters afterwards. */
static void train(const program *p, const way *how, outcome *o)
{
    network n;
    *o = (outcome){0};
    mx_random_seed(7);
    mx_block *net = make_network(&n, p), *loss = mx_block_new("Difference", difference, .hybrid = true);
    mx_array *data = mx_array_scalar(0.5), *label = mx_array_scalar(0.25);
    const size_t chosen = strlen(p->story) % (sizeof optimizers / sizeof *optimizers);
    mx_trainer *trainer =
        net ? mx_trainer_new(mx_collect_params(net), optimizers[chosen].name, optimizers[chosen].options) : NULL;
    mx_train_step *fused = how->fused ? mx_train_step_new(net, loss, trainer) : NULL;
    const struct mx_hybridize_options options = {.active = true, .recompute = how->recompute};
    if (how->hybridized)
        mx_hybridize_with(net, &options), mx_hybridize_with(loss, &options);
    for (int i = 0; i < TRAINED && !mx_error_code(); i++)
        o->out[o->n_out++] = fused ? mx_train_step_run(fused, data, label) : step(net, loss, trainer, data, label);
    if (mx_error_code())
        return outcome_error(o, mx_error_code());
    o->backward = true;
    for (int i = 0; i < p->n_values; i++)
        if (n.parameter[i])
            o->grad[o->n_in++] = mx_array_copy(mx_parameter_data(n.parameter[i], (mx_context){0}));
}

const char *program_train(const program *p)
{
    outcome reference;
    train(p, &ways[0], &reference);
    if (reference.code) /* such as a type that the optimizer does not update */
        return NULL;
    for (size_t i = 1; i < sizeof ways / sizeof *ways; i++) {
        outcome other;
        train(p, &ways[i], &other);
        const char *d = outcome_compare(ways[i].name, &reference, &other);
        if (d)
            return d;
    }
    return NULL;
}
