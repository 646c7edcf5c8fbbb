/* Pointwise loops in 16-bit floats, for levels that compute with them; included by pointwise.c.
 *
 * Only functions whose result is the same as that of float32, rounded: a float32 has more than twice the bits of a float16
 * and two, so rounding a sum, difference, product or quotient twice changes nothing; selections round nothing.
 *
 * SPDX-License-Identifier: Apache-2.0 */

#if defined(__ARM_FEATURE_FP16_VECTOR_ARITHMETIC)

#include <arm_neon.h>

/* Functions of vectors, as of single numbers in op/formula/pointwise.h. */
typedef float16x8_t half8;
static inline half8 keep(half8 x, uint16x8_t mask)
{
    return vreinterpretq_f16_u16(vandq_u16(vreinterpretq_u16_f16(x), mask));
}
static inline uint16x8_t is_nan(half8 x) { return vmvnq_u16(vceqq_f16(x, x)); }

#define HALF_UNARY_ROWS(U) U(relu, keep(x, vmvnq_u16(vcltzq_f16(x)))) U(square, vmulq_f16(x, x)) U(negative, vnegq_f16(x))
#define HALF_BINARY_ROWS(B)                                                                           \
    B(add, vaddq_f16(a, b)) B(sub, vsubq_f16(a, b)) B(mul, vmulq_f16(a, b)) B(div, vdivq_f16(a, b))   \
    B(maximum, vbslq_f16(vorrq_u16(vcgeq_f16(a, b), is_nan(a)), a, b))                                \
    B(minimum, vbslq_f16(vorrq_u16(vcleq_f16(a, b), is_nan(a)), a, b))

static inline half8 load_half(const uint16_t *p) { return vreinterpretq_f16_u16(vld1q_u16(p)); }
static inline void store_half(uint16_t *p, half8 x) { vst1q_u16(p, vreinterpretq_u16_f16(x)); }
/* n < 8 numbers; the others are 0. */
static inline half8 load_rest(const uint16_t *p, int64_t n)
{
    uint16_t x[8] = {0};
    memcpy(x, p, (size_t)n * sizeof *x);
    return load_half(x);
}
static inline void store_rest(uint16_t *p, half8 y, int64_t n)
{
    uint16_t x[8];
    store_half(x, y);
    memcpy(p, x, (size_t)n * sizeof *x);
}

#define UNARY_LOOP(name, forward)                                                  \
    static inline half8 half8_##name(half8 x) { return forward; }                  \
    static void half_##name(const uint16_t *in, uint16_t *out, int64_t n)          \
    {                                                                              \
        int64_t i = 0;                                                             \
        for (; i + 8 <= n; i += 8)                                                 \
            store_half(out + i, half8_##name(load_half(in + i)));                  \
        if (i < n)                                                                 \
            store_rest(out + i, half8_##name(load_rest(in + i, n - i)), n - i);    \
    }
/* `step` of an operand is 1, or 0 when it is a single number. */
#define BINARY_LOOP(name, forward)                                                                                   \
    static inline half8 half8_##name(half8 a, half8 b) { return forward; }                                           \
    static inline __attribute__((always_inline)) void half_##name##_run(const uint16_t *a, const int64_t step_a,     \
                                                                        const uint16_t *b, const int64_t step_b,     \
                                                                        uint16_t *out, int64_t n)                    \
    {                                                                                                                \
        const half8 a0 = vreinterpretq_f16_u16(vdupq_n_u16(step_a ? 0 : *a)),                                        \
                    b0 = vreinterpretq_f16_u16(vdupq_n_u16(step_b ? 0 : *b));                                        \
        int64_t i = 0;                                                                                               \
        for (; i + 8 <= n; i += 8)                                                                                   \
            store_half(out + i, half8_##name(step_a ? load_half(a + i) : a0, step_b ? load_half(b + i) : b0));       \
        if (i < n)                                                                                                   \
            store_rest(out + i,                                                                                      \
                       half8_##name(step_a ? load_rest(a + i, n - i) : a0, step_b ? load_rest(b + i, n - i) : b0),   \
                       n - i);                                                                                       \
    }                                                                                                                \
    static void half_##name(const uint16_t *a, int64_t step_a, const uint16_t *b, int64_t step_b, uint16_t *out,     \
                            int64_t n)                                                                               \
    {                                                                                                                \
        if (step_a && step_b)                                                                                        \
            half_##name##_run(a, 1, b, 1, out, n);                                                                   \
        else if (step_a)                                                                                             \
            half_##name##_run(a, 1, b, 0, out, n);                                                                   \
        else                                                                                                         \
            half_##name##_run(a, 0, b, step_b, out, n);                                                              \
    }
HALF_UNARY_ROWS(UNARY_LOOP)
HALF_BINARY_ROWS(BINARY_LOOP)
BINARY_LOOP(of_relu, keep(a, vcgtzq_f16(b))) /* a: the gradient, b: the result */

static void half_backward_relu(const uint16_t *g, const uint16_t *y, const uint16_t *unused, uint16_t *out, int64_t n)
{
    (void)unused;
    half_of_relu(g, 1, y, 1, out, n);
}

#define UNARY_ENTRY(name, forward) [MX_ROW_##name].unary = (mx_unary_fn)half_##name,
#define BINARY_ENTRY(name, forward) [MX_ROW_##name].binary = (mx_binary_fn)half_##name,
static const mx_pointwise_loops half_loops[MX_ROW_COUNT] = {HALF_UNARY_ROWS(UNARY_ENTRY) HALF_BINARY_ROWS(BINARY_ENTRY)
                                                            [MX_ROW_relu].backward = (mx_backward_fn)half_backward_relu};

/* A number that float16 does not hold would be rounded too early. */
static bool is_half(double x)
{
    uint16_t half;
    double again;
    mx_convert(&half, MX_FLOAT16, &x, MX_FLOAT64, 1);
    mx_convert(&again, MX_FLOAT64, &half, MX_FLOAT16, 1);
    return again == x;
}

/* The loops are those of the form, and all arrays are float16. */
static bool computes_half(const mx_kernel_call *call, const mx_pointwise *use)
{
    const mx_pointwise_loops *loops = &half_loops[use->row];
    if (!(use->form == MX_FORM_UNARY      ? (bool)loops->unary
          : use->form == MX_FORM_BACKWARD ? (bool)loops->backward
                                          : (bool)loops->binary))
        return false;
    for (int k = 0; k < call->n_in; k++)
        if (call->in[k]->dtype != MX_FLOAT16)
            return false;
    return call->out[0]->dtype == MX_FLOAT16 && (use->form < MX_FORM_SCALAR || is_half(scalar_of(call)));
}

#else

static const mx_pointwise_loops *const half_loops = NULL;
static bool computes_half(const mx_kernel_call *call, const mx_pointwise *use)
{
    (void)call, (void)use;
    return false;
}

#endif
