/* Sparse arrays in Python: NDArrays of the classes that mxnet.ndarray.sparse registers.
 *
 *     RowSparseNDArray, CSRNDArray (Python) ---> mx_array of the sparse kind
 *
 * The classes add names and indexing; creation, conversion and access to parts are here and call the library.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core.h"
#include "exec/sparse/sparse.h"
#include "gluon/data.h"
#include "gluon/parameter.h"
#include "ndarray/sparse.h"
#include "skin.h"

static PyObject *classes[3]; /* by mx_stype; NULL before they are registered */

PyObject *sparse_wrap(mx_array *array)
{
    PyTypeObject *type = (PyTypeObject *)classes[mx_stype_of(array)];
    if (!type)
        return PyErr_Format(PyExc_RuntimeError, "mxnet.ndarray.sparse was not imported");
    nd_object *self = (nd_object *)type->tp_alloc(type, 0);
    if (self)
        self->array = mx_retain(array);
    return (PyObject *)self;
}

static PyObject *set_classes(PyObject *self, PyObject *args)
{
    PyObject *row_sparse, *csr;
    (void)self;
    if (!PyArg_ParseTuple(args, "O!O!:set_sparse_classes", &PyType_Type, &row_sparse, &PyType_Type, &csr))
        return NULL;
    Py_XSETREF(classes[MX_ROW_SPARSE], core_new_ref(row_sparse));
    Py_XSETREF(classes[MX_CSR], core_new_ref(csr));
    Py_RETURN_NONE;
}

int stype_from(PyObject *source, mx_stype *stype, const char *who)
{
    const char *name = source && source != Py_None ? PyUnicode_AsUTF8(source) : "default";
    if (!name)
        return -1;
    for (int i = 0; i < 3; i++)
        if (!strcmp(name, mx_stype_name((mx_stype)i))) {
            *stype = (mx_stype)i;
            return 0;
        }
    PyErr_Format(PyExc_ValueError, "%s: storage type must be 'default', 'row_sparse' or 'csr', got '%s'", who, name);
    return -1;
}

/* An optional NDArray argument: NULL for None. */
static int part_from(PyObject *source, mx_array **part, const char *name)
{
    *part = NULL;
    if (!source || source == Py_None)
        return 0;
    if (!nd_check(source)) {
        PyErr_Format(PyExc_TypeError, "sparse array: %s must be an NDArray, got %.200s", name,
                     Py_TYPE(source)->tp_name);
        return -1;
    }
    *part = nd_array(source);
    return 0;
}

/* sparse_make(stype, shape or None, data, indices, indptr=None) */
static PyObject *sparse_make(PyObject *self, PyObject *args)
{
    PyObject *type, *size, *parts[3] = {NULL, NULL, NULL};
    mx_array *data, *indices, *indptr;
    mx_dims dims = {.n = -1};
    mx_stype stype;
    (void)self;
    if (!PyArg_ParseTuple(args, "OOOO|O:sparse_make", &type, &size, &parts[0], &parts[1], &parts[2]) ||
        stype_from(type, &stype, "sparse_make") ||
        (size != Py_None && dims_from(size, &dims, "sparse array", "shape")) || part_from(parts[0], &data, "data") ||
        part_from(parts[1], &indices, "indices") || part_from(parts[2], &indptr, "indptr"))
        return NULL;
    MX_SCOPE;
    return nd_wrap(stype == MX_CSR ? mx_csr(dims, data, indices, indptr) : mx_row_sparse(dims, data, indices));
}

/* sparse_triples(shape or None, data, rows, columns) */
static PyObject *sparse_triples(PyObject *self, PyObject *args)
{
    PyObject *size, *data, *rows, *columns;
    mx_dims dims = {.n = -1};
    (void)self;
    if (!PyArg_ParseTuple(args, "OO!O!O!:sparse_triples", &size, &nd_type, &data, &nd_type, &rows, &nd_type,
                          &columns) ||
        (size != Py_None && dims_from(size, &dims, "csr_matrix", "shape")))
        return NULL;
    MX_SCOPE;
    return nd_wrap(mx_csr_triples(dims, nd_array(data), nd_array(rows), nd_array(columns)));
}

/* sparse_zeros(stype, shape, ctx, dtype) */
static PyObject *sparse_zeros(PyObject *self, PyObject *args)
{
    PyObject *type, *size, *where, *element;
    mx_stype stype;
    mx_dims dims;
    mx_context context;
    mx_dtype dtype;
    (void)self;
    if (!PyArg_ParseTuple(args, "OOOO:sparse_zeros", &type, &size, &where, &element) ||
        stype_from(type, &stype, "zeros") || dims_from(size, &dims, "zeros", "shape") ||
        context_from(where, &context) || dtype_from(element, &dtype))
        return NULL;
    MX_SCOPE;
    return nd_wrap(mx_sparse_zeros(stype, dims, dtype == MX_DTYPE_NONE ? MX_FLOAT32 : dtype, context));
}

/* sparse_parts(array): (data, indices, indptr), None where there is none. */
static PyObject *sparse_parts(PyObject *self, PyObject *x)
{
    (void)self;
    if (!nd_check(x) || !mx_is_sparse(nd_array(x)))
        return PyErr_Format(PyExc_TypeError, "expected a sparse array, got %.200s", Py_TYPE(x)->tp_name);
    const mx_sparse *s = mx_sparse_of(nd_array(x));
    PyObject *indptr = s->indptr ? nd_wrap(s->indptr) : core_new_ref(Py_None);
    return Py_BuildValue("NNN", nd_wrap(s->data), nd_wrap(s->indices), indptr);
}

