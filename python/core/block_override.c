/* What a Python subclass overrides, as the library calls it.
 *
 *     __call__, forward   of a hybrid block: mx_block.around, which calls the Python object; super().__call__ and
 *                         super().forward lead to the block itself, which is compiled if it is hybridized
 *     hybrid_forward      mx_block.forward_many: what the block itself computes
 *     forward             of another block: mx_block.forward_many
 *     collect_params      mx_block.collects
 *     infer_shape         called before the first run, by HybridBlock._settle_shapes
 *
 * Overrides are found when the object is created and when such an attribute of it is set: in comparison with the class
 * whose methods are the library's.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "block.h"
#include "exec/list.h"
#include "gluon/rnn/cell.h"

static _Thread_local const block_object *inside; /* C runs the forward of this block itself */

bool block_inside(const block_object *self) { return inside == self; }

/* ---- arguments and results --------------------------------------------------------------------------------------- */

static PyObject *flat_arguments(mx_arrays in)
{
    PyObject *args = PyTuple_New((Py_ssize_t)in.n);
    for (int64_t i = 0; args && i < in.n; i++) {
        PyObject *item = in.v[i] == MX_NONE ? core_new_ref(Py_None) : nd_wrap(in.v[i]);
        if (!item)
            Py_CLEAR(args);
        else
            PyTuple_SET_ITEM(args, i, item);
    }
    return args;
}

PyObject *block_arguments(const block_object *self, mx_arrays in)
{
    int64_t at = 0;
    if (self->in_form)
        return form_give(self->in_form, in, &at);
    return self->block->cell ? cell_arguments(in) : flat_arguments(in);
}

/* What a hybridized block returns is nested in lists, whatever its forward returned. */
static PyObject *form_of_lists(PyObject *form)
{
    if (form == Py_None)
        return core_new_ref(form);
    PyObject *list = PySequence_List(form);
    for (Py_ssize_t i = 0; list && i < PyList_GET_SIZE(list); i++) {
        PyObject *part = form_of_lists(PyList_GET_ITEM(list, i));
        if (!part)
            Py_CLEAR(list);
        else
            PyList_SetItem(list, i, part);
    }
    return list;
}

/* The arrays of a result; how they are nested is kept in *form. */
static mx_arrays results_of(const block_object *self, PyObject *value, PyObject **kept)
{
    mx_array *found[MOST_ARRAYS];
    int64_t n = 0;
    PyObject *form = form_take(value, found, &n, "forward's result");
    if (form && kept && self->block->hybridized)
        Py_SETREF(form, form_of_lists(form));
    if (!form)
        return mx_list_failed();
    if (kept)
        Py_XSETREF(*kept, form);
    else
        Py_DECREF(form);
    mx_array **list = n ? mx_list_new(n) : NULL;
    if (!n)
        mx_fail(MX_ERR_CALLBACK, "%s (%s): forward returned no array", self->block->name, self->block->class_name);
    else if (list)
        memcpy(list, found, (size_t)n * sizeof *list);
    return list ? (mx_arrays){list, n} : mx_list_failed();
}

/* ---- called by the library --------------------------------------------------------------------------------------- */

typedef PyObject *(*callback)(block_object *self, mx_arrays in);

static mx_arrays call_back(mx_block *block, mx_arrays in, callback function, bool itself)
{
    PyGILState_STATE state = PyGILState_Ensure();
    mx_arrays out = mx_list_failed();
    block_object *self = block->front ? (block_object *)core_new_ref(block->front) : NULL;
    if (!self)
        mx_fail(MX_ERR_STATE, "%s (%s): its Python object is gone", block->name, block->class_name);
    PyObject *manager = sym_swap_manager(NULL); /* the block's own scope names its nodes */
    PyObject *result = self && !PyErr_Occurred() ? function(self, in) : NULL;
    if (result)
        out = results_of(self, result, itself ? &self->out_form[mx_thread.modes.training] : NULL);
    else if (PyErr_Occurred())
        block_blame(block);
    sym_swap_manager(manager);
    Py_XDECREF(result), Py_XDECREF(self);
    if (!out.n && !mx_has_error())
        mx_fail(MX_ERR_CALLBACK, "%s (%s): forward failed in Python", block->name, block->class_name);
    if (!out.n && mx_thread.learning)
        PyErr_Clear();
    PyGILState_Release(state);
    return out;
}

static PyObject *call_method(block_object *self, mx_arrays in, const char *name)
{
    PyObject *args = block_arguments(self, in);
    PyObject *function = args ? PyObject_GetAttrString((PyObject *)self, name) : NULL;
    PyObject *result = function ? PyObject_CallObject(function, args) : NULL;
    Py_XDECREF(function), Py_XDECREF(args);
    return result;
}

