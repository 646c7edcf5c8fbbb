/* What the losses share (see losses.h).  SPDX-License-Identifier: Apache-2.0 */
#include "gluon/train/losses.h"

#include <math.h>

mx_array *mx_loss_label(mx_arrays in)
{
    mx_array *pred = in.v[0], *label = in.v[1];
    if (!pred || !label)
        return NULL;
    if (pred->ndim >= 0 && pred->ndim == label->ndim &&
        !memcmp(pred->shape, label->shape, (size_t)pred->ndim * sizeof pred->shape[0]))
        return label;
    return mx_reshape_like(label, pred);
}

mx_array *mx_loss_weigh(mx_array *loss, double weight, mx_array *sample_weight)
{
    if (sample_weight != MX_NONE)
        loss = mx_mul(loss, sample_weight);
    return isnan(weight) || weight == 1 ? loss : mx_mul_scalar(loss, .scalar = weight);
}

mx_array *mx_loss_finish(mx_array *loss, double weight, mx_array *sample_weight, int64_t batch_axis)
{
    return mx_mean(mx_loss_weigh(loss, weight, sample_weight), .axis = MX_DIMS(batch_axis), .exclude = true);
}

void mx_loss_print(mx_block *self, mx_text *text)
{
    const mx_field *weight = mx_schema_find(self->cls->schema, "weight"),
                   *axis = mx_schema_find(self->cls->schema, "batch_axis");
    char value[MX_VALUE_TEXT];
    mx_text_print(text, "%s(batch_axis=%s", self->class_name, axis ? mx_field_text(axis, self->options, value) : "0");
    mx_text_print(text, ", w=%s)", mx_field_text(weight, self->options, value));
}
