/* Calls of operators from Python.
 *
 *     mx.nd.Convolution(data, weight, bias, kernel=(3, 3), num_filter=8)
 *
 * Positional arguments are the inputs, then the attributes in the order of the schema; everything can be given by
 * keyword.  Attributes are written directly into the operator's typed struct.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <string.h>

#include "base/alloc.h"
#include "base/thread.h"
#include "core.h"
#include "exec/call.h"
#include "op/expand.h"
#include "np_array.h"

#define FEW_INPUTS 16 /* calls with more go through the heap */

/* One call while its arguments are parsed. */
typedef struct call_state {
    const op_object *self;
    const char *who;
    mx_array **in;
    int n_in, room;               /* inputs so far (MX_NONE: not given yet) and their capacity */
    void *attrs;                  /* copy of the defaults */
    PyObject *out;                /* borrowed; NULL: new arrays */
    PyObject *held;               /* the list of inputs, if they were passed as a list; owned */
    int next_attr;                /* index of the attribute that the next positional argument sets */
    bool symbolic;                /* an input is a symbol: the call creates a node */
    bool np, nd;                  /* an input is an array of mx.np, of mx.nd */
    PyObject *where, *masked_out; /* of a function of single elements: results elsewhere are those of `out`; borrowed */
    PyObject *made; /* a list of arrays that were made from other inputs of a function of mx.np; owned, may be NULL */
    mx_array *few[FEW_INPUTS];
} call_state;

/* ---- running ------------------------------------------------------------------------------------------------- */

static bool is_long(const mx_op *op, int n_in, mx_array *const *in)
{
    if (op->flags & MX_OP_CREATE)
        return true;
    int64_t work = 0;
    for (int i = 0; i < n_in; i++)
        work += in[i] == MX_NONE ? 0 : in[i]->size;
    return work > LONG_WORK;
}

static int take_out(PyObject *out, int n, mx_array **results, const char *who)
{
    if (n == 0)
        return 0; /* an operator that only writes to its inputs */
    if (nd_check(out) && n == 1) {
        results[0] = nd_array(out);
        return 0;
    }
    if ((PyList_Check(out) || PyTuple_Check(out)) && PySequence_Fast_GET_SIZE(out) == n) {
        for (int i = 0; i < n; i++) {
            PyObject *item = PySequence_Fast_GET_ITEM(out, i);
            if (!nd_check(item) && item != Py_None)
                break;
            results[i] = item == Py_None ? NULL : nd_array(item);
            if (i == n - 1)
                return 0;
        }
    }
    PyErr_Format(PyExc_TypeError, "%s: out must be %s, got %.200s", who,
                 n == 1 ? "an NDArray" : "a list of NDArrays, one per result", Py_TYPE(out)->tp_name);
    return -1;
}

PyObject *op_run(mx_op *op, const void *attrs, int n_in, mx_array *const *in, PyObject *out)
{
    const int n_out = mx_op_count_visible(op, attrs ? attrs : op->defaults);
    mx_array *results[MX_MAX_OUTPUTS] = {NULL};
    if (out && out != Py_None && take_out(out, n_out, results, op->name))
        return NULL;
    PyObject *given = out && out != Py_None ? out : NULL;
    mx_scope scope = mx_scope_open();
    PyThreadState *state = let_go(is_long(op, n_in, in));
    const mx_code code = mx_invoke(op, attrs, n_in, in, n_out, results);
    take_back(state);
    PyObject *result;
    if (code)
        result = raise_error();
    else if (given)
        result = core_new_ref(given);
    else
        result = n_out == 1 ? nd_wrap(results[0]) : nd_wrap_all((mx_arrays){results, n_out});
    mx_scope_close(&scope);
    return result;
}

PyObject *op_run_view(mx_op *op, const void *attrs, mx_array *x)
{
    mx_scope scope = mx_scope_open();
    mx_array *view = mx_call_view(op, attrs, x);
    PyObject *result = view ? nd_wrap(view) : raise_error();
    mx_scope_close(&scope);
    return result;
}

PyObject *null_value;

/* ---- arguments ----------------------------------------------------------------------------------------------- */

static int wrong_input(call_state *call, int i, PyObject *value)
{
    if ((call->symbolic = sym_check(value)))
        return -1;
    char name[64];
    PyObject *type = from_package("mxnet.error", "InputError");
    PyErr_Format(type ? type : PyExc_TypeError, "%s: input '%s' must be an NDArray, got %.200s%s", call->who,
                 mx_op_input_name(call->self->op, i, name), Py_TYPE(value)->tp_name,
                 PyObject_CheckBuffer(value) || PyList_Check(value) ? " (make one with nd.array)" : "");
    Py_XDECREF(type);
    return -1;
}

/* Space for `count` inputs. */
static int make_room(call_state *call, Py_ssize_t count)
{
    if (count <= call->room)
        return 0;
    mx_array **in = count < INT_MAX / 16 ? core_memory(1, (size_t)count * sizeof *in) : NULL;
    if (!in)
        return PyErr_NoMemory(), -1;
    memcpy(in, call->in, (size_t)call->n_in * sizeof *in);
    if (call->in != call->few)
        PyMem_Free(call->in);
    call->in = in, call->room = (int)count;
    return 0;
}

