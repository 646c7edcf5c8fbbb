"""The local folder of trained parameters.

A file is named NAME-HASH.params, where HASH is the beginning of its SHA-1 sum; so a file can be checked by its name.
Nothing is downloaded here: a missing file is an error that says which file to put where.
"""
import os

from ... import _core, base

__all__ = ["get_model_file", "purge"]

_HASHES = {name: digits for name, _, _, digits in _core.models() if digits}


def short_hash(name):
    """The beginning of the SHA-1 sum of the published parameters of a network."""
    if name not in _HASHES:
        raise ValueError(f"model_store: no trained parameters of '{name}' were published; they exist for "
                         + ", ".join(_HASHES))
    return _HASHES[name]


def get_model_file(name, root=os.path.join(base.data_dir(), "models")):
    """The path of a network's parameters in the folder root.

    It looks for NAME-HASH.params as published, then NAME-HASH.params with any other hash of eight digits (the newest
    one), then NAME.params.  A file whose SHA-1 sum does not match its name is an error.
    """
    return _core.model_file(name, os.path.expanduser(os.fspath(root)))


def purge(root=os.path.join(base.data_dir(), "models")):
    """Removes all .params files from the folder root."""
    root = os.path.expanduser(root)
    for file in sorted(os.listdir(root)) if os.path.isdir(root) else ():
        if file.endswith(".params"):
            os.remove(os.path.join(root, file))
