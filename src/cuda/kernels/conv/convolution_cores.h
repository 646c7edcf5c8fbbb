/* Instructions that the convolutions by tensor cores share: copies to shared memory, products of fragments.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CUDA_CONVOLUTION_CORES_H
#define MX_CUDA_CONVOLUTION_CORES_H

#include "cuda/kernels/gemm/tensor_cores.h"

/* Code for older GPUs is never run (mx_cuda_has_tf32), but has to compile. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#define NEW_ASM(...) (void)0
#else
#define NEW_ASM(...) asm volatile(__VA_ARGS__)
#endif

namespace
{

__device__ inline unsigned shared_address(const void *at) { return (unsigned)__cvta_generic_to_shared(at); }

/* 16 bytes; zeros where there is nothing. */
__device__ inline void copy_piece(unsigned to, const void *from, bool there)
{
    NEW_ASM("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(there ? 16 : 0));
}
__device__ inline void end_copies() { NEW_ASM("cp.async.commit_group;"); }

/* c (16, 8) += a b, with the fragments of the instruction. */
template <class T> __device__ void multiply(float *c, const unsigned *a, const unsigned *b);
#define MULTIPLY(T, form) \
    template <> __device__ inline void multiply<T>(float *c, const unsigned *a, const unsigned *b) \
    { \
        NEW_ASM("mma.sync.aligned." form " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" \
                : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) \
                : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1])); \
    }
MULTIPLY(float, "m16n8k8.row.col.f32.tf32.tf32.f32")
MULTIPLY(__nv_bfloat16, "m16n8k16.row.col.f32.bf16.bf16.f32")
MULTIPLY(__half, "m16n8k16.row.col.f32.f16.f16.f32")

} // namespace

#endif
