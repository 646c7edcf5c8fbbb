/* Tables of a correlation and the packing of source lines (see conv_job.h for the model).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/kernels/conv/conv_job.h"

#include "base/scratch.h"
#include "base/error.h"
#include "cpu/kernels/conv/conv_vector.h"

mx_code conv_scratch_failed(const char *who, size_t bytes)
{
    return mx_fail(MX_ERR_MEMORY, "Convolution: out of memory: %s needs %zu bytes of scratch memory", who, bytes);
}

/* Source position of the tap is j * stride + k * dilate - pad: the phase is k * dilate modulo the stride. */
static void forward_axis(conv_axis *a, int64_t stride, int64_t dilate, int64_t pad)
{
    a->step = stride;
    a->shift = pad;
    a->phases = 1;
    a->classes = 1;
    a->first[0] = 0;
    a->first[1] = a->kernel;
    for (int64_t k = 0; k < a->kernel; k++) {
        a->tap[k] = k;
        a->phase[k] = k * dilate % stride;
        a->phases = a->phase[k] < a->phases ? a->phases : a->phase[k] + 1; /* a kernel may be smaller than the stride */
        a->offset[k] = k * dilate / stride;
    }
    a->length = (a->kernel - 1) * dilate / stride + a->result;
}

/* dx[c + stride j] takes dy[j + (c + pad - k dilate) / stride] for the taps k where the division is exact. */
static void gradient_axis(conv_axis *a, int64_t stride, int64_t dilate, int64_t pad)
{
    int64_t count = 0, low = 0, high = 0;
    for (int64_t c = 0; c < a->classes; c++) {
        a->first[c] = count;
        for (int64_t k = 0; k < a->kernel; k++) {
            const int64_t position = c + pad - k * dilate;
            if (position % stride)
                continue;
            const int64_t offset = position / stride;
            low = count && low < offset ? low : offset;
            high = count && high > offset ? high : offset;
            a->tap[count] = k;
            a->phase[count] = 0;
            a->offset[count++] = offset;
        }
    }
    /* An input shorter than the stride has fewer classes than the stride: taps of the others are never used. */
    a->first[a->classes] = count;
    for (int64_t i = 0; i < count; i++)
        a->offset[i] -= low;
    a->phases = a->step = 1;
    a->shift = -low;
    a->length = high - low + conv_axis_count(a, 0);
}

/* The indices m for which m * step + phase - shift is inside the source. */
static void inside(conv_axis *a, int64_t phase)
{
    const int64_t first = a->shift - phase;     /* m * step must reach this ... */
    const int64_t last = a->source - 1 + first; /* ... and not pass that */
    int64_t begin = first <= 0 ? 0 : (first + a->step - 1) / a->step;
    int64_t end = last < 0 ? 0 : last / a->step + 1;
    begin = begin < a->length ? begin : a->length;
    end = end < a->length ? end : a->length;
    a->begin[phase] = begin;
    a->end[phase] = end > begin ? end : begin;
}

static void set_strides(conv_job *job, const mx_conv_shape *s, bool data_gradient)
{
    const int64_t c = s->in_channels, o = s->out_channels, from = c / s->groups;
    const bool last = s->channels_last;
    int64_t in_at[3], out_at[3], in_size = last ? c : 1, out_size = last ? o : 1;
    for (int i = 2; i >= 0; i--) {
        in_at[i] = in_size;
        out_at[i] = out_size;
        in_size *= s->in[i];
        out_size *= s->out[i];
    }
    const int64_t in_channel = last ? 1 : in_size, out_channel = last ? 1 : out_size;
    const int64_t in_image = last ? in_size : in_size * c, out_image = last ? out_size : out_size * o;
    const int64_t w_out = from * job->taps, w_in = last ? 1 : job->taps;
    job->w_tap = last ? from : 1;
    job->w_group = o / s->groups * w_out;
    job->w_to = data_gradient ? w_in : w_out;
    job->w_from = data_gradient ? w_out : w_in;
    job->source_channel = data_gradient ? out_channel : in_channel;
    job->result_channel = data_gradient ? in_channel : out_channel;
    job->source_image = data_gradient ? out_image : in_image;
    job->result_image = data_gradient ? in_image : out_image;
    for (int i = 0; i < 3; i++) {
        job->source_at[i] = data_gradient ? out_at[i] : in_at[i];
        job->result_at[i] = data_gradient ? in_at[i] : out_at[i];
    }
}

