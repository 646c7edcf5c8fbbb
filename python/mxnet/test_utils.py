"""Helpers for tests: comparing, random data, checks of gradients and of random numbers."""
from ._testing.tolerance import *  # noqa: F401,F403
from ._testing.tolerance import checkShapes  # noqa: F401
from ._testing.making import *  # noqa: F401,F403
from ._testing.statistics import (chi_square_check, gen_buckets_probs_with_ppf, mean_check,  # noqa: F401
                                  var_check, verify_generator)
from ._testing.surroundings import *  # noqa: F401,F403
from ._testing.gradient import (check_consistency, check_gluon_hybridize_consistency,  # noqa: F401
                                check_numeric_gradient, check_symbolic_backward, check_symbolic_forward,
                                compare_optimizer, numeric_grad, same_symbol_structure, simple_forward)
from .util import use_np  # noqa: F401


def locationError(a, b, index, names, maxError=False):  # noqa: N802,N803
    """A line that says where two arrays differ, and by which values."""
    kind = "maximum " if maxError else ""
    return f"Location of {kind}error: {index}, {names[0]}={a[index]:.8f}, {names[1]}={b[index]:.8f}"
