/* Event files of TensorBoard.  SPDX-License-Identifier: Apache-2.0 */
#include "gluon/summary.h"

#include "core.h"

static const char capsule_name[] = "mxnet.summary_writer";

static void drop(PyObject *capsule) { mx_release(PyCapsule_GetPointer(capsule, capsule_name)); }

/* summary_writer(folder) -> (writer, path) */
static PyObject *summary_writer(PyObject *self, PyObject *folder)
{
    PyObject *bytes;
    (void)self;
    if (!PyUnicode_FSConverter(folder, &bytes))
        return NULL;
    MX_SCOPE;
    mx_summary_writer *writer = mx_keep(mx_summary_writer_new(PyBytes_AS_STRING(bytes)));
    Py_DECREF(bytes);
    if (!writer)
        return raise_error();
    PyObject *capsule = PyCapsule_New(writer, capsule_name, drop);
    if (!capsule)
        mx_release(writer);
    return capsule ? Py_BuildValue("(Ns)", capsule, mx_summary_path(writer)) : NULL;
}

/* summary_add(writer, kind, tag, value, step): kind "scalar", "text", "histogram" (value: an array), "image". */
static PyObject *summary_add(PyObject *self, PyObject *args)
{
    PyObject *capsule, *value;
    const char *kind, *tag;
    long long step;
    (void)self;
    if (!PyArg_ParseTuple(args, "OssOL:summary_add", &capsule, &kind, &tag, &value, &step))
        return NULL;
    mx_summary_writer *writer = PyCapsule_GetPointer(capsule, capsule_name);
    if (!writer)
        return NULL;
    if (*kind == 's') {
        const double number = PyFloat_AsDouble(value);
        return number == -1 && PyErr_Occurred() ? NULL : raise_if(mx_summary_scalar(writer, tag, number, step));
    }
    if (*kind == 't') {
        const char *text = PyUnicode_AsUTF8(value);
        return text ? raise_if(mx_summary_text(writer, tag, text, step)) : NULL;
    }
    if (!nd_check(value))
        return PyErr_Format(PyExc_TypeError, "add_%s: expected an NDArray, got %.200s", kind, Py_TYPE(value)->tp_name);
    return raise_if(*kind == 'i' ? mx_summary_image(writer, tag, nd_array(value), step)
                                 : mx_summary_histogram(writer, tag, nd_array(value), 64, step));
}

static PyMethodDef functions[] = {
    {"summary_writer", summary_writer, METH_O, "summary_writer(folder): (writer, path)"},
    {"summary_add", summary_add, METH_VARARGS, "summary_add(writer, kind, tag, value, step)"},
    {NULL, NULL, 0, NULL},
};

int add_summary(PyObject *module) { return PyModule_AddFunctions(module, functions); }
