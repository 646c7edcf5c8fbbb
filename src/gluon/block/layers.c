/* What several layer families share (see layers.h).  SPDX-License-Identifier: Apache-2.0 */
#include "gluon/block/layers.h"

#include <string.h>

mx_code mx_spread_dims(const mx_block *self, const char *option, mx_dims *dims, int axes, int64_t least)
{
    if (dims->n == 1)
        for (; dims->n < axes; dims->n++)
            dims->d[dims->n] = dims->d[0];
    if (dims->n != axes)
        return mx_fail(MX_ERR_ATTRIBUTE, "%s: %s has %d numbers, wanted 1 or %d", self->class_name, option, dims->n,
                       axes);
    for (int i = 0; i < axes; i++)
        if (dims->d[i] < least)
            return mx_fail(MX_ERR_ATTRIBUTE, "%s: %s holds %lld, wanted at least %lld", self->class_name, option,
                           (long long)dims->d[i], (long long)least);
    return MX_OK;
}

static const char *const layouts[] = {"NCW", "NCHW", "NCDHW", "NWC", "NHWC", "NDHWC"};

int mx_layout_number(const mx_block *self, const char *layout, int axes)
{
    for (int i = 0; layout && i < 6; i++)
        if (!strcmp(layout, layouts[i]) && i % 3 + 1 == axes)
            return i;
    mx_fail(MX_ERR_ATTRIBUTE, "%s: layout='%s', wanted %s or %s", self->class_name, layout ? layout : "None",
            layouts[axes - 1], layouts[axes + 2]);
    return -1;
}

const char *mx_layout_name(int number) { return layouts[number]; }

void mx_print_option(const mx_block *self, mx_text *text, const char *name)
{
    const mx_field *field = mx_schema_find(self->cls->schema, name);
    const double value = *(const double *)((const char *)self->options + field->offset);
    if (mx_option_whole(self, field))
        mx_text_print(text, "%.0f", value);
    else
        mx_text_add_number(text, value);
}

void mx_print_size(mx_text *text, int64_t size)
{
    if (size > 0)
        mx_text_print(text, "%lld", (long long)size);
    else
        mx_text_add(text, "None");
}

mx_code mx_layer_affine(mx_block *self, mx_shape_t shape, bool scale, bool center, void *gamma, void *beta)
{
    const mx_grad_req scaled = scale ? MX_GRAD_WRITE : MX_GRAD_NULL, centered = center ? MX_GRAD_WRITE : MX_GRAD_NULL;
    if (mx_layer_parameter(self, "gamma", shape, mx_initializer_or(gamma, "ones"), MX_FLOAT32, scaled, true) < 0 ||
        mx_layer_parameter(self, "beta", shape, mx_initializer_or(beta, "zeros"), MX_FLOAT32, centered, true) < 0)
        return mx_error_code();
    return MX_OK;
}
