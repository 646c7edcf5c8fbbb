/* Internals of parameters and blocks.
 *
 *     block --children--> block ...          a layer is a block whose class entry has build and forward
 *       | own params (mx_params)
 *       +--> parameter --copies--> array per context, each a variable of the tape
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_GLUON_CORE_H
#define MX_GLUON_CORE_H

#include "base/dict.h"
#include "base/error.h"
#include "base/object.h"
#include "base/text.h"
#include "base/thread.h"
#include "base/vec.h"
#include "gluon/block.h"
#include "gluon/symbol.h"
#include "gluon/class/class.h"
#include "ndarray/array.h"

#define MX_MAX_CONTEXTS 16

struct mx_parameter {
    mx_object object;
    char *name;       /* full name */
    mx_shape_t shape; /* -1 where unknown */
    mx_dtype dtype;
    mx_grad_req req;
    mx_stype stype;      /* row_sparse: rows are read with mx_parameter_rows; the data itself is dense */
    mx_stype grad_stype; /* of the gradient */
    double lr_mult, wd_mult;
    mx_initializer *init; /* retained; NULL: the network's */
    bool allow_deferred, differentiable, constant;
    bool ones; /* every use of it writes 1 into all elements: gamma of BatchNorm(scale=False) */
    uint64_t ones_stamp[MX_MAX_CONTEXTS]; /* of the data when that was last done */
    bool dtype_named; /* the type was chosen by name (an option of the layer, a cast): so wrappers show it */
    int count;        /* contexts; 0: not initialised */
    mx_context contexts[MX_MAX_CONTEXTS];
    mx_array *data[MX_MAX_CONTEXTS]; /* retained; they hold their gradients */

    /* While initialisation waits for the shape. */
    bool deferred;
    mx_initializer *deferred_init; /* retained */
    mx_array *deferred_value;      /* retained; set_data before the shape was known */

    mx_array *abstract; /* replaces the data while shapes are inferred; retained */
    mx_array *variable; /* represents the parameter in graphs (gluon/compile/trace.h); retained; NULL: in none yet */
    void *front;        /* the wrapper in another language; not retained */
    void *front_state;  /* attributes of a wrapper that was freed first, for the next one; NULL: none */
    void (*front_release)(void *state); /* frees front_state */
};

/* A front end's function that is called when a parameter with a wrapper has got its first value; NULL: none. */
extern mx_code (*mx_parameter_settled)(mx_parameter *p);

struct mx_params {
    mx_object object;
    char *prefix;
    mx_dict entries;   /* full name -> mx_parameter, retained */
    mx_params *shared; /* retained; where missing ones are looked up */
    void *front;       /* as in mx_parameter */
};

/* The methods of a layer's class entry (mx_class.methods of MX_LAYER and MX_LOSS). */
typedef struct mx_layer {
    mx_code (*build)(mx_block *self); /* creates parameters and children; NULL: none */
    mx_array *(*forward)(mx_block *self, mx_arrays in);
    mx_arrays (*forward_many)(mx_block *self, mx_arrays in); /* instead of forward, for several results */
    void (*print)(mx_block *self, mx_text *text);            /* NULL: class name and children */
    void (*file_key)(const mx_block *self, const char *attribute,
                     mx_text *key); /* in parameter files; NULL: attribute */
    int min_inputs, max_inputs;     /* 0, 0: exactly one */
    const char *inputs;             /* their names, for calls by keyword: "pred label"; NULL: "x" */
    /* The operator whose attributes are `prepared`; NULL: none.  And the names under which users read and write them (or
     * the options, where op is NULL), "axis eps=epsilon ...": a name, and the field's if that is another; NULL: none. */
    const char *op, *kwargs;
    mx_code (*prepare)(mx_block *self); /* computes `prepared` again after an option has changed; NULL: not needed */
    bool batched;                       /* a transform that takes a batch as well as one example */
    bool plain;                         /* forward draws random numbers or reads values: it cannot be compiled */
    const struct mx_cell_methods *cell; /* a recurrent cell (gluon/rnn/cell.h); NULL: none */
    /* Prefix if none was given; NULL: automatic. */
    mx_code (*prefix)(const void *options, mx_text *prefix);
    bool single; /* forward is one operator, and perhaps an activation: errors name the layer alone */
    bool wide;   /* parameters stay float32 when a network is cast to 16 bits */
} mx_layer;

