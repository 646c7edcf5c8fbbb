/* Limits on what a file may need, and stopping work that takes long.
 *
 * A model, an image or a header is checked against these numbers before memory is allocated for it; a file that exceeds one
 * is an error that names the limit.  They hold for all threads.  At start they are those of the environment variables
 * GLUON_LIMIT_DEPTH, GLUON_LIMIT_NODES, GLUON_LIMIT_PIXELS and GLUON_LIMIT_MEMORY_MB.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef GLUON_LIMITS_H
#define GLUON_LIMITS_H

#include "gluon/base.h"

typedef struct mx_limits {
    int64_t depth;  /* levels of arrays and objects in JSON: symbol files, headers; 1 to 1000 */
    int64_t nodes;  /* nodes of a graph in a symbol file; of an ONNX file, with those of its functions and loops */
    int64_t pixels; /* of one image */
    int64_t memory; /* bytes of host memory that arrays take together; 0: the memory of the machine */
} mx_limits;

MX_API mx_limits mx_limits_get(void);
MX_API mx_code mx_limits_set(mx_limits limits); /* an error if a number is out of range: nothing changes */

/* While this thread computes, `asked` is called every now and then, on this thread; true: the call that runs fails with
 * MX_ERR_STATE and the message "interrupted".  It is called between operators and within long ones, every 50 ms; and while the thread
 * waits for a GPU, whose queued work goes on.  NULL: none. */
MX_API void mx_set_interrupt(bool (*asked)(void));

/* What this thread computes more than `seconds` from now fails with MX_ERR_STATE and a message that names the limit, in the
 * same way, until the limit is set anew: for models of strangers, which may ask for any amount of work.  0: no limit.  Returns
 * the seconds that were left of the limit before, 0 if there was none; -1 and an error for a negative number or NaN. */
MX_API double mx_set_time_limit(double seconds);

#endif
