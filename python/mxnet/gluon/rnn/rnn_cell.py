"""Recurrent cells: one step of a recurrent network, output, states = cell(input, states); unroll() makes the steps of a
whole sequence."""
from ... import ndarray as nd
from ..block import Block, HybridBlock
from ..parameter import tensor_types
from ._sequence import begin_state_of, format_sequence, is_tensor, last_states, mask_sequence, reverse_sequence

__all__ = ["BidirectionalCell", "DropoutCell", "GRUCell", "HybridRecurrentCell", "HybridSequentialRNNCell", "LSTMCell",
           "ModifierCell", "RNNCell", "RecurrentCell", "ResidualCell", "SequentialRNNCell", "ZoneoutCell"]


def _all_info(cells, batch_size):
    return [info for cell in cells for info in cell.state_info(batch_size)]


class RecurrentCell(Block):
    """Base of all cells.  Subclasses say in state_info() what their states are and in forward (or hybrid_forward) what
    a step computes: output, new states."""

    def __init__(self, prefix=None, params=None):
        super().__init__(prefix=prefix, params=params)
        self._modified = False
        self.reset()

    def __repr__(self):
        text = type(self).__name__
        if getattr(self, "_gates", 0):
            size = self.i2h_weight.shape
            text += f"({size[1] if size[1] > 0 else None} -> {size[0]}"
            text += f", {self._activation})" if self._gates == 1 else ")"
        return text

    def reset(self):
        """Forgets what was counted and kept, before another sequence begins."""
        self._init_counter = -1
        self._counter = -1
        for cell in self._children.values():
            if isinstance(cell, RecurrentCell):
                cell.reset()

    def state_info(self, batch_size=0):
        """Shape and layout of every state, a list of dicts."""
        raise NotImplementedError(f"{self.name} ({type(self).__name__}) does not override state_info")

    def _check_not_modified(self):
        if self._modified:
            raise AssertionError(f"{self.name} ({type(self).__name__}) is inside a modifier cell: call that one")

    def begin_state(self, batch_size=0, func=nd.zeros, **kwargs):
        """States to begin with: func(shape=..., ...) for each; keywords go to func."""
        self._check_not_modified()
        states = []
        for info in self.state_info(batch_size):
            self._init_counter += 1
            info = dict(info or {}, **kwargs)
            info.pop("__layout__", None)
            states.append(func(name=f"{self.prefix}begin_state_{self._init_counter}", **info))
        return states

    def unroll(self, length, inputs, begin_state=None, layout="NTC", merge_outputs=None, valid_length=None):
        """Steps through a sequence: outputs, states.

        inputs is one array (N, T, C) or (T, N, C), as layout says, or a list of `length` arrays (N, C).  merge_outputs
        True gives one array, False a list, None what is at hand.  With valid_length (N) outputs past the end of a
        sequence are zeros and the states are those at its end.
        """
        self.reset()
        inputs, axis, F, batch_size = format_sequence(length, inputs, layout, False)
        states = begin_state_of(self, F, begin_state, inputs, batch_size)
        outputs, all_states = [], []
        for i in range(length):
            output, states = self(inputs[i], states)
            outputs.append(output)
            all_states.append(states)
        if valid_length is not None:
            states = last_states(F, all_states, valid_length)
            outputs = mask_sequence(F, outputs, length, valid_length, axis, True)
        outputs, _, _, _ = format_sequence(length, outputs, layout, merge_outputs)
        return outputs, states

    def _get_activation(self, F, inputs, activation, **kwargs):
        """An activation given by name or as a function or block."""
        simple = {"tanh": F.tanh, "relu": F.relu, "sigmoid": F.sigmoid, "softsign": F.softsign}
        if isinstance(activation, str):
            return simple[activation](inputs, **kwargs) if activation in simple else \
                F.Activation(inputs, act_type=activation, **kwargs)
        return activation(inputs) if isinstance(activation, Block) else activation(inputs, **kwargs)

    def forward(self, inputs, states):
        """One step: output, new states."""
        self._counter += 1
        return super().forward(inputs, states)


class HybridRecurrentCell(RecurrentCell, HybridBlock):
    """Base of cells that can be hybridized: subclasses override hybrid_forward(F, inputs, states, **parameters)."""

    def hybrid_forward(self, F, x, *args, **kwargs):
        """Override it to say what a step computes."""
        raise NotImplementedError(f"{self.name} ({type(self).__name__}) does not override hybrid_forward")


