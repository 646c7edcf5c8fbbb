/* Elementary functions of float, written so that loops over them vectorise at every instruction level.
 *
 * No function branches or calls another library: special cases are selects.  Errors are below 3 units in the last
 * place over the whole range; infinities, NaN, signed zeros and denormal numbers give what C's libm gives.  For sin, cos
 * and tan this holds up to |x| = 2^26 (2^50 with fused multiply-adds); beyond, neighbouring floats are many
 * periods apart.  Polynomials are minimax fits of the function named above them, highest degree first.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CPU_VMATH_F32_H
#define MX_CPU_VMATH_F32_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#define MX_MATH static inline __attribute__((always_inline))

MX_MATH int32_t mx_bits_f32(float x)
{
    int32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
MX_MATH float mx_from_bits_f32(int32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
MX_MATH int64_t mx_bits_f64(double x)
{
    int64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
MX_MATH double mx_from_bits_f64(int64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
MX_MATH float mx_abs_f32(float x) { return mx_from_bits_f32(mx_bits_f32(x) & 0x7fffffff); }
/* |value| with the sign of `sign` */
MX_MATH float mx_signed_f32(float value, float sign)
{
    return mx_from_bits_f32((mx_bits_f32(value) & 0x7fffffff) | (mx_bits_f32(sign) & INT32_MIN));
}
MX_MATH float mx_pow2_f32(int32_t n)
{
    return mx_from_bits_f32((int32_t)((uint32_t)(n + 127) << 23));
} /* -126 <= n <= 127 */

/* ---- exponentials: e^x = 2^n e^r, |r| <= log(2) / 2 ------------------------------------------------------------ */

#define MX_ROUND_F32 12582912.0f /* 1.5 * 2^23: adding it leaves the nearest integer in the low bits */

MX_MATH float mx_reduce_exp_f32(float x, int32_t *n)
{
    const float t = x * 1.44269504f + MX_ROUND_F32, k = t - MX_ROUND_F32;
    *n = mx_bits_f32(t) - 0x4b400000;
    return (x - k * 0.693359375f) - k * -2.12194440e-4f;
}

/* e^x * 2^shift for -105 <= x <= 90 or NaN.  The scale is applied in two steps, so that denormal results round once:
 * adding 254 makes the low bits n + 254, whose halves are the two exponents with their bias of 127. */
MX_MATH float mx_exp_clamped_f32(float x, int32_t shift)
{
    const float round = MX_ROUND_F32 + 254.0f, t = x * 1.44269504f + round, k = t - round;
    const float r = (x - k * 0.693359375f) - k * -2.12194440e-4f;
    float p = 1.38131424e-3f; /* (e^r - 1 - r) / r^2 */
    p = p * r + 8.36941879e-3f;
    p = p * r + 4.16684560e-2f;
    p = p * r + 1.66665152e-1f;
    p = p * r + 4.99999940e-1f;
    p = (p * r * r + r) + 1.0f;
    const uint32_t bits = (uint32_t)(mx_bits_f32(t) + shift), half = bits >> 1;
    return p * mx_from_bits_f32((int32_t)(half << 23)) * mx_from_bits_f32((int32_t)((bits - half) << 23));
}
MX_MATH float mx_exp_shifted_f32(float x, int32_t shift)
{
    return mx_exp_clamped_f32(x > 90.0f ? 90.0f : x < -105.0f ? -105.0f : x, shift);
}
MX_MATH float mx_exp_f32(float x) { return mx_exp_shifted_f32(x, 0); }
/* e^-|x| */
MX_MATH float mx_exp_falling_f32(float x)
{
    const float a = -mx_abs_f32(x);
    return mx_exp_clamped_f32(a < -105.0f ? -105.0f : a, 0);
}

/* e^x for |x| <= MX_EXP_NEAR_F32, a third cheaper: the result is a normal number, so its exponent is simply added. */
#define MX_EXP_NEAR_F32 87.0f
MX_MATH float mx_exp_near_f32(float x)
{
    const float t = x * 1.44269504f + MX_ROUND_F32, k = t - MX_ROUND_F32;
    const float r = (x - k * 0.693359375f) - k * -2.12194440e-4f;
    float p = 1.38186978e-3f; /* e^r, of which 1 + r are exact */
    p = p * r + 8.36871634e-3f;
    p = p * r + 4.16682917e-2f;
    p = p * r + 1.66665209e-1f;
    p = p * r + 4.99999940e-1f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    return mx_from_bits_f32((int32_t)((uint32_t)mx_bits_f32(p) + ((uint32_t)mx_bits_f32(t) << 23)));
}

