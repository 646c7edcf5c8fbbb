/* Classic learners in ONNX: what linear models and trees share.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_GLUON_ONNX_ML_H
#define MX_GLUON_ONNX_ML_H

#include "gluon/onnx/onnx.h"

/* Scores (N, classes) as post_transform wants them; NULL with an error. */
mx_array *mx_onnx_transformed(const mx_onnx_in *n, mx_array *scores);
/* The labels of class indices; NULL with an error. */
mx_array *mx_onnx_labels(const mx_onnx_in *n, mx_array *indices);

#endif
