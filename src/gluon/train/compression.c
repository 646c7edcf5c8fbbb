/* Gradients in few bits (see compression.h).  SPDX-License-Identifier: Apache-2.0 */
#include "gluon/train/compression.h"

#include "exec/sparse/sparse.h"
#include "gluon/train/update.h"

mx_code mx_compression_set(mx_compression *self, const char *type, double threshold)
{
    int choice;
    if (mx_option_choice("gradient compression", "type", type, "none|2bit|1bit|fp16", &choice))
        return mx_error_code();
    if (choice == MX_COMPRESS_2BIT && !(threshold > 0))
        return mx_fail(MX_ERR_ATTRIBUTE, "gradient compression: threshold=%g, wanted more than 0", threshold);
    mx_compression_free(self);
    self->kind = choice;
    self->threshold = threshold;
    return MX_OK;
}

const char *mx_compression_name(const mx_compression *self)
{
    static const char *const names[] = {"none", "2bit", "1bit", "fp16"};
    return names[self->kind];
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

/* What is sent for r. */
static mx_array *code_two(mx_array *r, double t)
{
    mx_array *above = MX_PUT_SCALAR(NULL, "_greater_equal_scalar", r, t);
    mx_array *below = above ? MX_PUT_SCALAR(NULL, "_lesser_equal_scalar", r, -t) : NULL;
    mx_array *sign = below ? MX_PUT2(NULL, "elemwise_sub", above, below) : NULL;
    return sign ? mx_put_scaled(NULL, sign, t) : NULL;
}

static mx_array *code_one(mx_array *r, double t)
{
    mx_array *above = MX_PUT_SCALAR(NULL, "_greater_scalar", r, t);
    mx_array *twice = above ? mx_put_scaled(NULL, above, 2) : NULL;
    return twice ? MX_PUT_SCALAR(NULL, "_minus_scalar", twice, 1) : NULL;
}

static mx_array *compress_one(mx_compression *self, mx_id id, int i, mx_array *gradient)
{
    mx_dict_entry *residual = residual_of(self, id, i);
    mx_array *dense = residual ? mx_sparse_dense(gradient) : NULL;
    if (dense && residual->pointer)
        dense = mx_put_sum(NULL, mx_array_to(residual->pointer, dense->context), dense);
    mx_array *sent = !dense                           ? NULL
                     : self->kind == MX_COMPRESS_1BIT ? code_one(dense, self->threshold)
                                                      : code_two(dense, self->threshold);
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
