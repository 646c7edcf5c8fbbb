/* What a capture holds (capture.cu, capture_flow.cu).  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CUDA_CAPTURE_H
#define MX_CUDA_CAPTURE_H

#include <unordered_set>
#include <vector>

#include "cuda/device.h"

#define MX_CUDA_POOL_REST 6           /* a block is reused this many parts later: neighbours need not wait */
#define MX_CUDA_POOL_MUCH (64u << 20)  /* pools above this many bytes let neighbours share memory */

/* Memory of a capture.  While a part is corrected, it gets only the blocks that it had. */
struct mx_cuda_pool {
    struct block {
        void *memory;
        size_t bytes;
        int last; /* part that used it */
        bool used;
    };
    mx_cuda_device *home;
    std::vector<block> blocks;
    size_t bytes;                               /* of all of them */
    std::vector<mx_touch> touched;              /* by the part that is being captured */
    std::vector<std::vector<void *>> blocks_of; /* (parts) */
    int part;
    bool only; /* a part is being corrected */
};

struct mx_capture {
    mx_cuda_device *home;
    cudaGraph_t graph;
    cudaGraphExec_t ready;
    std::vector<cudaGraphNode_t> nodes;       /* in order of the parts */
    std::vector<size_t> ends;                 /* (parts) nodes before the end of each */
    std::vector<std::vector<mx_touch>> spans; /* (parts) memory that it touches */
    std::unordered_set<cudaGraphNode_t> seen;
    mx_cuda_pool pool;
    int part; /* that is being corrected */
};

/* Makes parts wait for those whose memory they touch, instead of for the previous one; early: kernels with a device-side
 * wait start before what they wait for has ended. */
mx_code mx_cuda_flow(mx_capture *r, bool early);

#endif
