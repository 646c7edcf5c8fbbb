/* SequenceMask, SequenceLast, SequenceReverse on the CPU: the steps of a sequence are copied as runs.
 *
 * data (T, N, R): step t of sequence n is a run of R elements at (t * N + n) * R; with axis 1 at (n * T + t) * R.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/threads.h"
#include "cpu/kernel.h"
#include "cpu/kernels/index/indices.h"
#include "gluon/op.gen.h"

typedef struct job {
    int64_t steps, sequences, run; /* run: bytes of one step of one sequence */
    int64_t step_bytes, sequence_bytes;
    const int64_t *length; /* (sequences); NULL: all steps */
    const char *data;
    char *out;
    size_t item;
    unsigned char value[8];
} job;

static int64_t length_of(const job *j, int64_t n)
{
    const int64_t length = j->length ? j->length[n] : j->steps;
    return length < 0 ? 0 : length > j->steps ? j->steps : length;
}

static void fill_run(const job *j, char *to)
{
    for (int64_t i = 0; i < j->run; i += (int64_t)j->item)
        memcpy(to + i, j->value, j->item);
}

static void mask_range(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    for (int64_t n = begin; n < end; n++)
        for (int64_t t = 0, length = length_of(j, n); t < j->steps; t++) {
            const int64_t at = t * j->step_bytes + n * j->sequence_bytes;
            if (t >= length)
                fill_run(j, j->out + at);
            else if (j->out != j->data)
                memcpy(j->out + at, j->data + at, (size_t)j->run);
        }
}

static void reverse_range(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    for (int64_t n = begin; n < end; n++)
        for (int64_t t = 0, length = length_of(j, n); t < j->steps; t++) {
            const int64_t from = t < length ? length - 1 - t : t;
            memcpy(j->out + t * j->step_bytes + n * j->sequence_bytes,
                   j->data + from * j->step_bytes + n * j->sequence_bytes, (size_t)j->run);
        }
}

static void last_range(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    for (int64_t n = begin; n < end; n++) {
        const int64_t length = length_of(j, n), t = length > 0 ? length - 1 : 0;
        memcpy(j->out + n * j->run, j->data + t * j->step_bytes + n * j->sequence_bytes, (size_t)j->run);
    }
}

static void last_back_range(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    for (int64_t n = begin; n < end; n++) {
        const int64_t length = length_of(j, n), last = length > 0 ? length - 1 : 0;
        for (int64_t t = 0; t < j->steps; t++) {
            char *to = j->out + t * j->step_bytes + n * j->sequence_bytes;
            if (t == last)
                memcpy(to, j->data + n * j->run, (size_t)j->run);
            else
                memset(to, 0, (size_t)j->run);
        }
    }
}

/* `whole` is the array that has steps; one without a second axis is one sequence. */
static mx_code run(const mx_kernel_call *call, const mx_array *whole, bool use_lengths, int axis, double value,
                   mx_range_fn body)
{
    const mx_array *lengths = use_lengths && call->n_in > 1 && !mx_is_none(call->in[1]) ? call->in[1] : NULL;
    if (use_lengths && !lengths)
        return mx_op_fail(call->op, MX_ERR_ARGUMENT, "use_sequence_length is True, but sequence_length is not given");
    job j = {.steps = whole->shape[axis],
             .item = (size_t)mx_dtype_size((mx_dtype)whole->dtype),
             .data = mx_data(call->in[0]),
             .out = mx_data(call->out[0])};
    j.sequences = whole->ndim > 1 ? whole->shape[1 - axis] : 1;
    j.run = (int64_t)j.item;
    for (int i = 2; i < whole->ndim; i++)
        j.run *= whole->shape[i];
    j.step_bytes = axis ? j.run : j.run * j.sequences;
    j.sequence_bytes = axis ? j.run * j.steps : j.run;
    mx_convert(j.value, (mx_dtype)whole->dtype, &value, MX_FLOAT64, 1);
    int64_t *loaded = lengths ? mx_load_indices(lengths) : NULL;
    if (lengths && !loaded)
        return MX_ERR_MEMORY;
    j.length = loaded;
    mx_parallel(j.sequences, 4 * MX_GRAIN / (j.run * j.steps + 1) + 1, body, &j);
    if (lengths)
        mx_free_indices(loaded, lengths);
    return MX_OK;
}

static mx_code run_mask(const mx_kernel_call *call)
{
    const mx_sequence_mask_attrs *a = call->attrs;
    return run(call, call->in[0], a->use_sequence_length, (int)a->axis, a->value, mask_range);
}
static mx_code run_reverse(const mx_kernel_call *call)
{
    const mx_sequence_attrs *a = call->attrs;
    return run(call, call->in[0], a->use_sequence_length, (int)a->axis, 0, reverse_range);
}
static mx_code run_last(const mx_kernel_call *call)
{
    const mx_sequence_attrs *a = call->attrs;
    return run(call, call->in[0], a->use_sequence_length, (int)a->axis, 0, last_range);
}
static mx_code run_last_back(const mx_kernel_call *call)
{
    const mx_sequence_last_back_attrs *a = call->attrs;
    return run(call, call->out[0], a->use_sequence_length, (int)a->axis, 0, last_back_range);
}

MX_CPU_KERNELS(sequence) = {
    {"SequenceMask", run_mask, NULL},
    {"SequenceReverse", run_reverse, NULL},
    {"SequenceLast", run_last, NULL},
    {"_sequence_last_back", run_last_back, NULL},
    {NULL, NULL, NULL},
};
