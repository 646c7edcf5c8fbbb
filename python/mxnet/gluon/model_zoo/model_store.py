"""The local folder of trained parameters.

A file is called NAME-HASH.params, where HASH is the beginning of its SHA-1 sum; so a file can be checked by its name.
Nothing is downloaded here: a missing file is an error that says which file to put where.
"""
import hashlib
import os
import re

from ... import base
from ...error import FileError

__all__ = ["get_model_file", "purge"]

# The published files: first eight digits of their SHA-1 sums.
_HASHES = {
    "alexnet": "44335d1f",
    "densenet121": "f27dbf2d",
    "densenet161": "b6c8a957",
    "densenet169": "2603f878",
    "densenet201": "1cdbc116",
    "inceptionv3": "ed47ec45",
    "mobilenet0.25": "9f83e440",
    "mobilenet0.5": "8e9d539c",
    "mobilenet0.75": "529b2c7f",
    "mobilenet1.0": "6b8c5106",
    "mobilenetv2_0.25": "ae8f9392",
    "mobilenetv2_0.5": "aabd26cd",
    "mobilenetv2_0.75": "e2be7b72",
    "mobilenetv2_1.0": "36da4ff1",
    "resnet18_v1": "a0666292",
    "resnet34_v1": "48216ba9",
    "resnet50_v1": "0aee57f9",
    "resnet101_v1": "d988c13d",
    "resnet152_v1": "671c637a",
    "resnet18_v2": "a81db45f",
    "resnet34_v2": "9d6b80bb",
    "resnet50_v2": "ecdde353",
    "resnet101_v2": "18e93e4f",
    "resnet152_v2": "f2695542",
    "squeezenet1.0": "264ba497",
    "squeezenet1.1": "33ba0f93",
    "vgg11": "dd221b16",
    "vgg11_bn": "ee79a809",
    "vgg13": "6bc5de58",
    "vgg13_bn": "7d97a06c",
    "vgg16": "e660d456",
    "vgg16_bn": "7f01cf05",
    "vgg19": "ad2f660d",
    "vgg19_bn": "f360b758",
}

_REPOSITORY = "https://apache-mxnet.s3-accelerate.dualstack.amazonaws.com/"


def short_hash(name):
    """The beginning of the SHA-1 sum of the published parameters of a network."""
    if name not in _HASHES:
        raise ValueError(f"model_store: no trained parameters of '{name}' were published; there are those of "
                         + ", ".join(_HASHES))
    return _HASHES[name]


def get_model_file(name, root=os.path.join(base.data_dir(), "models")):
    """The path of a network's parameters in the folder root.

    Looked for are NAME-HASH.params as published, then NAME-HASH.params with any other hash of eight digits (the newest
    one), then NAME.params.  A file that does not have the sum in its name is refused.
    """
    root = os.path.expanduser(root)
    found = _candidates(name, root)
    if not found:
        raise FileError(_how_to_get(name, root))
    path, digits = found[0]
    if digits and not _sha1(path).startswith(digits):
        raise FileError(f"get_model_file: '{path}' is damaged or not what its name says: its SHA-1 sum begins with "
                        f"{_sha1(path)[:8]}, the name says {digits}; replace it, or call it {name}.params if it is a "
                        "file of your own")
    return path


def purge(root=os.path.join(base.data_dir(), "models")):
    """Removes all .params files from the folder root."""
    root = os.path.expanduser(root)
    for file in sorted(os.listdir(root)) if os.path.isdir(root) else ():
        if file.endswith(".params"):
            os.remove(os.path.join(root, file))


def _candidates(name, root):
    """(path, digits of the sum in the name or None) of the files of a network, the best first."""
    pattern = re.compile(re.escape(name) + r"(?:-([0-9a-f]{8}))?\.params")
    found = []
    for file in os.listdir(root) if os.path.isdir(root) else ():
        match = pattern.fullmatch(file)
        path = os.path.join(root, file)
        if match and os.path.isfile(path):
            digits = match.group(1)
            rank = 0 if digits and digits == _HASHES.get(name) else 1 if digits else 2
            found.append((rank, -os.path.getmtime(path), path, digits))
    return [(path, digits) for _, _, path, digits in sorted(found)]


def _sha1(path):
    total = hashlib.sha1()
    with open(path, "rb") as file:
        for part in iter(lambda: file.read(1 << 20), b""):
            total.update(part)
    return total.hexdigest()


def _how_to_get(name, root):
    published = f"{name}-{short_hash(name)}"
    repository = os.environ.get("MXNET_GLUON_REPO", _REPOSITORY).rstrip("/")
    return (f"get_model_file: there is no '{published}.params' in '{root}', and nothing is downloaded from here. On a "
            f"machine with a network, fetch {repository}/gluon/models/{published}.zip and unpack it into that folder "
            f"(or name another one with root=); parameters of your own, written by save_parameters, are found there "
            f"as '{name}.params'")
