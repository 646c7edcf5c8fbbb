/* Blocks: Python objects around mx_block.
 *
 *     nn.Dense(8)           a layer of the library: a call runs in C
 *     class Net(Block)      forward in Python; its mx_block calls it back (block_override.c)
 *     Sequential            runs entirely in C if all its children do
 *
 * Children and parameters are in the mx_block; `children` here only keeps the Python objects alive.  The mx_block
 * points to its Python wrapper (`front`) without owning it.  Methods that a subclass overrides: block_override.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "block.h"
#include "exec/tape.h"
#include "gluon/compile/hybrid.h"
#include "gluon/compile/trace.h"

uint64_t structure_version = 1;

mx_block *block_of(PyObject *object)
{
    mx_block *block = ((block_object *)object)->block;
    if (!block)
        PyErr_Format(PyExc_AttributeError, "%.200s: super().__init__() was not called before the block was used",
                     Py_TYPE(object)->tp_name);
    return block;
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

static PyObject *layer_classes; /* address of an mx_class -> Python class */

void block_attach(block_object *self, mx_block *block)
{
    mx_release(self->block);
    self->block = block;
    block->front = self;
}

PyObject *block_wrap(mx_block *block)
{
    if (!block)
        return raise_error();
    if (block->front)
        return core_new_ref(block->front);
    PyObject *key = PyLong_FromVoidPtr((void *)block->cls);
    PyObject *cls = key && layer_classes ? PyDict_GetItem(layer_classes, key) : NULL;
    Py_XDECREF(key);
    if (!cls)
        cls = front_class((block->hybrid ? FRONT_HYBRID_BLOCK : FRONT_BLOCK) +
                          (block->sequential && !block->layer ? FRONT_SEQUENTIAL - FRONT_BLOCK : 0));
    PyTypeObject *type = cls ? (PyTypeObject *)cls : &block_type;
    block_object *self = (block_object *)type->tp_alloc(type, 0);
    if (self) {
        block_attach(self, mx_retain(block));
        block_start_overrides(self, (PyObject *)type, true);
    }
    return (PyObject *)self;
}

static int block_traverse(PyObject *object, visitproc visit, void *arg)
{
    block_object *self = (block_object *)object;
    Py_VISIT(self->children);
    Py_VISIT(self->params);
    Py_VISIT(self->before);
    Py_VISIT(self->after);
    Py_VISIT(self->watcher);
    Py_VISIT(self->kwargs);
    Py_VISIT(self->base);
    Py_VISIT(self->dict);
    return 0;
}
static int block_clear(PyObject *object)
{
    block_object *self = (block_object *)object;
    Py_CLEAR(self->children);
    Py_CLEAR(self->params);
    Py_CLEAR(self->before);
    Py_CLEAR(self->after);
    Py_CLEAR(self->watcher);
    Py_CLEAR(self->kwargs);
    Py_CLEAR(self->base);
    Py_CLEAR(self->in_form);
    Py_CLEAR(self->out_form[0]);
    Py_CLEAR(self->out_form[1]);
    Py_CLEAR(self->dict);
    return 0;
}
static void block_dealloc(PyObject *object)
{
    block_object *self = (block_object *)object;
    PyObject_GC_UnTrack(object);
    if (self->weakrefs)
        PyObject_ClearWeakRefs(object);
    if (self->block && self->block->front == self)
        self->block->front = NULL;
    if (self->block)
        block_drop_hooks(self);
    block_clear(object);
    handle_drop(&self->given);
    PyMem_Free(self->seen.shape), PyMem_Free(self->seen.type);
    mx_release(self->block);
    Py_TYPE(object)->tp_free(object);
}

/* ---- making ------------------------------------------------------------------------------------------------------ */

static const char *short_name(PyTypeObject *type)
{
    const char *dot = strrchr(type->tp_name, '.');
    return dot ? dot + 1 : type->tp_name;
}

static int read_params(PyObject *source, mx_params **params)
{
    *params = NULL;
    if (!source || source == Py_None)
        return 0;
    if (!PyObject_TypeCheck(source, &params_type)) {
        PyErr_Format(PyExc_TypeError, "params must be a ParameterDict, got %.200s", Py_TYPE(source)->tp_name);
        return -1;
    }
    *params = params_of(source);
    return *params ? 0 : -1;
}

int block_prepare(block_object *self)
{
    if (!self->children && !(self->children = PyDict_New()))
        return -1;
    return !self->params && !(self->params = PyDict_New()) ? -1 : 0;
}

