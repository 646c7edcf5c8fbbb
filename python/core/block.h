/* Internals of Block objects: block.c and block_*.c.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MXNET_BLOCK_H
#define MXNET_BLOCK_H

#include "skin.h"
#include "symbol.h"

#define MOST_ARRAYS 64 /* in the arguments or results of one call */

/* Shapes and types of the inputs of a call, for tracing the block later. */
typedef struct seen_inputs {
    int n;             /* 0: never called */
    mx_shape_t *shape; /* (n) ndim -1: absent */
    int *type;
} seen_inputs;

typedef struct block_object {
    PyObject_HEAD mx_block *block;        /* retained; NULL before __init__ */
    PyObject *children;                   /* dict: attribute name -> Block (see block_live.c) */
    PyObject *params;                     /* dict: attribute name -> Parameter (wrappers created on demand) */
    PyObject *kwargs;                     /* of the layer's operator (block_options.c); NULL: not asked for yet */
    PyObject *before, *after;             /* hooks: dicts of callables (block_live.c); NULL: not asked for yet */
    uint64_t before_handle, after_handle; /* the library's hooks that run them; 0: there are none */
    PyObject *base;                       /* the class whose methods are the library's (block_override.c) */
    bool library;                         /* a layer or container: the library has a forward for it ... */
    mx_forward_many_fn library_forward;   /* ... this one; NULL: the layer's */
    bool native;                          /* no Python code in its forward */
    bool overrides_forward;               /* by its class or an attribute of the object; so below */
    bool forward_only;     /* a hybrid block with forward alone: traced if its arrays are those of mx.np */
    bool overrides_hybrid; /* hybrid_forward; if a hybrid block is not `library`, only this defines it */
    bool overrides_shapes; /* infer_shape */
    uint64_t checked;      /* structure version for which `all_native` holds */
    bool all_native;       /* a container whose children all run in C */
    PyObject *in_form;     /* how the arrays of a call are nested; NULL: one after the other */
    PyObject *out_form[2]; /* how the results are nested when predicting and when training; NULL: not known */
    seen_inputs seen;      /* of the first call while hybridized */
    PyObject *watcher;     /* callable(name, operator, handle) for every node that runs; NULL: none */
    PyObject *given;       /* handles that it got in the last pass */
    bool watch_all;        /* inputs of nodes as well */
    PyObject *dict, *weakrefs;
} block_object;

/* Incremented whenever a child or hook is added anywhere: containers then check again whether they can run in C. */
extern uint64_t structure_version;

/* Overridden methods (block_override.c). */
void block_start_overrides(block_object *self, PyObject *base, bool library); /* when its mx_block was made */
void block_find_overrides(block_object *self);
bool parameter_overrides(PyObject *parameter); /* its class overrides data() or var() */
bool block_inside(const block_object *self);   /* the library runs the forward of this block itself */
PyObject *block_arguments(const block_object *self, mx_arrays in);
PyObject *block_call(PyObject *object, PyObject *args, PyObject *keywords);
void block_blame(const mx_block *block); /* its call failed: it becomes part of the path in the exception */
PyObject *block_forward(PyObject *object, PyObject *args);
PyObject *block_run_children(PyObject *object, PyObject *args);
PyObject *block_layer_forward(PyObject *object, PyObject *args);
PyObject *block_set_hooks(PyObject *object, PyObject *mapping);
PyObject *block_set_pre_hooks(PyObject *object, PyObject *mapping);
void block_drop_hooks(block_object *self);
int block_run_hooks(PyObject *hooks, PyObject *object, PyObject *args, PyObject *result);
/* The block whose call from Python runs its hooks; the library's calls of them skip it.  Returns the one before. */
block_object *block_swap_hooked(block_object *now);
PyObject *block_wrap_results(block_object *self, mx_arrays out);

/* The arrays of a call (block_inputs.c). */
typedef struct block_inputs {
    mx_array *v[MOST_ARRAYS];
    int64_t n, work;
    PyObject *form; /* owned; NULL: no nested lists */
} block_inputs;
int block_take_arrays(block_object *self, PyObject *args, block_inputs *in); /* -1: an exception; a scope is open */
int block_keep_form(block_object *self,
                    PyObject *form); /* arguments that are nested differently than before need new plans */
int block_check_hybridized(block_object *self, const block_inputs *in);
/* Inputs of a block of the library by their names: loss(pred, label=y, sample_weight=w), cell(inputs=x, states=s). */
PyObject *block_with_keywords(block_object *self, PyObject *args, PyObject *keywords);

/* Ways to run it (block_call.c). */
PyObject *block_call_in_c(block_object *self, PyObject *args);
bool block_is_container(const mx_block *block);
bool block_any_symbol(PyObject *value); /* is one, or has one in it */

