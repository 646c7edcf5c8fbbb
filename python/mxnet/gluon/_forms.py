"""Attributes of layers that MXNet keeps under other names or in other forms than the library's options: libraries read
them.  They are computed from the options, which stay the only place where the values are."""


def _spread(values, axes):
    """One number per axis."""
    return tuple(values) * axes if len(values) == 1 else tuple(values)


def _option(name):
    """A property over the option of this name; setting it sets the option."""
    return property(lambda self: self._option(name), lambda self, value: setattr(self, "_" + name, value))


def _factors(axes):
    return property(lambda self: _spread(self._option("factor"), axes))


def _reflection(self):
    padding = self._option("padding")
    return (0, 0, 0, 0) + tuple(padding) * 4 if len(padding) == 1 else padding


def add_to_layers(made):
    """Layers of gluon.nn."""
    made["Activation"]._act_type = _option("activation")
    made["BatchNorm"].fuse_relu, made["BatchNormReLU"].fuse_relu = False, True
    made["ReflectionPad2D"]._padding = property(_reflection)
    for axes in (1, 2, 3):
        made[f"Conv{axes}DTranspose"].outpad = property(lambda self: self._kwargs["adj"])


def add_to_contrib_layers(made):
    """Layers of gluon.contrib.nn."""
    made["PixelShuffle1D"]._factor = property(lambda self: self._option("factor")[0])
    made["PixelShuffle2D"]._factors, made["PixelShuffle3D"]._factors = _factors(2), _factors(3)
    made["SyncBatchNorm"].fuse_relu = False


def add_to_losses(made):
    """Losses."""
    made["CTCLoss"]._batch_axis = property(lambda self: self._label_layout.find("N"), doc="The batch axis of the labels.")
    sdml = made["SDMLLoss"]
    sdml.kl_loss = property(lambda self: made["KLDivLoss"](from_logits=True), doc="The divergence that it averages.")
    sdml.smoothing_parameter = _option("smoothing_parameter")


# ---- deformable convolutions

def _window(self, filters, with_bias):
    spread = {key: _spread(self._option(name), 2) for key, name in
              (("kernel", "kernel_size"), ("stride", "strides"), ("dilate", "dilation"), ("pad", "padding"))}
    return {**spread, "num_filter": filters, "num_group": self._option("groups"), "no_bias": not self._option(with_bias),
            "layout": self._option("layout")}


def _offset_window(per_cell):
    def get(self):
        kernel = _spread(self._option("kernel_size"), 2)
        return _window(self, per_cell * kernel[0] * kernel[1] * self._option("num_deformable_group"), "offset_use_bias")
    return property(get, doc="Keywords of the convolution that computes the offsets.")


def _moved_window(self):
    found = _window(self, self._option("channels"), "use_bias")
    layout, bias = found.pop("layout"), found.pop("no_bias")
    return {**found, "num_deformable_group": self._option("num_deformable_group"), "no_bias": bias, "layout": layout}


def add_to_deformable(cls, per_cell):
    """A deformable convolution; per_cell: how many numbers move one cell of the window."""
    cls._op_name = cls.__name__
    cls._kwargs_offset = _offset_window(per_cell)
    cls._kwargs_deformable_conv = property(_moved_window, doc="Keywords of the convolution with moved cells.")


# ---- recurrent layers and cells

def add_to_recurrent_layers(cls):
    """RNN, LSTM and GRU."""
    def clip(name):
        return property(lambda self: self._option(name) if "state_clip_min" in self._get_state()["options"] else None)

    cls._lstm_state_clip_min, cls._lstm_state_clip_max = clip("state_clip_min"), clip("state_clip_max")
    cls._lstm_state_clip_nan = property(lambda self: bool(clip("state_clip_nan").fget(self)))
    cls.skip_states = None
    cls._h2r_weight_initializer = property(lambda self: self.__dict__.get("_projected_from"))
    for key in ("i2h_weight", "h2h_weight", "i2h_bias", "h2h_bias"):
        name = key + "_initializer"
        setattr(cls, "_" + name, property(lambda self, name=name: self._starts.get(name)))


def _state_shape(self):
    """Channels and sizes of the state, which are those of the convolution of the input."""
    at = self._channel_axis - 1
    sizes = list(self._option("input_shape"))
    del sizes[at]
    made = [1 + size + 2 * pad - dilate * (kernel - 1) - 1 for size, pad, dilate, kernel in
            zip(sizes, self._i2h_pad, self._i2h_dilate, self._i2h_kernel)]
    return (*made[:at], self._option("hidden_channels"), *made[at:])


def add_to_convolutional_cells(cls):
    """Recurrent cells whose products are convolutions."""
    def dims(name):
        return property(lambda self: _spread(self._option(name), len(self._option("input_shape")) - 1))

    for name in ("i2h_kernel", "h2h_kernel", "i2h_pad", "i2h_dilate", "h2h_dilate"):
        setattr(cls, "_" + name, dims(name))
    cls._h2h_pad = property(lambda self: tuple(d * (k - 1) // 2 for d, k in zip(self._h2h_dilate, self._h2h_kernel)))
    cls._stride = property(lambda self: (1,) * len(self._i2h_kernel))
    cls._channel_axis = property(lambda self: self._option("conv_layout").find("C"))
    cls._in_channels = property(lambda self: self._option("input_shape")[self._channel_axis - 1])
    cls._state_shape = property(_state_shape)
