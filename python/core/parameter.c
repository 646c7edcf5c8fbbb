/* Parameters: Python objects around mx_parameter.
 *
 * There is at most one Python object per C object: the C object points to its wrapper (`front`) without owning it, so
 * that net.weight is net.weight.  The wrapper is of the class that the package registered (gluon.Parameter ...), which
 * may be subclassed.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/error.h"
#include "core.h"
#include "gluon/block/core.h"
#include "gluon/compile/trace.h"
#include "gluon/np.h"
#include "parameter.h"

/* ---- shared with dictionaries of parameters (params.c) ---------------------------------------------------------------------------------------------- */

static PyObject *classes[FRONT_KINDS]; /* Python classes by kind */

PyObject *front_class(front_kind kind) { return classes[kind]; }

static PyObject *set_class(PyObject *self, PyObject *args)
{
    int kind;
    PyObject *cls;
    (void)self;
    if (!PyArg_ParseTuple(args, "iO!:set_class", &kind, &PyType_Type, &cls))
        return NULL;
    if (kind < 0 || kind >= FRONT_KINDS)
        return PyErr_Format(PyExc_ValueError, "set_class: unknown kind %d", kind);
    Py_XSETREF(classes[kind], core_new_ref(cls));
    Py_RETURN_NONE;
}

PyTypeObject *class_or(front_kind kind, PyTypeObject *fallback)
{
    return classes[kind] ? (PyTypeObject *)classes[kind] : fallback;
}

#define CHECK_MADE(self, member)                                                                            \
    if (!(self)->member)                                                                                    \
        return PyErr_Format(PyExc_RuntimeError, "%.200s: super().__init__() was not called", Py_TYPE(self)->tp_name)

int contexts_from(PyObject *source, mx_context *contexts, int *count)
{
    *count = 0;
    if (!source || source == Py_None)
        return 0;
    PyObject *list = PyList_Check(source) || PyTuple_Check(source) ? core_new_ref(source) : PyTuple_Pack(1, source);
    const Py_ssize_t n = list ? PySequence_Fast_GET_SIZE(list) : 0;
    int failed = !list;
    if (!failed && (n < 1 || n > MX_MAX_CONTEXTS)) {
        PyErr_Format(PyExc_ValueError, "expected a context or a list of 1 to %d of them, got %zd", MX_MAX_CONTEXTS, n);
        failed = 1;
    }
    for (Py_ssize_t i = 0; !failed && i < n; i++)
        failed = context_from(PySequence_Fast_GET_ITEM(list, i), &contexts[i]);
    Py_XDECREF(list);
    *count = (int)n;
    return failed ? -1 : 0;
}

/* ---- Parameter ----------------------------------------------------------------------------------------------------- */

mx_parameter *parameter_of(PyObject *object)
{
    mx_parameter *p = ((parameter_object *)object)->parameter;
    if (!p)
        PyErr_Format(PyExc_RuntimeError, "%.200s: super().__init__() was not called", Py_TYPE(object)->tp_name);
    return p;
}

PyObject **parameter_init_slot(PyObject *parameter) { return &((parameter_object *)parameter)->init; }

PyObject **parameter_dtype_slot(PyObject *parameter) { return &((parameter_object *)parameter)->dtype; }

PyObject *parameter_wrap(mx_parameter *p)
{
    if (!p)
        return raise_error();
    if (p->front)
        return core_new_ref(p->front);
    PyTypeObject *type = class_or(p->constant ? FRONT_CONSTANT : FRONT_PARAMETER, &parameter_type);
    parameter_object *self = (parameter_object *)type->tp_alloc(type, 0);
    if (self) {
        self->parameter = mx_retain(p);
        p->front = self;
        parameter_resume(self);
    }
    return (PyObject *)self;
}

static int parameter_traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(((parameter_object *)object)->dict);
    Py_VISIT(((parameter_object *)object)->init);
    return 0;
}
static int parameter_clear(PyObject *object)
{
    Py_CLEAR(((parameter_object *)object)->dict);
    Py_CLEAR(((parameter_object *)object)->init);
    Py_CLEAR(((parameter_object *)object)->dtype);
    return 0;
}
static void parameter_dealloc(PyObject *object)
{
    parameter_object *self = (parameter_object *)object;
    PyObject_GC_UnTrack(object);
    if (self->weakrefs)
        PyObject_ClearWeakRefs(object);
    if (self->parameter && self->parameter->front == self) {
        self->parameter->front = NULL;
        parameter_leave(self);
    }
    parameter_clear(object);
    mx_release(self->parameter);
    Py_TYPE(object)->tp_free(object);
}

