"""Containers, and layers around Python functions."""
from ... import _core
from ... import ndarray as nd
from ..block import Block, HybridBlock, _LayerBase

_RUN = _core.Block.forward  # runs the children one after the other


class _Container:
    """Shared by Sequential and HybridSequential."""

    def __init__(self, *blocks, prefix=None, params=None):
        if blocks and not isinstance(blocks[0], _core.Block):  # (prefix, params), as MXNet takes them
            prefix, params, blocks = *blocks, *(prefix, params)[len(blocks):], ()
        super().__init__(prefix=prefix, params=params)
        self.add(*blocks)

    def add(self, *blocks):
        """Appends blocks."""
        for block in blocks:
            self.register_child(block)

    def __repr__(self):
        from ..block import _indent
        lines = "\n".join(f"  ({key}): {_indent(repr(child), 2)}" for key, child in self._children.items())
        return f"{type(self).__name__}(\n{lines}\n)"

    def __getitem__(self, key):
        layers = list(self._children.values())[key]
        if not isinstance(layers, list):
            return layers
        net = type(self)(prefix=self.prefix)
        with net.name_scope():
            net.add(*layers)
        return net

    def __len__(self):
        return len(self._children)

    def __iter__(self):
        return iter(self._children.values())


class Sequential(_Container, Block):
    """Blocks that run one after the other.

        net = nn.Sequential(nn.Dense(64, activation="relu"), nn.Dense(10))
        net.add(nn.Dense(10))
    """

    _kind = 2
    forward = _RUN

    def hybridize(self, active=True, **kwargs):
        """Lets hybrid children run as compiled plans."""
        import warnings
        if self._children and all(isinstance(child, HybridBlock) for child in self._children.values()):
            warnings.warn(f"all children of {self.name} are HybridBlocks: a HybridSequential would run as one plan",
                          stacklevel=2)
        super().hybridize(active, **kwargs)


class HybridSequential(_Container, HybridBlock):
    """Hybrid blocks that run one after the other, as one plan when hybridized."""

    _kind = 3
    forward = _RUN

    def hybrid_forward(self, F, x, *args):
        """Runs the children one after the other."""
        return self._run_children(x, *args)


class Lambda(Block):
    """A block that calls a function, or an operator of mx.nd by name."""

    def __init__(self, function, prefix=None):
        super().__init__(prefix=prefix)
        self._func_name, self._func = _function(function, "Lambda")

    @property
    def _func_impl(self):
        """The function."""
        return self._func

    def forward(self, *args):
        return self._func(*args)

    def __repr__(self):
        return f"{type(self).__name__}({self._func_name})"


class _Operator:
    """Calls the operator of a name, of mx.nd or of mx.sym; a class, so that it can be pickled."""

    def __init__(self, name):
        self.__name__ = name

    def __call__(self, F, *args):
        return getattr(F, self.__name__)(*args)


class HybridLambda(HybridBlock):
    """A hybrid block that calls function(F, x, ...), or an operator by name."""

    def __init__(self, function, prefix=None):
        super().__init__(prefix=prefix)
        if isinstance(function, str):
            _function(function, "HybridLambda")
            self._func_name, self._func = function, _Operator(function)
        elif callable(function):
            self._func_name, self._func = function.__name__, function
        else:
            _function(function, "HybridLambda")

    def hybrid_forward(self, F, x, *args):
        return self._func(F, x, *args)

    def __repr__(self):
        return f"{type(self).__name__}({self._func_name})"


def _function(function, who):
    if isinstance(function, str):
        if not hasattr(nd, function):
            raise AssertionError(f"{who}: '{function}' is not an operator of mx.nd")
        return function, getattr(nd, function)
    if callable(function):
        return getattr(function, "__name__", type(function).__name__), function
    raise ValueError(f"{who}: expected a function or the name of an operator, got {type(function).__name__}")


class Identity(HybridBlock):
    """Returns its input."""

    def hybrid_forward(self, F, x):
        return x


class Concatenate(Sequential):
    """Runs every child on the same input and concatenates the results along an axis."""

    def __init__(self, axis=-1, prefix=None, params=None):
        super().__init__(prefix=prefix, params=params)
        self.axis = axis

    def forward(self, x):
        return nd.concat(*[child(x) for child in self._children.values()], dim=self.axis)


class HybridConcatenate(HybridSequential):
    """The same for hybrid blocks."""

    _address = next(row[2] for row in _core.layers() if row[1] == "HybridConcatenate")

    def __init__(self, axis=-1, prefix=None, params=None):
        self._start_layer(self._address, HybridConcatenate, axis, prefix=prefix, params=params)

    hybrid_forward = _LayerBase.hybrid_forward

    @property
    def axis(self):
        """The axis along which results are concatenated."""
        return self._axis


_core.register_layer(HybridConcatenate._address, HybridConcatenate)
Sequential._base, HybridSequential._base = Sequential, HybridSequential
_core.set_class(5, Sequential)
_core.set_class(6, HybridSequential)
