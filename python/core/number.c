/* Arithmetic and comparison of NDArrays: one table entry per Python operator.
 *
 *     array op array   -> the broadcasting operator
 *     array op number  -> the scalar operator          number op array -> its reversed form
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "core.h"
#include "symbol.h"

/* The layout of all scalar operators' attributes (op/def/pointwise/pointwise.c); checked when the module starts. */
typedef struct scalar_attrs {
    double scalar;
    bool is_int;
} scalar_attrs;

typedef struct binary_row {
    const char *symbol;                    /* "+", for messages */
    const char *array, *scalar, *reversed; /* operators; reversed NULL: order does not matter */
    mx_op *array_op, *scalar_op, *reversed_op;
} binary_row;

enum {
    ADD, SUBTRACT, MULTIPLY, DIVIDE, REMAINDER, POWER, LESS, LESS_EQUAL, EQUAL, NOT_EQUAL, GREATER, GREATER_EQUAL,
    MAXIMUM, MINIMUM, HYPOT, LOGICAL_AND, LOGICAL_OR, LOGICAL_XOR /* functions only: Python has no operator for them */
};
static binary_row rows[] = {
    [ADD] = {"+", "broadcast_add", "_plus_scalar", NULL, NULL, NULL, NULL},
    [SUBTRACT] = {"-", "broadcast_sub", "_minus_scalar", "_rminus_scalar", NULL, NULL, NULL},
    [MULTIPLY] = {"*", "broadcast_mul", "_mul_scalar", NULL, NULL, NULL, NULL},
    [DIVIDE] = {"/", "broadcast_div", "_div_scalar", "_rdiv_scalar", NULL, NULL, NULL},
    [REMAINDER] = {"%", "broadcast_mod", "_mod_scalar", "_rmod_scalar", NULL, NULL, NULL},
    [POWER] = {"**", "broadcast_power", "_power_scalar", "_rpower_scalar", NULL, NULL, NULL},
    [LESS] = {"<", "broadcast_lesser", "_lesser_scalar", "_greater_scalar", NULL, NULL, NULL},
    [LESS_EQUAL] = {"<=", "broadcast_lesser_equal", "_lesser_equal_scalar", "_greater_equal_scalar", NULL, NULL, NULL},
    [EQUAL] = {"==", "broadcast_equal", "_equal_scalar", NULL, NULL, NULL, NULL},
    [NOT_EQUAL] = {"!=", "broadcast_not_equal", "_not_equal_scalar", NULL, NULL, NULL, NULL},
    [GREATER] = {">", "broadcast_greater", "_greater_scalar", "_lesser_scalar", NULL, NULL, NULL},
    [GREATER_EQUAL] = {">=", "broadcast_greater_equal", "_greater_equal_scalar", "_lesser_equal_scalar",
                       NULL, NULL, NULL},
    [MAXIMUM] = {"maximum", "broadcast_maximum", "_maximum_scalar", NULL, NULL, NULL, NULL},
    [MINIMUM] = {"minimum", "broadcast_minimum", "_minimum_scalar", NULL, NULL, NULL, NULL},
    [HYPOT] = {"hypot", "broadcast_hypot", "_hypot_scalar", NULL, NULL, NULL, NULL},
    [LOGICAL_AND] = {"logical_and", "broadcast_logical_and", "_logical_and_scalar", NULL, NULL, NULL, NULL},
    [LOGICAL_OR] = {"logical_or", "broadcast_logical_or", "_logical_or_scalar", NULL, NULL, NULL, NULL},
    [LOGICAL_XOR] = {"logical_xor", "broadcast_logical_xor", "_logical_xor_scalar", NULL, NULL, NULL, NULL},
};

static binary_row *row_of(int i)
{
    binary_row *row = &rows[i];
    if (!row->array_op) { /* under the GIL */
        row->scalar_op = mx_op_find(row->scalar);
        row->reversed_op = mx_op_find(row->reversed ? row->reversed : row->scalar);
        row->array_op = mx_op_find(row->array);
    }
    return row;
}

static PyObject *with_scalar(mx_op *op, mx_array *x, PyObject *number, PyObject *out)
{
    scalar_attrs attrs = {PyFloat_AsDouble(number), PyLong_Check(number)};
    if (attrs.scalar == -1 && PyErr_Occurred())
        return NULL;
    return op_run(op, &attrs, 1, &x, out);
}

