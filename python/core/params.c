/* Dictionaries of parameters: Python objects around mx_params (see parameter.c for how they are bound).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "skin.h"

typedef struct params_object {
    PyObject_HEAD mx_params *params; /* retained; NULL before __init__ */
    PyObject *held;                  /* Parameter objects made by get(): they live as long as the dictionary does */
    PyObject *dict, *weakrefs;
} params_object;

mx_params *params_of(PyObject *object)
{
    mx_params *params = ((params_object *)object)->params;
    if (!params)
        PyErr_Format(PyExc_RuntimeError, "%.200s: super().__init__() was not called", Py_TYPE(object)->tp_name);
    return params;
}

PyObject *params_wrap(mx_params *params)
{
    if (!params)
        return raise_error();
    if (params->front)
        return core_new_ref(params->front);
    PyTypeObject *type = class_or(FRONT_PARAMS, &params_type);
    params_object *self = (params_object *)type->tp_alloc(type, 0);
    if (self) {
        self->params = mx_retain(params);
        params->front = self;
    }
    return (PyObject *)self;
}

static int params_traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(((params_object *)object)->dict);
    Py_VISIT(((params_object *)object)->held);
    return 0;
}
static int params_clear(PyObject *object)
{
    Py_CLEAR(((params_object *)object)->dict);
    Py_CLEAR(((params_object *)object)->held);
    return 0;
}
static void params_dealloc(PyObject *object)
{
    params_object *self = (params_object *)object;
    PyObject_GC_UnTrack(object);
    if (self->weakrefs)
        PyObject_ClearWeakRefs(object);
    if (self->params && self->params->front == self)
        self->params->front = NULL;
    params_clear(object);
    mx_release(self->params);
    Py_TYPE(object)->tp_free(object);
}

/* ParameterDict(prefix="", shared=None) */
static int params_init(PyObject *object, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"prefix", "shared", NULL};
    const char *prefix = "";
    PyObject *shared = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|sO:ParameterDict", names, &prefix, &shared))
        return -1;
    if (shared != Py_None && !PyObject_TypeCheck(shared, &params_type)) {
        PyErr_Format(PyExc_TypeError, "ParameterDict: shared must be a ParameterDict, got %.200s",
                     Py_TYPE(shared)->tp_name);
        return -1;
    }
    MX_SCOPE;
    mx_params *made = mx_params_new(prefix, shared == Py_None ? NULL : params_of(shared));
    if (!made)
        return raise_error(), -1;
    params_object *self = (params_object *)object;
    mx_release(self->params);
    self->params = mx_retain(made);
    made->front = self;
    return 0;
}

static PyObject *hold(params_object *self, PyObject *parameter)
{
    if (!parameter)
        return NULL;
    if (!self->held && !(self->held = PyList_New(0)))
        return Py_DECREF(parameter), NULL;
    if (!PySequence_Contains(self->held, parameter) && PyList_Append(self->held, parameter))
        return Py_DECREF(parameter), NULL;
    return parameter;
}

/* What get() asks for must agree with a parameter that exists; what is not given agrees with anything. */
static int contradicts(mx_params *params, const parameter_words *w, struct mx_parameter_options *o)
{
    PyObject *full = PyUnicode_FromFormat("%s%U", params->prefix, w->name);
    const mx_parameter *p = full ? mx_params_find(params, PyUnicode_AsUTF8(full)) : NULL;
    Py_XDECREF(full);
    if (!w->dtype || w->dtype == Py_None)
        o->dtype = MX_DTYPE_NONE;
    const char *what = !p                                                                ? NULL
                       : w->grad_req && w->grad_req != Py_None && o->grad_req != p->req  ? "grad_req"
                       : w->lr_mult && w->lr_mult != Py_None && o->lr_mult != p->lr_mult ? "lr_mult"
                       : w->wd_mult && w->wd_mult != Py_None && o->wd_mult != p->wd_mult ? "wd_mult"
                                                                                         : NULL;
    if (what)
        PyErr_Format(PyExc_AssertionError, "ParameterDict.get: parameter '%s' exists with another %s", p->name, what);
    return what || PyErr_Occurred() ? -1 : 0;
}

