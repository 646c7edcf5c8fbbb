/* SequenceMask, SequenceLast, SequenceReverse: data (T, N, R), or (N, T, R) with axis 1.  SPDX-License-Identifier: Apache-2.0 */
#include <cstring>

#include "cuda/cuda.h"

struct sequences {
    int64_t steps, count, run; /* run: elements of one step of one sequence */
    bool first;                /* sequences are the first axis */
    const void *lengths;       /* NULL: all steps */
    int type;
    __device__ int64_t length(int64_t n) const
    {
        const int64_t length = lengths ? mx_cuda_load<int64_t>(lengths, type, n) : steps;
        return length < 0 ? 0 : length > steps ? steps : length;
    }
    __device__ int64_t at(int64_t t, int64_t n) const { return first ? (n * steps + t) * run : (t * count + n) * run; }
    __device__ void locate(int64_t i, int64_t *t, int64_t *n) const
    {
        const int64_t step = i / run;
        *t = first ? step % steps : step / count, *n = first ? step / steps : step % count;
    }
};

/* `whole` is the array that has steps; one without a second axis is one sequence. */
static mx_code describe(const mx_kernel_call *call, const mx_array *whole, bool use_lengths, int axis, sequences *s)
{
    const mx_array *lengths = use_lengths && call->n_in > 1 && !mx_is_none(call->in[1]) ? call->in[1] : nullptr;
    if (use_lengths && !lengths)
        return mx_op_fail(call->op, MX_ERR_ARGUMENT, "use_sequence_length is set, but sequence_length is not given");
    *s = {whole->shape[axis], whole->ndim > 1 ? whole->shape[1 - axis] : 1, 1, axis == 1, lengths ? mx_data(lengths) : nullptr,
          lengths ? lengths->dtype : 0};
    for (int i = 2; i < whole->ndim; i++)
        s->run *= whole->shape[i];
    return MX_OK;
}

enum action { MASK, REVERSE, LAST, LAST_BACK };

template <class T> static mx_code act(const mx_kernel_call *call, const sequences &s, action what, uint64_t bits)
{
    const T *from = (const T *)mx_data(call->in[0]);
    T *to = (T *)mx_data(call->out[0]), value;
    memcpy(&value, &bits, sizeof value);
    return mx_cuda_each(call, call->out[0]->size, [=] __device__(int64_t i) {
        int64_t t, n;
        if (what == LAST) {
            n = i / s.run;
            const int64_t length = s.length(n);
            to[i] = from[s.at(length > 0 ? length - 1 : 0, n) + i % s.run];
            return;
        }
        s.locate(i, &t, &n);
        const int64_t length = s.length(n), last = length > 0 ? length - 1 : 0;
        if (what == MASK)
            to[i] = t < length ? from[i] : value;
        else if (what == REVERSE)
            to[i] = from[s.at(t < length ? length - 1 - t : t, n) + i % s.run];
        else
            to[i] = t == last ? from[n * s.run + i % s.run] : value;
    });
}

static mx_code run(const mx_kernel_call *call, const mx_array *whole, bool use_lengths, int axis, double value,
                   action what)
{
    sequences s = {};
    uint64_t bits = 0;
    if (describe(call, whole, use_lengths, axis, &s))
        return mx_error_code();
    mx_convert(&bits, (mx_dtype)whole->dtype, &value, MX_FLOAT64, 1);
    switch (mx_dtype_size((mx_dtype)whole->dtype)) {
    case 1: return act<uint8_t>(call, s, what, bits);
    case 2: return act<uint16_t>(call, s, what, bits);
    case 4: return act<uint32_t>(call, s, what, bits);
    default: return act<uint64_t>(call, s, what, bits);
    }
}

static mx_code run_mask(const mx_kernel_call *call)
{
    const mx_sequence_mask_attrs *a = (const mx_sequence_mask_attrs *)call->attrs;
    return run(call, call->in[0], a->use_sequence_length, (int)a->axis, a->value, MASK);
}
static mx_code run_reverse(const mx_kernel_call *call)
{
    const mx_sequence_attrs *a = (const mx_sequence_attrs *)call->attrs;
    return run(call, call->in[0], a->use_sequence_length, (int)a->axis, 0, REVERSE);
}
static mx_code run_last(const mx_kernel_call *call)
{
    const mx_sequence_attrs *a = (const mx_sequence_attrs *)call->attrs;
    return run(call, call->in[0], a->use_sequence_length, (int)a->axis, 0, LAST);
}
static mx_code run_last_back(const mx_kernel_call *call)
{
    const mx_sequence_last_back_attrs *a = (const mx_sequence_last_back_attrs *)call->attrs;
    return run(call, call->out[0], a->use_sequence_length, (int)a->axis, 0, LAST_BACK);
}

MX_CUDA_KERNELS(sequence) = {{"SequenceMask", run_mask, NULL},
                             {"SequenceReverse", run_reverse, NULL},
                             {"SequenceLast", run_last, NULL},
                             {"_sequence_last_back", run_last_back, NULL},
                             {NULL, NULL, NULL}};
