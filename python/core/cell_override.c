/* Methods of cells that a Python subclass overrides, as the library calls them (mx_cell.over).
 *
 * Overrides are looked up once, when the object is created.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cell.h"

#include "base/error.h"
#include "exec/list.h"
#include "gluon/compile/trace.h"
#include "graph/node.h"

/* ---- help -------------------------------------------------------------------------------------------------------- */

/* The Python object of a block, when it is called from C: new reference, NULL with an error. */
static PyObject *object_of(const mx_block *block)
{
    if (!block->front)
        mx_fail(MX_ERR_STATE, "%s (%s): its Python object is gone", block->name, block->class_name);
    return block->front && !PyErr_Occurred() ? core_new_ref(block->front) : NULL;
}

/* An exception raised in Python is reported by the function that called into C. */
static mx_code method_failed(const mx_block *block, const char *method)
{
    return mx_has_error()
               ? mx_error_code()
               : mx_fail(MX_ERR_CALLBACK, "%s (%s): %s failed in Python", block->name, block->class_name, method);
}

static PyObject *operators(const mx_array *x)
{
    return PyImport_ImportModule(mx_tracing() || mx_is_symbolic(x) ? "mxnet.symbol" : "mxnet.ndarray");
}

/* ---- overridden methods ------------------------------------------------------------------------------------------ */

static mx_code over_reset(mx_block *block)
{
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *self = object_of(block), *done = self ? PyObject_CallMethod(self, "reset", NULL) : NULL;
    const mx_code code = done ? MX_OK : method_failed(block, "reset");
    Py_XDECREF(done), Py_XDECREF(self);
    PyGILState_Release(state);
    return code;
}

/* One dict of state_info(): {"shape": (2, 5), "__layout__": "NC"}. */
static mx_code read_info(PyObject *dict, mx_state_info *info)
{
    PyObject *shape = PyDict_Check(dict) ? PyDict_GetItemString(dict, "shape") : NULL;
    PyObject *layout = PyDict_Check(dict) ? PyDict_GetItemString(dict, "__layout__") : NULL;
    PyObject *sizes = shape ? PySequence_Fast(shape, "shape") : NULL;
    *info = (mx_state_info){0};
    for (Py_ssize_t i = 0; sizes && i < PySequence_Fast_GET_SIZE(sizes) && i < MX_MAX_NDIM; i++)
        info->shape.d[info->shape.n++] = PyLong_AsLongLong(PySequence_Fast_GET_ITEM(sizes, i));
    if (layout && PyUnicode_Check(layout))
        info->layout = mx_intern(PyUnicode_AsUTF8(layout));
    PyErr_Clear(); /* sizes that are not numbers are not needed here: begin_state calls Python again */
    Py_XDECREF(sizes);
    return MX_OK;
}

static mx_code over_state_info(mx_block *block, int64_t batch_size, mx_state_infos *infos)
{
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *self = object_of(block);
    PyObject *list = self ? PyObject_CallMethod(self, "state_info", "L", (long long)batch_size) : NULL;
    PyObject *all = list ? PySequence_Fast(list, "state_info must return a list of dicts") : NULL;
    mx_code code = all ? MX_OK : method_failed(block, "state_info");
    for (Py_ssize_t i = 0; !code && i < PySequence_Fast_GET_SIZE(all); i++) {
        mx_state_info info;
        read_info(PySequence_Fast_GET_ITEM(all, i), &info);
        if (!mx_vec_push(infos, info))
            code = mx_error_code();
    }
    Py_XDECREF(all), Py_XDECREF(list), Py_XDECREF(self);
    PyGILState_Release(state);
    return code;
}

