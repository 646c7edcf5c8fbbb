/* Metrics over processes: the tallies of all are merged, in the order of ranks, by every process.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "comm/comm.h"
#include "gluon/metric.h"
#include "gluon/train/learning.h"

enum { NUMBERS = 2 + MX_METRIC_STATE + 1 }; /* of a tally besides its table: sum, count, state, side */

static void write_numbers(const mx_tally *tally, double *numbers)
{
    numbers[0] = tally->sum, numbers[1] = tally->count;
    memcpy(numbers + 2, tally->state, sizeof tally->state);
    numbers[NUMBERS - 1] = (double)tally->side;
}

/* numbers: (size, NUMBERS); tables: (size, side, side), all of one size. */
static mx_code merge_all(const mx_metric *self, mx_tally *tally, const double *numbers, double *tables, int size)
{
    mx_tally sum = {0};
    const int64_t side = tally->side;
    if (mx_tally_grow(&sum, side))
        return mx_error_code();
    for (int r = 0; r < size; r++) {
        mx_tally part = {.sum = numbers[r * NUMBERS], .count = numbers[r * NUMBERS + 1], .side = side,
                         .table = side ? tables + r * side * side : NULL};
        memcpy(part.state, numbers + r * NUMBERS + 2, sizeof part.state);
        mx_tally_merge(self, &sum, &part);
    }
    mx_tally_clear(tally);
    *tally = sum;
    return MX_OK;
}

static mx_code reduce_tally(const mx_metric *self, mx_tally *tally, mx_comm *comm)
{
    const int size = mx_comm_size(comm);
    double mine[NUMBERS];
    double *numbers = mx_alloc((size_t)size * sizeof mine), *tables = NULL;
    size_t bytes = 0;
    write_numbers(tally, mine);
    mx_code code = numbers ? mx_comm_gather_memory(comm, mine, numbers, NUMBERS, NULL, MX_FLOAT64) : mx_error_code();
    for (int r = 0; !code && r < size; r++)
        code = mx_tally_grow(tally, (int64_t)numbers[r * NUMBERS + NUMBERS - 1]);
    const int64_t cells = tally->side * tally->side;
    if (!code && cells) {
        bytes = (size_t)(cells * size) * sizeof *tables;
        tables = mx_alloc(bytes);
        code = tables ? mx_comm_gather_memory(comm, tally->table, tables, cells, NULL, MX_FLOAT64) : mx_error_code();
    }
    if (!code)
        code = merge_all(self, tally, numbers, tables, size);
    mx_free(tables, bytes);
    mx_free(numbers, (size_t)size * sizeof mine);
    return code;
}

mx_code mx_metric_reduce(mx_metric *self)
{
    mx_comm *comm = mx_is_kind(self, &mx_metric_kind, "mx_metric_reduce", "metric") ? mx_comm_world() : NULL;
    if (!comm)
        return mx_error_code();
    if (mx_comm_alone(comm))
        return MX_OK;
    for (int i = 0; i < self->n_children; i++)
        if (mx_metric_reduce(self->children[i]))
            return mx_error_code();
    return reduce_tally(self, &self->local, comm) ? mx_error_code() : reduce_tally(self, &self->global, comm);
}
