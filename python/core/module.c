/* The module: errors, flags of the process, and the list of its parts.  SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "core.h"
#include "cpu/kernel.h"
#include "gluon/device.h"
#include "skin.h"
#include "block.h"
#include "symbol.h"

/* ---- errors ------------------------------------------------------------------------------------------------ */

static PyObject *error_types[MX_ERR_COUNT]; /* by code; set by mxnet.error */
PyObject *deferred_error;

/* Messages use the C names of functions.  Most of Python's names only lack the prefix: mx_attach_grad is attach_grad. */
static const struct {
    const char *c, *python;
} spellings[] = {
    {"mx_array_to()", "as_in_context()"},
    {"mx_cast()", "astype()"},
    {"mx_trainer_step_ignoring_stale()", "step(batch_size, ignore_stale_grad=True)"},
    {"mx_parameter_set_grad_req()", "grad_req = 'null'"},
    {"mx_executor_reshape()", "reshape()"},
    {"mx_executor_forward() with training = true", "forward(is_train=True)"},
    {"mx_error_set()", "an exception"},
    {"mx_", ""},
};

PyObject *error_text(void)
{
    const char *message = mx_error_code() ? mx_error_message() : "the library failed without an error message";
    PyObject *text = PyUnicode_DecodeUTF8(message, (Py_ssize_t)strlen(message), "replace");
    for (size_t i = 0; text && i < sizeof spellings / sizeof *spellings && strstr(message, "mx_"); i++)
        Py_XSETREF(text, PyObject_CallMethod(text, "replace", "ss", spellings[i].c, spellings[i].python));
    return text;
}

PyObject *raise_error(void)
{
    if (!PyErr_Occurred() && !PyErr_CheckSignals()) { /* a call that was interrupted: KeyboardInterrupt */
        const mx_code code = mx_error_code();
        PyObject *type = code > 0 && code < MX_ERR_COUNT ? error_types[code] : NULL;
        PyObject *text = error_text();
        if (text)
            PyErr_SetObject(type ? type : PyExc_RuntimeError, text);
        Py_XDECREF(text);
    }
    mx_error_clear();
    return NULL;
}

/* Types and exceptions belong to the interpreter that imported the module first: a second one gets an error. */
static PyObject *set_error_types(PyObject *self, PyObject *dict)
{
    static PyInterpreterState *home;
    (void)self;
    if (home && home != PyInterpreterState_Get())
        return PyErr_Format(PyExc_ImportError, "mxnet: another interpreter of this process has imported it already; "
                                               "there can be only one");
    home = PyInterpreterState_Get();
    for (int code = 1; code < MX_ERR_COUNT; code++) {
        PyObject *type = PyDict_GetItemString(dict, mx_error_name((mx_code)code));
        if (!type)
            return PyErr_Format(PyExc_KeyError, "no exception type for '%s'", mx_error_name((mx_code)code));
        Py_XSETREF(error_types[code], core_new_ref(type));
    }
    deferred_error = error_types[MX_ERR_DEFERRED];
    Py_RETURN_NONE;
}

PyObject *from_package(const char *module, const char *name)
{
    PyObject *found = PyImport_ImportModule(module);
    if (!found)
        return NULL;
    PyObject *value = PyObject_GetAttrString(found, name);
    Py_DECREF(found);
    return value;
}

/* ---- the process ------------------------------------------------------------------------------------------- */

static PyObject *seed(PyObject *self, PyObject *value)
{
    (void)self;
    const unsigned long long number = PyLong_AsUnsignedLongLongMask(value);
    if (PyErr_Occurred())
        return NULL;
    mx_random_seed(number);
    Py_RETURN_NONE;
}

static PyObject *wait_all(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    Py_BEGIN_ALLOW_THREADS mx_wait_all();
    Py_END_ALLOW_THREADS return mx_error_code() ? raise_error() : core_new_ref(Py_None);
}

static PyObject *num_gpus(PyObject *self, PyObject *unused)
{
    int count;
    (void)self, (void)unused;
    Py_BEGIN_ALLOW_THREADS count = mx_num_gpus(); /* the first call starts the driver */
    Py_END_ALLOW_THREADS return PyLong_FromLong(count);
}

static PyObject *fail_allocation(PyObject *self, PyObject *number)
{
    (void)self;
    const long long n = PyLong_AsLongLong(number);
    if (PyErr_Occurred())
        return NULL;
    mx_alloc_fail_at(n);
    Py_RETURN_NONE;
}

static PyObject *memory_info(PyObject *self, PyObject *object)
{
    mx_context context;
    size_t unused, all;
    (void)self;
    if (context_from(object, &context))
        return NULL;
    if (mx_memory_info(context, &unused, &all))
        return raise_error();
    return Py_BuildValue("(KK)", (unsigned long long)unused, (unsigned long long)all);
}

static PyObject *memory_used(PyObject *self, PyObject *object)
{
    mx_context context;
    size_t now, most;
    (void)self;
    if (context_from(object, &context))
        return NULL;
    if (mx_memory_used(context, &now, &most))
        return raise_error();
    return Py_BuildValue("(KK)", (unsigned long long)now, (unsigned long long)most);
}

static PyObject *empty_cache(PyObject *self, PyObject *object)
{
    mx_context context;
    mx_code code;
    (void)self;
    if (context_from(object, &context))
        return NULL;
    Py_BEGIN_ALLOW_THREADS code = mx_empty_cache(context);
    Py_END_ALLOW_THREADS if (code) return raise_error();
    Py_RETURN_NONE;
}

static PyObject *cpu_level(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    return PyUnicode_FromString(mx_cpu_level());
}