MX_MATH float mx_expm1_f32(float x)
{
    int32_t n;
    const float clamped = x > 90.0f ? 90.0f : x < -20.0f ? -20.0f : x;
    const float r = mx_reduce_exp_f32(clamped, &n);
    float p = 1.99150323e-4f; /* (e^r - 1 - r) / r^2 */
    p = p * r + 1.39420596e-3f;
    p = p * r + 8.33327137e-3f;
    p = p * r + 4.16663401e-2f;
    p = p * r + 1.66666672e-1f;
    p = p * r + 0.5f;
    p = p * (r * r) + r;
    const int32_t top = n > 128 ? 128 : n; /* half of the scale, because 2^128 is not a float */
    const float half = mx_pow2_f32(top - 1), y = 2.0f * (half * p + (half - 0.5f));
    return x == 0 ? x : x > 88.8f ? INFINITY : n == 0 ? p : y;
}

/* ---- logarithms: x = 2^e m, sqrt(1/2) <= m < sqrt(2) ----------------------------------------------------------- */

/* log(m) as f + tail, f = m - 1 exactly, for finite x > 0 */
MX_MATH float mx_reduce_log_f32(float x, float *e, float *tail)
{
    const int tiny = x < 1.17549435e-38f;
    const int32_t bits = mx_bits_f32(tiny ? x * 33554432.0f : x);
    const int32_t exponent = (int32_t)((uint32_t)bits - 0x3f3504f3u) >> 23; /* unsigned: x may be anything */
    const float f = mx_from_bits_f32((int32_t)((uint32_t)bits - ((uint32_t)exponent << 23))) - 1.0f;
    float p = 6.74769208e-2f; /* (log(1 + f) - f + f^2 / 2) / f^3 */
    p = p * f + -1.16775051e-1f;
    p = p * f + 1.18887089e-1f;
    p = p * f + -1.24053426e-1f;
    p = p * f + 1.42194510e-1f;
    p = p * f + -1.66680053e-1f;
    p = p * f + 2.00021237e-1f;
    p = p * f + -2.50000089e-1f;
    p = p * f + 3.33333135e-1f;
    *e = (float)(exponent - (tiny ? 25 : 0));
    *tail = p * f * (f * f) - 0.5f * (f * f);
    return f;
}

/* The value at 0, below 0, at infinity and NaN. */
MX_MATH float mx_log_special_f32(float x, float y)
{
    y = x < INFINITY ? y : x;
    y = x == 0 ? -INFINITY : y;
    return x < 0 ? NAN : y;
}

MX_MATH float mx_log_f32(float x)
{
    float e, tail;
    const float f = mx_reduce_log_f32(x, &e, &tail);
    return mx_log_special_f32(x, (f + (tail + e * -2.12194440e-4f)) + e * 0.693359375f);
}

/* The same for normal numbers above 0, which need no special cases. */
MX_MATH float mx_log_near_f32(float x)
{
    const uint32_t bits = (uint32_t)mx_bits_f32(x) - 0x3f3504f3u;
    const float e = (float)((int32_t)bits >> 23);
    const float f = mx_from_bits_f32((int32_t)((bits & 0x7fffff) + 0x3f3504f3u)) - 1.0f, z = f * f;
    float p = 8.68747160e-2f; /* (log(1 + f) - f + f^2 / 2) / f^3 */
    p = p * f + -1.42742246e-1f;
    p = p * f + 1.49216279e-1f;
    p = p * f + -1.65770590e-1f;
    p = p * f + 1.99624419e-1f;
    p = p * f + -2.50013441e-1f;
    p = p * f + 3.33339244e-1f;
    p = p * f + -0.5f;
    return (f + (p * z + e * -2.12194440e-4f)) + e * 0.693359375f;
}
MX_MATH int mx_is_normal_f32(float x) { return (uint32_t)mx_bits_f32(x) - 0x00800000u < 0x7f000000u; } /* and above 0 */

