/* Optimizer updates: one row per rule.  A row gives the fused operator, its multi-precision twin and the loops.
 *
 * The body of a row works on one element: w the weight, g the gradient, a, b, c the states; what it leaves in them is
 * stored.  K(x) is a constant of the call, CLIP(v) clips to [-clip_gradient, clip_gradient].  `prepare` runs once per
 * call, in double: k is the struct of constants, s[] the inputs of one element (see scalars).
 *
 *     operator:      (weight, grad, states..., scalars...) -> new weight
 *     multi-precision: the weight has 16 bits, and one more input holds it in 32; states are of 32 bits
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_OP_OPTIMIZER_H
#define MX_OP_OPTIMIZER_H

#include <math.h>
#include <stdbool.h>

// clang-format off

/* ---- attributes ------------------------------------------------------------------------------------------- */
#define LR(X) X(FLOAT, lr, REQUIRED, "", "learning rate")
#define WD(X) X(FLOAT, wd, "0.0", "", "weight decay")
#define RESCALE(X) X(FLOAT, rescale_grad, "1.0", "", "the gradient is multiplied by it")
#define CLIPPING(X) X(FLOAT, clip_gradient, "-1.0", "", "the gradient is clipped to [-c, c]; negative: not at all")
#define COMMON(X) WD(X) RESCALE(X) CLIPPING(X)
#define LAZY(X) X(BOOL, lazy_update, "True", "", "with a row_sparse gradient only its rows are updated")
#define MOMENTUM(X) X(FLOAT, momentum, "0.0", "", "decay of the momentum")
#define BETAS(X) X(FLOAT, beta1, "0.9", "", "decay of the mean") X(FLOAT, beta2, "0.999", "", "decay of the variance")
#define EPSILON(X, value) X(FLOAT, epsilon, value, "", "added where a division by zero threatens")

#define SGD_UPDATE_ATTRS(X) LR(X) COMMON(X) LAZY(X)
#define SGD_MOM_UPDATE_ATTRS(X) LR(X) MOMENTUM(X) COMMON(X) LAZY(X)
#define NAG_MOM_UPDATE_ATTRS(X) LR(X) MOMENTUM(X) COMMON(X)
#define ADAM_UPDATE_ATTRS(X) LR(X) BETAS(X) EPSILON(X, "1e-8") COMMON(X) LAZY(X)
#define ADAMW_UPDATE_ATTRS(X) LR(X) BETAS(X) EPSILON(X, "1e-8") WD(X) X(FLOAT, eta, REQUIRED, "", "schedule multiplier") CLIPPING(X)
#define FTML_UPDATE_ATTRS(X) LR(X) X(FLOAT, beta1, "0.6", "0..1", "decay of the mean") X(FLOAT, beta2, "0.999", "0..1", "decay of the variance") \
    EPSILON(X, "1e-8") X(INT, t, REQUIRED, "1..", "number of the update, from 1") WD(X) RESCALE(X) \
    X(FLOAT, clip_grad, "-1.0", "", "the gradient is clipped to [-c, c]; negative: not at all")
#define FTRL_UPDATE_ATTRS(X) LR(X) X(FLOAT, lamda1, "0.01", "", "L1 regularisation") X(FLOAT, beta, "1.0", "", "smooths the learning rate") COMMON(X)
#define RMSPROP_UPDATE_ATTRS(X) LR(X) X(FLOAT, gamma1, "0.95", "", "decay of the squares") EPSILON(X, "1e-8") COMMON(X) \
    X(FLOAT, clip_weights, "-1.0", "", "weights are clipped to [-c, c]; negative: not at all")
#define RMSPROPALEX_UPDATE_ATTRS(X) LR(X) X(FLOAT, gamma1, "0.95", "", "decay of the squares and of the mean") \
    X(FLOAT, gamma2, "0.9", "", "decay of the step") EPSILON(X, "1e-8") COMMON(X) \
    X(FLOAT, clip_weights, "-1.0", "", "weights are clipped to [-c, c]; negative: not at all")