static int read_stype(PyObject *source, mx_stype *stype, const char *which)
{
    if (!stype_from(source, stype, which))
        return 0;
    PyErr_Format(PyExc_AssertionError, "Parameter: %s must be 'default', 'row_sparse' or 'csr', got %R", which, source);
    return -1;
}

int read_words(const parameter_words *w, struct mx_parameter_options *o, const char *who)
{
    *o = (struct mx_parameter_options){MX_PARAMETER_DEFAULTS};
    mx_dtype dtype;
    if (!(o->name = PyUnicode_AsUTF8(w->name)))
        return -1;
    if (w->grad_req && w->grad_req != Py_None && parameter_grad_req(w->grad_req, &o->grad_req))
        return -1;
    if (w->shape && w->shape != Py_None && dims_from(w->shape, &o->shape, who, "shape"))
        return -1;
    if (w->dtype && w->dtype != Py_None) {
        if (dtype_from(w->dtype, &dtype))
            return -1;
        o->dtype = dtype;
    }
    if (parameter_number(w->lr_mult, &o->lr_mult) || parameter_number(w->wd_mult, &o->wd_mult))
        return -1;
    if (w->deferred)
        o->allow_deferred_init = PyObject_IsTrue(w->deferred) == 1;
    if (w->differentiable)
        o->differentiable = PyObject_IsTrue(w->differentiable) == 1;
    if (w->init && w->init != Py_None && !(o->init = initializer_from(w->init, who)))
        return -1;
    if (read_stype(w->stype, &o->stype, "stype") || read_stype(w->grad_stype, &o->grad_stype, "grad_stype"))
        return -1;
    return 0;
}

static int adopt_parameter(parameter_object *self, mx_parameter *p, PyObject *init, PyObject *dtype)
{
    if (!p)
        return raise_error(), -1;
    mx_release(self->parameter);
    self->parameter = mx_retain(p);
    p->front = self;
    if (init && init != Py_None)
        Py_XSETREF(self->init, core_new_ref(init));
    if (dtype && dtype != Py_None)
        Py_XSETREF(self->dtype, core_new_ref(dtype));
    return 0;
}

static int parameter_init(PyObject *object, PyObject *args, PyObject *keywords)
{
    static char *names[] = {WORDS, NULL};
    parameter_words w = {0};
    struct mx_parameter_options options;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "U|OOOOOOOOOO:Parameter", names, WORD_SLOTS(w)))
        return -1;
    MX_SCOPE;
    if (read_words(&w, &options, "Parameter"))
        return -1;
    return adopt_parameter((parameter_object *)object, mx_parameter_make(&options), w.init, w.dtype);
}

/* make_constant(object, name, value): fills a Constant. */
static PyObject *make_constant(PyObject *self, PyObject *args)
{
    PyObject *object, *value;
    const char *name;
    (void)self;
    if (!PyArg_ParseTuple(args, "O!sO!:Constant", &parameter_type, &object, &name, &nd_type, &value))
        return NULL;
    MX_SCOPE;
    return adopt_parameter((parameter_object *)object, mx_constant_new(name, nd_array(value)), NULL, NULL)
               ? NULL
               : core_new_ref(Py_None);
}

/* initialize(init=None, ctx=None, default_init=None, force_reinit=False); an explicit init overrides the parameter's own. */
static PyObject *parameter_initialize(PyObject *object, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"init", "ctx", "default_init", "force_reinit", NULL};
    PyObject *init = Py_None, *where = Py_None, *fallback = Py_None;
    int force = 0, count;
    mx_context contexts[MX_MAX_CONTEXTS];
    mx_parameter *p = parameter_of(object);
    if (!p ||
        !PyArg_ParseTupleAndKeywords(args, keywords, "|OOOp:initialize", names, &init, &where, &fallback, &force) ||
        contexts_from(where, contexts, &count))
        return NULL;
    MX_SCOPE;
    mx_initializer *explicit = init == Py_None ? NULL : initializer_from(init, p->name);
    mx_initializer *other = fallback == Py_None ? NULL : initializer_from(fallback, p->name);
    if (PyErr_Occurred())
        return NULL;
    mx_initializer *own = p->init;
    if (explicit)
        p->init = explicit;
    const mx_code code = mx_parameter_initialize(p, other, contexts, count, force);
    p->init = own;
    return raise_if(code);
}

