/* The formulas of op/formula/pointwise_numbers.h in double, for references.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_OP_DEF_NUMBERS_H
#define MX_OP_DEF_NUMBERS_H

#include "op/formula/pointwise_double.h"
#include "op/formula/pointwise_numbers.h"
#include "op/op.h"

#define T double
#define MX_NUMBER_REFERENCE(name, expression)                                                                      \
    static inline double mx_number_##name(double x, double g, const double *number)                                \
    {                                                                                                              \
        __attribute__((unused)) double p = number[0], q = number[1], r = number[2], t = 0;                         \
        (void)g;                                                                                                   \
        return (double)(expression);                                                                               \
    }
MX_NUMBER_ROWS(MX_NUMBER_REFERENCE)
#undef T

/* The reference of an operator that is one formula; `numbers` is that of its mx_number_use. */
#define MX_NUMBER_REFERENCE_OF(function, row, numbers)                                                             \
    static void function(const mx_reference_call *call)                                                            \
    {                                                                                                              \
        const double *g = call->in[0], *x = call->in[call->n_in - 1];                                              \
        double number[3] = {0};                                                                                    \
        numbers(call->attrs, &call->in_shape[0], number);                                                          \
        for (int64_t i = 0; i < mx_shape_size(&call->out_shape[0]); i++)                                           \
            call->out[0][i] = mx_number_##row(x[i], g[i], number);                                                 \
    }

#endif
