/* Blocks: networks and their parts.
 *
 *     mx_block *net = mx_sequential(mx_dense(64, .activation = "relu"), mx_dense(10));
 *     mx_initialize(net, mx_xavier(), mx_cpu(0));
 *     mx_array *y = mx_call(net, x);
 *
 * A custom block is a forward function and the data that it needs:
 *
 *     struct net { mx_block *hidden, *output; };
 *     static mx_array *forward(mx_block *self, mx_arrays in)
 *     {
 *         struct net *net = mx_block_user(self);
 *         return mx_call(net->output, mx_relu(mx_call(net->hidden, in.v[0])));
 *     }
 *     mx_block *block = mx_block_new("Net", forward, .user = &net);
 *     mx_name_scope(block) {
 *         net.hidden = mx_block_child(block, "hidden", mx_dense(64));
 *         net.output = mx_block_child(block, "output", mx_dense(10));
 *     }
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef GLUON_BLOCK_H
#define GLUON_BLOCK_H

#include "gluon/class.h"
#include "gluon/parameter.h"

typedef struct mx_block mx_block;
typedef mx_array *(*mx_forward_fn)(mx_block *self, mx_arrays in);
typedef mx_arrays (*mx_forward_many_fn)(mx_block *self, mx_arrays in);

/* ---- making blocks -------------------------------------------------------------------------------------- */
struct mx_block_options {
    mx_forward_many_fn forward_many; /* instead of forward, for blocks with several results */
    bool hybrid;                     /* forward is made of operators only: its shapes can be inferred */
    const char *prefix;              /* NULL: derived from the class name */
    mx_params *params;               /* parameters to share; NULL: own ones */
    void *user;                      /* mx_block_user() */
    void (*release)(void *user);     /* called when the block is destroyed; may be NULL */
    char positional_;
    const char *class_name;
    mx_forward_fn forward;
};
#define mx_block_new(...) mx_block_make(&(struct mx_block_options){.positional_ = 0, __VA_ARGS__})
MX_API mx_block *mx_block_make(const struct mx_block_options *options);
/* A copy of a network: the same classes, options, prefixes and names, copies of all parameters and of the blocks inside;
 * what is shared inside is shared by the copies.  Gradients begin at zero; hooks and compiled plans are not copied.  A user's
 * block keeps its functions and its user pointer; one with a release function is an error. */