typedef struct mx_hook {
    uint64_t handle;
    bool before;
    mx_hook_fn run;
    void *user;
} mx_hook;

struct mx_block {
    mx_object object;
    char *class_name, *prefix, *name;
    bool plain_scope;           /* prefix was given as "": the name scope does nothing */
    mx_dict counters;           /* of automatic names of children */
    mx_params *params;          /* own parameters; retained */
    mx_dict attributes;         /* attribute name -> own mx_parameter; the same as in `own` */
    mx_dict children;           /* attribute name -> mx_block, retained */
    MX_VEC(mx_parameter *) own; /* own parameters by number, for layers: mx_own(self, 0); retained */
    bool hybrid, hybridized, sequential;
    bool static_alloc;       /* as hybridize was asked; plans work alike either way */
    bool recompute;          /* as hybridize was asked: plans that train save memory (pass/segments.c) */
    uint64_t changed;        /* stamp of the last change of children or hooks (gluon/compile/hybrid.h) */
    struct mx_hybrid *plans; /* compiled forwards (gluon/compile/hybrid.h); owned; NULL: none yet */
    const mx_class *cls;     /* NULL: a user's block */
    const mx_layer *layer;   /* NULL: a user's block */
    void *options;           /* the layer's typed options */
    uint64_t whole;          /* bit i: option i, a FLOAT, was given as an integer, and is shown so */
    void *prepared;          /* attributes of the operator that the layer runs; NULL: none */
    size_t prepared_bytes;
    mx_forward_fn forward;
    mx_forward_many_fn forward_many;
    /* A front end's subclass overrides the call or forward of a hybrid block: this runs at every call instead, in front of
     * mx_block_call_itself, which alone is compiled; NULL: it does not. */
    mx_forward_many_fn around;
    mx_params *(*collects)(mx_block *self); /* a front end's collect_params: it belongs to the scope; NULL: none */
    void *user;
    void (*release)(void *user);
    MX_VEC(mx_hook) hooks;
    struct mx_cell *cell; /* of a recurrent cell (gluon/rnn/cell.h); owned; NULL: none */
    int seen_inputs;      /* how many inputs the last call had; 0: never called */
    void *front;          /* as in mx_parameter */
};

extern const mx_kind mx_block_kind, mx_parameter_kind, mx_params_kind;

/* ---- for layers ------------------------------------------------------------------------------------------ */
/* The options of a layer as their struct: const mx_dense_attrs *o = mx_options(self); */
static inline const void *mx_options(const mx_block *self) { return self->options; }
/* A front end's user gave the FLOAT option as an integer, and it still is one. */
static inline bool mx_option_whole(const mx_block *self, const mx_field *field)
{
    const int64_t i = field - self->cls->schema->fields;
    const double value = *(const double *)((const char *)self->options + field->offset);
    return field->type == MX_FIELD_FLOAT && i < 64 && (self->whole >> i & 1) && value == (double)(int64_t)value;
}
/* Creates own parameter number n (0, 1, ... in order); returns its number, -1 on failure. */
int mx_layer_parameter(mx_block *self, const char *name, mx_shape_t shape, mx_initializer *init, mx_dtype dtype,
                       mx_grad_req req, bool differentiable);
/* Data of own parameter i where x is; MX_NONE if i is negative (the layer has no such parameter). */
mx_array *mx_own(mx_block *self, int i, const mx_array *x);
/* Memory for the operator attributes, zeroed, freed with the block; NULL with an error.  mx_layer_prepare_op: the defaults
 * of the layer's operator. */
void *mx_layer_prepare(mx_block *self, size_t bytes);
void *mx_layer_prepare_op(mx_block *self);
/* Creates the child that applies an activation ("relu" ...), named after it; true if created or not needed. */
bool mx_layer_activation(mx_block *self, const char *act_type);
/* Applies that child to x; x itself if there is none. */
mx_array *mx_activate(mx_block *self, mx_array *x);
mx_initializer *mx_initializer_named(const char *name); /* "zeros", "ones" ...: owned by the scope */
static inline mx_initializer *mx_initializer_or(void *given, const char *name)
{
    return given ? given : mx_initializer_named(name);
}

