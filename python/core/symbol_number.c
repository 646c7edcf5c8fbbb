/* Arithmetic and comparison of symbols.
 *
 * Two symbols are combined by the operator for equal shapes, as in MXNet (and its files); if both shapes are known and
 * differ, as while a block is traced, by the broadcasting one: so x + y means the same as on arrays.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "exec/tape.h"
#include "symbol.h"

typedef struct row {
    const char *equal, *broadcast;                  /* operators of two arrays */
    const char *scalar, *reversed;                  /* of an array and a number; reversed NULL: order does not matter */
    const char *hint, *scalar_hint, *reversed_hint; /* of automatic names */
} row;

enum {
    ADD,
    SUBTRACT,
    MULTIPLY,
    DIVIDE,
    REMAINDER,
    POWER,
    LESS,
    LESS_EQUAL,
    EQUAL,
    NOT_EQUAL,
    GREATER,
    GREATER_EQUAL,
    MAXIMUM,
    MINIMUM,
    HYPOT,
    LOGICAL_AND,
    LOGICAL_OR,
    LOGICAL_XOR
};
#define COMPARISON(name, other) \
    { \
        "_" name, "broadcast_" name, "_" name "_scalar", "_" other "_scalar", "_" name, "_" name "_scalar", \
            "_" other "_scalar" \
    }
static const row rows[] = {
    [ADD] = {"elemwise_add", "broadcast_add", "_plus_scalar", NULL, "_plus", "_plusscalar", NULL},
    [SUBTRACT] = {"elemwise_sub", "broadcast_sub", "_minus_scalar", "_rminus_scalar", "_minus", "_minusscalar",
                  "_rminusscalar"},
    [MULTIPLY] = {"elemwise_mul", "broadcast_mul", "_mul_scalar", NULL, "_mul", "_mulscalar", NULL},
    [DIVIDE] = {"elemwise_div", "broadcast_div", "_div_scalar", "_rdiv_scalar", "_div", "_divscalar", "_rdivscalar"},
    [REMAINDER] = {"_mod", "broadcast_mod", "_mod_scalar", "_rmod_scalar", "_mod", "_modscalar", "_rmodscalar"},
    [POWER] = {"_power", "broadcast_power", "_power_scalar", "_rpower_scalar", "_power", "_powerscalar",
               "_rpower_scalar"},
    [LESS] = COMPARISON("lesser", "greater"),
    [LESS_EQUAL] = COMPARISON("lesser_equal", "greater_equal"),
    [EQUAL] = COMPARISON("equal", "equal"),
    [NOT_EQUAL] = COMPARISON("not_equal", "not_equal"),
    [GREATER] = COMPARISON("greater", "lesser"),
    [GREATER_EQUAL] = COMPARISON("greater_equal", "lesser_equal"),
    [MAXIMUM] = {"_maximum", "broadcast_maximum", "_maximum_scalar", NULL, "_maximum", "_maximumscalar", NULL},
    [MINIMUM] = {"_minimum", "broadcast_minimum", "_minimum_scalar", NULL, "_minimum", "_minimumscalar", NULL},
    [HYPOT] = {"_hypot", "broadcast_hypot", "_hypot_scalar", NULL, "_hypot", "_hypotscalar", NULL},
    [LOGICAL_AND] = {"_logical_and", "broadcast_logical_and", "_logical_and_scalar", NULL, "_logical_and",
                     "_logical_and_scalar", NULL},
    [LOGICAL_OR] = {"_logical_or", "broadcast_logical_or", "_logical_or_scalar", NULL, "_logical_or",
                    "_logical_or_scalar", NULL},
    [LOGICAL_XOR] = {"_logical_xor", "broadcast_logical_xor", "_logical_xor_scalar", NULL, "_logical_xor",
                     "_logical_xor_scalar", NULL},
};

static PyObject *apply(const char *op, const char *hint, int n_in, mx_array *const *in, int n_attrs,
                       const char *const *keys, const char *const *values)
{
    MX_SCOPE;
    const char *name = sym_name(NULL, hint);
    if (!name)
        return NULL;
    struct mx_symbol_args args = {.name = name,
                                  .verbatim = true,
                                  .n_in = n_in,
                                  .in = in,
                                  .n_attrs = n_attrs,
                                  .attr_names = keys,
                                  .attr_values = values};
    return sym_wrap(mx_symbol_apply(op, &args));
}

/* Whether nothing contradicts equal shapes.  While a block is traced, a known and an unknown shape are assumed to differ. */
static bool seem_equal(const mx_array *a, const mx_array *b)
{
    if (a->ndim < 0 && b->ndim < 0)
        return true;
    if (a->ndim < 0 || b->ndim < 0)
        return !a->storage && !b->storage && !mx_thread.modes.tracing;
    bool same = a->ndim == b->ndim;
    for (int i = 0; i < a->ndim && same; i++)
        same = a->shape[i] == b->shape[i] || (a->shape[i] < 0 && b->shape[i] != 1) ||
               (b->shape[i] < 0 && a->shape[i] != 1);
    return same;
}

static PyObject *of_arrays(const row *r, mx_array *a, mx_array *b)
{
    if (!a || !b)
        return NULL;
    mx_array *in[2] = {a, b};
    const bool same = seem_equal(a, b);
    return apply(same ? r->equal : r->broadcast, same ? r->hint : r->broadcast, 2, in, 0, NULL, NULL);
}

