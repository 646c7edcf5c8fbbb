/* BatchNorm in all its forms: sums over channels, then a map with numbers per channel (dnn_channels.h).
 *
 * 16-bit arrays are read and written as they are; sums and arithmetic are in float.  What belongs to channels (gamma, beta,
 * mean, ...) may be of any floating type and is read once per thread.  Sums are of x - shift, where shift is the first
 * element of the channel, so that large means cost no digits.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/kernels/dnn_channels.h"

namespace
{

/* An array of numbers per channel; NULL data: none. */
struct row {
    void *data;
    int type;
    row() : data(nullptr), type(0) {}
    explicit row(const mx_array *x)
        : data(mx_is_none(x) || !x->size ? nullptr : mx_data(x)), type(mx_is_none(x) ? 0 : x->dtype)
    {
    }
    template <class T> __device__ T at(int64_t c, T absent = 0) const
    {
        return data ? mx_cuda_load<T>(data, type, c) : absent;
    }
    template <class T> __device__ void put(int64_t c, T v) const
    {
        if (data)
            mx_cuda_store<T>(data, type, c, v);
    }
};

/* What the maps need to know of the channels. */
struct channel_rows {
    row gamma, beta, mean, inverse; /* gamma absent: 1 */
};

template <class T, int V> struct scaled {
    T middle[V], scale[V], base[V];
    __device__ scaled(const channel_rows &r, int64_t c, int step)
    {
        for (int l = 0; l < V; l++) {
            const int64_t k = c + l * step;
            middle[l] = r.mean.at<T>(k), scale[l] = r.inverse.at<T>(k) * r.gamma.at<T>(k, 1), base[l] = r.beta.at<T>(k);
        }
    }
    __device__ T at(int l, T x) const { return (x - middle[l]) * scale[l] + base[l]; }
};

/* ---- statistics ------------------------------------------------------------------------------------------------ */

template <class S, int V> struct spread {
    typedef mx_cuda_wide<S> number;
    const S *x;
    int64_t inner;
    struct channel {
        number shift[V];
    };
    __device__ channel start(int64_t c, int step) const
    {
        channel k;
        for (int l = 0; l < V; l++)
            k.shift[l] = (number)x[(c + l * step) * inner];
        return k;
    }
    __device__ void visit(const channel &k, int64_t at, number *a, number *b) const
    {
        const mx_cuda_pack<S, V> p = mx_cuda_pack<S, V>::load(x, at);
        for (int l = 0; l < V; l++) {
            const number v = (number)p.v[l] - k.shift[l];
            a[l] += v, b[l] += v * v;
        }
    }
};

struct statistics {
    double eps, momentum;
    row bias, moving_mean, moving_var, mean, inverse; /* bias: what the data would have had added to it */
};

/* mean and 1 / sqrt(var + eps) of the batch; the running ones move towards them. */
template <class S, int V>
static mx_code batch_statistics(const mx_kernel_call *call, mx_cuda_device *d, const mx_cuda_channels &s, const S *x,
                                const statistics t)
{
    const double count = (double)s.each();
    const int64_t inner = s.inner;
    return mx_cuda_channel_sums<V>(
        call, d, s, spread<S, V>{x, inner}, [=] __device__(int64_t c, double sum, double squares) {
            const double offset = sum / count, var = fmax(squares / count - offset * offset, 0.);
            const double center = (double)x[c * inner] + offset;
            t.mean.put<double>(c, center), t.inverse.put<double>(c, 1 / sqrt(var + t.eps));
            const double seen = center + t.bias.at<double>(c);
            t.moving_mean.put<double>(c, t.moving_mean.at<double>(c) * t.momentum + seen * (1 - t.momentum));
            t.moving_var.put<double>(c, t.moving_var.at<double>(c) * t.momentum + var * (1 - t.momentum));
        });
}

static mx_code running_statistics(const mx_kernel_call *call, int64_t channels, const statistics t)
{
    return mx_cuda_each(call, channels, [=] __device__(int64_t c) {
        t.mean.put<double>(c, t.moving_mean.at<double>(c));
        t.inverse.put<double>(c, 1 / sqrt(t.moving_var.at<double>(c) + t.eps));
    });
}

/* ---- y = (x - mean) inverse gamma + beta (+ addend), perhaps at least 0 ----------------------------------------- */

