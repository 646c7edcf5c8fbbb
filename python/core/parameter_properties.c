/* Properties of Parameter objects.  SPDX-License-Identifier: Apache-2.0 */
#include "core.h"
#include "gluon/block/core.h"
#include "parameter.h"

static const struct {
    const char *name;
    mx_grad_req req;
} grad_reqs[] = {{"null", MX_GRAD_NULL}, {"write", MX_GRAD_WRITE}, {"add", MX_GRAD_ADD}};

int parameter_grad_req(PyObject *source, mx_grad_req *req)
{
    for (int i = 0; i < 3; i++)
        if (PyUnicode_Check(source) && !PyUnicode_CompareWithASCIIString(source, grad_reqs[i].name)) {
            *req = grad_reqs[i].req;
            return 0;
        }
    PyErr_Format(PyExc_AssertionError, "grad_req must be one of 'write', 'add' and 'null', got %R", source);
    return -1;
}

int parameter_number(PyObject *source, double *value)
{
    if (!source || source == Py_None)
        return 0;
    *value = PyFloat_AsDouble(source);
    return *value == -1 && PyErr_Occurred() ? -1 : 0;
}

int parameter_change_dtype(PyObject *object, PyObject *type)
{
    mx_dtype dtype;
    mx_parameter *p = parameter_of(object);
    if (!p || dtype_from(type, &dtype) || (mx_parameter_cast(p, dtype) && (raise_error(), true)))
        return -1;
    Py_XSETREF(((parameter_object *)object)->dtype, core_new_ref(type));
    return 0;
}

#define GETTER(name, expression)                                        \
    static PyObject *name(PyObject *object, void *unused)               \
    {                                                                   \
        const mx_parameter *p = parameter_of(object);                   \
        (void)unused;                                                   \
        return p ? expression : NULL;                                   \
    }
GETTER(get_name, PyUnicode_FromString(p->name))
GETTER(get_lr_mult, PyFloat_FromDouble(p->lr_mult))
GETTER(get_wd_mult, PyFloat_FromDouble(p->wd_mult))
GETTER(get_grad_req, PyUnicode_FromString(grad_reqs[p->req == MX_GRAD_ADD ? 2 : p->req].name))
GETTER(get_deferred, PyBool_FromLong(p->deferred))
GETTER(get_allow_deferred, PyBool_FromLong(p->allow_deferred))
GETTER(get_ready, PyBool_FromLong(p->count && !p->deferred))
GETTER(get_initialized, PyBool_FromLong(p->count))
GETTER(get_differentiable, PyBool_FromLong(p->differentiable))

