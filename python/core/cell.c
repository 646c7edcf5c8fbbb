/* Recurrent cells: the library's functions for Python.
 *
 *     cell.unroll(...)  --- RecurrentCell.unroll ---> mx_cell_unroll_itself ---> children through mx_cell_...
 *                                                                                   | over.unroll, over.call ...
 *                                                                                   v
 *                                             the method that a Python subclass overrides (cell_override.c)
 *
 * The states of a step are a list in Python; in C they follow the input.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cell.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "exec/list.h"
#include "exec/tape.h"
#include "graph/names.h"

/* ---- values ------------------------------------------------------------------------------------------------------ */

PyObject *cell_list(mx_arrays arrays)
{
    PyObject *list = PyList_New((Py_ssize_t)arrays.n);
    for (int64_t i = 0; list && i < arrays.n; i++) {
        PyObject *item = nd_wrap(arrays.v[i]);
        if (!item)
            return Py_DECREF(list), NULL;
        PyList_SET_ITEM(list, i, item);
    }
    return list;
}

PyObject *cell_results(mx_arrays out)
{
    PyObject *output = out.n ? nd_wrap(out.v[0]) : raise_error();
    PyObject *states = output ? cell_list((mx_arrays){out.v + 1, out.n - 1}) : NULL;
    return states ? Py_BuildValue("(NN)", output, states) : (Py_XDECREF(output), NULL);
}

PyObject *cell_arguments(mx_arrays in)
{
    PyObject *x = nd_wrap(in.v[0]), *states = x ? cell_list((mx_arrays){in.v + 1, in.n - 1}) : NULL;
    return states ? Py_BuildValue("(NN)", x, states) : (Py_XDECREF(x), NULL);
}

mx_code cell_append(PyObject *value, mx_state_list *states)
{
    mx_array *found[MOST_ARRAYS];
    int64_t n = 0;
    PyObject *form = form_take(value, found, &n, "states");
    Py_XDECREF(form);
    for (int64_t i = 0; form && i < n; i++)
        if (!mx_vec_push(states, found[i]))
            return mx_error_code();
    return form ? MX_OK : MX_ERR_CALLBACK;
}

/* ---- the library's methods --------------------------------------------------------------------------------------- */

static mx_block *cell_of(PyObject *object)
{
    mx_block *block = block_of(object);
    if (block && block->cell)
        return block;
    if (block)
        PyErr_Format(PyExc_RuntimeError, "%s: super().__init__() was not called before the cell was used", block->name);
    return NULL;
}

PyObject *cell_reset(PyObject *object, PyObject *unused)
{
    mx_block *cell = cell_of(object);
    (void)unused;
    return !cell ? NULL : mx_cell_reset_itself(cell) ? raise_error() : core_new_ref(Py_None);
}

PyObject *cell_state_info(PyObject *object, PyObject *batch)
{
    mx_block *cell = cell_of(object);
    const int64_t batch_size = PyLong_AsLongLong(batch);
    mx_state_infos infos = {0};
    if (!cell || PyErr_Occurred())
        return NULL;
    const mx_code code = mx_cell_infos_itself(cell, batch_size, &infos);
    PyObject *list = code ? raise_error() : PyList_New(0);
    for (int64_t i = 0; list && i < infos.length; i++) {
        const mx_state_info *info = &infos.items[i];
        PyObject *shape = PyTuple_New(info->shape.n);
        for (int k = 0; shape && k < info->shape.n; k++)
            PyTuple_SET_ITEM(shape, k, PyLong_FromLongLong(info->shape.d[k]));
        PyObject *dict = shape ? Py_BuildValue("{sNsz}", "shape", shape, "__layout__", info->layout) : NULL;
        if (!dict || PyList_Append(list, dict))
            Py_CLEAR(list);
        Py_XDECREF(dict);
    }
    mx_vec_free(&infos);
    return list;
}

/* nd.zeros, or sym.zeros for the cell inside a modifier where the batch is not known. */
static PyObject *func_of(const begin_call *call, const mx_begin *how)
{
    if (call->func)
        return core_new_ref(call->func);
    return from_package(how->modified && !how->batch_size ? "mxnet.symbol" : "mxnet.ndarray", "zeros");
}

