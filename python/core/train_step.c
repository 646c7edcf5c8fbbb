/* TrainStep: forward, loss, backward and update as one call of the library.  SPDX-License-Identifier: Apache-2.0 */
#include "block.h"
#include "gluon/step.h"

typedef struct step_object {
    PyObject_HEAD mx_train_step *step; /* retained; NULL before __init__ */
    PyObject *net, *loss, *trainer;    /* kept alive: the library's objects call them back */
    PyObject *dict;
} step_object;

static int step_traverse(PyObject *object, visitproc visit, void *arg)
{
    step_object *self = (step_object *)object;
    Py_VISIT(self->net);
    Py_VISIT(self->loss);
    Py_VISIT(self->trainer);
    Py_VISIT(self->dict);
    return 0;
}
static int step_clear(PyObject *object)
{
    step_object *self = (step_object *)object;
    Py_CLEAR(self->net);
    Py_CLEAR(self->loss);
    Py_CLEAR(self->trainer);
    Py_CLEAR(self->dict);
    return 0;
}
static void step_dealloc(PyObject *object)
{
    PyObject_GC_UnTrack(object);
    mx_release(((step_object *)object)->step);
    step_clear(object);
    Py_TYPE(object)->tp_free(object);
}

/* _start(net, loss, trainer) */
static PyObject *step_start(PyObject *object, PyObject *args)
{
    step_object *self = (step_object *)object;
    PyObject *net, *loss, *trainer;
    if (!PyArg_ParseTuple(args, "OOO:TrainStep", &net, &loss, &trainer))
        return NULL;
    if (!PyObject_TypeCheck(net, &block_type) || !PyObject_TypeCheck(loss, &block_type))
        return PyErr_Format(PyExc_TypeError, "TrainStep: net and loss must be Blocks, got %.100s and %.100s",
                            Py_TYPE(net)->tp_name, Py_TYPE(loss)->tp_name);
    mx_trainer *found = trainer_of(trainer);
    if (!found || !block_of(net) || !block_of(loss))
        return NULL;
    mx_scope scope = mx_scope_open();
    mx_train_step *made = mx_train_step_new(block_of(net), block_of(loss), found);
    if (made) {
        mx_release(self->step);
        self->step = mx_retain(made);
        Py_XSETREF(self->net, core_new_ref(net));
        Py_XSETREF(self->loss, core_new_ref(loss));
        Py_XSETREF(self->trainer, core_new_ref(trainer));
    }
    mx_scope_close(&scope);
    return made ? core_new_ref(Py_None) : raise_error();
}

/* _run(data, label) */
static PyObject *step_run(PyObject *object, PyObject *const *args, Py_ssize_t n)
{
    step_object *self = (step_object *)object;
    if (!self->step || n != 2 || !nd_check(args[0]) || !nd_check(args[1]))
        return PyErr_Format(PyExc_TypeError, self->step ? "TrainStep: expected data and label, two NDArrays"
                                                        : "TrainStep: call __init__ of the base class first");
    mx_scope scope = mx_scope_open();
    PyThreadState *state = let_go(true);
    mx_array *loss = mx_train_step_run(self->step, nd_array(args[0]), nd_array(args[1]));
    take_back(state);
    PyObject *result = loss && !PyErr_Occurred() ? nd_wrap(loss) : raise_error();
    mx_scope_close(&scope);
    return result;
}

static PyObject *get_compiled(PyObject *object, void *unused)
{
    (void)unused;
    const mx_train_step *step = ((step_object *)object)->step;
    return PyBool_FromLong(step && mx_train_step_compiled(step));
}

static PyMethodDef step_methods[] = {
    {"_start", step_start, METH_VARARGS, NULL},
    {"_run", (PyCFunction)(void (*)(void))step_run, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef step_getset[] = {
    {"compiled", get_compiled, NULL, "Whether the last step ran as one plan; False: as the imperative loop.", NULL},
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyTypeObject step_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "mxnet._core.TrainStep",
    .tp_basicsize = sizeof(step_object),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .tp_new = PyType_GenericNew,
    .tp_traverse = step_traverse,
    .tp_clear = step_clear,
    .tp_dealloc = step_dealloc,
    .tp_dictoffset = offsetof(step_object, dict),
    .tp_methods = step_methods,
    .tp_getset = step_getset,
};

int add_train_steps(PyObject *module)
{
    return PyType_Ready(&step_type) || PyModule_AddObjectRef(module, "TrainStep", (PyObject *)&step_type) ? -1 : 0;
}
