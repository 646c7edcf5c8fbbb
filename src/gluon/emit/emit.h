/* A network as one C file: what the parts of the emitter share.
 *
 *     graph, shapes -> emissions of operators (op/emit.h): one call per node, list of kernels -> file: kernels, body, weights
 *                      \-> memory.c: the location of every value
 *
 * Values are float32 and have a location: a weight array, the caller's input or output, or a part of one arena.  An
 * operator that changes only the shape gives its output the location of its input.  Kernels are C functions, written out
 * once if the network uses them (kernels.c); pointwise ones are generated from the library's own table.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_GLUON_EMIT_H
#define MX_GLUON_EMIT_H

#include "graph/node.h"
#include "op/emit.h"

typedef enum mx_spot_kind {
    MX_SPOT_NONE,   /* not needed, or the emitter cannot compute it */
    MX_SPOT_WEIGHT, /* number: which weight */
    MX_SPOT_INPUT,  /* number: first element in the caller's input */
    MX_SPOT_OUTPUT, /* the same in the caller's output */
    MX_SPOT_ARENA   /* the same in the arena */
} mx_spot_kind;

typedef struct mx_spot {
    mx_spot_kind kind;
    int64_t number;
} mx_spot;

typedef struct mx_emit {
    const char *name;        /* of the function, without _run */
    const mx_graph *graph;   /* what is written */
    mx_shape_t *shape;       /* (entries) known for all needed values */
    mx_array **value;        /* (nodes) of a variable: its weight; NULL: none; not retained */
    int64_t *root;           /* (entries) the entry whose memory it shares; itself */
    bool *needed;            /* (entries) some call reads it or it is an output */
    mx_spot *place;          /* (entries) of the roots */
    int64_t *scratch;        /* (nodes) first element in the arena of the call's scratch */
    int64_t inputs, outputs; /* elements of the caller's arrays */
    int64_t arena;           /* elements */
    mx_emit_file file;       /* calls and kernels */
} mx_emit;

/* ---- call.c -------------------------------------------------------------------------------------------------- */
/* A node in the form for its operator's emission.  Freed with mx_emit_call_free, also after a failure. */
mx_code mx_emit_call_make(mx_emit *emit, int64_t node, mx_emit_call *call);
void mx_emit_call_free(mx_emit_call *call);
/* "w3", "in + 5", "arena + 64" of an entry into a buffer of 48 bytes. */
const char *mx_emit_at(const mx_emit *emit, int64_t entry, char *buffer);

/* ---- kernels.c ------------------------------------------------------------------------------------------------- */
typedef struct mx_emit_text {
    const char *name;
    const char *needs; /* other kernels that it calls, separated by spaces; NULL: none */
    const char *text;
} mx_emit_text;
extern const mx_emit_text mx_emit_image_kernels[], mx_emit_sequence_kernels[]; /* the last one is empty */
/* The text of fixed kernel i if the file uses it, "" if it does not; NULL past the end. */
const char *mx_emit_kernel(const mx_emit_file *file, int i);

/* ---- memory.c -------------------------------------------------------------------------------------------------- */
mx_code mx_emit_place(mx_emit *emit);

#endif
