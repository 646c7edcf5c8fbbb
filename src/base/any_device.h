/* MX_ANY_DEVICE: before an inline function that both the CPU and a GPU run.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_BASE_ANY_DEVICE_H
#define MX_BASE_ANY_DEVICE_H

#ifdef __CUDACC__
#define MX_ANY_DEVICE __host__ __device__
#else
#define MX_ANY_DEVICE
#endif

#endif
