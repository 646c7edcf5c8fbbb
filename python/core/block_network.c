/* Operations on entire blocks: shapes of deferred parameters, name scopes, files, modes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include "base/error.h"
#include "block.h"
#include "exec/tape.h"
#include "gluon/compile/hybrid.h"
#include "gluon/compile/trace.h"

/* ---- shapes of deferred parameters ------------------------------------------------------------------------------- */

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

/* Whether all deferred parameters of the block itself have their shapes. */
static bool all_learned(const mx_block *block)
{
    for (int64_t i = 0; i < block->own.length; i++) {
        const mx_parameter *p = block->own.items[i];
        mx_shape_t shape = p->abstract ? mx_array_shape(p->abstract) : p->shape;
        if (p->deferred && !mx_shape_known(&shape))
            return false;
    }
    return true;
}

static mx_code finish_children(mx_block *block)
{
    mx_code code = MX_OK;
    for (int64_t i = 0; !code && i < block->children.length; i++) {
        mx_block *child = block->children.entries[i].pointer;
        code = all_learned(child) ? mx_block_finish_shapes(child, true) : MX_OK;
        code = code ? code : finish_children(child);
    }
    return code;
}

/* _infer(args, children): runs forward on arrays without data, which gives the shapes of the parameters, and initialises
 * them; unless `children`, those of children are left to their own forward. */
PyObject *block_infer(PyObject *object, PyObject *arguments)
{
    block_object *self = (block_object *)object;
    PyObject *args;
    int children = 0;
    if (!block_of(object) || !PyArg_ParseTuple(arguments, "O!|p:infer_shape", &PyTuple_Type, &args, &children))
        return NULL;
    PyObject *abstract = abstract_of(args);
    const char *method = self->overrides_hybrid ? "_forward_by_hybrid" : "forward";
    PyObject *forward = abstract ? PyObject_GetAttrString(object, method) : NULL;
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
    if (!all_learned(self->block) && block_infer_by_graph(self, args))
        return NULL;
    mx_code code = mx_block_finish_shapes(self->block, true);
    return raise_if(code || !children ? code : finish_children(self->block));
}

/* The context of the first array in x. */
static mx_context context_of(PyObject *x)
{
    if ((PyList_Check(x) || PyTuple_Check(x)) && PySequence_Fast_GET_SIZE(x))
        return context_of(PySequence_Fast_GET_ITEM(x, 0));
    return nd_check(x) ? nd_array(x)->context : mx_current_context();
}

/* The array or variable of a parameter; a subclass's own data() or var() is called. */
static PyObject *own_value(mx_parameter *p, bool symbolic, mx_context context)
{
    if (p->front && !mx_inferring() && parameter_overrides(p->front)) {
        PyObject *object = core_new_ref(p->front), *ctx = symbolic ? NULL : context_to(context), *value = NULL;
        if (symbolic)
            value = PyObject_CallMethod(object, "var", NULL);
        else if (ctx)
            value = PyObject_CallMethod(object, "data", "O", ctx);
        Py_XDECREF(ctx), Py_DECREF(object);
        return value;
    }
    mx_array *data = symbolic ? mx_parameter_variable(p) : mx_parameter_use(p, context);
    return data ? nd_wrap(data) : raise_error();
}

/* _own_data(x): own parameters on the context of x, a dict of keywords for hybrid_forward; None: shapes are missing. */
PyObject *block_own_data(PyObject *object, PyObject *x)
{
    block_object *self = (block_object *)object;
    if (!block_of(object))
        return NULL;
    const mx_context context = context_of(x);
    const mx_dict *own = &self->block->attributes;
    if (!own->length)
        return PyDict_New();
    const bool symbolic = mx_thread.modes.tracing || sym_check(x);
    if (!mx_inferring() && !symbolic && mx_block_waits(self->block))
        Py_RETURN_NONE;
    PyObject *dict = PyDict_New();
    for (int64_t i = 0; dict && i < own->length; i++) {
        mx_parameter *p = own->entries[i].pointer;
        if (!symbolic && p->stype == MX_ROW_SPARSE) {
            PyErr_Format(
                PyExc_RuntimeError,
                "%s: parameter '%s' has the storage type 'row_sparse' and is no argument of hybrid_forward; use a "
                "Block and row_sparse_data()",
                self->block->name, p->name);
            return Py_DECREF(dict), NULL;
        }
        PyObject *value = own_value(p, symbolic, context);
        if (!value || PyDict_SetItemString(dict, own->entries[i].key, value))
            Py_CLEAR(dict);
        Py_XDECREF(value);
    }
    return dict;
}

/* ---- name scopes ------------------------------------------------------------------------------------------------- */

typedef struct scope_object {
    PyObject_HEAD PyObject *owner; /* the block; retained */
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
PyTypeObject block_scope_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "mxnet.gluon.block._BlockScope",
    .tp_basicsize = sizeof(scope_object),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_dealloc = scope_dealloc,
    .tp_methods = scope_methods,
    .tp_doc = "What Block.name_scope() returns: blocks made inside get the block's prefix.",
};

