/* Mixed precision: switching it, the lists of operators, converted graphs.  SPDX-License-Identifier: Apache-2.0 */
#include "gluon/amp.h"

#include "base/error.h"
#include "block.h"
#include "gluon/deploy.h"
#include "symbol.h"

static const char *const names[] = {"any", "target", "float32", "widest", "data"}; /* by mx_precision */

static PyObject *done(mx_code code) { return code ? raise_error() : core_new_ref(Py_None); }

/* amp_init(dtype): 'float32' turns it off. */
static PyObject *amp_init(PyObject *self, PyObject *type)
{
    mx_dtype dtype;
    (void)self;
    return dtype_from(type, &dtype) ? NULL : done(mx_amp_init(dtype));
}

/* amp_set(op, precision) */
static PyObject *amp_set(PyObject *self, PyObject *args)
{
    const char *op, *precision;
    (void)self;
    if (!PyArg_ParseTuple(args, "ss:amp_set", &op, &precision))
        return NULL;
    for (int i = 0; i < (int)(sizeof names / sizeof *names); i++)
        if (!strcmp(names[i], precision))
            return done(mx_amp_set(op, (mx_precision)i));
    return PyErr_Format(PyExc_ValueError, "amp_set: unknown precision '%s'", precision);
}

/* amp_set_where(op, attribute, value) */
static PyObject *amp_set_where(PyObject *self, PyObject *args)
{
    const char *op, *attribute, *value;
    (void)self;
    if (!PyArg_ParseTuple(args, "sss:amp_set_where", &op, &attribute, &value))
        return NULL;
    return done(mx_amp_set_where(op, attribute, value));
}

