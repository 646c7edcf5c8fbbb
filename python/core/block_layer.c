/* forward and hybrid_forward of the library's own layers, for subclasses and direct calls.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "block.h"
#include "exec/list.h"
#include "gluon/compile/hybrid.h"
#include "gluon/compile/trace.h"

static mx_code infer_layer(mx_block *block, mx_arrays in)
{
    mx_array *abstract[MOST_ARRAYS];
    for (int64_t i = 0; i < in.n; i++) {
        mx_shape_t shape = mx_array_shape(in.v[i]);
        abstract[i] = in.v[i] == MX_NONE
                          ? MX_NONE
                          : mx_scope_add(mx_array_abstract(&shape, (mx_dtype)in.v[i]->dtype, in.v[i]->context));
        if (!abstract[i])
            return mx_error_code();
    }
    const bool previous = mx_set_inferring(true);
    mx_mode mode = mx_mode_enter(0, -1);
    const bool learned = mx_layer_run(block, (mx_arrays){abstract, in.n}).n > 0;
    mx_mode_leave(&mode);
    mx_set_inferring(previous);
    mx_block_finish_shapes(block, learned);
    return learned ? MX_OK : mx_error_code();
}

static PyObject *wrap_layer(const block_object *self, mx_arrays out)
{
    if (self->block->cell)
        return cell_results(out);
    return !out.n ? raise_error() : out.n == 1 ? nd_wrap(out.v[0]) : nd_wrap_all(out);
}

/* super().forward(x) in a subclass of a layer: runs the layer itself. */
static PyObject *layer_itself(block_object *self, PyObject *args)
{
    block_inputs in;
    mx_block *block = self->block;
    mx_scope scope = mx_scope_open();
    PyObject *result = NULL;
    if (!block_take_arrays(self, args, &in)) {
        const mx_arrays list = {in.v, in.n};
        const bool waits = !mx_inferring() && !mx_thread.modes.tracing && mx_block_waits(block);
        mx_arrays out = waits && infer_layer(block, list) ? mx_list_failed() : mx_layer_run(block, list);
        result = wrap_layer(self, out);
    }
    mx_scope_close(&scope);
    if (in.form)
        Py_DECREF(in.form);
    return result;
}

/* The block's own forward can run as a plan: it is hybridized, the inputs are arrays, and it does not run already. */
static bool can_compile(const block_object *self, PyObject *args)
{
    return self->block->hybridized && !block_inside(self) && !mx_inferring() && !mx_thread.modes.tracing &&
           !block_any_symbol(args);
}

static PyObject *forward_by_hybrid(PyObject *object, PyObject *args)
{
    PyObject *forward = PyObject_GetAttrString(object, "_forward_by_hybrid");
    PyObject *result = forward ? PyObject_CallObject(forward, args) : NULL;
    Py_XDECREF(forward);
    return result;
}

/* forward() of the library, for subclasses and direct calls. */
PyObject *block_forward(PyObject *object, PyObject *args)
{
    block_object *self = (block_object *)object;
    const mx_block *block = block_of(object);
    if (!block)
        return NULL;
    if (can_compile(self, args))
        return block_call_in_c(self, args);
    if (self->overrides_hybrid)
        return forward_by_hybrid(object, args);
    if (block_is_container(block))
        return block_run_children(object, args);
    if (self->native || (self->library && !block->layer)) /* the latter: super().forward of a SymbolBlock */
        return block_call_in_c(self, args);
    if (!block->layer)
        return PyErr_Format(PyExc_NotImplementedError, "%s (%s): forward is not overridden", block->name,
                            block->class_name);
    return layer_itself(self, args);
}

/* _layer_forward(inputs, parameters): hybrid_forward of a layer of the library, with the parameters passed. */
PyObject *block_layer_forward(PyObject *object, PyObject *args)
{
    block_object *self = (block_object *)object;
    PyObject *tuple, *given, *result = NULL;
    mx_array *own[MOST_ARRAYS];
    block_inputs in;
    if (!block_of(object) ||
        !PyArg_ParseTuple(args, "O!O!:hybrid_forward", &PyTuple_Type, &tuple, &PyDict_Type, &given))
        return NULL;
    mx_scope scope = mx_scope_open();
    const mx_dict *attributes = &self->block->attributes;
    bool ok = !block_take_arrays(self, tuple, &in);
    for (int64_t i = 0; ok && i < attributes->length && i < MOST_ARRAYS; i++) {
        PyObject *value = PyDict_GetItemString(given, attributes->entries[i].key);
        own[i] = value && any_check(value) ? any_array(value, "hybrid_forward") : MX_NONE;
        ok = own[i] != NULL;
    }
    if (ok) {
        mx_arrays out =
            mx_layer_forward_with(self->block, (mx_arrays){in.v, in.n}, (mx_arrays){own, attributes->length});
        result = wrap_layer(self, out);
    }
    mx_scope_close(&scope);
    if (in.form)
        Py_DECREF(in.form);
    return result;
}
