/* Operators that are compositions of others: NumPy's functions.
 *
 * Such an operator has the flag MX_OP_EXPANDS and, in `user`, an mx_expansion: which operators it calls and by which
 * rules.  mx_invoke runs the expansion instead of a kernel; what it calls goes through mx_invoke in turn.  So it records,
 * creates nodes on symbols, runs in plans and on every device without more code; graphs contain only what it called.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_OP_EXPAND_H
#define MX_OP_EXPAND_H

#include "gluon/np.h"
#include "op/op.h"

static inline bool mx_op_expands(const mx_op *op) { return op->flags & MX_OP_EXPANDS; }

struct mx_expansion;
typedef struct mx_expand {
    const mx_op *op;
    struct mx_expansion *how;
    const void *attrs;
    int n_in;
    mx_array *const *in; /* arrays and numbers (gluon/np.h); absent optional ones are MX_NONE */
    mx_array **out;      /* to be filled; they belong to the scope */
} mx_expand;

enum mx_expand_rules {
    MX_TO_FLOAT = 1,  /* integers and bool are converted to the default float type */
    MX_TO_BOOL = 2,   /* the result is converted to bool */
    MX_FROM_BOOL = 4, /* bool is converted to int64 */
    MX_NOT_BOOL = 8,  /* bool is refused */
    MX_TO_INDEX = 16, /* the result is converted to int64 */
    MX_NOT_FLOAT = 32, /* floats are refused */
    MX_INT_AS_IS = 64, /* of integers the result is the input */
};

typedef struct mx_expansion {
    mx_code (*run)(const mx_expand *call);
    const char *name[3]; /* operators: of arrays, of an array and a number, of a number and an array */
    uint32_t rules;      /* of mx_expand_rules */
    mx_op *found[3];     /* cached by mx_expansion_op */
} mx_expansion;

mx_op *mx_expansion_op(mx_expansion *how, int i);
mx_code mx_expand_call(mx_op *op, const void *attrs, int n_in, mx_array *const *in, int n_out, mx_array **out);

/* ---- for expansions: all return NULL with an error, and NULL for NULL --------------------------------------------- */
/* The array in another type; MX_DTYPE_NONE, and an unknown type: as it is. */
mx_array *mx_expand_cast(mx_array *x, mx_dtype dtype);
/* A number as an array beside `like`; arrays as they are. */
mx_array *mx_expand_array(mx_array *x, mx_dtype dtype, const mx_array *like);
/* All inputs in their common type, after the operator's rules. */
mx_code mx_expand_promote(const mx_expand *call, mx_array **promoted);
mx_array *mx_expand_by_rules(const mx_expand *call, mx_array *x);
/* One call with attributes as text. */
mx_array *mx_expand_text(mx_op *op, int n_in, mx_array *const *in, const char *format, ...) MX_PRINTF(4, 5);
#define mx_expand1(name, x, ...) mx_expand_text(MX_OP(name), 1, (mx_array *const[]){x}, __VA_ARGS__)
#define mx_expand2(name, x, y, ...) mx_expand_text(MX_OP(name), 2, (mx_array *const[]){x, y}, __VA_ARGS__)
/* Calls `op` with the attributes of this call that have the same name and type. */
mx_code mx_expand_same(const mx_expand *call, mx_op *op, int n_in, mx_array *const *in, int n_out, mx_array **out);
/* Stores the result. */
static inline mx_code mx_expand_give(const mx_expand *call, mx_array *value)
{
    call->out[0] = value;
    return value ? MX_OK : mx_error_code();
}
mx_dtype mx_float_of(mx_dtype dtype); /* itself, or the default float type for integers and bool */

#endif
