"""A slice of the random Gluon programs (programs.py) against the archived MXNet 1.9.1; program_fuzz.py runs more of them.

Skipped if that package cannot be installed, like test_oracle.py.
"""
import sys

import pytest

import driver
from program_fuzz import Side, differences, reason_of
from programs import statements_of

PROGRAMS = range(120)

pytestmark = pytest.mark.skipif(driver.oracle() is None,
                                reason="the archived mxnet==1.9.1 is not installed (make oracle does it, from PyPI)")


@pytest.fixture
def sides():
    made = [Side(sys.executable), Side(driver.oracle())]
    yield made
    for side in made:
        side.end()


def test_random_programs(sides):
    programs = [statements_of(number) for number in PROGRAMS]
    wrong, agreed = [], 0
    for number, statements, found in zip(PROGRAMS, programs, differences(programs, sides)):
        agreed += found is None
        if found and not reason_of(statements, found, sides):
            wrong.append(f"program {number}, at\n{found[0]}\n{found[1]}")
    assert agreed > 0.6 * len(programs), f"only {agreed} of {len(programs)} programs ran through on both sides"
    assert not wrong, f"{len(wrong)} programs differ:\n" + "\n".join(wrong)
