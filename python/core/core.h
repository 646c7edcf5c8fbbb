/* mxnet._core: Python wrappers of libgluon.
 *
 *     NDArray ---> mx_array        the Python object owns one reference
 *     Op      ---> mx_op           callable: mx.nd.softmax(x, axis=1); also used as NDArray methods
 *
 * Every entry from Python opens a scope, calls the library, wraps the results (nd_wrap) and closes the scope.  raise_error()
 * converts a failure of the library into a Python exception; an exception raised by Python code that C called back takes
 * precedence.  Nothing here computes: all semantics are in the library.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MXNET_CORE_H
#define MXNET_CORE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "gluon/autograd.h"
#include "gluon/op.h"
#include "gluon/optimizer.h"
#include "gluon/parameter.h"
#include "ndarray/array.h"
#include "op/op.h"

/* ---- arrays ------------------------------------------------------------------------------------------------ */
typedef struct nd_object {
    PyObject_HEAD mx_array *array; /* retained; never NULL after creation */
    PyObject *weakrefs;            /* list of weak references */
} nd_object;

extern PyTypeObject nd_type;
static inline bool nd_check(PyObject *x) { return Py_TYPE(x) == &nd_type || PyObject_TypeCheck(x, &nd_type); }
static inline mx_array *nd_array(PyObject *x) { return ((nd_object *)x)->array; }
PyObject *nd_wrap(mx_array *array);      /* a new NDArray, or a Symbol of a symbolic array; retains */
PyObject *nd_wrap_all(mx_arrays arrays); /* a list of them */
/* Results of the class of `self`, mx.nd's or mx.np's: an array, and that of an operator on x. */
PyObject *nd_wrap_like(PyObject *self, mx_array *array);
PyObject *nd_run_like(PyObject *self, mx_op *op, const void *attrs, mx_array *x);
extern PyGetSetDef nd_getset[];         /* the properties (array_properties.c) */
PyObject *sparse_wrap(mx_array *array); /* of a sparse array (sparse.c); retains */
/* Arrays that callbacks get as integers (handles.c): a new int, which is noted in the list *given. */
PyObject *handle_give(mx_array *array, PyObject **given);
void handle_taken(mx_array *array); /* an NDArray has taken over the reference of a handle */
void handle_drop(PyObject **given); /* releases the arrays in the list that no NDArray has taken over */
int stype_from(PyObject *source, mx_stype *stype, const char *who); /* text or None: 'default'; -1 with ValueError */
/* The arrays of a list or tuple of NDArrays (or of one): n < 0 with an exception.  Borrowed; *items is for PyMem_Free. */
mx_arrays nd_list(PyObject *source, const char *who, mx_array ***items);
/* Any array-like as an NDArray: lists, numbers, NumPy arrays.  dtype MX_DTYPE_NONE: float32, or that of an NDArray. */
PyObject *nd_from_any(PyObject *source, mx_context context, mx_dtype dtype);

/* ---- operators --------------------------------------------------------------------------------------------- */
typedef struct op_object {
    PyObject_HEAD vectorcallfunc vectorcall;
    mx_op *op;
    PyObject *name;         /* the alias under which it is registered here */
    PyObject *module;       /* "mxnet.ndarray.op" */
    PyObject **input_names; /* (declared_inputs) interned; the name of a list input without its star */
    PyObject **attr_names;  /* (schema->count) interned */
    int n_attrs;
    bool symbolic; /* one of mx.sym: creates graph nodes */
    int np_row;    /* its entry in np_array.c; -1: none */
    bool np;       /* one of mx.np or mx.npx: its arrays are those of mx.np */
} op_object;
/* A call failed: its exception shows the name that the program called, not the one in files (messages.c). */
void op_show_called_name(const op_object *self);
extern PyTypeObject op_type;
extern PyObject *null_value; /* mxnet.base._Null: "not given" */
PyObject *op_new(mx_op *op, const char *name);
/* A call from Python; view: of an operator that only changes the shape, the result that shares the memory of its input. */
PyObject *op_call_with(const op_object *self, PyObject *const *args, Py_ssize_t n, PyObject *keywords, bool view);
/* One call with results as a Python object (an NDArray or a list); out: NDArray, list of them, or NULL. */
PyObject *op_run(mx_op *op, const void *attrs, int n_in, mx_array *const *in, PyObject *out);
/* An operator that only changes the shape: the result shares the memory of x. */
PyObject *op_run_view(mx_op *op, const void *attrs, mx_array *x);

