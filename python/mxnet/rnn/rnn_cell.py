"""Cells for symbols: output, states = cell(input, states); unroll() runs the steps of a sequence.

Weights of all gates are one variable, {prefix}i2h_weight and so on; unpack_weights() and pack_weights() convert between
these and one array per gate ({prefix}i2h_i_weight), as in checkpoint files.
"""
from .. import ndarray as nd
from .. import symbol
from .._core import form_sequence
from ..initializer import LSTMBias

__all__ = ["BaseRNNCell", "GRUCell", "LSTMCell", "RNNCell", "RNNParams"]


class RNNParams:
    """Variables by name, created on first use; cells with the same RNNParams share weights."""

    def __init__(self, prefix=""):
        self._prefix, self._params = prefix, {}

    def get(self, name, **kwargs):
        """The variable prefix + name."""
        name = self._prefix + name
        if name not in self._params:
            self._params[name] = symbol.Variable(name, **kwargs)
        return self._params[name]


class BaseRNNCell:
    """Base of cells: a subclass has __call__(inputs, states), state_info and, with weights, _gate_names."""

    def __init__(self, prefix="", params=None):
        self._own_params = params is None
        self._params = RNNParams(prefix) if params is None else params
        self._prefix, self._modified = prefix, False
        self.reset()

    def reset(self):
        """Resets the step counter, before another sequence is unrolled."""
        self._init_counter = self._counter = -1
        for cell in getattr(self, "_cells", ()):
            cell.reset()

    def __call__(self, inputs, states):
        """One step: output, new states."""
        raise NotImplementedError(f"{type(self).__name__} does not override __call__")

    @property
    def params(self):
        """The variables of the weights."""
        self._own_params = False
        return self._params

    @property
    def state_info(self):
        """Shape and layout of every state; 0 stands for the size of the batch."""
        raise NotImplementedError(f"{type(self).__name__} does not override state_info")

    @property
    def state_shape(self):
        """Shapes of the states."""
        return [info["shape"] for info in self.state_info]

    @property
    def _gate_names(self):
        return ()

    def _check_not_modified(self):
        if self._modified:
            raise AssertionError(f"{type(self).__name__} '{self._prefix}' is inside a modifier cell: call the modifier instead")

    def begin_state(self, func=symbol.zeros, **kwargs):
        """Initial states: func(name=..., shape=...) for each."""
        self._check_not_modified()
        states = []
        for info in self.state_info:
            self._init_counter += 1
            options = {key: value for key, value in (info or {}).items() if key != "__layout__"}
            options.update(kwargs)
            states.append(func(name=f"{self._prefix}begin_state_{self._init_counter}", **options))
        return states

    # ---- weights ---------------------------------------------------------------------------------------------------

    def unpack_weights(self, args):
        """A dict with one array per gate instead of one for all."""
        args = dict(args)
        if not self._gate_names:
            return args
        for group in ("i2h", "h2h"):
            for kind in ("weight", "bias"):
                whole = args.pop(f"{self._prefix}{group}_{kind}")
                rows = whole.shape[0] // len(self._gate_names)
                for k, gate in enumerate(self._gate_names):
                    args[f"{self._prefix}{group}{gate}_{kind}"] = whole[k * rows:(k + 1) * rows].copy()
        return args

    def pack_weights(self, args):
        """The inverse of unpack_weights()."""
        args = dict(args)
        if not self._gate_names:
            return args
        for group in ("i2h", "h2h"):
            for kind in ("weight", "bias"):
                parts = [args.pop(f"{self._prefix}{group}{gate}_{kind}") for gate in self._gate_names]
                args[f"{self._prefix}{group}_{kind}"] = nd.concat(*parts, dim=0) if len(parts) > 1 else parts[0]
        return args

    # ---- sequences -------------------------------------------------------------------------------------------------

    def unroll(self, length, inputs, begin_state=None, layout="NTC", merge_outputs=None):
        """Steps through a sequence: outputs, states.  inputs is one symbol or a list of `length`; outputs are one
        symbol with merge_outputs=True, else a list."""
        self.reset()
        inputs = form_sequence(length, inputs, layout, False)
        states = self.begin_state() if begin_state is None else begin_state
        outputs = []
        for i in range(length):
            output, states = self(inputs[i], states)
            outputs.append(output)
        outputs = form_sequence(length, outputs, layout, merge_outputs)
        return outputs, states

    def _get_activation(self, inputs, activation, **kwargs):
        if isinstance(activation, str):
            return symbol.Activation(inputs, act_type=activation, **kwargs)
        return activation(inputs, **kwargs)