/* get(name, **keywords) */
static PyObject *params_get(PyObject *object, PyObject *args, PyObject *keywords)
{
    static char *names[] = {WORDS, NULL};
    parameter_words w = {0};
    struct mx_parameter_options options;
    mx_params *params = params_of(object);
    if (!params || !PyArg_ParseTupleAndKeywords(args, keywords, "U|$OOOOOOOOOO:get", names, WORD_SLOTS(w)))
        return NULL;
    MX_SCOPE;
    if (read_words(&w, &options, "ParameterDict.get") || contradicts(params, &w, &options))
        return NULL;
    mx_parameter *p = mx_params_get_with(params, &options);
    if (!p &&
        (mx_error_code() == MX_ERR_SHAPE || mx_error_code() == MX_ERR_DTYPE || mx_error_code() == MX_ERR_PARAMETER)) {
        PyErr_SetString(PyExc_AssertionError, mx_error_message());
        return raise_error();
    }
    const bool created = p && !p->front && !p->count;
    PyObject *made = p ? parameter_wrap(p) : raise_error();
    if (made && w.init && w.init != Py_None && !(*parameter_init_slot(made)))
        (*parameter_init_slot(made)) = core_new_ref(w.init);
    if (made && created && w.dtype && w.dtype != Py_None && !(*parameter_dtype_slot(made)))
        (*parameter_dtype_slot(made)) = core_new_ref(w.dtype);
    return made ? hold((params_object *)object, made) : NULL;
}

static PyObject *params_add(PyObject *object, PyObject *parameter)
{
    mx_params *params = params_of(object);
    if (!params)
        return NULL;
    if (!PyObject_TypeCheck(parameter, &parameter_type) || !parameter_of(parameter))
        return PyErr_Format(PyExc_TypeError, "ParameterDict: expected a Parameter, got %.200s",
                            Py_TYPE(parameter)->tp_name);
    mx_parameter *known = mx_dict_get(&params->entries, parameter_of(parameter)->name);
    if (known && known != parameter_of(parameter))
        return PyErr_Format(PyExc_AssertionError, "ParameterDict: there is already another parameter named %s",
                            known->name);
    if (!known && mx_params_add(params, parameter_of(parameter)))
        return raise_error();
    return hold((params_object *)object, core_new_ref(parameter)); /* returned: the parameter */
}

static PyObject *params_find(PyObject *object, PyObject *name)
{
    mx_params *params = params_of(object);
    const char *text = params ? PyUnicode_AsUTF8(name) : NULL;
    mx_parameter *p = text ? mx_params_find(params, text) : NULL;
    return !text ? NULL : p ? parameter_wrap(p) : core_new_ref(Py_None);
}

/* Own ones only: a shared parameter belongs to the dictionary once get() has asked for it. */
static mx_parameter *own_of(PyObject *object, PyObject *name)
{
    mx_params *params = params_of(object);
    const char *text = params && PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : NULL;
    return text ? mx_dict_get(&params->entries, text) : NULL;
}
static PyObject *params_subscript(PyObject *object, PyObject *name)
{
    mx_parameter *p = own_of(object, name);
    if (!p && !PyErr_Occurred())
        PyErr_SetObject(PyExc_KeyError, name);
    return p ? parameter_wrap(p) : NULL;
}
static Py_ssize_t params_length(PyObject *object)
{
    mx_params *params = params_of(object);
    return params ? (Py_ssize_t)mx_params_count(params) : -1;
}
static int params_contains(PyObject *object, PyObject *name)
{
    const mx_parameter *p = own_of(object, name);
    return PyErr_Occurred() ? -1 : p != NULL;
}

