/* Event files of TensorBoard.  SPDX-License-Identifier: Apache-2.0 */
#include "gluon/summary.h"

#include "core.h"
#include "symbol.h"

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

static mx_summary_writer *writer_of(PyObject *capsule) { return PyCapsule_GetPointer(capsule, capsule_name); }

/* summary_graph(writer, symbol) */
static PyObject *summary_graph(PyObject *self, PyObject *args)
{
    PyObject *capsule, *symbol;
    (void)self;
    if (!PyArg_ParseTuple(args, "OO:summary_graph", &capsule, &symbol))
        return NULL;
    mx_summary_writer *writer = writer_of(capsule);
    mx_symbol *graph = writer ? sym_symbol(symbol) : NULL;
    return graph ? raise_if(mx_summary_graph(writer, graph, NULL)) : NULL;
}

/* The texts of a tuple; they live as long as it does. */
static bool texts_of(PyObject *tuple, const char **texts, Py_ssize_t n)
{
    for (Py_ssize_t i = 0; i < n; i++)
        if (!(texts[i] = PyUnicode_AsUTF8(PyTuple_GET_ITEM(tuple, i))))
            return false;
    return true;
}

/* summary_hparams(writer, names, values, metrics): tuples of texts */
static PyObject *summary_hparams(PyObject *self, PyObject *args)
{
    PyObject *capsule, *names, *values, *metrics, *result = NULL;
    (void)self;
    if (!PyArg_ParseTuple(args, "OO!O!O!:summary_hparams", &capsule, &PyTuple_Type, &names, &PyTuple_Type, &values,
                          &PyTuple_Type, &metrics))
        return NULL;
    const Py_ssize_t n = PyTuple_GET_SIZE(names), m = PyTuple_GET_SIZE(metrics);
    mx_summary_writer *writer = writer_of(capsule);
    const char **texts =
        writer && PyTuple_GET_SIZE(values) == n ? PyMem_Malloc(((size_t)n * 2 + (size_t)m + 1) * sizeof *texts) : NULL;
    if (!texts)
        return PyErr_Occurred() ? NULL
                                : PyErr_Format(PyExc_ValueError, "summary_hparams: out of memory, or a wrong length");
    if (texts_of(names, texts, n) && texts_of(values, texts + n, n) && texts_of(metrics, texts + 2 * n, m))
        result =
            raise_if(mx_summary_hparams(writer, &(struct mx_hparams){(int)n, texts, texts + n, (int)m, texts + 2 * n}));
    PyMem_Free(texts);
    return result;
}

static PyMethodDef functions[] = {
    {"summary_writer", summary_writer, METH_O, "summary_writer(folder): (writer, path)"},
    {"summary_add", summary_add, METH_VARARGS, "summary_add(writer, kind, tag, value, step)"},
    {"summary_graph", summary_graph, METH_VARARGS, "summary_graph(writer, symbol)"},
    {"summary_hparams", summary_hparams, METH_VARARGS, "summary_hparams(writer, names, values, metrics)"},
    {NULL, NULL, 0, NULL},
};

int add_summary(PyObject *module) { return PyModule_AddFunctions(module, functions); }