/* ---- values ------------------------------------------------------------------------------------------------ */
/* Sets a schema field from a Python object; -1 with an exception naming `who`. */
int field_set(const mx_field *field, const mx_schema *schema, void *attrs, PyObject *value, const char *who);
PyObject *field_get(const mx_field *field, const void *attrs);       /* the Python value of a field */
PyObject *schema_values(const mx_schema *schema, const void *attrs); /* a dict of all fields that are not objects */
/* 0 and *dtype; -1 with TypeError.  None gives MX_DTYPE_NONE. */
int dtype_from(PyObject *source, mx_dtype *dtype);
PyObject *dtype_to(mx_dtype dtype); /* NumPy's type object */
/* From a Context, None (type 0: the current one) or text such as "cpu(0)". */
int context_from(PyObject *source, mx_context *context);
PyObject *context_to(mx_context context);
int dims_from(PyObject *source, mx_dims *dims, const char *who, const char *argument); /* an int or a sequence */
PyObject *dims_to(const int64_t *dims, int count);
bool is_number(PyObject *x); /* int, float, bool or a NumPy scalar of these */

/* ---- errors ------------------------------------------------------------------------------------------------ */
/* Raises the library's error unless a Python exception is already set; returns NULL. */
PyObject *raise_error(void);
PyObject *error_text(void); /* the message of the error record in the words of Python: new reference */
#define raise_if(code) ((code) ? raise_error() : Py_NewRef(Py_None))
extern PyObject *deferred_error; /* for tests of the exception type; borrowed */

/* Zeroed memory of Python; NULL with a MemoryError.  Free with PyMem_Free. */
static inline void *core_memory(size_t count, size_t bytes)
{
    void *memory = PyMem_Calloc(count, bytes);
    return memory ? memory : PyErr_NoMemory();
}

/* ---- running ----------------------------------------------------------------------------------------------- */
/* Work on more elements than this releases the GIL. */
#define LONG_WORK 16384
static inline PyThreadState *let_go(bool long_work) { return long_work ? PyEval_SaveThread() : NULL; }
static inline void take_back(PyThreadState *state)
{
    if (state)
        PyEval_RestoreThread(state);
}

/* Reading or copying elements counts as long work if it must wait for them. */
static inline PyThreadState *let_go_reading(const mx_array *x)
{
    return let_go(x->size > LONG_WORK || x->context.type == MX_GPU);
}
static inline double read_item(const mx_array *x)
{
    PyThreadState *state = let_go_reading(x);
    const double value = mx_item(x);
    take_back(state);
    return value;
}

/* Lets programs add attributes to the class, as to one that is written in Python: NDArray.f = ...  Python 3.9 has no flag for it. */
static inline void open_type(PyTypeObject *type)
{
#ifdef Py_TPFLAGS_IMMUTABLETYPE
    type->tp_flags &= ~Py_TPFLAGS_IMMUTABLETYPE;
#else
    (void)type;
#endif
}

/* The attribute `name` of mxnet.<module>, imported at first use and cached; NULL with an exception.  New reference. */
PyObject *from_package(const char *module, const char *name);

/* ---- described classes: initializers, schedules, optimizers, metrics, layers, losses ------------------------ */
/* Fills `options` (cls->schema->size bytes, a copy of cls->defaults at first) from the arguments of a call: positional
 * ones in the order of the schema, keywords by name.  extra: NULL-ended names of further keywords ("prefix", "params"),
 * or NULL; their values are borrowed into extra_values (NULL where not given).  0, or -1 with a TypeError that names
 * the class.  Objects that options point to belong to the current scope: open one around this and mx_class_make(). */
struct mx_class;
int options_from(const struct mx_class *cls, void *options, PyObject *const *args, Py_ssize_t n, PyObject *kwnames,
                 const char *const *extra, PyObject **extra_values);

/* The wrapper of an object of a described class: base type of initializers, schedules, optimizers and metrics.
 * Options that are neither class attributes nor in its __dict__ are read and written in the C struct. */