/* what: 0 names, 1 parameters, 2 pairs */
static PyObject *params_list(PyObject *object, int what)
{
    mx_params *params = params_of(object);
    const int64_t n = params ? mx_params_count(params) : 0;
    PyObject *list = params ? PyList_New(n) : NULL;
    for (int64_t i = 0; list && i < n; i++) {
        const mx_dict_entry *entry = &params->entries.entries[i];
        PyObject *item = what == 0   ? PyUnicode_FromString(entry->key)
                         : what == 1 ? parameter_wrap(entry->pointer)
                                     : Py_BuildValue("sN", entry->key, parameter_wrap(entry->pointer));
        if (!item)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, i, item);
    }
    return list;
}
static PyObject *params_keys(PyObject *self, PyObject *unused) { return (void)unused, params_list(self, 0); }
static PyObject *params_values(PyObject *self, PyObject *unused) { return (void)unused, params_list(self, 1); }
static PyObject *params_items(PyObject *self, PyObject *unused) { return (void)unused, params_list(self, 2); }
static PyObject *params_iter(PyObject *self)
{
    PyObject *list = params_list(self, 0);
    PyObject *iterator = list ? PyObject_GetIter(list) : NULL;
    Py_XDECREF(list);
    return iterator;
}

static PyObject *params_zero_grad(PyObject *object, PyObject *unused)
{
    mx_params *params = params_of(object);
    (void)unused;
    return params ? raise_if(mx_params_zero_grad(params)) : NULL;
}
static PyObject *params_repr(PyObject *object)
{
    MX_SCOPE;
    mx_params *params = params_of(object);
    const char *text = params ? mx_params_text(params) : NULL;
    return text ? PyUnicode_FromString(text) : raise_error();
}
static PyObject *params_prefix(PyObject *object, void *unused)
{
    mx_params *params = params_of(object);
    (void)unused;
    return params ? PyUnicode_FromString(params->prefix) : NULL;
}
static PyObject *params_shared(PyObject *object, void *unused)
{
    mx_params *params = params_of(object);
    (void)unused;
    return !params ? NULL : params->shared ? params_wrap(params->shared) : core_new_ref(Py_None);
}

static PyMethodDef params_methods[] = {
    {"get", (PyCFunction)(void (*)(void))params_get, METH_VARARGS | METH_KEYWORDS,
     "get(name, **keywords)\n--\n\nThe parameter prefix + name: an existing one, a shared one, or a new one."},
    {"_add", params_add, METH_O, "Adds a parameter."},
    {"_find", params_find, METH_O, "The parameter of a full name; None if there is none."},
    {"keys", params_keys, METH_NOARGS, "Full names in order of creation."},
    {"values", params_values, METH_NOARGS, "The parameters."},
    {"items", params_items, METH_NOARGS, "Pairs of name and parameter."},
    {"_set_all", params_set_all, METH_O, "Replaces all parameters by those of a dict."},
    {"zero_grad", params_zero_grad, METH_NOARGS, "Sets all gradients to zero."},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef params_getset[] = {
    {"prefix", params_prefix, NULL, "Prefix of the names of new parameters.", NULL},
    {"_shared", params_shared, NULL, NULL, NULL},
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyMappingMethods params_mapping = {params_length, params_subscript, NULL};
static PySequenceMethods params_sequence = {.sq_length = params_length, .sq_contains = params_contains};

PyTypeObject params_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "mxnet._core.ParameterDict",
    .tp_basicsize = sizeof(params_object),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .tp_new = PyType_GenericNew,
    .tp_init = params_init,
    .tp_traverse = params_traverse,
    .tp_clear = params_clear,
    .tp_dealloc = params_dealloc,
    .tp_dictoffset = offsetof(params_object, dict),
    .tp_weaklistoffset = offsetof(params_object, weakrefs),
    .tp_iter = params_iter,
    .tp_repr = params_repr,
    .tp_as_mapping = &params_mapping,
    .tp_as_sequence = &params_sequence,
    .tp_methods = params_methods,
    .tp_getset = params_getset,
};

/* ---- the module's part ---------------------------------------------------------------------------------------- */

int add_params(PyObject *module)
{
    if (PyType_Ready(&params_type))
        return -1;
    return PyModule_AddObjectRef(module, "ParameterDict", (PyObject *)&params_type);
}
