/* Calls delayed to run as one: the updates of all parameters.
 *
 *     mx_gather held;
 *     mx_gather_begin(&held);
 *     ... calls that do not read each other's results ...
 *     code = mx_gather_end(&held, code);
 *
 * Between begin and end, calls of the thread whose operator can run many at once on their device (op->many) wait; they run
 * when a call of another operator or on another device follows, at a flush, and at the end.  On devices without such
 * operators nothing waits.  So the delayed calls must be independent, and their arrays must not be read before a flush.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_EXEC_GATHER_H
#define MX_EXEC_GATHER_H

#include "base/thread.h"
#include "base/vec.h"
#include "op/op.h"

#define MX_HELD_INPUTS 8
#define MX_HELD_ATTRS 256

/* A delayed call with everything it needs. */
typedef struct mx_held {
    mx_kernel_call call;
    mx_array *in[MX_HELD_INPUTS], *out[1]; /* retained */
    _Alignas(16) char attrs[MX_HELD_ATTRS];
} mx_held;

typedef struct mx_gather {
    MX_VEC(mx_held) calls;   /* all of one operator on one device; pointers into itself are set before they run */
    struct mx_gather *outer; /* the enclosing one of the thread */
} mx_gather;

void mx_gather_begin(mx_gather *gather);
mx_code mx_gather_end(mx_gather *gather, mx_code code); /* after an error of the caller nothing runs */
mx_code mx_gather_flush(void);                          /* runs the delayed calls, if any */

/* For mx_invoke: takes the call, or runs the delayed ones and returns MX_DECLINED: the caller runs its own. */
mx_code mx_gather_call(const mx_kernel_call *call);

#endif
