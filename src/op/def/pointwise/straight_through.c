/* Straight-through estimators: pointwise functions with the gradient of the identity.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "op/formula/pointwise.h"
#include "op/formula/pointwise_double.h"
#include "op/op.h"

static mx_code pass_on(mx_grad *grad) { return mx_give(grad, 0, grad->ograd[0]); }

#define EACH for (int64_t i = 0; i < mx_shape_size(&call->out_shape[0]); i++)
static void ref_round(const mx_reference_call *call) { EACH call->out[0][i] = m_round(call->in[0][i]); }
static void ref_sign(const mx_reference_call *call) { EACH call->out[0][i] = m_sign(call->in[0][i]); }

#define SAMPLES (const mx_sample[]){{"2,3", "", 0, 0, "nograd"}, {"3,70", "", 0, 0, "nograd"}, {0}}
#define USE(row) .user = &(const mx_pointwise){MX_ROW_##row, MX_FORM_UNARY}

mx_op mx_family_straight_through[] = {
    {.name = "_contrib_round_ste", .aliases = "_sparse__contrib_round_ste", .c_name = "round_ste",
     .doc = "round, with the gradient of the identity",
     .inputs = "data", .flags = MX_OP_INPLACE, .gradient = pass_on, .samples = SAMPLES, .reference = ref_round,
     USE(round)},
    {.name = "_contrib_sign_ste", .aliases = "_sparse__contrib_sign_ste", .c_name = "sign_ste",
     .doc = "sign, with the gradient of the identity",
     .inputs = "data", .flags = MX_OP_INPLACE, .gradient = pass_on, .samples = SAMPLES, .reference = ref_sign,
     USE(sign)},
    {0},
};
