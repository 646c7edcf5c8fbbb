/* mx.np.ndarray and the symbols of mx.sym.np: the arrays and symbols of the library with NumPy's rules.
 *
 * The class of an array is that of its Python object, the mx_array is the same: as_np_ndarray and as_nd_ndarray wrap it
 * again.  Python's operators call the operators "np.add" ...; numbers are passed as mx_number_* (gluon/np.h), whose type
 * gives way.  A thread's switch (mx_set_np_array) says which class nd_wrap() makes; calls on arrays of one class run with
 * the switch of that class: np_enter and np_leave.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/error.h"
#include "np_array.h"

/* ---- operands ----------------------------------------------------------------------------------------------------- */

mx_array *np_number(PyObject *x)
{
    if (PyBool_Check(x))
        return mx_number_bool(x == Py_True);
    if (PyLong_Check(x)) {
        int overflow;
        const long long value = PyLong_AsLongLongAndOverflow(x, &overflow);
        return overflow ? mx_number_float(PyLong_AsDouble(x)) : mx_number_int(value);
    }
    if (!PyFloat_Check(x) && PyIndex_Check(x)) { /* an integer of NumPy */
        PyObject *integer = PyNumber_Index(x);
        mx_array *number = integer ? np_number(integer) : NULL;
        Py_XDECREF(integer);
        return number;
    }
    const double value = PyFloat_AsDouble(x);
    return value == -1 && PyErr_Occurred() ? NULL : mx_number_float(value);
}

/* Any array-like as an array of this interface: new reference.  Lists have the default type, others keep theirs. */
PyObject *np_from_any(PyObject *x)
{
    PyObject *make = from_package("mxnet.numpy", "_as_array");
    PyObject *made = make ? PyObject_CallOneArg(make, x) : NULL;
    Py_XDECREF(make);
    return made;
}

int np_operand(PyObject *x, mx_array **array, PyObject **held, const char *who)
{
    *held = NULL;
    if (np_check(x))
        *array = nd_array(x);
    else if (sym_check(x))
        *array = sym_array(x, who);
    else if (nd_check(x)) {
        PyObject *type = from_package("mxnet.error", "InputError");
        PyErr_Format(type ? type : PyExc_TypeError,
                     "%s: got an NDArray, wanted an array of mx.np; convert it with as_np_ndarray()", who);
        Py_XDECREF(type);
        return -1;
    } else if (is_number(x))
        *array = np_number(x);
    else
        *array = (*held = np_from_any(x)) ? nd_array(*held) : NULL;
    if (!*array && !PyErr_Occurred())
        raise_error();
    return *array ? 0 : -1;
}

/* ---- two operands -------------------------------------------------------------------------------------------------- */

typedef struct np_row {
    const char *name, *array,
        *scalar; /* operators: with NumPy's rules; the classic ones that give the same for floats */
    mx_op *op, *array_op, *scalar_op;
} np_row;
enum { ADD, SUBTRACT, MULTIPLY, DIVIDE, FLOOR_DIVIDE, REMAINDER, POWER, MATMUL, AND, OR, XOR, LESS, LESS_EQUAL, EQUAL,
       NOT_EQUAL, GREATER, GREATER_EQUAL };
static np_row rows[] = {
    [ADD] = {"np.add", "broadcast_add", "_plus_scalar", NULL, NULL, NULL},
    [SUBTRACT] = {"np.subtract", "broadcast_sub", "_minus_scalar", NULL, NULL, NULL},
    [MULTIPLY] = {"np.multiply", "broadcast_mul", "_mul_scalar", NULL, NULL, NULL},
    [DIVIDE] = {"np.divide", "broadcast_div", "_div_scalar", NULL, NULL, NULL},
    [FLOOR_DIVIDE] = {"np.floor_divide", NULL, NULL, NULL, NULL, NULL},
    [REMAINDER] = {"np.mod", NULL, NULL, NULL, NULL, NULL},
    [POWER] = {"np.power", "broadcast_power", "_power_scalar", NULL, NULL, NULL},
    [MATMUL] = {"np.matmul", NULL, NULL, NULL, NULL, NULL},
    [AND] = {"np.bitwise_and", NULL, NULL, NULL, NULL, NULL},
    [OR] = {"np.bitwise_or", NULL, NULL, NULL, NULL, NULL},
    [XOR] = {"np.bitwise_xor", NULL, NULL, NULL, NULL, NULL},
    [LESS] = {"np.less", NULL, NULL, NULL, NULL, NULL},
    [LESS_EQUAL] = {"np.less_equal", NULL, NULL, NULL, NULL, NULL},
    [EQUAL] = {"np.equal", NULL, NULL, NULL, NULL, NULL},
    [NOT_EQUAL] = {"np.not_equal", NULL, NULL, NULL, NULL, NULL},
    [GREATER] = {"np.greater", NULL, NULL, NULL, NULL, NULL},
    [GREATER_EQUAL] = {"np.greater_equal", NULL, NULL, NULL, NULL, NULL},
};

