/* Loops and conditions whose bodies are Python functions, as callbacks of the library.
 *
 *     _core.foreach(step, data, states, name, ...)             step(rows, states) -> (outputs, states), flat lists
 *     _core.while_loop(cond, func, variables, steps, name)     cond(variables), func(variables) -> (outputs, variables)
 *     _core.cond(predicate, then, otherwise, name)             then() -> outputs
 *
 * They run with the GIL held, since they only call Python.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "symbol.h"

#include "exec/list.h"
#include "gluon/control.h"
#include "gluon/einsum.h"

/* ---- lists ------------------------------------------------------------------------------------------------------- */

mx_arrays any_arrays(PyObject *source, const char *who)
{
    PyObject *list = PySequence_Fast(source, "expected a list of arrays");
    const Py_ssize_t n = list ? PySequence_Fast_GET_SIZE(list) : 0;
    mx_array **arrays = list ? mx_list_new(n) : NULL;
    bool ok = arrays != NULL;
    for (Py_ssize_t i = 0; ok && i < n; i++) {
        mx_array *x = any_array(PySequence_Fast_GET_ITEM(list, i), who);
        ok = x && (arrays[i] = mx_scope_add(mx_retain(x)));
    }
    Py_XDECREF(list);
    if (ok)
        return (mx_arrays){arrays, n};
    if (!PyErr_Occurred())
        raise_error();
    return (mx_arrays){NULL, -1};
}

mx_code callback_failed(const char *who) { return mx_error_set(MX_ERR_CALLBACK, "%s: a Python function failed", who); }

/* The two lists that a step returns. */
static mx_code read_step(PyObject *result, const char *who, mx_arrays *outputs, mx_arrays *next)
{
    PyObject *first, *second;
    mx_code code = MX_OK;
    if (!result || !PyArg_ParseTuple(result, "OO", &first, &second))
        code = callback_failed(who);
    if (!code) {
        *outputs = any_arrays(first, who);
        *next = outputs->n < 0 ? *outputs : any_arrays(second, who);
        code = next->n < 0 ? callback_failed(who) : MX_OK;
    }
    Py_XDECREF(result);
    return code;
}

static PyObject *loop_result(const mx_loop *loop)
{
    if (loop->failed || PyErr_Occurred())
        return raise_error();
    PyObject *outputs = nd_wrap_all(loop->outputs), *states = outputs ? nd_wrap_all(loop->states) : NULL;
    PyObject *result = states ? PyTuple_Pack(2, outputs, states) : NULL;
    Py_XDECREF(outputs), Py_XDECREF(states);
    return result;
}

/* ---- loops ------------------------------------------------------------------------------------------------------- */

/* The user's function is called directly as long as its arguments and results are arrays or flat lists of them. */
typedef struct foreach_functions {
    PyObject *step;          /* takes and returns flat lists; borrowed, like the others */
    PyObject *body, *finish; /* NULL: always `step`; finish: results of body -> two flat lists */
    bool one_row, one_state; /* body takes an array, not a list */
    bool one_output;         /* the last step returned an array */
} foreach_functions;

/* An array (then *one) or a flat list of arrays. */
static bool is_flat(PyObject *x, bool *one)
{
    *one = Py_TYPE(x) == &nd_type;
    if (*one || !PyList_CheckExact(x))
        return *one;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(x); i++)
        if (Py_TYPE(PyList_GET_ITEM(x, i)) != &nd_type)
            return false;
    return true;
}

static mx_arrays flat_arrays(PyObject *x, bool one)
{
    if (!one)
        return any_arrays(x, "foreach");
    mx_array **arrays = mx_list_new(1);
    if (arrays && (arrays[0] = mx_scope_add(mx_retain(any_array(x, "foreach")))))
        return (mx_arrays){arrays, 1};
    raise_error();
    return (mx_arrays){NULL, -1};
}

