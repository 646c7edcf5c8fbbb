"""Convolutional recurrent cells: the classes of the library's cells (mx_conv2d_lstm_cell ... in C)."""
from ... import _forms
from ...rnn.rnn_cell import HybridRecurrentCell, _registered

__all__ = ["Conv1DRNNCell", "Conv2DRNNCell", "Conv3DRNNCell", "Conv1DLSTMCell", "Conv2DLSTMCell", "Conv3DLSTMCell",
           "Conv1DGRUCell", "Conv2DGRUCell", "Conv3DGRUCell"]


class _ConvCell(HybridRecurrentCell):
    """Base of the cells below."""

    def __init__(self, input_shape, hidden_channels, i2h_kernel, h2h_kernel, i2h_pad=0, i2h_dilate=1, h2h_dilate=1,
                 i2h_weight_initializer=None, h2h_weight_initializer=None, i2h_bias_initializer="zeros",
                 h2h_bias_initializer="zeros", conv_layout=None, activation="tanh", prefix=None, params=None):
        self._start_row(input_shape, hidden_channels, i2h_kernel, h2h_kernel, i2h_pad, i2h_dilate, h2h_dilate,
                        i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer,
                        conv_layout or self._layout, activation if isinstance(activation, str) else None,
                        activations=[("_activation", activation)], prefix=prefix, params=params)

    def _get_activation(self, F, inputs, activation, **kwargs):
        """Functions are called with the input alone."""
        return activation(inputs) if callable(activation) else super()._get_activation(F, inputs, activation, **kwargs)


_forms.add_to_convolutional_cells(_ConvCell)


def _cell(axes, kind):
    name = f"Conv{axes}D{kind}Cell"
    what = {"RNN": "h' = act(i2h * x + h2h * h)", "LSTM": "an LSTM", "GRU": "a GRU"}[kind]
    return _registered(type(name, (_ConvCell,), {
        "_layout": ("NCW", "NCHW", "NCDHW")[axes - 1], "__module__": __name__,
        "__doc__": f"""A recurrent cell over {axes} axes of space: {what}, whose products are convolutions.

    input_shape is that of one input without the batch, {("(C, W)", "(C, H, W)", "(C, D, H, W)")[axes - 1]};
    states have hidden_channels channels and the size that the convolution of the input gives."""}))


Conv1DRNNCell, Conv2DRNNCell, Conv3DRNNCell = (_cell(axes, "RNN") for axes in (1, 2, 3))
Conv1DLSTMCell, Conv2DLSTMCell, Conv3DLSTMCell = (_cell(axes, "LSTM") for axes in (1, 2, 3))
Conv1DGRUCell, Conv2DGRUCell, Conv3DGRUCell = (_cell(axes, "GRU") for axes in (1, 2, 3))
