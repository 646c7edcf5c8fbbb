/* RNN on the CPU: recurrent layers over the matrix product (rnn_body.h, rnn_layers_body.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/kernels/rnn/rnn.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/scratch.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "base/threads.h"
#include "cpu/kernels/gemm/gemm.h"
#include "cpu/kernels/index/indices.h"
#include "cpu/kernels/pointwise/math_f32.h"
#include "cpu/kernels/random/philox.h"
#include "cpu/kernels/widen.h"
#include "gluon/op.gen.h"

#define PANEL_STEPS 4 /* steps from which storing the h2h weights as panels pays */

#define T float
#define NAME(x) x##_f
#define GEMM mx_gemm_f32
#define GEMM_RUN mx_gemm_f32_run
#define GEMM_PACK mx_gemm_f32_pack
#define SIGMOID(x) m_sigmoid(x)
#define TANH(x) m_tanh(x)
#include "cpu/kernels/rnn/rnn_body.h"
#undef T
#undef NAME
#undef GEMM
#undef GEMM_RUN
#undef GEMM_PACK
#undef SIGMOID
#undef TANH
#define T double
#define NAME(x) x##_d
#define GEMM mx_gemm_f64
#define GEMM_RUN mx_gemm_f64_run
#define GEMM_PACK mx_gemm_f64_pack
#define SIGMOID(x) (1 / (1 + exp(-(x))))
#define TANH(x) tanh(x)
#include "cpu/kernels/rnn/rnn_body.h"

static mx_rnn_shape geometry(const mx_rnn_attrs *attrs, const mx_array *data)
{
    const bool projection = attrs->projection_size != MX_NONE_INT;
    return (mx_rnn_shape){.mode = attrs->mode, .steps = data->shape[0], .batch = data->shape[1], .input = data->shape[2],
                          .hidden = attrs->state_size, .handed = projection ? attrs->projection_size : attrs->state_size,
                          .layers = attrs->num_layers, .directions = attrs->bidirectional ? 2 : 1,
                          .gates = mx_rnn_gates(attrs->mode), .projection = projection, .dropout = attrs->p > 0};
}

/* For modes without a cell state, the lengths may be in its place. */
static const mx_array *lengths_of(const mx_kernel_call *call)
{
    const mx_rnn_attrs *attrs = call->attrs;
    if (!attrs->use_sequence_length)
        return NULL;
    const bool last = call->n_in > 4 && !mx_is_none(call->in[4]);
    if (!last && (attrs->mode == MX_CELL_LSTM || call->n_in < 4 || mx_is_none(call->in[3])))
        return NULL;
    return call->in[last ? 4 : 3];
}

static rnn_job job_of(const mx_kernel_call *call)
{
    const mx_rnn_attrs *attrs = call->attrs;
    const bool clip = !isnan(attrs->lstm_state_clip_min);
    rnn_job job = {.call = call, .shape = geometry(attrs, call->in[0]), .clip_min = clip ? attrs->lstm_state_clip_min : -INFINITY,
                   .clip_max = clip ? attrs->lstm_state_clip_max : INFINITY,
                   .clip_nan = clip && !attrs->lstm_state_clip_nan ? attrs->lstm_state_clip_min : NAN};
    for (int i = 0; i < 5 && i < call->n_in; i++)
        job.in[i] = mx_is_none(call->in[i]) ? NULL : mx_data(call->in[i]);
    return job;
}

/* Runs `layers` with `elements` of scratch and with the lengths. */
static mx_code run_layers(rnn_job *job, mx_dtype compute, double elements, mx_code (*single)(const rnn_job *, float *),
                          mx_code (*wide)(const rnn_job *, double *))
{
    const mx_array *given = lengths_of(job->call);
    const size_t bytes = (size_t)elements * (size_t)mx_dtype_size(compute);
    int64_t *lengths = given ? mx_load_indices(given) : NULL;
    void *scratch = given && !lengths ? NULL : mx_scratch_take(bytes);
    for (int64_t n = 0; lengths && n < job->shape.batch; n++)
        lengths[n] = lengths[n] < 0 ? 0 : lengths[n] > job->shape.steps ? job->shape.steps : lengths[n];
    job->lengths = lengths;
    mx_code code = !scratch ? mx_error_code() : compute == MX_FLOAT32 ? single(job, scratch) : wide(job, scratch);
    mx_scratch_give(scratch, bytes);
    if (lengths)
        mx_free_indices(lengths, given);
    return code;
}

