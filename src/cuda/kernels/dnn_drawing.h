/* Graphs of several operations for cuDNN, drawn operation by operation: each function returns the tensor that it makes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CUDA_DNN_DRAWING_H
#define MX_CUDA_DNN_DRAWING_H

#include "cuda/kernels/dnn.h"

namespace dnn
{
typedef cudnnBackendDescriptor_t raw;

struct extent {
    int64_t dim[4], step[4];
};

static inline extent whole(int64_t batch, int64_t heads, int64_t rows, int64_t columns)
{
    return {{batch, heads, rows, columns}, {heads * rows * columns, rows * columns, columns, 1}};
}

static inline extent transposed(extent e)
{
    std::swap(e.dim[2], e.dim[3]), std::swap(e.step[2], e.step[3]);
    return e;
}

/* The operations of a graph and the tensors between them. */
class drawing
{
  public:
    cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
    std::vector<part> parts;
    std::vector<raw> operations;
    int64_t next = 100; /* numbers of tensors that do not lie in memory */

    raw keep(part &&p)
    {
        status = status ? status : p.finish().status;
        parts.push_back(std::move(p));
        return parts.back().raw;
    }
    part tensor(int64_t id, cudnnDataType_t type, const extent &e)
    {
        part t(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
        t.type(CUDNN_ATTR_TENSOR_DATA_TYPE, type).number(CUDNN_ATTR_TENSOR_UNIQUE_ID, id);
        t.numbers(CUDNN_ATTR_TENSOR_DIMENSIONS, 4, e.dim).numbers(CUDNN_ATTR_TENSOR_STRIDES, 4, e.step);
        t.number(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 16);
        return t;
    }
    raw stored(int64_t id, cudnnDataType_t type, const extent &e) { return keep(tensor(id, type, e)); }
    raw between(cudnnDataType_t type, const extent &e)
    {
        return keep(std::move(tensor(next++, type, e).yes(CUDNN_ATTR_TENSOR_IS_VIRTUAL)));
    }
    raw number(int64_t id)
    {
        return keep(std::move(tensor(id, CUDNN_DATA_FLOAT, whole(1, 1, 1, 1)).yes(CUDNN_ATTR_TENSOR_IS_BY_VALUE)));
    }
    raw pointwise(cudnnPointwiseMode_t mode, raw y, raw x, raw b = nullptr, raw t = nullptr,
                  cudnnDataType_t compute = CUDNN_DATA_FLOAT, int64_t axis = -1)
    {
        part how(CUDNN_BACKEND_POINTWISE_DESCRIPTOR), op(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
        how.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
        how.type(CUDNN_ATTR_POINTWISE_MATH_PREC, compute);
        if (axis >= 0)
            how.number(CUDNN_ATTR_POINTWISE_AXIS, axis);
        op.link(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, keep(std::move(how)));
        op.link(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x).link(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
        if (b)
            op.link(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
        if (t)
            op.link(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, t);
        operations.push_back(keep(std::move(op)));
        return y;
    }
    raw product(raw y, raw a, raw b)
    {
        part how(CUDNN_BACKEND_MATMUL_DESCRIPTOR), op(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
        how.type(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT);
        op.link(CUDNN_ATTR_OPERATION_MATMUL_DESC, keep(std::move(how)));
        op.link(CUDNN_ATTR_OPERATION_MATMUL_ADESC, a).link(CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
        operations.push_back(keep(std::move(op.link(CUDNN_ATTR_OPERATION_MATMUL_CDESC, y))));
        return y;
    }
    raw reduce(cudnnReduceTensorOp_t mode, raw y, raw x)
    {
        part how(CUDNN_BACKEND_REDUCTION_DESCRIPTOR), op(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
        how.set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &mode);
        how.type(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT);
        op.link(CUDNN_ATTR_OPERATION_REDUCTION_DESC, keep(std::move(how)));
        op.link(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x).link(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
        operations.push_back(keep(std::move(op)));
        return y;
    }
    raw view(raw y, raw x)
    {
        part op(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
        op.link(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x).link(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y);
        operations.push_back(keep(std::move(op)));
        return y;
    }
};
} // namespace dnn

#endif