static np_row *row_of(int i)
{
    np_row *row = &rows[i];
    if (!row->op) { /* under the GIL */
        row->array_op = row->array ? mx_op_find(row->array) : NULL;
        row->scalar_op = row->scalar ? mx_op_find(row->scalar) : NULL;
        row->op = mx_op_find(row->name);
    }
    return row;
}

static bool is_float(const mx_array *x) { return mx_dtype_is_float(x->dtype); }

static PyObject *run(mx_op *op, const void *attrs, int n, mx_array *const *in, PyObject *out)
{
    const bool before = mx_set_np_array(true);
    PyObject *result = op_run(op, attrs, n, in, out);
    mx_set_np_array(before);
    return result;
}

/* float op float of one type, float op number: the classic operator has the same rules.  NULL without an exception: no. */
static PyObject *short_way(const np_row *row, PyObject *a, PyObject *b, PyObject *out)
{
    if (!row->array_op || !np_check(a) || !is_float(nd_array(a)))
        return NULL;
    if (np_check(b) && nd_array(b)->dtype == nd_array(a)->dtype) {
        mx_array *in[2] = {nd_array(a), nd_array(b)};
        return run(row->array_op, NULL, 2, in, out);
    }
    if (!PyFloat_CheckExact(b) && !PyLong_CheckExact(b))
        return NULL;
    struct { double scalar; bool is_int; } attrs = {PyFloat_AsDouble(b), PyLong_CheckExact(b)};
    if (attrs.scalar == -1 && PyErr_Occurred())
        return NULL;
    mx_array *x = nd_array(a);
    return run(row->scalar_op, &attrs, 1, &x, out);
}

static bool is_operand(PyObject *x)
{
    return any_check(x) || is_number(x) || PyList_Check(x) || PyTuple_Check(x) ||
           (PyObject_CheckBuffer(x) && !PyBytes_Check(x) && !PyByteArray_Check(x));
}

int np_row_of(const char *name)
{
    for (int i = 0; i < (int)(sizeof rows / sizeof *rows); i++)
        if (!strcmp(rows[i].name, name))
            return i;
    return -1;
}
PyObject *np_short(int i, PyObject *a, PyObject *b) { return short_way(row_of(i), a, b, NULL); }

static PyObject *binary(int i, PyObject *a, PyObject *b, PyObject *out)
{
    np_row *row = row_of(i);
    PyObject *result = short_way(row, a, b, out), *held[2];
    if (result || PyErr_Occurred())
        return result;
    if (!is_operand(a) || !is_operand(b))
        Py_RETURN_NOTIMPLEMENTED;
    mx_array *in[2];
    mx_scope scope = mx_scope_open();
    held[1] = NULL;
    if (!np_operand(a, &in[0], &held[0], row->name) && !np_operand(b, &in[1], &held[1], row->name))
        result = run(row->op, NULL, 2, in, out);
    Py_XDECREF(held[0]), Py_XDECREF(held[1]);
    mx_scope_close(&scope);
    return result;
}

#define BINARY(name, row)                                                                    \
    static PyObject *np_##name(PyObject *a, PyObject *b) { return binary(row, a, b, NULL); } \
    static PyObject *np_inplace_##name(PyObject *a, PyObject *b) { return binary(row, a, b, np_check(a) ? a : NULL); }
BINARY(add, ADD)
BINARY(subtract, SUBTRACT)
BINARY(multiply, MULTIPLY)
BINARY(divide, DIVIDE)
BINARY(floor_divide, FLOOR_DIVIDE)
BINARY(remainder, REMAINDER)
BINARY(and, AND)
BINARY(or, OR)
BINARY(xor, XOR)
static PyObject *np_matmul(PyObject *a, PyObject *b) { return binary(MATMUL, a, b, NULL); }
static PyObject *np_power(PyObject *a, PyObject *b, PyObject *modulus)
{
    if (modulus != Py_None)
        return PyErr_Format(PyExc_TypeError, "pow() of arrays takes no modulus");
    return binary(POWER, a, b, NULL);
}
static PyObject *np_inplace_power(PyObject *a, PyObject *b, PyObject *modulus)
{
    return (void)modulus, binary(POWER, a, b, np_check(a) ? a : NULL);
}
static PyObject *np_divmod(PyObject *a, PyObject *b)
{
    PyObject *whole = np_floor_divide(a, b), *rest = whole ? np_remainder(a, b) : NULL;
    PyObject *pair = rest ? PyTuple_Pack(2, whole, rest) : NULL;
    Py_XDECREF(whole), Py_XDECREF(rest);
    return pair;
}

