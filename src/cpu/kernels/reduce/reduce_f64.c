/* Folds of double elements, with totals in double.  SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "cpu/kernels/reduce/reduce_loops.h"

/* The bits of a float are ordered as integers, those of negative ones backwards. */
static inline int64_t to_order(double v)
{
    int64_t i;
    memcpy(&i, &v, sizeof i);
    return i ^ ((i >> 63) & INT64_MAX);
}
static inline double from_order(int64_t i)
{
    double v;
    i ^= (i >> 63) & INT64_MAX;
    memcpy(&v, &i, sizeof v);
    return v;
}

#define ORDER int64_t
#define ORDER_MOST INT64_MAX
#define ORDER_LEAST INT64_MIN
#define TO_ORDER(v) to_order(v)
#define FROM_ORDER(i) from_order(i)
#define T double
#define A double
#define NAME(x) x##_f64
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