/* An input of a function of mx.np: arrays, symbols, numbers and what can be made an array. */
static mx_array *np_input(call_state *call, PyObject *value)
{
    mx_array *x;
    PyObject *held;
    if (np_operand(value, &x, &held, call->who))
        return NULL;
    if (held && !call->made)
        call->made = PyList_New(0);
    if (held && (!call->made || PyList_Append(call->made, held)))
        x = NULL;
    Py_XDECREF(held);
    return x;
}

static int set_input(call_state *call, int i, PyObject *value)
{
    const bool absent = value == Py_None || value == null_value;
    mx_array *x = MX_NONE;
    if (!absent && call->self->np) {
        if (!(x = np_input(call, value)))
            return -1;
    } else if (!absent) {
        if (!nd_check(value))
            return wrong_input(call, i, value);
        const bool np = Py_TYPE(value) != &nd_type && np_check(value);
        call->np |= np, call->nd |= !np;
        x = nd_array(value);
    }
    if (i < call->n_in && call->in[i] != MX_NONE) {
        char name[64];
        PyErr_Format(PyExc_TypeError, "%s: input '%s' was given twice", call->who,
                     mx_op_input_name(call->self->op, i, name));
        return -1;
    }
    if (i >= call->room && make_room(call, 2 * (Py_ssize_t)i + 1))
        return -1;
    while (call->n_in <= i)
        call->in[call->n_in++] = MX_NONE;
    call->in[i] = x;
    return 0;
}

static int set_attr(call_state *call, int i, PyObject *value)
{
    if (value == null_value)
        return 0;
    const mx_schema *schema = call->self->op->schema;
    return field_set(&schema->fields[i], schema, call->attrs, value, call->who);
}

/* A value in place of an optional input is an attribute: the input was omitted. */
static bool is_attribute_value(PyObject *value) { return value != Py_None && value != null_value && !any_check(value); }

/* Only mx.np takes numbers and lists as inputs. */
static bool skips_input(const call_state *call, PyObject *value)
{
    return !call->self->np && is_attribute_value(value) && mx_op_input_optional(call->self->op, call->n_in);
}

static bool is_named(PyObject *name, const char *text) { return !PyUnicode_CompareWithASCIIString(name, text); }

/* The mask of NumPy's reductions comes by keyword: np.sum(x, 0, where=mask). */
static bool by_keyword(const op_object *self, int input)
{
    return self->np && input && is_named(self->input_names[input], "where");
}

static int take_positional(call_state *call, PyObject *value)
{
    const mx_op *op = call->self->op;
    if ((op->flags & MX_OP_LIST) && any_check(value))
        return set_input(call, call->n_in, value);
    const bool wants_input = call->next_attr == 0 && call->n_in < op->declared_inputs && !(op->flags & MX_OP_LIST) &&
                             !by_keyword(call->self, call->n_in);
    if (wants_input && !skips_input(call, value))
        return set_input(call, call->n_in, value);
    if (call->next_attr < call->self->n_attrs && !(op->flags & MX_OP_LIST && call->n_in == 0))
        return set_attr(call, call->next_attr++, value);
    if ((op->flags & MX_OP_LIST) && call->n_in == 0)
        return wrong_input(call, 0, value);
    PyErr_Format(PyExc_TypeError, "%s: takes at most %d inputs and %d attributes by position", call->who,
                 op->declared_inputs, call->self->n_attrs);
    return -1;
}

static int find_name(PyObject *const *names, int count, PyObject *name)
{
    for (int i = 0; i < count; i++)
        if (names[i] == name)
            return i;
    for (int i = 0; i < count; i++)
        if (PyUnicode_Compare(names[i], name) == 0)
            return i;
    return -1;
}

static int unknown_keyword(const call_state *call, PyObject *name)
{
    PyObject *fail = from_package("mxnet._describe", "unknown_keyword");
    PyObject *result = fail ? PyObject_CallFunctionObjArgs(fail, (PyObject *)call->self, name, NULL) : NULL;
    const int failed = result ? 0 : -1; /* ignored with a warning, or an exception */
    Py_XDECREF(fail), Py_XDECREF(result);
    return failed;
}

/* Inputs of a list operator may be passed as one list: concat([a, b], dim=1), concat(data=[a, b]).  We hold a copy, since
 * other threads may change the list while the operator runs. */
static int take_list(call_state *call, PyObject *value)
{
    const int first = call->self->op->declared_inputs - 1;
    if (call->held) {
        PyErr_Format(PyExc_TypeError, "%s: the list of arrays was given twice", call->who);
        return -1;
    }
    if (!PyList_Check(value) && !PyTuple_Check(value))
        return wrong_input(call, first, value);
    call->held = PySequence_Tuple(value);
    const Py_ssize_t n = call->held ? PyTuple_GET_SIZE(call->held) : 0;
    if (!call->held || make_room(call, first + n))
        return -1;
    for (Py_ssize_t i = 0; i < n; i++)
        if (set_input(call, first + (int)i, PyTuple_GET_ITEM(call->held, i)))
            return -1;
    return 0;
}

