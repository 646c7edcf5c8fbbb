/* Options of a layer that users read and write: _kwargs, the keywords of the operator that it calls, and _rate, _units ...
 *
 *     layer._kwargs["stride"] = (1, 1)  --- mxnet/gluon/_live.py ---> _set_kwargs(dict) ---> mx_block.prepared
 *     layer._rate = 0.2                                                                      mx_block.options
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/error.h"
#include "block.h"
#include "gluon/compile/hybrid.h"
#include "op/op.h"

/* Where the values are: attributes of the operator, or the layer's options. */
typedef struct place {
    const mx_schema *schema;
    char *values;
} place;

static place place_of(const mx_block *block)
{
    if (!block->layer->op)
        return (place){block->cls->schema, block->options};
    const mx_op *op = mx_op_find(block->layer->op);
    return (place){op ? op->schema : NULL, block->prepared};
}

/* The next word of "axis eps=epsilon": the keyword and the name of its field. */
static const char *next_word(const char *text, char key[32], char field[32])
{
    const size_t length = strcspn(text, " "), split = strcspn(text, " =");
    snprintf(key, 32, "%.*s", (int)split, text);
    snprintf(field, 32, "%.*s", (int)(split < length ? length - split - 1 : split),
             split < length ? text + split + 1 : text);
    return text + length + strspn(text + length, " ");
}

static const mx_field *field_of(const mx_block *block, const mx_schema *schema, const char *wanted)
{
    char key[32], field[32];
    for (const char *p = block->layer->kwargs; *p;) {
        p = next_word(p, key, field);
        if (!strcmp(key, wanted))
            return mx_schema_find(schema, field);
    }
    return mx_schema_find(schema, wanted); /* an attribute that the layer leaves at its default */
}

PyObject *block_get_kwargs(PyObject *object)
{
    block_object *self = (block_object *)object;
    const place at = place_of(self->block);
    char key[32], name[32];
    if (self->kwargs)
        return core_new_ref(self->kwargs);
    PyObject *items = PyList_New(0), *type = from_package("mxnet.gluon._live", "Live");
    for (const char *p = self->block->layer->kwargs; items && type && at.schema && *p;) {
        p = next_word(p, key, name);
        const mx_field *field = mx_schema_find(at.schema, name);
        PyObject *value = field ? field_get(field, at.values) : core_new_ref(Py_None);
        if (value && field && field->type == MX_FIELD_DTYPE)
            Py_SETREF(value, PyUnicode_FromString(mx_dtype_name(*(const mx_dtype *)(at.values + field->offset))));
        PyObject *pair = Py_BuildValue("(sN)", key, value);
        if (!pair || PyList_Append(items, pair))
            Py_CLEAR(items);
        Py_XDECREF(pair);
    }
    if (items && type)
        self->kwargs = PyObject_CallFunction(type, "OsO", object, "_set_kwargs", items);
    Py_XDECREF(items), Py_XDECREF(type);
    return self->kwargs ? core_new_ref(self->kwargs) : NULL;
}

int block_assign_kwargs(PyObject *object, PyObject *value)
{
    PyObject *live = block_get_kwargs(object);
    PyObject *done = live ? PyObject_CallMethod(live, "_assign", "O", value) : NULL;
    Py_XDECREF(live), Py_XDECREF(done);
    return done ? 0 : -1;
}

static int set_field(const mx_block *block, const place *at, const mx_field *field, char *values, PyObject *value)
{
    if (field_set(field, at->schema, values, value, block->class_name))
        return -1;
    const char **text = (const char **)(void *)(values + field->offset);
    if (field->type == MX_FIELD_STR && *text && !(*text = mx_intern(*text)))
        return raise_error(), -1;
    return 0;
}

/* _set_kwargs(dict): keywords that the operator does not have are the user's own. */
PyObject *block_set_kwargs(PyObject *object, PyObject *mapping)
{
    mx_block *block = block_of(object);
    const place at = block && block->layer && block->layer->kwargs ? place_of(block) : (place){0};
    if (!at.schema)
        return block ? PyErr_Format(PyExc_AttributeError, "%s has no _kwargs", block->class_name) : NULL;
    PyObject *items = PyMapping_Items(mapping);
    char *values = items ? core_memory(1, at.schema->size) : NULL;
    bool ok = values != NULL;
    if (ok)
        memcpy(values, at.values, at.schema->size);
    for (Py_ssize_t i = 0; ok && i < PyList_GET_SIZE(items); i++) {
        PyObject *pair = PyList_GET_ITEM(items, i);
        const char *name =
            PyUnicode_Check(PyTuple_GET_ITEM(pair, 0)) ? PyUnicode_AsUTF8(PyTuple_GET_ITEM(pair, 0)) : NULL;
        const mx_field *field = name ? field_of(block, at.schema, name) : NULL;
        ok = !field || field->type == MX_FIELD_PTR || !set_field(block, &at, field, values, PyTuple_GET_ITEM(pair, 1));
    }
    if (ok) {
        memcpy(at.values, values, at.schema->size);
        mx_hybrid_changed(block);
    }
    PyMem_Free(values);
    Py_XDECREF(items);
    return ok ? core_new_ref(Py_None) : PyErr_Occurred() ? NULL : PyErr_NoMemory();
}

/* A value that does not fit the option is the user's own attribute if it is an object of another kind (an activation may
 * be a function in Python), or if the class has its own forward; else the layer would go on with the old value. */
static bool users_own(const block_object *self, PyObject *value)
{
    const bool plain = value == Py_None || PyUnicode_Check(value) || PyNumber_Check(value) || PyTuple_Check(value);
    return !plain || self->overrides_hybrid || self->overrides_forward;
}

int block_set_option(block_object *self, PyObject *name, PyObject *value)
{
    mx_block *block = self->block;
    const char *text = PyUnicode_AsUTF8(name);
    const mx_schema *schema = block->cls ? block->cls->schema : NULL;
    const mx_field *field = text && *text == '_' && schema ? mx_schema_find(schema, text + 1) : NULL;
    const place at = {schema, block->options};
    if (!field || field->type == MX_FIELD_PTR)
        return 0;
    if (field->type == MX_FIELD_STR && value != Py_None && !PyUnicode_Check(value)) {
        if (users_own(self, value))
            return 0;
        PyErr_Format(PyExc_TypeError, "%s: '%U' must be text, got %.200s", block->class_name, name,
                     Py_TYPE(value)->tp_name);
        return -1;
    }
    char *values = core_memory(1, schema->size); /* a value that does not fit leaves the option as it is */
    if (!values)
        return PyErr_NoMemory(), -1;
    memcpy(values, at.values, schema->size);
    const bool fits = !set_field(block, &at, field, values, value);
    if (fits)
        memcpy(at.values, values, schema->size);
    PyMem_Free(values);
    if (!fits) {
        if (!users_own(self, value))
            return -1;
        PyErr_Clear();
    } else if (block->layer->prepare && block->layer->prepare(block)) {
        mx_error_clear();
    }
    mx_hybrid_changed(block);
    return 0;
}
