/* ONNX files: networks of this library for other runtimes, and networks from other frameworks.
 *
 *     mx_export_onnx(symbol, params, "net.onnx", .inputs = &(struct mx_known){1, (const char *[]){"data"}, &shape});
 *     mx_block *net = mx_import_onnx("net.onnx");
 *     mx_array *y = mx_call(net, x);
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef GLUON_ONNX_H
#define GLUON_ONNX_H

#include "gluon/block.h"
#include "gluon/symbol.h"

struct mx_onnx_options {
    int opset;                     /* 13 to 23 */
    const struct mx_known *inputs; /* shapes and types of the inputs; sizes that are 0 stay open: a batch of any size */
    char positional_;
    const mx_symbol *symbol;
    const mx_array_dict
        *params; /* names with or without arg: and aux:; NULL: the values that the symbol's variables have */
    const char *path;
};
/* Writes a network as an ONNX file, atomically.  An operator that ONNX does not have gives an error that names the node. */
#define mx_export_onnx(...) \
    mx_export_onnx_with(&(struct mx_onnx_options){.opset = 17, .inputs = NULL, .positional_ = 0, __VA_ARGS__})
MX_API mx_code mx_export_onnx_with(const struct mx_onnx_options *options);
/* The same for a block and inputs like these: only their shapes and types matter; symbolic ones may have open sizes. */
MX_API mx_code mx_export_onnx_block(mx_block *block, const char *path, int opset, mx_arrays examples);

/* What a file contains; belongs to the scope. */
typedef struct mx_onnx_model {
    mx_symbol *symbol; /* NULL if only the description was asked for */
    int64_t opset;
    mx_names inputs, outputs;    /* names, in the order of the file */
    const mx_dims *input_shapes; /* sizes that are open are 0; n == -1: not known */
    const mx_dims *output_shapes;
    const mx_dtype *input_types, *output_types;
} mx_onnx_model;
/* Reads a file.  Weights are variables with values, and so are constants.  inputs: shapes of inputs, for sizes that the
 * file leaves open; NULL: none.  Errors name the file, the node and its operator. */
MX_API const mx_onnx_model *mx_load_onnx(const char *path, const struct mx_known *inputs);
MX_API const mx_onnx_model *mx_describe_onnx(const char *path); /* without reading the nodes */
MX_API mx_block *mx_import_onnx(const char *path);
/* Operators of ONNX that are read, or operators of this library that are written. */
MX_API mx_names mx_onnx_operators(bool written);

#endif
