/* Where calls take their inputs as they are: gradients, updates and graphs that were made before.
 *
 * Mixed precision (exec/amp.h) casts the inputs of calls; the types of what runs here have been settled already.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_OP_PRECISION_H
#define MX_OP_PRECISION_H

extern _Thread_local int mx_precision_settled; /* > 0: inputs are not cast; counted up and down by those who nest */

#endif
