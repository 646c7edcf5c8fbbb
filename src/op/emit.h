/* Operators as C text: what an operator's emission function sees, and what it writes with.
 *
 * mx_compile_to_c (gluon/emit) writes a graph of fixed shapes as one C file, a call of a kernel per node:
 *
 *     description --emit->write--> "    softmax(arena + 64, out + 0, NULL, 1, 10, 1, 1.0f, 0);\n"
 *
 * Values are float32 and have a place, given as text in `in` and `out`.  Fixed kernels are called by name
 * (gluon/emit/kernels.c has their text); pointwise ones are generated from the table in op/formula/pointwise.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_OP_EMIT_H
#define MX_OP_EMIT_H

#include "base/dict.h"
#include "base/text.h"
#include "op/op.h"
#include "op/walk.h"

/* What is written, apart from the fixed parts of the file. */
typedef struct mx_emit_file {
    mx_text body;    /* calls, one per line */
    mx_text kernels; /* kernels generated for this network, after the fixed ones */
    mx_dict used;    /* names of the fixed kernels that are called */
    mx_dict made;    /* names of the kernels in `kernels` */
} mx_emit_file;

/* An input or output of a call. */
typedef struct mx_emit_value {
    char place[48];          /* "w3", "in + 5", "arena + 64"; "NULL": absent or unused */
    bool there;              /* it has a place */
    const mx_shape_t *shape; /* NULL: an absent input */
} mx_emit_value;

/* One call that is being written. */
typedef struct mx_emit_call {
    const char *name; /* of the node */
    const mx_op *op;
    const void *attrs;
    int n_in, n_out, n_visible;
    const mx_emit_value *in, *out;
    const mx_shape_t *x, *y; /* shapes of input 0 (NULL: no inputs) and output 0 */
    int64_t scratch;         /* first element in the arena of the emission's scratch */
    mx_emit_file *file;
} mx_emit_call;

/* How an operator is written (mx_op.emit). */
typedef struct mx_emission {
    mx_code (*write)(const mx_emit_call *n);   /* NULL: output 0 shares the place of input 0 */
    int reads;                                 /* how many inputs it reads; 0: all, -1: none */
    bool all;                                  /* it writes every output, not only the first */
    int64_t (*scratch)(const mx_emit_call *n); /* numbers that the call needs while it runs; NULL: none */
} mx_emission;
#define MX_EMIT(...) .emit = &(const mx_emission){.write = __VA_ARGS__} /* MX_EMIT(write, .reads = 1) */

/* The operator's own emission, or the one that follows from its description: views and identities share memory, moves
 * follow their rule, pointwise functions their formula.  NULL, without an error: it cannot be written as C. */
const mx_emission *mx_emission_of(const mx_op *op);

/* ---- text ------------------------------------------------------------------------------------------------------ */
void mx_emit_use(const mx_emit_call *n, const char *kernel);      /* the file needs this fixed kernel */
void mx_emit_float(mx_text *text, double value);                  /* 1.5f, INFINITY */
void mx_emit_longs(mx_text *text, int n, const int64_t *numbers); /* (const long[]){1, 2} */
/* "    kernel(" and the places of the first `count` inputs and of output 0, each followed by ", ". */
void mx_emit_open(const mx_emit_call *n, const char *kernel, int count);
mx_code mx_emit_fail(const mx_emit_call *n, const char *format, ...) MX_PRINTF(2, 3); /* names node and operator */
void mx_emit_print(const mx_emit_call *n, const char *format, ...) MX_PRINTF(2, 3);   /* appends to the body */
void mx_emit_add(const mx_emit_call *n, double value);                                /* ", 1.5f" */
void mx_emit_split(const mx_emit_call *n, mx_split s);                                /* "before, size, after" */
mx_code mx_emit_close(const mx_emit_call *n);                                         /* ");", end of line */
const char *mx_emit_or_null(const mx_emit_call *n, int i); /* place of input i; "NULL" if it is absent */
static inline int64_t mx_emit_over(int64_t a, int64_t b) { return b ? a / b : 0; }

/* ---- calls that several operators write ---------------------------------------------------------------------------- */
struct mx_move;
void mx_emit_move(const mx_emit_call *n, const struct mx_move *move);
mx_code mx_emit_moves(const mx_emit_call *n, const struct mx_movement *rule);
mx_code mx_emit_movement(const mx_emit_call *n); /* by op->movement */
mx_code mx_emit_copy(const mx_emit_call *n);
mx_code mx_emit_matmul(const mx_emit_call *n, bool ta, bool tb, double alpha); /* matrices, or batches of them */
/* lengths: of the valid part of each row; "NULL": all of it */
mx_code mx_emit_softmax(const mx_emit_call *n, mx_split s, double scale, bool logs, const char *lengths);
mx_split mx_emit_rows(const mx_emit_call *n); /* all axes but the first as one */
/* Functions of the pointwise table; row: MX_ROW_exp ... is the entry */
mx_code mx_emit_unary(const mx_emit_call *n, int row);
mx_code mx_emit_zip(const mx_emit_call *n, int row, const mx_emit_value *a, const mx_emit_value *b,
                    const mx_emit_value *y);
mx_code mx_emit_pointwise(const mx_emit_call *n); /* by the operator's formula and form */
/* Functions with numbers (op/formula/pointwise_numbers.h; row: MX_NUMBER_clip ...): three numbers from attributes; a slope
 * per channel, which is the second input; of an operator whose `user` is an mx_number_use. */
mx_code mx_emit_numbers(const mx_emit_call *n, int row, const mx_emit_value *in, const double *number);
mx_code mx_emit_slopes(const mx_emit_call *n, int row, int64_t outer, int64_t channels, int64_t inner);
mx_code mx_emit_number_op(const mx_emit_call *n);

/* Windows over one to three image axes: (batch, channels, image) or, `last`, (batch, image, channels). */
typedef struct mx_emit_image {
    int axes;  /* one to three */
    bool last; /* channels are the last axis */
    int first; /* the first axis of the image */
    int64_t channels;
} mx_emit_image;
typedef struct mx_emit_windows {
    mx_dims kernel, stride, pad, dilate;
} mx_emit_windows;
static inline int64_t mx_emit_dim(const mx_dims *dims, int i, int64_t fallback)
{
    return dims->n > i ? dims->d[i] : fallback;
}
mx_code mx_emit_take_image(const mx_emit_call *n, int layout, mx_emit_image *image); /* layout: as of Convolution */
/* ", (window){...}" for depth, height and width, and the end of the call. */
mx_code mx_emit_close_windows(const mx_emit_call *n, const mx_emit_image *image, const mx_emit_windows *w);

#endif
