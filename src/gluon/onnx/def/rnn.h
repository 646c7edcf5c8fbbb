/* Recurrent layers: what the operators of ONNX do not have.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_GLUON_ONNX_RNN_H
#define MX_GLUON_ONNX_RNN_H

#include "gluon/onnx/onnx.h"

bool mx_onnx_zero_state(const mx_onnx_out *o, int i); /* input i is zeros for batches of any size */
/* LSTM with projections or clipped states: one Scan per layer and direction. */
mx_code mx_onnx_write_lstm_steps(mx_onnx_out *o);

#endif
