"""Convolutional cells for symbols: products are convolutions, states are images."""
from .. import symbol
from .rnn_cell import BaseRNNCell

__all__ = ["BaseConvRNNCell", "ConvGRUCell", "ConvLSTMCell", "ConvRNNCell"]


def _leaky(data, name=None):
    return symbol.LeakyReLU(data, act_type="leaky", slope=0.2, name=name)


class BaseConvRNNCell(BaseRNNCell):
    """Base of convolutional cells; input_shape is that of a batch, (N, C, H, W)."""

    def __init__(self, input_shape, num_hidden, h2h_kernel, h2h_dilate, i2h_kernel, i2h_stride, i2h_pad, i2h_dilate,
                 i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer, activation,
                 prefix="", params=None, conv_layout="NCHW"):
        super().__init__(prefix=prefix, params=params)
        if any(k % 2 == 0 for k in h2h_kernel):
            raise AssertionError(f"{type(self).__name__}: h2h_kernel={h2h_kernel}, expected odd numbers: the state keeps "
                                 f"its size")
        self._num_hidden, self._activation, self._layout = num_hidden, activation, conv_layout
        self._i2h = {"kernel": i2h_kernel, "stride": i2h_stride, "pad": i2h_pad, "dilate": i2h_dilate}
        self._h2h = {"kernel": h2h_kernel, "dilate": h2h_dilate,
                     "pad": tuple(d * (k - 1) // 2 for k, d in zip(h2h_kernel, h2h_dilate))}
        self._iW = self.params.get("i2h_weight", init=i2h_weight_initializer)
        self._hW = self.params.get("h2h_weight", init=h2h_weight_initializer)
        self._iB = self.params.get("i2h_bias", init=i2h_bias_initializer)
        self._hB = self.params.get("h2h_bias", init=h2h_bias_initializer)
        probe = symbol.Convolution(symbol.var("data"), num_filter=num_hidden, layout=conv_layout, **self._i2h)
        shape = probe.infer_shape(data=tuple(input_shape))[1][0]
        self._state_shape = tuple(0 if layout == "N" else size for layout, size in zip(conv_layout, shape))

    @property
    def state_info(self):
        return [{"shape": self._state_shape, "__layout__": self._layout} for _ in range(self._states)]

    _states = 1

    def _products(self, inputs, h):
        self._counter += 1
        step, filters = f"{self._prefix}t{self._counter}_", self._num_hidden * len(self._gate_names)
        i2h = symbol.Convolution(data=inputs, weight=self._iW, bias=self._iB, num_filter=filters, layout=self._layout,
                                 name=step + "i2h", **self._i2h)
        h2h = symbol.Convolution(data=h, weight=self._hW, bias=self._hB, num_filter=filters, layout=self._layout,
                                 name=step + "h2h", **self._h2h)
        return i2h, h2h, step

    def _split(self, x, name):
        return symbol.SliceChannel(x, num_outputs=len(self._gate_names), axis=self._layout.find("C"), name=name)

    def __call__(self, inputs, states):
        """One step: output, new states."""
        raise NotImplementedError(f"{type(self).__name__} does not override __call__")


class _Plain(BaseConvRNNCell):
    """The options of the three cells below."""

    def __init__(self, input_shape, num_hidden, h2h_kernel=(3, 3), h2h_dilate=(1, 1), i2h_kernel=(3, 3),
                 i2h_stride=(1, 1), i2h_pad=(1, 1), i2h_dilate=(1, 1), i2h_weight_initializer=None,
                 h2h_weight_initializer=None, i2h_bias_initializer="zeros", h2h_bias_initializer="zeros",
                 activation=_leaky, prefix=None, params=None, conv_layout="NCHW"):
        super().__init__(input_shape, num_hidden, h2h_kernel, h2h_dilate, i2h_kernel, i2h_stride, i2h_pad, i2h_dilate,
                         i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer,
                         activation, self._name if prefix is None else prefix, params, conv_layout)


class ConvRNNCell(_Plain):
    """h' = act(i2h * x + h2h * h)."""

    _name = "ConvRNN_"

    @property
    def _gate_names(self):
        return ("",)

    def __call__(self, inputs, states):
        i2h, h2h, step = self._products(inputs, states[0])
        output = self._get_activation(i2h + h2h, self._activation, name=step + "out")
        return output, [output]


class ConvLSTMCell(_Plain):
    """An LSTM whose products are convolutions."""

    _name, _states = "ConvLSTM_", 2

    @property
    def _gate_names(self):
        return ("_i", "_f", "_c", "_o")

    def __call__(self, inputs, states):
        i2h, h2h, step = self._products(inputs, states[0])
        gates = self._split(i2h + h2h, step + "slice")
        i, f, o = (symbol.Activation(gates[k], act_type="sigmoid", name=step + name)
                   for k, name in ((0, "i"), (1, "f"), (3, "o")))
        new = self._get_activation(gates[2], self._activation, name=step + "c")
        c = symbol.elemwise_add(f * states[1], i * new, name=step + "state")
        h = symbol.elemwise_mul(o, self._get_activation(c, self._activation), name=step + "out")
        return h, [h, c]


class ConvGRUCell(_Plain):
    """A GRU whose products are convolutions."""

    _name = "ConvGRU_"

    @property
    def _gate_names(self):
        return ("_r", "_z", "_o")

    def __call__(self, inputs, states):
        i2h, h2h, step = self._products(inputs, states[0])
        i_r, i_z, i_n = self._split(i2h, step + "i2h_slice")
        h_r, h_z, h_n = self._split(h2h, step + "h2h_slice")
        r = symbol.Activation(i_r + h_r, act_type="sigmoid", name=step + "r_act")
        z = symbol.Activation(i_z + h_z, act_type="sigmoid", name=step + "z_act")
        n = self._get_activation(i_n + r * h_n, self._activation, name=step + "h_act")
        output = symbol.elemwise_add((1.0 - z) * n, z * states[0], name=step + "out")
        return output, [output]
