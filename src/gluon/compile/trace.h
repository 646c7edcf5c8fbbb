/* Blocks and parameters in graphs.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_GLUON_TRACE_H
#define MX_GLUON_TRACE_H

#include "exec/tape.h"
#include "gluon/block/core.h"
#include "graph/node.h"

/* The thread runs a forward on symbolic arrays: parameters become variables, operators without inputs become nodes. */
static inline bool mx_tracing(void) { return mx_thread.modes.tracing; }

/* The thread state that one block's forward on symbolic arrays changes and restores. */
typedef struct mx_trace_scope {
    bool tracing;     /* before */
    bool named;       /* a scope for names was opened */
    const char *next; /* name that waited for the next node */
} mx_trace_scope;
/* While mx_thread.waiting is set, blocks with own parameters of unknown shape are appended to it as they are entered. */
mx_code mx_trace_enter(mx_trace_scope *scope, const mx_block *block);
void mx_trace_leave(mx_trace_scope *scope);

/* The variable of a parameter: one for all its uses, with its full name and, as notes, shape, type and multipliers.
 * Owned by the parameter. */
mx_array *mx_parameter_variable(mx_parameter *p);
void mx_parameter_forget_variable(mx_parameter *p); /* it is created again at the next use */
/* The value (on the CPU) of a variable that is a parameter or a constant; MX_NONE: it is an input. */
mx_array *mx_variable_value(const mx_gnode *node);

#endif
