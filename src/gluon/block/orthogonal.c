/* Orthonormal systems of vectors, for the Orthogonal initializer.
 *
 * Modified Gram-Schmidt with reorthogonalisation: in double precision this leaves errors of the order of rounding
 * ("twice is enough").  A vector that depends linearly on the previous ones is replaced by a unit vector that does not.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "gluon/block/initialize.h"

/* Vectors are stored `step` numbers apart, their elements `stride` apart. */
typedef struct vectors {
    double *data;
    int64_t count, length;
    int64_t step, stride;
} vectors;

static double dot(const vectors *v, int64_t i, int64_t j)
{
    const double *a = v->data + i * v->step, *b = v->data + j * v->step;
    double sum = 0;
    for (int64_t k = 0; k < v->length; k++)
        sum += a[k * v->stride] * b[k * v->stride];
    return sum;
}

static void scale(const vectors *v, int64_t i, double factor)
{
    for (int64_t k = 0; k < v->length; k++)
        v->data[i * v->step + k * v->stride] *= factor;
}

static void subtract_projections(const vectors *v, int64_t i)
{
    for (int64_t j = 0; j < i; j++) {
        const double along = dot(v, i, j);
        for (int64_t k = 0; k < v->length; k++)
            v->data[i * v->step + k * v->stride] -= along * v->data[j * v->step + k * v->stride];
    }
}

/* False if only rounding errors remain of the vector. */
static bool clean(const vectors *v, int64_t i)
{
    const double before = sqrt(dot(v, i, i));
    if (!(before > 0) || !isfinite(before))
        return false;
    scale(v, i, 1 / before);
    for (int pass = 0; pass < 2; pass++) {
        subtract_projections(v, i);
        const double left = sqrt(dot(v, i, i));
        if (!(left > 1e-10))
            return false;
        scale(v, i, 1 / left);
    }
    return true;
}

static void set_unit(const vectors *v, int64_t i, int64_t axis)
{
    for (int64_t k = 0; k < v->length; k++)
        v->data[i * v->step + k * v->stride] = k == axis;
}

mx_code mx_orthonormalize(double *matrix, int64_t rows, int64_t columns)
{
    const bool by_rows = rows <= columns;
    const vectors v =
        by_rows ? (vectors){matrix, rows, columns, columns, 1} : (vectors){matrix, columns, rows, 1, columns};
    for (int64_t i = 0; i < v.count; i++)
        for (int64_t axis = 0; !clean(&v, i) && axis < v.length; axis++)
            set_unit(&v, i, axis);
    return MX_OK;
}
