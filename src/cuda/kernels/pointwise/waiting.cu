/* Small pointwise calls wait to be launched together: the launch costs the host more than the rest of such a call.
 *
 *     a + b, c * 2, tanh(d) ...  --queue of the device--> one block runs them one after the other
 *
 * The order of calls is preserved: mx_cuda_of(), which every launch, copy or wait begins with, launches the queue first.
 * So the delay cannot be observed; memory of arrays freed meanwhile is not reused before, as its next user comes later in
 * the stream.
 *
 * Invariant: queued calls precede everything that is given to the stream later.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <mutex>

#include "cuda/device.h"
#include "cuda/kernels/pointwise/rows_f32.h"

#define MOST 16   /* queued calls, at most */
#define LARGE 512 /* calls with as many elements are launched at once */

struct small_call {
    const void *in[3]; /* NULL: the scalar */
    void *out;
    float number;
    int32_t n;
    int16_t row;
    int8_t form, in_type[3], out_type;
};
struct small_calls {
    int n;
    small_call of[MOST];
};

struct queue {
    std::mutex lock;
    small_calls waiting;
};
/* Never destroyed: arrays may be freed after the destructors have run. */
static queue *const queues = new queue[MX_CUDA_MOST]();
std::atomic<int> mx_cuda_waiting[MX_CUDA_MOST];

static __device__ float operand(const small_call &c, int k, int i)
{
    return c.in[k] ? mx_cuda_load<float>(c.in[k], c.in_type[k], i) : c.number;
}

static __global__ void run_in_turn(const __grid_constant__ small_calls all)
{
    for (int k = 0; k < all.n; k++) {
        const small_call &c = all.of[k];
        for (int i = threadIdx.x; i < c.n; i += blockDim.x)
            mx_cuda_store<float>(c.out, c.out_type, i,
                                 apply_row(c.row, c.form, operand(c, 0, i), operand(c, 1, i), operand(c, 2, i)));
        __syncthreads(); /* the next one may read what this one wrote */
    }
}

/* The caller holds the lock. */
static mx_code launch(const mx_cuda_device *d, queue &q)
{
    if (!q.waiting.n)
        return MX_OK;
    void *arguments[] = {&q.waiting};
    const cudaError_t status =
        cudaLaunchKernel((const void *)run_in_turn, dim3(1), dim3(MX_CUDA_BLOCK), arguments, 0, d->stream);
    q.waiting.n = 0;
    mx_cuda_waiting[d->id].store(0, std::memory_order_release);
    return mx_cuda_fail(status, "pointwise calls");
}

mx_code mx_cuda_launch_waiting(const mx_cuda_device *d)
{
    queue &q = queues[d->id];
    std::lock_guard<std::mutex> guard(q.lock);
    return launch(d, q);
}

static int most_waiting(void)
{
    static const int64_t wanted = mx_flags_get()->cuda_queue;
    return wanted < MOST ? (int)wanted : MOST;
}

bool mx_cuda_may_wait(const mx_cuda_device *d, const mx_cuda_pointwise &job)
{
    return !d->pool && job.n < LARGE && most_waiting() > 1;
}

mx_code mx_cuda_wait_in_queue(const mx_cuda_device *d, const mx_cuda_pointwise &job, const mx_pointwise *use)
{
    queue &q = queues[d->id];
    std::lock_guard<std::mutex> guard(q.lock);
    small_call &c = q.waiting.of[q.waiting.n++];
    for (int k = 0; k < 3; k++)
        c.in[k] = job.in[k], c.in_type[k] = job.in_type[k];
    c.out = job.out, c.out_type = job.out_type, c.n = (int32_t)job.n;
    c.number = (float)job.scalar, c.row = (int16_t)use->row, c.form = (int8_t)use->form;
    mx_cuda_waiting[d->id].store(q.waiting.n, std::memory_order_release);
    return q.waiting.n >= most_waiting() ? launch(d, q) : MX_OK;
}