/* Rows of a row_sparse parameter are read one by one. */
static bool has_rows(const mx_parameter *p, const char *method)
{
    if (p->stype != MX_ROW_SPARSE)
        return false;
    PyErr_Format(PyExc_RuntimeError,
                 "Parameter '%s' has the storage type 'row_sparse': use row_sparse_data() instead of %s()", p->name,
                 method);
    return true;
}

static PyObject *parameter_data(PyObject *object, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"ctx", NULL};
    PyObject *where = Py_None;
    mx_context context;
    mx_parameter *p = parameter_of(object);
    if (!p)
        return NULL;
    if ((PyTuple_GET_SIZE(args) || keywords) && !PyArg_ParseTupleAndKeywords(args, keywords, "|O:data", names, &where))
        return NULL;
    if (has_rows(p, "data") || context_from(where, &context))
        return NULL;
    MX_SCOPE;
    const bool symbolic = mx_is_np_array() && mx_tracing(); /* a forward without F is traced */
    mx_array *x = mx_inferring() || symbolic ? mx_parameter_use(p, context) : mx_parameter_data(p, context);
    return x ? nd_wrap(x) : raise_error();
}

static PyObject *parameter_grad(PyObject *object, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"ctx", NULL};
    PyObject *where = Py_None;
    mx_context context;
    mx_parameter *p = parameter_of(object);
    if (!p || !PyArg_ParseTupleAndKeywords(args, keywords, "|O:grad", names, &where) || context_from(where, &context))
        return NULL;
    mx_array *x = mx_parameter_grad(p, context);
    return x ? nd_wrap(x) : raise_error();
}

static PyObject *list_of(PyObject *object, mx_array *(*get)(mx_parameter *, mx_context))
{
    mx_parameter *p = parameter_of(object);
    if (!p)
        return NULL;
    PyObject *list = PyList_New(0);
    for (int i = 0; list && (i < p->count || i == 0); i++) { /* at least one call: it sets the error */
        mx_array *x = get(p, p->count ? p->contexts[i] : (mx_context){0});
        PyObject *item = x ? nd_wrap(x) : raise_error();
        if (!item || PyList_Append(list, item))
            Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}
static PyObject *parameter_list_data(PyObject *self, PyObject *unused)
{
    const mx_parameter *p = parameter_of(self);
    (void)unused;
    return !p || has_rows(p, "list_data") ? NULL : list_of(self, mx_parameter_data);
}
static PyObject *parameter_list_grad(PyObject *self, PyObject *unused)
{
    return (void)unused, list_of(self, mx_parameter_grad);
}

static PyObject *parameter_list_ctx(PyObject *object, PyObject *unused)
{
    mx_parameter *p = parameter_of(object);
    (void)unused;
    if (!p)
        return NULL;
    if (!p->count) {
        mx_parameter_data(p, (mx_context){0});
        return raise_error();
    }
    PyObject *list = PyList_New(p->count);
    for (int i = 0; list && i < p->count; i++) {
        PyObject *context = context_to(p->contexts[i]);
        if (!context)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, i, context);
    }
    return list;
}

static PyObject *parameter_set_data(PyObject *object, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"data", NULL};
    PyObject *value;
    mx_parameter *p = parameter_of(object);
    if (!p || !PyArg_ParseTupleAndKeywords(args, keywords, "O:set_data", names, &value))
        return NULL;
    PyObject *array = nd_check(value) ? core_new_ref(value) : nd_from_any(value, mx_cpu(0), p->dtype);
    if (!array)
        return NULL;
    mx_mode mode = mx_mode_enter(0, -1);
    const mx_code code = mx_parameter_set_data(p, nd_array(array));
    mx_mode_leave(&mode);
    Py_DECREF(array);
    return raise_if(code);
}
static PyObject *parameter_zero_grad(PyObject *object, PyObject *unused)
{
    mx_parameter *p = parameter_of(object);
    (void)unused;
    return p ? raise_if(mx_parameter_zero_grad(p)) : NULL;
}
static PyObject *parameter_cast(PyObject *object, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"dtype", NULL};
    PyObject *type;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O:cast", names, &type) || parameter_change_dtype(object, type))
        return NULL;
    Py_RETURN_NONE;
}
static PyObject *parameter_reset_ctx(PyObject *object, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"ctx", NULL};
    PyObject *where;
    mx_context contexts[MX_MAX_CONTEXTS];
    int count;
    mx_parameter *p = parameter_of(object);
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O:reset_ctx", names, &where))
        return NULL;
    return !p || contexts_from(where, contexts, &count) ? NULL : raise_if(mx_parameter_reset_ctx(p, contexts, count));
}
static PyObject *parameter_finish(PyObject *object, PyObject *unused)
{
    mx_parameter *p = parameter_of(object);
    (void)unused;
    return p ? raise_if(mx_parameter_finish(p)) : NULL;
}

