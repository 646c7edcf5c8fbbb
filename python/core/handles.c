/* Arrays that callbacks of monitors get as integers, as in MXNet's C interface.
 *
 * NDArray(ctypes.c_void_p(handle)) takes over the reference that belongs to the handle, now or later.  Those that nobody
 * wrapped are released when the next pass of the same monitor starts, or when the monitored object ends.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core.h"

static PyObject *outstanding; /* dict: handle -> how often it was given and not yet wrapped */

static long waiting(PyObject *handle)
{
    PyObject *count = outstanding ? PyDict_GetItem(outstanding, handle) : NULL;
    return count ? PyLong_AsLong(count) : 0;
}

static int set_waiting(PyObject *handle, long count)
{
    if (count <= 0)
        return PyDict_DelItem(outstanding, handle);
    PyObject *number = PyLong_FromLong(count);
    const int failed = !number || PyDict_SetItem(outstanding, handle, number);
    Py_XDECREF(number);
    return failed ? -1 : 0;
}

PyObject *handle_give(mx_array *array, PyObject **given)
{
    PyObject *handle = PyLong_FromVoidPtr(array);
    if (!handle || (!outstanding && !(outstanding = PyDict_New())) || (!*given && !(*given = PyList_New(0))) ||
        PyList_Append(*given, handle) || set_waiting(handle, waiting(handle) + 1))
        return Py_XDECREF(handle), NULL;
    mx_retain(array);
    return handle;
}

void handle_taken(mx_array *array)
{
    PyObject *handle = PyLong_FromVoidPtr(array);
    const long count = handle ? waiting(handle) : 0;
    if (count && set_waiting(handle, count - 1))
        PyErr_Clear();
    Py_XDECREF(handle);
}

void handle_drop(PyObject **given)
{
    PyObject *list = *given;
    *given = NULL;
    for (Py_ssize_t i = 0; list && i < PyList_GET_SIZE(list); i++) {
        PyObject *handle = PyList_GET_ITEM(list, i);
        const long count = waiting(handle);
        if (count && !set_waiting(handle, count - 1))
            mx_release(PyLong_AsVoidPtr(handle));
    }
    Py_XDECREF(list);
}
