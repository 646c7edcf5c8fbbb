"""Cells for symbols composed of other cells: stacks, bidirectional, dropout, zoneout, residual."""
from .. import symbol
from .._core import form_sequence
from .rnn_cell import BaseRNNCell

__all__ = ["BidirectionalCell", "DropoutCell", "ModifierCell", "ResidualCell", "SequentialRNNCell", "ZoneoutCell"]


def _all_info(cells):
    return [info for cell in cells for info in cell.state_info]


class _Several(BaseRNNCell):
    """Base of cells composed of cells."""

    def __init__(self, prefix, params):
        super().__init__(prefix=prefix, params=params)
        self._cells = []
        self._override_cell_params = params is not None

    def _adopt(self, cell):
        if self._override_cell_params:
            if not cell._own_params:
                raise AssertionError(f"{type(self).__name__}: either it or its cells are given params, not both")
            cell.params._params.update(self.params._params)
        self.params._params.update(cell.params._params)
        self._cells.append(cell)

    @property
    def state_info(self):
        return _all_info(self._cells)

    def begin_state(self, **kwargs):
        """Initial states of all cells."""
        self._check_not_modified()
        return [state for cell in self._cells for state in cell.begin_state(**kwargs)]

    def unpack_weights(self, args):
        """A dict with one array per gate of every cell."""
        for cell in self._cells:
            args = cell.unpack_weights(args)
        return args

    def pack_weights(self, args):
        """The inverse of unpack_weights()."""
        for cell in self._cells:
            args = cell.pack_weights(args)
        return args


class SequentialRNNCell(_Several):
    """A stack of cells."""

    def __init__(self, params=None):
        super().__init__("", params)

    def add(self, cell):
        """Adds a cell on top."""
        self._adopt(cell)

    def __call__(self, inputs, states):
        self._counter += 1
        new, at = [], 0
        for cell in self._cells:
            if isinstance(cell, BidirectionalCell):
                raise AssertionError("SequentialRNNCell: a BidirectionalCell cannot run step by step; use unroll")
            n = len(cell.state_info)
            inputs, own = cell(inputs, states[at:at + n])
            at += n
            new += own
        return inputs, new

    def unroll(self, length, inputs, begin_state=None, layout="NTC", merge_outputs=None):
        """Unrolls the cells one after the other, each over the entire sequence."""
        self.reset()
        states = self.begin_state() if begin_state is None else begin_state
        new, at = [], 0
        for i, cell in enumerate(self._cells):
            n = len(cell.state_info)
            last = i + 1 == len(self._cells)
            inputs, own = cell.unroll(length, inputs, states[at:at + n], layout, merge_outputs if last else None)
            at += n
            new += own
        return inputs, new


class DropoutCell(BaseRNNCell):
    """Drops elements of the input in training; has no state."""

    def __init__(self, dropout, prefix="dropout_", params=None):
        super().__init__(prefix, params)
        self.dropout = dropout

    @property
    def state_info(self):
        return []

    def __call__(self, inputs, states):
        return symbol.Dropout(inputs, p=self.dropout) if self.dropout > 0 else inputs, states

    def unroll(self, length, inputs, begin_state=None, layout="NTC", merge_outputs=None):
        """Applies dropout at once if the sequence is one symbol."""
        self.reset()
        inputs = form_sequence(length, inputs, layout, merge_outputs)
        if isinstance(inputs, symbol.Symbol):
            return self(inputs, [])
        return super().unroll(length, inputs, begin_state, layout, merge_outputs)


