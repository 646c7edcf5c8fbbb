/* What tests of plans share.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_TESTS_PLAN_CHECK_H
#define MX_TESTS_PLAN_CHECK_H

#include "block_check.h"
#include "exec/plan/plan.h"
#include "gluon/compile/hybrid.h"

/* How often an operator occurs in the plan that the block last ran. */
static inline int count(mx_block *block, const char *op)
{
    const mx_program *program = &mx_hybrid_last(block)->program;
    int n = 0;
    for (int64_t i = 0; i < program->steps.length; i++)
        n += !strcmp(program->steps.items[i].op->name, op);
    return n;
}

#endif
