/* Reductions: which loop, over which runs, on which threads.
 *
 * Adjacent axes that are both folded or both kept become one, so the input is a few groups, outermost first.  If the
 * last group is folded, each result is made of contiguous runs; if it is kept, rows of it are joined column by column:
 *
 *     kept  folded            one run per result
 *     folded kept             rows of all results; the rows are split into chunks if there are many
 *     kept folded kept ...    the same for each position of the outer groups
 *
 * Chunks have a fixed size, so that results do not depend on the number of threads.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/scratch.h"
#include "base/error.h"
#include "base/threads.h"
#include "cpu/kernel.h"
#include "cpu/kernels/convert_level.h"
#include "cpu/kernels/reduce/reduce_loops.h"
#include "gluon/op.gen.h"

#define TILE 1024     /* elements converted at a time */
#define COLUMNS 256   /* results computed at a time */
#define WIDE 64       /* columns that keep the vectors busy */
#define CHUNK 65536   /* elements of a run that one thread folds at least */
#define FEW 64        /* with fewer results than this a long run is split into chunks */

typedef union total { double d; int64_t i; } total;

typedef struct group { int64_t dim, step; } group;

typedef struct fold_job {
    const mx_fold_loops *loops;
    mx_dtype compute, total_type, in_type, out_type;
    const char *in;
    char *out;
    int64_t in_item, out_item;
    int kept, folded; /* outer groups of either kind */
    group keep[MX_MAX_NDIM], fold[MX_MAX_NDIM];
    int64_t outer_kept, outer_folded; /* products of the outer groups */
    int64_t rows, columns;            /* columns == 0: the last group is folded, a run of `rows` elements */
    int64_t count;                    /* elements per result */
    int64_t chunks, chunk;            /* pieces of a run or of the rows; their length */
    total *parts;                     /* (chunks, results) when chunks > 1 */
} fold_job;

static int64_t offset_of(const group *groups, int n, int64_t index)
{
    int64_t offset = 0;
    for (int i = n - 1; i >= 0; index /= groups[i].dim, i--)
        offset += index % groups[i].dim * groups[i].step;
    return offset;
}

/* ---- elements of the compute type, or converted in tiles ------------------------------------------------------- */

static void fold_run(const fold_job *j, int64_t offset, int64_t n, total *into)
{
    const char *x = j->in + offset * j->in_item;
    double tile[TILE];
    if (j->in_type == j->compute) {
        j->loops->runs(x, n, 1, into);
        return;
    }
    for (int64_t at = 0; at < n; at += TILE) {
        const int64_t count = n - at < TILE ? n - at : TILE;
        mx_convert_fast(tile, j->compute, x + at * j->in_item, j->in_type, count);
        j->loops->runs(tile, count, 1, into);
    }
}

/* Too few columns for vectors: `many` rows are folded as one wide row, whose parts are then merged. */
static void fold_narrow(const fold_job *j, const char *x, int64_t rows, total *into)
{
    const int64_t columns = j->columns, many = WIDE / columns, wide_rows = rows / many;
    total wide[WIDE];
    j->loops->start(wide, many * columns);
    j->loops->rows(x, many * columns, wide_rows, many * columns, wide);
    j->loops->rows(x + wide_rows * many * columns * j->in_item, columns, rows % many, columns, into);
    for (int64_t k = 0; k < many; k++)
        j->loops->merge(wide + k * columns, columns, into);
}

/* Rows are j->columns apart; n of their elements are folded. */
static void fold_rows(const fold_job *j, int64_t offset, int64_t rows, int64_t n, total *into)
{
    const char *x = j->in + offset * j->in_item;
    double tile[TILE];
    if (j->in_type == j->compute) {
        if (n == j->columns && n <= WIDE / 2 && rows >= WIDE)
            fold_narrow(j, x, rows, into);
        else
            j->loops->rows(x, j->columns, rows, n, into);
        return;
    }
    for (int64_t at = 0; at < n; at += TILE)
        for (int64_t r = 0; r < rows; r++) {
            const int64_t count = n - at < TILE ? n - at : TILE;
            mx_convert_fast(tile, j->compute, x + (r * j->columns + at) * j->in_item, j->in_type, count);
            j->loops->rows(tile, 0, 1, count, into + at);
        }
}

