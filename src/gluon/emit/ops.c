/* Which operators can be written as C, and by whom.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "gluon/emit/emit.h"

/* Networks' operators are rows of tables, a family each. */
static const mx_emit_row plain_rows[] = { /* the output is the input, perhaps in another shape */
    {.op = "Reshape", .write = NULL, .reads = 1},
    {.op = "_reshape_to", .write = NULL, .reads = 1},
    {.op = "Flatten", .write = NULL, .reads = 1},
    {.op = "expand_dims", .write = NULL, .reads = 1},
    {.op = "squeeze", .write = NULL, .reads = 1},
    {.op = "reshape_like", .write = NULL, .reads = 1},
    {.op = "_copy", .write = NULL, .reads = 1},
    {.op = "BlockGrad", .write = NULL, .reads = 1},
    {.op = "make_loss", .write = NULL, .reads = 1},
    {.op = "MakeLoss", .write = NULL, .reads = 1},
    {.op = "_identity_with_attr_like_rhs", .write = NULL, .reads = 1},
    {.op = "Dropout", .write = NULL, .reads = 1},
    {.op = "LinearRegressionOutput", .write = NULL, .reads = 1},
    {.op = "MAERegressionOutput", .write = NULL, .reads = 1},
    {.op = "SVMOutput", .write = NULL, .reads = 1},
    {.op = "IdentityAttachKLSparseReg", .write = NULL, .reads = 1},
    {.op = "_contrib_gradientmultiplier", .write = NULL, .reads = 1},
    {.op = "cast_storage", .write = NULL, .reads = 1},
    {.op = "amp_cast", .write = NULL, .reads = 1},
    {0},
};

static const mx_emit_row *const tables[] = {plain_rows,          mx_emit_product_rows,    mx_emit_image_rows,
                                            mx_emit_norm_rows,   mx_emit_activation_rows, mx_emit_move_rows,
                                            mx_emit_index_rows,  mx_emit_rnn_rows};

const mx_emit_row *mx_emit_find(const mx_gnode *node)
{
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        for (const mx_emit_row *row = tables[t]; row->op; row++)
            if (!strcmp(row->op, node->op->name))
                return row;
    return mx_emit_find_pointwise(node->op);
}
