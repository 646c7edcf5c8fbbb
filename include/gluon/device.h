/* Devices beyond the CPU: how much memory they have, and giving back what nobody uses.
 *
 * A GPU is started at its first use.  Work on it runs by itself: a call returns when the work is queued, and reading
 * elements waits for them (mx_array_to_host, mx_wait_all).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef GLUON_DEVICE_H
#define GLUON_DEVICE_H

#include "gluon/array.h"

/* Bytes of a GPU that are free, and bytes in all. */
MX_API mx_code mx_memory_info(mx_context context, size_t *unused, size_t *all);
/* Bytes that arrays and running kernels of this process use: now, and the most that it has been. */
MX_API mx_code mx_memory_used(mx_context context, size_t *now, size_t *most);
/* Gives cached memory back to the system; arrays keep theirs. */
MX_API mx_code mx_empty_cache(mx_context context);

#endif