MX_MATH float mx_log2_f32(float x)
{
    float e, tail;
    const float f = mx_reduce_log_f32(x, &e, &tail), low = (f + tail) * 0.442695041f; /* log2(e) - 1 */
    return mx_log_special_f32(x, (low + tail) + f + e);
}

MX_MATH float mx_log10_f32(float x)
{
    float e, tail;
    const float f = mx_reduce_log_f32(x, &e, &tail);
    const float low = (f + tail) * 7.00731903e-4f + tail * 0.43359375f; /* log10(e) in two pieces */
    return mx_log_special_f32(x, ((low + e * 4.60503898e-6f) + f * 0.43359375f) + e * 0.301025391f);
}

/* u = 1 + x rounds; the lost part is added back. */
MX_MATH float mx_log1p_f32(float x)
{
    const float u = 1.0f + x, lost = (x - (u - 1.0f)) / u;
    const float y = mx_log_f32(u) + (((u > 0) & (u < INFINITY)) ? lost : 0.0f);
    return x == 0 ? x : y;
}

/* ---- hyperbolic and related functions -------------------------------------------------------------------------- */

/* tanh(a) = m / (m + 2) with m = e^2a - 1 = 2^n (e^r - 1) + (2^n - 1), which cancels nowhere */
MX_MATH float mx_tanh_f32(float x)
{
    const float a = mx_abs_f32(x), b = a > 9.1f ? 9.1f : a;
    const float round = MX_ROUND_F32 + 127.0f, t = b * 2.88539008f + round, k = t - round;
    const float r = (2.0f * b - k * 0.693359375f) - k * -2.12194440e-4f;
    float p = 1.38825236e-3f; /* (e^r - 1 - r) / r^2 */
    p = p * r + 8.36654101e-3f;
    p = p * r + 4.16672006e-2f;
    p = p * r + 1.66665435e-1f;
    p = p * r + 4.99999970e-1f;
    p = p * (r * r) + r;
    const float scale = mx_from_bits_f32((int32_t)((uint32_t)mx_bits_f32(t) << 23)), m = scale * p + (scale - 1.0f);
    return mx_signed_f32(m / (m + 2.0f), x);
}

MX_MATH float mx_sigmoid_f32(float x)
{
    const float e = mx_exp_falling_f32(x);
    return (x < 0 ? e : 1.0f) / (1.0f + e);
}

/* The same for |x| <= MX_EXP_NEAR_F32. */
MX_MATH float mx_sigmoid_near_f32(float x) { return 1.0f / (1.0f + mx_exp_near_f32(-x)); }

/* log(1 + e^x) = max(x, 0) + log(1 + e^-|x|), whose argument needs none of the special cases of log1p */
MX_MATH float mx_softplus_f32(float x)
{
    float exponent, tail;
    const float e = mx_exp_falling_f32(x), u = 1.0f + e, lost = (e - (u - 1.0f)) / u;
    const float f = mx_reduce_log_f32(u, &exponent, &tail);
    const float y = (f + (tail + exponent * -2.12194440e-4f)) + exponent * 0.693359375f + lost;
    return (x < 0 ? 0.0f : x) + y; /* NaN propagates through the first term */
}

MX_MATH float mx_sinh_f32(float x)
{
    const float a = mx_abs_f32(x), m = mx_expm1_f32(a > 2.0f ? 2.0f : a), half = mx_exp_shifted_f32(a, -1);
    return mx_signed_f32(a < 1.0f ? 0.5f * (m + m / (m + 1.0f)) : half - 0.25f / half, x);
}

MX_MATH float mx_cosh_f32(float x)
{
    const float half = mx_exp_shifted_f32(mx_abs_f32(x), -1);
    return half + 0.25f / half;
}

/* Far out, where squares overflow, asinh and acosh are log(2 x). */
MX_MATH float mx_asinh_f32(float x)
{
    const float a = mx_abs_f32(x), b = a > 1e9f ? 1.0f : a;
    const float near = b + b * b / (1.0f + sqrtf(b * b + 1.0f));
    return mx_signed_f32(mx_log1p_f32(a > 1e9f ? a : near) + (a > 1e9f ? 0.693147181f : 0.0f), x);
}