static PyObject *unary(mx_op *op, PyObject *self)
{
    mx_array *x = any_array(self, op->name);
    return x ? run(op, NULL, 1, &x, NULL) : NULL;
}
static PyObject *np_negative(PyObject *self) { return unary(MX_OP("np.negative"), self); }
static PyObject *np_absolute(PyObject *self) { return unary(MX_OP("np.abs"), self); }
static PyObject *np_positive(PyObject *self) { return unary(MX_OP("np.positive"), self); }
static PyObject *np_invert(PyObject *self) { return unary(MX_OP("np.invert"), self); }

static PyObject *np_richcompare(PyObject *a, PyObject *b, int operation)
{
    static const int row[] = {[Py_LT] = LESS,      [Py_LE] = LESS_EQUAL, [Py_EQ] = EQUAL,
                              [Py_NE] = NOT_EQUAL, [Py_GT] = GREATER,    [Py_GE] = GREATER_EQUAL};
    return binary(row[operation], a, b, NULL);
}

static PyNumberMethods np_numbers = { /* what is missing here is inherited */
    .nb_add = np_add,
    .nb_subtract = np_subtract,
    .nb_multiply = np_multiply,
    .nb_true_divide = np_divide,
    .nb_floor_divide = np_floor_divide,
    .nb_remainder = np_remainder,
    .nb_divmod = np_divmod,
    .nb_power = np_power,
    .nb_matrix_multiply = np_matmul,
    .nb_and = np_and,
    .nb_or = np_or,
    .nb_xor = np_xor,
    .nb_invert = np_invert,
    .nb_negative = np_negative,
    .nb_absolute = np_absolute,
    .nb_positive = np_positive,
    .nb_inplace_add = np_inplace_add,
    .nb_inplace_subtract = np_inplace_subtract,
    .nb_inplace_multiply = np_inplace_multiply,
    .nb_inplace_true_divide = np_inplace_divide,
    .nb_inplace_floor_divide = np_inplace_floor_divide,
    .nb_inplace_remainder = np_inplace_remainder,
    .nb_inplace_power = np_inplace_power,
    .nb_inplace_and = np_inplace_and,
    .nb_inplace_or = np_inplace_or,
    .nb_inplace_xor = np_inplace_xor,
};
static PyNumberMethods np_symbol_numbers; /* the same, filled in by add_np_arrays() */

/* ---- indexing ------------------------------------------------------------------------------------------------------ */

/* NumPy's rules hold inside: classes, and x[i] of a vector is 0-d. */
typedef struct np_rules {
    bool array, shape;
} np_rules;
static np_rules enter_rules(void) { return (np_rules){mx_set_np_array(true), mx_set_np_shape(true)}; }
static void leave_rules(np_rules before)
{
    mx_set_np_array(before.array);
    mx_set_np_shape(before.shape);
}

static PyObject *np_get(PyObject *self, PyObject *key)
{
    mx_array *x = any_array(self, "ndarray");
    if (!x)
        return NULL;
    const np_rules before = enter_rules();
    PyObject *result = nd_index(self, x, key);
    leave_rules(before);
    return result;
}
static int np_set(PyObject *self, PyObject *key, PyObject *value)
{
    const np_rules before = enter_rules();
    const int failed = nd_mapping.mp_ass_subscript(self, key, value);
    leave_rules(before);
    return failed;
}
static PyObject *np_item_at(PyObject *self, Py_ssize_t i)
{
    const np_rules before = enter_rules();
    PyObject *result = nd_sequence.sq_item(self, i);
    leave_rules(before);
    return result;
}
static PyMappingMethods np_mapping = {NULL, np_get, np_set};
static PySequenceMethods np_sequence = {.sq_item = np_item_at};

static PyObject *np_iter(PyObject *self)
{
    if (nd_array(self)->ndim == 0)
        return PyErr_Format(PyExc_TypeError, "iteration over a 0-d array");
    return PySeqIter_New(self);
}

