"""Metrics: running averages of the quality of predictions.

The classes are created from the library's descriptions; a custom metric derives from EvalMetric and adds to sum_metric and
num_inst, or is any function of (label, prediction).
"""
import math

from . import _core, registry
from . import ndarray  # noqa: F401  libraries use mxnet.metric.ndarray
from ._core import NDArray


def check_label_shapes(labels, preds, wrap=False, shape=False):
    """Labels and predictions, after a check that their numbers are equal."""
    a, b = (labels.shape, preds.shape) if shape else (len(labels), len(preds))
    if a != b:
        raise ValueError(f"metric: {'shape' if shape else 'number'} of labels {a}, of predictions {b}")
    if wrap:
        labels = [labels] if isinstance(labels, NDArray) else labels
        preds = [preds] if isinstance(preds, NDArray) else preds
    return labels, preds


class EvalMetric:
    """Base of metrics: a subclass overrides update(labels, preds), which adds to sum_metric and num_inst.

    There are two counts: reset() resets both, reset_local() only the one that get() returns.
    """

    def __init__(self, name, output_names=None, label_names=None, **kwargs):
        self.name = str(name)
        self.output_names, self.label_names = output_names, label_names
        self._has_global_stats = kwargs.pop("has_global_stats", False)
        self._kwargs = kwargs
        self.reset()

    def __str__(self):
        return f"EvalMetric: {dict(self.get_name_value())}"

    def get_config(self):
        """The arguments with which create() builds an equal metric, as a dict."""
        return {**self._kwargs, "metric": type(self).__name__, "name": self.name, "output_names": self.output_names,
                "label_names": self.label_names}

    def update_dict(self, label, pred):
        """update() with arrays by name: only those in label_names and output_names, if these were given."""
        preds = [pred[n] for n in self.output_names] if self.output_names is not None else list(pred.values())
        labels = [label[n] for n in self.label_names] if self.label_names is not None else list(label.values())
        self.update(labels, preds)

    def update(self, labels, preds):
        """Counts a batch: lists of labels and predictions."""
        raise NotImplementedError(f"{type(self).__name__} does not override update")

    def reset(self):
        """Forgets everything."""
        self.num_inst, self.sum_metric = 0, 0.0
        self.global_num_inst, self.global_sum_metric = 0, 0.0

    def reset_local(self):
        """Resets the count of get(), not that of get_global()."""
        self.num_inst, self.sum_metric = 0, 0.0

    def get(self):
        """(name, value); NaN when nothing was counted."""
        return self.name, self.sum_metric / self.num_inst if self.num_inst else math.nan

    def get_global(self):
        """(name, value) since the last reset()."""
        if not self._has_global_stats:
            return self.get()
        return self.name, self.global_sum_metric / self.global_num_inst if self.global_num_inst else math.nan

    def get_name_value(self):
        """[(name, value), ...]"""
        return _pairs(*self.get())

    def get_global_name_value(self):
        """[(name, value), ...] since the last reset()."""
        return _pairs(*self.get_global()) if self._has_global_stats else self.get_name_value()


def _pairs(names, values):
    names = names if isinstance(names, list) else [names]
    return list(zip(names, values if isinstance(values, list) else [values]))


register = registry.get_register_func(EvalMetric, "metric")
alias = registry.get_alias_func(EvalMetric, "metric")
_create = registry.get_create_func(EvalMetric, "metric")


def create(metric, *args, **kwargs):
    """A metric from a name, a function of (label, prediction), a metric, or a list of these."""
    if callable(metric) and not isinstance(metric, EvalMetric):
        return CustomMetric(metric, *args, **kwargs)
    if isinstance(metric, list):
        group = CompositeEvalMetric()
        for one in metric:
            group.add(create(one, *args, **kwargs))
        return group
    return _create(metric, *args, **kwargs)


# ---- the library's metrics ------------------------------------------------------------------------------------------

def _arrays(source):
    """A list of NDArrays from one or several array-likes."""
    if isinstance(source, NDArray):
        return [source]
    if isinstance(source, dict):
        source = list(source.values())
    return [x if isinstance(x, NDArray) else _core.array(x) for x in source]


