/* Mixed precision: switching it, and the lists of operators.  SPDX-License-Identifier: Apache-2.0 */
#include "gluon/amp.h"

#include "base/error.h"
#include "core.h"

static const char *const names[] = {"any", "target", "float32", "widest", "data"}; /* by mx_precision */

static PyObject *done(mx_code code) { return code ? raise_error() : core_new_ref(Py_None); }

/* amp_init(dtype): 'float32' turns it off. */
static PyObject *amp_init(PyObject *self, PyObject *type)
{
    mx_dtype dtype;
    (void)self;
    return dtype_from(type, &dtype) ? NULL : done(mx_amp_init(dtype));
}

/* amp_set(op, precision) */
static PyObject *amp_set(PyObject *self, PyObject *args)
{
    const char *op, *precision;
    (void)self;
    if (!PyArg_ParseTuple(args, "ss:amp_set", &op, &precision))
        return NULL;
    for (int i = 0; i < (int)(sizeof names / sizeof *names); i++)
        if (!strcmp(names[i], precision))
            return done(mx_amp_set(op, (mx_precision)i));
    return PyErr_Format(PyExc_ValueError, "amp_set: there is no precision '%s'", precision);
}

/* amp_set_where(op, attribute, value) */
static PyObject *amp_set_where(PyObject *self, PyObject *args)
{
    const char *op, *attribute, *value;
    (void)self;
    if (!PyArg_ParseTuple(args, "sss:amp_set_where", &op, &attribute, &value))
        return NULL;
    return done(mx_amp_set_where(op, attribute, value));
}

/* amp_rows(): [(op, precision, is a loss, attribute or None, value or None)] */
static PyObject *amp_rows(PyObject *self, PyObject *unused)
{
    PyObject *list = PyList_New(0);
    mx_amp_row row;
    (void)self, (void)unused;
    for (int i = 0; list && mx_amp_row_at(i, &row); i++) {
        PyObject *item =
            Py_BuildValue("ssNzz", row.op, names[row.precision], PyBool_FromLong(row.loss), row.attribute, row.value);
        if (!item || PyList_Append(list, item))
            Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

static PyMethodDef functions[] = {
    {"amp_init", amp_init, METH_O, "Mixed precision in this type; 'float32': off."},
    {"amp_set", amp_set, METH_VARARGS, "amp_set(op, precision): 'any', 'target', 'float32', 'widest' or 'data'."},
    {"amp_set_where", amp_set_where, METH_VARARGS,
     "amp_set_where(op, attribute, value): float32 under this condition."},
    {"amp_rows", amp_rows, METH_NOARGS, "(op, precision, loss, attribute, value) of the library's lists."},
    {NULL, NULL, 0, NULL},
};

int add_amp(PyObject *module) { return PyModule_AddFunctions(module, functions); }