/* sparse_set(array, data, indices, indptr=None): new parts. */
static PyObject *sparse_set(PyObject *self, PyObject *args)
{
    PyObject *x, *parts[3] = {NULL, NULL, NULL};
    mx_array *data, *indices, *indptr;
    (void)self;
    if (!PyArg_ParseTuple(args, "O!OO|O:sparse_set", &nd_type, &x, &parts[0], &parts[1], &parts[2]) ||
        part_from(parts[0], &data, "data") || part_from(parts[1], &indices, "indices") ||
        part_from(parts[2], &indptr, "indptr"))
        return NULL;
    return raise_if(mx_sparse_set(nd_array(x), data, indices, indptr));
}

/* tostype(array, stype): the array in another storage type; itself if it already has it. */
static PyObject *tostype(PyObject *self, PyObject *args)
{
    PyObject *x, *type;
    mx_stype stype;
    (void)self;
    if (!PyArg_ParseTuple(args, "O!O:tostype", &nd_type, &x, &type) || stype_from(type, &stype, "tostype"))
        return NULL;
    if (mx_stype_of(nd_array(x)) == stype)
        return core_new_ref(x);
    mx_scope scope = mx_scope_open();
    PyThreadState *state = let_go(nd_array(x)->size > LONG_WORK);
    mx_array *made = mx_tostype(nd_array(x), stype);
    take_back(state);
    PyObject *result = nd_wrap(made);
    mx_scope_close(&scope);
    return result;
}

static PyObject *csr_rows(PyObject *self, PyObject *args)
{
    PyObject *x;
    long long begin, end;
    (void)self;
    if (!PyArg_ParseTuple(args, "O!LL:csr_rows", &nd_type, &x, &begin, &end))
        return NULL;
    MX_SCOPE;
    return nd_wrap(mx_csr_rows(nd_array(x), begin, end));
}

/* sparse_pick(array, rows): rows of a dense array as a row_sparse one. */
static PyObject *sparse_pick(PyObject *self, PyObject *args)
{
    PyObject *x, *rows;
    (void)self;
    if (!PyArg_ParseTuple(args, "O!O!:sparse_pick", &nd_type, &x, &nd_type, &rows))
        return NULL;
    mx_array *array = nd_array(x), *ids = nd_array(rows);
    if (!array->storage || !ids->storage)
        return PyErr_Format(PyExc_TypeError, "sparse_pick: expected dense arrays");
    MX_SCOPE;
    return nd_wrap(mx_sparse_pick(array, ids, "row_sparse_pull"));
}

/* parameter_rows(parameter, row_ids) */
static PyObject *parameter_rows(PyObject *self, PyObject *args)
{
    PyObject *parameter, *ids;
    (void)self;
    if (!PyArg_ParseTuple(args, "O!O!:parameter_rows", &parameter_type, &parameter, &nd_type, &ids))
        return NULL;
    mx_parameter *p = parameter_of(parameter);
    if (!p)
        return NULL;
    MX_SCOPE;
    return nd_wrap(mx_parameter_rows(p, nd_array(ids)));
}

/* load_libsvm(path, columns, dtype): (csr array, labels) */
static PyObject *load_libsvm(PyObject *self, PyObject *args)
{
    PyObject *path, *type;
    long long columns;
    mx_dtype dtype;
    mx_array *data, *label;
    (void)self;
    if (!PyArg_ParseTuple(args, "O&LO:load_libsvm", PyUnicode_FSConverter, &path, &columns, &type))
        return NULL;
    MX_SCOPE;
    const int failed =
        dtype_from(type, &dtype) ||
        mx_load_libsvm(PyBytes_AS_STRING(path), columns, dtype == MX_DTYPE_NONE ? MX_FLOAT32 : dtype, &data, &label);
    Py_DECREF(path);
    return failed ? raise_error() : Py_BuildValue("NN", nd_wrap(data), nd_wrap(label));
}

static PyMethodDef functions[] = {
    {"load_libsvm", load_libsvm, METH_VARARGS, "load_libsvm(path, columns, dtype): (csr array, labels)"},
    {"set_sparse_classes", set_classes, METH_VARARGS, "The Python classes of row_sparse and csr arrays."},
    {"sparse_make", sparse_make, METH_VARARGS, "sparse_make(stype, shape, data, indices, indptr=None)"},
    {"sparse_triples", sparse_triples, METH_VARARGS, "sparse_triples(shape, data, rows, columns): a csr array."},
    {"sparse_zeros", sparse_zeros, METH_VARARGS, "sparse_zeros(stype, shape, ctx, dtype)"},
    {"sparse_parts", sparse_parts, METH_O, "sparse_parts(array): (data, indices, indptr)"},
    {"sparse_set", sparse_set, METH_VARARGS, "sparse_set(array, data, indices, indptr=None): new parts."},
    {"tostype", tostype, METH_VARARGS, "tostype(array, stype): the array in another storage type."},
    {"sparse_pick", sparse_pick, METH_VARARGS, "sparse_pick(array, rows): rows of a dense array as a row_sparse one."},
    {"csr_rows", csr_rows, METH_VARARGS, "csr_rows(array, begin, end)"},
    {"parameter_rows", parameter_rows, METH_VARARGS, "parameter_rows(parameter, row_ids): a row_sparse array."},
    {NULL, NULL, 0, NULL},
};

int add_sparse(PyObject *module) { return PyModule_AddFunctions(module, functions); }
