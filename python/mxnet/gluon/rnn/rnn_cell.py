"""Recurrent cells: one step of a recurrent network, output, states = cell(input, states); unroll() makes the steps of a
whole sequence.

What cells compute stands in the library (gluon/cell.h in C); here are the classes.  A subclass may override any method:
the library calls it wherever the cell sits.
"""
from ... import _core
from ... import ndarray as nd
from ..block import Block, HybridBlock

__all__ = ["BidirectionalCell", "DropoutCell", "GRUCell", "HybridRecurrentCell", "HybridSequentialRNNCell", "LSTMCell",
           "ModifierCell", "RNNCell", "RecurrentCell", "ResidualCell", "SequentialRNNCell", "ZoneoutCell"]

_ROWS = {name: address for _, name, address, group, _ in _core.layers() if group == "cells"}


def _registered(cls):
    """Ties a class to the library's class of that name."""
    cls._address = _ROWS[cls.__name__]
    cls._made = cls
    _core.register_layer(cls._address, cls)
    return cls


def _kept(method, which):
    """An attribute that the library keeps."""
    return property(lambda self: getattr(self, method)(which), lambda self, value: getattr(self, method)(which, value))


class RecurrentCell(Block):
    """Base of all cells.  Subclasses say in state_info() what their states are and in forward (or hybrid_forward) what
    a step computes: output, new states."""

    _address = None
    _activation_in_python = False
    _counter, _init_counter, _modified = (_kept("_cell_value", which) for which in range(3))

    def __init__(self, prefix=None, params=None):
        super().__init__(prefix=prefix, params=params)
        self._start_cell(HybridRecurrentCell if isinstance(self, HybridRecurrentCell) else RecurrentCell)
        self.reset()

    def _start_row(self, *options, activations=(), prefix=None, params=None):
        """Makes a cell of the library; activations that are not names are called in Python."""
        self._start_layer(self._address, self._made, *options, prefix=prefix, params=params)
        for name, value in activations:
            if not isinstance(value, str):
                self.__dict__[name] = value  # not the library's option of that name
                self._activation_in_python = True
        self._start_cell(self._made)
        self.reset()

    def _set_core_state(self, state):
        super()._set_core_state(state)
        self._restored_cell = state["cell"]

    def _restored(self):
        """After a copy has its attributes: which methods are overridden, how far the cell has counted."""
        super()._restored()
        counter, init_counter, modified, memory = self.__dict__.pop("_restored_cell")
        base = HybridRecurrentCell if isinstance(self, HybridRecurrentCell) else RecurrentCell
        self._start_cell(self._made if self._address else base)
        self._counter, self._init_counter, self._modified = counter, init_counter, modified
        for place, value in enumerate(memory):
            self._cell_memory(place, value)

    def __repr__(self):
        if not self._address:
            return type(self).__name__
        text = super().__repr__()
        return text.replace(", None", f", {self._activation}") if self._activation_in_python else text

    def reset(self):
        """Forgets what was counted and kept, before another sequence begins."""
        self._cell_reset()

    def state_info(self, batch_size=0):
        """Shape and layout of every state, a list of dicts."""
        return self._cell_state_info(batch_size)

    def begin_state(self, batch_size=0, func=nd.zeros, **kwargs):
        """States to begin with: func(shape=..., ...) for each; keywords go to func."""
        return self._cell_begin_state(batch_size, func, kwargs)

    def unroll(self, length, inputs, begin_state=None, layout="NTC", merge_outputs=None, valid_length=None):
        """Steps through a sequence: outputs, states.

        inputs is one array (N, T, C) or (T, N, C), as layout says, or a list of `length` arrays (N, C).  merge_outputs
        True gives one array, False a list, None what is at hand.  With valid_length (N) outputs past the end of a
        sequence are zeros and the states are those at its end.
        """
        return self._cell_unroll(length, inputs, begin_state, layout, merge_outputs, valid_length)

    def _get_activation(self, F, inputs, activation, **kwargs):
        """An activation given by name or as a function or block."""
        simple = {"tanh": F.tanh, "relu": F.relu, "sigmoid": F.sigmoid, "softsign": F.softsign}
        if isinstance(activation, str):
            return simple[activation](inputs, **kwargs) if activation in simple else \
                F.Activation(inputs, act_type=activation, **kwargs)
        return activation(inputs) if isinstance(activation, Block) else activation(inputs, **kwargs)

    def forward(self, inputs, states):
        """One step: output, new states."""
        self._cell_count()
        return super().forward(inputs, states)


class HybridRecurrentCell(RecurrentCell, HybridBlock):
    """Base of cells that can be hybridized: subclasses override hybrid_forward(F, inputs, states, **parameters)."""

    def hybrid_forward(self, F, x, *args, **kwargs):
        """Override it to say what a step computes."""
        if not self._address:
            raise NotImplementedError(f"{self.name} ({type(self).__name__}) does not override hybrid_forward")
        states, *given = args
        return self._layer_forward((x, states), {**dict(zip(self._reg_params, given)), **kwargs})


RecurrentCell._base, HybridRecurrentCell._base = RecurrentCell, HybridRecurrentCell


@_registered
class RNNCell(HybridRecurrentCell):
    """h' = act(i2h x + h2h h); the output is h'."""

    def __init__(self, hidden_size, activation="tanh", i2h_weight_initializer=None, h2h_weight_initializer=None,
                 i2h_bias_initializer="zeros", h2h_bias_initializer="zeros", input_size=0, prefix=None, params=None):
        self._start_row(hidden_size, activation if isinstance(activation, str) else None, i2h_weight_initializer,
                        h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer, input_size,
                        activations=[("_activation", activation)], prefix=prefix, params=params)


