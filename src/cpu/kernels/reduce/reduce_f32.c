/* Folds of float elements, with totals in double.  SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "cpu/kernels/reduce/reduce_loops.h"

/* The bits of a float are ordered as integers, those of negative ones backwards. */
static inline int32_t to_order(float v)
{
    int32_t i;
    memcpy(&i, &v, sizeof i);
    return i ^ ((i >> 31) & INT32_MAX);
}
static inline float from_order(int32_t i)
{
    float v;
    i ^= (i >> 31) & INT32_MAX;
    memcpy(&v, &i, sizeof v);
    return v;
}

#define ORDER int32_t
#define ORDER_MOST INT32_MAX
#define ORDER_LEAST INT32_MIN
#define TO_ORDER(v) to_order(v)
#define FROM_ORDER(i) from_order(i)
#define T float
#define A double
#define NAME(x) x##_f32
#define ADD(p, v) ((p) + (v))
#define PLAIN_ADD
#define MULTIPLY(p, v) ((p) * (v))
#define NEGATE(v) (-(v))
#define IS_NAN(v) ((v) != (v))
#define LOWEST (-INFINITY)
#define HIGHEST INFINITY
#define ROOT(t) sqrt(t)
#define AVERAGE(t, count) ((t) / (double)(count))
#include "cpu/kernels/reduce/reduce_body.h"
