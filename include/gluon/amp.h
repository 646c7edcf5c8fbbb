/* Automatic mixed precision: operators compute in 16 bits where that is faster and accurate enough, the rest in float32.
 *
 *     mx_amp_init(MX_BFLOAT16);          before networks are called; parameters stay float32
 *
 * From then on every call of an operator in the lists, imperative, recorded, hybridized or symbolic, has its floating
 * inputs cast to the operator's precision; casts are operators and have gradients.  Updates and backward passes use
 * their arrays unchanged.  With float16, losses should be scaled (loss_scaler.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef GLUON_AMP_H
#define GLUON_AMP_H

#include "gluon/symbol.h"

typedef enum mx_precision {
    MX_PRECISION_ANY,     /* inputs are not cast */
    MX_PRECISION_TARGET,  /* matrix products, convolutions: in 16 bits */
    MX_PRECISION_FLOAT32, /* needs the precision or the range */
    MX_PRECISION_WIDEST,  /* inputs of one type: float32 if one of them is */
    MX_PRECISION_DATA,    /* data of any precision, with parameters in float32 */
} mx_precision;

/* target: MX_FLOAT16 or MX_BFLOAT16; MX_FLOAT32 turns it off.  Starts from what the operators' descriptions say. */
MX_API mx_code mx_amp_init(mx_dtype target);
MX_API mx_dtype mx_amp_target(void); /* MX_FLOAT32: off */
/* Sets the precision of an operator, whatever its attributes; after mx_amp_init. */
MX_API mx_code mx_amp_set(const char *op, mx_precision precision);
/* An operator runs in float32 where an attribute has this value ("softrelu"), which is text as in mx_op_describe. */
MX_API mx_code mx_amp_set_where(const char *op, const char *attribute, const char *value);

/* What the descriptions of all operators say, one entry at a time; false past the end.  attribute and value: NULL, or
 * the condition under which it applies. */
typedef struct mx_amp_row {
    const char *op;
    mx_precision precision;
    bool loss; /* the operator is a loss */
    const char *attribute, *value;
} mx_amp_row;
MX_API bool mx_amp_row_at(int i, mx_amp_row *row);

/* ---- graphs ---------------------------------------------------------------------------------------------- */
/* A copy of a graph with casts, which computes in mixed precision whether AMP is on or off:
 *     mx_amp_convert(symbol, .target = MX_BFLOAT16, .excluded = (const char *[]){"fc2", NULL})
 * Casts are named after what they cast: fc1_weight_amp_cast_bfloat16. */
struct mx_amp_convert_args {
    mx_dtype target;                /* MX_FLOAT16 or MX_BFLOAT16 */
    const char *const *target_ops;  /* operators in 16 bits; ended by NULL; NULL: the library's list */
    const char *const *float32_ops; /* in float32; the same */
    const mx_amp_row *conditions; /* in float32 where an attribute has a value; ended by op NULL; NULL: the library's */
    const char *const *excluded;  /* names of nodes that stay in float32; ended by NULL; NULL: none */
    char positional_;
    const mx_symbol *symbol;
};
#define MX_AMP_CONVERT_ARGS(...)                                                                          \
    (&(struct mx_amp_convert_args){.target = MX_FLOAT16, .target_ops = NULL, .float32_ops = NULL,         \
                                   .conditions = NULL, .excluded = NULL, .positional_ = 0, __VA_ARGS__})
#define mx_amp_convert(...) mx_amp_convert_make(MX_AMP_CONVERT_ARGS(__VA_ARGS__))
MX_API mx_symbol *mx_amp_convert_make(const struct mx_amp_convert_args *args);
/* Variables that only casts to `target` read: their values can be stored in that type without loss. */
MX_API mx_names mx_amp_cast_variables(const mx_symbol *symbol, mx_dtype target);

#endif
