/* The structs of DLPack, with the fields of the standard.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_NDARRAY_DLPACK_H
#define MX_NDARRAY_DLPACK_H

#include "gluon/dlpack.h"

typedef struct mx_dl_device {
    int32_t type, id;
} mx_dl_device;
typedef struct mx_dl_type {
    uint8_t code, bits;
    uint16_t lanes;
} mx_dl_type;
typedef struct mx_dl_tensor {
    void *data;
    mx_dl_device device;
    int32_t ndim;
    mx_dl_type dtype;
    int64_t *shape, *strides; /* in elements; strides NULL: contiguous */
    uint64_t byte_offset;
} mx_dl_tensor;
typedef struct DLManagedTensor {
    mx_dl_tensor tensor;
    void *owner;
    void (*deleter)(struct DLManagedTensor *);
} mx_dl_managed;
typedef struct DLManagedTensorVersioned {
    uint32_t major, minor;
    void *owner;
    void (*deleter)(struct DLManagedTensorVersioned *);
    uint64_t flags;
    mx_dl_tensor tensor;
} mx_dl_versioned;

enum { MX_DL_CPU = 1, MX_DL_CUDA = 2, MX_DL_CUDA_HOST = 3, MX_DL_READ_ONLY = 1, MX_DL_DEFAULT_STREAM = 1 };

#endif
