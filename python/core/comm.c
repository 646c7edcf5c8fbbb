/* Messages between processes: functions of the module, which mxnet.distributed wraps.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "gluon/comm.h"

#include <string.h>

#include "base/error.h"
#include "comm/meeting.h"
#include "core.h"

/* Work in the background: an NDArray that must not be used before wait(). */
typedef struct work_object {
    PyObject_HEAD mx_comm_work *work; /* retained */
    PyObject *array;                  /* the NDArray */
} work_object;

static void work_dealloc(PyObject *object)
{
    work_object *self = (work_object *)object;
    PyThreadState *thread = let_go(true); /* it may have to wait */
    mx_release(self->work);
    take_back(thread);
    Py_XDECREF(self->array);
    Py_TYPE(object)->tp_free(object);
}

static PyObject *work_wait(PyObject *object, PyObject *unused)
{
    work_object *self = (work_object *)object;
    (void)unused;
    PyThreadState *thread = let_go(true);
    const mx_code code = mx_comm_wait(self->work);
    take_back(thread);
    return code ? raise_error() : core_new_ref(self->array);
}

static PyObject *work_done(PyObject *object, PyObject *unused)
{
    (void)unused;
    return PyBool_FromLong(mx_comm_done(((work_object *)object)->work));
}

static PyMethodDef work_methods[] = {
    {"wait", work_wait, METH_NOARGS, "wait($self)\n--\n\nWaits for the exchange; returns the array."},
    {"done", work_done, METH_NOARGS, "done($self)\n--\n\nWhether wait() would return at once."},
    {NULL, NULL, 0, NULL},
};
static PyTypeObject work_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "mxnet._core.CommWork",
    .tp_basicsize = sizeof(work_object),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_dealloc = work_dealloc,
    .tp_methods = work_methods,
    .tp_doc = "An exchange between processes that goes on while the program does.",
};

static PyObject *wrap_work(mx_comm_work *work, PyObject *array)
{
    if (!work)
        return raise_error();
    work_object *self = PyObject_New(work_object, &work_type);
    if (!self)
        return NULL;
    self->work = mx_keep(work);
    self->array = core_new_ref(array);
    return (PyObject *)self;
}

/* comm_info(): (name, rank, size, local_rank, local_size) */
static PyObject *info(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    PyThreadState *thread = let_go(true);
    const mx_comm *world = mx_comm_world();
    take_back(thread);
    if (!world)
        return raise_error();
    return Py_BuildValue("(siiii)", mx_comm_name(world), mx_comm_rank(world), mx_comm_size(world),
                         mx_comm_local_rank(world), mx_comm_local_size(world));
}

/* comm_reduce_start(array, how), comm_broadcast_start(array, root) */
static PyObject *start(PyObject *args, bool reduce)
{
    PyObject *array;
    int number;
    if (!PyArg_ParseTuple(args, "O!i", &nd_type, &array, &number))
        return NULL;
    mx_scope scope = mx_scope_open();
    mx_comm *world = mx_comm_world();
    mx_comm_work *work = !world   ? NULL
                         : reduce ? mx_comm_all_reduce_start(world, nd_array(array), (mx_reduction)number)
                                  : mx_comm_broadcast_start(world, nd_array(array), number);
    PyObject *made = wrap_work(work, array);
    mx_scope_close(&scope);
    return made;
}
static PyObject *reduce_start(PyObject *module, PyObject *args) { return (void)module, start(args, true); }
static PyObject *broadcast_start(PyObject *module, PyObject *args) { return (void)module, start(args, false); }

/* comm_gather(array), comm_reduce_scatter(array, how), comm_all_to_all(array): new arrays */
static PyObject *into_new(PyObject *args, int kind)
{
    PyObject *array;
    int how = MX_SUM;
    if (!PyArg_ParseTuple(args, "O!|i", &nd_type, &array, &how))
        return NULL;
    mx_scope scope = mx_scope_open();
    PyThreadState *thread = let_go(true);
    mx_comm *world = mx_comm_world();
    mx_array *x = nd_array(array);
    mx_array *made = !world      ? NULL
                     : kind == 0 ? mx_comm_all_gather(world, x)
                     : kind == 1 ? mx_comm_reduce_scatter(world, x, (mx_reduction)how)
                                 : mx_comm_all_to_all(world, x);
    take_back(thread);
    PyObject *wrapped = made ? nd_wrap(made) : raise_error();
    mx_scope_close(&scope);
    return wrapped;
}
static PyObject *gather(PyObject *module, PyObject *args) { return (void)module, into_new(args, 0); }
static PyObject *reduce_scatter(PyObject *module, PyObject *args) { return (void)module, into_new(args, 1); }
static PyObject *all_to_all(PyObject *module, PyObject *args) { return (void)module, into_new(args, 2); }

