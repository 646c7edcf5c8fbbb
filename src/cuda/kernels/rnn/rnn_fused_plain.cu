/* Layers of simple cells (tanh, relu) in one launch (rnn_fused.h).  SPDX-License-Identifier: Apache-2.0 */
#include "cuda/kernels/rnn/rnn_launch.h"

namespace
{
typedef mx_rnn_plain<mx_rnn_quick> cell;
#define FORWARD(u, ks, nt) MX_RNN_FORWARD(cell, u, ks, nt)
#define BACKWARD(u, ks, nt) MX_RNN_BACKWARD(cell, u, ks, nt)
const fused_variant forwards[] = {
    FORWARD(16, 4, 1),  FORWARD(16, 4, 2),  FORWARD(16, 4, 4),  FORWARD(16, 8, 1),
    FORWARD(16, 8, 2),  FORWARD(16, 8, 4),  FORWARD(16, 16, 1), FORWARD(16, 16, 2),
    FORWARD(16, 16, 4), FORWARD(16, 32, 1), FORWARD(16, 32, 2), FORWARD(16, 32, 4),
};
const fused_variant backwards[] = {
    BACKWARD(16, 4, 1),  BACKWARD(16, 4, 2),  BACKWARD(16, 4, 4),  BACKWARD(16, 8, 1),
    BACKWARD(16, 8, 2),  BACKWARD(16, 8, 4),  BACKWARD(16, 16, 1), BACKWARD(16, 16, 2),
    BACKWARD(16, 16, 4), BACKWARD(16, 32, 1), BACKWARD(16, 32, 2), BACKWARD(16, 32, 4),
};
} // namespace

mx_code mx_rnn_fused_plain(const mx_kernel_call *call, const mx_rnn_ways<float> &layer, bool backward)
{
    return backward ? run_fused(call, layer, backwards, cell::GATES) : run_fused(call, layer, forwards, 1);
}