/* Keywords with which an overridden begin_state() is called. */
static PyObject *begin_words(const mx_begin *how)
{
    PyObject *words =
        how->make == cell_make_state ? PyDict_Copy(((const begin_call *)how->user)->kwargs) : PyDict_New();
    PyObject *func = NULL, *dtype = NULL, *context = NULL, *batch = PyLong_FromLongLong(how->batch_size);
    bool ok = words && batch && !PyDict_SetItemString(words, "batch_size", batch);
    if (how->make == cell_make_state)
        func = core_new_ref(((const begin_call *)how->user)->func ? ((const begin_call *)how->user)->func : Py_None);
    else
        func = from_package(how->symbolic ? "mxnet.symbol" : "mxnet.ndarray", "zeros");
    ok = ok && func && (func == Py_None || !PyDict_SetItemString(words, "func", func));
    if (ok && how->make != cell_make_state && !how->symbolic) {
        context = context_to(how->context), dtype = dtype_to(how->dtype);
        ok = context && dtype && !PyDict_SetItemString(words, "ctx", context) &&
             !PyDict_SetItemString(words, "dtype", dtype);
    }
    Py_XDECREF(func), Py_XDECREF(dtype), Py_XDECREF(context), Py_XDECREF(batch);
    if (!ok)
        Py_CLEAR(words);
    return words;
}

static mx_code over_begin_state(mx_block *block, const mx_begin *how, mx_state_list *states)
{
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *self = object_of(block), *words = self ? begin_words(how) : NULL;
    PyObject *method = words ? PyObject_GetAttrString(self, "begin_state") : NULL, *empty = PyTuple_New(0);
    PyObject *list = method && empty ? PyObject_Call(method, empty, words) : NULL;
    const mx_code code = list && !cell_append(list, states) ? MX_OK : method_failed(block, "begin_state");
    Py_XDECREF(list), Py_XDECREF(empty), Py_XDECREF(method), Py_XDECREF(words), Py_XDECREF(self);
    PyGILState_Release(state);
    return code;
}

static PyObject *merge_to(mx_merge merge)
{
    return core_new_ref(merge == MX_AT_HAND ? Py_None : merge == MX_MERGED ? Py_True : Py_False);
}

/* (outputs, states) of an unroll() in Python. */
static mx_code read_unrolled(const mx_block *block, PyObject *result, mx_unrolled *out)
{
    mx_state_list steps = {0}, states = {0};
    PyObject *outputs, *last;
    if (!PyArg_ParseTuple(result, "OO:unroll", &outputs, &last) || cell_append(last, &states))
        return mx_vec_free(&states), method_failed(block, "unroll");
    if (any_check(outputs))
        out->output = mx_scope_add(mx_retain(any_array(outputs, "unroll")));
    else {
        PyObject *list = PySequence_Fast(outputs, "unroll: outputs must be an array or a list");
        for (Py_ssize_t i = 0; list && i < PySequence_Fast_GET_SIZE(list); i++)
            if (cell_append(PySequence_Fast_GET_ITEM(list, i), &steps))
                Py_CLEAR(list);
        if (!list)
            return mx_vec_free(&states), mx_vec_free(&steps), method_failed(block, "unroll");
        Py_DECREF(list);
        out->steps = mx_state_list_give(&steps);
    }
    out->states = mx_state_list_give(&states);
    return mx_has_error() ? mx_error_code() : MX_OK;
}

static mx_code over_unroll(mx_block *block, const mx_unroll *u, mx_unrolled *out)
{
    PyGILState_STATE state = PyGILState_Ensure();
    const int64_t length = u->length >= 0 ? u->length : mx_sequence_length(&u->inputs, u->layout);
    PyObject *self = object_of(block), *method = self ? PyObject_GetAttrString(self, "unroll") : NULL;
    PyObject *inputs = u->inputs.one ? nd_wrap(u->inputs.one) : cell_list(u->inputs.steps);
    PyObject *begin = u->begun ? cell_list(u->begin) : core_new_ref(Py_None);
    PyObject *lengths = u->valid_length ? nd_wrap(u->valid_length) : core_new_ref(Py_None);
    PyObject *args = Py_BuildValue("(LN)", (long long)length, inputs);
    PyObject *words = Py_BuildValue("{sNsssNsN}", "begin_state", begin, "layout", u->layout, "merge_outputs",
                                    merge_to(u->merge), "valid_length", lengths);
    PyObject *result = method && args && words ? PyObject_Call(method, args, words) : NULL;
    const mx_code code = result ? read_unrolled(block, result, out) : method_failed(block, "unroll");
    Py_XDECREF(result), Py_XDECREF(words), Py_XDECREF(args), Py_XDECREF(method), Py_XDECREF(self);
    PyGILState_Release(state);
    return code;
}