/* A symbol with known size along its first axis can be iterated over. */
static PyObject *np_symbol_get(PyObject *self, PyObject *key)
{
    if (sym_count(self) != 1 || PyUnicode_Check(key))
        return sym_type.tp_as_mapping->mp_subscript(self, key);
    return np_get(self, key);
}
static PyMappingMethods np_symbol_mapping = {NULL, np_symbol_get, NULL};

/* ---- both classes of one array ----------------------------------------------------------------------------------- */

static PyObject *wrap_as(mx_array *x, bool np)
{
    const bool before = mx_set_np_array(np);
    PyObject *result = nd_wrap(x);
    mx_set_np_array(before);
    return result;
}
PyObject *np_as_np(PyObject *self, PyObject *unused)
{
    (void)unused;
    mx_array *x = any_array(self, "as_np_ndarray");
    return x ? wrap_as(x, true) : NULL;
}
PyObject *np_as_nd(PyObject *self, PyObject *unused)
{
    (void)unused;
    mx_array *x = any_array(self, "as_nd_ndarray");
    return x ? wrap_as(x, false) : NULL;
}

static PyMethodDef np_methods[] = {
    {"as_np_ndarray", np_as_np, METH_NOARGS, "The same array in the interface mx.np."},
    {"as_nd_ndarray", np_as_nd, METH_NOARGS, "The same array in the interface mx.nd."},
    {NULL, NULL, 0, NULL},
};

PyTypeObject np_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "mxnet.numpy.ndarray",
    .tp_basicsize = sizeof(nd_object),
    .tp_doc = "An array with NumPy's rules.  Created by np.array, np.zeros ... and by the functions of mx.np and mx.npx.",
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_base = &nd_type,
    .tp_hash = hash_of_identity,
    .tp_richcompare = np_richcompare,
    .tp_iter = np_iter,
    .tp_as_number = &np_numbers,
    .tp_as_mapping = &np_mapping,
    .tp_as_sequence = &np_sequence,
    .tp_methods = np_methods,
};
PyTypeObject np_symbol_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "mxnet.symbol.numpy._Symbol",
    .tp_basicsize = sizeof(sym_object),
    .tp_doc = "A symbol with NumPy's rules.",
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_base = &sym_type,
    .tp_hash = hash_of_identity,
    .tp_richcompare = np_richcompare,
    .tp_as_number = &np_symbol_numbers,
    .tp_as_mapping = &np_symbol_mapping,
    .tp_methods = np_methods,
};

/* ---- the module's part ---------------------------------------------------------------------------------------------- */

static PyObject *set_switch(PyObject *on, bool (*set)(bool))
{
    const int value = PyObject_IsTrue(on);
    return value < 0 ? NULL : PyBool_FromLong(set(value));
}
static PyObject *set_np_array(PyObject *self, PyObject *on) { return (void)self, set_switch(on, mx_set_np_array); }
static PyObject *set_np_dtype(PyObject *self, PyObject *on)
{
    return (void)self, set_switch(on, mx_set_np_default_dtype);
}
static PyObject *is_np_array(PyObject *self, PyObject *unused)
{
    return (void)self, (void)unused, PyBool_FromLong(mx_is_np_array());
}
static PyObject *is_np_dtype(PyObject *self, PyObject *unused)
{
    return (void)self, (void)unused, PyBool_FromLong(mx_default_float() == MX_FLOAT64);
}

static PyObject *as_np(PyObject *self, PyObject *x) { return (void)self, np_as_np(x, NULL); }

static PyMethodDef functions[] = {
    {"as_np", as_np, METH_O, "An array or symbol in the interface mx.np."},
    {"set_np_array", set_np_array, METH_O, "Whether new arrays are those of mx.np, in this thread; returns the previous state."},
    {"is_np_array", is_np_array, METH_NOARGS, "Whether new arrays are those of mx.np."},
    {"set_np_default_dtype", set_np_dtype, METH_O, "Whether floats are float64 by default; returns the previous state."},
    {"is_np_default_dtype", is_np_dtype, METH_NOARGS, "Whether floats are float64 by default."},
    {NULL, NULL, 0, NULL},
};

int add_np_arrays(PyObject *module)
{
    np_symbol_numbers = np_numbers;
    if (PyType_Ready(&np_type) || PyType_Ready(&np_symbol_type))
        return -1;
    open_type(&np_type), open_type(&np_symbol_type);
    if (PyModule_AddObjectRef(module, "ndarray", (PyObject *)&np_type) ||
        PyModule_AddObjectRef(module, "NumpySymbol", (PyObject *)&np_symbol_type))
        return -1;
    return PyModule_AddFunctions(module, functions);
}
