/* Fused optimizer updates, generated from the table in op/formula/optimizer.h.
 *
 * The result is the new weight, normally written over the old one (out=weight).  States are written
 * in place.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "op/formula/optimizer.h"

#include "op/op.h"

#define SCHEMA(id, name, aliases, inputs, states, scalars, ATTRS, ...) MX_ATTRS(id, ATTRS)
MX_UPDATE_ROWS(SCHEMA)

/* ---- inference -------------------------------------------------------------------------------------------- */

static bool is_scalar(const mx_update_use *use, int i)
{
    return i >= use->scalars_at && i < use->scalars_at + use->scalars;
}

static mx_code infer_shape(mx_infer *infer)
{
    const mx_update_use *use = infer->op->user;
    const mx_shape_t one = {.ndim = 1, .dim = {1}};
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < infer->n_in; i++) {
            if (is_scalar(use, i)) {
                if (infer->in[i].ndim < 0)
                    infer->in[i] = one;
                if (mx_shape_known(&infer->in[i]) && mx_shape_size(&infer->in[i]) != 1) {
                    char name[64], text[MX_SHAPE_TEXT];
                    return mx_op_fail(infer->op, MX_ERR_SHAPE, "input %s has shape %s, wanted one element",
                                      mx_op_input_name(infer->op, i, name), mx_shape_text(&infer->in[i], text));
                }
                continue;
            }
            if (mx_infer_in(infer, i, &infer->out[0]) || mx_infer_out(infer, 0, &infer->in[i]))
                return mx_error_code();
        }
    return MX_OK;
}

/* The scalars are of any floating type; multi-precision operators keep states in float32. */
static mx_code infer_type(mx_infer *infer)
{
    const mx_update_use *use = infer->op->user;
    for (int i = 0; i < infer->n_in; i++) {
        if (is_scalar(use, i)) {
            if (infer->in_type[i] == MX_DTYPE_NONE)
                infer->in_type[i] = MX_FLOAT32;
            continue;
        }
        /* LAMB's direction g is of 32 bits in the multi-precision form. */
        const bool wide = use->master_at && (i >= 2 || (i == 1 && use->row == MX_UPDATE_lamb_update_phase2));
        if (mx_infer_in_type(infer, i, wide ? MX_FLOAT32 : infer->in_type[0]))
            return mx_error_code();
    }
    const bool wide_out = use->master_at && use->row == MX_UPDATE_lamb_update_phase1;
    return mx_infer_out_type(infer, 0, wide_out ? MX_FLOAT32 : infer->in_type[0]);
}

/* ---- references ------------------------------------------------------------------------------------------- */

#define T double
#define K(x) (k.x)
#define SQRT sqrt
#define FABS fabs
#define SIGN(x) ((double)(((x) > 0) - ((x) < 0)))
#define LIMIT(v, limit) ((limit) < 0 ? (v) : (v) < -(limit) ? -(limit) : (v) > (limit) ? (limit) : (v))
#define CLIP(v) LIMIT(v, k.clip_gradient)
#define CLIP_WEIGHT(v) LIMIT(v, k.clip_weights)

/* One step of a row: reads in[], writes the new weight to out[0] and the states to the outputs after it. */
#define STEP(id, name, aliases, inputs, states, scalars, ATTRS, prepare, body, ...)                                    \
    static void step_##id(const mx_reference_call *call, const double *weight, int scalars_at, double *const *results) \
    {                                                                                                                  \
        const mx_##id##_attrs *attrs = call->attrs;                                                                    \
        mx_update_constants constants = {0}, *k_ = &constants;                                                                   \
        double s[2] = {0, 0};                                                                                          \
        for (int i = 0; i < scalars; i++)                                                                              \
            s[i] = call->in[scalars_at + i][0];                                                                        \
        {                                                                                                              \
            mx_update_constants *k = k_;                                                                                         \
            ATTRS(MX_UPDATE_FIELD)                                                                                     \
            prepare;                                                                                                   \
        }                                                                                                              \
        (void)s;                                                                                                       \
        const mx_update_constants k = constants;                                                                                 \
        for (int64_t i = 0; i < mx_shape_size(&call->out_shape[0]); i++) {                                             \
            double w = weight[i], g = call->in[1][i], a = 0, b = 0, c = 0;                                             \
            if (states > 0)                                                                                            \
                a = call->in[2][i];                                                                                    \
            if (states > 1)                                                                                            \
                b = call->in[3][i];                                                                                    \
            if (states > 2)                                                                                            \
                c = call->in[4][i];                                                                                    \
            if (!k.skip) {                                                                                             \
                body;                                                                                                  \
            }                                                                                                          \
            call->out[0][i] = w;                                                                                       \
            if (states > 0)                                                                                            \
                results[0][i] = a;                                                                                     \
            if (states > 1)                                                                                            \
                results[1][i] = b;                                                                                     \
            if (states > 2)                                                                                            \
                results[2][i] = c;                                                                                     \
            (void)g, (void)a, (void)b, (void)c;                                                                        \
        }                                                                                                              \
    }                                                                                                                  \
    static void ref_##id(const mx_reference_call *call) { step_##id(call, call->in[0], 2 + states, call->out + 1); }
