"""Logs for TensorBoard: event files, written by the C library (include/gluon/summary.h)."""
from .. import _core

__all__ = ["LogMetricsCallback", "SummaryWriter"]


class SummaryWriter:
    """Writes scalars, histograms, texts, images, graphs and hyperparameters to a new event file in logdir.

    Every value is in the file when the call returns, so flush() and close() have nothing to do; the arguments after logdir are
    accepted for compatibility.
    """

    def __init__(self, logdir, flush_secs=120, **kwargs):
        self._writer, self.path = _core.summary_writer(logdir)
        self._logdir, self._steps = str(logdir), {}

    def get_logdir(self):
        """The folder of the log."""
        return self._logdir

    def _add(self, kind, tag, value, step):
        if step is None:  # counted per tag
            step = self._steps.get(tag, 0)
        self._steps[tag] = step + 1
        _core.summary_add(self._writer, kind, tag, value, int(step))

    def add_scalar(self, tag, value, global_step=None):
        """One number; a tuple or dict of a name and its value is a number with that name after the tag."""
        if isinstance(value, dict):
            for name, number in value.items():
                self.add_scalar(f"{tag}/{name}", number, global_step)
        elif isinstance(value, tuple):
            self.add_scalar(f"{tag}/{value[0]}", value[1], global_step)
        else:
            self._add("scalar", tag, value.asscalar() if hasattr(value, "asscalar") else float(value), global_step)

    def add_histogram(self, tag, values, global_step=None, bins=None):
        """The distribution of the elements of an array."""
        self._add("histogram", tag, _array(values), global_step)

    def add_text(self, tag, text, global_step=None):
        """A text, which is shown as Markdown."""
        self._add("text", tag, text, global_step)

    def add_image(self, tag, image, global_step=None):
        """One image, (C, H, W) or (H, W, C): uint8, or floats from 0 to 1."""
        self._add("image", tag, _array(image), global_step)

    def add_graph(self, net, *inputs):
        """The graph of a symbol or of a hybrid block, for inputs like these; a hybridized block that was called needs none.

        Names are folded at the underscores that follow a number: conv0_weight is weight in conv0.
        """
        from .. import symbol
        graph = net if isinstance(net, symbol.Symbol) else _trace(net, inputs)
        _core.summary_graph(self._writer, graph)

    def add_hparams(self, hparams, metrics=None):
        """The hyperparameters of this run, a dict of numbers, texts and truth values, and the scalars that it is judged by:
        a dict of tags with final values, which are written, or a list of tags.
        """
        if isinstance(metrics, dict):
            for tag, value in metrics.items():
                self.add_scalar(tag, value, 0)
        texts = tuple(str(value) for value in hparams.values())
        _core.summary_hparams(self._writer, tuple(map(str, hparams)), texts, tuple(metrics or ()))

    def flush(self):
        """Nothing waits to be written."""

    def close(self):
        """No more values are written."""
        self._writer = None

    def __enter__(self):
        return self

    def __exit__(self, *args):
        self.close()


def _trace(net, inputs):
    from ..gluon import HybridBlock
    if not isinstance(net, HybridBlock):
        raise TypeError(f"add_graph: expected a Symbol or a HybridBlock, got {type(net).__name__}")
    if not inputs and not net._seen():
        raise ValueError(f"add_graph: {net.name} was not called since it was hybridized: pass inputs, add_graph(net, x)")
    return net._trace(*inputs)


def _array(values):
    from .. import nd
    if isinstance(values, nd.NDArray):
        return values
    return nd.array(values, dtype=getattr(values, "dtype", None))


class LogMetricsCallback:
    """A batch callback that writes every metric as a scalar to files in logging_dir."""

    def __init__(self, logging_dir, prefix=None):
        self.prefix, self.step = prefix, 0
        self.summary_writer = SummaryWriter(logging_dir)

    def __call__(self, param):
        self.step += 1
        if param.eval_metric is None:
            return
        for name, value in param.eval_metric.get_name_value():
            name = name if self.prefix is None else f"{self.prefix}-{name}"
            self.summary_writer.add_scalar(name, value, global_step=self.step)
