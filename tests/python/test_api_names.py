"""Every public name of MXNet that programs use is here.

The list of names with use counts is next to the project where it is developed (../shared/api/python_api.tsv);
elsewhere this test is skipped.
"""
import importlib
import os

import pytest

LIST = os.path.join(os.path.dirname(__file__), "..", "..", "..", "shared", "api", "python_api.tsv")


def used():
    """(name, uses) of everything that programs use."""
    with open(LIST, encoding="utf8") as file:
        next(file)
        for line in file:
            fields = line.rstrip("\n").split("\t")
            if len(fields) >= 8 and fields[7].isdigit() and int(fields[7]) > 0:
                yield fields[0], int(fields[7])


def missing_part(name):
    """The first part of a dotted name that does not resolve; None if all do."""
    parts = name.split(".")
    found, path = importlib.import_module(parts[0]), parts[0]
    for part in parts[1:]:
        path += "." + part
        try:
            found = getattr(found, part)
        except AttributeError:
            try:
                found = importlib.import_module(path)
            except ImportError:
                return path
    return None


def test_a_name_that_is_not_there_is_found():
    assert missing_part("mxnet.gluon.nn.Dense.forward") is None
    assert missing_part("mxnet.gluon.nn.Dens.forward") == "mxnet.gluon.nn.Dens"


@pytest.mark.skipif(not os.path.exists(LIST), reason="the list of MXNet's names is not on this machine")
def test_names_that_programs_use():
    absent = {}
    for name, uses in used():
        part = missing_part(name)
        if part is not None:
            absent[part] = absent.get(part, 0) + uses
    assert not absent, "\n".join(f"{name} ({uses} uses)" for name, uses in sorted(absent.items()))
