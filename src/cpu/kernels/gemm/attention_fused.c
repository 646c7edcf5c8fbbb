/* Attention on the CPU, tile by tile: what is stored of the scores is one tile per thread.
 *
 *     forward, for the queries of a tile:   for tiles of keys:  scores -> weights relative to the largest so far -> result
 *     backward, for keys and values of a tile:  for all heads that share them, for tiles of queries:
 *                                               weights again from lse -> gradients of queries, keys and values
 *
 * Tiles follow from shapes alone, and every sum is made in the order of tiles, so results do not depend on the number of
 * threads: if there are fewer heads than threads, backward visits the tiles twice, for queries and for keys, and gets the same
 * numbers.  Products are those of gemm.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/interrupt.h"
#include "base/scratch.h"
#include "base/threads.h"
#include "cpu/kernels/gemm/gemm.h"
#include "cpu/kernels/loss/exponentials.h"
#include "cpu/kernels/random/philox.h"
#include "cpu/kernels/widen.h"
#include "gluon/op.gen.h"
#include "ndarray/convert.h"
#include "op/formula/attention.h"

#define TILE_QUERIES 128
#define TILE_KEYS 128          /* a multiple of PHILOX_GROUP * 2: the keys of a group of random words */
#define WORK_PER_THREAD 200000 /* products that pay for waking a thread */

typedef struct attention_job {
    mx_attention_shape s;
    const void *in[3];     /* query, key, value; NULL: absent */
    const mx_array *mask;  /* NULL: none */
    const int64_t *length; /* (N); NULL: all keys */
    void *out, *lse;       /* results; backward: inputs */
    const void *g;         /* backward: gradient of out */
    void *delta;           /* backward: (N, heads, queries) */
    void *gradient[3];     /* backward: of query, key, value */
    mx_rng rng;
    philox_keys keys; /* of rng.seed */
    bool wide;        /* double precision */
    char *rooms;      /* temporary memory, `room` bytes per thread */
    size_t room;
    _Atomic(bool) failed; /* a product ran out of memory */
} attention_job;

/* Which tile: batch entry, head of the queries, first query and key, numbers of them. */
typedef struct tile_at {
    int64_t n, h, query, queries, key, keys;
} tile_at;

