/* Blocks: Python objects around mx_block.
 *
 *     nn.Dense(8)           a layer of the library: a call runs in C
 *     class Net(Block)      forward in Python; its mx_block calls it back through python_forward()
 *     Sequential            runs in C as a whole while all its children do
 *
 * Children and parameters live in the mx_block; `children` here only keeps the Python objects alive.  The mx_block
 * remembers its Python object (`front`) without owning it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/error.h"
#include "exec/list.h"
#include "skin.h"

typedef struct block_object {
    PyObject_HEAD
    mx_block *block;    /* retained; NULL before __init__ */
    PyObject *children; /* dict: attribute name -> Block, in order */
    PyObject *params;   /* dict: attribute name -> Parameter (made from the mx_block's when asked) */
    PyObject *before, *after; /* hooks: lists of callables, NULL: none */
    bool native;        /* no Python code in its forward */
    uint64_t checked;   /* structure version for which `all_native` holds */
    bool all_native;    /* a container whose children all run in C */
    PyObject *dict, *weakrefs;
} block_object;

/* Grows whenever a child or hook is added anywhere: containers then look again whether they can run in C. */
static uint64_t structure_version = 1;

mx_block *block_of(PyObject *object)
{
    mx_block *block = ((block_object *)object)->block;
    if (!block)
        PyErr_Format(PyExc_RuntimeError, "%.200s: super().__init__() was not called before the block was used", Py_TYPE(object)->tp_name);
    return block;
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

static PyObject *layer_classes; /* address of an mx_class -> Python class */

static void attach(block_object *self, mx_block *block) /* takes over the reference */
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
        cls = front_class(block->hybrid ? FRONT_HYBRID_BLOCK : FRONT_BLOCK);
    PyTypeObject *type = cls ? (PyTypeObject *)cls : &block_type;
    block_object *self = (block_object *)type->tp_alloc(type, 0);
    if (self) {
        attach(self, mx_retain(block));
        self->native = true;
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
    block_clear(object);
    mx_release(self->block);
    Py_TYPE(object)->tp_free(object);
}

/* ---- called back by C -------------------------------------------------------------------------------------------- */

static PyObject *tuple_of(mx_arrays in)
{
    PyObject *args = PyTuple_New(in.n);
    for (int64_t i = 0; args && i < in.n; i++) {
        PyObject *item = in.v[i] == MX_NONE ? core_new_ref(Py_None) : nd_wrap(in.v[i]);
        if (!item)
            Py_CLEAR(args);
        else
            PyTuple_SET_ITEM(args, i, item);
    }
    return args;
}

/* Arrays in a result of nested lists, in order, into list; -1 with an exception. */
static int flatten(PyObject *value, mx_array **list, int64_t *n, int64_t room)
{
    if (PyList_Check(value) || PyTuple_Check(value)) {
        for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); i++)
            if (flatten(PySequence_Fast_GET_ITEM(value, i), list, n, room))
                return -1;
        return 0;
    }
    if ((!nd_check(value) && value != Py_None) || *n == room) {
        PyErr_Format(PyExc_TypeError, "forward must return NDArrays (at most %lld), got %.200s", (long long)room, Py_TYPE(value)->tp_name);
        return -1;
    }
    list[(*n)++] = value == Py_None ? MX_NONE : mx_scope_add(mx_retain(nd_array(value)));
    return 0;
}

static mx_arrays results_of(PyObject *value)
{
    mx_array *found[64];
    int64_t n = 0;
    if (flatten(value, found, &n, 64))
        return mx_list_failed();
    mx_array **list = mx_list_new(n);
    if (list)
        memcpy(list, found, (size_t)n * sizeof *list);
    return list ? (mx_arrays){list, n} : mx_list_failed();
}

/* forward_many of every block whose forward is written in Python. */
static mx_arrays python_forward(mx_block *block, mx_arrays in)
{
    PyGILState_STATE state = PyGILState_Ensure();
    mx_arrays out = mx_list_failed();
    PyObject *object = block->front ? core_new_ref(block->front) : NULL;
    if (!object)
        mx_fail(MX_ERR_STATE, "%s (%s): its Python object is gone", block->name, block->class_name);
    PyObject *args = object && !PyErr_Occurred() ? tuple_of(in) : NULL;
    PyObject *function = args ? PyObject_GetAttrString(object, "forward") : NULL;
    PyObject *result = function ? PyObject_CallObject(function, args) : NULL;
    if (result)
        out = results_of(result);
    Py_XDECREF(result), Py_XDECREF(function), Py_XDECREF(args), Py_XDECREF(object);
    if (!out.n)
        mx_fail(MX_ERR_CALLBACK, "%s (%s): forward failed in Python", block->name, block->class_name);
    PyGILState_Release(state);
    return out;
}

