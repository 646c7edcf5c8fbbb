/* Predictors of MXNet's C interface (include/mxnet/c_predict_api.h).
 *
 *     predictor --net--> symbol block, hybridized: plans and parameters, shared by reshaped and other threads' predictors
 *         | inputs (name -> array), outputs of the last forward
 *
 * Functions of that interface begin with MX_ENTRY and return through mx_entry_end(): the error record is theirs alone,
 * as their callers read it only through MXGetLastError().
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_GLUON_PREDICT_H
#define MX_GLUON_PREDICT_H

#include "base/dict.h"
#include "base/error.h"
#include "base/object.h"
#include "exec/interpret.h"
#include "gluon/deploy.h"
#include "graph/symbol.h"
#include "mxnet/c_predict_api.h"

typedef uint32_t mx_predict_shape[MX_MAX_NDIM];

typedef struct mx_predictor {
    mx_object object;
    mx_block *net;             /* retained; its inputs are those below, in their order */
    mx_symbol *symbol;         /* retained */
    mx_context context;        /* of parameters, inputs and outputs */
    mx_dict inputs;            /* name -> array, retained; those that the caller named, then labels */
    int64_t n_out;             /* outputs */
    mx_dims *shapes;           /* (n_out) inferred; n == -1: known after a forward */
    mx_dtype *types;           /* (n_out) inferred */
    mx_array **outputs;        /* (n_out) of the last forward, retained; NULL: none yet */
    mx_predict_shape *shown;   /* (n_out) what MXPredGetOutputShape returned */
    mx_graph graph;            /* for monitors and partial forwards; n == 0: not needed yet */
    mx_array **values;         /* (graph.n) arrays of its variables, borrowed */
    mx_interpreter *steps;     /* a partial forward that is under way; NULL: none */
    int64_t next_step;         /* of it */
    PredMonitorCallback watch; /* NULL: none */
    void *watch_user;
    bool watch_all;
} mx_predictor;

extern const mx_kind mx_predictor_kind;

/* Shapes of inputs as the interface passes them. */
typedef struct mx_predict_inputs {
    uint32_t n;
    const char *const *names;
    const uint32_t *first, *dims; /* input i: dims[first[i]] ... dims[first[i + 1] - 1] */
} mx_predict_inputs;

static inline int mx_entry_end(mx_code code)
{
    const bool failed = code || mx_has_error();
    mx_error_clear();
    return failed ? -1 : 0;
}
#define MX_ENTRY    \
    mx_error_clear(); \
    MX_SCOPE

/* predict_create.c */
/* What the four MXPredCreate functions share. */
typedef struct mx_predict_request {
    const char *who, *json;
    const void *bytes;
    int size;
    mx_context context;
    mx_predict_inputs inputs;
    uint32_t n_types; /* element types of variables */
    const char *const *type_names;
    const int *types;
    uint32_t n_outputs; /* 0: the symbol's own */
    const char *const *output_names;
} mx_predict_request;
mx_code mx_predict_check_inputs(const mx_predict_inputs *inputs, const char *who);

/* predict_symbol.c */
mx_symbol *mx_predict_read_symbol(const mx_predict_request *request);
mx_array *mx_predict_value(const mx_array_dict *file, const char *name); /* of a variable; NULL: the file has none */
mx_code mx_predict_check_names(const mx_predict_request *request, const mx_symbol *symbol);
/* Appends the labels to the inputs, without arrays yet; other variables must have a value. */
mx_code mx_predict_find_labels(const mx_predict_request *request, const mx_array_dict *file, mx_predictor *predictor);

/* predict_make.c; owned by the scope */
mx_predictor *mx_predict_new(const mx_predict_request *request);
/* Another predictor of the same network; shapes NULL: for the same shapes. */
mx_predictor *mx_predict_again(const mx_predictor *from, const mx_predict_inputs *shapes);

#endif