typedef struct described_object {
    PyObject_HEAD const struct mx_class *cls; /* NULL before _start() */
    void *object;                             /* retained: mx_initializer, mx_optimizer ...; NULL before _start() */
    void *options;                            /* the object's options, borrowed; NULL: it has none */
} described_object;
extern PyTypeObject described_type;
static inline bool described_check(PyObject *x) { return PyObject_TypeCheck(x, &described_type); }
static inline void *described_get(PyObject *x) { return ((described_object *)x)->object; }
/* The C object of x; NULL with an exception if __init__ of the base class was not called. */
void *described_ready(PyObject *x);
/* A type of module mxnet._core that derives from Described; 0 or -1. */
int add_described_type(PyObject *module, PyTypeObject *type, const char *name);

/* Scope-owned; from an Initializer, a registered name, JSON text '["xavier", {...}]', or any callable(desc, array).
 * None gives NULL without an exception: check PyErr_Occurred(). */
mx_initializer *initializer_from(PyObject *source, const char *who);
PyObject *initializer_to(mx_initializer *init); /* the Python object of one, or an equal one; None for NULL */
mx_lr_scheduler *scheduler_from(PyObject *source, const char *who); /* an LRScheduler, a callable, None */

int add_described(PyObject *module);
int add_initializers(PyObject *module);
int set_double(PyObject *value, double *slot); /* a setter of a number: 0, or -1 with an exception */
int add_schedulers(PyObject *module);
int add_optimizers(PyObject *module);
int add_updaters(PyObject *module);
int add_comm(PyObject *module);
int add_kvstores(PyObject *module);
int add_metrics(PyObject *module);
int add_trainers(PyObject *module);
int add_amp(PyObject *module);
int add_loss_scalers(PyObject *module);

/* ---- ids of weights and stored values ------------------------------------------------------------------------ */
/* From an int or a str, whose text the id borrows; -1 with a TypeError that names `who`. */
int id_from(PyObject *key, mx_id *id, const char *who);
PyObject *id_to(mx_id id);

/* ---- optimizers and their states ------------------------------------------------------------------------------ */
extern PyTypeObject optimizer_type, updater_type;
extern PyMethodDef optimizer_steps[];     /* methods of Optimizer that are in optimizer_step.c */
mx_updater *updater_of(PyObject *object); /* borrowed; NULL with an exception */
/* A state as create_state_multi_precision returns it: None, an array or a tuple, with its master; or the state of a Python
 * optimizer. */
PyObject *state_to(const mx_optimizer *o, const mx_optimizer_state *state);
/* The arrays of such a state, borrowed, NULL for None; how many, or -1 with a TypeError. */
#define MOST_STATE_ARRAYS 5
int state_from(PyObject *source, mx_array *arrays[MOST_STATE_ARRAYS]);
/* A warning if a weight has 16 bits and no master; level: of the Python line to blame.  -1: an exception. */
int warn_of_half(const mx_optimizer *o, const mx_array *weight, int level);

/* ---- the parts of the module, each adds its types and functions --------------------------------------------- */
int add_values(PyObject *module);
int add_arrays(PyObject *module);
int add_numbers(PyObject *module);
int add_operators(PyObject *module);
int add_autograd(PyObject *module);
int add_control(PyObject *module);
int add_custom(PyObject *module);
int add_files(PyObject *module);
int add_signals(PyObject *module);
int add_onnx(PyObject *module);
int add_summary(PyObject *module);
int add_tokenizer(PyObject *module);
int add_exchange(PyObject *module);
int add_runtime(PyObject *module);
int add_dlpack(PyObject *module);
int add_profiler(PyObject *module);
int add_sparse(PyObject *module);
int add_np_arrays(PyObject *module);

extern PyNumberMethods nd_number;
extern PyMappingMethods nd_mapping;
PyObject *nd_index(PyObject *self, mx_array *x, PyObject *key); /* self[key], where self wraps x */
extern PySequenceMethods nd_sequence;
extern PyBufferProcs nd_buffer;
PyObject *nd_richcompare(PyObject *a, PyObject *b, int operation);
extern PyMethodDef nd_exchange_methods[], nd_dlpack_methods[];
PyObject *nd_asnumpy(PyObject *self, PyObject *unused);

#if PY_VERSION_HEX < 0x030a0000
static inline int PyModule_AddObjectRef(PyObject *module, const char *name, PyObject *value)
{
    Py_INCREF(value);
    if (!PyModule_AddObject(module, name, value))
        return 0;
    Py_DECREF(value);
    return -1;
}
static inline PyObject *Py_NewRef(PyObject *x)
{
    Py_INCREF(x);
    return x;
}
#endif
#define core_new_ref(x) Py_NewRef((PyObject *)(x))

#endif
