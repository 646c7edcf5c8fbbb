"""Tests of several processes.  SPDX-License-Identifier: Apache-2.0"""
import os
import sys

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import launch  # noqa: E402


def pytest_collection_modifyitems(items):
    """Without MPI only the tests of its absence run."""
    why = launch.missing()
    for item in items:
        if why and "alone" not in item.name:
            item.add_marker(pytest.mark.skip(reason=why))
