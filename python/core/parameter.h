/* Internals of Parameter objects: parameter.c, parameter_parts.c, parameter_properties.c.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MXNET_PARAMETER_H
#define MXNET_PARAMETER_H

#include "skin.h"

typedef struct parameter_object {
    PyObject_HEAD mx_parameter *parameter; /* retained; NULL before __init__ */
    PyObject *init;                        /* the initializer as it was given; NULL: created by the library */
    PyObject *dtype;                       /* the element type as it was given; NULL: the library's */
    PyObject *dict, *weakrefs;
} parameter_object;

extern PyGetSetDef parameter_getset[];
int parameter_grad_req(PyObject *source, mx_grad_req *req); /* -1: an exception */
int parameter_number(PyObject *source, double *value);      /* None or NULL: *value stays */
int parameter_change_dtype(PyObject *object, PyObject *type);

extern PyMethodDef parameter_part_methods[];
extern PyGetSetDef parameter_part_getset[];

/* A wrapper that is freed before its parameter leaves its attributes there (mx_parameter.front_state); the next wrapper of
 * the same parameter takes them. */
void parameter_leave(parameter_object *self);
void parameter_resume(parameter_object *self);

/* From now on a _init_impl that a user replaced is called with the first value of a parameter. */
void parameter_watch_values(void);

/* The element type as an object: as it was given, or the library's: its name if the layer has an option for it, else
 * NumPy's class. */
PyObject *parameter_dtype(PyObject *object, void *unused);

#endif
