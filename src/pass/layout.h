/* Shared by the two halves of the layout pass: choosing (layout.c) and rewriting (layout_rewrite.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_PASS_LAYOUT_H
#define MX_PASS_LAYOUT_H

#include "pass/program.h"

/* What a step becomes. */
typedef enum mx_layout_kind {
    MX_LAYOUT_NONE,      /* unchanged, reads unblocked values */
    MX_LAYOUT_CONV,      /* a convolution of blocked data */
    MX_LAYOUT_WINOGRAD,  /* the same by Winograd's method: 3x3 windows, many pixels */
    MX_LAYOUT_FIRST,     /* a convolution of few channels: reads unblocked data */
    MX_LAYOUT_DEPTHWISE, /* each channel by itself */
    MX_LAYOUT_NORM,      /* normalisation with fixed statistics: a depthwise convolution of one tap */
    MX_LAYOUT_POOL,
    MX_LAYOUT_SAME, /* pointwise, or a concatenation of full blocks: the same step on blocked values */
} mx_layout_kind;

typedef struct mx_layout {
    mx_program *program;
    int64_t block;        /* channels of a block */
    mx_layout_kind *kind; /* (steps) */
    bool *blocked;        /* (values) its step writes it blocked */
    bool *unblocked;      /* (values) is blocked, but some step reads it unblocked */
    int32_t *form;        /* (values) its blocked form; -1: none yet */
    int32_t *region;      /* (steps) a step of the same region; itself: the region's first */
    double *gain;         /* (steps) of a region, at its first step: vector operations saved less those at the edges */
} mx_layout;

/* The data inputs of a selected step, in[0 .. count): all but weights and the like. */
static inline int mx_layout_data_inputs(const mx_step *step, mx_layout_kind kind)
{
    return kind == MX_LAYOUT_SAME ? step->n_in : 1;
}
mx_code mx_layout_rewrite(mx_layout *l);

#endif