/* The hint for automatic names: _alias() if a class overrides it. */
static PyObject *alias_of(PyObject *object)
{
    PyObject *method = PyObject_GetAttrString((PyObject *)Py_TYPE(object), "_alias");
    if (!method)
        return PyErr_Clear(), core_new_ref(Py_None);
    PyObject *text = PyObject_CallFunctionObjArgs(method, object, NULL);
    Py_DECREF(method);
    return text;
}

/* _start(kind, base, prefix, params): kind 0 Block, 1 HybridBlock, 2 Sequential, 3 HybridSequential; base is the class
 * whose methods are the library's. */
static PyObject *block_start(PyObject *object, PyObject *args)
{
    block_object *self = (block_object *)object;
    int kind;
    const char *prefix;
    PyObject *shared, *base;
    mx_params *params;
    if (!PyArg_ParseTuple(args, "iOzO:Block", &kind, &base, &prefix, &shared) || read_params(shared, &params) ||
        block_prepare(self))
        return NULL;
    PyObject *hint = alias_of(object);
    if (!hint)
        return NULL;
    MX_SCOPE;
    mx_block *block = mx_block_named(&(mx_block_naming){
        short_name(Py_TYPE(object)), hint == Py_None ? NULL : PyUnicode_AsUTF8(hint), prefix, params});
    Py_DECREF(hint);
    if (!block)
        return raise_error();
    block->hybrid = kind & 1;
    block->sequential = kind >= 2;
    block->forward_many = kind >= 2 ? mx_run_sequential : NULL;
    block_attach(self, block);
    block_start_overrides(self, base, kind >= 2);
    Py_RETURN_NONE;
}

/* Numbers are shown as they were given: Dropout(0) has the rate 0, not 0.0. */
static void note_integers(mx_block *block, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    const mx_schema *schema = block->cls->schema;
    const Py_ssize_t named = names ? PyTuple_GET_SIZE(names) : 0;
    for (Py_ssize_t i = 0; schema && i < n + named; i++) {
        const char *name = i < n ? NULL : PyUnicode_AsUTF8(PyTuple_GET_ITEM(names, i - n));
        const mx_field *field = i >= n              ? (name ? mx_schema_find(schema, name) : NULL)
                                : i < schema->count ? &schema->fields[i]
                                                    : NULL;
        if (field && field - schema->fields < 64 && PyLong_CheckExact(args[i]))
            block->whole |= (uint64_t)1 << (field - schema->fields);
    }
}

/* _start_layer(address of the class entry, its Python class, *arguments, **keywords): a layer or loss of the library. */
static PyObject *block_start_layer(PyObject *object, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    static const char *const extra[] = {"prefix", "params", NULL};
    block_object *self = (block_object *)object;
    mx_class *cls = n >= 2 ? PyLong_AsVoidPtr(args[0]) : NULL;
    PyObject *given[2], *base = args[1];
    mx_params *params;
    if (!cls || block_prepare(self))
        return NULL;
    const size_t bytes = cls->schema ? cls->schema->size : 0;
    void *options = core_memory(1, bytes + 1);
    if (!options)
        return PyErr_NoMemory();
    memcpy(options, cls->defaults ? cls->defaults : "", bytes);
    mx_scope scope = mx_scope_open();
    mx_block *block = NULL;
    if (!options_from(cls, options, args + 2, n - 2, names, extra, given) && !read_params(given[1], &params) &&
        !(cls->schema && mx_schema_check(cls->schema, options, cls->name))) {
        const char *prefix = given[0] && given[0] != Py_None ? PyUnicode_AsUTF8(given[0]) : NULL;
        const char *name = (PyObject *)Py_TYPE(object) == base ? NULL : short_name(Py_TYPE(object));
        PyObject *hint = block_inherits(object, "_alias", base) ? core_new_ref(Py_None) : alias_of(object);
        if (hint && !PyErr_Occurred())
            block = mx_layer_make(
                cls, options,
                &(mx_block_naming){name, hint == Py_None ? NULL : PyUnicode_AsUTF8(hint), prefix, params});
        Py_XDECREF(hint);
    }
    if (block) {
        block_attach(self, mx_retain(block));
        note_integers(block, args + 2, n - 2, names);
        block_start_overrides(self, base, true);
    }
    mx_scope_close(&scope);
    PyMem_Free(options);
    return block ? core_new_ref(Py_None) : raise_error();
}

/* ---- the type -------------------------------------------------------------------------------------------------- */