template <class S, int V> struct applied {
    typedef mx_cuda_wide<S> number;
    typedef scaled<number, V> channel;
    channel_rows rows;
    const S *x, *addend; /* addend NULL: none */
    S *y;
    bool relu;
    __device__ channel start(int64_t c, int step) const { return channel(rows, c, step); }
    __device__ void visit(const channel &k, int64_t at) const
    {
        const mx_cuda_pack<S, V> p = mx_cuda_pack<S, V>::load(x, at);
        mx_cuda_pack<S, V> q, plus;
        if (addend)
            plus = mx_cuda_pack<S, V>::load(addend, at);
        for (int l = 0; l < V; l++) {
            number v = k.at(l, (number)p.v[l]);
            if (addend)
                v += (number)plus.v[l];
            q.v[l] = (S)(relu && v < 0 ? (number)0 : v);
        }
        q.store(y, at);
    }
};

/* ---- gradients ------------------------------------------------------------------------------------------------- */

/* The incoming gradient where the result was positive: by the result itself, or by computing it again. */
template <class S, int V> struct masked {
    typedef mx_cuda_wide<S> number;
    const S *g, *more, *x, *y; /* more: another part of the gradient; more, y NULL: none */
    bool relu;
    /* h: gradients behind the mask, centred: x - mean */
    __device__ void load(const scaled<number, V> &k, int64_t at, number *h, number *centred) const
    {
        const mx_cuda_pack<S, V> slope = mx_cuda_pack<S, V>::load(g, at), data = mx_cuda_pack<S, V>::load(x, at);
        mx_cuda_pack<S, V> result, other;
        if (y)
            result = mx_cuda_pack<S, V>::load(y, at);
        if (more)
            other = mx_cuda_pack<S, V>::load(more, at);
        for (int l = 0; l < V; l++) {
            const number v = (number)data.v[l], whole = (number)slope.v[l] + (more ? (number)other.v[l] : (number)0);
            const bool flows = !relu || (y ? (number)result.v[l] > 0 : k.at(l, v) > 0);
            h[l] = flows ? whole : (number)0;
            centred[l] = v - k.middle[l];
        }
    }
};

template <class S, int V> struct slopes {
    typedef mx_cuda_wide<S> number;
    typedef scaled<number, V> channel;
    channel_rows rows;
    masked<S, V> in;
    S *kept; /* h itself; NULL: not wanted */
    __device__ channel start(int64_t c, int step) const { return channel(rows, c, step); }
    __device__ void visit(const channel &k, int64_t at, number *a, number *b) const
    {
        number h[V], centred[V];
        mx_cuda_pack<S, V> out;
        in.load(k, at, h, centred);
        for (int l = 0; l < V; l++) {
            out.v[l] = (S)h[l];
            a[l] += h[l], b[l] += h[l] * centred[l];
        }
        if (kept)
            out.store(kept, at);
    }
};

/* dx = p h + q (x - mean) + r */
template <class S, int V> struct back {
    typedef mx_cuda_wide<S> number;
    struct channel {
        scaled<number, V> forward;
        number p[V], q[V], r[V];
    };
    channel_rows rows;
    masked<S, V> in;
    const number *factors; /* (3, channels) */
    int64_t channels;
    S *dx;
    __device__ channel start(int64_t c, int step) const
    {
        channel k = {scaled<number, V>(rows, c, step), {}, {}, {}};
        for (int l = 0; l < V; l++) {
            const number *f = factors + c + l * step;
            k.p[l] = f[0], k.q[l] = f[channels], k.r[l] = f[2 * channels];
        }
        return k;
    }
    __device__ void visit(const channel &k, int64_t at) const
    {
        number h[V], centred[V];
        mx_cuda_pack<S, V> out;
        in.load(k.forward, at, h, centred);
        for (int l = 0; l < V; l++)
            out.v[l] = (S)(k.p[l] * h[l] + k.q[l] * centred[l] + k.r[l]);
        out.store(dx, at);
    }
};

struct gradient_job {
    const mx_array *ograd, *more, *data, *output; /* more, output NULL: none */
    channel_rows rows;
    row gamma_grad, beta_grad, bias_grad;
    mx_array *data_grad, *addend_grad; /* addend_grad NULL: not wanted */
    bool fix_gamma, relu, batch;
};