/* amp_rows(): [(op, precision, is a loss, attribute or None, value or None)] */
static PyObject *amp_rows(PyObject *self, PyObject *unused)
{
    PyObject *list = PyList_New(0);
    mx_amp_row row;
    (void)self, (void)unused;
    for (int i = 0; list && mx_amp_row_at(i, &row); i++) {
        PyObject *item =
            Py_BuildValue("ssNzz", row.op, names[row.precision], PyBool_FromLong(row.loss), row.attribute, row.value);
        if (!item || PyList_Append(list, item))
            Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

/* ---- graphs ------------------------------------------------------------------------------------------------------ */

/* The strings of a sequence of str, ended by NULL; empty without an exception for None.  For PyMem_Free. */
static int texts_of(PyObject *sequence, PyObject **fast, const char ***texts)
{
    *fast = NULL, *texts = NULL;
    if (sequence == Py_None)
        return 0;
    if (!(*fast = PySequence_Fast(sequence, "amp: expected a list of names")))
        return -1;
    const Py_ssize_t n = PySequence_Fast_GET_SIZE(*fast);
    if (!(*texts = core_memory((size_t)n + 1, sizeof **texts)))
        return PyErr_NoMemory(), -1;
    for (Py_ssize_t i = 0; i < n; i++)
        if (!((*texts)[i] = PyUnicode_AsUTF8(PySequence_Fast_GET_ITEM(*fast, i))))
            return -1;
    return 0;
}

/* Conditions from operator, attribute, value, operator, attribute, value ...  For PyMem_Free. */
static mx_amp_row *conditions_of(const char *const *texts, Py_ssize_t n)
{
    mx_amp_row *rows = core_memory((size_t)n + 1, sizeof *rows);
    for (Py_ssize_t i = 0; rows && i < n; i++)
        rows[i] = (mx_amp_row){texts[3 * i], MX_PRECISION_FLOAT32, false, texts[3 * i + 1], texts[3 * i + 2]};
    return rows ? rows : (mx_amp_row *)PyErr_NoMemory();
}

/* The arguments of a conversion, from (dtype, operators in 16 bits, in float32, [operator, attribute, value, ...], names of
 * nodes that stay in float32); lists may be None. */
typedef struct conversion {
    struct mx_amp_convert_args args;
    PyObject *fast[4]; /* the lists */
    const char **texts[4];
    mx_amp_row *conditions;
} conversion;

static void conversion_free(conversion *c)
{
    PyMem_Free(c->conditions);
    for (int i = 0; i < 4; i++)
        PyMem_Free((void *)c->texts[i]), Py_XDECREF(c->fast[i]);
}

static bool conversion_read(conversion *c, PyObject *options)
{
    PyObject *type, *given[4];
    mx_dtype dtype;
    if (!PyArg_ParseTuple(options, "OOOOO:amp_convert", &type, &given[0], &given[1], &given[2], &given[3]) ||
        dtype_from(type, &dtype))
        return false;
    bool ok = true;
    for (int i = 0; ok && i < 4; i++)
        ok = !texts_of(given[i], &c->fast[i], &c->texts[i]);
    if (ok && c->texts[2])
        ok = (c->conditions = conditions_of(c->texts[2], PySequence_Fast_GET_SIZE(c->fast[2]) / 3)) != NULL;
    c->args = (struct mx_amp_convert_args){.target = dtype, .target_ops = c->texts[0], .float32_ops = c->texts[1],
                                           .conditions = c->conditions, .excluded = c->texts[3]};
    return ok;
}

/* amp_convert(symbol, options) */
static PyObject *amp_convert(PyObject *self, PyObject *args)
{
    PyObject *symbol, *options, *result = NULL;
    conversion c = {0};
    (void)self;
    if (!PyArg_ParseTuple(args, "O!O!:amp_convert", &sym_type, &symbol, &PyTuple_Type, &options))
        return NULL;
    mx_scope scope = mx_scope_open();
    if (conversion_read(&c, options) && (c.args.symbol = sym_symbol(symbol)))
        result = sym_wrap(mx_amp_convert_make(&c.args));
    mx_scope_close(&scope);
    conversion_free(&c);
    return result;
}

/* block._start_amp(other block, options, whether parameters are cast): makes the object a converted copy; its graph. */
PyObject *block_start_amp(PyObject *object, PyObject *args)
{
    block_object *self = (block_object *)object;
    PyObject *other, *options, *result = NULL;
    int cast_params;
    conversion c = {0};
    mx_array *examples[MOST_ARRAYS];
    if (!PyArg_ParseTuple(args, "O!O!p:_start_amp", &block_type, &other, &PyTuple_Type, &options, &cast_params) ||
        block_prepare(self))
        return NULL;
    mx_scope scope = mx_scope_open();
    const int n = block_examples((block_object *)other, "convert_hybrid_block", examples);
    if (n >= 0 && conversion_read(&c, options)) {
        const mx_arrays in = {examples, n};
        mx_block *made = mx_amp_convert_block(block_of(other), in, &c.args, cast_params);
        if (made)
            block_attach(self, mx_retain(made)), self->native = true;
        result = made ? sym_wrap(mx_trace_arrays(made, in)) : raise_error();
    }
    mx_scope_close(&scope);
    conversion_free(&c);
    return result;
}

/* amp_cast_variables(symbol, dtype) */
static PyObject *amp_cast_variables(PyObject *self, PyObject *args)
{
    PyObject *symbol, *type;
    mx_dtype dtype;
    (void)self;
    if (!PyArg_ParseTuple(args, "O!O:amp_cast_variables", &sym_type, &symbol, &type) || dtype_from(type, &dtype) ||
        !sym_symbol(symbol))
        return NULL;
    mx_scope scope = mx_scope_open();
    PyObject *result = names_to(mx_amp_cast_variables(sym_symbol(symbol), dtype));
    mx_scope_close(&scope);
    return result;
}

static PyMethodDef functions[] = {
    {"amp_init", amp_init, METH_O, "Mixed precision in this type; 'float32': off."},
    {"amp_set", amp_set, METH_VARARGS, "amp_set(op, precision): 'any', 'target', 'float32', 'widest' or 'data'."},
    {"amp_set_where", amp_set_where, METH_VARARGS,
     "amp_set_where(op, attribute, value): float32 under this condition."},
    {"amp_rows", amp_rows, METH_NOARGS, "(op, precision, loss, attribute, value) of the library's lists."},
    {"amp_convert", amp_convert, METH_VARARGS,
     "amp_convert(symbol, (dtype, target_ops, float32_ops, conditions, excluded)): the graph with casts."},
    {"amp_cast_variables", amp_cast_variables, METH_VARARGS,
     "amp_cast_variables(symbol, dtype): variables that only casts to this type read."},
    {NULL, NULL, 0, NULL},
};

int add_amp(PyObject *module) { return PyModule_AddFunctions(module, functions); }
