/* CTCLoss: connectionist temporal classification.  SPDX-License-Identifier: Apache-2.0 */
#include "gluon/train/losses.h"

#define CTC_OPTIONS(X) \
    X(STR, layout, "NTC", "", "axes of the predictions: NTC or TNC") \
    X(STR, label_layout, "NT", "", "axes of the labels: NT or TN") \
    X(FLOAT, weight, "None", "", "multiplies the loss")
MX_ATTRS(ctc_loss_layer, CTC_OPTIONS)

#define INPUT(i) (in.n > (i) ? in.v[i] : MX_NONE)

static mx_code build_ctc(mx_block *self)
{
    const mx_ctc_loss_layer_attrs *o = mx_options(self);
    if (!o->layout || (strcmp(o->layout, "NTC") && strcmp(o->layout, "TNC")))
        return mx_fail(MX_ERR_ATTRIBUTE, "CTCLoss: layout='%s', wanted NTC or TNC", o->layout ? o->layout : "None");
    if (!o->label_layout || (strcmp(o->label_layout, "NT") && strcmp(o->label_layout, "TN")))
        return mx_fail(MX_ERR_ATTRIBUTE, "CTCLoss: label_layout='%s', wanted NT or TN",
                       o->label_layout ? o->label_layout : "None");
    return MX_OK;
}

/* Inputs: prediction, label, lengths of the predictions, lengths of the labels, sample weight. */
static mx_array *forward_ctc(mx_block *self, mx_arrays in)
{
    const mx_ctc_loss_layer_attrs *o = mx_options(self);
    mx_array *pred = o->layout[0] == 'N' ? mx_swapaxes(in.v[0], .dim1 = 0, .dim2 = 1) : in.v[0];
    mx_array *label = o->label_layout[0] == 'T' ? mx_swapaxes(in.v[1], .dim1 = 0, .dim2 = 1) : in.v[1];
    mx_array *pred_lengths = INPUT(2), *label_lengths = INPUT(3);
    mx_array *loss =
        mx_op_ctc_loss(pred, label, pred_lengths, label_lengths, .use_data_lengths = pred_lengths != MX_NONE,
                       .use_label_lengths = label_lengths != MX_NONE, .blank_label = MX_CTC_LAST);
    return mx_loss_weigh(loss, o->weight, INPUT(4));
}

static const mx_layer ctc_methods = {
    .build = build_ctc, .forward = forward_ctc, .print = mx_loss_print, .min_inputs = 2, .max_inputs = 5, .inputs = "pred label pred_lengths label_lengths sample_weight"};

mx_class mx_classes_ctc[] = {
    {.kind = MX_LOSS, .name = "CTCLoss", .doc = "connectionist temporal classification: sequences without alignment",
     .schema = &ctc_loss_layer_schema, .methods = &ctc_methods},
    {0},
};
