"""Recurrent cells: convolutional ones, an LSTM with projection, dropout that is the same at every step."""
from .conv_rnn_cell import (Conv1DGRUCell, Conv1DLSTMCell, Conv1DRNNCell, Conv2DGRUCell, Conv2DLSTMCell, Conv2DRNNCell,
                            Conv3DGRUCell, Conv3DLSTMCell, Conv3DRNNCell)
from .rnn_cell import LSTMPCell, VariationalDropoutCell, dynamic_unroll

__all__ = ["Conv1DGRUCell", "Conv1DLSTMCell", "Conv1DRNNCell", "Conv2DGRUCell", "Conv2DLSTMCell", "Conv2DRNNCell",
           "Conv3DGRUCell", "Conv3DLSTMCell", "Conv3DRNNCell", "LSTMPCell", "VariationalDropoutCell", "dynamic_unroll"]
