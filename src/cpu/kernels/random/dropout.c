/* Dropout: masks from Philox groups, applied in the same pass if every element has its own mask element.
 *
 * An element is kept if its 16 random bits reach the threshold p 65536.  Elements 128 j ... 128 j + 127 use group j of
 * philox.h: element e the e % 4-th quarter of pair e / 4, lowest bits first.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/threads.h"
#include "cpu/kernels/random/philox.h"
#include "cpu/kernels/movement/stream.h"
#include "cpu/kernels/widen.h"
#include "gluon/op.gen.h"
#include "ndarray/convert.h"

#define BLOCK 128
#define TILE_BLOCKS 4 /* computed at a time */
#define TILE (TILE_BLOCKS * BLOCK)
#define AHEAD 512 /* elements between prefetching and use */

typedef struct dropout_job {
    const void *in;
    void *out;
    uint8_t *mask;
    int64_t size; /* of the mask while it is computed, of the data while it is applied */
    mx_rng rng;
    uint32_t threshold;
    double scale;
    bool stream; /* results are too large for the caches: written past them */
    int ndim;    /* the data's axes and, in elements, the mask's steps over them; 0 where it is broadcast */
    int64_t dim[MX_MAX_NDIM], step[MX_MAX_NDIM];
} dropout_job;

static void mask_block(const dropout_job *job, const philox_keys *keys, int64_t block, uint8_t *mask)
{
    _Alignas(64) union {
        uint64_t pairs[PHILOX_GROUP / 2];
        uint16_t quarters[BLOCK];
    } bits;
    philox_pairs(keys, job->rng.counter + (uint64_t)block * PHILOX_LANES, bits.pairs);
    const uint16_t threshold = (uint16_t)job->threshold, some = job->threshold < 65536;
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    for (int i = 0; i < BLOCK; i++)
        mask[i] = (uint16_t)(bits.pairs[i / 4] >> i % 4 * 16) >= threshold && some;
#else
    for (int i = 0; i < BLOCK; i++)
        mask[i] = (uint8_t)((bits.quarters[i] >= threshold) & some);
#endif
}

#define APPLY(name, type)                                                                    \
    static void name(const type *x, const uint8_t *mask, type *y, int64_t n, type scale)     \
    {                                                                                        \
        MX_IVDEP                                                                             \
        for (int64_t i = 0; i < n; i++)                                                      \
            y[i] = mask[i] ? x[i] * scale : 0;                                               \
    }
APPLY(apply_f, float)
APPLY(apply_d, double)

/* Up to TILE elements from a block's first one on. */
static void drop_tile(const dropout_job *job, const philox_keys *keys, int64_t at, int64_t count, bool wide)
{
    uint8_t mask[TILE];
    _Alignas(64) double result[TILE];
    const int64_t item = wide ? sizeof(double) : sizeof(float);
    for (int64_t done = 0; done < count; done += BLOCK) {
        if (job->in) /* prefetch while random numbers are computed */
            for (int64_t line = 0; line < BLOCK * item; line += 64)
                __builtin_prefetch((const char *)job->in + (at + done + AHEAD) * item + line);
        mask_block(job, keys, (at + done) / BLOCK, mask + done);
    }
    if (!job->in) {
        memcpy(job->mask + at, mask, (size_t)count);
        return;
    }
    void *out = job->stream ? (void *)result : (char *)job->out + at * item;
    if (wide)
        apply_d((const double *)job->in + at, mask, out, count, job->scale);
    else
        apply_f((const float *)job->in + at, mask, out, count, (float)job->scale);
    if (!job->stream) {
        memcpy(job->mask + at, mask, (size_t)count);
        return;
    }
    mx_stream((char *)job->out + at * item, result, (size_t)(count * item));
    mx_stream(job->mask + at, mask, (size_t)count);
}

static void drop_blocks(void *arg, int64_t begin, int64_t end, bool wide)
{
    const dropout_job *job = arg;
    const philox_keys keys = philox_schedule(job->rng.seed);
    for (int64_t block = begin; block < end; block += TILE_BLOCKS) {
        const int64_t last = block + TILE_BLOCKS < end ? block + TILE_BLOCKS : end, at = block * BLOCK;
        drop_tile(job, &keys, at, (last * BLOCK < job->size ? last * BLOCK : job->size) - at, wide);
    }
    mx_stream_end();
}
static void drop_blocks_f(void *arg, int64_t begin, int64_t end) { drop_blocks(arg, begin, end, false); }
static void drop_blocks_d(void *arg, int64_t begin, int64_t end) { drop_blocks(arg, begin, end, true); }

/* ---- masks that are broadcast -------------------------------------------------------------------------------- */

static void apply_run(const dropout_job *job, int64_t at, const uint8_t *mask, bool wide)
{
    const int64_t n = job->dim[job->ndim - 1];
    uint8_t same[256];
    const bool single = !job->step[job->ndim - 1];
    if (single)
        memset(same, *mask, sizeof same);
    for (int64_t done = 0; done < n;) {
        const int64_t rest = n - done, count = single && rest > 256 ? 256 : rest;
        const uint8_t *decisions = single ? same : mask + done;
        if (wide)
            apply_d((const double *)job->in + at + done, decisions, (double *)job->out + at + done, count, job->scale);
        else
            apply_f((const float *)job->in + at + done, decisions, (float *)job->out + at + done, count,
                    (float)job->scale);
        done += count;
    }
}

