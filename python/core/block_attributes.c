/* The attributes of blocks: children and parameters that are assigned, options of layers, and what is created when it is asked for.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "block.h"
#include "gluon/compile/hybrid.h"

PyObject *block_register_child(PyObject *object, PyObject *args)
{
    block_object *self = (block_object *)object;
    PyObject *child, *name = Py_None;
    mx_block *block = block_of(object);
    if (!block || !PyArg_ParseTuple(args, "O|O:register_child", &child, &name))
        return NULL;
    if (!PyObject_TypeCheck(child, &block_type))
        return PyErr_Format(PyExc_TypeError, "%s: a child must be a Block, got %.200s", block->name,
                            Py_TYPE(child)->tp_name);
    if (!block_of(child))
        return NULL;
    PyObject *key =
        name == Py_None ? PyUnicode_FromFormat("%lld", (long long)block->children.length) : PyObject_Str(name);
    const char *text = key ? PyUnicode_AsUTF8(key) : NULL;
    if (text && !mx_block_child(block, text, block_of(child)))
        raise_error();
    else if (text && !live_set(self->children, key, child)) {
        structure_version++;
        Py_DECREF(key);
        Py_RETURN_NONE;
    }
    Py_XDECREF(key);
    return NULL;
}

/* A parameter whose class overrides data() is read in Python. */
static int keep_parameter(block_object *self, PyObject *name, PyObject *value)
{
    if (live_set(self->params, name, value))
        return -1;
    if (self->base && parameter_overrides(value))
        block_find_overrides(self);
    return 0;
}

static int register_parameter(block_object *self, PyObject *name, PyObject *value)
{
    mx_parameter *p = parameter_of(value);
    const char *text = PyUnicode_AsUTF8(name);
    if (!p || !text)
        return -1;
    mx_parameter *known = mx_dict_get(&self->block->attributes, text);
    if (known == p)
        return keep_parameter(self, name, value);
    if (known) {
        PyErr_Format(PyExc_AssertionError, "%s: the parameter '%s' cannot be replaced by another one",
                     self->block->name, text);
        return -1;
    }
    /* The block's dictionary has its parameters, including those created elsewhere. */
    if (mx_params_find(self->block->params, p->name) != p && mx_params_add(self->block->params, p))
        return raise_error(), -1;
    if (mx_block_attribute(self->block, text, p))
        return raise_error(), -1;
    return keep_parameter(self, name, value);
}

/* An attribute that was a block or parameter may not become something else. */
static int check_kind(block_object *self, PyObject *name, PyObject *value)
{
    PyObject *before = self->children ? PyDict_GetItem(self->children, name) : NULL;
    const bool was_block = before != NULL;
    if (!before)
        before = self->params ? PyDict_GetItem(self->params, name) : NULL;
    if (!before || (was_block ? PyObject_TypeCheck(value, &block_type) : PyObject_TypeCheck(value, &parameter_type)))
        return 0;
    PyErr_Format(PyExc_TypeError, "%.200s: attribute '%U' is a %.200s and cannot become a %.200s",
                 Py_TYPE(self)->tp_name, name, Py_TYPE(before)->tp_name, Py_TYPE(value)->tp_name);
    return -1;
}

int block_setattr(PyObject *object, PyObject *name, PyObject *value)
{
    block_object *self = (block_object *)object;
    if (value && check_kind(self, name, value))
        return -1;
    if (value && PyObject_TypeCheck(value, &block_type)) {
        PyObject *method = PyObject_GetAttrString(object, "register_child"); /* which HybridBlock checks further */
        PyObject *done = method ? PyObject_CallFunctionObjArgs(method, value, name, NULL) : NULL;
        Py_XDECREF(method), Py_XDECREF(done);
        if (!done)
            return -1;
    } else if (value && PyObject_TypeCheck(value, &parameter_type)) {
        if (!block_of(object) || register_parameter(self, name, value))
            return -1;
    }
    if (value && self->block && self->block->layer) {
        if (!PyUnicode_CompareWithASCIIString(name, "_kwargs") && self->block->layer->kwargs)
            return block_assign_kwargs(object, value);
        if (block_set_option(self, name, value))
            return -1;
    }
    if (PyObject_GenericSetAttr(object, name, value))
        return -1;
    if (self->base && (!PyUnicode_CompareWithASCIIString(name, "forward") ||
                       !PyUnicode_CompareWithASCIIString(name, "hybrid_forward"))) {
        block_find_overrides(self);
        mx_hybrid_changed(self->block);
    }
    return 0;
}

