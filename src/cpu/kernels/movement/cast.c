/* Changing the element type: 16-bit floats with the level's instructions, others with mx_convert; on several threads.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#if defined(__F16C__)
#include <immintrin.h>
#elif defined(MX_NEON)
#include <arm_neon.h>
#endif

#include "base/threads.h"
#include "cpu/kernel.h"
#include "cpu/kernels/convert_level.h"
#include "cpu/kernels/movement/stream.h"
#include "ndarray/dtype.h"

/* ---- float and float16 ----------------------------------------------------------------------------------------- */

#if defined(__F16C__)
static void half_to_float(float *to, const uint16_t *from, int64_t n)
{
    int64_t i = 0;
#if defined(__AVX512F__)
    for (; i + 16 <= n; i += 16)
        _mm512_storeu_ps(to + i, _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)(from + i))));
#else
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(from + i))));
#endif
    for (; i < n; i++)
        to[i] = _cvtsh_ss(from[i]);
}

static void float_to_half(uint16_t *to, const float *from, int64_t n)
{
    int64_t i = 0;
#if defined(__AVX512F__)
    for (; i + 16 <= n; i += 16)
        _mm256_storeu_si256((__m256i *)(void *)(to + i),
                            _mm512_cvtps_ph(_mm512_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
#else
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((__m128i *)(void *)(to + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
#endif
    for (; i < n; i++)
        to[i] = _cvtss_sh(from[i], _MM_FROUND_TO_NEAREST_INT);
}
#elif defined(MX_NEON)
static void half_to_float(float *to, const uint16_t *from, int64_t n)
{
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        const float16x8_t x = vreinterpretq_f16_u16(vld1q_u16(from + i));
        vst1q_f32(to + i, vcvt_f32_f16(vget_low_f16(x)));
        vst1q_f32(to + i + 4, vcvt_high_f32_f16(x));
    }
    for (; i < n; i++)
        to[i] = vgetq_lane_f32(vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(from[i]))), 0);
}

static void float_to_half(uint16_t *to, const float *from, int64_t n)
{
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        const float16x4_t low = vcvt_f16_f32(vld1q_f32(from + i));
        vst1q_u16(to + i, vreinterpretq_u16_f16(vcvt_high_f16_f32(low, vld1q_f32(from + i + 4))));
    }
    for (; i < n; i++)
        to[i] = vget_lane_u16(vreinterpret_u16_f16(vcvt_f16_f32(vdupq_n_f32(from[i]))), 0);
}
#endif

/* ---- float and bfloat16 ---------------------------------------------------------------------------------------- */

static void bfloat_to_float(uint32_t *restrict to, const uint16_t *restrict from, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = (uint32_t)from[i] << 16;
}

/* To nearest even; NaN keeps its upper bits and stays one. */
static void float_to_bfloat(uint16_t *restrict to, const uint32_t *restrict from, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const uint32_t bits = from[i], rounded = (bits + 0x7fffu + (bits >> 16 & 1)) >> 16, quiet = bits >> 16 | 0x40;
        to[i] = (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
    }
}

void mx_convert_fast(void *to, mx_dtype to_type, const void *from, mx_dtype from_type, int64_t n)
{
    if (to_type == from_type) {
        if (to != from)
            memcpy(to, from, (size_t)(n * mx_dtype_size(to_type)));
        return;
    }
    if (to_type == MX_FLOAT32 && from_type == MX_BFLOAT16)
        bfloat_to_float(to, from, n);
    else if (to_type == MX_BFLOAT16 && from_type == MX_FLOAT32)
        float_to_bfloat(to, from, n);
#if defined(__F16C__) || defined(MX_NEON)
    else if (to_type == MX_FLOAT32 && from_type == MX_FLOAT16)
        half_to_float(to, from, n);
    else if (to_type == MX_FLOAT16 && from_type == MX_FLOAT32)
        float_to_half(to, from, n);
#endif
    else
        mx_convert(to, to_type, from, from_type, n);
}

/* ---- entry ----------------------------------------------------------------------------------------------------- */

typedef struct cast_job {
    const char *from;
    char *to;
    mx_dtype from_type, to_type;
    int64_t from_item, to_item;
    bool stream;
} cast_job;

static void cast_part(void *arg, int64_t begin, int64_t end)
{
    const cast_job *j = arg;
    _Alignas(64) char tile[MX_STREAM_TILE];
    const int64_t step = j->stream ? MX_STREAM_TILE / j->to_item : end - begin;
    for (int64_t at = begin; at < end; at += step) {
        const int64_t n = end - at < step ? end - at : step;
        char *to = j->to + at * j->to_item;
        mx_convert_fast(j->stream ? tile : to, j->to_type, j->from + at * j->from_item, j->from_type, n);
        if (j->stream)
            mx_stream(to, tile, (size_t)(n * j->to_item));
    }
    if (j->stream)
        mx_stream_end();
}

static void cast_array(const mx_array *in, mx_array *out)
{
    cast_job j = {mx_data(in),
                  mx_data(out),
                  (mx_dtype)in->dtype,
                  (mx_dtype)out->dtype,
                  0,
                  0,
                  (int64_t)mx_bytes(out) >= MX_STREAM_BYTES};
    j.from_item = mx_dtype_size(j.from_type), j.to_item = mx_dtype_size(j.to_type);
    mx_parallel(out->size, MX_GRAIN, cast_part, &j);
}

static mx_code run_cast(const mx_kernel_call *call)
{
    for (int i = 0; i < call->n_out; i++)
        if (call->out[i]->size)
            cast_array(call->in[i], call->out[i]);
    return MX_OK;
}

MX_CPU_KERNELS(cast) = {
    {"Cast", run_cast, NULL}, {"amp_cast", run_cast, NULL}, {"amp_multicast", run_cast, NULL}, {NULL, NULL, NULL}};
