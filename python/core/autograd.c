/* mx.autograd: modes, backward, gradients, custom functions.  SPDX-License-Identifier: Apache-2.0 */
#include "core.h"

/* ---- modes ----------------------------------------------------------------------------------------------------- */

static PyObject *is_recording(PyObject *self, PyObject *unused)
{
    return (void)self, (void)unused, PyBool_FromLong(mx_is_recording());
}
static PyObject *is_training(PyObject *self, PyObject *unused)
{
    return (void)self, (void)unused, PyBool_FromLong(mx_is_training());
}
static PyObject *set_recording(PyObject *self, PyObject *on)
{
    (void)self;
    const int value = PyObject_IsTrue(on);
    return value < 0 ? NULL : PyBool_FromLong(mx_set_recording(value));
}
static PyObject *set_training(PyObject *self, PyObject *on)
{
    (void)self;
    const int value = PyObject_IsTrue(on);
    return value < 0 ? NULL : PyBool_FromLong(mx_set_training(value));
}

/* `with record():` a small object that stores what to restore; it may be entered again. */
typedef struct mode_object {
    PyObject_HEAD int recording, training; /* -1: leave as it is */
    mx_mode saved[8];                      /* of nested entries of the same object */
    int depth;
} mode_object;

static PyObject *mode_enter(PyObject *object, PyObject *unused)
{
    mode_object *self = (mode_object *)object;
    (void)unused;
    if (self->depth == 8)
        return PyErr_Format(PyExc_RuntimeError, "one record() object was entered more than 8 times");
    self->saved[self->depth++] = mx_mode_enter(self->recording, self->training);
    Py_RETURN_NONE;
}
static PyObject *mode_exit(PyObject *object, PyObject *const *args, Py_ssize_t n)
{
    mode_object *self = (mode_object *)object;
    (void)args, (void)n;
    if (self->depth)
        mx_mode_leave(&self->saved[--self->depth]);
    Py_RETURN_NONE;
}
static PyMethodDef mode_methods[] = {
    {"__enter__", mode_enter, METH_NOARGS, NULL},
    {"__exit__", (PyCFunction)(void (*)(void))mode_exit, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};
static PyTypeObject mode_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "mxnet.autograd._RecordingStateScope",
    .tp_basicsize = sizeof(mode_object),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_methods = mode_methods,
    .tp_doc = "What record(), pause(), train_mode() and predict_mode() return.",
};

static PyObject *mode_new(int recording, int training)
{
    mode_object *self = PyObject_New(mode_object, &mode_type);
    if (self)
        self->recording = recording, self->training = training, self->depth = 0;
    return (PyObject *)self;
}

static int training_argument(PyObject *const *args, Py_ssize_t n, PyObject *names, int fallback)
{
    if (n + (names ? PyTuple_GET_SIZE(names) : 0) == 0)
        return fallback;
    if (n > 1 || (names && (n || PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, 0), "train_mode"))))
        return PyErr_SetString(PyExc_TypeError, "the only argument is train_mode"), -1;
    return PyObject_IsTrue(args[0]);
}
static PyObject *record(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    (void)self;
    const int training = training_argument(args, n, names, 1);
    return training < 0 ? NULL : mode_new(1, training);
}
static PyObject *pause_recording(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    (void)self;
    const int training = training_argument(args, n, names, 0);
    return training < 0 ? NULL : mode_new(0, training);
}
static PyObject *train_mode(PyObject *self, PyObject *unused) { return (void)self, (void)unused, mode_new(-1, 1); }
static PyObject *predict_mode(PyObject *self, PyObject *unused) { return (void)self, (void)unused, mode_new(-1, 0); }

/* ---- variables ------------------------------------------------------------------------------------------------- */

