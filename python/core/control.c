/* Loops, conditions and operators written in Python, as callbacks of the library.
 *
 *     _core.foreach(step, data, states, name, ...)             step(rows, states) -> (outputs, states), flat lists
 *     _core.while_loop(cond, func, variables, steps, name)     cond(variables), func(variables) -> (outputs, variables)
 *     _core.cond(predicate, then, otherwise, name)             then() -> outputs
 *     _core.custom_register(op_type, factory)                  factory(options) -> an object that mx.operator defines
 *
 * Loops and conditions run with the GIL held, since they only call Python.  Custom operators may be called from any
 * thread that runs a graph, so they acquire it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "symbol.h"

#include "exec/list.h"
#include "gluon/control.h"
#include "gluon/custom.h"
#include "gluon/einsum.h"

/* ---- lists ------------------------------------------------------------------------------------------------------- */

/* The arrays of a list of NDArrays and Symbols, owned by the scope; n < 0 with an exception. */
static mx_arrays arrays_from(PyObject *source, const char *who)
{
    PyObject *list = PySequence_Fast(source, "expected a list of arrays");
    const Py_ssize_t n = list ? PySequence_Fast_GET_SIZE(list) : 0;
    mx_array **arrays = list ? mx_list_new(n) : NULL;
    bool ok = arrays != NULL;
    for (Py_ssize_t i = 0; ok && i < n; i++) {
        mx_array *x = any_array(PySequence_Fast_GET_ITEM(list, i), who);
        ok = x && (arrays[i] = mx_scope_add(mx_retain(x)));
    }
    Py_XDECREF(list);
    if (ok)
        return (mx_arrays){arrays, n};
    if (!PyErr_Occurred())
        raise_error();
    return (mx_arrays){NULL, -1};
}

static mx_code callback_failed(const char *who)
{
    return mx_error_set(MX_ERR_CALLBACK, "%s: a Python function failed", who);
}

/* The two lists that a step returns. */
static mx_code read_step(PyObject *result, const char *who, mx_arrays *outputs, mx_arrays *next)
{
    PyObject *first, *second;
    mx_code code = MX_OK;
    if (!result || !PyArg_ParseTuple(result, "OO", &first, &second))
        code = callback_failed(who);
    if (!code) {
        *outputs = arrays_from(first, who);
        *next = outputs->n < 0 ? *outputs : arrays_from(second, who);
        code = next->n < 0 ? callback_failed(who) : MX_OK;
    }
    Py_XDECREF(result);
    return code;
}

static PyObject *loop_result(const mx_loop *loop)
{
    if (loop->failed || PyErr_Occurred())
        return raise_error();
    PyObject *outputs = nd_wrap_all(loop->outputs), *states = outputs ? nd_wrap_all(loop->states) : NULL;
    PyObject *result = states ? PyTuple_Pack(2, outputs, states) : NULL;
    Py_XDECREF(outputs), Py_XDECREF(states);
    return result;
}

/* ---- loops ------------------------------------------------------------------------------------------------------- */

/* The user's function is called directly as long as its arguments and results are arrays or flat lists of them. */
typedef struct foreach_functions {
    PyObject *step;          /* takes and returns flat lists; borrowed, like the others */
    PyObject *body, *finish; /* NULL: always `step`; finish: results of body -> two flat lists */
    bool one_row, one_state; /* body takes an array, not a list */
    bool one_output;         /* the last step returned an array */
} foreach_functions;

/* An array (then *one) or a flat list of arrays. */
static bool is_flat(PyObject *x, bool *one)
{
    *one = Py_TYPE(x) == &nd_type;
    if (*one || !PyList_CheckExact(x))
        return *one;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(x); i++)
        if (Py_TYPE(PyList_GET_ITEM(x, i)) != &nd_type)
            return false;
    return true;
}

static mx_arrays flat_arrays(PyObject *x, bool one)
{
    if (!one)
        return arrays_from(x, "foreach");
    mx_array **arrays = mx_list_new(1);
    if (arrays && (arrays[0] = mx_scope_add(mx_retain(any_array(x, "foreach")))))
        return (mx_arrays){arrays, 1};
    raise_error();
    return (mx_arrays){NULL, -1};
}

