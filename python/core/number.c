/* Arithmetic and comparison of NDArrays: one row per Python operator.
 *
 *     array op array   -> the broadcasting operator
 *     array op number  -> the scalar operator          number op array -> its reversed form
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "core.h"

/* As the schema of all scalar operators (op/def/pointwise.c); checked when the module starts. */
typedef struct scalar_attrs {
    double scalar;
    bool is_int;
} scalar_attrs;

typedef struct binary_row {
    const char *symbol;                     /* "+", for messages */
    const char *array, *scalar, *reversed;  /* operators; reversed NULL: order does not matter */
    mx_op *array_op, *scalar_op, *reversed_op;
} binary_row;

enum { ADD, SUBTRACT, MULTIPLY, DIVIDE, REMAINDER, POWER, LESS, LESS_EQUAL, EQUAL, NOT_EQUAL, GREATER, GREATER_EQUAL };
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
    [GREATER_EQUAL] = {">=", "broadcast_greater_equal", "_greater_equal_scalar", "_lesser_equal_scalar", NULL, NULL, NULL},
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

/* NumPy arrays and the like take part as arrays of their own type. */
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
static PyObject *nd_inplace_power(PyObject *a, PyObject *b, PyObject *modulus) { return (void)modulus, binary(POWER, a, b, a); }

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
        [Py_LT] = LESS, [Py_LE] = LESS_EQUAL, [Py_EQ] = EQUAL, [Py_NE] = NOT_EQUAL, [Py_GT] = GREATER, [Py_GE] = GREATER_EQUAL};
    return binary(row[operation], a, b, NULL);
}

/* ---- as Python numbers -------------------------------------------------------------------------------------------- */

static int nd_bool(PyObject *self)
{
    const mx_array *x = nd_array(self);
    if (x->size == 0)
        return 0;
    if (x->size != 1) {
        PyErr_SetString(PyExc_ValueError, "the truth value of an array with several elements is ambiguous");
        return -1;
    }
    const double value = mx_item(x);
    if (mx_error_code())
        return raise_error(), -1;
    return value != 0;
}

static bool single(PyObject *self, const char *who)
{
    if (nd_array(self)->size == 1)
        return true;
    PyErr_Format(PyExc_TypeError, "%s: only arrays with one element are numbers, this one has %lld", who,
                 (long long)nd_array(self)->size);
    return false;
}

static PyObject *nd_float(PyObject *self)
{
    if (!single(self, "float()"))
        return NULL;
    const double value = mx_item(nd_array(self));
    return mx_error_code() ? raise_error() : PyFloat_FromDouble(value);
}

static PyObject *nd_int(PyObject *self)
{
    if (!single(self, "int()"))
        return NULL;
    if (nd_array(self)->dtype == MX_INT64)
        return PyObject_CallMethod(self, "item", NULL);
    const double value = mx_item(nd_array(self));
    return mx_error_code() ? raise_error() : PyLong_FromDouble(value);
}

static PyObject *nd_index(PyObject *self)
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
    .nb_index = nd_index,
};