static PyMethodDef parameter_methods[] = {
    {"initialize", (PyCFunction)(void (*)(void))parameter_initialize, METH_VARARGS | METH_KEYWORDS,
     "initialize(init=None, ctx=None, default_init=None, force_reinit=False)\n--\n\nSets the initial value of the parameter."},
    {"data", (PyCFunction)(void (*)(void))parameter_data, METH_VARARGS | METH_KEYWORDS, "data(ctx=None)\n--\n\nThe copy on a context."},
    {"grad", (PyCFunction)(void (*)(void))parameter_grad, METH_VARARGS | METH_KEYWORDS, "grad(ctx=None)\n--\n\nThe gradient on a context."},
    {"list_data", parameter_list_data, METH_NOARGS, "The copies on all contexts."},
    {"list_grad", parameter_list_grad, METH_NOARGS, "The gradients on all contexts."},
    {"list_ctx", parameter_list_ctx, METH_NOARGS, "The contexts on which it was initialized."},
    {"set_data", (PyCFunction)(void (*)(void))parameter_set_data, METH_VARARGS | METH_KEYWORDS, "set_data(data)\n--\n\nSets the value on all contexts."},
    {"zero_grad", parameter_zero_grad, METH_NOARGS, "Sets the gradient to zero."},
    {"cast", (PyCFunction)(void (*)(void))parameter_cast, METH_VARARGS | METH_KEYWORDS, "cast(dtype)\n--\n\nChanges the element type of data and gradient."},
    {"reset_ctx", (PyCFunction)(void (*)(void))parameter_reset_ctx, METH_VARARGS | METH_KEYWORDS, "reset_ctx(ctx)\n--\n\nMoves the parameter to other contexts."},
    {"_finish_deferred_init", parameter_finish, METH_NOARGS, "Carries out a deferred initialization."},
    {NULL, NULL, 0, NULL},
};

/* ---- the type --------------------------------------------------------------------------------------------------------- */

PyTypeObject parameter_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "mxnet._core.Parameter",
    .tp_basicsize = sizeof(parameter_object),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .tp_new = PyType_GenericNew,
    .tp_init = parameter_init,
    .tp_traverse = parameter_traverse,
    .tp_clear = parameter_clear,
    .tp_dealloc = parameter_dealloc,
    .tp_dictoffset = offsetof(parameter_object, dict),
    .tp_weaklistoffset = offsetof(parameter_object, weakrefs),
    .tp_methods = parameter_methods,
    .tp_getset = parameter_getset,
};

/* The methods and properties of parameter_parts.c belong to the type as well. */
static int add_parts(void)
{
    for (PyMethodDef *method = parameter_part_methods; method->ml_name; method++) {
        PyObject *made = PyDescr_NewMethod(&parameter_type, method);
        const int failed = !made || PyDict_SetItemString(parameter_type.tp_dict, method->ml_name, made);
        Py_XDECREF(made);
        if (failed)
            return -1;
    }
    for (PyGetSetDef *part = parameter_part_getset; part->name; part++) {
        PyObject *made = PyDescr_NewGetSet(&parameter_type, part);
        const int failed = !made || PyDict_SetItemString(parameter_type.tp_dict, part->name, made);
        Py_XDECREF(made);
        if (failed)
            return -1;
    }
    return 0;
}

/* ---- the module's part ------------------------------------------------------------------------------------------------- */

static PyMethodDef functions[] = {
    {"set_class", set_class, METH_VARARGS, "The Python class of parameters, constants, dictionaries ..."},
    {"make_constant", make_constant, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

int add_parameters(PyObject *module)
{
    if (PyType_Ready(&parameter_type) || add_parts())
        return -1;
    if (PyModule_AddObjectRef(module, "Parameter", (PyObject *)&parameter_type))
        return -1;
    parameter_watch_values();
    return PyModule_AddFunctions(module, functions);
}
