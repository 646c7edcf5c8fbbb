/* A call timed beside a copy of memory: the two alternate, so that other load affects both alike.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_BENCH_BESIDE_H
#define MX_BENCH_BESIDE_H

#include <stdbool.h>

typedef struct beside {
    double seconds;  /* shortest time of one call */
    double copy_gbs; /* fastest copy, bytes read and written */
} beside;

/* Alternates body(arg) with a copy on the library's threads for the given time.  False: out of memory. */
bool beside_copy(void (*body)(void *arg), void *arg, double seconds, beside *result);

#endif
