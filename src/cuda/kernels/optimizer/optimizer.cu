/* Fused optimizer updates: the entries of op/formula/optimizer.h, all parameters in one launch.
 *
 *     block b --prefix of block counts--> tensor t, its elements [1024 (b - first[t]), ...), four per thread
 *
 * The tensors are described in the arguments of the kernel, so nothing is copied and nothing waits.  An entry's `prepare`
 * runs on the host, unless it reads arrays of one element (the scale of adamw, the norms of lamb): then every thread runs
 * it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/kernels/optimizer/optimizer.h"

#include <cmath>

#include "cuda/device.h"
#include "cuda/kernels/early.h"
#include "cuda/kernels/lanes.h"
using std::isfinite;

#define EACH (MX_CUDA_BLOCK * MX_CUDA_LANES) /* elements of a block */
#define FEW 16                               /* tensors of the small argument struct */
#define ARGUMENT 32700                       /* bytes of a kernel's arguments, at most 32764 */
#define MOST_BLOCKS (1 << 30)                /* of a launch */
#define PIECE 256                            /* calls that are launched together */

/* ---- rows -------------------------------------------------------------------------------------------------------- */

/* What an entry may read beside its attributes; attributes of the same name hide these. */
template <class T> struct common_constants {
    T x, y, clip, clip_weight, rescale_grad;
};

template <class T> __device__ inline T limited(T v, T limit) /* NaN passes through */
{
    v = v < -limit ? -limit : v;
    return v > limit ? limit : v;
}

static __host__ __device__ inline double limit_of(double given) { return given < 0 ? (double)INFINITY : given; }

#define K(x) ((T)k.x)
#define CLIP(v) limited<T>(v, k.clip)
#define CLIP_WEIGHT(v) limited<T>(v, k.clip_weight)
#define SIGN(x) ((T)(((x) > 0) - ((x) < 0)))
#define SQRT sqrt
#define FABS fabs
#define FIELD(type, name, ...) T name;
#define PACK(type, name, ...) k.name = (T)u.name;
#define UNPACK(type, name, ...) u.name = (double)k.name;

#define ROW(id, name, aliases, inputs, states_, scalars_, ATTRS, prepare, body, ...)                       \
    struct row_##id {                                                                                      \
        static const int states = states_, scalars = scalars_;                                             \
        template <class T> struct constants : common_constants<T> {                                        \
            ATTRS(FIELD)                                                                                   \
        };                                                                                                 \
        static void read(const void *given, mx_update_constants *k)                                                  \
        {                                                                                                  \
            const mx_##id##_attrs *attrs = (const mx_##id##_attrs *)given;                                 \
            ATTRS(MX_UPDATE_FIELD)                                                                         \
        }                                                                                                  \
        static __host__ __device__ void derive(const double *s, mx_update_constants *k)                              \
        {                                                                                                  \
            (void)s, (void)k;                                                                              \
            prepare;                                                                                       \
        }                                                                                                  \
        template <class T> static __host__ __device__ constants<T> pack(const mx_update_constants &u)                \
        {                                                                                                  \
            constants<T> k;                                                                                \
            k.x = (T)u.x, k.y = (T)u.y, k.rescale_grad = (T)u.rescale_grad;                                \
            k.clip = (T)limit_of(u.clip_gradient), k.clip_weight = (T)limit_of(u.clip_weights);            \
            ATTRS(PACK)                                                                                    \
            return k;                                                                                      \
        }                                                                                                  \
        template <class T> static __device__ mx_update_constants unpack(const constants<T> &k)                       \
        {                                                                                                  \
            mx_update_constants u = {};                                                                              \
            ATTRS(UNPACK)                                                                                  \
            return u;                                                                                      \
        }                                                                                                  \
        template <class T> static __device__ void step(const constants<T> &k, T &w, T g, T &a, T &b, T &c) \
        {                                                                                                  \
            (void)a, (void)b, (void)c;                                                                     \
            body;                                                                                          \
        }                                                                                                  \
    };
MX_UPDATE_ROWS(ROW)

/* ---- the kernel -------------------------------------------------------------------------------------------------- */

template <class Row, class T> struct packed {
    const void *from, *grad;
    void *to, *copy; /* copy NULL: none */
    void *state[Row::states ? Row::states : 1];
    const void *number[2];
    int64_t size;
    int8_t from_type, grad_type, to_type, copy_type, state_type[3], number_type[2];
    bool aligned; /* four elements at once */
    typename Row::template constants<T> k;
};

template <class Row, class T, int N> struct batch {
    int n;
    unsigned first[N]; /* first block of each tensor; contiguous, so that the search reads little */
    packed<Row, T> x[N];
};

