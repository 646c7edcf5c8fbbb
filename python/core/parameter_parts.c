/* The parts of a Parameter that programs reach below its methods: copies, gradients, what waits for a shape.
 *
 *     _copies    arrays of all contexts, or None; assigned: these arrays are used from now on (mx_parameter_take)
 *     _grads     their gradients, or None
 *     _waiting   contexts and value of a deferred initialization
 *
 * The Python class gives them their usual names (_data, _grad, _deferred_init).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "parameter.h"

#include "base/error.h"
#include "block.h"
#include "exec/tape.h"

/* ---- attributes outlive their wrapper ------------------------------------------------------------------------------ */

static void release_left(void *state)
{
    if (!Py_IsInitialized())
        return;
    PyGILState_STATE gil = PyGILState_Ensure();
    Py_DECREF((PyObject *)state);
    PyGILState_Release(gil);
}

static PyObject *or_none(PyObject *object) { return object ? object : Py_None; }

void parameter_leave(parameter_object *self)
{
    mx_parameter *p = self->parameter;
    const bool empty = !self->init && !self->dtype && (!self->dict || !PyDict_GET_SIZE(self->dict));
    if (empty || p->object.count <= 1)
        return; /* nothing to leave, or nobody to leave it to */
    PyObject *left = PyTuple_Pack(3, or_none(self->dict), or_none(self->init), or_none(self->dtype));
    if (!left) {
        PyErr_Clear();
        return;
    }
    p->front_state = left, p->front_release = release_left;
}

static void take(PyObject **slot, PyObject *value)
{
    if (value != Py_None)
        Py_XSETREF(*slot, core_new_ref(value));
}

void parameter_resume(parameter_object *self)
{
    PyObject *left = self->parameter->front_state;
    if (!left)
        return;
    self->parameter->front_state = NULL;
    take(&self->dict, PyTuple_GET_ITEM(left, 0));
    take(&self->init, PyTuple_GET_ITEM(left, 1));
    take(&self->dtype, PyTuple_GET_ITEM(left, 2));
    Py_DECREF(left);
}

/* ---- copies and gradients ------------------------------------------------------------------------------------------ */

static PyObject *get_copies(PyObject *object, void *unused)
{
    mx_parameter *p = parameter_of(object);
    (void)unused;
    if (!p || !p->count || p->deferred)
        return p ? core_new_ref(Py_None) : NULL;
    return nd_wrap_all((mx_arrays){p->data, p->count});
}

static int set_copies(PyObject *object, PyObject *value, void *unused)
{
    mx_parameter *p = parameter_of(object);
    mx_array **items = NULL;
    (void)unused;
    if (!p || !value)
        return -1;
    MX_SCOPE;
    const mx_arrays copies = value == Py_None ? (mx_arrays){0} : nd_list(value, p->name, &items);
    mx_code code = MX_OK;
    if (copies.n >= 0 && (code = mx_parameter_take(p, copies)) != MX_OK)
        raise_error();
    PyMem_Free(items);
    return copies.n < 0 || code ? -1 : 0;
}