/* NumPy arrays and the like are converted to arrays of the same type. */
static PyObject *with_foreign(int i, PyObject *a, PyObject *b, PyObject *out)
{
    PyObject *foreign = nd_check(a) ? b : a, *ours = nd_check(a) ? a : b;
    if (!PyObject_CheckBuffer(foreign) || PyBytes_Check(foreign) || PyByteArray_Check(foreign))
        Py_RETURN_NOTIMPLEMENTED;
    PyObject *made = nd_from_any(foreign, nd_array(ours)->context, (mx_dtype)nd_array(ours)->dtype);
    if (!made)
        return NULL;
    mx_array *in[2] = {foreign == a ? nd_array(made) : nd_array(a), foreign == b ? nd_array(made) : nd_array(b)};
    PyObject *result = op_run(row_of(i)->array_op, NULL, 2, in, out);
    Py_DECREF(made);
    return result;
}

static PyObject *binary(int i, PyObject *a, PyObject *b, PyObject *out)
{
    binary_row *row = row_of(i);
    const bool a_array = nd_check(a), b_array = nd_check(b);
    if (a_array && b_array) {
        mx_array *in[2] = {nd_array(a), nd_array(b)};
        return op_run(row->array_op, NULL, 2, in, out);
    }
    if (a_array && is_number(b))
        return with_scalar(row->scalar_op, nd_array(a), b, out);
    if (b_array && is_number(a))
        return with_scalar(row->reversed_op, nd_array(b), a, out);
    return with_foreign(i, a, b, out);
}

#define BINARY(name, row)                                                                   \
    static PyObject *nd_##name(PyObject *a, PyObject *b) { return binary(row, a, b, NULL); } \
    static PyObject *nd_inplace_##name(PyObject *a, PyObject *b) { return binary(row, a, b, a); }
BINARY(add, ADD)
BINARY(subtract, SUBTRACT)
BINARY(multiply, MULTIPLY)
BINARY(divide, DIVIDE)
BINARY(remainder, REMAINDER)

static PyObject *nd_power(PyObject *a, PyObject *b, PyObject *modulus)
{
    if (modulus != Py_None)
        return PyErr_Format(PyExc_TypeError, "pow() of arrays takes no modulus");
    return binary(POWER, a, b, NULL);
}
static PyObject *nd_inplace_power(PyObject *a, PyObject *b, PyObject *modulus)
{
    return (void)modulus, binary(POWER, a, b, a);
}

static PyObject *nd_matmul(PyObject *a, PyObject *b)
{
    if (!nd_check(a) || !nd_check(b))
        Py_RETURN_NOTIMPLEMENTED;
    mx_array *in[2] = {nd_array(a), nd_array(b)};
    return op_run(MX_OP("dot"), NULL, 2, in, NULL);
}

static PyObject *unary(mx_op *op, PyObject *self)
{
    mx_array *x = nd_array(self);
    return op_run(op, NULL, 1, &x, NULL);
}
static PyObject *nd_negative(PyObject *self) { return unary(MX_OP("negative"), self); }
static PyObject *nd_absolute(PyObject *self) { return unary(MX_OP("abs"), self); }
static PyObject *nd_positive(PyObject *self) { return core_new_ref(self); }

PyObject *nd_richcompare(PyObject *a, PyObject *b, int operation)
{
    static const int row[] = {
        [Py_LT] = LESS,      [Py_LE] = LESS_EQUAL, [Py_EQ] = EQUAL,
        [Py_NE] = NOT_EQUAL, [Py_GT] = GREATER,    [Py_GE] = GREATER_EQUAL};
    return binary(row[operation], a, b, NULL);
}

/* ---- functions of two numbers or arrays: nd.add(x, 1), nd.maximum(2, 3) ---------------------------------------- */

static PyObject *plain_power(PyObject *a, PyObject *b) { return PyNumber_Power(a, b, Py_None); }

/* Comparisons and logic of two numbers are 0 or 1. */
static PyObject *plain_compare(int i, PyObject *a, PyObject *b)
{
    static const int operations[] = {[LESS] = Py_LT, [LESS_EQUAL] = Py_LE, [EQUAL] = Py_EQ, [NOT_EQUAL] = Py_NE,
                                     [GREATER] = Py_GT, [GREATER_EQUAL] = Py_GE};
    const int value = PyObject_RichCompareBool(a, b, operations[i]);
    return value < 0 ? NULL : PyLong_FromLong(value);
}
static PyObject *plain_logic(int i, PyObject *a, PyObject *b)
{
    const int x = PyObject_IsTrue(a), y = PyObject_IsTrue(b);
    if (x < 0 || y < 0)
        return NULL;
    return PyLong_FromLong(i == LOGICAL_AND ? x && y : i == LOGICAL_OR ? x || y : x != y);
}
static PyObject *plain_choice(int i, PyObject *a, PyObject *b)
{
    const int greater = PyObject_RichCompareBool(a, b, i == MAXIMUM ? Py_GT : Py_LT);
    return greater < 0 ? NULL : core_new_ref(greater ? a : b);
}
static PyObject *plain_hypot(PyObject *a, PyObject *b)
{
    const double x = PyFloat_AsDouble(a), y = PyErr_Occurred() ? 0 : PyFloat_AsDouble(b);
    return PyErr_Occurred() ? NULL : PyFloat_FromDouble(hypot(x, y));
}

