/* Symbols: computations that are described, not run.
 *
 *     mx_array *data = mx_variable("data", .shape = MX_DIMS(64, 1, 28, 28));
 *     mx_array *net = mx_call(lenet, data);              a symbolic array: nothing was computed
 *     mx_symbol *symbol = mx_symbol_of(MX_ARRAYS(net));
 *     mx_symbol_save(symbol, "lenet-symbol.json");
 *
 * A symbolic array is an array without elements that represents the result of an operator or a variable.  Every
 * operator, layer and index expression accepts it and then returns symbolic arrays.  What is known of its shape and type
 * shows in mx_shape() and mx_dtype_of(); the shape of a variable without one is unknown (n == -1, 0 inside).
 * An array with elements that meets a symbolic one becomes a constant of the graph.
 *
 * A symbol is a list of such outputs: what is listed, inferred, written to files, composed and bound.
 *
 * Names follow the classic rules: automatic ones are the operator's name and a number (convolution0), counted per
 * thread and naming scope; missing inputs become variables (fc1_weight) by mx_symbol_apply().
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef GLUON_SYMBOL_H
#define GLUON_SYMBOL_H

#include "gluon/array.h"
#include "gluon/op.h"
#include "gluon/sparse.h"

typedef struct mx_symbol mx_symbol;

/* A list of texts; belongs to the scope. v[n] is NULL. */
typedef struct mx_names {
    const char *const *v;
    int64_t n; /* -1: failed */
} mx_names;

/* ---- variables ------------------------------------------------------------------------------------------- */
struct mx_variable_options {
    mx_dims shape;           /* 0 inside: that size is unknown; n == -1: all of it */
    mx_dtype dtype;          /* MX_DTYPE_NONE: unknown */
    const char *init;        /* name or JSON of an initializer; NULL: not given */
    double lr_mult, wd_mult; /* None (MX_NONE_FLOAT): not given */
    char positional_;
    const char *name;
};
#define mx_variable(...)                                                                                        \
    mx_variable_make(&(struct mx_variable_options){.shape = {.n = -1}, .dtype = MX_DTYPE_NONE, .init = NULL,    \
                                                   .lr_mult = MX_NONE_FLOAT, .wd_mult = MX_NONE_FLOAT,          \
                                                   .positional_ = 0, __VA_ARGS__})
MX_API mx_array *mx_variable_make(const struct mx_variable_options *options);
MX_API bool mx_symbolic(const mx_array *x); /* x represents a node of a graph */

/* ---- operators by name ----------------------------------------------------------------------------------- */
/* For language bindings: op(name=..., data=..., kernel=...).  Missing inputs become variables. */
struct mx_symbol_args {
    const char *name;            /* NULL: automatic */
    bool verbatim;               /* `name` is final: the naming scope's prefix is not put before it */
    int n_in;                    /* inputs */
    const char *const *in_names; /* NULL, or per input its name; NULL entries are by position */
    mx_array *const *in;         /* arrays, symbolic or not */
    int n_attrs;                 /* the operator's attributes, and notes such as __lr_mult__, as text */
    const char *const *attr_names, *const *attr_values;
};
MX_API mx_symbol *mx_symbol_apply(const char *op, const struct mx_symbol_args *args);

/* ---- lists of outputs -------------------------------------------------------------------------------------- */
MX_API mx_symbol *mx_symbol_of(mx_arrays arrays); /* a symbol of these outputs; arrays with elements become constants */
/* What was recorded to compute x; variables and arrays without history become variables var0, var1 ... */
MX_API mx_symbol *mx_symbol_recorded(mx_array *x);
MX_API mx_symbol *mx_symbol_group(mx_symbol *const *symbols, int count);
MX_API int64_t mx_symbol_count(const mx_symbol *symbol);
MX_API mx_array *mx_symbol_at(const mx_symbol *symbol, int64_t i);                  /* output i as a symbolic array */
MX_API mx_arrays mx_symbol_arrays(const mx_symbol *symbol);                         /* all of them */
MX_API mx_symbol *mx_symbol_output(const mx_symbol *symbol, int64_t i);             /* output i as a symbol */
MX_API mx_symbol *mx_symbol_find(const mx_symbol *symbol, const char *output_name); /* "fc1_output" */
MX_API mx_symbol *mx_symbol_internals(const mx_symbol *symbol); /* every output of every node that it needs */
MX_API mx_symbol *mx_symbol_children(const mx_symbol *symbol); /* the inputs of its nodes; NULL without error if none */
MX_API mx_names mx_symbol_arguments(const mx_symbol *symbol);  /* variables, in order */
MX_API mx_names mx_symbol_auxiliary(const mx_symbol *symbol);  /* variables that operators write: running statistics */
MX_API mx_names mx_symbol_inputs(const mx_symbol *symbol);     /* both */
MX_API mx_names mx_symbol_outputs(const mx_symbol *symbol);
/* The symbol with its variables replaced: by name, or by position in the order of mx_symbol_arguments (names NULL). */
MX_API mx_symbol *mx_symbol_compose(const mx_symbol *symbol, const char *name, int count, const char *const *names,
                                    mx_symbol *const *values);

