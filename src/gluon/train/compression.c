/* Gradients in two bits (see compression.h).  SPDX-License-Identifier: Apache-2.0 */
#include "gluon/train/compression.h"

#include "exec/sparse/sparse.h"
#include "gluon/train/update.h"

mx_code mx_compression_set(mx_compression *self, const char *type, double threshold)
{
    int choice;
    if (mx_option_choice("gradient compression", "type", type, "2bit|none", &choice))
        return mx_error_code();
    if (!choice && !(threshold > 0))
        return mx_fail(MX_ERR_ATTRIBUTE, "gradient compression: threshold=%g, wanted more than 0", threshold);
    mx_compression_free(self);
    self->threshold = choice ? 0 : threshold;
    return MX_OK;
}

void mx_compression_free(mx_compression *self)
{
    for (int64_t i = 0; i < self->residual.length; i++)
        mx_id_table_drop_objects(&self->residual.items[i]);
    mx_vec_free(&self->residual);
}

/* The residual of copy `i` of a value; NULL: out of memory. */
static mx_dict_entry *residual_of(mx_compression *self, mx_id id, int i)
{
    static const mx_id_table empty;
    while (self->residual.length <= i)
        if (!mx_vec_push(&self->residual, empty))
            return NULL;
    return mx_id_place(&self->residual.items[i], id);
}

static mx_array *compress_one(mx_compression *self, mx_id id, int i, mx_array *gradient)
{
    const double t = self->threshold;
    mx_dict_entry *residual = residual_of(self, id, i);
    mx_array *dense = residual ? mx_sparse_dense(gradient) : NULL;
    if (dense && residual->pointer)
        dense = mx_put_sum(NULL, mx_array_to(residual->pointer, dense->context), dense);
    mx_array *above = dense ? MX_PUT_SCALAR(NULL, "_greater_equal_scalar", dense, t) : NULL;
    mx_array *below = above ? MX_PUT_SCALAR(NULL, "_lesser_equal_scalar", dense, -t) : NULL;
    mx_array *sign = below ? MX_PUT2(NULL, "elemwise_sub", above, below) : NULL;
    mx_array *sent = sign ? mx_put_scaled(NULL, sign, t) : NULL;
    mx_array *rest = sent ? MX_PUT2(NULL, "elemwise_sub", dense, sent) : NULL;
    if (!rest)
        return NULL;
    mx_retain(rest);
    mx_release(residual->pointer);
    residual->pointer = rest;
    return sent;
}

mx_code mx_compress(mx_compression *self, mx_id id, int n, mx_array *const *gradients, mx_array **sent)
{
    for (int i = 0; i < n; i++)
        if (!(sent[i] = compress_one(self, id, i, gradients[i])))
            return mx_error_code();
    return MX_OK;
}