#define SIGNSGD_UPDATE_ATTRS(X) LR(X) COMMON(X)
#define SIGNUM_UPDATE_ATTRS(X) LR(X) MOMENTUM(X) COMMON(X) X(FLOAT, wd_lh, "0.0", "", "weight decay outside of the momentum")
#define LAMB_UPDATE_PHASE1_ATTRS(X) BETAS(X) EPSILON(X, "1e-6") X(INT, t, REQUIRED, "1..", "number of the update, from 1") \
    X(BOOL, bias_correction, "True", "", "divide the moments by 1 - beta^t") X(FLOAT, wd, REQUIRED, "", "weight decay") RESCALE(X) CLIPPING(X)
#define LAMB_UPDATE_PHASE2_ATTRS(X) LR(X) X(FLOAT, lower_bound, "-1.0", "", "least norm of the weight; negative: none") \
    X(FLOAT, upper_bound, "-1.0", "", "greatest norm of the weight; negative: none")
#define ADAGRAD_UPDATE_ATTRS(X) LR(X) EPSILON(X, "1.0e-7") COMMON(X)
#define ADADELTA_UPDATE_ATTRS(X) X(FLOAT, rho, "0.9", "", "decay of both averages") EPSILON(X, "1e-5") COMMON(X)
#define ADAMAX_UPDATE_ATTRS(X) LR(X) BETAS(X) COMMON(X)
#define NADAM_UPDATE_ATTRS(X) LR(X) BETAS(X) EPSILON(X, "1e-8") COMMON(X) \
    X(FLOAT, grad_factor, REQUIRED, "", "of the gradient in the step") X(FLOAT, mean_factor, REQUIRED, "", "of the mean in the step") \
    X(FLOAT, var_factor, REQUIRED, "", "of the variance under the root")
#define DCASGD_UPDATE_ATTRS(X) LR(X) MOMENTUM(X) X(FLOAT, lamda, "0.04", "", "of the delay compensation") COMMON(X)

/* All of them as doubles, and what `prepare` derives. */
typedef struct mx_update_constants {
    double lr, wd, rescale_grad, clip_gradient, clip_grad, lazy_update, momentum, beta1, beta2, epsilon, eta, t, lamda1,
        beta, gamma1, gamma2, clip_weights, wd_lh, bias_correction, lower_bound, upper_bound, rho, grad_factor,
        mean_factor, var_factor, lamda;
    double x, y;
    bool skip; /* leave everything as it is */
} mx_update_constants;

/* O(id, name, aliases, inputs, states, scalars, ATTRS, prepare, body, doc, facts)
 * facts: fields of the description (op/op.h) that this row sets, in parentheses. */