/* s has three axes. */
mx_code conv_job_open(conv_job *job, const mx_conv_shape *s, bool data_gradient)
{
    memset(job, 0, sizeof *job);
    job->shape = *s;
    job->gradient = data_gradient;
    job->batch = s->batch;
    job->groups = s->groups;
    job->from = (data_gradient ? s->out_channels : s->in_channels) / s->groups;
    job->to = (data_gradient ? s->in_channels : s->out_channels) / s->groups;
    job->taps = s->kernel[0] * s->kernel[1] * s->kernel[2];
    int64_t words = 0;
    for (int i = 0; i < 3; i++) {
        conv_axis *a = &job->axis[i];
        a->kernel = s->kernel[i];
        a->source = data_gradient ? s->out[i] : s->in[i];
        a->result = data_gradient ? s->in[i] : s->out[i];
        a->classes = !data_gradient ? 1 : s->stride[i] < s->in[i] ? s->stride[i] : s->in[i];
        words += a->classes + 1 + 3 * a->kernel + 2 * s->stride[i]; /* most phases are the stride */
    }
    job->memory_bytes = (size_t)words * sizeof(int64_t);
    int64_t *list = job->memory = mx_scratch_take(job->memory_bytes);
    if (!list)
        return conv_scratch_failed("the tap table", job->memory_bytes);
    for (int i = 0; i < 3; i++) {
        conv_axis *a = &job->axis[i];
        a->first = list;
        a->tap = a->first + a->classes + 1;
        a->phase = a->tap + a->kernel;
        a->offset = a->phase + a->kernel;
        a->begin = a->offset + a->kernel;
        a->end = a->begin + s->stride[i];
        list = a->end + s->stride[i];
        (data_gradient ? gradient_axis : forward_axis)(a, s->stride[i], s->dilate[i], s->pad[i]);
        for (int64_t f = 0; f < a->phases; f++)
            inside(a, f);
    }
    set_strides(job, s, data_gradient);
    return MX_OK;
}

void conv_job_close(conv_job *job)
{
    mx_scratch_give(job->memory, job->memory_bytes);
    job->memory = NULL;
}

/* ---- packing -------------------------------------------------------------------------------------------- */

/* Every second float; the last vector is a partial one because the float after the last may not exist. */
static void copy_halves(float *to, const float *from, int64_t count)
{
    for (int64_t i = 0; i < count; i += LANES) {
        const int64_t left = 2 * (count - i) - 1;
        const vfloat a = vector_load_part(from + 2 * i, left);
        const vfloat b = left > LANES ? vector_load_part(from + 2 * i + LANES, left - LANES) : (vfloat){0};
        vector_store_part(to + i, VECTOR_EVEN(a, b), count - i);
    }
}

/* Lines are short: full vectors, the last one moved back to end with the line, beat a call of memcpy. */
static void copy_line(float *to, const float *from, int64_t count)
{
    if (count < LANES) {
        vector_store_part(to, vector_load_part(from, count), count);
        return;
    }
    for (int64_t i = 0; i < count - LANES; i += LANES)
        vector_store(to + i, vector_load(from + i));
    vector_store(to + count - LANES, vector_load(from + count - LANES));
}

void conv_copy_strided(float *to, const float *from, int64_t count, int64_t stride)
{
    if (stride == 1)
        copy_line(to, from, count);
    else if (stride == 2)
        copy_halves(to, from, count);
    else
        for (int64_t i = 0; i < count; i++)
            to[i] = from[i * stride];
}

/* Channels are contiguous in the source (channels last): a block of LANES positions x LANES channels at a time. */
static void pack_transposed(const float *from, int64_t position, int64_t count, int64_t channels, int64_t channel_to,
                            float *to)
{
    for (int64_t c = 0; c < channels; c += LANES)
        for (int64_t p = 0; p < count; p += LANES) {
            vfloat v[LANES];
            const int64_t rows = count - p < LANES ? count - p : LANES;
            const int64_t cols = channels - c < LANES ? channels - c : LANES;
            for (int64_t i = 0; i < LANES; i++)
                v[i] = i < rows ? vector_load_part(from + (p + i) * position + c, cols) : (vfloat){0};
            vector_transpose(v);
            for (int64_t i = 0; i < cols; i++)
                vector_store_part(to + (c + i) * channel_to + p, v[i], rows);
        }
}

/* One channel of a contiguous line, for steps of 1 and 2. */
static void pack_plain(const conv_axis *a, const float *line, float *to)
{
    for (int64_t f = 0; f < a->phases; f++, to += a->length)
        for (int64_t i = 0; i < a->length; i += LANES) {
            const int64_t at = i * a->step + f - a->shift;
            vfloat v = vector_load_inside(line, at, a->source);
            if (a->step == 2) {
                const vfloat next = vector_load_inside(line, at + LANES, a->source);
                v = VECTOR_EVEN(v, next);
            }
            vector_store(to + i, v); /* the excess is overwritten later, or spare */
        }
}

void conv_pack_line(const conv_axis *a, const float *line, int64_t at, int64_t channel, int64_t channels, float *packed)
{
    const int64_t width = a->phases * a->length; /* of one packed channel */
    if (at == 1 && channels == 1 && a->step <= 2) {
        pack_plain(a, line, packed);
        return;
    }
    for (int64_t f = 0; f < a->phases; f++) {
        const int64_t begin = a->begin[f], end = a->end[f];
        float *to = packed + f * a->length;
        for (int64_t c = 0; c < channels; c++) {
            for (int64_t m = 0; m < begin; m++)
                to[c * width + m] = 0;
            for (int64_t m = end; m < a->length; m++)
                to[c * width + m] = 0;
        }
        if (end == begin)
            continue;
        const float *from = line + (begin * a->step + f - a->shift) * at;
        if (channel == 1 && channels > 1)
            pack_transposed(from, a->step * at, end - begin, channels, width, to + begin);
        else
            for (int64_t c = 0; c < channels; c++)
                conv_copy_strided(to + c * width + begin, from + c * channel, end - begin, a->step * at);
    }
}