/* ---- making ------------------------------------------------------------------------------------------------------ */

static const char *short_name(PyTypeObject *type)
{
    const char *dot = strrchr(type->tp_name, '.');
    return dot ? dot + 1 : type->tp_name;
}

/* True if the class takes `name` from the type that the package made, not from a user's subclass. */
static bool inherits(PyObject *object, const char *name, PyObject *from)
{
    PyObject *theirs = PyObject_GetAttrString((PyObject *)Py_TYPE(object), name);
    PyObject *ours = from ? PyObject_GetAttrString(from, name) : NULL;
    PyErr_Clear();
    const bool same = theirs == ours;
    Py_XDECREF(theirs), Py_XDECREF(ours);
    return same;
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

static int prepare(block_object *self)
{
    if (!self->children && !(self->children = PyDict_New()))
        return -1;
    return !self->params && !(self->params = PyDict_New()) ? -1 : 0;
}

/* The hint of automatic names: _alias() where a class overrides it. */
static PyObject *alias_of(PyObject *object)
{
    PyObject *method = PyObject_GetAttrString((PyObject *)Py_TYPE(object), "_alias");
    if (!method)
        return PyErr_Clear(), core_new_ref(Py_None);
    PyObject *text = PyObject_CallFunctionObjArgs(method, object, NULL);
    Py_DECREF(method);
    return text;
}

/* _start(kind, prefix, params): kind 0 plain, 1 hybrid, 2 Sequential, 3 HybridSequential. */
static PyObject *block_start(PyObject *object, PyObject *args)
{
    block_object *self = (block_object *)object;
    int kind;
    const char *prefix;
    PyObject *shared;
    mx_params *params;
    if (!PyArg_ParseTuple(args, "izO:Block", &kind, &prefix, &shared) || read_params(shared, &params) || prepare(self))
        return NULL;
    PyObject *hint = alias_of(object);
    if (!hint)
        return NULL;
    MX_SCOPE;
    mx_block *block = mx_block_named(&(mx_block_naming){short_name(Py_TYPE(object)), hint == Py_None ? NULL : PyUnicode_AsUTF8(hint), prefix, params});
    Py_DECREF(hint);
    if (!block)
        return raise_error();
    block->hybrid = kind & 1;
    block->sequential = kind >= 2;
    block->forward_many = kind >= 2 ? mx_run_sequential : python_forward;
    attach(self, block);
    Py_RETURN_NONE;
}

/* _start_layer(address of the class row, Python class made for it, *arguments, **keywords): a layer or loss of the library. */
static PyObject *block_start_layer(PyObject *object, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    static const char *const extra[] = {"prefix", "params", NULL};
    block_object *self = (block_object *)object;
    mx_class *cls = n >= 2 ? PyLong_AsVoidPtr(args[0]) : NULL;
    PyObject *given[2], *base = args[1];
    mx_params *params;
    if (!cls || prepare(self))
        return NULL;
    const size_t bytes = cls->schema ? cls->schema->size : 0;
    void *options = PyMem_Malloc(bytes + 1);
    if (!options)
        return PyErr_NoMemory();
    memcpy(options, cls->defaults ? cls->defaults : "", bytes);
    mx_scope scope = mx_scope_open();
    mx_block *block = NULL;
    if (!options_from(cls, options, args + 2, n - 2, names, extra, given) && !read_params(given[1], &params) &&
        !(cls->schema && mx_schema_check(cls->schema, options, cls->name))) {
        const char *prefix = given[0] && given[0] != Py_None ? PyUnicode_AsUTF8(given[0]) : NULL;
        const char *name = (PyObject *)Py_TYPE(object) == base ? NULL : short_name(Py_TYPE(object));
        if (!PyErr_Occurred())
            block = mx_layer_make(cls, options, &(mx_block_naming){name, NULL, prefix, params});
    }
    if (block) {
        attach(self, mx_retain(block));
        self->native = inherits(object, "forward", base) && inherits(object, "hybrid_forward", base);
    }
    mx_scope_close(&scope);
    PyMem_Free(options);
    return block ? core_new_ref(Py_None) : raise_error();
}

/* ---- children and parameters -------------------------------------------------------------------------------------- */

static PyObject *block_register_child(PyObject *object, PyObject *args)
{
    block_object *self = (block_object *)object;
    PyObject *child, *name = Py_None;
    mx_block *block = block_of(object);
    if (!block || !PyArg_ParseTuple(args, "O|O:register_child", &child, &name))
        return NULL;
    if (!PyObject_TypeCheck(child, &block_type))
        return PyErr_Format(PyExc_TypeError, "%s: a child must be a Block, got %.200s", block->name, Py_TYPE(child)->tp_name);
    if (!block_of(child))
        return NULL;
    PyObject *key = name == Py_None ? PyUnicode_FromFormat("%lld", (long long)block->children.length) : PyObject_Str(name);
    const char *text = key ? PyUnicode_AsUTF8(key) : NULL;
    if (text && !mx_block_child(block, text, block_of(child)))
        raise_error();
    else if (text && !PyDict_SetItem(self->children, key, child)) {
        structure_version++;
        Py_DECREF(key);
        Py_RETURN_NONE;
    }
    Py_XDECREF(key);
    return NULL;
}

static int register_parameter(block_object *self, PyObject *name, PyObject *value)
{
    mx_parameter *p = parameter_of(value);
    const char *text = PyUnicode_AsUTF8(name);
    if (!p || !text)
        return -1;
    mx_parameter *known = mx_dict_get(&self->block->attributes, text);
    if (known == p)
        return PyDict_SetItem(self->params, name, value);
    if (known) {
        PyErr_Format(PyExc_AssertionError, "%s: the parameter '%s' cannot be replaced by another one", self->block->name, text);
        return -1;
    }
    /* `attributes` does not own: the block's dictionary does, also parameters that were made elsewhere. */
    if (mx_params_find(self->block->params, p->name) != p && mx_params_add(self->block->params, p))
        return raise_error(), -1;
    if (mx_block_attribute(self->block, text, p))
        return raise_error(), -1;
    return PyDict_SetItem(self->params, name, value);
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
    PyErr_Format(PyExc_TypeError, "%.200s: attribute '%U' is a %.200s and cannot become a %.200s", Py_TYPE(self)->tp_name, name,
                 Py_TYPE(before)->tp_name, Py_TYPE(value)->tp_name);
    return -1;
}

static int block_setattr(PyObject *object, PyObject *name, PyObject *value)
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
    return PyObject_GenericSetAttr(object, name, value);
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
            return block_wrap(child);
        const mx_field *field = self->block->cls && self->block->cls->schema && *text == '_' ? mx_schema_find(self->block->cls->schema, text + 1) : NULL;
        if (field && field->type != MX_FIELD_PTR)
            return field_get(field, self->block->options);
        if (self->block->cls && mx_schema_find(self->block->cls->schema, text))
            Py_RETURN_NONE; /* bias of a layer without one */
    }
    return PyErr_Format(PyExc_AttributeError, "'%.200s' object has no attribute '%U'", Py_TYPE(object)->tp_name, name);
}

