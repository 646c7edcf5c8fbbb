/* Devices beyond the CPU: how much memory they have, and releasing what is unused.
 *
 * A GPU is started at its first use.  Work on it runs asynchronously: a call returns when the work is queued, and reading
 * elements waits for them (mx_array_to_host, mx_wait_all).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef GLUON_DEVICE_H
#define GLUON_DEVICE_H

#include "gluon/array.h"

/* Bytes of a GPU that are free, and bytes in all. */
MX_API mx_code mx_memory_info(mx_context context, size_t *unused, size_t *all);
/* Bytes that arrays and running kernels of this process use: now, and at the peak. */
MX_API mx_code mx_memory_used(mx_context context, size_t *now, size_t *most);
/* Returns cached memory to the system; arrays are not affected. */
MX_API mx_code mx_empty_cache(mx_context context);

#endif
