/* What the files of the device share and kernels do not need: memory, copies.
 *
 * The functions are the device's in the library's table (ndarray/device.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CUDA_DEVICE_H
#define MX_CUDA_DEVICE_H

#include "cuda/cuda.h"

/* A global that is never destroyed: arrays may be freed after the destructors have run. */
template <class T> union mx_cuda_kept {
    T of;
    mx_cuda_kept() : of() {}
    ~mx_cuda_kept() {}
};

#define MX_CUDA_MOST 16 /* GPUs of one process */

extern bool mx_cuda_forked; /* forked from a process that uses CUDA: CUDA does not work here */

/* The device, for callers that launch nothing: postponed launches stay postponed. */
mx_cuda_device *mx_cuda_peek(mx_context context);

/* ---- kernels/pointwise/waiting.cu ------------------------------------------------------------------------------- */
extern std::atomic<int> mx_cuda_waiting[MX_CUDA_MOST]; /* small calls that are not launched yet */
mx_code mx_cuda_launch_waiting(const mx_cuda_device *d);

/* ---- memory.cu ----------------------------------------------------------------------------------------------- */
void *mx_cuda_allocate(mx_context context, size_t bytes);
void mx_cuda_release(mx_context context, void *memory, size_t bytes);
void mx_cuda_empty_cache(mx_context context);
mx_code mx_cuda_memory_info(mx_context context, size_t *unused, size_t *all);
mx_code mx_cuda_memory_used(mx_context context, size_t *now, size_t *most);

/* ---- kernels/optimizer/optimizer.cu ---------------------------------------------------------------------------- */
void mx_cuda_attach_updates(void); /* attaches the kernels that update many parameters at once */

/* ---- capture.cu -------------------------------------------------------------------------------------------- */
extern const mx_capturer mx_cuda_capturer;
extern thread_local mx_cuda_device
    *mx_cuda_capturing_device; /* the copy of the device that the thread captures with; or NULL */
void *mx_cuda_pool_take(mx_cuda_pool *pool, size_t bytes);
void mx_cuda_pool_give(mx_cuda_pool *pool, void *memory, size_t bytes);

/* ---- copy.cu ------------------------------------------------------------------------------------------------- */
mx_code mx_cuda_copy_within(mx_context context, void *to, const void *from, size_t bytes);
mx_code mx_cuda_to_host(mx_context context, void *to, const void *from, size_t bytes); /* waits */
mx_code mx_cuda_from_host(mx_context context, void *to, const void *from, size_t bytes);
mx_code mx_cuda_upload(mx_context context, void *to, const void *from, size_t bytes); /* `to` was just allocated */
mx_code mx_cuda_copy_between(mx_context target, void *to, mx_context source, const void *from, size_t bytes);
mx_code mx_cuda_fill(mx_context context, void *to, const void *element, size_t size, int64_t n);
void mx_cuda_wait_for(mx_context context);
/* Waits for everything queued on a stream, or for an event; an error if this thread is to be stopped (base/interrupt.h): then
 * what is queued goes on, and nobody waits for it. */
mx_code mx_cuda_settle(cudaStream_t stream, const char *what);
mx_code mx_cuda_await(cudaEvent_t event, const char *what);
/* Called by the allocator before it hands a block out again, and before it returns blocks to the system. */
void mx_cuda_target_freed(mx_cuda_device *d, void *memory);
void mx_cuda_forget_targets(mx_cuda_device *d);

/* ---- foreign.cu ----------------------------------------------------------------------------------------------- */
mx_code mx_cuda_stream_number(mx_context context, int64_t *number);
mx_code mx_cuda_lead(mx_context context, int64_t stream);
mx_code mx_cuda_follow(mx_context context, int64_t stream);
void mx_cuda_retire(mx_context context, void (*release)(void *), void *owner);
void mx_cuda_release_retired(void); /* memory that nothing queued uses any more */
mx_code mx_cuda_gather(mx_context context, void *to, const void *from, const mx_dims *shape, const int64_t *strides,
                       size_t item);

/* ---- nccl.cu -------------------------------------------------------------------------------------------------- */
mx_code mx_cuda_all_reduce(int n, const mx_context *contexts, const void *const *from, void *const *to, int64_t count,
                           mx_dtype dtype);

/* ---- staging.cu ---------------------------------------------------------------------------------------------- */
struct mx_cuda_ring;
mx_cuda_ring *mx_cuda_ring_new(size_t piece_bytes, int pieces); /* for one stream; the caller locks; never freed */
mx_code mx_cuda_staged(mx_cuda_ring *ring, cudaStream_t stream, void *to, const void *from, size_t bytes);
/* From the device, to `to`; waits. */
mx_code mx_cuda_staged_back(mx_cuda_ring *ring, cudaStream_t stream, void *to, const void *from, size_t bytes);
void *mx_cuda_pinned_alloc(size_t bytes);
bool mx_cuda_pinned_free(void *memory);
void mx_cuda_pinned_trim(void);

#endif