static PyObject *by_forward(block_object *self, mx_arrays in) { return call_method(self, in, "forward"); }

/* A cell's forward counts its steps; what is around a cell has done so for the call, but not in a trace. */
static PyObject *by_hybrid_forward(block_object *self, mx_arrays in)
{
    const block_object *outer = inside;
    const bool counts = self->block->cell && !self->block->around;
    if (self->block->cell && !counts && mx_thread.modes.tracing)
        mx_cell_count(self->block);
    inside = self;
    PyObject *result = call_method(self, in, counts ? "forward" : "_forward_by_hybrid");
    inside = outer;
    return result;
}

static PyObject *by_call(block_object *self, mx_arrays in)
{
    PyObject *args = self->block->cell ? cell_arguments(in) : flat_arguments(in);
    PyObject *result = args ? PyObject_CallObject((PyObject *)self, args) : NULL;
    Py_XDECREF(args);
    return result;
}

static mx_arrays run_forward(mx_block *block, mx_arrays in) { return call_back(block, in, by_forward, true); }
static mx_arrays run_hybrid(mx_block *block, mx_arrays in) { return call_back(block, in, by_hybrid_forward, true); }
static mx_arrays run_around(mx_block *block, mx_arrays in) { return call_back(block, in, by_call, false); }

static mx_params *collect_in_python(mx_block *block)
{
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *self = block->front && !PyErr_Occurred() ? core_new_ref(block->front) : NULL;
    PyObject *result = self ? PyObject_CallMethod(self, "collect_params", NULL) : NULL;
    mx_params *params = NULL;
    if (result && PyObject_TypeCheck(result, &params_type))
        params = mx_scope_add(mx_retain(params_of(result)));
    else if (result)
        PyErr_Format(PyExc_TypeError, "%s: collect_params returned %.200s, wanted a ParameterDict", block->name,
                     Py_TYPE(result)->tp_name);
    if (!params && !mx_has_error())
        mx_fail(MX_ERR_CALLBACK, "%s (%s): collect_params failed in Python", block->name, block->class_name);
    Py_XDECREF(result), Py_XDECREF(self);
    PyGILState_Release(state);
    return params;
}

/* ---- finding overrides ------------------------------------------------------------------------------------------- */

bool block_inherits(PyObject *object, const char *name, PyObject *from)
{
    MX_ASSERT(!PyErr_Occurred(), "block_inherits would clear an exception");
    PyObject *theirs = PyObject_GetAttrString((PyObject *)Py_TYPE(object), name);
    PyObject *ours = from ? PyObject_GetAttrString(from, name) : NULL;
    PyErr_Clear();
    const bool same = theirs == ours;
    Py_XDECREF(theirs), Py_XDECREF(ours);
    return same;
}

/* By its class, or by an attribute of the object itself. */
static bool overrides(const block_object *self, const char *name)
{
    return (self->dict && PyDict_GetItemString(self->dict, name)) ||
           !block_inherits((PyObject *)self, name, self->base);
}

bool parameter_overrides(PyObject *parameter)
{
    PyObject *base = front_class(FRONT_PARAMETER);
    return base && (!block_inherits(parameter, "data", base) || !block_inherits(parameter, "var", base));
}

/* The block reads a parameter through a method of the user's. */
static bool own_overrides(const mx_block *block)
{
    for (int64_t i = 0; i < block->own.length; i++)
        if (block->own.items[i]->front && parameter_overrides(block->own.items[i]->front))
            return true;
    return false;
}

void block_find_overrides(block_object *self)
{
    mx_block *block = self->block;
    const bool forward = overrides(self, "forward"), call = !block_inherits((PyObject *)self, "__call__", self->base);
    self->overrides_forward = forward;
    self->overrides_hybrid = block->hybrid && (overrides(self, "hybrid_forward") || own_overrides(block));
    self->overrides_shapes = block->hybrid && !self->library && overrides(self, "infer_shape");
    self->forward_only = forward && block->hybrid && !self->library && !self->overrides_hybrid;
    if (self->library) {
        const bool python = self->overrides_hybrid || (forward && !block->hybrid);
        self->native = !forward && !self->overrides_hybrid;
        block->forward_many = !python ? self->library_forward : self->overrides_hybrid ? run_hybrid : run_forward;
    } else
        block->forward_many = block->hybrid && !self->forward_only ? run_hybrid : run_forward;
    block->around = call || (forward && block->hybrid) ? run_around : NULL;
    block->collects = block_inherits((PyObject *)self, "collect_params", self->base) ? NULL : collect_in_python;
    structure_version++;
}

void block_start_overrides(block_object *self, PyObject *base, bool library)
{
    Py_XSETREF(self->base, core_new_ref(base));
    self->library = library;
    self->library_forward = self->block->forward_many;
    block_find_overrides(self);
}