static PyObject *get_grads(PyObject *object, void *unused)
{
    mx_parameter *p = parameter_of(object);
    (void)unused;
    if (!p || !p->count || p->deferred || p->req == MX_GRAD_NULL)
        return p ? core_new_ref(Py_None) : NULL;
    PyObject *list = PyList_New(0);
    for (int i = 0; list && i < p->count; i++) {
        mx_array *grad = mx_gradient(p->data[i]);
        PyObject *item = grad ? nd_wrap(grad) : core_new_ref(Py_None);
        if (!item || PyList_Append(list, item))
            Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

/* Whether a backward has written one of the gradients. */
static PyObject *get_grads_written(PyObject *object, void *unused)
{
    mx_parameter *p = parameter_of(object);
    bool written = false;
    (void)unused;
    if (!p)
        return NULL;
    for (int i = 0; i < p->count && !p->deferred && p->req != MX_GRAD_NULL; i++) {
        const mx_array *grad = mx_gradient(p->data[i]);
        written |= grad && grad->written;
    }
    return PyBool_FromLong(written);
}

/* _attach(): new gradients of zeros. */
static PyObject *attach_grads(PyObject *object, PyObject *unused)
{
    mx_parameter *p = parameter_of(object);
    (void)unused;
    if (!p)
        return NULL;
    for (int i = 0; i < p->count && !p->deferred && p->req != MX_GRAD_NULL; i++)
        if (mx_attach_grad_as(p->data[i], p->req, p->grad_stype))
            return raise_error();
    Py_RETURN_NONE;
}

/* ---- deferred initialization --------------------------------------------------------------------------------------- */

static PyObject *contexts_of(const mx_parameter *p)
{
    PyObject *contexts = PyList_New(0);
    for (int i = 0; contexts && i < p->count; i++) {
        PyObject *context = context_to(p->contexts[i]);
        if (!context || PyList_Append(contexts, context))
            Py_CLEAR(contexts);
        Py_XDECREF(context);
    }
    return contexts;
}

/* (contexts, initializer, value or None) of a deferred initialization, else None. */
static PyObject *get_waiting(PyObject *object, void *unused)
{
    mx_parameter *p = parameter_of(object);
    (void)unused;
    if (!p || !p->deferred)
        return p ? core_new_ref(Py_None) : NULL;
    PyObject *contexts = contexts_of(p);
    PyObject *init = contexts ? initializer_to(p->deferred_init) : NULL;
    PyObject *value = !init ? NULL : p->deferred_value ? nd_wrap(p->deferred_value) : core_new_ref(Py_None);
    return value ? Py_BuildValue("(NNN)", contexts, init, value) : (Py_XDECREF(contexts), Py_XDECREF(init), NULL);
}

/* ---- _init_impl, where a user replaced it -------------------------------------------------------------------------- */

static _Thread_local mx_parameter *settling; /* its _init_impl is running: what it does is no first value */

static int call_init_impl(mx_parameter *p, PyObject *wrapper)
{
    MX_SCOPE;
    PyObject *value = nd_wrap(mx_array_copy(p->data[0])), *contexts = contexts_of(p);
    PyObject *done = value && contexts ? PyObject_CallMethod(wrapper, "_init_impl", "OO", value, contexts) : NULL;
    Py_XDECREF(value), Py_XDECREF(contexts), Py_XDECREF(done);
    return done ? 0 : -1;
}

/* By its class, or by an attribute of the object itself. */
static bool replaces_init_impl(PyObject *wrapper, PyObject *base)
{
    PyObject *own = ((parameter_object *)wrapper)->dict;
    return (own && PyDict_GetItemString(own, "_init_impl")) || !block_inherits(wrapper, "_init_impl", base);
}

/* The method gets the value that the parameter has, and may put another one in its place. */
static mx_code on_settled(mx_parameter *p)
{
    mx_code code = MX_OK;
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *base = front_class(FRONT_PARAMETER);
    PyObject *wrapper = settling != p && base && !PyErr_Occurred() ? parameter_wrap(p) : NULL;
    if (wrapper && replaces_init_impl(wrapper, base)) {
        mx_parameter *outer = settling;
        mx_mode mode = mx_mode_enter(0, 0);
        settling = p;
        if (call_init_impl(p, wrapper))
            code = mx_error_set(MX_ERR_CALLBACK, "parameter %s: its _init_impl failed", p->name);
        settling = outer;
        mx_mode_leave(&mode);
    }
    Py_XDECREF(wrapper);
    PyGILState_Release(state);
    return code;
}

void parameter_watch_values(void) { mx_parameter_settled = on_settled; }

/* ---- shape and type ------------------------------------------------------------------------------------------------ */

PyObject *parameter_dtype(PyObject *object, void *unused)
{
    const mx_parameter *p = parameter_of(object);
    PyObject *given = ((parameter_object *)object)->dtype;
    mx_dtype type;
    (void)unused;
    if (!p)
        return NULL;
    if (given && !dtype_from(given, &type) && type == p->dtype)
        return core_new_ref(given);
    PyErr_Clear();
    return p->dtype_named ? PyUnicode_FromString(mx_dtype_name(p->dtype)) : dtype_to(p->dtype);
}

/* _shape = ...: replaces the shape without asking whether it fits. */
static PyObject *set_shape(PyObject *object, PyObject *value)
{
    mx_parameter *p = parameter_of(object);
    mx_dims dims = {.n = -1};
    if (!p || (value != Py_None && dims_from(value, &dims, p->name, "shape")))
        return NULL;
    return raise_if(mx_parameter_replace_shape(p, dims));
}

static PyObject *is_made(PyObject *object, void *unused)
{
    return (void)unused, PyBool_FromLong(((parameter_object *)object)->parameter != NULL);
}

static PyObject *is_constant(PyObject *object, void *unused)
{
    const mx_parameter *p = parameter_of(object);
    (void)unused;
    return p ? PyBool_FromLong(p->constant) : NULL;
}

PyMethodDef parameter_part_methods[] = {
    {"_attach", attach_grads, METH_NOARGS, "New gradients of zeros."},
    {"_set_shape", set_shape, METH_O, "Replaces the shape."},
    {NULL, NULL, 0, NULL},
};

PyGetSetDef parameter_part_getset[] = {
    {"_copies", get_copies, set_copies, "The arrays of all contexts; None: not initialized.", NULL},
    {"_grads", get_grads, NULL, "Their gradients; None: there are none.", NULL},
    {"_grads_written", get_grads_written, NULL, "Whether a backward has written a gradient.", NULL},
    {"_waiting", get_waiting, NULL, "Contexts, initializer and value of a deferred initialization, or None.", NULL},
    {"_is_made", is_made, NULL, "Whether __init__ has run.", NULL},
    {"_is_constant", is_constant, NULL, "Whether it was created with a value that stays.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
