/* Containers that are layers: HybridConcatenate.  Sequential and HybridSequential are mx_sequential().
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "exec/list.h"
#include "gluon/block/layers.h"
#include "gluon/op.gen.h"

#define CONCATENATE_OPTIONS(X) X(INT, axis, "-1", "", "axis along which the results are concatenated")
MX_ATTRS(concatenate_layer, CONCATENATE_OPTIONS)

static mx_code build_concatenate(mx_block *self) { return self->sequential = true, MX_OK; } /* can be added to */

static mx_array *forward_concatenate(mx_block *self, mx_arrays in)
{
    const int64_t n = self->children.length;
    if (!n)
        return mx_fail_null(MX_ERR_ARGUMENT, "%s (%s) has no children", self->name, self->class_name);
    mx_array **parts = mx_list_new(n);
    for (int64_t i = 0; parts && i < n; i++)
        if (!(parts[i] = mx_block_call(self->children.entries[i].pointer, in)))
            return NULL;
    const int64_t axis = ((const mx_concatenate_layer_attrs *)mx_options(self))->axis;
    return parts ? mx_concat((mx_arrays){parts, n}, .num_args = n, .dim = axis) : NULL;
}

static const mx_layer concatenate = {.build = build_concatenate, .forward = forward_concatenate};

mx_class mx_classes_containers[] = {
    {.kind = MX_LAYER, .name = "HybridConcatenate", .doc = "runs every child on the same input and joins the results along an axis",
     .schema = &concatenate_layer_schema, .methods = &concatenate, .group = "containers"},
    {0},
};