PyObject *block_name_scope(PyObject *object, PyObject *unused)
{
    (void)unused;
    if (!block_of(object))
        return NULL;
    scope_object *scope = PyObject_New(scope_object, &block_scope_type);
    if (scope)
        scope->owner = core_new_ref(object), scope->depth = 0;
    return (PyObject *)scope;
}

/* scope_block(prefix): a block of this prefix, whatever the scope, for names. */
PyObject *block_scope_of(PyObject *module, PyObject *prefix)
{
    const char *text = PyUnicode_AsUTF8(prefix);
    mx_block *outer = mx_thread.name_scope;
    (void)module;
    if (!text)
        return NULL;
    mx_thread.name_scope = NULL;
    mx_block *block = mx_block_named(&(mx_block_naming){.class_name = "Block", .prefix = text});
    mx_thread.name_scope = outer;
    PyObject *object = block_wrap(block);
    mx_release(block);
    return object;
}

/* name_block(prefix, params, hint): (prefix, ParameterDict) of a new block here. */
PyObject *block_name(PyObject *module, PyObject *args)
{
    const char *prefix, *hint;
    PyObject *shared;
    (void)module;
    if (!PyArg_ParseTuple(args, "zOs:create", &prefix, &shared, &hint))
        return NULL;
    if (shared != Py_None && !PyObject_TypeCheck(shared, &params_type))
        return PyErr_Format(PyExc_TypeError, "create: params must be a ParameterDict, got %.200s",
                            Py_TYPE(shared)->tp_name);
    mx_block *block =
        mx_block_named(&(mx_block_naming){hint, hint, prefix, shared == Py_None ? NULL : params_of(shared)});
    PyObject *result = block ? Py_BuildValue("sN", block->prefix, params_wrap(block->params)) : raise_error();
    mx_release(block);
    return result;
}

/* ---- what is done to a whole network ----------------------------------------------------------------------------- */

PyObject *block_collect(PyObject *object, PyObject *unused)
{
    mx_block *block = block_of(object);
    (void)unused;
    if (!block)
        return NULL;
    MX_SCOPE;
    return params_wrap(mx_collect_params(block));
}

PyObject *block_cast(PyObject *object, PyObject *type)
{
    mx_dtype dtype;
    mx_block *block = block_of(object);
    if (!block || dtype_from(type, &dtype))
        return NULL;
    if (mx_block_cast(block, dtype))
        return raise_error();
    MX_SCOPE;
    mx_params *all = mx_collect_params(block);
    for (int64_t i = 0; all && i < mx_params_count(all); i++)
        mx_params_at(all, i)->dtype_named = PyUnicode_Check(type);
    return all ? core_new_ref(Py_None) : raise_error();
}

PyObject *block_save(PyObject *object, PyObject *path)
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
PyObject *block_load(PyObject *object, PyObject *args)
{
    PyObject *path;
    int missing, extra, cast;
    mx_block *block = block_of(object);
    if (!block ||
        !PyArg_ParseTuple(args, "O&ppp:load_parameters", PyUnicode_FSConverter, &path, &missing, &extra, &cast))
        return NULL;
    const struct mx_load_options options = {.allow_missing = missing, .ignore_extra = extra, .cast_dtype = cast};
    mx_mode mode = mx_mode_enter(0, -1);
    const mx_code code = mx_load_parameters_with(block, PyBytes_AS_STRING(path), &options);
    mx_mode_leave(&mode);
    Py_DECREF(path);
    return raise_if(code);
}

PyObject *block_text(PyObject *object, PyObject *unused)
{
    mx_block *block = block_of(object);
    (void)unused;
    if (!block)
        return NULL;
    MX_SCOPE;
    const char *text = mx_block_text(block);
    return text ? PyUnicode_FromString(text) : raise_error();
}

/* The plans, and what they were made for: the next call is the first one again. */
static void forget(block_object *self)
{
    mx_hybrid_forget(self->block);
    PyMem_Free(self->seen.shape), PyMem_Free(self->seen.type);
    self->seen = (seen_inputs){0};
}

/* _set_active(active, static_alloc, clear=True, recompute=False): of this block alone; clear, or a change of the other flags,
 * drops the plans. */
PyObject *block_set_active(PyObject *object, PyObject *args)
{
    int active, fixed, clear = 1, recompute = 0;
    mx_block *block = block_of(object);
    if (!block || !PyArg_ParseTuple(args, "pp|pp:hybridize", &active, &fixed, &clear, &recompute))
        return NULL;
    block->hybridized = active && block->hybrid;
    if (clear || block->static_alloc != (bool)fixed || block->recompute != (bool)recompute)
        forget((block_object *)object);
    block->static_alloc = fixed, block->recompute = recompute;
    Py_RETURN_NONE;
}

/* _forget(): drops the plans: parameters were cast, or forward computes something else now. */
PyObject *block_forget(PyObject *object, PyObject *unused)
{
    mx_block *block = block_of(object);
    (void)unused;
    if (!block)
        return NULL;
    forget((block_object *)object);
    Py_RETURN_NONE;
}
