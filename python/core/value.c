/* Python values as the library's and back: types, contexts, tuples, attributes of operators.
 *
 * An attribute is set directly if the Python object has the obvious type; everything else goes through its str() and the
 * library's parser, which accepts every spelling and writes the error message.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "core.h"

/* ---- numbers ------------------------------------------------------------------------------------------------- */

bool is_number(PyObject *x)
{
    if (PyFloat_Check(x) || PyLong_Check(x))
        return true;
    if (nd_check(x) || PySequence_Check(x))
        return false;
    /* NumPy's scalars: numbers that are not containers. */
    return PyIndex_Check(x) || (PyNumber_Check(x) && PyObject_HasAttrString(x, "dtype"));
}

/* ---- element types ------------------------------------------------------------------------------------------- */

static PyObject *dtype_cache;               /* Python object -> number of the type */
static PyObject *numpy_types[MX_DTYPE_END]; /* number -> NumPy's type object */

static mx_dtype find_dtype(const char *name)
{
    for (int i = 0; i < MX_DTYPE_END; i++)
        if (!strcmp(mx_dtype_name((mx_dtype)i), name))
            return (mx_dtype)i;
    return MX_DTYPE_NONE;
}

/* NumPy has no bfloat16: the package represents it by a structured type. */
static bool is_bfloat16(PyObject *source)
{
    PyObject *names = PyObject_GetAttrString(source, "names");
    PyObject *first = names && PyTuple_Check(names) && PyTuple_GET_SIZE(names) == 1 ? PyTuple_GET_ITEM(names, 0) : NULL;
    const bool yes = first && PyUnicode_Check(first) && !PyUnicode_CompareWithASCIIString(first, "bfloat16");
    Py_XDECREF(names);
    PyErr_Clear();
    return yes;
}

/* NumPy's name of anything that denotes a type: numpy.float32, dtype('float32'), float ... */
static mx_dtype ask_numpy(PyObject *source)
{
    mx_dtype found = MX_DTYPE_NONE;
    if (!PyUnicode_Check(source) && !PyType_Check(source) && !PyObject_HasAttrString(source, "itemsize"))
        return found;
    if (is_bfloat16(source))
        return MX_BFLOAT16;
    PyObject *numpy = PyImport_ImportModule("numpy");
    PyObject *dtype = numpy ? PyObject_CallMethod(numpy, "dtype", "O", source) : NULL;
    PyObject *name = dtype ? PyObject_GetAttrString(dtype, "name") : NULL;
    const char *text = name ? PyUnicode_AsUTF8(name) : NULL;
    if (text)
        found = find_dtype(text);
    Py_XDECREF(name), Py_XDECREF(dtype), Py_XDECREF(numpy);
    PyErr_Clear();
    return found;
}

static mx_dtype dtype_uncached(PyObject *source)
{
    if (PyUnicode_Check(source)) {
        const char *text = PyUnicode_AsUTF8(source);
        mx_dtype found = text ? find_dtype(text) : MX_DTYPE_NONE;
        if (found != MX_DTYPE_NONE)
            return found;
    }
    PyObject *name = PyType_Check(source) ? PyObject_GetAttrString(source, "__name__") : NULL;
    const char *text = name ? PyUnicode_AsUTF8(name) : NULL;
    mx_dtype found = text ? find_dtype(text) : MX_DTYPE_NONE;
    Py_XDECREF(name);
    PyErr_Clear();
    return found != MX_DTYPE_NONE ? found : ask_numpy(source);
}