static mx_code read_flat(foreach_functions *f, PyObject *result, mx_arrays *outputs, mx_arrays *next)
{
    if (PyTuple_CheckExact(result) && PyTuple_GET_SIZE(result) == 2 &&
        is_flat(PyTuple_GET_ITEM(result, 0), &f->one_output) && is_flat(PyTuple_GET_ITEM(result, 1), &f->one_state)) {
        *outputs = flat_arrays(PyTuple_GET_ITEM(result, 0), f->one_output);
        *next = outputs->n < 0 ? *outputs : flat_arrays(PyTuple_GET_ITEM(result, 1), f->one_state);
        Py_DECREF(result);
        return next->n < 0 ? callback_failed("foreach") : MX_OK;
    }
    PyObject *flat = PyObject_CallOneArg(f->finish, result);
    f->body = NULL;
    Py_DECREF(result);
    return read_step(flat, "foreach", outputs, next);
}

static mx_code foreach_body(void *user, mx_arrays data, mx_arrays states, mx_arrays *outputs, mx_arrays *next)
{
    foreach_functions *f = user;
    const bool flat = f->body != NULL;
    PyObject *rows = flat && f->one_row ? nd_wrap(data.v[0]) : nd_wrap_all(data);
    PyObject *old = !rows ? NULL : flat && f->one_state ? nd_wrap(states.v[0]) : nd_wrap_all(states);
    PyObject *result = old ? PyObject_CallFunctionObjArgs(flat ? f->body : f->step, rows, old, NULL) : NULL;
    Py_XDECREF(rows), Py_XDECREF(old);
    return flat && result ? read_flat(f, result, outputs, next) : read_step(result, "foreach", outputs, next);
}

/* foreach(step, data, states, name, body, finish, one_row, one_state) -> outputs, states, (one_output, one_state) of the
 * last step if body's results were flat to the end, else None.  Without body, every step is `step`. */
static PyObject *foreach(PyObject *self, PyObject *args)
{
    PyObject *data, *states, *result = NULL;
    foreach_functions f = {0};
    int one_row = 0, one_state = 0;
    const char *name;
    (void)self;
    if (!PyArg_ParseTuple(args, "OOOz|OOpp:foreach", &f.step, &data, &states, &name, &f.body, &f.finish, &one_row,
                          &one_state))
        return NULL;
    f.one_row = one_row, f.one_state = one_state;
    f.body = f.body == Py_None ? NULL : f.body;
    mx_scope scope = mx_scope_open();
    mx_arrays xs = arrays_from(data, "foreach"), ss = xs.n < 0 ? xs : arrays_from(states, "foreach");
    if (ss.n >= 0) {
        mx_control_name(name);
        mx_loop loop = mx_foreach(foreach_body, &f, xs, ss);
        mx_control_name(NULL);
        PyObject *both = loop_result(&loop);
        result = !both     ? NULL
                 : !f.body ? Py_BuildValue("(OOO)", PyTuple_GET_ITEM(both, 0), PyTuple_GET_ITEM(both, 1), Py_None)
                           : Py_BuildValue("(OO(OO))", PyTuple_GET_ITEM(both, 0), PyTuple_GET_ITEM(both, 1),
                                           f.one_output ? Py_True : Py_False, f.one_state ? Py_True : Py_False);
        Py_XDECREF(both);
    }
    mx_scope_close(&scope);
    return result;
}

typedef struct while_functions {
    PyObject *condition, *step; /* borrowed */
} while_functions;

/* The result of a condition: an array, or any Python object with a truth value. */
static mx_array *condition_from(PyObject *result)
{
    if (result && any_check(result)) {
        mx_array *x = any_array(result, "condition");
        return x ? mx_scope_add(mx_retain(x)) : NULL;
    }
    const int holds = result ? PyObject_IsTrue(result) : -1;
    return holds < 0 ? NULL : mx_array_scalar(holds);
}

static mx_array *while_condition(void *user, mx_arrays variables)
{
    PyObject *list = nd_wrap_all(variables);
    PyObject *result = list ? PyObject_CallOneArg(((while_functions *)user)->condition, list) : NULL;
    mx_array *x = condition_from(result);
    Py_XDECREF(list), Py_XDECREF(result);
    if (!x)
        callback_failed("while_loop");
    return x;
}

