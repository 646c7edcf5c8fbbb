/* The operators of mx.np under the names that MXNet's files have: _npi_add, _npi_add_scalar, _np_sum.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_GRAPH_NP_NAMES_H
#define MX_GRAPH_NP_NAMES_H

#include "op/expand.h"

/* Where the number of a scalar form is among its operands. */
typedef enum mx_np_number { MX_NP_NO_NUMBER, MX_NP_SECOND, MX_NP_FIRST } mx_np_number;

/* The operator with NumPy's rules of such a name; NULL without an error: it is none. */
mx_op *mx_np_of_file(const char *name, mx_np_number *number);

#endif