MX_UPDATE_ROWS(STEP)

/* Multi-precision: the weight comes from the 32-bit copy, which is the last mutated input. */
#define PRECISION_STEP(id, name, aliases, inputs, master, scalars_at, mutated)                      \
    static void ref_mp_##id(const mx_reference_call *call)                                          \
    {                                                                                               \
        step_##id(call, call->in[master], scalars_at, call->out + 1);                               \
        for (int64_t i = 0; (mutated) >> (master)&1 && i < mx_shape_size(&call->out_shape[0]); i++) \
            call->out[call->n_out - 1][i] = call->out[0][i];                                        \
    }
MX_PRECISION_ROWS(PRECISION_STEP)

/* ---- samples ---------------------------------------------------------------------------------------------- */

#define CLIPPED "wd=0.1, rescale_grad=2, clip_gradient=0.7"
#define TWO(shapes_, attrs_, more) (const mx_sample[]){{shapes_, attrs_, 0.1, 2, NULL}, {shapes_, attrs_ ", " more, 0.1, 2, NULL}, {0}}
#define S0 "2,3;2,3"
#define S1 "37;37;37"
#define S2 "2,3;2,3;2,3;2,3"
#define S3 "2,3;2,3;2,3;2,3;2,3"
#define SAMPLES_sgd_update TWO(S0, "lr=0.1", CLIPPED)
#define SAMPLES_sgd_mom_update TWO(S1, "lr=0.1, momentum=0.9", CLIPPED)
#define SAMPLES_nag_mom_update TWO(S1, "lr=0.1, momentum=0.9", CLIPPED)
#define SAMPLES_adam_update TWO(S2, "lr=0.1", CLIPPED ", epsilon=0.01")
#define SAMPLES_adamw_update TWO(S2 ";1", "lr=0.1, eta=0.5", "wd=0.1, clip_gradient=0.7")
#define SAMPLES_adam_decay_update TWO(S2, "lr=0.1", CLIPPED ", epsilon=0.01")
#define SAMPLES_ftml_update TWO(S3, "lr=0.1, t=3", "wd=0.1, rescale_grad=2, clip_grad=0.7")
#define SAMPLES_ftrl_update TWO(S2, "lr=0.1", CLIPPED ", lamda1=0.5, beta=1.5")
#define SAMPLES_rmsprop_update TWO(S1, "lr=0.1", CLIPPED ", clip_weights=0.5")
#define SAMPLES_rmspropalex_update TWO(S3, "lr=0.1, epsilon=5", CLIPPED ", clip_weights=0.5")
#define SAMPLES_signsgd_update TWO(S0, "lr=0.1", CLIPPED)
#define SAMPLES_signum_update TWO(S1, "lr=0.1, momentum=0.9", CLIPPED ", wd_lh=0.2")
#define SAMPLES_lamb_update_phase1 TWO(S2, "t=3, wd=0.1", "rescale_grad=2, clip_gradient=0.7, bias_correction=False")
#define SAMPLES_lamb_update_phase2 TWO("2,3;2,3;1;1", "lr=0.1", "lower_bound=0.5, upper_bound=0.6")
#define SAMPLES_adagrad_update TWO(S1, "lr=0.1", CLIPPED)
#define SAMPLES_adadelta_update TWO(S2, "rho=0.8", CLIPPED)
#define SAMPLES_adamax_update TWO(S2, "lr=0.1", CLIPPED)
#define SAMPLES_nadam_update TWO(S2, "lr=0.1, grad_factor=0.5, mean_factor=0.9, var_factor=2", CLIPPED)
#define SAMPLES_dcasgd_update TWO(S2, "lr=0.1", CLIPPED ", momentum=0.9")
#define MP_SAMPLES_sgd_update TWO("2,3;2,3;2,3", "lr=0.1", CLIPPED)
#define MP_SAMPLES_sgd_mom_update TWO(S2, "lr=0.1, momentum=0.9", CLIPPED)
#define MP_SAMPLES_nag_mom_update TWO(S2, "lr=0.1, momentum=0.9", CLIPPED)
#define S4 S3 ";2,3"
#define S1_MASTER S1 ";37"
#define MP_SAMPLES_signsgd_update TWO("2,3;2,3;2,3", "lr=0.1", CLIPPED)
#define MP_SAMPLES_signum_update TWO(S1_MASTER, "lr=0.1, momentum=0.9", CLIPPED ", wd_lh=0.2")
#define MP_SAMPLES_dcasgd_update TWO(S3, "lr=0.1", CLIPPED ", momentum=0.9")
#define MP_SAMPLES_adam_update TWO(S3, "lr=0.1", CLIPPED ", epsilon=0.01")
#define MP_SAMPLES_adam_decay_update TWO(S3, "lr=0.1", CLIPPED)
#define MP_SAMPLES_adamax_update TWO(S3, "lr=0.1", CLIPPED)
#define MP_SAMPLES_nadam_update TWO(S3, "lr=0.1, grad_factor=0.5, mean_factor=0.9, var_factor=2", CLIPPED)
#define MP_SAMPLES_ftml_update TWO(S4, "lr=0.1, t=3", "wd=0.1, rescale_grad=2, clip_grad=0.7")
#define MP_SAMPLES_ftrl_update TWO(S3, "lr=0.1", CLIPPED ", lamda1=0.5, beta=1.5")
#define MP_SAMPLES_adagrad_update TWO(S1_MASTER, "lr=0.1", CLIPPED)
#define MP_SAMPLES_adadelta_update TWO(S3, "rho=0.8", CLIPPED)
#define MP_SAMPLES_rmsprop_update TWO(S1_MASTER, "lr=0.1", CLIPPED ", clip_weights=0.5")
#define MP_SAMPLES_rmspropalex_update TWO(S4, "lr=0.1, epsilon=5", CLIPPED ", clip_weights=0.5")
#define MP_SAMPLES_adamw_update TWO(S3 ";1", "lr=0.1, eta=0.5", "wd=0.1, clip_gradient=0.7")
#define MP_SAMPLES_lamb_update_phase1 TWO(S3, "t=3, wd=0.1", "rescale_grad=2, clip_gradient=0.7")
#define MP_SAMPLES_lamb_update_phase2 TWO("2,3;2,3;1;1;2,3", "lr=0.1", "lower_bound=0.5, upper_bound=0.6")

