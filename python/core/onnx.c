/* ONNX files.  SPDX-License-Identifier: Apache-2.0 */
#include "gluon/onnx.h"

#include "ndarray/params.h"
#include "symbol.h"

/* The arrays of a dict as a list of the library; NULL with an exception. */
static mx_array_dict *params_of(PyObject *source)
{
    const Py_ssize_t n = PyDict_Size(source);
    const char **names = core_memory((size_t)n + 1, sizeof *names);
    mx_array **arrays = core_memory((size_t)n + 1, sizeof *arrays);
    PyObject *key, *value;
    Py_ssize_t at = 0, i = 0;
    bool ok = names && arrays;
    for (; ok && PyDict_Next(source, &at, &key, &value); i++) {
        ok = nd_check(value) && PyUnicode_Check(key) && (names[i] = PyUnicode_AsUTF8(key));
        arrays[i] = ok ? nd_array(value) : NULL;
    }
    if (!ok && !PyErr_Occurred())
        PyErr_SetString(PyExc_TypeError, "export_model: params must be a dict of names and NDArrays");
    mx_array_dict *dict = ok ? mx_array_dict_of((mx_arrays){arrays, n}, names) : NULL;
    if (ok && !dict)
        raise_error();
    PyMem_Free(names), PyMem_Free(arrays);
    return dict;
}

/* onnx_write(symbol, params or None, path, opset, names, shapes, types) */
static PyObject *onnx_write(PyObject *self, PyObject *args)
{
    PyObject *symbol, *params, *path, *names, *shapes, *types, *result = NULL;
    int opset;
    (void)self;
    if (!PyArg_ParseTuple(args, "O!OO&iOOO:onnx_write", &sym_type, &symbol, &params, PyUnicode_FSConverter, &path,
                          &opset, &names, &shapes, &types))
        return NULL;
    sym_known k = {0};
    mx_scope scope = mx_scope_open();
    mx_array_dict *values = params == Py_None ? NULL : params_of(params);
    mx_symbol *graph = sym_symbol(symbol);
    if (graph && (values || params == Py_None) && !read_known(&k, names, shapes, types)) {
        const struct mx_known given = {k.n, k.names, k.shapes, k.types, false};
        PyThreadState *state = let_go(true);
        const mx_code code =
            mx_export_onnx(graph, values, PyBytes_AS_STRING(path), .opset = opset, .inputs = k.n ? &given : NULL);
        take_back(state);
        result = raise_if(code);
    }
    mx_scope_close(&scope);
    free_known(&k);
    Py_DECREF(path);
    return result;
}

/* [(name, shape, type)] */
static PyObject *described(mx_names names, const mx_dims *shapes, const mx_dtype *types)
{
    PyObject *list = PyList_New(0);
    for (int64_t i = 0; list && i < names.n; i++) {
        PyObject *shape = shapes[i].n < 0 ? Py_NewRef(Py_None) : dims_to(shapes[i].d, shapes[i].n);
        PyObject *type = types[i] == MX_DTYPE_NONE ? Py_NewRef(Py_None) : dtype_to(types[i]);
        PyObject *item = shape && type ? Py_BuildValue("(sNN)", names.v[i], shape, type) : NULL;
        if (!item || PyList_Append(list, item))
            Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

/* onnx_read(path, nodes, names, shapes): (symbol or None, opset, inputs, outputs) */
static PyObject *onnx_read(PyObject *self, PyObject *args)
{
    PyObject *path, *names, *shapes, *result = NULL;
    int nodes;
    (void)self;
    if (!PyArg_ParseTuple(args, "O&pOO:onnx_read", PyUnicode_FSConverter, &path, &nodes, &names, &shapes))
        return NULL;
    sym_known k = {0};
    mx_scope scope = mx_scope_open();
    if (!read_known(&k, names, shapes, Py_None)) {
        const struct mx_known given = {k.n, k.names, k.shapes, NULL, true};
        PyThreadState *state = let_go(true);
        const char *file = PyBytes_AS_STRING(path);
        const mx_onnx_model *model = nodes ? mx_load_onnx(file, k.n ? &given : NULL) : mx_describe_onnx(file);
        take_back(state);
        PyObject *symbol = !model ? raise_error() : model->symbol ? sym_wrap(model->symbol) : Py_NewRef(Py_None);
        result = symbol ? Py_BuildValue("(NLNN)", symbol, (long long)model->opset,
                                        described(model->inputs, model->input_shapes, model->input_types),
                                        described(model->outputs, model->output_shapes, model->output_types))
                        : NULL;
    }
    mx_scope_close(&scope);
    free_known(&k);
    Py_DECREF(path);
    return result;
}

static PyObject *onnx_operators(PyObject *self, PyObject *written)
{
    (void)self;
    MX_SCOPE;
    return names_to(mx_onnx_operators(PyObject_IsTrue(written)));
}

static PyMethodDef functions[] = {
    {"onnx_write", onnx_write, METH_VARARGS, "onnx_write(symbol, params or None, path, opset, names, shapes, types)"},
    {"onnx_read", onnx_read, METH_VARARGS, "onnx_read(path, nodes, names, shapes): (symbol, opset, inputs, outputs)"},
    {"onnx_operators", onnx_operators, METH_O, "Operators of ONNX that are read, or (True) of this package that are written."},
    {NULL, NULL, 0, NULL},
};

int add_onnx(PyObject *module) { return PyModule_AddFunctions(module, functions); }
