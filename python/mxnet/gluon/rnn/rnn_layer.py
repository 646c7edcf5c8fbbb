"""Recurrent layers over whole sequences.  The layers themselves are the library's (mx_rnn, mx_lstm, mx_gru); here is
how states are passed and what a layer is made of."""
from ... import _core
from ... import ndarray as nd
from .. import _forms
from ..block import _LayerBase
from ..parameter import tensor_types

__all__ = ["GRU", "LSTM", "RNN"]

_ROWS = {name: address for _, name, address, group, _ in _core.layers() if group == "rnn"}


def _registered(cls):
    """Ties a class to the row of the library that bears its name."""
    cls._address = _ROWS[cls.__name__]
    cls._made = cls
    _core.register_layer(cls._address, cls)
    return cls


class _RNNLayer(_LayerBase):
    """What the three layers share.

        output = layer(x)                      begins with states of zeros
        output, states = layer(x, states)      states as begin_state() gives them, also after the call
    """

    _gates = 1

    def _begin(self, mode, options, kwargs):
        """Makes the library's block and keeps what state_info and unfuse need."""
        if options["layout"] not in ("TNC", "NTC"):
            raise AssertionError(f"{type(self).__name__}: layout={options['layout']!r}, wanted 'TNC' or 'NTC'")
        self._start_layer(self._address, self._made, **options, **kwargs)
        self._mode = mode
        self._hidden_size = options["hidden_size"]
        self._projection_size = options.get("projection_size") or None
        self._num_layers = options["num_layers"]
        self._layout = options["layout"]
        self._dropout = options["dropout"]
        self._dir = 2 if options["bidirectional"] else 1
        self._dtype = options["dtype"]
        self._use_sequence_length = bool(kwargs.get("use_sequence_length", False))
        self._starts = {key: value for key, value in options.items() if key.endswith("_initializer")}

    @property
    def _input_size(self):
        return max(self.l0_i2h_weight.shape[1], 0)

    def _register_param(self, name, shape, init, dtype):
        """A parameter of the layer, as an attribute."""
        parameter = self.params.get(name, shape=shape, init=init, dtype=dtype, allow_deferred_init=True)
        setattr(self, name, parameter)
        return parameter

    def state_info(self, batch_size=0):
        """Shape and layout of every state."""
        raise NotImplementedError(f"{type(self).__name__} does not say what its states are")

    def _state_shape(self, batch_size, size):
        return {"shape": (self._num_layers * self._dir, batch_size, size), "__layout__": "LNC", "dtype": self._dtype}

    def begin_state(self, batch_size=0, func=nd.zeros, **kwargs):
        """States to begin with: func(shape=..., ...) for each; keywords go to func."""
        states = []
        for i, info in enumerate(self.state_info(batch_size)):
            info.update(kwargs)
            info.pop("__layout__")
            states.append(func(name=f"{self.prefix}h0_{i}", **info))
        return states

    def cast(self, dtype):
        """Changes the element type of the parameters and of new states."""
        super().cast(dtype)
        self._dtype = dtype

    def __call__(self, inputs, states=None, sequence_length=None, **kwargs):
        arguments = self._arguments(states, sequence_length)
        return self._results(super().__call__(inputs, *arguments, **kwargs), states)

    def forward(self, inputs, states=None, sequence_length=None):
        """The output, and the last states where states were given."""
        return self._results(_core.Block.forward(self, inputs, *self._arguments(states, sequence_length)), states)

    def _arguments(self, states, sequence_length):
        if isinstance(states, tensor_types):
            states = [states]
        if sequence_length is not None and self._use_sequence_length:  # ignored by a layer that was not told to use it
            return states, sequence_length
        return () if states is None else (list(states),)

    def _results(self, results, states):
        if states is None or not isinstance(results, list):
            return results
        return [results[0], results[1:]] if self._active else (results[0], results[1:])

    def _collect_params_with_prefix(self, prefix=""):
        """Names in files are those of the cells that the layer stands for."""
        prefix = prefix + "." if prefix else ""
        found = {}
        for key, parameter in self._reg_params.items():
            place, name = key.split("_", 1)
            side = f"{place[0]}_cell." if self._dir == 2 else ""
            found[f"{prefix}_unfused.{place[1:]}.{side}{name}"] = parameter
        return found

    def _unfuse(self):
        """The same network as a stack of cells that share the parameters."""
        from . import rnn_cell
        if self._projection_size:
            raise AssertionError(f"{self.name}: an LSTM with a projection cannot be unfused")
        make = {"rnn_relu": lambda **kw: rnn_cell.RNNCell(self._hidden_size, "relu", **kw),
                "rnn_tanh": lambda **kw: rnn_cell.RNNCell(self._hidden_size, "tanh", **kw),
                "lstm": lambda **kw: rnn_cell.LSTMCell(self._hidden_size, **kw),
                "gru": lambda **kw: rnn_cell.GRUCell(self._hidden_size, **kw)}[self._mode]
        stack = rnn_cell.HybridSequentialRNNCell(prefix=self.prefix, params=self.params)
        size = self._input_size
        with stack.name_scope():
            for i in range(self._num_layers):
                cells = [make(prefix=f"{d}{i}_", input_size=size, **self._starts) for d in "lr"[:self._dir]]
                stack.add(cells[0] if self._dir == 1 else rnn_cell.BidirectionalCell(*cells))
                if self._dropout > 0 and i + 1 != self._num_layers:
                    stack.add(rnn_cell.DropoutCell(self._dropout))
                size = self._hidden_size * self._dir
        return stack

    unfuse = _unfuse


