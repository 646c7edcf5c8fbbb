"""The operator cases of the onnx package: what is supported passes; docs/onnx.md lists the rest.

SPDX-License-Identifier: Apache-2.0
"""
import pathlib
import re

from cases import run_all, unsupported_operators

LEAST = 0.91  # of all cases
# Cases whose results differ on purpose, or whose types NumPy compares too strictly.
INTENDED = {
    r"test_mod_float_edge_cases_fmod_0_\w+": "the remainder by infinity is not finite here",
}


def test_node_cases():
    results = run_all()
    wrong = {name: reason for name, reason in results.items() if reason and reason.startswith("WRONG")
             and not any(re.fullmatch(pattern, name) for pattern in INTENDED)}
    assert not wrong
    passed = sum(reason is None for reason in results.values())
    print(f"{passed} of {len(results)} cases pass")
    assert passed >= LEAST * len(results), f"{passed} of {len(results)}"


def test_documented_operators():
    """docs/onnx.md names the operators of the cases that are not read, and no others."""
    text = (pathlib.Path(__file__).parents[2] / "docs" / "onnx.md").read_text()
    listed = text.split("Of the operators in those cases:")[1].split("Also not supported")[0]
    assert set(re.findall(r"\w+", listed)) == unsupported_operators()
