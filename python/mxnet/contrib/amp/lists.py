"""Which operators compute in which precision: the library's lists.

TARGET: products, which are faster in 16 bits and lose nothing.  FLOAT32: operators that need the precision or the range.
CONDITIONAL: float32 for some values of an attribute.  WIDEST: several inputs of one type.  BOTH: data in any precision,
with parameters in float32.  Operators in none of the lists take data of any type.
"""
from ..._core import amp_rows

_ROWS = amp_rows()


def _of(precision):
    return [op for op, kind, _, attribute, _ in _ROWS if kind == precision and attribute is None]


TARGET, FLOAT32, WIDEST, BOTH = _of("target"), _of("float32"), _of("widest"), _of("data")
LOSSES = [op for op, _, loss, _, _ in _ROWS if loss]
CONDITIONAL = [(op, attribute, [v for o, _, _, a, v in _ROWS if (o, a) == (op, attribute)])
               for op, attribute in dict.fromkeys((o, a) for o, _, _, a, _ in _ROWS if a is not None)]