class _RowMetric(EvalMetric):
    """Base of the library's metrics: counts are in C."""

    _kept = ()  # options that get_config() shows
    _only_preds = False

    def _begin(self, options, unknown):
        names = {key: options.pop(key) for key in ("output_names", "label_names")}
        has_global = unknown.pop("has_global_stats", True)
        if unknown:
            registry.unknown_option(type(self)._row, next(iter(unknown)), list(options) + list(names))
        if options.get("top_k", 2) < 2:
            raise AssertionError("TopKAccuracy: top_k must be 2 or more; for 1 use Accuracy")
        self._start(_core.METRIC, type(self)._row, **options)
        kept = {key: options[key] for key in self._kept}
        EvalMetric.__init__(self, self._shown_name, **names, has_global_stats=has_global, **kept)

    def update(self, labels, preds):
        if self._only_preds:
            return self._update(None, _arrays(preds))
        if not isinstance(labels, (NDArray, dict)) and not isinstance(preds, (NDArray, dict)):
            check_label_shapes(labels, preds)
        self._update(_arrays(labels), _arrays(preds))

    def reset(self):
        self._clear(True)

    def reset_local(self):
        self._clear(False)

    def get(self):
        return self.name, self._value(False)

    def get_global(self):
        return self.name, self._value(True)

    def __getstate__(self):
        return {**self.__dict__, "_now": (self._options(), self._tallies)}

    def __setstate__(self, state):
        options, tallies = state.pop("_now")
        self._start(_core.METRIC, type(self)._row, **options)
        self.__dict__.update(state)
        self._tallies = tallies


_PAIR = ["output_names", "label_names"]
_ORDERS = {"F1": ["name"] + _PAIR + ["average"], "MCC": ["name"] + _PAIR + ["average"],
           "PearsonCorrelation": ["name"] + _PAIR + ["average"]}

for _cls, _aliases in registry.row_classes(_core.METRIC, _RowMetric, _core.MetricRow, __name__, orders=_ORDERS,
                                           parents={"Torch": "Loss", "Caffe": "Loss"},
                                           extra=(("output_names", None), ("label_names", None))):
    if _cls.__name__ == "CompositeEvalMetric":  # its members may be Python objects: see below
        continue
    globals()[_cls.__name__] = register(_cls)
    alias(*_aliases)(_cls)

for _name, _kept in (("Accuracy", ("axis",)), ("TopKAccuracy", ("top_k",)), ("Perplexity", ("ignore_label",)),
                     ("CrossEntropy", ("eps",)), ("NegativeLogLikelihood", ("eps",))):
    globals()[_name]._kept = _kept
globals()["Loss"]._only_preds = True


def _scaled_sum(count, is_global):
    """The sum of metrics whose value is not a simple mean: value times count."""
    def total(self):
        return self._value(is_global) * getattr(self, count) if getattr(self, count) else 0.0
    return property(total, getattr(_core.MetricRow, "global_sum_metric" if is_global else "sum_metric").__set__)


for _name in ("F1", "MCC", "PCC"):
    globals()[_name].sum_metric = _scaled_sum("num_inst", False)
    globals()[_name].global_sum_metric = _scaled_sum("global_num_inst", True)


class _BinaryCounts:
    """The counts of a metric of two classes, as F1 and MCC have them; those since reset() begin with `global_`."""

    _NAMES = ("true_positives", "false_positives", "false_negatives", "true_negatives")

    def __init__(self, metric):
        self._metric = metric

    def __getattr__(self, name):
        plain = name[7:] if name.startswith("global_") else name
        if plain not in self._NAMES:
            raise AttributeError(f"the counts of a metric have no {name}; there are {', '.join(self._NAMES)}")
        numbers = self._metric._tallies[name != plain][0]
        return int(numbers[2 + self._NAMES.index(plain)])

    @property
    def precision(self):
        """The part of the predicted positives that are positive."""
        return _share(self.true_positives, self.false_positives)

    @property
    def recall(self):
        """The part of the positives that were found."""
        return _share(self.true_positives, self.false_negatives)

    @property
    def fscore(self):
        """The harmonic mean of precision and recall."""
        return _share(2 * self.precision * self.recall, self.precision + self.recall - 2 * self.precision * self.recall)

    @property
    def total_examples(self):
        """The number of examples."""
        return sum(getattr(self, name) for name in self._NAMES)