_forms.add_to_recurrent_layers(_RNNLayer)


@_registered
class RNN(_RNNLayer):
    """Plain recurrent layers: h' = act(i2h x + h2h h), with act relu or tanh."""

    def __init__(self, hidden_size, num_layers=1, activation="relu", layout="TNC", dropout=0, bidirectional=False,
                 i2h_weight_initializer=None, h2h_weight_initializer=None, i2h_bias_initializer="zeros",
                 h2h_bias_initializer="zeros", input_size=0, dtype="float32", **kwargs):
        if activation not in ("relu", "tanh"):
            raise KeyError(f"RNN: activation={activation!r}, wanted 'relu' or 'tanh'")
        self._begin("rnn_" + activation, dict(
            hidden_size=hidden_size, num_layers=num_layers, activation=activation, layout=layout, dropout=dropout,
            bidirectional=bidirectional, i2h_weight_initializer=i2h_weight_initializer,
            h2h_weight_initializer=h2h_weight_initializer, i2h_bias_initializer=i2h_bias_initializer,
            h2h_bias_initializer=h2h_bias_initializer, input_size=input_size, dtype=dtype), kwargs)

    def state_info(self, batch_size=0):
        """One state: h (layers * directions, N, hidden_size)."""
        return [self._state_shape(batch_size, self._hidden_size)]


@_registered
class LSTM(_RNNLayer):
    """Layers of long short-term memory; with projection_size the state h is projected to that size at every step."""

    _gates = 4

    def __init__(self, hidden_size, num_layers=1, layout="TNC", dropout=0, bidirectional=False, input_size=0,
                 i2h_weight_initializer=None, h2h_weight_initializer=None, i2h_bias_initializer="zeros",
                 h2h_bias_initializer="zeros", projection_size=None, h2r_weight_initializer=None, state_clip_min=None,
                 state_clip_max=None, state_clip_nan=False, dtype="float32", **kwargs):
        self._begin("lstm", dict(
            hidden_size=hidden_size, num_layers=num_layers, layout=layout, dropout=dropout, bidirectional=bidirectional,
            input_size=input_size, i2h_weight_initializer=i2h_weight_initializer,
            h2h_weight_initializer=h2h_weight_initializer, i2h_bias_initializer=i2h_bias_initializer,
            h2h_bias_initializer=h2h_bias_initializer, projection_size=projection_size or None,
            h2r_weight_initializer=h2r_weight_initializer, state_clip_min=state_clip_min, state_clip_max=state_clip_max,
            state_clip_nan=state_clip_nan, dtype=dtype), kwargs)
        self._projected_from = self._starts.pop("h2r_weight_initializer")

    def state_info(self, batch_size=0):
        """Two states: h, of the projection's size if there is one, and c."""
        return [self._state_shape(batch_size, self._projection_size or self._hidden_size),
                self._state_shape(batch_size, self._hidden_size)]


@_registered
class GRU(_RNNLayer):
    """Layers of gated recurrent units."""

    _gates = 3

    def __init__(self, hidden_size, num_layers=1, layout="TNC", dropout=0, bidirectional=False, input_size=0,
                 i2h_weight_initializer=None, h2h_weight_initializer=None, i2h_bias_initializer="zeros",
                 h2h_bias_initializer="zeros", dtype="float32", **kwargs):
        self._begin("gru", dict(
            hidden_size=hidden_size, num_layers=num_layers, layout=layout, dropout=dropout, bidirectional=bidirectional,
            input_size=input_size, i2h_weight_initializer=i2h_weight_initializer,
            h2h_weight_initializer=h2h_weight_initializer, i2h_bias_initializer=i2h_bias_initializer,
            h2h_bias_initializer=h2h_bias_initializer, dtype=dtype), kwargs)

    def state_info(self, batch_size=0):
        """One state: h (layers * directions, N, hidden_size)."""
        return [self._state_shape(batch_size, self._hidden_size)]