static PyObject *block_getattr(PyObject *object, PyObject *name)
{
    PyObject *found = PyObject_GenericGetAttr(object, name);
    if (found || !PyErr_ExceptionMatches(PyExc_AttributeError))
        return found;
    PyErr_Clear();
    return missing_attribute(object, name);
}

/* Fills the dict of own parameters from C: what layers made in C have. */
static PyObject *get_reg_params(PyObject *object, void *unused)
{
    block_object *self = (block_object *)object;
    (void)unused;
    if (!block_of(object) || prepare(self))
        return NULL;
    const mx_dict *own = &self->block->attributes;
    for (int64_t i = 0; i < own->length; i++) {
        PyObject *p = parameter_wrap(own->entries[i].pointer);
        if (!p || PyDict_SetItemString(self->params, own->entries[i].key, p))
            return Py_XDECREF(p), NULL;
        Py_DECREF(p);
    }
    return core_new_ref(self->params);
}

static PyObject *get_children(PyObject *object, void *unused)
{
    block_object *self = (block_object *)object;
    (void)unused;
    if (!block_of(object) || prepare(self))
        return NULL;
    const mx_dict *own = &self->block->children;
    for (int64_t i = 0; i < own->length && PyDict_GET_SIZE(self->children) < own->length; i++) {
        if (PyDict_GetItemString(self->children, own->entries[i].key))
            continue;
        PyObject *child = block_wrap(own->entries[i].pointer);
        if (!child || PyDict_SetItemString(self->children, own->entries[i].key, child))
            return Py_XDECREF(child), NULL;
        Py_DECREF(child);
    }
    return core_new_ref(self->children);
}