def _share(part, rest):
    return part / (part + rest) if part + rest > 0 else 0.0


globals()["F1"].metrics = property(_BinaryCounts, doc="The counts: true_positives, false_positives ...")
globals()["MCC"]._metrics = property(_BinaryCounts, doc="The counts: true_positives, false_positives ...")


# ---- groups and functions -------------------------------------------------------------------------------------------

@register
@alias("composite")
class CompositeEvalMetric(EvalMetric):
    """Several metrics updated together."""

    def __init__(self, metrics=None, name="composite", output_names=None, label_names=None):
        super().__init__(name, output_names=output_names, label_names=label_names, has_global_stats=True)
        self.metrics = [create(m) for m in metrics or []]

    def add(self, metric):
        """Adds a metric, or one by its name."""
        self.metrics.append(create(metric))

    def get_metric(self, index):
        """The metric at `index`; if there is none a ValueError is returned, not raised, as in MXNet."""
        try:
            return self.metrics[index]
        except IndexError:
            return ValueError(f"CompositeEvalMetric: it has {len(self.metrics)} metrics, there is no index {index}")

    def update_dict(self, labels, preds):
        if self.label_names is not None:
            labels = {k: v for k, v in labels.items() if k in self.label_names}
        if self.output_names is not None:
            preds = {k: v for k, v in preds.items() if k in self.output_names}
        for metric in self.metrics:
            metric.update_dict(labels, preds)

    def update(self, labels, preds):
        for metric in self.metrics:
            metric.update(labels, preds)

    def reset(self):
        for metric in getattr(self, "metrics", ()):
            metric.reset()

    def reset_local(self):
        for metric in getattr(self, "metrics", ()):
            metric.reset_local()

    def _gather(self, pairs):
        names, values = [], []
        for name, value in pairs:
            names += name if isinstance(name, list) else [name]
            values += value if isinstance(value, list) else [value]
        return names, values

    def get(self):
        return self._gather(metric.get() for metric in self.metrics)

    def get_global(self):
        return self._gather(metric.get_global() for metric in self.metrics)

    def get_config(self):
        return {**super().get_config(), "metrics": [metric.get_config() for metric in self.metrics]}


@register
class CustomMetric(EvalMetric):
    """A function of (label, prediction) as NumPy arrays that returns a number, or (sum, count)."""

    def __init__(self, feval, name=None, allow_extra_outputs=False, output_names=None, label_names=None):
        if name is None:
            name = getattr(feval, "__name__", type(feval).__name__)
            name = f"custom({name})" if "<" in name else name
        super().__init__(name, output_names=output_names, label_names=label_names, has_global_stats=True)
        self._feval, self._allow_extra_outputs = feval, allow_extra_outputs

    def update(self, labels, preds):
        labels, preds = _arrays(labels), _arrays(preds)
        if not self._allow_extra_outputs:
            check_label_shapes(labels, preds)
        for label, pred in zip(labels, preds):
            value = self._feval(label.asnumpy(), pred.asnumpy())
            total, count = value if isinstance(value, tuple) else (value, 1)
            self.sum_metric += total
            self.num_inst += count
            self.global_sum_metric += total
            self.global_num_inst += count

    def get_config(self):
        raise NotImplementedError("CustomMetric: a function cannot be described")


def np(numpy_feval, name=None, allow_extra_outputs=False):
    """A metric from a function of NumPy arrays (label, prediction)."""
    def feval(label, pred):
        return numpy_feval(label, pred)
    feval.__name__ = numpy_feval.__name__
    return CustomMetric(feval, name, allow_extra_outputs)
