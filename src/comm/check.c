/* Comparing exchanges before they run (see check.h).
 *
 * Each process sends a description of fixed size; one that differs is reported with both sides, by every process, where
 * MPI would wait forever or mix the elements of different arrays.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "comm/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

typedef struct mx_header {
    int64_t kind, count, dtype, how, root, number;
} mx_header;

const char *mx_comm_describe(const mx_exchange *what, char *text, size_t room)
{
    static const char *const names[] = {"all_reduce", "broadcast", "all_gather", "reduce_scatter", "all_to_all"};
    static const char *const reductions[] = {"sum", "mean", "min", "max", "product"};
    const char *type = mx_dtype_name(what->dtype);
    if (what->kind == MX_EXCHANGE_BARRIER)
        snprintf(text, room, "barrier");
    else if (what->kind == MX_EXCHANGE_BROADCAST)
        snprintf(text, room, "broadcast of %lld %s from rank %d", (long long)what->count, type, what->root);
    else if (what->kind == MX_EXCHANGE_ALL_REDUCE || what->kind == MX_EXCHANGE_REDUCE_SCATTER)
        snprintf(text, room, "%s of %lld %s (%s)", names[what->kind], (long long)what->count, type,
                 reductions[what->how]);
    else
        snprintf(text, room, "%s of %lld %s", names[what->kind], (long long)what->count, type);
    return text;
}

static mx_header header_of(const mx_work *work)
{
    const mx_exchange *x = &work->what;
    /* Parts of different sizes may differ between processes, too. */
    return (mx_header){x->kind, x->counts ? 0 : x->count, x->dtype, x->how, x->root,
                       work->number};
}

mx_code mx_comm_check_start(mx_work *work, const mx_transport *transport)
{
    work->heads = malloc(((size_t)transport->size + 1) * sizeof *work->heads);
    if (!work->heads)
        return mx_fail(MX_ERR_MEMORY, "checking mode: out of memory");
    mx_header *mine = &work->heads[transport->size];
    *mine = header_of(work);
    const mx_exchange gather = {.kind = MX_EXCHANGE_ALL_GATHER, .channel = work->what.channel, .from = mine,
                                .to = work->heads, .count = sizeof *mine / sizeof(int64_t), .dtype = MX_INT64};
    return transport->start(&gather, &work->request);
}

static const char *describe_header(const mx_header *h, char *text, size_t room)
{
    const mx_exchange what = {.kind = (mx_exchange_kind)h->kind, .count = h->count, .dtype = (mx_dtype)h->dtype,
                              .how = (mx_reduction)h->how, .root = (int)h->root};
    return mx_comm_describe(&what, text, room);
}

mx_code mx_comm_check_compare(mx_work *work, const mx_transport *transport)
{
    char a[256], b[256];
    const mx_header *heads = work->heads;
    for (int r = 1; r < transport->size; r++)
        if (memcmp(&heads[r], &heads[0], sizeof *heads))
            return mx_fail(MX_ERR_COMM, "processes differ in exchange %lld: rank 0 calls %s, rank %d calls %s",
                           (long long)work->number, describe_header(&heads[0], a, sizeof a), r,
                           describe_header(&heads[r], b, sizeof b));
    mx_comm_check_free(work);
    return MX_OK;
}

void mx_comm_check_free(mx_work *work)
{
    free(work->heads);
    work->heads = NULL;
}