/* The wrapper of a child created in C; retained, so that its hooks and attributes live as long as the parent. */
static PyObject *keep_child(block_object *self, PyObject *name, mx_block *child)
{
    PyObject *object = block_prepare(self) ? NULL : block_wrap(child);
    if (object && live_set(self->children, name, object))
        Py_CLEAR(object);
    return object;
}

static PyObject *option_get(const mx_block *block, const mx_field *field)
{
    return mx_option_whole(block, field)
               ? PyLong_FromDouble(*(const double *)((const char *)block->options + field->offset))
               : field_get(field, block->options);
}

/* Attributes that a layer of the library has in C: its parameters, its children, its options (with an underscore). */
static PyObject *missing_attribute(PyObject *object, PyObject *name)
{
    block_object *self = (block_object *)object;
    const char *text = PyUnicode_AsUTF8(name);
    if (!text)
        return NULL;
    if (self->block) {
        mx_parameter *p = mx_dict_get(&self->block->attributes, text);
        if (p)
            return parameter_wrap(p);
        mx_block *child = mx_dict_get(&self->block->children, text);
        if (child)
            return keep_child(self, name, child);
        const mx_field *field = self->block->cls && self->block->cls->schema && *text == '_'
                                    ? mx_schema_find(self->block->cls->schema, text + 1)
                                    : NULL;
        if (field && field->type != MX_FIELD_PTR)
            return option_get(self->block, field);
        if (!strcmp(text, "_kwargs") && self->block->layer && self->block->layer->kwargs)
            return block_get_kwargs(object);
        if (!strcmp(text, "_op_name") && self->block->layer && self->block->layer->op)
            return PyUnicode_FromString(self->block->layer->op);
        if (!strcmp(text, "act") && self->block->cls && self->block->cls->schema &&
            mx_schema_find(self->block->cls->schema, "activation"))
            Py_RETURN_NONE; /* a layer without activation */
        const mx_field *part =
            self->block->cls && self->block->cls->schema ? mx_schema_find(self->block->cls->schema, text) : NULL;
        if (part && part->type == MX_FIELD_BOOL)
            Py_RETURN_NONE; /* a part that was not asked for: the downsample of a residual block */
        char option[64];
        snprintf(option, sizeof option, "%.40s_initializer", text);
        if (self->block->cls && self->block->cls->schema && mx_schema_find(self->block->cls->schema, option))
            Py_RETURN_NONE; /* bias of a layer without one */
    }
    if (!self->block)
        return PyErr_Format(PyExc_AttributeError,
                            "'%.200s' object has no attribute '%U': super().__init__() was not called",
                            Py_TYPE(object)->tp_name, name);
    return PyErr_Format(PyExc_AttributeError, "'%.200s' object has no attribute '%U'", Py_TYPE(object)->tp_name, name);
}

/* _option(name[, value]): an option of a layer of the library. */
PyObject *block_option(PyObject *object, PyObject *args)
{
    mx_block *block = block_of(object);
    const char *name;
    PyObject *value = NULL;
    if (!block || !PyArg_ParseTuple(args, "s|O:_option", &name, &value))
        return NULL;
    const mx_field *field = block->cls && block->cls->schema ? mx_schema_find(block->cls->schema, name) : NULL;
    if (!field)
        return PyErr_Format(PyExc_AttributeError, "%s has no option '%s'", block->class_name, name);
    if (!value)
        return field_get(field, block->options);
    return field_set(field, block->cls->schema, block->options, value, block->class_name) ? NULL
                                                                                          : core_new_ref(Py_None);
}

PyObject *block_getattr(PyObject *object, PyObject *name)
{
    PyObject *found = PyObject_GenericGetAttr(object, name);
    if (found || !PyErr_ExceptionMatches(PyExc_AttributeError))
        return found;
    PyErr_Clear();
    return missing_attribute(object, name);
}