static PyObject *get_text(PyObject *object, void *which)
{
    mx_block *block = block_of(object);
    return block ? PyUnicode_FromString(which ? block->prefix : block->name) : NULL;
}
static PyObject *get_params(PyObject *object, void *unused)
{
    mx_block *block = block_of(object);
    (void)unused;
    return block ? params_wrap(block->params) : NULL;
}
static PyObject *get_empty_prefix(PyObject *object, void *unused)
{
    const mx_block *block = block_of(object);
    (void)unused;
    return block ? PyBool_FromLong(block->plain_scope) : NULL;
}
static PyObject *get_input_names(PyObject *object, void *unused)
{
    const mx_block *block = block_of(object);
    PyObject *text = block ? PyUnicode_FromString(mx_block_inputs(block)) : NULL;
    PyObject *names = text ? PyUnicode_Split(text, NULL, -1) : NULL;
    (void)unused;
    Py_XDECREF(text);
    return names;
}
static PyObject *get_is_layer(PyObject *object, void *unused)
{
    mx_block *block = block_of(object);
    (void)unused;
    return block ? PyBool_FromLong(block->layer != NULL) : NULL;
}
static PyObject *get_active(PyObject *object, void *unused)
{
    mx_block *block = block_of(object);
    (void)unused;
    return block ? PyBool_FromLong(block->hybridized) : NULL;
}