static PyObject *plain(int i, PyObject *a, PyObject *b)
{
    static const binaryfunc arithmetic[] = {
        [ADD] = PyNumber_Add,           [SUBTRACT] = PyNumber_Subtract,   [MULTIPLY] = PyNumber_Multiply,
        [DIVIDE] = PyNumber_TrueDivide, [REMAINDER] = PyNumber_Remainder, [POWER] = plain_power};
    if (i <= POWER)
        return arithmetic[i](a, b);
    if (i <= GREATER_EQUAL)
        return plain_compare(i, a, b);
    if (i == HYPOT)
        return plain_hypot(a, b);
    return i == MAXIMUM || i == MINIMUM ? plain_choice(i, a, b) : plain_logic(i, a, b);
}

/* f(lhs, rhs), by position or keyword (power: base, exp). */
static int two_arguments(const char *who, const char *const names[2], PyObject *const *args, Py_ssize_t n,
                         PyObject *keywords, PyObject *pair[2])
{
    const Py_ssize_t named = keywords ? PyTuple_GET_SIZE(keywords) : 0;
    pair[0] = n > 0 ? args[0] : NULL, pair[1] = n > 1 ? args[1] : NULL;
    bool ok = n + named == 2;
    for (Py_ssize_t i = 0; ok && i < named; i++) {
        PyObject *name = PyTuple_GET_ITEM(keywords, i);
        const int slot = !PyUnicode_CompareWithASCIIString(name, names[0])   ? 0
                         : !PyUnicode_CompareWithASCIIString(name, names[1]) ? 1
                                                                             : -1;
        ok = slot >= 0 && !pair[slot];
        if (ok)
            pair[slot] = args[n + i];
    }
    if (!ok)
        PyErr_Format(PyExc_TypeError, "%s: takes two arguments, %s and %s", who, names[0], names[1]);
    return ok ? 0 : -1;
}

static PyObject *function_of_two(int i, const char *who, PyObject *const *args, Py_ssize_t n, PyObject *keywords)
{
    static const char *const usual[2] = {"lhs", "rhs"}, *const of_power[2] = {"base", "exp"};
    PyObject *pair[2];
    if (two_arguments(who, i == POWER ? of_power : usual, args, n, keywords, pair))
        return NULL;
    if (is_number(pair[0]) && is_number(pair[1]))
        return plain(i, pair[0], pair[1]);
    if (sym_check(pair[0]) || sym_check(pair[1]))
        return sym_binary(i, pair[0], pair[1]);
    PyObject *result =
        nd_check(pair[0]) || nd_check(pair[1]) ? binary(i, pair[0], pair[1], NULL) : core_new_ref(Py_NotImplemented);
    if (result != Py_NotImplemented)
        return result;
    Py_DECREF(result);
    return PyErr_Format(PyExc_TypeError, "%s: expected two NDArrays, or an NDArray and a number, got %.200s and %.200s",
                        who, Py_TYPE(pair[0])->tp_name, Py_TYPE(pair[1])->tp_name);
}