static void put(const fold_job *j, total *totals, int64_t at, int64_t n)
{
    j->loops->finish(totals, n, j->count);
    mx_convert_fast(j->out + at * j->out_item, j->out_type, totals, j->total_type, n);
}

/* ---- parallel bodies ------------------------------------------------------------------------------------------- */

/* Results [begin, end), each made of one run per position of the outer folded groups. */
static void runs_part(void *arg, int64_t begin, int64_t end)
{
    const fold_job *j = arg;
    const bool neighbours = j->folded == 0 && j->kept <= 1 && j->in_type == j->compute; /* the runs are contiguous */
    total totals[COLUMNS];
    for (int64_t at = begin; at < end; at += COLUMNS) {
        const int64_t n = end - at < COLUMNS ? end - at : COLUMNS;
        j->loops->start(totals, n);
        if (neighbours) {
            j->loops->runs(j->in + at * j->rows * j->in_item, j->rows, n, totals);
            put(j, totals, at, n);
            continue;
        }
        for (int64_t k = 0; k < n; k++) {
            const int64_t base = offset_of(j->keep, j->kept, at + k);
            for (int64_t f = 0; f < j->outer_folded; f++)
                fold_run(j, base + offset_of(j->fold, j->folded, f), j->rows, &totals[k]);
        }
        put(j, totals, at, n);
    }
}

/* Pieces of runs: unit = result * chunks + chunk. */
static void run_chunks_part(void *arg, int64_t begin, int64_t end)
{
    const fold_job *j = arg;
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t result = unit / j->chunks, at = unit % j->chunks * j->chunk;
        const int64_t n = j->rows - at < j->chunk ? j->rows - at : j->chunk;
        j->loops->start(&j->parts[unit], 1);
        fold_run(j, offset_of(j->keep, j->kept, result) + at, n, &j->parts[unit]);
    }
}

/* Strips of columns: unit = outer position * strips + strip. */
static void rows_part(void *arg, int64_t begin, int64_t end)
{
    const fold_job *j = arg;
    const int64_t strips = (j->columns + COLUMNS - 1) / COLUMNS;
    total totals[COLUMNS];
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t outer = unit / strips, at = unit % strips * COLUMNS;
        const int64_t n = j->columns - at < COLUMNS ? j->columns - at : COLUMNS;
        const int64_t base = offset_of(j->keep, j->kept, outer) + at;
        j->loops->start(totals, n);
        for (int64_t f = 0; f < j->outer_folded; f++)
            fold_rows(j, base + offset_of(j->fold, j->folded, f), j->rows, n, totals);
        put(j, totals, outer * j->columns + at, n);
    }
}

/* Chunks of rows, all columns: for folded-kept inputs. */
static void row_chunks_part(void *arg, int64_t begin, int64_t end)
{
    const fold_job *j = arg;
    for (int64_t c = begin; c < end; c++) {
        const int64_t at = c * j->chunk, rows = j->rows - at < j->chunk ? j->rows - at : j->chunk;
        j->loops->start(j->parts + c * j->columns, j->columns);
        fold_rows(j, at * j->columns, rows, j->columns, j->parts + c * j->columns);
    }
}

/* ---- plan ------------------------------------------------------------------------------------------------------ */

static void add_outer(fold_job *j, bool folded, int64_t dim, int64_t step)
{
    if (folded) {
        j->fold[j->folded++] = (group){dim, step};
        j->outer_folded *= dim;
    } else {
        j->keep[j->kept++] = (group){dim, step};
        j->outer_kept *= dim;
    }
}

