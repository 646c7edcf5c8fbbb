/* Every entry of the pointwise table as a struct whose apply(a, b, c) is its expression, for one compute type T.
 *
 * With MX_INTEGER_ROWS defined only the entries of two arguments are defined.  SPDX-License-Identifier: Apache-2.0 */

#ifndef MX_INTEGER_ROWS
#define UNARY_ROW(name, aliases, expression, ...) \
    struct forward_##name { static __device__ T apply(T x, T, T) { return (T)(expression); } };
MX_UNARY_ROWS(UNARY_ROW)
MX_LINEAR_ROWS(UNARY_ROW)
MX_STEP_ROWS(UNARY_ROW)

/* The value that the gradient reads comes first. */
#define SAVED_X T x, T
#define SAVED_Y T y, T
#define SAVED_XY T x, T y
#define BACKWARD_ROW(name, aliases, expression, looks, gradient, ...) \
    struct backward_##name { static __device__ T apply(T g, SAVED_##looks) { __attribute__((unused)) T t = 0; return (T)(gradient); } };
MX_UNARY_ROWS(BACKWARD_ROW)
#endif

#define BINARY_ROW(id, en, ea, bn, ba, sn, sa, m1, m2, m3, m4, expression, ...) \
    struct binary_##id { static __device__ T apply(T a, T b, T) { return (T)(expression); } };
MX_BINARY_ROWS(BINARY_ROW)
#define COMPARE_ROW(id, en, ea, bn, ba, sn, sa, expression, ...) \
    struct binary_##id { static __device__ T apply(T a, T b, T) { return (T)(expression); } };
MX_COMPARE_ROWS(COMPARE_ROW)
