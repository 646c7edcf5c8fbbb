/* Vectors of T for the matrix products: a body, included once per type.
 *
 * The includer defines T (float or double), T_BYTES and FN(name), which adds the type to a name.  A vector holds
 * VL elements.  The first `count` elements of a vector are read and written through a mask, never touching
 * memory past them.
 *
 * SPDX-License-Identifier: Apache-2.0 */

typedef T FN(vec) __attribute__((vector_size(MX_VECTOR_BYTES)));
typedef T FN(vec_any) __attribute__((vector_size(MX_VECTOR_BYTES), aligned(T_BYTES), may_alias)); /* unaligned */
#if T_BYTES == 4
typedef int32_t FN(vec_bits) __attribute__((vector_size(MX_VECTOR_BYTES)));
#else
typedef int64_t FN(vec_bits) __attribute__((vector_size(MX_VECTOR_BYTES)));
#endif

#undef V
#undef VL
#define V FN(vec)
#define VL (MX_VECTOR_BYTES / T_BYTES)

static inline V FN(load)(const T *p) { return *(const FN(vec_any) *)p; }
static inline void FN(store)(T *p, V x) { *(FN(vec_any) *)p = x; }

#if defined(__AVX512F__) && T_BYTES == 4
typedef __mmask16 FN(mask);
static inline FN(mask) FN(mask_first)(int64_t count) { return (__mmask16)((1u << count) - 1u); }
static inline V FN(load_mask)(const T *p, FN(mask) mask) { return (V)_mm512_maskz_loadu_ps(mask, p); }
static inline void FN(store_mask)(T *p, FN(mask) mask, V x) { _mm512_mask_storeu_ps(p, mask, (__m512)x); }
#elif defined(__AVX512F__)
typedef __mmask8 FN(mask);
static inline FN(mask) FN(mask_first)(int64_t count) { return (__mmask8)((1u << count) - 1u); }
static inline V FN(load_mask)(const T *p, FN(mask) mask) { return (V)_mm512_maskz_loadu_pd(mask, p); }
static inline void FN(store_mask)(T *p, FN(mask) mask, V x) { _mm512_mask_storeu_pd(p, mask, (__m512d)x); }
#elif defined(__AVX2__)
typedef struct FN(mask) {
    __m256i bits;
    int count;
} FN(mask);
#if T_BYTES == 4
static inline FN(mask) FN(mask_first)(int64_t count)
{
    const __m256i order = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return (FN(mask)){_mm256_cmpgt_epi32(_mm256_set1_epi32((int)count), order), (int)count};
}
static inline V FN(load_mask)(const T *p, FN(mask) mask) { return (V)_mm256_maskload_ps(p, mask.bits); }
#else
static inline FN(mask) FN(mask_first)(int64_t count)
{
    const __m256i order = _mm256_setr_epi64x(0, 1, 2, 3);
    return (FN(mask)){_mm256_cmpgt_epi64(_mm256_set1_epi64x(count), order), (int)count};
}
static inline V FN(load_mask)(const T *p, FN(mask) mask) { return (V)_mm256_maskload_pd(p, mask.bits); }
#endif
/* Stores in pieces of halving size: masked stores take some processors dozens of cycles. */
static inline void FN(store_mask)(T *p, FN(mask) mask, V x)
{
    if (mask.count >= VL) {
        FN(store)(p, x);
        return;
    }
    __m128i low = _mm256_castsi256_si128((__m256i)x);
    if (mask.count & (VL / 2)) {
        _mm_storeu_si128((__m128i *)(void *)p, low);
        low = _mm256_extracti128_si256((__m256i)x, 1);
        p += VL / 2;
    }
#if T_BYTES == 4
    if (mask.count & 2) {
        _mm_storel_epi64((__m128i *)(void *)p, low);
        low = _mm_srli_si128(low, 8);
        p += 2;
    }
    if (mask.count & 1)
        _mm_store_ss(p, _mm_castsi128_ps(low));
#else
    if (mask.count & 1)
        _mm_store_sd(p, _mm_castsi128_pd(low));
#endif
}
#else
typedef int64_t FN(mask);
static inline FN(mask) FN(mask_first)(int64_t count) { return count; }
static MX_AT_EDGES V FN(load_some)(const T *p, int64_t count)
{
    T x[VL] = {0};
    for (int64_t i = 0; i < count; i++)
        x[i] = p[i];
    return FN(load)(x);
}
static MX_AT_EDGES void FN(store_some)(T *p, int64_t count, V value)
{
    T x[VL];
    FN(store)(x, value);
    for (int64_t i = 0; i < count; i++)
        p[i] = x[i];
}
static inline V FN(load_mask)(const T *p, FN(mask) mask) { return mask >= VL ? FN(load)(p) : FN(load_some)(p, mask); }
static inline void FN(store_mask)(T *p, FN(mask) mask, V x)
{
    if (mask >= VL)
        FN(store)(p, x);
    else
        FN(store_some)(p, mask, x);
}
#endif

/* a0 b0 a1 b1 ... of the lower and of the upper halves. */
#if MX_VECTOR_BYTES / T_BYTES == 16
#define LOWER 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define UPPER 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#elif MX_VECTOR_BYTES / T_BYTES == 8
#define LOWER 0, 8, 1, 9, 2, 10, 3, 11
#define UPPER 4, 12, 5, 13, 6, 14, 7, 15
#elif MX_VECTOR_BYTES / T_BYTES == 4
#define LOWER 0, 4, 1, 5
#define UPPER 2, 6, 3, 7
#else
#define LOWER 0, 2
#define UPPER 1, 3
#endif
static inline V FN(zip_lower)(V a, V b) { return __builtin_shufflevector(a, b, LOWER); }
static inline V FN(zip_upper)(V a, V b) { return __builtin_shufflevector(a, b, UPPER); }
#undef LOWER
#undef UPPER

/* Element i of the result is the sum over vector x[i]; x is overwritten. */
static inline __attribute__((always_inline)) V FN(sum_each)(V x[VL])
{
    UNROLL for (int half = VL / 2; half >= 1; half /= 2)
        UNROLL for (int i = 0; i < half; i++)
            x[i] = FN(zip_lower)(x[i], x[i + half]) + FN(zip_upper)(x[i], x[i + half]);
    return x[0];
}

/* The greater of each pair; a NaN in x stays. */
static inline V FN(at_least)(V x, V floor)
{
#if defined(__AVX512F__) && T_BYTES == 4
    return (V)_mm512_max_ps((__m512)floor, (__m512)x);
#elif defined(__AVX512F__)
    return (V)_mm512_max_pd((__m512d)floor, (__m512d)x);
#elif defined(__AVX2__) && T_BYTES == 4
    return (V)_mm256_max_ps((__m256)floor, (__m256)x);
#elif defined(__AVX2__)
    return (V)_mm256_max_pd((__m256d)floor, (__m256d)x);
#else
    const FN(vec_bits) below = (FN(vec_bits))(x < floor);
    return (V)(((FN(vec_bits))floor & below) | ((FN(vec_bits))x & ~below));
#endif
}
