/* States of optimizers as Python objects, and single steps by hand.
 *
 *     None, an array, or a tuple of arrays; with a float32 master: (master, state) or (state, master)
 *
 * The description of a class says which of these it has (mx_optimizer_methods).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "core.h"
#include "exec/sparse/sparse.h"
#include "gluon/train/learning.h"

static const mx_optimizer_methods *methods_of(const mx_optimizer *o) { return o->cls ? o->cls->methods : NULL; }

/* ---- states ------------------------------------------------------------------------------------------------------- */

/* None, one array, or a tuple of them, as the class has it. */
static PyObject *shaped(const mx_optimizer *o, mx_array *const *arrays)
{
    int n = 0;
    while (n < MX_MAX_STATES && arrays[n])
        n++;
    if (!n)
        Py_RETURN_NONE;
    if (n == 1 && !(methods_of(o) && methods_of(o)->one_in_tuple))
        return nd_wrap(arrays[0]);
    PyObject *list = nd_wrap_all((mx_arrays){arrays, n}), *tuple = list ? PyList_AsTuple(list) : NULL;
    Py_XDECREF(list);
    return tuple;
}

/* The pair of a master and a state in the order of the class; steals both. */
static PyObject *paired(const mx_optimizer *o, PyObject *master, PyObject *inner)
{
    const bool last = methods_of(o) && methods_of(o)->master_last;
    PyObject *pair = master && inner ? PyTuple_Pack(2, last ? inner : master, last ? master : inner) : NULL;
    Py_XDECREF(master), Py_XDECREF(inner);
    return pair;
}

PyObject *state_to(const mx_optimizer *o, const mx_optimizer_state *state)
{
    if (state->own || o->hooks.update)
        return core_new_ref(state->own ? (PyObject *)state->own : Py_None);
    PyObject *inner = shaped(o, state->array);
    return state->master ? paired(o, nd_wrap(state->master), inner) : inner;
}

static int add_part(PyObject *source, mx_array **arrays, int n)
{
    if (PyTuple_Check(source) || PyList_Check(source)) {
        for (Py_ssize_t i = 0; n >= 0 && i < PySequence_Fast_GET_SIZE(source); i++)
            n = add_part(PySequence_Fast_GET_ITEM(source, i), arrays, n);
        return n;
    }
    if (n == MOST_STATE_ARRAYS || (source != Py_None && !nd_check(source))) {
        PyErr_Format(PyExc_TypeError,
                     "optimizer: a state must be None, an NDArray or a tuple of them, this one contains a %.200s",
                     Py_TYPE(source)->tp_name);
        return -1;
    }
    arrays[n] = source == Py_None ? NULL : nd_array(source);
    return n + 1;
}

int state_from(PyObject *source, mx_array *arrays[MOST_STATE_ARRAYS])
{
    return source == Py_None ? 0 : add_part(source, arrays, 0);
}

int warn_of_half(const mx_optimizer *o, const mx_array *weight, int level)
{
    if (o->multi_precision || (weight->dtype != MX_FLOAT16 && weight->dtype != MX_BFLOAT16))
        return 0;
    return PyErr_WarnFormat(PyExc_UserWarning, level,
                            "%s: updates in float16 lose accuracy; multi_precision=True keeps a float32 master",
                            mx_optimizer_name(o));
}

static mx_array *weight_of(const mx_optimizer *o, PyObject *weight)
{
    if (nd_check(weight))
        return nd_array(weight);
    PyErr_Format(PyExc_TypeError, "%s: the weight must be an NDArray, got %.200s", mx_optimizer_name(o),
                 Py_TYPE(weight)->tp_name);
    return NULL;
}

/* create_state(index, weight) of the library's classes */
static PyObject *make_states(PyObject *self, PyObject *object)
{
    mx_array *array[MX_MAX_STATES] = {NULL};
    mx_optimizer *o = described_ready(self);
    mx_array *weight = o ? weight_of(o, object) : NULL;
    if (!weight)
        return NULL;
    mx_scope scope = mx_scope_open();
    mx_mode mode = mx_mode_enter(0, -1);
    PyObject *result = mx_optimizer_make_arrays(o, weight, array) ? raise_error() : shaped(o, array);
    mx_mode_leave(&mode);
    for (int i = 0; i < MX_MAX_STATES; i++)
        mx_release(array[i]);
    mx_scope_close(&scope);
    return result;
}

/* _new_master(weight): a float32 copy; None: the weight has none. */
static PyObject *new_master(PyObject *self, PyObject *object)
{
    const mx_optimizer *o = described_ready(self);
    mx_array *weight = o ? weight_of(o, object) : NULL;
    if (!weight || warn_of_half(o, weight, 2))
        return NULL;
    if (!mx_optimizer_keeps_master(o, weight))
        Py_RETURN_NONE;
    mx_scope scope = mx_scope_open();
    mx_array *master = mx_empty(mx_shape(weight), MX_FLOAT32, weight->context);
    PyObject *result = master && !mx_array_set(master, weight) ? nd_wrap(master) : raise_error();
    mx_scope_close(&scope);
    return result;
}

