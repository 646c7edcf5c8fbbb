/* Executor: the Python object around an mx_executor.  SPDX-License-Identifier: Apache-2.0 */
#include "gluon/executor.h"

#include <string.h>

#include "symbol.h"

typedef struct executor_object {
    PyObject_HEAD mx_executor *executor; /* retained; NULL before a bind */
    PyObject *monitor;                   /* callable(name as bytes, handle of the array as int), or NULL */
    PyObject *given;                     /* handles that the monitor got in the last pass */
    PyObject *dict;
} executor_object;

static PyTypeObject executor_type;

static mx_executor *ready(PyObject *self)
{
    mx_executor *executor = ((executor_object *)self)->executor;
    if (!executor)
        PyErr_SetString(PyExc_RuntimeError, "Executor: it is not bound; use Symbol.bind or Symbol.simple_bind");
    return executor;
}

static int executor_traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(((executor_object *)object)->monitor);
    Py_VISIT(((executor_object *)object)->dict);
    return 0;
}
static int executor_clear(PyObject *object)
{
    Py_CLEAR(((executor_object *)object)->monitor);
    Py_CLEAR(((executor_object *)object)->dict);
    return 0;
}
static void executor_dealloc(PyObject *object)
{
    PyObject_GC_UnTrack(object);
    executor_clear(object);
    handle_drop(&((executor_object *)object)->given);
    mx_release(((executor_object *)object)->executor);
    Py_TYPE(object)->tp_free(object);
}

static int take(PyObject *self, mx_executor *executor)
{
    if (!executor)
        return raise_error(), -1;
    mx_release(((executor_object *)self)->executor);
    ((executor_object *)self)->executor = mx_retain(executor);
    return 0;
}

/* ---- binding ----------------------------------------------------------------------------------------------------- */

static int read_req(PyObject *source, mx_grad_req *req)
{
    const char *text = PyUnicode_Check(source) ? PyUnicode_AsUTF8(source) : NULL;
    const char *const names[] = {"null", "write", "inplace", "add"};
    const mx_grad_req values[] = {MX_GRAD_NULL, MX_GRAD_WRITE, MX_GRAD_WRITE, MX_GRAD_ADD};
    for (int i = 0; text && i < 4; i++)
        if (!strcmp(text, names[i]))
            return *req = values[i], 0;
    PyErr_Format(PyExc_ValueError, "bind: grad_req must be 'write', 'add' or 'null', got %R", source);
    return -1;
}

/* _bind(symbol, ctx, arguments, gradients (None for none), reqs, auxiliary states): lists in the order of the symbol. */
static PyObject *executor_bind(PyObject *self, PyObject *args)
{
    PyObject *symbol, *where, *lists[3], *reqs;
    mx_context context;
    mx_array **items[3] = {NULL};
    mx_arrays arrays[3];
    if (!PyArg_ParseTuple(args, "O!OOOO!O:bind", &sym_type, &symbol, &where, &lists[0], &lists[1], &PyList_Type, &reqs,
                          &lists[2]) ||
        context_from(where, &context) || !sym_symbol(symbol))
        return NULL;
    const Py_ssize_t n = PyList_GET_SIZE(reqs);
    mx_grad_req *req = core_memory((size_t)n + 1, sizeof *req);
    bool ok = req != NULL;
    for (Py_ssize_t i = 0; ok && i < n; i++)
        ok = !read_req(PyList_GET_ITEM(reqs, i), &req[i]);
    for (int i = 0; ok && i < 3; i++)
        ok = (arrays[i] = nd_list(lists[i], "bind", &items[i])).n >= 0;
    int failed = -1;
    if (ok) {
        MX_SCOPE;
        struct mx_bindings bindings = {arrays[0], arrays[1], n ? req : NULL, arrays[2]};
        failed = take(self, mx_bind(sym_symbol(symbol), context, &bindings));
    }
    for (int i = 0; i < 3; i++)
        PyMem_Free(items[i]);
    PyMem_Free(req);
    return failed ? NULL : core_new_ref(Py_None);
}