/* Learning rates in device memory. */
template <class Row> struct has_rates {
    static const bool value = false;
};
template <> struct has_rates<row_sgd_update> {
    static const bool value = true;
};
template <> struct has_rates<row_sgd_mom_update> {
    static const bool value = true;
};

/* Derives what depends on numbers in device memory; true: skip the update. */
template <class Row, class T>
__device__ inline bool look_at_numbers(const packed<Row, T> &x, typename Row::template constants<T> &k)
{
    if constexpr (Row::scalars > 0) {
        double s[2] = {0, 0};
        for (int i = 0; i < Row::scalars; i++)
            s[i] = mx_cuda_load<double>(x.number[i], x.number_type[i], 0);
        mx_update_constants u = Row::unpack(k);
        Row::derive(s, &u);
        k = Row::template pack<T>(u);
        return u.skip;
    } else if constexpr (has_rates<Row>::value) {
        if (x.number[0]) {
            k.lr = mx_cuda_load<T>(x.number[0], x.number_type[0], 0);
            k.wd = mx_cuda_load<T>(x.number[1], x.number_type[1], 0);
        }
    }
    return false;
}

template <class Row, class T, int N> __global__ void update(const __grid_constant__ batch<Row, T, N> all)
{
    int low = 0;
    for (int high = all.n - 1; low < high;) { /* the last tensor that begins at this block or before */
        const int middle = (low + high + 1) / 2;
        if (all.first[middle] <= blockIdx.x)
            low = middle;
        else
            high = middle - 1;
    }
    const packed<Row, T> &x = all.x[low];
    const int64_t i = ((int64_t)(blockIdx.x - all.first[low]) * MX_CUDA_BLOCK + threadIdx.x) * MX_CUDA_LANES;
    mx_cuda_wait_for_earlier();
    if (i >= x.size)
        return;
    const int lanes = x.size - i < MX_CUDA_LANES ? (int)(x.size - i) : MX_CUDA_LANES;
    const bool whole = x.aligned && lanes == MX_CUDA_LANES;
    T w[MX_CUDA_LANES], g[MX_CUDA_LANES], s[3][MX_CUDA_LANES];
    mx_cuda_load_lanes(w, x.from, x.from_type, i, lanes, whole);
    mx_cuda_load_lanes(g, x.grad, x.grad_type, i, lanes, whole);
#pragma unroll
    for (int k = 0; k < Row::states; k++)
        mx_cuda_load_lanes(s[k], x.state[k], x.state_type[k], i, lanes, whole);
    typename Row::template constants<T> k = x.k;
    if (!look_at_numbers(x, k))
#pragma unroll
        for (int l = 0; l < MX_CUDA_LANES; l++)
            Row::step(k, w[l], g[l], s[0][l], s[1][l], s[2][l]);
    mx_cuda_store_lanes(w, x.to, x.to_type, i, lanes, whole);
    if (x.copy)
        mx_cuda_store_lanes(w, x.copy, x.copy_type, i, lanes, whole);
#pragma unroll
    for (int j = 0; j < Row::states; j++)
        mx_cuda_store_lanes(s[j], x.state[j], x.state_type[j], i, lanes, whole);
}

/* ---- launching --------------------------------------------------------------------------------------------------- */

/* The address of an array's elements, and whether four can be moved at once. */
template <class P> static void place(P *data, int8_t *type, bool *aligned, const mx_array *x)
{
    *data = mx_data(x), *type = (int8_t)x->dtype;
    *aligned &= mx_cuda_aligned(mx_data(x), x->dtype);
}

template <class Row, class T> static void pack(packed<Row, T> *p, const mx_cuda_tensor &x)
{
    p->size = x.size, p->aligned = true, p->copy = nullptr;
    place(&p->from, &p->from_type, &p->aligned, x.from);
    place(&p->grad, &p->grad_type, &p->aligned, x.grad);
    place(&p->to, &p->to_type, &p->aligned, x.to);
    if (x.copy)
        place(&p->copy, &p->copy_type, &p->aligned, x.copy);
    for (int i = 0; i < Row::states; i++)
        place(&p->state[i], &p->state_type[i], &p->aligned, x.state[i]);
    for (int i = 0; i < 2; i++)
        p->number[i] = x.number[i].data, p->number_type[i] = (int8_t)x.number[i].type;
    p->k = Row::template pack<T>(x.k);
}

/* As many tensors as fit into one launch; *done counts them. */
template <class Row, class T, int N>
static mx_code launch(const mx_kernel_call *call, mx_cuda_device *d, int n, const mx_cuda_tensor *x, int *done)
{
    batch<Row, T, N> all;
    int64_t blocks = 0;
    for (all.n = 0; *done < n && all.n < N && blocks < MOST_BLOCKS; ++*done) {
        const int64_t more = (x[*done].size + EACH - 1) / EACH;
        if (more) {
            pack(&all.x[all.n], x[*done]);
            all.first[all.n++] = (unsigned)blocks;
        }
        blocks += more;
    }
    return !blocks
               ? MX_OK
               : mx_cuda_fail(mx_cuda_launch_early(d, update<Row, T, N>, dim3((unsigned)blocks), MX_CUDA_BLOCK, all),
                              call->op->name);
}