static PyObject *with_master(PyObject *self, PyObject *args)
{
    PyObject *master, *inner;
    const mx_optimizer *o = described_ready(self);
    if (!o || !PyArg_ParseTuple(args, "OO:_with_master", &master, &inner))
        return NULL;
    return paired(o, core_new_ref(master), core_new_ref(inner));
}

/* _without_master(weight, state): (master, state of the method); None: the weight has no master. */
static PyObject *without_master(PyObject *self, PyObject *args)
{
    PyObject *weight, *state;
    const mx_optimizer *o = described_ready(self);
    if (!o || !PyArg_ParseTuple(args, "O!O:_without_master", &nd_type, &weight, &state))
        return NULL;
    if (!mx_optimizer_keeps_master(o, nd_array(weight)))
        Py_RETURN_NONE;
    PyObject *pair = PySequence_Tuple(state);
    if (pair && PyTuple_GET_SIZE(pair) != 2)
        PyErr_Format(PyExc_ValueError, "%s: the state of a 16-bit weight must be a pair of a state and a master",
                     mx_optimizer_name(o));
    if (!pair || PyErr_Occurred())
        return Py_XDECREF(pair), NULL;
    PyObject *result = paired(o, core_new_ref(PyTuple_GET_ITEM(pair, 0)), core_new_ref(PyTuple_GET_ITEM(pair, 1)));
    Py_DECREF(pair);
    return result;
}

/* ---- steps -------------------------------------------------------------------------------------------------------- */

/* _apply(index, weight, grad, state, lr, wd): one step of the library's class; the update is already counted. */
static PyObject *apply(PyObject *self, PyObject *args)
{
    PyObject *index, *weight, *grad, *state;
    mx_array *array[MOST_STATE_ARRAYS] = {NULL};
    char text[MX_ID_TEXT];
    mx_id id;
    mx_update u = {.state = array};
    mx_optimizer *o = described_ready(self);
    if (!o ||
        !PyArg_ParseTuple(args, "OO!O!Oddd:_apply", &index, &nd_type, &weight, &nd_type, &grad, &state, &u.lr, &u.wd,
                          &u.base_lr) ||
        id_from(index, &id, "optimizer: index of a weight"))
        return NULL;
    const int n = state_from(state, array);
    if (n < 0)
        return NULL;
    u.weight = nd_array(weight), u.grad = nd_array(grad), u.t = mx_optimizer_count(o, id), u.id = id;
    u.name = mx_optimizer_name_of(o, id), u.label = *u.name ? u.name : mx_id_text(id, text);
    mx_scope scope = mx_scope_open();
    PyThreadState *thread = let_go(u.weight->size > LONG_WORK);
    mx_code code = MX_OK;
    for (int i = 0; i < n && n > 1 && !code; i++) /* MXNet stores None for a momentum of 0 */
        if (!array[i] && (mx_optimizer_zeros(u.weight, 1, &array[i]) || !mx_scope_add(array[i])))
            code = mx_error_code();
    code = code ? code : mx_optimizer_apply(o, &u);
    take_back(thread);
    mx_scope_close(&scope);
    return raise_if(code);
}

static mx_code call_function(void *function, mx_array *weight, mx_array *grad)
{
    PyObject *w = nd_wrap(weight), *g = w ? nd_wrap(grad) : NULL;
    PyObject *done = g ? PyObject_CallFunctionObjArgs(function, w, g, NULL) : NULL;
    const bool ok = done != NULL;
    Py_XDECREF(w), Py_XDECREF(g), Py_XDECREF(done);
    return ok ? MX_OK : mx_error_set(MX_ERR_CALLBACK, "update of an optimizer written in Python failed");
}

/* _update_master(weight, grad, master, function): function(master, grad in float32), then weight[:] = master */
static PyObject *update_master(PyObject *self, PyObject *args)
{
    PyObject *weight, *grad, *master, *function;
    (void)self;
    if (!PyArg_ParseTuple(args, "O!O!O!O:_update_master", &nd_type, &weight, &nd_type, &grad, &nd_type, &master,
                          &function))
        return NULL;
    mx_scope scope = mx_scope_open();
    mx_array *grad32 = mx_empty(mx_shape(nd_array(weight)), MX_FLOAT32, nd_array(weight)->context);
    mx_array *dense = grad32 ? mx_sparse_dense(nd_array(grad)) : NULL;
    const bool ok =
        dense && !mx_update_master(nd_array(weight), nd_array(master), grad32, dense, call_function, function);
    mx_scope_close(&scope);
    return ok ? core_new_ref(Py_None) : raise_error();
}

PyMethodDef optimizer_steps[] = {
    {"_make_states", make_states, METH_O, "_make_states(weight): a new state."},
    {"_new_master", new_master, METH_O, "_new_master(weight): a float32 copy, or None."},
    {"_with_master", with_master, METH_VARARGS, "_with_master(master, state): both as one state."},
    {"_without_master", without_master, METH_VARARGS, "_without_master(weight, state): (master, state), or None."},
    {"_apply", apply, METH_VARARGS, "_apply(index, weight, grad, state, lr, wd, base_lr): one step."},
    {"_update_master", update_master, METH_VARARGS, "_update_master(weight, grad, master, function)"},
    {NULL, NULL, 0, NULL},
};
