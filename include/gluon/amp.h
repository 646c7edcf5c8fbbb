/* Automatic mixed precision: operators compute in 16 bits where that gains and harms nothing, the rest in float32.
 *
 *     mx_amp_init(MX_BFLOAT16);          before networks are called; parameters stay float32
 *
 * From then on every call of an operator in the lists, imperative, recorded, hybridized or symbolic, has its floating
 * inputs cast to what the operator wants; casts are operators and have gradients.  Updates and backward passes take
 * their arrays as they are.  With float16 losses should be scaled (loss_scaler.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef GLUON_AMP_H
#define GLUON_AMP_H

#include "gluon/op.h"

typedef enum mx_precision {
    MX_PRECISION_ANY,     /* takes inputs as they come */
    MX_PRECISION_TARGET,  /* products: in 16 bits */
    MX_PRECISION_FLOAT32, /* needs the digits or the range */
    MX_PRECISION_WIDEST,  /* inputs of one type: float32 if one of them is */
    MX_PRECISION_DATA,    /* data of any precision, with parameters in float32 */
} mx_precision;

/* target: MX_FLOAT16 or MX_BFLOAT16; MX_FLOAT32 turns it off.  Starts from what the operators' descriptions say. */
MX_API mx_code mx_amp_init(mx_dtype target);
MX_API mx_dtype mx_amp_target(void); /* MX_FLOAT32: off */
/* Another precision for an operator, for all attributes; after mx_amp_init. */
MX_API mx_code mx_amp_set(const char *op, mx_precision precision);
/* An operator runs in float32 where an attribute has this value ("softrelu"), which is text as in mx_op_describe. */
MX_API mx_code mx_amp_set_where(const char *op, const char *attribute, const char *value);

/* What the descriptions of all operators say, one row at a time; false past the end.  attribute and value: NULL, or the
 * condition under which it holds. */
typedef struct mx_amp_row {
    const char *op;
    mx_precision precision;
    bool loss; /* the operator is a loss */
    const char *attribute, *value;
} mx_amp_row;
MX_API bool mx_amp_row_at(int i, mx_amp_row *row);

#endif