/* ---- calls --------------------------------------------------------------------------------------------------------- */

/* Whether the whole block runs in C: no Python forward, no hooks, in it or in any child. */
static bool runs_in_c(block_object *self)
{
    if (self->before || self->after)
        return false;
    if (self->native && !self->block->sequential)
        return true;
    if (!self->block->sequential || !self->native)
        return false;
    if (self->checked == structure_version)
        return self->all_native;
    bool all = true;
    PyObject *key, *child;
    Py_ssize_t at = 0;
    while (all && PyDict_Next(self->children, &at, &key, &child))
        all = runs_in_c((block_object *)child);
    self->checked = structure_version;
    return self->all_native = all;
}

static PyObject *wrap_results(mx_arrays out)
{
    if (!out.n || mx_error_code())
        return raise_error();
    if (out.n == 1)
        return out.v[0] == MX_NONE ? core_new_ref(Py_None) : nd_wrap(out.v[0]);
    return nd_wrap_all(out);
}

#define FEW_ARGUMENTS 8
/* The arrays of args (and of keywords that layers name, such as sample_weight): -1 with an exception. */
static int take_arrays(block_object *self, PyObject *args, mx_array **in, int64_t *n, int64_t *work)
{
    *n = PyTuple_GET_SIZE(args), *work = 0;
    if (*n > FEW_ARGUMENTS) {
        PyErr_Format(PyExc_TypeError, "%s (%s): got %lld inputs, at most %d are possible", self->block->name, self->block->class_name, (long long)*n, FEW_ARGUMENTS);
        return -1;
    }
    for (int64_t i = 0; i < *n; i++) {
        PyObject *item = PyTuple_GET_ITEM(args, i);
        if (item == Py_None)
            in[i] = MX_NONE;
        else if (nd_check(item)) {
            in[i] = nd_array(item);
            *work += in[i]->size;
        } else {
            PyErr_Format(PyExc_TypeError, "%s (%s): input %lld must be an NDArray, got %.200s%s", self->block->name, self->block->class_name,
                         (long long)i, Py_TYPE(item)->tp_name, PyObject_CheckBuffer(item) || PyList_Check(item) ? " (make one with nd.array)" : "");
            return -1;
        }
    }
    return 0;
}

static PyObject *call_in_c(block_object *self, PyObject *args)
{
    mx_array *in[FEW_ARGUMENTS];
    int64_t n, work;
    if (take_arrays(self, args, in, &n, &work))
        return NULL;
    mx_block *block = self->block;
    mx_scope scope = mx_scope_open();
    PyThreadState *state = let_go(work > LONG_WORK / 16);
    mx_arrays out = mx_block_call_many(block, (mx_arrays){in, n});
    take_back(state);
    PyObject *result = wrap_results(out);
    mx_scope_close(&scope);
    return result;
}