int dtype_from(PyObject *source, mx_dtype *dtype)
{
    *dtype = MX_DTYPE_NONE;
    if (source == Py_None)
        return 0;
    PyObject *known = PyDict_GetItemWithError(dtype_cache, source);
    if (known) {
        *dtype = (mx_dtype)PyLong_AsLong(known);
        return 0;
    }
    PyErr_Clear();
    const bool number_of_file = PyLong_CheckExact(source); /* as in files; not cached: 1 == True == 1.0 */
    if (!number_of_file)
        *dtype = dtype_uncached(source);
    else if (PyLong_AsLong(source) >= 0 && PyLong_AsLong(source) < MX_DTYPE_END)
        *dtype = (mx_dtype)PyLong_AsLong(source);
    PyErr_Clear();
    if (*dtype == MX_DTYPE_NONE || !mx_dtype_size(*dtype)) {
        PyErr_Format(PyExc_TypeError,
                     "%R is not a supported element type; there are float32, float64, float16, bfloat16, uint8, int8, "
                     "int32, int64 and bool",
                     source);
        return -1;
    }
    PyObject *number = number_of_file ? NULL : PyLong_FromLong(*dtype);
    if (number)
        PyDict_SetItem(dtype_cache, source, number);
    Py_XDECREF(number);
    PyErr_Clear();
    return 0;
}

PyObject *dtype_to(mx_dtype dtype)
{
    if (dtype < 0 || dtype >= MX_DTYPE_END)
        Py_RETURN_NONE;
    if (!numpy_types[dtype])
        numpy_types[dtype] = dtype == MX_BFLOAT16
                                 ? from_package("mxnet.base", "bfloat16")
                                 : from_package("numpy", dtype == MX_BOOL ? "bool_" : mx_dtype_name(dtype));
    return numpy_types[dtype] ? core_new_ref(numpy_types[dtype]) : NULL;
}

static PyObject *dtype_number(PyObject *self, PyObject *source)
{
    mx_dtype dtype;
    (void)self;
    return dtype_from(source, &dtype) ? NULL : PyLong_FromLong(dtype);
}

static PyObject *dtype_name(PyObject *self, PyObject *source)
{
    mx_dtype dtype;
    (void)self;
    return dtype_from(source, &dtype) ? NULL : PyUnicode_FromString(mx_dtype_name(dtype));
}

/* ---- contexts ------------------------------------------------------------------------------------------------ */

static PyObject *context_class;       /* mxnet.Context */
static PyObject *context_cache[8][8]; /* by type and small id */

static PyObject *set_context_class(PyObject *self, PyObject *cls)
{
    (void)self;
    Py_XSETREF(context_class, core_new_ref(cls));
    Py_RETURN_NONE;
}

PyObject *context_to(mx_context context)
{
    const bool common = context.type >= 0 && context.type < 8 && context.id >= 0 && context.id < 8;
    if (common && context_cache[context.type][context.id])
        return core_new_ref(context_cache[context.type][context.id]);
    if (!context_class)
        return PyErr_Format(PyExc_RuntimeError, "mxnet.context is not loaded");
    PyObject *made = PyObject_CallFunction(context_class, "ii", context.type, context.id);
    if (made && common)
        context_cache[context.type][context.id] = core_new_ref(made);
    return made;
}

static int number_attribute(PyObject *source, const char *name, int32_t *value)
{
    PyObject *found = PyObject_GetAttrString(source, name);
    const long number = found ? PyLong_AsLong(found) : -1;
    Py_XDECREF(found);
    if (PyErr_Occurred())
        return -1;
    *value = (int32_t)number;
    return 0;
}

int context_from(PyObject *source, mx_context *context)
{
    *context = (mx_context){0, 0};
    if (!source || source == Py_None)
        return 0;
    if (PyUnicode_Check(source)) {
        PyObject *parsed = PyObject_CallMethod(context_class, "from_text", "O", source);
        int failed = parsed ? context_from(parsed, context) : -1;
        Py_XDECREF(parsed);
        return failed;
    }
    if (context_class && PyObject_IsInstance(source, context_class) == 1)
        return number_attribute(source, "device_typeid", &context->type) ||
                       number_attribute(source, "device_id", &context->id)
                   ? -1
                   : 0;
    PyErr_Format(PyExc_TypeError, "expected a context such as mx.cpu(), got %.200s", Py_TYPE(source)->tp_name);
    return -1;
}

static PyObject *current_context(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    return context_to(mx_current_context());
}