static int grad_req_from(PyObject *source, mx_grad_req *req)
{
    static const struct { const char *name; mx_grad_req req; } names[] = {
        {"null", MX_GRAD_NULL}, {"write", MX_GRAD_WRITE}, {"add", MX_GRAD_ADD}};
    for (int i = 0; i < 3; i++)
        if (PyUnicode_Check(source) && !PyUnicode_CompareWithASCIIString(source, names[i].name)) {
            *req = names[i].req;
            return 0;
        }
    PyErr_Format(PyExc_KeyError, "grad_req must be 'write', 'add' or 'null', got %R", source);
    return -1;
}

/* grad_req 'null': x.grad is an array of zeros that backward never writes. */
static mx_code attach_zeros(mx_array *x)
{
    MX_SCOPE;
    const mx_grad_req null = MX_GRAD_NULL;
    mx_array *grad = mx_attach_grad(x, MX_GRAD_WRITE) ? NULL : mx_gradient(x);
    return grad ? mx_mark_variables((mx_arrays){&x, 1}, (mx_arrays){&grad, 1}, &null) : mx_error_code();
}

/* attach_grad(array, grad_req, stype=None) */
static PyObject *attach_grad(PyObject *self, PyObject *args)
{
    PyObject *x, *how, *type = Py_None;
    mx_grad_req req;
    mx_stype stype;
    (void)self;
    if (!PyArg_ParseTuple(args, "O!O|O:attach_grad", &nd_type, &x, &how, &type) || grad_req_from(how, &req) ||
        stype_from(type, &stype, "attach_grad"))
        return NULL;
    if (req == MX_GRAD_NULL)
        return raise_if(attach_zeros(nd_array(x)));
    return raise_if(type == Py_None ? mx_attach_grad(nd_array(x), req) : mx_attach_grad_as(nd_array(x), req, stype));
}

/* mark_variables(variables, gradients, grad_reqs): lists of equal length. */
static PyObject *mark_variables(PyObject *self, PyObject *args)
{
    PyObject *variables, *gradients, *how;
    mx_array **v = NULL, **g = NULL;
    (void)self;
    if (!PyArg_ParseTuple(args, "OOO:mark_variables", &variables, &gradients, &how))
        return NULL;
    mx_arrays vs = nd_list(variables, "mark_variables", &v), gs = {NULL, -2};
    mx_grad_req *reqs = NULL;
    PyObject *result = NULL;
    if (vs.n >= 0)
        gs = nd_list(gradients, "mark_variables", &g);
    if (gs.n >= 0 && (gs.n != vs.n || PySequence_Size(how) != vs.n))
        PyErr_Format(PyExc_ValueError, "mark_variables: %lld variables, %lld gradients and %zd grad_reqs",
                     (long long)vs.n, (long long)gs.n, PySequence_Size(how));
    else if (gs.n >= 0 && (reqs = core_memory((size_t)vs.n + 1, sizeof *reqs))) {
        int failed = 0;
        for (Py_ssize_t i = 0; !failed && i < vs.n; i++) {
            PyObject *item = PySequence_GetItem(how, i);
            failed = !item || grad_req_from(item, &reqs[i]);
            Py_XDECREF(item);
        }
        if (!failed)
            result = raise_if(mx_mark_variables(vs, gs, reqs));
    }
    PyMem_Free(v), PyMem_Free(g), PyMem_Free(reqs);
    return result;
}

/* ---- backward -------------------------------------------------------------------------------------------------- */

/* backward(heads, head_grads or None, retain_graph, train_mode) */
static PyObject *backward(PyObject *self, PyObject *args)
{
    PyObject *heads, *head_grads;
    int retain, training;
    mx_array **h = NULL, **g = NULL;
    (void)self;
    if (!PyArg_ParseTuple(args, "OOpp:backward", &heads, &head_grads, &retain, &training))
        return NULL;
    mx_arrays hs = nd_list(heads, "backward", &h), gs = {NULL, 0};
    if (hs.n >= 0 && head_grads != Py_None)
        gs = nd_list(head_grads, "backward", &g);
    PyObject *result = NULL;
    if (hs.n >= 0 && gs.n >= 0) {
        const mx_backward_options options = {gs, retain, !training};
        mx_scope scope = mx_scope_open();
        PyThreadState *state = let_go(true);
        const mx_code code = mx_backward_all(hs, &options);
        take_back(state);
        mx_scope_close(&scope);
        result = raise_if(code);
    }
    PyMem_Free(h), PyMem_Free(g);
    return result;
}