/* ---- names and attributes ---------------------------------------------------------------------------------- */
MX_API const char *mx_symbol_name(const mx_symbol *symbol); /* of its node; NULL without error for a group */
/* Attribute of the symbol's node, given or noted, as text; NULL without error if it has none. Belongs to the scope. */
MX_API const char *mx_symbol_attr(const mx_symbol *symbol, const char *key);
MX_API mx_code mx_symbol_set_attr(mx_symbol *symbol, const char *key, const char *text);
MX_API mx_names mx_symbol_attrs(const mx_symbol *symbol);      /* key, text, key, text ... of its node */
MX_API mx_names mx_symbol_attrs_deep(const mx_symbol *symbol); /* node, key, text ... of all nodes */
/* Storage type of the variable called `name`, as its note __storage_type__ says; executors make such arrays. */
MX_API mx_stype mx_symbol_stype(const mx_symbol *symbol, const char *name);
/* The array of a constant of the graph; NULL without error for other names. */
MX_API mx_array *mx_symbol_constant(const mx_symbol *symbol, const char *name);

/* Scopes of the thread; every enter needs its leave, in reverse order. */
MX_API mx_code mx_symbol_names_enter(const char *prefix); /* fresh counters; prefix before all names, may be "" */
MX_API void mx_symbol_names_leave(void);
MX_API const char *mx_symbol_name_for(const char *name, const char *hint); /* what a new node would be called; counts */
MX_API mx_code mx_symbol_attrs_enter(int count, const char *const *keys, const char *const *values);
MX_API void mx_symbol_attrs_leave(void);

/* ---- shapes and types -------------------------------------------------------------------------------------- */
struct mx_known {
    int count;
    const char *const *names; /* NULL: by position in the order of mx_symbol_arguments */
    const mx_dims *shapes;    /* NULL: none; 0 inside and n == -1 are unknown */
    const mx_dtype *types;    /* NULL: none */
    bool partial;             /* unknown results are not an error */
};
/* Belongs to the scope.  Unknown shapes have n == -1, unknown sizes are 0, unknown types MX_DTYPE_NONE. */
typedef struct mx_inferred {
    int64_t n_arguments, n_outputs, n_auxiliary;
    const mx_dims *arguments, *outputs, *auxiliary;
    const mx_dtype *argument_types, *output_types, *auxiliary_types;
    bool complete; /* all shapes are known */
    bool typed;    /* all types are known */
} mx_inferred;
/* Shapes and types together.  NULL with an error that states the node, the input and both shapes. */
MX_API const mx_inferred *mx_symbol_infer(const mx_symbol *symbol, const struct mx_known *known);

/* ---- files and text ---------------------------------------------------------------------------------------- */
MX_API const char *mx_symbol_json(const mx_symbol *symbol);               /* as classic files; belongs to the scope */
MX_API const char *mx_symbol_json_with_casts(const mx_symbol *symbol);    /* with those of mixed precision */
MX_API mx_code mx_symbol_save(const mx_symbol *symbol, const char *path); /* atomic */
MX_API mx_symbol *mx_symbol_from_json(const char *text, size_t length);
MX_API mx_symbol *mx_symbol_load(const char *path);
MX_API const char *mx_symbol_text(const mx_symbol *symbol);  /* "<Symbol fc1>", "<Symbol group [a, b]>" */
MX_API const char *mx_symbol_debug(const mx_symbol *symbol); /* every node with its inputs and attributes */

/* ---- drawings: text that belongs to the scope; DOT is for the program dot (graphviz) ----------------------------- */
MX_API const char *mx_symbol_svg(const mx_symbol *symbol); /* an SVG image: operators and inputs, without parameters */
MX_API const char *mx_symbol_dot(const mx_symbol *symbol); /* all nodes, inputs at the top */
struct mx_symbol_drawing {
    const char *title;            /* NULL: none */
    const char *boxes;            /* more attributes of boxes, `shape="oval" width="2"`; NULL: none */
    const struct mx_known *known; /* arrows show the shapes that follow from these; NULL: none */
    int n_hidden;
    const char *const *hidden; /* (n_hidden) names of variables that are left out */
};
MX_API const char *mx_symbol_draw(const mx_symbol *symbol, const struct mx_symbol_drawing *drawing); /* outputs below */

#endif
