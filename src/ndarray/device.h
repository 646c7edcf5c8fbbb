/* What a device provides for arrays: memory and copies.  cpu/ and cuda/ each define one table.
 *
 * All calls are ordered per device; only `wait` waits.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_NDARRAY_DEVICE_H
#define MX_NDARRAY_DEVICE_H

#include "gluon/array.h"

/* Launches that are captured instead of run, to be replayed together at small cost.  Between begin and end, and between
 * begin_part and end_part, the thread's launches on the device are captured; nothing may wait for the device there. */
typedef struct mx_capture mx_capture;
typedef struct mx_touch { /* memory that a part reads or writes */
    const void *at;
    size_t bytes;
    bool written;
} mx_touch;
typedef struct mx_capturer {
    mx_capture *(*begin)(mx_context context); /* NULL with an error */
    /* Ends a part, which touches this memory: parts that touch different memory may run in parallel. */
    mx_code (*mark)(mx_capture *capture, int64_t n, const mx_touch *spans);
    mx_code (*end)(mx_capture *capture);                  /* it can be run afterwards, unless this fails */
    mx_code (*begin_part)(mx_capture *capture, int part); /* captures that part again, with new arguments */
    mx_code (*end_part)(mx_capture *capture);             /* fails if the launches differ */
    mx_code (*run)(mx_capture *capture);
    void (*free)(mx_capture *capture);
} mx_capturer;

/* What a device supports or profits from beyond running every operator; queried by passes (src/pass). */
enum mx_capabilities {
    MX_CAN_CHANNELS_LAST = 1,      /* convolutions, pooling and what is between them are fastest on (N, H, W, C) */
    MX_CAN_NORM_PARTS = 2,         /* batch normalisation, addition and relu in one pass over the data */
    MX_CAN_RECOMPUTE = 4,          /* computes faster than it reads: large results are recomputed, not saved */
    MX_CAN_JOIN_BIAS = 8,          /* the gradients of a layer's weight and bias in one step */
    MX_CAN_JOIN_RELU_GRADIENT = 16,/* the gradient of relu inside that of a product or of pooling */
    MX_CAN_CHAIN_NARROW = 32,      /* chains of pointwise steps on 16-bit floats, too */
    MX_CAN_OVERLAP = 64,           /* independent steps run in parallel if they share no memory */
    MX_CAN_ROUND_ANEW = 128,       /* a fused step may round differently from the operators that it replaces; without it
                                      plans give the bits of the imperative run */
    MX_CAN_ALIGN_ROWS = 256,       /* matrices whose rows are multiples of 16 bytes are multiplied much faster */
    MX_CAN_FUSE_ATTENTION = 512,   /* product, softmax, dropout and product as one operator, also while training */
    MX_CAN_LIMIT_NORM = 2048,      /* batch normalisation and relu as one step, with the bits of two */
    MX_CAN_FUSE_EPILOGUE = 1024,   /* convolutions add bias and another array, and limit their results, in one kernel */
};

typedef struct mx_device mx_device;
struct mx_device {
    const char *name;
    mx_device_type type;
    uint32_t can;               /* of enum mx_capabilities; whether launches can be captured: see `capturer` */
    int (*channel_block)(void); /* channels per block of its convolutions' blocked layout; 0, or NULL: not blocked */
    int (*count)(void);         /* how many of them there are */
    void *(*alloc)(mx_context context, size_t bytes); /* NULL with an error if impossible */
    void (*free)(mx_context context, void *memory, size_t bytes);
    mx_code (*copy)(mx_context context, void *to, const void *from, size_t bytes);    /* within the device */
    mx_code (*to_host)(mx_context context, void *to, const void *from, size_t bytes); /* waits */
    mx_code (*from_host)(mx_context context, void *to, const void *from, size_t bytes);
    /* from_host for memory that was just allocated; NULL: the same. */
    mx_code (*upload)(mx_context context, void *to, const void *from, size_t bytes);
    /* Between two devices of this type; NULL: through the host. */
    mx_code (*between)(mx_context target, void *to, mx_context source, const void *from, size_t bytes);
    /* n elements of `size` bytes; NULL: by the host. */
    mx_code (*fill)(mx_context context, void *to, const void *element, size_t size, int64_t n);
    /* Sums over n different devices of this type: of from[i] into to[i]; to[1] NULL: into to[0] alone.  Returns -1
     * (MX_DECLINED) if they must be added by copies; NULL: always so. */
    mx_code (*all_reduce)(int n, const mx_context *contexts, const void *const *from, void *const *to, int64_t count,
                          mx_dtype dtype);
    void *(*pinned_alloc)(size_t bytes); /* host memory that the device can read; NULL, without an error: none */
    bool (*pinned_free)(void *memory);   /* false: the memory is not from pinned_alloc */
    void (*wait)(mx_context context);
    /* What is shared with other libraries of the process (ndarray/dlpack.c); all NULL: work is done when a call returns.
     * Streams are numbers as in gluon/dlpack.h. */
    mx_code (*stream)(mx_context context, int64_t *number); /* where this device queues work */
    mx_code (*lead)(mx_context context, int64_t stream);    /* `stream` waits for the work queued here */
    mx_code (*follow)(mx_context context, int64_t stream);  /* later work queued here waits for `stream` */
    void (*retire)(mx_context context, void (*release)(void *), void *owner); /* calls release after the queued work */
    /* Copies elements of `item` bytes, strides[] elements apart, to contiguous memory. */
    mx_code (*gather)(mx_context context, void *to, const void *from, const mx_dims *shape, const int64_t *strides,
                      size_t item);
    void (*empty_cache)(mx_context context); /* returns unused memory to the system; NULL: nothing to do */
    mx_code (*memory_info)(mx_context context, size_t *unused, size_t *all); /* in bytes; NULL: not known */
    mx_code (*memory_used)(mx_context context, size_t *now, size_t *most); /* by arrays and kernels; NULL: not known */
    const mx_capturer *capturer;                                           /* NULL: launches cannot be captured */
    void (*attach_kernels)(
        void); /* attaches the kernels to operators (mx_op_attach); called at first use, may be called again */
};

/* The device of a context (0 type: current); NULL with an error naming `who` if there is none. */
mx_device *mx_device_of(mx_context context, const char *who);
mx_context mx_context_resolve(mx_context context);                /* 0 type -> the thread's current context */
const char *mx_context_text(mx_context context, char buffer[32]); /* "cpu(0)" */
static inline bool mx_context_equal(mx_context a, mx_context b) { return a.type == b.type && a.id == b.id; }
/* Host-visible memory (cpu, cpu_pinned, cpu_shared). */
static inline bool mx_context_is_host(mx_context c) { return c.type != MX_GPU; }
/* One call may use arrays on both: cpu(0), cpu(1), cpu_pinned and cpu_shared are the same memory to a kernel. */
static inline bool mx_context_fits(mx_context a, mx_context b)
{
    return mx_context_equal(a, b) || (mx_context_is_host(a) && mx_context_is_host(b));
}

extern mx_device *const mx_cpu_device;      /* defined in cpu/ */
mx_device *mx_gpu_device(const char **why); /* cuda/load.c: opened at the first call; NULL: none, and why */

#endif