static PyObject *num_threads(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    return PyLong_FromLong(mx_num_threads());
}

static PyObject *set_num_threads(PyObject *self, PyObject *value)
{
    (void)self;
    const long count = PyLong_AsLong(value);
    if (count == -1 && PyErr_Occurred())
        return NULL;
    if (count < 1 || count > 4096)
        return PyErr_Format(PyExc_ValueError, "set_num_threads: got %ld, expected 1 to 4096", count);
    mx_set_num_threads((int)count);
    Py_RETURN_NONE;
}

static PyObject *set_check(PyObject *self, PyObject *arg)
{
    (void)self;
    const bool before = mx_get_check();
    const int on = PyObject_IsTrue(arg);
    if (on < 0)
        return NULL;
    mx_set_check(on);
    return PyBool_FromLong(before);
}
static PyObject *get_check(PyObject *self, PyObject *unused)
{
    return (void)self, (void)unused, PyBool_FromLong(mx_get_check());
}

/* As cls.name = value.  In Python 3.9 classes of extensions refuse it, unless they look like those of programs. */
static PyObject *set_member(PyObject *self, PyObject *args)
{
    PyTypeObject *type;
    PyObject *name, *value;
    (void)self;
    if (!PyArg_ParseTuple(args, "O!UO:set_member", &PyType_Type, &type, &name, &value))
        return NULL;
    const unsigned long flags = type->tp_flags;
#ifndef Py_TPFLAGS_IMMUTABLETYPE
    type->tp_flags |= Py_TPFLAGS_HEAPTYPE;
#endif
    const int failed = PyType_Type.tp_setattro((PyObject *)type, name, value);
    if (!(flags & Py_TPFLAGS_HEAPTYPE))
        type->tp_flags &= ~Py_TPFLAGS_HEAPTYPE;
    if (failed)
        return NULL;
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"set_member", set_member, METH_VARARGS, "Sets an attribute of a class."},
    {"set_error_types", set_error_types, METH_O, "Exception classes by the library's names of errors."},
    {"seed", seed, METH_O, "Seeds all random numbers."},
    {"wait_all", wait_all, METH_NOARGS, "Waits until all queued work is done."},
    {"num_gpus", num_gpus, METH_NOARGS, "The number of GPUs."},
    {"memory_info", memory_info, METH_O, "(free, total) bytes of a device."},
    {"memory_used", memory_used, METH_O, "(current, peak) bytes that arrays of a device use."},
    {"fail_allocation", fail_allocation, METH_O, "For tests: the n-th allocation from now on fails; 0: none."},
    {"empty_cache", empty_cache, METH_O, "Returns unused memory to the system."},
    {"cpu_level", cpu_level, METH_NOARGS, "The instruction level of the CPU kernels in use: generic; avx2, avx512; neon, armv82, armv86."},
    {"set_check", set_check, METH_O, "Switches checking mode; returns whether it was on."},
    {"get_check", get_check, METH_NOARGS, "Whether checking mode is on."},
    {"num_threads", num_threads, METH_NOARGS, "How many threads kernels use."},
    {"set_num_threads", set_num_threads, METH_O, "How many threads kernels may use."},
    {NULL, NULL, 0, NULL},
};

/* The parts of the module, one per file. */
static int (*const parts[])(PyObject *module) = {
    add_values,
    add_arrays,
    add_numbers,
    add_runtime,
    add_dlpack,
    add_exchange,
    add_operators,
    add_symbols,
    add_np_arrays,
    add_symbol_operators,
    add_symbol_numbers,
    add_symbol_questions,
    add_executors,
    add_autograd,
    add_control,
    add_custom,
    add_files,
    add_signals,
    add_onnx,
    add_summary,
    add_tokenizer,
    add_described,
    add_initializers,
    add_parameters,
    add_params,
    add_blocks,
    add_data,
    add_records,
    add_images,
    add_augmenters,
    add_zoo,
    add_schedulers,
    add_optimizers,
    add_updaters,
    add_comm,
    add_kvstores,
    add_metrics,
    add_trainers,
    add_amp,
    add_loss_scalers,
    add_train_steps,
    add_profiler,
    add_sparse,
};

static int fill(PyObject *module)
{
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (parts[i](module))
            return -1;
    return PyModule_AddStringConstant(module, "version", mx_version());
}

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "mxnet._core", "Python wrappers of libgluon: arrays, operators, autograd, blocks.", -1, functions,
    NULL, NULL, NULL, NULL,
};

/* The wrappers rely on the interpreter's lock.  A Python without one switches it on for this module, unless PYTHON_GIL=0:
 * then the import fails. */
static int need_lock(PyObject *module)
{
#ifdef Py_GIL_DISABLED
    PyObject *flags = PySys_GetObject("flags"), *lock = flags ? PyObject_GetAttrString(flags, "gil") : NULL;
    const bool refused = lock && PyLong_Check(lock) && !PyLong_AsLong(lock);
    Py_XDECREF(lock);
    PyErr_Clear();
    if (refused)
        PyErr_SetString(PyExc_ImportError, "mxnet needs the global interpreter lock, which PYTHON_GIL=0 or -X gil=0 "
                                           "switched off: start Python without them");
    return refused ? -1 : PyUnstable_Module_SetGIL(module, Py_MOD_GIL_USED);
#else
    (void)module;
    return 0;
#endif
}

PyMODINIT_FUNC PyInit__core(void); /* Python finds it by name */
PyMODINIT_FUNC PyInit__core(void)
{
    PyObject *module = PyModule_Create(&definition);
    if (module && (need_lock(module) || fill(module))) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
