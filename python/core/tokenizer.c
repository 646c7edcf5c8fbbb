/* Texts as tokens.  SPDX-License-Identifier: Apache-2.0 */
#include "gluon/tokenizer.h"

#include "core.h"

static const char capsule_name[] = "mxnet.tokenizer";

static void drop(PyObject *capsule) { mx_release(PyCapsule_GetPointer(capsule, capsule_name)); }

/* tokenizer_open(path) -> tokenizer */
static PyObject *tokenizer_open(PyObject *self, PyObject *path)
{
    PyObject *bytes;
    (void)self;
    if (!PyUnicode_FSConverter(path, &bytes))
        return NULL;
    MX_SCOPE;
    mx_tokenizer *made = mx_keep(mx_tokenizer_open(PyBytes_AS_STRING(bytes)));
    Py_DECREF(bytes);
    if (!made)
        return raise_error();
    PyObject *capsule = PyCapsule_New(made, capsule_name, drop);
    if (!capsule)
        mx_release(made);
    return capsule;
}

/* tokenizer_size(tokenizer) */
static PyObject *tokenizer_size(PyObject *self, PyObject *capsule)
{
    (void)self;
    const mx_tokenizer *tokenizer = PyCapsule_GetPointer(capsule, capsule_name);
    return tokenizer ? PyLong_FromLongLong(mx_tokenizer_size(tokenizer)) : NULL;
}

/* tokenizer_find(tokenizer, text) -> token or -1 */
static PyObject *tokenizer_find(PyObject *self, PyObject *args)
{
    PyObject *capsule;
    const char *text;
    (void)self;
    if (!PyArg_ParseTuple(args, "Os:tokenizer_find", &capsule, &text))
        return NULL;
    const mx_tokenizer *tokenizer = PyCapsule_GetPointer(capsule, capsule_name);
    return tokenizer ? PyLong_FromLongLong(mx_tokenizer_find(tokenizer, text)) : NULL;
}

/* tokenizer_encode(tokenizer, bytes) -> array */
static PyObject *tokenizer_encode(PyObject *self, PyObject *args)
{
    PyObject *capsule;
    Py_buffer text;
    (void)self;
    if (!PyArg_ParseTuple(args, "Oy*:tokenizer_encode", &capsule, &text))
        return NULL;
    MX_SCOPE;
    mx_tokenizer *tokenizer = PyCapsule_GetPointer(capsule, capsule_name);
    mx_array *tokens = NULL;
    if (tokenizer) {
        Py_BEGIN_ALLOW_THREADS tokens = mx_tokenizer_encode(tokenizer, text.buf, text.len);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&text);
    return tokens ? nd_wrap(tokens) : PyErr_Occurred() ? NULL : raise_error();
}

/* tokenizer_decode(tokenizer, array) -> bytes */
static PyObject *tokenizer_decode(PyObject *self, PyObject *args)
{
    PyObject *capsule, *tokens;
    (void)self;
    if (!PyArg_ParseTuple(args, "OO:tokenizer_decode", &capsule, &tokens))
        return NULL;
    mx_tokenizer *tokenizer = PyCapsule_GetPointer(capsule, capsule_name);
    if (!tokenizer)
        return NULL;
    if (!nd_check(tokens))
        return PyErr_Format(PyExc_TypeError, "decode: expected an NDArray, got %.200s", Py_TYPE(tokens)->tp_name);
    MX_SCOPE;
    mx_array *text = mx_tokenizer_decode(tokenizer, nd_array(tokens));
    return text ? PyBytes_FromStringAndSize(mx_array_data(text), mx_size(text)) : raise_error();
}

static PyMethodDef functions[] = {
    {"tokenizer_open", tokenizer_open, METH_O, "tokenizer_open(path): a tokenizer"},
    {"tokenizer_size", tokenizer_size, METH_O, "tokenizer_size(tokenizer)"},
    {"tokenizer_find", tokenizer_find, METH_VARARGS, "tokenizer_find(tokenizer, text)"},
    {"tokenizer_encode", tokenizer_encode, METH_VARARGS, "tokenizer_encode(tokenizer, bytes)"},
    {"tokenizer_decode", tokenizer_decode, METH_VARARGS, "tokenizer_decode(tokenizer, array)"},
    {NULL, NULL, 0, NULL},
};

int add_tokenizer(PyObject *module) { return PyModule_AddFunctions(module, functions); }
