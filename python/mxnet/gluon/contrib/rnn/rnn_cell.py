"""Cells: LSTM with projection, dropout with one mask for all steps; unrolling by a loop operator."""
from .... import ndarray, symbol
from ...._core import Symbol
from ...parameter import tensor_types
from ...rnn.rnn_cell import HybridRecurrentCell, ModifierCell, _kept, _registered

__all__ = ["VariationalDropoutCell", "LSTMPCell", "dynamic_unroll"]


@_registered
class VariationalDropoutCell(ModifierCell):
    """Drops the same elements of inputs, of the first state and of outputs at every step of a sequence.

    The masks are drawn at the first step; reset() lets new ones be drawn.
    """

    drop_inputs, drop_states, drop_outputs = (_kept("_option", f"drop_{what}") for what in ("inputs", "states", "outputs"))
    drop_inputs_mask, drop_states_mask, drop_outputs_mask = (_kept("_cell_memory", slot) for slot in range(3))

    def __init__(self, base_cell, drop_inputs=0.0, drop_states=0.0, drop_outputs=0.0):
        super().__init__(base_cell, drop_inputs, drop_states, drop_outputs)

    def _alias(self):
        return "vardrop"

    def __repr__(self):
        return f"{type(self).__name__}(p_out = {self.drop_outputs}, p_state = {self.drop_states})"


@_registered
class LSTMPCell(HybridRecurrentCell):
    """An LSTM cell whose state h is projected to projection_size: h' = h2r (s(o) tanh(c')); the output is h'."""

    def __init__(self, hidden_size, projection_size, i2h_weight_initializer=None, h2h_weight_initializer=None,
                 h2r_weight_initializer=None, i2h_bias_initializer="zeros", h2h_bias_initializer="zeros", input_size=0,
                 prefix=None, params=None):
        self._start_row(hidden_size, projection_size, i2h_weight_initializer, h2h_weight_initializer,
                        h2r_weight_initializer, i2h_bias_initializer, h2h_bias_initializer, input_size, prefix=prefix,
                        params=params)


def dynamic_unroll(cell, inputs, begin_state, drop_inputs=0, drop_outputs=0, layout="TNC", valid_length=None):
    """Unrolls a cell by the foreach operator, so that a graph has one body whatever the length is: outputs, states.

    drop_inputs and drop_outputs are shares of elements dropped, the same at every step.
    """
    if not isinstance(inputs, tensor_types):
        raise TypeError(f"dynamic_unroll: inputs must be one array, got {type(inputs).__name__}")
    if layout not in ("TNC", "NTC"):
        raise ValueError(f"dynamic_unroll: layout={layout!r}, expected 'TNC' or 'NTC'")
    F, axis = symbol if isinstance(inputs, Symbol) else ndarray, layout.find("T")
    if drop_inputs:
        inputs = F.Dropout(inputs, p=drop_inputs, axes=(axis,))
    if axis == 1:
        inputs = F.swapaxes(inputs, dim1=0, dim2=1)
    cell.reset()
    if valid_length is None:
        outputs, states = F.contrib.foreach(cell, inputs, begin_state)
    else:
        outputs, states = _until_end(F, cell, inputs, begin_state, valid_length)
    if drop_outputs:
        outputs = F.Dropout(outputs, p=drop_outputs, axes=(0,))
    if axis == 1:
        outputs = F.swapaxes(outputs, dim1=0, dim2=1)
    return outputs, states


def _until_end(F, cell, inputs, begin_state, valid_length):
    """Steps after the end of a sequence leave its states as they are; outputs there are zeros."""
    one = not isinstance(begin_state, (list, tuple))

    def body(data, states):
        step, *old = states
        output, new = cell(data, old[0] if one else old)
        alive = F.broadcast_lesser(step, valid_length)
        new = [new] if one else new
        kept = [F.where(alive, n, o) for n, o in zip(new, old)]
        return F.where(alive, output, F.zeros_like(output)), [step + 1] + kept

    states = [begin_state] if one else list(begin_state)
    outputs, states = F.contrib.foreach(body, inputs, [F.zeros((1,))] + states)
    return outputs, states[1] if one else states[1:]
