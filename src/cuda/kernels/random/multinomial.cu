/* Drawing class numbers (see op/def/random/multinomial.c), the same as on the CPU.  SPDX-License-Identifier: Apache-2.0 */
#include "cuda/kernels/reduce/scan.h"
extern "C" {
#include "op/formula/draw.h"
}

/* sums (rows, classes): running sums of the probabilities */
static mx_code sum_rows(const mx_kernel_call *call, const mx_array *data, int64_t classes, double *sums)
{
    const void *from = mx_data(data);
    const int type = data->dtype;
    return mx_cuda_rows(call, data->size / classes, classes, [=] __device__(int64_t row) {
        const int64_t at = row * classes;
        mx_cuda_block_scan<double>(
            classes, [=](int64_t i) { return fmax(mx_cuda_load<double>(from, type, at + i), 0.); },
            [=](int64_t i, double sum) { sums[at + i] = sum; });
    });
}

static mx_code run_multinomial(const mx_kernel_call *call)
{
    const mx_array *data = call->in[0];
    if (!mx_dtype_is_float(data->dtype))
        return MX_DECLINED;
    mx_cuda_device *d = mx_cuda_of(call);
    if (!d)
        return mx_error_code();
    const mx_rng rng = mx_rng_reserve((uint64_t)call->out[0]->size);
    if (!call->out[0]->size)
        return MX_OK;
    const int64_t classes = data->shape[data->ndim - 1], draws = call->out[0]->size / (data->size / classes);
    mx_cuda_scratch room(d, (size_t)data->size * sizeof(double));
    double *sums = room.as<double>();
    const mx_code code = sums ? sum_rows(call, data, classes, sums) : mx_error_code();
    if (code)
        return code;
    const bool with_prob = ((const mx_multinomial_attrs *)call->attrs)->get_prob;
    void *drawn = mx_data(call->out[0]), *prob = with_prob ? mx_data(call->out[1]) : nullptr;
    const int type = call->out[0]->dtype, prob_type = with_prob ? call->out[1]->dtype : 0;
    return mx_cuda_each(call, call->out[0]->size, [=] __device__(int64_t i) {
        uint32_t words[4];
        mx_philox(rng.seed, rng.counter + (uint64_t)i, words);
        const double *mine = sums + i / draws * classes;
        const int64_t c = mx_draw_class(mine, classes, mx_uniform53(words[0], words[1]));
        mx_cuda_store<int64_t>(drawn, type, i, c);
        if (prob)
            mx_cuda_store<double>(prob, prob_type, i, mx_draw_log(mine, c));
    });
}

/* inputs: ograd, data, drawn; the slope of log p at the class that was drawn is 1 / p */
template <class T> static mx_code backward(const mx_kernel_call *call)
{
    const mx_array *g = call->in[0], *data = call->in[1], *drawn = call->in[2];
    mx_cuda_device *d = mx_cuda_of(call);
    if (!d ||
        mx_cuda_fail(cudaMemsetAsync(mx_data(call->out[0]), 0, mx_bytes(call->out[0]), d->stream), call->op->name))
        return mx_error_code();
    if (!g->size)
        return MX_OK;
    const int64_t classes = data->shape[data->ndim - 1], draws = g->size / (data->size / classes);
    const T *slope = (const T *)mx_data(g), *p = (const T *)mx_data(data);
    const void *list = mx_data(drawn);
    const int type = drawn->dtype;
    T *out = (T *)mx_data(call->out[0]);
    return mx_cuda_each(call, g->size, [=] __device__(int64_t i) {
        const int64_t c = mx_cuda_load<int64_t>(list, type, i);
        const int64_t at = i / draws * classes + (c < 0 ? 0 : c >= classes ? classes - 1 : c);
        atomicAdd(&out[at], slope[i] / p[at]);
    });
}
MX_CUDA_FLOATS(run_backward, backward)

/* ---- without repetition: a block per row draws ahead, its first thread selects new ones -------------------------- */

#define AHEAD 256

/* Number t of a stream: every block of the stream holds two. */
static __device__ double uniform_at(mx_rng rng, int64_t row, int64_t t)
{
    mx_rng_stream stream = {rng.seed, rng.counter + (uint64_t)row, (uint32_t)(t / 2), 0, {}};
    const double first = mx_rng_stream_uniform(&stream);
    return t % 2 ? mx_rng_stream_uniform(&stream) : first;
}

static __global__ void zipfian_kernel(mx_rng rng, int64_t batch, int64_t wanted, int64_t most, double log_range,
                                      uint64_t slots, int64_t *tables, int64_t *samples, int64_t *tries)
{
    __shared__ int64_t candidate[AHEAD];
    for (int64_t row = blockIdx.x; row < batch; row += gridDim.x) {
        int64_t *table = tables + (uint64_t)row * slots, found = 0, tried = 0; /* the first thread counts */
        bool more = wanted > 0;
        for (int64_t start = 0; more; start += AHEAD) {
            candidate[threadIdx.x] = mx_draw_zipfian(uniform_at(rng, row, start + threadIdx.x), log_range, most);
            __syncthreads();
            for (int i = 0; !threadIdx.x && i < AHEAD && found < wanted; i++, tried++)
                if (mx_draw_insert(table, slots, candidate[i]))
                    samples[row * wanted + found++] = candidate[i];
            more = __syncthreads_or(!threadIdx.x && found < wanted);
        }
        if (!threadIdx.x)
            tries[row] = tried;
    }
}

static mx_code run_zipfian(const mx_kernel_call *call)
{
    const mx_zipfian_attrs *a = (const mx_zipfian_attrs *)call->attrs;
    const int64_t batch = a->shape.d[0], wanted = a->shape.d[1];
    mx_cuda_device *d = mx_cuda_of(call);
    if (!d)
        return mx_error_code();
    const uint64_t slots = mx_draw_slots(wanted);
    const mx_rng rng = mx_rng_reserve((uint64_t)batch);
    const size_t bytes = (size_t)batch * (size_t)slots * sizeof(int64_t);
    mx_cuda_scratch room(d, bytes);
    if (!batch || !room.memory)
        return batch ? mx_error_code() : MX_OK;
    cudaMemsetAsync(room.memory, 0xff, bytes, d->stream);
    zipfian_kernel<<<mx_cuda_blocks(d, batch), AHEAD, 0, d->stream>>>(
        rng, batch, wanted, a->range_max, log((double)a->range_max + 1), slots, room.as<int64_t>(),
        (int64_t *)mx_data(call->out[0]), (int64_t *)mx_data(call->out[1]));
    return mx_cuda_launched(call);
}

MX_CUDA_KERNELS(multinomial) = {{"_sample_multinomial", run_multinomial, NULL},
                                {"_backward__sample_multinomial", run_backward, NULL},
                                {"_sample_unique_zipfian", run_zipfian, NULL},
                                {NULL, NULL, NULL}};