/* _reshape(executor, names, shapes, partial_shaping, allow_up_sizing): binds to arrays that share that one's memory. */
static PyObject *executor_reshape(PyObject *self, PyObject *args)
{
    PyObject *other, *names, *shapes;
    int partial, grow;
    if (!PyArg_ParseTuple(args, "O!O!O!pp:reshape", &executor_type, &other, &PyList_Type, &names, &PyList_Type, &shapes,
                          &partial, &grow))
        return NULL;
    mx_executor *before = ready(other);
    sym_known k = {0};
    int failed = -1;
    if (before && !read_known(&k, names, shapes, Py_None)) {
        MX_SCOPE;
        struct mx_known given = {.count = k.n, .names = k.names, .shapes = k.shapes};
        failed = take(self, mx_executor_reshape(before, &given, &(struct mx_resizing){partial, grow}));
    }
    free_known(&k);
    return failed ? NULL : core_new_ref(Py_None);
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

static PyObject *executor_forward(PyObject *self, PyObject *training)
{
    mx_executor *executor = ready(self);
    const int on = executor ? PyObject_IsTrue(training) : -1;
    if (on < 0)
        return NULL;
    MX_SCOPE;
    handle_drop(&((executor_object *)self)->given);
    PyThreadState *state = let_go(true);
    mx_arrays out = mx_executor_forward(executor, on);
    take_back(state);
    return out.n > 0 && !PyErr_Occurred() && !mx_error_code() ? nd_wrap_all(out) : raise_error();
}

static PyObject *executor_backward(PyObject *self, PyObject *heads)
{
    mx_executor *executor = ready(self);
    mx_array **items = NULL;
    mx_arrays grads = {0};
    if (!executor || (heads != Py_None && (grads = nd_list(heads, "backward", &items)).n < 0))
        return NULL;
    MX_SCOPE;
    PyThreadState *state = let_go(true);
    const mx_code code = mx_executor_backward(executor, grads);
    take_back(state);
    PyMem_Free(items);
    return raise_if(code);
}

static mx_code on_value(void *user, const char *name, mx_array *value)
{
    PyGILState_STATE state = PyGILState_Ensure();
    executor_object *self = user;
    PyObject *callback = self->monitor, *handle = callback ? handle_give(value, &self->given) : NULL;
    PyObject *done = handle ? PyObject_CallFunction(callback, "yO", name, handle) : NULL;
    const bool failed = callback && !done;
    Py_XDECREF(handle), Py_XDECREF(done);
    PyGILState_Release(state);
    return failed ? mx_error_set(MX_ERR_CALLBACK, "the monitor failed at %s", name) : MX_OK;
}

/* _monitor(callback or None, all) */
static PyObject *executor_monitor(PyObject *object, PyObject *args)
{
    executor_object *self = (executor_object *)object;
    PyObject *callback;
    int all;
    mx_executor *executor = ready(object);
    if (!executor || !PyArg_ParseTuple(args, "Op:set_monitor_callback", &callback, &all))
        return NULL;
    Py_XSETREF(self->monitor, callback == Py_None ? NULL : core_new_ref(callback));
    mx_executor_monitor(executor, self->monitor ? on_value : NULL, self, all);
    Py_RETURN_NONE;
}

/* ---- looking ----------------------------------------------------------------------------------------------------- */

#define ARRAYS(function, source) \
    static PyObject *function(PyObject *self, void *unused) \
    { \
        (void)unused; \
        mx_executor *executor = ready(self); \
        if (!executor) \
            return NULL; \
        MX_SCOPE; \
        return nd_wrap_all(source(executor)); \
    }
ARRAYS(get_arguments, mx_executor_arguments)
ARRAYS(get_gradients, mx_executor_gradients)
ARRAYS(get_auxiliary, mx_executor_auxiliary)

static PyObject *get_outputs(PyObject *self, void *unused)
{
    (void)unused;
    mx_executor *executor = ready(self);
    if (!executor)
        return NULL;
    MX_SCOPE;
    mx_arrays out = mx_executor_outputs(executor);
    if (out.n > 0 && !mx_error_code())
        return nd_wrap_all(out);
    mx_error_clear(); /* before the first forward there are none */
    return PyList_New(0);
}

static PyObject *executor_debug(PyObject *self, PyObject *unused)
{
    mx_executor *executor = ready(self);
    (void)unused;
    if (!executor)
        return NULL;
    MX_SCOPE;
    const char *text = mx_executor_debug(executor);
    return text ? PyUnicode_FromString(text) : raise_error();
}

static PyObject *executor_optimized(PyObject *self, PyObject *unused)
{
    mx_executor *executor = ready(self);
    (void)unused;
    if (!executor)
        return NULL;
    MX_SCOPE;
    return sym_wrap(mx_executor_optimized(executor));
}

static PyGetSetDef executor_getset[] = {
    {"arg_arrays", get_arguments, NULL, "Arrays of the arguments, in the order of list_arguments().", NULL},
    {"grad_arrays", get_gradients, NULL, "Their gradients; None where there is none.", NULL},
    {"aux_arrays", get_auxiliary, NULL, "Arrays of the auxiliary states.", NULL},
    {"outputs", get_outputs, NULL, "Results: the same arrays for life, which every forward writes.", NULL},
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyMethodDef executor_methods[] = {
    {"_bind", executor_bind, METH_VARARGS, NULL},
    {"_reshape", executor_reshape, METH_VARARGS, NULL},
    {"_forward", executor_forward, METH_O, NULL},
    {"_backward", executor_backward, METH_O, NULL},
    {"debug_str", executor_debug, METH_NOARGS,
     "The graph, the nodes of its gradient and the memory that a pass needs, as text."},
    {"_optimized", executor_optimized, METH_NOARGS, NULL},
    {"_monitor", executor_monitor, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
static PyTypeObject executor_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "mxnet._core.Executor",
    .tp_basicsize = sizeof(executor_object),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .tp_new = PyType_GenericNew,
    .tp_traverse = executor_traverse,
    .tp_clear = executor_clear,
    .tp_dealloc = executor_dealloc,
    .tp_dictoffset = offsetof(executor_object, dict),
    .tp_methods = executor_methods,
    .tp_getset = executor_getset,
};

int add_executors(PyObject *module)
{
    return PyType_Ready(&executor_type) || PyModule_AddObjectRef(module, "Executor", (PyObject *)&executor_type) ? -1
                                                                                                                 : 0;
}