static PyObject *get_shape(PyObject *object, void *unused)
{
    mx_parameter *p = parameter_of(object);
    (void)unused;
    if (!p)
        return NULL;
    const mx_dims dims = mx_parameter_shape(p);
    return dims.n < 0 ? core_new_ref(Py_None) : dims_to(dims.d, dims.n);
}
static int set_shape(PyObject *object, PyObject *value, void *unused)
{
    mx_parameter *p = parameter_of(object);
    mx_dims dims;
    (void)unused;
    if (!p || !value || value == Py_None || dims_from(value, &dims, p->name, "shape"))
        return PyErr_Occurred() ? -1 : 0;
    if (!mx_parameter_set_shape(p, dims))
        return 0;
    PyErr_SetString(PyExc_AssertionError, mx_error_message());
    mx_error_clear();
    return -1;
}
static int set_shape_as_is(PyObject *object, PyObject *value, void *unused)
{
    (void)unused;
    PyObject *done = value ? PyObject_CallMethod(object, "_set_shape", "(O)", value) : NULL;
    Py_XDECREF(done);
    return done ? 0 : -1;
}
static int set_allow_deferred(PyObject *object, PyObject *value, void *unused)
{
    mx_parameter *p = parameter_of(object);
    const int on = p && value ? PyObject_IsTrue(value) : -1;
    (void)unused;
    if (on >= 0)
        p->allow_deferred = on;
    return on < 0 ? -1 : 0;
}
static int set_dtype(PyObject *object, PyObject *value, void *unused)
{
    (void)unused;
    return value ? parameter_change_dtype(object, value) : -1;
}
static int set_mult(PyObject *object, PyObject *value, void *which)
{
    mx_parameter *p = parameter_of(object);
    double number = 1;
    if (!p || !value || parameter_number(value, &number))
        return -1;
    *(which ? &p->wd_mult : &p->lr_mult) = number;
    return 0;
}
static int set_grad_req(PyObject *object, PyObject *value, void *unused)
{
    mx_parameter *p = parameter_of(object);
    mx_grad_req req;
    (void)unused;
    if (!p || !value || parameter_grad_req(value, &req))
        return -1;
    return mx_parameter_set_grad_req(p, req) ? raise_error(), -1 : 0;
}
static PyObject *get_init(PyObject *object, void *unused)
{
    PyObject *init = ((parameter_object *)object)->init;
    const mx_parameter *p = parameter_of(object);
    (void)unused;
    if (init || !p)
        return init ? core_new_ref(init) : NULL;
    return p->constant ? core_new_ref(Py_None) : initializer_to(p->init);
}
static int set_init(PyObject *object, PyObject *value, void *unused)
{
    mx_parameter *p = parameter_of(object);
    (void)unused;
    if (!p || !value)
        return -1;
    MX_SCOPE;
    mx_initializer *init = value == Py_None ? NULL : initializer_from(value, p->name);
    if (PyErr_Occurred())
        return -1;
    mx_release(p->init);
    p->init = mx_retain(init);
    Py_XSETREF(((parameter_object *)object)->init, core_new_ref(value));
    return 0;
}
/* which: NULL: of the data; else of the gradient */
static PyObject *get_stype(PyObject *object, void *which)
{
    const mx_parameter *p = parameter_of(object);
    return p ? PyUnicode_FromString(mx_stype_name(which ? p->grad_stype : p->stype)) : NULL;
}

PyGetSetDef parameter_getset[] = {
    {"name", get_name, NULL, "Full name.", NULL},
    {"shape", get_shape, set_shape, "Shape; unknown dimensions are 0.", NULL},
    {"_shape", get_shape, set_shape_as_is, NULL, NULL},
    {"dtype", parameter_dtype, set_dtype, "Element type, as it was given.", NULL},
    {"_dtype", parameter_dtype, set_dtype, NULL, NULL},
    {"lr_mult", get_lr_mult, set_mult, "Multiplies the learning rate.", NULL},
    {"wd_mult", get_wd_mult, set_mult, "Multiplies the weight decay.", (void *)1},
    {"grad_req", get_grad_req, set_grad_req, "'write', 'add' or 'null'.", NULL},
    {"_grad_req", get_grad_req, set_grad_req, NULL, NULL},
    {"init", get_init, set_init, "Initializer of its own; None: the network's.", NULL},
    {"stype", get_stype, NULL, "Kind of storage.", NULL},
    {"_stype", get_stype, NULL, NULL, NULL},
    {"_grad_stype", get_stype, NULL, "Kind of storage of the gradient.", (void *)1},
    {"allow_deferred_init", get_allow_deferred, NULL, "Whether its initialization may be deferred.", NULL},
    {"_allow_deferred_init", get_allow_deferred, set_allow_deferred, NULL, NULL},
    {"_is_deferred", get_deferred, NULL, "Whether its initialization is deferred.", NULL},
    {"_is_ready", get_ready, NULL, "Whether it has data.", NULL},
    {"_is_initialized", get_initialized, NULL, "Whether initialize() was called.", NULL},
    {"_differentiable", get_differentiable, NULL, "Whether it can have a gradient.", NULL},
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