static void apply_runs(void *arg, int64_t begin, int64_t end, bool wide)
{
    const dropout_job *job = arg;
    for (int64_t run = begin; run < end; run++) {
        int64_t at = 0, rest = run;
        for (int axis = job->ndim - 2; axis >= 0; axis--) {
            at += rest % job->dim[axis] * job->step[axis];
            rest /= job->dim[axis];
        }
        apply_run(job, run * job->dim[job->ndim - 1], job->mask + at, wide);
    }
}
static void apply_runs_f(void *arg, int64_t begin, int64_t end) { apply_runs(arg, begin, end, false); }
static void apply_runs_d(void *arg, int64_t begin, int64_t end) { apply_runs(arg, begin, end, true); }

/* One mask element per element. */
static void apply_flat_f(void *arg, int64_t begin, int64_t end)
{
    const dropout_job *job = arg;
    apply_f((const float *)job->in + begin, job->mask + begin, (float *)job->out + begin, end - begin,
            (float)job->scale);
}
static void apply_flat_d(void *arg, int64_t begin, int64_t end)
{
    const dropout_job *job = arg;
    apply_d((const double *)job->in + begin, job->mask + begin, (double *)job->out + begin, end - begin, job->scale);
}

static void apply_mask(dropout_job *job, const mx_array *data, const mx_array *mask)
{
    int64_t step = 1;
    if (!data->size) /* an empty array may have a mask of some elements: it is 1 along `axes` */
        return;
    if (data->size == mask->size) {
        mx_parallel(data->size, MX_GRAIN, data->dtype == MX_FLOAT64 ? apply_flat_d : apply_flat_f, job);
        return;
    }
    job->ndim = data->ndim;
    for (int axis = data->ndim - 1; axis >= 0; axis--) {
        job->dim[axis] = data->shape[axis];
        job->step[axis] = mask->shape[axis] == 1 ? 0 : step;
        step *= mask->shape[axis];
    }
    const int64_t runs = data->size / job->dim[job->ndim - 1];
    mx_parallel(runs, 1 + MX_GRAIN / job->dim[job->ndim - 1], data->dtype == MX_FLOAT64 ? apply_runs_d : apply_runs_f,
                job);
}

/* ---- entries --------------------------------------------------------------------------------------------------- */

/* Nothing is dropped: of any type. */
static mx_code run_identity(const mx_kernel_call *call)
{
    const mx_dropout_attrs *attrs = call->attrs;
    const bool drops = attrs->mode != MX_DROPOUT_TRAINING || call->training;
    if ((drops && attrs->p != 0) || !mx_dtype_is_float(call->in[0]->dtype))
        return MX_DECLINED;
    if (mx_data(call->out[0]) != mx_data(call->in[0]))
        memcpy(mx_data(call->out[0]), mx_data(call->in[0]), mx_bytes(call->in[0]));
    memset(mx_data(call->out[1]), 1, mx_bytes(call->out[1]));
    return MX_OK;
}

static mx_code run_dropout(const mx_kernel_call *call)
{
    const mx_dropout_attrs *attrs = call->attrs;
    if (!mx_dtype_is_float(call->in[0]->dtype))
        return MX_DECLINED;
    const mx_dtype compute = mx_compute_type(call);
    mx_array *mask = call->out[1];
    const bool own = mask->size == call->in[0]->size, wide = compute == MX_FLOAT64;
    dropout_job job = {.in = own ? mx_data(call->in[0]) : NULL,
                       .out = mx_data(call->out[0]),
                       .mask = mx_data(mask),
                       .size = mask->size};
    const int64_t blocks = (mask->size + BLOCK - 1) / BLOCK;
    job.rng = mx_rng_reserve((uint64_t)blocks * PHILOX_LANES);
    job.threshold = (uint32_t)(attrs->p * 65536 + 0.5);
    job.scale = attrs->p < 1 ? 1 / (1 - attrs->p) : 0;
    job.stream = own && job.in != job.out && (int64_t)mx_bytes(call->out[0]) >= MX_STREAM_BYTES;
    mx_parallel(blocks, MX_GRAIN / BLOCK, wide ? drop_blocks_d : drop_blocks_f, &job);
    if (own)
        return MX_OK;
    job.in = mx_data(call->in[0]), job.size = call->in[0]->size;
    apply_mask(&job, call->in[0], mask);
    return MX_OK;
}

static mx_code run_backward(const mx_kernel_call *call)
{
    const mx_dropout_attrs *attrs = call->attrs;
    const mx_array *g = call->in[0], *mask = call->in[1];
    if (!mx_dtype_is_float(g->dtype))
        return MX_DECLINED;
    dropout_job job = {.in = mx_data(g), .out = mx_data(call->out[0]), .mask = mx_data(mask), .size = g->size};
    job.scale = attrs->p < 1 ? 1 / (1 - attrs->p) : 0;
    if (mask->ndim != g->ndim)
        return mx_op_fail(call->op, MX_ERR_SHAPE, "mask has %d axes, ograd has %d", mask->ndim, g->ndim);
    apply_mask(&job, g, mask);
    return MX_OK;
}

MX_CPU_KERNELS(dropout) = {
    {"Dropout", run_identity, NULL}, {"Dropout", run_dropout, NULL, MX_KERNEL_WIDEN}, {"_backward_dropout", run_backward, NULL, MX_KERNEL_WIDEN}, {NULL, NULL, NULL}};