mx_array *cell_make_state(const mx_begin *how, const mx_state_info *info, const char *name)
{
    const begin_call *call = how->user;
    mx_array *made = NULL;
    PyObject *func = func_of(call, how), *words = func ? PyDict_New() : NULL, *text = PyUnicode_FromString(name);
    PyObject *shape = words ? PyTuple_New(info->shape.n) : NULL, *result = NULL, *empty = PyTuple_New(0);
    for (int i = 0; shape && i < info->shape.n; i++)
        PyTuple_SET_ITEM(shape, i, PyLong_FromLongLong(info->shape.d[i]));
    if (shape && text && empty && !PyErr_Occurred() && !PyDict_SetItemString(words, "shape", shape) &&
        !PyDict_Update(words, call->kwargs) && !PyDict_SetItemString(words, "name", text))
        result = PyObject_Call(func, empty, words);
    if (result && (made = any_array(result, "begin_state: func's result")))
        mx_scope_add(mx_retain(made));
    else if (!mx_has_error())
        mx_fail(MX_ERR_CALLBACK, "%s: the function that makes states failed in Python", name);
    Py_XDECREF(result), Py_XDECREF(empty), Py_XDECREF(shape), Py_XDECREF(text), Py_XDECREF(words), Py_XDECREF(func);
    return made;
}

/* For a state_info() in Python: func(name=..., **info) for each of its dicts. */
static PyObject *begin_by_dicts(PyObject *object, mx_block *cell, const begin_call *call, const mx_begin *how)
{
    PyObject *infos = PyObject_CallMethod(object, "state_info", "L", (long long)how->batch_size);
    PyObject *all = infos ? PySequence_Fast(infos, "state_info must return a list of dicts") : NULL;
    PyObject *func = all ? func_of(call, how) : NULL, *states = func ? PyList_New(0) : NULL, *empty = PyTuple_New(0);
    for (Py_ssize_t i = 0; states && i < PySequence_Fast_GET_SIZE(all); i++) {
        PyObject *info = PySequence_Fast_GET_ITEM(all, i), *words = PyDict_New(), *state = NULL;
        mx_text name = {0};
        mx_cell_next_state(cell, &name);
        PyObject *text = PyUnicode_FromString(mx_text_to_scope(&name));
        if (words && text && (info == Py_None || !PyDict_Update(words, info)) && !PyDict_Update(words, call->kwargs) &&
            !PyDict_SetItemString(words, "name", text)) {
            if (PyDict_GetItemString(words, "__layout__"))
                PyDict_DelItemString(words, "__layout__");
            state = PyObject_Call(func, empty, words);
        }
        if (!state || PyList_Append(states, state))
            Py_CLEAR(states);
        Py_XDECREF(state), Py_XDECREF(text), Py_XDECREF(words);
    }
    Py_XDECREF(empty), Py_XDECREF(func), Py_XDECREF(all), Py_XDECREF(infos);
    return states;
}

/* _begin(batch_size, func or None, dict of further keywords) */
PyObject *cell_begin_state(PyObject *object, PyObject *args)
{
    mx_block *cell = cell_of(object);
    long long batch_size;
    PyObject *func, *kwargs;
    if (!cell || !PyArg_ParseTuple(args, "LOO!:begin_state", &batch_size, &func, &PyDict_Type, &kwargs))
        return NULL;
    begin_call call = {func == Py_None ? NULL : func, kwargs};
    const mx_begin how = {.batch_size = batch_size, .make = cell_make_state, .user = &call};
    mx_scope scope = mx_scope_open();
    mx_state_list states = {0};
    PyObject *list = NULL;
    if (cell->cell->over.state_info && !(cell->cell->methods && cell->cell->methods->begin_state))
        list = mx_cell_check_free(cell) ? raise_error() : begin_by_dicts(object, cell, &call, &how);
    else
        list = mx_cell_begin_itself(cell, &how, &states) ? raise_error()
                                                         : cell_list((mx_arrays){states.items, states.length});
    mx_vec_free(&states);
    mx_scope_close(&scope);
    return list;
}

