/* Operators as Python callables.
 *
 *     mx.nd.Convolution(data, weight, bias, kernel=(3, 3), num_filter=8)
 *
 * Positional arguments are the inputs, then the attributes in the order of the schema; everything can be given by
 * keyword.  Attributes are written directly into the operator's typed struct.  An Op is also a method descriptor, so
 * that NDArray.softmax is the operator itself.
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
#include <structmember.h>

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

static PyObject *call_operator(const op_object *self, PyObject *const *args, Py_ssize_t n, PyObject *keywords,
                               bool view)
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

/* ---- as an object ------------------------------------------------------------------------------------------------ */

static PyObject *op_call(PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *keywords)
{
    const op_object *self = (op_object *)callable;
    PyObject *result;
    if (self->np_row >= 0 && PyVectorcall_NARGS(nargsf) == 2 && !keywords) {
        result = np_short(self->np_row, args[0], args[1]);
        if (result || PyErr_Occurred())
            return result;
    }
    result = call_operator(self, args, PyVectorcall_NARGS(nargsf), keywords, false);
    if (!result)
        op_show_called_name(self);
    return result;
}

/* op.view(x, ...): of an operator that only changes the shape, the result that shares the memory of x. */
static PyObject *op_view(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *keywords)
{
    return call_operator((op_object *)self, args, n, keywords, true);
}

/* ---- the type -------------------------------------------------------------------------------------------------- */

static void op_dealloc(PyObject *object)
{
    op_object *self = (op_object *)object;
    for (int i = 0; self->input_names && i < self->op->declared_inputs; i++)
        Py_XDECREF(self->input_names[i]);
    for (int i = 0; self->attr_names && i < self->n_attrs; i++)
        Py_XDECREF(self->attr_names[i]);
    PyMem_Free(self->input_names), PyMem_Free(self->attr_names);
    Py_XDECREF(self->name), Py_XDECREF(self->module);
    Py_TYPE(object)->tp_free(object);
}

static PyObject *input_name(const mx_op *op, int i)
{
    char name[64];
    mx_op_input_name(op, i, name);
    const size_t length = strlen(name);
    if ((op->flags & MX_OP_LIST) && i == op->declared_inputs - 1 && length && name[length - 1] == '0')
        name[length - 1] = 0; /* "data0" is an element of the list "data" */
    return PyUnicode_InternFromString(name);
}

PyObject *op_new(mx_op *op, const char *name)
{
    op_object *self = PyObject_New(op_object, &op_type);
    if (!self)
        return NULL;
    self->vectorcall = op_call, self->op = op;
    self->name = PyUnicode_InternFromString(name);
    self->module = NULL;
    self->symbolic = self->np = false, self->np_row = -1;
    self->n_attrs = op->schema ? op->schema->count : 0;
    self->input_names = core_memory((size_t)op->declared_inputs + 1, sizeof *self->input_names);
    self->attr_names = core_memory((size_t)self->n_attrs + 1, sizeof *self->attr_names);
    for (int i = 0; self->input_names && i < op->declared_inputs; i++)
        self->input_names[i] = input_name(op, i);
    for (int i = 0; self->attr_names && i < self->n_attrs; i++)
        self->attr_names[i] = PyUnicode_InternFromString(op->schema->fields[i].name);
    if (PyErr_Occurred() || !self->input_names || !self->attr_names) {
        Py_DECREF(self);
        return PyErr_Occurred() ? NULL : PyErr_NoMemory();
    }
    return (PyObject *)self;
}

static PyObject *op_get(PyObject *self, PyObject *instance, PyObject *type)
{
    (void)type;
    return instance && instance != Py_None ? PyMethod_New(self, instance) : core_new_ref(self);
}

static PyObject *op_repr(PyObject *self) { return PyUnicode_FromFormat("<operator %U>", ((op_object *)self)->name); }