static mx_code read_flat(foreach_functions *f, PyObject *result, mx_arrays *outputs, mx_arrays *next)
{
    if (PyTuple_CheckExact(result) && PyTuple_GET_SIZE(result) == 2 &&
        is_flat(PyTuple_GET_ITEM(result, 0), &f->one_output) && is_flat(PyTuple_GET_ITEM(result, 1), &f->one_state)) {
        *outputs = flat_arrays(PyTuple_GET_ITEM(result, 0), f->one_output);
        *next = outputs->n < 0 ? *outputs : flat_arrays(PyTuple_GET_ITEM(result, 1), f->one_state);
        Py_DECREF(result);
        return next->n < 0 ? callback_failed("foreach") : MX_OK;
    }
    PyObject *flat = PyObject_CallOneArg(f->finish, result);
    f->body = NULL;
    Py_DECREF(result);
    return read_step(flat, "foreach", outputs, next);
}

static mx_code foreach_body(void *user, mx_arrays data, mx_arrays states, mx_arrays *outputs, mx_arrays *next)
{
    foreach_functions *f = user;
    const bool flat = f->body != NULL;
    PyObject *rows = flat && f->one_row ? nd_wrap(data.v[0]) : nd_wrap_all(data);
    PyObject *old = !rows ? NULL : flat && f->one_state ? nd_wrap(states.v[0]) : nd_wrap_all(states);
    PyObject *result = old ? PyObject_CallFunctionObjArgs(flat ? f->body : f->step, rows, old, NULL) : NULL;
    Py_XDECREF(rows), Py_XDECREF(old);
    return flat && result ? read_flat(f, result, outputs, next) : read_step(result, "foreach", outputs, next);
}

/* foreach(step, data, states, name, body, finish, one_row, one_state) -> outputs, states, (one_output, one_state) of the
 * last step if body's results were flat to the end, else None.  Without body, every step is `step`. */
static PyObject *foreach(PyObject *self, PyObject *args)
{
    PyObject *data, *states, *result = NULL;
    foreach_functions f = {0};
    int one_row = 0, one_state = 0;
    const char *name;
    (void)self;
    if (!PyArg_ParseTuple(args, "OOOz|OOpp:foreach", &f.step, &data, &states, &name, &f.body, &f.finish, &one_row,
                          &one_state))
        return NULL;
    f.one_row = one_row, f.one_state = one_state;
    f.body = f.body == Py_None ? NULL : f.body;
    mx_scope scope = mx_scope_open();
    mx_arrays xs = any_arrays(data, "foreach"), ss = xs.n < 0 ? xs : any_arrays(states, "foreach");
    if (ss.n >= 0) {
        mx_control_name(name);
        mx_loop loop = mx_foreach(foreach_body, &f, xs, ss);
        mx_control_name(NULL);
        PyObject *both = loop_result(&loop);
        result = !both     ? NULL
                 : !f.body ? Py_BuildValue("(OOO)", PyTuple_GET_ITEM(both, 0), PyTuple_GET_ITEM(both, 1), Py_None)
                           : Py_BuildValue("(OO(OO))", PyTuple_GET_ITEM(both, 0), PyTuple_GET_ITEM(both, 1),
                                           f.one_output ? Py_True : Py_False, f.one_state ? Py_True : Py_False);
        Py_XDECREF(both);
    }
    mx_scope_close(&scope);
    return result;
}

typedef struct while_functions {
    PyObject *condition, *step; /* borrowed */
} while_functions;

/* The result of a condition: an array, or any Python object with a truth value. */
static mx_array *condition_from(PyObject *result)
{
    if (result && any_check(result)) {
        mx_array *x = any_array(result, "condition");
        return x ? mx_scope_add(mx_retain(x)) : NULL;
    }
    const int holds = result ? PyObject_IsTrue(result) : -1;
    return holds < 0 ? NULL : mx_array_scalar(holds);
}

static mx_array *while_condition(void *user, mx_arrays variables)
{
    PyObject *list = nd_wrap_all(variables);
    PyObject *result = list ? PyObject_CallOneArg(((while_functions *)user)->condition, list) : NULL;
    mx_array *x = condition_from(result);
    Py_XDECREF(list), Py_XDECREF(result);
    if (!x)
        callback_failed("while_loop");
    return x;
}