MX_MATH float mx_acosh_f32(float x)
{
    const float t = (x > 1e9f ? 2.0f : x) - 1.0f, near = t + sqrtf(2.0f * t + t * t);
    const float y = mx_log1p_f32(x > 1e9f ? x : near) + (x > 1e9f ? 0.693147181f : 0.0f);
    return x < 1.0f ? NAN : y;
}

MX_MATH float mx_atanh_f32(float x)
{
    const float a = mx_abs_f32(x), y = 0.5f * mx_log1p_f32(2.0f * a / (1.0f - a));
    return mx_signed_f32(a > 1.0f ? NAN : y, x);
}

/* ---- trigonometric functions: x = n pi / 2 + r, reduced in double ---------------------------------------------- */

/* sin(r) and cos(r); returns n modulo 2^31 */
MX_MATH int32_t mx_sincos_f32(float x, float *sine, float *cosine)
{
    const double round = 6755399441055744.0; /* 1.5 * 2^52 */
    const double t = (double)x * 0.63661977236758134 + round, n = t - round;
    double d = (double)x - n * 1.570796325802803; /* pi / 2 in three pieces; n times the first two is exact */
    d = d - n * 9.920935739593517e-10;
    d = d - n * 5.721188726109832e-18;
    const float wide = (float)d, r = wide > 2.0f || wide < -2.0f ? 0.0f : wide, z = r * r;
    float s = 2.71604836e-6f; /* (sin(r) - r) / r^3 */
    s = s * z + -1.98390931e-4f;
    s = s * z + 8.33332818e-3f;
    s = s * z + -1.66666672e-1f;
    *sine = s * z * r + r;
    float c = 2.44104940e-5f; /* (cos(r) - 1 + r^2 / 2) / r^4 */
    c = c * z + -1.38871162e-3f;
    c = c * z + 4.16666418e-2f;
    *cosine = c * z * z + (1.0f - 0.5f * z);
    return (int32_t)mx_bits_f64(t);
}

/* sin(x + quarter pi / 2) */
MX_MATH float mx_sine_f32(float x, int32_t quarter)
{
    float s, c;
    const int32_t n = mx_sincos_f32(x, &s, &c) + quarter;
    const float y = n & 1 ? c : s;
    return mx_from_bits_f32(mx_bits_f32(y) ^ (int32_t)((uint32_t)(n & 2) << 30));
}
MX_MATH float mx_sin_f32(float x) { return x == 0 ? x : mx_sine_f32(x, 0); }
MX_MATH float mx_cos_f32(float x) { return mx_sine_f32(x, 1); }

/* The same for |x| <= MX_NEAR_F32, three times as fast: x = k pi + r, reduced in float by fused multiply-adds, of which
 * the first one is exact. */
#define MX_NEAR_F32 131072.0f
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
MX_MATH float mx_sine_near_f32(float x, float k)
{
    float r = __builtin_fmaf(k, -3.14159274f, x);
    r = __builtin_fmaf(k, 8.74227766e-8f, r);
    r = __builtin_fmaf(k, 3.43024902e-15f, r);
    const float z = r * r;
    float p = 2.60402429e-6f; /* (sin(r) - r) / r^3 */
    p = p * z + -1.98088480e-4f;
    p = p * z + 8.33305656e-3f;
    p = p * z + -1.66666592e-1f;
    return p * (z * r) + r;
}
MX_MATH float mx_sin_near_f32(float x)
{
    const float a = mx_abs_f32(x), t = a * 0.318309886f + MX_ROUND_F32, y = mx_sine_near_f32(a, t - MX_ROUND_F32);
    const int32_t odd = (int32_t)((uint32_t)mx_bits_f32(t) << 31), negative = mx_bits_f32(x) & INT32_MIN;
    return mx_from_bits_f32(mx_bits_f32(y) ^ odd ^ negative);
}
/* cos(x) = -sin(x - pi / 2): k is half of an odd number */
MX_MATH float mx_cos_near_f32(float x)
{
    const float t = (x * 0.318309886f - 0.5f) + MX_ROUND_F32;
    const float y = mx_sine_near_f32(x, (t - MX_ROUND_F32) + 0.5f);
    return mx_from_bits_f32(mx_bits_f32(y) ^ (int32_t)((uint32_t)~mx_bits_f32(t) << 31));
}
#else
MX_MATH float mx_sin_near_f32(float x) { return mx_sin_f32(x); }
MX_MATH float mx_cos_near_f32(float x) { return mx_cos_f32(x); }
#endif