/* np.add(x, y, where=mask): a keyword of NumPy's functions of single elements, whose inputs are x or x1 and x2. */
static bool takes_where(const op_object *self)
{
    return self->np && self->op->declared_inputs && PyUnicode_READ_CHAR(self->input_names[0], 0) == 'x';
}
static PyObject *masked(PyObject *result, PyObject *where, PyObject *out)
{
    PyObject *function = from_package("mxnet.numpy._arrays", "_masked");
    PyObject *chosen =
        function ? PyObject_CallFunctionObjArgs(function, result, where, out ? out : Py_None, NULL) : NULL;
    Py_XDECREF(function);
    return chosen;
}

static int take_keyword(call_state *call, PyObject *name, PyObject *value)
{
    const op_object *self = call->self;
    if (self->np && is_named(name, "where") && takes_where(self)) {
        call->where = value == Py_True ? NULL : value;
        return 0;
    }
    int i = find_name(self->attr_names, self->n_attrs, name);
    if (i >= 0)
        return set_attr(call, i, value);
    i = find_name(self->input_names, self->op->declared_inputs, name);
    if (i >= 0)
        return (self->op->flags & MX_OP_LIST) && i == self->op->declared_inputs - 1 && !nd_check(value)
                   ? take_list(call, value)
                   : set_input(call, i, value);
    if (is_named(name, "out")) {
        call->out = value;
        return 0;
    }
    if (is_named(name, "name") || is_named(name, "attr") ||
        is_named(name, "num_args")) /* as symbols and files spell it */
        return 0;
    return unknown_keyword(call, name);
}

static int take_arguments(call_state *call, PyObject *const *args, Py_ssize_t n, PyObject *keywords)
{
    const bool list = (call->self->op->flags & MX_OP_LIST) && n && (PyList_Check(args[0]) || PyTuple_Check(args[0]));
    if (list && take_list(call, args[0]))
        return -1;
    for (Py_ssize_t i = list; i < n; i++)
        if (take_positional(call, args[i]))
            return -1;
    const Py_ssize_t named = keywords ? PyTuple_GET_SIZE(keywords) : 0;
    for (Py_ssize_t i = 0; i < named; i++)
        if (take_keyword(call, PyTuple_GET_ITEM(keywords, i), args[n + i]))
            return -1;
    return 0;
}

/* Arrays of both classes in one call are an error. */
static bool mixes(const call_state *call)
{
    if (!call->np || !call->nd)
        return false;
    PyObject *type = from_package("mxnet.error", "InputError");
    PyErr_Format(type ? type : PyExc_TypeError,
                 "%s: got arrays of mx.nd and of mx.np; convert with as_np_ndarray() or as_nd_ndarray()", call->who);
    Py_XDECREF(type);
    return true;
}

#define FEW_BYTES 1024

PyObject *op_call_with(const op_object *self, PyObject *const *args, Py_ssize_t n, PyObject *keywords, bool view)
{
    const mx_op *op = self->op;
    _Alignas(16) char small[FEW_BYTES];
    const size_t bytes = op->schema ? op->schema->size : 0;
    call_state call;
    call.self = self, call.who = op->name, call.in = call.few, call.n_in = 0, call.room = FEW_INPUTS;
    call.attrs = bytes <= FEW_BYTES ? small : core_memory(1, bytes), call.out = call.held = NULL, call.next_attr = 0;
    call.symbolic = call.np = call.nd = false, call.made = call.where = call.masked_out = NULL;
    PyObject *result = NULL;
    const bool before = mx_thread.np_array;
    mx_scope scope = self->np ? mx_scope_open() : (mx_scope){0};
    if (!call.attrs)
        PyErr_NoMemory();
    else if (!make_room(&call, n + op->declared_inputs)) {
        if (bytes)
            memcpy(call.attrs, op->defaults, bytes);
        bool ok = !take_arguments(&call, args, n, keywords) && !mixes(&call);
        if (call.where)
            call.masked_out = call.out, call.out = NULL;
        if (ok)
            mx_thread.np_array = self->np || call.np,
            result = view && call.n_in == 1 ? op_run_view(self->op, bytes ? call.attrs : NULL, call.in[0])
                                            : op_run(self->op, bytes ? call.attrs : NULL, call.n_in, call.in, call.out);
    }
    mx_thread.np_array = before;
    if (call.where && result)
        Py_SETREF(result, masked(result, call.where, call.masked_out));
    if (result && self->np && mx_op_expands(op) &&
        PyList_CheckExact(result)) /* several results of NumPy's are a tuple */
        Py_SETREF(result, PyList_AsTuple(result));
    if (call.symbolic)
        result = sym_call(self, args, n, keywords); /* returns the caller's own `out` */
    if (call.in != call.few)
        PyMem_Free(call.in);
    if (call.attrs != small)
        PyMem_Free(call.attrs);
    Py_XDECREF(call.held);
    if (self->np) {
        Py_XDECREF(call.made);
        mx_scope_close(&scope);
    }
    return result;
}