static mx_code while_step(void *user, mx_arrays variables, mx_arrays *outputs, mx_arrays *next)
{
    PyObject *list = nd_wrap_all(variables);
    PyObject *result = list ? PyObject_CallOneArg(((while_functions *)user)->step, list) : NULL;
    Py_XDECREF(list);
    return read_step(result, "while_loop", outputs, next);
}

static PyObject *while_loop(PyObject *self, PyObject *args)
{
    PyObject *variables, *result = NULL;
    while_functions functions;
    const char *name;
    long long steps;
    (void)self;
    if (!PyArg_ParseTuple(args, "OOOLz:while_loop", &functions.condition, &functions.step, &variables, &steps, &name))
        return NULL;
    mx_scope scope = mx_scope_open();
    mx_arrays list = arrays_from(variables, "while_loop");
    if (list.n >= 0) {
        mx_control_name(name);
        mx_loop loop = mx_while_loop(while_condition, while_step, &functions, list, steps);
        mx_control_name(NULL);
        result = loop_result(&loop);
    }
    mx_scope_close(&scope);
    return result;
}

/* ---- conditions -------------------------------------------------------------------------------------------------- */

typedef struct branches {
    PyObject *first, *second; /* borrowed */
} branches;

static mx_code run_branch(PyObject *function, mx_arrays *outputs)
{
    PyObject *result = PyObject_CallNoArgs(function);
    *outputs = result ? arrays_from(result, "cond") : (mx_arrays){NULL, -1};
    Py_XDECREF(result);
    return outputs->n < 0 ? callback_failed("cond") : MX_OK;
}
static mx_code first_branch(void *user, mx_arrays *outputs) { return run_branch(((branches *)user)->first, outputs); }
static mx_code second_branch(void *user, mx_arrays *outputs) { return run_branch(((branches *)user)->second, outputs); }

static PyObject *cond(PyObject *self, PyObject *args)
{
    PyObject *predicate, *result = NULL;
    branches functions;
    const char *name;
    (void)self;
    if (!PyArg_ParseTuple(args, "OOOz:cond", &predicate, &functions.first, &functions.second, &name))
        return NULL;
    mx_scope scope = mx_scope_open();
    mx_array *x = condition_from(predicate);
    if (x) {
        mx_control_name(name);
        mx_arrays out = mx_cond(x, first_branch, second_branch, &functions);
        mx_control_name(NULL);
        result = mx_error_code() || PyErr_Occurred() ? raise_error() : nd_wrap_all(out);
    } else if (!PyErr_Occurred()) {
        raise_error();
    }
    mx_scope_close(&scope);
    return result;
}

/* ---- users' operators -------------------------------------------------------------------------------------------- */

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
    mx_arrays in = arrays_from(inputs, "Custom");
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

/* ---- the module's part ------------------------------------------------------------------------------------------- */

/* einsum(subscripts, operands): Einstein's summation of NDArrays and Symbols. */
static PyObject *einsum(PyObject *self, PyObject *args)
{
    const char *subscripts;
    PyObject *operands;
    (void)self;
    if (!PyArg_ParseTuple(args, "sO", &subscripts, &operands))
        return NULL;
    MX_SCOPE;
    const mx_arrays arrays = arrays_from(operands, "einsum");
    return arrays.n < 0 ? NULL : nd_wrap(mx_einsum(subscripts, arrays));
}

static PyMethodDef functions[] = {
    {"einsum", einsum, METH_VARARGS, "einsum(subscripts, operands): Einstein's summation."},
    {"foreach", foreach, METH_VARARGS, "foreach(body, data, states, name): flat lists in and out."},
    {"while_loop", while_loop, METH_VARARGS, "while_loop(cond, func, variables, max_iterations, name)."},
    {"cond", cond, METH_VARARGS, "cond(predicate, then, otherwise, name)."},
    {"custom_register", custom_register, METH_VARARGS, "custom_register(op_type, factory)."},
    {"custom", custom, METH_VARARGS, "custom(op_type, name, symbolic, inputs, names, keys, values)."},
    {NULL, NULL, 0, NULL},
};

int add_control(PyObject *module) { return PyModule_AddFunctions(module, functions); }
