/* Shared by the bodies of the RNN kernels.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CPU_RNN_H
#define MX_CPU_RNN_H

#include "cpu/kernel.h"
#include "cpu/kernels/level.h"
#include "op/formula/rnn.h"

/* One call of RNN or _backward_RNN. */
typedef struct rnn_job {
    const mx_kernel_call *call;
    mx_rnn_shape shape;
    const int64_t *lengths;     /* (N), inside [0, T]; NULL: all steps */
    double clip_min, clip_max;  /* of LSTM cells; infinite: none */
    double clip_nan;            /* what NaN in a cell becomes */
    double dropout;             /* 0: none in this call */
    const void *in[5], *output; /* forward inputs; NULL: absent */
    void *reserve;
    const void *ograd[3]; /* backward: of output, state, cell; NULL: zero */
    void *out[4];         /* forward: output, state, cell (NULL: not requested); backward: the gradients */
} rnn_job;

/* Whether row n is active in step t. */
static inline bool rnn_active(const rnn_job *job, int64_t t, int64_t n) { return !job->lengths || t < job->lengths[n]; }

#define ROW_GRAIN(width) (1 + 4096 / ((width) + 1)) /* rows of gates that pay for waking a thread */

#endif
