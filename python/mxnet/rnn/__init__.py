"""Recurrent networks of symbols: the older interface; gluon.rnn is the newer one."""
from .conv_cell import BaseConvRNNCell, ConvGRUCell, ConvLSTMCell, ConvRNNCell
from .fused_cell import FusedRNNCell
from .io import BucketSentenceIter, encode_sentences
from .rnn import do_rnn_checkpoint, load_rnn_checkpoint, rnn_unroll, save_rnn_checkpoint
from .modifier_cell import (BidirectionalCell, DropoutCell, ModifierCell, ResidualCell, SequentialRNNCell, ZoneoutCell)
from .rnn_cell import BaseRNNCell, GRUCell, LSTMCell, RNNCell, RNNParams

__all__ = ["BaseConvRNNCell", "BaseRNNCell", "BidirectionalCell", "BucketSentenceIter", "ConvGRUCell", "ConvLSTMCell",
           "ConvRNNCell", "DropoutCell", "FusedRNNCell", "GRUCell", "LSTMCell", "ModifierCell", "RNNCell", "RNNParams",
           "ResidualCell", "SequentialRNNCell", "ZoneoutCell", "do_rnn_checkpoint", "encode_sentences",
           "load_rnn_checkpoint", "rnn_unroll", "save_rnn_checkpoint"]
