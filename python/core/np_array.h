/* mx.np.ndarray: see np_array.c.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MXNET_NP_ARRAY_H
#define MXNET_NP_ARRAY_H

#include "gluon/np.h"
#include "symbol.h"

extern PyTypeObject np_type, np_symbol_type;
static inline bool np_check(PyObject *x) { return Py_TYPE(x) == &np_type || PyObject_TypeCheck(x, &np_type); }
/* The hash of types whose == compares elements: as object's.  (Python has a function for it from 3.13 on.) */
static inline Py_hash_t hash_of_identity(PyObject *x)
{
    const uintptr_t bits = (uintptr_t)x;
    const Py_hash_t hash = (Py_hash_t)(bits >> 4 | bits << (8 * sizeof bits - 4)); /* the last bits are always 0 */
    return hash == -1 ? -2 : hash;
}
/* A Python number as one of gluon/np.h: it belongs to the scope. */
mx_array *np_number(PyObject *x);
/* The array of an operand; *held: a new reference to release after the call, or NULL.  -1 with an exception. */
int np_operand(PyObject *x, mx_array **array, PyObject **held, const char *who);
PyObject *np_from_any(PyObject *x); /* any array-like as an ndarray: new reference */
/* The entry of a function such as "np.add"; -1: it has none.  np_short(entry, a, b): its result where the classic operator
 * gives the same; NULL without an exception: not so. */
int np_row_of(const char *name);
PyObject *np_short(int entry, PyObject *a, PyObject *b);
PyObject *np_as_np(PyObject *self, PyObject *unused);
PyObject *np_as_nd(PyObject *self, PyObject *unused);

#endif
