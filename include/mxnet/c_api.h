/* The part of MXNet's C interface that reads, writes and exchanges arrays, for programs and Python code (through ctypes,
 * mxnet.base._LIB) that call it.  A handle is an mx_array of gluon/array.h: NDArray.handle in Python.
 *
 * Every function returns 0, or -1 with a message for MXGetLastError().
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MXNET_C_API_H_
#define MXNET_C_API_H_

#include <stddef.h>

#include "mxnet/c_predict_api.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef void *DLManagedTensorHandle;

MXNET_DLL int MXGetVersion(int *out); /* of the MXNet whose interface this is: 10901 */
MXNET_DLL int MXNDArrayWaitAll(void);
MXNET_DLL int MXNDArrayWaitToRead(NDArrayHandle handle);
MXNET_DLL int MXNDArrayWaitToWrite(NDArrayHandle handle);
MXNET_DLL int MXNDArrayFree(NDArrayHandle handle); /* of an array that one of these functions made */

/* An array of zeros; dtype as in .params files. */
MXNET_DLL int MXNDArrayCreateEx(const mx_uint *shape, mx_uint ndim, int dev_type, int dev_id, int delay_alloc,
                                int dtype, NDArrayHandle *out);
/* Copies all elements; `size` counts elements and must be exact.  Waits. */
MXNET_DLL int MXNDArraySyncCopyToCPU(NDArrayHandle handle, void *data, size_t size);
MXNET_DLL int MXNDArraySyncCopyFromCPU(NDArrayHandle handle, const void *data, size_t size);
/* The shape is valid until the thread's next call of this function. */
MXNET_DLL int MXNDArrayGetShape(NDArrayHandle handle, mx_uint *out_dim, const mx_uint **out_pdata);
MXNET_DLL int MXNDArrayGetDType(NDArrayHandle handle, int *out_dtype);
MXNET_DLL int MXNDArrayGetContext(NDArrayHandle handle, int *out_dev_type, int *out_dev_id);

/* DLPack: MXNDArrayFromDLPack takes the tensor over. */
MXNET_DLL int MXNDArrayToDLPack(NDArrayHandle handle, DLManagedTensorHandle *out_dlpack);
MXNET_DLL int MXNDArrayFromDLPack(DLManagedTensorHandle dlpack, NDArrayHandle *out_handle);
MXNET_DLL int MXNDArrayCallDLPackDeleter(DLManagedTensorHandle dlpack);

#ifdef __cplusplus
}
#endif

#endif
