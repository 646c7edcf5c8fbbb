/* What several layer families share.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_GLUON_LAYERS_H
#define MX_GLUON_LAYERS_H

#include "gluon/block/core.h"

/* One number is used for all `axes`; another count, or a number below `least`, is an error naming class and option. */
mx_code mx_spread_dims(const mx_block *self, const char *option, mx_dims *dims, int axes, int64_t least);
/* Index of a layout in the operators' order (NCW NCHW NCDHW NWC NHWC NDHWC); from the fourth on, channels are last.
 * -1 with an error if it does not have `axes` spatial axes. */
int mx_layout_number(const mx_block *self, const char *layout, int axes);
const char *mx_layout_name(int number);
static inline bool mx_channels_last(int layout) { return layout >= 3; }
/* gamma (parameter 0) and beta (parameter 1) of a normalisation: trainable, or fixed at 1 and 0. */
mx_code mx_layer_affine(mx_block *self, mx_shape_t shape, bool scale, bool center, void *gamma, void *beta);
/* A FLOAT option as it was given: 0 or 0.0. */
void mx_print_option(const mx_block *self, mx_text *text, const char *name);
/* "784", or "None" where a size is not known yet. */
void mx_print_size(mx_text *text, int64_t size);
static inline int64_t mx_known_size(int64_t size) { return size > 0 ? size : -1; } /* in options 0 means unknown */

#endif
