/* Nested lists of arrays, as Python passes them to blocks: flattened, and built again (see block.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "block.h"

PyObject *form_take(PyObject *value, mx_array **list, int64_t *n, const char *who)
{
    if (PyList_Check(value) || PyTuple_Check(value)) {
        const Py_ssize_t length = PySequence_Fast_GET_SIZE(value);
        PyObject *form = PyList_Check(value) ? PyList_New(length) : PyTuple_New(length);
        for (Py_ssize_t i = 0; form && i < length; i++) {
            PyObject *part = form_take(PySequence_Fast_GET_ITEM(value, i), list, n, who);
            if (!part)
                return Py_DECREF(form), NULL;
            if (PyList_Check(value))
                PyList_SET_ITEM(form, i, part);
            else
                PyTuple_SET_ITEM(form, i, part);
        }
        return form;
    }
    if (value == Py_None || any_check(value)) {
        mx_array *x = value == Py_None ? MX_NONE : any_array(value, who);
        if (!x)
            return NULL;
        if (*n == MOST_ARRAYS)
            return PyErr_Format(PyExc_ValueError, "%s: more than %d arrays in one call", who, MOST_ARRAYS);
        list[(*n)++] = x == MX_NONE ? x : mx_scope_add(mx_retain(x));
        return core_new_ref(Py_None);
    }
    PyObject *type = from_package("mxnet.error", "ArgumentError");
    PyErr_Format(type ? type : PyExc_TypeError, "%s: expected arrays, or nested lists of them, got %.200s%s", who,
                 Py_TYPE(value)->tp_name, PyObject_CheckBuffer(value) ? " (make one with nd.array)" : "");
    Py_XDECREF(type);
    return NULL;
}

PyObject *form_give(PyObject *form, mx_arrays arrays, int64_t *at)
{
    if (form == Py_None) {
        if (*at >= arrays.n)
            return PyErr_Format(PyExc_RuntimeError, "a block returned fewer arrays than before");
        mx_array *x = arrays.v[(*at)++];
        return x == MX_NONE ? core_new_ref(Py_None) : nd_wrap(x);
    }
    const Py_ssize_t n = PySequence_Fast_GET_SIZE(form);
    PyObject *made = PyList_Check(form) ? PyList_New(n) : PyTuple_New(n);
    for (Py_ssize_t i = 0; made && i < n; i++) {
        PyObject *part = form_give(PySequence_Fast_GET_ITEM(form, i), arrays, at);
        if (!part)
            return Py_DECREF(made), NULL;
        if (PyList_Check(form))
            PyList_SET_ITEM(made, i, part);
        else
            PyTuple_SET_ITEM(made, i, part);
    }
    return made;
}