class _GatedCell(HybridRecurrentCell):
    """Parameters of the cells with weights: i2h (G H, C), h2h (G H, H) and their biases."""

    _gates = 1

    def __init__(self, hidden_size, i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer,
                 h2h_bias_initializer, input_size, prefix, params):
        super().__init__(prefix=prefix, params=params)
        self._hidden_size = hidden_size
        self._input_size = input_size
        rows = self._gates * hidden_size
        for name, shape, init in (("i2h_weight", (rows, input_size), i2h_weight_initializer),
                                  ("h2h_weight", (rows, hidden_size), h2h_weight_initializer),
                                  ("i2h_bias", (rows,), i2h_bias_initializer),
                                  ("h2h_bias", (rows,), h2h_bias_initializer)):
            setattr(self, name, self.params.get(name, shape=shape, init=init, allow_deferred_init=True))

    def _state(self, batch_size):
        return {"shape": (batch_size, self._hidden_size), "__layout__": "NC"}

    def state_info(self, batch_size=0):
        """One state: h (N, hidden_size)."""
        return [self._state(batch_size)]

    def _products(self, F, inputs, h, i2h_weight, h2h_weight, i2h_bias, h2h_bias):
        """i2h x + bias and h2h h + bias, both (N, G H), and how names of this step begin."""
        step = f"t{self._counter}_"
        rows = self._gates * self._hidden_size
        i2h = F.FullyConnected(data=inputs, weight=i2h_weight, bias=i2h_bias, num_hidden=rows, name=step + "i2h")
        h2h = F.FullyConnected(data=h, weight=h2h_weight, bias=h2h_bias, num_hidden=rows, name=step + "h2h")
        return i2h, h2h, step


class RNNCell(_GatedCell):
    """h' = act(i2h x + h2h h); the output is h'."""

    def __init__(self, hidden_size, activation="tanh", i2h_weight_initializer=None, h2h_weight_initializer=None,
                 i2h_bias_initializer="zeros", h2h_bias_initializer="zeros", input_size=0, prefix=None, params=None):
        super().__init__(hidden_size, i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer,
                         h2h_bias_initializer, input_size, prefix, params)
        self._activation = activation

    def _alias(self):
        return "rnn"

    def hybrid_forward(self, F, inputs, states, i2h_weight, h2h_weight, i2h_bias, h2h_bias):
        """One step."""
        i2h, h2h, step = self._products(F, inputs, states[0], i2h_weight, h2h_weight, i2h_bias, h2h_bias)
        output = self._get_activation(F, F.elemwise_add(i2h, h2h, name=step + "plus0"), self._activation,
                                      name=step + "out")
        return output, [output]


class LSTMCell(_GatedCell):
    """Gates i, f, g, o = i2h x + h2h h;  c' = s(f) c + s(i) tanh(g),  h' = s(o) tanh(c'); the output is h'."""

    _gates = 4

    def __init__(self, hidden_size, i2h_weight_initializer=None, h2h_weight_initializer=None,
                 i2h_bias_initializer="zeros", h2h_bias_initializer="zeros", input_size=0, prefix=None, params=None,
                 activation="tanh", recurrent_activation="sigmoid"):
        super().__init__(hidden_size, i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer,
                         h2h_bias_initializer, input_size, prefix, params)
        self._activation = activation
        self._recurrent_activation = recurrent_activation

    def _alias(self):
        return "lstm"

    def state_info(self, batch_size=0):
        """Two states: h and c, both (N, hidden_size)."""
        return [self._state(batch_size), self._state(batch_size)]

    def hybrid_forward(self, F, inputs, states, i2h_weight, h2h_weight, i2h_bias, h2h_bias):
        """One step."""
        i2h, h2h, step = self._products(F, inputs, states[0], i2h_weight, h2h_weight, i2h_bias, h2h_bias)
        gates = F.SliceChannel(F.elemwise_add(i2h, h2h, name=step + "plus0"), num_outputs=4, name=step + "slice")
        i, f, o = (self._get_activation(F, gates[k], self._recurrent_activation, name=step + name)
                   for k, name in ((0, "i"), (1, "f"), (3, "o")))
        new = self._get_activation(F, gates[2], self._activation, name=step + "c")
        c = F.elemwise_add(F.elemwise_mul(f, states[1], name=step + "mul0"), F.elemwise_mul(i, new, name=step + "mul1"),
                           name=step + "state")
        active = self._get_activation(F, c, self._activation, name=step + "activation0")
        h = F.elemwise_mul(o, active, name=step + "out")
        return h, [h, c]