/* Groups of axes; the last ones become rows and columns. */
static void make_plan(fold_job *j, const mx_array *in, int mask)
{
    int64_t dim[MX_MAX_NDIM + 1];
    bool folded[MX_MAX_NDIM + 1];
    int n = 0;
    for (int axis = 0; axis < in->ndim; axis++) {
        const bool is_folded = mask >> axis & 1;
        if (in->shape[axis] == 1)
            continue;
        if (n && folded[n - 1] == is_folded)
            dim[n - 1] *= in->shape[axis];
        else
            dim[n] = in->shape[axis], folded[n++] = is_folded;
    }
    j->outer_kept = j->outer_folded = j->rows = 1;
    int64_t step = 1;
    if (n && !folded[n - 1])
        step = j->columns = dim[--n];
    if (n && folded[n - 1])
        step *= j->rows = dim[--n];
    int64_t steps[MX_MAX_NDIM + 1];
    for (int i = n - 1; i >= 0; step *= dim[i], i--)
        steps[i] = step;
    for (int i = 0; i < n; i++)
        add_outer(j, folded[i], dim[i], steps[i]);
    j->count = j->rows * j->outer_folded;
}

/* ---- running --------------------------------------------------------------------------------------------------- */

static void merge_parts(const fold_job *j, total *totals, const total *parts, int64_t pieces, int64_t columns)
{
    j->loops->start(totals, columns);
    for (int64_t c = 0; c < pieces; c++)
        j->loops->merge(parts + c * columns, columns, totals);
}

static mx_code run_in_chunks(fold_job *j, int64_t results)
{
    j->parts = mx_scratch_take((size_t)(j->chunks + 1) * (size_t)results * sizeof *j->parts);
    if (!j->parts)
        return mx_error_code();
    total *totals = j->parts + j->chunks * results;
    if (j->columns) {
        mx_parallel(j->chunks, 1, row_chunks_part, j);
        merge_parts(j, totals, j->parts, j->chunks, results);
    } else {
        mx_parallel(j->chunks * results, 1, run_chunks_part, j);
        for (int64_t k = 0; k < results; k++)
            merge_parts(j, totals + k, j->parts + k * j->chunks, j->chunks, 1);
    }
    put(j, totals, 0, results);
    mx_scratch_give(j->parts, (size_t)(j->chunks + 1) * (size_t)results * sizeof *j->parts);
    return MX_OK;
}

static int64_t grain_of(int64_t work_per_unit)
{
    return work_per_unit >= MX_GRAIN ? 1 : MX_GRAIN / (work_per_unit > 0 ? work_per_unit : 1);
}

static mx_code run_columns(fold_job *j)
{
    const bool simple = j->outer_kept == 1 && j->outer_folded == 1;
    if (simple && j->columns < 8 * COLUMNS && j->rows * j->columns > 2 * CHUNK) {
        j->chunk = CHUNK / j->columns;
        j->chunks = (j->rows + j->chunk - 1) / j->chunk;
        return run_in_chunks(j, j->columns);
    }
    const int64_t strips = (j->columns + COLUMNS - 1) / COLUMNS;
    const int64_t width = j->columns < COLUMNS ? j->columns : COLUMNS;
    mx_parallel(j->outer_kept * strips, grain_of(j->count * width), rows_part, j);
    return MX_OK;
}

static mx_code run_runs(fold_job *j)
{
    if (j->outer_folded == 1 && j->outer_kept < FEW && j->rows > 2 * CHUNK) {
        j->chunk = CHUNK;
        j->chunks = (j->rows + CHUNK - 1) / CHUNK;
        return run_in_chunks(j, j->outer_kept);
    }
    mx_parallel(j->outer_kept, grain_of(j->count), runs_part, j);
    return MX_OK;
}

