"""FusedRNNCell: a stack of layers as one RNN operator."""
from .. import ndarray as nd
from .. import symbol
from .._core import form_sequence
from ..initializer import FusedRNN
from .modifier_cell import BidirectionalCell, DropoutCell, SequentialRNNCell
from .rnn_cell import BaseRNNCell, GRUCell, LSTMCell, RNNCell

__all__ = ["FusedRNNCell"]

_GATES = {"rnn_relu": ("",), "rnn_tanh": ("",), "lstm": ("_i", "_f", "_c", "_o"), "gru": ("_r", "_z", "_o")}


class FusedRNNCell(BaseRNNCell):
    """num_layers layers of a kind (mode 'rnn_relu', 'rnn_tanh', 'lstm', 'gru') in one operator, which can only
    be unrolled.

    All weights are the variable {prefix}parameters.  unfuse() returns the same network as a stack of cells.
    """

    def __init__(self, num_hidden, num_layers=1, mode="lstm", bidirectional=False, dropout=0.0, get_next_state=False,
                 forget_bias=1.0, prefix=None, params=None):
        if mode not in _GATES:
            raise KeyError(f"FusedRNNCell: mode={mode!r}, expected one of {', '.join(_GATES)}")
        super().__init__(prefix=f"{mode}_" if prefix is None else prefix, params=params)
        self._num_hidden, self._num_layers, self._mode = num_hidden, num_layers, mode
        self._bidirectional = bidirectional
        self._dropout, self._get_next_state, self._forget_bias = dropout, get_next_state, forget_bias
        self._directions = ["l", "r"] if bidirectional else ["l"]
        self._parameter = self.params.get("parameters", init=FusedRNN(None, num_hidden, num_layers, mode, bidirectional,
                                                                      forget_bias))

    @property
    def state_info(self):
        shape = (len(self._directions) * self._num_layers, 0, self._num_hidden)
        return [{"shape": shape, "__layout__": "LNC"} for _ in range(2 if self._mode == "lstm" else 1)]

    @property
    def _gate_names(self):
        return _GATES[self._mode]

    def __call__(self, inputs, states):
        raise NotImplementedError("FusedRNNCell cannot be stepped; use unroll, or the cells of unfuse()")

    # ---- weights ---------------------------------------------------------------------------------------------------

    def _slices(self, inputs):
        """(name, shape) of every part of the vector, in its order, for a first layer with `inputs` features."""
        h, wide = self._num_hidden, self._num_hidden * len(self._directions)
        for layer in range(self._num_layers):
            for direction in self._directions:
                for group, columns in (("i2h", wide if layer else inputs), ("h2h", h)):
                    for gate in self._gate_names:
                        yield f"{self._prefix}{direction}{layer}_{group}{gate}_weight", (h, columns)
        for layer in range(self._num_layers):
            for direction in self._directions:
                for group in ("i2h", "h2h"):
                    for gate in self._gate_names:
                        yield f"{self._prefix}{direction}{layer}_{group}{gate}_bias", (h,)

    def _features(self, size):
        """Number of features of the first layer of a vector of this size."""
        h, d, g = self._num_hidden, len(self._directions), len(self._gate_names)
        others = (self._num_layers - 1) * d * g * h * (h + d * h + 2) + d * g * h * (h + 2)
        return (size - others) // (d * g * h)

    def unpack_weights(self, args):
        """A dict with one array per layer, direction and gate instead of the vector."""
        args = dict(args)
        whole = args.pop(self._parameter.name)
        at = 0
        for name, shape in self._slices(self._features(whole.size)):
            size = shape[0] * (shape[1] if len(shape) > 1 else 1)
            args[name] = whole[at:at + size].reshape(shape).copy()
            at += size
        if at != whole.size:
            raise AssertionError(f"FusedRNNCell: '{self._parameter.name}' has {whole.size} elements, expected {at}")
        return args

    def pack_weights(self, args):
        """The inverse of unpack_weights()."""
        args = dict(args)
        features = args[f"{self._prefix}l0_i2h{self._gate_names[0]}_weight"].shape[1]
        parts = [args.pop(name).reshape((-1,)) for name, _ in self._slices(features)]
        args[self._parameter.name] = nd.concat(*parts, dim=0)
        return args

    # ---- sequences -------------------------------------------------------------------------------------------------

    def unroll(self, length, inputs, begin_state=None, layout="NTC", merge_outputs=None):
        """Runs the sequence with one operator: outputs, and the last states with get_next_state."""
        self.reset()
        inputs, axis = form_sequence(length, inputs, layout, True), layout.find("T")
        if axis == 1:
            inputs = symbol.swapaxes(inputs, dim1=0, dim2=1)
        states = self.begin_state() if begin_state is None else begin_state
        options = {"state": states[0], "state_cell": states[1]} if self._mode == "lstm" else {"state": states[0]}
        rnn = symbol.RNN(data=inputs, parameters=self._parameter, state_size=self._num_hidden,
                         num_layers=self._num_layers, bidirectional=self._bidirectional, p=self._dropout,
                         state_outputs=self._get_next_state, mode=self._mode, name=self._prefix + "rnn", **options)
        outputs, last = (rnn[0], [rnn[i] for i in range(1, 1 + len(states))]) if self._get_next_state else (rnn, [])
        if axis == 1:
            outputs = symbol.swapaxes(outputs, dim1=0, dim2=1)
        outputs = form_sequence(length, outputs, layout, merge_outputs)
        return outputs, last

    def unfuse(self):
        """The same network as cells that can run step by step."""
        make = {"rnn_relu": lambda prefix: RNNCell(self._num_hidden, "relu", prefix),
                "rnn_tanh": lambda prefix: RNNCell(self._num_hidden, "tanh", prefix),
                "lstm": lambda prefix: LSTMCell(self._num_hidden, prefix, forget_bias=self._forget_bias),
                "gru": lambda prefix: GRUCell(self._num_hidden, prefix)}[self._mode]
        stack = SequentialRNNCell()
        for i in range(self._num_layers):
            cells = [make(f"{self._prefix}{direction}{i}_") for direction in self._directions]
            stack.add(cells[0] if len(cells) == 1 else
                      BidirectionalCell(*cells, output_prefix=f"{self._prefix}bi_l{i}_"))
            if self._dropout > 0 and i + 1 != self._num_layers:
                stack.add(DropoutCell(self._dropout, prefix=f"{self._prefix}_dropout{i}_"))
        return stack
