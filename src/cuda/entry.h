/* Entry points from the library, which is C, into the CUDA part, which is C++: exceptions end here, as errors.
 *
 * Containers throw when the host is out of memory, and no exception may pass through C.  Every function that crosses
 * the border (cuda/plugin.h) is wrapped; kernels are wrapped when they are attached (bridge.cu).  A call that succeeds
 * costs one more call and nothing else.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CUDA_ENTRY_H
#define MX_CUDA_ENTRY_H

#include "cuda/cuda.h"

/* What the caller gets after an exception: an error, or nothing. */
mx_code mx_cuda_thrown(const char *who);
template <class R> struct mx_cuda_answer {
    static R of(const char *who) { return mx_cuda_thrown(who), R(); }
};
template <> struct mx_cuda_answer<mx_code> {
    static mx_code of(const char *who) { return mx_cuda_thrown(who); }
};

template <auto f> struct mx_cuda_guarded;
template <class R, class... A, R (*f)(A...)> struct mx_cuda_guarded<f> {
    static R enter(A... arguments)
    {
        try {
            return f(arguments...);
        } catch (...) {
            return mx_cuda_answer<R>::of("gpu");
        }
    }
};

/* f, wrapped for the library. */
#define MX_CUDA_ENTRY(f) mx_cuda_guarded<f>::enter

#endif
