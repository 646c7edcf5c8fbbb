"""Cells: LSTM with projection, dropout with one mask for all steps; unrolling by a loop operator."""
from ...rnn._sequence import _operators, begin_state_of, format_sequence, is_tensor, mask_sequence
from ...rnn.rnn_cell import BidirectionalCell, HybridRecurrentCell, ModifierCell, _Stack

__all__ = ["VariationalDropoutCell", "LSTMPCell", "dynamic_unroll"]


class VariationalDropoutCell(ModifierCell):
    """Drops the same elements of inputs, of the first state and of outputs at every step of a sequence.

    The masks are drawn at the first step; reset() lets new ones be drawn.
    """

    def __init__(self, base_cell, drop_inputs=0.0, drop_states=0.0, drop_outputs=0.0):
        if drop_states:
            if isinstance(base_cell, BidirectionalCell):
                raise AssertionError("VariationalDropoutCell: a BidirectionalCell cannot be stepped; put the dropout "
                                     "of states inside it")
            if isinstance(base_cell, _Stack):
                raise AssertionError("VariationalDropoutCell: drop_states is for one cell, not for a stack; put the "
                                     "dropout around each cell")
        super().__init__(base_cell)
        self.drop_inputs, self.drop_states, self.drop_outputs = drop_inputs, drop_states, drop_outputs
        self._forget_masks()

    def _alias(self):
        return "vardrop"

    def __repr__(self):
        return f"{type(self).__name__}(p_out = {self.drop_outputs}, p_state = {self.drop_states})"

    def _forget_masks(self):
        self.drop_inputs_mask = self.drop_states_mask = self.drop_outputs_mask = None

    def reset(self):
        """Forgets the masks, before another sequence begins."""
        super().reset()
        self._forget_masks()

    @staticmethod
    def _mask(F, p, like):
        return F.Dropout(F.ones_like(like), p=p)

    def hybrid_forward(self, F, inputs, states):
        """One step."""
        if self.drop_states:
            if self.drop_states_mask is None:
                self.drop_states_mask = self._mask(F, self.drop_states, states[0])
            states = [states[0] * self.drop_states_mask] + list(states[1:])
        if self.drop_inputs:
            if self.drop_inputs_mask is None:
                self.drop_inputs_mask = self._mask(F, self.drop_inputs, inputs)
            inputs = inputs * self.drop_inputs_mask
        output, states = self.base_cell(inputs, states)
        if self.drop_outputs:
            if self.drop_outputs_mask is None:
                self.drop_outputs_mask = self._mask(F, self.drop_outputs, output)
            output = output * self.drop_outputs_mask
        return output, states

    def unroll(self, length, inputs, begin_state=None, layout="NTC", merge_outputs=None, valid_length=None):
        """Steps through a sequence.  Where no state is dropped the cell inside is unrolled as a whole."""
        if self.drop_states:
            return super().unroll(length, inputs, begin_state, layout, merge_outputs, valid_length=valid_length)
        self.reset()
        inputs, axis, F, batch_size = format_sequence(length, inputs, layout, True)
        states = begin_state_of(self, F, begin_state, inputs, batch_size)
        if self.drop_inputs:
            inputs = F.Dropout(inputs, p=self.drop_inputs, axes=(axis,))
        self.base_cell._modified = False
        try:
            outputs, states = self.base_cell.unroll(length, inputs, states, layout, merge_outputs=True,
                                                    valid_length=valid_length)
        finally:
            self.base_cell._modified = True
        if self.drop_outputs:
            outputs = F.Dropout(outputs, p=self.drop_outputs, axes=(axis,))
        merge = True if merge_outputs is None else merge_outputs
        outputs, _, _, _ = format_sequence(length, outputs, layout, merge)
        if valid_length is not None:
            outputs = mask_sequence(F, outputs, length, valid_length, axis, merge)
        return outputs, states


class LSTMPCell(HybridRecurrentCell):
    """An LSTM cell whose state h is projected to projection_size: h' = h2r (s(o) tanh(c')); the output is h'."""

    def __init__(self, hidden_size, projection_size, i2h_weight_initializer=None, h2h_weight_initializer=None,
                 h2r_weight_initializer=None, i2h_bias_initializer="zeros", h2h_bias_initializer="zeros", input_size=0,
                 prefix=None, params=None):
        super().__init__(prefix=prefix, params=params)
        self._hidden_size, self._input_size, self._projection_size = hidden_size, input_size, projection_size
        rows = 4 * hidden_size
        for name, shape, init in (("i2h_weight", (rows, input_size), i2h_weight_initializer),
                                  ("h2h_weight", (rows, projection_size), h2h_weight_initializer),
                                  ("h2r_weight", (projection_size, hidden_size), h2r_weight_initializer),
                                  ("i2h_bias", (rows,), i2h_bias_initializer),
                                  ("h2h_bias", (rows,), h2h_bias_initializer)):
            setattr(self, name, self.params.get(name, shape=shape, init=init, allow_deferred_init=True))

    def _alias(self):
        return "lstmp"

    def __repr__(self):
        rows, columns = self.i2h_weight.shape
        return f"{type(self).__name__}({columns if columns > 0 else None} -> {rows} -> {self._projection_size})"

    def state_info(self, batch_size=0):
        """Two states: h (N, projection_size) and c (N, hidden_size)."""
        return [{"shape": (batch_size, size), "__layout__": "NC"}
                for size in (self._projection_size, self._hidden_size)]

    def hybrid_forward(self, F, inputs, states, i2h_weight, h2h_weight, h2r_weight, i2h_bias, h2h_bias):
        """One step."""
        step, rows = f"t{self._counter}_", 4 * self._hidden_size
        i2h = F.FullyConnected(data=inputs, weight=i2h_weight, bias=i2h_bias, num_hidden=rows, name=step + "i2h")
        h2h = F.FullyConnected(data=states[0], weight=h2h_weight, bias=h2h_bias, num_hidden=rows, name=step + "h2h")
        gates = F.SliceChannel(i2h + h2h, num_outputs=4, name=step + "slice")
        i, f, o = (F.Activation(gates[k], act_type="sigmoid", name=step + name)
                   for k, name in ((0, "i"), (1, "f"), (3, "o")))
        new = F.Activation(gates[2], act_type="tanh", name=step + "c")
        c = F.elemwise_add(f * states[1], i * new, name=step + "state")
        hidden = F.elemwise_mul(o, F.Activation(c, act_type="tanh"), name=step + "hidden")
        h = F.FullyConnected(data=hidden, num_hidden=self._projection_size, weight=h2r_weight, no_bias=True,
                             name=step + "out")
        return h, [h, c]


def dynamic_unroll(cell, inputs, begin_state, drop_inputs=0, drop_outputs=0, layout="TNC", valid_length=None):
    """Unrolls a cell by the foreach operator, so that a graph has one body whatever the length is: outputs, states.

    drop_inputs and drop_outputs are shares of elements dropped, the same at every step.
    """
    if not is_tensor(inputs):
        raise TypeError(f"dynamic_unroll: inputs must be one array, got {type(inputs).__name__}")
    if layout not in ("TNC", "NTC"):
        raise ValueError(f"dynamic_unroll: layout={layout!r}, wanted 'TNC' or 'NTC'")
    F, axis = _operators(inputs), layout.find("T")
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