/* Attributes (block_attributes.c). */
PyObject *block_register_child(PyObject *object, PyObject *args);
int block_setattr(PyObject *object, PyObject *name, PyObject *value);
PyObject *block_getattr(PyObject *object, PyObject *name);
PyObject *block_option(PyObject *object, PyObject *args);

/* Dictionaries that users change (block_live.c). */
int live_set(PyObject *dict, PyObject *key, PyObject *value); /* without telling the library */
PyObject *block_get_children(PyObject *object, void *unused);
PyObject *block_get_reg_params(PyObject *object, void *unused);
int block_assign_children(PyObject *object, PyObject *value, void *unused);
int block_assign_reg_params(PyObject *object, PyObject *value, void *unused);
PyObject *block_get_hooks(PyObject *object, void *before); /* before: not NULL for those that run before forward */
int block_assign_hooks(PyObject *object, PyObject *value, void *before);
PyObject *block_get_kwargs(PyObject *object);
int block_assign_kwargs(PyObject *object, PyObject *value);
PyObject *block_set_kwargs(PyObject *object, PyObject *mapping);
/* If it is one of the layer's: _rate; -1 with an exception. */
int block_set_option(block_object *self, PyObject *name, PyObject *value);
PyObject *block_set_children(PyObject *object, PyObject *mapping);
PyObject *block_set_reg_params(PyObject *object, PyObject *mapping);

/* Nested lists of arrays.  form_take() appends the arrays in `value` to list and returns how they were nested (None for
 * an array); form_give() builds such a value from arrays.  New references; NULL with an exception. */
PyObject *form_take(PyObject *value, mx_array **list, int64_t *n, const char *who);
PyObject *form_give(PyObject *form, mx_arrays arrays, int64_t *at);

/* Uses of graphs: export, symbols of blocks, watching nodes (block_graph.c). */
PyObject *block_export(PyObject *object, PyObject *args);
PyObject *block_infer(PyObject *object, PyObject *arguments);
/* Shapes of parameters that only the complete graph determines; -1 with an exception. */
int block_infer_by_graph(block_object *self, PyObject *args);
PyObject *block_trace(PyObject *object, PyObject *args);
PyObject *block_seen(PyObject *object, PyObject *unused);
PyObject *block_start_symbol(PyObject *object, PyObject *args);
PyObject *block_start_amp(PyObject *object, PyObject *args);
/* Arrays without elements like the inputs of the first call, owned by the scope; their number, -1 with an exception. */
int block_examples(block_object *self, const char *who, mx_array **list);
PyObject *block_watch(PyObject *object, PyObject *args);
mx_arrays block_run_watched(block_object *self, mx_arrays in);
void block_remember(block_object *self, mx_arrays in);
void block_attach(block_object *self, mx_block *block); /* takes over the reference */
int block_prepare(block_object *self);

/* Shapes of deferred parameters, name scopes, files, modes (block_network.c). */
PyObject *block_own_data(PyObject *object, PyObject *x);
PyObject *block_name_scope(PyObject *object, PyObject *unused);
PyObject *block_collect(PyObject *object, PyObject *unused);
PyObject *block_cast(PyObject *object, PyObject *type);
PyObject *block_save(PyObject *object, PyObject *path);
PyObject *block_load(PyObject *object, PyObject *args);
PyObject *block_text(PyObject *object, PyObject *unused);
PyObject *block_set_active(PyObject *object, PyObject *args);
PyObject *block_forget(PyObject *object, PyObject *unused);
extern PyTypeObject block_scope_type;
PyObject *block_scope_of(PyObject *module, PyObject *prefix);
PyObject *block_name(PyObject *module, PyObject *args);

/* What the library holds of a block, for copies and pickles (block_state.c). */
PyObject *block_get_state(PyObject *object, PyObject *unused);
PyObject *block_set_state(PyObject *object, PyObject *state);
PyObject *block_note_overrides(PyObject *object, PyObject *unused);

/* Whether the class takes `name` from `from`, not from a user's subclass. */
bool block_inherits(PyObject *object, const char *name, PyObject *from);

/* Recurrent cells (cell.c). */
PyObject *cell_results(mx_arrays out);  /* (output, [states]) */
PyObject *cell_arguments(mx_arrays in); /* (x, [states]) */
PyObject *cell_start(PyObject *object, PyObject *base);
PyObject *cell_reset(PyObject *object, PyObject *unused);
PyObject *cell_state_info(PyObject *object, PyObject *batch);
PyObject *cell_begin_state(PyObject *object, PyObject *args);
PyObject *cell_unroll(PyObject *object, PyObject *args);
PyObject *cell_form_sequence(PyObject *module, PyObject *args);
PyObject *cell_count(PyObject *object, PyObject *unused);
PyObject *cell_value(PyObject *object, PyObject *args);
PyObject *cell_memory(PyObject *object, PyObject *args);

int add_train_steps(PyObject *module);

#endif
