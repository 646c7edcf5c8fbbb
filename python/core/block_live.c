/* Dictionaries of a block that users read and write: _children, _reg_params, its hooks; and _params of a ParameterDict.
 *
 *     block._children  --- mxnet/gluon/_live.py ---> _set_children(dict) ---> mx_block_set_children
 *
 * The dictionary is made when it is first asked for and kept; what Python registers is added to it.  Until then
 * `children` and `params` of the object are plain dictionaries that only keep the Python objects alive.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/error.h"
#include "block.h"

/* ---- reading what a user left ------------------------------------------------------------------------------------ */

typedef struct pairs {
    PyObject *items; /* list of pairs, and their keys as text; owned */
    PyObject *texts;
    const char **names; /* (n) */
    void **objects;     /* (n) */
    int64_t n;
} pairs;

static void free_pairs(pairs *p)
{
    Py_XDECREF(p->items), Py_XDECREF(p->texts);
    PyMem_Free(p->names), PyMem_Free(p->objects);
}

typedef void *(*reader)(PyObject *value); /* the library's object; NULL with an exception */

static void *read_block(PyObject *value)
{
    if (PyObject_TypeCheck(value, &block_type))
        return block_of(value);
    PyErr_Format(PyExc_TypeError, "_children: expected a Block, got %.200s", Py_TYPE(value)->tp_name);
    return NULL;
}

static void *read_parameter(PyObject *value)
{
    if (PyObject_TypeCheck(value, &parameter_type))
        return parameter_of(value);
    PyErr_Format(PyExc_TypeError, "expected a Parameter, got %.200s", Py_TYPE(value)->tp_name);
    return NULL;
}

static int read_pairs(PyObject *mapping, reader read, pairs *p)
{
    *p = (pairs){.items = PyMapping_Items(mapping), .texts = PyList_New(0)};
    const Py_ssize_t n = p->items ? PyList_GET_SIZE(p->items) : -1;
    p->names = n < 0 ? NULL : core_memory((size_t)n + 1, sizeof *p->names);
    p->objects = n < 0 ? NULL : core_memory((size_t)n + 1, sizeof *p->objects);
    bool ok = p->names && p->objects && p->texts;
    for (; ok && p->n < n; p->n++) {
        PyObject *pair = PyList_GET_ITEM(p->items, p->n), *text = PyObject_Str(PyTuple_GET_ITEM(pair, 0));
        ok = text && !PyList_Append(p->texts, text) && (p->names[p->n] = PyUnicode_AsUTF8(text)) &&
             (p->objects[p->n] = read(PyTuple_GET_ITEM(pair, 1)));
        Py_XDECREF(text);
    }
    return ok ? 0 : (PyErr_Occurred() ? -1 : (PyErr_NoMemory(), -1));
}

/* ---- writing ------------------------------------------------------------------------------------------------------- */

PyObject *block_set_children(PyObject *object, PyObject *mapping)
{
    pairs p;
    mx_block *block = block_of(object);
    if (!block)
        return NULL;
    PyObject *result = read_pairs(mapping, read_block, &p)
                           ? NULL
                           : raise_if(mx_block_set_children(block, p.n, p.names, (mx_block *const *)p.objects));
    free_pairs(&p);
    structure_version++;
    return result;
}

PyObject *block_set_reg_params(PyObject *object, PyObject *mapping)
{
    pairs p;
    mx_block *block = block_of(object);
    if (!block)
        return NULL;
    PyObject *result = read_pairs(mapping, read_parameter, &p)
                           ? NULL
                           : raise_if(mx_block_set_attributes(block, p.n, p.names, (mx_parameter *const *)p.objects));
    free_pairs(&p);
    if (result && ((block_object *)object)->base)
        block_find_overrides((block_object *)object);
    return result;
}

PyObject *params_set_all(PyObject *object, PyObject *mapping)
{
    pairs p;
    mx_params *params = params_of(object);
    if (!params)
        return NULL;
    PyObject *result = read_pairs(mapping, read_parameter, &p)
                           ? NULL
                           : raise_if(mx_params_set(params, p.n, p.names, (mx_parameter *const *)p.objects));
    free_pairs(&p);
    return result;
}

/* ---- the dictionaries -------------------------------------------------------------------------------------------- */

