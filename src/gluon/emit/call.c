/* A node for the C file: its inputs and outputs with their memory locations as text.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "gluon/emit/emit.h"

const char *mx_emit_at(const mx_emit *emit, int64_t entry, char *buffer)
{
    static const char *const base[] = {"NULL", "w", "in", "out", "arena"};
    const mx_spot *p = &emit->place[emit->root[entry]];
    if (p->kind == MX_SPOT_WEIGHT)
        snprintf(buffer, 48, "w%lld", (long long)p->number);
    else if (p->kind == MX_SPOT_NONE)
        snprintf(buffer, 48, "NULL");
    else
        snprintf(buffer, 48, "%s + %lld", base[p->kind], (long long)p->number);
    return buffer;
}

static void set_value(const mx_emit *emit, int64_t entry, mx_emit_value *value)
{
    strcpy(value->place, "NULL");
    if (entry < 0)
        return;
    value->shape = &emit->shape[entry];
    value->there = emit->place[emit->root[entry]].kind != MX_SPOT_NONE;
    mx_emit_at(emit, entry, value->place);
}

mx_code mx_emit_call_make(mx_emit *emit, int64_t i, mx_emit_call *call)
{
    const mx_graph *g = emit->graph;
    const mx_gnode *node = g->nodes[i];
    const int64_t *in = g->in_entry + g->in_row[i];
    *call = (mx_emit_call){.name = node->name, .op = node->op, .attrs = node->attrs, .n_in = node->n_in,
                           .n_out = node->n_out, .n_visible = node->n_visible, .y = &emit->shape[g->row[i]],
                           .x = node->n_in && in[0] >= 0 ? &emit->shape[in[0]] : NULL, .scratch = emit->scratch[i],
                           .file = &emit->file};
    mx_emit_value *values = mx_alloc_zero((size_t)(node->n_in + node->n_out) * sizeof *values);
    if (!values)
        return MX_ERR_MEMORY;
    for (int k = 0; k < node->n_in; k++)
        set_value(emit, in[k], &values[k]);
    for (int k = 0; k < node->n_out; k++)
        set_value(emit, g->row[i] + k, &values[node->n_in + k]);
    call->in = values, call->out = values + node->n_in;
    return MX_OK;
}

void mx_emit_call_free(mx_emit_call *call)
{
    mx_free((void *)(uintptr_t)call->in, (size_t)(call->n_in + call->n_out) * sizeof *call->in);
}
