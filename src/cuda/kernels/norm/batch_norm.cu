/* BatchNorm in all its forms: sums over channels, then a map with numbers per channel (channels.h).
 *
 * 16-bit arrays are read and written as they are; sums and arithmetic are in float.  Arrays per channel (gamma, beta, mean,
 * ...) may be of any floating type and are read once per thread.  Sums are of x - shift, where shift is the first element
 * of the channel, so that large means cost no precision.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/kernels/norm/channels.h"
#include "op/formula/sync_norm.h"

namespace
{

/* Channels of a thread, of the lanes of mx_cuda_by_storage(): eight would leave no registers for reading. */
template <class Lanes> constexpr int few = Lanes::value < 4 ? Lanes::value : 4;

/* An array of numbers per channel; NULL data: none. */
struct row {
    void *data;
    int type;
    bool packed; /* can be read as four floats at a time */
    row() : data(nullptr), type(0), packed(false) {}
    explicit row(const mx_array *x)
        : data(mx_is_none(x) || !x->size ? nullptr : mx_data(x)), type(mx_is_none(x) ? 0 : x->dtype),
          packed(data && type == MX_FLOAT32 && (uintptr_t)data % 16 == 0)
    {
    }
    template <class T> __device__ T at(int64_t c, T absent = 0) const
    {
        return data ? mx_cuda_load<T>(data, type, c) : absent;
    }
    /* to[l]: of channel c + l * step */
    template <class T, int V> __device__ void read(int64_t c, int step, T (&to)[V], T absent = 0) const
    {
        if (V == 4 && step && packed) {
            const mx_cuda_pack<float, 4> p = mx_cuda_pack<float, 4>::load((const float *)data, c);
            for (int l = 0; l < V; l++)
                to[l] = (T)p.v[l];
        } else {
            for (int l = 0; l < V; l++)
                to[l] = step || !l ? at<T>(c + l * step, absent) : to[0];
        }
    }
    template <class T> __device__ void put(int64_t c, T v) const
    {
        if (data)
            mx_cuda_store<T>(data, type, c, v);
    }
};

/* The numbers per channel that maps read. */
struct channel_rows {
    row gamma, beta, mean, inverse; /* gamma absent: 1 */
};

template <class T, int V> struct scaled {
    T middle[V], scale[V], base[V];
    __device__ scaled(const channel_rows &r, int64_t c, int step)
    {
        T gamma[V];
        r.mean.read(c, step, middle), r.inverse.read(c, step, scale), r.gamma.read(c, step, gamma, (T)1),
            r.beta.read(c, step, base);
        for (int l = 0; l < V; l++)
            scale[l] *= gamma[l];
    }
    __device__ T at(int l, T x) const { return (x - middle[l]) * scale[l] + base[l]; }
};

/* ---- statistics ------------------------------------------------------------------------------------------------ */

template <class S, int V> struct spread {
    typedef mx_cuda_wide<S> number;
    typedef mx_cuda_values<S, V, 1> values;
    struct channel {
        number shift[V];
    };
    const S *x[1];
    int64_t inner;
    __device__ channel start(int64_t c, int step) const
    {
        channel k;
        for (int l = 0; l < V; l++)
            k.shift[l] = (number)x[0][(c + l * step) * inner];
        return k;
    }
    __device__ values load(int64_t at) const { return values::load(x, at); }
    __device__ void visit(const channel &k, const values &from, int64_t, number *a, number *b) const
    {
        const mx_cuda_pack<S, V> p = from.open(0);
        for (int l = 0; l < V; l++) {
            const number v = (number)p.v[l] - k.shift[l];
            a[l] += v, b[l] += v * v;
        }
    }
};

struct statistics {
    double eps, momentum;
    row bias, moving_mean, moving_var, mean, inverse; /* bias: would have been added to the data */
};

