/* What we use of NCCL, which is opened at the first use (nccl.cu).  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CUDA_NCCL_H
#define MX_CUDA_NCCL_H

#include "cuda/device.h"

/* Parts of its binary interface. */
typedef struct ncclComm *mx_nccl_comm;
struct mx_nccl_id {
    char bytes[128];
};
enum { MX_NCCL_SUM = 0, MX_NCCL_PRODUCT = 1, MX_NCCL_MAX = 2, MX_NCCL_MIN = 3, MX_NCCL_MEAN = 4, MX_NCCL_NONE = -1 };

struct mx_nccl {
    int (*init_all)(mx_nccl_comm *made, int n, const int *devices);
    int (*new_id)(mx_nccl_id *id);
    int (*init_rank)(mx_nccl_comm *made, int n, mx_nccl_id id, int rank);
    int (*all_reduce)(const void *from, void *to, size_t count, int type, int op, mx_nccl_comm c, cudaStream_t stream);
    int (*reduce)(const void *from, void *to, size_t count, int type, int op, int root, mx_nccl_comm c,
                  cudaStream_t stream);
    int (*broadcast)(const void *from, void *to, size_t count, int type, int root, mx_nccl_comm c, cudaStream_t stream);
    int (*all_gather)(const void *from, void *to, size_t count, int type, mx_nccl_comm c, cudaStream_t stream);
    int (*reduce_scatter)(const void *from, void *to, size_t count, int type, int op, mx_nccl_comm c,
                          cudaStream_t stream);
    int (*group_start)(void);
    int (*group_end)(void);
    int (*abort)(mx_nccl_comm c);
    int (*destroy)(mx_nccl_comm c);
    const char *(*text)(int status);
    bool usable; /* false: it is not installed */
};

const mx_nccl &mx_nccl_library(void);
int mx_nccl_type(mx_dtype dtype); /* MX_NCCL_NONE: NCCL has no such type */
mx_code mx_nccl_fail(int status, const char *who);

#endif
