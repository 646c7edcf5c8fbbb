/* Optimizer updates: one entry per rule.  An entry gives the fused operator, its multi-precision form and the loops.
 *
 * The body works on one element: w the weight, g the gradient, a, b, c the states; the values that it assigns are
 * stored.  K(x) is a constant of the call, CLIP(v) clips to [-clip_gradient, clip_gradient].  `prepare` runs once per
 * call, in double: k is the struct of constants, s[] are the scalar inputs.
 *
 *     operator:      (weight, grad, states..., scalars...) -> new weight
 *     multi-precision: the weight has 16 bits, an extra input holds it in 32 bits; states have 32 bits
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
#define RESCALE(X) X(FLOAT, rescale_grad, "1.0", "", "factor of the gradient")
#define CLIPPING(X) X(FLOAT, clip_gradient, "-1.0", "", "clip the gradient to [-c, c]; negative: no clipping")
#define COMMON(X) WD(X) RESCALE(X) CLIPPING(X)
#define LAZY(X) X(BOOL, lazy_update, "True", "", "with a row_sparse gradient, update only its rows")
#define MOMENTUM(X) X(FLOAT, momentum, "0.0", "", "decay of the momentum")
#define BETAS(X) X(FLOAT, beta1, "0.9", "", "decay of the mean") X(FLOAT, beta2, "0.999", "", "decay of the variance")
#define EPSILON(X, value) X(FLOAT, epsilon, value, "", "added to the denominator for numerical stability")

#define SGD_UPDATE_ATTRS(X) LR(X) COMMON(X) LAZY(X)
#define SGD_MOM_UPDATE_ATTRS(X) LR(X) MOMENTUM(X) COMMON(X) LAZY(X)
#define NAG_MOM_UPDATE_ATTRS(X) LR(X) MOMENTUM(X) COMMON(X)
#define ADAM_UPDATE_ATTRS(X) LR(X) BETAS(X) EPSILON(X, "1e-8") COMMON(X) LAZY(X)
#define ADAMW_UPDATE_ATTRS(X) LR(X) BETAS(X) EPSILON(X, "1e-8") WD(X) X(FLOAT, eta, REQUIRED, "", "schedule multiplier") CLIPPING(X)
#define ADAM_DECAY_UPDATE_ATTRS(X) LR(X) BETAS(X) EPSILON(X, "1e-8") COMMON(X)
#define FTML_UPDATE_ATTRS(X) LR(X) X(FLOAT, beta1, "0.6", "0..1", "decay of the mean") X(FLOAT, beta2, "0.999", "0..1", "decay of the variance") \
    EPSILON(X, "1e-8") X(INT, t, REQUIRED, "1..", "update count, starting at 1") WD(X) RESCALE(X) \
    X(FLOAT, clip_grad, "-1.0", "", "clip the gradient to [-c, c]; negative: no clipping")
#define FTRL_UPDATE_ATTRS(X) LR(X) X(FLOAT, lamda1, "0.01", "", "L1 regularisation") X(FLOAT, beta, "1.0", "", "smoothing of the learning rate") COMMON(X)
#define RMSPROP_UPDATE_ATTRS(X) LR(X) X(FLOAT, gamma1, "0.95", "", "decay of the mean square") EPSILON(X, "1e-8") COMMON(X) \
    X(FLOAT, clip_weights, "-1.0", "", "clip the weights to [-c, c]; negative: no clipping")
#define RMSPROPALEX_UPDATE_ATTRS(X) LR(X) X(FLOAT, gamma1, "0.95", "", "decay of the mean square and of the mean") \
    X(FLOAT, gamma2, "0.9", "", "decay of the step") EPSILON(X, "1e-8") COMMON(X) \
    X(FLOAT, clip_weights, "-1.0", "", "clip the weights to [-c, c]; negative: no clipping")
#define SIGNSGD_UPDATE_ATTRS(X) LR(X) COMMON(X)
#define SIGNUM_UPDATE_ATTRS(X) LR(X) MOMENTUM(X) COMMON(X) X(FLOAT, wd_lh, "0.0", "", "weight decay outside of the momentum")
#define LAMB_UPDATE_PHASE1_ATTRS(X) BETAS(X) EPSILON(X, "1e-6") X(INT, t, REQUIRED, "1..", "update count, starting at 1") \
    X(BOOL, bias_correction, "True", "", "divide the moments by 1 - beta^t") X(FLOAT, wd, REQUIRED, "", "weight decay") RESCALE(X) CLIPPING(X)
#define LAMB_UPDATE_PHASE2_ATTRS(X) LR(X) X(FLOAT, lower_bound, "-1.0", "", "lower bound of the weight's norm; negative: none") \
    X(FLOAT, upper_bound, "-1.0", "", "upper bound of the weight's norm; negative: none")
#define ADAGRAD_UPDATE_ATTRS(X) LR(X) EPSILON(X, "1.0e-7") COMMON(X)
#define ADADELTA_UPDATE_ATTRS(X) X(FLOAT, rho, "0.9", "", "decay of both averages") EPSILON(X, "1e-5") COMMON(X)
#define ADAMAX_UPDATE_ATTRS(X) LR(X) BETAS(X) COMMON(X)
#define NADAM_UPDATE_ATTRS(X) LR(X) BETAS(X) EPSILON(X, "1e-8") COMMON(X) \
    X(FLOAT, grad_factor, REQUIRED, "", "factor of the gradient in the step") X(FLOAT, mean_factor, REQUIRED, "", "factor of the mean in the step") \
    X(FLOAT, var_factor, REQUIRED, "", "factor of the variance under the root")
#define DCASGD_UPDATE_ATTRS(X) LR(X) MOMENTUM(X) X(FLOAT, lamda, "0.04", "", "factor of the delay compensation") COMMON(X)

/* All of them as doubles, and what `prepare` derives. */
typedef struct mx_update_constants {
    double lr, wd, rescale_grad, clip_gradient, clip_grad, lazy_update, momentum, beta1, beta2, epsilon, eta, t, lamda1,
        beta, gamma1, gamma2, clip_weights, wd_lh, bias_correction, lower_bound, upper_bound, rho, grad_factor,
        mean_factor, var_factor, lamda;
    double x, y;
    bool skip; /* leave everything unchanged */
} mx_update_constants;

