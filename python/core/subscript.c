/* x[key] and x[key] = value.  Keys become mx_key; the library does the rest.  SPDX-License-Identifier: Apache-2.0 */
#include "core.h"
#include "np_array.h"

#define MAX_KEYS (2 * MX_MAX_NDIM + 2)

typedef struct keys {
    mx_key key[MAX_KEYS];
    PyObject *made[MAX_KEYS]; /* index arrays made from lists; to be released */
    int count;
} keys;

static void forget(keys *k)
{
    for (int i = 0; i < k->count; i++)
        Py_XDECREF(k->made[i]);
}

static int bound(PyObject *value, int64_t *slot)
{
    if (value == Py_None) {
        *slot = MX_NONE_INT;
        return 0;
    }
    PyObject *index = PyNumber_Index(value);
    if (!index)
        return -1;
    *slot = PyLong_AsLongLong(index);
    Py_DECREF(index);
    return *slot == -1 && PyErr_Occurred() ? -1 : 0;
}

static bool has_booleans(PyObject *buffer)
{
    Py_buffer view;
    if (PyObject_GetBuffer(buffer, &view, PyBUF_FULL_RO))
        return PyErr_Clear(), false;
    const bool result = view.format && view.format[0] == '?';
    PyBuffer_Release(&view);
    return result;
}

static bool is_boolean_index(PyObject *item)
{
    if (PyBool_Check(item))
        return true;
    if (nd_check(item))
        return nd_array(item)->dtype == MX_BOOL;
    if (!PyList_Check(item) && !PyTuple_Check(item))
        return PyObject_CheckBuffer(item) && has_booleans(item);
    return PySequence_Fast_GET_SIZE(item) && PyBool_Check(PySequence_Fast_GET_ITEM(item, 0));
}

/* An index array: lists, ranges, NumPy arrays; integers become int64, the library truncates floats. */
static int array_key(keys *k, PyObject *item, mx_context context)
{
    const bool mask = is_boolean_index(item);
    if (mask && !mx_is_np_array()) {
        PyErr_SetString(PyExc_ValueError, "NDArray: boolean indices are not supported; see nd.contrib.boolean_mask");
        return -1;
    }
    mx_key *key = &k->key[k->count];
    PyObject *made = any_check(item) ? core_new_ref(item) : NULL;
    if (!made && (PyList_Check(item) || PyTuple_Check(item) || PyRange_Check(item) || PyObject_CheckBuffer(item)))
        made = nd_from_any(item, context, mask ? MX_BOOL : MX_INT64);
    if (!made) {
        if (!PyErr_Occurred())
            PyErr_Format(PyExc_ValueError,
                         "NDArray: an index may be int, slice, None, ... or an array of ints, got %.200s",
                         Py_TYPE(item)->tp_name);
        return -1;
    }
    key->kind = MX_KEY_ARRAY;
    if (!(key->index = any_array(made, "index")))
        return Py_DECREF(made), -1;
    k->made[k->count++] = made;
    return 0;
}

static int add_key(keys *k, PyObject *item, mx_context context)
{
    mx_key *key = &k->key[k->count];
    k->made[k->count] = NULL;
    if (k->count >= MAX_KEYS - 1) {
        PyErr_Format(PyExc_IndexError, "NDArray: too many indices: more than %d", MAX_KEYS - 1);
        return -1;
    }
    if (item == Py_None)
        key->kind = MX_KEY_NEWAXIS;
    else if (item == Py_Ellipsis)
        key->kind = MX_KEY_ELLIPSIS;
    else if (PySlice_Check(item)) {
        PySliceObject *slice = (PySliceObject *)item;
        key->kind = MX_KEY_SLICE;
        if (bound(slice->start, &key->start) || bound(slice->stop, &key->stop) || bound(slice->step, &key->step))
            return -1;
    } else if (!any_check(item) && PyIndex_Check(item) && !PyBool_Check(item) && !PySequence_Check(item)) {
        key->kind = MX_KEY_INT;
        if (bound(item, &key->start))
            return -1;
    } else
        return array_key(k, item, context);
    k->count++;
    return 0;
}

static int read_keys(keys *k, PyObject *key, mx_context context)
{
    k->count = 0;
    if (!PyTuple_Check(key))
        return add_key(k, key, context);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); i++)
        if (add_key(k, PyTuple_GET_ITEM(key, i), context))
            return forget(k), -1;
    return 0;
}

