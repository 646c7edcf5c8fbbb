/* The memory of a network that is written as C.
 *
 * Values get memory in the order in which they are computed, in the first gap of the arena that is large enough; memory
 * is freed after the last call that reads it.  Outputs are written directly to the caller's array if possible.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "base/vec.h"
#include "gluon/emit/emit.h"

#define ALIGNMENT 16 /* elements: one cache line */

typedef struct block {
    int64_t begin, end; /* elements of the arena */
    int64_t last;       /* node that reads it last */
} block;
typedef MX_VEC(block) blocks; /* by begin; they do not overlap */

/* last (entries): the last node that reads a root; graph->n: it is read at the end. */
static void find_last(const mx_emit *emit, int64_t *last)
{
    const mx_graph *g = emit->graph;
    for (int64_t i = 0; i < g->n; i++)
        for (int64_t k = g->in_row[i]; k < g->in_row[i + 1]; k++)
            if (g->in_entry[k] >= 0)
                last[emit->root[g->in_entry[k]]] = i;
    for (int64_t h = 0; h < g->n_results; h++)
        last[emit->root[g->results[h]]] = g->n;
}

static void drop_dead(blocks *live, int64_t now)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < live->length; i++)
        if (live->items[i].last >= now)
            live->items[kept++] = live->items[i];
    live->length = kept;
}

static mx_code take_gap(blocks *live, int64_t size, int64_t last, int64_t *begin)
{
    const int64_t wanted = (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    int64_t at = 0, slot = 0;
    for (; slot < live->length && live->items[slot].begin - at < wanted; slot++)
        at = live->items[slot].end;
    if (!mx_vec_push(live, ((block){0})))
        return MX_ERR_MEMORY;
    for (int64_t i = live->length - 1; i > slot; i--)
        live->items[i] = live->items[i - 1];
    live->items[slot] = (block){at, at + wanted, last};
    *begin = at;
    return MX_OK;
}

/* The call's scratch. */
static mx_code place_scratch(mx_emit *emit, blocks *live, int64_t i)
{
    const mx_graph *g = emit->graph;
    const mx_emission *emission = mx_emission_of(g->nodes[i]->op);
    bool needed = false;
    for (int64_t e = g->row[i]; e < g->row[i + 1]; e++)
        needed |= emit->needed[e];
    if (!needed || !emission || !emission->scratch)
        return MX_OK;
    mx_emit_call call;
    mx_code code = mx_emit_call_make(emit, i, &call);
    const int64_t size = code ? 0 : emission->scratch(&call);
    mx_emit_call_free(&call);
    if (code)
        return code;
    if (take_gap(live, size, i, &emit->scratch[i]))
        return MX_ERR_MEMORY;
    const int64_t end = emit->scratch[i] + size;
    emit->arena = end > emit->arena ? end : emit->arena;
    return MX_OK;
}

static mx_code place_node(mx_emit *emit, blocks *live, const int64_t *last, int64_t i)
{
    const mx_graph *g = emit->graph;
    drop_dead(live, i);
    for (int64_t entry = g->row[i]; entry < g->row[i + 1]; entry++) {
        mx_spot *p = &emit->place[entry];
        if (emit->root[entry] != entry || p->kind != MX_SPOT_NONE || !emit->needed[entry])
            continue;
        if (take_gap(live, mx_shape_size(&emit->shape[entry]), last[entry] < i ? i : last[entry], &p->number))
            return MX_ERR_MEMORY;
        p->kind = MX_SPOT_ARENA;
        const int64_t end = p->number + mx_shape_size(&emit->shape[entry]);
        emit->arena = end > emit->arena ? end : emit->arena;
    }
    return place_scratch(emit, live, i);
}

mx_code mx_emit_place(mx_emit *emit)
{
    const mx_graph *g = emit->graph;
    const size_t bytes = (size_t)g->row[g->n] * sizeof(int64_t);
    int64_t *last = mx_alloc_zero(bytes);
    blocks live = {0};
    if (!last)
        return MX_ERR_MEMORY;
    find_last(emit, last);
    for (int64_t h = 0; h < g->n_results; h++) { /* the first result with this memory is written in place */
        mx_spot *p = &emit->place[emit->root[g->results[h]]];
        if (p->kind == MX_SPOT_NONE)
            *p = (mx_spot){MX_SPOT_OUTPUT, emit->outputs};
        emit->outputs += mx_shape_size(&emit->shape[g->results[h]]);
    }
    mx_code code = MX_OK;
    for (int64_t i = 0; !code && i < g->n; i++)
        if (g->nodes[i]->op)
            code = place_node(emit, &live, last, i);
    mx_vec_free(&live);
    mx_free(last, bytes);
    return code;
}