static mx_code while_step(void *user, mx_arrays variables, mx_arrays *outputs, mx_arrays *next)
{
    PyObject *list = nd_wrap_all(variables);
    PyObject *result = list ? PyObject_CallOneArg(((while_functions *)user)->step, list) : NULL;
    Py_XDECREF(list);
    return read_step(result, "while_loop", outputs, next);
}

static PyObject *while_loop(PyObject *self, PyObject *args)
{
    PyObject *variables, *result = NULL;
    while_functions functions;
    const char *name;
    long long steps;
    (void)self;
    if (!PyArg_ParseTuple(args, "OOOLz:while_loop", &functions.condition, &functions.step, &variables, &steps, &name))
        return NULL;
    mx_scope scope = mx_scope_open();
    mx_arrays list = any_arrays(variables, "while_loop");
    if (list.n >= 0) {
        mx_control_name(name);
        mx_loop loop = mx_while_loop(while_condition, while_step, &functions, list, steps);
        mx_control_name(NULL);
        result = loop_result(&loop);
    }
    mx_scope_close(&scope);
    return result;
}

/* ---- conditions -------------------------------------------------------------------------------------------------- */

typedef struct branches {
    PyObject *first, *second; /* borrowed */
} branches;

static mx_code run_branch(PyObject *function, mx_arrays *outputs)
{
    PyObject *result = PyObject_CallNoArgs(function);
    *outputs = result ? any_arrays(result, "cond") : (mx_arrays){NULL, -1};
    Py_XDECREF(result);
    return outputs->n < 0 ? callback_failed("cond") : MX_OK;
}
static mx_code first_branch(void *user, mx_arrays *outputs) { return run_branch(((branches *)user)->first, outputs); }
static mx_code second_branch(void *user, mx_arrays *outputs) { return run_branch(((branches *)user)->second, outputs); }

static PyObject *cond(PyObject *self, PyObject *args)
{
    PyObject *predicate, *result = NULL;
    branches functions;
    const char *name;
    (void)self;
    if (!PyArg_ParseTuple(args, "OOOz:cond", &predicate, &functions.first, &functions.second, &name))
        return NULL;
    mx_scope scope = mx_scope_open();
    mx_array *x = condition_from(predicate);
    if (x) {
        mx_control_name(name);
        mx_arrays out = mx_cond(x, first_branch, second_branch, &functions);
        mx_control_name(NULL);
        result = mx_error_code() || PyErr_Occurred() ? raise_error() : nd_wrap_all(out);
    } else if (!PyErr_Occurred()) {
        raise_error();
    }
    mx_scope_close(&scope);
    return result;
}

/* ---- the module's part ------------------------------------------------------------------------------------------- */

/* einsum(subscripts, operands): Einstein's summation of NDArrays and Symbols. */
static PyObject *einsum(PyObject *self, PyObject *args)
{
    const char *subscripts;
    PyObject *operands;
    (void)self;
    if (!PyArg_ParseTuple(args, "sO", &subscripts, &operands))
        return NULL;
    MX_SCOPE;
    const mx_arrays arrays = any_arrays(operands, "einsum");
    return arrays.n < 0 ? NULL : nd_wrap(mx_einsum(subscripts, arrays));
}

static PyMethodDef functions[] = {
    {"einsum", einsum, METH_VARARGS, "einsum(subscripts, operands): Einstein's summation."},
    {"foreach", foreach, METH_VARARGS, "foreach(body, data, states, name): flat lists in and out."},
    {"while_loop", while_loop, METH_VARARGS, "while_loop(cond, func, variables, max_iterations, name)."},
    {"cond", cond, METH_VARARGS, "cond(predicate, then, otherwise, name)."},
    {NULL, NULL, 0, NULL},
};

int add_control(PyObject *module) { return PyModule_AddFunctions(module, functions); }
