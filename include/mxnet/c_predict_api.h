/* MXNet's C interface for prediction, so that programs written for it compile and link unchanged:
 *
 *     cc old.c $(pkg-config --cflags --libs gluon)
 *
 * A predictor is a symbol (JSON) with its parameters (the bytes of a .params file), bound to the shapes of its inputs:
 *
 *     MXPredCreate(json, bytes, size, 1, 0, 1, keys, indptr, dims, &predictor);
 *     MXPredSetInput(predictor, "data", image, 3 * 224 * 224);
 *     MXPredForward(predictor);
 *     MXPredGetOutputShape(predictor, 0, &shape, &ndim);
 *     MXPredGetOutput(predictor, 0, scores, 1000);
 *     MXPredFree(predictor);
 *
 * Every function returns 0, or -1 with a message for MXGetLastError().  A predictor is used by one thread at a time;
 * MXPredCreateMultiThread makes several that share their parameters.  New programs use gluon/deploy.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MXNET_C_PREDICT_API_H_
#define MXNET_C_PREDICT_API_H_

#include <stdbool.h>
#include <stdint.h>

#ifndef MXNET_DLL
#if defined(__GNUC__)
#define MXNET_DLL __attribute__((visibility("default")))
#else
#define MXNET_DLL
#endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef uint32_t mx_uint;
typedef float mx_float;
typedef void *PredictorHandle;
typedef void *NDListHandle;
typedef void *NDArrayHandle;
/* name of the output, the output (valid during the call: mxnet/c_api.h reads it), the pointer that was given */
typedef void (*PredMonitorCallback)(const char *name, NDArrayHandle array, void *handle);

/* The message of the last error of this thread; "" if there was none. */
MXNET_DLL const char *MXGetLastError(void);

/* ---- predictors ------------------------------------------------------------------------------------------------ */
/* symbol_json_str   the text of a -symbol.json file
 * param_bytes, size the content of a .params file; arrays that the symbol does not need are ignored
 * dev_type, dev_id  1: CPU, 2: GPU, and its number
 * input_keys        (num_input_nodes) names of the inputs; labels of loss layers need not be given
 * indptr, data      input i has the shape data[indptr[i]] ... data[indptr[i + 1] - 1] */
MXNET_DLL int MXPredCreate(const char *symbol_json_str, const void *param_bytes, int param_size, int dev_type,
                           int dev_id, mx_uint num_input_nodes, const char **input_keys,
                           const mx_uint *input_shape_indptr, const mx_uint *input_shape_data, PredictorHandle *out);
/* The same with element types for some variables, as numbers of the .params format (0: float32, 2: float16 ...). */
MXNET_DLL int MXPredCreateEx(const char *symbol_json_str, const void *param_bytes, int param_size, int dev_type,
                             int dev_id, mx_uint num_input_nodes, const char **input_keys,
                             const mx_uint *input_shape_indptr, const mx_uint *input_shape_data,
                             mx_uint num_provided_arg_dtypes, const char **provided_arg_dtype_names,
                             const int *provided_arg_dtypes, PredictorHandle *out);
/* The outputs are those of the nodes named in output_keys instead of the symbol's: "fc1", or "fc1_output". */
MXNET_DLL int MXPredCreatePartialOut(const char *symbol_json_str, const void *param_bytes, int param_size, int dev_type,
                                     int dev_id, mx_uint num_input_nodes, const char **input_keys,
                                     const mx_uint *input_shape_indptr, const mx_uint *input_shape_data,
                                     mx_uint num_output_nodes, const char **output_keys, PredictorHandle *out);
/* out: (num_threads) predictors for as many threads. */
MXNET_DLL int MXPredCreateMultiThread(const char *symbol_json_str, const void *param_bytes, int param_size,
                                      int dev_type, int dev_id, mx_uint num_input_nodes, const char **input_keys,
                                      const mx_uint *input_shape_indptr, const mx_uint *input_shape_data,
                                      int num_threads, PredictorHandle *out);
/* A second predictor for other input shapes; it shares the parameters, and both are freed. */
MXNET_DLL int MXPredReshape(mx_uint num_input_nodes, const char **input_keys, const mx_uint *input_shape_indptr,
                            const mx_uint *input_shape_data, PredictorHandle handle, PredictorHandle *out);
MXNET_DLL int MXPredFree(PredictorHandle handle);

/* ---- running --------------------------------------------------------------------------------------------------- */
/* Copies `size` elements (of the input's type) into an input. */
MXNET_DLL int MXPredSetInput(PredictorHandle handle, const char *key, const mx_float *data, mx_uint size);
MXNET_DLL int MXPredForward(PredictorHandle handle);
/* Runs one node: step 0, 1 ... until *step_left is 0.  Then the outputs are there. */
MXNET_DLL int MXPredPartialForward(PredictorHandle handle, int step, int *step_left);
/* Called with every output that a forward computes (monitor_all: with the inputs of nodes, too); NULL ends it. */
MXNET_DLL int MXPredSetMonitorCallback(PredictorHandle handle, PredMonitorCallback callback, void *callback_handle,
                                       bool monitor_all);

/* ---- outputs --------------------------------------------------------------------------------------------------- */
/* The shape belongs to the predictor: valid until it is freed, or until the next call for this output. */
MXNET_DLL int MXPredGetOutputShape(PredictorHandle handle, mx_uint index, mx_uint **shape_data, mx_uint *shape_ndim);
MXNET_DLL int MXPredGetOutputType(PredictorHandle handle, mx_uint out_index, int *out_dtype);
/* Copies output `index`, which has `size` elements, after a forward. */
MXNET_DLL int MXPredGetOutput(PredictorHandle handle, mx_uint index, mx_float *data, mx_uint size);

/* ---- arrays of a .params file (a mean image, say) ---------------------------------------------------------------- */
MXNET_DLL int MXNDListCreate(const char *nd_file_bytes, int nd_file_size, NDListHandle *out, mx_uint *out_length);
/* Name ("" if the file has none), elements as float32 and shape of array `index`; they belong to the list. */
MXNET_DLL int MXNDListGet(NDListHandle handle, mx_uint index, const char **out_key, const mx_float **out_data,
                          const mx_uint **out_shape, mx_uint *out_ndim);
MXNET_DLL int MXNDListFree(NDListHandle handle);

#ifdef __cplusplus
}
#endif

#endif
