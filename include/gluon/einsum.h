/* Einstein's summation.
 *
 *     mx_array *y = mx_einsum("bij,bjk->bik", MX_ARRAYS(a, b));
 *
 * A label that the result lacks is summed over, a repeated one takes the diagonal, "..." stands for axes that are
 * broadcast.  Without "->" the result has the labels that occur once, in alphabetic order.  A result without axes has
 * shape (1,).  Works on symbols, too; differentiable.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef GLUON_EINSUM_H
#define GLUON_EINSUM_H

#include "gluon/array.h"

MX_API mx_array *mx_einsum(const char *subscripts, mx_arrays operands);

#endif
