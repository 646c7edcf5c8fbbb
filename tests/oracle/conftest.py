"""Lets the tests of this folder import the modules beside them, and the operators' samples of tests/python."""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "python")]