#define MX_UPDATE_ROWS(O) \
    O(sgd_update, "sgd_update", "_sparse_sgd_update", "weight grad", 0, 0, SGD_UPDATE_ATTRS, , \
      w = (1 - K(lr) * K(wd)) * w - K(lr) * CLIP(K(rescale_grad) * g), \
      "stochastic gradient descent: w = (1 - lr wd) w - lr clip(g)", (.sparse = MX_SPARSE_UPDATE)) \
    O(sgd_mom_update, "sgd_mom_update", "_sparse_sgd_mom_update", "weight grad mom", 1, 0, SGD_MOM_UPDATE_ATTRS, , \
      a = K(momentum) * a - K(lr) * (CLIP(K(rescale_grad) * g) + K(wd) * w); w += a, \
      "descent with momentum: m = momentum m - lr (clip(g) + wd w); w += m", (.sparse = MX_SPARSE_UPDATE)) \
    O(nag_mom_update, "nag_mom_update", "", "weight grad mom", 1, 0, NAG_MOM_UPDATE_ATTRS, , \
      const T d = K(lr) * (CLIP(K(rescale_grad) * g) + K(wd) * w); const T m = K(momentum) * a; \
      w += (K(momentum) + 1) * (m - d) - m; a = m - d, \
      "Nesterov's accelerated gradient", ()) \
    O(adam_update, "adam_update", "_sparse_adam_update", "weight grad mean var", 2, 0, ADAM_UPDATE_ATTRS, , \
      const T d = CLIP(K(rescale_grad) * g + K(wd) * w); a = K(beta1) * a + (1 - K(beta1)) * d; b = K(beta2) * b + (1 - K(beta2)) * d * d; \
      w -= K(lr) * a / (SQRT(b) + K(epsilon)), \
      "Adam; the correction of the bias is in lr", (.sparse = MX_SPARSE_UPDATE)) \
    O(adamw_update, "_adamw_update", "_contrib_adamw_update", "weight grad mean var rescale_grad", 2, 1, ADAMW_UPDATE_ATTRS, \
      k->rescale_grad = s[0]; k->skip = s[0] == 0 || !isfinite(s[0]), \
      const T d = CLIP(K(rescale_grad) * g); a = K(beta1) * a + (1 - K(beta1)) * d; b = K(beta2) * b + (1 - K(beta2)) * d * d; \
      w -= K(eta) * (K(lr) * a / (SQRT(b) + K(epsilon)) + K(wd) * w), \
      "Adam with decoupled weight decay; nothing happens when rescale_grad is 0 or not finite", ()) \
    O(ftml_update, "ftml_update", "", "weight grad d v z", 3, 0, FTML_UPDATE_ATTRS, \
      k->clip_gradient = k->clip_grad; k->x = (1 - pow(k->beta1, k->t)) / k->lr; k->y = 1 / (1 - pow(k->beta2, k->t)), \
      const T d = CLIP(K(rescale_grad) * g + K(wd) * w); b = K(beta2) * b + (1 - K(beta2)) * d * d; \
      const T next = K(x) * (SQRT(b * K(y)) + K(epsilon)); c = K(beta1) * c + (1 - K(beta1)) * d - (next - K(beta1) * a) * w; \
      a = next; w = -c / next, \
      "follow the moving leader", ()) \
    O(ftrl_update, "ftrl_update", "_sparse_ftrl_update", "weight grad z n", 2, 0, FTRL_UPDATE_ATTRS, , \
      const T d = CLIP(K(rescale_grad) * g); const T n = b + d * d; a += d - (SQRT(n) - SQRT(b)) * w / K(lr); b = n; \
      const T pull = a > 0 ? K(lamda1) : -K(lamda1); \
      w = FABS(a) > K(lamda1) ? (pull - a) / ((K(beta) + SQRT(n)) / K(lr) + K(wd)) : 0, \
      "follow the regularised leader", (.sparse = MX_SPARSE_UPDATE)) \
    O(rmsprop_update, "rmsprop_update", "", "weight grad n", 1, 0, RMSPROP_UPDATE_ATTRS, , \
      const T d = CLIP(K(rescale_grad) * g + K(wd) * w); a = K(gamma1) * a + (1 - K(gamma1)) * d * d; \
      w = CLIP_WEIGHT(w - K(lr) * d / SQRT(a + K(epsilon))), \
      "gradients divided by a running average of their size", ()) \
    O(rmspropalex_update, "rmspropalex_update", "", "weight grad n g delta", 3, 0, RMSPROPALEX_UPDATE_ATTRS, , \
      const T d = CLIP(K(rescale_grad) * g + K(wd) * w); a = K(gamma1) * a + (1 - K(gamma1)) * d * d; b = K(gamma1) * b + (1 - K(gamma1)) * d; \
      c = K(gamma2) * c - K(lr) * d / SQRT(a - b * b + K(epsilon)); w = CLIP_WEIGHT(w + c), \
      "centered rmsprop with momentum", ()) \
    O(signsgd_update, "signsgd_update", "", "weight grad", 0, 0, SIGNSGD_UPDATE_ATTRS, , \
      w = (1 - K(lr) * K(wd)) * w - K(lr) * SIGN(g), \
      "descent along the sign of the gradient", ()) \
    O(signum_update, "signum_update", "", "weight grad mom", 1, 0, SIGNUM_UPDATE_ATTRS, , \
      a = K(momentum) * a - (1 - K(momentum)) * (K(wd) * w + CLIP(K(rescale_grad) * g)); \
      w = (1 - K(lr) * K(wd_lh)) * w + K(lr) * SIGN(a), \
      "descent along the sign of the momentum", ()) \
    O(lamb_update_phase1, "lamb_update_phase1", "", "weight grad mean var", 2, 0, LAMB_UPDATE_PHASE1_ATTRS, \
      k->x = k->bias_correction ? 1 / (1 - pow(k->beta1, k->t)) : 1; k->y = k->bias_correction ? 1 / (1 - pow(k->beta2, k->t)) : 1, \
      const T d = CLIP(K(rescale_grad) * g); a = K(beta1) * a + (1 - K(beta1)) * d; b = K(beta2) * b + (1 - K(beta2)) * d * d; \
      w = a * K(x) / (SQRT(b * K(y)) + K(epsilon)) + K(wd) * w, \
      "the direction of LAMB's step", ()) \
    O(lamb_update_phase2, "lamb_update_phase2", "", "weight g r1 r2", 0, 2, LAMB_UPDATE_PHASE2_ATTRS, \
      const double low = k->lower_bound < 0 || s[0] > k->lower_bound ? s[0] : k->lower_bound; \
      const double r1 = k->upper_bound < 0 || low < k->upper_bound ? low : k->upper_bound; \
      k->x = r1 == 0 || s[1] == 0 ? k->lr : k->lr * r1 / s[1], \
      w -= K(x) * g, \
      "LAMB's step: lr r1 / r2 in direction g, r1 and r2 the norms of weight and g", ()) \
    O(adagrad_update, "_sparse_adagrad_update", "_adagrad_update", "weight grad history", 1, 0, ADAGRAD_UPDATE_ATTRS, , \
      const T d = CLIP(K(rescale_grad) * g); a += d * d; w -= K(lr) * (d / SQRT(a + K(epsilon)) + K(wd) * w), \
      "gradients divided by the root of the sum of their squares", (.sparse = MX_SPARSE_UPDATE)) \
    O(adadelta_update, "_adadelta_update", "", "weight grad acc_g acc_delta", 2, 0, ADADELTA_UPDATE_ATTRS, , \
      const T d = CLIP(K(rescale_grad) * g); a = K(rho) * a + (1 - K(rho)) * d * d; \
      const T step = SQRT(b + K(epsilon)) / SQRT(a + K(epsilon)) * d; b = K(rho) * b + (1 - K(rho)) * step * step; \
      w -= step + K(wd) * w, \
      "steps of the size of earlier steps, no learning rate", ()) \
    O(adamax_update, "_adamax_update", "", "weight grad mean norm", 2, 0, ADAMAX_UPDATE_ATTRS, , \
      const T d = CLIP(K(rescale_grad) * g + K(wd) * w); a = K(beta1) * a + (1 - K(beta1)) * d; \
      const T size = FABS(d); b = K(beta2) * b > size ? K(beta2) * b : size; w -= b > 0 ? K(lr) * a / b : 0, \
      "Adam with the maximum norm; the correction of the bias is in lr", ()) \
    O(nadam_update, "_nadam_update", "", "weight grad mean var", 2, 0, NADAM_UPDATE_ATTRS, , \
      const T d = CLIP(K(rescale_grad) * g + K(wd) * w); a = K(beta1) * a + (1 - K(beta1)) * d; b = K(beta2) * b + (1 - K(beta2)) * d * d; \
      w -= K(lr) * (K(grad_factor) * d + K(mean_factor) * a) / (SQRT(K(var_factor) * b) + K(epsilon)), \
      "Adam with Nesterov momentum; the momentum schedule is in the factors", ()) \
    O(dcasgd_update, "_dcasgd_update", "", "weight grad mom previous_weight", 2, 0, DCASGD_UPDATE_ATTRS, , \
      const T d = CLIP(K(rescale_grad) * g); a = K(momentum) * a - K(lr) * (d + K(wd) * w + K(lamda) * d * d * (w - b)); b = w; w += a, \
      "delay-compensated descent", ())