template <class S, int V>
static mx_code gradients(const mx_kernel_call *call, mx_cuda_device *d, const mx_cuda_channels &s,
                         const gradient_job &j)
{
    typedef mx_cuda_wide<S> number;
    mx_cuda_scratch factors(d, (size_t)(3 * s.channels) * sizeof(number));
    if (!factors.memory)
        return mx_error_code();
    number *f = factors.as<number>();
    masked<S, V> in = {(const S *)mx_data(j.ograd), j.more ? (const S *)mx_data(j.more) : nullptr,
                       (const S *)mx_data(j.data), j.output ? (const S *)mx_data(j.output) : nullptr, j.relu};
    S *kept = j.addend_grad ? (S *)mx_data(j.addend_grad) : nullptr;
    const double count = (double)s.each();
    const int64_t channels = s.channels;
    const channel_rows rows = j.rows;
    const row gamma_grad = j.gamma_grad, beta_grad = j.beta_grad, bias_grad = j.bias_grad;
    const bool fix_gamma = j.fix_gamma, batch = j.batch;
    const mx_code code = mx_cuda_channel_sums<V>(
        call, d, s, slopes<S, V>{rows, in, kept}, [=] __device__(int64_t c, double sum, double products) {
            const double inv = rows.inverse.at<double>(c), p = rows.gamma.at<double>(c, 1) * inv;
            gamma_grad.put<double>(c, fix_gamma ? 0 : products * inv), beta_grad.put<double>(c, sum),
                bias_grad.put<double>(c, 0);
            f[c] = (number)p;
            f[channels + c] = (number)(batch ? -p * inv * inv * products / count : 0);
            f[2 * channels + c] = (number)(batch ? -p * sum / count : 0);
        });
    if (kept) /* what stands behind the mask has just been written */
        in = {kept, nullptr, in.x, nullptr, false};
    return code ? code
                : mx_cuda_channel_map<V>(call, d, s, back<S, V>{rows, in, f, channels, (S *)mx_data(j.data_grad)});
}

/* ---- element types --------------------------------------------------------------------------------------------- */

static mx_code find_statistics(const mx_kernel_call *call, const mx_array *data, int64_t axis, bool batch,
                               const statistics &t)
{
    mx_cuda_device *d = mx_cuda_of(call);
    const mx_cuda_channels s(data, axis);
    if (!d)
        return mx_error_code();
    if (!s.channels)
        return MX_OK;
    if (!batch || !data->size)
        return running_statistics(call, s.channels, t);
    return mx_cuda_by_storage(
        data->dtype, s.packs(data->dtype) && mx_cuda_all_aligned({data}), [&](auto *type, auto lanes) {
            typedef MX_CUDA_STORAGE(type) S;
            return batch_statistics<S, decltype(lanes)::value>(call, d, s, (const S *)mx_data(data), t);
        });
}

static mx_code apply(const mx_kernel_call *call, const mx_array *data, int64_t axis, const channel_rows &rows,
                     const mx_array *addend, mx_array *out, bool relu)
{
    mx_cuda_device *d = mx_cuda_of(call);
    const mx_cuda_channels s(data, axis);
    if (!d)
        return mx_error_code();
    if (!data->size)
        return MX_OK;
    return mx_cuda_by_storage(
        data->dtype, s.packs(data->dtype) && mx_cuda_all_aligned({data, addend, out}), [&](auto *type, auto lanes) {
            typedef MX_CUDA_STORAGE(type) S;
            constexpr int V = decltype(lanes)::value;
            return mx_cuda_channel_map<V>(call, d, s,
                                          applied<S, V>{rows, (const S *)mx_data(data),
                                                        addend ? (const S *)mx_data(addend) : nullptr,
                                                        (S *)mx_data(out), relu});
        });
}

static mx_code go_back(const mx_kernel_call *call, int64_t axis, const gradient_job &j)
{
    mx_cuda_device *d = mx_cuda_of(call);
    const mx_cuda_channels s(j.data, axis);
    if (!d)
        return mx_error_code();
    if (!s.channels)
        return MX_OK;
    const bool packed =
        s.packs(j.data->dtype) && mx_cuda_all_aligned({j.ograd, j.more, j.data, j.output, j.data_grad, j.addend_grad});
    return mx_cuda_by_storage(j.data->dtype, packed, [&](auto *type, auto lanes) {
        typedef MX_CUDA_STORAGE(type) S;
        return gradients<S, decltype(lanes)::value>(call, d, s, j);
    });
}

/* ---- BatchNorm ------------------------------------------------------------------------------------------------- */

