/* Sizes of data that a parameter expects, for inference: messages name the data first.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_OP_EXPECT_H
#define MX_OP_EXPECT_H

#include "op/op.h"

/* Data has `size` features or channels (`unit`); input i, a parameter of `ndim` axes, was made for as many on `axis`, times
 * `factor`: "data has 5 features, weight expects 3".  Unknown sizes agree. */
mx_code mx_infer_expects(mx_infer *infer, int i, int ndim, int axis, int64_t factor, int64_t size, const char *unit);

#endif