MX_API mx_block *mx_block_copy(mx_block *block);
MX_API void *mx_block_user(mx_block *block);
/* A list of arrays that outlives the function that makes it: what forward_many and example functions return. */
MX_API mx_arrays mx_results_make(mx_arrays arrays);
#define mx_results(...) \
    mx_results_make(MX_ARRAYS_(MX_NOT_EMPTY(#__VA_ARGS__, "mx_results(): a forward returns at least one array"), __VA_ARGS__))

/* A block that applies a function: mx_lambda(mx_my_function). */
MX_API mx_block *mx_lambda(mx_array *(*function)(mx_array *x));
MX_API mx_block *mx_hybrid_lambda(mx_array *(*function)(mx_array *x)); /* the function is made of operators only */

/* Registers a child under an attribute name (NULL: its number) and returns it; NULL children pass through. */
MX_API mx_block *mx_block_child(mx_block *block, const char *name, mx_block *child);
/* Registers a parameter of the block itself; its full name is prefix + name. */
#define mx_block_parameter(block, ...) \
    mx_block_parameter_with(block, &(struct mx_parameter_options){MX_PARAMETER_DEFAULTS, __VA_ARGS__})
MX_API mx_parameter *mx_block_parameter_with(mx_block *block, const struct mx_parameter_options *options);
/* Containers run one block after the other; mx_sequential_add appends. */
MX_API mx_block *mx_sequential_make(bool hybrid, mx_block *const *blocks);
#define mx_sequential(...) \
    MX_SEQUENTIAL_(false, MX_NOT_EMPTY(#__VA_ARGS__, "mx_sequential_make(false, NULL) makes one without blocks"), __VA_ARGS__)
#define mx_hybrid_sequential(...) \
    MX_SEQUENTIAL_(true, MX_NOT_EMPTY(#__VA_ARGS__, "mx_sequential_make(true, NULL) makes one without blocks"), __VA_ARGS__)
#define MX_SEQUENTIAL_(hybrid, zero, ...) \
    mx_sequential_make((hybrid) + (zero), (mx_block *const[]){__VA_ARGS__, MX_LAST_BLOCK})
MX_API extern mx_block *const MX_LAST_BLOCK;
MX_API mx_code mx_sequential_add(mx_block *sequential, mx_block *block);

/* Blocks made inside get the block's prefix: mx_name_scope(net) { ... } */
typedef struct mx_naming {
    mx_block *outer; /* to be restored */
    bool open;
    bool named; /* a naming scope of symbols was opened, too */
} mx_naming;
MX_API mx_naming mx_naming_enter(mx_block *block);
MX_API void mx_naming_leave(mx_naming *naming);
#define mx_name_scope(block) MX_NAMING_AS_(MX_CONCAT(mx_naming_, __COUNTER__), MX_CONCAT(mx_once_, __COUNTER__), block)
#define MX_NAMING_AS_(naming, once, block) \
    for (mx_naming naming __attribute__((cleanup(mx_naming_leave))) = mx_naming_enter(block), *once = &naming; once; once = NULL)

/* ---- running -------------------------------------------------------------------------------------------- */
MX_API mx_array *mx_block_call(mx_block *block, mx_arrays in);      /* the first result */
MX_API mx_arrays mx_block_call_many(mx_block *block, mx_arrays in); /* all results */
#define mx_call(block, ...)                                                                                        \
    mx_block_call(block, MX_ARRAYS_(MX_NOT_EMPTY(#__VA_ARGS__, "mx_call(block, inputs): there are no inputs"), __VA_ARGS__))
/* From now on the block runs as compiled plans, one per input shape and mode, where possible. */
MX_API mx_code mx_hybridize(mx_block *block);
struct mx_hybridize_options {
    bool active;          /* false: run imperatively again */
    bool static_alloc;    /* accepted: plans reuse their memory in any case, results only once nobody holds them */
    bool static_shape;    /* accepted: plans have fixed shapes in any case */
    int64_t inline_limit; /* accepted, as are the two below: a plan is one call whatever its size */
    int64_t forward_bulk_size, backward_bulk_size;
    bool
        recompute; /* training takes less memory and more time: backward computes most values again; the results are the same */
};
MX_API mx_code mx_hybridize_with(mx_block *block, const struct mx_hybridize_options *options);
typedef mx_code (*mx_hook_fn)(mx_block *block, mx_arrays in, mx_arrays out, void *user);
/* For a hook that runs before forward, out is empty.  Returns a handle for mx_block_unhook, 0 on failure. */
MX_API uint64_t mx_block_hook(mx_block *block, bool before, mx_hook_fn hook, void *user);
MX_API void mx_block_unhook(mx_block *block, uint64_t handle);

/* ---- looking -------------------------------------------------------------------------------------------- */
MX_API const char *mx_block_name(const mx_block *block);
MX_API const char *mx_block_prefix(const mx_block *block);
MX_API const char *mx_block_class_name(const mx_block *block);
MX_API mx_params *mx_block_params(mx_block *block); /* its own, without children's */
MX_API int64_t mx_block_children(const mx_block *block);
MX_API mx_block *mx_block_child_at(const mx_block *block, int64_t i);
MX_API const char *mx_block_child_name(const mx_block *block, int64_t i);
MX_API mx_params *mx_collect_params(mx_block *block); /* all, own first, then children's */
/* Only those whose full name matches the extended regular expression at its start. */
MX_API mx_params *mx_collect_params_matching(mx_block *block, const char *pattern);
MX_API const char *mx_block_text(mx_block *block); /* the repr of Python; belongs to the scope */
/* A table of layers with output shapes and numbers of parameters for these inputs; belongs to the scope. */
MX_API const char *mx_block_summary(mx_block *block, mx_arrays in);

/* ---- parameters of a whole network ------------------------------------------------------------------------ */
MX_API mx_code mx_initialize(mx_block *block, mx_initializer *init, mx_context context); /* init NULL: Uniform(0.07) */
MX_API mx_code mx_initialize_on(mx_block *block, mx_initializer *init, const mx_context *contexts, int count,
                                bool force);
MX_API mx_code mx_block_cast(mx_block *block, mx_dtype dtype);
MX_API mx_code mx_block_apply(mx_block *block, mx_code (*fn)(mx_block *block, void *user),
                              void *user); /* children first */
/* Keys are paths of attribute names: "0.weight", "features.1.bias". */
MX_API mx_code mx_save_parameters(mx_block *block, const char *path);
MX_API mx_code mx_load_parameters(mx_block *block, const char *path);
MX_API mx_code mx_load_parameters_with(mx_block *block, const char *path, const struct mx_load_options *options);

#endif