#define FUNCTIONS(X)                                                                                      \
    X(add, ADD, "The sum, with broadcasting.")                                                            \
    X(subtract, SUBTRACT, "The difference, with broadcasting.")                                           \
    X(multiply, MULTIPLY, "The elementwise product, with broadcasting.")                                  \
    X(divide, DIVIDE, "The elementwise quotient, with broadcasting.")                                     \
    X(true_divide, DIVIDE, "The elementwise quotient, with broadcasting.")                                \
    X(modulo, REMAINDER, "The remainder of a division, with the sign of the divisor.")                    \
    X(power, POWER, "base to the power exp, with broadcasting.")                                          \
    X(maximum, MAXIMUM, "The larger of two elements, with broadcasting.")                                 \
    X(minimum, MINIMUM, "The smaller of two elements, with broadcasting.")                                \
    X(hypot, HYPOT, "The square root of the sum of squares, with broadcasting.")                          \
    X(equal, EQUAL, "1 where elements are equal, else 0.")                                                \
    X(not_equal, NOT_EQUAL, "1 where elements differ, else 0.")                                           \
    X(greater, GREATER, "1 where the left element is greater, else 0.")                                   \
    X(greater_equal, GREATER_EQUAL, "1 where the left element is greater or equal, else 0.")              \
    X(lesser, LESS, "1 where the left element is smaller, else 0.")                                       \
    X(lesser_equal, LESS_EQUAL, "1 where the left element is smaller or equal, else 0.")                  \
    X(logical_and, LOGICAL_AND, "1 where both elements are not 0, else 0.")                               \
    X(logical_or, LOGICAL_OR, "1 where one of the elements is not 0, else 0.")                            \
    X(logical_xor, LOGICAL_XOR, "1 where exactly one of the elements is not 0, else 0.")
#define DEFINE(name, row, doc)                                                                                \
    static PyObject *function_##name(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *keywords) \
    {                                                                                                         \
        return (void)self, function_of_two(row, #name, args, n, keywords);                                    \
    }
FUNCTIONS(DEFINE)
#define ENTRY(name, row, doc)                                                                  \
    {#name, (PyCFunction)(void (*)(void))function_##name, METH_FASTCALL | METH_KEYWORDS,       \
     row == POWER ? #name "(base, exp)\n--\n\n" doc : #name "(lhs, rhs)\n--\n\n" doc},
static PyMethodDef functions[] = {FUNCTIONS(ENTRY){NULL, NULL, 0, NULL}};

int add_numbers(PyObject *module) { return PyModule_AddFunctions(module, functions); }

/* ---- as Python numbers ----------------------------------------------------------------------------------------- */

static int nd_bool(PyObject *self)
{
    const mx_array *x = nd_array(self);
    if (!x->storage) {
        PyErr_SetString(PyExc_ValueError, "the array has no values: its shape is only being inferred (a hybrid forward "
                                          "must not depend on values)");
        return -1;
    }
    if (x->size == 0)
        return 0;
    if (x->size != 1) {
        PyErr_SetString(PyExc_ValueError, "the truth value of an array with several elements is ambiguous");
        return -1;
    }
    const double value = read_item(x);
    if (mx_error_code())
        return raise_error(), -1;
    return value != 0;
}

static bool single(PyObject *self, const char *who)
{
    if (nd_array(self)->size == 1)
        return true;
    PyErr_Format(PyExc_TypeError, "%s: only arrays with one element can be converted to a number, this one has %lld",
                 who, (long long)nd_array(self)->size);
    return false;
}

static PyObject *nd_float(PyObject *self)
{
    if (!single(self, "float()"))
        return NULL;
    const double value = read_item(nd_array(self));
    return mx_error_code() ? raise_error() : PyFloat_FromDouble(value);
}

static PyObject *nd_int(PyObject *self)
{
    if (!single(self, "int()"))
        return NULL;
    if (nd_array(self)->dtype == MX_INT64)
        return PyObject_CallMethod(self, "item", NULL);
    const double value = read_item(nd_array(self));
    return mx_error_code() ? raise_error() : PyLong_FromDouble(value);
}

static PyObject *nd_as_index(PyObject *self)
{
    const int dtype = nd_array(self)->dtype;
    if (dtype == MX_FLOAT32 || dtype == MX_FLOAT64 || dtype == MX_FLOAT16 || dtype == MX_BFLOAT16)
        return PyErr_Format(PyExc_TypeError, "only integer arrays with one element can be used as an index");
    return nd_int(self);
}

PyNumberMethods nd_number = {
    .nb_add = nd_add,
    .nb_subtract = nd_subtract,
    .nb_multiply = nd_multiply,
    .nb_true_divide = nd_divide,
    .nb_remainder = nd_remainder,
    .nb_power = nd_power,
    .nb_matrix_multiply = nd_matmul,
    .nb_negative = nd_negative,
    .nb_absolute = nd_absolute,
    .nb_positive = nd_positive,
    .nb_inplace_add = nd_inplace_add,
    .nb_inplace_subtract = nd_inplace_subtract,
    .nb_inplace_multiply = nd_inplace_multiply,
    .nb_inplace_true_divide = nd_inplace_divide,
    .nb_inplace_remainder = nd_inplace_remainder,
    .nb_inplace_power = nd_inplace_power,
    .nb_bool = nd_bool,
    .nb_float = nd_float,
    .nb_int = nd_int,
    .nb_index = nd_as_index,
};
