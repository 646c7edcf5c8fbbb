/* Indices in ONNX: what gathering and scattering share.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_GLUON_ONNX_INDICES_H
#define MX_GLUON_ONNX_INDICES_H

#include "gluon/onnx/onnx.h"

/* Indices of gather_nd for `indices` along one axis of that size: those of the other axes are positions. */
mx_array *mx_onnx_full_indices(mx_onnx_in *n, mx_array *indices, int64_t axis, int64_t size);
/* ONNX has the index tuples on the last axis, ours on the first. */
mx_array *mx_onnx_tuples_first(mx_array *indices);
/* Index tuples whose negative numbers count from the end of the axes after `skip`. */
mx_array *mx_onnx_wrapped_tuples(mx_onnx_in *n, mx_array *indices, const mx_array *data, int skip);

#endif