mx_code mx_fold_array(const mx_op *op, mx_fold fold, const mx_array *in, int mask, mx_array *out)
{
    fold_job j = {
        .in = mx_data(in), .out = mx_data(out), .in_type = (mx_dtype)in->dtype, .out_type = (mx_dtype)out->dtype};
    j.in_item = mx_dtype_size(j.in_type), j.out_item = mx_dtype_size(j.out_type);
    const bool is_float = mx_dtype_is_float(in->dtype),
               wide = in->dtype == MX_FLOAT64 || (!is_float && mx_dtype_is_float(out->dtype));
    j.compute = wide ? MX_FLOAT64 : is_float ? MX_FLOAT32 : MX_INT64;
    j.total_type = j.compute == MX_INT64 ? MX_INT64 : MX_FLOAT64;
    j.loops = (wide ? mx_fold_f64 : is_float ? mx_fold_f32 : mx_fold_i64) + fold;
    if (!out->size)
        return MX_OK;
    make_plan(&j, in, mask);
    if (!j.count && MX_FOLD_HAS_NO_EMPTY(fold))
        return mx_op_fail(op, MX_ERR_SHAPE, "an axis of size 0 has no %s", fold == MX_FOLD_MAX ? "maximum" : "minimum");
    return j.columns ? run_columns(&j) : run_runs(&j);
}

/* ---- entries --------------------------------------------------------------------------------------------------- */

static mx_shape_t shape_of(const mx_array *x)
{
    mx_shape_t shape = {.ndim = x->ndim};
    for (int i = 0; i < x->ndim; i++)
        shape.dim[i] = x->shape[i];
    return shape;
}

static mx_code run_reduce(const mx_kernel_call *call)
{
    const mx_reduce_attrs *attrs = call->attrs;
    const int mask = mx_fold_axes(call->op, &attrs->axis, attrs->exclude, call->in[0]->ndim);
    const int fold = *(const int *)call->op->user;
    if (mask < 0)
        return mx_error_code();
    if ((fold == MX_FOLD_SUM || fold == MX_FOLD_MEAN) && call->in[0]->size == call->out[0]->size &&
        call->in[0]->dtype == call->out[0]->dtype) { /* of one element: -0 stays, as in plans, where it is a reshape */
        memmove(mx_data(call->out[0]), mx_data(call->in[0]), mx_bytes(call->in[0]));
        return MX_OK;
    }
    return mx_fold_array(call->op, fold, call->in[0], mask, call->out[0]);
}

static mx_code run_sum_to(const mx_kernel_call *call)
{
    const mx_shape_t in = shape_of(call->in[0]), out = shape_of(call->out[0]);
    return mx_fold_array(call->op, MX_FOLD_SUM, call->in[0], mx_broadcast_axes(&in, &out), call->out[0]);
}

static mx_code run_norm(const mx_kernel_call *call)
{
    const mx_norm_attrs *attrs = call->attrs;
    const int mask = mx_fold_axes(call->op, &attrs->axis, false, call->in[0]->ndim);
    const mx_fold fold = attrs->ord == 1 ? MX_FOLD_NORM1 : MX_FOLD_NORM2;
    return mask < 0 ? mx_error_code() : mx_fold_array(call->op, fold, call->in[0], mask, call->out[0]);
}

/* A result per array. */
static mx_code run_multi_sum_sq(const mx_kernel_call *call)
{
    for (int k = 0; k < call->n_in; k++) {
        const mx_array *in = call->in[k];
        mx_array one = *call->out[0]; /* a window on element k */
        one.offset += k * (int64_t)sizeof(float);
        one.size = 1;
        mx_code code = mx_fold_array(call->op, MX_FOLD_SQUARES, in, (1 << in->ndim) - 1, &one);
        if (code)
            return code;
    }
    return MX_OK;
}

MX_CPU_KERNELS(reduce) = {
    {"sum", run_reduce, NULL},    {"mean", run_reduce, NULL},    {"prod", run_reduce, NULL},
    {"nansum", run_reduce, NULL}, {"nanprod", run_reduce, NULL}, {"max", run_reduce, NULL},
    {"min", run_reduce, NULL},    {"_square_sum", run_reduce, NULL}, {"norm", run_norm, NULL},
    {"_sum_to", run_sum_to, NULL}, {"multi_sum_sq", run_multi_sum_sq, NULL}, {NULL, NULL, NULL}};
