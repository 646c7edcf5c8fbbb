/* _rows_sum, the operator behind sparse arrays, and the grouping that prepares its inputs.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "op/formula/sparse.h"

#include "base/alloc.h"
#include "base/error.h"
#include "ndarray/convert.h"

/* ---- groups: a radix sort of places by key ----------------------------------------------------------------------- */

#define DIGIT 11 /* bits per round */

void mx_groups_free(mx_groups *groups)
{
    const size_t bytes = (size_t)groups->n * sizeof(int64_t);
    mx_free(groups->order, bytes);
    mx_free(groups->unique, bytes);
    mx_free(groups->start, bytes + sizeof(int64_t));
    *groups = (mx_groups){0};
}

static int64_t clipped(int64_t key, int64_t limit) { return key < 0 ? 0 : key >= limit ? limit - 1 : key; }

/* One round: `to` holds the places of `from` in the order of one digit of their keys. */
static void sort_digit(const int64_t *key, int64_t n, int64_t limit, int shift, const int64_t *from, int64_t *to)
{
    int64_t count[(1 << DIGIT) + 1] = {0};
    const int64_t mask = (1 << DIGIT) - 1;
    for (int64_t i = 0; i < n; i++)
        count[(clipped(key[i], limit) >> shift & mask) + 1]++;
    for (int64_t i = 0; i < mask; i++)
        count[i + 1] += count[i];
    for (int64_t i = 0; i < n; i++)
        to[count[clipped(key[from[i]], limit) >> shift & mask]++] = from[i];
}

static void find_groups(mx_groups *groups, const int64_t *key, int64_t limit)
{
    for (int64_t i = 0; i < groups->n; i++) {
        const int64_t k = clipped(key[groups->order[i]], limit);
        if (groups->count && groups->unique[groups->count - 1] == k)
            continue;
        groups->start[groups->count] = i;
        groups->unique[groups->count++] = k;
    }
    groups->start[groups->count] = groups->n;
}

mx_code mx_groups_make(mx_groups *groups, const int64_t *key, int64_t n, int64_t limit)
{
    const size_t bytes = (size_t)n * sizeof(int64_t);
    *groups = (mx_groups){n, 0, mx_alloc(bytes), mx_alloc(bytes), mx_alloc(bytes + sizeof(int64_t))};
    if (!groups->order || !groups->unique || !groups->start) {
        mx_groups_free(groups);
        return mx_error_code();
    }
    for (int64_t i = 0; i < n; i++)
        groups->order[i] = i;
    for (int shift = 0; n > 1 && shift < 63 && (limit - 1) >> shift; shift += DIGIT) {
        sort_digit(key, n, limit, shift, groups->order, groups->unique); /* unique is not used before the end */
        int64_t *sorted = groups->unique;
        groups->unique = groups->order, groups->order = sorted;
    }
    find_groups(groups, key, limit);
    return MX_OK;
}

/* ---- row_sparse from rows ---------------------------------------------------------------------------------------- */

mx_array *mx_g_rows_sum(mx_array *data, mx_array *row, mx_array *start, mx_array *factor)
{
    return mx_g_call(MX_OP("_rows_sum"), NULL, 4, (mx_array *const[]){data, row, start, factor});
}

/* Elements of any type as int64 in host memory, (x->size); NULL with an error. */
static int64_t *load_ids(const mx_array *x)
{
    const size_t bytes = (size_t)x->size * sizeof(int64_t);
    int64_t *ids = mx_alloc(bytes);
    void *raw = ids ? mx_alloc(mx_bytes(x)) : NULL;
    const bool read = raw && !mx_array_read(x, raw, mx_bytes(x));
    if (read)
        mx_convert(ids, MX_INT64, raw, (mx_dtype)x->dtype, x->size);
    mx_free(raw, mx_bytes(x));
    if (!read) {
        mx_free(ids, bytes);
        ids = NULL;
    }
    return ids;
}

