/* A network as one C file: what the parts of the emitter share.
 *
 *     graph, shapes -> rows of operators: one call per node into `body`, kernels noted -> file: weights, kernels, body
 *                      \-> memory.c: where every value lives
 *
 * Values are float32 and have a place: a weight array, the caller's input or output, or a part of one arena.  An operator
 * that changes only the shape gives its output the place of its input.  Kernels are plain C functions; those that a
 * network uses are written out once (kernels.c), pointwise ones are made from the library's own table (pointwise.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_GLUON_EMIT_H
#define MX_GLUON_EMIT_H

#include "base/dict.h"
#include "base/error.h"
#include "base/text.h"
#include "graph/node.h"
#include "op/walk.h"

typedef enum mx_spot_kind {
    MX_SPOT_NONE,   /* nobody needs it, or the emitter cannot make it */
    MX_SPOT_WEIGHT, /* number: which weight */
    MX_SPOT_INPUT,  /* number: first element in the caller's input */
    MX_SPOT_OUTPUT, /* the same in the caller's output */
    MX_SPOT_ARENA   /* the same in the arena */
} mx_spot_kind;

typedef struct mx_spot {
    mx_spot_kind kind;
    int64_t number;
} mx_spot;

#define MX_EMIT_KERNELS 128 /* fixed ones, at most */

typedef struct mx_emit {
    const char *name;           /* of the function, without _run */
    const mx_graph *graph;      /* what is written */
    mx_shape_t *shape;          /* (entries) all known where somebody looks */
    mx_array **value;           /* (nodes) of a variable: its weight; NULL: none; not retained */
    int64_t *root;              /* (entries) the entry whose memory it shares; itself */
    bool *needed;               /* (entries) some call reads it or it is an output */
    mx_spot *place;             /* (entries) of the roots */
    int64_t *scratch;           /* (nodes) first element in the arena of what the call needs while it runs */
    int64_t inputs, outputs;    /* elements of the caller's arrays */
    int64_t arena;              /* elements */
    mx_text body;               /* calls, one per line */
    mx_text kernels;            /* kernels made for this network, behind the fixed ones */
    bool used[MX_EMIT_KERNELS]; /* fixed kernel i is called */
    mx_dict made;               /* names of the kernels in `kernels` */
} mx_emit;

/* One node on its way into the body. */
typedef struct mx_emit_node {
    mx_emit *emit;
    const mx_gnode *node;
    const int64_t *in;       /* (node->n_in) entries; -1: absent */
    int64_t out;             /* entry of output 0 */
    const mx_shape_t *x, *y; /* shapes of input 0 (NULL: no inputs) and output 0 */
    int64_t scratch;         /* first element in the arena of the row's scratch */
} mx_emit_node;

/* ---- operators: ops.c and a file per family ----------------------------------------------------------------- */
typedef mx_code (*mx_emit_fn)(const mx_emit_node *n);
typedef struct mx_emit_row {
    const char *op;
    mx_emit_fn write;                          /* NULL: the output shares the memory of input 0 */
    int reads;                                 /* how many inputs it looks at; 0: all, -1: none */
    bool all;                                  /* it writes every output, not only the first */
    int64_t (*scratch)(const mx_emit_node *n); /* numbers that the call needs while it runs; NULL: none */
} mx_emit_row;
extern const mx_emit_row mx_emit_product_rows[], mx_emit_image_rows[], mx_emit_norm_rows[], mx_emit_activation_rows[],
    mx_emit_move_rows[], mx_emit_index_rows[], mx_emit_rnn_rows[]; /* the last one is empty */
const mx_emit_row *mx_emit_find(const mx_gnode *node);             /* NULL, without an error: not supported */

/* ---- text.c ---------------------------------------------------------------------------------------------------- */
/* "w3", "in + 5", "arena + 64" of an entry into a buffer of 48 bytes. */
const char *mx_emit_at(const mx_emit *emit, int64_t entry, char *buffer);
void mx_emit_float(mx_text *text, double value);                  /* 1.5f, INFINITY */
void mx_emit_longs(mx_text *text, int n, const int64_t *numbers); /* (const long[]){1, 2} */
/* "    kernel(" and the places of the first `count` inputs and of output 0, each followed by ", ". */
void mx_emit_open(const mx_emit_node *n, const char *kernel, int count);
mx_code mx_emit_fail(const mx_emit_node *n, const char *format, ...) MX_PRINTF(2, 3); /* names node and operator */
void mx_emit_add(const mx_emit_node *n, double value);                                /* ", 1.5f" */
void mx_emit_split(const mx_emit_node *n, mx_split s);                                /* "before, size, after" */
mx_code mx_emit_close(const mx_emit_node *n);                                         /* ");", end of line */
const char *mx_emit_or_null(const mx_emit_node *n, int i, char *buffer); /* place of input i; "NULL" if it is absent */
static inline mx_text *mx_emit_body(const mx_emit_node *n) { return &n->emit->body; }
static inline const mx_shape_t *mx_emit_shape(const mx_emit_node *n, int i) { return &n->emit->shape[n->in[i]]; }
static inline int64_t mx_emit_over(int64_t a, int64_t b) { return b ? a / b : 0; }

/* ---- kernels.c ------------------------------------------------------------------------------------------------- */
void mx_emit_use(mx_emit *emit, const char *kernel);  /* notes a fixed kernel and what it calls */
const char *mx_emit_kernel(int i, const char **name); /* text of fixed kernel i; NULL past the end */
typedef struct mx_emit_text {
    const char *name;
    const char *needs; /* other kernels that it calls, separated by spaces; NULL: none */
    const char *text;
} mx_emit_text;
extern const mx_emit_text mx_emit_image_kernels[], mx_emit_sequence_kernels[]; /* the last one is empty */

/* ---- move.c ---------------------------------------------------------------------------------------------------- */
mx_code mx_emit_movement(const mx_emit_node *n); /* an operator that only moves elements, by its own rule */

/* ---- pointwise.c ----------------------------------------------------------------------------------------------- */
const mx_emit_row *mx_emit_find_pointwise(const mx_op *op);         /* a row of the pointwise table; NULL: none */
mx_code mx_emit_unary(const mx_emit_node *n, const char *function); /* by the name of its row */
mx_code mx_emit_zip(const mx_emit_node *n, const char *function, int64_t a, int64_t b, int64_t y);

/* ---- memory.c -------------------------------------------------------------------------------------------------- */
mx_code mx_emit_place(mx_emit *emit);

#endif