static PyObject *of_number(const row *r, mx_array *x, PyObject *number, bool reversed)
{
    if (!x)
        return NULL;
    PyObject *plain = PyLong_Check(number) && !PyBool_Check(number) ? core_new_ref(number) : PyNumber_Float(number);
    PyObject *text = plain ? PyObject_Str(plain) : NULL;
    const char *keys[2] = {"scalar", "is_int"}, *values[2] = {text ? PyUnicode_AsUTF8(text) : NULL, "False"};
    const bool whole = x->dtype == MX_INT32 || x->dtype == MX_INT64 || x->dtype == MX_INT8 || x->dtype == MX_UINT8;
    PyObject *result = NULL;
    if (values[0])
        result = apply(reversed && r->reversed ? r->reversed : r->scalar,
                       reversed && r->reversed ? r->reversed_hint : r->scalar_hint, 1, &x,
                       whole && !PyLong_Check(number) ? 2 : 1, keys, values);
    Py_XDECREF(plain), Py_XDECREF(text);
    return result;
}

static PyObject *binary(int i, PyObject *a, PyObject *b)
{
    const row *r = &rows[i];
    if (any_check(a) && any_check(b))
        return of_arrays(r, any_array(a, "Symbol"), any_array(b, "Symbol"));
    if (sym_check(a) && is_number(b))
        return of_number(r, sym_array(a, r->hint), b, false);
    if (sym_check(b) && is_number(a))
        return of_number(r, sym_array(b, r->hint), a, true);
    PyObject *foreign = sym_check(a) ? b : a;
    if (!PyObject_CheckBuffer(foreign) || PyBytes_Check(foreign))
        Py_RETURN_NOTIMPLEMENTED;
    PyObject *made = nd_from_any(foreign, mx_current_context(), MX_DTYPE_NONE); /* NumPy arrays become constants */
    PyObject *result = made ? binary(i, foreign == a ? made : a, foreign == b ? made : b) : NULL;
    Py_XDECREF(made);
    return result;
}

PyObject *sym_binary(int i, PyObject *a, PyObject *b) { return binary(i, a, b); }

#define BINARY(name, row) \
    static PyObject *sym_##name(PyObject *a, PyObject *b) { return binary(row, a, b); }
BINARY(add, ADD)
BINARY(subtract, SUBTRACT)
BINARY(multiply, MULTIPLY)
BINARY(divide, DIVIDE)
BINARY(remainder, REMAINDER)

static PyObject *sym_power(PyObject *a, PyObject *b, PyObject *modulus)
{
    if (modulus != Py_None)
        return PyErr_Format(PyExc_TypeError, "pow() of symbols takes no modulus");
    return binary(POWER, a, b);
}
static PyObject *sym_negative(PyObject *self)
{
    PyObject *number = PyFloat_FromDouble(-1);
    PyObject *result = number ? binary(MULTIPLY, self, number) : NULL;
    Py_XDECREF(number);
    return result;
}
static PyObject *sym_absolute(PyObject *self)
{
    mx_array *x = sym_array(self, "abs");
    return x ? apply("abs", "abs", 1, &x, 0, NULL, NULL) : NULL;
}
static PyObject *sym_matmul(PyObject *a, PyObject *b)
{
    if (!any_check(a) || !any_check(b))
        Py_RETURN_NOTIMPLEMENTED;
    mx_array *in[2] = {any_array(a, "@"), any_array(b, "@")};
    return in[0] && in[1] ? apply("dot", "dot", 2, in, 0, NULL, NULL) : NULL;
}
static PyObject *sym_positive(PyObject *self) { return core_new_ref(self); }

PyObject *sym_richcompare(PyObject *a, PyObject *b, int operation)
{
    static const int which[] = {[Py_LT] = LESS,      [Py_LE] = LESS_EQUAL, [Py_EQ] = EQUAL,
                                [Py_NE] = NOT_EQUAL, [Py_GT] = GREATER,    [Py_GE] = GREATER_EQUAL};
    return binary(which[operation], a, b);
}

/* ---- a symbol is no number --------------------------------------------------------------------------------------- */

static int sym_bool(PyObject *self) { return (void)self, sym_refuse("bool()"), -1; }
static PyObject *sym_float(PyObject *self) { return (void)self, sym_refuse("float()"); }
static PyObject *sym_int(PyObject *self) { return (void)self, sym_refuse("int()"); }

PyNumberMethods sym_number = {
    .nb_add = sym_add,
    .nb_subtract = sym_subtract,
    .nb_multiply = sym_multiply,
    .nb_true_divide = sym_divide,
    .nb_remainder = sym_remainder,
    .nb_power = sym_power,
    .nb_matrix_multiply = sym_matmul,
    .nb_negative = sym_negative,
    .nb_absolute = sym_absolute,
    .nb_positive = sym_positive,
    .nb_bool = sym_bool,
    .nb_float = sym_float,
    .nb_int = sym_int,
};

/* ---- functions of two symbols or numbers: sym.maximum(x, 0) ------------------------------------------------------ */

/* symbol_binary(number of the table entry, lhs, rhs): NotImplemented if neither is a symbol. */
static PyObject *symbol_binary(PyObject *self, PyObject *args)
{
    int i;
    PyObject *a, *b;
    (void)self;
    if (!PyArg_ParseTuple(args, "iOO:symbol_binary", &i, &a, &b))
        return NULL;
    if (i < 0 || i > LOGICAL_XOR)
        return PyErr_Format(PyExc_IndexError, "symbol_binary: there is no function %d", i);
    if (!any_check(a) && !any_check(b))
        Py_RETURN_NOTIMPLEMENTED;
    return binary(i, a, b);
}

static PyMethodDef functions[] = {
    {"symbol_binary", symbol_binary, METH_VARARGS, "A function of two symbols, or of a symbol and a number."},
    {NULL, NULL, 0, NULL},
};

int add_symbol_numbers(PyObject *module) { return PyModule_AddFunctions(module, functions); }