static PyObject *set_current_context(PyObject *self, PyObject *source)
{
    mx_context context;
    (void)self;
    return context_from(source, &context) ? NULL : context_to(mx_set_current_context(context));
}

/* ---- tuples -------------------------------------------------------------------------------------------------- */

static int one_dim(PyObject *item, int64_t *dim)
{
    if (item == Py_None) {
        *dim = MX_NONE_INT;
        return 0;
    }
    PyObject *index = PyNumber_Index(item);
    if (!index)
        return -1;
    *dim = PyLong_AsLongLong(index);
    Py_DECREF(index);
    return *dim == -1 && PyErr_Occurred() ? -1 : 0;
}

/* True if `source` is an int or a sequence of ints; false without an exception if it must be parsed as text. */
static bool dims_direct(PyObject *source, mx_dims *dims)
{
    if (PyLong_CheckExact(source)) {
        dims->n = 1;
        dims->d[0] = PyLong_AsLongLong(source);
        if (!PyErr_Occurred())
            return true;
        PyErr_Clear();
        return false;
    }
    if (!PyTuple_Check(source) && !PyList_Check(source))
        return false;
    const Py_ssize_t n = PySequence_Fast_GET_SIZE(source);
    if (n > MX_MAX_TUPLE)
        return false;
    dims->n = (int32_t)n;
    for (Py_ssize_t i = 0; i < n; i++)
        if (one_dim(PySequence_Fast_GET_ITEM(source, i), &dims->d[i])) {
            PyErr_Clear();
            return false;
        }
    return true;
}

int dims_from(PyObject *source, mx_dims *dims, const char *who, const char *argument)
{
    if (dims_direct(source, dims))
        return 0;
    PyObject *list = PyUnicode_Check(source) ? NULL : PySequence_Tuple(source);
    PyErr_Clear();
    bool ok = list && dims_direct(list, dims);
    if (!ok && !list && PyIndex_Check(source)) {
        dims->n = 1;
        ok = !one_dim(source, &dims->d[0]);
        PyErr_Clear();
    }
    Py_XDECREF(list);
    if (!ok)
        PyErr_Format(PyExc_TypeError, "%s: %s must be an integer or a tuple of at most %d integers, got %R", who,
                     argument, MX_MAX_TUPLE, source);
    return ok ? 0 : -1;
}

PyObject *dims_to(const int64_t *dims, int count)
{
    PyObject *tuple = PyTuple_New(count);
    for (int i = 0; tuple && i < count; i++) {
        PyObject *item = dims[i] == MX_NONE_INT ? core_new_ref(Py_None) : PyLong_FromLongLong(dims[i]);
        if (!item)
            Py_CLEAR(tuple);
        else
            PyTuple_SET_ITEM(tuple, i, item);
    }
    return tuple;
}

/* ---- attributes ---------------------------------------------------------------------------------------------- */

static bool set_int(PyObject *value, int64_t *slot)
{
    if (!PyLong_Check(value) && !PyIndex_Check(value))
        return false;
    if (one_dim(value, slot))
        return PyErr_Clear(), false;
    return true;
}

static bool set_float(PyObject *value, double *slot)
{
    if (!PyFloat_Check(value) && !PyLong_Check(value) && !is_number(value))
        return false;
    *slot = PyFloat_AsDouble(value);
    if (*slot == -1 && PyErr_Occurred())
        return PyErr_Clear(), false;
    return true;
}

static bool set_floats(PyObject *value, mx_floats *slot)
{
    if (!PyTuple_Check(value) && !PyList_Check(value)) {
        slot->n = 1;
        return set_float(value, &slot->d[0]);
    }
    const Py_ssize_t n = PySequence_Fast_GET_SIZE(value);
    slot->n = (int32_t)n;
    for (Py_ssize_t i = 0; i < n && n <= MX_MAX_TUPLE; i++)
        if (!set_float(PySequence_Fast_GET_ITEM(value, i), &slot->d[i]))
            return false;
    return n <= MX_MAX_TUPLE;
}