/* Optional inputs of losses by name: loss(pred, label, sample_weight=w). */
static PyObject *with_keywords(block_object *self, PyObject *args, PyObject *keywords)
{
    static const char *const names[] = {"pred", "label", "sample_weight", "pred_lengths", "label_lengths"};
    PyObject *all[8] = {NULL};
    Py_ssize_t n = PyTuple_GET_SIZE(args), at = 0;
    PyObject *key, *value;
    const bool loss = self->block->cls && self->block->cls->kind == MX_LOSS;
    const bool ctc = loss && !strcmp(self->block->cls->name, "CTCLoss");
    for (Py_ssize_t i = 0; i < n && i < 8; i++)
        all[i] = PyTuple_GET_ITEM(args, i);
    while (PyDict_Next(keywords, &at, &key, &value)) {
        int place = -1;
        for (int i = 0; i < 5 && loss; i++)
            if (!PyUnicode_CompareWithASCIIString(key, names[i]))
                place = !ctc || i < 2 ? i : i == 2 ? 4 : i - 1;
        if (place < 0 || all[place])
            return PyErr_Format(PyExc_TypeError, "%s (%s): unexpected keyword '%U'", self->block->name, self->block->class_name, key);
        all[place] = value;
        n = place >= n ? place + 1 : n;
    }
    PyObject *tuple = PyTuple_New(n);
    for (Py_ssize_t i = 0; tuple && i < n; i++)
        PyTuple_SET_ITEM(tuple, i, core_new_ref(all[i] ? all[i] : Py_None));
    return tuple;
}

static int run_hooks(PyObject *hooks, PyObject *object, PyObject *args, PyObject *result)
{
    PyObject *copy = PySequence_Tuple(hooks); /* a hook may remove itself */
    int failed = !copy;
    for (Py_ssize_t i = 0; !failed && i < PyTuple_GET_SIZE(copy); i++) {
        PyObject *done = PyObject_CallFunctionObjArgs(PyTuple_GET_ITEM(copy, i), object, args, result, NULL);
        failed = !done;
        Py_XDECREF(done);
    }
    Py_XDECREF(copy);
    return failed;
}

/* x through the children one after the other, each called as Python would; several results are several inputs. */
static PyObject *run_children(block_object *self, PyObject *args)
{
    PyObject *key, *child, *x = core_new_ref(args);
    Py_ssize_t at = 0;
    bool tuple = true;
    while (x && PyDict_Next(self->children, &at, &key, &child)) {
        PyObject *inputs = tuple ? core_new_ref(x) : PyTuple_Pack(1, x);
        PyObject *next = inputs ? PyObject_CallObject(child, inputs) : NULL;
        Py_XDECREF(inputs), Py_DECREF(x);
        x = next;
        tuple = false;
        if (x && (PyTuple_Check(x) || PyList_Check(x))) {
            PyObject *as_tuple = PySequence_Tuple(x);
            Py_DECREF(x);
            x = as_tuple;
            tuple = true;
        }
    }
    if (x && tuple && PyTuple_GET_SIZE(x) == 1) {
        PyObject *only = core_new_ref(PyTuple_GET_ITEM(x, 0));
        Py_DECREF(x);
        x = only;
    }
    return x;
}

static PyObject *call_forward(PyObject *object, PyObject *args, PyObject *keywords)
{
    static PyObject *name;
    block_object *self = (block_object *)object;
    if (!name && !(name = PyUnicode_InternFromString("forward")))
        return NULL;
    if (self->native && self->block->sequential && !keywords)
        return run_children(self, args);
    PyObject *forward = PyObject_GetAttr(object, name);
    if (!forward)
        return NULL;
    const char *outer = mx_error_context(self->block->name);
    PyObject *result = PyObject_Call(forward, args, keywords);
    mx_error_context(outer);
    Py_DECREF(forward);
    return result;
}

static PyObject *block_call(PyObject *object, PyObject *args, PyObject *keywords)
{
    block_object *self = (block_object *)object;
    if (!block_of(object))
        return NULL;
    if (keywords && !PyDict_GET_SIZE(keywords))
        keywords = NULL;
    if (runs_in_c(self)) {
        if (!keywords)
            return call_in_c(self, args);
        PyObject *all = with_keywords(self, args, keywords);
        PyObject *result = all ? call_in_c(self, all) : NULL;
        Py_XDECREF(all);
        return result;
    }
    if (self->before && run_hooks(self->before, object, args, NULL))
        return NULL;
    PyObject *result = call_forward(object, args, keywords);
    if (result && self->after && run_hooks(self->after, object, args, result))
        Py_CLEAR(result);
    return result;
}

/* forward() of a layer of the library, for subclasses and for those who call it by name. */
static PyObject *block_forward(PyObject *object, PyObject *args)
{
    block_object *self = (block_object *)object;
    if (!block_of(object))
        return NULL;
    if (self->block->sequential)
        return run_children(self, args);
    if (!self->block->layer)
        return PyErr_Format(PyExc_NotImplementedError, "%s (%s): forward is not overridden", self->block->name, self->block->class_name);
    return call_in_c(self, args);
}

