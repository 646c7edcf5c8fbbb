/* From blocks to symbols and back: tracing, exporting, running exported networks.
 *
 *     mx_export(net, "lenet", 0);                                     lenet-symbol.json and lenet-0000.params
 *     mx_block *net = mx_import("lenet-symbol.json", "data", "lenet-0000.params");
 *     mx_array *y = mx_call(net, x);
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef GLUON_DEPLOY_H
#define GLUON_DEPLOY_H

#include "gluon/amp.h"
#include "gluon/block.h"
#include "gluon/symbol.h"

/* What the block computes from inputs like these.  Only their shapes and types matter, not their elements; symbolic ones
 * are used as they are, the others become variables "data", or "data0", "data1" ... */
#define mx_trace(block, ...)                                                                                         \
    mx_trace_arrays(block, MX_ARRAYS_(MX_NOT_EMPTY(#__VA_ARGS__, "mx_trace(block, inputs): there are no inputs"), __VA_ARGS__))
MX_API mx_symbol *mx_trace_arrays(mx_block *block, mx_arrays in);

/* Writes path-symbol.json and path-NNNN.params (NNNN: epoch), each atomically, as classic MXNet reads them.  The graph
 * works for inputs of any shape, unless the forward depends on shapes: then give example inputs. */
MX_API mx_code mx_export(mx_block *block, const char *path, int epoch);
MX_API mx_code mx_export_like(mx_block *block, const char *path, int epoch, mx_arrays examples);

/* A block that computes `outputs` from the variables named in `inputs` (separated by spaces or commas); the other
 * variables are its parameters. */
MX_API mx_block *mx_symbol_block(mx_symbol *outputs, const char *inputs);
/* The same from files; params NULL: the parameters are not loaded. */
MX_API mx_block *mx_import(const char *symbol_path, const char *inputs, const char *params_path);

/* A copy of a block that computes in mixed precision: its graph for inputs like these, converted according to args
 * (their symbol is ignored), as a hybridized symbol block.  cast_params: parameters that are only used in 16 bits are
 * stored in 16 bits. */
MX_API mx_block *mx_amp_convert_block(mx_block *block, mx_arrays examples, const struct mx_amp_convert_args *args,
                                      bool cast_params);

/* Writes the network as one C99 file without dependencies: its weights, the kernels that it uses and
 *     int NAME_run(const float *in, float *out);
 * for inputs of fixed shapes (`inputs` names them; NULL: taken from the symbol).  params: as mx_load() reads them, names
 * with or without arg: and aux:.  An operator that is not supported gives an error that names the node.  Atomic. */
MX_API mx_code mx_compile_to_c(const mx_symbol *symbol, const mx_array_dict *params, const struct mx_known *inputs,
                               const char *path, const char *name);

#endif
