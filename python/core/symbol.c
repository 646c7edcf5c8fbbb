/* Symbol: the Python object around an mx_symbol.  SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "exec/tape.h"
#include "graph/node.h"
#include "graph/symbol.h"
#include "np_array.h"

/* ---- life ------------------------------------------------------------------------------------------------------ */

static PyObject *new_symbol(mx_symbol *symbol, mx_array *array)
{
    PyTypeObject *type = mx_is_np_array() ? &np_symbol_type : &sym_type;
    sym_object *self = (sym_object *)type->tp_alloc(type, 0);
    if (!self)
        return NULL;
    self->symbol = mx_retain(symbol);
    self->array = mx_retain(array);
    return (PyObject *)self;
}

PyObject *sym_wrap(mx_symbol *symbol) { return symbol ? new_symbol(symbol, NULL) : raise_error(); }
PyObject *sym_wrap_array(mx_array *array) { return array ? new_symbol(NULL, array) : raise_error(); }

mx_symbol *sym_symbol(PyObject *x)
{
    sym_object *self = (sym_object *)x;
    if (!self->symbol && self->array) {
        mx_scope scope = mx_scope_open();
        self->symbol = mx_retain(mx_symbol_of((mx_arrays){&self->array, 1}));
        mx_scope_close(&scope);
        if (!self->symbol)
            raise_error();
    } else if (!self->symbol)
        PyErr_SetString(PyExc_RuntimeError, "Symbol: it was created without a graph; use sym.var or an operator");
    return self->symbol;
}

int64_t sym_count(PyObject *x)
{
    const sym_object *self = (sym_object *)x;
    return self->symbol ? self->symbol->n : 1;
}

mx_array *sym_array(PyObject *x, const char *who)
{
    sym_object *self = (sym_object *)x;
    if (self->array)
        return self->array;
    mx_symbol *symbol = sym_symbol(x);
    if (!symbol)
        return NULL;
    if (symbol->n != 1) {
        mx_error_set(MX_ERR_ARGUMENT, "%s: expected a symbol with one output, this one has %lld; pick one with [i]",
                     who, (long long)symbol->n);
        return raise_error(), NULL;
    }
    mx_scope scope = mx_scope_open();
    self->array = mx_retain(mx_symbol_at(symbol, 0));
    mx_scope_close(&scope);
    if (!self->array)
        raise_error();
    return self->array;
}

mx_array *any_array(PyObject *x, const char *who)
{
    if (nd_check(x))
        return nd_array(x);
    if (sym_check(x))
        return sym_array(x, who);
    PyErr_Format(PyExc_TypeError, "%s: expected an NDArray or a Symbol, got %.200s", who, Py_TYPE(x)->tp_name);
    return NULL;
}

static void sym_dealloc(PyObject *object)
{
    sym_object *self = (sym_object *)object;
    if (self->weakrefs)
        PyObject_ClearWeakRefs(object);
    mx_release(self->symbol);
    mx_release(self->array);
    Py_TYPE(object)->tp_free(object);
}

/* Symbol(other): another Python object around the same symbol. */
static PyObject *sym_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    PyObject *source = NULL;
    static char *names[] = {"handle", NULL};
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|O", names, &source))
        return NULL;
    if (source && !sym_check(source))
        return PyErr_Format(PyExc_TypeError, "Symbol(handle): expected a Symbol, got %.200s; sym.var makes variables",
                            Py_TYPE(source)->tp_name);
    sym_object *self = (sym_object *)type->tp_alloc(type, 0);
    if (self && source) {
        self->symbol = mx_retain(((sym_object *)source)->symbol);
        self->array = mx_retain(((sym_object *)source)->array);
    }
    return (PyObject *)self;
}

/* ---- what has no value ----------------------------------------------------------------------------------------- */

PyObject *sym_refuse(const char *what)
{
    PyObject *refuse = from_package("mxnet.symbol._refuse", "refuse");
    PyObject *done =
        refuse ? PyObject_CallFunction(refuse, "sO", what, mx_thread.modes.tracing ? Py_True : Py_False) : NULL;
    Py_XDECREF(refuse), Py_XDECREF(done);
    return NULL;
}
static PyObject *no_iteration_end(void) { return PyErr_SetNone(PyExc_IndexError), NULL; }

/* ---- properties ------------------------------------------------------------------------------------------------ */