int live_set(PyObject *dict, PyObject *key, PyObject *value)
{
    return PyODict_Check(dict) ? PyODict_SetItem(dict, key, value) : PyDict_SetItem(dict, key, value);
}

/* A live dictionary in place of the plain one, with the same contents in the library's order. */
static PyObject *make_live(PyObject *object, PyObject **slot, const char *write, const mx_dict *own,
                           PyObject *(*wrap)(void *pointer))
{
    PyObject *items = PyList_New(0), *type = from_package("mxnet.gluon._live", "Live");
    for (int64_t i = 0; items && type && i < own->length; i++) {
        PyObject *pair = Py_BuildValue("(sN)", own->entries[i].key, wrap(own->entries[i].pointer));
        if (!pair || PyList_Append(items, pair))
            Py_CLEAR(items);
        Py_XDECREF(pair);
    }
    PyObject *live = items && type ? PyObject_CallFunction(type, "OsO", object, write, items) : NULL;
    Py_XDECREF(items), Py_XDECREF(type);
    if (live)
        Py_XSETREF(*slot, core_new_ref(live));
    return live;
}

/* What the library has and the dictionary has not: added in C since. */
static int add_missing(PyObject *live, const mx_dict *own, PyObject *(*wrap)(void *pointer))
{
    for (int64_t i = 0; i < own->length && PyDict_GET_SIZE(live) < own->length; i++) {
        if (PyDict_GetItemString(live, own->entries[i].key))
            continue;
        PyObject *key = PyUnicode_FromString(own->entries[i].key), *value = wrap(own->entries[i].pointer);
        const int failed = !key || !value || live_set(live, key, value);
        Py_XDECREF(key), Py_XDECREF(value);
        if (failed)
            return -1;
    }
    return 0;
}

static PyObject *get_live(PyObject *object, PyObject **slot, const char *write, const mx_dict *own,
                          PyObject *(*wrap)(void *pointer))
{
    if (!*slot || !PyODict_Check(*slot))
        return make_live(object, slot, write, own, wrap);
    return add_missing(*slot, own, wrap) ? NULL : core_new_ref(*slot);
}

static PyObject *wrap_block(void *pointer) { return block_wrap(pointer); }
static PyObject *wrap_parameter(void *pointer) { return parameter_wrap(pointer); }

PyObject *block_get_children(PyObject *object, void *unused)
{
    block_object *self = (block_object *)object;
    (void)unused;
    return block_of(object) ? get_live(object, &self->children, "_set_children", &self->block->children, wrap_block)
                            : NULL;
}

PyObject *block_get_reg_params(PyObject *object, void *unused)
{
    block_object *self = (block_object *)object;
    (void)unused;
    return block_of(object)
               ? get_live(object, &self->params, "_set_reg_params", &self->block->attributes, wrap_parameter)
               : NULL;
}

/* Hooks are Python's alone: the library only needs to know whether there are any. */
PyObject *block_get_hooks(PyObject *object, void *before)
{
    static const mx_dict none = {0};
    block_object *self = (block_object *)object;
    PyObject **slot = before ? &self->before : &self->after;
    if (!block_of(object) || *slot)
        return block_of(object) ? core_new_ref(*slot) : NULL;
    return make_live(object, slot, before ? "_set_pre_hooks" : "_set_hooks", &none, NULL);
}

/* block._children = {...}: the contents change, the dictionary stays. */
static int assign(PyObject *live, PyObject *value)
{
    PyObject *function = live && value ? PyObject_GetAttrString(live, "_assign") : NULL;
    PyObject *done = function ? PyObject_CallFunctionObjArgs(function, value, NULL) : NULL;
    if (live && !value)
        PyErr_SetString(PyExc_AttributeError, "this dictionary of a block cannot be deleted");
    Py_XDECREF(function), Py_XDECREF(done), Py_XDECREF(live);
    return done ? 0 : -1;
}
int block_assign_children(PyObject *object, PyObject *value, void *unused)
{
    return assign(block_get_children(object, unused), value);
}
int block_assign_reg_params(PyObject *object, PyObject *value, void *unused)
{
    return assign(block_get_reg_params(object, unused), value);
}
int block_assign_hooks(PyObject *object, PyObject *value, void *before)
{
    return assign(block_get_hooks(object, before), value);
}
