/* The model zoo's names, files, and residual blocks created in Python.  SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "core.h"
#include "gluon/zoo.h"
#include "gluon/zoo/zoo.h"
#include "skin.h"

/* Whether a list "a=1, b=2" sets the option `name`. */
static bool sets(const char *list, const char *name)
{
    const size_t n = strlen(name);
    for (const char *p = strstr(list, name); p; p = strstr(p + 1, name))
        if ((p == list || p[-1] == ' ') && p[n] == '=')
            return true;
    return false;
}

/* The options of a name as a dict. */
static PyObject *options_of(const mx_model_row *row)
{
    mx_class *cls = mx_class_find(MX_LAYER, row->class);
    void *typed = cls ? mx_alloc(cls->schema->size) : NULL;
    if (!typed)
        return raise_error();
    memcpy(typed, cls->defaults, cls->schema->size);
    PyObject *dict =
        *row->options && mx_schema_parse(cls->schema, typed, row->name, row->options) ? raise_error() : PyDict_New();
    for (int i = 0; dict && i < cls->schema->count; i++) {
        const mx_field *field = &cls->schema->fields[i];
        if (!sets(row->options, field->name))
            continue;
        PyObject *value = field_get(field, typed);
        if (!value || PyDict_SetItemString(dict, field->name, value))
            Py_CLEAR(dict);
        Py_XDECREF(value);
    }
    mx_free(typed, cls->schema->size);
    return dict;
}

/* [(name, class, {option: value}, hash or None), ...] */
static PyObject *list_models(const mx_model_row *row)
{
    PyObject *list = PyList_New(0);
    for (; list && row->name; row++) {
        PyObject *options = options_of(row);
        PyObject *item = options ? Py_BuildValue("ssNz", row->name, row->class, options, row->hash) : NULL;
        if (!item || PyList_Append(list, item))
            Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

static PyObject *models(PyObject *module, PyObject *unused)
{
    return (void)module, (void)unused, list_models(mx_models);
}

static PyObject *text_models(PyObject *module, PyObject *unused)
{
    return (void)module, (void)unused, list_models(mx_text_models);
}

/* model_file(name, root) -> path */
static PyObject *model_file(PyObject *module, PyObject *args)
{
    const char *name, *root;
    (void)module;
    if (!PyArg_ParseTuple(args, "ss:model_file", &name, &root))
        return NULL;
    MX_SCOPE;
    const char *path = mx_model_file(name, root);
    return path ? PyUnicode_FromString(path) : raise_error();
}

/* text_cache(net, texts, length) -> [array, ...] */
static PyObject *text_cache(PyObject *module, PyObject *args)
{
    PyObject *net;
    long long texts, length;
    (void)module;
    if (!PyArg_ParseTuple(args, "OLL:text_cache", &net, &texts, &length))
        return NULL;
    MX_SCOPE;
    mx_block *block = block_of(net);
    const mx_arrays cache = block ? mx_text_cache(block, texts, length) : (mx_arrays){0};
    return !block ? NULL : cache.n ? nd_wrap_all(cache) : raise_error();
}

/* load_torch(net, path), save_torch(net, path), load_keras(net, path) */
static PyObject *with_file(PyObject *args, mx_code (*function)(mx_block *net, const char *path))
{
    PyObject *net, *path;
    if (!PyArg_ParseTuple(args, "OO&", &net, PyUnicode_FSConverter, &path))
        return NULL;
    mx_block *block = block_of(net);
    const mx_code code = block ? function(block, PyBytes_AS_STRING(path)) : MX_OK;
    Py_DECREF(path);
    return block ? raise_if(code) : NULL;
}

static PyObject *load_torch(PyObject *module, PyObject *args) { return (void)module, with_file(args, mx_load_torch); }
static PyObject *save_torch(PyObject *module, PyObject *args) { return (void)module, with_file(args, mx_save_torch); }
static PyObject *load_keras(PyObject *module, PyObject *args) { return (void)module, with_file(args, mx_load_keras); }

/* model_from_torch(name, path), model_from_keras(name, path) -> Block */
static PyObject *model_from(PyObject *args, mx_block *(*function)(const char *name, const char *path))
{
    const char *name;
    PyObject *path;
    if (!PyArg_ParseTuple(args, "sO&", &name, PyUnicode_FSConverter, &path))
        return NULL;
    MX_SCOPE;
    mx_block *net = function(name, PyBytes_AS_STRING(path));
    Py_DECREF(path);
    return net ? block_wrap(net) : raise_error();
}

static PyObject *model_from_torch(PyObject *module, PyObject *args)
{
    return (void)module, model_from(args, mx_model_from_torch);
}

static PyObject *model_from_keras(PyObject *module, PyObject *args)
{
    return (void)module, model_from(args, mx_model_from_keras);
}

/* Creates a residual block in Python: make(channels, stride, downsample, in_channels=..., prefix=""); the block keeps the
 * Python object alive. */
static mx_block *make_residual(void *user, int64_t channels, int64_t stride, bool downsample, int64_t in_channels)
{
    PyObject *args = Py_BuildValue("LLO", (long long)channels, (long long)stride, downsample ? Py_True : Py_False);
    PyObject *words = Py_BuildValue("{s:L,s:s}", "in_channels", (long long)in_channels, "prefix", "");
    PyObject *made = args && words ? PyObject_Call(user, args, words) : NULL;
    Py_XDECREF(args), Py_XDECREF(words);
    if (made && !PyObject_TypeCheck(made, &block_type)) {
        PyErr_Format(PyExc_TypeError, "residual network: block returned a %.200s, expected a HybridBlock",
                     Py_TYPE(made)->tp_name);
        Py_CLEAR(made);
    }
    mx_block *block = made ? mx_scope_add(mx_retain(block_of(made))) : NULL;
    Py_XDECREF(made);
    return block ? block : mx_fail_null(MX_ERR_CALLBACK, "residual network: creating a block failed");
}

/* with_residual_blocks(make, function): calls function() while make() creates the blocks of residual networks. */
static PyObject *with_residual_blocks(PyObject *module, PyObject *args)
{
    PyObject *make, *function;
    (void)module;
    if (!PyArg_ParseTuple(args, "OO:with_residual_blocks", &make, &function))
        return NULL;
    mx_residual_maker_set(make_residual, make);
    PyObject *result = PyObject_CallNoArgs(function);
    mx_residual_maker_set(NULL, NULL);
    return result;
}

static PyMethodDef functions[] = {
    {"models", models, METH_NOARGS, "Names of networks for images, their classes, options and hashes."},
    {"text_models", text_models, METH_NOARGS, "The same of networks for texts."},
    {"model_file", model_file, METH_VARARGS, "The file of a network's trained parameters in a folder."},
    {"text_cache", text_cache, METH_VARARGS, "Empty keys and values for continuing texts."},
    {"load_torch", load_torch, METH_VARARGS, "Reads parameters under PyTorch's names."},
    {"save_torch", save_torch, METH_VARARGS, "Writes parameters under PyTorch's names."},
    {"load_keras", load_keras, METH_VARARGS, "Reads parameters under Keras' names."},
    {"model_from_keras", model_from_keras, METH_VARARGS, "A network of the zoo with parameters from such a file."},
    {"model_from_torch", model_from_torch, METH_VARARGS, "A network of the zoo with parameters from such a file."},
    {"with_residual_blocks", with_residual_blocks, METH_VARARGS, "Calls a function while another one creates residual blocks."},
    {NULL, NULL, 0, NULL},
};

int add_zoo(PyObject *module) { return PyModule_AddFunctions(module, functions); }