/* (output, states) as a list of arrays. */
static mx_arrays read_step(const mx_block *block, PyObject *result, const char *method)
{
    mx_state_list list = {0};
    if (!result || cell_append(result, &list) || !list.length) {
        mx_vec_free(&list);
        method_failed(block, method);
        return mx_list_failed();
    }
    return mx_state_list_give(&list);
}

static mx_arrays over_call(mx_block *block, mx_arrays in)
{
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *self = object_of(block), *args = self ? cell_arguments(in) : NULL;
    PyObject *result = args ? PyObject_CallObject(self, args) : NULL;
    const mx_arrays out = read_step(block, result, "a call");
    Py_XDECREF(result), Py_XDECREF(args), Py_XDECREF(self);
    PyGILState_Release(state);
    return out;
}

static mx_arrays over_step(mx_block *block, mx_arrays in)
{
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *self = object_of(block), *F = self ? operators(in.v[0]) : NULL, *args = F ? cell_arguments(in) : NULL;
    PyObject *result = args ? PyObject_CallMethod(self, "hybrid_forward", "OOO", F, PyTuple_GET_ITEM(args, 0),
                                                  PyTuple_GET_ITEM(args, 1))
                            : NULL;
    const mx_arrays out = read_step(block, result, "hybrid_forward");
    Py_XDECREF(result), Py_XDECREF(args), Py_XDECREF(F), Py_XDECREF(self);
    PyGILState_Release(state);
    return out;
}

/* _get_activation(F, x, activation, name=...) */
static mx_array *over_activate(mx_block *block, mx_cell_act which, mx_array *x, const char *name)
{
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *self = object_of(block), *F = self ? operators(x) : NULL;
    PyObject *chosen =
        F ? PyObject_GetAttrString(self, which == MX_CELL_ACT ? "_activation" : "_recurrent_activation") : NULL;
    PyObject *method = chosen ? PyObject_GetAttrString(self, "_get_activation") : NULL;
    PyObject *args = method ? Py_BuildValue("(ONO)", F, nd_wrap(x), chosen) : NULL, *words = PyDict_New();
    PyObject *text = name ? PyUnicode_FromFormat("t%lld_%s", (long long)block->cell->counter, name) : NULL;
    const bool ok = args && words && (!text || !PyDict_SetItemString(words, "name", text));
    PyObject *result = ok ? PyObject_Call(method, args, words) : NULL;
    mx_array *active = result ? any_array(result, "_get_activation's result") : NULL;
    active = active ? mx_scope_add(mx_retain(active)) : (method_failed(block, "_get_activation"), NULL);
    Py_XDECREF(result), Py_XDECREF(text), Py_XDECREF(words), Py_XDECREF(args), Py_XDECREF(method);
    Py_XDECREF(chosen), Py_XDECREF(F), Py_XDECREF(self);
    PyGILState_Release(state);
    return active;
}

/* _start_cell(class whose methods are the library's): after _start or _start_layer. */
PyObject *cell_start(PyObject *object, PyObject *base)
{
    mx_block *block = block_of(object);
    if (!block || (!block->cell && mx_cell_attach(block, NULL)))
        return block ? raise_error() : NULL;
    mx_cell_methods *over = &block->cell->over;
    const bool infos = !block_inherits(object, "state_info", base);
    over->reset = block_inherits(object, "reset", base) ? NULL : over_reset;
    over->state_info = infos ? over_state_info : NULL;
    over->begin_state = infos || !block_inherits(object, "begin_state", base) ? over_begin_state : NULL;
    over->unroll = block_inherits(object, "unroll", base) ? NULL : over_unroll;
    over->call = block_inherits(object, "__call__", base) ? NULL : over_call;
    over->step = block_inherits(object, "hybrid_forward", base) ? NULL : over_step;
    PyObject *activation = PyObject_GetAttrString(object, "_activation_in_python");
    const bool by_python = activation && PyObject_IsTrue(activation) == 1;
    Py_XDECREF(activation);
    PyErr_Clear();
    over->activate = by_python || !block_inherits(object, "_get_activation", base) ? over_activate : NULL;
    Py_RETURN_NONE;
}