/* _layer_forward(inputs, parameters): hybrid_forward of a layer of the library, with the parameters that were passed. */
static PyObject *block_layer_forward(PyObject *object, PyObject *args)
{
    block_object *self = (block_object *)object;
    PyObject *inputs, *given;
    mx_array *in[FEW_ARGUMENTS], *own[FEW_ARGUMENTS];
    int64_t n, work;
    if (!block_of(object) || !PyArg_ParseTuple(args, "O!O!:hybrid_forward", &PyTuple_Type, &inputs, &PyDict_Type, &given) ||
        take_arrays(self, inputs, in, &n, &work))
        return NULL;
    const mx_dict *attributes = &self->block->attributes;
    for (int64_t i = 0; i < attributes->length && i < FEW_ARGUMENTS; i++) {
        PyObject *value = PyDict_GetItemString(given, attributes->entries[i].key);
        own[i] = value && nd_check(value) ? nd_array(value) : MX_NONE;
    }
    mx_scope scope = mx_scope_open();
    mx_array *out = mx_layer_forward_with(self->block, (mx_arrays){in, n}, (mx_arrays){own, attributes->length});
    PyObject *result = out ? nd_wrap(out) : raise_error();
    mx_scope_close(&scope);
    return result;
}

/* ---- shapes of deferred parameters --------------------------------------------------------------------------------- */

static PyObject *abstract_of(PyObject *value)
{
    if (nd_check(value)) {
        const mx_array *x = nd_array(value);
        mx_shape_t shape = mx_array_shape(x);
        mx_array *made = mx_array_abstract(&shape, (mx_dtype)x->dtype, x->context);
        PyObject *result = made ? nd_wrap(made) : raise_error();
        mx_release(made);
        return result;
    }
    if (!PyList_Check(value) && !PyTuple_Check(value))
        return core_new_ref(value);
    const Py_ssize_t n = PySequence_Fast_GET_SIZE(value);
    PyObject *list = PyTuple_Check(value) ? PyTuple_New(n) : PyList_New(n);
    for (Py_ssize_t i = 0; list && i < n; i++) {
        PyObject *item = abstract_of(PySequence_Fast_GET_ITEM(value, i));
        if (!item)
            Py_CLEAR(list);
        else if (PyTuple_Check(value))
            PyTuple_SET_ITEM(list, i, item);
        else
            PyList_SET_ITEM(list, i, item);
    }
    return list;
}

/* _infer(args): runs forward on arrays without data, from which the shapes of parameters follow, and makes them. */
static PyObject *block_infer(PyObject *object, PyObject *args)
{
    block_object *self = (block_object *)object;
    if (!block_of(object))
        return NULL;
    PyObject *abstract = abstract_of(args);
    PyObject *forward = abstract ? PyObject_GetAttrString(object, "forward") : NULL;
    if (!forward)
        return Py_XDECREF(abstract), NULL;
    const bool previous = mx_set_inferring(true);
    mx_mode mode = mx_mode_enter(0, -1);
    PyObject *out = PyObject_CallObject(forward, abstract);
    mx_mode_leave(&mode);
    mx_set_inferring(previous);
    Py_DECREF(forward), Py_DECREF(abstract);
    const bool learned = out != NULL;
    Py_XDECREF(out);
    if (!learned) {
        mx_block_finish_shapes(self->block, false);
        return NULL;
    }
    return raise_if(mx_block_finish_shapes(self->block, true));
}

/* _own_data(x): own parameters as arrays where x is, a dict of keywords for hybrid_forward; None: shapes are missing. */
static PyObject *block_own_data(PyObject *object, PyObject *x)
{
    block_object *self = (block_object *)object;
    if (!block_of(object))
        return NULL;
    const mx_context context = nd_check(x) ? nd_array(x)->context : mx_current_context();
    const mx_dict *own = &self->block->attributes;
    if (!own->length)
        return PyDict_New();
    if (!mx_inferring() && mx_block_waits(self->block))
        Py_RETURN_NONE;
    PyObject *dict = PyDict_New();
    for (int64_t i = 0; dict && i < own->length; i++) {
        mx_array *data = mx_parameter_use(own->entries[i].pointer, context);
        PyObject *value = data ? nd_wrap(data) : raise_error();
        if (!value || PyDict_SetItemString(dict, own->entries[i].key, value))
            Py_CLEAR(dict);
        Py_XDECREF(value);
    }
    return dict;
}

