/* What a compiled chain of pointwise functions and its launcher share; its programs include this.
 *
 * Arrays are of float, half or bfloat (the latter two as bits, so that no header of CUDA is needed); all arithmetic is float.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CUDA_CHAIN_H
#define MX_CUDA_CHAIN_H

#define MX_CHAIN_INPUTS 8
#define MX_CHAIN_ROWS 12

struct mx_chain {
    const void *in[MX_CHAIN_INPUTS];
    void *out;
    long long n, fours;          /* elements; number of groups of four */
    float scalar[MX_CHAIN_ROWS]; /* of each entry */
};

#ifdef __CUDACC_RTC__
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fffffff)

struct half {
    unsigned short bits;
};
struct bfloat {
    unsigned short bits;
};

__device__ inline float widen(float x) { return x; }
__device__ inline float widen(half x)
{
    float wide;
    asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(x.bits));
    return wide;
}
__device__ inline float widen(bfloat x) { return __uint_as_float((unsigned)x.bits << 16); }

__device__ inline void narrow(float x, float *to) { *to = x; }
__device__ inline void narrow(float x, half *to) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(to->bits) : "f"(x)); }
__device__ inline void narrow(float x, bfloat *to)
{
    const unsigned bits = __float_as_uint(x); /* to the nearest, halves to even */
    to->bits = x != x ? 0x7fff : (unsigned short)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

template <class S> struct alignas(4 * sizeof(S)) four {
    S x[4];
};

/* The i-th four. */
template <class S> __device__ inline void read(float *v, const void *x, long long i)
{
    const four<S> all = ((const four<S> *)x)[i];
    for (int l = 0; l < 4; l++)
        v[l] = widen(all.x[l]);
}

template <class S> __device__ inline void write(const float *v, void *x, long long i)
{
    four<S> all;
    for (int l = 0; l < 4; l++)
        narrow(v[l], &all.x[l]);
    ((four<S> *)x)[i] = all;
}
#endif

#endif