MX_MATH float mx_tan_f32(float x)
{
    float s, c;
    const int32_t odd = mx_sincos_f32(x, &s, &c) & 1;
    const float y = (odd ? -c : s) / (odd ? s : c);
    return x == 0 ? x : y;
}

/* asin(s) for 0 <= s <= 1/2, z = s^2 */
MX_MATH float mx_asin_core_f32(float s, float z)
{
    float p = 3.75781581e-2f; /* (asin(s) - s) / s^3 */
    p = p * z + 1.43938055e-2f;
    p = p * z + 3.18198204e-2f;
    p = p * z + 4.45154719e-2f;
    p = p * z + 7.50051215e-2f;
    p = p * z + 1.66666597e-1f;
    return p * z * s + s;
}

/* Beyond 1/2: asin(a) = pi / 2 - 2 asin(sqrt((1 - a) / 2)) */
MX_MATH float mx_asin_f32(float x)
{
    const float a = mx_abs_f32(x), z = a > 0.5f ? 0.5f - 0.5f * a : a * a, s = a > 0.5f ? sqrtf(z) : a;
    const float y = mx_asin_core_f32(s, z);
    return mx_signed_f32(a > 0.5f ? 1.57079637f - (2.0f * y - -4.37113883e-8f) : y, x);
}

MX_MATH float mx_acos_f32(float x)
{
    const float a = mx_abs_f32(x), z = a > 0.5f ? 0.5f - 0.5f * a : a * a, s = a > 0.5f ? sqrtf(z) : a;
    const float y = mx_asin_core_f32(s, z);
    const float far = x < 0 ? 3.14159274f - (2.0f * y - -8.74227766e-8f) : 2.0f * y;
    const float near = 1.57079637f - ((x < 0 ? -y : y) - -4.37113883e-8f);
    return a > 0.5f ? far : near;
}

/* Beyond 1: atan(a) = pi / 2 - atan(1 / a) */
MX_MATH float mx_atan_f32(float x)
{
    const float a = mx_abs_f32(x), t = a > 1.0f ? 1.0f / a : a, z = t * t;
    float p = 1.13455032e-3f; /* (atan(t) - t) / t^3 */
    p = p * z + -7.42110191e-3f;
    p = p * z + 2.27573011e-2f;
    p = p * z + -4.49431352e-2f;
    p = p * z + 6.75935596e-2f;
    p = p * z + -8.81876200e-2f;
    p = p * z + 1.10602237e-1f;
    p = p * z + -1.42801285e-1f;
    p = p * z + 1.99996918e-1f;
    p = p * z + -3.33333284e-1f;
    const float y = p * z * t + t;
    return mx_signed_f32(a > 1.0f ? 1.57079637f - (y - -4.37113883e-8f) : y, x);
}

/* ---- others ---------------------------------------------------------------------------------------------------- */

/* erf(a) / a = c + p(a^2) / q(a^2): where the result is near 1 the constant dominates and the quotient's errors
 * matter little. */
MX_MATH float mx_erf_f32(float x)
{
    const float a = mx_abs_f32(x), b = a > 3.93f ? 3.93f : a, z = b * b;
    float p = -8.64658614e-6f;
    p = p * z + -4.29095307e-5f;
    p = p * z + -4.38410469e-4f;
    p = p * z + 2.06553470e-2f;
    p = p * z + 4.94813733e-2f;
    p = p * z + 8.47129166e-1f;
    float q = 3.80036763e-5f;
    q = q * z + 1.16521236e-3f;
    q = q * z + 1.49974991e-2f;
    q = q * z + 1.14257731e-1f;
    q = q * z + 5.02411127e-1f;
    q = q * z + 1.0f;
    const float y = b * 0.28125f + b * p / q;
    return mx_signed_f32(y > 1.0f ? 1.0f : y, x);
}

