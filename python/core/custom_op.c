/* Operators written in Python (mx.operator.CustomOp), as callbacks of the library.
 *
 *     _core.custom_register(op_type, factory)      factory(options) -> an object that mx.operator defines
 *     _core.custom(op_type, ...)                   a call on arrays or symbols
 *
 * They may be called from any thread that runs a graph, so they acquire the GIL.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "symbol.h"

#include "gluon/custom.h"

typedef struct custom_use {
    PyObject *object;      /* the result of the factory; retained */
    PyObject *tuples[3];   /* names of arguments, outputs, auxiliary states; retained */
    const char **names[3]; /* texts inside the tuples */
} custom_use;

static void custom_release(void *self)
{
    custom_use *use = self;
    if (!Py_IsInitialized())
        return;
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *type, *value, *trace; /* an exception may be pending */
    PyErr_Fetch(&type, &value, &trace);
    Py_XDECREF(use->object);
    for (int i = 0; i < 3; i++) {
        Py_XDECREF(use->tuples[i]);
        PyMem_Free(use->names[i]);
    }
    PyErr_Restore(type, value, trace);
    PyMem_Free(use);
    PyGILState_Release(state);
}

static bool read_names(custom_use *use, int which)
{
    PyObject *list = PyObject_CallMethod(use->object, "names", "i", which);
    PyObject *tuple = use->tuples[which] = list ? PySequence_Tuple(list) : NULL;
    Py_XDECREF(list);
    const Py_ssize_t n = tuple ? PyTuple_GET_SIZE(tuple) : 0;
    use->names[which] = tuple ? core_memory((size_t)n + 1, sizeof(char *)) : NULL;
    bool ok = use->names[which] != NULL;
    for (Py_ssize_t i = 0; ok && i < n; i++)
        ok = (use->names[which][i] = PyUnicode_AsUTF8(PyTuple_GET_ITEM(tuple, i))) != NULL;
    return ok;
}

static PyObject *options_dict(int n, const char *const *keys, const char *const *values)
{
    PyObject *dict = PyDict_New();
    for (int i = 0; dict && i < n; i++) {
        PyObject *text = PyUnicode_FromString(values[i]);
        if (!text || PyDict_SetItemString(dict, keys[i], text))
            Py_CLEAR(dict);
        Py_XDECREF(text);
    }
    return dict;
}

static void *custom_create(void *user, int n, const char *const *keys, const char *const *values)
{
    PyGILState_STATE state = PyGILState_Ensure();
    custom_use *use = core_memory(1, sizeof *use);
    PyObject *options = use ? options_dict(n, keys, values) : NULL;
    bool ok = options && (use->object = PyObject_CallOneArg(user, options));
    for (int i = 0; ok && i < 3; i++)
        ok = read_names(use, i);
    Py_XDECREF(options);
    if (!ok && use) {
        custom_release(use);
        use = NULL;
    }
    PyGILState_Release(state);
    return use;
}

static const char *const *custom_names(void *self, enum mx_custom_list which, int *n)
{
    const custom_use *use = self;
    PyGILState_STATE state = PyGILState_Ensure();
    *n = (int)PyTuple_GET_SIZE(use->tuples[which]);
    PyGILState_Release(state);
    return use->names[which];
}

