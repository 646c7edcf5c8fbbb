"""Sorts the library's operators into namespaces by their names.

    softmax          -> nd.softmax          _random_uniform -> nd._internal
    _contrib_X       -> nd.contrib.X        _linalg_X       -> nd.linalg.X
    _image_X         -> nd.image.X          _sparse_X       -> nd.sparse.X
"""
from .. import _core

OPERATORS = _core.operators()
PREFIXES = {"_contrib_": "contrib", "_linalg_": "linalg", "_image_": "image", "_sparse_": "sparse"}


def public():
    """Operators whose names do not start with an underscore."""
    return {name: op for name, op in OPERATORS.items() if not name.startswith("_")}


def internal():
    """All others, under their full names."""
    return {name: op for name, op in OPERATORS.items() if name.startswith("_")}


def family(namespace):
    """Operators of a prefix without it: family('linalg')['gemm2']."""
    prefix = next(p for p, n in PREFIXES.items() if n == namespace)
    return {name[len(prefix):]: op for name, op in OPERATORS.items() if name.startswith(prefix)}
