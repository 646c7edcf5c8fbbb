/* Running predictors: inputs, forward at once or node by node, outputs.  SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "exec/list.h"
#include "exec/tape.h"
#include "gluon/predict/predict.h"

static mx_predictor *predictor(PredictorHandle handle, const char *who)
{
    return mx_is_kind(handle, &mx_predictor_kind, who, "handle") ? handle : NULL;
}

const char *MXGetLastError(void) { return mx_error_last(); }

/* ---- inputs ---------------------------------------------------------------------------------------------------- */

int MXPredSetInput(PredictorHandle handle, const char *key, const mx_float *data, mx_uint size)
{
    MX_ENTRY;
    mx_predictor *p = predictor(handle, "MXPredSetInput");
    if (!p)
        return mx_entry_end(mx_error_code());
    mx_array *x = key ? mx_dict_get(&p->inputs, key) : NULL;
    if (!x)
        return mx_entry_end(mx_fail(MX_ERR_ARGUMENT,
                                    "MXPredSetInput: there is no input named '%s'; the first one is '%s'",
                                    key ? key : "NULL", p->inputs.entries[0].key));
    char shape[MX_SHAPE_TEXT];
    const mx_dims dims = mx_shape(x);
    if ((int64_t)size != mx_size(x))
        return mx_entry_end(mx_fail(MX_ERR_SHAPE, "MXPredSetInput: %u elements were given for '%s' of shape %s", size,
                                    key, mx_dims_text(&dims, shape)));
    if (size && !data)
        return mx_entry_end(mx_fail(MX_ERR_ARGUMENT, "MXPredSetInput: data is NULL"));
    return mx_entry_end(mx_array_write(x, data, (size_t)size * (size_t)mx_dtype_size(mx_dtype_of(x))));
}

/* ---- forward --------------------------------------------------------------------------------------------------- */

static void take_outputs(mx_predictor *p, mx_array *const *outputs)
{
    for (int64_t i = 0; i < p->n_out; i++) {
        mx_array *before = p->outputs[i];
        p->outputs[i] = mx_keep(outputs[i]);
        mx_release(before);
    }
}

static mx_code run_plan(mx_predictor *p)
{
    mx_array **in = mx_list_new(p->inputs.length);
    for (int64_t i = 0; in && i < p->inputs.length; i++)
        in[i] = p->inputs.entries[i].pointer;
    mx_arrays out = in ? mx_block_call_many(p->net, (mx_arrays){in, p->inputs.length}) : mx_list_failed();
    if (mx_has_error() || out.n != p->n_out)
        return mx_has_error() ? mx_error_code() : mx_fail(MX_ERR_STATE, "MXPredForward: outputs are missing");
    take_outputs(p, out.v);
    return MX_OK;
}

static mx_code watch(void *user, const char *name, mx_array *value)
{
    mx_predictor *p = user;
    p->watch(name, value, p->watch_user);
    return MX_OK;
}

/* The graph and the arrays of its variables, for a run node by node. */
static mx_code prepare_nodes(mx_predictor *p)
{
    if (!p->graph.n && mx_graph_of(&p->graph, p->symbol->n, p->symbol->outputs))
        return mx_error_code();
    if (!p->values && !(p->values = mx_alloc_zero((size_t)p->graph.n * sizeof *p->values)))
        return MX_ERR_MEMORY;
    for (int64_t i = 0; i < p->graph.n; i++) {
        const mx_gnode *node = p->graph.nodes[i];
        mx_parameter *q = node->op ? NULL : mx_params_find(mx_block_params(p->net), node->name);
        p->values[i] = node->op ? NULL : q ? mx_parameter_data(q, p->context) : mx_dict_get(&p->inputs, node->name);
    }
    return mx_has_error() ? mx_error_code() : MX_OK;
}

static mx_code start_nodes(mx_predictor *p)
{
    if (p->steps)
        mx_interpret_end(p->steps, NULL);
    p->steps = NULL, p->next_step = 0;
    if (prepare_nodes(p))
        return mx_error_code();
    const mx_interpretation what = {
        .graph = &p->graph, .values = p->values, .watch = p->watch ? watch : NULL, .user = p, .watch_all = p->watch_all};
    return (p->steps = mx_interpret_start(&what)) ? MX_OK : mx_error_code();
}

/* Runs up to the end of the next operator; *left: operators that remain.  After the last one the outputs are taken. */
static mx_code run_node(mx_predictor *p, int *left)
{
    mx_code code = MX_OK;
    bool computed = false;
    while (!code && !computed && p->next_step < p->graph.n) {
        computed = p->graph.nodes[p->next_step++]->op != NULL;
        code = mx_interpret_step(p->steps);
    }
    *left = 0;
    for (int64_t i = p->next_step; i < p->graph.n; i++)
        *left += p->graph.nodes[i]->op != NULL;
    if (!code && *left)
        return MX_OK;
    for (; !code && p->next_step < p->graph.n; p->next_step++) /* variables that are outputs */
        code = mx_interpret_step(p->steps);
    mx_array **outputs = code ? NULL : mx_list_new(p->n_out);
    const mx_code end = mx_interpret_end(p->steps, outputs);
    p->steps = NULL;
    if (!code && !end && outputs) {
        take_outputs(p, outputs);
        for (int64_t i = 0; i < p->n_out; i++)
            mx_release(outputs[i]);
    }
    return code ? code : end ? end : outputs ? MX_OK : mx_error_code();
}

