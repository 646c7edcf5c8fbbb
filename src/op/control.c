/* Operators that call subgraphs or user code (see control.h).  SPDX-License-Identifier: Apache-2.0 */
#include "op/control.h"

static void *const *field_of(const mx_op *op, const void *attrs)
{
    const mx_field *last = &op->schema->fields[op->schema->count - 1];
    return (void *const *)(const void *)((const char *)attrs + last->offset);
}

mx_callee *mx_callee_of(const mx_op *op, const void *attrs)
{
    return mx_op_calls(op) && attrs ? *field_of(op, attrs) : NULL;
}

void mx_callee_keep(const mx_op *op, const void *attrs)
{
    if (op && mx_op_calls(op))
        mx_retain(mx_callee_of(op, attrs));
}

void mx_callee_drop(const mx_op *op, const void *attrs)
{
    if (op && mx_op_calls(op))
        mx_release(mx_callee_of(op, attrs));
}

bool mx_op_writes(const mx_op *op, const void *attrs, int i)
{
    if (i < 32 && (op->mutates >> i & 1))
        return true;
    const mx_callee *callee = mx_callee_of(op, attrs);
    return callee && callee->methods && callee->methods->writes && callee->methods->writes(callee, i);
}
