/* Metrics of the library: the C object holds two counts, one since reset() and one since reset_local().
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "core.h"
#include "gluon/train/learning.h"

/* _update(labels or None, preds): lists of arrays */
static PyObject *update(PyObject *self, PyObject *args)
{
    PyObject *labels, *preds;
    mx_array **l = NULL, **p = NULL;
    mx_metric *metric = described_ready(self);
    if (!metric || !PyArg_ParseTuple(args, "OO:_update", &labels, &preds))
        return NULL;
    mx_arrays ps = nd_list(preds, metric->name, &p), ls = {NULL, 0};
    if (ps.n >= 0 && labels != Py_None)
        ls = nd_list(labels, metric->name, &l);
    PyObject *result = NULL;
    if (ps.n >= 0 && ls.n >= 0) {
        PyThreadState *state = let_go(true);
        const mx_code code = mx_metric_update(metric, ls, ps);
        take_back(state);
        result = raise_if(code);
    }
    PyMem_Free(p), PyMem_Free(l);
    return result;
}

static PyObject *value(PyObject *self, PyObject *global)
{
    const mx_metric *metric = described_ready(self);
    if (!metric)
        return NULL;
    return PyFloat_FromDouble(PyObject_IsTrue(global) == 1 ? mx_metric_get_global(metric) : mx_metric_get(metric));
}

/* _clear(global too) */
static PyObject *clear(PyObject *self, PyObject *global)
{
    mx_metric *metric = described_ready(self);
    if (!metric)
        return NULL;
    if (PyObject_IsTrue(global) == 1)
        mx_metric_reset(metric);
    else
        mx_metric_reset_local(metric);
    Py_RETURN_NONE;
}

static PyObject *reduce(PyObject *self, PyObject *unused)
{
    mx_metric *metric = described_ready(self);
    (void)unused;
    if (!metric)
        return NULL;
    PyThreadState *state = let_go(true);
    const mx_code code = mx_metric_reduce(metric);
    take_back(state);
    return raise_if(code);
}

/* ---- counts ----------------------------------------------------------------------------------------------------- */

typedef enum count { SUM, COUNT, GLOBAL_SUM, GLOBAL_COUNT } count;

static double *slot_of(mx_metric *metric, count which)
{
    mx_tally *tally = which < GLOBAL_SUM ? &metric->local : &metric->global;
    return which % 2 == SUM ? &tally->sum : &tally->count;
}

static PyObject *get_count(PyObject *self, void *which)
{
    mx_metric *metric = described_ready(self);
    if (!metric)
        return NULL;
    const double number = *slot_of(metric, (count)(intptr_t)which);
    return (intptr_t)which % 2 == COUNT && number == floor(number) ? PyLong_FromDouble(number)
                                                                   : PyFloat_FromDouble(number);
}

static int set_count(PyObject *self, PyObject *number, void *which)
{
    mx_metric *metric = described_ready(self);
    if (!metric)
        return -1;
    if (!number) {
        PyErr_SetString(PyExc_AttributeError, "it cannot be deleted");
        return -1;
    }
    const double exact = PyFloat_AsDouble(number);
    if (PyErr_Occurred())
        return -1;
    *slot_of(metric, (count)(intptr_t)which) = exact;
    return 0;
}

static PyObject *tally_to(const mx_tally *t)
{
    return Py_BuildValue("(dddddddd)Ly#", t->sum, t->count, t->state[0], t->state[1], t->state[2], t->state[3],
                         t->state[4], t->state[5], (long long)t->side, t->table ? (const char *)t->table : "",
                         (Py_ssize_t)((size_t)(t->side * t->side) * sizeof(double)));
}

static int tally_from(PyObject *source, mx_tally *t)
{
    const char *table;
    Py_ssize_t bytes;
    long long side;
    if (!PyArg_ParseTuple(source, "(dddddddd)Ly#", &t->sum, &t->count, &t->state[0], &t->state[1], &t->state[2],
                          &t->state[3], &t->state[4], &t->state[5], &side, &table, &bytes))
        return -1;
    if (side < 0 || side > 65536 || (size_t)bytes != (size_t)(side * side) * sizeof(double)) {
        PyErr_SetString(PyExc_ValueError, "metric: the saved counts are damaged");
        return -1;
    }
    if (mx_tally_grow(t, side)) {
        raise_error();
        return -1;
    }
    if (side && t->side == side)
        memcpy(t->table, table, (size_t)bytes);
    return 0;
}

/* The counts, for pickling. */
static PyObject *get_tallies(PyObject *self, void *unused)
{
    const mx_metric *metric = described_ready(self);
    (void)unused;
    return metric ? Py_BuildValue("NN", tally_to(&metric->local), tally_to(&metric->global)) : NULL;
}

static int set_tallies(PyObject *self, PyObject *source, void *unused)
{
    PyObject *local, *global;
    mx_metric *metric = described_ready(self);
    (void)unused;
    if (!metric || !source || !PyArg_ParseTuple(source, "OO", &local, &global))
        return -1;
    mx_metric_reset(metric);
    return tally_from(local, &metric->local) || tally_from(global, &metric->global) ? -1 : 0;
}

static PyObject *get_shown_name(PyObject *self, void *unused)
{
    const mx_metric *metric = described_ready(self);
    (void)unused;
    return metric ? PyUnicode_FromString(metric->name) : NULL;
}

/* ---- the type --------------------------------------------------------------------------------------------------- */

static PyMethodDef methods[] = {
    {"_update", update, METH_VARARGS, "_update(labels or None, preds)"},
    {"_value", value, METH_O, "_value(global): NaN when nothing was counted."},
    {"_clear", clear, METH_O, "_clear(global too)"},
    {"_reduce", reduce, METH_NOARGS, "_reduce(): adds the counts of all processes."},
    {NULL, NULL, 0, NULL},
};
#define NUMBER(name, which, doc) \
    { \
        name, get_count, set_count, doc, (void *)(intptr_t)which \
    }
static PyGetSetDef getset[] = {
    NUMBER("sum_metric", SUM, "the sum since the last reset"),
    NUMBER("num_inst", COUNT, "the count since the last reset"),
    NUMBER("global_sum_metric", GLOBAL_SUM, "the sum since reset(), unaffected by reset_local()"),
    NUMBER("global_num_inst", GLOBAL_COUNT, "the count since reset(), unaffected by reset_local()"),
    {"_tallies", get_tallies, set_tallies, NULL, NULL},
    {"_shown_name", get_shown_name, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyTypeObject metric_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "mxnet._core.MetricRow",
    .tp_methods = methods,
    .tp_getset = getset,
    .tp_doc = "A metric of the library.",
};

int add_metrics(PyObject *module) { return add_described_type(module, &metric_type, "MetricRow"); }
