"""Features of this build of the library."""
from collections import OrderedDict

from . import _core

__all__ = ["Feature", "Features", "feature_list"]


class Feature:
    """An optional feature of the library."""

    def __init__(self, name, enabled):
        self._name, self._enabled = name, enabled

    @property
    def name(self):
        """The name of the feature."""
        return self._name

    @property
    def enabled(self):
        """Whether this build has it."""
        return self._enabled

    def __repr__(self):
        return f"{'✔' if self.enabled else '✖'} {self.name}"

    def __eq__(self, other):
        return isinstance(other, Feature) and (self.name, self.enabled) == (other.name, other.enabled)

    def __hash__(self):
        return hash((self.name, self.enabled))


def feature_list():
    """All features, a list of Feature."""
    return [Feature(name, bool(on)) for name, on in _core.features()]


class Features(OrderedDict):
    """Features by name: Features().is_enabled('CUDA')."""

    instance = None

    def __new__(cls):
        if cls.instance is None:
            cls.instance = super().__new__(cls)
            OrderedDict.__init__(cls.instance, [(f.name, f) for f in feature_list()])
        return cls.instance

    def __init__(self):  # the one object is filled where it is made
        pass

    def __repr__(self):
        return str(list(self.values()))

    def is_enabled(self, feature_name):
        """Whether the build has a feature; RuntimeError for an unknown name."""
        found = self.get(str(feature_name).upper())
        if found is None:
            raise RuntimeError(f"Feature '{feature_name}' is unknown; there are {', '.join(self)}")
        return found.enabled
