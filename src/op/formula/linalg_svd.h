/* Singular values by rotations of pairs of rows (one-sided Jacobi).  Shared by the kernels of all devices.
 *
 * A (m, n) has no more rows than columns.  Rotating rows until all of them are orthogonal gives W A = diag(L) V, so
 * A = W' diag(L) V.  A sweep rotates every pair once; the pairs of a round have no row in common, so a device may rotate
 * them at the same time.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_OP_LINALG_SVD_H
#define MX_OP_LINALG_SVD_H

#include "op/formula/linalg_eigen.h"

#define MX_SVD_SWEEPS 60 /* at most; ten are usual */

/* Rounds of a sweep over m rows, and pairs in a round: a tournament in which row `rounds` stays where it is. */
MX_ANY_DEVICE static inline int64_t mx_svd_rounds(int64_t m) { return (m + 1) / 2 * 2 - 1; }
MX_ANY_DEVICE static inline int64_t mx_svd_pairs(int64_t m) { return (m + 1) / 2; }

/* The rows of a pair; false: one of them does not exist. */
MX_ANY_DEVICE static inline bool mx_svd_pair(int64_t m, int64_t round, int64_t pair, int64_t *first, int64_t *second)
{
    const int64_t rounds = mx_svd_rounds(m);
    const int64_t one = pair ? (round + pair) % rounds : rounds, two = (round - pair + rounds) % rounds;
    *first = one < two ? one : two, *second = one < two ? two : one;
    return *second < m;
}

/* The rotation that makes rows x and y orthogonal, from x x', y y' and x y'; false: they are. */
MX_ANY_DEVICE static inline bool mx_svd_rotation(double xx, double yy, double xy, double *cosine, double *sine)
{
    if (!(fabs(xy) > DBL_EPSILON * sqrt(xx) * sqrt(yy)))
        return false;
    const double half = (yy - xx) / (2 * xy), tangent = copysign(1.0, half) / (fabs(half) + hypot(half, 1.0));
    *cosine = 1 / hypot(tangent, 1.0), *sine = *cosine * tangent;
    return true;
}

/* The rank of singular value i in descending order. */
MX_ANY_DEVICE static inline int64_t mx_svd_rank(const double *values, int64_t m, int64_t i)
{
    int64_t rank = 0;
    for (int64_t k = 0; k < m; k++)
        rank += values[k] > values[i] || (!(values[k] < values[i]) && k < i);
    return rank < m ? rank : m - 1; /* NaN has no rank */
}

/* A unit vector orthogonal to the first `count` rows of v, which are orthonormal: for singular values that are 0. */
MX_ANY_DEVICE static inline void mx_svd_complete(double *v, int64_t count, int64_t n)
{
    double *row = v + count * n, square = 0;
    for (int64_t at = 0; at < n && square * 2 * (double)n < 1; at++) { /* some axis is far enough from their span */
        for (int64_t k = 0; k < n; k++)
            row[k] = k == at;
        for (int64_t again = 0; again < 2 * count; again++) {
            const double *other = v + again % count * n;
            double share = 0;
            for (int64_t k = 0; k < n; k++)
                share += row[k] * other[k];
            for (int64_t k = 0; k < n; k++)
                row[k] -= share * other[k];
        }
        square = 0;
        for (int64_t k = 0; k < n; k++)
            square += row[k] * row[k];
    }
    for (int64_t k = 0; k < n; k++)
        row[k] /= sqrt(square);
}

/* Whether a singular value is 0 up to rounding. */
MX_ANY_DEVICE static inline bool mx_svd_is_zero(double value, double largest, int64_t n)
{
    return value <= largest * DBL_EPSILON * (double)n;
}

#endif
