/* Control flow and operators written by users: _foreach, _while_loop, _cond, Custom, and their common gradient.
 *
 * What they call is an object in their attributes (op/control.h); the attributes before it are those of MXNet's files.
 * mx_foreach(), mx_while_loop(), mx_cond() and mx_custom() create such calls.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "base/error.h"
#include "op/control.h"

#define FOREACH_ATTRS(X) \
    X(INT, num_args, REQUIRED, "1..", "number of inputs, including the subgraph") \
    X(INT, num_outputs, REQUIRED, "0..", "number of outputs: those of the body, then the states") \
    X(INT, num_out_data, REQUIRED, "0..", "number of outputs of the body that are not states") \
    X(STR, in_state_locs, REQUIRED, "", "positions of the states among the subgraph's inputs") \
    X(STR, in_data_locs, REQUIRED, "", "positions of the data slices among the subgraph's inputs") \
    X(STR, remain_locs, REQUIRED, "", "positions of the remaining inputs among the subgraph's inputs") \
    X(PTR, callee, "None", "", "the subgraph")
MX_ATTRS(foreach, FOREACH_ATTRS)

#define WHILE_LOOP_ATTRS(X) \
    X(INT, num_args, REQUIRED, "2..", "number of inputs, including the subgraphs") \
    X(INT, num_outputs, REQUIRED, "1..", "number of outputs: those of a step, then the variables") \
    X(INT, num_out_data, REQUIRED, "0..", "number of outputs of a step that are not variables") \
    X(INT, max_iterations, REQUIRED, "1..", "maximum number of steps; the length of the outputs") \
    X(STR, cond_input_locs, REQUIRED, "", "positions of the condition's inputs among the inputs") \
    X(STR, func_input_locs, REQUIRED, "", "positions of the step's inputs among the inputs") \
    X(STR, func_var_locs, REQUIRED, "", "positions of the variables among the step's inputs") \
    X(PTR, callee, "None", "", "the subgraphs")
MX_ATTRS(while_loop, WHILE_LOOP_ATTRS)

#define COND_ATTRS(X) \
    X(INT, num_args, REQUIRED, "3..", "number of inputs, including the subgraphs") \
    X(INT, num_outputs, REQUIRED, "1..", "number of outputs of each branch") \
    X(STR, cond_input_locs, REQUIRED, "", "positions of the condition's inputs among the inputs") \
    X(STR, then_input_locs, REQUIRED, "", "positions of the first branch's inputs among the inputs") \
    X(STR, else_input_locs, REQUIRED, "", "positions of the second branch's inputs among the inputs") \
    X(PTR, callee, "None", "", "the subgraphs")
MX_ATTRS(cond, COND_ATTRS)

/* All other attributes go to the registered operator's properties. */
#define CUSTOM_ATTRS(X) \
    X(STR, op_type, REQUIRED, "", "name under which the operator was registered") \
    X(PTR, properties_, "None", "", "the operator's properties")
MX_ATTRS(custom, CUSTOM_ATTRS)

#define BACKWARD_CALL_ATTRS(X) X(PTR, callee, "None", "", "which gradients arrived and which are needed")
MX_ATTRS(backward_call, BACKWARD_CALL_ATTRS)

/* ---- counts ------------------------------------------------------------------------------------------------------ */

static int visible(int64_t count) { return count < 0 || count > 1 << 20 ? 1 << 20 : (int)count; }
static int visible_foreach(const void *attrs) { return visible(((const mx_foreach_attrs *)attrs)->num_outputs); }
static int visible_while(const void *attrs) { return visible(((const mx_while_loop_attrs *)attrs)->num_outputs); }
static int visible_cond(const void *attrs) { return visible(((const mx_cond_attrs *)attrs)->num_outputs); }
static int visible_custom(const void *attrs)
{
    const mx_callee *callee = ((const mx_custom_attrs *)attrs)->properties_;
    return callee && callee->methods ? visible(callee->methods->count(callee)) : 1;
}
static int count_foreach(const void *attrs) { return visible_foreach(attrs) + 1; }
static int count_while(const void *attrs) { return visible_while(attrs) + 1; }
static int count_cond(const void *attrs) { return visible_cond(attrs) + 1; }
static int count_custom(const void *attrs) { return visible_custom(attrs) + 1; }

/* ---- inference --------------------------------------------------------------------------------------------------- */

static mx_code infer_callee(mx_infer *infer)
{
    const mx_callee *callee = mx_callee_of(infer->op, infer->attrs);
    const mx_shape_t one = {.ndim = 1, .dim = {1}};
    if (!callee || !callee->methods)
        return mx_op_fail(infer->op, MX_ERR_ARGUMENT,
                          "the call has no callee; create it with mx_foreach(), "
                          "mx_while_loop(), mx_cond() or mx_custom()");
    if (mx_infer_out(infer, infer->n_out - 1, &one) || mx_infer_out_type(infer, infer->n_out - 1, MX_UINT8))
        return mx_error_code();
    return callee->methods->infer(callee, infer);
}

/* Shapes and types are inferred together. */
static mx_code infer_no_type(mx_infer *infer) { return (void)infer, MX_OK; }

static const mx_pullback *pullback_of(const mx_op *op, const void *attrs)
{
    return (const mx_pullback *)(const void *)mx_callee_of(op, attrs);
}

static int count_backward(const void *attrs)
{
    const mx_pullback *p = ((const mx_backward_call_attrs *)attrs)->callee;
    return p ? p->count : 1;
}

