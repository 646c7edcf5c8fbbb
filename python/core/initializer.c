/* Initializers: those of the library, and Python objects that the library calls back.
 *
 *     Xavier()                      its mx_initializer is used as it is
 *     class Mine(Xavier) ...        one that overrides _init_weight or __call__, or any callable(desc, array):
 *                                   an mx_initializer that calls mxnet.initializer._apply(object, name, array)
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/object.h"
#include "core.h"
#include "gluon/block/initialize.h"

static PyObject *plain_call, *plain_weight; /* __call__ and _init_weight of the library's classes, not overridden */

static PyObject *set_initializer_methods(PyObject *module, PyObject *args)
{
    PyObject *call, *weight;
    (void)module;
    if (!PyArg_ParseTuple(args, "OO:set_initializer_methods", &call, &weight))
        return NULL;
    Py_XSETREF(plain_call, core_new_ref(call));
    Py_XSETREF(plain_weight, core_new_ref(weight));
    Py_RETURN_NONE;
}

static bool has_method(PyTypeObject *type, const char *name, const PyObject *wanted)
{
    PyObject *found = PyObject_GetAttrString((PyObject *)type, name);
    Py_XDECREF(found); /* the type keeps it */
    PyErr_Clear();
    return found && found == wanted;
}

/* Set by set_verbosity(): then Python reports every parameter. */
static bool is_verbose(PyObject *source)
{
    PyObject *flag = PyObject_GetAttrString(source, "_verbose");
    const bool verbose = flag && PyObject_IsTrue(flag) == 1;
    Py_XDECREF(flag);
    PyErr_Clear();
    return verbose;
}

static PyTypeObject row_type;

static bool is_plain(PyObject *source)
{
    return PyObject_TypeCheck(source, &row_type) && described_get(source) &&
           has_method(Py_TYPE(source), "__call__", plain_call) &&
           has_method(Py_TYPE(source), "_init_weight", plain_weight) && !is_verbose(source);
}

/* ---- called back ------------------------------------------------------------------------------------------------ */

static mx_code fill_by_python(void *user, const char *name, mx_array *array)
{
    PyGILState_STATE state = PyGILState_Ensure();
    mx_mode mode = mx_mode_enter(0, -1);
    PyObject *apply = PyErr_Occurred() ? NULL : from_package("mxnet.initializer", "_apply");
    PyObject *wrapped = apply ? nd_wrap(array) : NULL;
    PyObject *result = wrapped ? PyObject_CallFunction(apply, "OsO", (PyObject *)user, name, wrapped) : NULL;
    const bool done = result != NULL;
    Py_XDECREF(result), Py_XDECREF(wrapped), Py_XDECREF(apply);
    mx_mode_leave(&mode);
    PyGILState_Release(state);
    return done ? MX_OK : mx_error_set(MX_ERR_CALLBACK, "an initializer written in Python failed");
}

static void release_python(void *user)
{
    PyGILState_STATE state = PyGILState_Ensure();
    Py_DECREF((PyObject *)user);
    PyGILState_Release(state);
}

static mx_initializer *call_back(PyObject *source)
{
    mx_initializer *made = mx_initializer_custom(fill_by_python, source, release_python);
    if (!made)
        raise_error();
    else
        Py_INCREF(source);
    return made;
}

mx_initializer *initializer_from(PyObject *source, const char *who)
{
    if (source == Py_None)
        return NULL;
    if (PyUnicode_Check(source)) {
        PyObject *create = from_package("mxnet.initializer", "create");
        PyObject *made = create ? PyObject_CallFunctionObjArgs(create, source, NULL) : NULL;
        mx_initializer *init = made ? initializer_from(made, who) : NULL;
        Py_XDECREF(made), Py_XDECREF(create);
        return init;
    }
    if (is_plain(source))
        return mx_scope_add(mx_retain(described_get(source)));
    if (PyCallable_Check(source) && !PyType_Check(source))
        return call_back(source);
    PyErr_Format(PyExc_TypeError, "%s: expected an initializer such as mx.init.Xavier() or its name, got %.200s%s", who,
                 PyType_Check(source) ? ((PyTypeObject *)source)->tp_name : Py_TYPE(source)->tp_name,
                 PyType_Check(source) ? ", which is a class: add ()" : "");
    return NULL;
}

PyObject *initializer_to(mx_initializer *init)
{
    if (!init)
        Py_RETURN_NONE;
    if (init->fill == fill_by_python)
        return core_new_ref(init->user);
    if (!init->cls && !init->value)
        Py_RETURN_NONE; /* a function in C */
    PyObject *make = from_package("mxnet.initializer", "_equal_to");
    PyObject *options = !make         ? NULL
                        : init->value ? Py_BuildValue("{sN}", "value", nd_wrap(init->value))
                                      : schema_values(init->cls->schema, init->options);
    PyObject *made =
        options ? PyObject_CallFunction(make, "sO", init->value ? "Constant" : init->cls->name, options) : NULL;
    Py_XDECREF(make), Py_XDECREF(options);
    return made;
}

/* ---- the type --------------------------------------------------------------------------------------------------- */

/* _fill(name, array) */
static PyObject *row_fill(PyObject *self, PyObject *args)
{
    const char *name;
    PyObject *array;
    if (!described_ready(self) || !PyArg_ParseTuple(args, "sO!:_fill", &name, &nd_type, &array))
        return NULL;
    mx_mode mode = mx_mode_enter(0, -1);
    const mx_code code = mx_initializer_fill(described_get(self), name, nd_array(array));
    mx_mode_leave(&mode);
    return raise_if(code);
}

static PyMethodDef row_methods[] = {
    {"_fill", row_fill, METH_VARARGS, "_fill(name, array): writes initial values."},
    {NULL, NULL, 0, NULL},
};

static PyTypeObject row_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "mxnet._core.InitializerRow",
    .tp_methods = row_methods,
    .tp_doc = "An initializer of the library.",
};

static PyMethodDef functions[] = {
    {"set_initializer_methods", set_initializer_methods, METH_VARARGS, "Registers the methods whose overrides the library must call."},
    {NULL, NULL, 0, NULL},
};

int add_initializers(PyObject *module)
{
    return add_described_type(module, &row_type, "InitializerRow") || PyModule_AddFunctions(module, functions) ? -1 : 0;
}