class ModifierCell(BaseRNNCell):
    """Base of cells that modify another cell; its weights and states are theirs."""

    def __init__(self, base_cell):
        super().__init__()
        base_cell._modified = True
        self.base_cell = base_cell

    @property
    def params(self):
        """The variables of the inner cell."""
        self._own_params = False
        return self.base_cell.params

    @property
    def state_info(self):
        return self.base_cell.state_info

    def begin_state(self, init_sym=symbol.zeros, **kwargs):
        """Initial states of the inner cell."""
        self._check_not_modified()
        self.base_cell._modified = False
        try:
            return self.base_cell.begin_state(func=init_sym, **kwargs)
        finally:
            self.base_cell._modified = True

    def unpack_weights(self, args):
        """As the inner cell does."""
        return self.base_cell.unpack_weights(args)

    def pack_weights(self, args):
        """As the inner cell does."""
        return self.base_cell.pack_weights(args)

    def reset(self):
        """Resets the step counter."""
        super().reset()
        if hasattr(self, "base_cell"):
            self.base_cell.reset()


class ZoneoutCell(ModifierCell):
    """In training outputs and states keep their last value with these probabilities."""

    def __init__(self, base_cell, zoneout_outputs=0.0, zoneout_states=0.0):
        if isinstance(base_cell, BidirectionalCell):
            raise AssertionError("ZoneoutCell: a BidirectionalCell cannot run step by step; put ZoneoutCells inside it")
        super().__init__(base_cell)
        self.zoneout_outputs, self.zoneout_states, self.prev_output = zoneout_outputs, zoneout_states, None

    def reset(self):
        """Drops the last output."""
        super().reset()
        self.prev_output = None

    def __call__(self, inputs, states):
        output, new = self.base_cell(inputs, states)

        def mix(p, now, before):
            return symbol.where(symbol.Dropout(symbol.ones_like(now), p=p), now, before) if p > 0 else now

        before = symbol.zeros_like(output) if self.prev_output is None else self.prev_output
        output = mix(self.zoneout_outputs, output, before)
        self.prev_output = output
        return output, [mix(self.zoneout_states, now, old) for now, old in zip(new, states)]


class ResidualCell(ModifierCell):
    """Adds the input to the output."""

    def __call__(self, inputs, states):
        output, states = self.base_cell(inputs, states)
        return symbol.elemwise_add(output, inputs), states

    def unroll(self, length, inputs, begin_state=None, layout="NTC", merge_outputs=None):
        """Unrolls the inner cell and adds the inputs."""
        self.reset()
        self.base_cell._modified = False
        try:
            outputs, states = self.base_cell.unroll(length, inputs, begin_state, layout, merge_outputs)
        finally:
            self.base_cell._modified = True
        merged = isinstance(outputs, symbol.Symbol)
        inputs = form_sequence(length, inputs, layout, merged)
        if merged:
            return symbol.elemwise_add(outputs, inputs), states
        return [symbol.elemwise_add(a, b) for a, b in zip(outputs, inputs)], states


class BidirectionalCell(_Several):
    """Two cells, the second of which reads the sequence backwards; outputs are concatenated.  It can only be unrolled."""

    def __init__(self, l_cell, r_cell, params=None, output_prefix="bi_"):
        super().__init__("", params)
        self._output_prefix = output_prefix
        self._adopt(l_cell)
        self._adopt(r_cell)

    def __call__(self, inputs, states):
        raise NotImplementedError("BidirectionalCell cannot run step by step; use unroll")

    def unroll(self, length, inputs, begin_state=None, layout="NTC", merge_outputs=None):
        """Unrolls both cells and concatenates their outputs step by step; states are [those of the first, of the second]."""
        self.reset()
        inputs, axis = form_sequence(length, inputs, layout, False), layout.find("T")
        states = self.begin_state() if begin_state is None else begin_state
        left, right = self._cells
        n = len(left.state_info)
        l_outputs, l_states = left.unroll(length, inputs, states[:n], layout, False)
        r_outputs, r_states = right.unroll(length, inputs[::-1], states[n:], layout, False)
        name = self._output_prefix
        if merge_outputs:
            both = [symbol.stack(*outputs, axis=axis) for outputs in (l_outputs, r_outputs[::-1])]
            return symbol.concat(*both, dim=2, name=name + "out"), [l_states, r_states]
        outputs = [symbol.concat(l, r, dim=1, name=f"{name}t{i}")
                   for i, (l, r) in enumerate(zip(l_outputs, r_outputs[::-1]))]
        return outputs, [l_states, r_states]
