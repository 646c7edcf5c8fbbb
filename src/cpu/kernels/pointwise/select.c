/* Choosing and bounding.
 *
 * The bounded functions run in float, double or int64; other types are converted in tiles.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "base/threads.h"
#include "cpu/kernel.h"
#include "cpu/kernels/convert_level.h"
#include "cpu/kernels/level.h"
#include "gluon/op.gen.h"

#define TILE 512 /* elements converted at a time */

/* ---- functions of one or two arrays and two numbers ------------------------------------------------------------ */

/* p and q: what the attributes come to. y: the second input, if any. */
typedef void (*bounded_fn)(const void *x, const void *y, void *out, int64_t n, double p, double q);

#define BOUNDED(name, T, expression)                                                                                 \
    static void name(const void *x_, const void *y_, void *out_, int64_t n, double p_, double q_)                    \
    {                                                                                                                \
        const T *x = x_, *y = y_;                                                                                    \
        const T p = (T)p_, q = (T)q_;                                                                                \
        T *out = out_;                                                                                               \
        (void)y, (void)p, (void)q;                                                                                   \
        MX_IVDEP for (int64_t i = 0; i < n; i++) out[i] = (T)(expression);                                           \
    }
#define CLIP (x[i] < p ? p : x[i] > q ? q : x[i])
#define INSIDE (((y[i] >= p) & (y[i] <= q)) ? x[i] : 0)
#define SMOOTH_L1 ((x[i] < 0 ? -x[i] : x[i]) > q ? (x[i] < 0 ? -x[i] : x[i]) - q / 2 : p * x[i] * x[i] / 2)
#define HARD_SIGMOID (p * x[i] + q < 0 ? 0 : p * x[i] + q > 1 ? 1 : p * x[i] + q)
BOUNDED(clip_f32, float, CLIP)
BOUNDED(clip_f64, double, CLIP)
BOUNDED(clip_i64, int64_t, CLIP)
BOUNDED(inside_f32, float, INSIDE)
BOUNDED(inside_f64, double, INSIDE)
BOUNDED(smooth_l1_f32, float, SMOOTH_L1)
BOUNDED(smooth_l1_f64, double, SMOOTH_L1)
BOUNDED(hard_sigmoid_f32, float, HARD_SIGMOID)
BOUNDED(hard_sigmoid_f64, double, HARD_SIGMOID)

typedef struct bounded_job {
    bounded_fn run;
    mx_dtype compute, type;
    int64_t item;
    const char *in[2]; /* the second may be NULL */
    char *out;
    double p, q;
} bounded_job;

static void bounded_part(void *arg, int64_t begin, int64_t end)
{
    const bounded_job *j = arg;
    double tiles[2][TILE], result[TILE];
    if (j->type == j->compute) {
        const int64_t at = begin * j->item;
        j->run(j->in[0] + at, j->in[1] ? j->in[1] + at : NULL, j->out + at, end - begin, j->p, j->q);
        return;
    }
    for (; begin < end; begin += TILE) {
        const int64_t n = end - begin < TILE ? end - begin : TILE;
        for (int k = 0; k < 2 && j->in[k]; k++)
            mx_convert_fast(tiles[k], j->compute, j->in[k] + begin * j->item, j->type, n);
        j->run(tiles[0], tiles[1], result, n, j->p, j->q);
        mx_convert_fast(j->out + begin * j->item, j->type, result, j->compute, n);
    }
}

static mx_code run_in(const mx_kernel_call *call, bounded_fn run, mx_dtype compute, double p, double q)
{
    const mx_dtype type = (mx_dtype)call->out[0]->dtype;
    const char *second = call->n_in > 1 ? mx_data(call->in[1]) : NULL;
    bounded_job j = {run, compute, type, mx_dtype_size(type), {mx_data(call->in[0]), second},
                     mx_data(call->out[0]), p, q};
    mx_parallel(call->out[0]->size, MX_GRAIN, bounded_part, &j);
    return MX_OK;
}

static mx_code run_bounded(const mx_kernel_call *call, bounded_fn f32, bounded_fn f64, double p, double q)
{
    const int type = call->out[0]->dtype;
    const bool single = mx_dtype_is_float(type) && type != MX_FLOAT64;
    return run_in(call, single ? f32 : f64, single ? MX_FLOAT32 : MX_FLOAT64, p, q);
}

/* Bounds that an int64 can hold; 2^63 itself is not one. */
static double as_integer(double x)
{
    return x > 9223372036854774784. ? 9223372036854774784. : x < -9223372036854775808. ? -9223372036854775808. : x;
}

static mx_code run_clip(const mx_kernel_call *call)
{
    const mx_clip_attrs *attrs = call->attrs;
    if (!mx_dtype_is_float(call->out[0]->dtype))
        return run_in(call, clip_i64, MX_INT64, as_integer(attrs->a_min), as_integer(attrs->a_max));
    return run_bounded(call, clip_f32, clip_f64, attrs->a_min, attrs->a_max);
}

static mx_code run_backward_clip(const mx_kernel_call *call)
{
    const mx_clip_attrs *attrs = call->attrs;
    return run_bounded(call, inside_f32, inside_f64, attrs->a_min, attrs->a_max);
}

static mx_code run_smooth_l1(const mx_kernel_call *call)
{
    const double sigma = ((const mx_smooth_l1_attrs *)call->attrs)->scalar;
    return run_bounded(call, smooth_l1_f32, smooth_l1_f64, sigma * sigma, 1 / (sigma * sigma));
}

