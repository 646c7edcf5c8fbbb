/* Loops over contiguous rows for float (suffix _f) and double (suffix _d), shared by softmax and the norms.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CPU_ROWS_H
#define MX_CPU_ROWS_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "cpu/kernels/level.h"

#if defined(__AVX512F__)
#include <immintrin.h>
#define VECTOR_MAX_f(a, b) _mm512_max_ps((__m512)(a), (__m512)(b))
#define VECTOR_MAX_d(a, b) _mm512_max_pd((__m512d)(a), (__m512d)(b))
#elif defined(__AVX2__)
#include <immintrin.h>
#define VECTOR_MAX_f(a, b) _mm256_max_ps((__m256)(a), (__m256)(b))
#define VECTOR_MAX_d(a, b) _mm256_max_pd((__m256d)(a), (__m256d)(b))
#elif defined(__SSE2__)
#include <emmintrin.h>
#define VECTOR_MAX_f(a, b) _mm_max_ps((__m128)(a), (__m128)(b))
#define VECTOR_MAX_d(a, b) _mm_max_pd((__m128d)(a), (__m128d)(b))
#endif

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#define T float
#define INT int32_t
#define NAME(x) x##_f
#include "cpu/kernels/loss/rows_body.h"
#undef T
#undef INT
#undef NAME
#define T double
#define INT int64_t
#define NAME(x) x##_d
#include "cpu/kernels/loss/rows_body.h"
#undef T
#undef INT
#undef NAME
#pragma GCC diagnostic pop

#endif
