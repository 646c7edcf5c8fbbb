"""Recurrent networks: whole layers (RNN, LSTM, GRU) and cells that are stepped or unrolled."""
from ..block import Block, HybridBlock
from .rnn_cell import (BidirectionalCell, DropoutCell, GRUCell, HybridRecurrentCell, HybridSequentialRNNCell, LSTMCell,
                       ModifierCell, RecurrentCell, ResidualCell, RNNCell, SequentialRNNCell, ZoneoutCell)
from .rnn_layer import GRU, LSTM, RNN

__all__ = ["BidirectionalCell", "DropoutCell", "GRU", "GRUCell", "HybridRecurrentCell", "HybridSequentialRNNCell",
           "LSTM", "LSTMCell", "ModifierCell", "RNN", "RNNCell", "RecurrentCell", "ResidualCell", "SequentialRNNCell",
           "ZoneoutCell"]
