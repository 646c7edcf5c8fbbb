"""The error of asking a symbol for its value."""
import os
import sys

from ..base import NotImplementedForSymbol

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

_REMEDY = ("a block that is traced (hybridize, export) must run the same operators whatever the values are: use "
           "F.where, F.contrib.cond, F.contrib.foreach or F.contrib.while_loop, or leave this block "
           "without hybridize()")


class SymbolValueError(NotImplementedForSymbol, TypeError):
    """The value of a symbol was requested, which exists only when the graph runs."""

    def __init__(self, message):
        super().__init__(message)
        self.message = message

    def __str__(self):
        return self.message


def _place():
    """'file.py:12' of the innermost line that is not the package's own."""
    frame = sys._getframe(2)
    while frame is not None:
        name = frame.f_code.co_filename
        if not os.path.abspath(name).startswith(_PACKAGE):
            return f"{name}:{frame.f_lineno}, in {frame.f_code.co_name}"
        frame = frame.f_back
    return "unknown place"


def refuse(what, tracing):
    """Raises the error for `what` and names the line of the program."""
    message = f"{what} needs the value of a symbol, which is not known while a graph is built ({_place()})"
    raise SymbolValueError(f"{message}; {_REMEDY}" if tracing else f"{message}; bind() or eval() run a graph")
