/* Products of small matrices by tensor cores, numbers rounded to TF32.
 *
 * Code for devices older than Ampere is empty here: mx_cuda_has_tf32() is false for them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CUDA_TENSOR_CORES_H
#define MX_CUDA_TENSOR_CORES_H

#include "cuda/cuda.h"

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
#define MX_CUDA_TF32 1
#else
#define MX_CUDA_TF32 0
#endif

static inline bool mx_cuda_has_tf32(const mx_cuda_device *d) { return d->code >= 80; }

static __device__ inline uint32_t mx_cuda_tf32(float x)
{
    uint32_t bits = __float_as_uint(x);
#if MX_CUDA_TF32
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
#endif
    return bits;
}

/* c (16, 8) += a (16, 8) b (8, 8): lane l holds rows l/4 and l/4 + 8, terms l%4 and l%4 + 4, columns 2(l%4) and the
 * next. */
static __device__ inline void mx_cuda_multiply_add(float c[4], const uint32_t a[4], const uint32_t b[2])
{
#if MX_CUDA_TF32
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

#endif