static bool is_whole(PyObject *key)
{
    if (key == Py_Ellipsis || (PyTuple_Check(key) && !PyTuple_GET_SIZE(key)))
        return true;
    const PySliceObject *slice = (PySliceObject *)key;
    return PySlice_Check(key) && slice->start == Py_None && slice->stop == Py_None && slice->step == Py_None;
}

PyObject *nd_index(PyObject *self, mx_array *x, PyObject *key)
{
    if (is_whole(key))
        return core_new_ref(self);
    keys k;
    if (read_keys(&k, key, x->context))
        return NULL;
    mx_scope scope = mx_scope_open();
    mx_array *made = mx_index_keys(x, k.key, k.count);
    PyObject *result = made ? nd_wrap(made) : raise_error();
    mx_scope_close(&scope);
    forget(&k);
    return result;
}

static PyObject *get(PyObject *self, PyObject *key) { return nd_index(self, nd_array(self), key); }

static PyObject *item_at(PyObject *self, Py_ssize_t i)
{
    mx_key key = MX_AT(i);
    mx_array *x = nd_array(self);
    if (x->ndim > 0 && i >= x->shape[0]) /* ends a for loop: no message is needed */
        return PyErr_SetNone(PyExc_IndexError), NULL;
    mx_scope scope = mx_scope_open();
    mx_array *made = mx_index_keys(x, &key, 1);
    PyObject *result = made ? nd_wrap(made) : raise_error();
    mx_scope_close(&scope);
    return result;
}

/* ---- assignment ------------------------------------------------------------------------------------------------- */

static int check_writable(mx_array *x)
{
    if (!x->readonly)
        return 0;
    PyErr_SetString(PyExc_ValueError, "NDArray: the array is read-only");
    return -1;
}

static int fill(mx_array *x, PyObject *number)
{
    const double value = PyFloat_AsDouble(number);
    if (value == -1 && PyErr_Occurred())
        return -1;
    return mx_array_fill(x, value) ? raise_error(), -1 : 0;
}

static int assign(mx_array *x, PyObject *key, PyObject *value)
{
    keys k;
    if (read_keys(&k, key, x->context))
        return -1;
    MX_SCOPE;
    const mx_code code = mx_assign_keys(x, k.key, k.count, nd_array(value));
    forget(&k);
    return code ? raise_error(), -1 : 0;
}

static int set(PyObject *self, PyObject *key, PyObject *value)
{
    mx_array *x = nd_array(self);
    if (!value) {
        PyErr_SetString(PyExc_TypeError, "NDArray: elements cannot be deleted");
        return -1;
    }
    if (check_writable(x))
        return -1;
    const bool whole = is_whole(key) && !mx_is_recording(); /* the tape must see writes */
    if (whole && is_number(value))
        return fill(x, value);
    PyObject *array = nd_check(value) ? core_new_ref(value) : nd_from_any(value, x->context, (mx_dtype)x->dtype);
    if (!array)
        return -1;
    int failed;
    if (whole) {
        PyThreadState *state = let_go(x->size > LONG_WORK);
        const mx_code code = mx_array_set(x, nd_array(array));
        take_back(state);
        failed = code ? raise_error(), -1 : 0;
    } else
        failed = assign(x, key, array);
    Py_DECREF(array);
    return failed;
}

static Py_ssize_t length(PyObject *self)
{
    const mx_array *x = nd_array(self);
    if (x->ndim < 1) {
        PyErr_SetString(PyExc_TypeError, "len() of an array without axes");
        return -1;
    }
    return (Py_ssize_t)x->shape[0];
}

/* `value in x`: whether an element equals it. */
static int contains(PyObject *self, PyObject *value)
{
    PyObject *equal = PyObject_RichCompare(self, value, Py_EQ);
    if (!equal || !nd_check(equal))
        return Py_XDECREF(equal), equal ? 0 : -1;
    mx_array *x = nd_array(equal);
    PyObject *any = op_run(MX_OP("max"), NULL, 1, &x, NULL);
    const int result = any ? PyObject_IsTrue(any) : -1;
    Py_XDECREF(any), Py_DECREF(equal);
    return result;
}

PyMappingMethods nd_mapping = {length, get, set};
PySequenceMethods nd_sequence = {.sq_length = length, .sq_item = item_at, .sq_contains = contains};