/* Inputs of unroll(): an array, or any sequence of arrays. */
static int read_inputs(const char *who, PyObject *inputs, mx_sequence *sequence)
{
    if (any_check(inputs))
        return (sequence->one = any_array(inputs, who)) ? 0 : -1;
    mx_state_list steps = {0};
    PyObject *list = inputs == Py_None ? NULL : PySequence_Fast(inputs, "unroll: inputs must be an array or a list");
    if (inputs == Py_None)
        PyErr_SetString(PyExc_AssertionError, "unroll: inputs is None; pass an array, or a list of one array per step");
    for (Py_ssize_t i = 0; list && i < PySequence_Fast_GET_SIZE(list); i++)
        if (cell_append(PySequence_Fast_GET_ITEM(list, i), &steps))
            Py_CLEAR(list);
    sequence->steps = mx_state_list_give(&steps);
    Py_XDECREF(list);
    return list ? 0 : -1;
}

/* Initial states; for a cell that Python steps, how they are nested is stored. */
static int read_begin(block_object *self, PyObject *begin, mx_unroll *u, mx_array **found)
{
    u->begun = begin != Py_None;
    if (!u->begun)
        return 0;
    PyObject *form = form_take(begin, found, &u->begin.n, "begin_state");
    u->begin.v = found;
    if (!form)
        return -1;
    bool nested = !PyList_Check(form);
    for (Py_ssize_t i = 0; !nested && i < PyList_GET_SIZE(form); i++)
        nested = PyList_GET_ITEM(form, i) != Py_None;
    if (nested && !self->native)
        Py_XSETREF(self->in_form, Py_BuildValue("(OO)", Py_None, form));
    Py_DECREF(form);
    return PyErr_Occurred() ? -1 : 0;
}

static PyObject *give_states(block_object *self, const mx_unroll *u, mx_arrays states)
{
    PyObject *form = self->native || u->valid_length ? NULL : self->out_form[mx_thread.modes.training];
    int64_t at = 0;
    if (!form || !PyTuple_Check(form) || PyTuple_GET_SIZE(form) != 2 || !PyList_Check(PyTuple_GET_ITEM(form, 1)))
        return cell_list(states);
    PyObject *given = form_give(PyTuple_GET_ITEM(form, 1), states, &at);
    if (given && at == states.n)
        return given;
    Py_XDECREF(given);
    PyErr_Clear();
    return cell_list(states);
}

/* Outside of blocks a name manager written in Python names the nodes. */
static char *name_by_manager(const char *name, const char *hint)
{
    PyGILState_STATE state = PyGILState_Ensure();
    const char *text = PyErr_Occurred() ? NULL : sym_name(name, hint);
    char *copy = text ? mx_strdup(text) : NULL;
    if (!copy && !mx_has_error())
        mx_fail(MX_ERR_CALLBACK, "the name manager failed in Python");
    PyGILState_Release(state);
    return copy;
}

/* A manager written in Python names what follows; returns what is to be put back by mx_names_ask. */
static mx_name_fn names_by_python(void)
{
    PyObject *manager = sym_swap_manager(NULL);
    sym_swap_manager(manager);
    return mx_names_ask(manager ? name_by_manager : NULL);
}

static mx_merge read_merge(PyObject *merge)
{
    return merge == Py_None ? MX_AT_HAND : PyObject_IsTrue(merge) ? MX_MERGED : MX_STEPS;
}