static mx_code infer_backward(mx_infer *infer)
{
    const mx_pullback *p = pullback_of(infer->op, infer->attrs);
    if (!p || infer->n_in != 1 + p->n_in + __builtin_popcountll(p->given))
        return mx_op_fail(infer->op, MX_ERR_ARGUMENT, "the operator is internal to gradients and cannot be called");
    for (int k = 0; k < p->count; k++) {
        const int i = 1 + p->wanted[p->first + k];
        if (mx_infer_out(infer, k, &infer->in[i]) || mx_infer_out_type(infer, k, infer->in_type[i]))
            return mx_error_code();
    }
    return MX_OK;
}

/* ---- gradients --------------------------------------------------------------------------------------------------- */

#define MOST_RESULTS 48 /* gradients per node; further ones come from further nodes */

static void destroy_pullback(mx_object *object)
{
    mx_pullback *p = (mx_pullback *)object;
    mx_free(p, sizeof *p + (size_t)p->n_wanted * sizeof p->wanted[0]);
}
static const mx_kind pullback_kind = {"gradient of a call", destroy_pullback};

static mx_pullback *new_pullback(const mx_grad *grad, int n_wanted, int first)
{
    mx_pullback *p = mx_alloc_zero(sizeof *p + (size_t)n_wanted * sizeof p->wanted[0]);
    if (!p)
        return NULL;
    mx_object_init(&p->callee.object, &pullback_kind);
    p->n_in = grad->n_in, p->n_wanted = n_wanted, p->first = first;
    p->count = n_wanted - first < MOST_RESULTS ? n_wanted - first : MOST_RESULTS;
    for (int k = 0; k < grad->n_out - 1; k++)
        if (grad->ograd[k])
            p->given |= (uint64_t)1 << k;
    for (int i = 0, n = 0; i < grad->n_in; i++)
        if (grad->wanted[i])
            p->wanted[n++] = i;
    return p;
}

/* One node of at most MOST_RESULTS gradients. */
static mx_code add_results(mx_grad *grad, int n_wanted, int first, int n, mx_array *const *in)
{
    mx_array *out[MX_MAX_OUTPUTS] = {NULL};
    mx_pullback *p = new_pullback(grad, n_wanted, first);
    if (!p)
        return MX_ERR_MEMORY;
    mx_backward_call_attrs attrs = {p};
    mx_code code = mx_invoke(MX_OP("_backward_call"), &attrs, n, in, MX_MAX_OUTPUTS, out);
    for (int k = 0; !code && k < p->count; k++)
        grad->igrad[p->wanted[first + k]] = out[k];
    mx_release(p);
    return code;
}

/* Only for graphs: on arrays the callee's own calls are on the tape. */
static mx_code grad_call(mx_grad *grad)
{
    int n = 0, n_wanted = 0;
    const size_t bytes = ((size_t)grad->n_in + (size_t)grad->n_out) * sizeof(mx_array *);
    for (int i = 0; i < grad->n_in; i++)
        n_wanted += grad->wanted[i];
    mx_array **in = mx_alloc(bytes);
    if (!in)
        return MX_ERR_MEMORY;
    in[n++] = grad->out[grad->n_out - 1];
    for (int i = 0; i < grad->n_in; i++)
        in[n++] = grad->in[i] ? grad->in[i] : MX_NONE;
    for (int k = 0; k < grad->n_out - 1; k++)
        if (grad->ograd[k])
            in[n++] = grad->ograd[k];
    mx_code code = MX_OK;
    for (int first = 0; !code && first < n_wanted; first += MOST_RESULTS)
        code = add_results(grad, n_wanted, first, n, in);
    mx_free(in, bytes);
    return code;
}

/* ---- operators --------------------------------------------------------------------------------------------------- */

/* The callee may draw random numbers and write states: such a call is never removed, duplicated or moved. */
#define CALL                                                                                                   \
    .inputs = "*data", .flags = MX_OP_LIST | MX_OP_HIDDEN | MX_OP_CALLS | MX_OP_RANDOM, .infer_shape = infer_callee, \
    .infer_type = infer_no_type, .gradient = grad_call, .grad_in = MX_ALL_ARGS, .grad_out = MX_ALL_ARGS

mx_op mx_family_control_flow[] = {
    {.name = "_foreach", .doc = "Runs a subgraph over the first axis of its data, passing states from step to step.",
     .schema = &foreach_schema, .count_out = count_foreach, .count_visible = visible_foreach, CALL},
    {.name = "_while_loop", .doc = "Runs a subgraph on loop variables while a condition, another subgraph, holds.",
     .schema = &while_loop_schema, .count_out = count_while, .count_visible = visible_while, CALL},
    {.name = "_cond", .doc = "Runs one of two subgraphs, chosen by a condition, a third subgraph.",
     .schema = &cond_schema, .count_out = count_cond, .count_visible = visible_cond, CALL},
    {.name = "Custom", .doc = "An operator written by the user and registered under the name op_type.",
     .schema = &custom_schema, .count_out = count_custom, .count_visible = visible_custom, CALL},
    {.name = "_backward_call", .inputs = "*data", .doc = "Gradients of a call to subgraphs or to a user's operator.",
     .schema = &backward_call_schema,
     .flags = MX_OP_LIST | MX_OP_HIDDEN | MX_OP_CALLS | MX_OP_RANDOM | MX_OP_NO_GRADIENT,
     .count_out = count_backward, .infer_shape = infer_backward, .infer_type = infer_no_type},
    {0},
};