class GRUCell(_GatedCell):
    """Gates r, z, n: n = tanh(i2h x + s(r) (h2h h)),  h' = (1 - s(z)) n + s(z) h; the output is h'."""

    _gates = 3

    def __init__(self, hidden_size, i2h_weight_initializer=None, h2h_weight_initializer=None,
                 i2h_bias_initializer="zeros", h2h_bias_initializer="zeros", input_size=0, prefix=None, params=None):
        super().__init__(hidden_size, i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer,
                         h2h_bias_initializer, input_size, prefix, params)

    def _alias(self):
        return "gru"

    def hybrid_forward(self, F, inputs, states, i2h_weight, h2h_weight, i2h_bias, h2h_bias):
        """One step."""
        h = states[0]
        i2h, h2h, step = self._products(F, inputs, h, i2h_weight, h2h_weight, i2h_bias, h2h_bias)
        i2h_r, i2h_z, i2h_n = F.SliceChannel(i2h, num_outputs=3, name=step + "i2h_slice")
        h2h_r, h2h_z, h2h_n = F.SliceChannel(h2h, num_outputs=3, name=step + "h2h_slice")
        r = F.Activation(F.elemwise_add(i2h_r, h2h_r, name=step + "plus0"), act_type="sigmoid", name=step + "r_act")
        z = F.Activation(F.elemwise_add(i2h_z, h2h_z, name=step + "plus1"), act_type="sigmoid", name=step + "z_act")
        n = F.elemwise_add(i2h_n, F.elemwise_mul(r, h2h_n, name=step + "mul0"), name=step + "plus2")
        n = F.Activation(n, act_type="tanh", name=step + "h_act")
        keep = F.elemwise_sub(F.ones_like(z, name=step + "ones_like0"), z, name=step + "minus0")
        output = F.elemwise_add(F.elemwise_mul(keep, n, name=step + "mul1"), F.elemwise_mul(z, h, name=step + "mul20"),
                                name=step + "out")
        return output, [output]


class _Stack:
    """What SequentialRNNCell and HybridSequentialRNNCell share."""

    def __repr__(self):
        lines = "\n".join(f"({key}): {cell!r}" for key, cell in self._children.items())
        return f"{type(self).__name__}(\n{lines}\n)"

    def add(self, cell):
        """Puts a cell on top."""
        self.register_child(cell)

    def state_info(self, batch_size=0):
        """The states of all cells, from the bottom."""
        return _all_info(self._children.values(), batch_size)

    def begin_state(self, **kwargs):
        """States of all cells to begin with."""
        self._check_not_modified()
        return [state for cell in self._children.values() for state in cell.begin_state(**kwargs)]

    def _step(self, inputs, states):
        next_states, at = [], 0
        for cell in self._children.values():
            if isinstance(cell, BidirectionalCell):
                raise AssertionError(f"{self.name}: a BidirectionalCell cannot be stepped; use unroll")
            n = len(cell.state_info())
            inputs, state = cell(inputs, states[at:at + n])
            at += n
            next_states += state
        return inputs, next_states

    def unroll(self, length, inputs, begin_state=None, layout="NTC", merge_outputs=None, valid_length=None):
        """Unrolls the cells one after the other over the whole sequence."""
        self.reset()
        inputs, _, F, batch_size = format_sequence(length, inputs, layout, None)
        begin_state = begin_state_of(self, F, begin_state, inputs, batch_size)
        cells = list(self._children.values())
        next_states, at = [], 0
        for i, cell in enumerate(cells):
            n = len(cell.state_info())
            inputs, states = cell.unroll(length, inputs, begin_state=begin_state[at:at + n], layout=layout,
                                         merge_outputs=None if i + 1 < len(cells) else merge_outputs,
                                         valid_length=valid_length)
            at += n
            next_states += states
        return inputs, next_states

    def __getitem__(self, i):
        return list(self._children.values())[i]

    def __len__(self):
        return len(self._children)


