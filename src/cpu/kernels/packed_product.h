/* Matrix products of packed 8- and 16-bit numbers, whose sums are wider: a body, included by the files that have such products.
 *
 * The includer defines the types `element` (as stored), `packed` and `total`, a tile of ROWS x COLUMNS sums, and
 *
 *     packed pack(element x, element flip)                                         one number as the tile takes it
 *     product_multiply (*)(groups, a, b, sums)                                     a tile; GROUP numbers of the common dimension are a group
 *     product_finish (*)(job, item, row, rows, column, columns, sums, stride)      writes what the sums of some rows give
 *
 * All of B is packed first, in panels of COLUMNS columns: (groups, COLUMNS, GROUP).  A panel of ROWS rows of A is packed by
 * the thread that uses it.  Sums of the blocks of the common dimension are added in `total`, and only the last are finished.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "base/threads.h"

#define PRODUCT_WORK (1 << 20)         /* products that pay for waking a thread */
#define PRODUCT_BYTES (16 * 1024)      /* of a panel at a time: two of them stay in the first-level cache */
#define PRODUCT_DEPTH (PRODUCT_BYTES / (int)sizeof(packed) / (ROWS > COLUMNS ? ROWS : COLUMNS) / GROUP) /* groups */

typedef struct product_job product_job;
typedef void (*product_multiply)(int64_t groups, const packed *a, const packed *b, total *sums);
typedef void (*product_finish)(const product_job *job, int64_t item, int64_t row, int64_t rows, int64_t column,
                               int64_t columns, const total *sums, int64_t stride);

struct product_job {
    const element *a, *b;
    int64_t a_row, a_column, b_row, b_column; /* elements from one to the next */
    int64_t batch, m, n, k;                   /* items are contiguous */
    element a_flip, b_flip;
    product_multiply multiply;
    product_finish finish;
    const void *details;    /* of `finish` */
    int64_t groups, panels; /* of the common dimension, the last one padded with zeros; of an item of B */
    packed *packed_b;       /* (batch, panels, groups, COLUMNS, GROUP) */
    packed *packed_a;       /* (parts, groups, ROWS, GROUP) */
    total *sums;            /* (parts, ROWS, panels * COLUMNS) */
};

/* `count` lines of `k` numbers side by side; lines up to `width` are zeros. */
static inline __attribute__((always_inline)) void product_pack(packed *to, const element *from, int64_t line,
                                                               int64_t step, int64_t count, int64_t k, element flip,
                                                               const int width)
{
    if (count < width || k % GROUP)
        memset(to, 0, (size_t)((k + GROUP - 1) / GROUP * GROUP * width) * sizeof *to);
    if (line == 1) /* read along the lines: they are the columns of rows of B */
        for (int64_t p = 0; p < k; p++)
            for (int64_t i = 0; i < count; i++)
                to[p / GROUP * GROUP * width + i * GROUP + p % GROUP] = pack(from[p * step + i], flip);
    else
        for (int64_t i = 0; i < count; i++)
            for (int64_t p = 0; p < k; p++)
                to[p / GROUP * GROUP * width + i * GROUP + p % GROUP] = pack(from[i * line + p * step], flip);
}

static void product_pack_b(void *arg, int64_t begin, int64_t end)
{
    const product_job *job = arg;
    for (int64_t panel = begin; panel < end; panel++) {
        const int64_t item = panel / job->panels, first = panel % job->panels * COLUMNS;
        product_pack(job->packed_b + panel * job->groups * COLUMNS * GROUP,
                     job->b + item * job->k * job->n + first * job->b_column, job->b_column, job->b_row,
                     job->n - first < COLUMNS ? job->n - first : COLUMNS, job->k, job->b_flip, COLUMNS);
    }
}

/* Row panel `row` (counted over all items) against some panels of its item's B. */
static void product_rows(const product_job *job, int64_t row, int64_t begin, int64_t end, packed *a, total *sums)
{
    const int64_t each = (job->m + ROWS - 1) / ROWS, item = row / each, first = row % each * ROWS;
    const int64_t rows = job->m - first < ROWS ? job->m - first : ROWS, stride = (end - begin) * COLUMNS;
    product_pack(a, job->a + item * job->m * job->k + first * job->a_row, job->a_row, job->a_column, rows, job->k,
                 job->a_flip, ROWS);
    memset(sums, 0, (size_t)(ROWS * stride) * sizeof *sums);
    for (int64_t depth = 0; depth < job->groups; depth += PRODUCT_DEPTH)
        for (int64_t j = begin; j < end; j++) {
            const int64_t groups = job->groups - depth < PRODUCT_DEPTH ? job->groups - depth : PRODUCT_DEPTH;
            total tile[ROWS * COLUMNS];
            job->multiply(groups, a + depth * ROWS * GROUP,
                          job->packed_b + ((item * job->panels + j) * job->groups + depth) * COLUMNS * GROUP, tile);
            for (int i = 0; i < ROWS * COLUMNS; i++)
                sums[i / COLUMNS * stride + (j - begin) * COLUMNS + i % COLUMNS] += tile[i];
        }
    const int64_t column = begin * COLUMNS, last = end * COLUMNS < job->n ? end * COLUMNS : job->n;
    job->finish(job, item, first, rows, column, last - column, sums, stride);
}

/* Tiles of the result, row by row: a part is a range of them. */
static void product_part(void *arg, int part, int parts)
{
    const product_job *job = arg;
    const int64_t tiles = job->batch * ((job->m + ROWS - 1) / ROWS) * job->panels, end = tiles * (part + 1) / parts;
    for (int64_t tile = tiles * part / parts; tile < end && !mx_stop_wanted();) {
        const int64_t first = tile % job->panels, rest = job->panels - first;
        const int64_t count = end - tile < rest ? end - tile : rest;
        product_rows(job, tile / job->panels, first, first + count, job->packed_a + part * job->groups * ROWS * GROUP,
                     job->sums + part * ROWS * job->panels * COLUMNS);
        tile += count;
    }
}

/* The includer has set everything but the last paragraph of the job; no size is 0, except perhaps k. */
static mx_code product_run(product_job *job)
{
    const double work = (double)job->batch * (double)job->m * (double)job->n * (double)job->k / PRODUCT_WORK;
    const int parts = work < 2 ? 1 : work < mx_num_threads() ? (int)work : mx_num_threads();
    job->groups = (job->k + GROUP - 1) / GROUP, job->panels = (job->n + COLUMNS - 1) / COLUMNS;
    const size_t sums = (size_t)(parts * ROWS * job->panels * COLUMNS) * sizeof(total),
                 b = (size_t)(job->batch * job->panels * job->groups * COLUMNS * GROUP) * sizeof(packed),
                 a = (size_t)(parts * job->groups * ROWS * GROUP) * sizeof(packed);
    char *memory = mx_alloc(sums + b + a);
    if (!memory)
        return mx_error_code();
    job->sums = (total *)(void *)memory;
    job->packed_b = (packed *)(void *)(memory + sums), job->packed_a = (packed *)(void *)(memory + sums + b);
    mx_parallel(job->batch * job->panels, 1 + MX_GRAIN / (job->k * COLUMNS + 1), product_pack_b, job);
    mx_parallel_parts(parts, product_part, job);
    mx_free(memory, sums + b + a);
    return MX_OK;
}