/* ---- name scopes ------------------------------------------------------------------------------------------------------ */

typedef struct scope_object {
    PyObject_HEAD
    PyObject *owner; /* the block; retained */
    mx_naming saved[16];
    int depth;
} scope_object;

static PyObject *scope_enter(PyObject *object, PyObject *unused)
{
    scope_object *self = (scope_object *)object;
    (void)unused;
    if (self->depth == 16)
        return PyErr_Format(PyExc_RuntimeError, "name_scope: entered more than 16 times");
    self->saved[self->depth++] = mx_naming_enter(block_of(self->owner));
    return core_new_ref(object);
}
static PyObject *scope_exit(PyObject *object, PyObject *const *args, Py_ssize_t n)
{
    scope_object *self = (scope_object *)object;
    (void)args, (void)n;
    if (self->depth)
        mx_naming_leave(&self->saved[--self->depth]);
    Py_RETURN_NONE;
}
static void scope_dealloc(PyObject *object)
{
    Py_DECREF(((scope_object *)object)->owner);
    PyObject_Free(object);
}
static PyMethodDef scope_methods[] = {
    {"__enter__", scope_enter, METH_NOARGS, NULL},
    {"__exit__", (PyCFunction)(void (*)(void))scope_exit, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};
static PyTypeObject scope_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "mxnet.gluon.block._BlockScope",
    .tp_basicsize = sizeof(scope_object),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_dealloc = scope_dealloc,
    .tp_methods = scope_methods,
    .tp_doc = "What Block.name_scope() returns: blocks made inside get the block's prefix.",
};

static PyObject *block_name_scope(PyObject *object, PyObject *unused)
{
    (void)unused;
    if (!block_of(object))
        return NULL;
    scope_object *scope = PyObject_New(scope_object, &scope_type);
    if (scope)
        scope->owner = core_new_ref(object), scope->depth = 0;
    return (PyObject *)scope;
}

/* ---- what is done to a whole network ------------------------------------------------------------------------------------ */

static PyObject *block_collect(PyObject *object, PyObject *unused)
{
    mx_block *block = block_of(object);
    (void)unused;
    if (!block)
        return NULL;
    MX_SCOPE;
    return params_wrap(mx_collect_params(block));
}

static PyObject *block_cast(PyObject *object, PyObject *type)
{
    mx_dtype dtype;
    mx_block *block = block_of(object);
    return !block || dtype_from(type, &dtype) ? NULL : raise_if(mx_block_cast(block, dtype));
}

static PyObject *block_save(PyObject *object, PyObject *path)
{
    PyObject *bytes;
    mx_block *block = block_of(object);
    if (!block || !PyUnicode_FSConverter(path, &bytes))
        return NULL;
    PyThreadState *state = let_go(true);
    const mx_code code = mx_save_parameters(block, PyBytes_AS_STRING(bytes));
    take_back(state);
    Py_DECREF(bytes);
    return raise_if(code);
}

/* _load(path, allow_missing, ignore_extra, cast_dtype) */
static PyObject *block_load(PyObject *object, PyObject *args)
{
    PyObject *path;
    int missing, extra, cast;
    mx_block *block = block_of(object);
    if (!block || !PyArg_ParseTuple(args, "O&ppp:load_parameters", PyUnicode_FSConverter, &path, &missing, &extra, &cast))
        return NULL;
    const struct mx_load_options options = {.allow_missing = missing, .ignore_extra = extra, .cast_dtype = cast};
    mx_mode mode = mx_mode_enter(0, -1);
    const mx_code code = mx_load_parameters_with(block, PyBytes_AS_STRING(path), &options);
    mx_mode_leave(&mode);
    Py_DECREF(path);
    return raise_if(code);
}

static PyObject *block_text(PyObject *object, PyObject *unused)
{
    mx_block *block = block_of(object);
    (void)unused;
    if (!block)
        return NULL;
    MX_SCOPE;
    const char *text = mx_block_text(block);
    return text ? PyUnicode_FromString(text) : raise_error();
}