class SequentialRNNCell(_Stack, RecurrentCell):
    """Cells on top of each other."""

    def __init__(self, prefix=None, params=None):
        super().__init__(prefix=prefix, params=params)

    def __call__(self, inputs, states):
        self._counter += 1
        return self._step(inputs, states)

    def hybrid_forward(self, *args, **kwargs):
        """There is none: the cells are called one by one."""
        raise NotImplementedError(f"{self.name}: SequentialRNNCell is not hybrid; HybridSequentialRNNCell is")


class HybridSequentialRNNCell(_Stack, HybridRecurrentCell):
    """Hybrid cells on top of each other."""

    def __init__(self, prefix=None, params=None):
        super().__init__(prefix=prefix, params=params)

    def hybrid_forward(self, F, inputs, states):
        """One step through all cells."""
        return self._step(inputs, states)


class DropoutCell(HybridRecurrentCell):
    """Drops elements of the input in training; has no state."""

    def __init__(self, rate, axes=(), prefix=None, params=None):
        if not isinstance(rate, (int, float)):
            raise AssertionError(f"DropoutCell: rate must be a number, got {type(rate).__name__}")
        super().__init__(prefix=prefix, params=params)
        self._rate = rate
        self._axes = axes

    def __repr__(self):
        return f"{type(self).__name__}(rate={self._rate}, axes={self._axes})"

    def _alias(self):
        return "dropout"

    def state_info(self, batch_size=0):
        """No state."""
        return []

    def hybrid_forward(self, F, inputs, states):
        """One step, or the whole sequence at once."""
        if self._rate > 0:
            inputs = F.Dropout(data=inputs, p=self._rate, axes=self._axes, name=f"t{self._counter}_fwd")
        return inputs, states

    def unroll(self, length, inputs, begin_state=None, layout="NTC", merge_outputs=None, valid_length=None):
        """A sequence that is one array is dropped from at once."""
        self.reset()
        inputs, _, F, _ = format_sequence(length, inputs, layout, merge_outputs)
        if is_tensor(inputs):
            return self.hybrid_forward(F, inputs, begin_state if begin_state else [])
        return super().unroll(length, inputs, begin_state=begin_state, layout=layout, merge_outputs=merge_outputs,
                              valid_length=None)


class ModifierCell(HybridRecurrentCell):
    """Base of cells that change how another cell works; that one's parameters and states are theirs."""

    def __init__(self, base_cell):
        base_cell._check_not_modified()
        base_cell._modified = True
        super().__init__(prefix=base_cell.prefix + self._alias(), params=None)
        self.base_cell = base_cell

    def __repr__(self):
        return f"{type(self).__name__}({self.base_cell!r})"

    @property
    def params(self):
        """The parameters of the cell inside."""
        return self.base_cell.params

    def state_info(self, batch_size=0):
        """The states of the cell inside."""
        return self.base_cell.state_info(batch_size)

    def begin_state(self, func=None, **kwargs):
        """States to begin with; func None: zeros, as Symbols where no batch_size is given."""
        self._check_not_modified()
        if func is None:
            from ... import symbol
            func = nd.zeros if kwargs.get("batch_size") else symbol.zeros
        self.base_cell._modified = False
        try:
            return self.base_cell.begin_state(func=func, **kwargs)
        finally:
            self.base_cell._modified = True

    def hybrid_forward(self, F, inputs, states):
        """Override it to say what a step computes."""
        raise NotImplementedError(f"{self.name} ({type(self).__name__}) does not override hybrid_forward")


class ZoneoutCell(ModifierCell):
    """In training outputs and states keep their last value with these probabilities."""

    def __init__(self, base_cell, zoneout_outputs=0.0, zoneout_states=0.0):
        if isinstance(base_cell, BidirectionalCell):
            raise AssertionError("ZoneoutCell: a BidirectionalCell cannot be stepped; put ZoneoutCells inside it")
        if isinstance(base_cell, _Stack) and any(isinstance(c, BidirectionalCell) for c in base_cell):
            raise AssertionError("ZoneoutCell: a BidirectionalCell in the stack cannot be stepped; put ZoneoutCells "
                                 "inside it")
        super().__init__(base_cell)
        self.zoneout_outputs = zoneout_outputs
        self.zoneout_states = zoneout_states
        self._prev_output = None

    def __repr__(self):
        return f"{type(self).__name__}(p_out={self.zoneout_outputs}, p_state={self.zoneout_states}, {self.base_cell!r})"

    def _alias(self):
        return "zoneout"

    def reset(self):
        """Forgets the last output."""
        super().reset()
        self._prev_output = None

    def hybrid_forward(self, F, inputs, states):
        """One step; which elements are new is drawn as by Dropout: always all of them outside training."""
        output, new_states = self.base_cell(inputs, states)

        def mix(p, new, old):
            return F.where(F.Dropout(F.ones_like(new), p=p), new, old)

        if self.zoneout_outputs:
            before = self._prev_output if self._prev_output is not None else F.zeros_like(output)
            output = mix(self.zoneout_outputs, output, before)
        if self.zoneout_states:
            new_states = [mix(self.zoneout_states, new, old) for new, old in zip(new_states, states)]
        self._prev_output = output
        return output, new_states


