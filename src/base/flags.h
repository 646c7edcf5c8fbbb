/* All environment variables, in one table.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_BASE_FLAGS_H
#define MX_BASE_FLAGS_H

#include "gluon/base.h"

/*        C name        environment variable         type   default  meaning */
#define MX_FLAGS(X) \
    X(threads,    "MXNET_CPU_WORKER_NTHREADS", int,  0,   "threads of the CPU pool; 0: the CPUs of the process's cpuset") \
    X(cpu_level,  "GLUON_CPU_LEVEL",           text, "",  "highest instruction level to use: generic, then avx2 and avx512, or neon, armv82 and armv86") \
    X(home,       "MXNET_HOME",                text, "",  "folder for data sets and models; empty: ~/.mxnet") \
    X(repository, "MXNET_GLUON_REPO",          text, "https://apache-mxnet.s3-accelerate.dualstack.amazonaws.com", "where published data sets and models are: a URL or a folder") \
    X(alloc_cache,"GLUON_ALLOC_CACHE",         int,  1,   "0: return freed memory to the system at once (for debugging)") \
    X(check,      "MXNET_CHECK",               int,  0,   "1: checking mode: NaN made by an operator, indices out of range, integer division and stale gradients are errors") \
    X(seed,       "MXNET_SEED",                int,  0,   "seed of the random number generator at start") \
    X(cuda_library,"GLUON_CUDA_LIBRARY",       text, "",  "path of the CUDA library; empty: libgluon_cuda.so beside the library, or on the system's search path") \
    X(cuda_graphs,"GLUON_CUDA_GRAPHS",         int,  1,   "0: plans on GPUs launch their kernels one by one instead of as a CUDA graph") \
    X(cuda_tf32,  "GLUON_CUDA_TF32",           int,  1,   "0: float32 products and convolutions on GPUs in full precision instead of TF32") \
    X(cuda_queue, "GLUON_CUDA_QUEUE",          int,  16,  "small pointwise operators on a GPU that are queued and launched together, 16 at most; 1: no queue") \
    X(mpi_library,"GLUON_MPI_LIBRARY",         text, "",  "path of the MPI library; empty: libgluon_mpi.so beside the library, or on the system's search path") \
    X(bucket_kb,  "GLUON_BUCKET_KB",           int,  4096, "kilobytes of gradients that processes exchange in one message while backward goes on; 0: after it, in one message") \
    X(comm_check, "GLUON_COMM_CHECK",          int,  0,   "1: processes compare what they are about to exchange; differences are errors that name both sides") \
    X(comm_silence,"GLUON_COMM_SILENCE",       int,  8,   "seconds after which a process that is not heard of, not even its sign of life, counts as lost; 0: never") \
    X(kernel_cache,"GLUON_KERNEL_CACHE",       text, "",  "folder for GPU kernels compiled at run time; empty: gluon in $XDG_CACHE_HOME or ~/.cache; -: none") \
    X(recompute,  "MXNET_BACKWARD_DO_MIRROR",  int,  0,   "1: training plans compute values again in backward rather than save them, as hybridize(recompute=True)") \
    X(plan_dump,  "MXNET_PLAN_DUMP",           text, "",  "folder to which every plan is written after every pass, as text and DOT") \
    X(limit_depth,"GLUON_LIMIT_DEPTH",         int,  200, "levels of arrays and objects in JSON files, 1000 at most (see gluon/limits.h)") \
    X(limit_nodes,"GLUON_LIMIT_NODES",         int,  1000000, "nodes of a graph in a symbol or ONNX file") \
    X(limit_pixels,"GLUON_LIMIT_PIXELS",       int,  268435456, "pixels of one image") \
    X(limit_memory_mb,"GLUON_LIMIT_MEMORY_MB", int,  0,   "megabytes of host memory that arrays take together; 0: the memory of the machine") \
    X(trust_pickles,"GLUON_TRUST_PICKLES",     int,  0,   "1: files of optimizer states may contain any Python object, whose code runs when it is loaded") \
    X(numpy_aliases,"MXNET_NUMPY_ALIASES",     int,  0,   "1: importing the Python package gives NumPy the names it has removed (np.int, np.float, np.Inf ...)") \
    X(nccl_library,"GLUON_NCCL_LIBRARY",       text, "",  "path of NCCL; empty: libnccl.so.2 on the system's search path, or of PyPI's package; -: none, GPUs exchange through the host") \
    X(deterministic,"MXNET_ENFORCE_DETERMINISM", int, 0,  "1: only kernels whose results do not depend on the order in which a GPU runs them; matters for gradients of attention on long sequences") \
    X(sync_seconds,"GLUON_SYNC_SECONDS",       int,  10,  "seconds that SyncBatchNorm on one context of a process waits for the others, which run in threads of their own")

typedef int64_t mx_flag_int;
typedef const char *mx_flag_text;
typedef struct mx_flags {
#define MX_FLAG_FIELD(name, env, type, value, doc) mx_flag_##type name;
    MX_FLAGS(MX_FLAG_FIELD)
#undef MX_FLAG_FIELD
} mx_flags;

const mx_flags *mx_flags_get(void); /* read once, at the first call; a value that does not parse keeps its default */

typedef struct mx_flag_row { const char *name, *value, *fallback, *doc; } mx_flag_row;
/* Entry i of the table, for display (`gluon doctor`); NULL past the end. */
MX_API const mx_flag_row *mx_flag_describe(int i);

#endif
