"""The base class of symbols, under MXNet's old path."""
from .._core import Symbol as SymbolBase  # noqa: F401
