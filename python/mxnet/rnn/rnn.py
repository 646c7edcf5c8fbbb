"""Checkpoints of recurrent networks, whose files have one array per gate."""
import warnings

from ..model import load_checkpoint, save_checkpoint

__all__ = ["do_rnn_checkpoint", "load_rnn_checkpoint", "rnn_unroll", "save_rnn_checkpoint"]


def _listed(cells):
    return list(cells) if isinstance(cells, (list, tuple)) else [cells]


def rnn_unroll(cell, length, inputs=None, begin_state=None, input_prefix="", layout="NTC"):
    """The old name of cell.unroll()."""
    warnings.warn("rnn_unroll is cell.unroll today", DeprecationWarning, stacklevel=2)
    if inputs is None:
        from .. import symbol
        inputs = [symbol.Variable(f"{input_prefix}t{i}_data") for i in range(length)]
    return cell.unroll(length, inputs, begin_state, layout)


def save_rnn_checkpoint(cells, prefix, epoch, symbol, arg_params, aux_params):
    """save_checkpoint with the weights of these cells unpacked."""
    for cell in _listed(cells):
        arg_params = cell.unpack_weights(arg_params)
    save_checkpoint(prefix, epoch, symbol, arg_params, aux_params)


def load_rnn_checkpoint(cells, prefix, epoch):
    """load_checkpoint with the weights of these cells packed."""
    symbol, arguments, auxiliary = load_checkpoint(prefix, epoch)
    for cell in _listed(cells):
        arguments = cell.pack_weights(arguments)
    return symbol, arguments, auxiliary


def do_rnn_checkpoint(cells, prefix, period=1):
    """An epoch callback that saves every `period` epochs by save_rnn_checkpoint."""
    period = max(1, int(period))

    def save(iter_no, sym=None, arg=None, aux=None):
        if (iter_no + 1) % period == 0:
            save_rnn_checkpoint(cells, prefix, iter_no + 1, sym, arg, aux)
    return save