/* True if the value had the obvious type of the field. */
static bool set_direct(const mx_field *field, void *slot, PyObject *value)
{
    switch (field->type) {
    case MX_FIELD_BOOL:
        if (!PyBool_Check(value) && !PyLong_Check(value))
            return false;
        *(bool *)slot = PyObject_IsTrue(value) == 1;
        return true;
    case MX_FIELD_INT: return set_int(value, slot);
    case MX_FIELD_FLOAT: return set_float(value, slot);
    case MX_FIELD_DIMS: return dims_direct(value, slot);
    case MX_FIELD_FLOATS: return set_floats(value, slot);
    case MX_FIELD_DTYPE: {
        mx_dtype dtype;
        if (dtype_from(value, &dtype))
            return PyErr_Clear(), false;
        *(mx_dtype *)slot = dtype;
        return true;
    }
    case MX_FIELD_CTX:
        if (context_from(value, slot))
            return PyErr_Clear(), false;
        return true;
    default: return false;
    }
}

/* Sequences that are not lists or tuples (NumPy arrays, NDArrays of sizes) are spelled as tuples. */
static PyObject *text_of(PyObject *value)
{
    if (PyUnicode_Check(value))
        return core_new_ref(value);
    if (PySequence_Check(value) && !PyTuple_Check(value) && !PyList_Check(value)) {
        PyObject *list = PyObject_HasAttrString(value, "tolist") ? PyObject_CallMethod(value, "tolist", NULL)
                                                                 : PySequence_Tuple(value);
        PyObject *text = list ? PyObject_Str(list) : NULL;
        Py_XDECREF(list);
        return text;
    }
    return PyObject_Str(value);
}

int field_set(const mx_field *field, const mx_schema *schema, void *attrs, PyObject *value, const char *who)
{
    if (set_direct(field, (char *)attrs + field->offset, value))
        return 0;
    PyObject *text = text_of(value);
    const char *spelled = text ? PyUnicode_AsUTF8(text) : NULL;
    const int failed = !spelled || mx_schema_set(schema, attrs, who, field->name, spelled);
    Py_XDECREF(text);
    if (failed)
        raise_error();
    return failed ? -1 : 0;
}

PyObject *field_get(const mx_field *field, const void *attrs)
{
    const void *slot = (const char *)attrs + field->offset;
    char text[MX_VALUE_TEXT];
    switch (field->type) {
    case MX_FIELD_BOOL: return PyBool_FromLong(*(const bool *)slot);
    case MX_FIELD_INT:
        return *(const int64_t *)slot == MX_NONE_INT ? core_new_ref(Py_None)
                                                     : PyLong_FromLongLong(*(const int64_t *)slot);
    case MX_FIELD_FLOAT:
        return isnan(*(const double *)slot) ? core_new_ref(Py_None) : PyFloat_FromDouble(*(const double *)slot);
    case MX_FIELD_DIMS: {
        const mx_dims *dims = slot;
        return dims->n < 0 ? core_new_ref(Py_None) : dims_to(dims->d, dims->n);
    }
    default:
        mx_field_text(field, attrs, text);
        return strcmp(text, "None") ? PyUnicode_FromString(text) : core_new_ref(Py_None);
    }
}

/* ---- the module's part ------------------------------------------------------------------------------------------ */

static PyMethodDef functions[] = {
    {"dtype_number", dtype_number, METH_O, "Number of an element type."},
    {"dtype_name", dtype_name, METH_O, "Name of an element type."},
    {"set_context_class", set_context_class, METH_O, "The class of contexts."},
    {"current_context", current_context, METH_NOARGS, "The thread's current context."},
    {"set_current_context", set_current_context, METH_O, "Sets the current context, returns the previous one."},
    {NULL, NULL, 0, NULL},
};

int add_values(PyObject *module)
{
    dtype_cache = PyDict_New();
    return !dtype_cache || PyModule_AddFunctions(module, functions) ? -1 : 0;
}
