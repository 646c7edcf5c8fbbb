/* Products of matrices of bytes: sums of (a - a_zero) (b - b_zero), exact, as 32-bit integers that wrap around.
 *
 * Bytes are packed as numbers of -128 to 127.  The zero points, which are shifted with them, come last:
 *
 *     sum (a - s) (b - t) = sum a b - s sum b - t sum a + k s t
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/kernel.h"
#include "cpu/kernels/quantize/integer_dot_tile.h"
#include "ndarray/convert.h"

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

static element flip_of(const mx_array *x) { return x->dtype == MX_UINT8 ? 0x80 : 0; }
static zeros zeros_of(const mx_array *x, const element *at) { return (zeros){at, x->size == 1}; }
static bool is_bytes(const mx_array *x) { return x->dtype == MX_UINT8 || x->dtype == MX_INT8; }

/* The inputs as bytes: those of other types are converted into `room`. */
static void bytes_of(const mx_kernel_call *call, element *room, const element **x)
{
    for (int i = 0; i < 4; i++) {
        const mx_array *in = call->in[i];
        x[i] = mx_data(in);
        if (is_bytes(in))
            continue;
        mx_convert(room, MX_INT8, x[i], (mx_dtype)in->dtype, in->size);
        x[i] = room, room += in->size;
    }
}

static mx_code run_integer_dot(const mx_kernel_call *call)
{
    const mx_array *a = call->in[0], *b = call->in[1], *out = call->out[0];
    if (!out->size)
        return MX_OK;
    const int64_t k = b->shape[0], n = b->shape[1];
    int64_t converted = 0;
    for (int i = 0; i < 4; i++)
        converted += is_bytes(call->in[i]) ? 0 : call->in[i]->size;
    const size_t sums = (size_t)n * sizeof(total), bytes = sums + (size_t)converted;
    total *memory = mx_alloc(bytes);
    if (!memory)
        return mx_error_code();
    const element *x[4];
    bytes_of(call, (element *)memory + sums, x);
    details d = {zeros_of(call->in[2], x[2]), zeros_of(call->in[3], x[3]), memory, mx_data(out)};
    product_job job = {.a = x[0], .b = x[1], .a_row = k, .a_column = 1, .b_row = n, .b_column = 1, .batch = 1,
                       .m = out->size / n, .n = n, .k = k, .a_flip = flip_of(a), .b_flip = flip_of(b),
                       .multiply = multiply, .finish = finish, .details = &d};
    mx_parallel(n, 1 + MX_GRAIN / (k + 1), sum_columns, &job);
    const mx_code code = product_run(&job);
    mx_free(memory, bytes);
    return code;
}

MX_CPU_KERNELS_ARM(integer_dot) = {{"_integer_dot", run_integer_dot, NULL}, {NULL, NULL, NULL}};