/* Shapes are lists; an unknown shape is empty.  Types are NumPy types; an unknown type is None. */
static PyObject *shapes_to(int n, const mx_dims *dims)
{
    PyObject *list = PyList_New(n);
    for (int i = 0; list && i < n; i++) {
        PyObject *tuple = dims_to(dims[i].d, dims[i].n < 0 ? 0 : dims[i].n);
        PyObject *shape = tuple ? PySequence_List(tuple) : NULL;
        Py_XDECREF(tuple);
        if (shape)
            PyList_SET_ITEM(list, i, shape);
        else
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *types_to(int n, const mx_dtype *types)
{
    PyObject *list = PyList_New(n);
    for (int i = 0; list && i < n; i++) {
        PyObject *type = types[i] == MX_DTYPE_NONE ? Py_NewRef(Py_None) : dtype_to(types[i]);
        if (type)
            PyList_SET_ITEM(list, i, type);
        else
            Py_CLEAR(list);
    }
    return list;
}

static bool shapes_from(PyObject *source, int n, mx_dims *dims, const char *what)
{
    PyObject *list = PySequence_Fast(source, "infer_shape must return lists of shapes");
    bool ok = list != NULL;
    if (ok && PySequence_Fast_GET_SIZE(list) != n) {
        PyErr_Format(PyExc_ValueError, "infer_shape of a custom operator returned %zd shapes of %s, expected %d",
                     PySequence_Fast_GET_SIZE(list), what, n);
        ok = false;
    }
    for (int i = 0; ok && i < n; i++) {
        mx_dims shape;
        ok = !dims_from(PySequence_Fast_GET_ITEM(list, i), &shape, "infer_shape", what);
        if (ok && (shape.n || dims[i].n == 0 || what[0] != 'a')) /* () leaves an input unknown */
            dims[i] = shape;
    }
    Py_XDECREF(list);
    return ok;
}

static bool types_from(PyObject *source, int n, mx_dtype *types, const char *what)
{
    if (source == Py_None)
        return true;
    PyObject *list = PySequence_Fast(source, "infer_type must return lists of types");
    bool ok = list != NULL;
    if (ok && PySequence_Fast_GET_SIZE(list) != n) {
        PyErr_Format(PyExc_ValueError, "infer_type of a custom operator returned %zd types of %s, expected %d",
                     PySequence_Fast_GET_SIZE(list), what, n);
        ok = false;
    }
    for (int i = 0; ok && i < n; i++)
        ok = !dtype_from(PySequence_Fast_GET_ITEM(list, i), &types[i]);
    Py_XDECREF(list);
    return ok;
}

static bool read_inference(PyObject *result, const mx_custom_shapes *s)
{
    PyObject *a, *b, *c, *d, *e, *f;
    return result && PyArg_ParseTuple(result, "OOOOOO", &a, &b, &c, &d, &e, &f) &&
           shapes_from(a, s->n_arguments, s->arguments, "arguments") &&
           shapes_from(b, s->n_outputs, s->outputs, "outputs") &&
           shapes_from(c, s->n_auxiliary, s->auxiliary, "states") &&
           types_from(d, s->n_arguments, s->argument_types, "arguments") &&
           types_from(e, s->n_outputs, s->output_types, "outputs") &&
           types_from(f, s->n_auxiliary, s->auxiliary_types, "states");
}

static mx_code custom_infer(void *self, const mx_custom_shapes *s)
{
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *shapes = shapes_to(s->n_arguments, s->arguments);
    PyObject *types = shapes ? types_to(s->n_arguments, s->argument_types) : NULL;
    PyObject *result = types ? PyObject_CallMethod(((custom_use *)self)->object, "infer", "OO", shapes, types) : NULL;
    const bool ok = read_inference(result, s);
    Py_XDECREF(shapes), Py_XDECREF(types), Py_XDECREF(result);
    PyGILState_Release(state);
    return ok ? MX_OK : callback_failed("Custom");
}

static mx_code custom_call(void *self, mx_custom_run *run, bool backwards)
{
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *in = nd_wrap_all(run->arguments), *out = nd_wrap_all(run->outputs), *aux = nd_wrap_all(run->auxiliary);
    PyObject *first = backwards ? nd_wrap_all(run->output_grads) : context_to(run->context);
    PyObject *second = backwards ? nd_wrap_all(run->argument_grads) : PyBool_FromLong(run->training);
    PyObject *result = NULL;
    if (in && out && aux && first && second && !PyErr_Occurred())
        result = backwards ? PyObject_CallMethod(((custom_use *)self)->object, "backward", "OOOOOO", run->state, first,
                                                 in, out, second, aux)
                           : PyObject_CallMethod(((custom_use *)self)->object, "forward", "OOOOO", first, second, in,
                                                 out, aux);
    Py_XDECREF(in), Py_XDECREF(out), Py_XDECREF(aux), Py_XDECREF(first), Py_XDECREF(second);
    const bool ok = result != NULL;
    if (!backwards)
        run->state = result;
    else
        Py_XDECREF(result);
    PyGILState_Release(gil);
    return ok ? MX_OK : callback_failed("Custom");
}
static mx_code custom_forward(void *self, mx_custom_run *run) { return custom_call(self, run, false); }
static mx_code custom_backward(void *self, mx_custom_run *run) { return custom_call(self, run, true); }

static bool custom_takes_sparse(void *self)
{
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *result = PyObject_GetAttrString(((custom_use *)self)->object, "takes_sparse");
    const bool takes = result && PyObject_IsTrue(result) > 0;
    Py_XDECREF(result);
    PyErr_Clear();
    PyGILState_Release(gil);
    return takes;
}

static PyObject *stypes_to(int n, const mx_stype *stypes)
{
    PyObject *list = PyList_New(n);
    for (int i = 0; list && i < n; i++) {
        PyObject *name = PyUnicode_InternFromString(mx_stype_name(stypes[i]));
        if (name)
            PyList_SET_ITEM(list, i, name);
        else
            Py_CLEAR(list);
    }
    return list;
}

static bool stypes_from(PyObject *source, int n, mx_stype *stypes, const char *what)
{
    PyObject *list = PySequence_Fast(source, "storage types must be lists");
    bool ok = list != NULL;
    if (ok && PySequence_Fast_GET_SIZE(list) != n) {
        PyErr_Format(PyExc_ValueError, "a custom operator gave %zd storage types of %s, expected %d",
                     PySequence_Fast_GET_SIZE(list), what, n);
        ok = false;
    }
    for (int i = 0; ok && i < n; i++)
        ok = !stype_from(PySequence_Fast_GET_ITEM(list, i), &stypes[i], "infer_storage_type");
    Py_XDECREF(list);
    return ok;
}

/* The object's storage(backward, arguments, outputs) -> types of (arguments, outputs), or of
 * their gradients (of outputs, of arguments). */
static mx_code custom_storage(void *self, const mx_custom_storage *s)
{
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *arguments = stypes_to(s->n_arguments, s->arguments), *first, *second;
    PyObject *outputs = arguments ? stypes_to(s->n_outputs, s->outputs) : NULL;
    PyObject *result =
        outputs ? PyObject_CallMethod(((custom_use *)self)->object, "storage", "iOO", s->backward, arguments, outputs)
                : NULL;
    bool ok = result && PyArg_ParseTuple(result, "OO", &first, &second);
    if (ok && s->backward)
        ok = stypes_from(first, s->n_outputs, s->output_grads, "gradients of outputs") &&
             stypes_from(second, s->n_arguments, s->argument_grads, "gradients of inputs");
    else if (ok)
        ok = stypes_from(second, s->n_outputs, s->outputs, "outputs");
    Py_XDECREF(arguments), Py_XDECREF(outputs), Py_XDECREF(result);
    PyGILState_Release(gil);
    return ok ? MX_OK : callback_failed("Custom");
}

static void custom_release_state(void *state)
{
    if (!Py_IsInitialized())
        return;
    PyGILState_STATE gil = PyGILState_Ensure();
    Py_DECREF((PyObject *)state);
    PyGILState_Release(gil);
}

static PyObject *custom_register(PyObject *self, PyObject *args)
{
    const char *name;
    PyObject *factory;
    (void)self;
    if (!PyArg_ParseTuple(args, "sO:custom_register", &name, &factory))
        return NULL;
    const mx_custom_class row = {name,         Py_NewRef(factory), custom_create,   custom_release,      custom_names,
                                 custom_infer, custom_forward,     custom_backward, custom_release_state, custom_takes_sparse,
                                 custom_storage};
    return raise_if(mx_custom_register(&row));
}

/* The strings of a list of str and None; NULL with an exception.  For PyMem_Free. */
static const char **texts_from(PyObject *list, Py_ssize_t n)
{
    const char **texts = core_memory((size_t)n + 1, sizeof *texts);
    if (!texts)
        return (const char **)PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *item = PyList_GET_ITEM(list, i);
        if (item != Py_None && !(texts[i] = PyUnicode_AsUTF8(item))) {
            PyMem_Free(texts);
            return NULL;
        }
    }
    return texts;
}

static PyObject *custom_result(mx_arrays out)
{
    if (mx_error_code() || PyErr_Occurred())
        return raise_error();
    if (out.n > 1 && mx_symbolic(out.v[0]))
        return sym_wrap(mx_symbol_of(out));
    return out.n == 1 ? nd_wrap(out.v[0]) : nd_wrap_all(out);
}

/* custom(op_type, name, symbolic, inputs, names of inputs, keys, values) */
static PyObject *custom(PyObject *self, PyObject *args)
{
    struct mx_custom_args call = {0};
    int symbolic;
    PyObject *inputs, *names, *keys, *values, *result = NULL;
    (void)self;
    if (!PyArg_ParseTuple(args, "szpOO!O!O!:custom", &call.op_type, &call.name, &symbolic, &inputs, &PyList_Type,
                          &names, &PyList_Type, &keys, &PyList_Type, &values))
        return NULL;
    mx_scope scope = mx_scope_open();
    mx_arrays in = any_arrays(inputs, "Custom");
    const Py_ssize_t n = PyList_GET_SIZE(keys);
    const char **in_names = in.n < 0 ? NULL : texts_from(names, in.n), **k = in_names ? texts_from(keys, n) : NULL,
               **v = k ? texts_from(values, n) : NULL;
    if (v) {
        call.n_in = (int)in.n, call.in = in.v, call.in_names = in_names, call.symbolic = symbolic;
        call.n_options = (int)n, call.keys = k, call.values = v;
        result = custom_result(mx_custom(&call));
    }
    PyMem_Free(in_names), PyMem_Free(k), PyMem_Free(v);
    mx_scope_close(&scope);
    return result;
}

static PyMethodDef functions[] = {
    {"custom_register", custom_register, METH_VARARGS, "custom_register(op_type, factory)."},
    {"custom", custom, METH_VARARGS, "custom(op_type, name, symbolic, inputs, names, keys, values)."},
    {NULL, NULL, 0, NULL},
};

int add_custom(PyObject *module) { return PyModule_AddFunctions(module, functions); }