int MXPredForward(PredictorHandle handle)
{
    MX_ENTRY;
    mx_predictor *p = predictor(handle, "MXPredForward");
    if (!p)
        return mx_entry_end(mx_error_code());
    mx_mode mode = mx_mode_enter(false, false);
    mx_code code = p->watch ? start_nodes(p) : run_plan(p);
    for (int left = p->watch != NULL; !code && left;)
        code = run_node(p, &left);
    mx_mode_leave(&mode);
    return mx_entry_end(code);
}

int MXPredPartialForward(PredictorHandle handle, int step, int *step_left)
{
    MX_ENTRY;
    mx_predictor *p = predictor(handle, "MXPredPartialForward");
    if (!p || !step_left)
        return mx_entry_end(p ? mx_fail(MX_ERR_ARGUMENT, "MXPredPartialForward: step_left is NULL") : mx_error_code());
    if (step < 0)
        return mx_entry_end(mx_fail(MX_ERR_ARGUMENT, "MXPredPartialForward: step is %d, wanted 0 or more", step));
    if (step && !p->steps) { /* past the end, as in a loop that runs one step too far */
        *step_left = 0;
        return mx_entry_end(p->n_out && p->outputs[0] ? MX_OK
                                                      : mx_fail(MX_ERR_STATE,
                                                                "MXPredPartialForward: step %d comes before "
                                                                "step 0",
                                                                step));
    }
    mx_mode mode = mx_mode_enter(false, false);
    mx_code code = step ? MX_OK : start_nodes(p);
    code = code ? code : run_node(p, step_left);
    mx_mode_leave(&mode);
    return mx_entry_end(code);
}

int MXPredSetMonitorCallback(PredictorHandle handle, PredMonitorCallback callback, void *callback_handle,
                             bool monitor_all)
{
    MX_ENTRY;
    mx_predictor *p = predictor(handle, "MXPredSetMonitorCallback");
    if (p)
        p->watch = callback, p->watch_user = callback_handle, p->watch_all = monitor_all;
    return mx_entry_end(p ? MX_OK : mx_error_code());
}

/* ---- outputs --------------------------------------------------------------------------------------------------- */

static mx_predictor *with_output(PredictorHandle handle, mx_uint index, const char *who)
{
    mx_predictor *p = predictor(handle, who);
    if (p && index >= (uint64_t)p->n_out)
        return mx_fail_null(MX_ERR_INDEX, "%s: there is no output %u; the predictor has %lld", who, index,
                            (long long)p->n_out);
    return p;
}

int MXPredGetOutputShape(PredictorHandle handle, mx_uint index, mx_uint **shape_data, mx_uint *shape_ndim)
{
    MX_ENTRY;
    mx_predictor *p = with_output(handle, index, "MXPredGetOutputShape");
    if (!p || !shape_data || !shape_ndim)
        return mx_entry_end(
            p ? mx_fail(MX_ERR_ARGUMENT, "MXPredGetOutputShape: %s is NULL", shape_data ? "shape_ndim" : "shape_data")
              : mx_error_code());
    const mx_dims dims = p->outputs[index] ? mx_shape(p->outputs[index]) : p->shapes[index];
    if (dims.n < 0)
        return mx_entry_end(
            mx_fail(MX_ERR_STATE,
                    "MXPredGetOutputShape: the shape of output %u depends on values; run MXPredForward() "
                    "first",
                    index));
    for (int i = 0; i < dims.n; i++) {
        if (dims.d[i] > UINT32_MAX)
            return mx_entry_end(mx_fail(MX_ERR_SHAPE, "MXPredGetOutputShape: output %u is too large", index));
        p->shown[index][i] = (uint32_t)dims.d[i];
    }
    *shape_data = p->shown[index];
    *shape_ndim = (mx_uint)dims.n;
    return mx_entry_end(MX_OK);
}

int MXPredGetOutputType(PredictorHandle handle, mx_uint out_index, int *out_dtype)
{
    MX_ENTRY;
    mx_predictor *p = with_output(handle, out_index, "MXPredGetOutputType");
    if (!p || !out_dtype)
        return mx_entry_end(p ? mx_fail(MX_ERR_ARGUMENT, "MXPredGetOutputType: out_dtype is NULL") : mx_error_code());
    *out_dtype = p->outputs[out_index] ? (int)mx_dtype_of(p->outputs[out_index]) : (int)p->types[out_index];
    return mx_entry_end(MX_OK);
}

int MXPredGetOutput(PredictorHandle handle, mx_uint index, mx_float *data, mx_uint size)
{
    MX_ENTRY;
    mx_predictor *p = with_output(handle, index, "MXPredGetOutput");
    if (!p)
        return mx_entry_end(mx_error_code());
    const mx_array *x = p->outputs[index];
    if (!x)
        return mx_entry_end(mx_fail(MX_ERR_STATE, "MXPredGetOutput: run MXPredForward() first"));
    char shape[MX_SHAPE_TEXT];
    const mx_dims dims = mx_shape(x);
    if ((int64_t)size != mx_size(x) || (size && !data))
        return mx_entry_end((int64_t)size != mx_size(x)
                                ? mx_fail(MX_ERR_SHAPE,
                                          "MXPredGetOutput: there is room for %u elements, output %u has "
                                          "shape %s",
                                          size, index, mx_dims_text(&dims, shape))
                                : mx_fail(MX_ERR_ARGUMENT, "MXPredGetOutput: data is NULL"));
    return mx_entry_end(mx_array_read(x, data, (size_t)size * (size_t)mx_dtype_size(mx_dtype_of(x))));
}
