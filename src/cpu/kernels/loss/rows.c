/* Rows by index: copying them (take, gather) and adding them back (their gradients).
 *
 * Adding must not depend on threads, so each thread owns a part of the target: some columns of all rows when rows are
 * long, else a range of rows.  Within its part it processes the indices in order.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/threads.h"
#include "cpu/kernels/index/indices.h"

typedef struct job {
    const mx_rows *rows;
    char *out;
    const char *data;
    int64_t bytes; /* of a row */
    int64_t item;  /* of an element, as it is added */
} job;

/* ---- copying ------------------------------------------------------------------------------------------------ */

/* A row of a constant number of bytes: one load and one store. */
#define COPY_SMALL(BYTES)                                                                     \
    for (int64_t i = begin; i < end; i++) {                                                   \
        const int64_t b = i / rows->n, k = rows->index[i % rows->n];                          \
        memcpy(j->out + i * BYTES, j->data + (b * rows->size + k) * BYTES, BYTES);            \
    }                                                                                         \
    return

static void take_range(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    const mx_rows *rows = j->rows;
    switch (j->bytes) {
    case 1: COPY_SMALL(1);
    case 2: COPY_SMALL(2);
    case 4: COPY_SMALL(4);
    case 8: COPY_SMALL(8);
    default: break;
    }
    for (int64_t i = begin; i < end; i++) {
        const int64_t b = i / rows->n, k = rows->index[i % rows->n];
        memcpy(j->out + i * j->bytes, j->data + (b * rows->size + k) * j->bytes, (size_t)j->bytes);
    }
}

void mx_cpu_take_rows(const mx_rows *rows, void *out, const void *data)
{
    const int64_t bytes = rows->after * mx_dtype_size(rows->type);
    job j = {rows, out, data, bytes, 0};
    if (bytes && rows->n)
        mx_parallel(rows->before * rows->n, 4 * MX_GRAIN / (bytes + 8) + 1, take_range, &j);
}

void mx_cpu_put_rows(const mx_rows *rows, void *out, const void *data)
{
    const int64_t bytes = rows->after * mx_dtype_size(rows->type);
    for (int64_t b = 0; b < rows->before && bytes; b++)
        for (int64_t i = 0; i < rows->n; i++)
            memcpy((char *)out + (b * rows->size + rows->index[i]) * bytes,
                   (const char *)data + (b * rows->n + i) * bytes, (size_t)bytes);
}

/* ---- adding ------------------------------------------------------------------------------------------------- */

#define BODY(T)                                                                                                  \
    /* columns [from, to) of rows whose index is in [low, high) of blocks [first, last) */                       \
    static void add_##T(const job *j, int64_t first, int64_t last, int64_t low, int64_t high, int64_t from, \
                        int64_t to)                                                                              \
    {                                                                                                            \
        const mx_rows *rows = j->rows;                                                                           \
        for (int64_t b = first; b < last; b++)                                                                   \
            for (int64_t i = 0; i < rows->n; i++) {                                                              \
                const int64_t k = rows->index[i];                                                                \
                if (k < low || k >= high)                                                                        \
                    continue;                                                                                    \
                T *restrict sum = (T *)j->out + (b * rows->size + k) * rows->after;                              \
                const T *restrict more = (const T *)j->data + (b * rows->n + i) * rows->after;                   \
                for (int64_t c = from; c < to; c++)                                                              \
                    sum[c] += more[c];                                                                           \
            }                                                                                                    \
    }
BODY(float)
BODY(double)
BODY(int64_t)
BODY(int32_t)

static void add(const job *j, int64_t first, int64_t last, int64_t low, int64_t high, int64_t from, int64_t to)
{
    switch (j->rows->type) {
    case MX_FLOAT64: add_double(j, first, last, low, high, from, to); break;
    case MX_INT64: add_int64_t(j, first, last, low, high, from, to); break;
    case MX_INT32: add_int32_t(j, first, last, low, high, from, to); break;
    default: add_float(j, first, last, low, high, from, to); break;
    }
}
static void add_blocks(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    add(j, begin, end, 0, j->rows->size, 0, j->rows->after);
}
static void add_columns(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    const int64_t line = 64 / j->item, to = end * line;
    add(j, 0, j->rows->before, 0, j->rows->size, begin * line, to < j->rows->after ? to : j->rows->after);
}
static void add_range(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    add(j, 0, j->rows->before, begin, end, 0, j->rows->after);
}

static void clear_range(void *arg, int64_t begin, int64_t end)
{
    memset((char *)arg + begin, 0, (size_t)(end - begin));
}

static void add_exact(const mx_rows *rows, void *out, const void *data)
{
    const int64_t item = mx_dtype_size(rows->type), work = rows->before * rows->n * rows->after, line = 64 / item;
    job j = {rows, out, data, rows->after * item, item};
    mx_parallel(rows->before * rows->size * rows->after * item, 8 * MX_GRAIN, clear_range, out);
    if (work < MX_GRAIN)
        add_blocks(&j, 0, rows->before);
    else if (rows->before >= mx_num_threads())
        mx_parallel(rows->before, MX_GRAIN / (work / rows->before + 1) + 1, add_blocks, &j);
    else if (rows->after >= 2 * line)
        mx_parallel((rows->after + line - 1) / line, 1, add_columns, &j);
    else
        mx_parallel(rows->size, rows->size / mx_num_threads() + 1, add_range, &j);
}

/* Types without their own addition: small floats as float, small integers as int64. */
static mx_dtype sum_type(mx_dtype type)
{
    if (type == MX_FLOAT64 || type == MX_INT64 || type == MX_INT32 || type == MX_FLOAT32)
        return type;
    return mx_dtype_is_float(type) ? MX_FLOAT32 : MX_INT64;
}

mx_code mx_cpu_add_rows(const mx_rows *rows, void *out, const void *data)
{
    const mx_dtype type = sum_type(rows->type);
    const int64_t n_in = rows->before * rows->n * rows->after, n_out = rows->before * rows->size * rows->after;
    if (type == rows->type) {
        add_exact(rows, out, data);
        return MX_OK;
    }
    const size_t bytes = (size_t)(n_in + n_out) * (size_t)mx_dtype_size(type);
    char *wide = mx_scratch_take(bytes), *sums = wide ? wide + n_in * mx_dtype_size(type) : NULL;
    if (!wide)
        return MX_ERR_MEMORY;
    mx_rows exact = *rows;
    exact.type = type;
    mx_convert(wide, type, data, rows->type, n_in);
    add_exact(&exact, sums, wide);
    mx_convert(out, rows->type, sums, type, n_out);
    mx_scratch_give(wide, bytes);
    return MX_OK;
}
