/* Key-value stores.
 *
 *     KVStore ---> mx_kvstore      an Updater of the library runs in C, any other callable is called back
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "gluon/train/kvstore.h"

#include "base/error.h"
#include "core.h"
#include "skin.h"
#include "ndarray/sparse.h"

typedef struct store_object {
    PyObject_HEAD mx_kvstore *store; /* retained; NULL before _begin() */
    PyObject *updater;               /* the Python object that updates; NULL: none */
} store_object;

static mx_kvstore *ready(PyObject *self)
{
    mx_kvstore *store = ((store_object *)self)->store;
    if (!store)
        PyErr_SetString(PyExc_RuntimeError, "KVStore: call __init__ of the base class first");
    return store;
}

/* _begin(type) */
static PyObject *begin(PyObject *object, PyObject *type)
{
    store_object *self = (store_object *)object;
    const char *text = PyUnicode_AsUTF8(type);
    if (!text)
        return NULL;
    mx_scope scope = mx_scope_open();
    PyThreadState *thread = let_go(true); /* other processes may be late */
    mx_kvstore *made = mx_retain(mx_kvstore_new(text));
    take_back(thread);
    mx_scope_close(&scope);
    if (!made)
        return raise_error();
    mx_release(self->store);
    self->store = made;
    Py_RETURN_NONE;
}

static PyObject *store_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    (void)args, (void)keywords;
    return type->tp_alloc(type, 0);
}

static void store_dealloc(PyObject *object)
{
    store_object *self = (store_object *)object;
    mx_release(self->store);
    Py_XDECREF(self->updater);
    Py_TYPE(object)->tp_free(object);
}

/* ---- values ------------------------------------------------------------------------------------------------------- */

typedef mx_code (*list_fn)(mx_kvstore *store, mx_id key, mx_arrays arrays);

/* Calls function(key, list of arrays). */
static PyObject *with_list(PyObject *self, PyObject *args, const char *who, list_fn function)
{
    PyObject *key, *source;
    mx_array **items = NULL;
    mx_id id;
    mx_kvstore *store = ready(self);
    if (!store || !PyArg_ParseTuple(args, "OO", &key, &source) || id_from(key, &id, "kvstore: keys"))
        return NULL;
    mx_arrays list = nd_list(source, who, &items);
    if (list.n < 0)
        return NULL;
    PyThreadState *thread = let_go(mx_kvstore_spans(store) || (list.n && list.v[0]->size > LONG_WORK));
    const mx_code code = function(store, id, list);
    take_back(thread);
    PyMem_Free(items);
    return raise_if(code);
}

static mx_code init_first(mx_kvstore *store, mx_id key, mx_arrays arrays)
{
    return mx_kvstore_init(store, key, arrays.n ? arrays.v[0] : NULL);
}
static PyObject *init(PyObject *self, PyObject *args) { return with_list(self, args, "kvstore.init", init_first); }
static PyObject *pull(PyObject *self, PyObject *args) { return with_list(self, args, "kvstore.pull", mx_kvstore_pull); }

/* Warns when a 16-bit weight without a master is first updated. */
static int warn(const mx_kvstore *store, PyObject *args)
{
    mx_id id;
    if (!store || !store->updater || PyTuple_GET_SIZE(args) != 2)
        return 0;
    if (id_from(PyTuple_GET_ITEM(args, 0), &id, "kvstore: keys"))
        return -1;
    const mx_array *value = mx_kvstore_value(store, id);
    return value && !mx_updater_state(store->updater, id) ? warn_of_half(store->updater->optimizer, value, 2) : 0;
}

static PyObject *push(PyObject *self, PyObject *args)
{
    return warn(ready(self), args) ? NULL : with_list(self, args, "kvstore.push", mx_kvstore_push);
}

/* _row_sparse_pull(key, out, row_ids) */
static PyObject *row_sparse_pull(PyObject *self, PyObject *args)
{
    PyObject *key, *out, *rows;
    mx_id id;
    mx_kvstore *store = ready(self);
    if (!store || !PyArg_ParseTuple(args, "OO!O!:row_sparse_pull", &key, &nd_type, &out, &nd_type, &rows) ||
        id_from(key, &id, "kvstore: keys"))
        return NULL;
    return raise_if(mx_kvstore_row_sparse_pull(store, id, nd_array(out), nd_array(rows)));
}

/* ---- updaters ----------------------------------------------------------------------------------------------------- */

static mx_code call_python(void *user, mx_id key, mx_array *pushed, mx_array *stored)
{
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *k = PyErr_Occurred() ? NULL : id_to(key), *p = k ? nd_wrap(pushed) : NULL,
             *s = p ? nd_wrap(stored) : NULL;
    PyObject *done = s ? PyObject_CallFunctionObjArgs(user, k, p, s, NULL) : NULL;
    const bool ok = done != NULL;
    Py_XDECREF(done), Py_XDECREF(s), Py_XDECREF(p), Py_XDECREF(k);
    PyGILState_Release(gil);
    return ok ? MX_OK : MX_ERR_CALLBACK;
}