class ResidualCell(ModifierCell):
    """Adds the input to the output."""

    def __init__(self, base_cell):
        super().__init__(base_cell)

    def hybrid_forward(self, F, inputs, states):
        """One step."""
        output, states = self.base_cell(inputs, states)
        return F.elemwise_add(output, inputs, name=f"t{self._counter}_fwd"), states

    def unroll(self, length, inputs, begin_state=None, layout="NTC", merge_outputs=None, valid_length=None):
        """Unrolls the cell inside and adds the inputs."""
        self.reset()
        self.base_cell._modified = False
        try:
            outputs, states = self.base_cell.unroll(length, inputs=inputs, begin_state=begin_state, layout=layout,
                                                    merge_outputs=merge_outputs, valid_length=valid_length)
        finally:
            self.base_cell._modified = True
        merge = is_tensor(outputs) if merge_outputs is None else merge_outputs
        inputs, axis, F, _ = format_sequence(length, inputs, layout, merge)
        if valid_length is not None:
            inputs = mask_sequence(F, inputs, length, valid_length, axis, merge)
        if merge:
            return F.elemwise_add(outputs, inputs), states
        return [F.elemwise_add(output, x) for output, x in zip(outputs, inputs)], states


class BidirectionalCell(HybridRecurrentCell):
    """Two cells, of which the second reads the sequence backwards; outputs are joined.  It can only be unrolled."""

    def __init__(self, l_cell, r_cell, output_prefix="bi_"):
        super().__init__(prefix="", params=None)
        self.register_child(l_cell, "l_cell")
        self.register_child(r_cell, "r_cell")
        self._output_prefix = output_prefix

    def __call__(self, inputs, states):
        raise NotImplementedError(f"{type(self).__name__} cannot be stepped; use unroll")

    def __repr__(self):
        left, right = self._children.values()
        return f"{type(self).__name__}(forward={left!r}, backward={right!r})"

    def state_info(self, batch_size=0):
        """The states of the first cell, then those of the second."""
        return _all_info(self._children.values(), batch_size)

    def begin_state(self, **kwargs):
        """States of both cells to begin with."""
        self._check_not_modified()
        return [state for cell in self._children.values() for state in cell.begin_state(**kwargs)]

    def unroll(self, length, inputs, begin_state=None, layout="NTC", merge_outputs=None, valid_length=None):
        """Unrolls both cells and joins their outputs step by step."""
        self.reset()
        inputs, axis, F, batch_size = format_sequence(length, inputs, layout, False)
        begin_state = begin_state_of(self, F, begin_state, inputs, batch_size)
        left, right = self._children.values()
        n = len(left.state_info(batch_size))
        l_outputs, l_states = left.unroll(length, inputs=inputs, begin_state=begin_state[:n], layout=layout,
                                          merge_outputs=merge_outputs, valid_length=valid_length)
        r_outputs, r_states = right.unroll(length, inputs=reverse_sequence(F, inputs, valid_length),
                                           begin_state=begin_state[n:], layout=layout, merge_outputs=False,
                                           valid_length=valid_length)
        r_outputs = reverse_sequence(F, r_outputs, valid_length)
        if merge_outputs is None:
            merge_outputs = isinstance(l_outputs, tensor_types)
        l_outputs, _, _, _ = format_sequence(None, l_outputs, layout, merge_outputs)
        r_outputs, _, _, _ = format_sequence(None, r_outputs, layout, merge_outputs)
        if merge_outputs:
            outputs = F.concat(l_outputs, r_outputs, dim=2, name=self._output_prefix + "out")
        else:
            outputs = [F.concat(l, r, dim=1, name=f"{self._output_prefix}t{i}")
                       for i, (l, r) in enumerate(zip(l_outputs, r_outputs))]
        return outputs, l_states + r_states