@_registered
class LSTMCell(HybridRecurrentCell):
    """Gates i, f, g, o = i2h x + h2h h;  c' = s(f) c + s(i) tanh(g),  h' = s(o) tanh(c'); the output is h'."""

    def __init__(self, hidden_size, i2h_weight_initializer=None, h2h_weight_initializer=None,
                 i2h_bias_initializer="zeros", h2h_bias_initializer="zeros", input_size=0, prefix=None, params=None,
                 activation="tanh", recurrent_activation="sigmoid"):
        chosen = (activation, recurrent_activation)
        self._start_row(hidden_size, i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer,
                        h2h_bias_initializer, input_size, *(a if isinstance(a, str) else None for a in chosen),
                        activations=zip(("_activation", "_recurrent_activation"), chosen), prefix=prefix,
                        params=params)


@_registered
class GRUCell(HybridRecurrentCell):
    """Gates r, z, n: n = tanh(i2h x + s(r) (h2h h)),  h' = (1 - s(z)) n + s(z) h; the output is h'."""

    def __init__(self, hidden_size, i2h_weight_initializer=None, h2h_weight_initializer=None,
                 i2h_bias_initializer="zeros", h2h_bias_initializer="zeros", input_size=0, prefix=None, params=None):
        self._start_row(hidden_size, i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer,
                        h2h_bias_initializer, input_size, prefix=prefix, params=params)


class _Stack:
    """What SequentialRNNCell and HybridSequentialRNNCell share."""

    def __init__(self, prefix=None, params=None):
        self._start_row(prefix=prefix, params=params)

    def __repr__(self):
        lines = "\n".join(f"({key}): {cell!r}" for key, cell in self._children.items())
        return f"{type(self).__name__}(\n{lines}\n)"

    def add(self, cell):
        """Puts a cell on top."""
        self.register_child(cell)

    def begin_state(self, batch_size=0, func=None, **kwargs):
        """States of all cells to begin with."""
        return self._cell_begin_state(batch_size, func, kwargs)

    def __getitem__(self, i):
        return list(self._children.values())[i]

    def __len__(self):
        return len(self._children)


@_registered
class SequentialRNNCell(_Stack, RecurrentCell):
    """Cells on top of each other."""

    forward = _core.Block.forward

    def hybrid_forward(self, *args, **kwargs):
        """There is none: the cells are called one by one."""
        raise NotImplementedError(f"{self.name}: SequentialRNNCell is not hybrid; HybridSequentialRNNCell is")


@_registered
class HybridSequentialRNNCell(_Stack, HybridRecurrentCell):
    """Hybrid cells on top of each other."""


@_registered
class DropoutCell(HybridRecurrentCell):
    """Drops elements of the input in training; has no state."""

    def __init__(self, rate, axes=(), prefix=None, params=None):
        if not isinstance(rate, (int, float)):
            raise AssertionError(f"DropoutCell: rate must be a number, got {type(rate).__name__}")
        self._start_row(rate, axes, prefix=prefix, params=params)


@_registered
class ModifierCell(HybridRecurrentCell):
    """Base of cells that change how another cell works; that one's parameters and states are theirs."""

    def __init__(self, base_cell, *options):
        self._start_row(base_cell, *options, prefix=base_cell.prefix + self._alias())
        self.base_cell = base_cell

    def __repr__(self):
        return f"{type(self).__name__}({self.base_cell!r})"

    @property
    def params(self):
        """The parameters of the cell inside."""
        return self.base_cell.params

    def begin_state(self, func=None, batch_size=0, **kwargs):
        """States to begin with; func None: zeros, as Symbols where no batch_size is given."""
        return self._cell_begin_state(batch_size, func, kwargs)


@_registered
class ZoneoutCell(ModifierCell):
    """In training outputs and states keep their last value with these probabilities."""

    zoneout_outputs, zoneout_states = _kept("_option", "zoneout_outputs"), _kept("_option", "zoneout_states")
    _prev_output = _kept("_cell_memory", 0)

    def __init__(self, base_cell, zoneout_outputs=0.0, zoneout_states=0.0):
        super().__init__(base_cell, zoneout_outputs, zoneout_states)

    def __repr__(self):
        return f"{type(self).__name__}(p_out={self.zoneout_outputs}, p_state={self.zoneout_states}, {self.base_cell!r})"

    def _alias(self):
        return "zoneout"


@_registered
class ResidualCell(ModifierCell):
    """Adds the input to the output."""

    def __init__(self, base_cell):
        super().__init__(base_cell)


@_registered
class BidirectionalCell(HybridRecurrentCell):
    """Two cells, of which the second reads the sequence backwards; outputs are joined.  It can only be unrolled."""

    def __init__(self, l_cell, r_cell, output_prefix="bi_"):
        self._start_row(l_cell, r_cell, output_prefix, prefix="")
        self.register_child(l_cell, "l_cell")
        self.register_child(r_cell, "r_cell")

    def __repr__(self):
        left, right = self._children.values()
        return f"{type(self).__name__}(forward={left!r}, backward={right!r})"

    def begin_state(self, batch_size=0, func=None, **kwargs):
        """States of both cells to begin with."""
        return self._cell_begin_state(batch_size, func, kwargs)