static mx_code normalise(const mx_kernel_call *call, int64_t axis, double eps, double momentum, bool fix_gamma,
                         bool batch, bool relu)
{
    const mx_array *const *in = call->in;
    const statistics t = {eps, momentum, row(), row(in[3]), row(in[4]), row(call->out[1]), row(call->out[2])};
    const channel_rows rows = {fix_gamma ? row() : row(in[1]), row(in[2]), t.mean, t.inverse};
    const mx_code code = find_statistics(call, in[0], axis, batch, t);
    return code ? code : apply(call, in[0], axis, rows, nullptr, call->out[0], relu);
}

static mx_code run_with(const mx_kernel_call *call, bool relu)
{
    const mx_batch_norm_attrs *a = (const mx_batch_norm_attrs *)call->attrs;
    return normalise(call, a->axis, a->eps, a->momentum, a->fix_gamma, call->training && !a->use_global_stats, relu);
}
static mx_code run_batch_norm(const mx_kernel_call *call) { return run_with(call, false); }
static mx_code run_batch_norm_relu(const mx_kernel_call *call) { return run_with(call, true); }
static mx_code run_sync_batch_norm(const mx_kernel_call *call)
{
    const mx_sync_batch_norm_attrs *a = (const mx_sync_batch_norm_attrs *)call->attrs;
    return normalise(call, 1, a->eps, a->momentum, a->fix_gamma, call->training && !a->use_global_stats, false);
}

/* inputs: ograd, data, gamma, mean, inverse deviation */
static mx_code run_batch_norm_backward(const mx_kernel_call *call)
{
    const mx_batch_norm_backward_attrs *a = (const mx_batch_norm_backward_attrs *)call->attrs;
    gradient_job j = {};
    j.ograd = call->in[0], j.data = call->in[1], j.data_grad = call->out[0];
    j.rows = {a->fix_gamma ? row() : row(call->in[2]), row(), row(call->in[3]), row(call->in[4])};
    j.gamma_grad = row(call->out[1]), j.beta_grad = row(call->out[2]);
    j.fix_gamma = a->fix_gamma, j.batch = a->batch_statistics;
    return go_back(call, a->axis, j);
}

/* ---- the parts that plans use ---------------------------------------------------------------------------------- */

static const mx_array *present(const mx_array *x) { return mx_is_none(x) ? nullptr : x; }

static mx_code run_statistics(const mx_kernel_call *call)
{
    const mx_norm_statistics_attrs *a = (const mx_norm_statistics_attrs *)call->attrs;
    const statistics t = {a->eps,           a->momentum,       row(call->in[3]), row(call->in[1]),
                          row(call->in[2]), row(call->out[0]), row(call->out[1])};
    return find_statistics(call, call->in[0], a->axis, true, t);
}

static mx_code run_apply(const mx_kernel_call *call)
{
    const mx_norm_apply_attrs *a = (const mx_norm_apply_attrs *)call->attrs;
    const channel_rows rows = {a->fix_gamma ? row() : row(call->in[1]), row(call->in[2]), row(call->in[3]),
                               row(call->in[4])};
    return apply(call, call->in[0], a->axis, rows, present(call->in[5]), call->out[0], a->relu);
}

static mx_code run_apply_backward(const mx_kernel_call *call)
{
    const mx_norm_gradient_attrs *a = (const mx_norm_gradient_attrs *)call->attrs;
    gradient_job j = {};
    j.ograd = call->in[0], j.data = call->in[1], j.output = present(call->in[6]), j.more = present(call->in[7]),
    j.data_grad = call->out[0];
    j.rows = {a->fix_gamma ? row() : row(call->in[2]), row(call->in[3]), row(call->in[4]), row(call->in[5])};
    j.gamma_grad = row(call->out[1]), j.beta_grad = row(call->out[2]);
    j.addend_grad = a->addend ? call->out[3] : nullptr;
    j.bias_grad = a->bias ? row(call->out[3 + a->addend]) : row();
    j.fix_gamma = a->fix_gamma, j.relu = a->relu, j.batch = true;
    return go_back(call, a->axis, j);
}

} // namespace

MX_CUDA_KERNELS(dnn_norm) = {{"BatchNorm", run_batch_norm, NULL},
                             {"_contrib_BatchNormWithReLU", run_batch_norm_relu, NULL},
                             {"_contrib_SyncBatchNorm", run_sync_batch_norm, NULL},
                             {"_backward_BatchNorm", run_batch_norm_backward, NULL},
                             {"_norm_statistics", run_statistics, NULL},
                             {"_norm_apply", run_apply, NULL},
                             {"_backward_norm_apply", run_apply_backward, NULL},
                             {NULL, NULL, NULL}};
