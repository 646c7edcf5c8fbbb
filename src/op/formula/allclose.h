/* Whether two numbers are close; infinities of equal sign are.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_OP_ALLCLOSE_H
#define MX_OP_ALLCLOSE_H

#include <math.h>
#include <stdbool.h>

#include "base/any_device.h"

MX_ANY_DEVICE static inline bool mx_close(double a, double b, double rtol, double atol, bool equal_nan)
{
    return a == b || fabs(a - b) <= atol + rtol * fabs(b) || (equal_nan && a != a && b != b);
}

#endif