/* |a|^b = 2^(b log2 |a|) in double, which keeps all bits of a float; then C's special cases. */
MX_MATH float mx_pow_f32(float a, float b)
{
    const double round = 6755399441055744.0; /* 1.5 * 2^52 */
    const float size = mx_abs_f32(a), power = mx_abs_f32(b);
    const int64_t bits = mx_bits_f64((double)size);
    /* 2^e m; the exponent is an integer below 2^11, converted to a double through its bits */
    const int64_t e_bits = (int64_t)(((uint64_t)bits - 0x3fe6a09e667f3bcdu) >> 52 & 0xfff);
    const int64_t wrapped = (e_bits ^ 0x800) - 0x800;
    const double e = mx_from_bits_f64(wrapped + 0x4338000000000000) - round;
    const double f = mx_from_bits_f64((int64_t)((uint64_t)bits - ((uint64_t)wrapped << 52))) - 1.0, s = f / (f + 2.0),
                 z = s * s;
    double p = 0.28311226707472142; /* log2(1 + f) / s */
    p = p * z + 0.31989159551482022;
    p = p * z + 0.41220957637403638;
    p = p * z + 0.57707793937460794;
    p = p * z + 0.96179669412278679;
    p = p * z + 2.8853900817778459;
    double log2 = e + p * s;
    log2 = size == 0 ? -(double)INFINITY : size < INFINITY ? log2 : (double)size;
    double y = (double)b * log2;
    y = y > 300.0 ? 300.0 : y < -300.0 ? -300.0 : y;
    const double t = y + round, r = y - (t - round);
    double q = 1.5201915292214129e-5; /* 2^r */
    q = q * r + 1.546929107804999e-4;
    q = q * r + 1.3333922590565074e-3;
    q = q * r + 9.6180272539043588e-3;
    q = q * r + 5.5504103534148204e-2;
    q = q * r + 0.24022651198155739;
    q = q * r + 0.69314718072845705;
    q = q * r + 0.99999999996168143;
    const double scale = mx_from_bits_f64((int64_t)((uint64_t)(mx_bits_f64(t) + 1023) << 52));
    float result = (float)(q * scale);
    const float whole = (power + 8388608.0f) - 8388608.0f, half = 0.5f * power,
                half_whole = (half + 8388608.0f) - 8388608.0f;
    const int integer = power >= 8388608.0f || whole == power,
              odd = integer & (power < 16777216.0f) & (half_whole != half);
    result = a < 0 && !integer && size < INFINITY ? NAN : result;
    result = odd ? mx_signed_f32(result, a) : result;
    return b == 0 || a == 1.0f || (a == -1.0f && power == INFINITY) ? 1.0f : a != a || b != b ? a + b : result;
}

/* Two steps of Halley's iteration in double from a guess of 5 bits. */
MX_MATH float mx_cbrt_f32(float x)
{
    const float a = mx_abs_f32(x);
    const int tiny = a < 1.17549435e-38f;
    const float scaled = tiny ? a * 16777216.0f : a;
    const int32_t guess = (int32_t)((float)mx_bits_f32(scaled) * 0.333333333f) + 709921077;
    const double v = scaled;
    double y = mx_from_bits_f32(guess), cube = y * y * y;
    y = y * ((cube + 2.0 * v) / (2.0 * cube + v));
    cube = y * y * y;
    y = y * ((cube + 2.0 * v) / (2.0 * cube + v));
    const float result = (float)(tiny ? y * 0.00390625 : y);
    return a == 0 || !(a < INFINITY) ? x : mx_signed_f32(result, x);
}

MX_MATH float mx_hypot_f32(float a, float b)
{
    const float y = (float)sqrt((double)a * a + (double)b * b);
    return mx_abs_f32(a) == INFINITY || mx_abs_f32(b) == INFINITY ? INFINITY : y;
}

/* Rounds halves away from zero. */
MX_MATH float mx_round_f32(float x) { return truncf(x + mx_signed_f32(0.49999997f, x)); }

/* Remainder with the sign of b; 0 when b is 0. */
MX_MATH float mx_mod_f32(float a, float b)
{
    const double r = b == 0 ? 0 : fmod((double)a, (double)b);
    return (float)(r != 0 && (r < 0) != (b < 0) ? r + (double)b : r);
}

#endif
