"""Convolutional recurrent cells.  A step is the library's (mx_conv2d_lstm_cell ...); here is what makes them cells: the
shapes of states, unrolling, activations that are blocks or functions."""
from .... import _core
from ...block import Block
from ...nn import HybridLambda
from ...rnn.rnn_cell import HybridRecurrentCell
from .._rows import MADE

__all__ = ["Conv1DRNNCell", "Conv2DRNNCell", "Conv3DRNNCell", "Conv1DLSTMCell", "Conv2DLSTMCell", "Conv3DLSTMCell",
           "Conv1DGRUCell", "Conv2DGRUCell", "Conv3DGRUCell"]


def _spread(value, axes):
    """One number per axis."""
    return (value,) * axes if isinstance(value, int) else tuple(value) * (axes if len(value) == 1 else 1)


class _ConvCell(HybridRecurrentCell):
    """Base of the cells below."""

    _states = 1

    def __init__(self, input_shape, hidden_channels, i2h_kernel, h2h_kernel, i2h_pad=0, i2h_dilate=1, h2h_dilate=1,
                 i2h_weight_initializer=None, h2h_weight_initializer=None, i2h_bias_initializer="zeros",
                 h2h_bias_initializer="zeros", conv_layout=None, activation="tanh", prefix=None, params=None):
        row = MADE[self._row]
        layout = conv_layout or self._layout
        named = isinstance(activation, str)
        self._start_layer(row._address, type(self), input_shape, hidden_channels, i2h_kernel, h2h_kernel, i2h_pad,
                          i2h_dilate, h2h_dilate, i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer,
                          h2h_bias_initializer, layout, activation if named else None, prefix=prefix, params=params)
        self._modified = False
        self.reset()
        if not named:
            self.register_child(activation if isinstance(activation, Block) else
                                HybridLambda(lambda F, x: activation(x), prefix="activation_"), "act")
        self._activation, self._layout_given = activation, layout
        self._state_size = self._grown(input_shape, hidden_channels, layout, i2h_kernel, i2h_pad, i2h_dilate)

    @staticmethod
    def _grown(input_shape, hidden, layout, kernel, pad, dilate):
        """Shape of a state without the batch."""
        axes = len(input_shape) - 1
        last = layout.endswith("C")
        space = input_shape[:-1] if last else input_shape[1:]
        kernel, pad, dilate = _spread(kernel, axes), _spread(pad, axes), _spread(dilate, axes)
        space = tuple(size + 2 * p - d * (k - 1) for size, k, p, d in zip(space, kernel, pad, dilate))
        return space + (hidden,) if last else (hidden,) + space

    def __repr__(self):
        named = self._activation if isinstance(self._activation, str) else type(self._activation).__name__
        return self._text().replace(", None, ", f", {named}, ")

    def state_info(self, batch_size=0):
        """Shape and layout of every state."""
        return [{"shape": (batch_size,) + self._state_size, "__layout__": self._layout_given}
                for _ in range(self._states)]

    def __call__(self, inputs, states):
        self._counter += 1
        output, *states = super(HybridRecurrentCell, self).__call__(inputs, *states)
        return output, states

    forward = _core.Block.forward


def _cell(axes, kind, states):
    name = f"Conv{axes}D{kind}Cell"
    layout = ("NCW", "NCHW", "NCDHW")[axes - 1]
    what = {"RNN": "h' = act(i2h * x + h2h * h)", "LSTM": "an LSTM", "GRU": "a GRU"}[kind]
    return type(name, (_ConvCell,), {
        "_row": name, "_layout": layout, "_states": states, "__module__": __name__,
        "_alias": lambda self: "conv_" + kind.lower(),
        "__doc__": f"""A recurrent cell over {axes} axes of space: {what}, whose products are convolutions.

    input_shape is that of one input without the batch, {("(C, W)", "(C, H, W)", "(C, D, H, W)")[axes - 1]};
    states have hidden_channels channels and the size that the convolution of the input gives."""})


Conv1DRNNCell, Conv2DRNNCell, Conv3DRNNCell = (_cell(axes, "RNN", 1) for axes in (1, 2, 3))
Conv1DLSTMCell, Conv2DLSTMCell, Conv3DLSTMCell = (_cell(axes, "LSTM", 2) for axes in (1, 2, 3))
Conv1DGRUCell, Conv2DGRUCell, Conv3DGRUCell = (_cell(axes, "GRU", 1) for axes in (1, 2, 3))