static PyObject *unknown(const char *what)
{
    return PyErr_Format(PyExc_AttributeError,
                        "the %s of this symbol is not known; infer_shape and infer_type compute it "
                        "from the inputs",
                        what);
}

static PyObject *get_shape(PyObject *self, void *unused)
{
    (void)unused;
    const mx_array *x = sym_array(self, "shape");
    if (!x)
        return NULL;
    for (int i = 0; i < x->ndim; i++)
        if (x->shape[i] < 0)
            return unknown("shape");
    return x->ndim < 0 ? unknown("shape") : dims_to(x->shape, x->ndim);
}
static PyObject *get_ndim(PyObject *self, void *unused)
{
    (void)unused;
    const mx_array *x = sym_array(self, "ndim");
    return !x ? NULL : x->ndim < 0 ? unknown("rank") : PyLong_FromLong(x->ndim);
}
static PyObject *get_size(PyObject *self, void *unused)
{
    PyObject *shape = get_shape(self, unused);
    if (!shape)
        return NULL;
    const mx_array *x = sym_array(self, "size");
    int64_t size = 1;
    for (int i = 0; i < x->ndim; i++)
        size *= x->shape[i];
    Py_DECREF(shape);
    return PyLong_FromLongLong(size);
}
static PyObject *get_dtype(PyObject *self, void *unused)
{
    (void)unused;
    const mx_array *x = sym_array(self, "dtype");
    return !x ? NULL : x->dtype == MX_DTYPE_NONE ? unknown("dtype") : dtype_to((mx_dtype)x->dtype);
}
static PyObject *get_context(PyObject *self, void *unused)
{
    (void)unused;
    const mx_array *x = sym_array(self, "context");
    return !x ? NULL : x->context.type ? context_to(x->context) : context_to(mx_current_context());
}
static PyObject *get_name(PyObject *self, void *unused)
{
    (void)unused;
    mx_symbol *symbol = sym_symbol(self);
    if (!symbol)
        return NULL;
    const char *name = mx_symbol_name(symbol);
    return name ? PyUnicode_FromString(name) : mx_error_code() ? raise_error() : core_new_ref(Py_None);
}
static PyObject *get_self(PyObject *self, void *unused) { return (void)unused, core_new_ref(self); }
static PyObject *get_stype(PyObject *self, void *unused)
{
    return (void)self, (void)unused, PyUnicode_InternFromString("default");
}
static PyObject *get_transposed(PyObject *self, void *unused)
{
    (void)unused;
    return PyObject_CallMethod(self, "transpose", NULL);
}