static mx_code run_hard_sigmoid(const mx_kernel_call *call)
{
    const mx_hard_sigmoid_attrs *attrs = call->attrs;
    return run_bounded(call, hard_sigmoid_f32, hard_sigmoid_f64, attrs->alpha, attrs->beta);
}

/* ---- where ----------------------------------------------------------------------------------------------------- */

typedef struct where_job {
    const char *condition, *x, *y;
    char *out;
    mx_dtype condition_type;
    int64_t condition_item, item; /* bytes */
    int64_t row;                  /* elements that one condition decides on */
} where_job;

#define CHOOSE(type)                                                                                      \
    {                                                                                                     \
        const type *x = (const type *)(const void *)(j->x + at), *y = (const type *)(const void *)(j->y + at); \
        type *out = (type *)(void *)(j->out + at);                                                        \
        MX_IVDEP for (int64_t i = 0; i < n; i++) out[i] = choice[i] ? x[i] : y[i];                        \
    }                                                                                                     \
    break;

static void choose(const where_job *j, const uint8_t *choice, int64_t first, int64_t n)
{
    const int64_t at = first * j->item;
    switch (j->item) {
    case 1: CHOOSE(uint8_t)
    case 2: CHOOSE(uint16_t)
    case 4: CHOOSE(uint32_t)
    default: CHOOSE(uint64_t)
    }
}

/* Conditions [begin, end) of the job. */
static void where_part(void *arg, int64_t begin, int64_t end)
{
    const where_job *j = arg;
    uint8_t choice[TILE];
    for (; begin < end; begin += TILE) {
        const int64_t n = end - begin < TILE ? end - begin : TILE;
        mx_convert_fast(choice, MX_BOOL, j->condition + begin * j->condition_item, j->condition_type, n);
        if (j->row == 1) {
            choose(j, choice, begin, n);
            continue;
        }
        for (int64_t r = 0; r < n; r++) {
            const int64_t at = (begin + r) * j->row * j->item;
            memcpy(j->out + at, (choice[r] ? j->x : j->y) + at, (size_t)(j->row * j->item));
        }
    }
}

static mx_code run_where(const mx_kernel_call *call)
{
    const mx_array *condition = call->in[0], *out = call->out[0];
    where_job j = {mx_data(condition), mx_data(call->in[1]), mx_data(call->in[2]), mx_data(out),
                   (mx_dtype)condition->dtype,
                   mx_dtype_size((mx_dtype)condition->dtype), mx_dtype_size((mx_dtype)out->dtype), 1};
    if (!out->size)
        return MX_OK;
    j.row = out->size / condition->size;
    mx_parallel(condition->size, j.row < MX_GRAIN ? MX_GRAIN / j.row : 1, where_part, &j);
    return MX_OK;
}

/* ---- add_n ----------------------------------------------------------------------------------------------------- */

typedef struct add_job {
    int n;
    mx_array *const *in;
    mx_array *out;
    int64_t item;
} add_job;

#define ACCUMULATE(type)                                                                  \
    static void accumulate_##type(type *restrict sum, const type *restrict x, int64_t n)  \
    {                                                                                     \
        for (int64_t i = 0; i < n; i++)                                                   \
            sum[i] += x[i];                                                               \
    }
ACCUMULATE(float)
ACCUMULATE(double)
ACCUMULATE(uint64_t)

/* A tile of the sum stays in the first-level cache while all arrays are added; the last step writes it. */
static void add_part(void *arg, int64_t begin, int64_t end)
{
    const add_job *j = arg;
    const mx_dtype type = (mx_dtype)j->out->dtype;
    const mx_dtype compute = type == MX_FLOAT64 ? MX_FLOAT64 : mx_dtype_is_float(type) ? MX_FLOAT32 : MX_INT64;
    double sum[TILE], converted[TILE];
    for (; begin < end; begin += TILE) {
        const int64_t n = end - begin < TILE ? end - begin : TILE;
        mx_convert_fast(sum, compute, (const char *)mx_data(j->in[0]) + begin * j->item, type, n);
        for (int k = 1; k < j->n; k++) {
            const void *x = (const char *)mx_data(j->in[k]) + begin * j->item;
            if (type != compute) {
                mx_convert_fast(converted, compute, x, type, n);
                x = converted;
            }
            if (compute == MX_FLOAT32)
                accumulate_float((float *)(void *)sum, x, n);
            else if (compute == MX_FLOAT64)
                accumulate_double(sum, x, n);
            else
                accumulate_uint64_t((uint64_t *)(void *)sum, x, n);
        }
        mx_convert_fast((char *)mx_data(j->out) + begin * j->item, type, sum, compute, n);
    }
}

static mx_code run_add_n(const mx_kernel_call *call)
{
    add_job j = {call->n_in, call->in, call->out[0], mx_dtype_size((mx_dtype)call->out[0]->dtype)};
    mx_parallel(call->out[0]->size, MX_GRAIN, add_part, &j);
    return MX_OK;
}

MX_CPU_KERNELS(select) = {{"where", run_where, NULL},
                          {"clip", run_clip, NULL},
                          {"_backward_clip", run_backward_clip, NULL},
                          {"smooth_l1", run_smooth_l1, NULL},
                          {"hard_sigmoid", run_hard_sigmoid, NULL},
                          {"add_n", run_add_n, NULL},
                          {NULL, NULL, NULL}};
