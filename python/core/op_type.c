/* Operators as Python objects: callables that are also method descriptors, so that NDArray.softmax is the operator itself.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core.h"
#include "np_array.h"
#include <structmember.h>

static PyObject *op_call(PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *keywords)
{
    const op_object *self = (op_object *)callable;
    PyObject *result;
    if (self->np_row >= 0 && PyVectorcall_NARGS(nargsf) == 2 && !keywords) {
        result = np_short(self->np_row, args[0], args[1]);
        if (result || PyErr_Occurred())
            return result;
    }
    result = op_call_with(self, args, PyVectorcall_NARGS(nargsf), keywords, false);
    if (!result)
        op_show_called_name(self);
    return result;
}

/* op.view(x, ...): of an operator that only changes the shape, the result that shares the memory of x. */
static PyObject *op_view(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *keywords)
{
    return op_call_with((op_object *)self, args, n, keywords, true);
}

/* ---- the type -------------------------------------------------------------------------------------------------- */

static void op_dealloc(PyObject *object)
{
    op_object *self = (op_object *)object;
    for (int i = 0; self->input_names && i < self->op->declared_inputs; i++)
        Py_XDECREF(self->input_names[i]);
    for (int i = 0; self->attr_names && i < self->n_attrs; i++)
        Py_XDECREF(self->attr_names[i]);
    PyMem_Free(self->input_names), PyMem_Free(self->attr_names);
    Py_XDECREF(self->name), Py_XDECREF(self->module);
    Py_TYPE(object)->tp_free(object);
}

static PyObject *input_name(const mx_op *op, int i)
{
    char name[64];
    mx_op_input_name(op, i, name);
    const size_t length = strlen(name);
    if ((op->flags & MX_OP_LIST) && i == op->declared_inputs - 1 && length && name[length - 1] == '0')
        name[length - 1] = 0; /* "data0" is an element of the list "data" */
    return PyUnicode_InternFromString(name);
}

PyObject *op_new(mx_op *op, const char *name)
{
    op_object *self = PyObject_New(op_object, &op_type);
    if (!self)
        return NULL;
    self->vectorcall = op_call, self->op = op;
    self->name = PyUnicode_InternFromString(name);
    self->module = NULL;
    self->symbolic = self->np = false, self->np_row = -1;
    self->n_attrs = op->schema ? op->schema->count : 0;
    self->input_names = core_memory((size_t)op->declared_inputs + 1, sizeof *self->input_names);
    self->attr_names = core_memory((size_t)self->n_attrs + 1, sizeof *self->attr_names);
    for (int i = 0; self->input_names && i < op->declared_inputs; i++)
        self->input_names[i] = input_name(op, i);
    for (int i = 0; self->attr_names && i < self->n_attrs; i++)
        self->attr_names[i] = PyUnicode_InternFromString(op->schema->fields[i].name);
    if (PyErr_Occurred() || !self->input_names || !self->attr_names) {
        Py_DECREF(self);
        return PyErr_Occurred() ? NULL : PyErr_NoMemory();
    }
    return (PyObject *)self;
}

static PyObject *op_get(PyObject *self, PyObject *instance, PyObject *type)
{
    (void)type;
    return instance && instance != Py_None ? PyMethod_New(self, instance) : core_new_ref(self);
}

static PyObject *op_repr(PyObject *self) { return PyUnicode_FromFormat("<operator %U>", ((op_object *)self)->name); }

static PyObject *described(PyObject *self, const char *what)
{
    PyObject *function = from_package("mxnet._describe", what);
    PyObject *result = function ? PyObject_CallFunctionObjArgs(function, self, NULL) : NULL;
    Py_XDECREF(function);
    return result;
}
static PyObject *op_doc(PyObject *self, void *unused) { return (void)unused, described(self, "op_doc"); }
static PyObject *op_signature(PyObject *self, void *unused) { return (void)unused, described(self, "op_signature"); }
static PyObject *op_text_signature(PyObject *self, void *unused)
{
    return (void)self, (void)unused, core_new_ref(Py_None);
}
static PyObject *op_canonical(PyObject *self, void *unused)
{
    (void)unused;
    return PyUnicode_FromString(((op_object *)self)->op->name);
}
static PyObject *op_description(PyObject *self, void *unused)
{
    (void)unused;
    MX_SCOPE;
    const char *text = mx_op_describe(((op_object *)self)->op);
    return text ? PyUnicode_FromString(text) : raise_error();
}
/* The calls that the library's own tests make: dicts of shapes ("2,3;3"), attrs ("axis=1"), low, high, note. */
static PyObject *op_samples(PyObject *self, void *unused)
{
    const mx_sample *sample = ((op_object *)self)->op->samples;
    PyObject *list = PyList_New(0);
    (void)unused;
    for (; list && sample && sample->shapes; sample++) {
        PyObject *item =
            Py_BuildValue("{sssssdsdsz}", "shapes", sample->shapes, "attrs", sample->attrs ? sample->attrs : "", "low",
                          sample->low, "high", sample->high, "note", sample->note);
        if (!item || PyList_Append(list, item))
            Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}
static PyObject *op_reduce(PyObject *self, PyObject *unused)
{
    (void)unused;
    PyObject *find = from_package("mxnet._core", "operator");
    return find ? Py_BuildValue("N(O)", find, ((op_object *)self)->name) : NULL;
}

static PyMemberDef op_members[] = {
    {"__name__", T_OBJECT, offsetof(op_object, name), READONLY, NULL},
    {"__qualname__", T_OBJECT, offsetof(op_object, name), READONLY, NULL},
    {"__module__", T_OBJECT, offsetof(op_object, module), 0, NULL},
    {"np", T_BOOL, offsetof(op_object, np), READONLY, "whether it is one of mx.np or mx.npx"},
    {"symbolic", T_BOOL, offsetof(op_object, symbolic), READONLY, "whether it is one of mx.sym"},
    {NULL, 0, 0, 0, NULL},
};
static PyGetSetDef op_getset[] = {
    {"__doc__", op_doc, NULL, NULL, NULL},
    {"__signature__", op_signature, NULL, NULL, NULL},
    {"__text_signature__", op_text_signature, NULL, NULL, NULL},
    {"operator_name", op_canonical, NULL, "the name in files", NULL},
    {"samples", op_samples, NULL, "the calls that the library's tests make, a list of dicts", NULL},
    {"description", op_description, NULL, "everything about the operator as JSON", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyMethodDef op_methods[] = {
    {"__reduce__", op_reduce, METH_NOARGS, NULL},
    {"view", (PyCFunction)(void (*)(void))op_view, METH_FASTCALL | METH_KEYWORDS,
     "Of an operator that only changes the shape: the result that shares the memory of its input."},
    {NULL, NULL, 0, NULL},
};

PyTypeObject op_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "mxnet._core.Op",
    .tp_basicsize = sizeof(op_object),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR,
    .tp_vectorcall_offset = offsetof(op_object, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_dealloc = op_dealloc,
    .tp_descr_get = op_get,
    .tp_repr = op_repr,
    .tp_members = op_members,
    .tp_getset = op_getset,
    .tp_methods = op_methods,
};