/* M(row, name, aliases, inputs, place of the 32-bit weight, place of the scalars, mutated inputs): multi-precision twins */
#define MX_PRECISION_ROWS(M) \
    M(sgd_update, "mp_sgd_update", "", "weight grad weight32", 2, 0, 1 << 2) \
    M(sgd_mom_update, "mp_sgd_mom_update", "", "weight grad mom weight32", 3, 0, 3 << 2) \
    M(nag_mom_update, "mp_nag_mom_update", "", "weight grad mom weight32", 3, 0, 3 << 2) \
    M(signsgd_update, "_mp_signsgd_update", "", "weight grad weight32", 2, 0, 1 << 2) \
    M(signum_update, "_mp_signum_update", "", "weight grad mom weight32", 3, 0, 3 << 2) \
    M(dcasgd_update, "_mp_dcasgd_update", "", "weight grad mom previous_weight weight32", 4, 0, 7 << 2) \
    M(adam_update, "_mp_adam_update", "", "weight grad mean var weight32", 4, 0, 7 << 2) \
    M(adamax_update, "_mp_adamax_update", "", "weight grad mean norm weight32", 4, 0, 7 << 2) \
    M(nadam_update, "_mp_nadam_update", "", "weight grad mean var weight32", 4, 0, 7 << 2) \
    M(ftml_update, "_mp_ftml_update", "", "weight grad d v z weight32", 5, 0, 15 << 2) \
    M(ftrl_update, "_mp_ftrl_update", "", "weight grad z n weight32", 4, 0, 7 << 2) \
    M(adagrad_update, "_mp_adagrad_update", "", "weight grad history weight32", 3, 0, 3 << 2) \
    M(adadelta_update, "_mp_adadelta_update", "", "weight grad acc_g acc_delta weight32", 4, 0, 7 << 2) \
    M(rmsprop_update, "_mp_rmsprop_update", "", "weight grad n weight32", 3, 0, 3 << 2) \
    M(rmspropalex_update, "_mp_rmspropalex_update", "", "weight grad n g delta weight32", 5, 0, 15 << 2) \
    M(adamw_update, "_mp_adamw_update", "_contrib_mp_adamw_update", "weight grad mean var weight32 rescale_grad", 4, 5, 7 << 2) \
    M(lamb_update_phase1, "mp_lamb_update_phase1", "", "weight grad mean var weight32", 4, 0, 3 << 2) \
    M(lamb_update_phase2, "mp_lamb_update_phase2", "", "weight g r1 r2 weight32", 4, 2, 1 << 4)

// clang-format on

typedef enum mx_update_row {
#define MX_UPDATE_ID(id, ...) MX_UPDATE_##id,
    MX_UPDATE_ROWS(MX_UPDATE_ID)
    MX_UPDATE_COUNT
} mx_update_row;

/* op->user: where an operator's inputs are. */
typedef struct mx_update_use {
    mx_update_row row;
    int states, scalars;
    int scalars_at; /* place of the first scalar */
    int master_at;  /* place of the 32-bit weight; 0: none */
} mx_update_use;

/* A field of the attribute struct `attrs` into the constants `k`. */
#define MX_UPDATE_FIELD(type, name, ...) k->name = (double)attrs->name;

#endif
