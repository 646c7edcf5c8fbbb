/* Sums of arrays on several devices (see device_sum.c).  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_EXEC_DEVICE_SUM_H
#define MX_EXEC_DEVICE_SUM_H

#include "op/op.h"

/* The sum of n dense arrays of one shape and type into `sum`, which is on the device of parts[0] and none of them. */
mx_code mx_reduce_arrays(mx_array *sum, int n, mx_array *const *parts);
/* Every array gets the sum of all. */
mx_code mx_all_reduce_arrays(int n, mx_array *const *arrays);

#endif