static PyMethodDef block_methods[] = {
    {"_start", block_start, METH_VARARGS, NULL},
    {"_start_layer", (PyCFunction)(void (*)(void))block_start_layer, METH_FASTCALL | METH_KEYWORDS, NULL},
    {"_register_child", block_register_child, METH_VARARGS, NULL},
    {"_collect", block_collect, METH_NOARGS, NULL},
    {"_cast", block_cast, METH_O, NULL},
    {"_save", block_save, METH_O, NULL},
    {"_load", block_load, METH_VARARGS, NULL},
    {"_text", block_text, METH_NOARGS, NULL},
    {"_infer", block_infer, METH_VARARGS, NULL},
    {"_own_data", block_own_data, METH_O, NULL},
    {"_layer_forward", block_layer_forward, METH_VARARGS, NULL},
    {"_start_cell", cell_start, METH_O, NULL},
    {"_cell_reset", cell_reset, METH_NOARGS, NULL},
    {"_cell_state_info", cell_state_info, METH_O, NULL},
    {"_cell_begin_state", cell_begin_state, METH_VARARGS, NULL},
    {"_cell_unroll", cell_unroll, METH_VARARGS, NULL},
    {"_cell_count", cell_count, METH_NOARGS, NULL},
    {"_cell_value", cell_value, METH_VARARGS, NULL},
    {"_cell_memory", cell_memory, METH_VARARGS, NULL},
    {"_option", block_option, METH_VARARGS, NULL},
    {"_set_children", block_set_children, METH_O, NULL},
    {"_set_reg_params", block_set_reg_params, METH_O, NULL},
    {"_set_kwargs", block_set_kwargs, METH_O, NULL},
    {"_set_hooks", block_set_hooks, METH_O, NULL},
    {"_set_pre_hooks", block_set_pre_hooks, METH_O, NULL},
    {"_set_active", block_set_active, METH_VARARGS, NULL},
    {"_forget", block_forget, METH_NOARGS, NULL},
    {"_export", block_export, METH_VARARGS, NULL},
    {"_trace", block_trace, METH_VARARGS, NULL},
    {"_seen", block_seen, METH_NOARGS, NULL},
    {"_start_symbol", block_start_symbol, METH_VARARGS, NULL},
    {"_start_amp", block_start_amp, METH_VARARGS, NULL},
    {"_watch", block_watch, METH_VARARGS, NULL},
    {"_run_children", block_run_children, METH_VARARGS, NULL},
    {"_get_state", block_get_state, METH_NOARGS, NULL},
    {"_set_state", block_set_state, METH_O, NULL},
    {"_find_overrides", block_note_overrides, METH_NOARGS, NULL},
    {"forward", block_forward, METH_VARARGS, "forward(*inputs): override it to define what the block computes."},
    {"name_scope", block_name_scope, METH_NOARGS,
     "A `with` block in which new blocks and parameters get this block's prefix."},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef block_getset[] = {
    {"name", get_text, NULL, "Name: the prefix without the trailing underscore.", NULL},
    {"prefix", get_text, NULL, "Prefix of the names of its parameters.", (void *)1},
    {"_empty_prefix", get_empty_prefix, NULL, "Whether its name scope does nothing.", NULL},
    {"params", get_params, NULL, "Its own parameters, without those of children.", NULL},
    {"_children", block_get_children, block_assign_children, "Children by attribute name.", NULL},
    {"_reg_params", block_get_reg_params, block_assign_reg_params, "Own parameters by attribute name.", NULL},
    {"_forward_hooks", block_get_hooks, block_assign_hooks, "Hooks that run after forward.", NULL},
    {"_forward_pre_hooks", block_get_hooks, block_assign_hooks, "Hooks that run before forward.", (void *)1},
    {"_input_names", get_input_names, NULL, "Names of the inputs, for calls by keyword.", NULL},
    {"_is_layer", get_is_layer, NULL, NULL, NULL},
    {"_active", get_active, NULL, NULL, NULL},
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

PyTypeObject block_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "mxnet._core.Block",
    .tp_basicsize = sizeof(block_object),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .tp_new = PyType_GenericNew,
    .tp_traverse = block_traverse,
    .tp_clear = block_clear,
    .tp_dealloc = block_dealloc,
    .tp_dictoffset = offsetof(block_object, dict),
    .tp_weaklistoffset = offsetof(block_object, weakrefs),
    .tp_call = block_call,
    .tp_getattro = block_getattr,
    .tp_setattro = block_setattr,
    .tp_methods = block_methods,
    .tp_getset = block_getset,
};

/* ---- the module's part ------------------------------------------------------------------------------------------- */

/* layers(): (kind, name, address, group or None, whether it can be compiled) of every layer and loss. */
static PyObject *layers(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    PyObject *list = PyList_New(0);
    mx_class *cls;
    for (int i = 0; list && (cls = mx_class_at(i)) != NULL; i++) {
        if (cls->kind != MX_LAYER && cls->kind != MX_LOSS)
            continue;
        PyObject *row = Py_BuildValue("isNzO", (int)cls->kind, cls->name, PyLong_FromVoidPtr(cls), cls->group,
                                      ((const mx_layer *)cls->methods)->plain ? Py_False : Py_True);
        if (!row || PyList_Append(list, row))
            Py_CLEAR(list);
        Py_XDECREF(row);
    }
    return list;
}

static PyObject *register_layer(PyObject *self, PyObject *args)
{
    PyObject *address, *cls;
    (void)self;
    if (!PyArg_ParseTuple(args, "OO:register_layer", &address, &cls))
        return NULL;
    if (!layer_classes && !(layer_classes = PyDict_New()))
        return NULL;
    return PyDict_SetItem(layer_classes, address, cls) ? NULL : core_new_ref(Py_None);
}

static PyObject *describe_class(PyObject *self, PyObject *address)
{
    (void)self;
    MX_SCOPE;
    mx_class *cls = PyLong_AsVoidPtr(address);
    const char *text = cls ? mx_class_describe(cls) : NULL;
    return text ? PyUnicode_FromString(text) : raise_error();
}

static PyObject *is_inferring(PyObject *self, PyObject *unused)
{
    return (void)self, (void)unused, PyBool_FromLong(mx_inferring());
}

static PyObject *pause_hybrid(PyObject *self, PyObject *on)
{
    (void)self;
    mx_thread.hybrid_paused = PyObject_IsTrue(on) == 1;
    return core_new_ref(Py_None);
}

static PyMethodDef functions[] = {
    {"form_sequence", cell_form_sequence, METH_VARARGS, NULL},
    {"layers", layers, METH_NOARGS, "Layers and losses of the library."},
    {"register_layer", register_layer, METH_VARARGS, "The Python class of a layer."},
    {"describe_class", describe_class, METH_O, "A class as JSON."},
    {"scope_block", block_scope_of, METH_O, "A block of a prefix, for the names of others."},
    {"name_block", block_name, METH_VARARGS, "Prefix and dictionary of a new block."},
    {"is_inferring", is_inferring, METH_NOARGS, "Whether a forward is running only to infer shapes."},
    {"pause_hybrid", pause_hybrid, METH_O, "Lets hybridized blocks run imperatively in this thread, or not."},
    {NULL, NULL, 0, NULL},
};

int add_blocks(PyObject *module)
{
    if (PyType_Ready(&block_type) || PyType_Ready(&block_scope_type))
        return -1;
    if (PyModule_AddObjectRef(module, "Block", (PyObject *)&block_type))
        return -1;
    return PyModule_AddFunctions(module, functions);
}