/* An updater that does not override __call__ and whose optimizer is not called back. */
static bool runs_in_c(PyObject *updater)
{
    if (!PyObject_TypeCheck(updater, &updater_type) || Py_TYPE(updater)->tp_call != updater_type.tp_call)
        return false;
    const mx_updater *found = updater_of(updater);
    PyErr_Clear();
    return found && !found->optimizer->hooks.update;
}

/* _set_updater(callable or None): the store object owns it, the library borrows it. */
static PyObject *set_updater(PyObject *object, PyObject *updater)
{
    store_object *self = (store_object *)object;
    mx_kvstore *store = ready(object);
    if (!store)
        return NULL;
    const mx_code code = updater == Py_None   ? mx_kvstore_set_updater(store, NULL)
                         : runs_in_c(updater) ? mx_kvstore_set_updater(store, updater_of(updater))
                                              : mx_kvstore_set_updater_fn(store, call_python, updater, NULL);
    if (code)
        return raise_error();
    Py_XSETREF(self->updater, updater == Py_None ? NULL : core_new_ref(updater));
    Py_RETURN_NONE;
}

static PyObject *get_updater(PyObject *object, void *unused)
{
    PyObject *updater = ((store_object *)object)->updater;
    (void)unused;
    return core_new_ref(updater ? updater : Py_None);
}

static int put_updater(PyObject *object, PyObject *updater, void *unused)
{
    PyObject *done = set_updater(object, updater ? updater : Py_None);
    (void)unused;
    Py_XDECREF(done);
    return done ? 0 : -1;
}

/* _set_compression(type, threshold) */
static PyObject *set_compression(PyObject *self, PyObject *args)
{
    const char *type;
    double threshold;
    mx_kvstore *store = ready(self);
    if (!store || !PyArg_ParseTuple(args, "sd:set_gradient_compression", &type, &threshold))
        return NULL;
    return raise_if(mx_kvstore_set_gradient_compression(store, type, threshold));
}

/* _barrier(): until all processes have called it */
static PyObject *barrier(PyObject *self, PyObject *unused)
{
    mx_kvstore *store = ready(self);
    (void)unused;
    if (!store)
        return NULL;
    PyThreadState *thread = let_go(true);
    const mx_code code = mx_kvstore_barrier(store);
    take_back(thread);
    return raise_if(code);
}

/* ---- the type ----------------------------------------------------------------------------------------------------- */

static PyObject *get_type(PyObject *self, void *unused)
{
    const mx_kvstore *store = ready(self);
    (void)unused;
    return store ? PyUnicode_FromString(mx_kvstore_type(store)) : NULL;
}
static PyObject *get_rank(PyObject *self, void *unused)
{
    const mx_kvstore *store = ready(self);
    (void)unused;
    return store ? PyLong_FromLong(mx_kvstore_rank(store)) : NULL;
}
static PyObject *get_num_workers(PyObject *self, void *unused)
{
    const mx_kvstore *store = ready(self);
    (void)unused;
    return store ? PyLong_FromLong(mx_kvstore_num_workers(store)) : NULL;
}

static PyMethodDef methods[] = {
    {"_begin", begin, METH_O, NULL},
    {"_init", init, METH_VARARGS, "_init(key, arrays): the first value."},
    {"_push", push, METH_VARARGS, "_push(key, arrays)"},
    {"_pull", pull, METH_VARARGS, "_pull(key, arrays)"},
    {"_row_sparse_pull", row_sparse_pull, METH_VARARGS, "_row_sparse_pull(key, out, row_ids)"},
    {"_set_updater", set_updater, METH_O,
     "_set_updater($self, updater)\n--\n\nupdater(key, pushed, stored) is called with every value that is pushed."},
    {"_barrier", barrier, METH_NOARGS, "_barrier($self)\n--\n\nReturns when all processes have called it."},
    {"_set_compression", set_compression, METH_VARARGS, "_set_compression(type, threshold)"},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef getset[] = {
    {"type", get_type, NULL, "The name that the store was created with.", NULL},
    {"rank", get_rank, NULL, "The rank of this process.", NULL},
    {"num_workers", get_num_workers, NULL, "The number of processes.", NULL},
    {"_updater", get_updater, put_updater, "the callable that updates the values, or None", NULL},
    {"_updater_func", get_updater, put_updater, "the callable that updates the values, or None", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyTypeObject store_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "mxnet._core.KVStore",
    .tp_basicsize = sizeof(store_object),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_new = store_new,
    .tp_dealloc = store_dealloc,
    .tp_methods = methods,
    .tp_getset = getset,
    .tp_doc = "Values by key, summed over contexts.",
};

mx_kvstore *store_of(PyObject *object)
{
    if (PyObject_TypeCheck(object, &store_type))
        return ready(object);
    PyErr_Format(PyExc_TypeError, "expected a KVStore, got %.200s", Py_TYPE(object)->tp_name);
    return NULL;
}

int add_kvstores(PyObject *module)
{
    return PyType_Ready(&store_type) ? -1 : PyModule_AddObjectRef(module, "KVStore", (PyObject *)&store_type);
}