static PyObject *hook_list(PyObject *object, PyObject *args)
{
    block_object *self = (block_object *)object;
    int before;
    if (!PyArg_ParseTuple(args, "p:hooks", &before))
        return NULL;
    PyObject **list = before ? &self->before : &self->after;
    if (!*list && !(*list = PyList_New(0)))
        return NULL;
    structure_version++;
    return core_new_ref(*list);
}

/* Forgets empty lists, so that the block can run in C again. */
static PyObject *hooks_changed(PyObject *object, PyObject *unused)
{
    block_object *self = (block_object *)object;
    (void)unused;
    if (self->before && !PyList_GET_SIZE(self->before))
        Py_CLEAR(self->before);
    if (self->after && !PyList_GET_SIZE(self->after))
        Py_CLEAR(self->after);
    structure_version++;
    Py_RETURN_NONE;
}

/* _set_native(on): forward of a container is not overridden, so that C may run it. */
static PyObject *set_native(PyObject *object, PyObject *on)
{
    block_object *self = (block_object *)object;
    if (!block_of(object))
        return NULL;
    self->native = PyObject_IsTrue(on) == 1;
    if (!self->native)
        self->block->forward_many = python_forward;
    structure_version++;
    Py_RETURN_NONE;
}

static PyObject *block_hybridize(PyObject *object, PyObject *on)
{
    mx_block *block = block_of(object);
    if (!block)
        return NULL;
    const int active = PyObject_IsTrue(on);
    if (active < 0)
        return NULL;
    block->hybridized = active && block->hybrid;
    Py_RETURN_NONE;
}

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
    {"_infer", block_infer, METH_O, NULL},
    {"_own_data", block_own_data, METH_O, NULL},
    {"_layer_forward", block_layer_forward, METH_VARARGS, NULL},
    {"_hooks", hook_list, METH_VARARGS, NULL},
    {"_hooks_changed", hooks_changed, METH_NOARGS, NULL},
    {"_set_native", set_native, METH_O, NULL},
    {"_set_active", block_hybridize, METH_O, NULL},
    {"forward", block_forward, METH_VARARGS, "forward(*inputs): override it to say what the block computes."},
    {"name_scope", block_name_scope, METH_NOARGS, "A `with` block in which new blocks and parameters get this block's prefix."},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef block_getset[] = {
    {"name", get_text, NULL, "Name: the prefix without its underscore.", NULL},
    {"prefix", get_text, NULL, "What the names of its parameters begin with.", (void *)1},
    {"params", get_params, NULL, "Its own parameters, without those of children.", NULL},
    {"_children", get_children, NULL, "Children by attribute name.", NULL},
    {"_reg_params", get_reg_params, NULL, "Own parameters by attribute name.", NULL},
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

/* ---- the module's part ------------------------------------------------------------------------------------------------ */

/* layers(): (kind, name, address, description) of every layer and loss. */
static PyObject *layers(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    PyObject *list = PyList_New(0);
    mx_class *cls;
    for (int i = 0; list && (cls = mx_class_at(i)) != NULL; i++) {
        if (cls->kind != MX_LAYER && cls->kind != MX_LOSS)
            continue;
        PyObject *row = Py_BuildValue("isN", (int)cls->kind, cls->name, PyLong_FromVoidPtr(cls));
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

static PyObject *is_inferring(PyObject *self, PyObject *unused) { return (void)self, (void)unused, PyBool_FromLong(mx_inferring()); }

static PyMethodDef functions[] = {
    {"layers", layers, METH_NOARGS, "Layers and losses of the library."},
    {"register_layer", register_layer, METH_VARARGS, "The Python class of a layer."},
    {"describe_class", describe_class, METH_O, "A class as JSON."},
    {"is_inferring", is_inferring, METH_NOARGS, "Whether a forward runs only for its shapes."},
    {NULL, NULL, 0, NULL},
};

int add_blocks(PyObject *module)
{
    if (PyType_Ready(&block_type) || PyType_Ready(&scope_type))
        return -1;
    if (PyModule_AddObjectRef(module, "Block", (PyObject *)&block_type))
        return -1;
    return PyModule_AddFunctions(module, functions);
}
