/* Products of matrices of 16-bit floats, whose sums are float32: included by dot.c after `product` and run_f32.
 *
 * Where the level multiplies 16-bit floats and adds to float32 without rounding in between (armv86), tiles of them are packed
 * as they are (packed_product.h): half the memory, no conversions, and the same numbers.  Elsewhere they are widened first.
 *
 * SPDX-License-Identifier: Apache-2.0 */

#if defined(__ARM_FEATURE_FP16_FML) && defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
#include <arm_neon.h>

enum { ROWS = 8, COLUMNS = 8, GROUP = 1 };
typedef uint16_t element, packed;
typedef float total;

static inline packed pack(element x, element flip) { return (packed)(x ^ flip); }

#include "cpu/kernels/packed_product.h"

/* Each step multiplies 8 columns by the rows of one vector; x and y are set by the includer of the steps. */
#define EACH_ROW(STEP) STEP(0) STEP(1) STEP(2) STEP(3) STEP(4) STEP(5) STEP(6) STEP(7)

static void multiply_half(int64_t groups, const packed *a, const packed *b, total *sums)
{
    float32x4_t low[ROWS], high[ROWS]; /* columns 0 to 3, 4 to 7 */
#define ZERO(i) low[i] = high[i] = vdupq_n_f32(0);
#define STEP(i)                                              \
    low[i] = vfmlalq_laneq_low_f16(low[i], y, x, i);         \
    high[i] = vfmlalq_laneq_high_f16(high[i], y, x, i);
#define STORE(i)                                             \
    vst1q_f32(sums + i * COLUMNS, low[i]);                   \
    vst1q_f32(sums + i * COLUMNS + 4, high[i]);
    EACH_ROW(ZERO)
    for (; groups > 0; groups--, a += ROWS, b += COLUMNS) {
        const float16x8_t x = vreinterpretq_f16_u16(vld1q_u16(a)), y = vreinterpretq_f16_u16(vld1q_u16(b));
        EACH_ROW(STEP)
    }
    EACH_ROW(STORE)
#undef STEP
#undef STORE
}

static void multiply_bfloat(int64_t groups, const packed *a, const packed *b, total *sums)
{
    float32x4_t even[ROWS], odd[ROWS]; /* columns */
#define STEP(i)                                              \
    even[i] = vbfmlalbq_laneq_f32(even[i], y, x, i);         \
    odd[i] = vbfmlaltq_laneq_f32(odd[i], y, x, i);
#define STORE(i)                                                             \
    vst1q_f32(sums + i * COLUMNS, vzip1q_f32(even[i], odd[i]));              \
    vst1q_f32(sums + i * COLUMNS + 4, vzip2q_f32(even[i], odd[i]));
#undef ZERO
#define ZERO(i) even[i] = odd[i] = vdupq_n_f32(0);
    EACH_ROW(ZERO)
    for (; groups > 0; groups--, a += ROWS, b += COLUMNS) {
        const bfloat16x8_t x = vreinterpretq_bf16_u16(vld1q_u16(a)), y = vreinterpretq_bf16_u16(vld1q_u16(b));
        EACH_ROW(STEP)
    }
    EACH_ROW(STORE)
#undef STEP
#undef STORE
#undef ZERO
}

static void finish_half(const product_job *job, int64_t item, int64_t row, int64_t rows, int64_t column,
                        int64_t columns, const total *sums, int64_t stride)
{
    const product *p = job->details;
    const mx_dtype type = (mx_dtype)p->c->dtype;
    const element *bias = p->bias ? (const element *)mx_data(p->bias) + column : NULL;
    float line[STRIP * COLUMNS], shift[STRIP * COLUMNS] = {0};
    for (int64_t at = 0; at < columns; at += STRIP * COLUMNS) {
        const int64_t n = columns - at < STRIP * COLUMNS ? columns - at : STRIP * COLUMNS;
        if (bias)
            mx_convert_fast(shift, MX_FLOAT32, bias + at, type, n);
        for (int64_t i = 0; i < rows; i++) {
            for (int64_t j = 0; j < n; j++) {
                const float x = sums[i * stride + at + j] + shift[j];
                line[j] = p->relu && x < 0 ? 0 : x;
            }
            mx_convert_fast((element *)mx_data(p->c) + (item * p->m + row + i) * p->n + column + at, type, line,
                            MX_FLOAT32, n);
        }
    }
}

static mx_code run_half(const product *p)
{
    product_job job = {.a = mx_data(p->a), .b = mx_data(p->b), .a_row = p->trans_a ? 1 : p->k,
                       .a_column = p->trans_a ? p->m : 1, .b_row = p->trans_b ? 1 : p->n, .b_column = p->trans_b ? p->k : 1,
                       .batch = p->batch, .m = p->m, .n = p->n, .k = p->k, .finish = finish_half, .details = p,
                       .multiply = p->c->dtype == MX_FLOAT16 ? multiply_half : multiply_bfloat};
    return p->c->size ? product_run(&job) : MX_OK;
}

#else

typedef struct widening {
    float *to;
    const mx_array *from;
} widening;

static void widen_part(void *arg, int64_t begin, int64_t end)
{
    const widening *w = arg;
    mx_convert_fast(w->to + begin, MX_FLOAT32, (const uint16_t *)mx_data(w->from) + begin, (mx_dtype)w->from->dtype,
                    end - begin);
}

static float *widen(float **room, const mx_array *x)
{
    float *at = *room;
    if (!x)
        return NULL;
    mx_parallel(x->size, MX_GRAIN, widen_part, &(widening){at, x});
    *room += x->size;
    return at;
}

static void narrow_part(void *arg, int64_t begin, int64_t end)
{
    const widening *w = arg;
    mx_convert_fast((uint16_t *)mx_data(w->from) + begin, (mx_dtype)w->from->dtype, w->to + begin, MX_FLOAT32,
                    end - begin);
}

static mx_code run_half(const product *p)
{
    const size_t bytes = (size_t)(p->a->size + p->b->size + p->c->size + (p->bias ? p->bias->size : 0)) * sizeof(float);
    float *scratch = mx_scratch_take(bytes), *room = scratch;
    if (!scratch)
        return mx_error_code();
    float *a = widen(&room, p->a), *b = widen(&room, p->b), *bias = widen(&room, p->bias);
    mx_code code = run_f32(p, a, b, bias, room);
    if (!code)
        mx_parallel(p->c->size, MX_GRAIN, narrow_part, &(widening){room, p->c});
    mx_scratch_give(scratch, bytes);
    return code;
}

#endif