/* O(id, name, aliases, inputs, states, scalars, ATTRS, prepare, body, doc, facts)
 * facts: fields of the description (op/op.h) that this entry sets, in parentheses. */
#define MX_UPDATE_ROWS(O) \
    O(sgd_update, "sgd_update", "_sparse_sgd_update", "weight grad", 0, 0, SGD_UPDATE_ATTRS, , \
      w = (1 - K(lr) * K(wd)) * w - K(lr) * CLIP(K(rescale_grad) * g), \
      "stochastic gradient descent: w = (1 - lr wd) w - lr clip(g)", (.sparse = MX_SPARSE_UPDATE)) \
    O(sgd_mom_update, "sgd_mom_update", "_sparse_sgd_mom_update", "weight grad mom", 1, 0, SGD_MOM_UPDATE_ATTRS, , \
      a = K(momentum) * a - K(lr) * (CLIP(K(rescale_grad) * g) + K(wd) * w); w += a, \
      "stochastic gradient descent with momentum: m = momentum m - lr (clip(g) + wd w); w += m", (.sparse = MX_SPARSE_UPDATE)) \
    O(nag_mom_update, "nag_mom_update", "", "weight grad mom", 1, 0, NAG_MOM_UPDATE_ATTRS, , \
      const T d = K(lr) * (CLIP(K(rescale_grad) * g) + K(wd) * w); const T m = K(momentum) * a; \
      w += (K(momentum) + 1) * (m - d) - m; a = m - d, \
      "Nesterov's accelerated gradient", ()) \
    O(adam_update, "adam_update", "_sparse_adam_update", "weight grad mean var", 2, 0, ADAM_UPDATE_ATTRS, , \
      const T d = CLIP(K(rescale_grad) * g + K(wd) * w); a = K(beta1) * a + (1 - K(beta1)) * d; b = K(beta2) * b + (1 - K(beta2)) * d * d; \
      w -= K(lr) * a / (SQRT(b) + K(epsilon)), \
      "Adam; lr includes the bias correction", (.sparse = MX_SPARSE_UPDATE)) \
    O(adamw_update, "_adamw_update", "_contrib_adamw_update", "weight grad mean var rescale_grad", 2, 1, ADAMW_UPDATE_ATTRS, \
      k->rescale_grad = s[0]; k->skip = s[0] == 0 || !isfinite(s[0]), \
      const T d = CLIP(K(rescale_grad) * g); a = K(beta1) * a + (1 - K(beta1)) * d; b = K(beta2) * b + (1 - K(beta2)) * d * d; \
      w -= K(eta) * (K(lr) * a / (SQRT(b) + K(epsilon)) + K(wd) * w), \
      "AdamW: Adam with decoupled weight decay; no update if rescale_grad is 0 or not finite", ()) \
    O(adam_decay_update, "_adam_decay_update", "", "weight grad mean var", 2, 0, ADAM_DECAY_UPDATE_ATTRS, , \
      const T d = CLIP(K(rescale_grad) * g); a = K(beta1) * a + (1 - K(beta1)) * d; b = K(beta2) * b + (1 - K(beta2)) * d * d; \
      w -= K(lr) * a / (SQRT(b) + K(epsilon)) + K(wd) * w, \
      "Adam with decoupled weight decay; lr includes the bias correction, wd the learning rate", ()) \
    O(ftml_update, "ftml_update", "", "weight grad d v z", 3, 0, FTML_UPDATE_ATTRS, \
      k->clip_gradient = k->clip_grad; k->x = (1 - pow(k->beta1, k->t)) / k->lr; k->y = 1 / (1 - pow(k->beta2, k->t)), \
      const T d = CLIP(K(rescale_grad) * g + K(wd) * w); b = K(beta2) * b + (1 - K(beta2)) * d * d; \
      const T next = K(x) * (SQRT(b * K(y)) + K(epsilon)); c = K(beta1) * c + (1 - K(beta1)) * d - (next - K(beta1) * a) * w; \
      a = next; w = -c / next, \
      "FTML: follow the moving leader", ()) \
    O(ftrl_update, "ftrl_update", "_sparse_ftrl_update", "weight grad z n", 2, 0, FTRL_UPDATE_ATTRS, , \
      const T d = CLIP(K(rescale_grad) * g); const T n = b + d * d; a += d - (SQRT(n) - SQRT(b)) * w / K(lr); b = n; \
      const T pull = a > 0 ? K(lamda1) : -K(lamda1); \
      w = FABS(a) > K(lamda1) ? (pull - a) / ((K(beta) + SQRT(n)) / K(lr) + K(wd)) : 0, \
      "FTRL: follow the regularised leader", (.sparse = MX_SPARSE_UPDATE)) \
    O(rmsprop_update, "rmsprop_update", "", "weight grad n", 1, 0, RMSPROP_UPDATE_ATTRS, , \
      const T d = CLIP(K(rescale_grad) * g + K(wd) * w); a = K(gamma1) * a + (1 - K(gamma1)) * d * d; \
      w = CLIP_WEIGHT(w - K(lr) * d / SQRT(a + K(epsilon))), \
      "RMSProp: gradients divided by the root of a running mean of their squares", ()) \
    O(rmspropalex_update, "rmspropalex_update", "", "weight grad n g delta", 3, 0, RMSPROPALEX_UPDATE_ATTRS, , \
      const T d = CLIP(K(rescale_grad) * g + K(wd) * w); a = K(gamma1) * a + (1 - K(gamma1)) * d * d; b = K(gamma1) * b + (1 - K(gamma1)) * d; \
      c = K(gamma2) * c - K(lr) * d / SQRT(a - b * b + K(epsilon)); w = CLIP_WEIGHT(w + c), \
      "centered RMSProp with momentum", ()) \
    O(signsgd_update, "signsgd_update", "", "weight grad", 0, 0, SIGNSGD_UPDATE_ATTRS, , \
      w = (1 - K(lr) * K(wd)) * w - K(lr) * SIGN(g), \
      "SignSGD: descent along the sign of the gradient", ()) \
    O(signum_update, "signum_update", "", "weight grad mom", 1, 0, SIGNUM_UPDATE_ATTRS, , \
      a = K(momentum) * a - (1 - K(momentum)) * (K(wd) * w + CLIP(K(rescale_grad) * g)); \
      w = (1 - K(lr) * K(wd_lh)) * w + K(lr) * SIGN(a), \
      "Signum: descent along the sign of the momentum", ()) \
    O(lamb_update_phase1, "lamb_update_phase1", "", "weight grad mean var", 2, 0, LAMB_UPDATE_PHASE1_ATTRS, \
      k->x = k->bias_correction ? 1 / (1 - pow(k->beta1, k->t)) : 1; k->y = k->bias_correction ? 1 / (1 - pow(k->beta2, k->t)) : 1, \
      const T d = CLIP(K(rescale_grad) * g); a = K(beta1) * a + (1 - K(beta1)) * d; b = K(beta2) * b + (1 - K(beta2)) * d * d; \
      w = a * K(x) / (SQRT(b * K(y)) + K(epsilon)) + K(wd) * w, \
      "LAMB, first phase: the direction of the step", ()) \
    O(lamb_update_phase2, "lamb_update_phase2", "", "weight g r1 r2", 0, 2, LAMB_UPDATE_PHASE2_ATTRS, \
      const double low = k->lower_bound < 0 || s[0] > k->lower_bound ? s[0] : k->lower_bound; \
      const double r1 = k->upper_bound < 0 || low < k->upper_bound ? low : k->upper_bound; \
      k->x = r1 == 0 || s[1] == 0 ? k->lr : k->lr * r1 / s[1], \
      w -= K(x) * g, \
      "LAMB, second phase: a step of lr r1 / r2 along g, where r1 and r2 are the norms of weight and g", ()) \
    O(adagrad_update, "_sparse_adagrad_update", "_adagrad_update", "weight grad history", 1, 0, ADAGRAD_UPDATE_ATTRS, , \
      const T d = CLIP(K(rescale_grad) * g); a += d * d; w -= K(lr) * (d / SQRT(a + K(epsilon)) + K(wd) * w), \
      "AdaGrad: gradients divided by the root of the sum of their squares", (.sparse = MX_SPARSE_UPDATE)) \
    O(adadelta_update, "_adadelta_update", "", "weight grad acc_g acc_delta", 2, 0, ADADELTA_UPDATE_ATTRS, , \
      const T d = CLIP(K(rescale_grad) * g); a = K(rho) * a + (1 - K(rho)) * d * d; \
      const T step = SQRT(b + K(epsilon)) / SQRT(a + K(epsilon)) * d; b = K(rho) * b + (1 - K(rho)) * step * step; \
      w -= step + K(wd) * w, \
      "AdaDelta: step sizes from earlier steps, without a learning rate", ()) \
    O(adamax_update, "_adamax_update", "", "weight grad mean norm", 2, 0, ADAMAX_UPDATE_ATTRS, , \
      const T d = CLIP(K(rescale_grad) * g + K(wd) * w); a = K(beta1) * a + (1 - K(beta1)) * d; \
      const T size = FABS(d); b = K(beta2) * b > size ? K(beta2) * b : size; w -= b > 0 ? K(lr) * a / b : 0, \
      "AdaMax: Adam with the maximum norm; lr includes the bias correction", ()) \
    O(nadam_update, "_nadam_update", "", "weight grad mean var", 2, 0, NADAM_UPDATE_ATTRS, , \
      const T d = CLIP(K(rescale_grad) * g + K(wd) * w); a = K(beta1) * a + (1 - K(beta1)) * d; b = K(beta2) * b + (1 - K(beta2)) * d * d; \
      w -= K(lr) * (K(grad_factor) * d + K(mean_factor) * a) / (SQRT(K(var_factor) * b) + K(epsilon)), \
      "Nadam: Adam with Nesterov momentum; the factors include the momentum schedule", ()) \
    O(dcasgd_update, "_dcasgd_update", "", "weight grad mom previous_weight", 2, 0, DCASGD_UPDATE_ATTRS, , \
      const T d = CLIP(K(rescale_grad) * g); a = K(momentum) * a - K(lr) * (d + K(wd) * w + K(lamda) * d * d * (w - b)); b = w; w += a, \
      "DCASGD: delay-compensated asynchronous stochastic gradient descent", ())