class _Weighted(BaseRNNCell):
    """A cell with weights of num_hidden rows per gate."""

    def __init__(self, num_hidden, prefix, params, **options):
        super().__init__(prefix=prefix, params=params)
        self._num_hidden = num_hidden
        self._iW, self._iB = self.params.get("i2h_weight"), self.params.get("i2h_bias", **options)
        self._hW, self._hB = self.params.get("h2h_weight"), self.params.get("h2h_bias")

    def _state(self):
        return {"shape": (0, self._num_hidden), "__layout__": "NC"}

    @property
    def state_info(self):
        return [self._state()]

    def _products(self, inputs, h, separator=""):
        """i2h x + bias and h2h h + bias, and the name prefix of this step."""
        self._counter += 1
        step, rows = f"{self._prefix}t{self._counter}_", len(self._gate_names) * self._num_hidden
        i2h = symbol.FullyConnected(data=inputs, weight=self._iW, bias=self._iB, num_hidden=rows,
                                    name=f"{step}{separator}i2h")
        h2h = symbol.FullyConnected(data=h, weight=self._hW, bias=self._hB, num_hidden=rows,
                                    name=f"{step}{separator}h2h")
        return i2h, h2h, step


class RNNCell(_Weighted):
    """h' = act(i2h x + h2h h); the output is h'."""

    def __init__(self, num_hidden, activation="tanh", prefix="rnn_", params=None):
        super().__init__(num_hidden, prefix, params)
        self._activation = activation

    @property
    def _gate_names(self):
        return ("",)

    def __call__(self, inputs, states):
        i2h, h2h, step = self._products(inputs, states[0])
        output = self._get_activation(i2h + h2h, self._activation, name=step + "out")
        return output, [output]


class LSTMCell(_Weighted):
    """Gates i, f, c, o = i2h x + h2h h;  c' = s(f) c + s(i) tanh(c),  h' = s(o) tanh(c').  forget_bias: initial
    bias of f."""

    def __init__(self, num_hidden, prefix="lstm_", params=None, forget_bias=1.0):
        super().__init__(num_hidden, prefix, params, init=LSTMBias(forget_bias=forget_bias))

    @property
    def state_info(self):
        return [self._state(), self._state()]

    @property
    def _gate_names(self):
        return ("_i", "_f", "_c", "_o")

    def __call__(self, inputs, states):
        i2h, h2h, step = self._products(inputs, states[0])
        gates = symbol.SliceChannel(i2h + h2h, num_outputs=4, name=step + "slice")
        i, f, o = (symbol.Activation(gates[k], act_type="sigmoid", name=step + name)
                   for k, name in ((0, "i"), (1, "f"), (3, "o")))
        new = symbol.Activation(gates[2], act_type="tanh", name=step + "c")
        c = symbol.elemwise_add(f * states[1], i * new, name=step + "state")
        h = symbol.elemwise_mul(o, symbol.Activation(c, act_type="tanh"), name=step + "out")
        return h, [h, c]


class GRUCell(_Weighted):
    """Gates r, z, o: n = tanh(i2h x + s(r) (h2h h)),  h' = (1 - s(z)) n + s(z) h."""

    def __init__(self, num_hidden, prefix="gru_", params=None):
        super().__init__(num_hidden, prefix, params)

    @property
    def _gate_names(self):
        return ("_r", "_z", "_o")

    def __call__(self, inputs, states):
        i2h, h2h, step = self._products(inputs, states[0], "_")
        i_r, i_z, i_n = symbol.SliceChannel(i2h, num_outputs=3, name=step + "_i2h_slice")
        h_r, h_z, h_n = symbol.SliceChannel(h2h, num_outputs=3, name=step + "_h2h_slice")
        r = symbol.Activation(i_r + h_r, act_type="sigmoid", name=step + "_r_act")
        z = symbol.Activation(i_z + h_z, act_type="sigmoid", name=step + "_z_act")
        n = symbol.Activation(i_n + r * h_n, act_type="tanh", name=step + "_h_act")
        output = symbol.elemwise_add((1.0 - z) * n, z * states[0], name=step + "out")
        return output, [output]
