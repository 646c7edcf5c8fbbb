/* Parameters: named arrays that a network learns, with one copy per context, and dictionaries of them.
 *
 * A parameter whose shape is not known yet (a 0 in its shape) can be initialised all the same: initialisation is
 * deferred to the first forward, when the shape is inferred from the data.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef GLUON_PARAMETER_H
#define GLUON_PARAMETER_H

#include "gluon/array.h"
#include "gluon/autograd.h"
#include "gluon/sparse.h"

typedef struct mx_parameter mx_parameter;
typedef struct mx_params mx_params;           /* a dictionary of parameters, in order of creation */
typedef struct mx_initializer mx_initializer; /* created by mx_xavier(), mx_normal() ... */

struct mx_parameter_options {
    mx_dims shape; /* 0: not known yet; n == -1: rank unknown too */
    mx_dtype dtype;
    mx_grad_req grad_req;
    double lr_mult, wd_mult; /* multiply the optimizer's learning rate and weight decay */
    mx_initializer *init;    /* NULL: the one given to mx_initialize */
    bool allow_deferred_init;
    bool differentiable; /* false: never has a gradient */
    mx_stype stype;      /* row_sparse: see mx_parameter_rows */
    mx_stype grad_stype; /* row_sparse: a step touches few rows of it (gluon/sparse.h) */
    char positional_;
    const char *name;
};
#define MX_PARAMETER_DEFAULTS                                                                              \
    .shape = {.n = -1}, .dtype = MX_FLOAT32, .grad_req = MX_GRAD_WRITE, .lr_mult = 1, .wd_mult = 1,        \
    .init = NULL, .allow_deferred_init = false, .differentiable = true, .stype = MX_STYPE_DEFAULT,            \
    .grad_stype = MX_STYPE_DEFAULT, .positional_ = 0
#define mx_parameter_new(...) mx_parameter_make(&(struct mx_parameter_options){MX_PARAMETER_DEFAULTS, __VA_ARGS__})
MX_API mx_parameter *mx_parameter_make(const struct mx_parameter_options *options);
MX_API mx_parameter *mx_constant_new(const char *name, mx_array *value); /* a parameter that never learns */

MX_API const char *mx_parameter_name(const mx_parameter *p);
MX_API mx_dims mx_parameter_shape(const mx_parameter *p);              /* 0 where unknown */
MX_API mx_code mx_parameter_set_shape(mx_parameter *p, mx_dims shape); /* must agree with what is known */
MX_API mx_dtype mx_parameter_dtype(const mx_parameter *p);
MX_API mx_grad_req mx_parameter_grad_req(const mx_parameter *p);
MX_API mx_code mx_parameter_set_grad_req(mx_parameter *p, mx_grad_req req);
MX_API double mx_parameter_lr_mult(const mx_parameter *p);
MX_API double mx_parameter_wd_mult(const mx_parameter *p);
MX_API mx_code mx_parameter_set_mults(mx_parameter *p, double lr_mult, double wd_mult);

/* contexts: `count` of them, or 0 for the current one. default_init is used where the parameter has none. */
MX_API mx_code mx_parameter_initialize(mx_parameter *p, mx_initializer *default_init, const mx_context *contexts,
                                       int count, bool force);
MX_API bool mx_parameter_ready(const mx_parameter *p); /* initialised, not deferred */
MX_API int mx_parameter_contexts(const mx_parameter *p, mx_context *contexts, int capacity); /* how many there are */
/* The copy on a context (type 0: the only one, or the one on the current context). Owned by the parameter. */
MX_API mx_array *mx_parameter_data(mx_parameter *p, mx_context context);
MX_API mx_array *mx_parameter_grad(mx_parameter *p, mx_context context);
/* Rows by number (any order, repeated ones once) as a row_sparse array; its gradient goes to the parameter. */
MX_API mx_array *mx_parameter_rows(mx_parameter *p, mx_array *row_ids);
MX_API mx_code mx_parameter_set_data(mx_parameter *p, mx_array *value); /* on all contexts; saved if deferred */
MX_API mx_code mx_parameter_zero_grad(mx_parameter *p);
MX_API mx_code mx_parameter_cast(mx_parameter *p, mx_dtype dtype);
MX_API mx_code mx_parameter_reset_ctx(mx_parameter *p, const mx_context *contexts, int count);

/* ---- custom initializers ----------------------------------------------------------------------------------- */
/* Writes the initial value of parameter `name` into `array`, which is on the CPU; nonzero: failed. */
typedef mx_code (*mx_fill_fn)(void *user, const char *name, mx_array *array);
/* release, which may be NULL, is called with `user` when the initializer is destroyed. */
MX_API mx_initializer *mx_initializer_custom(mx_fill_fn fill, void *user, void (*release)(void *user));
MX_API mx_initializer *mx_initializer_of_value(mx_array *value); /* a copy of value, broadcast */
/* The first of `count` initializers whose pattern (an extended regular expression) is found in the parameter's name. */
MX_API mx_initializer *mx_initializer_mixed(const char *const *patterns, mx_initializer *const *initializers,
                                            int count);
/* Arrays of a file by name (prefixes "arg:" and "aux:" are dropped); others get `fallback`, NULL: an error. */
MX_API mx_initializer *mx_initializer_load(mx_array_dict *arrays, mx_initializer *fallback);
/* Initialises an array. */
MX_API mx_code mx_initializer_fill(mx_initializer *init, const char *name, mx_array *array);

/* ---- dictionaries --------------------------------------------------------------------------------------- */
MX_API mx_params *mx_params_new(const char *prefix, mx_params *shared); /* shared may be NULL */
MX_API const char *mx_params_prefix(const mx_params *params);
MX_API int64_t mx_params_count(const mx_params *params);
MX_API mx_parameter *mx_params_at(const mx_params *params, int64_t i);               /* NULL past the end */
MX_API mx_parameter *mx_params_find(const mx_params *params, const char *full_name); /* NULL without error */
/* The parameter prefix + options.name: an existing one (then options must agree), a shared one, or a new one. */
#define mx_params_get(params, ...) \
    mx_params_get_with(params, &(struct mx_parameter_options){MX_PARAMETER_DEFAULTS, __VA_ARGS__})
MX_API mx_parameter *mx_params_get_with(mx_params *params, const struct mx_parameter_options *options);
MX_API mx_code mx_params_add(mx_params *params, mx_parameter *p); /* an error if another one has its name */
MX_API mx_code mx_params_initialize(mx_params *params, mx_initializer *init, const mx_context *contexts, int count,
                                    bool force);
MX_API mx_code mx_params_zero_grad(mx_params *params);
MX_API mx_code mx_params_reset_ctx(mx_params *params, const mx_context *contexts, int count);
MX_API mx_code mx_params_save(mx_params *params, const char *path, const char *strip_prefix);
struct mx_load_options {
    bool allow_missing, ignore_extra, cast_dtype;
    const char *restore_prefix; /* put before the names in the file */
};
MX_API mx_code mx_params_load(mx_params *params, const char *path, const struct mx_load_options *options);
MX_API const char *mx_params_text(const mx_params *params); /* belongs to the scope */

#endif