/* form_sequence(length, inputs, layout, merge): one array or a list of steps, as merge says; None: what is at hand. */
PyObject *cell_form_sequence(PyObject *module, PyObject *args)
{
    PyObject *inputs, *merge, *result = NULL;
    long long length;
    const char *layout;
    mx_sequence sequence = {0};
    mx_sequence_layout axes;
    (void)module;
    if (!PyArg_ParseTuple(args, "LOsO:form_sequence", &length, &inputs, &layout, &merge))
        return NULL;
    mx_scope scope = mx_scope_open();
    if (!read_inputs("unroll", inputs, &sequence)) {
        const mx_name_fn before = names_by_python();
        const mx_code code =
            mx_sequence_layout_from(layout, &axes) || mx_sequence_form(&sequence, length, &axes, read_merge(merge));
        mx_names_ask(before);
        result = code ? raise_error() : sequence.one ? nd_wrap(sequence.one) : cell_list(sequence.steps);
    }
    mx_scope_close(&scope);
    return result;
}

/* _unroll(length, inputs, begin_state, layout, merge_outputs, valid_length) */
PyObject *cell_unroll(PyObject *object, PyObject *args)
{
    block_object *self = (block_object *)object;
    mx_block *cell = cell_of(object);
    PyObject *length, *inputs, *begin, *merge, *lengths, *result = NULL;
    mx_array *found[MOST_ARRAYS];
    mx_unroll u = {.length = -1};
    mx_unrolled out = {0};
    if (!cell || !PyArg_ParseTuple(args, "OOOsOO:unroll", &length, &inputs, &begin, &u.layout, &merge, &lengths))
        return NULL;
    mx_scope scope = mx_scope_open();
    u.merge = read_merge(merge);
    if (length != Py_None)
        u.length = PyLong_AsLongLong(length);
    if (lengths != Py_None)
        u.valid_length = any_array(lengths, "unroll: valid_length");
    if (!PyErr_Occurred() && !read_inputs(cell->name, inputs, &u.inputs) && !read_begin(self, begin, &u, found)) {
        const mx_name_fn before = names_by_python();
        PyThreadState *state = let_go(true);
        const mx_code code = mx_cell_unroll_itself(cell, &u, &out);
        take_back(state);
        mx_names_ask(before);
        PyObject *states = code ? raise_error() : give_states(self, &u, out.states);
        PyObject *outputs = !states ? NULL : out.output ? nd_wrap(out.output) : cell_list(out.steps);
        result = outputs ? Py_BuildValue("(NN)", outputs, states) : (Py_XDECREF(states), NULL);
    }
    mx_scope_close(&scope);
    return result;
}

/* ---- attributes -------------------------------------------------------------------------------------------------- */

/* _cell_count(): counts a step, unless it only infers shapes. */
PyObject *cell_count(PyObject *object, PyObject *unused)
{
    mx_block *block = cell_of(object);
    (void)unused;
    if (!block)
        return NULL;
    if (!mx_inferring())
        mx_cell_count(block);
    Py_RETURN_NONE;
}

/* _cell_value(which[, value]): 0 the step's number, 1 that of the last state, 2 whether it is inside a modifier. */
PyObject *cell_value(PyObject *object, PyObject *args)
{
    mx_block *block = cell_of(object);
    int which;
    PyObject *value = NULL;
    if (!block || !PyArg_ParseTuple(args, "i|O", &which, &value))
        return NULL;
    mx_cell *cell = block->cell;
    int64_t *number = which ? &cell->init_counter : &cell->counter;
    if (!value)
        return which == 2 ? PyBool_FromLong(cell->modified) : PyLong_FromLongLong(*number);
    if (which == 2)
        cell->modified = PyObject_IsTrue(value) == 1;
    else
        *number = PyLong_AsLongLong(value);
    return PyErr_Occurred() ? NULL : core_new_ref(Py_None);
}

/* _cell_memory(slot[, value]): values carried between steps. */
PyObject *cell_memory(PyObject *object, PyObject *args)
{
    mx_block *block = cell_of(object);
    int slot;
    PyObject *value = NULL;
    if (!block || !PyArg_ParseTuple(args, "i|O", &slot, &value))
        return NULL;
    if (!value)
        return block->cell->memory[slot] ? nd_wrap(block->cell->memory[slot]) : core_new_ref(Py_None);
    mx_array *x = value == Py_None ? NULL : any_array(value, block->name);
    if (value != Py_None && !x)
        return NULL;
    mx_cell_remember(block, slot, x);
    Py_RETURN_NONE;
}
