"""Trained parameters: the local folder, and the repository that fills it.

A file is named NAME-HASH.params, where HASH is the beginning of its SHA-1 sum; so a file can be checked by its name.
What is not in the folder is downloaded from the repository (MXNET_GLUON_REPO), where it is NAME-HASH.zip.
"""
import os

from ... import _core, _download, base
from ...error import FileError

__all__ = ["get_model_file", "purge"]

_model_sha1 = {name: digits for name, _, _, digits in _core.models() if digits}  # libraries add their own
_KNOWN = {name for name, _, _, _ in _core.models()}


def short_hash(name):
    """The beginning of the SHA-1 sum of the published parameters of a network."""
    if name not in _model_sha1:
        raise ValueError(f"model_store: no trained parameters of '{name}' were published; they exist for "
                         + ", ".join(_model_sha1))
    return _model_sha1[name][:8]


def get_model_file(name, root=os.path.join(base.data_dir(), "models")):
    """The path of a network's parameters in the folder root; they are downloaded if they are not there.

    It looks for NAME-HASH.params as published, then NAME-HASH.params with any other hash of eight digits (the newest
    one), then NAME.params.  A file whose SHA-1 sum does not match its name is not used.
    """
    root = os.path.expanduser(os.fspath(root))
    try:
        return _local(name, root)
    except FileError as error:
        if name not in _model_sha1:
            raise
        return _downloaded(name, root, error)


def _local(name, root):
    if name in _KNOWN:
        return _core.model_file(name, root)
    path = os.path.join(root, f"{name}-{short_hash(name)}.params")
    if not _download.is_complete(path, _model_sha1[name]):
        raise FileError(f"model {name}: there is no file '{path}' with the SHA-1 sum {_model_sha1[name]}")
    return path


def _downloaded(name, root, missing):
    file = f"{name}-{short_hash(name)}"
    path, archive = os.path.join(root, file + ".params"), os.path.join(root, file + ".zip")
    try:
        _download.fetch(f"{_download.repository()}gluon/models/{file}.zip", archive)
        if file + ".params" not in _download.unpack(archive, root, [file + ".params"]):
            raise FileError(f"{archive} has no file {file}.params")
        if not _download.is_complete(path, _model_sha1[name]):
            raise _download.HashError(f"the downloaded '{path}' does not have the SHA-1 sum {_model_sha1[name]}")
    except FileError as error:
        found = "is damaged" if os.path.exists(path) else "does not exist"
        first = str(missing) if "SHA-1" in str(missing) else f"model {name}: '{path}' {found}"
        raise type(error)(f"{first}, and downloading it failed: {error}") from error
    finally:
        if os.path.exists(archive):
            os.remove(archive)
    return path


def purge(root=os.path.join(base.data_dir(), "models")):
    """Removes all .params files from the folder root."""
    root = os.path.expanduser(root)
    for file in sorted(os.listdir(root)) if os.path.isdir(root) else ():
        if file.endswith(".params"):
            os.remove(os.path.join(root, file))
