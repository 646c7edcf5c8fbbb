/* The profiler for mxnet.profiler: the library's functions, argument by argument.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "core.h"
#include "gluon/profiler.h"

static PyObject *profiler_config(PyObject *self, PyObject *args)
{
    struct mx_profiler_args options = {0};
    int imperative, symbolic, memory;
    (void)self;
    if (!PyArg_ParseTuple(args, "sppp", &options.filename, &imperative, &symbolic, &memory))
        return NULL;
    options.imperative = imperative, options.symbolic = symbolic, options.memory = memory;
    return raise_if(mx_profiler_configure(&options));
}

static PyObject *profiler_run(PyObject *self, PyObject *on)
{
    const int truth = PyObject_IsTrue(on);
    (void)self;
    if (truth < 0)
        return NULL;
    mx_profiler_run(truth);
    Py_RETURN_NONE;
}

static PyObject *profiler_running(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    return PyBool_FromLong(mx_profiler_running());
}

static PyObject *profiler_pause(PyObject *self, PyObject *paused)
{
    const int truth = PyObject_IsTrue(paused);
    (void)self;
    if (truth < 0)
        return NULL;
    mx_profiler_pause(truth);
    Py_RETURN_NONE;
}

static PyObject *profiler_dump(PyObject *self, PyObject *finished)
{
    const int truth = PyObject_IsTrue(finished);
    mx_code code;
    (void)self;
    if (truth < 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS code = mx_profiler_dump(truth);
    Py_END_ALLOW_THREADS return raise_if(code);
}

static PyObject *profiler_table(PyObject *self, PyObject *args)
{
    MX_SCOPE;
    int reset, json, ascending;
    struct mx_profiler_table_args options = {0};
    (void)self;
    if (!PyArg_ParseTuple(args, "ppsp", &reset, &json, &options.sort_by, &ascending))
        return NULL;
    options.reset = reset, options.json = json, options.ascending = ascending;
    const char *text = mx_profiler_table_make(&options);
    return text ? PyUnicode_FromString(text) : raise_error();
}

static PyObject *profiler_now(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    return PyFloat_FromDouble(mx_profiler_now());
}

static PyObject *profiler_span(PyObject *self, PyObject *args)
{
    const char *domain, *name;
    double start;
    (void)self;
    if (!PyArg_ParseTuple(args, "ssd", &domain, &name, &start))
        return NULL;
    mx_profiler_span(domain, name, start);
    Py_RETURN_NONE;
}

static PyObject *profiler_counter(PyObject *self, PyObject *args)
{
    const char *domain, *name;
    double value;
    (void)self;
    if (!PyArg_ParseTuple(args, "ssd", &domain, &name, &value))
        return NULL;
    mx_profiler_counter(domain, name, value);
    Py_RETURN_NONE;
}

static PyObject *profiler_marker(PyObject *self, PyObject *args)
{
    const char *domain, *name, *scope;
    (void)self;
    if (!PyArg_ParseTuple(args, "sss", &domain, &name, &scope))
        return NULL;
    return raise_if(mx_profiler_marker(domain, name, scope));
}

static PyObject *memory_in_use(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    const mx_alloc_stats s = mx_alloc_get_stats();
    return Py_BuildValue("{sLsLsLsLsL}", "live_bytes", (long long)s.live_bytes, "live_blocks", (long long)s.live_blocks,
                         "cached_bytes", (long long)s.cached_bytes, "peak_bytes", (long long)s.peak_bytes, "calls",
                         (long long)s.calls);
}

static PyMethodDef functions[] = {
    {"profiler_config", profiler_config, METH_VARARGS, "filename, imperative, symbolic, memory: what to profile."},
    {"profiler_run", profiler_run, METH_O, "Starts or stops profiling."},
    {"profiler_running", profiler_running, METH_NOARGS, "Whether the profiler is running."},
    {"profiler_pause", profiler_pause, METH_O, "Pauses or resumes profiling."},
    {"profiler_dump", profiler_dump, METH_O, "Writes the trace."},
    {"profiler_table", profiler_table, METH_VARARGS, "reset, json, sort_by, ascending: the statistics as text."},
    {"profiler_now", profiler_now, METH_NOARGS, "Microseconds of the profiler's clock."},
    {"profiler_span", profiler_span, METH_VARARGS, "domain, name, start: work that ends now."},
    {"profiler_counter", profiler_counter, METH_VARARGS, "domain, name, value: the current value of a counter."},
    {"profiler_marker", profiler_marker, METH_VARARGS, "domain, name, scope: an instant event."},
    {"memory_in_use", memory_in_use, METH_NOARGS, "The allocator's counters, by name."},
    {NULL, NULL, 0, NULL},
};

int add_profiler(PyObject *module) { return PyModule_AddFunctions(module, functions); }