template <class Row, class T>
static mx_code run_row(const mx_kernel_call *call, mx_cuda_device *d, int n, const mx_cuda_tensor *x)
{
    const int many = (ARGUMENT - 16) / (int)(sizeof(packed<Row, T>) + sizeof(unsigned));
    mx_code code = MX_OK;
    for (int done = 0; !code && done < n;)
        code = n - done <= FEW ? launch<Row, T, FEW>(call, d, n, x, &done) : launch<Row, T, many>(call, d, n, x, &done);
    return code;
}

typedef mx_code (*row_fn)(const mx_kernel_call *call, mx_cuda_device *d, int n, const mx_cuda_tensor *x);
typedef struct update_row {
    void (*read)(const void *attrs, mx_update_constants *k);
    void (*derive)(const double *s, mx_update_constants *k);
    row_fn run_f, run_d;
    bool on_device; /* derived there */
} update_row;
#define ENTRY(id, ...) \
    {row_##id::read, row_##id::derive, run_row<row_##id, float>, run_row<row_##id, double>, row_##id::scalars > 0},
static const update_row rows[MX_UPDATE_COUNT] = {MX_UPDATE_ROWS(ENTRY)};

mx_code mx_cuda_update(const mx_kernel_call *call, mx_update_row row, mx_dtype compute, int n, const mx_cuda_tensor *x)
{
    mx_cuda_device *d = mx_cuda_of(call);
    if (!d)
        return mx_error_code();
    return (compute == MX_FLOAT64 ? rows[row].run_d : rows[row].run_f)(call, d, n, x);
}

/* ---- operators --------------------------------------------------------------------------------------------------- */

/* With a 32-bit weight that is updated, the result is its copy. */
static void describe(const mx_kernel_call *call, mx_cuda_tensor *x)
{
    const mx_update_use *use = (const mx_update_use *)call->op->user;
    mx_array *out = call->out[0], *weight = call->in[use->master_at];
    const bool keeps_master = use->master_at && (call->op->mutates >> use->master_at & 1);
    *x = {};
    x->from = weight, x->grad = call->in[1], x->size = out->size;
    x->to = keeps_master ? weight : out, x->copy = keeps_master ? out : nullptr;
    for (int i = 0; i < use->states; i++)
        x->state[i] = call->in[2 + i];
    for (int i = 0; i < use->scalars; i++) {
        const mx_array *number = call->in[use->scalars_at + i];
        x->number[i] = {mx_data(number), number->dtype};
    }
    rows[use->row].read(call->attrs, &x->k);
    if (!rows[use->row].on_device)
        rows[use->row].derive(nullptr, &x->k);
}

static bool all_floats(const mx_kernel_call *call)
{
    for (int i = 0; i < call->n_in; i++)
        if (!mx_dtype_is_float(call->in[i]->dtype))
            return false;
    return true;
}

static bool alike(const mx_kernel_call *a, const mx_kernel_call *b)
{
    return a->out[0]->context.id == b->out[0]->context.id && mx_cuda_compute_type(a) == mx_cuda_compute_type(b);
}

/* Calls of one operator; runs of one device and one type are one launch. */
static mx_code run_updates(int n, const mx_kernel_call *first, size_t stride)
{
    mx_cuda_tensor tensors[PIECE];
    for (int i = 0; i < n; i++)
        if (!all_floats(mx_call_at(first, stride, i)))
            return MX_DECLINED;
    mx_code code = MX_OK;
    for (int begin = 0, end; !code && begin < n; begin = end) {
        const mx_kernel_call *call = mx_call_at(first, stride, begin);
        for (end = begin; end < n && end < begin + PIECE && alike(call, mx_call_at(first, stride, end)); end++)
            describe(mx_call_at(first, stride, end), &tensors[end - begin]);
        code = mx_cuda_update(call, ((const mx_update_use *)call->op->user)->row, mx_cuda_compute_type(call),
                              end - begin, tensors);
    }
    return code;
}

static mx_code run_update(const mx_kernel_call *call) { return run_updates(1, call, 0); }

#define KERNEL(id, name, ...) {name, run_update, NULL},
MX_CUDA_KERNELS(optimizer) = {MX_UPDATE_ROWS(KERNEL) MX_PRECISION_ROWS(KERNEL){NULL, NULL, NULL}};

void mx_cuda_attach_updates(void)
{
    for (const mx_kernel *k = mx_cuda_kernels_optimizer; k->op; k++)
        mx_op_attach_many(MX_GPU, k->op, run_updates);
}
