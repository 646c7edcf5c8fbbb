/* SyncBatchNorm without its layer.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_OP_SYNC_NORM_H
#define MX_OP_SYNC_NORM_H

#include "base/error.h"

/* The error of a training call that should wait for other devices: the operator alone does not know them. */
static inline mx_code mx_sync_norm_alone(int64_t ndev)
{
    return mx_fail(
        MX_ERR_UNSUPPORTED,
        "_contrib_SyncBatchNorm: ndev=%lld in training, but devices share their statistics only in the layer "
        "gluon.contrib.nn.SyncBatchNorm(num_devices=%lld); call that, or use ndev=1",
        (long long)ndev, (long long)ndev);
}

#endif