/* mean and 1 / sqrt(var + eps) of the batch; the running ones move towards them. */
template <class S, int V>
static mx_code batch_statistics(const mx_kernel_call *call, mx_cuda_device *d, const mx_cuda_channels &s, const S *x,
                                const statistics t)
{
    const double count = (double)s.each();
    const int64_t inner = s.inner;
    return mx_cuda_channel_sums<V>(
        call, d, s, spread<S, V>{{x}, inner}, [=] __device__(int64_t c, double sum, double squares) {
            const double offset = sum / count, var = fmax(squares / count - offset * offset, 0.);
            const double center = (double)x[c * inner] + offset;
            const double seen = center + t.bias.at<double>(c), old_mean = t.moving_mean.at<double>(c),
                         old_var = t.moving_var.at<double>(c);
            t.mean.put<double>(c, center), t.inverse.put<double>(c, 1 / sqrt(var + t.eps));
            t.moving_mean.put<double>(c, old_mean * t.momentum + seen * (1 - t.momentum));
            t.moving_var.put<double>(c, old_var * t.momentum + var * (1 - t.momentum));
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

/* relu, or clip from 0 to a number. */
struct limits {
    bool relu = false, clips = false;
    float high = INFINITY;
    limits() {}
    limits(bool on, double most) : relu(on), clips(on && !std::isnan(most)), high(clips ? (float)most : INFINITY) {}
    template <class C> __device__ C of(C v) const { return relu && v < 0 ? (C)0 : v > (C)high ? (C)high : v; }
    template <class C> __device__ bool flows(C v) const { return !relu || (clips ? !(v < 0 || v > (C)high) : v > 0); }
};

/* N 2: with an addend */
template <class S, int V, int N> struct applied {
    typedef mx_cuda_wide<S> number;
    typedef mx_cuda_values<S, V, N> values;
    typedef scaled<number, V> channel;
    channel_rows rows;
    const S *from[N]; /* data, addend */
    S *y;
    limits l;
    __device__ channel start(int64_t c, int step) const { return channel(rows, c, step); }
    __device__ values load(int64_t at) const { return values::load(from, at); }
    __device__ void visit(const channel &k, const values &x, int64_t at) const
    {
        const mx_cuda_pack<S, V> data = x.open(0), plus = x.open(N - 1);
        mx_cuda_pack<S, V> out;
        for (int i = 0; i < V; i++) {
            number v = k.at(i, (number)data.v[i]);
            if (N == 2)
                v += (number)plus.v[i];
            out.v[i] = (S)l.of(v);
        }
        out.store(y, at);
    }
};

/* ---- gradients ------------------------------------------------------------------------------------------------- */

/* The incoming gradient where the result was positive: from the result itself, or from recomputing it. */
template <class S, int V, int N> struct masked {
    typedef mx_cuda_wide<S> number;
    typedef mx_cuda_values<S, V, N> values;
    const S *from[N]; /* gradient, data; N 4: result and another part of the gradient, or NULL */
    limits limit;
    /* h: masked gradients, centred: x - mean */
    __device__ void open(const scaled<number, V> &k, const values &x, number *h, number *centred) const
    {
        const mx_cuda_pack<S, V> slope = x.open(0), data = x.open(1), result = x.open(N - 2), other = x.open(N - 1);
        for (int l = 0; l < V; l++) {
            const number v = (number)data.v[l];
            const bool flows = limit.flows(N == 4 && from[N - 2] ? (number)result.v[l] : k.at(l, v));
            number whole = (number)slope.v[l];
            if (N == 4 && from[N - 1])
                whole += (number)other.v[l];
            h[l] = flows ? whole : (number)0, centred[l] = v - k.middle[l];
        }
    }
};

template <class S, int V, int N> struct slopes {
    typedef mx_cuda_wide<S> number;
    typedef mx_cuda_values<S, V, N> values;
    typedef scaled<number, V> channel;
    channel_rows rows;
    masked<S, V, N> in;
    S *saved; /* N 4: h itself, or NULL */
    __device__ channel start(int64_t c, int step) const { return channel(rows, c, step); }
    __device__ values load(int64_t at) const { return values::load(in.from, at); }
    __device__ void visit(const channel &k, const values &x, int64_t at, number *a, number *b) const
    {
        number h[V], centred[V];
        mx_cuda_pack<S, V> out;
        in.open(k, x, h, centred);
        for (int l = 0; l < V; l++) {
            out.v[l] = (S)h[l];
            a[l] += h[l], b[l] += h[l] * centred[l];
        }
        if (N == 4 && saved)
            out.store(saved, at);
    }
};

/* dx = scale h + q (x - mean) + r */
template <class S, int V, int N> struct back {
    typedef mx_cuda_wide<S> number;
    typedef mx_cuda_values<S, V, N> values;
    struct channel {
        scaled<number, V> forward;
        number q[V], r[V];
    };
    channel_rows rows;
    masked<S, V, N> in;
    const number *factors; /* (2, channels) */
    int64_t channels;
    S *dx;
    __device__ channel start(int64_t c, int step) const
    {
        channel k = {scaled<number, V>(rows, c, step), {}, {}};
        for (int l = 0; l < V; l++)
            k.q[l] = factors[c + l * step], k.r[l] = factors[channels + c + l * step];
        return k;
    }
    __device__ values load(int64_t at) const { return values::load(in.from, at); }
    __device__ void visit(const channel &k, const values &x, int64_t at) const
    {
        number h[V], centred[V];
        mx_cuda_pack<S, V> out;
        in.open(k.forward, x, h, centred);
        for (int l = 0; l < V; l++)
            out.v[l] = (S)(k.forward.scale[l] * h[l] + k.q[l] * centred[l] + k.r[l]);
        out.store(dx, at);
    }
};

struct gradient_job {
    const mx_array *ograd, *more, *data, *output; /* more, output NULL: none */
    channel_rows rows;
    row gamma_grad, beta_grad, bias_grad;
    mx_array *data_grad, *addend_grad; /* addend_grad NULL: not wanted */
    bool fix_gamma, batch;
    limits limit;
};

template <class S> static S *elements(const mx_array *x) { return x ? (S *)mx_data(x) : nullptr; }

/* N 2: without the result, more of the gradient, and the addend's gradient */
template <class S, int V, int N>
static mx_code gradients(const mx_kernel_call *call, mx_cuda_device *d, const mx_cuda_channels &s,
                         const gradient_job &j)
{
    typedef mx_cuda_wide<S> number;
    mx_cuda_scratch factors(d, (size_t)(2 * s.channels) * sizeof(number));
    if (!factors.memory)
        return mx_error_code();
    number *f = factors.as<number>();
    S *saved = elements<S>(j.addend_grad), *dx = elements<S>(j.data_grad);
    masked<S, V, N> in = {{elements<S>(j.ograd), elements<S>(j.data)}, j.limit};
    if (N == 4)
        in.from[N - 2] = elements<S>(j.output), in.from[N - 1] = elements<S>(j.more);
    const double count = (double)s.each();
    const int64_t channels = s.channels;
    const channel_rows rows = j.rows;
    const row gamma_grad = j.gamma_grad, beta_grad = j.beta_grad, bias_grad = j.bias_grad;
    const bool fix_gamma = j.fix_gamma, batch = j.batch;
    const mx_code code = mx_cuda_channel_sums<V>(
        call, d, s, slopes<S, V, N>{rows, in, saved}, [=] __device__(int64_t c, double sum, double products) {
            const double inv = rows.inverse.at<double>(c), p = rows.gamma.at<double>(c, 1) * inv;
            gamma_grad.put<double>(c, fix_gamma ? 0 : products * inv), beta_grad.put<double>(c, sum),
                bias_grad.put<double>(c, 0);
            f[c] = (number)(batch ? -p * inv * inv * products / count : 0);
            f[channels + c] = (number)(batch ? -p * sum / count : 0);
        });
    if (code)
        return code;
    if (saved) /* the masked gradient has just been written there */
        return mx_cuda_channel_map<V>(call, d, s,
                                      back<S, V, 2>{rows, {{saved, in.from[1]}, limits()}, f, channels, dx});
    return mx_cuda_channel_map<V>(call, d, s, back<S, V, N>{rows, in, f, channels, dx});
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
            return batch_statistics<S, few<decltype(lanes)>>(call, d, s, (const S *)mx_data(data), t);
        });
}

static mx_code apply(const mx_kernel_call *call, const mx_array *data, int64_t axis, const channel_rows &rows,
                     const mx_array *addend, mx_array *out, const limits &l)
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
            constexpr int V = few<decltype(lanes)>;
            const S *x = elements<S>(data), *plus = elements<S>(addend);
            S *y = elements<S>(out);
            return plus ? mx_cuda_channel_map<V>(call, d, s, applied<S, V, 2>{rows, {x, plus}, y, l})
                        : mx_cuda_channel_map<V>(call, d, s, applied<S, V, 1>{rows, {x}, y, l});
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
    const bool simple = !j.more && !j.output && !j.addend_grad;
    return mx_cuda_by_storage(j.data->dtype, packed, [&](auto *type, auto lanes) {
        typedef MX_CUDA_STORAGE(type) S;
        constexpr int V = few<decltype(lanes)>;
        return simple ? gradients<S, V, 2>(call, d, s, j) : gradients<S, V, 4>(call, d, s, j);
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
    return code ? code : apply(call, in[0], axis, rows, nullptr, call->out[0], limits(relu, NAN));
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
    if (call->training && !a->use_global_stats && a->ndev > 1)
        return mx_sync_norm_alone(a->ndev);
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
    return apply(call, call->in[0], a->axis, rows, present(call->in[5]), call->out[0], limits(a->relu, a->high));
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
    j.fix_gamma = a->fix_gamma, j.limit = limits(a->relu, a->high), j.batch = true;
    return go_back(call, a->axis, j);
}

} // namespace

MX_CUDA_KERNELS(batch_norm) = {{"BatchNorm", run_batch_norm, NULL},
                             {"_contrib_BatchNormWithReLU", run_batch_norm_relu, NULL},
                             {"_contrib_SyncBatchNorm", run_sync_batch_norm, NULL},
                             {"_backward_BatchNorm", run_batch_norm_backward, NULL},
                             {"_norm_statistics", run_statistics, NULL},
                             {"_norm_apply", run_apply, NULL},
                             {"_backward_norm_apply", run_apply_backward, NULL},
                             {NULL, NULL, NULL}};
