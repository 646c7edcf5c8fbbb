/* gather_nd, its adjoint, scatter_nd, _scatter_set_nd, index_copy and boolean_mask on the CPU.
 *
 * Several indices become one, the number of the block they name.  The rest is copying or adding rows.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "cpu/kernel.h"
#include "cpu/kernels/index/indices.h"

/* Block numbers of the positions that `indices` (M, K...) names in `whole`, (K); NULL with an error. Fills in *rows. */
static int64_t *load_places(const mx_op *op, const mx_array *indices, const mx_array *whole, mx_rows *rows)
{
    const int64_t m = indices->shape[0];
    int64_t places = 1, blocks = 1, after = 1;
    for (int i = 1; i < indices->ndim; i++)
        places *= indices->shape[i];
    for (int i = 0; i < whole->ndim; i++)
        *(i < m ? &blocks : &after) *= whole->shape[i];
    int64_t *index = mx_load_indices(indices), *place = mx_scratch_take_zero((size_t)places * sizeof *place);
    bool ok = index && place;
    for (int64_t i = 0; ok && i < m; i++) {
        ok = !mx_settle_indices(op, index + i * places, places, whole->shape[i], MX_INDEX_RAISE);
        for (int64_t k = 0; ok && k < places; k++)
            place[k] = place[k] * whole->shape[i] + index[i * places + k];
    }
    mx_free_indices(index, indices);
    *rows = (mx_rows){1, places, blocks, after, place, (mx_dtype)whole->dtype};
    if (ok)
        return place;
    mx_scratch_give(place, (size_t)places * sizeof *place);
    return NULL;
}

static void free_places(int64_t *place, const mx_rows *rows)
{
    mx_scratch_give(place, (size_t)rows->n * sizeof *place);
}

static mx_code run_gather(const mx_kernel_call *call)
{
    mx_rows rows;
    int64_t *place = load_places(call->op, call->in[1], call->in[0], &rows);
    if (!place)
        return mx_error_code();
    mx_cpu_take_rows(&rows, mx_data(call->out[0]), mx_data(call->in[0]));
    free_places(place, &rows);
    return MX_OK;
}

static mx_code run_gather_back(const mx_kernel_call *call)
{
    mx_rows rows;
    int64_t *place = load_places(call->op, call->in[1], call->out[0], &rows);
    if (!place)
        return mx_error_code();
    mx_code code = mx_cpu_add_rows(&rows, mx_data(call->out[0]), mx_data(call->in[0]));
    free_places(place, &rows);
    return code;
}

static mx_code run_scatter(const mx_kernel_call *call)
{
    mx_rows rows;
    int64_t *place = load_places(call->op, call->in[1], call->out[0], &rows);
    if (!place)
        return mx_error_code();
    memset(mx_data(call->out[0]), 0, mx_bytes(call->out[0]));
    mx_cpu_put_rows(&rows, mx_data(call->out[0]), mx_data(call->in[0]));
    free_places(place, &rows);
    return MX_OK;
}

/* out = start, then rows of data are written into it; out may be `start` itself or share memory with `data`. */
static mx_code put_into(const mx_kernel_call *call, const mx_array *start, const mx_array *data, const mx_rows *rows)
{
    mx_array *out = call->out[0];
    const void *from = mx_data(data);
    char *copy = NULL;
    if (data->size && mx_array_overlap(data, out)) {
        copy = mx_scratch_take(mx_bytes(data));
        if (!copy)
            return MX_ERR_MEMORY;
        from = memcpy(copy, from, mx_bytes(data));
    }
    if (mx_data(out) != mx_data(start))
        memcpy(mx_data(out), mx_data(start), mx_bytes(out));
    mx_cpu_put_rows(rows, mx_data(out), from);
    mx_scratch_give(copy, mx_bytes(data));
    return MX_OK;
}

static mx_code run_set(const mx_kernel_call *call)
{
    mx_rows rows;
    int64_t *place = load_places(call->op, call->in[2], call->out[0], &rows);
    if (!place)
        return mx_error_code();
    mx_code code = put_into(call, call->in[0], call->in[1], &rows);
    free_places(place, &rows);
    return code;
}

static mx_code run_index_copy(const mx_kernel_call *call)
{
    const mx_array *old = call->in[0], *vector = call->in[1];
    int64_t *index = mx_load_indices(vector);
    if (!index)
        return MX_ERR_MEMORY;
    mx_code code = mx_settle_indices(call->op, index, vector->size, old->shape[0], MX_INDEX_RAISE);
    mx_rows rows = {1,     vector->size,        old->shape[0], old->shape[0] ? old->size / old->shape[0] : 0,
                    index, (mx_dtype)old->dtype};
    if (!code)
        code = put_into(call, old, call->in[2], &rows);
    mx_free_indices(index, vector);
    return code;
}

/* ---- boolean_mask --------------------------------------------------------------------------------------------- */

/* Numbers of the rows whose mask is not zero; *count of them. Freed with mask->size. */
static int64_t *load_mask(const mx_array *mask, int64_t *count)
{
    const size_t n = (size_t)mask->size;
    int64_t *index = mx_scratch_take(n * sizeof *index);
    bool *set = mx_scratch_take(n);
    *count = 0;
    if (index && set) {
        mx_convert(set, MX_BOOL, mx_data(mask), (mx_dtype)mask->dtype, mask->size);
        for (int64_t i = 0; i < mask->size; i++)
            if (set[i])
                index[(*count)++] = i;
    }
    mx_scratch_give(set, n);
    if (set)
        return index;
    mx_scratch_give(index, n * sizeof *index);
    return NULL;
}

static mx_code run_mask(const mx_kernel_call *call, const mx_array *whole, const mx_array *part, bool back)
{
    const mx_array *mask = call->in[1];
    int64_t count, *index = load_mask(mask, &count);
    mx_code code = MX_OK;
    if (!index)
        return MX_ERR_MEMORY;
    const int64_t n = whole->shape[0];
    mx_rows rows = {1, count, n, n ? whole->size / n : 0, index, (mx_dtype)whole->dtype};
    if (part->shape[0] != count)
        code = mx_op_fail(call->op, MX_ERR_SHAPE, "index selects %lld rows, but there are %lld", (long long)count,
                          (long long)part->shape[0]);
    else if (!back)
        mx_cpu_take_rows(&rows, mx_data(part), mx_data(whole));
    else {
        memset(mx_data(whole), 0, mx_bytes(whole));
        mx_cpu_put_rows(&rows, mx_data(whole), mx_data(part));
    }
    mx_free_indices(index, mask);
    return code;
}
static mx_code run_boolean_mask(const mx_kernel_call *call) { return run_mask(call, call->in[0], call->out[0], false); }
static mx_code run_boolean_unmask(const mx_kernel_call *call)
{
    return run_mask(call, call->out[0], call->in[0], true);
}

MX_CPU_KERNELS(gather) = {
    {"gather_nd", run_gather, NULL},
    {"_backward_gather_nd", run_gather_back, NULL},
    {"scatter_nd", run_scatter, NULL},
    {"_scatter_set_nd", run_set, NULL},
    {"_contrib_index_copy", run_index_copy, NULL},
    {"_contrib_boolean_mask", run_boolean_mask, NULL},
    {"_backward_boolean_mask", run_boolean_unmask, NULL},
    {NULL, NULL, NULL},
};
