/* Products of matrices of bytes: sums of (a - a_zero) (b - b_zero), exact, as 32-bit integers that wrap around.
 *
 * Bytes are packed as numbers of -128 to 127.  The zero points, which are shifted with them, come last:
 *
 *     sum (a - s) (b - t) = sum a b - s sum b - t sum a + k s t
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/kernel.h"
#include "cpu/kernels/quantize/integer_dot_tile.h"

typedef uint8_t element;
typedef uint32_t total; /* wraps around */

/* uint8 with the highest bit flipped (0x80), and taken as int8, is 128 smaller. */
static inline packed pack(element x, element flip) { return (packed)(int8_t)(x ^ flip); }

#include "cpu/kernels/packed_product.h"

/* Zero points, one per row of A (column of B) or one for all. */
typedef struct zeros {
    const element *at;
    bool one;
} zeros;

typedef struct details {
    zeros a, b;
    total *b_sums; /* (n) */
    int32_t *out;  /* (m, n) */
} details;

static inline total zero_point(const zeros *z, int64_t i, element flip)
{
    return (total)pack(z->at[z->one ? 0 : i], flip);
}

static void finish(const product_job *job, int64_t item, int64_t row, int64_t rows, int64_t column, int64_t columns,
                   const total *sums, int64_t stride)
{
    const details *d = job->details;
    (void)item;
    for (int64_t i = 0; i < rows; i++) {
        const element *a = job->a + (row + i) * job->k;
        const total s = zero_point(&d->a, row + i, job->a_flip);
        total sum = 0;
        for (int64_t p = 0; p < job->k; p++)
            sum += (total)pack(a[p], job->a_flip);
        const total rest = (total)job->k * s - sum;
        int32_t *out = d->out + (row + i) * job->n + column;
        for (int64_t j = 0; j < columns; j++)
            out[j] = (int32_t)(sums[i * stride + j] + zero_point(&d->b, column + j, job->b_flip) * rest -
                               s * d->b_sums[column + j]);
    }
}

static void sum_columns(void *arg, int64_t begin, int64_t end)
{
    const product_job *job = arg;
    total *sums = ((const details *)job->details)->b_sums;
    memset(sums + begin, 0, (size_t)(end - begin) * sizeof *sums);
    for (int64_t p = 0; p < job->k; p++)
        for (int64_t j = begin; j < end; j++)
            sums[j] += (total)pack(job->b[p * job->n + j], job->b_flip);
}

static bool are_bytes(const mx_array *x, const mx_array *zero)
{
    return (x->dtype == MX_UINT8 || x->dtype == MX_INT8) && zero->dtype == x->dtype;
}
static element flip_of(const mx_array *x) { return x->dtype == MX_UINT8 ? 0x80 : 0; }
static zeros zeros_of(const mx_array *x) { return (zeros){mx_data(x), x->size == 1}; }

static mx_code run_integer_dot(const mx_kernel_call *call)
{
    const mx_array *a = call->in[0], *b = call->in[1], *out = call->out[0];
    if (!are_bytes(a, call->in[2]) || !are_bytes(b, call->in[3]))
        return MX_DECLINED;
    if (!out->size)
        return MX_OK;
    const int64_t k = b->shape[0], n = b->shape[1];
    details d = {zeros_of(call->in[2]), zeros_of(call->in[3]), NULL, mx_data(out)};
    product_job job = {.a = mx_data(a), .b = mx_data(b), .a_row = k, .a_column = 1, .b_row = n, .b_column = 1,
                       .batch = 1, .m = out->size / n, .n = n, .k = k, .a_flip = flip_of(a), .b_flip = flip_of(b),
                       .multiply = multiply, .finish = finish, .details = &d};
    d.b_sums = mx_alloc((size_t)n * sizeof *d.b_sums);
    if (!d.b_sums)
        return mx_error_code();
    mx_parallel(n, 1 + MX_GRAIN / (k + 1), sum_columns, &job);
    const mx_code code = product_run(&job);
    mx_free(d.b_sums, (size_t)n * sizeof *d.b_sums);
    return code;
}

MX_CPU_KERNELS_ARM(integer_dot) = {{"_integer_dot", run_integer_dot, NULL}, {NULL, NULL, NULL}};