static PyGetSetDef sym_getset[] = {
    {"name", get_name, NULL, "Name of its node; None for a group.", NULL},
    {"shape", get_shape, NULL, "Sizes of the axes where they are known: while a block is traced, or given to sym.var.",
     NULL},
    {"ndim", get_ndim, NULL, "Number of axes where it is known.", NULL},
    {"size", get_size, NULL, "Number of elements where it is known.", NULL},
    {"dtype", get_dtype, NULL, "Type of the elements where it is known.", NULL},
    {"context", get_context, NULL, "The context of the inputs, while a block is traced.", NULL},
    {"ctx", get_context, NULL, "The context of the inputs, while a block is traced.", NULL},
    {"stype", get_stype, NULL, "Kind of storage: 'default' (dense).", NULL},
    {"handle", get_self, NULL, "The symbol itself.", NULL},
    {"T", get_transposed, NULL, "The symbol with its axes in reverse order.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

/* ---- outputs and elements -------------------------------------------------------------------------------------- */

/* While a block is traced, a symbol with one output is an array: x[0] is its first row.  Otherwise [i] picks an output. */
static bool is_like_array(PyObject *self) { return mx_thread.modes.tracing && sym_count(self) == 1; }

static PyObject *output_at(PyObject *self, int64_t i)
{
    mx_symbol *symbol = sym_symbol(self);
    if (!symbol)
        return NULL;
    i = i < 0 ? i + symbol->n : i;
    if (i < 0 || i >= symbol->n)
        return PyErr_Format(PyExc_IndexError, "Symbol: there is no output %lld, there are %lld", (long long)i,
                            (long long)symbol->n);
    MX_SCOPE;
    return sym_wrap(mx_symbol_output(symbol, i));
}

static PyObject *output_named(PyObject *self, PyObject *name)
{
    mx_symbol *symbol = sym_symbol(self);
    const char *text = PyUnicode_AsUTF8(name);
    if (!symbol || !text)
        return NULL;
    MX_SCOPE;
    mx_symbol *found = mx_symbol_find(symbol, text);
    if (found)
        return sym_wrap(found);
    PyObject *message = PyUnicode_FromString(mx_error_message());
    mx_error_clear();
    if (message)
        PyErr_SetObject(PyExc_ValueError, message);
    Py_XDECREF(message);
    return NULL;
}

static PyObject *outputs_between(PyObject *self, PyObject *slice)
{
    Py_ssize_t start, stop, step;
    if (PySlice_Unpack(slice, &start, &stop, &step))
        return NULL;
    const Py_ssize_t count = (Py_ssize_t)sym_count(self);
    if (stop > count && stop < PY_SSIZE_T_MAX)
        return PyErr_Format(PyExc_IndexError, "Symbol: the slice ends at %zd, there are %zd outputs", stop, count);
    const Py_ssize_t n = PySlice_AdjustIndices(count, &start, &stop, step);
    mx_symbol *symbol = sym_symbol(self), **parts = n > 0 && symbol ? core_memory((size_t)n, sizeof *parts) : NULL;
    if (!symbol)
        return NULL;
    if (n <= 0)
        return PyErr_Format(PyExc_IndexError, "Symbol: the slice selects no output");
    if (!parts)
        return PyErr_NoMemory();
    MX_SCOPE;
    bool ok = true;
    for (Py_ssize_t i = 0; i < n && ok; i++)
        ok = (parts[i] = mx_symbol_output(symbol, start + i * step)) != NULL;
    PyObject *result = ok ? sym_wrap(mx_symbol_group(parts, (int)n)) : raise_error();
    PyMem_Free(parts);
    return result;
}

static PyObject *sym_subscript(PyObject *self, PyObject *key)
{
    if (PyUnicode_Check(key))
        return output_named(self, key);
    const bool several = sym_count(self) != 1;
    if (PyLong_Check(key) && !PyBool_Check(key) && !is_like_array(self)) {
        const long long i = PyLong_AsLongLong(key);
        return i == -1 && PyErr_Occurred() ? NULL : output_at(self, i);
    }
    if (PySlice_Check(key) && (several || !is_like_array(self)))
        return outputs_between(self, key);
    mx_array *x = sym_array(self, "x[key]");
    return x ? nd_index(self, x, key) : NULL;
}

static int sym_assign(PyObject *self, PyObject *key, PyObject *value)
{
    (void)self, (void)key, (void)value;
    sym_refuse("x[key] = value");
    return -1;
}

static Py_ssize_t sym_length(PyObject *self)
{
    if (!is_like_array(self))
        return (Py_ssize_t)sym_count(self);
    const mx_array *x = sym_array(self, "len()");
    if (!x)
        return -1;
    if (x->ndim < 1 || x->shape[0] < 0)
        return unknown("length"), -1;
    return (Py_ssize_t)x->shape[0];
}

static PyObject *sym_item(PyObject *self, Py_ssize_t i)
{
    const Py_ssize_t n = sym_length(self);
    if (n < 0)
        return NULL;
    if (i >= n)
        return no_iteration_end();
    if (!is_like_array(self))
        return output_at(self, i);
    PyObject *key = PyLong_FromSsize_t(i);
    PyObject *result = key ? nd_index(self, sym_array(self, "x[i]"), key) : NULL;
    Py_XDECREF(key);
    return result;
}

static PyMappingMethods sym_mapping = {sym_length, sym_subscript, sym_assign};
static PySequenceMethods sym_sequence = {.sq_length = sym_length, .sq_item = sym_item};

/* ---- text and composing ---------------------------------------------------------------------------------------- */

static PyObject *sym_repr(PyObject *self)
{
    mx_symbol *symbol = ((sym_object *)self)->symbol || ((sym_object *)self)->array ? sym_symbol(self) : NULL;
    if (!symbol)
        return PyErr_Clear(), PyUnicode_FromString("<Symbol>");
    MX_SCOPE;
    const char *text = mx_symbol_text(symbol);
    return text ? PyUnicode_FromString(text) : raise_error();
}

/* net(x), net(data=x, name="a"): the symbol with its variables replaced. */
static PyObject *sym_compose(PyObject *self, PyObject *args, PyObject *keywords)
{
    const Py_ssize_t n = PyTuple_GET_SIZE(args), named = keywords ? PyDict_GET_SIZE(keywords) : 0;
    mx_symbol *symbol = sym_symbol(self), *values[64];
    const char *names[64], *name = NULL;
    int count = 0;
    if (!symbol)
        return NULL;
    if (n + named > 64)
        return PyErr_Format(PyExc_TypeError, "Symbol: at most 64 variables can be replaced in one call");
    PyObject *key, *value;
    Py_ssize_t at = 0;
    while (keywords && PyDict_Next(keywords, &at, &key, &value)) {
        const char *text = PyUnicode_AsUTF8(key);
        if (!text)
            return NULL;
        if (!strcmp(text, "name")) {
            if (value != Py_None && !(name = PyUnicode_AsUTF8(value)))
                return NULL;
            continue;
        }
        if (!sym_check(value))
            return PyErr_Format(PyExc_TypeError, "Symbol: '%s' must be a Symbol, got %.200s", text,
                                Py_TYPE(value)->tp_name);
        names[count] = text;
        if (!(values[count++] = sym_symbol(value)))
            return NULL;
    }
    if (n && count)
        return PyErr_Format(PyExc_TypeError,
                            "Symbol: variables are replaced by position or by name, not both in one call");
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *item = PyTuple_GET_ITEM(args, i);
        if (!sym_check(item))
            return PyErr_Format(PyExc_TypeError, "Symbol: argument %zd must be a Symbol, got %.200s", i,
                                Py_TYPE(item)->tp_name);
        if (!(values[count++] = sym_symbol(item)))
            return NULL;
    }
    MX_SCOPE;
    return sym_wrap(mx_symbol_compose(symbol, name, count, n ? NULL : names, values));
}

/* Most methods are written in Python: a program that has not imported mxnet.symbol gets them at the first use. */
static PyObject *sym_getattro(PyObject *self, PyObject *name)
{
    static bool loaded;
    PyObject *found = PyObject_GenericGetAttr(self, name);
    if (found || loaded || !PyErr_ExceptionMatches(PyExc_AttributeError))
        return found;
    PyErr_Clear();
    loaded = true;
    PyObject *module = PyImport_ImportModule("mxnet.symbol");
    Py_XDECREF(module);
    return module ? PyObject_GenericGetAttr(self, name) : NULL;
}

PyTypeObject sym_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "mxnet.symbol.Symbol",
    .tp_basicsize = sizeof(sym_object),
    .tp_doc = "A symbolic computation.  Created by sym.var and by operators of mx.sym.",
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_new = sym_new,
    .tp_dealloc = sym_dealloc,
    .tp_weaklistoffset = offsetof(sym_object, weakrefs),
    .tp_repr = sym_repr,
    .tp_getattro = sym_getattro,
    .tp_call = sym_compose,
    .tp_hash = hash_of_identity,
    .tp_richcompare = sym_richcompare,
    .tp_iter = PySeqIter_New,
    .tp_as_number = &sym_number,
    .tp_as_mapping = &sym_mapping,
    .tp_as_sequence = &sym_sequence,
    .tp_getset = sym_getset,
    .tp_methods = sym_ask_methods,
};

/* ---- the module's part ------------------------------------------------------------------------------------------- */

static PyObject *add_method(PyObject *self, PyObject *args)
{
    const char *name;
    PyObject *value;
    (void)self;
    if (!PyArg_ParseTuple(args, "sO:add_symbol_method", &name, &value) ||
        PyDict_SetItemString(sym_type.tp_dict, name, value))
        return NULL;
    PyType_Modified(&sym_type);
    Py_RETURN_NONE;
}

static PyObject *is_tracing(PyObject *self, PyObject *unused)
{
    return (void)self, (void)unused, PyBool_FromLong(mx_thread.modes.tracing);
}

static PyMethodDef functions[] = {
    {"add_symbol_method", add_method, METH_VARARGS, "Adds a method or property to Symbol."},
    {"is_tracing", is_tracing, METH_NOARGS, "Whether a block's forward runs on symbols."},
    {NULL, NULL, 0, NULL},
};

int add_symbols(PyObject *module)
{
    if (PyType_Ready(&sym_type) || PyModule_AddObjectRef(module, "Symbol", (PyObject *)&sym_type))
        return -1;
    open_type(&sym_type);
    return PyModule_AddFunctions(module, functions);
}
