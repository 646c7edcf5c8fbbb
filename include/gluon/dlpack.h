/* DLPack: arrays of other libraries without a copy, and ours to them.
 *
 * The structs are those of the standard (version 1), whose own header is not needed to pass them on.
 *
 *     array ---- mx_to_dlpack ----> tensor    keeps the elements alive until its deleter runs, on any thread
 *     array <--- mx_from_dlpack --- tensor    whose deleter runs when neither an array nor queued work uses it
 *
 * On a GPU work is queued: the producer makes the consumer's stream wait for the elements, and the host does not wait.
 * Streams are numbers: 1 the default stream, 2 that of the thread, -1 no stream has to wait, others are handles
 * (cudaStream_t); 0 is ambiguous, so the host waits.  On the CPU they mean nothing.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef GLUON_DLPACK_H
#define GLUON_DLPACK_H

#include "gluon/array.h"

struct DLManagedTensor;
struct DLManagedTensorVersioned;

/* The elements of x, for work on `stream`; NULL with an error.  Only the second form can say that x is read-only. */
MX_API struct DLManagedTensor *mx_to_dlpack(mx_array *x, int64_t stream);
MX_API struct DLManagedTensorVersioned *mx_to_dlpack_versioned(mx_array *x, int64_t stream);

/* An array over the tensor, which it takes over; elements that are not contiguous are copied.  The elements must be
 * ready for work on mx_dlpack_stream() or on the default stream.  NULL with an error: the tensor stays the caller's. */
MX_API mx_array *mx_from_dlpack(struct DLManagedTensor *tensor);
MX_API mx_array *mx_from_dlpack_versioned(struct DLManagedTensorVersioned *tensor);
MX_API int64_t mx_dlpack_stream(mx_context context); /* where our work is queued; -1 on the CPU; 0 with an error */

#endif