static int64_t min_int(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t blocks_of(int64_t n, int64_t size) { return (n + size - 1) / size; }

/* Keys that query i sees, from the first on. */
static int64_t seen_by(const attention_job *job, const tile_at *at, int64_t i)
{
    return mx_attention_seen(&job->s, job->length ? job->length[at->n] : job->s.keys, at->query + i);
}
/* ... that some query of the tile sees: the last one sees most */
static int64_t tile_seen(const attention_job *job, const tile_at *at) { return seen_by(job, at, at->queries - 1); }
/* ... among the keys of the tile */
static int64_t row_seen(const attention_job *job, const tile_at *at, int64_t i)
{
    const int64_t seen = seen_by(job, at, i) - at->key;
    return seen < 0 ? 0 : min_int(seen, at->keys);
}

static void row_mask(const attention_job *job, const tile_at *at, int64_t i, int64_t n, uint8_t *sees)
{
    const mx_attention_shape *s = &job->s;
    const mx_dtype type = (mx_dtype)job->mask->dtype;
    const int64_t first = at->n * s->mask_batch + at->h * s->mask_head + (at->query + i) * s->keys + at->key;
    mx_convert(sees, MX_BOOL, (const char *)mx_data(job->mask) + first * mx_dtype_size(type), type, n);
}

/* Which weights of row i dropout keeps: the words of TILE_KEYS keys are one group of Philox, see op/formula/attention.h. */
static void row_keeps(const attention_job *job, const tile_at *at, int64_t i, uint8_t *keeps)
{
    const mx_attention_shape *s = &job->s;
    const uint64_t row = (uint64_t)((at->n * s->heads + at->h) * s->queries + at->query + i);
    const uint32_t threshold = mx_attention_threshold(s->dropout);
    _Alignas(64) uint32_t words[PHILOX_GROUP];
    philox_group(&job->keys, job->rng.counter + row * mx_attention_row_counters(s->keys) + (uint64_t)(at->key / 8),
                 words);
    for (int lane = 0; lane < PHILOX_LANES; lane++)
        for (int w = 0; w < 4; w++) {
            const uint32_t word = words[PHILOX_LANES * w + lane];
            uint8_t *to = keeps + lane / 4 * 32 + 8 * w + lane % 4 * 2;
            to[0] = (word & 0xffff) >= threshold && threshold < 65536;
            to[1] = (word >> 16) >= threshold && threshold < 65536;
        }
}

static inline float exp_one_f(float x) { return m_exp(x); }
static inline double exp_one_d(double x) { return exp(x); }

#define T float
#define NAME(x) x##_f
#define GEMM mx_gemm_f32
#define GEMM_RUN mx_gemm_f32_run
#define LOG m_log
#include "cpu/kernels/gemm/attention_fused_body.h"
#undef T
#undef NAME
#undef GEMM
#undef GEMM_RUN
#undef LOG
#define T double
#define NAME(x) x##_d
#define GEMM mx_gemm_f64
#define GEMM_RUN mx_gemm_f64_run
#define LOG log
#include "cpu/kernels/gemm/attention_fused_body.h"

/* ---- the order of the work --------------------------------------------------------------------------------------------- */

/* Threads take every `parts`-th unit: with causal masks neighbours differ in work. */
static void forward_part(void *arg, int part, int parts)
{
    attention_job *job = arg;
    const mx_attention_shape *s = &job->s;
    const int64_t blocks = blocks_of(s->queries, TILE_QUERIES), units = s->batch * s->heads * blocks;
    for (int64_t unit = part; unit < units && !mx_stop_wanted(); unit += parts) {
        tile_at at = {
            .n = unit / blocks / s->heads, .h = unit / blocks % s->heads, .query = unit % blocks * TILE_QUERIES};
        at.queries = min_int(s->queries - at.query, TILE_QUERIES);
        (job->wide ? forward_d : forward_f)(job, &at, job->rooms + (size_t)part * job->room);
    }
}

static void clear(const attention_job *job, const mx_attention_place *p, int64_t n, int64_t t, int64_t h, int64_t count)
{
    (job->wide ? clear_d : clear_f)(job, p, n, t, h, count);
}

/* The gradients of one tile of keys and values, and the shares of the queries in it if `queries`. */
static void backward_keys(attention_job *job, int64_t n, int64_t kv, int64_t key, bool queries, void *room)
{
    const mx_attention_shape *s = &job->s;
    const int64_t shared = s->heads / s->kv_heads, width = min_int(s->keys - key, TILE_KEYS);
    int64_t written = 0; /* keys that have a gradient */
    for (int64_t h = kv * shared; h < (kv + 1) * shared; h++)
        for (int64_t query = 0; query < s->queries; query += TILE_QUERIES) {
            tile_at at = {n, h, query, min_int(s->queries - query, TILE_QUERIES), key, 0};
            const int64_t seen = tile_seen(job, &at) - key;
            if (seen <= 0) {
                if (queries && !key)
                    clear(job, &s->query, n, query, h, at.queries);
                continue;
            }
            at.keys = min_int(seen, width);
            if (at.keys > written) { /* later queries see more keys: what is new begins with zeros */
                clear(job, &s->key, n, key + written, kv, at.keys - written);
                clear(job, &s->value, n, key + written, kv, at.keys - written);
                written = at.keys;
            }
            (job->wide ? backward_d : backward_f)(job, &at, room, queries, true);
        }
    clear(job, &s->key, n, key + written, kv, width - written);
    clear(job, &s->value, n, key + written, kv, width - written);
}

static void backward_queries(attention_job *job, int64_t n, int64_t h, int64_t query, void *room)
{
    const mx_attention_shape *s = &job->s;
    tile_at at = {n, h, query, min_int(s->queries - query, TILE_QUERIES), 0, 0};
    const int64_t seen = tile_seen(job, &at);
    if (!seen)
        clear(job, &s->query, n, query, h, at.queries);
    for (at.key = 0; at.key < seen; at.key += TILE_KEYS) {
        at.keys = min_int(seen - at.key, TILE_KEYS);
        (job->wide ? backward_d : backward_f)(job, &at, room, true, false);
    }
}

/* A unit is the heads that share one head of keys. */
static void backward_part(void *arg, int part, int parts)
{
    attention_job *job = arg;
    const mx_attention_shape *s = &job->s;
    for (int64_t unit = part; unit < s->batch * s->kv_heads; unit += parts) {
        for (int64_t key = 0; key < s->keys && !mx_stop_wanted(); key += TILE_KEYS)
            backward_keys(job, unit / s->kv_heads, unit % s->kv_heads, key, true,
                          job->rooms + (size_t)part * job->room);
        for (int64_t query = 0; !s->keys && query < s->queries; query++)
            for (int64_t h = 0; h < s->heads / s->kv_heads; h++)
                clear(job, &s->query, unit / s->kv_heads, query, unit % s->kv_heads * (s->heads / s->kv_heads) + h, 1);
    }
}

/* The same with one tile of queries, or of keys, as a unit. */
static void backward_tiles(void *arg, int part, int parts)
{
    attention_job *job = arg;
    const mx_attention_shape *s = &job->s;
    void *room = job->rooms + (size_t)part * job->room;
    const int64_t q_blocks = blocks_of(s->queries, TILE_QUERIES), k_blocks = blocks_of(s->keys, TILE_KEYS);
    const int64_t of_queries = s->batch * s->heads * q_blocks, of_keys = s->batch * s->kv_heads * k_blocks;
    for (int64_t u = part; u < of_queries && !mx_stop_wanted(); u += parts)
        backward_queries(job, u / q_blocks / s->heads, u / q_blocks % s->heads, u % q_blocks * TILE_QUERIES, room);
    for (int64_t u = part; u < of_keys && !mx_stop_wanted(); u += parts)
        backward_keys(job, u / k_blocks / s->kv_heads, u / k_blocks % s->kv_heads, u % k_blocks * TILE_KEYS, false,
                      room);
}

/* ---- entries -------------------------------------------------------------------------------------------------------------- */

/* Fills in what forward and backward share; inputs begin at number `first`. */
static mx_code open_job(attention_job *job, const mx_kernel_call *call, int first)
{
    const mx_attention_attrs *a = call->attrs;
    mx_array *const *in = call->in + first;
    const mx_array *mask = in[MX_ATTENTION_MASK], *length = in[MX_ATTENTION_LENGTH];
    if ((a->use_mask && mx_is_none(mask)) || (a->use_length && mx_is_none(length)))
        return mx_op_fail(call->op, MX_ERR_ARGUMENT, "%s is True, but the input is absent",
                          a->use_mask && mx_is_none(mask) ? "use_mask" : "use_length");
    job->s = MX_ATTENTION_SHAPE(a, in[0]->shape, mx_is_none(in[1]) ? in[0]->shape : in[1]->shape);
    for (int i = 0; i < 3; i++)
        job->in[i] = mx_is_none(in[i]) ? NULL : mx_data(in[i]);
    if (a->use_mask) {
        job->mask = mask;
        mx_attention_use_mask(&job->s, mask->ndim, mask->shape);
    }
    if (!a->use_length)
        return MX_OK;
    int64_t *lengths = mx_scratch_take((size_t)length->size * sizeof *lengths);
    if (!lengths)
        return MX_ERR_MEMORY;
    mx_convert(lengths, MX_INT64, mx_data(length), (mx_dtype)length->dtype, length->size);
    job->length = lengths;
    return MX_OK;
}

static mx_code close_job(attention_job *job)
{
    mx_scratch_give((void *)(uintptr_t)job->length, (size_t)job->s.batch * sizeof *job->length);
    return job->failed ? mx_fail(MX_ERR_MEMORY, "_contrib_attention: out of memory") : MX_OK;
}

/* Runs `body` on as many threads as pay, each with its room. */
static mx_code run_parts(attention_job *job, int64_t units, mx_part_fn body)
{
    const mx_attention_shape *s = &job->s;
    const double work = (double)(s->batch * s->heads) * (double)(s->queries * s->keys) * (double)s->size;
    const double threads = work / WORK_PER_THREAD;
    int parts = mx_num_threads();
    parts = threads < parts ? 1 + (int)threads : parts;
    parts = units < parts ? (int)units : parts;
    job->room = job->wide ? room_bytes_d(job) : room_bytes_f(job);
    job->rooms = mx_scratch_take((size_t)parts * job->room);
    if (!job->rooms)
        return MX_ERR_MEMORY;
    if (parts == 1)
        body(job, 0, 1);
    else if (parts > 1)
        mx_parallel_parts(parts, body, job);
    mx_scratch_give(job->rooms, (size_t)parts * job->room);
    return MX_OK;
}

#define NOT_OPERANDS(first) (3u << ((first) + MX_ATTENTION_MASK)) /* mask and lengths have any type */

static mx_code run_forward(const mx_kernel_call *call)
{
    const mx_dtype compute = mx_compute_type(call);
    if (!mx_inputs_are(call, compute, NOT_OPERANDS(0)) || call->out[1]->dtype != (int)compute)
        return MX_DECLINED;
    attention_job job = {.out = mx_data(call->out[0]), .lse = mx_data(call->out[1]), .wide = compute == MX_FLOAT64};
    mx_code code = open_job(&job, call, 0);
    if (code)
        return code;
    job.s.dropout = call->training ? job.s.dropout : 0;
    if (job.s.dropout > 0)
        job.rng = mx_rng_reserve(mx_attention_counters(&job.s));
    memcpy(mx_data(call->out[2]), &job.rng, sizeof job.rng);
    job.keys = philox_schedule(job.rng.seed);
    const int64_t units = job.s.batch * job.s.heads * blocks_of(job.s.queries, TILE_QUERIES);
    code = units ? run_parts(&job, units, forward_part) : MX_OK;
    const mx_code closed = close_job(&job);
    return code ? code : closed;
}

static mx_code run_backward(const mx_kernel_call *call)
{
    const mx_dtype compute = mx_compute_type(call);
    mx_array *const *in = call->in;
    if (!mx_inputs_are(call, compute, NOT_OPERANDS(MX_ATTENTION_BACK_IN) | 1u << MX_ATTENTION_BACK_SEED))
        return MX_DECLINED;
    attention_job job = {.out = mx_data(in[MX_ATTENTION_BACK_OUT]), .lse = mx_data(in[MX_ATTENTION_BACK_LSE]),
                         .g = mx_data(in[MX_ATTENTION_BACK_GRAD]), .wide = compute == MX_FLOAT64};
    mx_code code = open_job(&job, call, MX_ATTENTION_BACK_IN);
    if (code)
        return code;
    for (int i = 0; i < call->n_out; i++)
        job.gradient[i] = mx_data(call->out[i]);
    memcpy(&job.rng, mx_data(in[MX_ATTENTION_BACK_SEED]), sizeof job.rng);
    job.keys = philox_schedule(job.rng.seed);
    const mx_attention_shape *s = &job.s;
    const int64_t rows = s->batch * s->heads * s->queries, heads = s->batch * s->kv_heads;
    const size_t bytes = (size_t)rows * (job.wide ? sizeof(double) : sizeof(float));
    job.delta = mx_scratch_take(bytes);
    if (job.delta) {
        mx_parallel(rows, 1 + MX_GRAIN / s->size, job.wide ? deltas_d : deltas_f, &job);
        const bool enough = heads >= mx_num_threads() || !s->keys;
        code = enough ? run_parts(&job, heads, backward_part)
                      : run_parts(&job, heads * blocks_of(s->keys, TILE_KEYS) + rows, backward_tiles);
    }
    mx_scratch_give(job.delta, bytes);
    const mx_code closed = close_job(&job);
    return !job.delta ? MX_ERR_MEMORY : code ? code : closed;
}

/* _attention_pattern: where queries see keys, and the factors of dropout. */
static void pattern_range(void *arg, int64_t begin, int64_t end)
{
    const attention_job *job = arg;
    const mx_attention_shape *s = &job->s;
    const double keep = s->dropout < 1 ? 1 / (1 - s->dropout) : 0;
    for (int64_t e = begin; e < end; e++) {
        const tile_at at = {e / s->queries / s->heads, e / s->queries % s->heads, e % s->queries, 1, 0, s->keys};
        const int64_t seen = row_seen(job, &at, 0);
        for (int64_t j = 0; j < s->keys; j++) {
            uint8_t sees = j < seen;
            if (sees && job->mask) {
                const tile_at here = {at.n, at.h, at.query, 1, j, 1};
                row_mask(job, &here, 0, 1, &sees);
            }
            const double kept = s->dropout == 0                                                                   ? 1
                                : mx_attention_keeps(job->rng, e, s->keys, j, mx_attention_threshold(s->dropout)) ? keep
                                                                                                                  : 0;
            if (job->wide)
                ((double *)job->out)[e * s->keys + j] = sees, ((double *)job->lse)[e * s->keys + j] = kept;
            else
                ((float *)job->out)[e * s->keys + j] = sees, ((float *)job->lse)[e * s->keys + j] = (float)kept;
        }
    }
}

static mx_code run_pattern(const mx_kernel_call *call)
{
    const mx_dtype compute = mx_compute_type(call);
    if (!mx_inputs_are(call, compute, NOT_OPERANDS(0) | 1u << MX_ATTENTION_INPUTS))
        return MX_DECLINED;
    attention_job job = {.out = mx_data(call->out[0]), .lse = mx_data(call->out[1]), .wide = compute == MX_FLOAT64};
    mx_code code = open_job(&job, call, 0);
    if (code)
        return code;
    memcpy(&job.rng, mx_data(call->in[MX_ATTENTION_INPUTS]), sizeof job.rng);
    mx_parallel(job.s.batch * job.s.heads * job.s.queries, 1 + MX_GRAIN / (job.s.keys + 1), pattern_range, &job);
    return close_job(&job);
}

MX_CPU_KERNELS(attention_fused) = {{"_contrib_attention", run_forward, NULL, MX_KERNEL_WIDEN},
                                   {"_backward_attention", run_backward, NULL, MX_KERNEL_WIDEN},
                                   {"_attention_pattern", run_pattern, NULL, MX_KERNEL_WIDEN},
                                   {NULL, NULL, NULL}};