/* ---- parameters ------------------------------------------------------------------------------------------- */
int mx_parameter_at(const mx_parameter *p, mx_context context); /* index of the copy that serves a context; -1: none */
/* Data on a context; an abstract array if shapes are being inferred and there is no data yet. */
mx_array *mx_parameter_use(mx_parameter *p, mx_context context);
bool mx_inferring(void);                      /* the thread runs a forward only to infer shapes */
bool mx_set_inferring(bool on);               /* returns the previous value */
mx_code mx_parameter_finish(mx_parameter *p); /* completes a deferred initialisation; the shape is known */
mx_code mx_parameter_replace_shape(mx_parameter *p, mx_dims shape); /* whatever is known so far */
/* These arrays themselves become the copies, one per context; none: the parameter is no longer initialised.  Arrays
 * without history get a gradient if the parameter has one; through the others backward goes on to where they come from. */
mx_code mx_parameter_take(mx_parameter *p, mx_arrays copies);
/* Sets the data; a parameter that was not initialised is put on the current context. */
mx_code mx_parameter_load(mx_parameter *p, mx_array *value);

/* ---- names ------------------------------------------------------------------------------------------------ */
/* Prefix of a new block according to the current name scope, and the dictionary for its parameters. */
mx_code mx_name_block(mx_block *block, const char *hint, const char *prefix, mx_params *params);

/* The name of a new block.  A front end's subclass has its own class name. */
typedef struct mx_block_naming {
    const char *class_name; /* NULL: that of the class entry */
    const char *hint;       /* of automatic names; NULL: the entry's, or the class name in lower case */
    const char *prefix;     /* NULL: automatic */
    mx_params *params;      /* to share; NULL: own ones */
} mx_block_naming;
mx_block *mx_block_named(const mx_block_naming *naming); /* an empty block: new reference; class_name is not NULL */
mx_block *mx_layer_make(mx_class *cls, const void *options, const mx_block_naming *naming);
mx_arrays mx_run_sequential(mx_block *self, mx_arrays in); /* forward of containers */
/* Registers a parameter that the block's dictionary holds under an attribute name. */
mx_code mx_block_attribute(mx_block *block, const char *name, mx_parameter *p);
/* All children, all parameters under attribute names, all parameters of a dictionary: as a user left these lists. */
mx_code mx_block_set_children(mx_block *block, int64_t n, const char *const *names, mx_block *const *children);
mx_code mx_block_set_attributes(mx_block *block, int64_t n, const char *const *names, mx_parameter *const *parameters);
mx_code mx_params_set(mx_params *params, int64_t n, const char *const *names, mx_parameter *const *parameters);

/* ---- blocks of symbols (see gluon/deploy.h) --------------------------------------------------------------------- */
/* mx_symbol_block with the parameters of `shared` where the names are the same (NULL: all are new); unused: inputs may be
 * no variables of the outputs. */
mx_block *mx_symbol_block_with(mx_symbol *outputs, const char *inputs, mx_params *shared, bool unused);
mx_names mx_symbol_block_inputs(const mx_block *block);    /* names of its inputs; n -1: it is no such block */
mx_symbol *mx_symbol_block_outputs(const mx_block *block); /* its graph; the block is one of a symbol */

/* ---- running blocks for front ends --------------------------------------------------------------------------- */
/* The block's own forward, compiled if the block is hybridized, without what a subclass puts around it. */
mx_arrays mx_block_call_itself(mx_block *block, mx_arrays in);
mx_code mx_block_check_inputs(const mx_block *block, mx_arrays *in); /* their number and kind */
/* Forward of a layer with other arrays in place of its own parameters (MX_NONE: absent). */
mx_arrays mx_layer_forward_with(mx_block *self, mx_arrays in, mx_arrays parameters);
mx_arrays mx_layer_run(mx_block *self, mx_arrays in); /* forward of a layer of the library, all its results */
/* It is a layer of the library, without hooks and without a forward of a subclass. */
bool mx_block_is_unchanged(const mx_block *block);
const char *mx_block_inputs(const mx_block *block); /* the names of its inputs, separated by spaces */
/* The number of the input of a name; -1: there is none. */
int mx_block_input_number(const mx_block *block, const char *name);
bool mx_block_waits(const mx_block *block); /* one of its own parameters has an unknown shape */
/* After a forward on abstract arrays: own parameters get the inferred shapes and are initialised; with
 * learned == false the partly inferred shapes are discarded. */
mx_code mx_block_finish_shapes(mx_block *block, bool learned);

#endif
