/* Hooks of blocks: Python functions that run before and after forward.
 *
 * A call from Python runs them itself; when the library runs a block, it calls them back.  A block is marked while Python
 * calls it, so that its hooks do not run twice.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "block.h"

static _Thread_local block_object *hooked; /* Python is running its hooks: the library's hooks skip it */

block_object *block_swap_hooked(block_object *now)
{
    block_object *before = hooked;
    hooked = now;
    return before;
}

int block_run_hooks(PyObject *hooks, PyObject *object, PyObject *args, PyObject *result)
{
    PyObject *copy = PyDict_Values(hooks); /* a hook may remove itself */
    int failed = !copy;
    for (Py_ssize_t i = 0; !failed && i < PyList_GET_SIZE(copy); i++) {
        PyObject *done = PyObject_CallFunctionObjArgs(PyList_GET_ITEM(copy, i), object, args, result, NULL);
        failed = !done;
        Py_XDECREF(done);
    }
    Py_XDECREF(copy);
    return failed;
}

/* When the library runs the block, it calls the Python hooks. */
static mx_code run_from_c(block_object *self, mx_arrays in, mx_arrays out, PyObject *hooks)
{
    if (hooked == self || !hooks)
        return MX_OK;
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *args = PyErr_Occurred() ? NULL : block_arguments(self, in);
    PyObject *result = args && out.n ? block_wrap_results(self, out) : NULL;
    const bool failed = !args || (out.n && !result) || block_run_hooks(hooks, (PyObject *)self, args, result);
    Py_XDECREF(args), Py_XDECREF(result);
    PyGILState_Release(state);
    return failed ? mx_error_set(MX_ERR_CALLBACK, "%s: a hook failed", self->block->name) : MX_OK;
}
static mx_code run_before(mx_block *block, mx_arrays in, mx_arrays out, void *user)
{
    return (void)block, run_from_c(user, in, out, ((block_object *)user)->before);
}
static mx_code run_after(mx_block *block, mx_arrays in, mx_arrays out, void *user)
{
    return (void)block, run_from_c(user, in, out, ((block_object *)user)->after);
}

void block_drop_hooks(block_object *self)
{
    if (self->before_handle)
        mx_block_unhook(self->block, self->before_handle);
    if (self->after_handle)
        mx_block_unhook(self->block, self->after_handle);
    self->before_handle = self->after_handle = 0;
}

/* The library calls the hooks as long as there are any; without them the block can run in C. */
static PyObject *set_hooks(PyObject *object, PyObject *mapping, bool before)
{
    block_object *self = (block_object *)object;
    const Py_ssize_t n = block_of(object) ? PyMapping_Size(mapping) : -1;
    uint64_t *handle = before ? &self->before_handle : &self->after_handle;
    if (n < 0)
        return NULL;
    if (n && !*handle && !(*handle = mx_block_hook(self->block, before, before ? run_before : run_after, self)))
        return raise_error();
    if (!n && *handle)
        mx_block_unhook(self->block, *handle), *handle = 0;
    structure_version++;
    Py_RETURN_NONE;
}

/* _set_hooks(dict), _set_pre_hooks(dict) */
PyObject *block_set_hooks(PyObject *object, PyObject *mapping) { return set_hooks(object, mapping, false); }
PyObject *block_set_pre_hooks(PyObject *object, PyObject *mapping) { return set_hooks(object, mapping, true); }