/* ---- the table -------------------------------------------------------------------------------------------- */

#define FACTS(...) __VA_ARGS__ /* FACTS (.a = 1, .b = 2): a table column without its parentheses */
#define ROW(id, name_, aliases_, inputs_, states_, scalars_, ATTRS, prepare, body, doc_, facts)                     \
    {.name = name_, .aliases = aliases_, .doc = doc_, .inputs = inputs_, .schema = &id##_schema,                    \
     .flags = MX_OP_INPLACE | MX_OP_NO_GRADIENT, .infer_shape = infer_shape, .infer_type = infer_type,              \
     .mutates = ((1u << (states_)) - 1) << 2, .samples = SAMPLES_##id, .reference = ref_##id,                       \
     .user = &(const mx_update_use){MX_UPDATE_##id, states_, scalars_, 2 + (states_), 0}, FACTS facts},

#define STATES(id, name_, aliases_, inputs_, states_, scalars_, ...) STATES_##id = states_, SCALARS_##id = scalars_,
enum { MX_UPDATE_ROWS(STATES) };

#define PRECISION_ROW(id, name_, aliases_, inputs_, master, scalars_at_, mutated)                                   \
    {.name = name_, .aliases = aliases_, .doc = "multi-precision form of " #id, .inputs = inputs_,                  \
     .schema = &id##_schema, .flags = MX_OP_INPLACE | MX_OP_NO_GRADIENT, .infer_shape = infer_shape,                \
     .infer_type = infer_type, .mutates = mutated, .samples = MP_SAMPLES_##id, .reference = ref_mp_##id,            \
     .user = &(const mx_update_use){MX_UPDATE_##id, STATES_##id, SCALARS_##id, scalars_at_, master}},

mx_op mx_family_optimizer[] = {MX_UPDATE_ROWS(ROW) MX_PRECISION_ROWS(PRECISION_ROW){0}};
