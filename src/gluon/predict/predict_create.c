/* MXPredCreate with its variants, MXPredReshape, MXPredFree: arguments are checked here, predictors made in predict_make.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "gluon/predict/predict.h"

/* ---- arguments ------------------------------------------------------------------------------------------------- */

mx_code mx_predict_check_inputs(const mx_predict_inputs *in, const char *who)
{
    if (!in->n)
        return mx_fail(MX_ERR_ARGUMENT, "%s: no input is named; the shapes of the inputs are needed", who);
    if (!in->names || !in->first || !in->dims)
        return mx_fail(MX_ERR_ARGUMENT, "%s: %s is NULL", who,
                       !in->names   ? "input_keys"
                       : !in->first ? "input_shape_indptr"
                                    : "input_shape_data");
    for (uint32_t i = 0; i < in->n; i++) {
        if (!in->names[i])
            return mx_fail(MX_ERR_ARGUMENT, "%s: input_keys[%u] is NULL", who, i);
        if (in->first[i + 1] < in->first[i] || in->first[i + 1] - in->first[i] > MX_MAX_NDIM)
            return mx_fail(MX_ERR_ARGUMENT,
                           "%s: input_shape_indptr has %u and then %u for input '%s', wanted 0 to %d axes", who,
                           in->first[i], in->first[i + 1], in->names[i], MX_MAX_NDIM);
    }
    return MX_OK;
}

static mx_code check(const mx_predict_request *r, PredictorHandle *out)
{
    if (!r->json || !r->bytes || !out)
        return mx_fail(MX_ERR_ARGUMENT, "%s: %s is NULL", r->who,
                       !r->json    ? "symbol_json_str"
                       : !r->bytes ? "param_bytes"
                                   : "out");
    if (r->size <= 0)
        return mx_fail(MX_ERR_ARGUMENT, "%s: param_size is %d, wanted the size of a .params file in bytes", r->who,
                       r->size);
    if (r->context.type != MX_CPU && r->context.type != MX_GPU && r->context.type != MX_CPU_PINNED)
        return mx_fail(MX_ERR_DEVICE, "%s: dev_type is %d, wanted 1 (CPU) or 2 (GPU)", r->who, r->context.type);
    if ((r->n_types && (!r->type_names || !r->types)) || (r->n_outputs && !r->output_names))
        return mx_fail(MX_ERR_ARGUMENT, "%s: a list of names or types is NULL", r->who);
    return mx_predict_check_inputs(&r->inputs, r->who);
}

/* ---- the interface ---------------------------------------------------------------------------------------------- */

static int create_many(const mx_predict_request *r, int count, PredictorHandle *out)
{
    MX_ENTRY;
    mx_code code = check(r, out);
    for (int i = 0; !code && i < count; i++)
        out[i] = NULL;
    for (int i = 0; !code && i < count; i++)
        if (!(out[i] = mx_keep(i ? mx_predict_again(out[0], NULL) : mx_predict_new(r))))
            code = mx_error_code();
    for (int i = 0; code && out && i < count && r->json && r->bytes; i++) {
        mx_release(out[i]);
        out[i] = NULL;
    }
    return mx_entry_end(code);
}

#define REQUEST(name)                                                                                           \
    {.who = name, .json = symbol_json_str, .bytes = param_bytes, .size = param_size,                            \
     .context = {dev_type, dev_id},                                                                              \
     .inputs = {num_input_nodes, input_keys, input_shape_indptr, input_shape_data}}

int MXPredCreate(const char *symbol_json_str, const void *param_bytes, int param_size, int dev_type, int dev_id,
                 mx_uint num_input_nodes, const char **input_keys, const mx_uint *input_shape_indptr,
                 const mx_uint *input_shape_data, PredictorHandle *out)
{
    const mx_predict_request r = REQUEST("MXPredCreate");
    return create_many(&r, 1, out);
}

int MXPredCreateEx(const char *symbol_json_str, const void *param_bytes, int param_size, int dev_type, int dev_id,
                   mx_uint num_input_nodes, const char **input_keys, const mx_uint *input_shape_indptr,
                   const mx_uint *input_shape_data, mx_uint num_provided_arg_dtypes,
                   const char **provided_arg_dtype_names, const int *provided_arg_dtypes, PredictorHandle *out)
{
    mx_predict_request r = REQUEST("MXPredCreateEx");
    r.n_types = num_provided_arg_dtypes, r.type_names = provided_arg_dtype_names, r.types = provided_arg_dtypes;
    return create_many(&r, 1, out);
}

int MXPredCreatePartialOut(const char *symbol_json_str, const void *param_bytes, int param_size, int dev_type,
                           int dev_id, mx_uint num_input_nodes, const char **input_keys,
                           const mx_uint *input_shape_indptr, const mx_uint *input_shape_data, mx_uint num_output_nodes,
                           const char **output_keys, PredictorHandle *out)
{
    mx_predict_request r = REQUEST("MXPredCreatePartialOut");
    r.n_outputs = num_output_nodes, r.output_names = output_keys;
    return create_many(&r, 1, out);
}

int MXPredCreateMultiThread(const char *symbol_json_str, const void *param_bytes, int param_size, int dev_type,
                            int dev_id, mx_uint num_input_nodes, const char **input_keys,
                            const mx_uint *input_shape_indptr, const mx_uint *input_shape_data, int num_threads,
                            PredictorHandle *out)
{
    const mx_predict_request r = REQUEST("MXPredCreateMultiThread");
    if (num_threads > 0)
        return create_many(&r, num_threads, out);
    mx_error_clear();
    return mx_entry_end(
        mx_fail(MX_ERR_ARGUMENT, "MXPredCreateMultiThread: num_threads is %d, wanted 1 or more", num_threads));
}

int MXPredReshape(mx_uint num_input_nodes, const char **input_keys, const mx_uint *input_shape_indptr,
                  const mx_uint *input_shape_data, PredictorHandle handle, PredictorHandle *out)
{
    MX_ENTRY;
    const mx_predict_inputs shapes = {num_input_nodes, input_keys, input_shape_indptr, input_shape_data};
    if (!mx_is_kind(handle, &mx_predictor_kind, "MXPredReshape", "handle"))
        return mx_entry_end(mx_error_code());
    mx_code code = out ? mx_predict_check_inputs(&shapes, "MXPredReshape")
                       : mx_fail(MX_ERR_ARGUMENT, "MXPredReshape: out is NULL");
    if (!code && !(*out = mx_keep(mx_predict_again(handle, &shapes))))
        code = mx_error_code();
    return mx_entry_end(code);
}

int MXPredFree(PredictorHandle handle)
{
    MX_ENTRY;
    if (!mx_is_kind(handle, &mx_predictor_kind, "MXPredFree", "handle"))
        return mx_entry_end(mx_error_code());
    mx_release(handle);
    return mx_entry_end(MX_OK);
}