static PyObject *described(PyObject *self, const char *what)
{
    PyObject *function = from_package("mxnet._describe", what);
    PyObject *result = function ? PyObject_CallFunctionObjArgs(function, self, NULL) : NULL;
    Py_XDECREF(function);
    return result;
}
static PyObject *op_doc(PyObject *self, void *unused) { return (void)unused, described(self, "op_doc"); }
static PyObject *op_signature(PyObject *self, void *unused) { return (void)unused, described(self, "op_signature"); }
static PyObject *op_text_signature(PyObject *self, void *unused)
{
    return (void)self, (void)unused, core_new_ref(Py_None);
}
static PyObject *op_canonical(PyObject *self, void *unused)
{
    (void)unused;
    return PyUnicode_FromString(((op_object *)self)->op->name);
}
static PyObject *op_description(PyObject *self, void *unused)
{
    (void)unused;
    MX_SCOPE;
    const char *text = mx_op_describe(((op_object *)self)->op);
    return text ? PyUnicode_FromString(text) : raise_error();
}
/* The calls that the library's own tests make: dicts of shapes ("2,3;3"), attrs ("axis=1"), low, high, note. */
static PyObject *op_samples(PyObject *self, void *unused)
{
    const mx_sample *sample = ((op_object *)self)->op->samples;
    PyObject *list = PyList_New(0);
    (void)unused;
    for (; list && sample && sample->shapes; sample++) {
        PyObject *item =
            Py_BuildValue("{sssssdsdsz}", "shapes", sample->shapes, "attrs", sample->attrs ? sample->attrs : "", "low",
                          sample->low, "high", sample->high, "note", sample->note);
        if (!item || PyList_Append(list, item))
            Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}
static PyObject *op_reduce(PyObject *self, PyObject *unused)
{
    (void)unused;
    PyObject *find = from_package("mxnet._core", "operator");
    return find ? Py_BuildValue("N(O)", find, ((op_object *)self)->name) : NULL;
}

static PyMemberDef op_members[] = {
    {"__name__", T_OBJECT, offsetof(op_object, name), READONLY, NULL},
    {"__qualname__", T_OBJECT, offsetof(op_object, name), READONLY, NULL},
    {"__module__", T_OBJECT, offsetof(op_object, module), 0, NULL},
    {"np", T_BOOL, offsetof(op_object, np), READONLY, "whether it is one of mx.np or mx.npx"},
    {"symbolic", T_BOOL, offsetof(op_object, symbolic), READONLY, "whether it is one of mx.sym"},
    {NULL, 0, 0, 0, NULL},
};
static PyGetSetDef op_getset[] = {
    {"__doc__", op_doc, NULL, NULL, NULL},
    {"__signature__", op_signature, NULL, NULL, NULL},
    {"__text_signature__", op_text_signature, NULL, NULL, NULL},
    {"operator_name", op_canonical, NULL, "the name in files", NULL},
    {"samples", op_samples, NULL, "the calls that the library's tests make, a list of dicts", NULL},
    {"description", op_description, NULL, "everything about the operator as JSON", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyMethodDef op_methods[] = {
    {"__reduce__", op_reduce, METH_NOARGS, NULL},
    {"view", (PyCFunction)(void (*)(void))op_view, METH_FASTCALL | METH_KEYWORDS,
     "Of an operator that only changes the shape: the result that shares the memory of its input."},
    {NULL, NULL, 0, NULL},
};

PyTypeObject op_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "mxnet._core.Op",
    .tp_basicsize = sizeof(op_object),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR,
    .tp_vectorcall_offset = offsetof(op_object, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_dealloc = op_dealloc,
    .tp_descr_get = op_get,
    .tp_repr = op_repr,
    .tp_members = op_members,
    .tp_getset = op_getset,
    .tp_methods = op_methods,
};

/* ---- the module's part ------------------------------------------------------------------------------------------ */

/* Adds op under `name` to the dictionary. */
static int add_name(PyObject *dict, mx_op *op, const char *name)
{
    PyObject *made = op_new(op, name);
    const int failed = !made || PyDict_SetItemString(dict, name, made);
    Py_XDECREF(made);
    return failed;
}

static int add_aliases(PyObject *dict, mx_op *op)
{
    char name[128];
    for (const char *at = op->aliases; at && *at;) {
        const size_t length = strcspn(at, " ");
        if (length && length < sizeof name) {
            memcpy(name, at, length);
            name[length] = 0;
            if (add_name(dict, op, name))
                return -1;
        }
        at += length + (at[length] == ' ');
    }
    return 0;
}

/* operators(hidden=False): all operators by name and alias; hidden=True includes hidden ones (backward operators). */
static PyObject *operators(PyObject *self, PyObject *args)
{
    int hidden = 0;
    (void)self;
    if (!PyArg_ParseTuple(args, "|p:operators", &hidden))
        return NULL;
    PyObject *dict = PyDict_New();
    mx_op *op;
    for (int i = 0; dict && (op = mx_op_at(i)) != NULL; i++)
        if (!mx_op_expands(op) && (hidden || !(op->flags & MX_OP_HIDDEN)) &&
            (add_aliases(dict, op) || add_name(dict, op, op->name)))
            Py_CLEAR(dict);
    return dict;
}

/* The public name of a function of mx.npx from that in files, "_npx_relu"; NULL: it is none. */
static const char *npx_name(const char *name)
{
    return strncmp(name, "_npx_", 5) ? NULL : !strncmp(name, "_npx__image_", 12) ? name + 6 : name + 5;
}

static int add_np(PyObject *dict, mx_op *op, const char *name, const char *key)
{
    PyObject *made = op_new(op, name);
    if (made)
        ((op_object *)made)->np = true, ((op_object *)made)->np_row = np_row_of(op->name);
    const int failed = !made || PyDict_SetItemString(dict, key, made);
    Py_XDECREF(made);
    return failed;
}

/* "npx.relu" for every alias "_npx_relu". */
static int add_npx(PyObject *dict, mx_op *op)
{
    char name[128], key[160];
    for (const char *p = op->aliases ? op->aliases : ""; *(p += strspn(p, " ")); p += strcspn(p, " ")) {
        snprintf(name, sizeof name, "%.*s", (int)strcspn(p, " "), p);
        const char *short_name = npx_name(name);
        snprintf(key, sizeof key, "npx.%s", short_name ? short_name : "");
        if (short_name && add_np(dict, op, short_name, key))
            return -1;
    }
    return 0;
}

/* np_operators(): the functions of mx.np and mx.npx by their full names, "np.linalg.norm". */
static PyObject *np_operators(PyObject *self, PyObject *unused)
{
    PyObject *dict = PyDict_New();
    mx_op *op;
    (void)self, (void)unused;
    for (int i = 0; dict && (op = mx_op_at(i)) != NULL; i++)
        if (mx_op_expands(op) ? add_np(dict, op, strrchr(op->name, '.') + 1, op->name) : add_npx(dict, op))
            Py_CLEAR(dict);
    return dict;
}

/* The words of a text, appended to a list. */
static int append_words(PyObject *list, const char *text)
{
    PyObject *whole = PyUnicode_FromString(text), *words = whole ? PyUnicode_Split(whole, NULL, -1) : NULL;
    PyObject *longer = words ? PySequence_InPlaceConcat(list, words) : NULL;
    const int failed = !longer;
    Py_XDECREF(longer);
    Py_XDECREF(words);
    Py_XDECREF(whole);
    return failed;
}

/* operator_methods(): names under which operators are methods of arrays and symbols, from their descriptions. */
static PyObject *operator_methods(PyObject *self, PyObject *unused)
{
    PyObject *list = PyList_New(0);
    const mx_op *op;
    (void)self, (void)unused;
    for (int i = 0; list && (op = mx_op_at(i)) != NULL; i++)
        if (op->methods && append_words(list, op->methods))
            Py_CLEAR(list);
    return list;
}

static PyObject *find_operator(PyObject *self, PyObject *name)
{
    (void)self;
    const char *text = PyUnicode_AsUTF8(name);
    mx_op *op = text ? mx_op_find(text) : NULL;
    return op ? op_new(op, text) : raise_error();
}

static PyObject *set_null(PyObject *self, PyObject *value)
{
    (void)self;
    Py_XSETREF(null_value, core_new_ref(value));
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"set_null", set_null, METH_O, "The object that means 'argument not given'."},
    {"operators", operators, METH_VARARGS, "operators(hidden=False): all operators by name."},
    {"np_operators", np_operators, METH_NOARGS, "The functions of mx.np and mx.npx by their full names."},
    {"operator", find_operator, METH_O, "The operator of a name or alias."},
    {"operator_methods", operator_methods, METH_NOARGS, "Names of the operators that are methods of arrays and symbols."},
    {NULL, NULL, 0, NULL},
};

int add_operators(PyObject *module)
{
    if (PyType_Ready(&op_type) || PyModule_AddObjectRef(module, "Op", (PyObject *)&op_type))
        return -1;
    return PyModule_AddFunctions(module, functions);
}
