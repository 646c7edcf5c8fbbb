/* Array files.  SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"
#include "base/flags.h"
#include "core.h"
#include "gluon/data.h"
#include "gluon/limits.h"

static PyObject *dict_to(mx_array_dict *dict)
{
    if (!dict)
        return raise_error();
    const int64_t n = mx_array_dict_count(dict);
    const bool named = n && mx_array_dict_name(dict, 0);
    PyObject *result = named ? PyDict_New() : PyList_New(0);
    for (int64_t i = 0; result && i < n; i++) {
        PyObject *item = nd_wrap(mx_array_dict_at(dict, i));
        if (!item ||
            (named ? PyDict_SetItemString(result, mx_array_dict_name(dict, i), item) : PyList_Append(result, item)))
            Py_CLEAR(result);
        Py_XDECREF(item);
    }
    return result;
}

static PyObject *load(PyObject *self, PyObject *path)
{
    PyObject *bytes;
    (void)self;
    if (!PyUnicode_FSConverter(path, &bytes))
        return NULL;
    mx_scope scope = mx_scope_open();
    PyThreadState *state = let_go(true);
    mx_array_dict *dict = mx_load(PyBytes_AS_STRING(bytes));
    take_back(state);
    PyObject *result = dict_to(dict);
    mx_scope_close(&scope);
    Py_DECREF(bytes);
    return result;
}

static PyObject *load_buffer(PyObject *self, PyObject *source)
{
    Py_buffer view;
    (void)self;
    if (PyObject_GetBuffer(source, &view, PyBUF_SIMPLE))
        return NULL;
    mx_scope scope = mx_scope_open();
    PyObject *result = dict_to(mx_load_buffer(view.buf, (size_t)view.len));
    mx_scope_close(&scope);
    PyBuffer_Release(&view);
    return result;
}

static PyObject *load_idx(PyObject *self, PyObject *path)
{
    PyObject *bytes;
    (void)self;
    if (!PyUnicode_FSConverter(path, &bytes))
        return NULL;
    mx_scope scope = mx_scope_open();
    PyObject *result = nd_wrap(mx_load_idx(PyBytes_AS_STRING(bytes)));
    mx_scope_close(&scope);
    Py_DECREF(bytes);
    return result;
}

/* save(path, arrays, names or None) */
static PyObject *save(PyObject *self, PyObject *args)
{
    PyObject *path, *arrays, *names;
    mx_array **items = NULL;
    (void)self;
    if (!PyArg_ParseTuple(args, "O&OO:save", PyUnicode_FSConverter, &path, &arrays, &names))
        return NULL;
    mx_arrays list = nd_list(arrays, "save", &items);
    const char **texts = list.n >= 0 && names != Py_None ? core_memory((size_t)list.n + 1, sizeof *texts) : NULL;
    bool ok = list.n >= 0 && (names == Py_None || texts);
    for (Py_ssize_t i = 0; ok && texts && i < list.n; i++) /* `names` keeps the texts alive */
        ok = (texts[i] = PyUnicode_AsUTF8(PyList_GET_ITEM(names, i))) != NULL;
    PyObject *result = NULL;
    if (ok) {
        PyThreadState *state = let_go(true);
        const mx_code code = mx_save(PyBytes_AS_STRING(path), list, texts);
        take_back(state);
        result = raise_if(code);
    }
    PyMem_Free(items), PyMem_Free(texts), Py_DECREF(path);
    return result;
}

/* pack(array) -> bytearray: the record of a .params file. */
static PyObject *pack(PyObject *self, PyObject *source)
{
    size_t size = 0;
    (void)self;
    if (!nd_check(source))
        return PyErr_Format(PyExc_TypeError, "pack: expected an NDArray, got %.200s", Py_TYPE(source)->tp_name);
    if (mx_array_pack(nd_array(source), NULL, 0, &size))
        return raise_error();
    PyObject *bytes = PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)size);
    if (bytes && mx_array_pack(nd_array(source), PyByteArray_AS_STRING(bytes), size, &size))
        Py_CLEAR(bytes);
    return bytes ? bytes : raise_error();
}

static PyObject *unpack(PyObject *self, PyObject *source)
{
    Py_buffer view;
    (void)self;
    if (PyObject_GetBuffer(source, &view, PyBUF_SIMPLE))
        return NULL;
    mx_scope scope = mx_scope_open();
    mx_array *x = mx_array_unpack(view.buf, (size_t)view.len);
    PyObject *result = x ? nd_wrap(x) : raise_error();
    mx_scope_close(&scope);
    PyBuffer_Release(&view);
    return result;
}

/* write_file(path, bytes) */
static PyObject *write_file(PyObject *self, PyObject *args)
{
    PyObject *path;
    Py_buffer view;
    (void)self;
    if (!PyArg_ParseTuple(args, "O&y*:write_file", PyUnicode_FSConverter, &path, &view))
        return NULL;
    PyThreadState *state = let_go(true);
    const bool done = mx_file_write(PyBytes_AS_STRING(path), view.buf, view.len);
    take_back(state);
    PyBuffer_Release(&view);
    Py_DECREF(path);
    return done ? Py_NewRef(Py_None) : raise_error();
}

static PyObject *trusts_pickles(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    return PyBool_FromLong(mx_flags_get()->trust_pickles == 1);
}

static PyObject *get_limits(PyObject *self, PyObject *unused)
{
    const mx_limits l = mx_limits_get();
    (void)self, (void)unused;
    return Py_BuildValue("{sLsLsLsL}", "depth", (long long)l.depth, "nodes", (long long)l.nodes, "pixels",
                         (long long)l.pixels, "memory", (long long)l.memory);
}

/* set_limits(depth, nodes, pixels, memory) */
static PyObject *set_limits(PyObject *self, PyObject *args)
{
    long long depth, nodes, pixels, memory;
    (void)self;
    if (!PyArg_ParseTuple(args, "LLLL:set_limits", &depth, &nodes, &pixels, &memory))
        return NULL;
    return raise_if(mx_limits_set((mx_limits){depth, nodes, pixels, memory}));
}

static PyObject *set_time_limit(PyObject *self, PyObject *seconds)
{
    const double wanted = PyFloat_AsDouble(seconds);
    (void)self;
    if (PyErr_Occurred())
        return NULL;
    const double left = mx_set_time_limit(wanted);
    return left < 0 ? raise_error() : PyFloat_FromDouble(left);
}

static PyMethodDef functions[] = {
    {"load", load, METH_O, "Arrays of a file: a dict, or a list if they have no names."},
    {"pack", pack, METH_O, "The bytes of an array as a .params file holds it."},
    {"unpack", unpack, METH_O, "The array in such bytes."},
    {"load_buffer", load_buffer, METH_O, "The same from bytes."},
    {"load_idx", load_idx, METH_O, "The array of an idx file, as MNIST has them; gzip or not."},
    {"save", save, METH_VARARGS, "save(path, arrays, names or None)"},
    {"write_file", write_file, METH_VARARGS, "write_file(path, bytes): atomically"},
    {"get_limits", get_limits, METH_NOARGS, "Limits on what files may need, by name."},
    {"set_limits", set_limits, METH_VARARGS, "set_limits(depth, nodes, pixels, memory)"},
    {"set_time_limit", set_time_limit, METH_O, "Seconds that this thread may compute from now on; returns what was left."},
    {"trusts_pickles", trusts_pickles, METH_NOARGS, "Whether GLUON_TRUST_PICKLES is set."},
    {NULL, NULL, 0, NULL},
};

int add_files(PyObject *module) { return PyModule_AddFunctions(module, functions); }