/* Elements of `columns` times `rows` weights as panels, of floats or doubles; for few steps there are none. */
static double panel_elements(const mx_rnn_shape *s, double columns, double rows)
{
    return s->steps >= PANEL_STEPS ? (columns + MX_GEMM_COLUMNS) * rows + MX_ALIGN : 0;
}

#define PLACES_THAT_ARE_NOT_FLOATS(attrs) ((attrs)->mode == MX_CELL_LSTM ? 1u << 4 : 3u << 3)

static mx_code run_rnn(const mx_kernel_call *call)
{
    const mx_rnn_attrs *attrs = call->attrs;
    const mx_dtype compute = mx_compute_type(call);
    if (!mx_inputs_are(call, compute, PLACES_THAT_ARE_NOT_FLOATS(attrs)))
        return MX_DECLINED;
    const bool lstm = attrs->mode == MX_CELL_LSTM;
    if (lstm && (call->n_in < 4 || mx_is_none(call->in[3])))
        return mx_op_fail(call->op, MX_ERR_ARGUMENT, "state_cell is absent, but lstm needs it");
    rnn_job job = job_of(call);
    const mx_rnn_shape *s = &job.shape;
    job.out[0] = mx_data(call->out[0]), job.reserve = mx_data(call->out[call->n_out - 1]);
    if (attrs->state_outputs)
        job.out[1] = mx_data(call->out[1]), job.out[2] = lstm ? mx_data(call->out[2]) : NULL;
    job.dropout = call->training ? attrs->p : 0;
    const double gates = (double)(s->gates * s->hidden), N = (double)s->batch, P = (double)s->handed,
                 H = (double)s->hidden;
    return run_layers(&job, compute, 2 * N * P + N * H + gates + N * gates + panel_elements(s, gates, P),
                      forward_layers_f, forward_layers_d);
}

enum { IN_OUTPUT = 5, IN_RESERVE, IN_GRADS };

static mx_code run_rnn_backward(const mx_kernel_call *call)
{
    const mx_rnn_attrs *attrs = call->attrs;
    const mx_dtype compute = mx_compute_type(call);
    if (!mx_inputs_are(call, compute, PLACES_THAT_ARE_NOT_FLOATS(attrs)))
        return MX_DECLINED;
    const bool lstm = attrs->mode == MX_CELL_LSTM;
    if (lstm && mx_is_none(call->in[3]))
        return mx_op_fail(call->op, MX_ERR_ARGUMENT, "state_cell is absent, but lstm needs it");
    rnn_job job = job_of(call);
    const mx_rnn_shape *s = &job.shape;
    job.output = mx_data(call->in[IN_OUTPUT]), job.reserve = mx_data(call->in[IN_RESERVE]);
    for (int i = 0; i < 3; i++)
        job.ograd[i] = mx_is_none(call->in[IN_GRADS + i]) ? NULL : mx_data(call->in[IN_GRADS + i]);
    for (int i = 0; i < call->n_out; i++)
        job.out[i] = mx_data(call->out[i]);
    const double gates = (double)(s->gates * s->hidden), N = (double)s->batch, P = (double)s->handed,
                 H = (double)s->hidden;
    const double rows = (double)s->steps * N, width = (double)s->directions * P;
    const double each = rows * gates * (attrs->mode == MX_CELL_GRU ? 2 : 1) + rows * P * (s->projection ? 2 : 1) +
                        2 * N * P + 2 * N * H + panel_elements(s, P, gates);
    return run_layers(&job, compute, 2 * rows * width + each, backward_layers_f, backward_layers_d);
}

MX_CPU_KERNELS(rnn) = {{"RNN", run_rnn, NULL, MX_KERNEL_WIDEN},
                       {"_backward_RNN", run_rnn_backward, NULL, MX_KERNEL_WIDEN},
                       {NULL, NULL, NULL}};
