/* Shared by the wrappers of gluon objects: parameters, dictionaries, blocks.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MXNET_SKIN_H
#define MXNET_SKIN_H

#include "core.h"
#include "gluon/block/core.h"

/* Wrapper classes that the package registers, so that C can create objects of them. */
typedef enum front_kind {
    FRONT_PARAMETER,
    FRONT_CONSTANT,
    FRONT_PARAMS,
    FRONT_BLOCK,
    FRONT_HYBRID_BLOCK,
    FRONT_SEQUENTIAL,
    FRONT_HYBRID_SEQUENTIAL,
    FRONT_KINDS
} front_kind;
PyObject *front_class(front_kind kind); /* borrowed; NULL: not registered */

extern PyTypeObject parameter_type, params_type, block_type;
mx_parameter *parameter_of(PyObject *object); /* borrowed; NULL with an exception before __init__ */
mx_params *params_of(PyObject *object);
mx_block *block_of(PyObject *object);
/* The one Python object of a C object: new references. */
PyObject *parameter_wrap(mx_parameter *p);
PyObject *params_wrap(mx_params *params);
PyObject *params_set_all(PyObject *object, PyObject *mapping); /* ParameterDict._set_all (block_live.c) */
PyObject *block_wrap(mx_block *block);
bool block_in_c(PyObject *object); /* no Python code and no hooks in its forward, nor in its children's */

/* A context, a list of them, or None (count 0). */
int contexts_from(PyObject *source, mx_context *contexts, int *count);

mx_trainer *trainer_of(PyObject *object); /* borrowed; NULL with an exception */
mx_kvstore *store_of(PyObject *object);   /* the same */

PyTypeObject *class_or(front_kind kind, PyTypeObject *fallback); /* the registered class */

/* The keywords of Parameter() and ParameterDict.get(); those that were not given keep the library's defaults. */
typedef struct parameter_words {
    PyObject *name, *grad_req, *shape, *dtype, *lr_mult, *wd_mult, *init, *deferred, *differentiable, *stype,
        *grad_stype;
} parameter_words;
/* The library's options from keywords; the initializer belongs to the scope.  -1 with an exception naming `who`. */
int read_words(const parameter_words *words, struct mx_parameter_options *options, const char *who);
#define WORDS "name", "grad_req", "shape", "dtype", "lr_mult", "wd_mult", "init", "allow_deferred_init", "differentiable", "stype", "grad_stype"
#define WORD_SLOTS(w) &(w).name, &(w).grad_req, &(w).shape, &(w).dtype, &(w).lr_mult, &(w).wd_mult, &(w).init, &(w).deferred, &(w).differentiable, &(w).stype, &(w).grad_stype
PyObject **parameter_init_slot(
    PyObject *parameter); /* the initializer as it was given; holds NULL if the library created it */

PyObject **parameter_dtype_slot(PyObject *parameter); /* the same for the element type */

int add_parameters(PyObject *module);
int add_params(PyObject *module);
int add_blocks(PyObject *module);
int add_data(PyObject *module);
int add_records(PyObject *module);
int add_images(PyObject *module);
int add_augmenters(PyObject *module);
int add_zoo(PyObject *module);

#endif
