/* Drawing class indices (see op/def/random/multinomial.c).  SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "op/formula/draw.h" /* before op.gen.h, which has operators of the same names */
#include "base/alloc.h"
#include "base/threads.h"
#include "cpu/kernels/widen.h"
#include "gluon/op.gen.h"
#include "ndarray/convert.h"

typedef struct draw_job {
    const double *sums; /* (rows, classes) running sums of the probabilities */
    const mx_array *data;
    mx_array *drawn, *prob;
    int64_t rows, classes, draws;
    bool with_prob;
    mx_rng rng;
} draw_job;

static void put(mx_array *x, int64_t i, double value)
{
    mx_convert((char *)mx_data(x) + i * mx_dtype_size((mx_dtype)x->dtype), (mx_dtype)x->dtype, &value, MX_FLOAT64, 1);
}

static void draw_range(void *arg, int64_t begin, int64_t end)
{
    const draw_job *job = arg;
    for (int64_t i = begin; i < end; i++) {
        uint32_t words[4];
        mx_philox(job->rng.seed, job->rng.counter + (uint64_t)i, words);
        const double *sums = job->sums + i / job->draws * job->classes;
        const int64_t c = mx_draw_class(sums, job->classes, mx_uniform53(words[0], words[1]));
        put(job->drawn, i, (double)c);
        if (job->with_prob)
            put(job->prob, i, mx_draw_log(sums, c));
    }
}

static mx_code run_multinomial(const mx_kernel_call *call)
{
    const mx_multinomial_attrs *attrs = call->attrs;
    const mx_array *data = call->in[0];
    const int64_t classes = data->shape[data->ndim - 1], rows = data->size / classes;
    const size_t bytes = (size_t)data->size * sizeof(double);
    if (!mx_dtype_is_float(data->dtype))
        return MX_DECLINED;
    double *sums = mx_alloc(bytes);
    if (!sums)
        return MX_ERR_MEMORY;
    mx_convert(sums, MX_FLOAT64, mx_data(data), (mx_dtype)data->dtype, data->size);
    for (int64_t i = 0; i < data->size; i++)
        sums[i] = fmax(sums[i], 0) + (i % classes ? sums[i - 1] : 0);
    draw_job job = {sums, data, call->out[0], call->out[1], rows, classes, rows ? call->out[0]->size / rows : 0, attrs->get_prob,
                    mx_rng_reserve((uint64_t)call->out[0]->size)};
    mx_parallel(call->out[0]->size, MX_GRAIN / 64, draw_range, &job);
    mx_free(sums, bytes);
    return MX_OK;
}

/* inputs: ograd, data, drawn */
static mx_code run_backward(const mx_kernel_call *call)
{
    const mx_dtype compute = mx_compute_type(call);
    const mx_array *g = call->in[0], *data = call->in[1], *drawn = call->in[2];
    if (data->dtype != (int)compute || g->dtype != (int)compute)
        return MX_DECLINED;
    const int64_t classes = data->shape[data->ndim - 1], rows = data->size / classes, draws = rows ? g->size / rows : 0;
    memset(mx_data(call->out[0]), 0, mx_bytes(call->out[0]));
    for (int64_t i = 0; i < rows * draws; i++) {
        int64_t c;
        mx_convert(&c, MX_INT64, (const char *)mx_data(drawn) + i * mx_dtype_size((mx_dtype)drawn->dtype),
                   (mx_dtype)drawn->dtype, 1);
        const int64_t at = i / draws * classes + (c < 0 ? 0 : c >= classes ? classes - 1 : c);
        if (compute == MX_FLOAT32)
            ((float *)mx_data(call->out[0]))[at] += ((const float *)mx_data(g))[i] / ((const float *)mx_data(data))[at];
        else
            ((double *)mx_data(call->out[0]))[at] +=
                ((const double *)mx_data(g))[i] / ((const double *)mx_data(data))[at];
    }
    return MX_OK;
}

/* ---- without repetition ----------------------------------------------------------------------------------------- */

static mx_code run_zipfian(const mx_kernel_call *call)
{
    const mx_zipfian_attrs *attrs = call->attrs;
    const int64_t batch = attrs->shape.d[0], wanted = attrs->shape.d[1];
    const double log_range = log((double)attrs->range_max + 1);
    int64_t *samples = mx_data(call->out[0]), *tries = mx_data(call->out[1]);
    const uint64_t slots = mx_draw_slots(wanted);
    int64_t *table = mx_alloc((size_t)slots * sizeof *table);
    if (!table)
        return MX_ERR_MEMORY;
    const mx_rng rng = mx_rng_reserve((uint64_t)batch);
    for (int64_t row = 0; row < batch; row++) {
        mx_rng_stream stream = {.seed = rng.seed, .counter = rng.counter + (uint64_t)row};
        memset(table, 0xff, (size_t)slots * sizeof *table);
        tries[row] = 0;
        for (int64_t found = 0; found < wanted; tries[row]++) {
            const int64_t c = mx_draw_zipfian(mx_rng_stream_uniform(&stream), log_range, attrs->range_max);
            if (mx_draw_insert(table, slots, c))
                samples[row * wanted + found++] = c;
        }
    }
    mx_free(table, (size_t)slots * sizeof *table);
    return MX_OK;
}

MX_CPU_KERNELS(multinomial) = {{"_sample_multinomial", run_multinomial, NULL},
                               {"_backward__sample_multinomial", run_backward, NULL, MX_KERNEL_WIDEN},
                               {"_sample_unique_zipfian", run_zipfian, NULL},
                               {NULL, NULL, NULL}};
