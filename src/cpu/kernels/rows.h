/* Loops over contiguous rows for float (suffix _f) and double (suffix _d), shared by softmax and the norms.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CPU_ROWS_H
#define MX_CPU_ROWS_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "cpu/kernels/level.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#define T float
#define INT int32_t
#define NAME(x) x##_f
#include "cpu/kernels/rows_body.h"
#undef T
#undef INT
#undef NAME
#define T double
#define INT int64_t
#define NAME(x) x##_d
#include "cpu/kernels/rows_body.h"
#undef T
#undef INT
#undef NAME
#pragma GCC diagnostic pop

#endif