/* grad(heads, variables, head_grads or None, retain_graph, create_graph, train_mode) -> list */
static PyObject *grad(PyObject *self, PyObject *args)
{
    PyObject *heads, *variables, *head_grads;
    int retain, create, training;
    mx_array **h = NULL, **v = NULL, **g = NULL;
    (void)self;
    if (!PyArg_ParseTuple(args, "OOOppp:grad", &heads, &variables, &head_grads, &retain, &create, &training))
        return NULL;
    mx_arrays hs = nd_list(heads, "grad", &h), vs = {NULL, -2}, gs = {NULL, 0};
    if (hs.n >= 0)
        vs = nd_list(variables, "grad", &v);
    if (vs.n >= 0 && head_grads != Py_None)
        gs = nd_list(head_grads, "grad", &g);
    PyObject *result = NULL;
    if (hs.n >= 0 && vs.n >= 0 && gs.n >= 0) {
        mx_scope scope = mx_scope_open();
        mx_mode mode = mx_mode_enter(-1, training);
        PyThreadState *state = let_go(true);
        mx_arrays grads = mx_grad_of(hs, vs, gs, retain, create);
        take_back(state);
        mx_mode_leave(&mode);
        result = mx_error_code() || PyErr_Occurred() ? raise_error() : nd_wrap_all(grads);
        mx_scope_close(&scope);
    }
    PyMem_Free(h), PyMem_Free(v), PyMem_Free(g);
    return result;
}

/* ---- functions of one's own ------------------------------------------------------------------------------------ */

/* Calls object.method(*arrays) and stores the results, owned by the scope, in out. */
static mx_code call_method(PyObject *object, const char *method, int n_in, mx_array *const *in, int n_out,
                           mx_array **out)
{
    PyObject *args = PyTuple_New(n_in);
    for (int i = 0; args && i < n_in; i++) {
        PyObject *item = in[i] == MX_NONE || !in[i] ? core_new_ref(Py_None) : nd_wrap(in[i]);
        if (!item)
            Py_CLEAR(args);
        else
            PyTuple_SET_ITEM(args, i, item);
    }
    PyObject *function = args ? PyObject_GetAttrString(object, method) : NULL;
    PyObject *result = function ? PyObject_CallObject(function, args) : NULL;
    Py_XDECREF(function), Py_XDECREF(args);
    PyObject *list = !result            ? NULL
                     : nd_check(result) ? PyTuple_Pack(1, result)
                                        : PySequence_Fast(result, "an NDArray or a list of them must be returned");
    Py_XDECREF(result);
    if (list && PySequence_Fast_GET_SIZE(list) != n_out) {
        PyErr_Format(PyExc_AssertionError, "%s of %.200s returned %zd arrays, expected %d", method,
                     Py_TYPE(object)->tp_name, PySequence_Fast_GET_SIZE(list), n_out);
        Py_CLEAR(list);
    }
    for (int i = 0; list && i < n_out; i++) {
        PyObject *item = PySequence_Fast_GET_ITEM(list, i);
        if (item == Py_None) /* no gradient */
            out[i] = NULL;
        else if (nd_check(item))
            out[i] = mx_scope_add(mx_retain(nd_array(item)));
        else {
            PyErr_Format(PyExc_TypeError, "%s of %.200s must return NDArrays, got %.200s", method,
                         Py_TYPE(object)->tp_name, Py_TYPE(item)->tp_name);
            Py_CLEAR(list);
        }
    }
    const bool ok = list != NULL;
    Py_XDECREF(list);
    return ok ? MX_OK : mx_error_set(MX_ERR_CALLBACK, "%s of a Python function failed", method);
}

typedef struct function_user {
    PyObject *object;  /* has _forward and backward; retained */
    PyObject *outputs; /* the results of forward, retained until they are passed on */
} function_user;

