/* Pointwise functions with numbers (op/formula/pointwise_numbers.h): which loop, over which tiles.
 *
 * They run in float, double or int64; other types are converted in tiles.  SPDX-License-Identifier: Apache-2.0 */
#include "base/threads.h"
#include "cpu/kernels/convert_level.h"
#include "cpu/kernels/pointwise/pointwise_loops.h"

#define TILE 512 /* elements converted at a time */

typedef struct number_job {
    mx_number_fn run;
    mx_dtype compute, type;
    int64_t item;      /* bytes */
    const char *in[2]; /* x; g or NULL */
    char *out;
    const double *number; /* p, q, r */
} number_job;

static void number_part(void *arg, int64_t begin, int64_t end)
{
    const number_job *j = arg;
    double tiles[2][TILE], result[TILE];
    if (j->type == j->compute) {
        const int64_t at = begin * j->item;
        j->run(j->in[0] + at, (j->in[1] ? j->in[1] : j->in[0]) + at, j->out + at, end - begin, j->number);
        return;
    }
    for (; begin < end; begin += TILE) {
        const int64_t n = end - begin < TILE ? end - begin : TILE;
        for (int k = 0; k < 2 && j->in[k]; k++)
            mx_convert_fast(tiles[k], j->compute, j->in[k] + begin * j->item, j->type, n);
        j->run(tiles[0], tiles[j->in[1] != NULL], result, n, j->number);
        mx_convert_fast(j->out + begin * j->item, j->type, result, j->compute, n);
    }
}

/* Bounds within int64, which cannot hold 2^63. */
static double as_integer(double x)
{
    return x > 9223372036854774784. ? 9223372036854774784. : x < -9223372036854775808. ? -9223372036854775808. : x;
}

mx_code mx_number_over(int row, double *number, const mx_array *x, const mx_array *g, mx_array *out)
{
    const mx_dtype type = (mx_dtype)out->dtype;
    const bool integer = !mx_dtype_is_float(type) && mx_number_i64[row];
    const mx_dtype compute = integer                                         ? MX_INT64
                             : mx_dtype_is_float(type) && type != MX_FLOAT64 ? MX_FLOAT32
                                                                             : MX_FLOAT64;
    const mx_number_fn *loops = integer ? mx_number_i64 : compute == MX_FLOAT32 ? mx_number_f32 : mx_number_f64;
    for (int k = 0; integer && k < 3; k++)
        number[k] = as_integer(number[k]);
    number_job j = {loops[row], compute, type, mx_dtype_size(type), {mx_data(x), g ? mx_data(g) : NULL},
                    mx_data(out), number};
    mx_parallel(out->size, MX_GRAIN / 2, number_part, &j);
    return MX_OK;
}

mx_code mx_run_numbers(const mx_kernel_call *call)
{
    const mx_number_use *use = call->op->user;
    const mx_shape_t shape = mx_array_shape(call->in[0]);
    double number[3] = {0};
    use->numbers(call->attrs, &shape, number);
    return mx_number_over(use->row, number, call->in[call->n_in - 1], call->n_in > 1 ? call->in[0] : NULL,
                          call->out[0]);
}
