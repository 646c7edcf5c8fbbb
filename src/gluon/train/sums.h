/* Sums over contexts: all the communication that stores and trainers use.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_GLUON_SUMS_H
#define MX_GLUON_SUMS_H

#include "gluon/array.h"

#define MX_MOST_PARTS 64 /* contexts of one sum */

/* The sum of n arrays, dense or sparse, on the context of the first.  *sum, retained by the caller, is overwritten if it
 * fits and replaced if not; NULL at first. */
mx_code mx_sum_parts(mx_array **sum, int n, mx_array *const *parts);
/* Every array gets the sum of all.  *sum: as above, used for sparse ones. */
mx_code mx_sum_everywhere(mx_array **sum, int n, mx_array *const *arrays);

#endif
