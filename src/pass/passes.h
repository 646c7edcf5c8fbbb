/* The passes over programs, in the order of pipeline.c.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_PASS_PASSES_H
#define MX_PASS_PASSES_H

#include <string.h>

#include "pass/program.h"

/* Each changes the program and returns MX_OK or a code with an error set.  Those that need a capability of the device
 * (see pipeline.c) run only where it is available. */
mx_code mx_pass_identity(mx_program *program);   /* copies, dropout while predicting ... : replaced by the input */
mx_code mx_pass_entropy(mx_program *program);    /* softmax, pick, minus: one step; its gradient likewise */
mx_code mx_pass_constants(mx_program *program);  /* steps whose inputs are constants are run now */
mx_code mx_pass_common(mx_program *program);     /* equal steps are merged */
mx_code mx_pass_dead(mx_program *program);       /* steps whose results are unused are dropped */
mx_code mx_pass_norm(mx_program *program);       /* while predicting: batch normalisation into convolutions */
mx_code mx_pass_pool(mx_program *program);       /* relu then max pooling: the pooling first, the relu on its result */
mx_code mx_pass_loss(mx_program *program);       /* fused steps: cross-entropy and its gradient as one step */
mx_code mx_pass_bias(mx_program *program);       /* gradients of a layer's weight and bias as one step */
mx_code mx_pass_roles(mx_program *program);      /* queries, keys and values of self-attention by one product */
mx_code mx_pass_classes(mx_program *program);    /* scores of many classes: aligned rows */
mx_code mx_pass_activation(mx_program *program); /* convolution or dense, then relu: one step */
mx_code mx_pass_layout(mx_program *program);     /* while predicting: blocked channels inside, NCHW at the edges */
mx_code mx_pass_residual(
    mx_program *program);                   /* blocked or fused convolution, then addition and relu or clip: one step */
mx_code mx_pass_dense(mx_program *program); /* while predicting: weights of dense layers in panels */
mx_code mx_pass_channels_last(mx_program *program); /* convolutions and what is between them as NHWC */
mx_code mx_pass_epilogue(mx_program *program);      /* while predicting: convolution, addition and relu: one step */
mx_code mx_pass_norm_parts(mx_program *program);    /* training: normalisation, addition and relu in one pass */
mx_code mx_pass_norm_limited(mx_program *program);  /* training: normalisation, and relu or clip: one step */
mx_code mx_pass_addition(mx_program *program);      /* an addition, and the step that computes an operand: one step */
mx_code mx_pass_gelu(mx_program *program);          /* gelu again in the step that computes its gradient */
mx_code mx_pass_segments(mx_program *program);      /* training with less memory: segments are computed again */
mx_code mx_pass_recompute(mx_program *program);     /* large results of normalisations are recomputed, not saved */
mx_code mx_pass_activation_gradient(mx_program *program); /* relu's gradient into the step beside it */
mx_code mx_pass_pointwise(mx_program *program);           /* chains of pointwise steps: one loop over tiles */
mx_code mx_pass_results(mx_program *program);             /* every result gets its own memory */
mx_code mx_pass_prepare(mx_program *program); /* while predicting: what depends on parameters alone is computed once */
mx_code mx_pass_batch(mx_program *program);   /* while predicting: large batches in groups that fit into the caches */

static inline bool mx_step_is(const mx_step *step, const char *op) { return !strcmp(step->op->name, op); }
bool mx_step_is_relu(const mx_step *step);
bool mx_step_is_relu_gradient(const mx_step *step);
/* The live step that computes v, if it has this operator; else NULL. */
static inline mx_step *mx_step_maker(const mx_program *program, int32_t v, const char *op)
{
    const int32_t at = v < 0 ? -1 : program->values.items[v].maker;
    mx_step *step = at < 0 ? NULL : &program->steps.items[at];
    return step && !step->dead && mx_step_is(step, op) ? step : NULL;
}
/* The same, if only one step reads v. */
static inline mx_step *mx_step_only_maker(const mx_program *program, int32_t v, const char *op)
{
    return v >= 0 && program->values.items[v].uses == 1 ? mx_step_maker(program, v, op) : NULL;
}

/* Only predictions may round differently from the imperative run: folded, blocked or packed weights. */
static inline bool mx_program_predicts(const mx_program *program)
{
    return !program->training && program->forward == program->steps.length;
}

/* The value is a parameter or constant that no step of the program writes to. */
bool mx_value_lasts(const mx_program *program, int32_t v);

/* All of them, in order; with the verifier between them in debug builds, and dumps if the flag is set. */
mx_code mx_pipeline_run(mx_program *program, const char *name);

/* Checks the invariants of program.h; the error names the violation and the pass. */
mx_code mx_program_verify(const mx_program *program, const char *after);
/* The program as text, one step per line, or as DOT for graphviz. */
void mx_program_text(const mx_program *program, mx_text *text);
void mx_program_dot(const mx_program *program, mx_text *text);

#endif
