/* Folds of integers, computed in int64 with wrap-around.  SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "cpu/kernels/reduce/reduce_loops.h"

#define ORDER int64_t
#define ORDER_MOST INT64_MAX
#define ORDER_LEAST INT64_MIN
#define TO_ORDER(v) (v)
#define FROM_ORDER(i) (i)
#define T int64_t
#define A int64_t
#define NAME(x) x##_i64
#define ADD(p, v) ((int64_t)((uint64_t)(p) + (uint64_t)(v)))
#define MULTIPLY(p, v) ((int64_t)((uint64_t)(p) * (uint64_t)(v)))
#define NEGATE(v) ((int64_t)(0 - (uint64_t)(v)))
#define IS_NAN(v) 0
#define LOWEST INT64_MIN
#define HIGHEST INT64_MAX
#define ROOT(t) sqrt((double)(t))
#define AVERAGE(t, count) ((count) ? (t) / (count) : 0)
#include "cpu/kernels/reduce/reduce_body.h"