mx_array *mx_g_row_sparse(mx_array *ids, mx_array *g, const mx_shape_t *shape)
{
    if (!ids || !g)
        return NULL;
    const int64_t n = ids->size;
    mx_shape_t rows = *shape;
    rows.dim[0] = n;
    int64_t *key = load_ids(ids);
    mx_groups groups;
    mx_code code = key ? mx_groups_make(&groups, key, n, shape->dim[0]) : mx_error_code();
    mx_free(key, (size_t)n * sizeof *key);
    if (code)
        return NULL;
    mx_array *order = mx_numbers64_array(groups.order, n, g->context);
    mx_array *start = mx_numbers64_array(groups.start, groups.count + 1, g->context);
    mx_array *unique = mx_numbers64_array(groups.unique, groups.count, g->context);
    mx_groups_free(&groups);
    if (!order || !start || !unique)
        return NULL;
    return mx_sparse_made(MX_ROW_SPARSE, shape, mx_g_rows_sum(mx_g_reshape(g, &rows), order, start, MX_NONE), unique,
                          NULL);
}

/* ---- _rows_sum --------------------------------------------------------------------------------------------------- */
/* data (m, ...), row (n), start (r + 1), factor (n) -> (r, ...) */

static mx_code one_axis(mx_infer *infer, int i, const char *name)
{
    char text[MX_SHAPE_TEXT];
    if (infer->in[i].ndim < 0 || infer->in[i].ndim == 1)
        return MX_OK;
    return mx_op_fail(infer->op, MX_ERR_SHAPE, "%s has shape %s, wanted one axis", name,
                      mx_shape_text(&infer->in[i], text));
}

static mx_code infer_rows_sum(mx_infer *infer)
{
    mx_shape_t out = infer->in[0];
    if (out.ndim == 0)
        return mx_op_fail(infer->op, MX_ERR_SHAPE, "data has shape (), wanted rows");
    if (one_axis(infer, 1, "row") || one_axis(infer, 2, "start") || one_axis(infer, 3, "factor"))
        return mx_error_code();
    if (infer->in[3].ndim == 1 && mx_infer_in(infer, 3, &infer->in[1]))
        return mx_error_code();
    if (infer->in[2].ndim == 1 && infer->in[2].dim[0] == 0)
        return mx_op_fail(infer->op, MX_ERR_SHAPE, "start is empty, wanted one more element than there are results");
    if (out.ndim < 0 || infer->in[2].ndim < 0)
        return MX_OK;
    out.dim[0] = infer->in[2].dim[0] < 0 ? -1 : infer->in[2].dim[0] - 1;
    return mx_infer_out(infer, 0, &out);
}

static mx_code infer_rows_sum_type(mx_infer *infer)
{
    if (mx_infer_out_type(infer, 0, infer->in_type[0]))
        return mx_error_code();
    return infer->in_type[3] == MX_DTYPE_NONE ? MX_OK : mx_infer_in_type(infer, 3, infer->in_type[0]);
}

static void ref_rows_sum(const mx_reference_call *call)
{
    const int64_t rows = call->out_shape[0].dim[0], m = call->in_shape[0].dim[0];
    const int64_t run = m ? mx_shape_size(&call->in_shape[0]) / m : 0;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t c = 0; c < run; c++) {
            double sum = 0;
            for (int64_t k = (int64_t)call->in[2][i]; k < (int64_t)call->in[2][i + 1]; k++)
                sum += (call->n_in > 3 && call->in[3] ? call->in[3][k] : 1) *
                       call->in[0][(int64_t)call->in[1][k] * run + c];
            call->out[0][i * run + c] = sum;
        }
}

// clang-format off
mx_op mx_family_sparse[] = {
    {.name = "_rows_sum", .doc = "weighted sums of rows of data: result i sums entries start[i] to start[i + 1] of row and factor",
     .inputs = "data row start factor?", .flags = MX_OP_HIDDEN | MX_OP_NO_GRADIENT,
     .infer_shape = infer_rows_sum, .infer_type = infer_rows_sum_type, .reference = ref_rows_sum,
     .samples = (const mx_sample[]){{"4,3;5;5", "", 0, 4, "int:1 int:2 absent:3"},
         {"3,2,2;4;6;4", "", 0, 3, "int:1 int:2"}, {"5;6;4;6", "", 0, 5, "int:1 int:2"},
         {"6,40;9;7;9", "", 0, 6, "int:1 int:2"}, {"4,3;0;3", "", 0, 1, "int:1 int:2 absent:3"}, {0}}},
    {0},
};
// clang-format on
