/* The machine's own limits, measured: what benchmark results are compared with.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_BENCH_MACHINE_H
#define MX_BENCH_MACHINE_H

#include <stdbool.h>

double machine_seconds(void);           /* monotonic clock */
double machine_fma_gflops(int threads); /* single precision, 10^9 operations per second of all threads together */
double machine_copy_gbs(int threads);   /* copying memory out of cache, 10^9 bytes read and written per second */
const char *machine_level(void);        /* "avx512", "avx2" or "generic": the level the library uses here */

/* Shortest time of one call: repeats `body` until a sample takes about a millisecond, and takes the fastest of
 * many samples within `seconds`. */
double machine_time(void (*body)(void *arg), void *arg, double seconds);

#endif