/* comm_all_to_all_rows(array, rows): the received rows, and how many came from each process */
static PyObject *all_to_all_rows(PyObject *module, PyObject *args)
{
    PyObject *array, *list, *result = NULL;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!O!", &nd_type, &array, &PyList_Type, &list))
        return NULL;
    const Py_ssize_t n = PyList_Size(list);
    if (n != mx_world_size())
        return PyErr_Format(PyExc_ValueError, "alltoall: splits has %zd numbers, wanted one per process: %d", n,
                            mx_world_size());
    int64_t *rows = PyMem_Calloc(2 * (size_t)n, sizeof *rows), *received = rows + n;
    for (Py_ssize_t i = 0; rows && i < n && !PyErr_Occurred(); i++)
        rows[i] = PyLong_AsLongLong(PyList_GET_ITEM(list, i));
    if (rows && !PyErr_Occurred()) {
        mx_scope scope = mx_scope_open();
        PyThreadState *thread = let_go(true);
        mx_comm *world = mx_comm_world();
        mx_array *made = world ? mx_comm_all_to_all_rows(world, nd_array(array), rows, received) : NULL;
        take_back(thread);
        PyObject *counts = made ? PyList_New(n) : NULL;
        for (Py_ssize_t i = 0; counts && i < n; i++)
            PyList_SET_ITEM(counts, i, PyLong_FromLongLong(received[i]));
        result = !made ? raise_error() : counts ? Py_BuildValue("(NN)", nd_wrap(made), counts) : NULL;
        mx_scope_close(&scope);
    }
    PyMem_Free(rows);
    return result;
}

static PyObject *barrier(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    PyThreadState *thread = let_go(true);
    mx_comm *world = mx_comm_world();
    const mx_code code = world ? mx_comm_barrier(world) : mx_error_code();
    take_back(thread);
    return raise_if(code);
}

/* comm_broadcast_bytes(bytes, root): those of the root */
static PyObject *broadcast_bytes(PyObject *module, PyObject *args)
{
    Py_buffer given;
    int root;
    (void)module;
    if (!PyArg_ParseTuple(args, "y*i", &given, &root))
        return NULL;
    mx_scope scope = mx_scope_open();
    const void *bytes = given.buf;
    size_t count = (size_t)given.len;
    PyThreadState *thread = let_go(true);
    mx_comm *world = mx_comm_world();
    const mx_code code = world ? mx_comm_broadcast_bytes(world, &bytes, &count, root) : mx_error_code();
    take_back(thread);
    PyObject *made = code ? raise_error() : PyBytes_FromStringAndSize(bytes, (Py_ssize_t)count);
    mx_scope_close(&scope);
    PyBuffer_Release(&given);
    return made;
}

static PyObject *fail(PyObject *module, PyObject *message)
{
    const char *text = PyUnicode_AsUTF8(message);
    (void)module;
    if (!text)
        return NULL;
    PyThreadState *thread = let_go(true);
    mx_comm_fail(text);
    take_back(thread);
    Py_RETURN_NONE;
}

static PyObject *shutdown_all(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    PyThreadState *thread = let_go(true);
    const mx_code code = mx_comm_shutdown();
    take_back(thread);
    return raise_if(code);
}

static PyMethodDef functions[] = {
    {"comm_info", info, METH_NOARGS, "comm_info(): name, rank, size, local rank, local size of the processes."},
    {"comm_reduce_start", reduce_start, METH_VARARGS, "comm_reduce_start(array, how)"},
    {"comm_broadcast_start", broadcast_start, METH_VARARGS, "comm_broadcast_start(array, root)"},
    {"comm_gather", gather, METH_VARARGS, "comm_gather(array)"},
    {"comm_reduce_scatter", reduce_scatter, METH_VARARGS, "comm_reduce_scatter(array, how)"},
    {"comm_all_to_all", all_to_all, METH_VARARGS, "comm_all_to_all(array)"},
    {"comm_all_to_all_rows", all_to_all_rows, METH_VARARGS, "comm_all_to_all_rows(array, rows): the rows that came, and how many from each"},
    {"comm_barrier", barrier, METH_NOARGS, "comm_barrier(): until all processes have called it."},
    {"comm_broadcast_bytes", broadcast_bytes, METH_VARARGS, "comm_broadcast_bytes(bytes, root)"},
    {"comm_fail", fail, METH_O, "comm_fail(message): this process fails, the others get an error."},
    {"comm_shutdown", shutdown_all, METH_NOARGS, "comm_shutdown(): ends the communication, together with all others."},
    {NULL, NULL, 0, NULL},
};

/* Threads that wait for each other (SyncBatchNorm of several contexts) let the others run. */
static void *let_others_run(void) { return PyGILState_Check() ? PyEval_SaveThread() : NULL; }
static void take_turn(void *state) { take_back(state); }

int add_comm(PyObject *module)
{
    mx_meeting_around(let_others_run, take_turn);
    return PyType_Ready(&work_type) || PyModule_AddObjectRef(module, "CommWork", (PyObject *)&work_type)
               ? -1
               : PyModule_AddFunctions(module, functions);
}