static mx_code function_forward(void *user, int n_in, mx_array *const *in, int n_out, mx_array **out)
{
    (void)n_in, (void)in;
    function_user *u = user; /* Python has already run forward: its results are only put on the tape here */
    for (int i = 0; i < n_out; i++)
        out[i] = mx_scope_add(mx_retain(nd_array(PyList_GET_ITEM(u->outputs, i))));
    return MX_OK;
}

static mx_code function_backward(void *user, int n_out, mx_array *const *out_grads, int n_in, mx_array **in_grads)
{
    function_user *u = user;
    PyGILState_STATE state = PyGILState_Ensure();
    mx_code code = PyErr_Occurred() ? mx_error_set(MX_ERR_CALLBACK, "an earlier callback failed")
                                    : call_method(u->object, "backward", n_out, out_grads, n_in, in_grads);
    PyGILState_Release(state);
    return code;
}

static void function_release(void *user)
{
    function_user *u = user;
    PyGILState_STATE state = PyGILState_Ensure();
    Py_XDECREF(u->object), Py_XDECREF(u->outputs);
    PyMem_Free(u);
    PyGILState_Release(state);
}

/* function_call(object, inputs, outputs): outputs that the tape connects to inputs through object.backward. */
static PyObject *function_call(PyObject *self, PyObject *args)
{
    PyObject *object, *inputs, *outputs;
    mx_array **in = NULL;
    (void)self;
    if (!PyArg_ParseTuple(args, "OOO!:function_call", &object, &inputs, &PyList_Type, &outputs))
        return NULL;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(outputs); i++)
        if (!nd_check(PyList_GET_ITEM(outputs, i)))
            return PyErr_Format(PyExc_TypeError, "forward of %.200s must return NDArrays", Py_TYPE(object)->tp_name);
    mx_arrays list = nd_list(inputs, "Function", &in);
    function_user *user = list.n >= 0 ? core_memory(1, sizeof *user) : NULL;
    PyObject *result = NULL;
    if (user) {
        *user = (function_user){core_new_ref(object), core_new_ref(outputs)};
        const mx_function function = {Py_TYPE(object)->tp_name, function_forward, function_backward, function_release,
                                      (int)PyList_GET_SIZE(outputs)};
        mx_scope scope = mx_scope_open();
        mx_arrays made = mx_function_call(&function, user, list);
        result = mx_error_code() ? raise_error() : nd_wrap_all(made);
        mx_scope_close(&scope);
    }
    PyMem_Free(in);
    return result;
}

/* ---- the module's part ----------------------------------------------------------------------------------------- */

#define FAST(function) (PyCFunction)(void (*)(void))function, METH_FASTCALL | METH_KEYWORDS
static PyMethodDef functions[] = {
    {"is_recording", is_recording, METH_NOARGS, "Whether operators are written to the tape."},
    {"is_training", is_training, METH_NOARGS, "Whether layers behave as in training."},
    {"set_recording", set_recording, METH_O, "Sets recording, returns the previous state."},
    {"set_training", set_training, METH_O, "Sets training mode, returns the previous state."},
    {"record", FAST(record), "record(train_mode=True)\n--\n\nA `with` block whose operators are written to the tape."},
    {"pause", FAST(pause_recording),
     "pause(train_mode=False)\n--\n\nA `with` block whose operators are not written to the tape."},
    {"train_mode", train_mode, METH_NOARGS, "A `with` block in which layers behave as in training."},
    {"predict_mode", predict_mode, METH_NOARGS, "A `with` block in which layers behave as in prediction."},
    {"attach_grad", attach_grad, METH_VARARGS, NULL},
    {"mark_variables", mark_variables, METH_VARARGS, NULL},
    {"backward", backward, METH_VARARGS, NULL},
    {"grad", grad, METH_VARARGS, NULL},
    {"function_call", function_call, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

int add_autograd(PyObject *module) { return PyType_Ready(&mode_type) ? -1 : PyModule_AddFunctions(module, functions); }
