/* Shared by cell.c and cell_override.c.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MXNET_CELL_H
#define MXNET_CELL_H

#include "block.h"
#include "gluon/rnn/cell.h"

/* begin_state(batch_size, func, **kwargs) on its way through C. */
typedef struct begin_call {
    PyObject *func;   /* NULL: zeros */
    PyObject *kwargs; /* dict; further keywords of func */
} begin_call;
/* The `make` of an mx_begin whose user is a begin_call. */
mx_array *cell_make_state(const mx_begin *how, const mx_state_info *info, const char *name);

PyObject *cell_list(mx_arrays arrays);                       /* a list, also where there are none */
mx_code cell_append(PyObject *value, mx_state_list *states); /* arrays of nested lists, or one array */

#endif
