/* The entries of op/formula/pointwise_numbers.h on the device.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CUDA_NUMBERS_H
#define MX_CUDA_NUMBERS_H

#include "op/formula/pointwise_double.h" /* both types: overloads; before the operators' C functions, whose names these use */

#include "cuda/kernels/pointwise/math_f32.h"

#include "cuda/cuda.h"
extern "C" {
#include "op/formula/pointwise_numbers.h"
}

/* An entry as a function of x and g, known when kernels are compiled: a choice per element would cost more than most
 * entries do. */
template <class T, int row> struct mx_cuda_number {
    T p, q, r;
    explicit mx_cuda_number(const double *number) : p((T)number[0]), q((T)number[1]), r((T)number[2]) {}
#define ROW_CASE(name, expression)   \
    if constexpr (row == MX_NUMBER_##name) \
        return (T)(expression);
    __device__ T operator()(T x, T g) const
    {
        __attribute__((unused)) T t = 0;
        MX_NUMBER_ROWS(ROW_CASE)
    }
};

/* out = entry(x, g), on arrays of one floating type; g may be NULL. */
mx_code mx_cuda_number_over(const mx_kernel_call *call, int row, const double *number, const mx_array *x,
                            const mx_array *g, mx_array *out);
/* The kernel of operators whose `user` is an mx_number_use. */
mx_code mx_cuda_run_numbers(const mx_kernel_call *call);

#endif
