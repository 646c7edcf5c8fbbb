/* Sums over processes.
 *
 *     dense       all-reduce
 *     fp16        cast --> all-reduce --> cast back
 *     2bit, 1bit  codes, packed --> all-gather --> decoded and added in the order of ranks
 *     row_sparse  rows and their indices --> all-gather --> added in the order of ranks
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "gluon/train/dist.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "comm/comm.h"
#include "exec/call.h"
#include "gluon/sparse.h"
#include "ndarray/convert.h"
#include "ndarray/sparse.h"

/* ---- dense --------------------------------------------------------------------------------------------------------- */

static mx_array *sum_dense(mx_comm *comm, mx_array *x)
{
    mx_array *sum = mx_array_copy(x);
    return sum && !mx_comm_all_reduce(comm, sum, MX_SUM) ? sum : NULL;
}

/* x in another type, in new memory. */
static mx_array *cast(mx_array *x, mx_dtype dtype)
{
    const mx_shape_t shape = mx_array_shape(x);
    mx_array *made = mx_scope_add(mx_array_new(&shape, dtype, x->context));
    return made && !mx_array_set(made, x) ? made : NULL;
}

static mx_array *sum_half(mx_comm *comm, mx_array *x)
{
    mx_array *half = x->dtype == MX_FLOAT32 ? cast(x, MX_FLOAT16) : NULL;
    if (x->dtype != MX_FLOAT32)
        return sum_dense(comm, x);
    return half && !mx_comm_all_reduce(comm, half, MX_SUM) ? cast(half, (mx_dtype)x->dtype) : NULL;
}

/* ---- codes --------------------------------------------------------------------------------------------------------- */

/* Bits of code i: 0: zero, 1: plus, 2: minus.  One bit per code: 0: minus, 1: plus. */
static void encode(uint8_t *to, const float *from, int64_t n, int bits)
{
    memset(to, 0, (size_t)((n * bits + 7) / 8));
    for (int64_t i = 0; i < n; i++) {
        const unsigned code = bits == 1 ? from[i] > 0 : from[i] > 0 ? 1 : from[i] < 0 ? 2 : 0;
        to[i * bits / 8] |= (uint8_t)(code << (i * bits % 8));
    }
}

static void add_decoded(float *sum, const uint8_t *codes, int64_t n, int bits, float value)
{
    const float two[4] = {0, value, -value, 0}, one[2] = {-value, value};
    for (int64_t i = 0; i < n; i++) {
        const unsigned code = codes[i * bits / 8] >> (i * bits % 8) & (unsigned)(bits == 1 ? 1 : 3);
        sum[i] += bits == 1 ? one[code] : two[code];
    }
}

/* numbers: (n) -value, 0 or value; replaced by the sum over processes. */
static mx_code sum_codes(mx_comm *comm, float *numbers, int64_t n, int bits, float value)
{
    const int processes = mx_comm_size(comm);
    const int64_t bytes = (n * bits + 7) / 8;
    uint8_t *codes = mx_alloc((size_t)bytes * ((size_t)processes + 1) + 1);
    if (!codes)
        return mx_error_code();
    uint8_t *mine = codes + bytes * processes;
    encode(mine, numbers, n, bits);
    const mx_code code = mx_comm_gather_memory(comm, mine, codes, bytes, NULL, MX_UINT8);
    memset(numbers, 0, (size_t)n * sizeof *numbers);
    for (int r = 0; !code && r < processes; r++)
        add_decoded(numbers, codes + r * bytes, n, bits, value);
    mx_free(codes, (size_t)bytes * ((size_t)processes + 1) + 1);
    return code;
}

static mx_array *sum_compressed(mx_kvstore *store, mx_id key, mx_array *x)
{
    mx_array *sent = NULL;
    if (mx_compress(&store->compression, key, 1, &x, &sent))
        return NULL;
    mx_array *numbers = cast(mx_array_to(sent, mx_cpu(0)), MX_FLOAT32);
    if (!numbers)
        return NULL;
    const bool one = store->compression.kind == MX_COMPRESS_1BIT;
    if (sum_codes(store->comm, mx_data(numbers), numbers->size, one ? 1 : 2,
                  one ? 1 : (float)store->compression.threshold))
        return NULL;
    mx_array_changed(numbers);
    mx_array *typed = numbers->dtype == x->dtype ? numbers : cast(numbers, (mx_dtype)x->dtype);
    return typed ? mx_array_to(typed, x->context) : NULL;
}

/* ---- rows ---------------------------------------------------------------------------------------------------------- */

/* Rows [at, at + n) of a gathered array. */
static mx_array *rows_of(mx_array *all, int64_t at, int64_t n)
{
    mx_shape_t shape = mx_array_shape(all);
    const int64_t row = mx_row_size(all) * mx_dtype_size((mx_dtype)all->dtype);
    shape.dim[0] = n;
    return mx_array_copy(mx_scope_add(mx_array_view(all, at * row, &shape, (mx_dtype)all->dtype)));
}

static mx_array *sum_rows(mx_comm *comm, mx_array *x)
{
    const mx_sparse *s = mx_sparse_of(x);
    const mx_shape_t shape = mx_array_shape(x);
    const int processes = mx_comm_size(comm);
    int64_t stored = s->indices->size, at = 0;
    if (s->stype != MX_ROW_SPARSE)
        return mx_fail_null(MX_ERR_UNSUPPORTED, "kvstore: arrays of type csr cannot be summed over processes");
    int64_t *counts = mx_alloc((size_t)processes * sizeof *counts);
    if (!counts)
        return NULL;
    mx_array *indices = NULL, *data = NULL, *total = NULL;
    if (!mx_comm_gather_memory(comm, &stored, counts, 1, NULL, MX_INT64))
        indices = mx_comm_all_gather(comm, s->indices), data = indices ? mx_comm_all_gather(comm, s->data) : NULL;
    for (int r = 0; data && r < processes; at += counts[r++]) {
        mx_array *part =
            mx_sparse_made(MX_ROW_SPARSE, &shape, rows_of(data, at, counts[r]), rows_of(indices, at, counts[r]), NULL);
        total = !part || !total ? part
                                : mx_call_one(MX_OP("elemwise_add"), NULL, 2, (mx_array *const[]){total, part}, NULL);
        if (!total)
            break;
    }
    mx_free(counts, (size_t)processes * sizeof *counts);
    return total;
}

/* ---- stores -------------------------------------------------------------------------------------------------------- */

mx_array *mx_dist_sum(mx_kvstore *store, mx_id key, mx_array *x)
{
    if (mx_is_sparse(x))
        return sum_rows(store->comm, x);
    switch (store->compression.kind) {
    case MX_COMPRESS_NONE: return sum_dense(store->comm, x);
    case MX_COMPRESS_FP16: return sum_half(store->comm, x);
    default: return sum_compressed(store, key, x);
    }
}

mx_code mx_dist_broadcast(mx_comm *comm, mx_array *x)
{
    if (!mx_is_sparse(x))
        return mx_comm_broadcast(comm, x, 0);
    MX_SCOPE;
    mx_array *dense = mx_tostype(x, MX_STYPE_DEFAULT);
    if (!dense || mx_comm_broadcast(comm, dense, 0))
        return mx_error_code();
    return mx_array_set(x, mx_tostype(dense, mx_sparse_of(x)->stype));
}