/* M(id, name, aliases, inputs, index of the 32-bit weight, index of the scalars, mutated inputs): multi-precision forms */
#define MX_PRECISION_ROWS(M) \
    M(sgd_update, "mp_sgd_update", "", "weight grad weight32", 2, 0, 1 << 2) \
    M(sgd_mom_update, "mp_sgd_mom_update", "", "weight grad mom weight32", 3, 0, 3 << 2) \
    M(nag_mom_update, "mp_nag_mom_update", "", "weight grad mom weight32", 3, 0, 3 << 2) \
    M(signsgd_update, "_mp_signsgd_update", "", "weight grad weight32", 2, 0, 1 << 2) \
    M(signum_update, "_mp_signum_update", "", "weight grad mom weight32", 3, 0, 3 << 2) \
    M(dcasgd_update, "_mp_dcasgd_update", "", "weight grad mom previous_weight weight32", 4, 0, 7 << 2) \
    M(adam_update, "_mp_adam_update", "", "weight grad mean var weight32", 4, 0, 7 << 2) \
    M(adam_decay_update, "_mp_adam_decay_update", "", "weight grad mean var weight32", 4, 0, 7 << 2) \
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
    int scalars_at; /* index of the first scalar */
    int master_at;  /* index of the 32-bit weight; 0: none */
} mx_update_use;

/* Copies a field of the attribute struct `attrs` to the constants `k`. */
#define MX_UPDATE_FIELD(type, name, ...) k->name = (double)attrs->name;

#endif
